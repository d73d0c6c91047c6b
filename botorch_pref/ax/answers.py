"""Answers to questions: what was said, by whom, and as feedback for models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from ax.adapter.data_utils import ExperimentData
from botorch.utils.transforms import is_fully_bayesian

from botorch_pref.ax.given import finite_number, given_truth, is_text, written
from botorch_pref.ax.kinds import (
    COMPARING,
    DECIMALS,
    INVALID,
    KINDS,
    OBJECTIVE,
    TIE,
    Groups,
    ShownOptions,
    Values,
    checked_places,
    tied_in_turn,
)
from botorch_pref.ax.naming import class_named, model_arguments, model_classes
from botorch_pref.ax.settings import Settings
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.models.data import FeedbackDataset


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer about options that are counted from 0 in the order they were shown.

    An answer has at most one of the fields down to ``cannot_compare``. With
    ``cannot_compare`` it has no other field; otherwise it may have those below.

    Attributes:
        winner: The better one of two.
        tie: Whether all valid options are equally good.
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

    winner: int | None = None
    tie: bool = False
    best: int | None = None
    ranking: tuple[int, ...] | None = None
    strength: float | None = None
    cannot_compare: bool = False
    invalid: tuple[int, ...] | None = None
    ratings: tuple[float | None, ...] | None = None
    levels: tuple[int | None, ...] | None = None

    def given(self) -> dict[str, Any]:
        """The fields that say something, by name, as JSON keeps them."""
        return {
            k: list(v) if isinstance(v, tuple) else v
            for k, v in _said(asdict(self)).items()
        }

    def rows(self, num_options: int) -> dict[str, Values]:
        """The answer as data of metrics.

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


_NAMES = [attribute.name for attribute in fields(Answer)]
_NOTHING_TO_SAY = "cannot_compare"
_TRUTHS = {"tie", _NOTHING_TO_SAY}
"""Fields that are true or false, and say nothing if they are false."""


def checked_answer(num_options: int, num_levels: int | None, **said: Any) -> Answer:
    """An answer about ``num_options`` options, checked.

    Two ways to say the same give equal answers: the best of two is the winner, and so
    is the first of a ranking of two.
    """
    said = {k: v for k, v in said.items() if v is not None}
    if unknown := sorted(set(said) - {*_NAMES}):
        raise ExperimentError(
            f"An answer has no {', '.join(unknown)}; say one of {', '.join(_NAMES)}."
        )
    for name in _TRUTHS & said.keys():
        said[name] = given_truth(name, said[name])
    said = _said(said)
    _check_together(said)
    shown = ShownOptions(num_options, num_levels=num_levels)
    if INVALID.field in said:
        failed = INVALID.checked(said[INVALID.field], shown)[INVALID.field]
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


def _check_together(said: Mapping[str, Any]) -> None:
    """Checks that an answer can have these fields together."""
    comparing = (*(kind.field for kind in COMPARING), _NOTHING_TO_SAY)
    relations = [name for name in comparing if name in said]
    if len(relations) > 1:
        raise ExperimentError(
            f"The answer says {' and '.join(relations)}; give one of them."
        )
    if not said:
        raise ExperimentError(
            f"The answer says nothing; give one of {', '.join(_NAMES)}."
        )
    if _NOTHING_TO_SAY in said and len(said) > 1:
        raise ExperimentError(
            f"{_NOTHING_TO_SAY} says that there is nothing to say; leave out "
            f"{', '.join(sorted(set(said) - {_NOTHING_TO_SAY}))}, or it."
        )


def checked_told(
    num_options: int, num_levels: int | None, given: Mapping[str, Any]
) -> tuple[Answer, dict[str, Any]]:
    """An answer and its circumstances, of which ``given`` has the fields."""
    around = {k: v for k, v in given.items() if k in CIRCUMSTANCES}
    said = {k: v for k, v in given.items() if k not in CIRCUMSTANCES}
    circumstances = checked_circumstances(num_options, **around)
    return checked_answer(num_options, num_levels, **said), circumstances


