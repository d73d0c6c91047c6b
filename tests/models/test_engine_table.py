"""Every cell of the table of engines and feedback, against brute force.

A new kind of feedback, likelihood or engine without an entry here fails.
"""

import inspect
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr

from botorch_pref import (
    AffineProbitLikelihood,
    BetaRatingLikelihood,
    Choices,
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    OrdinalProbitLikelihood,
    OrdinalRatings,
    PairwiseBetaLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    Rankings,
    Ratings,
    SkewPreferenceGP,
    Strengths,
    Validity,
    VariationalPreferenceGP,
)
from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Feedback
from botorch_pref.likelihoods import PreferenceLikelihood
from botorch_pref.models.preference_gp import PreferenceGP

NOISE = 0.4
POINTS = torch.tensor([[0.0], [0.35], [0.6], [1.0]], dtype=torch.float64)
PAIRS = torch.tensor([[0, 1], [2, 1], [2, 3], [0, 3], [1, 3]])
TIES = torch.tensor([[0, 2], [1, 0]])
CHOICES = Choices(
    torch.tensor([[0, 1, 2], [3, 2, 1], [0, 3, -1]]), torch.tensor([2, 1, 0])
)
RANKINGS = Rankings(torch.tensor([[2, 0, 1], [2, 1, 3], [0, 3, -1]]))


def nodes(count: int = 48) -> tuple[Tensor, Tensor]:
    """Gauss-Hermite nodes and weights of a standard normal, by Golub and Welsch."""
    off = torch.arange(1, count, dtype=torch.float64).sqrt()
    values, vectors = torch.linalg.eigh(off.diag(1) + off.diag(-1))
    return values, vectors[0].square()


def best_of(f: Tensor, winner: int, losers: list[int]) -> Tensor:
    """Log P(winner is heard as the best), integrating its own noise."""
    t, w = nodes()
    gaps = (f[:, [winner]] - f[:, losers]) / math.sqrt(NOISE)
    return (log_ndtr(gaps.unsqueeze(-1) + t).sum(-2) + w.log()).logsumexp(-1)


def middle(f: Tensor, first: int, second: int, third: int) -> Tensor:
    """Log P(first > second > third), integrating the noise of the middle one."""
    t, w = nodes()
    scale = math.sqrt(NOISE)
    above = log_ndtr((f[:, [first]] - f[:, [second]]) / scale - t)
    below = log_ndtr((f[:, [second]] - f[:, [third]]) / scale + t)
    return (above + below + w.log()).logsumexp(-1)


def duels(f: Tensor, pairs: Tensor = PAIRS) -> Tensor:
    return f[:, pairs[:, 0]] - f[:, pairs[:, 1]]


def probit_duels(f: Tensor) -> Tensor:
    wins = log_ndtr((duels(f) - 0.3) / math.sqrt(2 * NOISE))
    gap, scale = duels(f, TIES), math.sqrt(2 * NOISE)
    ties = (ndtr((0.3 - gap) / scale) - ndtr((-0.3 - gap) / scale)).log()
    return wins.sum(-1) + ties.sum(-1)


def ordinal(f: Tensor) -> Tensor:
    ends = torch.tensor([-math.inf, -0.6, 0.5, math.inf], dtype=torch.float64)
    f, levels = f[:, ORDINAL.indices], ORDINAL.levels
    upper, lower = ends[levels + 1], ends[levels]
    scale = math.sqrt(NOISE)
    return (ndtr((upper - f) / scale) - ndtr((lower - f) / scale)).log().sum(-1)


def beta(z: Tensor, y: Tensor, precision: float) -> Tensor:
    z = z / math.sqrt(2 * NOISE)
    a, b = precision * ndtr(z), precision * ndtr(-z)
    density = (a - 1) * y.log() + (b - 1) * (1 - y).log()
    return (density + math.lgamma(precision) - a.lgamma() - b.lgamma()).sum(-1)


def softmax(f: Tensor, stages: list[list[int]]) -> Tensor:
    return sum(f[:, s[0]] - f[:, s].logsumexp(-1) for s in stages)


VALIDITY = Validity(torch.tensor([0, 2, 3]), torch.tensor([True, True, False]))
ORDINAL = OrdinalRatings(torch.tensor([0, 1, 2, 3]), torch.tensor([1, 1, 2, 0]), 3)
STRENGTHS = Strengths(
    PAIRS[:4], torch.tensor([0.6, 0.8, 0.9, 0.35], dtype=torch.float64)
)
RATINGS = Ratings(
    torch.tensor([0, 1, 2, 3]),
    torch.tensor([0.6, 0.4, 0.85, 0.1], dtype=torch.float64),
)


@dataclass
class Cell:
    """Answers under a likelihood, and their log probability given utilities."""

    likelihood: Callable[[], PreferenceLikelihood[Any]]
    feedback: Feedback
    log_prob: Callable[[Tensor], Tensor]


