"""Booleans and integers that people give, Python's and NumPy's."""

from __future__ import annotations

from pandas.api.types import is_bool, is_integer, is_number

from botorch_pref.errors import ExperimentError


def given_truth(argument: str, given: object) -> bool:
    """A boolean, of Python.

    What is merely true or false in a condition, as a text or a number, says nothing:
    ``"no"`` would be true.

    Args:
        argument: To name in messages.
        given: What was given, which may be NumPy's.

    Raises:
        ExperimentError: It is something else.
    """
    if not is_bool(given):
        raise ExperimentError(f"{argument} is {given!r}; give True or False.")
    return bool(given)


def given_integer(argument: str, given: object, least: int) -> int:
    """An integer, of Python.

    Args:
        argument: To name in messages.
        given: What was given, which may be NumPy's.
        least: The smallest that can be.

    Raises:
        ExperimentError: It is something else, also a boolean, or smaller.
    """
    if not is_integer(given) or int(given) < least:  # type: ignore[call-overload]
        raise ExperimentError(
            f"{argument} is {given!r}; give an integer of at least {least}."
        )
    return int(given)  # type: ignore[call-overload]


def is_share(given: object) -> bool:
    """Whether something is a number from 0 to 1.

    Args:
        given: What was given, which may be NumPy's.
    """
    number = is_number(given) and not is_bool(given)
    return bool(number and 0 <= given <= 1)  # type: ignore[operator]
