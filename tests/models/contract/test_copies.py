"""Copies, state dicts, precision, and changes of a model in use."""

import copy
from collections.abc import Callable

import pytest
import torch
from botorch.models.transforms.input import Normalize
from entries import Engine
from models.contract.duel_models import (
    NEW,
    PAIRS,
    POINTS,
    RAW,
    VALID,
    assert_same_posterior,
    mixed,
    moments,
    number,
)
from registry import ENGINES

from botorch_pref import (
    EPPreferenceGP,
    Validity,
)
from botorch_pref.inference import ExpectationPropagation, Laplace
from botorch_pref.models import PreferenceGP


def test_a_deep_copy_is_independent(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    before = moments(model.posterior(NEW))
    other = copy.deepcopy(model)
    other.covar_module.outputscale = 5.0
    other.set_train_data(POINTS, PAIRS.flip(-1))
    torch.testing.assert_close(moments(model.posterior(NEW)), before)


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
    assert number((after[0] - before).abs().max()) > 0.02


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


def test_another_engine_has_another_solution(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    before = model.posterior(NEW).mean
    by_ep = isinstance(engine.cls.engine, ExpectationPropagation)
    other = Laplace() if by_ep else ExpectationPropagation()
    model.engine = other
    anew = type("Other", (PreferenceGP,), {"engine": other})(
        POINTS, PAIRS, likelihood=model.likelihood
    )
    known = anew.state_dict()
    state = {name: v for name, v in model.state_dict().items() if name in known}
    anew.load_state_dict(state)
    torch.testing.assert_close(model.posterior(NEW).mean, anew.posterior(NEW).mean)
    assert not torch.allclose(model.posterior(NEW).mean, before, rtol=1e-6)
