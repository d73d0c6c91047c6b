"""Support of answers by the engines of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Feedback
from botorch_pref.inference.engine import Engine
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.registry import likelihoods_of
from botorch_pref.models.registry import registered_models


def engines() -> list[type[Any]]:
    """All registered classes of models with an engine of their own, by name.

    Ensembles have the engine of their members.
    """
    found = [entry.model_class for entry in registered_models()]
    return [
        model
        for model in found
        if isinstance(getattr(model, "engine", None), Engine) and not model._is_ensemble
    ]


def check_engine(model: object) -> None:
    """Checks that a model has an engine.

    Args:
        model: Of a class with an attribute ``engine``.

    Raises:
        TypeError: There is no engine, or another thing in its place.
    """
    engine = getattr(type(model), "engine", None)
    if not isinstance(engine, Engine):
        raise TypeError(
            f"{type(model).__name__}.engine is {engine!r}; give the class an instance "
            "of an Engine, for example engine = ExpectationPropagation(), or take "
            "EPPreferenceGP."
        )


def check_supported(
    model: type[Any], likelihoods: Mapping[type[Feedback], PreferenceLikelihood[Any]]
) -> None:
    """Checks that the engine of a model takes all its answers.

    Args:
        model: The class of the model, with an ``engine``.
        likelihoods: Its likelihoods by kind of answer.

    Raises:
        UnsupportedFeedbackError: The engine does not take some answer under its
            likelihood; the message names what does.
    """
    for kind, likelihood in likelihoods.items():
        factors = likelihood.explains[kind]
        if model.engine.accepts(factors):
            continue
        able = [m.__name__ for m in engines() if m.engine.accepts(factors)]
        message = (
            f"{model.__name__} does not take {kind.__name__} under "
            f"{type(likelihood).__name__}; {_listed(able)} "
            f"{'does' if len(able) == 1 else 'do'}."
        )
        instead = [
            c.__name__
            for c in likelihoods_of(kind)
            if model.engine.accepts(c.explains[kind])
        ]
        if instead:
            message += (
                f" Or pass likelihood={{{kind.__name__}: {' or '.join(instead)}(...)}}."
            )
        raise UnsupportedFeedbackError(message)


def _listed(names: list[str]) -> str:
    """Names as a sentence has them: ``a, b and c``."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
