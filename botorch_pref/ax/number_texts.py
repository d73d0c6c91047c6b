"""Texts of numbers, by one rule for the print of a report, its pages and its JSON."""

from __future__ import annotations

import math
from decimal import Decimal

from pandas.api.types import is_bool

_LEAST = 9
"""Decimals of a share: what rounding leaves of no difference is none."""


def number_text(value: float) -> str:
    """Writes a number with three digits, or all of its whole part, as people do.

    Powers of ten stand in numbers below a millionth alone, and from 10^15 on.
    """
    rounded = f"{value:.3g}"
    if not 1e-6 <= abs(value) < 1e15:
        return "0" if value == 0 else rounded
    if abs(value) >= 100:
        return f"{value:.0f}"
    # Without zeros behind the last digit, as in `rounded`.
    return f"{Decimal(rounded):f}"


def share_text(value: float, decimals: int = 2) -> str:
    """Writes a share of the step from the worst option to the best, by its decimals.

    One that would be written as 0, and is not, has one digit more than zeros. No
    difference at all is 0, and NaN an empty text.
    """
    if math.isnan(value):
        return ""
    value = round(value, _LEAST)
    if value == 0:
        return "0"
    if round(value, decimals) == 0:
        return f"{Decimal(f'{value:.0e}'):f}"
    return f"{value:.{decimals}f}"


def interval_texts(mean: float, lower: float, upper: float) -> tuple[str, str, str]:
    """Writes a share and the ends of its interval, all with the same decimals.

    There are two decimals, or so many that the width of the interval has two digits:
    others would say nothing beside it. An end that is not 0 is not written as 0, for
    the interval would seem to hold it.

    Args:
        mean: The share.
        lower: The lower end.
        upper: The upper end; where it is no larger, there is no interval, and each is
            written as by `share_text`.
    """
    if not lower < upper:
        return share_text(mean), share_text(lower), share_text(upper)
    decimals = max(2, 1 - math.floor(math.log10(upper - lower)))
    # Adding 0 takes the sign of -0 away.
    middle = f"{round(mean, decimals) + 0.0:.{decimals}f}"
    low, high = (
        share_text(end, decimals) if round(end, _LEAST) else f"{0:.{decimals}f}"
        for end in (lower, upper)
    )
    return middle, low, high


def interval_text(mean: float, lower: float, upper: float) -> str:
    """Writes a share with its interval in brackets, see `interval_texts`.

    The text is empty where there is no interval: its ends are equal or NaN.
    """
    if not lower < upper:
        return ""
    middle, low, high = interval_texts(mean, lower, upper)
    return f"{middle} ({low} to {high})"


def value_text(value: object) -> object:
    """Writes a value of a parameter as a question shows it.

    With few digits it would be another design than the one that was judged.
    """
    return f"{value:.12g}" if isinstance(value, float) else value


def cell_text(value: object) -> str:
    """Writes a value of a table: a number with three digits, none for NaN."""
    if is_bool(value):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number_text(value) if math.isfinite(value) else ""
    return str(value)
