"""Every acquisition function on every model, through BoTorch's optimiser."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition import (
    active_learning,
    analytic,
    logei,
    monte_carlo,
    preference,
)
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.knowledge_gradient import qKnowledgeGradient
from botorch.acquisition.objective import GenericMCObjective
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from entries import Acquisition
from registry import ACQUISITIONS, ENGINES
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref import (
    EPPreferenceGP,
    FullyBayesianEPPreferenceGP,
    PlackettLuceRegression,
    SkewPreferenceGP,
    Validity,
    acquisition,
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


def validity_model(device: torch.device) -> Model:
    valid = Validity(torch.arange(16), POINTS.sum(-1) < 1.2)
    return EPPreferenceGP(POINTS, feedback=[valid]).to(device)


MODELS: dict[type, Callable[[], Model]] = {
    **{
        cls: partial(process, cls, **entry.with_draws(64).options)
        for cls, entry in ENGINES.items()
    },
    PlackettLuceRegression: lambda: PlackettLuceRegression(POINTS, PAIRS),
    FullyBayesianEPPreferenceGP: ensemble,
}


@dataclass(frozen=True)
class Case:
    """How an acquisition function is built.

    Attributes:
        build: From a model and a reference point.
        q: How many points it chooses.
        draws: Why it draws from torch's global generator, if it does.
    """

    build: Callable[[Model, Tensor], AcquisitionFunction]
    q: int = 1
    draws: str = ""


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def sampler(count: int = 16) -> SobolQMCNormalSampler:
    return SobolQMCNormalSampler(torch.Size([count]), seed=0)


def of(entry: Acquisition) -> Callable[[Model, Tensor], AcquisitionFunction]:
    def build(model: Model, x_ref: Tensor) -> AcquisitionFunction:
        own = {"generator": generator()} if entry.drawn else {}
        return entry(model, x_ref, **own).to(x_ref.device)

    return build


def pair(entry: Acquisition) -> Callable[[Model, Tensor], AcquisitionFunction]:
    return lambda model, x_ref: entry(model).to(x_ref.device)


def weighted(model: Model, x_ref: Tensor) -> AcquisitionFunction:
    acqf = acquisition.DuelingUCB(model, x_ref)
    return acquisition.FeasibilityWeighted(acqf, validity_model(x_ref.device))


def best(model: Model, x_ref: Tensor) -> Tensor:
    # Of an ensemble, over its members.
    return model.posterior(x_ref).mean.detach().mean()


def variance_of_answers(model: Model, _: Tensor) -> AcquisitionFunction:
    probit = torch.special.ndtr
    objective = GenericMCObjective(lambda samples, X: probit(samples.squeeze(-1)))
    return active_learning.PairwiseMCPosteriorVariance(model, objective, sampler())


OURS = {
    **{name: Case(of(entry)) for name, entry in ACQUISITIONS.items()},
    **{
        f"{name}, pair": Case(pair(entry), q=2)
        for name, entry in ACQUISITIONS.items()
        if entry.pairs
    },
    "FeasibilityWeighted": Case(weighted),
}
BOTORCH = {
    "AnalyticEUBO": Case(
        lambda m, _: preference.AnalyticExpectedUtilityOfBestOption(m), q=2
    ),
    "qEUBO": Case(
        lambda m, _: preference.qExpectedUtilityOfBestOption(m, sampler=sampler()), q=3
    ),
    "qLogEI": Case(
        lambda m, x: logei.qLogExpectedImprovement(m, best(m, x), sampler()), q=2
    ),
    "qLogNEI": Case(
        lambda m, x: logei.qLogNoisyExpectedImprovement(
            m, POINTS.to(x), sampler(), prune_baseline=False
        ),
        q=2,
    ),
    "qUCB": Case(
        lambda m, _: monte_carlo.qUpperConfidenceBound(m, beta=2.0, sampler=sampler()),
        q=2,
    ),
    "qSimpleRegret": Case(
        lambda m, _: monte_carlo.qSimpleRegret(m, sampler=sampler()), q=2
    ),
    "LogEI": Case(lambda m, x: analytic.LogExpectedImprovement(m, best(m, x))),
    "PosteriorMean": Case(lambda m, _: analytic.PosteriorMean(m)),
    "PairwiseMCPosteriorVariance": Case(variance_of_answers, q=2),
    # The two points of a duel, and one for each of two fantasies.
    "qKG": Case(
        lambda m, _: qKnowledgeGradient(m, num_fantasies=None, sampler=sampler(2)), q=4
    ),
    "PathwiseThompsonSampling": Case(
        lambda m, _: PathwiseThompsonSampling(m), draws="BoTorch's paths do"
    ),
}
CASES = OURS | BOTORCH
# The one has no derivatives in the points of a fantasy, and of ensembles BoTorch's has
# one value for all t-batches.
NO_LOOK_AHEAD = (PlackettLuceRegression, FullyBayesianEPPreferenceGP)
CELLS = [
    pytest.param(case, model, id=f"{name}-{model.__name__}")
    for name, case in CASES.items()
    for model in MODELS
    if not (model in NO_LOOK_AHEAD and name == "qKG")
]


def starts(q: int) -> Tensor:
    """Where the optimiser starts, ``3 x q x 2``; BoTorch would draw them."""
    return SobolEngine(2 * q, scramble=True, seed=2).draw(3, dtype=DOUBLE).view(3, q, 2)


def optimised(
    case: Case, acqf: AcquisitionFunction, device: torch.device
) -> tuple[Tensor, Tensor]:
    return optimize_acqf(
        acqf,
        bounds=BOUNDS.to(device),
        # The fantasies of one-shot look-ahead choose points of their own.
        q=acqf.get_augmented_q_batch_size(2) - acqf.num_fantasies
        if isinstance(acqf, qKnowledgeGradient)
        else case.q,
        num_restarts=3,
        batch_initial_conditions=starts(case.q).to(device),
        options={"maxiter": 5},
    )


def global_states() -> tuple[Any, ...]:
    numpy_state = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().tolist(), list(numpy_state[1]), random.getstate()


@pytest.mark.parametrize(("case", "model"), CELLS)
def test_it_is_optimised(case: Case, model: type) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        before = global_states()
        acqf = case.build(MODELS[model](), X_REF)
        with torch.no_grad():
            first = acqf(starts(case.q))
            each = [acqf(start) for start in starts(case.q).unsqueeze(1)]
        assert bool(first.isfinite().all())
        torch.testing.assert_close(torch.cat(each), first, rtol=1e-6, atol=1e-9)
        candidates, value = optimised(case, acqf, torch.device("cpu"))
        assert case.draws or global_states() == before
    assert bool(((candidates >= BOUNDS[0]) & (candidates <= BOUNDS[1])).all())
    # Of where it started and of what it says of where it ended.
    assert value.item() >= first.max().item() - 1e-9
    if not isinstance(acqf, qKnowledgeGradient):
        with torch.no_grad():
            torch.testing.assert_close(acqf(candidates).view(()), value.view(()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no GPU.")
@pytest.mark.parametrize(("case", "model"), CELLS)
def test_a_gpu_finds_the_same(case: Case, model: type) -> None:
    results = []
    for device in (torch.device("cpu"), torch.device("cuda")):
        with torch.random.fork_rng():
            torch.manual_seed(7)
            acqf = case.build(MODELS[model]().to(device), X_REF.to(device))
            with torch.no_grad():
                values = acqf(starts(case.q).to(device)).cpu()
            _, value = optimised(case, acqf, device)
        assert value.dtype == DOUBLE
        assert value.item() >= values.max().item() - 1e-9
        results.append((values, value.detach().cpu()))
    if model is not SkewPreferenceGP:
        # Whose draws are other ones on another device.
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-6)
