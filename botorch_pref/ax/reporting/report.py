"""Report on an experiment: two small tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from ax.core.arm import Arm
from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.core.types import TParameterization
from pandas import DataFrame

from botorch_pref.ax.answers.answer import KINDS
from botorch_pref.ax.answers.kinds.invalid import Invalid
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions
from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter
from botorch_pref.ax.log import REPEATS, WITHDRAWN
from botorch_pref.ax.projection import events_of, standing_answer, standing_answers
from botorch_pref.ax.reporting.baseline import baseline_rows, differences
from botorch_pref.ax.reporting.near_copies import representatives
from botorch_pref.ax.reporting.points import points_of, utility_summary
from botorch_pref.ax.reporting.progress import MEANINGS, progress
from botorch_pref.ax.reporting.raters import rater_rows
from botorch_pref.ax.reporting.recommendation import (
    best_anywhere,
    best_shown,
    fitted_adapter,
)
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.ax.space.smallest_difference import SmallestDifference
from botorch_pref.evaluation.progress.answer_agreement import (
    AnswerAgreement,
    answer_agreement,
)
from botorch_pref.evaluation.progress.best_probability import best_probability
from botorch_pref.evaluation.progress.comparison_graph import connected_components
from botorch_pref.feedback import Comparisons


@dataclass(frozen=True)
class Report:
    """Report on the answers: ``print`` it, or end a notebook's cell with it.

    Attributes:
        summary: The column ``value`` has numbers of questions and answers; what is
            recommended, of a catalogue its id; the expected gain (in units of utility)
            of knowing the best option of the search space over the best one shown;
            whether to ``stop``, and the ``chance of regret`` in what the person would
            notice; how often repeated questions were answered alike; and into how many
            parts the comparisons join the options. The column ``meaning`` has what to
            make of a value.
        options: A row for each option that was judged or could have been, the largest
            posterior mean first: its parameters; its utility's posterior ``mean`` and
            95 % interval from ``lower`` to ``upper``; the probability that it is the
            ``best`` of those that were judged, NaN for others; how many options it was
            said to be better than (``wins``), worse than (``losses``) and equal to
            (``ties``); how often it ``failed``; and the ``part`` of the comparison
            graph that it is in. Options that nobody could tell apart have one entry in
            ``best``: the others have NaN, and ``copy_of`` names it. With a baseline
            also its ``difference`` to that, from ``least`` to ``most``, and the
            probability that it is ``preferred`` to it.
    """

    summary: DataFrame
    options: DataFrame

    def to_markdown(self) -> str:
        """Both tables in Markdown."""
        return "\n\n".join(map(_markdown, (self.summary, self.options)))

    __str__ = to_markdown
    _repr_markdown_ = to_markdown


def preference_report(experiment: Experiment, settings: Settings) -> Report:
    """Report on the answers so far.

    Args:
        experiment: Ax's, with at least one answer.
        settings: Of the experiment.

    Raises:
        ExperimentError: There is no answer.
    """
    adapter = fitted_adapter(experiment, settings)
    arms = _judged_first(experiment, adapter)
    part = connected_components(len(arms), adapter.feedback)
    sizes = torch.bincount(part)
    alone = [arm.name for arm, p in zip(arms, part, strict=True) if sizes[p] == 1]
    agreement = _agreement(adapter)
    shown, anywhere = best_shown(adapter), best_anywhere(experiment, settings, adapter)
    values = {
        **_counts(experiment),
        "recommended of those shown": _text(experiment, shown),
        "recommended of all": _text(experiment, anywhere),
        **_baseline_rows(experiment, settings, adapter, shown),
        **progress(experiment, settings, adapter, anywhere),
        **rater_rows(experiment, adapter),
        "pairs asked about again": agreement.repeated,
        "answered alike": agreement.agreement,
        "parts of the comparison graph": len(sizes),
        "options that stand alone": ", ".join(alone) or "none",
    }
    options = _options(experiment, adapter, arms, settings.smallest_difference)
    options["part"] = part.numpy()
    if settings.baseline is not None:
        options = options.join(differences(adapter, arms, settings.baseline))
    summary = DataFrame({"value": values}, dtype=object)
    meaning = [MEANINGS.get(row, "") for row in summary.index]
    return Report(
        summary.assign(meaning=meaning),
        options.sort_values("mean", ascending=False, kind="stable"),
    )


def _baseline_rows(
    experiment: Experiment,
    settings: Settings,
    adapter: PreferenceAdapter,
    shown: TParameterization,
) -> dict[str, Any]:
    if settings.baseline is None:
        return {}
    rows = baseline_rows(adapter, shown, settings.baseline)
    return {"baseline": _text(experiment, settings.baseline), **rows}


def preferred(
    answer: Mapping[str, Any], num_options: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pairs of options that an answer compares.

    Args:
        answer: What was said, see ``Answer.given``.
        num_options: How many options were shown.

    Returns:
        Pairs of a better and a worse option, and pairs of equal ones.
    """
    shown = ShownOptions(num_options, tuple(answer.get(Invalid.field, ())))
    found = [
        kind.preferences(answer[kind.field], shown)
        for kind in KINDS
        if kind.field in answer
    ]
    decided, tied = zip(*found, strict=True) if found else ((), ())
    return [*chain(*decided)], [*chain(*tied)]


