"""Copies, state dicts, devices, precision, and changes of a model in use."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import InputTransform, Normalize, Warp
from draws import global_states
from entries import Engine
from gpytorch.kernels import MaternKernel, ScaleKernel
from models.contract.duel_models import (
    NEW,
    PAIRS,
    POINTS,
    RAW,
    VALID,
    answers,
    assert_same_posterior,
    mixed,
    moments,
    uniform,
)
from registry import ENGINES
from torch import Tensor

from botorch_pref import (
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
    Validity,
)
from botorch_pref.inference import ExpectationPropagation, Laplace
from botorch_pref.models import PreferenceGP

CHANGES: dict[str, Callable[[PreferenceGP], None]] = {
    "scale": lambda model: setattr(model.covar_module, "outputscale", 4.0),
    "length": lambda model: setattr(model.covar_module.base_kernel, "lengthscale", 0.1),
    "mean": lambda model: model.mean_module.constant.data.fill_(-1.0),
    "answers": lambda model: model.set_train_data(comparisons=PAIRS.flip(-1)),
}
BOXED_CHANGES: dict[str, Callable[[PreferenceGP], None]] = {
    "noise": lambda model: setattr(model.likelihood, "noise", 0.05),
    "threshold": lambda model: setattr(model.likelihood, "tie_threshold", 1.5),
    "validity": lambda model: model.set_train_data(
        feedback=[Validity(VALID.indices, ~VALID.valid)]
    ),
}


EACH = [(entry, name) for entry in ENGINES.values() for name in ("scale", "answers")]
OTHER = [(ENGINES[EPPreferenceGP], n) for n in (*CHANGES, *BOXED_CHANGES)]


@pytest.mark.parametrize(("entry", "name"), EACH + OTHER[1:3] + OTHER[4:])
def test_a_change_in_eval_mode_is_seen(entry: Engine, name: str) -> None:
    engine, change = entry, (CHANGES | BOXED_CHANGES)[name]
    model = mixed(engine).eval()
    before = moments(model.posterior(NEW))[0]
    change(model)
    after = moments(model.posterior(NEW))
    fresh = copy.deepcopy(model)
    fresh.train()
    fresh.set_train_data(POINTS)
    assert_same_posterior(engine, after, fresh.posterior(NEW))
    assert (after[0] - before).abs().max().item() > 0.02, (
        f"the change of {name} changed no prediction"
    )


def test_a_change_of_precision_in_eval_mode_keeps_the_transform(
    engine: Engine,
) -> None:
    model = engine(RAW, PAIRS, input_transform=Normalize(2))
    x = 30 * NEW - 7
    expected = moments(model.posterior(x))
    model.to(torch.float32)
    mean, covariance = moments(model.posterior(x.float()))
    actual = mean.double(), covariance.double()
    assert_same_posterior(engine, actual, expected, 2e-3)
    model.train()
    assert model.train_inputs[0].dtype == torch.float32, (
        f"training inputs are in {model.train_inputs[0].dtype} after model.to(float32)"
    )
    torch.testing.assert_close(model.train_inputs[0], RAW.float())


def test_moving_to_where_it_is_computes_nothing_anew(engine: Engine) -> None:
    """As BoTorch's analytic acquisition functions do at every call."""
    model = engine(POINTS, PAIRS)
    expected = model.posterior(NEW).mean
    solution = model.solution()
    torch.testing.assert_close(model.to(NEW).posterior(NEW).mean, expected)
    model.posterior(NEW.expand(6, 4, 2))
    model.duel_probability(NEW[:1], NEW[1:])
    assert model.solution() is solution, (
        "moving a model to where it is, or asking it, solved anew"
    )
    assert model.to(torch.float32).solution() is not solution, (
        "a model in another precision keeps the solution of before"
    )


def test_construction_in_single_precision(engine: Engine) -> None:
    model = engine(POINTS.float(), PAIRS)
    assert {p.dtype for p in model.parameters()} == {torch.float32}, (
        "of datapoints in single precision some parameters are in another one"
    )
    assert model.posterior(NEW.float()).mean.dtype == torch.float32, (
        "a model in single precision predicts in another one"
    )


