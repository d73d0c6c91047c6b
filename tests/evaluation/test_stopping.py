"""Advice to stop, gains, chances to be best and agreement, against closed forms."""

import inspect
import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from cases import in_turn
from gpytorch.distributions import MultivariateNormal
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import integrate, stats
from torch import Tensor

from botorch_pref import (
    Choices,
    Comparisons,
    DuelKernel,
    EPPreferenceGP,
    PairwiseProbitLikelihood,
    Ratings,
)
from botorch_pref.errors import (
    BotorchPrefError,
    FeedbackError,
    UnsupportedFeedbackError,
)
from botorch_pref.evaluation import (
    answer_agreement,
    best_probability,
    connected_components,
    progress,
    remaining_gain,
    stopping_advice,
    stopping_candidates,
)
from botorch_pref.evaluation.progress import NEAR, near_points, path_maxima
from botorch_pref.feedback import Feedback
from botorch_pref.likelihoods import LogitLink, ProbitLink
from botorch_pref.models import AveragedUtility, SkewPreferenceGP, plausible_models


class Linear(Model):
    """``f(x) = w x`` in one dimension with standard normal ``w``, plus ``x^2 / 2``."""

    num_outputs = 1
    batch_shape = torch.Size()

    def posterior(self, X: Tensor, **_: object) -> GPyTorchPosterior:
        eye = 1e-12 * torch.eye(X.shape[-2], dtype=X.dtype)
        normal = MultivariateNormal(0.5 * X.squeeze(-1).square(), X @ X.mT + eye)
        return GPyTorchPosterior(normal)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.double).unsqueeze(-1)


@in_turn("noise", [0.1, 1.0, 4.0])
def test_the_chance_is_that_of_the_larger_utility(noise) -> None:
    # Of 1 and 3 the second is recommended, and the gain is max(-2 w - 4, 0).
    advice = stopping_advice(
        Linear(), column(1.0, 3.0), tolerance=0.55, link=ProbitLink(noise)
    )

    def weighed(w: float) -> float:
        gain = max(-2 * w - 4, 0.0)
        return stats.norm.cdf(gain / math.sqrt(2 * noise)) * stats.norm.pdf(w)

    expected, _ = integrate.quad(weighed, -9, 9, points=[-2.0])
    threshold = stats.norm.ppf(0.55) * math.sqrt(2 * noise)
    confidence = stats.norm.cdf((threshold + 4) / 2)
    # Sobol samples of one normal are off by about one over their number, 4,096.
    assert advice.chance_of_regret == pytest.approx(expected, abs=2e-3)
    assert advice.confidence == pytest.approx(confidence, abs=2e-3)
    assert advice.stop is True


def test_the_advice_follows_both_arguments() -> None:
    # P(f(1) - f(3) > 0) = P(w < -2) = 0.0228, and some gains are not noticed.
    link = ProbitLink(1.0)
    for confidence, stop in ((0.97, True), (0.99, False)):
        advice = stopping_advice(
            Linear(), column(1.0, 3.0), 0.51, confidence, link=link
        )
        assert advice.stop is stop
    worse = stopping_advice(
        Linear(), column(1.0, 3.0), recommended=column(1.0), link=link
    )
    assert worse.stop is False
    # 2 w + 4 < sqrt(2) times the quantile of 0.6
    truth = stats.norm.cdf((math.sqrt(2) * stats.norm.ppf(0.6) - 4) / 2)
    assert worse.confidence == pytest.approx(truth, abs=2e-3)


def folded_mean(mean: float, deviation: float) -> float:
    """Computes the expectation of the size of a normal variable."""
    return float(stats.foldnorm.mean(abs(mean) / deviation, scale=deviation))


