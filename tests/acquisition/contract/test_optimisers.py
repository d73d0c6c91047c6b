"""Gradients, copies of points, and what optimisers find."""

import pytest
import torch
from acquisition.contract.closed_forms import CLOSED, X_REF, each, points
from botorch.models.model import Model
from entries import Acquisition
from registry import ACQUISITIONS


@each()
def test_gradients_match_finite_differences(kind: Acquisition, model: Model) -> None:
    acquisition = kind(model, X_REF)
    acquisition.set_X_pending(points(1, seed=8))
    new = points(2, 2, seed=5).requires_grad_()
    assert torch.autograd.gradcheck(acquisition, new, eps=1e-5, atol=1e-5, rtol=1e-4)
    if kind.pairs:
        beside = kind(model)
        beside.set_X_pending(points(3, seed=8))
        assert torch.autograd.gradcheck(beside, new, eps=1e-5, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "kind",
    [*CLOSED.values(), ACQUISITIONS["DuelingHBEI"]],
    ids=[*CLOSED, "DuelingHBEI"],
)
def test_copies_of_points_have_finite_values_and_gradients(
    kind: Acquisition, model: Model
) -> None:
    """Optimisers meet them at BOUNDS and at restarts from the incumbent.

    Beside an open question of two options that are the same, too.
    """
    cases = [(kind(model, X_REF), X_REF)]
    if kind.pairs:
        cases += [(kind(model), None), (kind(model), X_REF.expand(2, 2))]
    for acquisition, pending in cases:
        acquisition.set_X_pending(pending)
        X = X_REF.expand(1, 2, 2).clone().requires_grad_()
        value = acquisition(X)
        (gradient,) = torch.autograd.grad(value.sum(), X)
        assert bool(value.isfinite().all()), (
            f"the value of copies of a point, {pending} pending, is {value.tolist()}"
        )
        assert bool(gradient.isfinite().all()), (
            f"the gradient at copies of a point, {pending} pending, is "
            f"{gradient.tolist()}"
        )
