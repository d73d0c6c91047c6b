"""Duels with lapses: what the contract of likelihoods leaves open."""

import math
from typing import Any

import pytest
import torch
from cases import in_turn
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from scipy import integrate, stats
from torch import Tensor

from botorch_pref import (
    Choices,
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    LaplacePreferenceGP,
    LapsingProbitLikelihood,
    PairwiseProbitLikelihood,
)
from botorch_pref.evaluation.scores import fit_by_evidence
from botorch_pref.likelihoods.factors import joint_factors
from botorch_pref.likelihoods.lapses import LapsingBoxes, LapsingFactors, OpposedLapses

DOUBLE = torch.double
CAVITIES = [(0.0, 1.0), (-3.0, 0.2), (4.0, 9.0), (1.0, 400.0), (0.3, 1e-4)]


def lapsing(noise: float, rate: float, **options: Any) -> LapsingProbitLikelihood:
    return LapsingProbitLikelihood(
        torch.tensor(noise, dtype=DOUBLE), lapse_rate=rate, **options
    ).double()


@in_turn(("mean", "variance"), CAVITIES)
def test_many_answers_of_a_pair_are_one_row(mean: float, variance: float) -> None:
    """Three wins, two of them given once each, and four losses: by quadrature."""
    pairs = torch.tensor([[0, 1], [1, 0], [0, 1]])
    counts = torch.tensor([2, 4, 1])
    answers = Comparisons(pairs)
    merged = lapsing(0.3, 0.05).factors(answers, 2)
    factors: Any = joint_factors([merged], [counts])
    assert factors.rows.num_rows == 1

    def win(z: float) -> float:
        return 0.025 + 0.95 * float(stats.norm.cdf(z / math.sqrt(0.6)))

    sign = float(factors.rows.apply(torch.tensor([1.0, 0.0], dtype=DOUBLE)))
    deviation = math.sqrt(variance)

    def moment(power: int) -> float:
        def integrand(t: float) -> float:
            z = sign * (mean + deviation * t)
            return t**power * win(z) ** 3 * win(-z) ** 4 * float(stats.norm.pdf(t))

        bend = [-mean / deviation] if abs(mean / deviation) < 10 else None
        return integrate.quad(integrand, -10, 10, points=bend, epsabs=1e-13, limit=200)[
            0
        ]

    total, first, second = (moment(k) for k in range(3))
    shift = first / total
    want = math.log(total), shift / deviation, (second / total - shift**2 - 1)
    cavity = torch.tensor([[mean], [variance]], dtype=DOUBLE)
    value, slope, curvature = factors.log_partition(*cavity)
    got = float(value), float(slope), float(curvature) * variance
    assert got == pytest.approx(want, rel=1e-7, abs=1e-8)


@in_turn("noise", [1e-4, 0.5, 200.0])
@in_turn("rate", [1e-9, 0.05, 0.9])
def test_wins_and_losses_of_a_row_are_those_of_each_answer(
    noise: float, rate: float
) -> None:
    """In both tails, with derivatives; rows of one side, of both, and a single one."""
    pairs = torch.tensor([[0, 1], [1, 0], [1, 2], [0, 2], [2, 0], [2, 0]])
    counts = torch.tensor([2, 4, 3, 1, 1, 1])
    merged = lapsing(noise, rate).factors(Comparisons(pairs), 3)
    factors: Any = joint_factors([merged], [counts])
    assert type(factors._parts[0]) is OpposedLapses, "they are taken answer by answer"
    utilities = torch.tensor([0.0, 0.7, -2.3], dtype=DOUBLE)
    for scale in (0.0, 1e-3, 1.0, 30.0):
        z = factors.rows.apply(scale * utilities)
        derivatives = merged.log_prob(merged.rows.apply(scale * utilities))
        got = factors.log_prob(z)
        # The row of each answer, by its points, and whether it points the other way.
        for part, (have, answers) in enumerate(zip(got, derivatives, strict=True)):
            want = torch.zeros_like(z)
            for k, pair in enumerate(pairs.tolist()):
                points = factors.rows.indices.tolist()
                (row,) = [i for i, p in enumerate(points) if {*p} == {*pair}]
                unit = torch.eye(3, dtype=DOUBLE)[pair[0]]
                sign = 1.0 if part != 1 else float(factors.rows.apply(unit)[row])
                want[row] += counts[k] * sign * answers[k]
            torch.testing.assert_close(have, want, rtol=1e-12, atol=1e-14)


