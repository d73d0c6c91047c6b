"""Values that a page or a widget sent, checked."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from botorch_pref.ax import Answer
from botorch_pref.errors import ExperimentError
from botorch_pref.web.asking.ask_error import AskError

_LONGEST_NAME = 100
_LONGEST_NOTE = 2000
_NO_NAME = ("Cc", "Cs", "Zl", "Zp")
"""Categories of Unicode that are in no name: control characters, halves of others, and
what ends lines. Joiners and blanks of all kinds are in names."""
_ABOUT = ("question", "rater", "token", "experiment")
_KEYWORDS = (*(one.name for one in fields(Answer)), "note", "seconds")


def given_object(body: bytes | bytearray) -> dict[str, Any]:
    """The JSON object of a request's body, all of whose numbers are finite.

    Args:
        body: As it was sent.

    Raises:
        ExperimentError: It is something else.
    """
    try:
        given = json.loads(body, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ExperimentError(f"The body is not JSON: {error}.") from error
    if not isinstance(given, dict):
        raise ExperimentError("The body is no JSON object.")
    return given


def _finite(text: str) -> float:
    """A number, which may be too large for a float or none at all."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:_LONGEST_NAME]} is not finite")
    return number


def given_rater(given: Mapping[str, Any]) -> str | None:
    """The name of a rater; None for nobody in particular.

    Args:
        given: With ``rater``, or without.

    Raises:
        AskError: It is no text, or too long, or cannot be printed.
    """
    rater = given.get("rater")
    if rater is None:
        return None
    if not isinstance(rater, str):
        raise AskError("The rater's name is no text; enter a name.", needs="name")
    if len(rater) > _LONGEST_NAME:
        raise AskError(
            f"The rater's name has more than {_LONGEST_NAME} characters; enter a "
            "shorter one.",
            needs="name",
        )
    if any(unicodedata.category(character) in _NO_NAME for character in rater):
        raise AskError(
            "The rater's name has characters that cannot be printed; enter it without "
            "them.",
            needs="name",
        )
    # Phones differ in how they write an accent, and names in their blanks.
    return " ".join(unicodedata.normalize("NFC", rater).split()) or None


def given_index(given: Mapping[str, Any]) -> int:
    """The number of a question.

    Args:
        given: With ``question``.

    Raises:
        ExperimentError: It is none.
    """
    index = given.get("question")
    if not isinstance(index, int) or isinstance(index, bool):
        raise ExperimentError(
            f"question is {index!r}; give the number of the question that is answered."
        )
    return index


def given_patience(given: Mapping[str, Any], most: float) -> float:
    """Seconds for which a call may wait.

    Args:
        given: With ``patience``, or without.
        most: If nothing else is given, and at most.

    Raises:
        ExperimentError: It is no number.
    """
    try:
        patience = float(given.get("patience", most))
    # No float is as large as an integer can be.
    except (TypeError, ValueError, OverflowError) as error:
        raise ExperimentError(
            f"patience is {given['patience']!r}; give seconds."
        ) from error
    # What is not a number is not less either.
    return patience if patience < most else most


def given_keywords(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of ``tell``.

    Args:
        given: With ``question`` and ``rater`` beside them.

    Raises:
        ExperimentError: There are others.
    """
    said = {k: v for k, v in given.items() if k not in _ABOUT}
    if unknown := sorted(set(said) - set(_KEYWORDS)):
        raise ExperimentError(
            f"An answer has no {', '.join(unknown)[:_LONGEST_NAME]}; say one of "
            f"{', '.join(_KEYWORDS)}."
        )
    note = said.get("note")
    if isinstance(note, str) and len(note) > _LONGEST_NOTE:
        raise ExperimentError(f"The note is longer than {_LONGEST_NOTE} characters.")
    if isinstance(note, str) and any(unicodedata.category(c) == "Cs" for c in note):
        raise ExperimentError(f"The note {note[:_LONGEST_NAME]!r} is no text.")
    return said


def given_options(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Designs of a person's own.

    Args:
        given: With ``options``.

    Raises:
        ExperimentError: They are no list of designs.
    """
    options = given.get("options")
    if not isinstance(options, list) or not all(
        isinstance(option, Mapping) for option in options
    ):
        raise ExperimentError(
            "options is no list of designs; give two or more, each the values of its "
            "parameters by name."
        )
    return options
