"""Rankings of items by one fitted model against engines and counts by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import LinearKernel
from gpytorch.priors import GammaPrior

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseLogitLikelihood,
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.acquisition import informative_pairs
from botorch_pref.datasets import ItemTable
from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.evaluation import ItemRanking, rank_items
from botorch_pref.models.kernels import default_covar_module


@pytest.mark.parametrize("expected_columns", [False, True])
def test_intervals_are_those_of_contrasts_with_the_mean(expected_columns: bool) -> None:
    duels = {"winner": list("aaba"), "loser": list("bccb")}
    answers = pd.DataFrame(duels)
    sizes = {"size": [0.0, 0.1, 1.0]} if expected_columns else {}
    items = ItemTable.from_frame(pd.DataFrame(sizes, index=list("abc")))
    board = rank_items(answers, items if expected_columns else None).board()
    kernel, points = LinearKernel(variance_prior=GammaPrior(2.0, 0.15)), items.points
    if expected_columns:
        # What the feature says, and something of each item's own.
        points = torch.cat([points, torch.eye(3).double()], dim=-1)
        of_feature = default_covar_module(1, torch.Size())
        of_feature.active_dims = torch.tensor([0])
        linear_kernel = LinearKernel(
            variance_prior=GammaPrior(1.5, 1.0), active_dims=(1, 2, 3)
        )
        kernel = linear_kernel + of_feature
    options = {"covar_module": kernel, "likelihood": PairwiseLogitLikelihood()}
    data = points, items.comparisons(answers)
    scales = LaplacePreferenceGP(*data, **options)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(scales.likelihood, scales))
    with torch.no_grad():
        posterior = EPPreferenceGP(*data, **options).eval().posterior(points)
    contrasts = torch.eye(3).double() - 1 / 3
    covariance = contrasts @ posterior.distribution.covariance_matrix @ contrasts
    half = 1.959964 * covariance.diagonal().sqrt()
    mean = contrasts @ posterior.mean.squeeze(-1)
    table = board.loc[list("abc")]
    expected = {"utility": mean, "lower": mean - half, "upper": mean + half}
    for name, values in expected.items():
        assert table[name].tolist() == pytest.approx(values.tolist(), abs=1e-6)


def test_items_are_told_beside_the_first_and_groups_apart() -> None:
    answers = pd.DataFrame({"winner": [*"aababd"], "loser": [*"bccbae"]})
    ranking = rank_items(answers)
    board = ranking.board(level=0.9)
    points = ranking.items.points[ranking.items.places(board.index)]
    with torch.no_grad():
        utilities = ranking.model.posterior(points).distribution
    # Plain draws of the same posterior, 200,000 of them.
    root = torch.linalg.cholesky(utilities.covariance_matrix)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(200_000, 5, dtype=torch.double, generator=generator)
    drawn = utilities.mean + noise @ root.T
    gaps = drawn - drawn[:, :1]
    error = 5 * 0.5 / 200_000**0.5
    assert board["better"].tolist() == pytest.approx(
        (gaps > 0).double().mean(0).tolist(), abs=error
    )
    assert board["difference"].iloc[1:].tolist() == pytest.approx(
        gaps.mean(0)[1:].tolist(), abs=0.03
    )
    for name, share in (("least", 0.05), ("most", 0.95)):
        expected = gaps[:, 1:].quantile(share, dim=0).tolist()
        assert board[name].iloc[1:].tolist() == pytest.approx(expected, abs=0.05)
    assert board.iloc[0][["difference", "least", "most", "better"]].tolist() == [0] * 4
    groups = board["group"]
    assert groups[[*"abc"]].nunique() == 1
    assert groups["d"] == groups["e"] != groups["a"]
    connected = rank_items(pd.DataFrame({"winner": ["a"], "loser": ["b"]}))
    assert "group" not in connected.board()


def said(*rows: tuple[str, str, bool]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["winner", "loser", "tie"])


def test_few_answers_do_not_lose_their_scale() -> None:
    """Without a prior of the variance, A over B over C ended at zero."""
    ranking = rank_items(said(("A", "B", False), ("B", "C", False)))
    board = ranking.board()
    assert board.index.tolist() == ["A", "B", "C"]
    assert board["rank"].tolist() == [1, 2, 3]
    assert board["utility"].tolist() == pytest.approx([1.64, 0, -1.64], abs=0.01)
    points = ranking.items.points
    with torch.no_grad():
        assert float(ranking.model.duel_probability(points[:1], points[1:2])) > 0.75


def test_five_in_order_with_ties_stay_on_the_ground() -> None:
    """Without a prior of the variance, utilities ended at 596."""
    names = "abcde"
    rows = [(a, b, False) for i, a in enumerate(names) for b in names[i + 2 :]]
    rows += [(a, b, True) for a, b in itertools.pairwise(names)]
    board = rank_items(said(*rows)).board()
    assert board.index.tolist() == list(names)
    assert board["utility"].abs().max() < 15


def test_equal_answers_are_merged_and_those_of_equals_share_a_rank() -> None:
    rows = [("a", "b", False), ("b", "c", False), ("c", "a", False)]
    thrice = rank_items(said(*3 * rows))
    assert thrice.answers["count"].tolist() == [3, 3, 3]
    counted = rank_items(said(*rows).assign(count=3))
    pd.testing.assert_frame_equal(thrice.board(), counted.board())
    assert thrice.board()["rank"].tolist() == [1, 1, 1]
    assert thrice.board()["answers"].tolist() == [6, 6, 6]


def test_spaces_empty_rows_and_missing_counts_are_as_in_files() -> None:
    rows = [("a", "b", 2, "Eva"), ("b", "c", 1, "Eva"), ("a", "c", 1, "Bob")]
    columns = ["winner", "loser", "count", "rater"]
    tidy = rank_items(pd.DataFrame(rows, columns=columns))
    loose = [
        (" a", "b ", 2, "Eva"),
        (None, None, None, None),
        ("b", "c\t", None, "Eva "),
        ("a", "c", 1, "Bob"),
    ]
    ranking = rank_items(pd.DataFrame(loose, columns=columns))
    assert ranking.items.names == ("a", "b", "c")
    assert ranking.raters == ("Bob", "Eva")
    for rater in (None, "Eva"):
        pd.testing.assert_frame_equal(ranking.board(rater), tidy.board(rater))
    with pytest.raises(FeedbackError, match=r"count 0\.5; give a whole number"):
        rank_items(pd.DataFrame(rows, columns=columns).assign(count=0.5))


def test_rankings_are_plackett_and_luces() -> None:
    """Utilities are the most probable ones, of the scale that the evidence chose."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.tensor([1.5, 0.5, 0.0, -0.7, -1.3]).double()
    noise = (
        torch.rand(300, 5, dtype=torch.double, generator=generator).log().neg().log()
    )
    orders = (truth - noise).argsort(dim=-1, descending=True)
    rows = [
        (str(winner), str(loser), f"{i} {place}" if place < 3 else None)
        for i, order in enumerate(orders.tolist())
        for place, winner in enumerate(order[:-1])
        for loser in order[place + 1 :]
    ]
    columns = ["winner", "loser", "choice"]
    ranking = rank_items(pd.DataFrame(rows, columns=columns))
    variance = float(ranking.model.covar_module.variance.detach())
    utility = torch.zeros(5, dtype=torch.double, requires_grad=True)
    optimiser = torch.optim.LBFGS([utility], max_iter=200, tolerance_grad=1e-10)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        ordered = utility[orders]
        behind = ordered.flip(-1).logcumsumexp(-1).flip(-1)
        value = utility.square().sum() / (2 * variance) - (ordered - behind).sum()
        value.backward()
        return value

    optimiser.step(loss)
    expected = (utility - utility.mean()).detach()
    board = ranking.board().loc[[*"01234"]]
    assert board["utility"].tolist() == pytest.approx(expected.tolist(), abs=1e-4)
    # Of 300 rankings, the first choice of each has every item.
    assert (board["answers"] >= 300).all()
    assert board["answers"].max() <= 1200


