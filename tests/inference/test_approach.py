"""Quick sweeps and steps only say where an engine's own iteration starts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from draws import normal
from torch import Tensor

from botorch_pref.feedback import Comparisons, Feedback, Ratings
from botorch_pref.inference import ep, few_answers, laplace
from botorch_pref.inference.engine import Sites, UtilityPrior, WarmStart, in_double
from botorch_pref.inference.few_answers import HalfLines, approach, approach_mode
from botorch_pref.likelihoods import (
    BetaRatingLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    RaoKupperLikelihood,
)
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg import SparseDesign
from botorch_pref.models import EPPreferenceGP, LaplacePreferenceGP, PreferenceGP

LIKELIHOODS = {
    "probit": lambda: PairwiseProbitLikelihood(0.3),
    "little noise": lambda: PairwiseProbitLikelihood(1e-6),
    "probit with ties": lambda: PairwiseProbitLikelihood(0.3, 0.2),
    "logit": PairwiseLogitLikelihood,
    "Rao and Kupper": RaoKupperLikelihood,
}


def duels(
    name: str, seed: int, kind: type[PreferenceGP] = EPPreferenceGP
) -> PreferenceGP:
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(40, 2, generator=generator, dtype=torch.float64)
    pairs = torch.rand(30, 40, generator=generator).argsort(-1)[:, :2]
    ties = pairs[:8] if "ties" in name or "Rao" in name else None
    answers = Comparisons(pairs[8:], ties=ties)
    return kind(points, answers, likelihood=LIKELIHOODS[name]())


def prior_of(model: PreferenceGP) -> UtilityPrior:
    """A prior with a mean that differences see, unlike a constant."""
    with torch.no_grad():
        prior = model.prior()
    return prior._replace(mean=torch.linspace(-2, 1, len(prior.mean)).double())


def solved(
    model: PreferenceGP, start: WarmStart | None = None
) -> tuple[Tensor, Tensor, int]:
    """Sites and evidence of the engine, from nothing, and the sweeps they took."""
    with torch.no_grad():
        found = model.engine.solve(prior_of(model), model.factors(), start)
    return torch.cat(found.sites), found.log_evidence, found.iterations


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_they_lead_to_the_fixed_point_of_the_checked_iteration(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = duels(name, 0)
    quick, evidence, _ = solved(model)
    monkeypatch.setattr(few_answers, "MOST_ROWS", 0)
    checked, expected, _ = solved(model)
    # Both stop at 1e-7 posterior deviations; sites are larger than one by their noise.
    torch.testing.assert_close(quick, checked, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(evidence, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("wrong", ["far", "negative", "lost", "not finite"])
def test_where_they_mislead_the_iteration_still_arrives(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = duels("probit", 1)
    monkeypatch.setattr(few_answers, "MOST_ROWS", 0)
    expected, evidence, _ = solved(model)
    misled = {
        "far": expected * 1e3,
        "negative": -expected,
        "lost": None,
        "not finite": expected * torch.nan,
    }[wrong]
    monkeypatch.setattr(few_answers, "MOST_ROWS", 256)
    near = None if misled is None else misled.numpy()
    monkeypatch.setattr(ep, "approach", lambda *_: (near, 3))
    sites, found, _ = solved(model)
    torch.testing.assert_close(sites, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found, evidence, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("site", [1e4, torch.nan])
@pytest.mark.parametrize(
    "likelihood", [BetaRatingLikelihood(), PairwiseProbitLikelihood()]
)
def test_they_end_where_rounding_leaves_no_gaussian(likelihood, site: float) -> None:
    answers: dict[type, Feedback] = {
        BetaRatingLikelihood: Ratings(torch.tensor([0, 1]), torch.tensor([0.2, 0.7])),
        PairwiseProbitLikelihood: Comparisons(torch.tensor([[0, 1], [1, 0]])),
    }
    factors = in_double(likelihood.factors(answers[type(likelihood)], 2))
    covar, sites = np.array([[1.0, 1.01], [1.01, 1.0]]), np.full(4, site)
    found = approach(covar, np.zeros(2), sites, ep._matching(factors), 200)
    assert found == (None, 1)


def test_sites_of_half_lines_are_those_of_tilted_moments() -> None:
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
    sites = torch.from_numpy(ep._matching(boxes)(mean.numpy(), variance.numpy()))
    expected = ep.matching_sites(mean, boxes.tilted(mean, variance))
    torch.testing.assert_close(sites, expected, rtol=1e-7, atol=1e-9)
    lines = HalfLines.of(boxes)
    assert lines is not None
    first, bend = map(torch.from_numpy, lines.slopes(mean.numpy(), 0.0))
    log_prob = boxes.log_prob(mean)
    torch.testing.assert_close(first, log_prob.first, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(-bend, log_prob.second, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_they_arrive_by_themselves(name: str) -> None:
    """Else they would only cost time, and no posterior would tell."""
    model = duels(name, 3)
    with torch.no_grad():
        factors = model.factors()
        prior = prior_of(model)
        expected = torch.cat(model.engine.solve(prior, factors).sites)
        covar = factors.rows.congruence(prior.covar).numpy()
        mean = factors.rows.apply(prior.mean).numpy()
        start = torch.cat(model.engine.initial_sites(factors)).numpy()
        found, _ = approach(covar, mean, start, ep._matching(factors), 200)
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("start", [0.0, 0.8, 1.0, 30.0])
@pytest.mark.parametrize("name", ["probit", "little noise"])
def test_newtons_quick_steps_arrive_at_the_mode(
    name: str, start: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or say that they did not, and the checked steps go from the start itself."""
    model = duels(name, 4, LaplacePreferenceGP)
    monkeypatch.setattr(few_answers, "MOST_ROWS", 0)
    expected, evidence, _ = solved(model)
    monkeypatch.setattr(few_answers, "MOST_ROWS", 256)
    with torch.no_grad():
        prior, factors = prior_of(model), in_double(model.factors())
        covar = factors.rows.congruence(prior.covar).numpy()
        mean, lines = factors.rows.apply(prior.mean).numpy(), HalfLines.of(factors)
    assert lines is not None
    sites = start * expected
    near, steps = approach_mode(
        covar, mean, sites.numpy(), lambda z: lines.slopes(z, 0.0), 100
    )
    if near is not None:
        tau, nu = expected.numpy().reshape(2, -1)
        balanced = nu - tau * (mean + covar @ near)
        np.testing.assert_allclose(near, balanced, rtol=1e-5, atol=1e-6)
    # A site that is a little off is one from hyper-parameters that are a little off.
    assert near is not None or start not in (0.8, 1.0)
    again, value, iterations = solved(model, WarmStart(Sites(*sites.chunk(2))))
    assert iterations >= steps
    torch.testing.assert_close(again, expected, rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(value, evidence, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("wrong", [1e3, -1.0])
def test_where_quick_steps_mislead_newton_still_arrives(
    wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = duels("probit", 4, LaplacePreferenceGP)
    expected, evidence, _ = solved(model)
    start = WarmStart(Sites(*expected.chunk(2)))
    forces = np.full(len(expected) // 2, wrong)
    monkeypatch.setattr(laplace, "approach_mode", lambda *_: (forces, 3))
    found, value, _ = solved(model, start)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(value, evidence, rtol=1e-11, atol=1e-11)
