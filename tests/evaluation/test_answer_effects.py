"""Effects of controls and positions against regressions and simulated truth."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import optimize
from scipy.sparse import csr_array
from scipy.special import expit
from torch.distributions import Gamma

from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation import (
    ItemRanking,
    ManyItemRanking,
    item_models,
    rank_items,
)
from botorch_pref.evaluation.answer_effects import standardised, typical_controls
from botorch_pref.evaluation.many_items import SparsePosterior
from botorch_pref.evaluation.rater_biases import bias_moments


def duels_of_texts(
    items: int, duels: int, weight: float, seed: int
) -> tuple[np.ndarray, pd.DataFrame]:
    """Draws utilities, and duels of texts, of which good items write longer ones."""
    rng = np.random.default_rng(seed)
    utility = rng.normal(size=items)
    first = rng.integers(0, items, duels)
    second = (first + rng.integers(1, items, duels)) % items
    longer = 0.3 * (utility[first] - utility[second]) + rng.normal(0, 0.5, duels)
    lead = utility[first] - utility[second] + weight * longer
    has_won = lead + rng.logistic(size=duels) > 0
    winner = np.where(has_won, first, second)
    table = {
        "winner": winner,
        "loser": first + second - winner,
        "control length": np.where(has_won, longer, -longer),
    }
    return utility, pd.DataFrame(table)


def most_likely(answers: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Maximises Bradley and Terry's likelihood with the weight of the control.

    Returns:
        The logistic regression on the items and the control, and its covariance.
    """
    count = 1 + int(answers[["winner", "loser"]].max().max())
    design = np.zeros((len(answers), count + 1))
    rows = np.arange(len(answers))
    design[rows, answers["winner"]] = 1
    design[rows, answers["loser"]] = -1
    design[:, -1] = answers["control length"]

    def loss(weights: np.ndarray) -> float:
        return float(np.logaddexp(0, -design @ weights).sum())

    def slope(weights: np.ndarray) -> np.ndarray:
        return -design.T @ expit(-design @ weights)

    best = optimize.minimize(loss, np.zeros(count + 1), jac=slope, method="BFGS").x
    chances = expit(design @ best)
    covariance = np.linalg.pinv((design.T * (chances * (1 - chances))) @ design)
    best[:-1] -= best[:-1].mean()
    return best, covariance


