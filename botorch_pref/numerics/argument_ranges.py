"""Checks that numbers given by a user lie where they mean something."""

from __future__ import annotations

from numbers import Integral

from torch import Tensor

from botorch_pref.errors import FeedbackError


def check_count(name: str, value: object, *, at_least: int) -> None:
    """Checks that an argument is an integer, and large enough.

    Args:
        name: What to call it in messages, for example ``num_draws``.
        value: What was given; booleans are no integers.
        at_least: The smallest that is allowed.

    Raises:
        FeedbackError: It is something else, or smaller.
    """
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or value < at_least:  # type: ignore[operator]
        raise FeedbackError(
            f"{name} is {value!r}; give an integer of at least {at_least}."
        )


def check_probabilities(name: str, value: Tensor) -> None:
    """Checks that numbers are strictly between 0 and 1.

    Args:
        name: What to call them in messages.
        value: Any shape.

    Raises:
        FeedbackError: One is not; NaN counts as outside.
    """
    outside = ~((value > 0) & (value < 1))
    if bool(outside.any()):
        first = float(value[outside].flatten()[0])
        raise FeedbackError(
            f"{name} holds {first}; give probabilities strictly between 0 and 1."
        )
