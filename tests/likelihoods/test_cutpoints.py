"""Cut points of ordinal levels."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from cases import in_turn
from gpytorch.priors import NormalPrior
from truths.answer_probabilities import CUTPOINTS

from botorch_pref import EPPreferenceGP, PreferenceMarginalLogLikelihood
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation import predictive_log_probability
from botorch_pref.feedback import OrdinalRatings
from botorch_pref.likelihoods import OrdinalProbitLikelihood
from botorch_pref.likelihoods.factors import joint_factors


def test_a_level_is_as_wide_as_its_gap_far_from_zero() -> None:
    """Where the cut points are equal but for rounding, alone and among others."""
    likelihood = OrdinalProbitLikelihood(3).double()
    gap = 1e-9
    raw = torch.tensor([1e8, math.log(gap)], dtype=torch.float64)
    likelihood.initialize(raw_cutpoints=raw)
    rating = likelihood.factors(
        OrdinalRatings(torch.tensor([0]), torch.tensor([1]), 3), 1
    )
    two = joint_factors([rating, rating], groups_of=lambda *_, **__: None)
    for factors in (rating, two):
        z = torch.full((factors.rows.num_rows,), 1e8, dtype=torch.float64)
        want = math.log(gap / math.sqrt(2 * math.pi))
        assert factors.log_prob(z).value.tolist() == pytest.approx([want] * len(z))


def test_cutpoints_are_set_read_and_kept_in_order() -> None:
    likelihood = OrdinalProbitLikelihood(4).double()
    assert likelihood.raw_cutpoints.requires_grad
    # A normal of twice the noise's deviation is in each level alike.
    share = torch.special.ndtr(likelihood.cutpoints / 2)
    torch.testing.assert_close(share, torch.tensor([0.25, 0.5, 0.75]).double())
    likelihood.cutpoints = torch.tensor(CUTPOINTS)
    assert likelihood.cutpoints.tolist() == pytest.approx(CUTPOINTS, rel=1e-6)
    likelihood.initialize(raw_cutpoints=torch.tensor([3.0, -20.0, 4.0]).double())
    assert bool((likelihood.cutpoints.diff() > 0).all())
    for wrong in ([0.0, 0.0, 1.0], [1.0, 0.0, 2.0], [0.0, math.nan, 1.0]):
        with pytest.raises(FeedbackError, match="must be finite and increase"):
            likelihood.cutpoints = torch.tensor(wrong)
    with pytest.raises(FeedbackError, match="4 levels have 3 cut points, got 2"):
        likelihood.cutpoints = torch.tensor([0.0, 1.0])
    with pytest.raises(FeedbackError, match="at least 2"):
        OrdinalProbitLikelihood()
    ratings = OrdinalRatings(torch.tensor([0]), torch.tensor([1]), 3)
    with pytest.raises(FeedbackError, match=r"3 levels.*OrdinalProbitLikelihood\(3\)"):
        likelihood.factors(ratings, 2)


def test_repeated_ratings_pull_at_a_cut_point_of_zero() -> None:
    """A cut point that rises by one says what all utilities do that fall by one."""
    ratings = OrdinalRatings(torch.tensor([0, 0, 1, 1]), torch.tensor([1, 0, 1, 1]), 2)
    likelihood = OrdinalProbitLikelihood(2).double()
    assert likelihood.cutpoints.tolist() == [0.0]
    z, s = torch.tensor([[0.3, -0.2], [1.0, 2.0]]).double()
    factors: Any = joint_factors([likelihood.factors(ratings, 2)])
    for derivatives in (factors.log_prob(z), factors.log_partition(z, s)):
        (slope,) = torch.autograd.grad(
            derivatives.value.sum(), likelihood.raw_cutpoints, retain_graph=True
        )
        assert slope.item() == pytest.approx(-derivatives.first.sum().item(), rel=1e-9)


def test_probabilities_of_levels_have_derivatives_in_the_spread() -> None:
    r"""Of the middle one :math:`[c \phi(c) - d \phi(d)] / 2 v` for :math:`v = 1`."""
    cutpoints = torch.tensor([-0.5, 1.0], dtype=torch.float64)
    likelihood = OrdinalProbitLikelihood(cutpoints=cutpoints, noise=0.4).double()
    likelihood.raw_noise.requires_grad_(True)
    variance = torch.tensor([0.6], dtype=torch.float64, requires_grad=True)
    middle = likelihood.level_probabilities(torch.zeros(1).double(), variance)[0, 1]
    slopes = torch.autograd.grad(middle, [variance, likelihood.raw_noise])
    density = torch.exp(-0.5 * cutpoints.square()) / math.sqrt(2 * math.pi)
    first, second = (cutpoints * density).tolist()
    assert float(slopes[0]) == pytest.approx((first - second) / 2, rel=1e-9)
    assert bool(slopes[1].isfinite())


def test_a_prior_sees_the_cutpoints_themselves() -> None:
    prior = NormalPrior(0.0, 2.0)
    likelihood = OrdinalProbitLikelihood(
        cutpoints=torch.tensor(CUTPOINTS), cutpoints_prior=prior
    )
    ((_, module, registered, closure, setting),) = likelihood.named_priors()
    assert registered is prior
    assert closure(module).tolist() == pytest.approx(CUTPOINTS, rel=1e-6)
    setting(module, torch.tensor([0.0, 1.0, 3.0]))
    assert likelihood.cutpoints.tolist() == pytest.approx([0.0, 1.0, 3.0], abs=1e-6)


@in_turn("num_levels", [5.5, 5.0, True, "5", 1, 0, -3])
def test_levels_that_cannot_be_counted_are_refused(num_levels: Any) -> None:
    with pytest.raises(FeedbackError, match=r"num_levels is .* at least 2"):
        OrdinalProbitLikelihood(num_levels)
    with pytest.raises(FeedbackError, match=r"num_levels is .* at least 2"):
        OrdinalProbitLikelihood(num_levels, cutpoints=torch.arange(4.0))


def test_levels_may_be_counted_by_numpy() -> None:
    assert OrdinalProbitLikelihood(np.int64(5)).num_levels == 5


def test_levels_that_nobody_used_keep_a_width() -> None:
    """Ratings from 1 to 10 by the rounded deciles of a normal, of 15 points."""
    generator = torch.Generator().manual_seed(2)
    x = torch.rand(400, 2, generator=generator, dtype=torch.float64)
    values = 1.5 - 8 * (x - 0.6).square().sum(-1)
    values += 0.25 * torch.randn(400, generator=generator, dtype=torch.float64)
    levels = (10 * torch.special.ndtr(values)).long()
    first_ratings = OrdinalRatings(torch.arange(15), levels[:15], 10)
    assert len(levels[:15].unique()) < 9
    model = EPPreferenceGP(x[:15], feedback=[first_ratings])
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    test_ratings = OrdinalRatings(torch.arange(15, 400), levels[15:], 10)
    loss = -predictive_log_probability(test_ratings, model, x).mean()
    # All levels alike lose 2.3 nats, and cut points without a prior here 5 and more.
    assert loss < 2