@in_turn("tolerance", [0.01, 0.3])
def test_the_gain_is_a_share_of_the_range_of_what_was_shown(tolerance: float) -> None:
    # Of 1 and 3 the first is recommended: the gain is max(2 w + 4, 0). What was shown
    # are 0 and 2, whose range is the size of 2 w + 2.
    advice = stopping_advice(
        Linear(),
        column(1.0, 3.0),
        recommended=column(1.0),
        shown=column(0.0, 2.0),
        gain_tolerance=tolerance,
        link=ProbitLink(),
    )
    gain = 4 * stats.norm.cdf(2) + 2 * stats.norm.pdf(2)
    # Sobol samples of one normal; its deviation is multiplied by 2.
    assert advice.expected_gain == pytest.approx(gain, abs=4e-3)
    share = gain / folded_mean(2.0, 2.0)
    assert advice.gain_share == pytest.approx(share, abs=4e-3)
    # Below -2 there is no gain, and above 2 w + 4 < tolerance (-2 w - 2) holds to a w.
    little = stats.norm.cdf(-(2 + tolerance) / (1 + tolerance))
    assert advice.gain_confidence == pytest.approx(little, abs=2e-3)
    assert advice.stop is False


def test_of_a_person_who_never_errs_little_is_left_though_it_would_be_noticed() -> None:
    """Brute force: independent draws of the joint posterior on a grid."""
    X = torch.linspace(0, 1, 12, dtype=torch.double).unsqueeze(-1)
    order = (X.squeeze(-1) - 0.6).abs().argsort()
    pairs = torch.combinations(order, 2)
    likelihood = PairwiseProbitLikelihood(noise=1e-8)
    model = EPPreferenceGP(X, pairs, likelihood=likelihood)
    model.covar_module.base_kernel.lengthscale = 0.7
    grid = torch.linspace(0.5, 0.7, 21, dtype=torch.double).unsqueeze(-1)
    best = X[order[:1]]
    options = {"recommended": best, "shown": X, "gain_tolerance": 0.02}
    advice = stopping_advice(model, grid, **options)

    with torch.no_grad():
        joint = model.posterior(torch.cat([best, grid, X]))
        mean = joint.mean.squeeze(-1).numpy()
        covariance = joint.distribution.covariance_matrix.numpy()
    number = 40_000
    draws = np.random.default_rng(0).multivariate_normal(
        mean, covariance, number, method="eigh"
    )
    gain = draws[:, :22].max(1) - draws[:, 0]
    extent = np.ptp(draws[:, 22:], axis=1)
    chance = stats.norm.cdf(gain / math.sqrt(2e-8))

    def agree(value: float, sample: np.ndarray) -> bool:
        # Of 4,096 draws, which are not worse than independent ones, and of these.
        error = sample.std() * math.sqrt(1 / 4096 + 1 / number)
        return abs(value - sample.mean()) < 4 * error

    assert agree(advice.expected_gain, gain)
    assert agree(advice.gain_share * extent.mean(), gain)
    assert agree(advice.gain_confidence, gain < 0.02 * extent)
    assert agree(advice.chance_of_regret, chance)
    assert agree(advice.confidence, chance < 0.6)
    # It is sure to be noticed, and not worth a question.
    assert advice.chance_of_regret > 0.9
    assert advice.confidence < 0.1
    assert advice.gain_share < 0.02
    assert advice.stop is (advice.gain_confidence >= 0.75)
    assert stopping_advice(model, grid, **options | {"gain_tolerance": 0.2}).stop


def test_who_sees_no_difference_regrets_by_half() -> None:
    """By quadrature: a heard difference within the threshold is a tie."""
    X, threshold = column(0.1, 0.5, 0.9), 1.5
    answers = Comparisons(torch.tensor([[0, 1]]), ties=torch.tensor([[1, 2], [0, 2]]))
    likelihood = PairwiseProbitLikelihood(tie_threshold=threshold)
    model = EPPreferenceGP(X, answers, likelihood=likelihood)
    best, other = X[1:2], X[:1]
    with torch.no_grad():
        joint = model.posterior(torch.cat([best, other])).distribution
    step = joint.mean[1] - joint.mean[0]
    (a, c), (_, b) = joint.covariance_matrix.tolist()
    deviation = math.sqrt(a + b - 2 * c)

    def weighed(z: float) -> float:
        gain = max(float(step) + deviation * z, 0.0)
        heard = (np.array([gain - threshold, gain + threshold])) / math.sqrt(2)
        return stats.norm.cdf(heard).mean() * stats.norm.pdf(z)

    kink = -float(step) / deviation
    expected, _ = integrate.quad(weighed, -9, 9, points=[kink])
    advice = stopping_advice(model, torch.cat([best, other]), recommended=best)
    # Sobol samples of one normal are off by about one over their number, 4,096.
    assert advice.chance_of_regret == pytest.approx(expected, abs=2e-3)
    forced = stopping_advice(
        model, torch.cat([best, other]), recommended=best, link=ProbitLink(1.0)
    )
    assert forced.chance_of_regret > advice.chance_of_regret + 0.02, "ties are no doubt"


