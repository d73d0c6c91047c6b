"""Several new points and pending points, against every duel on its own."""

import math
from itertools import combinations

import pytest
import torch
from acquisition.contract.closed_forms import CLOSE, X_REF, each, points
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from entries import Acquisition
from gpytorch.distributions import MultivariateNormal
from linear_operator import to_linear_operator
from torch import Tensor

from botorch_pref.acquisition import DuelingEUBO
from botorch_pref.likelihoods import ProbitLink
from botorch_pref.models.predictions import awaiting_answers


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
    value = acquisition(new[:, :1])
    torch.testing.assert_close(value, torch.stack(across[:2]).mean(0), **CLOSE)


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
    value = acquisition(new[:, :1])
    torch.testing.assert_close(value, torch.stack(across[:3]).mean(0), **CLOSE)


class Answered(Model):
    """A Gaussian model that expects the answers to duels of every two options."""

    num_outputs = 1

    def __init__(self, model: Model, options: Tensor) -> None:
        super().__init__()
        self.model, self.options = model, options
        self.likelihood = model.likelihood

    def posterior(self, X: Tensor, **_: object) -> GPyTorchPosterior:
        q, options = X.shape[-2], self.options.expand(*X.shape[:-2], -1, -1)
        joint = self.model.posterior(torch.cat([X, options], dim=-2))
        places = torch.arange(q, q + len(self.options)).view(-1, 2)
        after = awaiting_answers(joint, ProbitLink(1.0), *places.unbind(-1))
        covariance = after.distribution.covariance_matrix[..., :q, :q]
        mean = after.mean.squeeze(-1)[..., :q]
        return GPyTorchPosterior(
            MultivariateNormal(mean, to_linear_operator(covariance))
        )


@each(pairs=True)
def test_open_questions_count_by_their_answers(
    kind: Acquisition, gaussian_model: Model
) -> None:
    """Of every two pending points, in order; a last one is of the same question."""
    new, pending, last = points(4, 2), points(4, seed=8), points(1, seed=9)
    after = Answered(gaussian_model, pending)
    acquisition = kind(gaussian_model)
    acquisition.set_X_pending(pending)
    torch.testing.assert_close(acquisition(new), kind(after)(new), **CLOSE)
    acquisition.set_X_pending(torch.cat([pending, last]))
    expected = kind(after)
    expected.set_X_pending(last)
    torch.testing.assert_close(acquisition(new), expected(new), **CLOSE)
    acquisition.set_X_pending(pending[[2, 3, 1, 0]])
    torch.testing.assert_close(acquisition(new), kind(after)(new), **CLOSE)


@each(pairs=True)
def test_the_same_question_is_worth_less_while_it_is_open(
    kind: Acquisition, model: Model
) -> None:
    """Less still with two answers to come; but where no answer changes the choice."""
    acquisition = kind.cls(model)
    for pair in points(4, 2):
        values = []
        for times in (0, 1, 2):
            acquisition.set_X_pending(pair.repeat(times, 1) if times else None)
            values.append(acquisition(pair).detach())
        falls = -torch.cat(values).diff()
        worth = f"a question with 0, 1 and 2 answers to come is worth {values}"
        falling = falls > (1e-3 if kind.level else -1e-12)
        assert bool(falling.all()), f"{worth}, not less each time"
        falls_first = float(falls[0]) > 1e-3 or float(values[0]) < 1e-2
        assert falls_first, f"{worth}, with one as much as without"


def test_answers_without_a_link_are_free_of_noise(linear_utility) -> None:
    """Half a normal distribution has 1 - 2 / pi of its variance."""
    x = torch.tensor([[[0.2], [0.8]]], dtype=torch.double)
    acquisition = DuelingEUBO(linear_utility(torch.zeros(1, 1, dtype=torch.double)))
    alone = acquisition(x)
    assert float(alone) == pytest.approx(0.6 / math.sqrt(2 * math.pi))
    acquisition.set_X_pending(x[0])
    deviation = math.sqrt(1 - 2 / math.pi)
    torch.testing.assert_close(acquisition(x), deviation * alone)


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
