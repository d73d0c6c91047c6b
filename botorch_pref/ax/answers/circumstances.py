"""Circumstances of an answer: its rater, a note, the time it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from botorch_pref.ax.answers.kinds.shown_options import checked_places
from botorch_pref.ax.given_values import finite_number, is_text, written
from botorch_pref.ax.settings import SHARE, Settings
from botorch_pref.errors import ExperimentError


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Circumstances of an answer, kept beside what was said.

    Attributes:
        rater: The name of who answered.
        note: Whatever the rater added.
        seconds: How long it took.
        order: The options in the order in which they were on display, if that was not
            the order of the question.
    """

    rater: str | None = None
    note: str | None = None
    seconds: float | None = None
    order: tuple[int, ...] | None = None

    def given(self) -> dict[str, Any]:
        """The fields that are known, by name, as JSON keeps them."""
        known = {k: v for k, v in asdict(self).items() if v is not None}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in known.items()}

    @classmethod
    def checked(cls, num_options: int, **given: Any) -> Self:
        """Circumstances, if they can be those of an answer about so many options.

        Args:
            num_options: How many options were shown.
            given: Fields of this class.

        Raises:
            ExperimentError: Something else was given.
        """
        order = given.get("order")
        if order is not None:
            order = checked_places("order", order, range(num_options))
            if len(order) < num_options:
                raise ExperimentError(
                    f"order is {list(order)}; name each of the {num_options} options."
                )
        return cls(
            rater=checked_rater(given.get("rater")),
            note=_checked_note(given.get("note")),
            seconds=_checked_seconds(given.get("seconds")),
            order=order,
        )


def check_told_apart(settings: Settings, around: Circumstances) -> None:
    """Checks that the rater is known of an answer, where each has a utility of her own.

    Args:
        settings: Of the experiment.
        around: Of the answer.

    Raises:
        ExperimentError: It is not.
    """
    if settings.raters == SHARE and around.rater is None:
        raise ExperimentError(
            "Each rater has a utility of one's own here, and the answer has no rater; "
            "give rater=, the name of who answered."
        )


def checked_rater(given: object) -> str | None:
    """The name of a rater; None for nobody in particular.

    Args:
        given: What was given as ``rater``.

    Raises:
        ExperimentError: It is no text, or blank.
    """
    if given is None:
        return None
    if not isinstance(given, str) or not is_text(given) or not given.strip():
        raise ExperimentError(
            f"rater is {written(given)}; give a name or leave it out."
        )
    return given


def _checked_note(given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not is_text(given):
        raise ExperimentError(f"note is {written(given)}; give a text or leave it out.")
    return given or None


def _checked_seconds(given: Any) -> float | None:
    if given is None:
        return None
    seconds = finite_number(given)
    if seconds is None or seconds < 0:
        raise ExperimentError(
            f"seconds is {written(given)}; give how many the answer took, 0 or more."
        )
    return seconds