def test_where_nothing_better_can_be_it_is_a_coin() -> None:
    model = EPPreferenceGP(column(0.1, 0.5), torch.tensor([[0, 1]]))
    advice = stopping_advice(model, column(0.1), recommended=column(0.1))
    assert advice.stop
    assert advice.confidence == 1
    assert advice.chance_of_regret == pytest.approx(0.5, abs=1e-6)


def test_a_point_that_is_given_twice_is_drawn_once() -> None:
    """As those that were shown, which are candidates too: copies take time alone."""
    X = column(0.1, 0.4, 0.8)
    model = EPPreferenceGP(X, torch.tensor([[0, 1], [2, 1]])).eval()
    grid = torch.linspace(0, 1, 20, dtype=torch.double).unsqueeze(-1)
    once = stopping_advice(model, grid, shown=grid)
    assert stopping_advice(model, torch.cat([grid, grid]), shown=grid.flip(0)) == once


def test_the_noise_is_the_models() -> None:
    pairs = torch.tensor([[0, 1], [1, 2]])
    X = column(0.1, 0.5, 0.9)
    for noise in (0.01, 9.0):
        likelihood = PairwiseProbitLikelihood(noise=noise)
        model = SkewPreferenceGP(X, pairs, likelihood=likelihood, num_draws=64)
        advice = stopping_advice(model, X)
        assert advice == stopping_advice(model, X, link=ProbitLink(noise))
        assert advice != stopping_advice(model, X, link=LogitLink())