def test_another_engine_has_another_solution(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    before = model.posterior(NEW).mean
    by_ep = isinstance(engine.cls.engine, ExpectationPropagation)
    replacement = Laplace() if by_ep else ExpectationPropagation()
    model.engine = replacement
    anew = type("Other", (PreferenceGP,), {"engine": replacement})(
        POINTS, PAIRS, likelihood=model.likelihood
    )
    hyperparameters = model.state_dict()
    hyperparameters.pop("inducing_points", None)
    anew.load_state_dict(hyperparameters)
    torch.testing.assert_close(model.posterior(NEW).mean, anew.posterior(NEW).mean)
    assert not torch.allclose(model.posterior(NEW).mean, before, rtol=1e-6), (
        f"{type(replacement).__name__} predicts as the engine of before did"
    )


@pytest.mark.parametrize("inner", [False, True], ids=["outer", "inner"])
def test_another_kernel_with_equal_parameters_has_another_solution(
    engine: Engine, inner: bool
) -> None:
    rough, smooth = (ScaleKernel(MaternKernel(nu)).double() for nu in (0.5, 2.5))
    model = engine(POINTS, PAIRS, covar_module=smooth)
    before = model.posterior(NEW).mean
    if inner:
        smooth.base_kernel = rough.base_kernel
    else:
        model.covar_module = rough
    expected = engine(POINTS, PAIRS, covar_module=rough).posterior(NEW).mean
    torch.testing.assert_close(model.posterior(NEW).mean, expected)
    assert not torch.allclose(expected, before, rtol=1e-2), (
        "the two kernels predict the same, so that nothing was told apart"
    )


# --- Fitted models, and what goes through a file

ASKED = 30 * NEW - 7


def normalised(engine: Engine, x: Tensor = RAW, **options: Any) -> PreferenceGP:
    return engine.with_draws(128)(x, PAIRS, input_transform=Normalize(2), **options)


_FITTED: dict[type, PreferenceGP] = {}


def fitted(engine: Engine) -> PreferenceGP:
    """Copies a model that is fitted once, for tests that change it."""
    if engine.cls not in _FITTED:
        model = normalised(engine)
        mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 5}})
        _FITTED[engine.cls] = model
    return copy.deepcopy(_FITTED[engine.cls])


def through_a_file(value: Any, weights_only: bool = False) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), through_a_file],
    ids=["deepcopy", "pickle", "file"],
)
def test_a_copy_of_a_fitted_model_predicts_the_same_to_the_bit(
    engine: Engine, clone: Callable[[Any], Any]
) -> None:
    model = fitted(engine)
    expected = moments(model.posterior(ASKED))
    copied = clone(model)
    exact = {"rtol": 0, "atol": 0}
    torch.testing.assert_close(moments(copied.posterior(ASKED)), expected, **exact)
    torch.testing.assert_close(copied.datapoints, RAW, **exact)
    assert torch.equal(copied.comparisons, model.comparisons), (
        "a copy has other comparisons than its model"
    )
    # And goes on as the other does, until it is changed.
    pair = torch.tensor([[0, 1]])
    fantasies = [m.condition_on_observations(ASKED[:2], pair) for m in (model, copied)]
    torch.testing.assert_close(
        *(moments(m.posterior(ASKED)) for m in fantasies), **exact
    )
    copied.covar_module.outputscale = 5.0
    copied.set_train_data(RAW, PAIRS.flip(-1))
    torch.testing.assert_close(moments(model.posterior(ASKED)), expected, **exact)


def test_draws_do_not_hang_on_what_was_asked_before() -> None:
    model = fitted(ENGINES[SkewPreferenceGP])
    before = moments(model.posterior(ASKED))
    for factor in (1.5, 1 / 1.5):
        model.covar_module.outputscale *= factor
        after = moments(model.posterior(ASKED))
    torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-12)


def test_a_state_dict_holds_no_data(engine: Engine) -> None:
    """BoTorch and Ax load hyper-parameters into models of newer data."""
    model, newer = fitted(engine), 30 * uniform(9, 2, seed=2) - 7
    normalised_model, direct = normalised(engine, newer), normalised(engine, newer)
    state = through_a_file(model.state_dict(), weights_only=True)
    assert {name.split(".")[0] for name in state} <= {
        "covar_module",
        "mean_module",
        "likelihoods",
        "input_transform",
        # Where a sparse model looks from, which is part of its approximation.
        "inducing_points",
    }
    normalised_model.load_state_dict(state)
    torch.testing.assert_close(normalised_model.datapoints, newer, rtol=0, atol=0)
    direct.covar_module.load_state_dict(model.covar_module.state_dict())
    direct.input_transform.load_state_dict(model.input_transform.state_dict())
    inducing = {n: t for n, t in state.items() if n == "inducing_points"}
    direct.load_state_dict(inducing, strict=False)
    expected = moments(direct.posterior(ASKED))
    torch.testing.assert_close(
        moments(normalised_model.posterior(ASKED)), expected, rtol=0, atol=1e-6
    )


def warped(concentration: float) -> InputTransform:
    transform = Warp(2, [0, 1], bounds=torch.stack([RAW.amin(0), RAW.amax(0)]))
    transform.concentration0.data.fill_(concentration)
    return transform


