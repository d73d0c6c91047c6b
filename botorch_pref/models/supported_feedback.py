"""Check that an engine takes answers under their likelihoods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Feedback
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.registry import likelihoods_of

Engine = type[Any]
"""A class of models; ``takes`` are the kinds of factors that its engine takes."""


def check_supported(
    engine: Engine,
    likelihoods: Mapping[type[Feedback], PreferenceLikelihood[Any]],
    engines: Iterable[Engine],
) -> None:
    """Checks that an engine takes all answers of a model.

    Args:
        engine: The class of the model.
        likelihoods: Its likelihoods by kind of answer.
        engines: All classes of models there are, to name those that would do.

    Raises:
        UnsupportedFeedbackError: The engine does not take some answer under its
            likelihood; the message names what does.
    """
    for kind, likelihood in likelihoods.items():
        factors = likelihood.explains[kind]
        if factors in engine.takes:
            continue
        able = [other.__name__ for other in engines if factors in other.takes]
        message = (
            f"{engine.__name__} does not take {kind.__name__} under "
            f"{type(likelihood).__name__}; {_listed(able)} "
            f"{'does' if len(able) == 1 else 'do'}."
        )
        instead = [
            c.__name__ for c in likelihoods_of(kind) if c.explains[kind] in engine.takes
        ]
        if instead:
            message += (
                f" Or pass likelihood={{{kind.__name__}: {' or '.join(instead)}(...)}}."
            )
        raise UnsupportedFeedbackError(message)


def _listed(names: list[str]) -> str:
    """Names as a sentence has them: ``a, b and c``."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