@pytest.mark.parametrize("bounds", [None, torch.tensor([[0.0], [1.0]])])
def test_draws_of_plausible_models_count_alike(
    monkeypatch: pytest.MonkeyPatch, bounds: Tensor | None
) -> None:
    """In one unit, by the noises; the second one's draws have the next seed."""
    X, pairs = column(0.1, 0.5, 0.8), torch.tensor([[1, 0], [1, 2]])
    models = []
    for noise in (0.5, 2.0):
        likelihood = PairwiseProbitLikelihood(noise=noise)
        models.append(EPPreferenceGP(X, pairs, likelihood=likelihood).eval())
    options = {"candidates": column(0.2, 0.4, 0.6), "recommended": X[1:2]}
    options |= {"shown": X, "bounds": bounds}
    advices = stopping_advice(
        models[0], **options, plausible=models, num_samples=400, seed=3
    )
    monkeypatch.setattr(progress, "NUM_PATHS", progress.NUM_PATHS // 2)
    apart = [
        stopping_advice(model, **options, num_samples=200, seed=3 + place)
        for place, model in enumerate(models)
    ]
    for name in ("chance_of_regret", "confidence", "gain_confidence"):
        mean = sum(getattr(advice, name) for advice in apart) / 2
        assert getattr(advices, name) == pytest.approx(mean, rel=1e-9)
    # The second one's noise has twice the deviation, which is a unit.
    gains = [unit * a.expected_gain for unit, a in zip((1, 0.5), apart, strict=True)]
    assert advices.expected_gain == pytest.approx(sum(gains) / 2, rel=1e-9)
    extents = [g / a.gain_share for g, a in zip(gains, apart, strict=True)]
    share = sum(gains) / sum(extents)
    assert advices.gain_share == pytest.approx(share, rel=1e-9)


def test_draws_of_a_batch_have_the_moments_of_its_models() -> None:
    X, pairs = column(0.1, 0.5, 0.8), torch.tensor([[1, 0], [1, 2]])
    model = EPPreferenceGP(X, pairs, covar_module=DuelKernel(1)).eval()
    (batch,) = plausible_models(model, 3).batches
    points, number = column(0.1, 0.4, 0.9), 4096
    draws = progress._samples_of_batch(batch, points, number, seed=0)
    with torch.no_grad():
        posterior = batch.posterior(points)
    mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    # Quasi-random draws err less than independent ones, of which these are 5 errors.
    error = 5 / number**0.5
    off = (draws.mean(0) - mean).abs()
    assert (off < error * variance.sqrt()).all(), "means of the models"
    for member in range(3):
        off = (draws[:, member].T.cov() - covariance[member]).abs()
        largest = variance[member].max()
        assert (off < error * 2**0.5 * largest).all(), f"covariance of {member}"


def test_models_of_a_batch_share_no_draw_and_fill_the_space_together() -> None:
    """At one point a draw is a quasi-random normal number, by its model's moments.

    Of a scrambled Sobol sequence 256 numbers fall into 256 equal cells, one into each.
    Were the models' base numbers equal, a cell would have four or none.
    """
    X, pairs = column(0.1, 0.5, 0.8), torch.tensor([[1, 0], [1, 2]])
    model = EPPreferenceGP(X, pairs, covar_module=DuelKernel(1)).eval()
    (batch,) = plausible_models(model, 4).batches
    point = column(0.3)
    draws = progress._samples_of_batch(batch, point, 64, seed=0)
    with torch.no_grad():
        posterior = batch.posterior(point)
    # S x M, in deviations.
    z = (draws - posterior.mean[..., 0]).squeeze(-1) / posterior.variance[
        :, 0, 0
    ].sqrt()
    cells = (256 * torch.special.ndtr(z)).floor().long()
    counts = torch.bincount(cells.flatten(), minlength=256)
    assert counts.tolist() == [1] * 256, "draws of models do not fill the space"
    for member in range(4):
        coarse = torch.bincount(cells[:, member] // 16, minlength=16)
        assert coarse.tolist() == [4] * 16, f"draws of the model {member} leave gaps"


@in_turn(
    ("arguments", "match"),
    [
        ({"tolerance": 0.5}, "tolerance is 0.5"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"gain_tolerance": 0.0}, "gain_tolerance is 0.0"),
        ({"num_samples": 1}, "num_samples is 1"),
        ({"candidates": column()}, "no candidates"),
        ({"shown": column()}, "shown has no points"),
        ({"bounds": column(1.5, 3.0)}, r"^\[1.0\], a candidate .* not within"),
        ({"recommended": column(1.0, 0.5)}, r"shape \(2, 1\); give one point"),
    ],
)
def test_numbers_that_cannot_be_are_refused(arguments, match) -> None:
    keywords = {"candidates": column(1.0), "link": ProbitLink(), **arguments}
    with pytest.raises(BotorchPrefError, match=match):
        stopping_advice(Linear(), **keywords)


def test_models_that_give_no_advice_are_refused() -> None:
    with pytest.raises(UnsupportedFeedbackError, match="is not known"):
        stopping_advice(Linear(), column(1.0, 3.0))
    pairs = torch.tensor([[0, 1], [1, 0]]).unsqueeze(-2)
    batch = EPPreferenceGP(column(0.1, 0.5), pairs)
    with pytest.raises(BotorchPrefError, match=r"batch of shape \(2,\)"):
        stopping_advice(batch, column(0.1, 0.5))


def test_of_two_points_it_is_the_probability_to_win() -> None:
    # f(3) - f(1) = 2 w + 4 > 0 where w > -2.
    chances = best_probability(Linear(), column(1.0, 3.0))
    # Sobol samples of one normal are off by about one over their number.
    assert abs(float(chances[1]) - stats.norm.cdf(2.0)) < 2e-3
    torch.testing.assert_close(chances.sum(), torch.ones_like(chances.sum()))


def test_equal_points_share() -> None:
    model = SkewPreferenceGP(column(0.1, 0.5), torch.tensor([[0, 1]]), num_draws=64)
    chances = best_probability(model, column(0.1, 0.5, 0.1))
    pair = best_probability(model, column(0.1, 0.5))
    torch.testing.assert_close(chances, pair[[0, 1, 0]] / torch.tensor([2, 1, 2]))


def test_the_gain_over_a_point_is_its_expected_improvement() -> None:
    gain = remaining_gain(Linear(), column(1.0), column(3.0))
    # E[max(2 w + 4, 0)]
    truth = 4 * stats.norm.cdf(2.0) + 2 * stats.norm.pdf(2.0)
    assert abs(float(gain.expected) - truth) < 5e-3
    # Var[max(u, 0)] is hardly that of u = 2 w + 4 itself.
    assert float(gain.standard_error) == pytest.approx(2 / 64, rel=0.1)


def test_a_batch_of_models_is_each_of_them() -> None:
    points = column(0.1, 0.5)
    pairs = torch.tensor([[0, 1], [1, 0]]).unsqueeze(-2)
    together = best_probability(EPPreferenceGP(points, pairs), points)
    for pair, chances in zip(pairs, together, strict=True):
        alone = best_probability(EPPreferenceGP(points, pair), points)
        torch.testing.assert_close(alone, chances, atol=5e-3, rtol=0)


class Members(EPPreferenceGP):
    """A batch of models that count as members of one ensemble."""

    _is_ensemble = True


def test_members_of_an_ensemble_count_alike() -> None:
    points = column(0.1, 0.5)
    pairs = torch.tensor([[0, 1], [1, 0]]).unsqueeze(-2)
    members, batch = Members(points, pairs), EPPreferenceGP(points, pairs)
    # Of two members, each has half of the samples.
    chances = best_probability(members, points, num_samples=4096)
    halves = best_probability(batch, points, num_samples=2048)
    assert torch.equal(chances, halves.mean(0))
    gain = remaining_gain(members, points[:1], points, num_samples=4096).expected
    gains = remaining_gain(batch, points[:1], points, num_samples=2048).expected
    torch.testing.assert_close(gain, gains.mean())


def test_members_of_an_ensemble_recommend_together() -> None:
    """The first of three prefers the other point."""
    points = column(0.1, 0.5)
    pairs = torch.tensor([[0, 1], [1, 0], [1, 0]]).unsqueeze(-2)
    members = Members(points, pairs).eval()
    advice = stopping_advice(members, points)
    assert advice == stopping_advice(members, points, recommended=points[1:])
    assert advice != stopping_advice(members, points, recommended=points[:1])


@pytest.mark.parametrize("shape", [(3, 4, 1), (0, 1)])
def test_chances_are_of_one_set_of_points(shape: tuple[int, ...]) -> None:
    points = torch.zeros(shape, dtype=torch.double)
    with pytest.raises(FeedbackError, match="expected n x d with a point or more"):
        best_probability(Linear(), points)


def test_seeds_and_the_global_state() -> None:
    model = EPPreferenceGP(column(0.1, 0.5), torch.tensor([[0, 1]]))
    state = torch.random.get_rng_state()
    chances = best_probability(model, column(0.1, 0.9), seed=1)
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.equal(chances, best_probability(model, column(0.1, 0.9), seed=1))


REPEATED = torch.tensor([[0.0], [1.0], [2.0], [0.0]])


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=12))
@example([(0, 1, 0), (1, 2, 0)])  # nothing is repeated
@example([(0, 1, 0), (3, 1, 0), (1, 0, 0)])  # the last point is the first
def test_it_is_the_share_of_equal_answers(raw: list[tuple[int, int, int]]) -> None:
    duel_answers = [(a, b, kind == 3) for a, b, kind in raw if a % 3 != b % 3]
    wins = [(a, b) for a, b, tie in duel_answers if not tie]
    ties = [(a, b) for a, b, tie in duel_answers if tie]
    if not duel_answers:
        return
    comparisons = Comparisons(
        torch.tensor(wins) if wins else None, torch.tensor(ties) if ties else None
    )
    answers = [({a % 3, b % 3}, "tie" if tie else a % 3) for a, b, tie in duel_answers]
    decisions = [
        (first, second)
        for first, second in itertools.combinations(answers, 2)
        if first[0] == second[0]
    ]
    repeated, agreement = answer_agreement(REPEATED, comparisons)
    assert repeated == len({frozenset(first[0]) for first, _ in decisions})
    if decisions:
        assert agreement == sum(
            first_kind == second_kind for first_kind, second_kind in decisions
        ) / len(decisions)
    else:
        assert math.isnan(agreement)


