"""Several new points and pending points, against every duel on its own."""

from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_pref.acquisition import (
    DuelingBALD,
    DuelingEIIG,
    DuelingEUBO,
    DuelingHBEI,
    DuelingKG,
    DuelingMUC,
    DuelingUCB,
)
from botorch_pref.acquisition.dueling_acquisition import DuelingAcquisition
from botorch_pref.acquisition.observed_points import observed_points
from botorch_pref.models import EPPreferenceGP


def knowledge(model: Model, X_ref: Tensor | None = None) -> DuelingKG:
    """With a bad choice that most duels improve on: elsewhere most are worth 0."""
    bad = torch.full_like(observed_points(model)[..., :1, :], 0.95)
    return DuelingKG(model, X_ref, choices=bad)


X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
PAIR_KINDS = [DuelingBALD, DuelingEUBO, knowledge]
CHALLENGER_KINDS = [DuelingBALD, DuelingEIIG, knowledge, DuelingMUC, DuelingUCB]
# Differences of utilities near each other lose digits of the covariance.
CLOSE = {"rtol": 1e-6, "atol": 1e-7}


def points(*shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, 2, generator=generator, dtype=torch.double)


def pair_value(kind: Callable, model: Model, x: Tensor, y: Tensor) -> Tensor:
    return kind(model)(torch.stack([x, y], dim=-2))


def challenge(kind: Callable, model: Model, x: Tensor, y: Tensor) -> Tensor:
    return kind(model, y.unsqueeze(-2))(x.unsqueeze(-2))


@pytest.mark.parametrize("kind", PAIR_KINDS)
def test_options_are_worth_the_mean_of_their_duels(
    kind: Callable, model: Model
) -> None:
    new, pending = points(4, 3), points(2, seed=8)
    waiting = [p.expand(4, 2) for p in pending]
    among = [pair_value(kind, model, *xy) for xy in combinations(new.unbind(-2), 2)]
    across = [pair_value(kind, model, x, y) for x in new.unbind(-2) for y in waiting]
    acquisition = kind(model)
    torch.testing.assert_close(acquisition(new), torch.stack(among).mean(0), **CLOSE)
    acquisition.set_X_pending(pending)
    everything = torch.stack(among + across).mean(0)
    torch.testing.assert_close(acquisition(new), everything, **CLOSE)
    one = acquisition(new[:, :1])
    torch.testing.assert_close(one, torch.stack(across[:2]).mean(0), **CLOSE)


@pytest.mark.parametrize("kind", CHALLENGER_KINDS)
def test_challengers_meet_the_reference_each_other_and_pending_points(
    kind: Callable, model: Model
) -> None:
    new, pending = points(4, 3), points(2, seed=8)
    opponents = [p.expand(4, 2) for p in (*X_REF, *pending)]
    among = [
        0.5 * (challenge(kind, model, x, y) + challenge(kind, model, y, x))
        for x, y in combinations(new.unbind(-2), 2)
    ]
    across = [challenge(kind, model, x, y) for x in new.unbind(-2) for y in opponents]
    acquisition = kind(model, X_REF)
    acquisition.set_X_pending(pending)
    expected = torch.stack(among + across).mean(0)
    torch.testing.assert_close(acquisition(new), expected, **CLOSE)
    one = acquisition(new[:, :1])
    torch.testing.assert_close(one, torch.stack(across[:3]).mean(0), **CLOSE)


def test_utilities_of_challengers_are_counted_from_the_reference(model: Model) -> None:
    new, pending = points(4, 2), points(1, seed=8)
    opponents = torch.cat([new, X_REF.expand(4, 1, 2)], dim=-2)
    everything = DuelingEUBO(model)
    everything.set_X_pending(pending)
    against = DuelingEUBO(model, X_REF)
    against.set_X_pending(pending)
    # All duels of three points with a pending one, but for that of the reference.
    total = 6 * everything(opponents) - everything(X_REF.expand(4, 1, 2))
    level = model.posterior(X_REF).mean.squeeze()
    torch.testing.assert_close(against(new), total / 5 - level, **CLOSE)