def test_a_choice_has_one_winner_and_no_tie() -> None:
    rows = pd.DataFrame(
        {"winner": ["a", "a"], "loser": ["b", "c"], "choice": [1, 1], "count": 2}
    )
    single = rank_items(rows)
    twice = rank_items(pd.concat([rows, rows.assign(choice=2)]).assign(count=1))
    pd.testing.assert_series_equal(
        single.board()["utility"], twice.board()["utility"], atol=1e-6
    )
    for change in (
        {"winner": ["a", "b"], "loser": ["c", "c"]},
        {"tie": [False, True]},
        {"count": [1, 2]},
        {"rater": ["x", "y"]},
    ):
        with pytest.raises(FeedbackError, match="of the choice 1 is a tie, or has"):
            rank_items(rows.assign(**change))
    with pytest.raises(FeedbackError, match="somebody at home"):
        rank_items(rows.assign(home="a"))


def test_raters_have_boards_and_noises() -> None:
    rows = pd.DataFrame(
        [("a", "b", "ann"), ("b", "c", "ann"), ("a", "c", "ann")] * 4
        + [("c", "b", "bob"), ("b", "a", "bob"), ("c", "a", "bob")] * 3,
        columns=["winner", "loser", "rater"],
    )
    ranking = rank_items(rows, reliability=True)
    assert ranking.raters == ("ann", "bob")
    assert ranking.board("bob").index.tolist() == list("cba")
    assert ranking.board("bob")["answers"].tolist() == [6, 6, 6]
    assert ranking.board()["answers"].tolist() == [14, 14, 14]
    assert ranking.reliability()["answers"].to_dict() == {"ann": 12, "bob": 9}
    assert ranking.position_bias() is None
    with pytest.raises(FeedbackError, match="no rater 'cem'; the answers name 'ann'"):
        ranking.board("cem")
    pairs = informative_pairs(ranking.utility(), X=ranking.items.points)
    assert pairs.shape == (2, 2)