def test_agreement_of_billions_of_answers() -> None:
    """Of three in four against one in four the share is 9/16 + 1/16."""
    counts = torch.tensor([3 * 2**40, 2**40])
    comparisons = Comparisons(torch.tensor([[0, 1], [1, 0]]), pair_counts=counts)
    repeated, agreement = answer_agreement(REPEATED, comparisons)
    assert repeated == 1
    assert agreement == pytest.approx(0.625, abs=1e-11)


@given(st.lists(st.tuples(*[st.integers(0, 7)] * 2), max_size=10))
def test_components_are_those_of_a_search(raw: list[tuple[int, int]]) -> None:
    edges = [edge for edge in raw if edge[0] != edge[1]]
    blocks: list[Feedback] = [Comparisons(torch.tensor(edges))] if edges else []
    reached = []
    for start in range(8):
        visited, todo = {start}, [start]
        while todo:
            node = todo.pop()
            near = {b if a == node else a for a, b in edges if node in (a, b)}
            todo.extend(near - visited)
            visited |= near
        reached.append(visited)
    label = connected_components(8, blocks)
    for i, j in itertools.product(range(8), repeat=2):
        assert (label[i] == label[j]) == (j in reached[i])


def test_sets_join_their_items_and_ratings_share_a_scale() -> None:
    sets = Choices(torch.tensor([[0, 1, 2], [3, 4, -1]]), torch.tensor([1, 4]))
    ratings = Ratings(torch.tensor([5, 7]), torch.tensor([0.2, 0.3]))
    label = connected_components(9, [sets, ratings])
    assert label.tolist() == [0, 0, 0, 1, 1, 2, 3, 2, 4]


