"""Rankings by many raters against the dense model of the same prior."""

import pickle
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import torch
from cases import in_turn
from gpytorch.kernels import Kernel, ProductKernel, RBFKernel

from botorch_pref import EPPreferenceGP
from botorch_pref.datasets import ItemTable
from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.evaluation import (
    ItemRanking,
    item_models,
    rank_items,
    rater_reliability,
)
from botorch_pref.evaluation.item_models import (
    RankingModel,
    TableKernel,
    ranking_size,
)
from botorch_pref.evaluation.rater_biases import with_rater_biases
from botorch_pref.models import (
    AgreementKernel,
    CrowdPreferenceGP,
    GroupUtility,
    PreferenceGP,
)

NAMES = [*"abcdefg"]
FEATURES = pd.DataFrame({"sugar": [0.0, 1, 2, 2, 3, 5, 6]}, index=NAMES)


def drawn_answers(num_answers: int = 90) -> pd.DataFrame:
    """Draws duels with ties of five raters in two categories, one item first."""
    generator = np.random.default_rng(4)
    pairs = [generator.permutation(6)[:2] for _ in range(num_answers)]
    # The sixth item loses.
    names = [[NAMES[i] for i in sorted(pair, key=lambda i: i == 5)] for pair in pairs]
    return pd.DataFrame(
        {
            "winner": [pair[0] for pair in names],
            "loser": [pair[1] for pair in names],
            "tie": generator.random(num_answers) < 0.1,
            "rater": generator.choice([*"vwxyz"], num_answers),
            "category": generator.choice(["sweet", "sour"], num_answers),
            "home": [pair[place % 2] for place, pair in enumerate(names)],
        }
    )


def dense_twin(ranking: ItemRanking) -> tuple[EPPreferenceGP, torch.Tensor]:
    """Makes the model of all points with the crowd's scales, and items' points."""
    shared = ranking.model.covar_module.shared
    of_items, *of_categories = getattr(shared.base, "kernels", [shared.base])
    base = deepcopy(of_items.base)
    width = of_items.table.shape[-1]
    columns = range(width, width + len(of_categories) + 1)
    agreements: list[Kernel] = []
    for column, source in zip(columns, [*of_categories, shared.raters], strict=True):
        agreements.append(AgreementKernel(active_dims=(column,)).double())
        agreements[-1].agreement = source.agreement.detach()
    table = ItemTable(
        ranking.names, of_items.table, tuple(f"column {i}" for i in range(width))
    )
    if (noises := ranking.model.covar_module.reliability) is not None:
        agreements.append(deepcopy(noises))
        agreements[-1].active_dims = torch.tensor(columns[-1:])
    points, feedback, raters = table.feedback(ranking.answers)
    if ranking.position_bias() is not None:
        feedback = with_rater_biases(points, feedback, len(raters))
    model = EPPreferenceGP(
        points,
        feedback=feedback,
        likelihood=deepcopy(ranking.model.likelihood),
        covar_module=ProductKernel(base, *agreements),
    )
    model.covariate_module = deepcopy(ranking.model.covariate_module)
    return model.eval(), table.points


