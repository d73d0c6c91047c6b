"""Several new points and pending points, against every duel on its own."""

from itertools import combinations

import torch
from acquisition.contract.closed_forms import CLOSE, X_REF, each, points
from botorch.models.model import Model
from entries import Acquisition
from torch import Tensor

from botorch_pref.acquisition import (
    DuelingEUBO,
)


def pair_value(kind: Acquisition, model: Model, x: Tensor, y: Tensor) -> Tensor:
    return kind(model)(torch.stack([x, y], dim=-2))


def challenge(kind: Acquisition, model: Model, x: Tensor, y: Tensor) -> Tensor:
    return kind(model, y.unsqueeze(-2))(x.unsqueeze(-2))


@each(pairs=True, level=False)
def test_options_are_worth_the_mean_of_their_duels(
    kind: Acquisition, model: Model
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


@each(level=False)
def test_challengers_meet_the_reference_each_other_and_pending_points(
    kind: Acquisition, model: Model
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


@each()
def test_the_order_of_points_does_not_matter(kind: Acquisition, model: Model) -> None:
    new, pending = points(4, 3), points(2, seed=8)
    acquisition = kind(model, X_REF)
    acquisition.set_X_pending(pending)
    value = acquisition(new)
    torch.testing.assert_close(acquisition(new[:, [2, 0, 1]]), value, **CLOSE)
    acquisition.set_X_pending(pending.flip(0))
    torch.testing.assert_close(acquisition(new), value, **CLOSE)


@each()
def test_one_reference_for_each_challenger(kind: Acquisition, model: Model) -> None:
    X = points(4, 2)
    together = kind(model, X[:, 1:])(X[:, :1])
    apart = [kind(model, x[1:])(x[:1]) for x in X]
    torch.testing.assert_close(together, torch.cat(apart))
