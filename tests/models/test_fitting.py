"""Fits by methods of ours: the optimum of BoTorch's, where its user leaves it open."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.exceptions.warnings import InputDataWarning, OptimizationWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from botorch.optim.fit import fit_gpytorch_mll_scipy
from draws import normal, uniform
from gpytorch.constraints import GreaterThan, LessThan
from gpytorch.kernels import (
    CosineKernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.priors import GammaPrior
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_pref import (
    Comparisons,
    DuelKernel,
    EPPreferenceGP,
    LaplacePreferenceGP,
    LapsingProbitLikelihood,
    PairwiseProbitLikelihood,
    PrecisionError,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.models import PreferenceGP, fitting
from botorch_pref.models.fitting import (
    Evaluation,
    MinimizerByPriors,
    minimize_by_newton,
)
from botorch_pref.models.kernels import default_covar_module

ENGINES = [EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP]


def duels(num_duels: int, seed: int, noise: float = 0.3) -> tuple[Tensor, Tensor]:
    """Draws points, and a judge who errs about each against the one after it."""
    X = uniform(num_duels + 1, 2, seed=seed)
    first = torch.arange(num_duels)
    pairs = torch.stack([first, first + 1], dim=-1)
    f = 2 * (5 * X[:, 0]).sin() - X[:, 1]
    perceived = f[pairs] + noise * normal(num_duels, 2, seed=seed + 100)
    return X, pairs.gather(-1, perceived.argsort(-1, descending=True))


def objective_of(model: PreferenceGP) -> PreferenceMarginalLogLikelihood:
    return PreferenceMarginalLogLikelihood(model.likelihood, model)


def parameters(model: PreferenceGP) -> Tensor:
    return torch.cat([raw.detach().flatten() for raw in model.parameters()])


def matern(dim: int) -> ScaleKernel:
    """Makes a Matern-5/2 kernel with scales and priors of the default kernel."""
    kernel = default_covar_module(dim, torch.Size())
    usual: Any = kernel.base_kernel
    kernel.base_kernel = MaternKernel(
        nu=2.5,
        ard_num_dims=dim,
        lengthscale_prior=usual.lengthscale_prior,
        lengthscale_constraint=usual.raw_lengthscale_constraint,
    )
    kernel.base_kernel.lengthscale = usual.lengthscale.detach()
    return kernel


@pytest.fixture
def num_newton(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of evaluations of all fits by Newton's method."""
    counts: list[int] = []

    def counted(*arguments: Any) -> Any:
        result = minimize_by_newton(*arguments)
        counts.append(result.nfev)
        return result

    monkeypatch.setattr(fitting, "minimize_by_newton", counted)
    return counts