@in_turn("counted", [False, True])
def test_gradients_match_finite_differences(counted: bool) -> None:
    """In cavities, the noise, the tie threshold, and utilities."""
    answers = Comparisons(torch.tensor([[0, 1], [2, 1]]), torch.tensor([[0, 2]]))
    counts = [torch.tensor([3, 1, 2])] if counted else None

    def values(
        z: Tensor, v: Tensor, noise: Tensor, delta: Tensor
    ) -> tuple[Tensor, ...]:
        law = lapsing(1.0, 0.1, tie_threshold=0.5)
        boxes: Any = PairwiseProbitLikelihood.factors(law, answers, 3)
        boxes = type(boxes)(
            boxes.rows,
            (2 * noise).expand(3),
            torch.stack([delta, delta, -delta]),
            torch.stack([boxes.upper[0], boxes.upper[1], delta]),
        )
        guess = torch.tensor([0.05, 0.05, 0.0], dtype=DOUBLE)
        lapsing_boxes = LapsingBoxes(boxes, guess, torch.full_like(guess, 0.9))
        factors: Any = joint_factors([LapsingFactors(lapsing_boxes)], counts)
        third = factors.curvature_gradient(z, v)
        return (*factors.log_partition(z, v), *factors.log_prob(z), third)

    arguments = (
        torch.tensor([-1.0, 0.4, 2.5], dtype=DOUBLE),
        torch.tensor([0.3, 4.0, 1.0], dtype=DOUBLE),
        torch.tensor(0.4, dtype=DOUBLE),
        torch.tensor(0.6, dtype=DOUBLE),
    )
    assert torch.autograd.gradcheck(values, [t.requires_grad_() for t in arguments])


