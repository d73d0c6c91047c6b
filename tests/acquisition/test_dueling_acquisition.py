"""What BALD, EUBO and KG share: two new points, or one against the reference."""

from collections.abc import Callable

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models import PairwiseGP
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_pref.acquisition import DuelingBALD, DuelingEUBO, DuelingKG
from botorch_pref.acquisition.observed_points import observed_points
from botorch_pref.likelihoods import PairwiseProbitLikelihood
from botorch_pref.models import EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP


def knowledge(model: Model, X_ref: Tensor | None = None) -> DuelingKG:
    """With a bad choice that most duels improve on: elsewhere most are worth 0."""
    bad = torch.full_like(observed_points(model)[..., :1, :], 0.95)
    return DuelingKG(model, X_ref, choices=bad)


X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
CLASSES = [DuelingBALD, DuelingEUBO, knowledge]


def points(*shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, 2, generator=generator, dtype=torch.double)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_order_of_the_pair_does_not_matter(kind: Callable, model: Model) -> None:
    X = points(6, 2)
    acquisition = kind(model)
    torch.testing.assert_close(acquisition(X.flip(-2)), acquisition(X))


@pytest.mark.parametrize("kind", CLASSES)
def test_gradient_matches_finite_differences(kind: Callable, model: Model) -> None:
    pair, challenger = points(3, 2).requires_grad_(), points(3, 1).requires_grad_()
    tolerances = {"eps": 1e-5, "atol": 1e-5, "rtol": 1e-4}
    assert torch.autograd.gradcheck(kind(model), pair, **tolerances)
    assert torch.autograd.gradcheck(kind(model, X_REF), challenger, **tolerances)


@pytest.mark.parametrize("kind", CLASSES)
def test_nothing_is_sampled(kind: Callable, model: Model) -> None:
    X = points(6, 2)
    acquisition = kind(model)
    value, state = acquisition(X), torch.get_rng_state()
    assert torch.equal(acquisition(X), value)
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(acquisition(X[2:4]), value[2:4])


@pytest.mark.parametrize("kind", CLASSES)
def test_a_point_and_itself_have_finite_gradients(kind: Callable, model: Model) -> None:
    X = X_REF.expand(1, 2, 2).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kind(model)(X).sum(), X)
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("kind", CLASSES)
def test_pairs_of_a_batch_of_models(kind: Callable) -> None:
    """Gaussian models: nothing is sampled, so that both ways agree to rounding."""
    pairs = torch.tensor([[[2, 0], [2, 1], [3, 1]], [[0, 1], [0, 2], [3, 2]]])
    datapoints, X = points(2, 4), points(5, 2)
    likelihood = PairwiseProbitLikelihood(noise=0.5)
    batch = EPPreferenceGP(datapoints, pairs, likelihood=likelihood)
    together = kind(batch)(X.unsqueeze(-3))
    assert together.shape == (5, 2)
    for i in range(2):
        alone = EPPreferenceGP(datapoints[i], pairs[i], likelihood=likelihood)
        torch.testing.assert_close(together[:, i], kind(alone)(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_ensemble_is_worth_the_mean_of_its_members(kind: Callable) -> None:
    """It makes the batch itself, of models that have seen the same points."""
    pairs = torch.tensor([[[2, 0], [2, 1], [3, 1]], [[0, 1], [0, 2], [3, 2]]])
    X = points(5, 2)
    batch = EPPreferenceGP(points(4).expand(2, 4, 2), pairs)
    together = kind(batch)(X.unsqueeze(-3))
    plain = batch.posterior
    batch._is_ensemble = True
    batch.posterior = lambda X, **options: plain(X.unsqueeze(-3), **options)
    torch.testing.assert_close(kind(batch)(X), together.mean(-1))


@pytest.mark.parametrize("kind", [DuelingBALD, DuelingKG])
def test_a_point_without_an_opponent_tells_nothing(
    kind: Callable, model: Model
) -> None:
    with pytest.raises(UnsupportedError, match="two points to compare"):
        kind(model)(points(4, 1))


def test_an_option_without_an_opponent_is_worth_its_utility(model: Model) -> None:
    X = points(4, 1)
    expected = model.posterior(X).mean.flatten()
    torch.testing.assert_close(DuelingEUBO(model)(X), expected)


@pytest.mark.parametrize("kind", CLASSES)
def test_several_references_are_refused(kind: Callable, model: Model) -> None:
    with pytest.raises(ValueError, match="one reference point"):
        kind(model, points(3))


def line_model(kind: type[Model]) -> Model:
    """One input; the best is near 0.3, and little is known beyond 0.7."""
    X = torch.tensor([[0.05], [0.2], [0.4], [0.6], [0.7]], dtype=torch.double)
    comparisons = torch.tensor([[1, 0], [2, 0], [2, 3], [1, 3], [3, 4]])
    model = kind(X, comparisons)
    model.covar_module.base_kernel.lengthscale = 0.2
    model.covar_module.outputscale = 4.0
    if kind is PairwiseGP:
        model._update(model.transform_inputs(model.datapoints))
    return model.eval()


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(
    "model_kind", [PairwiseGP, LaplacePreferenceGP, EPPreferenceGP, SkewPreferenceGP]
)
def test_optimize_acqf_finds_what_a_dense_grid_finds(
    kind: Callable, model_kind: type[Model]
) -> None:
    model = line_model(model_kind)
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    line = torch.linspace(0, 1, 81, dtype=torch.double).unsqueeze(-1)
    challengers = line.unsqueeze(-2)
    first, second = torch.triu_indices(81, 81, offset=1)
    pairs = torch.stack([line[first], line[second]], dim=-2)
    for acquisition, grid in (
        (kind(model, line[24]), challengers),
        (kind(model), pairs),
    ):
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
