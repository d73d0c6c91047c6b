"""Values that users give: their checks, and how messages name them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from numbers import Real
from pathlib import Path
from typing import Any
from unicodedata import normalize

from pandas import isna
from pandas.api.types import is_bool, is_float, is_integer, is_scalar

from botorch_pref.errors import ExperimentError

_LARGEST = 2**63 - 1
"""The largest integer that databases keep as one."""


def argument_error(argument: str, value: object, advice: str) -> ExperimentError:
    """Makes the error of an argument, which says what to give instead."""
    return ExperimentError(f"{argument} is {quoted(value)}; give {advice}.")


def checked_truth(argument: str, value: object) -> bool:
    """Checks a boolean; texts are refused, of which ``"no"`` would be true."""
    if not is_bool(value):
        raise argument_error(argument, value, "True or False")
    return bool(value)


def checked_integer(
    argument: str, value: Any, lower: int, upper: int = _LARGEST
) -> int:
    """Checks an integer of a range, and makes it one of Python's."""
    if not is_integer(value) or not lower <= int(value) <= upper:
        limit = "" if upper == _LARGEST else f" and at most {upper}"
        raise argument_error(argument, value, f"an integer of at least {lower}{limit}")
    return int(value)


def finite_number(value: Any) -> float | None:
    """Makes a float of a number that can be calculated with and stored.

    It makes None of what is no real number, of booleans, NaN and infinity, and of what
    no float can hold.
    """
    if not isinstance(value, Real | Decimal) or is_bool(value):
        return None
    try:
        number = float(value)
    # An integer above the largest float, and a signalling NaN of Decimal.
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


def checked_path(argument: str, value: object) -> Path:
    """Checks the path of a file."""
    if not isinstance(value, str | Path):
        raise argument_error(argument, value, "a path")
    return Path(value)


def is_text(value: object) -> bool:
    """Tells whether something is a text that files and databases can keep."""
    # Halves of characters have no encoding. A null character ends texts in C, and a
    # table that holds one is taken for UTF-16.
    if not isinstance(value, str) or "\0" in value:
        return False
    return value.encode(errors="ignore").decode() == value


TEXT = "a text that files can keep: whole characters, none of them NUL"
"""The description in messages of a text that `is_text` accepts."""


def look_alike(names: Iterable[str]) -> tuple[str, str] | None:
    """Finds two names that look the same, such as an "é" of one character and of two.

    They are written as their codes.
    """
    earlier: dict[str, str] = {}
    for name in names:
        twin = earlier.setdefault(normalize("NFC", name), name)
        if twin != name:
            return ascii(twin), ascii(name)
    return None


def is_missing(value: Any) -> bool:
    """Tells whether something stands for a missing value, such as NaN or None."""
    try:
        return bool(is_scalar(value) and isna(value))
    # A signalling NaN of Decimal.
    except InvalidOperation:
        return True


_LONGEST = 300
"""The number of characters of a value in a message, at most."""


def quoted(value: Any) -> str:
    """Writes a value as messages name it, cut where it is long."""
    try:
        text = repr(value)
    # Python writes no integer of more than 4,300 digits.
    except ValueError:
        text = f"a number too long to print ({type(value).__name__})"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def plain_options(argument: str, options: object) -> dict[str, Any]:
    """Makes plain options by name, of numbers, texts, lists and further options.

    Options that cannot be stored are refused here, not when a model first needs them.
    """
    if not isinstance(options, Mapping):
        raise argument_error(argument, options, "a dictionary of options by name")
    plain: dict[str, Any] = _plain(argument, options)
    return plain


def _plain(path: str, value: Any) -> Any:
    """Translates a user's value to what JSON can hold; classes count as their names.

    ``path`` is where it stands, for the message of an error.
    """
    if value is None or isinstance(value, str):
        return value
    if is_bool(value):
        return bool(value)
    if isinstance(value, type):
        return value.__name__
    if is_integer(value) or is_float(value):
        if finite_number(value) is None:
            raise argument_error(path, value, "a finite number")
        return int(value) if is_integer(value) else float(value)
    if isinstance(value, Mapping):
        plain = {}
        for key, entry in value.items():
            name = key.__name__ if isinstance(key, type) else key
            if not isinstance(name, str):
                raise ExperimentError(
                    f"{path} has an option {name!r}; name it by a text."
                )
            plain[name] = _plain(f"{path}[{name!r}]", entry)
        return plain
    if isinstance(value, Sequence):
        return [_plain(f"{path}[{i}]", entry) for i, entry in enumerate(value)]
    raise ExperimentError(
        f"{path} is {value!r}, which cannot be stored; give numbers, texts and lists, "
        "and what is made of them by name: {'its name': {'option': value}}."
    )