def test_gradients_of_wins_and_losses_match_finite_differences() -> None:
    """In cavities and the noise, of a row of both sides and of one of wins."""
    answers = Comparisons(torch.tensor([[0, 1], [1, 0], [2, 1]]))

    def values(z: Tensor, v: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
        boxes: Any = lapsing(1.0, 0.1).factors(answers, 3).boxes
        boxes.variance = (2 * noise).expand(3)
        factors: Any = joint_factors([LapsingFactors(boxes)], [torch.tensor([3, 1, 2])])
        assert type(factors._parts[0]) is OpposedLapses
        return (*factors.log_partition(z, v), *factors.log_prob(z))

    arguments = (
        torch.tensor([-1.0, 2.5], dtype=DOUBLE),
        torch.tensor([0.3, 4.0], dtype=DOUBLE),
        torch.tensor(0.4, dtype=DOUBLE),
    )
    assert torch.autograd.gradcheck(values, [t.requires_grad_() for t in arguments])


def test_a_tie_keeps_its_digits_far_from_the_threshold() -> None:
    """Nobody lapses into a tie: its derivatives are those of the box."""
    tie = Comparisons(None, torch.tensor([[0, 1]]))
    options: Any = {"tie_threshold": torch.tensor(0.2, dtype=DOUBLE)}
    boxes = PairwiseProbitLikelihood(torch.tensor(0.1, dtype=DOUBLE), **options)
    z = torch.tensor([30.0], dtype=DOUBLE)
    with torch.no_grad():
        want = boxes.double().factors(tie, 2).log_prob(z)
        got = lapsing(0.1, 0.3, **options).factors(tie, 2).log_prob(z)
    assert float(got.value) == pytest.approx(float(want.value) + math.log(0.7))
    torch.testing.assert_close(got[1:], want[1:], rtol=1e-13, atol=0)


def test_what_a_lapse_costs_is_bounded() -> None:
    """Ten answers in order, and one that contradicts them all."""
    points = torch.linspace(0, 1, 11, dtype=DOUBLE).unsqueeze(-1)
    rising = torch.stack([torch.arange(1, 11), torch.arange(10)], -1)
    answers = torch.cat([rising, torch.tensor([[0, 10]])])

    def learned(cls: type[PairwiseProbitLikelihood]) -> EPPreferenceGP:
        law = cls(noise_prior=LogNormalPrior(0.0, 1.0))
        model = EPPreferenceGP(points, answers, likelihood=law)
        fit_by_evidence(model)
        return model

    attentive, lapses = map(
        learned, (PairwiseProbitLikelihood, LapsingProbitLikelihood)
    )
    # The answer is more likely a lapse than what errors make of it.
    with torch.no_grad():
        assert lapses.log_evidence() > attentive.log_evidence()
        assert lapses.likelihood.noise < attentive.likelihood.noise
        believed: Any = [
            m.duel_posterior(points[-1:], points[:1]) for m in (attentive, lapses)
        ]
        deviations = [b.mean / b.variance.sqrt() for b in believed]
    assert deviations[1] > deviations[0]


@in_turn("outputscale", [1e-5, 1e-4])
def test_surprises_leave_more_open_than_the_prior_did(outputscale: float) -> None:
    """Laplace's variance of a difference is above the prior's, by quadrature.

    A win that asks for a lead of many deviations of the prior is a lapse, or a lead
    that is larger than expected. Utilities move by little beside the noise, where the
    approximation is nearly exact: it leaves out the square of the ratio of variances.
    """
    noise, threshold, rate, wins = 6.4e-3, 0.3, 0.2, 3
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = 1e-3, outputscale
    X = torch.tensor([[0.0], [1.0]], dtype=DOUBLE)
    model = LaplacePreferenceGP(
        X,
        torch.tensor([[0, 1]] * wins),
        likelihood=lapsing(noise, rate, tie_threshold=threshold),
        covar_module=kernel,
    ).eval()
    prior = 2 * outputscale
    unit = math.sqrt(2 * noise)

    def moment(power: int) -> float:
        def integrand(t: float) -> float:
            z = (t * math.sqrt(prior) - threshold) / unit
            win = rate / 2 + (1 - rate) * float(stats.norm.cdf(z))
            return t**power * win**wins * float(stats.norm.pdf(t))

        return integrate.quad(integrand, -12, 12, epsabs=1e-13)[0]

    mass, first, second = map(moment, range(3))
    truth = prior * (second / mass - (first / mass) ** 2)
    with torch.no_grad():
        variance = float(model.duel_posterior(X[:1], X[1:]).variance)
    assert truth > prior
    assert variance == pytest.approx(truth, rel=(prior / noise) ** 2)


def surprised(kind: str) -> EPPreferenceGP:
    """Makes answers in a circle, most of which are surprises."""
    generator = torch.Generator().manual_seed(1)
    points = torch.rand(6, 1, generator=generator).double()
    pairs = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0], [0, 2]])
    prior = LogNormalPrior(0.0, 1.0)
    threshold = torch.tensor(0.1, dtype=DOUBLE) if kind == "ties" else None
    law = lapsing(
        0.02,
        0.05,
        noise_prior=prior,
        tie_threshold=threshold,
        tie_threshold_prior=None if threshold is None else prior,
    )
    ties = torch.tensor([[0, 5], [2, 4]]) if kind == "ties" else None
    counts = torch.tensor([3, 1, 1, 1, 1, 1, 2]) if kind == "counts" else None
    blocks: list[Any] = [Comparisons(pairs, ties, pair_counts=counts)]
    if kind == "choices":
        sets = torch.tensor([[0, 2, 4], [1, 3, 5]])
        blocks.append(Choices(sets, torch.tensor([0, 3])))
    return EPPreferenceGP(points, feedback=blocks, likelihood=law).eval()


@in_turn("kind", ["duels", "counts", "ties", "choices"])
def test_the_evidence_of_surprises_has_the_gradient_of_its_values(kind: str) -> None:
    """A row that keeps the variance of its cavity moves it with all parameters."""
    model = surprised(kind)
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradient = torch.autograd.grad(model.log_evidence(), parameters)
    solution: Any = model.solution()
    assert bool((solution.sites.precision == 0).any())

    def moved(parameter: Tensor, step: float) -> float:
        parameter += step
        value = float(model.log_evidence())
        parameter -= step
        return value

    step = 1e-3
    with torch.no_grad():
        for parameter, slope in zip(parameters, gradient, strict=True):
            ends = moved(parameter, step), moved(parameter, -step)
            want = (ends[0] - ends[1]) / (2 * step)
            assert float(slope) == pytest.approx(want, rel=1e-4, abs=1e-4)


