"""Acquisition functions kept to points that are probably valid."""

import pytest
import torch
from botorch.acquisition import AcquisitionFunction, LogExpectedImprovement
from botorch.models.model import Model
from botorch.optim import optimize_acqf

from botorch_pref import (
    AffineProbitLikelihood,
    DuelingBALD,
    DuelingEIIG,
    DuelingUCB,
    EPPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
)
from botorch_pref.acquisition import ChanceConstrained
from botorch_pref.models.predictions import (
    log_validity_probability,
)

DOUBLE = torch.float64
X_REF = torch.tensor([[0.4, 0.4]], dtype=DOUBLE)
POINTS = torch.rand(300, 1, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(4))


@pytest.fixture
def utility() -> Model:
    """More of the first coordinate is better."""
    X = torch.tensor([[0.4, 0.4], [0.9, 0.5], [0.1, 0.2]], dtype=DOUBLE)
    return EPPreferenceGP(X, torch.tensor([[1, 0], [0, 2]])).eval()


@pytest.fixture
def feasibility() -> Model:
    """Trials fail where the first coordinate is large."""
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(20, 2, generator=generator, dtype=DOUBLE)
    model = EPPreferenceGP(
        X,
        feedback=[Validity(torch.arange(20), X[:, 0] < 0.6)],
        likelihood=AffineProbitLikelihood(0.1),
    )
    model.covar_module.base_kernel.lengthscale = 0.5
    model.covar_module.outputscale = 4.0
    return model.eval()


def functions(model: Model) -> list[AcquisitionFunction]:
    return [
        DuelingUCB(model, X_REF),
        DuelingEIIG(model, X_REF, k=0.3),
        LogExpectedImprovement(model, best_f=0.5),
    ]


def test_safe_points_keep_their_order_and_beat_all_others(
    utility: Model, feasibility: Model
) -> None:
    with torch.no_grad():
        valid = log_validity_probability(feasibility, POINTS).squeeze(-1).exp()
        # Past the slope, which ends three tenths of the way to certainty.
        safe, unsafe = valid >= 0.8**0.7, valid < 0.8
        assert 20 < safe.sum() < 280
        for function in functions(utility):
            value, plain = (
                ChanceConstrained(function, feasibility, 0.8)(POINTS),
                function(POINTS),
            )
            order = plain[safe].argsort()
            assert (value[safe][order].diff() >= 0).all()
            assert value[safe].min() > 0 > value[unsafe].max()
            # Of the others, the one that is most likely to be valid is best.
            assert value[unsafe].argmax() == valid[unsafe].argmax()


def test_the_largest_promise_is_refused_where_it_is_likely_to_fail(
    utility: Model, feasibility: Model
) -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
    plain = DuelingUCB(utility, X_REF)
    torch.manual_seed(0)
    found = {
        name: optimize_acqf(function, bounds, q=1, num_restarts=4, raw_samples=64)[0]
        for name, function in [
            ("free", plain),
            ("safe", ChanceConstrained(plain, feasibility, 0.95)),
        ]
    }
    with torch.no_grad():
        valid = {
            name: log_validity_probability(feasibility, x).exp().item()
            for name, x in found.items()
        }
        assert valid["free"] < 0.5
        assert valid["safe"] >= 0.95
        # A fine grid knows no better safe point.
        grid = torch.cartesian_prod(*[torch.linspace(0, 1, 41, dtype=DOUBLE)] * 2)
        constrained = ChanceConstrained(plain, feasibility, 0.95)
        best = constrained(grid.unsqueeze(-2)).max()
        assert constrained(found["safe"]) >= best - 0.02 * best.abs()


def test_of_several_points_the_least_likely_one_counts(
    utility: Model, feasibility: Model
) -> None:
    pairs = torch.stack([POINTS[:150, 0], POINTS[150:, 0]], dim=-2)
    with torch.no_grad():
        least = log_validity_probability(feasibility, pairs).amin(-1).exp()
        value = ChanceConstrained(DuelingBALD(utility), feasibility, 0.7)(pairs)
    assert ((value > 0) == (least >= 0.7)).all()


def test_values_go_to_zero_from_below_and_have_gradients(
    utility: Model, feasibility: Model
) -> None:
    X = POINTS[:50].clone().requires_grad_(True)
    value = ChanceConstrained(DuelingUCB(utility, X_REF), feasibility, 0.8)(X)
    (slope,) = torch.autograd.grad(value.sum(), X)
    assert slope.isfinite().all()
    with torch.no_grad():
        log_valid = log_validity_probability(feasibility, POINTS[:50]).squeeze(-1)
    unsafe = value < 0
    expected = log_valid - torch.tensor(0.8, dtype=DOUBLE).log()
    assert torch.allclose(value.detach()[unsafe], expected[unsafe])


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, float("nan")])
def test_impossible_levels(utility: Model, feasibility: Model, level: float) -> None:
    with pytest.raises(ValueError, match=r"level is .*; give the least probability"):
        ChanceConstrained(DuelingUCB(utility, X_REF), feasibility, level)


def test_a_model_without_validity_is_refused(utility: Model) -> None:
    acquisition = ChanceConstrained(DuelingUCB(utility, X_REF), utility)
    with pytest.raises(UnsupportedFeedbackError):
        acquisition(POINTS)


def test_pending_points_are_handed_on(utility: Model, feasibility: Model) -> None:
    inner = DuelingBALD(utility)
    acquisition = ChanceConstrained(inner, feasibility)
    acquisition.set_X_pending(POINTS[0])
    assert torch.equal(inner.X_pending, POINTS[0])
    assert torch.equal(acquisition.X_pending, POINTS[0])