@pytest.mark.parametrize("kind", [*CHALLENGER_KINDS, DuelingEUBO])
def test_the_order_of_points_does_not_matter(kind: Callable, model: Model) -> None:
    new, pending = points(4, 3), points(2, seed=8)
    acquisition = kind(model, X_REF)
    acquisition.set_X_pending(pending)
    value = acquisition(new)
    torch.testing.assert_close(acquisition(new[:, [2, 0, 1]]), value, **CLOSE)
    acquisition.set_X_pending(pending.flip(0))
    torch.testing.assert_close(acquisition(new), value, **CLOSE)


@pytest.mark.parametrize("kind", [*CHALLENGER_KINDS, DuelingEUBO])
def test_gradients_match_finite_differences(kind: Callable, model: Model) -> None:
    acquisition = kind(model, X_REF)
    acquisition.set_X_pending(points(1, seed=8))
    new = points(2, 2, seed=5).requires_grad_()
    assert torch.autograd.gradcheck(acquisition, new, eps=1e-5, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", [*CHALLENGER_KINDS, DuelingEUBO, DuelingHBEI])
def test_copies_of_points_have_finite_values_and_gradients(
    kind: Callable, model: Model
) -> None:
    """Optimisers meet them at bounds and at restarts from the incumbent."""
    acquisition = kind(model, X_REF)
    acquisition.set_X_pending(X_REF)
    new = X_REF.expand(1, 2, 2).clone().requires_grad_()
    value = acquisition(new)
    (gradient,) = torch.autograd.grad(value.sum(), new)
    assert bool(value.isfinite().all())
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("kind", CHALLENGER_KINDS)
def test_batches_of_models(kind: Callable) -> None:
    pairs = torch.tensor([[[2, 0], [2, 1], [3, 1]], [[0, 1], [0, 2], [3, 2]]])
    datapoints, new, pending = points(2, 4), points(5, 2), points(1, seed=8)

    def value(model: Model, X: Tensor) -> Tensor:
        acquisition: DuelingAcquisition = kind(model, X_REF)
        acquisition.set_X_pending(pending)
        return acquisition(X)

    together = value(EPPreferenceGP(datapoints, pairs), new.unsqueeze(-3))
    assert together.shape == (5, 2)
    for i in range(2):
        alone = value(EPPreferenceGP(datapoints[i], pairs[i]), new)
        torch.testing.assert_close(together[:, i], alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [DuelingEUBO, DuelingKG])
def test_pairs_are_chosen_beside_pending_ones(kind: Callable) -> None:
    """The next pair, chosen with the first one pending, is another one."""
    pairs = torch.tensor([[2, 0], [2, 1], [3, 1]])
    acquisition = kind(EPPreferenceGP(points(4), pairs))
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    options = {"num_restarts": 2, "raw_samples": 32}
    with manual_seed(0):
        first, _ = optimize_acqf(acquisition, bounds, q=2, **options)
        acquisition.set_X_pending(first)
        second, value = optimize_acqf(acquisition, bounds, q=2, **options)
    assert bool((torch.cdist(first, second) > 1e-2).all())
    assert float(value) > float(acquisition(first).detach())


@pytest.mark.parametrize("kind", [*CHALLENGER_KINDS, DuelingEUBO])
def test_challengers_chosen_one_by_one(kind: Callable) -> None:
    pairs = torch.tensor([[2, 0], [2, 1], [3, 1]])
    acquisition = kind(EPPreferenceGP(points(4), pairs), X_REF)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    with manual_seed(0):
        chosen, _ = optimize_acqf(
            acquisition, bounds, q=3, num_restarts=2, raw_samples=32, sequential=True
        )
    distances = torch.cdist(chosen, chosen) + torch.eye(3)
    assert float(distances.min()) > 1e-2
    assert acquisition.X_pending is None


def test_options_chosen_one_by_one_begin_with_the_largest_mean() -> None:
    model = EPPreferenceGP(points(4), torch.tensor([[2, 0], [2, 1], [3, 1]]))
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    with manual_seed(0):
        chosen, _ = optimize_acqf(
            DuelingEUBO(model),
            bounds,
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
