"""Values and designs that a user gave, checked."""

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

_MOST = 2**63 - 1
"""The largest integer that databases keep as one."""


def wrong(argument: str, given: object, wanted: str) -> ExperimentError:
    """The error of an argument, which says what to give instead."""
    return ExperimentError(f"{argument} is {written(given)}; give {wanted}.")


def given_truth(argument: str, given: object) -> bool:
    """A boolean; texts are refused, of which ``"no"`` would be true in a condition."""
    if not is_bool(given):
        raise wrong(argument, given, "True or False")
    return bool(given)


def given_integer(argument: str, given: Any, least: int, most: int = _MOST) -> int:
    """An integer, of Python."""
    if not is_integer(given) or not least <= int(given) <= most:
        limit = "" if most == _MOST else f" and at most {most}"
        raise wrong(argument, given, f"an integer of at least {least}{limit}")
    return int(given)


def finite_number(given: Any) -> float | None:
    """A number that can be calculated with and stored, as Python's float.

    None of what is no real number, of booleans, NaN and infinity, and of what no float
    can hold.
    """
    if not isinstance(given, Real | Decimal) or is_bool(given):
        return None
    try:
        number = float(given)
    # An integer above the largest float, and a NaN that must not be looked at.
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


def given_path(argument: str, given: object) -> Path:
    """The path of a file."""
    if not isinstance(given, str | Path):
        raise wrong(argument, given, "a path")
    return Path(given)


def is_text(given: object) -> bool:
    """Whether something is a text that files and databases can keep."""
    # Halves of characters have no encoding. A null character ends texts in C, and a
    # table that holds one is taken for UTF-16.
    if not isinstance(given, str) or "\0" in given:
        return False
    return given.encode(errors="ignore").decode() == given


TEXT = "a text that files can keep: whole characters, none of them NUL"
"""What `is_text` holds of, in messages."""


def look_alike(names: Iterable[str]) -> tuple[str, str] | None:
    """Two names that look the same, such as an "é" of one character and of two.

    They are written as their codes.
    """
    before: dict[str, str] = {}
    for name in names:
        other = before.setdefault(normalize("NFC", name), name)
        if other != name:
            return ascii(other), ascii(name)
    return None


def is_missing(given: Any) -> bool:
    """Whether something stands for a value that is not there, such as NaN or None."""
    try:
        return bool(is_scalar(given) and isna(given))
    # A decimal that must not be compared with anything.
    except InvalidOperation:
        return True


_LONGEST = 300
"""Characters of a value in a message."""


def written(given: Any) -> str:
    """A value that somebody gave, as messages name it: cut where it is long."""
    try:
        text = repr(given)
    # Python writes no integer of more than 4,300 digits.
    except ValueError:
        text = f"a number too long to print ({type(given).__name__})"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def given_options(argument: str, given: object) -> dict[str, Any]:
    """Options by name, of numbers, texts, lists and further options.

    Options that cannot be stored are refused here, not when a model first needs them.
    """
    if not isinstance(given, Mapping):
        raise wrong(argument, given, "a dictionary of options by name")
    found: dict[str, Any] = _plain(argument, given)
    return found


def _plain(where: str, given: Any) -> Any:
    if given is None or isinstance(given, str):
        return given
    if is_bool(given):
        return bool(given)
    if isinstance(given, type):
        return given.__name__
    if is_integer(given) or is_float(given):
        if finite_number(given) is None:
            raise wrong(where, given, "a finite number")
        return int(given) if is_integer(given) else float(given)
    if isinstance(given, Mapping):
        plain = {}
        for key, value in given.items():
            name = key.__name__ if isinstance(key, type) else key
            if not isinstance(name, str):
                raise ExperimentError(
                    f"{where} has an option {name!r}; name it by a text."
                )
            plain[name] = _plain(f"{where}[{name!r}]", value)
        return plain
    if isinstance(given, Sequence):
        return [_plain(f"{where}[{i}]", value) for i, value in enumerate(given)]
    raise ExperimentError(
        f"{where} is {given!r}, which cannot be stored; give numbers, texts and lists, "
        "and what is made of them by name: {'its name': {'option': value}}."
    )
