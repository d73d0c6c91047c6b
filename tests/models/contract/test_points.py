"""Points that a prediction cannot be asked for at, named with what to pass."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from entries import Engine
from models.contract.duel_models import NEW, PAIRS, POINTS, VALID, moments
from torch import Tensor

from botorch_pref import (
    EPPreferenceGP,
    FeedbackError,
    HallucinatedModel,
    PlackettLuceRegression,
    SkewPreferenceGP,
    choice_probability,
    log_validity_probability,
)
from botorch_pref.models import GroupUtility

PAIR = torch.tensor([[0, 1]])


def with_entry(row: int, column: int, value: float) -> Tensor:
    points = NEW.clone()
    points[row, column] = value
    return points


WRONG = {
    "list": (NEW.tolist(), r"{} must be a tensor of points.* got list"),
    "array": (NEW.numpy(), r"{} must be a tensor of points.* got ndarray"),
    "none": (None, r"{} must be a tensor of points.* got NoneType"),
    "features": (NEW[:, :1], r"{} has shape \(4, 1\), expected batch_shape x q x 2"),
    "more features": (torch.cat([NEW, NEW], -1), r"{} has shape \(4, 4\)"),
    "no features": (NEW[:, :0], r"{} has shape \(4, 0\)"),
    "vector": (NEW[0], r"{} has shape \(2,\).* {}\.unsqueeze\(0\)"),
    "nan": (with_entry(2, 1, torch.nan), r"{}\[2, 1\] is nan: row 2"),
    "infinite": (with_entry(3, 0, -torch.inf), r"{}\[3, 0\] is -inf: row 3"),
    "too large": (
        with_entry(0, 1, 1e160),
        r"{}\[0, 1\] is 1e\+160: .*sizes below 1e\+151",
    ),
    "device": (NEW.to("meta"), r"{} is on meta, .* on cpu; pass {}\.to\('cpu'\)"),
    "half": (NEW.half(), r"{} is torch\.float16.*pass {}\.to\(torch\.float64\)"),
    "bfloat": (NEW.bfloat16(), r"{} is torch\.bfloat16"),
    "integers": (NEW.long(), r"{} is torch\.int64"),
    "sparse": (NEW.to_sparse(), r"{} is sparse; pass {}\.to_dense\(\)"),
}


Call = Callable[[Any], Any]


def doors(model: Any) -> dict[str, list[Call]]:
    """Lists predictions that a model is asked for, by the names of their points."""
    return {
        "X": [model.posterior, lambda x: model.duel_posterior(x, NEW[:1])],
        "X_ref": [lambda x: model.duel_posterior(NEW, x)],
        "X1": [lambda x: model.duel_probability(x, NEW)],
        "X2": [lambda x: model.duel_probability(NEW, x)],
    }


@pytest.fixture(scope="module")
def asked() -> list[tuple[str, Call]]:
    """Every function of points, of models of every kind."""
    raters = torch.zeros(len(POINTS), 1, dtype=POINTS.dtype)
    rated = EPPreferenceGP(torch.cat([POINTS, raters], dim=-1), PAIRS)
    valid = EPPreferenceGP(POINTS, feedback=[VALID])
    model, regression = (
        EPPreferenceGP(POINTS, PAIRS),
        PlackettLuceRegression(POINTS, PAIRS),
    )
    result = [
        ("X", GroupUtility(rated, torch.zeros(1)).posterior),
        ("X", HallucinatedModel(model).posterior),
        ("X", lambda x: log_validity_probability(valid, x)),
        ("X", lambda x: choice_probability(regression, x)),
    ]
    for tested in (model, SkewPreferenceGP(POINTS, PAIRS), regression):
        result += [
            (name, call) for name, calls in doors(tested).items() for call in calls
        ]
    return result


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_points_are_refused_by_name(
    kind: str, asked: list[tuple[str, Call]]
) -> None:
    value, message = WRONG[kind]
    for name, call in asked:
        with pytest.raises(FeedbackError, match=message.replace("{}", name)):
            call(value)


def test_sides_of_duels_that_do_not_fit_are_refused(engine: Engine) -> None:
    with pytest.raises(FeedbackError, match="do not broadcast"):
        engine(POINTS, PAIRS).duel_probability(POINTS, POINTS[:3])


def test_double_points_of_a_single_model(engine: Engine) -> None:
    with pytest.warns(match="double precision"):
        model = engine(POINTS.float(), PAIRS)
    with pytest.raises(FeedbackError, match=re.escape("pass X.to(torch.float32)")):
        model.posterior(NEW)


def test_double_points_of_further_answers_about_a_single_model(engine: Engine) -> None:
    with pytest.warns(match="double precision"):
        model = engine(POINTS.float(), PAIRS)
    with pytest.raises(FeedbackError, match=re.escape("pass X.to(torch.float32)")):
        model.condition_on_observations(NEW, PAIR)
    with pytest.raises(FeedbackError, match=re.escape("datapoints.to(torch.float32)")):
        model.set_train_data(POINTS)
    fantasy = model.condition_on_observations(NEW.float(), PAIR)
    assert {t.dtype for t in (*fantasy.parameters(), *fantasy.train_inputs)} == {
        torch.float32
    }


def test_single_points_of_further_answers_about_a_double_model(engine: Engine) -> None:
    model, single = engine(POINTS, PAIRS), NEW.float()
    fantasy = model.condition_on_observations(single, PAIR)
    assert torch.equal(fantasy.datapoints[len(POINTS) :], single.double()), (
        "further points in single precision are not taken in the model's double"
    )
    model.set_train_data(POINTS.float())
    assert torch.equal(model.datapoints, POINTS.float().double()), (
        "new datapoints in single precision are not taken in the model's double"
    )
    assert model.posterior(NEW).mean.dtype == torch.float64, (
        "a model in double predicts in another precision after set_train_data"
    )


def test_a_model_of_nothing_takes_the_precision_of_its_first_data(
    engine: Engine,
) -> None:
    for first, reference in (
        (torch.float32, torch.float64),
        (torch.float64, torch.float32),
    ):
        model = engine().to(reference)
        model.set_train_data(POINTS.to(first), PAIRS)
        assert {t.dtype for t in (*model.parameters(), *model.train_inputs)} == {first}


def test_single_points_of_a_double_model(engine: Engine) -> None:
    """BoTorch's tests of PairwiseMCPosteriorVariance ask for them."""
    model, single = engine(POINTS, PAIRS), NEW.float()
    first_moments, expected = (
        moments(model.posterior(x)) for x in (single, single.double())
    )
    assert all(
        torch.equal(a, b) for a, b in zip(first_moments, expected, strict=True)
    ), "points in single precision are not predicted as the same ones in double"
    for points in (NEW[:1], NEW[:1].float()):
        win = model.duel_probability(single, points)
        assert torch.equal(
            win, model.duel_probability(single.double(), points.double())
        )


def test_batches_broadcast_and_points_are_not_read(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    assert model.duel_posterior(NEW.expand(3, 1, 4, 2), NEW[:1]).mean.shape[:2] == (
        3,
        1,
    )
    assert model.duel_probability(NEW.expand(3, 4, 2), NEW[:1]).shape == (3, 4), (
        "a t-batch of duels against one point does not broadcast to 3 x 4"
    )
    x = NEW.clone().requires_grad_()
    assert torch.autograd.grad(model.posterior(x).mean.sum(), x)[0].isfinite().all(), (
        "the gradient of means in points is not finite"
    )
    assert model.posterior(NEW[:0]).mean.shape == (0, 1), (
        "no points at all have no empty posterior"
    )


def test_a_model_of_nothing_takes_any_precision(engine: Engine) -> None:
    for dtype in (torch.float32, torch.float64):
        assert moments(engine().posterior(NEW.to(dtype)))[0].dtype == dtype
    with pytest.raises(FeedbackError, match=r"X is torch\.float16"):
        engine().posterior(NEW.half())