CELLS = [
    Cell(
        lambda: PairwiseProbitLikelihood(NOISE, tie_threshold=0.3),
        Comparisons(PAIRS, TIES),
        probit_duels,
    ),
    Cell(
        PairwiseLogitLikelihood,
        Comparisons(PAIRS),
        lambda f: torch.nn.functional.logsigmoid(duels(f)).sum(-1),
    ),
    Cell(
        lambda: PairwiseProbitLikelihood(NOISE),
        CHOICES,
        lambda f: best_of(f, 2, [0, 1]) + best_of(f, 1, [3, 2]) + best_of(f, 0, [3]),
    ),
    Cell(
        lambda: PairwiseProbitLikelihood(NOISE),
        RANKINGS,
        lambda f: middle(f, 2, 0, 1) + middle(f, 2, 1, 3) + best_of(f, 0, [3]),
    ),
    Cell(
        PlackettLuceLikelihood,
        CHOICES,
        lambda f: softmax(f, [[2, 0, 1], [1, 3, 2], [0, 3]]),
    ),
    Cell(
        PlackettLuceLikelihood,
        RANKINGS,
        lambda f: softmax(f, [[2, 0, 1], [0, 1], [2, 1, 3], [1, 3], [0, 3]]),
    ),
    Cell(
        lambda: AffineProbitLikelihood(NOISE),
        VALIDITY,
        lambda f: log_ndtr(
            f[:, VALIDITY.indices] * torch.tensor([1, 1, -1]) / math.sqrt(NOISE)
        ).sum(-1),
    ),
    Cell(
        lambda: OrdinalProbitLikelihood(
            noise=NOISE, cutpoints=torch.tensor([-0.6, 0.5])
        ),
        ORDINAL,
        ordinal,
    ),
    Cell(
        lambda: PairwiseBetaLikelihood(precision=6.0, noise=NOISE),
        STRENGTHS,
        lambda f: beta(duels(f, PAIRS[:4]), STRENGTHS.strengths, 6.0),
    ),
    Cell(
        lambda: BetaRatingLikelihood(precision=6.0, noise=NOISE),
        RATINGS,
        lambda f: beta(f[:, RATINGS.indices], RATINGS.ratings, 6.0),
    ),
]

# How far mean and deviation may be from the truth, in prior deviations, and the
# evidence, in nats. The worst cells of the approximations, rounded up: Laplace is far
# off where little is known, the variational bound everywhere but for pairs. SkewGP is
# exact up to its 1,024 draws.
ENGINES: dict[type[PreferenceGP], tuple[float, float]] = {
    LaplacePreferenceGP: (0.3, 0.6),
    EPPreferenceGP: (0.02, 0.1),
    SkewPreferenceGP: (0.06, 0.1),
    VariationalPreferenceGP: (0.5, 5.0),
}


def concrete(cls: type) -> set[type]:
    below = {leaf for child in cls.__subclasses__() for leaf in concrete(child)}
    return below if inspect.isabstract(cls) else below | {cls}


def test_every_engine_feedback_and_likelihood_has_an_entry() -> None:
    assert {e for e in concrete(PreferenceGP) if hasattr(e, "takes")} == set(ENGINES)
    assert {type(cell.feedback) for cell in CELLS} == concrete(Feedback)
    explained = {
        (likelihood, kind)
        for likelihood in concrete(PreferenceLikelihood)
        for kind in likelihood.explains
    }
    assert {(type(c.likelihood()), type(c.feedback)) for c in CELLS} == explained


def build(engine: type[PreferenceGP], cells: list[Cell]) -> PreferenceGP:
    """A model whose prior is the one that :func:`truth` draws from."""
    likelihood = {type(cell.feedback): cell.likelihood().double() for cell in cells}
    model = engine(
        POINTS, feedback=[cell.feedback for cell in cells], likelihood=likelihood
    )
    model.covar_module.base_kernel.lengthscale = 0.5
    model.covar_module.outputscale = 2.0
    if hasattr(model.mean_module, "constant"):
        model.mean_module.initialize(constant=0.2)
    return model.eval()


