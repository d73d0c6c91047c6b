"""Arguments of calls of a page or a widget, and the status of a call that failed."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from botorch_pref.ax import Answer
from botorch_pref.ax.answers import checked_rater
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web import rendering
from botorch_pref.web.worker import JSON

_MAX_NAME = 100
_MAX_NOTE = 2000
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")
"""Categories of Unicode that are in no name: control characters, halves of others, and
what ends lines. Joiners and blanks of all kinds are in names."""

_CALL_KEYS = ("question", "rater", "token", "experiment", "context")
EXTRA_KEYS = ("note", "seconds")
_KEYWORDS = (*(part.name for part in fields(Answer)), *EXTRA_KEYS)

PATIENCE = 8.0
"""Seconds after which a call for a question says that it is still being chosen."""


def json_object(body: bytes | bytearray) -> JSON:
    """Returns the JSON object of a request's body, all of whose numbers are finite."""
    try:
        parsed = json.loads(body, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ExperimentError(f"The body is not JSON: {error}.") from error
    if not isinstance(parsed, dict):
        raise ExperimentError("The body is no JSON object.")
    return parsed


def _finite(text: str) -> float:
    """Reads a number of JSON; refuses NaN, infinities and what no float can hold."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:_MAX_NAME]} is not finite")
    return number


def rater_name(arguments: Mapping[str, Any]) -> str | None:
    """Returns the name of a rater; None where it is missing or blank."""
    if (rater := arguments.get("rater")) is None:
        return None
    wrong = ""
    if not isinstance(rater, str):
        wrong = "is no text; enter a name."
    elif len(rater) > _MAX_NAME:
        wrong = f"has more than {_MAX_NAME} characters; enter a shorter one."
    elif {*map(unicodedata.category, rater)} & {*_UNPRINTABLE}:
        wrong = "has characters that cannot be printed; enter it without them."
    if wrong:
        raise rendering.AskError(f"The rater's name {wrong}", needs="name")
    return checked_rater(rater if rater.strip() else None)


def patience_seconds(arguments: Mapping[str, Any]) -> float:
    """Returns seconds for which a call may wait, at most `PATIENCE`."""
    try:
        patience = float(arguments.get("patience", PATIENCE))
    # An integer may be too large for a float.
    except (TypeError, ValueError, OverflowError) as error:
        raise ExperimentError("patience is no number; give seconds.") from error
    # NaN is not less than anything.
    return patience if patience < PATIENCE else PATIENCE


def context_object(arguments: Mapping[str, Any]) -> JSON | None:
    """Returns the context of a call, which an address has as JSON; None without one."""
    context = arguments.get("context")
    if isinstance(context, str):
        context = json_object(context.encode(errors="replace"))
    if not isinstance(context, dict | None):
        raise rendering.AskError(
            "context is no JSON object; give a value for each of its parameters.",
            needs="context",
        )
    return context


def answer_keywords(arguments: Mapping[str, Any]) -> JSON:
    """Returns the keywords of ``tell``, without those that any call may have."""
    keywords = {k: v for k, v in arguments.items() if k not in _CALL_KEYS}
    if unknown := sorted(set(keywords) - set(_KEYWORDS)):
        raise ExperimentError(
            f"An answer has no {', '.join(unknown)[:_MAX_NAME]}; say one of "
            f"{', '.join(_KEYWORDS)}."
        )
    note = keywords.get("note")
    if isinstance(note, str) and len(note) > _MAX_NOTE:
        raise ExperimentError(f"The note is longer than {_MAX_NOTE} characters.")
    return keywords


class AnswerConflictError(ExperimentError):
    """Answer to a question that has another answer or rater, or an undo too late."""


class OtherExperimentError(rendering.AskError):
    """Call about another ``experiment`` than the one in its ``details``."""


def status_of(error: BotorchPrefError) -> int:
    """Returns the status of HTTP that tells a client what became of its call."""
    # In this order: errors of the first classes are of those below as well.
    statuses = {
        OtherExperimentError: 404,
        AnswerConflictError: 409,
        ExperimentError: 400,
        BotorchPrefError: 503,
    }
    return next(status for kind, status in statuses.items() if isinstance(error, kind))
