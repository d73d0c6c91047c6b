"""Quick sweeps only say where an engine's sweeps start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from draws import normal
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.feedback import Comparisons, Feedback, Ratings
from botorch_pref.inference import ExpectationPropagation, sweeps
from botorch_pref.inference.engine import UtilityPrior, in_double
from botorch_pref.inference.solvers import choose_solver
from botorch_pref.inference.sweeps import (
    HalfLines,
    LapsingLines,
    NoQuickSweep,
    QuickSweeps,
    fixed_point,
)
from botorch_pref.likelihoods import (
    BetaRatingLikelihood,
    LapsingProbitLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    RaoKupperLikelihood,
)
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.likelihoods.lapses import LapsingBoxes, LapsingFactors
from botorch_pref.linalg import SparseDesign
from botorch_pref.models import EPPreferenceGP, PreferenceGP

LIKELIHOODS = {
    "probit": lambda: PairwiseProbitLikelihood(0.3),
    "little noise": lambda: PairwiseProbitLikelihood(1e-6),
    "probit with ties": lambda: PairwiseProbitLikelihood(0.3, 0.2),
    "logit": PairwiseLogitLikelihood,
    "Rao and Kupper": RaoKupperLikelihood,
    "lapses": lambda: LapsingProbitLikelihood(0.3, lapse_rate=0.1),
}


def duels(name: str, seed: int) -> PreferenceGP:
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(40, 2, generator=generator, dtype=torch.float64)
    pairs = torch.rand(30, 40, generator=generator).argsort(-1)[:, :2]
    ties = pairs[:8] if "ties" in name or "Rao" in name else None
    answers = Comparisons(pairs[8:], ties=ties)
    return EPPreferenceGP(points, answers, likelihood=LIKELIHOODS[name]())


def prior_of(model: PreferenceGP) -> UtilityPrior:
    """Makes a prior with a mean that differences see, unlike a constant."""
    with torch.no_grad():
        prior = model.prior()
    return prior._replace(mean=torch.linspace(-2, 1, len(prior.mean)).double())


def solved(model: PreferenceGP) -> tuple[Tensor, Tensor]:
    """Solves for sites and evidence of the engine, from nothing."""
    engine = ExpectationPropagation()
    with torch.no_grad():
        solution = engine.solve(prior_of(model), model.factors())
    return torch.cat(solution.sites), solution.log_evidence


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_they_lead_to_the_fixed_point_of_checked_sweeps(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = duels(name, 0)
    quick, evidence = solved(model)
    monkeypatch.setattr(sweeps, "MOST_ROWS", 0)
    checked, expected = solved(model)
    # Both stop at 1e-7 posterior deviations; sites are larger than one by their noise.
    torch.testing.assert_close(quick, checked, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(evidence, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("factor", [1e3, -1.0, torch.nan, None])
def test_where_they_mislead_the_checked_sweeps_still_arrive(
    factor: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They end far off, at negative or no numbers, or with an error."""
    model = duels("probit", 1)
    expected, evidence = solved(model)
    call = QuickSweeps.__call__

    def misleading(quick: QuickSweeps, sites: np.ndarray) -> sweeps.QuickSweep:
        if factor is None:
            raise NoQuickSweep
        sweep = call(quick, sites)
        wrong = {"sites": factor * expected.numpy(), "mismatch": np.float64(0)}
        return replace(sweep, step=0 * sweep.step, **wrong)

    monkeypatch.setattr(QuickSweeps, "__call__", misleading)
    sites, value = solved(model)
    torch.testing.assert_close(sites, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(value, evidence, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("site", "error"), [(1e4, PrecisionError), (torch.nan, NoQuickSweep)]
)
@pytest.mark.parametrize(
    "likelihood", [BetaRatingLikelihood(), PairwiseProbitLikelihood()]
)
def test_they_refuse_sites_that_leave_no_gaussian(
    likelihood, site: float, error: type[Exception]
) -> None:
    answers: dict[type, Feedback] = {
        BetaRatingLikelihood: Ratings(torch.tensor([0, 1]), torch.tensor([0.2, 0.7])),
        PairwiseProbitLikelihood: Comparisons(torch.tensor([[0, 1], [1, 0]])),
    }
    factors = in_double(likelihood.factors(answers[type(likelihood)], 2))
    # Rounding, exaggerated: the eigenvalue -0.01.
    covar = torch.tensor([[1.0, 1.01], [1.01, 1.0]]).double()
    quick_sweeps = QuickSweeps(covar.numpy(), np.zeros(2), sweeps._tilted(factors))
    with pytest.raises(error):
        quick_sweeps(np.full(4, site))


def test_half_lines_have_the_slopes_of_boxes() -> None:
    draws = normal(4, 400, seed=2)
    mean, end = 10 * draws[0], draws[1]
    variance, noise = (2 * draws[2]).exp(), (2 * draws[3]).exp()
    above = torch.arange(400) % 3 > 0
    infinity = torch.full_like(end, torch.inf)
    rows = SparseDesign(torch.zeros(400, 1).long(), torch.ones(400, 1).double(), 1)
    boxes = BoxFactors(
        rows,
        noise,
        torch.where(above, end, -infinity),
        torch.where(above, infinity, end),
    )
    lines = HalfLines.from_factors(boxes)
    assert lines is not None
    first, bend = map(torch.from_numpy, lines.slopes(mean.numpy(), variance.numpy()))
    tilted = boxes.tilted(mean, variance)
    torch.testing.assert_close(first, tilted.first, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(-bend, tilted.second, rtol=1e-7, atol=1e-9)
    first, bend = map(torch.from_numpy, lines.slopes(mean.numpy(), 0.0))
    log_prob = boxes.log_prob(mean)
    torch.testing.assert_close(first, log_prob.first, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(-bend, log_prob.second, rtol=1e-7, atol=1e-9)
    guess = 0.3 * torch.rand(400, generator=torch.Generator().manual_seed(3)).double()
    factors = LapsingFactors(LapsingBoxes(boxes, guess, 1 - 2 * guess))
    lapsing = LapsingLines.from_factors(factors)
    assert lapsing is not None
    first, bend = map(torch.from_numpy, lapsing.slopes(mean.numpy(), variance.numpy()))
    tilted = factors.tilted(mean, variance)
    torch.testing.assert_close(first, tilted.first, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(-bend, tilted.second, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_they_arrive_by_themselves(name: str) -> None:
    """Else they would only cost time, and no posterior would tell."""
    model = duels(name, 3)
    with torch.no_grad():
        factors: Any = model.factors()
        prior = prior_of(model)
        expected = torch.cat(ExpectationPropagation().solve(prior, factors).sites)
        solver = choose_solver(prior.covar, factors.rows)
        quick = QuickSweeps.from_problem(
            solver, factors.rows.apply(prior.mean), factors
        )
        assert quick is not None
        start = torch.cat(model.engine.initial_sites(factors)).numpy()
        sweep, _ = fixed_point(
            quick, quick(start), solver, tolerance=1e-7, max_iterations=200, memory=4
        )
    assert sweep.residual <= 1e-7
    np.testing.assert_allclose(sweep.sites, expected, rtol=1e-4, atol=1e-5)