BOX = torch.tensor([[0.0], [1.0]], dtype=torch.double)


@pytest.fixture(scope="module")
def model() -> EPPreferenceGP:
    """A few answers of a person who errs, and a prior that leaves more to be had."""
    kernel = DuelKernel(dim=1)
    kernel.outputscale, kernel.base_kernel.lengthscale = 8.0, 0.2
    pairs = torch.tensor([[1, 0], [1, 2], [2, 3]])
    return EPPreferenceGP(
        column(0.1, 0.4, 0.7, 0.9),
        pairs,
        covar_module=kernel,
        likelihood=PairwiseProbitLikelihood(),
    ).eval()


def on_grid(model: EPPreferenceGP, points: Tensor, number: int) -> np.ndarray:
    with torch.no_grad():
        joint = model.posterior(points)
    return np.random.default_rng(1).multivariate_normal(
        joint.mean.squeeze(-1).numpy(),
        joint.distribution.covariance_matrix.numpy(),
        number,
        method="eigh",
    )


@pytest.mark.slow
def test_they_are_those_of_a_fine_grid(model: EPPreferenceGP) -> None:
    points = column(0.4, 0.1, 0.9)
    starts = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    number = 128
    values, largest = path_maxima(model, points, starts, BOX, number)
    assert values.shape == (number, 3)
    assert largest.shape == (number,)
    grid = torch.linspace(0, 1, 101, dtype=torch.double).unsqueeze(-1)
    draws = on_grid(model, torch.cat([points, grid]), 20_000)
    truth = draws[:, 3:].max(1)
    for quantity, true in (
        (largest - values[:, 0], truth - draws[:, 0]),
        (values.amax(-1) - values.amin(-1), np.ptp(draws[:, :3], axis=1)),
    ):
        error = true.std() * math.sqrt(1 / number + 1 / len(true))
        # Random Fourier features are off by less than a hundredth of a deviation, and
        # what lies between the points of the grid by less than that.
        assert abs(float(quantity.mean()) - true.mean()) < 4 * error + 0.02 * true.std()


