"""Answers to questions: what was said, by whom, and as feedback for models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import torch
from ax.adapter.data_utils import ExperimentData
from botorch.utils.transforms import is_fully_bayesian

from botorch_pref.ax.given import finite_number, given_truth, is_text, written
from botorch_pref.ax.kinds import (
    DECIMALS,
    OBJECTIVE,
    AnswerKind,
    Best,
    Group,
    Groups,
    Invalid,
    OptionLevels,
    OptionRatings,
    Ranking,
    ShownOptions,
    Strength,
    Tie,
    Winner,
    checked_places,
)
from botorch_pref.ax.naming import class_named, model_arguments, model_classes
from botorch_pref.ax.settings import SHARE, Settings
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Feedback
from botorch_pref.models.data import FeedbackDataset


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


def feedback_dataset(
    experiment_data: ExperimentData,
    parameters: list[str],
    num_levels: int | None,
    raters: Mapping[int, int] | None = None,
) -> FeedbackDataset:
    """Data set of every answer of an experiment.

    Args:
        experiment_data: Ax's tables, with parameters transformed to numbers.
        parameters: The columns that make the features, in order.
        num_levels: How many levels the scale of levels has, if there is one.
        raters: The number of who answered, by trial, where that is to count.

    Returns:
        The data set, with the arms of `arms_of` for datapoints; where raters count,
        each as often as there are raters who judged it.

    Raises:
        ExperimentError: There is no answer, or data that no answer gives.
    """
    rows = arms_and_raters(experiment_data, raters or {})
    if not rows:
        raise ExperimentError("There is no answer yet; ask and tell first.")
    # A database keeps no order, and Ax's transforms not always this one.
    means = experiment_data.observation_data["mean"].sort_index()
    arms = experiment_data.arm_data.droplevel("trial_index")
    place = {row: i for i, row in enumerate(rows)}

    def groups(metric: str) -> Iterator[tuple[int, Group]]:
        if metric not in means.columns:
            return
        for trial, values in means[metric].dropna().groupby(level="trial_index"):
            who = (raters or {}).get(trial)
            names = values.index.get_level_values("arm_name")
            at = (place[name, who] for name in names)
            # Ax's tables keep so many decimals, and read them back rounded otherwise.
            yield trial, dict(zip(at, values.round(DECIMALS).tolist(), strict=True))

    names, numbers = zip(*rows, strict=True)
    first = arms[~arms.index.duplicated()].loc[[*names], parameters]
    return FeedbackDataset(
        torch.from_numpy(first.to_numpy(dtype=float, copy=True)),
        feedback_blocks(groups, num_levels),
        feature_names=parameters,
        outcome_names=[OBJECTIVE],
        raters=None if raters is None else torch.tensor(numbers),
    )


def arms_of(experiment_data: ExperimentData) -> list[str]:
    """The names of the arms that answers are about, in the order of the questions.

    Args:
        experiment_data: Ax's tables.
    """
    rows = arms_and_raters(experiment_data, {})
    return [name for name, _ in rows]


def arms_and_raters(
    experiment_data: ExperimentData, raters: Mapping[int, int]
) -> list[tuple[str, int | None]]:
    """The names of the arms that answers are about, with those who judged them.

    Args:
        experiment_data: Ax's tables.
        raters: The number of who answered, by trial; None where there is none.
    """
    index = experiment_data.observation_data.sort_index().index
    levels = ("arm_name", "trial_index")
    pairs = zip(*(index.get_level_values(level) for level in levels), strict=True)
    return list(dict.fromkeys((name, raters.get(trial)) for name, trial in pairs))


GroupsOf = Callable[[str], Groups]
"""The data of a metric, by its name."""


def feedback_blocks(groups: GroupsOf, num_levels: int | None) -> list[Feedback]:
    """Answers in containers, one for each class of feedback that there is.

    Args:
        groups: The values of answers.
        num_levels: How many levels the scale of levels has, if there is one.

    Raises:
        ExperimentError: Data that no answer gives.
    """
    blocks: dict[type[Feedback], Feedback] = {}
    for kind in KINDS:
        block = kind.decode(groups(kind.metric), num_levels)
        if block is None:
            continue
        earlier = blocks.get(type(block))
        blocks[type(block)] = block if earlier is None else earlier.followed_by(block)
    return list(blocks.values())


_TAKEN: set[tuple[str, ...]] = set()
"""Models with kinds of answers that they were found to take. What is refused is tried
again, so that the error is about the answer at hand."""


def check_taken(
    settings: Settings, answer: Answer, num_options: int, num_levels: int | None
) -> None:
    """Checks that a model of an answer, and nothing else, can be made.

    Kinds of answers do not exclude each other: a model that takes each takes all. That
    depends on kinds and not on what an answer says, so it is tried once for each.

    Args:
        settings: Of the experiment.
        answer: To a question of the experiment.
        num_options: How many options were shown.
        num_levels: How many levels the scale has; None if there is none.

    Raises:
        ExperimentError: The model, its likelihood or its options do not go with it.
    """
    rows = answer.rows(num_options)
    key = json.dumps([settings.model, settings.model_options, num_options, num_levels])
    kinds = (key, *sorted(rows))
    if not rows or kinds in _TAKEN:
        return
    blocks = feedback_blocks(
        lambda metric: iter([(0, rows[metric])] if metric in rows else []), num_levels
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
        # Whatever a model says to options that are not for it.
        raise ExperimentError(
            f"{settings.model} with model_options={settings.model_options!r} does not "
            f"take {answer.given()}: {error} In an experiment, name the model in "
            "model= and likelihoods in model_options={'likelihood': ...}."
        ) from error
    _TAKEN.add(kinds)