def moments(
    model: PreferenceGP, points: torch.Tensor, groups: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    posterior = GroupUtility(model, groups).moments(points)
    return posterior.mean.detach(), posterior.covariance.detach()


@pytest.mark.parametrize("has_all", [False, True])
def test_a_crowd_ranks_as_the_dense_model(monkeypatch, has_all: bool) -> None:
    monkeypatch.setattr(item_models, "MOST_ITEMS", 3)
    answers = drawn_answers()
    if not has_all:
        answers = answers[["winner", "loser", "rater"]]
    ranking = rank_items(answers, FEATURES if has_all else None, reliability=has_all)
    assert isinstance(ranking, ItemRanking)
    assert isinstance(ranking.model, CrowdPreferenceGP)
    exact, points = dense_twin(ranking)
    for rater, category in ((None, None), ("x", None), (None, "sour"), ("z", "sweet")):
        if category is None or has_all:
            utility = ranking.utility(rater, category)
            mean, covariance = moments(exact, points, utility.raters)
            # Each stops where moments match to 1e-7 posterior deviations.
            assert utility.moments(ranking.items.points).mean.tolist() == pytest.approx(
                mean.tolist(), abs=1e-6
            )
            board = ranking.board(rater, category).loc[[*ranking.names]]
            centred = torch.eye(len(mean)).double() - 1 / len(mean)
            deviation = (centred @ covariance @ centred).diagonal().sqrt()
            half = 0.5 * (board["upper"] - board["lower"])
            assert half.tolist() == pytest.approx((1.959964 * deviation).tolist(), 1e-5)
    if not has_all:
        with pytest.raises(BotorchPrefError, match="reliability=True"):
            ranking.reliability()
    if has_all:
        expected = exact.covariate_posterior().mean[0].item()
        assert ranking.position_bias().utility[0] == pytest.approx(expected, abs=1e-6)
        table, exact_table = ranking.reliability(), rater_reliability(exact, "vwxyz")
        # Squares of covariances between raters are left out of its curvature.
        for column in ("noise", "lower", "upper"):
            expected = exact_table[column].to_numpy()
            assert table[column].to_numpy() == pytest.approx(expected, 0.03), (
                f"{column} of the crowd is not that of the exact model"
            )
        assert table["outlier"].tolist() == exact_table["outlier"].tolist()
        # Nobody compared the last one: its sugar says what it is.
        assert ranking.board().loc["g", "answers"] == 0


@in_turn(("first", "second"), [((), ()), ((2,), ()), ((), (2,)), ((3, 1), (2,))])
def test_items_by_number_have_the_covariance_of_their_rows(first, second) -> None:
    """However often a number comes, as an item does in each category."""
    generator = torch.Generator().manual_seed(6)
    table = torch.rand(4, 3, generator=generator, dtype=torch.float64)
    kernel = TableKernel(RBFKernel().double(), table)
    numbers = [
        torch.randint(4, (*batch, count, 1), generator=generator)
        for batch, count in ((first, 6), (second, 5))
    ]
    at_rows = [table[number.squeeze(-1)] for number in numbers]
    values, truth = (
        k(*inputs).to_dense()
        for k, inputs in (
            (kernel, [number.double() for number in numbers]),
            (kernel.base, at_rows),
        )
    )
    torch.testing.assert_close(values, truth)
    weights = torch.rand(truth.shape, generator=generator, dtype=torch.float64)
    raw = kernel.base.raw_lengthscale
    slopes = [
        torch.autograd.grad((weights * value).sum(), raw) for value in (values, truth)
    ]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("most", [3, 1500], ids=["crowd", "dense"])
def test_a_ranking_pickles(monkeypatch, most: int) -> None:
    monkeypatch.setattr(item_models, "MOST_ITEMS", most)
    answers = drawn_answers()[["winner", "loser", "rater"]]
    ranking = rank_items(answers, reliability=True)
    copied = pickle.loads(pickle.dumps(ranking))
    pd.testing.assert_frame_equal(copied.board("x"), ranking.board("x"))
    pd.testing.assert_frame_equal(copied.reliability(), ranking.reliability())


def test_the_size_says_which_model_and_what_to_leave_out() -> None:
    rows = [
        (f"i{(7 * i + r) % 400}", f"i{(7 * i + 3 * r + 1) % 400}", f"r{r}")
        for r in range(60)
        for i in range(70)
    ]
    answers = pd.DataFrame(rows, columns=["winner", "loser", "rater"])
    assert ranking_size(answers).model is RankingModel.CROWD
    assert ranking_size(answers[:700]).model is RankingModel.DENSE
    assert ranking_size(answers.drop(columns="rater")).model is RankingModel.DENSE
    assert ranking_size(answers, reliability=True).model is RankingModel.CROWD
    sets = answers.assign(choice=[*range(len(answers))])
    with pytest.raises(FeedbackError, match="4,000: leave out raters and categories"):
        ranking_size(sets)
