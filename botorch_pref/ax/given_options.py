"""Options that people give, as stores can keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pandas.api.types import is_bool, is_float, is_integer

from botorch_pref.ax.given_values import finite_number, written
from botorch_pref.errors import ExperimentError


def given_options(argument: str, given: object) -> dict[str, Any]:
    """Options by name, of numbers, texts, lists and further options.

    What cannot be stored would be found out when the model first chooses a question.

    Args:
        argument: To name in messages.
        given: What was given. A class counts as its name, NumPy's numbers as Python's.

    Raises:
        ExperimentError: It is something else.
    """
    if not isinstance(given, Mapping):
        raise ExperimentError(
            f"{argument} is {given!r}; give a dictionary of options by name."
        )
    found = _plain(argument, given)
    assert isinstance(found, dict)
    return found


def _plain(where: str, given: Any) -> Any:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, type):
        return given.__name__
    for recognises, make in ((is_bool, bool), (is_integer, int), (is_float, float)):
        if recognises(given):
            if finite_number(given) is None and not is_bool(given):
                raise ExperimentError(
                    f"{where} is {written(given)}; give a finite number."
                )
            return make(given)
    if isinstance(given, Mapping):
        named = {_name(where, key): value for key, value in given.items()}
        return {name: _plain(f"{where}[{name!r}]", v) for name, v in named.items()}
    if isinstance(given, Sequence):
        return [_plain(f"{where}[{i}]", value) for i, value in enumerate(given)]
    raise ExperimentError(
        f"{where} is {given!r}, which cannot be stored; give numbers, texts and lists, "
        "and what is made of them by name: {'its name': {'option': value}}."
    )


def _name(where: str, given: object) -> str:
    if isinstance(given, type):
        return given.__name__
    if not isinstance(given, str):
        raise ExperimentError(f"{where} has an option {given!r}; name it by a text.")
    return given
