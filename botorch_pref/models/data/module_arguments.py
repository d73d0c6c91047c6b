"""Checks of the modules that make up a model."""

from __future__ import annotations

from torch.nn import Module

from botorch_pref.errors import FeedbackError


def check_module(name: str, value: object, kind: type[Module]) -> None:
    """Checks that an argument is a module of a kind, or left out.

    Args:
        name: Of the argument.
        value: What was given.
        kind: A base class.

    Raises:
        FeedbackError: It is neither None nor an instance.
    """
    if value is not None and not isinstance(value, kind):
        shown = (
            f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        )
        raise FeedbackError(
            f"{name} is {shown}; give an instance of {kind.__module__}."
            f"{kind.__name__}, or None for the default."
        )
