"""Every cell of the table of engines and feedback, against brute force."""

import itertools
import math
from typing import Any

import pytest
import torch
from entries import Cell
from models.cell_models import (
    UNLIKELY,
    build,
    each_cell,
    each_engine,
    takes,
)
from registry import CELLS, ENGINES
from torch import Tensor
from truths.answers import (
    CHOICES,
    PAIRS,
    POINTS,
    RANKINGS,
)
from truths.slopes import central_slopes

from botorch_pref import (
    Choices,
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    LapsingProbitLikelihood,
    OrdinalRatings,
    PairwiseLogitLikelihood,
    PlackettLuceLikelihood,
    Rankings,
    RaoKupperLikelihood,
    Ratings,
    SkewPreferenceGP,
    Strengths,
    Validity,
    VariationalPreferenceGP,
)
from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.models import PreferenceGP

Truth = tuple[Tensor, Tensor, Tensor]


_KNOWN: dict[tuple[Any, ...], Truth] = {}


def truth(model: PreferenceGP, cells: list[Cell]) -> Truth:
    """Computes mean, covariance and log evidence, once for engines of one prior."""
    mean = model.mean_module(POINTS).detach()
    covariance = model.covar_module(POINTS).to_dense().detach()
    moments = mean.numpy().tobytes(), covariance.numpy().tobytes()
    key = (*moments, *map(id, cells))
    if key not in _KNOWN:
        _KNOWN[key] = by_importance_sampling(mean, covariance, cells)
    return _KNOWN[key]


def by_importance_sampling(mean: Tensor, covariance: Tensor, cells: Any) -> Truth:
    """Samples from the prior, then from a Gaussian of twice the covariance found."""
    prior = torch.distributions.MultivariateNormal(mean, covariance)
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


def check(engine: type[PreferenceGP], cells: list[Cell]) -> None:
    model = build(engine, cells)
    check_model(model, truth(model, cells))


def check_model(model: PreferenceGP, expected: Truth) -> None:
    engine = type(model)
    mean, covariance, evidence = expected
    with torch.no_grad():
        posterior = model.posterior(POINTS)
        got = float(model.log_evidence())
    apart, nats = (ENGINES[engine].deviations, ENGINES[engine].nats)
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
    able = [candidate.__name__ for candidate in ENGINES if takes(candidate, cell)]
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
    for name, parameter in model.named_parameters():
        want = central_slopes(model.log_evidence, parameter, 1e-3)
        torch.testing.assert_close(
            parameter.grad,
            want,
            rtol=2e-5,
            atol=5e-6,
            msg=lambda m, n=name: f"{n}: {m}",
        )


BOXED = (Comparisons, Validity, OrdinalRatings, Choices, Rankings)
MIXED = (Comparisons, Validity, OrdinalRatings, Strengths, Ratings)


@pytest.mark.parametrize(
    ("engine", "kinds"),
    [
        (EPPreferenceGP, BOXED),
        (SkewPreferenceGP, BOXED),
        (EPPreferenceGP, MIXED),
        (LaplacePreferenceGP, MIXED),
    ],
)
def test_one_model_takes_answers_of_many_kinds_at_once(engine, kinds) -> None:
    """Boxed ones and smooth ones; of comparisons those with ties."""
    cells = [
        cell
        for cell in CELLS
        if type(cell.feedback) in kinds
        and takes(engine, cell)
        and not isinstance(
            cell.likelihood(),
            LapsingProbitLikelihood
            | PairwiseLogitLikelihood
            | PlackettLuceLikelihood
            | RaoKupperLikelihood,
        )
    ]
    assert {type(cell.feedback) for cell in cells} == set(kinds)
    check(engine, cells)


@pytest.mark.parametrize("engine", [EPPreferenceGP, LaplacePreferenceGP])
def test_answers_that_the_others_hold_for_unlikely(engine) -> None:
    """Their sites have negative precisions."""
    check(engine, UNLIKELY)
    model = build(engine, UNLIKELY)
    assert bool((model.solution().sites.precision < 0).any())


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


# --- What a model of softmax answers does by default


def test_softmax_and_logistic_likelihoods_are_the_bounds_own() -> None:
    model = VariationalPreferenceGP(POINTS, PAIRS, feedback=[CHOICES, RANKINGS])
    assert type(model.likelihoods["Comparisons"]) is PairwiseLogitLikelihood
    assert type(model.likelihoods["Choices"]) is PlackettLuceLikelihood
    assert model.likelihoods["Rankings"] is model.likelihoods["Choices"]


def test_a_ranking_is_its_stages() -> None:
    ranked = VariationalPreferenceGP(
        POINTS, feedback=[Rankings(torch.tensor([[3, 1, 0]]))]
    )
    staged = VariationalPreferenceGP(
        POINTS,
        torch.tensor([[1, 0]]),
        feedback=[Choices(torch.tensor([[0, 3, 1]]), torch.tensor([3]))],
    )
    torch.testing.assert_close(
        ranked.posterior(POINTS).mean, staged.posterior(POINTS).mean
    )
    torch.testing.assert_close(ranked.log_evidence(), staged.log_evidence())


@pytest.mark.slow
def test_answers_of_any_two_kinds_of_factors_fit_in_one_model() -> None:
    """Under the most accurate of the engines that take both."""
    one_each = {
        type(cell.likelihood()).explains[type(cell.feedback)]: cell
        for cell in reversed(CELLS)
    }
    assert len(one_each) == 8
    for cells in itertools.combinations(one_each.values(), 2):
        if type(cells[0].feedback) is type(cells[1].feedback):
            continue
        able = [engine for engine in ENGINES if all(takes(engine, c) for c in cells)]
        if able:
            check(min(able, key=lambda engine: ENGINES[engine].deviations), cells)
