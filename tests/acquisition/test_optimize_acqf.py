"""Every acquisition function on every model, through BoTorch's optimiser."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from draws import global_states
from entries import Acquisition
from registry import ACQUISITIONS, ENGINES
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref import (
    DuelingUCB,
    EPPreferenceGP,
    FeasibilityWeighted,
    FullyBayesianEPPreferenceGP,
    PlackettLuceRegression,
    SkewPreferenceGP,
    Validity,
)

DOUBLE = torch.float64
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
X_REF = torch.tensor([[0.55, 0.35]], dtype=DOUBLE)
POINTS = SobolEngine(2, scramble=True, seed=1).draw(16, dtype=DOUBLE)
_UTILITY = -(POINTS - 0.6).square().sum(-1).view(-1, 2)
_PAIRS = torch.arange(16).view(-1, 2)
PAIRS = torch.where((_UTILITY[:, 0] > _UTILITY[:, 1])[:, None], _PAIRS, _PAIRS.flip(-1))


def process(cls: Any, **options: Any) -> Model:
    model = cls(POINTS, PAIRS, **options)
    model.covar_module.outputscale = 4.0
    model.covar_module.base_kernel.lengthscale = 0.5
    return model.eval()


def ensemble() -> Model:
    model = FullyBayesianEPPreferenceGP(POINTS, PAIRS)
    factors = torch.tensor([0.8, 1.0, 1.3], dtype=DOUBLE)
    samples = {
        name: value.detach() * factors.reshape(-1, *[1] * value.dim())
        for name, value in process(EPPreferenceGP).named_parameters()
    }
    model.load_mcmc_samples(samples)
    return model.eval()


MODELS: dict[type, Callable[[], Model]] = {
    **{
        cls: partial(process, cls, **ENGINES[cls].with_draws(64).options)
        for cls in (EPPreferenceGP, SkewPreferenceGP)
    },
    PlackettLuceRegression: lambda: PlackettLuceRegression(POINTS, PAIRS),
    FullyBayesianEPPreferenceGP: ensemble,
}


@cache
def model_of(cls: type, device: str = "cpu") -> Model:
    """Makes a model once: functions of many kinds look at the same posterior."""
    return MODELS[cls]().to(device)


class Case(NamedTuple):
    """Acquisition function: how it is built, and how many points it chooses."""

    build: Callable[[Model, Tensor], AcquisitionFunction]
    q: int = 1


def of(entry: Acquisition) -> Callable[[Model, Tensor], AcquisitionFunction]:
    def build(model: Model, x_ref: Tensor) -> AcquisitionFunction:
        generator = torch.Generator().manual_seed(5)
        arguments: dict[str, Any] = {"generator": generator} if entry.drawn else {}
        arguments |= points_on(entry, x_ref.device)
        return entry(model, x_ref, **arguments).to(x_ref.device)

    return build


def pair(entry: Acquisition) -> Callable[[Model, Tensor], AcquisitionFunction]:
    return lambda model, x_ref: entry(model, **points_on(entry, x_ref.device)).to(
        x_ref.device
    )


def points_on(entry: Acquisition, device: torch.device) -> dict[str, Any]:
    """Lists points among the arguments of an acquisition function, on a device."""
    options = entry.options.items()
    return {name: v.to(device) for name, v in options if isinstance(v, Tensor)}


def weighted(model: Model, x_ref: Tensor) -> AcquisitionFunction:
    valid = Validity(torch.arange(16), POINTS.sum(-1) < 1.2)
    feasibility = EPPreferenceGP(POINTS, feedback=[valid]).to(x_ref.device)
    return FeasibilityWeighted(DuelingUCB(model, x_ref), feasibility)


CASES = {
    **{name: Case(of(entry)) for name, entry in ACQUISITIONS.items()},
    **{
        f"{name}, pair": Case(pair(entry), q=2)
        for name, entry in ACQUISITIONS.items()
        if entry.pairs
    },
    "FeasibilityWeighted": Case(weighted),
}


def starts(q: int) -> Tensor:
    """Draws starts of the optimiser, ``3 x q x 2``; BoTorch would draw them."""
    return SobolEngine(2 * q, scramble=True, seed=2).draw(3, dtype=DOUBLE).view(3, q, 2)


def optimised(q: int, acqf: AcquisitionFunction, device: str) -> tuple[Tensor, Tensor]:
    return optimize_acqf(
        acqf,
        bounds=BOUNDS.to(device),
        q=q,
        num_restarts=3,
        batch_initial_conditions=starts(q).to(device),
        options={"maxiter": 5},
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_optimised(case: Case, model: type) -> None:
    before = global_states()
    acqf = case.build(model_of(model), X_REF)
    with torch.no_grad():
        first = acqf(starts(case.q))
        values = [acqf(start) for start in starts(case.q).unsqueeze(1)]
    assert bool(first.isfinite().all())
    torch.testing.assert_close(torch.cat(values), first, rtol=1e-6, atol=1e-9)
    candidates, value = optimised(case.q, acqf, "cpu")
    assert global_states() == before, "a search drew from a global generator"
    assert bool(((candidates >= BOUNDS[0]) & (candidates <= BOUNDS[1])).all())
    # Of where it started and of what it says of where it ended.
    assert value.item() >= first.max().item() - 1e-9
    with torch.no_grad():
        torch.testing.assert_close(acqf(candidates).view(()), value.view(()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no GPU.")
@pytest.mark.parametrize("model", MODELS, ids=lambda cls: cls.__name__)
def test_a_gpu_finds_the_same(model: type) -> None:
    others = {}
    for name, case in CASES.items():
        results = []
        for device in ("cpu", "cuda"):
            acqf = case.build(model_of(model, device), X_REF.to(device))
            with torch.no_grad():
                values = acqf(starts(case.q).to(device)).cpu()
            _, value = optimised(case.q, acqf, device)
            assert value.item() >= values.max().item() - 1e-9, (
                f"{name} on {device} ends below its best start"
            )
            results.append(values)
        if name.startswith("DuelingHB") or model is SkewPreferenceGP:
            # Their draws are other ones on another device.
            continue
        if not torch.allclose(results[1], results[0], rtol=1e-4, atol=1e-6):
            others[name] = [values.tolist() for values in results]
    assert not others, f"values on the CPU and on the GPU differ: {others}"