def test_answers_about_copies_of_points_are_about_the_points() -> None:
    points = torch.rand(4, 1, generator=torch.Generator().manual_seed(0)).double()
    once = torch.tensor([[0, 1], [2, 0], [3, 1]])
    again = torch.tensor([[4, 5], [6, 4]])
    copied = torch.cat([points, points[:3]])
    counted = Comparisons(once, pair_counts=torch.tensor([2, 2, 1]))
    models = [
        EPPreferenceGP(
            copied_points,
            feedback=[answers],
            likelihood=LapsingProbitLikelihood().double(),
        )
        for copied_points, answers in (
            (copied, Comparisons(torch.cat([once, again]))),
            (points, counted),
        )
    ]
    with torch.no_grad():
        copies, counts = (model.log_evidence() for model in models)
        moments: Any = [model.posterior(points) for model in models]
    torch.testing.assert_close(copies, counts)
    torch.testing.assert_close(moments[0].mean, moments[1].mean)


@in_turn("rate", [1e-9, 1e-4, 0.01, 0.03, 0.1, 0.4, 0.95])
def test_entropies_whatever_the_rate(rate: float) -> None:
    link = lapsing(0.5, rate).link
    u = torch.linspace(-12, 12, 4_001, dtype=DOUBLE)
    p = rate / 2 + (1 - rate) * stats.norm.cdf(u.numpy())
    want = stats.entropy([p, stats.norm.cdf(-u.numpy()) * (1 - rate) + rate / 2])
    got = link.expected_entropy(u, torch.zeros_like(u)).detach().numpy()
    assert abs(got - want).max() <= 4e-6


@in_turn("rate", [0.0, 1.0, -0.1, math.nan])
def test_a_rate_that_is_no_probability_is_refused(rate: float) -> None:
    with pytest.raises(FeedbackError, match="lapse_rate holds"):
        LapsingProbitLikelihood(lapse_rate=rate)


def test_rates_of_a_batch_are_refused() -> None:
    with pytest.raises(FeedbackError, match="one number for all"):
        LapsingProbitLikelihood(lapse_rate=torch.tensor([0.1, 0.2]))  # type: ignore[arg-type]


def test_what_lacks_a_tie_threshold_goes_by_its_own_name() -> None:
    law, tie = LapsingProbitLikelihood(), Comparisons(None, torch.tensor([[0, 1]]))
    with pytest.raises(FeedbackError, match="=LapsingProbitLikelihood"):
        law.factors(tie, 2)
    with pytest.raises(FeedbackError, match="This LapsingProbitLikelihood"):
        law.tie_threshold = 0.1


def test_choices_keep_a_likelihood_of_their_own() -> None:
    points = torch.rand(3, 1, generator=torch.Generator().manual_seed(0)).double()
    model = EPPreferenceGP(
        points,
        torch.tensor([[0, 1]]),
        feedback=[Choices(torch.tensor([[0, 1, 2]]), torch.tensor([2]))],
        likelihood=LapsingProbitLikelihood(),
    )
    assert type(model.likelihoods["Choices"]) is PairwiseProbitLikelihood
    with torch.no_grad():
        posterior: Any = model.posterior(points[2:])
    assert float(posterior.mean) > 0


def test_a_loaded_rate_is_seen() -> None:
    """It is a buffer of the likelihood, no parameter."""
    points = torch.linspace(0, 1, 4, dtype=DOUBLE).unsqueeze(-1)
    pairs = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0]])
    model, loaded = (
        EPPreferenceGP(points, pairs, likelihood=lapsing(0.3, rate)).eval()
        for rate in (0.02, 0.5)
    )
    expected = loaded.posterior(points).mean
    assert (model.posterior(points).mean - expected).abs().max() > 0.1
    model.load_state_dict(loaded.state_dict())
    torch.testing.assert_close(model.posterior(points).mean, expected)


def test_an_assigned_rate_is_checked_and_used() -> None:
    likelihood = lapsing(0.3, 0.05)
    for rate, words in ((0.0, "holds"), (1.5, "holds"), ("often", "a number")):
        with pytest.raises(FeedbackError, match=f"lapse_rate.*{words}"):
            likelihood.lapse_rate = rate
    assert float(likelihood.lapse_rate) == pytest.approx(0.05)
    likelihood.lapse_rate = 0.2
    # Equals win by half, and the surest winner by all but half of the lapses.
    mean = torch.tensor([0.0, 100.0], dtype=DOUBLE)
    win = likelihood.link.win_probability(mean, torch.zeros_like(mean))
    torch.testing.assert_close(win, mean.new_tensor([0.5, 0.9]))
    assert likelihood.lapse_rate.dtype == DOUBLE
