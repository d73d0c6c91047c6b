"""What a person said of the options that were shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from botorch_pref.ax.answers.answer_metrics import (
    CHOICE,
    DECIMALS,
    DUEL,
    LEVEL,
    RANK,
    RATING,
    STRENGTH,
    TIE,
    VALID,
)
from botorch_pref.errors import ExperimentError

_RELATIONS = ("winner", "tie", "cannot_compare", "best", "ranking", "strength")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer about options that are counted from 0 in the order they were shown.

    At most one of the fields down to ``strength``, alone or with the others.

    Attributes:
        winner: The better one of two.
        tie: Whether two are equally good.
        cannot_compare: Whether nothing can be said of the options.
        best: The best of all valid options, of which there may be more than two.
        ranking: All valid options, best first.
        strength: How strongly the first of two is preferred, strictly between 0 and 1;
            below 0.5 the second is.
        invalid: Those that failed and could not be judged; all others could. None says
            nothing about failing.
        levels: The level of each option on an ordered scale, 0 for the lowest; None for
            an option that was given none.
        ratings: How good each option is, strictly between 0 and 1; None for an option
            that was not rated.
    """

    winner: int | None = None
    tie: bool = False
    cannot_compare: bool = False
    best: int | None = None
    ranking: tuple[int, ...] | None = None
    strength: float | None = None
    invalid: tuple[int, ...] | None = None
    levels: tuple[int | None, ...] | None = None
    ratings: tuple[float | None, ...] | None = None

    def given(self) -> dict[str, Any]:
        """The fields that say something, by name, as JSON keeps them."""
        said = {
            k: v for k, v in asdict(self).items() if v is not None and v is not False
        }
        return {k: list(v) if isinstance(v, tuple) else v for k, v in said.items()}

    def rows(self, num_options: int) -> dict[str, dict[int, float]]:
        """The answer as values of metrics.

        Args:
            num_options: How many options were shown.

        Returns:
            For each metric of `answer_metrics`, its values by option.
        """
        others = [i for i in range(num_options) if i not in (self.invalid or ())]
        rows: dict[str, dict[int, float]] = {}
        if self.winner is not None:
            rows[DUEL] = {i: float(i == self.winner) for i in others}
        if self.tie:
            rows[TIE] = dict.fromkeys(others, 1.0)
        if self.best is not None:
            rows[CHOICE] = {i: float(i == self.best) for i in others}
        if self.ranking is not None:
            rows[RANK] = {i: float(rank + 1) for rank, i in enumerate(self.ranking)}
        if self.strength is not None:
            values = (self.strength, round(1 - self.strength, DECIMALS))
            rows[STRENGTH] = dict(zip(others, values, strict=True))
        if self.invalid is not None:
            rows[VALID] = {i: float(i in others) for i in range(num_options)}
        for name, given in ((LEVEL, self.levels), (RATING, self.ratings)):
            if given is not None:
                rows[name] = {i: float(v) for i, v in enumerate(given) if v is not None}
        return rows


def checked_answer(num_options: int, num_levels: int | None, **said: Any) -> Answer:
    """An answer, if it can be one about so many options.

    Two ways to say the same give equal answers: the best of two is the winner, and so
    is the first of a ranking of two.

    Args:
        num_options: How many options were shown.
        num_levels: How many levels the scale has; None if there is none.
        said: Fields of `Answer`.

    Raises:
        ExperimentError: Nothing was said, too much, or something that cannot be.
    """
    said = {k: v for k, v in said.items() if v is not None and v is not False}
    names = [field.name for field in fields(Answer)]
    if unknown := sorted(set(said) - set(names)):
        raise ExperimentError(
            f"An answer has no {', '.join(unknown)}; say one of {', '.join(names)}."
        )
    relations = [name for name in _RELATIONS if name in said]
    if len(relations) > 1:
        raise ExperimentError(
            f"The answer says {' and '.join(relations)}; give one of them."
        )
    if not said:
        raise ExperimentError(
            f"The answer says nothing; give one of {', '.join(names)}."
        )
    if "cannot_compare" in said and len(said) > 1:
        raise ExperimentError(
            "cannot_compare says that there is nothing to say; leave out "
            f"{', '.join(sorted(set(said) - {'cannot_compare'}))}, or it."
        )
    shown = range(num_options)
    invalid = _options("invalid", said.get("invalid", ()), shown)
    if "invalid" in said:
        said["invalid"] = tuple(sorted(invalid))
    valid = [option for option in shown if option not in invalid]
    if relations and relations != ["cannot_compare"]:
        _check_relation(relations[0], said, valid)
    for name, check in (("levels", _level(num_levels)), ("ratings", _fraction)):
        if name in said:
            said[name] = _by_option(name, said[name], num_options, check)
    if len(valid) == 2 and "best" in said:
        said["winner"] = said.pop("best")
    if len(valid) == 2 and "ranking" in said:
        said["winner"] = said.pop("ranking")[0]
    return Answer(**said)


def _check_relation(name: str, said: dict[str, Any], valid: list[int]) -> None:
    if len(valid) < 2:
        raise ExperimentError(
            f"The answer says {name}, but {len(valid)} of the options are valid; leave "
            "out what compares them."
        )
    if name in ("winner", "tie", "strength") and len(valid) != 2:
        raise ExperimentError(
            f"{name} is about two options, and there are {len(valid)}; give "
            f"{'best or ' if name == 'winner' else ''}ranking."
        )
    if name in ("winner", "best"):
        (said[name],) = _options(name, [said[name]], valid)
    if name == "ranking":
        said[name] = _options(name, said[name], valid)
        if len(said[name]) != len(valid):
            raise ExperimentError(
                f"ranking is {list(said[name])}; name all of {valid}, best first."
            )
    if name == "strength":
        said[name] = _fraction(name, said[name])


def _options(name: str, given: object, allowed: Sequence[int]) -> tuple[int, ...]:
    """Places of options, each named once."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ExperimentError(
            f"{name} is {given!r}; give a list of options, counted from 0."
        )
    for option in given:
        if isinstance(option, bool) or option not in allowed:
            raise ExperimentError(
                f"{name} names option {option!r}, which is not one of {list(allowed)}; "
                "options are counted from 0 in the order they were shown."
            )
    if len(set(given)) < len(given):
        raise ExperimentError(f"{name} is {list(given)}; name each option once.")
    return tuple(int(option) for option in given)


def _by_option(
    name: str, given: object, num_options: int, check: Callable[[str, Any], float]
) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ExperimentError(f"{name} is {given!r}; give a list, one for each option.")
    if len(given) != num_options or all(value is None for value in given):
        raise ExperimentError(
            f"{name} is {list(given)}, and {num_options} options were shown; give one "
            "for each, None for those without."
        )
    return tuple(None if value is None else check(name, value) for value in given)


def _fraction(name: str, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ExperimentError(f"{name} holds {given!r}; give a number.")
    value = round(float(given), DECIMALS)
    if not 0 < value < 1:
        raise ExperimentError(f"{name} holds {given}, which is not between 0 and 1.")
    return value


def _level(num_levels: int | None) -> Callable[[str, Any], int]:
    def check(name: str, given: object) -> int:
        if num_levels is None:
            raise ExperimentError(
                "The experiment has no scale of levels; create it with num_levels=, or "
                "give ratings between 0 and 1."
            )
        if isinstance(given, bool) or given not in range(num_levels):
            raise ExperimentError(
                f"{name} holds {given!r}; levels go from 0 to {num_levels - 1}."
            )
        return int(given)  # type: ignore[call-overload]

    return check