@pytest.mark.parametrize("is_large", [False, True])
def test_a_control_is_that_of_logistic_regression(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, answers = duels_of_texts(8, 4000, 1.2, seed=0)
    best, covariance = most_likely(answers)
    if is_large:
        monkeypatch.setattr(item_models, "MOST_ITEMS", 3)
    ranking = rank_items(answers)
    assert isinstance(ranking, ManyItemRanking) == is_large
    board, row = ranking.board().sort_index(), ranking.controls().loc["length"]
    spread = math.sqrt((answers["control length"] ** 2).mean())
    assert row["deviation"] == pytest.approx(spread)
    # 1,000 duels of each item: priors of deviation 1 move a weight or a utility of
    # deviation d by a share d ** 2 of it, and by less than a fifth of d.
    deviation = spread * math.sqrt(covariance[-1, -1])
    assert row["utility"] == pytest.approx(spread * best[-1], abs=deviation / 5)
    half = (row["upper"] - row["lower"]) / 2
    assert half == pytest.approx(1.96 * deviation, rel=0.03)
    assert row["share"] == pytest.approx(expit(row["utility"]))
    deviations = np.sqrt(covariance.diagonal()[:-1])
    error = np.abs(board["utility"].to_numpy() - best[:-1]) / deviations
    assert error.max() < 0.6
    halves = (board["upper"] - board["lower"]).to_numpy() / 2
    assert halves == pytest.approx(1.96 * deviations, rel=0.05)
    # Without the control the best items, who write at length, are too good.
    blind = rank_items(answers.drop(columns="control length")).board().sort_index()
    slope = np.polyfit(best[:-1], blind["utility"].to_numpy(), 1)[0]
    assert slope > 1.15


@pytest.mark.parametrize("is_large", [False, True])
def test_few_answers_of_each_item_leave_a_control_its_weight(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Utilities that shrink to 0, whatever the items write, leave a part of what these
    # are worth to the control: it would be two or three deviations too large.
    if is_large:
        monkeypatch.setattr(item_models, "MOST_ITEMS", 3)
    held = []
    for seed in range(6):
        _, answers = duels_of_texts(60, 600, 1.0, seed)
        ranking = rank_items(answers)
        row = ranking.controls().loc["length"] / ranking.controls()["deviation"].iloc[0]
        deviation = (row["upper"] - row["lower"]) / 3.92
        held.append((row["utility"] - 1.0) / deviation)
    # Six standard normals have a mean of deviation 0.41.
    assert abs(np.mean(held)) < 3 * 0.41


def test_what_items_have_by_and_large_is_that_of_least_squares() -> None:
    _, answers = duels_of_texts(6, 40, 1.0, seed=1)
    answers["count"] = np.random.default_rng(2).integers(1, 4, len(answers))
    design = np.zeros((len(answers), 6))
    design[np.arange(40), answers["winner"]] = 1
    design[np.arange(40), answers["loser"]] = -1
    counts = answers["count"].to_numpy()
    normal = (design.T * counts) @ design
    expected = np.linalg.pinv(normal) @ (design.T * counts) @ answers["control length"]
    expected /= math.sqrt((expected**2).mean())
    typical = typical_controls(range(6), answers)
    assert typical[:, 0].numpy() == pytest.approx(expected, abs=1e-6)


def test_counts_stand_for_rows_of_a_control() -> None:
    _, answers = duels_of_texts(5, 30, 1.0, seed=3)
    counts = np.random.default_rng(4).integers(1, 4, len(answers))
    repeated = answers.loc[answers.index.repeat(counts)].reset_index(drop=True)
    scale, same_scale = (
        standardised(table)[1]["length"]
        for table in (answers.assign(count=counts), repeated.assign(count=1))
    )
    assert scale == pytest.approx(same_scale)
    boards = [rank_items(t).board() for t in (answers.assign(count=counts), repeated)]
    pd.testing.assert_frame_equal(*boards)


def test_slopes_move_utilities_and_keep_the_weights() -> None:
    rng = np.random.default_rng(5)
    root = rng.normal(size=(7, 9))
    precision = root @ root.T
    inverse = np.linalg.inv(precision)
    draws = np.linalg.cholesky(inverse) * math.sqrt(7)
    before = SparsePosterior(rng.normal(size=7), csr_array(precision), draws, 1.0)
    features = rng.normal(size=(4, 2))
    after = before.with_slopes(features)
    # Four utilities, two slopes and a weight.
    linear = np.eye(7)
    linear[:4, 4:6] = features
    assert after.mean == pytest.approx(linear @ before.mean)
    covariance = np.linalg.inv(after.precision.toarray())
    assert covariance == pytest.approx(linear @ inverse @ linear.T)
    assert after.draws @ after.draws.T / 7 == pytest.approx(covariance)


@pytest.mark.parametrize(
    ("control", "match"),
    [
        ([0.0, 0.0], "the same length: leave the control out"),
        ([1.0, math.nan], "The answer 1 has the control length nan"),
        ([1.0, math.inf], "The answer 1 has the control length inf"),
    ],
)
def test_a_control_that_says_nothing_is_refused(
    control: list[float], match: str
) -> None:
    answers = pd.DataFrame({"winner": [*"ab"], "loser": [*"bc"]})
    with pytest.raises(FeedbackError, match=match):
        rank_items(answers.assign(**{"control length": control}))


def test_a_choice_from_several_has_no_control() -> None:
    table = {"winner": [*"aa"], "loser": [*"bc"], "choice": [1, 1]}
    answers = pd.DataFrame(table).assign(**{"control length": 1.0})
    with pytest.raises(FeedbackError, match="choice from several has 'control length'"):
        rank_items(answers)


def test_zeros_leave_the_board_as_it_is_without_controls() -> None:
    # A weight of nothing: every item has the same on average, and so has each pair.
    rows = [("a", "b", 1.0), ("a", "b", -1.0), ("b", "c", 1.0), ("b", "c", -1.0)]
    answers = pd.DataFrame(rows, columns=["winner", "loser", "control length"])
    ranking = rank_items(answers)
    assert ranking.controls().loc["length", "utility"] == pytest.approx(0.0, abs=1e-6)
    assert torch.tensor(ranking.board()["utility"].to_numpy())[1] == pytest.approx(
        0.0, abs=1e-6
    )


def judged(
    raters: int, answers: int, spread: float, seed: int
) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Draws biases for what is first, utilities, and the duels of judges."""
    rng = np.random.default_rng(seed)
    utility = rng.normal(size=8)
    bias = 0.4 + spread * rng.normal(size=raters)
    rater = np.repeat(np.arange(raters), answers)
    first = rng.integers(0, 8, len(rater))
    second = (first + rng.integers(1, 8, len(rater))) % 8
    lead = (
        utility[first] - utility[second] + bias[rater] + rng.logistic(size=len(rater))
    )
    winner = np.where(lead > 0, first, second)
    table = {"winner": winner, "loser": first + second - winner, "home": first}
    return bias, utility, pd.DataFrame(table | {"rater": rater})


def ranked(answers: pd.DataFrame) -> ItemRanking:
    ranking = rank_items(answers)
    assert isinstance(ranking, ItemRanking)
    return ranking


def test_biases_of_many_answers_are_those_of_each_judge_alone() -> None:
    _, _, answers = judged(4, 1500, 0.8, seed=0)
    biases = ranked(answers).rater_biases()
    assert [*biases.index] == [0, 1, 2, 3]
    for rater, answers_of in answers.groupby("rater"):
        sign = np.where(answers_of["home"] == answers_of["winner"], 1.0, -1.0)
        best, covariance = most_likely(answers_of.assign(**{"control length": sign}))
        deviation = math.sqrt(covariance[-1, -1])
        row = biases.loc[rater]
        # Beside the others' 4,500 answers about the items, his say a little less.
        assert row["utility"] == pytest.approx(best[-1], abs=deviation)
        half = (row["upper"] - row["lower"]) / 2
        assert 0.85 < half / (1.96 * deviation) < 1.0


@pytest.mark.parametrize(("raters", "answers", "spread"), [(5, 40, 0.4), (12, 50, 0.0)])
def test_intervals_of_biases_hold_the_truth(
    raters: int, answers: int, spread: float
) -> None:
    held, total = 0, 0
    for seed in range(60 // raters):
        bias, _, table = judged(raters, answers, spread, seed)
        board = ranked(table).rater_biases()
        held += ((board["lower"] <= bias) & (bias <= board["upper"])).sum()
        total += raters
    # Those of one crowd depend on each other: thrice the error of twenty.
    assert held / total > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 20)
    if spread == 0.0:
        # Raters alike in truth borrow from each other: alone each has this deviation.
        alone = 1 / math.sqrt(0.2 * answers)
        half = (board["upper"] - board["lower"]).mean() / 2
        assert half < 0.85 * 1.96 * alone


def test_biases_are_averaged_over_the_spread_of_raters() -> None:
    """By a fine grid of the spread itself, with its prior Gamma(2, 4)."""
    _, _, table = judged(3, 40, 0.4, seed=0)
    model = ranked(table).evidence_model
    mean, deviation = bias_moments(model)
    module, prior = model.covariate_module, Gamma(*torch.tensor([2.0, 4.0]).double())
    # The weight that all share, and that of the rater.
    sums = torch.cat([torch.ones(3, 1), torch.eye(3)], dim=-1).double()
    logs, means, squares = [], [], []
    with torch.no_grad():
        for spread in torch.linspace(0.05, 3, 40).double():
            module.spread = spread
            logs.append(model.log_evidence() + prior.log_prob(spread))
            weights = model.covariate_posterior()
            covariance = sums @ weights.covariance_matrix @ sums.T
            means.append(sums @ weights.mean.flatten())
            squares.append(covariance.diagonal() + means[-1].square())
    share = torch.stack(logs).softmax(0)
    truth = share @ torch.stack(means)
    true_deviation = (share @ torch.stack(squares) - truth.square()).sqrt()
    assert ((mean - truth) / true_deviation).abs().max() < 0.005
    assert (deviation / true_deviation - 1).abs().max() < 0.005


def test_judges_contradict_themselves_as_often_as_the_board_expects() -> None:
    totals = np.zeros(3)
    for seed in range(4):
        _, _, table = judged(6, 150, 0.5, seed + 10)
        totals += ranked(table).contradictions().sum().to_numpy()
    repeated, contradicted, expected = totals
    # Pairs that share an answer depend on each other: of 2.7 answers to a question 1.7.
    error = math.sqrt(1.7 * expected * (1 - expected / repeated))
    assert contradicted == pytest.approx(expected, abs=3 * error)
    assert expected < 0.45 * repeated


def test_controls_may_be_of_any_size() -> None:
    """Prices in cents are those in thousands of dollars, and no covariate too large."""
    generator = np.random.default_rng(5)
    pairs = [generator.choice([*"abcd"], 2, replace=False) for _ in range(60)]
    answers = pd.DataFrame(pairs, columns=["winner", "loser"])
    price = generator.normal(size=60)
    boards = [
        rank_items(answers.assign(**{"control price": scale * price})).board()
        for scale in (1.0, 1e9)
    ]
    pd.testing.assert_frame_equal(*boards, rtol=1e-6, atol=1e-6)
