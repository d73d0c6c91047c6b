"""Thompson sampling of duels."""

import copy

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_pref.acquisition import DuelingThompson
from botorch_pref.models import EPPreferenceGP, SkewPreferenceGP

X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def challengers(count: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(count, 1, 2, generator=generator, dtype=torch.double)


def draw(model: Model, seed: int) -> DuelingThompson:
    return DuelingThompson(model, X_REF, generator=torch.Generator().manual_seed(seed))


def test_one_instance_is_one_function(model: Model) -> None:
    X = challengers()
    acquisition = draw(model, 1)
    value = acquisition(X)
    assert torch.equal(acquisition(X), value)
    torch.testing.assert_close(acquisition(X[2:4]), value[2:4])
    # The same function twice, but for the rounding of two shapes of products.
    at_reference = float(acquisition(X_REF.unsqueeze(0)).detach())
    assert at_reference == pytest.approx(0.0, abs=1e-12)
    assert torch.equal(copy.deepcopy(acquisition)(X), value)


def test_the_generator_decides_and_the_global_one_is_left_alone(model: Model) -> None:
    X = challengers()
    state = torch.get_rng_state()
    first, same, other = (draw(model, seed)(X) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, same)
    assert not torch.allclose(first, other, atol=1e-3)


def test_points_chosen_jointly_have_the_draws_of_a_batch_chosen_one_by_one(
    model: Model,
) -> None:
    X = challengers().view(3, 2, 2)
    joint = draw(model, 1)
    value = joint(X)
    first, second = draw(model, 1), draw(model, 1)
    second.set_X_pending(X_REF + 0.1)
    expected = 0.5 * (first(X[:, :1]) + second(X[:, 1:]))
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(joint(X[:, :1]), first(X[:, :1]))
    torch.testing.assert_close(copy.deepcopy(joint)(X), value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [EPPreferenceGP, SkewPreferenceGP])
def test_how_often_a_draw_prefers_the_challenger_is_its_probability(
    kind: type[Model],
) -> None:
    """Over functions; the Skew model's probability is a mixture's."""
    X, num_draws = challengers(4), 100
    model = kind(challengers(8).squeeze(-2), torch.arange(8).view(4, 2)).eval()
    with torch.no_grad():
        wins = torch.stack([draw(model, seed)(X) > 0 for seed in range(num_draws)])
        samples = model.posterior(torch.cat([X, X_REF.expand(4, 1, 2)], dim=-2))
        with manual_seed(0):
            joint = samples.rsample(torch.Size([20_000])).squeeze(-1)
    probability = (joint[..., 0] > joint[..., 1]).double().mean(0)
    error = (wins.double().mean(0) - probability).abs()
    # Five standard errors of num_draws answers.
    assert bool((error < 5 * (0.25 / num_draws) ** 0.5).all())


def test_gradient_matches_finite_differences(model: Model) -> None:
    X = challengers(3).requires_grad_()
    assert torch.autograd.gradcheck(draw(model, 4), X, eps=1e-6, atol=1e-6)


def test_a_batch_of_models_draws_a_function_each() -> None:
    generator = torch.Generator().manual_seed(2)
    X = torch.rand(2, 4, 2, generator=generator, dtype=torch.double)
    pairs = torch.tensor([[[2, 0], [2, 1]], [[0, 1], [0, 2]]])
    acquisition = draw(SkewPreferenceGP(X, pairs, num_draws=64), 0)
    values = acquisition(challengers(5).unsqueeze(-3))
    assert values.shape == (5, 2)
    assert not torch.allclose(values[:, 0], values[:, 1], atol=1e-3)


def test_botorch_models_with_paths_of_their_own() -> None:
    X = challengers(8).squeeze(-2)
    model = SingleTaskGP(X, (6 * X).sin().sum(-1, keepdim=True))
    assert bool(draw(model, 0)(challengers()).isfinite().all())
