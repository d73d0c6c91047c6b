"""Gradients, copies of points, and what optimisers find."""

import pytest
import torch
from acquisition.contract.closed_forms import BOUNDS, CLOSED, X_REF, each, points
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from entries import Acquisition
from registry import ACQUISITIONS

from botorch_pref.acquisition import (
    DuelingEUBO,
)
from botorch_pref.models import EPPreferenceGP, SkewPreferenceGP


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


@each(pairs=True)
def test_pairs_are_chosen_beside_pending_ones(kind: Acquisition) -> None:
    """The next pair, chosen while the first one is open, is another one."""
    pairs = torch.tensor([[2, 0], [2, 1], [3, 1]])
    acquisition = kind(EPPreferenceGP(points(4), pairs))
    options = {"num_restarts": 2, "raw_samples": 32}
    with manual_seed(0):
        first, _ = optimize_acqf(acquisition, BOUNDS, q=2, **options)
        acquisition.set_X_pending(first)
        second, value = optimize_acqf(acquisition, BOUNDS, q=2, **options)
    same, swapped = (second - first).norm(), (second - first.flip(0)).norm()
    assert min(float(same), float(swapped)) > 0.1
    assert float(value) > float(acquisition(first).detach())


@each()
def test_challengers_chosen_one_by_one(kind: Acquisition) -> None:
    pairs = torch.tensor([[2, 0], [2, 1], [3, 1]])
    acquisition = kind(EPPreferenceGP(points(4), pairs), X_REF)
    with manual_seed(0):
        chosen, _ = optimize_acqf(
            acquisition, BOUNDS, q=3, num_restarts=2, raw_samples=32, sequential=True
        )
    distances = torch.cdist(chosen, chosen) + torch.eye(3)
    assert float(distances.min()) > 1e-2
    assert acquisition.X_pending is None


def test_options_chosen_one_by_one_begin_with_the_largest_mean() -> None:
    model = EPPreferenceGP(points(4), torch.tensor([[2, 0], [2, 1], [3, 1]]))
    with manual_seed(0):
        chosen, _ = optimize_acqf(
            DuelingEUBO(model),
            BOUNDS,
            q=2,
            num_restarts=4,
            raw_samples=64,
            sequential=True,
        )
    with torch.no_grad():
        means = model.posterior(points(2_000, seed=9)).mean
        best = float(model.posterior(chosen[:1]).mean.squeeze())
    assert best >= float(means.amax()) - 1e-6
    assert float(torch.dist(*chosen)) > 1e-2


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
        assert bool(value.isfinite().all())
        assert bool(gradient.isfinite().all())


def line_model(kind: type[Model]) -> Model:
    """One input; the best is near 0.3, and little is known beyond 0.7."""
    X = torch.tensor([[0.05], [0.2], [0.4], [0.6], [0.7]], dtype=torch.double)
    comparisons = torch.tensor([[1, 0], [2, 0], [2, 3], [1, 3], [3, 4]])
    model = kind(X, comparisons)
    model.covar_module.base_kernel.lengthscale = 0.2
    model.covar_module.outputscale = 4.0
    return model.eval()


@each()
@pytest.mark.parametrize("model_kind", [EPPreferenceGP, SkewPreferenceGP])
def test_optimize_acqf_finds_what_a_dense_grid_finds(
    kind: Acquisition, model_kind: type[Model]
) -> None:
    model = line_model(model_kind)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    line = torch.linspace(0, 1, 81, dtype=torch.double).unsqueeze(-1)
    challengers = line.unsqueeze(-2)
    first, second = torch.triu_indices(81, 81, offset=1)
    pairs = torch.stack([line[first], line[second]], dim=-2)
    # Choices of the registry are in the square.
    own = {k: v[:1, :1] for k, v in kind.options.items() if torch.is_tensor(v)}
    cases = [(kind(model, line[24], **own), challengers)]
    if kind.pairs:
        cases.append((kind(model, **own), pairs))
    for acquisition, grid in cases:
        with torch.no_grad():
            on_grid, index = acquisition(grid).max(0)
        with manual_seed(0):
            best, value = optimize_acqf(
                acquisition,
                bounds,
                q=grid.shape[-2],
                num_restarts=4,
                raw_samples=32,
            )
        assert best.dtype == torch.double
        # No worse than the grid but for where L-BFGS stops, and above it by no more
        # than what a function gains within half a step, 1 / 160, around its maximum.
        assert float(value) >= float(on_grid) - 1e-5
        assert float(value) == pytest.approx(float(on_grid), rel=0.01)
        found, expected = best.sort(0).values, grid[index]
        torch.testing.assert_close(found, expected, rtol=0.0, atol=0.02)
