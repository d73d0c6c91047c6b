"""Arguments of the wrong kind, to every public class and function."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchError

import botorch_pref
from botorch_pref import (
    BotorchPrefError,
    Choices,
    DuelingEUBO,
    DuelSampler,
    EPPreferenceGP,
    FeedbackError,
    LaplacePreferenceGP,
    PlackettLuceLikelihood,
    PlackettLuceRegression,
    Validity,
)
from botorch_pref.evaluation import best_probability, leaderboard, remaining_gain

DOUBLE = torch.double
POINTS = torch.tensor([[0.1, 0.3], [0.5, 0.2], [0.9, 0.8]], dtype=DOUBLE)
PAIRS = torch.tensor([[0, 1], [2, 1]])
MODEL = EPPreferenceGP(POINTS, PAIRS).eval()
SAFE = EPPreferenceGP(
    POINTS, feedback=[Validity(torch.tensor([0, 1]), torch.tensor([True, False]))]
).eval()
SETS = LaplacePreferenceGP(
    POINTS,
    feedback=[Choices(torch.tensor([[0, 1, 2]]), torch.tensor([1]))],
    likelihood=PlackettLuceLikelihood(),
).eval()
ACQUISITION = DuelingEUBO(MODEL, POINTS[:1])

# What is no model, no tensor and so on, but what somebody may have at hand.
THINGS = {
    "None": None,
    "text": "a text",
    "number": 3,
    "list": [[0.1, 0.2]],
    "model": MODEL,
    "class": EPPreferenceGP,
    "acquisition": ACQUISITION,
    "tensor": POINTS,
    "dictionary": {},
}
# Numbers that are tensors have one element; a number is broadcast.
WRONG_THINGS = {
    "Model": set(THINGS) - {"model"},
    "Model | None": set(THINGS) - {"model", "None"},
    "PreferenceGP": set(THINGS) - {"model"},
    "PreferenceGP | None": set(THINGS) - {"model", "None"},
    "PreferenceGP | PlackettLuceRegression": set(THINGS) - {"model"},
    "AcquisitionFunction": set(THINGS) - {"acquisition"},
    "Tensor": set(THINGS) - {"tensor"},
    "Tensor | None": set(THINGS) - {"tensor", "None"},
    "Tensor | Comparisons | None": set(THINGS) - {"tensor", "None"},
    "float": set(THINGS) - {"number"},
    "float | None": set(THINGS) - {"number", "None"},
    "float | Tensor": set(THINGS) - {"number", "tensor"},
    "float | Tensor | None": set(THINGS) - {"number", "tensor", "None"},
    "int": set(THINGS) - {"number"},
    "int | None": set(THINGS) - {"number", "None"},
    "bool": set(THINGS) - {"None"},
    "Generator | None": set(THINGS) - {"None"},
    "DuelLink | None": set(THINGS) - {"None"},
    "Prior | None": set(THINGS) - {"None"},
    "Mean | None": set(THINGS) - {"None"},
    "Kernel | None": set(THINGS) - {"None"},
    "InputTransform | None": set(THINGS) - {"None"},
    "LikelihoodArgument": set(THINGS) - {"None", "dictionary"},
    "Sequence[Sequence[int]]": set(THINGS),
    "Sequence[Sequence[int]] | None": set(THINGS) - {"None"},
    "Tensor | Feedback | Sequence[Feedback]": set(THINGS) - {"tensor"},
    "Sequence[Feedback]": set(THINGS) - {"dictionary"},
    "Mapping[int, float] | None": set(THINGS) - {"None", "dictionary"},
    "Mapping[int, Sequence[float]] | None": set(THINGS) - {"None", "dictionary"},
    "QuestionKind": set(THINGS),
    "Goal": set(THINGS),
    "Sequence[Constraint] | None": set(THINGS) - {"None"},
    "torch.Size": set(THINGS),
    "torch.Size | None": set(THINGS) - {"None"},
    "Literal['laplace', 'ep', 'variational']": set(THINGS),
    "PreferenceLikelihood": set(THINGS),
}
# Tensors that are no points of a model with two features.
NO_POINTS = {
    "integers": torch.tensor([[0, 1]]),
    "booleans": torch.tensor([[True, False]]),
    "half precision": POINTS[:1].half(),
    "three features": torch.zeros(1, 3, dtype=DOUBLE),
    "no rows": torch.zeros(0, 2, dtype=DOUBLE),
    "nothing": torch.zeros(0, dtype=DOUBLE),
    "a number": torch.tensor(0.5, dtype=DOUBLE),
    "NaN": torch.tensor([[0.1, torch.nan]], dtype=DOUBLE),
    "infinity": torch.tensor([[torch.inf, 0.1]], dtype=DOUBLE),
    "sparse": POINTS[:1].to_sparse(),
    "another device": torch.zeros(1, 2, dtype=DOUBLE, device="meta"),
}
# Tensors that are no indices of three points.
NO_INDICES = {
    "floating point": torch.tensor([[0.0, 1.0]]),
    "booleans": torch.tensor([[True, False]]),
    "one dimension too few": torch.tensor(0),
}
POINT_NAMES = {"X", "X_ref", "choices", "datapoints"}
INDEX_NAMES = {"pairs", "ties", "sets", "chosen", "orders", "indices", "comparisons"}

# A model may have any number of features, be on any device, and predict nothing at no
# points. A duel without a reference is one of two new points.
ALLOWED = {
    "datapoints": ("three features", "another device"),
    "X": ("no rows",),
    "X_ref": ("None",),
    "default_model.X": ("three features", "another device"),
}

RIGHT: dict[str, dict[str, Any]] = {
    "ChanceConstrained": {"acquisition": ACQUISITION, "feasibility_model": SAFE},
    "Choices": {"sets": torch.tensor([[0, 1, 2]]), "chosen": torch.tensor([1])},
    "Comparisons": {"pairs": PAIRS},
    "DistinctOptions": {"acquisition": ACQUISITION},
    "DuelKernel": {"dim": 2},
    "DuelSampler": {"sample_shape": torch.Size([4])},
    "FeasibilityWeighted": {"acquisition": ACQUISITION, "feasibility_model": SAFE},
    "LineChoices": {
        "lines": PAIRS,
        "chosen": torch.tensor([0.2, 0.9], dtype=DOUBLE),
    },
    "OrdinalRatings": {
        "indices": torch.tensor([0, 1]),
        "levels": torch.tensor([2, 0]),
        "num_levels": 3,
    },
    "OrdinalProbitLikelihood": {"num_levels": 3},
    "PlackettLuceRegression": {"datapoints": POINTS, "comparisons": PAIRS},
    "PreferenceMarginalLogLikelihood": {
        "likelihood": MODEL.likelihood,
        "model": MODEL,
    },
    "Rankings": {"orders": torch.tensor([[0, 2, 1]])},
    "Ratings": {
        "indices": torch.tensor([0, 1]),
        "ratings": torch.tensor([0.2, 0.7], dtype=DOUBLE),
    },
    "SkewNormalPosterior": {
        "component_means": torch.zeros(4, 2, dtype=DOUBLE),
        "component_covariance": torch.eye(2, dtype=DOUBLE),
    },
    "Strengths": {"pairs": PAIRS, "strengths": torch.tensor([0.2, 0.9])},
    "Validity": {
        "indices": torch.tensor([0, 1]),
        "valid": torch.tensor([True, False]),
    },
    "recommend": {
        "model": MODEL,
        "bounds": torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE),
        "num_restarts": 1,
        "raw_samples": 4,
    },
    "default_model": {"X": POINTS, "feedback": PAIRS},
    "next_question": {
        "model": MODEL,
        "bounds": torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE),
        "size": 2,
    },
    "choice_probability": {"model": SETS, "X": POINTS},
    "log_validity_probability": {"model": SAFE, "X": POINTS},
}


def right_arguments(name: str) -> dict[str, Any]:
    """Arguments that a public class or function takes."""
    if name in RIGHT:
        return RIGHT[name]
    parameters = inspect.signature(getattr(botorch_pref, name)).parameters
    defaults = {"model": MODEL, "X_ref": POINTS[:1]}
    if name.endswith("PreferenceGP"):
        defaults = {"datapoints": POINTS, "comparisons": PAIRS}
    return {key: value for key, value in defaults.items() if key in parameters}


def public() -> Iterator[str]:
    for name in botorch_pref.__all__:
        value = getattr(botorch_pref, name)
        # Nobody but the library makes its results, which are tuples.
        if not (inspect.isclass(value) and issubclass(value, Exception | tuple)):
            yield name


def kind_of(name: str, parameter: inspect.Parameter) -> str:
    """Names what a parameter is annotated as."""
    if name == "PreferenceMarginalLogLikelihood":  # GPyTorch annotates nothing
        return {"model": "PreferenceGP", "likelihood": "PreferenceLikelihood"}[
            parameter.name
        ]
    return str(parameter.annotation)


def wrong_arguments(name: str) -> Iterator[tuple[str, str, Any]]:
    """Yields each parameter, a kind of thing that is wrong for it, and one such."""
    signature = inspect.signature(getattr(botorch_pref, name))
    for key, parameter in signature.parameters.items():
        wrong_values = WRONG_THINGS[kind_of(name, parameter)]
        wrong = {kind: THINGS[kind] for kind in sorted(wrong_values)}
        if key in POINT_NAMES:
            wrong |= NO_POINTS
        if key in INDEX_NAMES:
            wrong |= NO_INDICES
        allowed = {*ALLOWED.get(key, ()), *ALLOWED.get(f"{name}.{key}", ())}
        for kind in wrong.keys() - allowed:
            yield key, kind, wrong[kind]


def complaint(function: Callable[..., Any], key: str, **arguments: Any) -> str | None:
    """Says what is wrong with how an argument is refused; None if nothing is."""
    try:
        function(**arguments)
    except (BotorchPrefError, BotorchError, TypeError, ValueError) as error:
        # Models call the points of their data so.
        called = f"{key}|datapoints" if key == "X" else key
        named = re.search(rf"(?i)\b({called})\b", str(error))
        return None if named else f"is refused without its name: {error}"
    return "is taken"


@pytest.mark.parametrize("name", list(public()))
def test_what_is_wrong_is_refused_by_name(name: str) -> None:
    function, right = getattr(botorch_pref, name), right_arguments(name)
    function(**right)
    assert [
        f"{kind} as {key} {message}"
        for key, kind, value in wrong_arguments(name)
        if (message := complaint(function, key, **{**right, key: value}))
    ] == []


@pytest.mark.parametrize("function", [EPPreferenceGP, DuelingEUBO])
def test_an_argument_that_there_is_not_is_refused_with_who_refuses_it(function) -> None:
    refused = rf"{function.__init__.__qualname__}.*'jitter'"
    with pytest.raises(TypeError, match=refused):
        function(**right_arguments(function.__name__), jitter=1e-4)


LINEAR = PlackettLuceRegression(POINTS, PAIRS)
SAMPLER = DuelSampler(torch.Size([2]))
GENERATOR = torch.Generator()


@pytest.mark.parametrize("model", [MODEL, LINEAR], ids=["process", "linear"])
@pytest.mark.parametrize("key", ["X", "point", "points", "candidates", "feedback"])
def test_methods_and_evaluations_refuse_by_name_too(model: Any, key: str) -> None:
    calls = {
        "X": [
            lambda X: model.fantasize(X, SAMPLER),
            lambda X: leaderboard(model, X),
        ],
        "point": [lambda point: remaining_gain(model, point, POINTS)],
        "points": [lambda points: best_probability(model, points)],
        "candidates": [lambda argument: remaining_gain(model, POINTS[:1], argument)],
        "feedback": [model.with_feedback],
    }
    wrong = {kind: THINGS[kind] for kind in ("text", "number", "list")}
    if key != "feedback":
        wrong |= {k: NO_POINTS[k] for k in ("integers", "nothing", "sparse")}
    assert [
        f"{kind} as {key} {message}"
        for ask in calls[key]
        for kind, value in wrong.items()
        if (message := complaint(lambda value, ask=ask: ask(value), key, value=value))
    ] == []


@pytest.mark.parametrize("shape", [(3, 2), (2, 1), (2,), (3, 3)])
def test_noise_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(FeedbackError, match=r"observation_noise has shape .*q x 1"):
        MODEL.posterior(POINTS, observation_noise=torch.ones(shape))


@pytest.mark.parametrize("etas", [None, [1.0], torch.ones(0), torch.tensor([1.0, -1])])
def test_etas_that_cannot_be_are_refused(etas: Any) -> None:
    with pytest.raises(FeedbackError, match=r"etas is .* positive"):
        LINEAR.cross_validate_eta(etas, generator=GENERATOR)


def test_parameters_of_another_shape_are_refused() -> None:
    with pytest.raises(FeedbackError, match=r"eta has shape \(2,\), .* shape \(\)"):
        PlackettLuceRegression(POINTS, PAIRS, eta=torch.ones(2))


def test_new_points_of_other_features_than_pending_ones_are_refused() -> None:
    pairs = DuelingEUBO(MODEL)
    pairs.set_X_pending(POINTS[:2])
    with pytest.raises(FeedbackError, match=r"X has shape .*, expected .* x 2"):
        pairs(POINTS[:2, :1])
