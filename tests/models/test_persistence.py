"""Copies, state dicts, devices, precision and random numbers."""

import copy
import io
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import InputTransform, Normalize, Warp
from registry import ENGINES
from torch import Tensor

from botorch_pref import (
    Comparisons,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)

DOUBLE = torch.float64
OURS = {cls: entry.with_draws(128).options for cls, entry in ENGINES.items()}


def points(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 30 * torch.rand(count, 2, generator=generator, dtype=DOUBLE) - 7


def answers(x: Tensor) -> Tensor:
    """Neighbours are compared; the larger sum wins."""
    pairs = torch.arange(len(x)).view(-1, 2)
    lost = x.sum(-1)[pairs[:, 0]] < x.sum(-1)[pairs[:, 1]]
    return torch.where(lost[:, None], pairs.flip(-1), pairs)


X, NEW = points(20), points(5, seed=1)


def build(cls: Any, x: Tensor = X, **options: Any) -> Any:
    own = OURS[cls] | options
    return cls(x, answers(x), input_transform=Normalize(2), **own)


def newly_fitted(cls: Any) -> Any:
    model = build(cls)
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 5}})
    return model


_FITTED: dict[Any, Any] = {}


def fitted(cls: Any) -> Any:
    """A copy, for tests that change it, of a model that is fitted once."""
    if cls not in _FITTED:
        _FITTED[cls] = newly_fitted(cls)
    return copy.deepcopy(_FITTED[cls])


def moments(model: Any, x: Tensor = NEW) -> tuple[Tensor, Tensor]:
    posterior = model.posterior(x)
    return posterior.mean.detach(), posterior.covariance_matrix.detach()


def through_a_file(model: Any) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def state_through_a_file(model: Any) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.fixture(params=OURS, ids=lambda cls: cls.__name__)
def cls(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), through_a_file],
    ids=["deepcopy", "pickle", "file"],
)
def test_a_copy_of_a_fitted_model_predicts_the_same_to_the_bit(
    cls: Any, clone: Callable[[Any], Any]
) -> None:
    model = fitted(cls)
    expected = moments(model)
    other = clone(model)
    torch.testing.assert_close(moments(other), expected, rtol=0, atol=0)
    torch.testing.assert_close(other.datapoints, X, rtol=0, atol=0)
    assert torch.equal(other.comparisons, model.comparisons)
    # And goes on as the other does.
    pair = torch.tensor([[0, 1]])
    both = (m.condition_on_observations(NEW[:2], pair) for m in (model, other))
    torch.testing.assert_close(*map(moments, both), rtol=0, atol=0)


def test_draws_do_not_hang_on_what_was_asked_before() -> None:
    model = fitted(SkewPreferenceGP)
    before = moments(model)
    model.covar_module.outputscale *= 1.5
    moments(model)
    model.covar_module.outputscale /= 1.5
    torch.testing.assert_close(moments(model), before, rtol=1e-12, atol=1e-12)


def test_a_state_dict_holds_no_data(cls: Any) -> None:
    """BoTorch and Ax load hyper-parameters into models of newer data."""
    model, newer = fitted(cls), points(24, seed=2)
    other = build(cls, newer)
    state = state_through_a_file(model)
    assert {name.split(".")[0] for name in state} <= {
        "covar_module",
        "mean_module",
        "likelihoods",
        "input_transform",
    }
    other.load_state_dict(state)
    torch.testing.assert_close(other.datapoints, newer, rtol=0, atol=0)
    assert torch.equal(other.comparisons, answers(newer))
    direct = build(cls, newer)
    direct.covar_module.load_state_dict(model.covar_module.state_dict())
    direct.input_transform.load_state_dict(model.input_transform.state_dict())
    torch.testing.assert_close(moments(other), moments(direct), rtol=0, atol=1e-6)


def warped(concentration: float) -> InputTransform:
    transform = Warp(2, [0, 1], bounds=torch.stack([X.amin(0), X.amax(0)]))
    transform.concentration0.data.fill_(concentration)
    return transform


def normalized(width: float) -> InputTransform:
    middle = X.mean(0)
    return Normalize(2, bounds=torch.stack([middle - width, middle + width]))


@pytest.mark.parametrize(
    ("first", "second"),
    [(warped(1.0), warped(2.0)), (normalized(20.0), normalized(60.0))],
    ids=["parameters", "buffers"],
)
def test_a_state_is_loaded_after_a_question_too(
    cls: Any, first: InputTransform, second: InputTransform
) -> None:
    own = OURS[cls]
    model = cls(X, answers(X), input_transform=copy.deepcopy(first), **own).eval()
    before, _ = moments(model)
    other = cls(X, answers(X), input_transform=copy.deepcopy(second), **own).eval()
    model.load_state_dict(other.state_dict())
    mean, covariance = moments(other)
    assert (mean - before).abs().max() > 0.01
    # Engines that start elsewhere stop within this.
    torch.testing.assert_close(moments(model), (mean, covariance), rtol=0, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no GPU.")
def test_there_and_back_between_devices(cls: Any) -> None:
    model = fitted(cls)
    expected = moments(model)
    moved = copy.deepcopy(model).to("cuda")
    on_gpu = tuple(part.cpu() for part in moments(moved, NEW.cuda()))
    back = moments(moved.cpu())
    deviation = expected[1].diagonal().max().sqrt().item()
    error = 6 * 128**-0.5 if cls is SkewPreferenceGP else 1e-6
    torch.testing.assert_close(on_gpu[0], expected[0], rtol=0, atol=error * deviation)
    error = 1e-6
    torch.testing.assert_close(back[0], expected[0], rtol=0, atol=error * deviation)


def test_seeds_are_the_only_source_of_draws() -> None:
    one, same, other = (
        moments(build(SkewPreferenceGP, seed=seed)) for seed in (3, 3, 4)
    )
    torch.testing.assert_close(one, same, rtol=0, atol=0)
    assert not torch.equal(one[0], other[0])


def global_states() -> tuple[Any, ...]:
    numpy_state = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().tolist(), list(numpy_state[1]), random.getstate()


def use(model: Any) -> list[Tensor]:
    """Everything that a model does but for drawing function values."""
    pair = torch.tensor([[0, 1]])
    conditioned = model.condition_on_observations(NEW[:2], pair)
    noisy = model.posterior(NEW, observation_noise=True)
    return [
        model.log_evidence().detach(),
        *moments(model),
        noisy.variance.detach(),
        model.duel_posterior(NEW, NEW[:1]).mean.detach(),
        model.duel_probability(NEW, NEW[:1]).detach(),
        model.duel_probability(NEW, NEW[:1], observation_noise=True).detach(),
        *moments(conditioned),
        *moments(model.set_train_data(comparisons=Comparisons(pair)) or model),
    ]


def test_global_random_numbers_are_neither_used_nor_touched(cls: Any) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = global_states()
        first = use(newly_fitted(cls))
        assert global_states() == before
        torch.manual_seed(2)
        second = use(newly_fitted(cls))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
