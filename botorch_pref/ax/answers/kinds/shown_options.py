"""Options of a question, as an answer counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pandas.api.types import is_integer

from botorch_pref.ax.given_values import written
from botorch_pref.errors import ExperimentError


@dataclass(frozen=True)
class ShownOptions:
    """Options, counted from 0 in the order they were shown.

    Attributes:
        num_options: How many there are.
        invalid: Those that failed, which no comparison is about.
        num_levels: How many levels the scale of the experiment has, if it has one.
    """

    num_options: int
    invalid: tuple[int, ...] = ()
    num_levels: int | None = None

    @property
    def places(self) -> range:
        """The places of all options."""
        return range(self.num_options)

    @property
    def valid(self) -> list[int]:
        """The places of the options that did not fail."""
        return [place for place in self.places if place not in self.invalid]

    def compared(self, field: str) -> list[int]:
        """Places of the options that can be compared, two or more.

        Args:
            field: What was said of them.

        Raises:
            ExperimentError: There are fewer than two valid options.
        """
        if len(self.valid) < 2:
            raise ExperimentError(
                f"The answer says {field}, but {len(self.valid)} of the options are "
                "valid; leave out what compares them."
            )
        return self.valid

    def pair(self, field: str, instead: str = "ranking") -> list[int]:
        """Places of the only two options that can be compared.

        Args:
            field: What was said of them.
            instead: What can be said of more than two.

        Raises:
            ExperimentError: There are not two valid options.
        """
        compared = self.compared(field)
        if len(compared) != 2:
            raise ExperimentError(
                f"{field} is about two options, and there are {len(compared)}; give "
                f"{instead}."
            )
        return compared


def checked_places(
    field: str, given: object, allowed: Sequence[int]
) -> tuple[int, ...]:
    """Places of options, each named once.

    Args:
        field: What was said of them.
        given: A list of places.
        allowed: Those it may name.

    Raises:
        ExperimentError: It is no list, or names something else or a place twice.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ExperimentError(
            f"{field} is {written(given)}; give a list of options, counted from 0."
        )
    for place in given:
        if not is_integer(place) or place not in allowed:
            raise ExperimentError(
                f"{field} names option {written(place)}, which is not one of "
                f"{list(allowed)}; options are counted from 0 in the order shown."
            )
    if len(set(given)) < len(given):
        raise ExperimentError(f"{field} is {list(given)}; name each option once.")
    return tuple(int(place) for place in given)
