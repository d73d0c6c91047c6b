"""Answer of a person to a question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from botorch_pref.ax.answers.kinds.answer_kind import AnswerKind
from botorch_pref.ax.answers.kinds.best import Best
from botorch_pref.ax.answers.kinds.invalid import Invalid
from botorch_pref.ax.answers.kinds.option_levels import OptionLevels
from botorch_pref.ax.answers.kinds.option_ratings import OptionRatings
from botorch_pref.ax.answers.kinds.ranking import Ranking
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions
from botorch_pref.ax.answers.kinds.strength import Strength
from botorch_pref.ax.answers.kinds.tie import Tie
from botorch_pref.ax.answers.kinds.winner import Winner
from botorch_pref.ax.given_values import given_truth
from botorch_pref.errors import ExperimentError


def _of(kind: AnswerKind, default: object = None) -> Any:
    """A field of `Answer` for a kind of answer."""
    return field(default=default, metadata={AnswerKind: kind})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer about options that are counted from 0 in the order they were shown.

    At most one of the fields down to ``cannot_compare``; ``cannot_compare`` stands
    alone, others alone or with those below.

    Attributes:
        winner: The better one of two.
        tie: Whether two are equally good.
        best: The best of all valid options, of which there may be more than two.
        ranking: All valid options, best first.
        strength: How strongly the first of two is preferred, strictly between 0 and 1;
            below 0.5 the second is.
        cannot_compare: Whether nothing can be said of the options.
        invalid: Those that failed and could not be judged; all others could. None says
            nothing about failing.
        ratings: How good each option is, strictly between 0 and 1; None for an option
            that was not rated.
        levels: The level of each option on an ordered scale, 0 for the lowest; None for
            an option that was given none.
    """

    winner: int | None = _of(Winner())
    tie: bool = _of(Tie(), default=False)
    best: int | None = _of(Best())
    ranking: tuple[int, ...] | None = _of(Ranking())
    strength: float | None = _of(Strength())
    cannot_compare: bool = False
    invalid: tuple[int, ...] | None = _of(Invalid())
    ratings: tuple[float | None, ...] | None = _of(OptionRatings())
    levels: tuple[int | None, ...] | None = _of(OptionLevels())

    def given(self) -> dict[str, Any]:
        """The fields that say something, by name, as JSON keeps them."""
        said = _said(asdict(self))
        return {k: list(v) if isinstance(v, tuple) else v for k, v in said.items()}

    def rows(self, num_options: int) -> dict[str, dict[int, float]]:
        """The answer as values of metrics.

        Args:
            num_options: How many options were shown.

        Returns:
            For each metric of `KINDS` that it gives data to, its values by option.
        """
        shown = ShownOptions(num_options, self.invalid or ())
        said = _said(asdict(self))
        return {
            kind.metric: kind.encode(said[kind.field], shown)
            for kind in KINDS
            if kind.field in said
        }


KINDS: tuple[AnswerKind, ...] = tuple(
    attribute.metadata[AnswerKind]
    for attribute in fields(Answer)
    if AnswerKind in attribute.metadata
)
"""The kinds of answers that have data; every table of them is read from here."""

_NOTHING_TO_SAY = "cannot_compare"
_TRUTHS = {Tie.field, _NOTHING_TO_SAY}
"""Fields that are true or false, and say nothing if they are false."""


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
    said = {k: v for k, v in said.items() if v is not None}
    _check_names(said)
    for name in _TRUTHS & said.keys():
        said[name] = given_truth(name, said[name])
    said = _said(said)
    _check_together(said)
    shown = ShownOptions(num_options, num_levels=num_levels)
    if Invalid.field in said:
        failed = Invalid().checked(said[Invalid.field], shown)[Invalid.field]
        shown = ShownOptions(num_options, failed, num_levels)
    checked = {k: v for k, v in said.items() if k == _NOTHING_TO_SAY}
    for kind in KINDS:
        if kind.field in said:
            checked |= kind.checked(said[kind.field], shown)
    return Answer(**checked)


def _said(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that say something."""
    return {
        k: v
        for k, v in answer.items()
        if v is not None and not (k in _TRUTHS and v is False)
    }


def _check_names(said: Mapping[str, Any]) -> None:
    """Checks that an answer has such fields."""
    names = _names()
    if unknown := sorted(set(said) - set(names)):
        raise ExperimentError(
            f"An answer has no {', '.join(unknown)}; say one of {', '.join(names)}."
        )


def _names() -> list[str]:
    return [attribute.name for attribute in fields(Answer)]


def _check_together(said: Mapping[str, Any]) -> None:
    """Checks that some fields together can be an answer, whatever they say."""
    comparing = [kind.field for kind in KINDS if kind.compares]
    relations = [name for name in (*comparing, _NOTHING_TO_SAY) if name in said]
    if len(relations) > 1:
        raise ExperimentError(
            f"The answer says {' and '.join(relations)}; give one of them."
        )
    if not said:
        raise ExperimentError(
            f"The answer says nothing; give one of {', '.join(_names())}."
        )
    if _NOTHING_TO_SAY in said and len(said) > 1:
        raise ExperimentError(
            f"{_NOTHING_TO_SAY} says that there is nothing to say; leave out "
            f"{', '.join(sorted(set(said) - {_NOTHING_TO_SAY}))}, or it."
        )