@pytest.mark.slow
def test_no_start_and_no_other_point_is_above_them(model: EPPreferenceGP) -> None:
    starts = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
    values, largest = path_maxima(model, starts, starts, BOX, 64, seed=3)
    # `values` are those at the starts.
    assert bool((largest >= values.amax(-1)).all())
    fine = torch.linspace(0, 1, 201, dtype=torch.double).unsqueeze(-1)
    everywhere, again = path_maxima(model, fine, starts, BOX, 64, seed=3)
    assert torch.equal(largest, again)
    # Five starts may miss a hill; most are found, to the fineness of the grid.
    missed = everywhere.amax(-1) > largest + 1e-3
    assert float(missed.double().mean()) < 0.1


@pytest.mark.slow
def test_the_advice_searches_the_whole_box(model: EPPreferenceGP) -> None:
    best, visible = column(0.4), column(0.1, 0.4, 0.7, 0.9)
    state = torch.random.get_rng_state()
    options = {"recommended": best, "shown": visible, "gain_tolerance": 0.3}
    candidates = column(0.35, 0.45, 0.8)
    advice = stopping_advice(model, candidates, bounds=BOX, **options)
    assert torch.equal(state, torch.random.get_rng_state())
    assert advice == stopping_advice(model, candidates, bounds=BOX, **options)
    grid = torch.linspace(0, 1, 101, dtype=torch.double).unsqueeze(-1)
    draws = on_grid(model, torch.cat([best, visible, grid]), 20_000)
    gain, extent = draws.max(1) - draws[:, 0], np.ptp(draws[:, 1:5], axis=1)
    error = 4 / math.sqrt(128)
    assert abs(advice.expected_gain - gain.mean()) < error * gain.std()
    little = (gain < 0.3 * extent).mean()
    assert abs(advice.gain_confidence - little) < error * math.sqrt(
        little * (1 - little)
    )
    # Three candidates alone leave most of it out.
    alone = stopping_advice(model, candidates, **options)
    assert alone.expected_gain < 0.8 * gain.mean()


def test_an_ensemble_is_refused(model: EPPreferenceGP) -> None:
    ensemble = AveragedUtility(model, [model, model])
    with pytest.raises(BotorchPrefError, match="bounds are given for an ensemble"):
        stopping_advice(ensemble, column(0.4), bounds=BOX)


BOUNDS = torch.tensor([[-1.0, 0.0, 10.0], [1.0, 5.0, 20.0]], dtype=torch.double)


def test_a_half_is_all_over_the_box_and_the_others_are_nearby() -> None:
    best = torch.tensor([[0.0, 2.5, 15.0]], dtype=torch.double)
    candidates = stopping_candidates(best, BOUNDS, 768)
    assert candidates.shape == (768, 3)
    shares = (candidates - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0])
    cells = (shares[:384] * 4).floor().long() @ torch.tensor([16, 4, 1])
    # Scrambled Sobol points: 256 of them fall into 64 cells by fours.
    assert torch.bincount(cells[:256], minlength=64).tolist() == [4] * 64
    for i, deviation in enumerate(NEAR):
        z = (shares[384 + 128 * i : 512 + 128 * i] - 0.5) / deviation
        # Truncated at 5 deviations or more. Of 128 points, were they independent.
        assert abs(float(z.square().mean()) - 1) < 4 * math.sqrt(2 / 384)


def test_they_stay_in_the_box_and_leave_the_random_state_alone() -> None:
    corner = BOUNDS[:1].clone()
    before = torch.random.get_rng_state()
    first, second = (near_points(corner, BOUNDS, 10, seed=3) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first, second)
    assert len(first) == 10
    assert bool(((first >= BOUNDS[0]) & (first <= BOUNDS[1])).all())
    assert not torch.equal(first, near_points(corner, BOUNDS, 10, seed=4))


def test_fewer_than_two_are_refused() -> None:
    best = BOUNDS.mean(0, keepdim=True)
    assert stopping_candidates(best, BOUNDS, 2).shape == (2, 3)
    with pytest.raises(BotorchPrefError, match="num_candidates is 1"):
        stopping_candidates(best, BOUNDS, 1)


@in_turn("shift", [[2.0, 0.0, 0.0], [0.0, 0.0, -6.0], [math.nan] * 3])
def test_what_is_recommended_is_one_point_of_the_box(shift: list[float]) -> None:
    best = BOUNDS.mean(0, keepdim=True)
    with pytest.raises(BotorchPrefError, match="recommended is"):
        stopping_candidates(best + torch.tensor(shift), BOUNDS)
    with pytest.raises(BotorchPrefError, match="give one point, 1 x 3"):
        stopping_candidates(BOUNDS, BOUNDS)


