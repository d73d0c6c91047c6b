"""Answers to questions: what was said, by whom, and whether a model takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from unicodedata import normalize

import torch
from botorch.utils.transforms import is_fully_bayesian

from botorch_pref.ax.answer_containers import feedback_blocks, position, told_kinds
from botorch_pref.ax.answer_kinds import (
    COMPARING,
    INVALID,
    KINDS,
    OBJECTIVE,
    TIE,
    WINNER,
    Answered,
    ShownOptions,
    Values,
)
from botorch_pref.ax.naming import class_named, model_arguments, model_classes
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.user_values import (
    TEXT,
    argument_error,
    checked_integer,
    checked_truth,
    finite_number,
    is_text,
)
from botorch_pref.errors import ExperimentError
from botorch_pref.models.training_data import FeedbackDataset


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer about options that are counted from 0 in the order they were shown.

    An answer has at most one of the fields down to ``cannot_compare``. With
    ``cannot_compare`` it has no other field; otherwise it may have those below.

    Attributes:
        winner: The better one of two.
        tie: Whether all valid options are equally good.
        best: The best of all valid options, of which there may be more than two.
        ranking: All valid options, best first; those that share a place together, as
            in ``[0, [1, 2], 3]``.
        strength: How strongly the first of two is preferred, strictly between 0 and 1;
            below 0.5 the second is.
        position: Where on the line from the first of two to the second somebody stopped
            because no other design of it was better, from 0 to 1.
        cannot_compare: Whether nothing can be said of the options.
        invalid: Those that failed and could not be judged; all others could. None says
            nothing about failing.
        ratings: How good each option is, strictly between 0 and 1; None for an option
            that was not rated.
        levels: The level of each option on an ordered scale, 0 for the lowest; None for
            an option that was given none.
    """

    winner: int | None = None
    tie: bool = False
    best: int | None = None
    ranking: tuple[int | tuple[int, ...], ...] | None = None
    strength: float | None = None
    position: float | None = None
    cannot_compare: bool = False
    invalid: tuple[int, ...] | None = None
    ratings: tuple[float | None, ...] | None = None
    levels: tuple[int | None, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the fields that say something, by name, as JSON keeps them."""
        fields = {
            k: v for k, v in vars(self).items() if v is not None and v is not False
        }
        return {k: _as_lists(v) for k, v in fields.items()}

    def rows(self, num_options: int) -> dict[str, Values]:
        """Returns the answer as data of Ax's metrics, to be stored or given to models.

        Returns:
            For each metric of `KINDS` that it gives data to, the value of each option,
            by the place at which it was shown.
        """
        options, fields = ShownOptions(num_options, self.invalid or ()), self.to_json()
        kinds = [kind for kind in KINDS if kind.field in fields]
        return {kind.metric: kind.encode(fields[kind.field], options) for kind in kinds}


def _as_lists(value: Any) -> Any:
    return [*map(_as_lists, value)] if isinstance(value, tuple) else value


_NAMES = [attribute.name for attribute in fields(Answer)]
_ANY = ", ".join(_NAMES)
_NOTHING_TO_SAY = "cannot_compare"


def checked_answer(num_options: int, num_levels: int | None, **fields: Any) -> Answer:
    """Returns an answer about ``num_options`` options, checked.

    Two ways to say the same give equal answers: the best of two is the winner, and so
    is the first of a ranking of two.
    """
    fields = {k: v for k, v in fields.items() if v is not None}
    if unknown := ", ".join(sorted(fields.keys() - {*_NAMES})):
        raise ExperimentError(f"An answer has no {unknown}; say one of {_ANY}.")
    # These say nothing if they are false.
    for name in {"tie", _NOTHING_TO_SAY} & fields.keys():
        if not checked_truth(name, fields[name]):
            del fields[name]
    comparing = (*(kind.field for kind in COMPARING), _NOTHING_TO_SAY)
    relations = [name for name in comparing if name in fields]
    if len(relations) > 1:
        raise ExperimentError(f"The answer says {' and '.join(relations)}; give one.")
    if not fields:
        raise ExperimentError(f"The answer says nothing; give one of {_ANY}.")
    checked: dict[str, Any] = {}
    if _NOTHING_TO_SAY in fields:
        if len(fields) > 1:
            raise ExperimentError(
                f"{_NOTHING_TO_SAY} says that there is nothing to say; leave out "
                f"{', '.join(sorted(fields.keys() - {_NOTHING_TO_SAY}))}, or it."
            )
        checked[_NOTHING_TO_SAY] = True
    options = ShownOptions(num_options, num_levels=num_levels)
    # First, for what failed is not compared.
    for kind in (INVALID, *KINDS):
        # A field that was checked may stand as another one, as best of two as winner.
        if kind.field in fields and kind.field not in checked:
            checked |= kind.checked(fields[kind.field], options)
            options = replace(options, invalid=checked.get(INVALID.field, ()))
    return Answer(**checked)


CIRCUMSTANCES = ("rater", "note", "seconds", "order", "count")
"""The parts of an answer in the log that are not fields of `Answer`: the name of who
answered, a note of hers, how many seconds it took, the places of the options in the
order in which they were on display, and how often the answer was given, if not once."""

_MOST_TIMES = 2**53
"""Double precision, in which counts are multiplied, has no larger whole numbers."""


def checked_parts(
    num_options: int, num_levels: int | None, fields: Mapping[str, Any]
) -> tuple[Answer, dict[str, Any]]:
    """Checks an answer and its circumstances, of which ``fields`` has both.

    Returns:
        The answer, and those `CIRCUMSTANCES` that say something, as JSON keeps them:
        a count of 1 is left out.
    """
    answer_fields = {k: v for k, v in fields.items() if k not in CIRCUMSTANCES}
    rater, note, seconds, order, count = map(fields.get, CIRCUMSTANCES)
    if order is not None:
        places = range(num_options)
        order = [*ShownOptions(num_options).places("order", order, places)]
        if len(order) < num_options:
            raise ExperimentError(
                f"order is {order}; name each of the {num_options} options."
            )
    if note is not None and not is_text(note):
        raise argument_error("note", note, f"{TEXT}, or leave it out")
    if seconds is not None:
        took = finite_number(seconds)
        if took is None or took < 0:
            raise argument_error(
                "seconds", seconds, "how many the answer took, 0 or more"
            )
        seconds = took
    if count is not None:
        count = checked_integer("count", count, 1, _MOST_TIMES)
    times = None if count == 1 else count
    circumstances = (checked_rater(rater), note or None, seconds, order, times)
    stated = {
        k: v for k, v in zip(CIRCUMSTANCES, circumstances, strict=True) if v is not None
    }
    return checked_answer(num_options, num_levels, **answer_fields), stated


def checked_rater(name: object) -> str | None:
    """Gives the name of a rater, with single blanks; None for nobody in particular."""
    if name is None:
        return None
    if not isinstance(name, str) or not is_text(name) or not name.strip():
        raise argument_error("rater", name, f"a name, {TEXT}, or leave it out")
    # Phones and tables differ in how they write an accent, and names in their blanks.
    return " ".join(normalize("NFC", name).split())


_TAKEN: set[tuple[str, ...]] = set()
"""Models with kinds of answers that they were found to take. A kind that is refused is
tried again, so that the error is about the answer at hand."""


def check_taken(
    settings: Settings, answer: Answer, num_options: int, num_levels: int | None
) -> None:
    """Checks that the model of an experiment takes an answer, before it is kept.

    It makes a model of this answer alone: a model that takes two kinds of answers takes
    them together too. Only the kind decides, so that each kind is tried once.

    Raises:
        ExperimentError: The model does not take the answer, or it is not known what a
            bias of positions adds to it.
    """
    rows = answer.rows(num_options)
    biased = settings.position_bias
    names = settings.model, settings.model_options
    key = json.dumps([*names, num_options, num_levels, biased])
    kinds = (key, *sorted(rows), *sorted(told_kinds(rows)))
    if not rows or kinds in _TAKEN:
        return
    positions_by_place = {
        place: position(place, num_options) for place in range(num_options)
    }
    answers: dict[Answered, Mapping[str, Values]] = {(0, None): rows}
    if TIE.metric in told_kinds(rows):
        # Ties alone teach no tie threshold; a decided duel beside them does.
        answers[1, None] = {WINNER.metric: {0: 1.0, 1: 0.0}}
    positions = dict.fromkeys(answers, positions_by_place) if biased else None
    blocks = feedback_blocks(answers, num_levels, positions)
    if biased and any(b.relative and b.covariates is None for b in blocks):
        raise ExperimentError(
            f"What position_bias adds to {answer.to_json()} is not known; say who "
            "wins, a tie, the best or a ranking, or create an experiment without it."
        )
    # Where the options are does not matter.
    points = torch.linspace(0, 1, num_options, dtype=torch.float64).unsqueeze(-1)
    dataset = FeedbackDataset(
        points, blocks, feature_names=["x"], outcome_names=[OBJECTIVE]
    )
    model_class = class_named(settings.model, model_classes(), "model")
    try:
        arguments = model_arguments(model_class, dataset, settings.model_options)
        model: Any = model_class(**arguments)
        if is_fully_bayesian(model):
            # Asks for the priors that sampling needs.
            _ = model.pyro_model
    except ExperimentError:
        raise
    except Exception as error:
        # Options that are meant for another model fail with any error.
        raise ExperimentError(
            f"{settings.model} with model_options={settings.model_options!r} does not "
            f"take {answer.to_json()}: {error} In an experiment, name the model in "
            "model= and likelihoods in model_options={'likelihood': ...}."
        ) from error
    _TAKEN.add(kinds)
