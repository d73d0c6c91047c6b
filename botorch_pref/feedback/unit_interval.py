"""Check of answers on a bounded scale: numbers strictly between 0 and 1."""

from __future__ import annotations

from torch import Tensor

from botorch_pref.errors import FeedbackError


def check_unit_interval(name: str, value: object) -> Tensor:
    """Checks that a field is a floating point tensor inside (0, 1).

    The ends are refused because a Beta density is 0 or infinite there.

    Args:
        name: What to call it in messages, for example ``Ratings.ratings``.
        value: What was given.

    Returns:
        The value.

    Raises:
        FeedbackError: Not a floating point tensor, or an entry that is not finite or
            not strictly between 0 and 1.
    """
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = getattr(value, "dtype", type(value).__name__)
        raise FeedbackError(
            f"{name} must be a floating point tensor with entries in (0, 1), got "
            f"{kind}; scale the answers, for example (answer - low) / (high - low)."
        )
    # Negated, so that NaN counts as outside.
    outside = ~((value > 0) & (value < 1))
    if bool(outside.any()):
        where = outside.nonzero()[0].tolist()
        answer = float(value[tuple(where)])
        raise FeedbackError(
            f"{name}{where} is {answer}, not strictly between 0 and 1 "
            f"({int(outside.sum())} such answers). "
            "Remove answers that are not finite; move a scale that includes its ends "
            "inside with (y (n - 1) + 0.5) / n, y from 0 to 1 and n the number of "
            "answers (Smithson and Verkuilen 2006)."
        )
    return value