def _counts(experiment: Experiment) -> dict[str, int]:
    trials = experiment.trials.values()
    answers = [answer for answer in map(standing_answer, trials) if answer is not None]
    kinds = Counter(kind for answer in answers for kind in answer)
    return {
        "questions": len(trials),
        "pending": sum(trial.status.is_running for trial in trials),
        "withdrawn": sum(map(_is_withdrawn, trials)),
        "asked again on purpose": sum(map(_is_repeated, trials)),
        "answers": len(answers),
        **{f"that say {kind}": number for kind, number in sorted(kinds.items())},
    }


def _is_withdrawn(trial: BaseTrial) -> bool:
    return events_of(trial)[-1].kind == WITHDRAWN


def _is_repeated(trial: BaseTrial) -> bool:
    return REPEATS in events_of(trial)[0].what


def _judged_first(experiment: Experiment, adapter: PreferenceAdapter) -> list[Arm]:
    """The arms of the model's datapoints, then others of questions not pending."""
    arms = {arm.name: arm for arm in adapter.arms}
    for trial in experiment.trials.values():
        if not trial.status.is_running:
            arms |= {arm.name: arm for arm in trial.arms}
    return list(arms.values())


def _options(
    experiment: Experiment,
    adapter: PreferenceAdapter,
    arms: list[Arm],
    smallest: SmallestDifference,
) -> DataFrame:
    posterior: Any = adapter.botorch_model.posterior(points_of(adapter, arms))
    mean, lower, upper = utility_summary(posterior)
    names = [arm.name for arm in arms]
    table = DataFrame([arm.parameters for arm in arms], index=names)
    counts = _wins_and_losses(experiment, arms)
    utility = {"mean": mean.numpy(), "lower": lower.numpy(), "upper": upper.numpy()}
    judged = len(adapter.arms)
    stands_for = representatives(
        arms[:judged], mean.tolist(), experiment.search_space, smallest
    )
    best = torch.full_like(mean, math.nan)
    best[stands_for] = 0.0
    # Over a batch of models, if it is one.
    probability = best_probability(adapter.botorch_model, adapter.datapoints)
    shares = probability.reshape(-1, judged).mean(0)
    best.index_add_(0, torch.tensor(stands_for), shares)
    copies = ["" if i == j else names[j] for i, j in enumerate(stands_for)]
    table = table.assign(**utility, best=best.numpy()).join(counts)
    if any(copies):
        table["copy_of"] = [*copies, *[""] * (len(arms) - judged)]
    return table


def _wins_and_losses(experiment: Experiment, arms: list[Arm]) -> DataFrame:
    counts = DataFrame(
        0,
        index=[arm.name for arm in arms],
        columns=["wins", "losses", "ties", "failed"],
    )
    for names, answer in standing_answers(experiment):
        decided, tied = preferred(answer, len(names))
        said = [
            *(((better, "wins"), (worse, "losses")) for better, worse in decided),
            *(((first, "ties"), (second, "ties")) for first, second in tied),
            [(option, "failed") for option in answer.get("invalid", ())],
        ]
        for option, column in (pair for pairs in said for pair in pairs):
            counts.loc[names[option], column] += 1
    return counts


def _agreement(adapter: PreferenceAdapter) -> AnswerAgreement:
    for block in adapter.dataset.feedback:
        if isinstance(block, Comparisons):
            # A rater is asked about agreement with herself.
            return answer_agreement(adapter.dataset.points, block)
    return AnswerAgreement(0, math.nan)


def _text(experiment: Experiment, option: TParameterization) -> str:
    """An option as people know it: the id of a row, or its values."""
    catalogue = Catalogue.of(experiment)
    if catalogue is not None and (name := catalogue.id_of(option)) is not None:
        return name
    # Three digits would be another design than the one that was valued.
    values = ((k, f"{v:g}" if isinstance(v, float) else v) for k, v in option.items())
    return ", ".join(f"{name} = {value}" for name, value in values)


def _short(value: object) -> object:
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return ""
    # Prices and grams in full; three digits of them would be powers of ten.
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"


def _markdown(table: DataFrame) -> str:
    return str(table.map(_short).to_markdown(disable_numparse=True))
