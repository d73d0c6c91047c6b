"""Likelihoods by the names that experiments store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from botorch.utils.datasets import SupervisedDataset
from gpytorch import priors
from gpytorch.priors import Prior

from botorch_pref.ax.names import class_named, public_classes
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.likelihoods.registry import registered_likelihoods
from botorch_pref.likelihoods.resolve import AnyLikelihood
from botorch_pref.models.preference_gp import PreferenceGP

T = TypeVar("T")


def likelihood_classes() -> dict[str, type[AnyLikelihood]]:
    """Every registered likelihood, by name."""
    return registered_likelihoods()


def likelihoods_named(given: object) -> dict[type[Feedback], AnyLikelihood]:
    """Likelihoods by kind of answer, as models take them.

    Args:
        given: One likelihood, of all kinds of answers that it explains; or likelihoods
            by the names of kinds. A likelihood is its name, or its name with options:
            ``{"PairwiseProbitLikelihood": {"noise": 0.1}}``. Options are numbers, lists
            of numbers, and priors of GPyTorch, by name with options again.

    Raises:
        ExperimentError: There is no such likelihood, kind or option, or the likelihood
            does not explain the kind.
    """
    classes = likelihood_classes()
    if isinstance(given, Mapping) and not given.keys() <= classes.keys():
        kinds = {kind.__name__: kind for c in classes.values() for kind in c.explains}
        return {
            class_named(kind, kinds, "kind of answer"): _made(one, classes)
            for kind, one in given.items()
        }
    one = _made(given, classes)
    return dict.fromkeys(one.explains, one)


def with_likelihoods(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a model, with likelihoods in the place of their names.

    Args:
        options: Perhaps with ``likelihood``, see `likelihoods_named`; one that is no
            name is left as it is.
    """
    given = options.get("likelihood")
    names = given if isinstance(given, Mapping) else [given]
    if not names or not all(isinstance(name, str) for name in names):
        return dict(options)
    return {**options, "likelihood": likelihoods_named(given)}


def model_arguments(
    model_class: type[Any], dataset: SupervisedDataset, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Constructor arguments of a model.

    Answers so far may say nothing of duels, such as levels or failures alone. The
    questions to come are duels: such a model gets the likelihood of duels as well.

    Args:
        model_class: Of the model.
        dataset: The answers.
        options: See `with_likelihoods`.
    """
    arguments = {**model_class.construct_inputs(dataset), **with_likelihoods(options)}
    kinds = {type(block) for block in arguments.get("feedback", ())}
    compared = "comparisons" in arguments or kinds & {Comparisons, Choices, Rankings}
    given = arguments.get("likelihood") or {}
    if compared or not kinds or not isinstance(given, Mapping):
        return arguments
    if issubclass(model_class, PreferenceGP):
        duels = model_class.engine.default_likelihoods[Comparisons].default_for(None)
        arguments["likelihood"] = {Comparisons: duels, **given}
    return arguments


def _made(given: object, classes: Mapping[str, type[T]]) -> T:
    """An object from its name, or its name with options."""
    named = {given: {}} if isinstance(given, str) else given
    if not isinstance(named, Mapping) or len(named) != 1:
        raise ExperimentError(
            f"{given!r} is no likelihood or prior; give a name, or "
            '{"its name": {"option": value}}.'
        )
    ((name, options),) = named.items()
    made = class_named(name, dict(classes), "likelihood or prior")
    try:
        return made(**{key: _option(value) for key, value in options.items()})
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise ExperimentError(f"{name} does not take {options!r}: {error}") from error


def _option(value: object) -> object:
    if isinstance(value, list):
        return torch.tensor(value, dtype=torch.float64)
    if not isinstance(value, str | Mapping):
        return value
    found = public_classes(priors)
    return _made(value, {n: cls for n, cls in found.items() if issubclass(cls, Prior)})
