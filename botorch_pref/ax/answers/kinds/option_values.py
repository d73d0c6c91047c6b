"""Answers that give options values of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from botorch_pref.ax.answers.kinds.answer_kind import AnswerKind
from botorch_pref.ax.answers.kinds.metric_data import DECIMALS
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions
from botorch_pref.ax.given_values import finite_number, written
from botorch_pref.errors import ExperimentError


class OptionValues(AnswerKind):
    """A value for each option, or None for an option that was given none."""

    @abstractmethod
    def checked_value(self, given: object, shown: ShownOptions) -> float:
        """The value of one option.

        Args:
            given: What was given, not None.
            shown: The options.

        Raises:
            ExperimentError: It is no such value.
        """

    def checked(self, given: Any, shown: ShownOptions) -> dict[str, Any]:
        """See base class."""
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ExperimentError(
                f"{self.field} is {written(given)}; give a list, one for each option."
            )
        nothing = all(value is None for value in given)
        if len(given) != shown.num_options or nothing:
            raise ExperimentError(
                f"{self.field} is {written(list(given))}, and there were "
                f"{shown.num_options} options; give one for each, or None."
            )
        values = (None if v is None else self.checked_value(v, shown) for v in given)
        return {self.field: tuple(values)}

    def encode(self, said: Any, shown: ShownOptions) -> dict[int, float]:
        """See base class."""
        return {place: float(v) for place, v in enumerate(said) if v is not None}


def checked_fraction(field: str, given: Any) -> float:
    """A number strictly between 0 and 1, rounded as Ax stores it.

    Args:
        field: To name in messages.
        given: What was given.

    Raises:
        ExperimentError: It is no such number.
    """
    number = finite_number(given)
    if number is None:
        raise ExperimentError(f"{field} holds {written(given)}; give a finite number.")
    if not 0 < (value := round(number, DECIMALS)) < 1:
        raise ExperimentError(f"{field} holds {given}, which is not between 0 and 1.")
    return value