CIRCUMSTANCES = ("rater", "note", "seconds", "order")
"""The parts of an answer in the log that are not fields of `Answer`."""


def checked_circumstances(
    num_options: int,
    *,
    rater: object = None,
    note: object = None,
    seconds: object = None,
    order: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Circumstances of an answer that are known, by name, as JSON keeps them.

    They are the name of who answered, a note of hers, how many seconds it took, and
    the places of the options in the order in which they were on display.
    """
    if order is not None:
        order = [*checked_places("order", order, range(num_options))]
        if len(order) < num_options:
            raise ExperimentError(
                f"order is {order}; name each of the {num_options} options."
            )
    if note is not None and not is_text(note):
        raise ExperimentError(f"note is {written(note)}; give a text or leave it out.")
    known = {
        "rater": checked_rater(rater),
        "note": note or None,
        "seconds": _checked_seconds(seconds),
        "order": order,
    }
    return {name: value for name, value in known.items() if value is not None}


def checked_rater(given: object) -> str | None:
    """The name of a rater; None for nobody in particular."""
    if given is None:
        return None
    if not isinstance(given, str) or not is_text(given) or not given.strip():
        raise ExperimentError(
            f"rater is {written(given)}; give a name or leave it out."
        )
    return given


def _checked_seconds(given: object) -> float | None:
    if given is None:
        return None
    seconds = finite_number(given)
    if seconds is None or seconds < 0:
        raise ExperimentError(
            f"seconds is {written(given)}; give how many the answer took, 0 or more."
        )
    return seconds


def feedback_dataset(
    experiment_data: ExperimentData,
    parameters: list[str],
    num_levels: int | None,
    raters: Mapping[int, int] | None = None,
    positions: Mapping[int, Mapping[str, float]] | None = None,
) -> FeedbackDataset:
    """Data set of every answer in Ax's tables, whose parameters are numbers.

    Its datapoints are the rows of `arms_and_raters`, its features the columns
    ``parameters``. ``raters`` has the number of who answered, by trial, where that is
    to count, and ``positions`` those of options, by trial and arm, where these are.
    """
    rows = arms_and_raters(experiment_data, raters or {})
    if not rows:
        raise ExperimentError("There is no answer yet; ask and tell first.")
    # A database keeps no order, and Ax's transforms not always this one.
    means = experiment_data.observation_data["mean"].sort_index()
    arms = experiment_data.arm_data.droplevel("trial_index")
    place = {row: i for i, row in enumerate(rows)}

    def groups(metric: str) -> Iterator[tuple[int, Values]]:
        if metric not in means.columns:
            return
        for trial, values in means[metric].dropna().groupby(level="trial_index"):
            who = (raters or {}).get(trial)
            names = values.index.get_level_values("arm_name")
            at = (place[name, who] for name in names)
            # Ax's tables keep so many decimals, and read back others.
            yield trial, dict(zip(at, values.round(DECIMALS).tolist(), strict=True))

    def positions_in(trial: int) -> dict[int, float]:
        who, shown = (raters or {}).get(trial), (positions or {}).get(trial, {})
        found = {(name, who): at for name, at in shown.items()}
        return {place[row]: found[row] for row in found.keys() & place.keys()}

    names, numbers = zip(*rows, strict=True)
    first = arms[~arms.index.duplicated()].loc[[*names], parameters]
    return FeedbackDataset(
        torch.from_numpy(first.to_numpy(dtype=float, copy=True)),
        feedback_blocks(
            groups, num_levels, None if positions is None else positions_in
        ),
        feature_names=parameters,
        outcome_names=[OBJECTIVE],
        raters=None if raters is None else torch.tensor(numbers),
    )


def arms_and_raters(
    experiment_data: ExperimentData, raters: Mapping[int, int]
) -> list[tuple[str, int | None]]:
    """The names of the arms that answers are about, with the numbers of their raters.

    Each pair is there once, in the order of the names; the number is None where the
    trial of the answer is not in ``raters``.
    """
    index = experiment_data.observation_data.sort_index().index
    levels = ("arm_name", "trial_index")
    pairs = zip(*(index.get_level_values(level) for level in levels), strict=True)
    return list(dict.fromkeys((name, raters.get(trial)) for name, trial in pairs))


def position(rank: int, num_options: int) -> float:
    """Position of an option on display: from 1/2 for the first to -1/2 for the last."""
    return 0.5 - rank / (num_options - 1)


def with_positions(
    block: Feedback, positions: Sequence[Mapping[int, float]]
) -> Feedback:
    """Answers that compare, with positions of their options as a covariate.

    ``positions`` has those of each answer by datapoint; one that is not known is 0.
    """
    rows: list[Any]
    if isinstance(block, Comparisons):
        duels = block.ties if block.pairs is None else block.pairs
        assert duels is not None, "comparisons have pairs or ties"
        numbered = zip(positions, duels.tolist(), strict=True)
        rows = [[at.get(a, 0.0) - at.get(b, 0.0)] for at, (a, b) in numbered]
    elif isinstance(block, Choices | Rankings):
        sets = block.sets if isinstance(block, Choices) else block.orders
        numbered = zip(positions, sets.tolist(), strict=True)
        rows = [[[at.get(i, 0.0)] for i in options] for at, options in numbered]
    else:
        return block
    return replace(block, covariates=torch.tensor(rows, dtype=torch.float64))


def feedback_blocks(
    groups: Callable[[str], Groups],
    num_levels: int | None,
    positions_in: Callable[[int], Mapping[int, float]] | None = None,
) -> list[Feedback]:
    """Answers in containers, one for each class of feedback.

    ``groups`` has the data of a metric by its name; ``positions_in`` the positions of
    datapoints in a trial, or it is None where they do not count.
    """
    blocks: dict[type[Feedback], Feedback] = {}
    for kind in KINDS:
        found = [*groups(kind.metric)]
        if kind is TIE:
            found = [(t, two) for t, values in found for two in tied_in_turn(values)]
        if found:
            block = kind.feedback(found, num_levels)
            if positions_in is not None:
                at = [positions_in(trial) for trial, _ in found]
                block = with_positions(block, at)
            earlier = blocks.get(type(block))
            joined = block if earlier is None else earlier.followed_by(block)
            blocks[type(block)] = joined
    return [*blocks.values()]


_TAKEN: set[tuple[str, ...]] = set()
"""Models with kinds of answers that they were found to take. A kind that is refused is
tried again, so that the error is about the answer at hand."""


def check_taken(
    settings: Settings, answer: Answer, num_options: int, num_levels: int | None
) -> None:
    """Checks that a model of an answer, and nothing else, can be made.

    A model that takes each of some kinds of answers takes all of them. The kind alone
    decides, so each kind is tried once.
    """
    rows = answer.rows(num_options)
    biased = settings.position_bias
    key = json.dumps(
        [settings.model, settings.model_options, num_options, num_levels, biased]
    )
    kinds = (key, *sorted(rows))
    if not rows or kinds in _TAKEN:
        return
    at = {place: position(place, num_options) for place in range(num_options)}
    blocks = feedback_blocks(
        lambda metric: [(0, rows[metric])] if metric in rows else [],
        num_levels,
        (lambda _: at) if biased else None,
    )
    if biased and any(b.relative and b.covariates is None for b in blocks):
        raise ExperimentError(
            f"What position_bias adds to {answer.given()} is not known; say who wins, "
            "a tie, the best or a ranking, or create an experiment without it."
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
        # A model can refuse options of another in any way.
        raise ExperimentError(
            f"{settings.model} with model_options={settings.model_options!r} does not "
            f"take {answer.given()}: {error} In an experiment, name the model in "
            "model= and likelihoods in model_options={'likelihood': ...}."
        ) from error
    _TAKEN.add(kinds)
