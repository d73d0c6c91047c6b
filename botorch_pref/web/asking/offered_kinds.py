"""Kinds of answers that a person is offered."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.answers.answer import checked_answer
from botorch_pref.ax.answers.taken_answers import check_taken
from botorch_pref.errors import ExperimentError

_OF_TWO: dict[str, Any] = {"winner": 0, "tie": True, "strength": 0.7}
_OF_MORE: dict[str, Any] = {"best": 0}


def offered_kinds(
    experiment: PreferenceExperiment, size: int, kinds: Collection[str] | None = None
) -> tuple[str, ...]:
    """Keywords of ``tell`` that the model of an experiment takes.

    Args:
        experiment: Whose model it is.
        size: How many options a question shows.
        kinds: Those that are wanted; None for all that the model takes.

    Raises:
        ExperimentError: The model does not take one that is wanted, there is no such
            kind, or none of them compares the options or judges each of them.
    """
    examples = _examples(size, experiment.num_levels)
    if kinds is None:
        return tuple(k for k in examples if _refusal(experiment, k, size) is None)
    if isinstance(kinds, str):
        raise ExperimentError(f"kinds is {kinds!r}; give a list of kinds of answers.")
    for kind in kinds:
        if kind not in examples:
            raise ExperimentError(
                f"kinds names {kind!r}; of {size} options one can say "
                f"{', '.join(examples)}."
            )
        if (refusal := _refusal(experiment, kind, size)) is not None:
            raise refusal
    chosen = tuple(kind for kind in examples if kind in kinds)
    if not set(chosen) - {"cannot_compare", "invalid"}:
        raise ExperimentError(
            f"kinds is {list(kinds)}, by which nothing can be preferred; add one of "
            f"{', '.join(examples)}."
        )
    return chosen


def _examples(size: int, num_levels: int | None) -> dict[str, Any]:
    """One answer of each kind that can be given about so many options."""
    compared = _OF_TWO if size == 2 else _OF_MORE | {"ranking": [*range(size)]}
    levels = {} if num_levels is None else {"levels": [0] * size}
    judged = {"invalid": [0], "ratings": [0.5] * size} | levels
    return {**compared, "cannot_compare": True, **judged}


def _refusal(
    experiment: PreferenceExperiment, kind: str, size: int
) -> ExperimentError | None:
    """Refusal of a kind of answer by the model; None if it takes it."""
    levels = experiment.num_levels
    said = {kind: _examples(size, levels)[kind]}
    try:
        answer = checked_answer(size, levels, **said)
        check_taken(experiment.settings, answer, size, levels)
    except ExperimentError as error:
        return error
    return None