def in_categories(seed: int) -> tuple[np.ndarray, pd.DataFrame]:
    """Draws utilities of raters in categories, ``6 x 2 x 8``, and 700 duels.

    Raters share four fifths of the variance, and categories a half.
    """
    rng = np.random.default_rng(seed)
    shared = [(0.5 * 0.8, (1, 1, 8)), (0.5 * 0.2, (6, 1, 8))]
    shared += [(0.5 * 0.8, (1, 2, 8)), (0.5 * 0.2, (6, 2, 8))]
    utility = sum(1.2 * v**0.5 * rng.normal(size=shape) for v, shape in shared)
    rater, category = rng.integers(0, 6, 700), rng.integers(0, 2, 700)
    first = rng.integers(0, 8, 700)
    second = (first + rng.integers(1, 8, 700)) % 8
    values = np.asarray(utility)[rater, category]
    rows = np.arange(700)
    lead = values[rows, first] - values[rows, second] + 0.3 + rng.logistic(size=700)
    winner = np.where(lead > 0, first, second)
    table = {"winner": winner, "loser": first + second - winner, "home": first}
    table |= {"rater": rater, "category": category}
    return np.asarray(utility), pd.DataFrame(table)


def test_boards_of_raters_and_categories_hold_the_truth() -> None:
    held = []
    for seed in range(4):
        utility, answers = in_categories(seed)
        ranking = rank_items(answers, reliability=seed == 0)
        assert isinstance(ranking, ItemRanking)
        assert ranking.categories == (0, 1)
        assert ranking.raters == tuple(range(6))
        boards = [
            (ranking.board(), utility.mean((0, 1))),
            (ranking.board(category=0), utility[:, 0].mean(0)),
            (ranking.board(category=1), utility[:, 1].mean(0)),
            (ranking.board(2, 1), utility[2, 1]),
        ]
        for board, truth in boards:
            table, centred = board.sort_index(), truth - truth.mean()
            held.append((table["lower"] <= centred) & (centred <= table["upper"]))
        about = answers[(answers["rater"] == 2) & (answers["category"] == 1)]
        ends = pd.concat([about["winner"], about["loser"]])
        number = ends.value_counts().reindex(range(8), fill_value=0)
        assert boards[-1][0]["answers"].sort_index().tolist() == number.tolist()
    # Intervals of one board depend on each other: those of sixteen boards count thrice.
    assert np.mean(held) > 0.95 - 3 * (0.95 * 0.05 / 48) ** 0.5
    with pytest.raises(FeedbackError, match="no category 'z'; the answers name 0, 1"):
        ranking.board(category="z")


def test_one_category_is_none() -> None:
    _, answers = in_categories(5)
    plain = rank_items(answers.drop(columns="category"))
    single = rank_items(answers.assign(category="x"))
    pd.testing.assert_frame_equal(single.board(), plain.board(), rtol=0.01, atol=0.01)


def test_a_rater_without_answers_in_a_category_has_no_board_there() -> None:
    rows = [("a", "b", "ann", "x"), ("b", "a", "bob", "y")]
    columns = ["winner", "loser", "rater", "category"]
    ranking = rank_items(pd.DataFrame(rows, columns=columns))
    assert isinstance(ranking, ItemRanking)
    assert ranking.board("ann", "x").index[0] == "a"
    with pytest.raises(FeedbackError, match="No answer is of the rater 'ann' in the"):
        ranking.board("ann", "y")


def test_home_is_a_bias_and_features_leave_something_to_each_item() -> None:
    rows = pd.DataFrame({"winner": list("aabb"), "loser": list("bbaa")})
    rows["home"] = rows["winner"]
    items = pd.DataFrame({"size": [1.0, 2.0, 2.0]}, index=list("abc"))
    ranking = rank_items(rows, items)
    bias = ranking.position_bias()
    assert bias is not None
    # All four were won at home, two by each.
    assert bias.utility[0] > 0.5
    assert ranking.items.feature_names == ("size", "a", "b", "c")
    assert ranking.board()["answers"].to_dict() == {"a": 4, "b": 4, "c": 0}
    level = ranking.board(level=0.5)
    assert (level["upper"] < ranking.board()["upper"].loc[level.index]).all()


@pytest.mark.parametrize(
    ("answers", "options", "match"),
    [
        (said(("a", "a", False)), {}, "compares 'a' with itself"),
        (pd.DataFrame({"winner": ["a"]}), {}, "no column 'loser'"),
        (said(), {}, "There are no answers"),
        ([("a", "b")], {}, "answers is of the class list; give an instance of pandas"),
        (said(("a", "b", False)), {"reliability": True}, "the answers name 0"),
        (
            said(("a", "b", False), ("a", "c", False)).set_axis([7, 8]),
            {"items": pd.DataFrame(index=["a", "b"])},
            "answer 8: There is no item 'c'",
        ),
    ],
)
def test_what_cannot_be_ranked_is_refused(answers, options, match) -> None:
    with pytest.raises(BotorchPrefError, match=match):
        rank_items(answers, **options)
