"""The line or the plane of designs that an experiment asks about next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from ax.core.experiment import Experiment
from ax.core.types import TParameterization
from ax.utils.common.random import with_rng_seed

from botorch_pref.acquisition.line_search import best_line
from botorch_pref.acquisition.plane_search import best_plane, planes_through, side_of
from botorch_pref.asking.request import INITIAL_LINES, QuestionKind
from botorch_pref.ax.answers import Answer, check_taken
from botorch_pref.ax.best_designs import best_anywhere, fitted_adapter
from botorch_pref.ax.events import Chosen
from botorch_pref.ax.generation.question_choice import (
    MODEL,
    SPREAD,
    PreferenceGenerators,
    chosen_question,
    derived_seed,
    fitted_sobol_spec,
    spread_run,
)
from botorch_pref.ax.log import Log
from botorch_pref.ax.projection import Projection, chosen_by, num_answers
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.context import NO_CONTEXT, Context, in_context
from botorch_pref.ax.space.lines import Line, can_move, line_through, line_toward
from botorch_pref.errors import ExperimentError, FeedbackError

PLANE_SIZE = 9
"""Designs of a plane, unless somebody wants more."""


def check_kind(log: Log, kind: QuestionKind, size: int) -> None:
    """Checks that an experiment can ask questions of a kind, of so many options."""
    if kind == "line":
        check_lines(log)
    elif kind == "plane":
        check_planes(log, size)


def chosen_of_kind(
    projection: Projection,
    kind: QuestionKind,
    size: int,
    rater: str | None,
    context: Context = NO_CONTEXT,
) -> Chosen:
    """Returns the options of the next question of a kind; of a line its ends."""
    if kind == "line":
        return chosen_line(projection, rater, context)
    if kind == "plane":
        return chosen_plane(projection, size, rater, context)
    return chosen_question(projection, size, rater, context)


def answers_before(settings: Settings, kind: QuestionKind) -> int:
    """Counts answers before a model chooses: about a line or a plane fewer do."""
    initial = settings.initial
    return initial if kind == "options" else min(initial, INITIAL_LINES)


# --- Lines


def check_lines(log: Log) -> None:
    """Checks that designs lie on lines, and that the model takes stops on these.

    Raises:
        ExperimentError: Designs are rows of a catalogue, or the model takes no stops.
    """
    if log.catalogue is not None:
        raise ExperimentError(
            "The designs are rows of a catalogue, with nothing in between; ask without "
            "line=True."
        )
    check_taken(log.settings, Answer(position=0.5), 2, log.num_levels)


def check_ends(log: Log, designs: Sequence[TParameterization]) -> None:
    """Checks that two designs are the ends of a line."""
    if len(designs) != 2:
        raise ExperimentError(
            f"options has {len(designs)} designs; give the two ends of the line."
        )
    Line(log.space, *designs)


def chosen_line(
    projection: Projection, rater: str | None, context: Context = NO_CONTEXT
) -> Chosen:
    """Returns the ends of the next line; the first parameter that moves grows along it.

    Before the model chooses, the line runs through spread designs, see `_spread_line`;
    then through the recommended design, and one parameter moves, see `_best_line`.
    """
    log, experiment = projection.log, projection.experiment()
    with with_rng_seed(derived_seed(log.settings, len(log.questions), "line")):
        if num_answers(experiment) < answers_before(log.settings, "line"):
            return _spread_line(log, experiment, context)
        return _best_line(projection, rater, context)


def _movable(log: Log) -> list[str]:
    """Lists the parameters that are chosen and have values in order."""
    parameters = log.space.tunable_parameters.items()
    return [n for n, p in parameters if n not in log.settings.context and can_move(p)]


def _lines_through(log: Log, design: TParameterization) -> list[Line]:
    """Returns lines through a design, one for each parameter that can move."""
    lines = (line_through(log.space, design, name) for name in _movable(log))
    return [line for line in lines if line is not None]


def _idle_lines(log: Log, lines: Sequence[Line]) -> list[Line]:
    """Returns the lines that are worth asking about; all of them where none is.

    Left out are lines whose ends are those of a question that is pending, or whose
    answer names no stop: nothing on the line is best, or any good.

    Raises:
        ExperimentError: There is no line.
    """
    asked_ends = [
        {option.name for option in question.options}
        for question in log.questions
        if question.has_no_stop or (question.is_line and question.pending)
    ]
    names = ({log.name_of(line.first), log.name_of(line.last)} for line in lines)
    idle = [e for e, ends in zip(lines, names, strict=True) if ends not in asked_ends]
    if not lines:
        raise ExperimentError(
            "No parameter can move along a line: constraints or choices leave each of "
            "them one value; ask without line=True."
        )
    return idle or [*lines]


def _last_line(log: Log) -> list[TParameterization]:
    """Returns the ends of the line that was asked about last, if there is one."""
    lines = (q for q in reversed(log.questions) if q.is_line)
    return [end.parameters for question in islice(lines, 1) for end in question.options]


def _spread_line(log: Log, experiment: Experiment, context: Context) -> Chosen:
    """Returns a line through two designs of the Sobol sequence, before a model chooses.

    A baseline is one of the two. All continuous parameters move; where these are equal
    in both designs, one parameter moves, from question to question the next.
    """
    spec = fitted_sobol_spec(experiment, log.settings, log.position)
    run = spread_run(spec, 2, context)
    run._generation_node_name = SPREAD
    chosen = chosen_by(run)
    start, toward = log.settings.baseline or chosen.options[0], chosen.options[-1]
    line = line_toward(log.space, start, toward)
    if line is None:
        lines = _idle_lines(log, _lines_through(log, start))
        line = lines[len(log.questions) % len(lines)]
    return replace(chosen, options=[line.first, line.last], line=True)


def _best_line(projection: Projection, rater: str | None, context: Context) -> Chosen:
    """Gives the line through the recommended design that `best_line` chooses.

    One parameter moves on it: another than on the line before, unless no other can.
    """
    log = projection.log
    number = log.number_of_rater(rater)
    adapter: Any = fitted_adapter(projection, rater=number, context=context)
    best = best_anywhere(log, adapter)
    lines = _idle_lines(log, _lines_through(log, best))
    candidates = [end for line in lines for end in (line.first, line.last)]
    # All at once, for transforms are slow.
    points = adapter.points_of([best, *candidates, *_last_line(log)])
    ends = points[1:].unflatten(0, (-1, 2))
    # The line asked about last, if there is one, follows those to choose from.
    number_of_line = best_line(
        adapter.botorch_model, ends[: len(lines)], points[:1], ends[len(lines) :]
    )
    line = lines[int(number_of_line)]
    return Chosen(
        [line.first, line.last],
        PreferenceGenerators.PREFERENCE.value,
        generated={"node": MODEL},
        line=True,
    )


# --- Planes


def check_planes(log: Log, size: int) -> None:
    """Checks that a plane of so many designs is possible, and the model takes the best.

    Raises:
        ExperimentError: Designs are rows of a catalogue, no square has so many, fewer
            than two parameters can move, or the model takes no best of so many.
    """
    if log.catalogue is not None:
        raise ExperimentError(
            "The designs are rows of a catalogue, with nothing in between; ask without "
            "plane=True."
        )
    try:
        side_of(size)
    except FeedbackError as error:
        raise ExperimentError(str(error)) from error
    if (number := len(_movable(log))) < 2:
        raise ExperimentError(
            "A plane moves two parameters with values in order; of those that are "
            f"chosen, {number} can move. Ask without plane=True."
        )
    check_taken(log.settings, Answer(best=0), size, log.num_levels)


def chosen_plane(
    projection: Projection,
    size: int,
    rater: str | None,
    context: Context = NO_CONTEXT,
) -> Chosen:
    """Returns the designs of the plane of the next question, row by row.

    Before the model chooses, they are spread; see `botorch_pref.next_question`. Where
    no plane through the recommended design has room, as at a corner of constraints,
    they are those of a question that is no plane.
    """
    log = projection.log
    if num_answers(projection.experiment()) < answers_before(log.settings, "plane"):
        return chosen_question(projection, size, rater, context)
    with with_rng_seed(derived_seed(log.settings, len(log.questions), "plane")):
        number = log.number_of_rater(rater)
        adapter: Any = fitted_adapter(projection, rater=number, context=context)
        best = best_anywhere(log, adapter)
        centre, smallest = adapter.points_of([best]), adapter.smallest_differences
        of_space = (adapter.design_space(), centre, side_of(size), smallest)
        planes = planes_through(*of_space)
        if not len(planes):
            return chosen_question(projection, size, rater, context)
        waiting = adapter.open_questions(size)
        points = best_plane(adapter.botorch_model, planes, centre, waiting, smallest)
    designs = [
        in_context(log.space, design, context) for design in adapter.designs_of(points)
    ]
    # As it was recommended, for transforms there and back change digits.
    designs[int((points == centre).all(-1).nonzero())] = best
    return Chosen(
        designs, PreferenceGenerators.PREFERENCE.value, generated={"node": MODEL}
    )
