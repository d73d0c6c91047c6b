"""Copies, state dicts, precision, and changes of a model in use."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from entries import Engine
from gpytorch.priors import GammaPrior
from models.contract.duel_models import (
    FULL,
    NEW,
    PAIRS,
    POINTS,
    RAW,
    VALID,
    assert_same_posterior,
    full,
    mixed,
    moments,
    number,
)

from botorch_pref import (
    AffineProbitLikelihood,
    Comparisons,
    EPPreferenceGP,
    PairwiseProbitLikelihood,
    PreferenceMarginalLogLikelihood,
    Validity,
)
from botorch_pref.inference.ep import ExpectationPropagation
from botorch_pref.inference.laplace import Laplace
from botorch_pref.models.preference_gp import PreferenceGP


@pytest.mark.parametrize(
    "clone",
    [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))],
    ids=["deepcopy", "copy", "pickle"],
)
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_copies_keep_data_and_predictions(
    engine: Engine, clone: Callable[[Any], Any], used: bool
) -> None:
    likelihood = PairwiseProbitLikelihood(
        0.3, 0.5, noise_prior=GammaPrior(2, 2), tie_threshold_prior=GammaPrior(2, 4)
    )
    model = engine(
        POINTS,
        full(engine)[0],
        likelihood=likelihood if engine.boxed else None,
        input_transform=Normalize(2),
    )
    if used:
        model.log_evidence().backward()
        model.posterior(NEW)
    other = clone(model)
    torch.testing.assert_close(
        moments(other.posterior(NEW)), moments(model.posterior(NEW)), rtol=0, atol=1e-5
    )
    torch.testing.assert_close(other.datapoints, POINTS)
    torch.testing.assert_close(other.comparisons, full(engine)[0].pairs)
    priors = [name for name, *_ in other.named_priors()]
    assert priors == [name for name, *_ in model.named_priors()]


def test_a_deep_copy_is_independent(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    before = moments(model.posterior(NEW))
    other = copy.deepcopy(model)
    other.covar_module.outputscale = 5.0
    other.set_train_data(POINTS, PAIRS.flip(-1))
    torch.testing.assert_close(moments(model.posterior(NEW)), before)


def test_hyper_parameters_round_trip_through_the_state_dict(engine: Engine) -> None:
    engine.needs_boxes()

    def build() -> PreferenceGP:
        likelihood = {
            Comparisons: PairwiseProbitLikelihood(1.0, tie_threshold=1.0),
            Validity: AffineProbitLikelihood(1.0),
        }
        return engine(
            POINTS,
            FULL,
            feedback=[VALID],
            likelihood=likelihood,
            input_transform=Normalize(2),
        )

    model, other = build(), build()
    model.likelihood.noise = 0.2
    model.likelihood.tie_threshold = 0.3
    model.likelihoods["Validity"].noise = 0.6
    model.mean_module.constant.data.fill_(0.7)
    model.covar_module.outputscale = 3.0
    model.covar_module.base_kernel.lengthscale = torch.tensor([0.2, 0.9])
    stale = moments(other.posterior(NEW))
    other.load_state_dict(model.state_dict())
    assert_same_posterior(engine, other.posterior(NEW), model.posterior(NEW))
    assert number((stale[0] - moments(other.posterior(NEW))[0]).abs().max()) > 0.05


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


@pytest.mark.parametrize("name", [*CHANGES, *BOXED_CHANGES])
def test_a_change_in_eval_mode_is_seen(engine: Engine, name: str) -> None:
    if name in BOXED_CHANGES:
        engine.needs_boxes()
    change = (CHANGES | BOXED_CHANGES)[name]
    model = mixed(engine).eval()
    before = moments(model.posterior(NEW))[0]
    change(model)
    after = moments(model.posterior(NEW))
    fresh = copy.deepcopy(model)
    fresh.train()
    fresh.set_train_data(POINTS)
    assert_same_posterior(engine, after, fresh.posterior(NEW))
    assert number((after[0] - before).abs().max()) > 0.02


def test_single_and_double_precision_agree(engine: Engine) -> None:
    double = mixed(engine)
    single = copy.deepcopy(double).to(torch.float32)
    assert single.train_inputs[0].dtype == torch.float32
    posterior = single.posterior(NEW.float())
    assert posterior.mean.dtype == posterior.covariance_matrix.dtype == torch.float32
    mean, covariance = moments(posterior)
    assert_same_posterior(
        engine, (mean.double(), covariance.double()), double.posterior(NEW), 2e-3
    )
    assert single.dtypes_of_buffers == {torch.float32}
    evidence = single.train().log_evidence()
    assert evidence.dtype == torch.float32
    torch.testing.assert_close(
        evidence.double(), double.train().log_evidence(), rtol=1e-4, atol=1e-3
    )
    back = single.double()
    assert_same_posterior(engine, back.posterior(NEW), double.posterior(NEW), 1e-3)


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
    assert model.train_inputs[0].dtype == torch.float32
    torch.testing.assert_close(model.train_inputs[0], RAW.float())


def test_moving_to_where_it_is_computes_nothing_anew(engine: Engine) -> None:
    """As BoTorch's analytic acquisition functions do at every call."""
    model = engine(POINTS, PAIRS)
    expected = model.posterior(NEW).mean
    found = model.solution()
    torch.testing.assert_close(model.to(NEW).posterior(NEW).mean, expected)
    assert model.solution() is found
    assert model.to(torch.float32).solution() is not found


def test_construction_in_single_precision(engine: Engine) -> None:
    model = engine(POINTS.float(), PAIRS)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.posterior(NEW.float()).mean.dtype == torch.float32


def test_equal_seeds_and_an_untouched_global_state(engine: Engine) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(11)
        state = torch.get_rng_state()
        model = engine(POINTS, PAIRS)
        mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 3}})
        first = moments(model.posterior(NEW))
        model.duel_probability(NEW[:2], NEW[2:], observation_noise=True)
        model.diagnostics()
        assert torch.equal(torch.get_rng_state(), state)
        torch.manual_seed(12)
        again = engine(POINTS, PAIRS)
        mll = PreferenceMarginalLogLikelihood(again.likelihood, again)
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 3}})
        torch.testing.assert_close(moments(again.posterior(NEW)), first, rtol=0, atol=0)


def test_another_engine_has_another_solution(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    before = model.posterior(NEW).mean
    other = Laplace() if engine.cls is EPPreferenceGP else ExpectationPropagation()
    model.engine = other
    anew = type("Other", (PreferenceGP,), {"engine": other})(
        POINTS, PAIRS, likelihood=model.likelihood
    )
    anew.load_state_dict(model.state_dict())
    torch.testing.assert_close(model.posterior(NEW).mean, anew.posterior(NEW).mean)
    assert not torch.allclose(model.posterior(NEW).mean, before, rtol=1e-6)