@pytest.mark.parametrize("engine", ENGINES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", [None, matern], ids=["default", "Matern"])
def test_the_optimum_is_that_of_l_bfgs(kernel, seed, engine, num_newton) -> None:
    X, pairs = duels(20, seed)
    losses = []
    for optimizer in ({}, {"optimizer": fit_gpytorch_mll_scipy}):
        model = engine(X, pairs, covar_module=kernel and kernel(2))
        objective = objective_of(model)
        fit_gpytorch_mll(objective, **optimizer)
        assert not objective.training
        with torch.no_grad():
            losses.append((float(objective.log_posterior()), parameters(model)))
    assert len(num_newton) == 1
    assert num_newton[0] <= 12
    (newton, newton_scales), (reference, reference_scales) = losses
    # L-BFGS ends where a loss per answer changes by 2e-9.
    assert newton >= reference - 1e-6
    torch.testing.assert_close(newton_scales, reference_scales, rtol=0, atol=2e-2)


@pytest.mark.parametrize("frozen", ["raw_outputscale", "raw_lengthscale"])
def test_what_is_frozen_stays(frozen: str, num_newton) -> None:
    X, pairs = duels(15, 5)
    model = EPPreferenceGP(X, pairs)
    kernel: Any = model.covar_module
    part = kernel if frozen == "raw_outputscale" else kernel.base_kernel
    raw = getattr(part, frozen)
    raw.requires_grad_(False)
    before = raw.clone()
    fit_gpytorch_mll(objective_of(model))
    assert torch.equal(raw, before)
    (parameter,) = (p for p in model.parameters() if p.requires_grad)
    model.train()
    (slope,) = torch.autograd.grad(objective_of(model).log_posterior(), parameter)
    assert float(slope.abs().max()) <= 1e-4 * model.num_data
    assert num_newton


def test_points_are_those_that_a_transform_makes(num_newton) -> None:
    X, pairs = duels(15, 6)
    plain = EPPreferenceGP(X, pairs)
    far = torch.tensor([3.0, -100.0]).double() + X * torch.tensor([1e-3, 1e4]).double()
    bounds = torch.tensor([[3.0, -100.0], [3.001, 9900.0]]).double()
    moved = EPPreferenceGP(far, pairs, input_transform=Normalize(2, bounds=bounds))
    for model in (plain, moved):
        fit_gpytorch_mll(objective_of(model))
    assert len(num_newton) == 2
    torch.testing.assert_close(parameters(moved), parameters(plain), rtol=0, atol=1e-3)


OTHERS = {
    "learned noise": {
        "likelihood": lambda: PairwiseProbitLikelihood(noise_prior=GammaPrior(2.0, 2.0))
    },
    "periodic": {
        "covar_module": lambda: ScaleKernel(PeriodicKernel(), batch_shape=torch.Size())
    },
    "bounded": {
        "covar_module": lambda: ScaleKernel(
            RBFKernel(), outputscale_constraint=GreaterThan(1e-3, transform=None)
        )
    },
}


@pytest.mark.parametrize(
    "name", [*OTHERS, "single", "batch", "method", "exact", "many"]
)
def test_other_fits_are_those_of_botorch(name, num_newton, monkeypatch) -> None:
    X, pairs = duels(5 if name == "exact" else 9, 7)
    options = {key: make() for key, make in OTHERS.get(name, {}).items()}
    keywords: dict[str, Any] = {}
    if name == "single":
        X = X.float()
    elif name == "batch":
        X, pairs = X.expand(2, -1, -1), pairs.expand(2, -1, -1)
    elif name == "method":
        keywords = {"optimizer_kwargs": {"options": {"maxiter": 100}}}
    elif name == "many":
        monkeypatch.setattr(fitting, "_MOST_SCALES", 2)
    engine = EPPreferenceGP
    if name == "exact":
        engine, options["exact_evidence"] = SkewPreferenceGP, True
    if name == "single":
        with pytest.warns(InputDataWarning, match="float32"):
            model = engine(X, pairs, **options)
    else:
        model = engine(X, pairs, **options)
    objective = objective_of(model)
    before = float(objective.log_posterior().detach().sum())
    fit_gpytorch_mll(objective, **keywords)
    assert not num_newton
    with torch.no_grad():
        assert float(objective.log_posterior().sum()) > before


def duels_of_inputs(dim: int, options: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draws thirty duels by two numbers, of ``dim``, and a choice, if any."""
    X = uniform(60, dim, seed=seed)
    f = 4 * (3 * X[:, 0]).sin() + 3 * X[:, 1] + normal(60, seed=seed + 50)
    if options:
        place = torch.arange(60) % options
        X, f = torch.cat([X, one_hot(place, options).to(X)], -1), f + place
    pairs = torch.arange(60).reshape(30, 2)
    return X, pairs.gather(-1, f[pairs].argsort(-1, descending=True))


@pytest.mark.parametrize("likelihood", [LapsingProbitLikelihood, None])
@pytest.mark.parametrize(("dim", "options"), [(2, 0), (6, 0), (12, 0), (3, 4)])
def test_in_coordinates_of_priors_l_bfgs_finds_as_much(
    dim, options, likelihood, monkeypatch
) -> None:
    """In fewer evaluations, under a kernel without second derivatives."""
    X, pairs = duels_of_inputs(dim, options, seed=dim)
    choice = [[*range(dim, dim + options)]] if options else []
    losses, counts = [], []
    for optimizer in ({}, {"optimizer": fit_gpytorch_mll_scipy}):
        kernel = DuelKernel(dim + options, categorical=choice).double()
        answers = likelihood and likelihood.default_for(Comparisons(pairs))
        model = EPPreferenceGP(X, pairs, likelihood=answers, covar_module=kernel)
        solve, calls = model.evidence_solution, []
        monkeypatch.setattr(
            model, "evidence_solution", lambda s=solve, c=calls: c.append(1) or s()
        )
        objective = objective_of(model)
        fit_gpytorch_mll(objective, **optimizer)
        counts.append(len(calls))
        with torch.no_grad():
            losses.append(float(objective.log_posterior()))
    # Slopes of at most 3e-3 in each of 26 directions, of curvatures above a quarter.
    assert losses[0] >= losses[1] - 26 * 3e-3**2 / 2 / 0.25
    assert counts[0] <= 0.85 * counts[1]


def test_coordinates_of_priors_are_their_deviations() -> None:
    """Correlated ones too; a parameter without a prior keeps its unit."""
    X, pairs = duels(9, 7)
    likelihood = PairwiseProbitLikelihood()
    likelihood.raw_noise.requires_grad_(True)
    model = EPPreferenceGP(
        X, pairs, likelihood=likelihood, covar_module=DuelKernel(2).double()
    )
    root = MinimizerByPriors(objective_of(model))._root
    expected, place = np.eye(6), 0
    for name, raw in model.named_parameters():
        if "lengthscale" in name:
            # Beyond its least value of 0.025 it is exp(raw / 2), and 0.5 at first.
            expected[[place, place + 1], [place, place + 1]] = (0.5 / 0.475) ** 2
        if "relevance" in name:
            block = 1.0**2 * np.eye(2) + 1.5**2
            expected[place : place + 2, place : place + 2] = block
        place += raw.numel()
    np.testing.assert_allclose(root @ root.T, expected, rtol=1e-6, atol=1e-8)


def test_bounds_of_parameters_hold() -> None:
    X, pairs = duels(15, 8)
    upper = LessThan(0.3, transform=None)
    kernel = ScaleKernel(RBFKernel(), outputscale_constraint=upper).double()
    kernel.outputscale = 0.2
    model = EPPreferenceGP(X, pairs, covar_module=kernel)
    fit_gpytorch_mll(objective_of(model))
    # Utilities have a spread of more than one.
    assert float(kernel.outputscale.detach()) == pytest.approx(0.3)


def test_fits_in_single_precision_end_where_their_rounding_begins() -> None:
    """Without a warning, and as good as in double precision."""
    for seed in range(8):
        X, pairs = duels(12, seed)
        double = EPPreferenceGP(X, pairs)
        with pytest.warns(InputDataWarning, match="float32"):
            single = EPPreferenceGP(X.float(), pairs)
        for model in (double, single):
            fit_gpytorch_mll(objective_of(model))
        with torch.no_grad():
            best = objective_of(double).log_posterior()
            # A step that gains 1.2e-5 of a loss of 14 nats is the last, on flat ground.
            assert best - objective_of(single).log_posterior() < 0.05


def test_a_step_after_which_there_is_no_posterior_is_shortened(monkeypatch) -> None:
    X, pairs = duels(15, 8)
    expected = EPPreferenceGP(X, pairs)
    fit_gpytorch_mll(objective_of(expected))
    model, calls = EPPreferenceGP(X, pairs), []
    solve = model.evidence_solution

    def fails_once() -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise PrecisionError("Too far.")
        return solve()

    monkeypatch.setattr(model, "evidence_solution", fails_once)
    fit_gpytorch_mll(objective_of(model))
    torch.testing.assert_close(
        parameters(model), parameters(expected), rtol=0, atol=1e-3
    )


def quadratic(matrix: np.ndarray, linear: np.ndarray) -> Any:
    def evaluate(x: np.ndarray) -> Evaluation:
        gradient = matrix @ x + linear
        return Evaluation(0.5 * x @ (gradient + linear), gradient, matrix)

    return evaluate


@given(st.integers(0, 10_000), st.floats(-3, 3))
def test_convex_quadratics_end_at_their_minimum(seed: int, log_size: float) -> None:
    root, linear = normal(4, 4, seed=seed).numpy(), normal(4, seed=seed + 1).numpy()
    matrix = 10**log_size * (root @ root.T + 0.1 * np.eye(4))
    evaluate, start = quadratic(matrix, linear), np.zeros(4)
    optimum = minimize_by_newton(evaluate, start, evaluate(start))
    expected = np.linalg.solve(matrix, -linear)
    assert optimum.success
    excess = optimum.fun - evaluate(expected).value
    assert excess <= 1e-5 * max(1.0, float(np.abs(optimum.fun)))


def rosenbrock(x: np.ndarray) -> Evaluation:
    a, b = x
    value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
    gradient = [-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)]
    hessian = [[2 - 400 * (b - 3 * a * a), -400 * a], [-400 * a, 200]]
    return Evaluation(value, np.array(gradient), np.array(hessian))


@pytest.mark.parametrize("start", [(-1.2, 1.0), (0.0, 3.0), (2.0, -2.0)])
def test_a_valley_that_bends_is_followed_to_its_end(start) -> None:
    x = np.array(start)
    optimum = minimize_by_newton(rosenbrock, x, rosenbrock(x))
    np.testing.assert_allclose(optimum.x, 1.0, atol=1e-3)
    assert optimum.nfev <= 60


def test_what_has_no_minimum_fails_with_a_message() -> None:
    evaluate, x = quadratic(-np.eye(2), np.ones(2)), np.zeros(2)

    def bent(x: np.ndarray) -> Evaluation:
        return Evaluation(-x[0], np.array([-1.0, 0.0]), np.zeros((2, 2)))

    for fun in (evaluate, bent):
        optimum = minimize_by_newton(fun, x, fun(x))
        assert not optimum.success
        assert "No optimum" in optimum.message


@pytest.mark.parametrize("engine", ENGINES, ids=lambda cls: cls.__name__)
def test_l_bfgs_goes_on_where_the_steps_do_not_lead_there(engine, monkeypatch) -> None:
    X, pairs = duels(15, 9)
    expected, model = (engine(X, pairs) for _ in range(2))
    fit_gpytorch_mll(objective_of(expected))
    monkeypatch.setattr(fitting, "_MOST_STEPS", 2)
    fit_gpytorch_mll(objective_of(model))
    torch.testing.assert_close(
        parameters(model), parameters(expected), rtol=0, atol=2e-2
    )


def test_an_optimum_at_infinity_ends_the_fit_as_that_of_botorch() -> None:
    """Duels that a straight line explains, and a kernel without priors."""
    X, pairs = uniform(6, 3, seed=2), torch.combinations(torch.arange(6))[:5]
    f = X.sum(-1)[pairs]
    pairs = pairs.gather(-1, f.argsort(-1, descending=True))
    messages = []
    for optimizer in ({}, {"optimizer": fit_gpytorch_mll_scipy}):
        kernel = ScaleKernel(RBFKernel(ard_num_dims=3)).double()
        model = LaplacePreferenceGP(X, pairs, covar_module=kernel)
        fit_gpytorch_mll(objective_of(model), **optimizer)
        messages.append(float(model.log_evidence().detach()))
    assert messages[0] >= messages[1] - 0.01


def test_a_kernel_that_is_no_covariance_is_named() -> None:
    """Cosines of distances in two inputs: an eigenvalue of -3.9 beside 9."""
    X = 3 * uniform(20, 2, seed=0)
    kernel = ScaleKernel(CosineKernel()).double()
    kernel.outputscale, kernel.base_kernel.period_length = 100.0, 0.7
    lowest = torch.linalg.eigvalsh(kernel(X).to_dense().detach())[0]
    assert float(lowest) < -1
    pairs = torch.stack([torch.arange(19), torch.arange(1, 20)], -1)
    likelihood = PairwiseProbitLikelihood(noise=1e-4)
    for engine in (EPPreferenceGP, LaplacePreferenceGP):
        model = engine(X, pairs, covar_module=kernel, likelihood=likelihood)
        with pytest.raises(PrecisionError, match=r"not positive semi-definite.*Cosine"):
            model.posterior(X)


def test_a_fit_that_fails_says_why_and_what_has_no_prior() -> None:
    X, pairs = duels(4, seed=0)
    model = EPPreferenceGP(X, pairs, covar_module=ScaleKernel(RBFKernel()).double())
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)

    def never(mll: Any, closure: Any = None, **_: Any) -> None:
        warnings.warn("The line search is lost", OptimizationWarning, stacklevel=1)

    words = r"line search is lost\. There is no prior on covar_module.raw_outputscale"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizationWarning)
        with pytest.raises(ModelFittingError, match=words):
            fit_gpytorch_mll(mll, optimizer=never)