def truth(model: PreferenceGP, cells: list[Cell]) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, covariance and log evidence by importance sampling.

    First from the prior, then from a Gaussian of twice the covariance found.
    """
    prior = model._prior(POINTS)
    prior = torch.distributions.MultivariateNormal(
        prior.mean.detach(), prior.covariance_matrix.detach()
    )
    normal = torch.special.ndtri(
        torch.quasirandom.SobolEngine(4, scramble=True, seed=3).draw(
            2**13, dtype=torch.float64
        )
    )
    proposal = prior
    for _ in range(2):
        f = proposal.mean + normal @ proposal.scale_tril.mT
        log_weights = sum(cell.log_prob(f) for cell in cells)
        log_weights = log_weights + prior.log_prob(f) - proposal.log_prob(f)
        weights = log_weights.softmax(0)
        mean = weights @ f
        covariance = (f - mean).mT @ (weights.unsqueeze(-1) * (f - mean))
        proposal = torch.distributions.MultivariateNormal(mean, 2 * covariance)
    return mean, covariance, log_weights.logsumexp(0) - math.log(len(f))


def names(cell: Cell) -> str:
    return f"{type(cell.feedback).__name__}-{type(cell.likelihood()).__name__}"


each_cell = pytest.mark.parametrize("cell", CELLS, ids=names)
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.__name__)


def takes(engine: type[PreferenceGP], cell: Cell) -> bool:
    return type(cell.likelihood()).explains[type(cell.feedback)] in engine.takes


def check(engine: type[PreferenceGP], cells: list[Cell]) -> None:
    model = build(engine, cells)
    mean, covariance, evidence = truth(model, cells)
    with torch.no_grad():
        posterior = model.posterior(POINTS)
        got = float(model.log_evidence())
    apart, nats = ENGINES[engine]
    scale = math.sqrt(2.0)
    deviation = posterior.variance.squeeze(-1).sqrt()
    error = (posterior.mean.squeeze(-1) - mean).abs() / scale
    spread = (deviation - covariance.diagonal().sqrt()).abs() / scale
    assert float(error.max()) < apart
    assert float(spread.max()) < apart
    assert abs(got - float(evidence)) < nats
    if engine is VariationalPreferenceGP:
        assert got < float(evidence)


@each_engine
@each_cell
def test_posterior_and_evidence_are_those_of_brute_force(engine, cell) -> None:
    if takes(engine, cell):
        check(engine, [cell])
        return
    able = [other.__name__ for other in ENGINES if takes(other, cell)]
    with pytest.raises(UnsupportedFeedbackError) as error:
        build(engine, [cell])
    for name in (engine.__name__, type(cell.feedback).__name__, *able):
        assert name in str(error.value)


@each_engine
@each_cell
def test_evidence_gradients_are_those_of_finite_differences(engine, cell) -> None:
    if not takes(engine, cell):
        pytest.skip("The engine does not take it.")
    model = build(engine, [cell])
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    model.log_evidence().backward()
    # The mode is found to 1e-8, which the difference divides by its step.
    step = 1e-3
    for name, parameter in model.named_parameters():
        flat = parameter.detach().view(-1)
        for i in range(flat.numel()):
            values = []
            for sign in (1, -1):
                flat[i] += sign * step
                values.append(float(model.log_evidence().detach()))
                flat[i] -= sign * step
            want = (values[0] - values[1]) / (2 * step)
            got = float(parameter.grad.view(-1)[i])
            assert got == pytest.approx(want, rel=2e-5, abs=5e-6), f"{name}[{i}]"


@pytest.mark.parametrize("engine", [EPPreferenceGP, SkewPreferenceGP])
def test_one_model_takes_every_boxed_answer_at_once(engine) -> None:
    """Comparisons, ties, validity, ordinal levels, a choice and a ranking."""
    kinds = (Comparisons, Validity, OrdinalRatings, Choices, Rankings)
    cells = [
        cell
        for cell in CELLS
        if type(cell.feedback) in kinds and takes(SkewPreferenceGP, cell)
    ]
    assert {type(cell.feedback) for cell in cells} == set(kinds)
    check(engine, cells)


@pytest.mark.parametrize("engine", [EPPreferenceGP, LaplacePreferenceGP])
def test_smooth_and_boxed_answers_fit_in_one_model(engine) -> None:
    kinds = (Comparisons, Validity, OrdinalRatings, Strengths, Ratings)
    boxed = [
        cell
        for cell in CELLS
        if type(cell.feedback) in kinds
        and not isinstance(cell.likelihood(), PairwiseLogitLikelihood)
    ]
    check(engine, boxed)


def test_every_pair_of_kinds_that_an_engine_takes_fits_in_one_model() -> None:
    for engine in ENGINES:
        able = [cell for cell in CELLS if takes(engine, cell)]
        for first, second in itertools.combinations(able, 2):
            if type(first.feedback) is not type(second.feedback):
                check(engine, [first, second])


@pytest.mark.parametrize(
    "kinds", [(Choices,), (Rankings,), (Comparisons, Choices, Rankings)]
)
def test_exact_evidence_and_its_gradient_in_noise_that_rows_share(kinds) -> None:
    """Against brute force and, for the gradient, EP, whose evidence is as close."""
    cells = [
        cell
        for cell in CELLS
        if type(cell.feedback) in kinds and takes(SkewPreferenceGP, cell)
    ]
    exact, ep = build(SkewPreferenceGP, cells), build(EPPreferenceGP, cells)
    exact.exact_evidence = True
    _, _, want = truth(exact, cells)
    for model in (exact, ep):
        for parameter in model.parameters():
            parameter.requires_grad_(True)
        model.log_evidence().backward()
    assert float(exact.log_evidence().detach()) == pytest.approx(float(want), abs=0.03)
    pairs = zip(exact.named_parameters(), ep.parameters(), strict=True)
    for (name, got), close in pairs:
        # The mean of 1,024 draws, and what EP itself misses.
        torch.testing.assert_close(
            got.grad,
            close.grad,
            rtol=0.05,
            atol=0.08,
            msg=lambda m, n=name: f"{n}: {m}",
        )
