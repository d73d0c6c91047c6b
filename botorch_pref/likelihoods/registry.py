"""The likelihoods that messages, tables and experiments name."""

from __future__ import annotations

from inspect import isabstract
from typing import Any, TypeVar

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback.feedback import Feedback
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood

LikelihoodT = TypeVar("LikelihoodT", bound=type[PreferenceLikelihood[Any]])

_REGISTERED: dict[str, type[PreferenceLikelihood[Any]]] = {}


def register_likelihood(likelihood: LikelihoodT) -> LikelihoodT:
    """Registers a likelihood by its name; a decorator of its class.

    Error messages then name it where its kind of answer needs a likelihood, and an
    experiment can be told it by name. A likelihood that is only given to models,
    ``likelihood=MyLikelihood()``, need not be registered.

    Args:
        likelihood: A concrete class whose ``explains`` names its kinds of answers.

    Returns:
        The class itself.

    Raises:
        TypeError: It is not a class of likelihoods.
        UnsupportedFeedbackError: It is abstract, or explains no kind of answer.
        ValueError: Another class has its name.
    """
    if not (
        isinstance(likelihood, type) and issubclass(likelihood, PreferenceLikelihood)
    ):
        raise TypeError(
            "register_likelihood registers classes of PreferenceLikelihood, got "
            f"{likelihood!r}."
        )
    if isabstract(likelihood) or not getattr(likelihood, "explains", None):
        raise UnsupportedFeedbackError(
            f"{likelihood.__name__} cannot be registered: a likelihood has a forward() "
            "and names its kinds of answers, explains = {Comparisons: DensityFactors}."
        )
    known = _REGISTERED.get(likelihood.__name__, likelihood)
    # A notebook's cell that is run again makes the same class again.
    if (known.__module__, known.__qualname__) != (
        likelihood.__module__,
        likelihood.__qualname__,
    ):
        raise ValueError(
            f"{known.__module__}.{known.__qualname__} is registered already; give "
            f"{likelihood.__module__}.{likelihood.__qualname__} a name of its own."
        )
    _REGISTERED[likelihood.__name__] = likelihood
    return likelihood


def registered_likelihoods() -> dict[str, type[PreferenceLikelihood[Any]]]:
    """Every registered likelihood by name, in alphabetical order."""
    return dict(sorted(_REGISTERED.items()))


def likelihoods_of(kind: type[Feedback]) -> list[type[PreferenceLikelihood[Any]]]:
    """The registered likelihoods that explain a kind of answer, by name.

    Args:
        kind: A class of feedback.
    """
    return [cls for cls in registered_likelihoods().values() if kind in cls.explains]