MIXED = torch.tensor([[0.0, 0, 0, 0, 1], [1.0, 1, 1, 1, 4]], dtype=torch.double)
MIXED_ARGUMENTS: dict[str, Any] = {
    "categorical": [(1, 2, 3)],
    "discrete_dims": {4: [1, 2, 3, 4]},
    "inequality_constraints": [
        (torch.tensor([0, 4]), torch.tensor([-2.0, -1.0], dtype=torch.double), -4.5)
    ],
}


def test_of_a_mixed_space_they_are_designs() -> None:
    best = torch.tensor([[0.5, 0, 1, 0, 3]], dtype=torch.double)
    before = torch.random.get_rng_state()
    first, second = (stopping_candidates(best, MIXED, **MIXED_ARGUMENTS) for _ in "ab")
    assert torch.equal(first, second)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert {*first[:, 4].tolist()} == {1.0, 2.0, 3.0, 4.0}
    kinds = first[:, 1:4].unique(dim=0)
    torch.testing.assert_close(kinds, torch.eye(3, dtype=torch.double).flip(0))
    assert bool((2 * first[:, 0] + first[:, 4] <= 4.5 + 1e-6).all())
    # A half is nearby, and of it half keep the category of the best.
    near = ((first[:, :1] - 0.5).abs() < 0.1).all(-1) & (first[:, 2] == 1)
    assert near.double().mean() > 0.15
    with pytest.raises(BotorchPrefError, match="what else designs have to satisfy"):
        stopping_candidates(
            best + torch.tensor([0.5] + 4 * [0.0]), MIXED, **MIXED_ARGUMENTS
        )


def test_in_a_context_beyond_the_bounds_they_have_it() -> None:
    best = torch.tensor([[0.5, 2.5, 25.0]], dtype=torch.double)
    candidates = stopping_candidates(best, BOUNDS, fixed_features={2: 25.0})
    assert candidates[:, 2].unique().tolist() == [25.0]


def test_an_input_of_one_value_keeps_it() -> None:
    bounds = BOUNDS.clone()
    bounds[:, 1] = 5.0
    assert bool((stopping_candidates(bounds[:1], bounds)[:, 1] == 5).all())


CHOSEN_ON = {"levy", "hartmann3", "ackley6"}


@in_turn("name", ["stopping_errors", "stopping_errors_pairs"])
def test_on_record_nine_in_ten_of_those_told_to_stop_had_found_enough(
    name, records: Path
) -> None:
    """The defaults, on problems on which they were not chosen."""
    recorded = pd.read_csv(records / f"{name}.csv")
    recorded = recorded[~recorded["problem"].isin(CHOSEN_ON)]
    run, options = ["problem", "deviation", "start"], inspect.signature(stopping_advice)
    default = {name: option.default for name, option in options.parameters.items()}
    sure = recorded[["confidence", "gain_confidence"]].max(axis=1)
    stopped = (
        recorded[sure >= default["confidence"]].sort_values("duel").groupby(run).first()
    )
    deviation = stopped.index.get_level_values("deviation").to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = stats.norm.cdf(stopped["regret"] / (math.sqrt(2) * deviation))
    little = stopped["regret_share"] < default["gain_tolerance"]
    wrong = ~little & (chance >= default["tolerance"])
    runs = recorded.groupby(run).ngroups
    assert recorded.groupby(run[:2]).ngroups == 8
    assert len(stopped) >= runs / 2
    assert wrong.mean() <= 0.1


PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


@pytest.mark.slow
def test_the_page(capsys) -> None:
    text = PAGE.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.M))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        fates: dict = {}
        exec(code, fates)
    printed = capsys.readouterr().out
    assert "win_rate" in printed
    # The first coordinate decides every answer: the model foresees nearly all.
    scores = fates["predictive_log_probability"](
        fates["held_out"], fates["model"], fates["X"]
    )
    assert scores.mean() > -0.4
    assert fates["advice"].chance_of_regret >= 0.5