def scaled(width: float) -> InputTransform:
    middle = RAW.mean(0)
    return Normalize(2, bounds=torch.stack([middle - width, middle + width]))


@pytest.mark.parametrize(
    ("first", "second"),
    [(warped(1.0), warped(2.0)), (scaled(20.0), scaled(60.0))],
    ids=["parameters", "buffers"],
)
def test_a_state_is_loaded_after_a_question_too(
    engine: Engine, first: InputTransform, second: InputTransform
) -> None:
    model, generic_model = (
        engine.with_draws(128)(RAW, PAIRS, input_transform=copy.deepcopy(t)).eval()
        for t in (first, second)
    )
    before, _ = moments(model.posterior(ASKED))
    model.load_state_dict(generic_model.state_dict())
    expected = moments(generic_model.posterior(ASKED))
    assert (expected[0] - before).abs().max() > 0.01, (
        "both states predict the same, so that loading one shows nothing"
    )
    # Engines that start elsewhere stop within this.
    torch.testing.assert_close(
        moments(model.posterior(ASKED)), expected, rtol=0, atol=1e-5
    )


def test_a_model_is_copied_after_a_question_and_another_state(engine: Engine) -> None:
    model, loaded = mixed(engine), mixed(engine)
    loaded.mean_module.constant.data.fill_(0.7)
    model.eval().posterior(NEW)
    model.load_state_dict(loaded.state_dict())
    expected = loaded.eval().posterior(NEW)
    assert_same_posterior(engine, copy.deepcopy(model).posterior(NEW), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no GPU.")
def test_there_and_back_between_devices(engine: Engine) -> None:
    model = fitted(engine)
    mean, covariance = moments(model.posterior(ASKED))
    moved = copy.deepcopy(model).to("cuda")
    on_gpu = moments(moved.posterior(ASKED.cuda()))[0].cpu()
    back = moments(moved.cpu().posterior(ASKED))[0]
    deviation = covariance.diagonal().max().sqrt().item()
    error = engine.with_draws(128).sampling_error + 1e-6
    torch.testing.assert_close(on_gpu, mean, rtol=0, atol=error * deviation)
    torch.testing.assert_close(back, mean, rtol=0, atol=1e-6 * deviation)


def test_seeds_are_the_only_source_of_draws() -> None:
    draw, repeated, reseeded = (
        normalised(ENGINES[SkewPreferenceGP], seed=seed).posterior(ASKED).mean
        for seed in (3, 3, 4)
    )
    assert torch.equal(draw, repeated), "equal seeds give other draws"
    assert not torch.equal(draw, reseeded), "another seed gives the same draws"


def used(model: PreferenceGP) -> list[Tensor]:
    """Computes everything that a model does but for drawing function values."""
    pair = torch.tensor([[0, 1]])
    conditioned = model.condition_on_observations(ASKED[:2], pair)
    evidences = [
        model.log_evidence().detach(),
        *moments(model.posterior(ASKED)),
        model.posterior(ASKED, observation_noise=True).variance.detach(),
        model.duel_posterior(ASKED, ASKED[:1]).mean.detach(),
        model.duel_probability(ASKED, ASKED[:1]).detach(),
        model.duel_probability(ASKED, ASKED[:1], observation_noise=True).detach(),
        *moments(conditioned.posterior(ASKED)),
    ]
    model.set_train_data(comparisons=answers(RAW, 3))
    return [*evidences, *moments(model.posterior(ASKED))]


def test_global_random_numbers_are_neither_used_nor_touched(engine: Engine) -> None:
    _ = fitted(engine)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = global_states()
        first = used(fitted(engine))
        assert global_states() == before, (
            "fitting, asking or copying drew from a global random generator"
        )
        torch.manual_seed(2)
        second = used(fitted(engine))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("transform", [None, Normalize(2)], ids=["plain", "normalised"])
def test_who_asks_in_inference_mode_leaves_derivatives_to_others(
    engine: Engine, transform: InputTransform | None
) -> None:
    first_model, second_model = (
        engine.with_draws(128)(POINTS, PAIRS, input_transform=copy.deepcopy(transform))
        for _ in range(2)
    )
    with torch.inference_mode():
        first_model.posterior(NEW).variance.sum()
        first_model.log_evidence()
    errors = []
    for model in (first_model, second_model):
        X = NEW.clone().requires_grad_()
        posterior = model.posterior(X)
        value = (posterior.mean + posterior.variance).sum() + model.log_evidence()
        leaves = [X, *(p for p in model.parameters() if p.requires_grad)]
        errors.append(torch.autograd.grad(value, leaves))
    torch.testing.assert_close(*errors, rtol=1e-5, atol=1e-6)
