"""Quick sweeps of expectation propagation only say where its iteration starts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from draws import normal
from torch import Tensor

from botorch_pref.feedback import Comparisons, Feedback, Ratings
from botorch_pref.inference import ep
from botorch_pref.inference.engine import in_double
from botorch_pref.inference.ep import approach
from botorch_pref.likelihoods import (
    BetaRatingLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    RaoKupperLikelihood,
)
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg import SparseDesign
from botorch_pref.models import EPPreferenceGP

LIKELIHOODS = {
    "probit": lambda: PairwiseProbitLikelihood(0.3),
    "little noise": lambda: PairwiseProbitLikelihood(1e-6),
    "probit with ties": lambda: PairwiseProbitLikelihood(0.3, 0.2),
    "logit": PairwiseLogitLikelihood,
    "Rao and Kupper": RaoKupperLikelihood,
}


def duels(name: str, seed: int) -> EPPreferenceGP:
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(20, 2, generator=generator, dtype=torch.float64)
    pairs = torch.rand(30, 20, generator=generator).argsort(-1)[:, :2]
    ties = pairs[:8] if "ties" in name or "Rao" in name else None
    answers = Comparisons(pairs[8:], ties=ties)
    return EPPreferenceGP(points, answers, likelihood=LIKELIHOODS[name]())


def solved(model: EPPreferenceGP) -> tuple[Tensor, Tensor, int]:
    """Sites and evidence of the engine from nothing, and the sweeps they took."""
    with torch.no_grad():
        found = model.engine.solve(model.prior(), model.factors())
    return torch.cat(found.sites), found.log_evidence, found.iterations


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_they_lead_to_the_fixed_point_of_the_checked_iteration(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = duels(name, 0)
    quick, evidence, _ = solved(model)
    monkeypatch.setattr(ep, "MOST_ROWS", 0)
    checked, expected, _ = solved(model)
    # Both stop at 1e-7 posterior deviations; sites are larger than one by their noise.
    torch.testing.assert_close(quick, checked, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(evidence, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("wrong", ["far", "negative", "lost", "not finite"])
def test_where_they_mislead_the_iteration_still_arrives(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = duels("probit", 1)
    monkeypatch.setattr(ep, "MOST_ROWS", 0)
    expected, evidence, _ = solved(model)
    misled = {
        "far": expected * 1e3,
        "negative": -expected,
        "lost": None,
        "not finite": expected * torch.nan,
    }[wrong]
    monkeypatch.setattr(ep, "MOST_ROWS", 256)
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
    found = approach(covar, np.zeros(2), ep._matching(factors), sites)
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


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_they_arrive_by_themselves(name: str) -> None:
    """Else they would only cost time, and no posterior would tell."""
    model = duels(name, 3)
    with torch.no_grad():
        factors = model.factors()
        # A mean that differences see, unlike a constant.
        prior = model.prior()._replace(mean=torch.linspace(-2, 1, 20).double())
        expected = torch.cat(model.engine.solve(prior, factors).sites)
        covar = factors.rows.congruence(prior.covar).numpy()
        mean = factors.rows.apply(prior.mean).numpy()
        start = torch.cat(model.engine.initial_sites(factors)).numpy()
        found, _ = approach(covar, mean, ep._matching(factors), start)
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
