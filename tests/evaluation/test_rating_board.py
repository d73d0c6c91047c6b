"""Boards of ratings against a dense Gaussian model and simulated truth."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation import RatingRanking, rank_items
from botorch_pref.evaluation.rating_board import (
    Scales,
    _design,
    _laplace,
    _loss_of_scales,
)


def ratings_of(
    items: int, raters: int, per_rater: int, seed: int
) -> tuple[np.ndarray, pd.DataFrame]:
    """Draws values of items, and ratings with a bias of each rater."""
    rng = np.random.default_rng(seed)
    value, bias = rng.normal(0.0, 0.8, items), rng.normal(0.0, 0.6, raters)
    rater = np.repeat(np.arange(raters), per_rater)
    chosen = [rng.choice(items, per_rater, replace=False) for _ in range(raters)]
    item = np.concatenate(chosen)
    rating = 3.0 + value[item] + bias[rater] + rng.normal(0.0, 0.7, len(item))
    columns = {"item": item, "rating": rating, "rater": rater}
    return value, pd.DataFrame(columns)


@pytest.mark.parametrize(("items", "raters"), [(6, 4), (4, 7)])
@pytest.mark.parametrize("are_named", [True, False])
def test_the_posterior_is_that_of_the_dense_model(
    items: int, raters: int, are_named: bool
) -> None:
    _, table = ratings_of(items, raters, 3, seed=1)
    if not are_named:
        table = table.drop(columns="rater")
    names = tuple(sorted({*table["item"]}, key=str))
    values = table["rating"].to_numpy()
    design = _design(names, table, values)
    scales = Scales(*torch.tensor([0.7, 0.4, 0.5], dtype=torch.double))
    of_item = np.array([[i == name for name in names] for i in table["item"]], float)
    covariance = 0.7 * of_item @ of_item.T + 0.5 * np.eye(len(values))
    if are_named:
        rater = table["rater"].to_numpy()
        covariance += 0.4 * (rater[:, None] == rater)
    # A wide prior of the mean of all, in the limit of a flat one.
    wide = 1e7
    dense = covariance + wide
    centred = values - values.mean()
    expected = stats.multivariate_normal.logpdf(centred, None, dense)
    constant = 0.5 * (len(values) * math.log(2 * math.pi) + math.log(wide))
    evidence = float(design.log_evidence(scales))
    assert evidence == pytest.approx(expected + constant, abs=1e-4)
    weights = 0.7 * of_item.T @ np.linalg.inv(dense)
    posterior = 0.7 * np.eye(len(names)) - weights @ (0.7 * of_item)
    number = 40_000
    generator = torch.Generator().manual_seed(0)
    mean, draws, _ = design.draws(scales, number, generator)
    assert mean.numpy() == pytest.approx(weights @ centred, abs=1e-4)
    sizes = np.sqrt(np.outer(posterior.diagonal(), posterior.diagonal()))
    error = (np.cov(draws.numpy().T) - posterior) / sizes
    assert np.abs(error).max() < 5 * math.sqrt(2 / number)


def test_variances_have_the_density_of_quadrature() -> None:
    _, table = ratings_of(8, 5, 6, seed=4)
    values = table["rating"].to_numpy()
    design = _design(tuple(sorted({*table["item"]})), table, values)
    loss, scales_of = _loss_of_scales(design, values)
    best, covariance = _laplace(loss)
    deviation = covariance.diagonal().sqrt()
    step = float(np.diff(np.unique(values)).min())
    spread = float(np.var(values))

    def log_density(logs: torch.Tensor) -> float:
        """Computes the density of log variances by their documented prior."""
        variances = spread * logs.exp()
        noise = variances[2] + step**2 / 12
        evidence = design.log_evidence(Scales(variances[0], variances[1], noise))
        prior = variances.log() - variances / spread
        return float(evidence + (prior + variances.log()).sum())

    nodes = torch.linspace(-5, 4, 16, dtype=torch.double)
    grid = torch.cartesian_prod(
        *(b + d * nodes for b, d in zip(best, deviation, strict=True))
    )
    logs = torch.tensor([log_density(point) for point in grid])
    weights = logs.softmax(0).double().unsqueeze(-1)
    mean = (weights * grid).sum(0)
    exact = (weights * (grid - mean).square()).sum(0).sqrt()
    # The density is skewed: of 30 ratings its mean is within a fifth of a deviation of
    # its mode. Without the factor of the logarithm the modes are 0.5 to 1.1 below.
    assert (mean - best).abs().div(exact).max() < 0.2
    assert deviation.numpy() == pytest.approx(exact, rel=0.07)
    assert float(scales_of(best).items) == pytest.approx(spread * math.exp(best[0]))


def test_intervals_hold_the_truth() -> None:
    held, total = np.zeros(2), 0
    for seed in range(6):
        value, table = ratings_of(40, 12, 20, seed)
        ranking = rank_items(table)
        assert isinstance(ranking, RatingRanking)
        board = ranking.board().sort_index()
        truth, rank = value - value.mean(), stats.rankdata(-value)
        held += (
            ((board["lower"] <= truth) & (truth <= board["upper"])).sum(),
            ((board["rank_lower"] <= rank) & (rank <= board["rank_upper"])).sum(),
        )
        total += len(board)
    # Intervals of one board depend on each other: twice the binomial error, thrice.
    assert np.abs(held / total - 0.95).max() < 6 * math.sqrt(0.95 * 0.05 / total)


def test_a_rater_who_is_strict_moves_no_item() -> None:
    _, table = ratings_of(10, 6, 10, seed=3)
    strict = table.assign(rating=table["rating"] - 2.0 * (table["rater"] == 0))
    boards = [rank_items(answers).board().sort_index() for answers in (table, strict)]
    first, second = (board["utility"].to_numpy() for board in boards)
    # Everybody rated everything, so that utilities are means that shrink.
    means = table.groupby("item")["rating"].mean().to_numpy()
    centred = means - means.mean()
    slope = first @ centred / (centred @ centred)
    assert 0.8 < slope < 1.0
    assert first == pytest.approx(slope * centred, abs=1e-6)
    assert second == pytest.approx(first, abs=0.02)


@pytest.mark.parametrize("step", [1.0, 0.01])
def test_raters_who_agree_leave_the_noise_of_rounding(step: float) -> None:
    given, raters = {"a": 1.0, "b": 2.0, "c": 4.0}, 200
    rows = [(i, step * r, k) for k in range(raters) for i, r in given.items()]
    ranking = rank_items(pd.DataFrame(rows, columns=["item", "rating", "rater"]))
    assert isinstance(ranking, RatingRanking)
    rounding = step**2 / 12
    # The density v**2 exp(-v) moves n free residuals, of 600, by four parts in n.
    free = len(rows) - raters - len(given)
    assert 1.0 < float(ranking.scales.noise) / rounding < 1 + 4 / (free - 4)
    board = ranking.board()
    assert [*board.index] == ["c", "b", "a"]
    truth = pd.Series(given)[board.index] - np.mean([*given.values()])
    error = (board["utility"] / step - truth).abs()
    # Means of 200 roundings, and utilities that shrink by less than a thousandth.
    assert error.max() < 4 * math.sqrt(1 / 12 / raters)


def test_biases_that_explain_all_leave_items_equal() -> None:
    rows = [(i, float(k), k) for k in range(20) for i in "abc"]
    board = rank_items(pd.DataFrame(rows, columns=["item", "rating", "rater"])).board()
    assert [*board["rank"]] == [1, 1, 1]


@pytest.mark.parametrize(
    ("table", "options", "match"),
    [
        ({"item": [], "rating": []}, {}, "0 ratings of 0 items rank nothing"),
        ({"rating": [1.0, 2.0]}, {}, "no column 'item'"),
        ({"item": [*"ab"], "rating": ["1", "good"]}, {}, "rating of row 1 is good"),
        ({"item": [*"ab"], "rating": [math.nan, 1.0]}, {}, "rating of row 0 is nan"),
        (
            {"item": ["a", None], "rating": [1.0, 2.0]},
            {},
            "item of row 1 is (None|nan)",
        ),
        (
            {"item": [*"aab"], "rating": [1.0, 2.0, 3.0], "rater": [*"xy", None]},
            {},
            "rater of row 2 is (None|nan)",
        ),
        (
            {"item": [*"ab"] * 10, "rating": [1.0, 2.0] * 9 + [1.0, 2.0 + 1e-12]},
            {},
            "explain the ratings to the last digit",
        ),
        ({"item": [*"ab"], "rating": [1.0, 1.0]}, {}, "rank nothing"),
        ({"item": [*"aa"], "rating": [1.0, 2.0]}, {}, "rank nothing"),
        ({"item": [*"ab"], "rating": [1.0, 2.0]}, {"reliability": True}, "leave out"),
    ],
)
def test_what_cannot_be_ranked_is_refused(table, options, match) -> None:
    with pytest.raises(FeedbackError, match=match):
        rank_items(pd.DataFrame(table), **options)
