"""The report of an experiment: progress, answers, raters, the baseline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice, product
from math import prod
from typing import Any

import torch
from ax.core.arm import Arm
from ax.core.base_trial import BaseTrial
from ax.core.experiment import Experiment
from ax.core.types import TParameterization
from ax.utils.common.random import with_rng_seed
from pandas import DataFrame
from torch import Tensor

from botorch_pref.ax.generation.adapter import PreferenceAdapter
from botorch_pref.ax.generation.asking import derived_seed
from botorch_pref.ax.generation.option_space import MAX_DESIGNS, values_of
from botorch_pref.ax.generation.strategy import fitted_sobol_spec
from botorch_pref.ax.kinds import INVALID, KINDS, ShownOptions
from botorch_pref.ax.log import REPEATS, WITHDRAWN
from botorch_pref.ax.projection import events_of, standing_answers
from botorch_pref.ax.raters import rater_numbers
from botorch_pref.ax.reporting.recommendation import (
    LEVEL,
    best_anywhere,
    best_shown,
    fitted_adapter,
    near_designs,
    points_of,
    representatives,
    utility_summary,
)
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.ax.space.options import SmallestDifference, whole_design
from botorch_pref.evaluation.progress import (
    CONFIDENCE,
    GAIN_TOLERANCE,
    TOLERANCE,
    AnswerAgreement,
    answer_agreement,
    best_probability,
    connected_components,
    remaining_gain,
    stopping_advice,
)
from botorch_pref.feedback import Comparisons
from botorch_pref.models import AgreementKernel, GroupUtility


def rater_rows(experiment: Experiment, adapter: PreferenceAdapter) -> dict[str, Any]:
    """Rows of the summary about those who answered.

    Args:
        experiment: Ax's.
        adapter: See `fitted_adapter`.

    Returns:
        The number of ``raters``, if answers have any; and where they share, the
        correlation of the utilities of two of them.
    """
    names = rater_numbers(experiment)
    if not names:
        return {}
    rows: dict[str, Any] = {"raters": len(names)}
    model = adapter.botorch_model
    if isinstance(model, GroupUtility):
        for kernel in model.rater_model.covar_module.modules():
            if isinstance(kernel, AgreementKernel):
                rows["agreement of raters"] = float(kernel.agreement.detach())
    return rows


COLUMNS = ("difference", "least", "most", "preferred")


def differences(
    adapter: PreferenceAdapter, arms: list[Arm], baseline: TParameterization
) -> DataFrame:
    """Differences of options to the baseline.

    Args:
        adapter: See `fitted_adapter`.
        arms: The options.
        baseline: The design to compare with.

    Returns:
        A row for each option, by name: posterior mean of the ``difference`` of its
        utility to that of the baseline, with a 95 % interval from ``least`` to
        ``most``; and the probability of the answer that it is ``preferred``. Zeros and
        1/2 for the baseline itself.
    """
    reference = Arm(parameters=baseline)
    names = [arm.name_or_short_signature for arm in arms]
    table = DataFrame(0.0, index=names, columns=list(COLUMNS))
    table["preferred"] = 0.5
    others = [i for i, arm in enumerate(arms) if arm.signature != reference.signature]
    if not others:
        return table
    model: Any = adapter.botorch_model
    points = points_of(adapter, [arms[i] for i in others])
    against = points_of(adapter, [reference])
    with torch.no_grad():
        mean, lower, upper = utility_summary(model.duel_posterior(points, against))
        preferred = model.duel_probability(points, against, observation_noise=True)
    table.iloc[others] = torch.stack([mean, lower, upper, preferred], dim=-1).numpy()
    return table


def baseline_rows(
    adapter: PreferenceAdapter, best: TParameterization, baseline: TParameterization
) -> dict[str, Any]:
    """Rows of the summary that compare what is recommended with the baseline.

    Args:
        adapter: See `fitted_adapter`.
        best: What is recommended.
        baseline: The design to compare with.
    """
    (row,) = differences(adapter, [Arm(parameters=best)], baseline).itertuples()
    return {
        "its difference to the baseline": float(row.difference),
        f"from, with probability {LEVEL}": float(row.least),
        "to": float(row.most),
        "chance that it is preferred to it": float(row.preferred),
    }


NUM_CANDIDATES = 256
"""How many points of the search space stand for all of it."""

MEANINGS = {
    "expected remaining gain": "utility that the best design would add to that shown",
    "gain as a share of the range": "from the worst to the best option judged",
    "probability of a small gain": f"of a share below {GAIN_TOLERANCE:g}",
    "stop": f"a small gain or a low chance, with probability {CONFIDENCE}",
    "chance of regret": "that the best design is preferred to that shown; least 0.5",
    "its probability to be low": f"of a chance of regret below {TOLERANCE}",
    "agreement of raters": "correlation of the utilities of two of them",
    "answered alike": "0.5 is guessing, 1 is consistent",
    "parts of the comparison graph": "between them, only the prior compares",
}
"""What to make of some rows of the summary."""


def progress(
    experiment: Experiment,
    settings: Settings,
    adapter: PreferenceAdapter,
    anywhere: TParameterization,
) -> dict[str, Any]:
    """Rows of the summary that say how much is left, and whether to stop.

    Args:
        experiment: Ax's.
        settings: Of the experiment.
        adapter: See `fitted_adapter`.
        anywhere: The best design of the whole space, as far as the answers tell.
    """
    best = points_of(adapter, [Arm(parameters=best_shown(adapter))])
    candidates = candidate_points(experiment, settings, adapter, anywhere)
    model = adapter.botorch_model
    gain = remaining_gain(model, best, candidates)
    advice = stopping_advice(
        model, candidates, recommended=best, shown=adapter.datapoints
    )
    return {
        # Over a batch of models, if it is one.
        "expected remaining gain": float(gain.expected.mean()),
        "its standard error": float(gain.standard_error.mean()),
        "gain as a share of the range": advice.gain_share,
        "probability of a small gain": advice.gain_confidence,
        "stop": advice.stop,
        "chance of regret": advice.chance_of_regret,
        "its probability to be low": advice.confidence,
    }


def candidate_points(
    experiment: Experiment,
    settings: Settings,
    adapter: PreferenceAdapter,
    anywhere: TParameterization,
) -> Tensor:
    """Points among which the best one is sought, as the model takes them.

    Args:
        experiment: Ax's.
        settings: Of the experiment.
        adapter: See `fitted_adapter`.
        anywhere: The best design of the whole space, as far as the answers tell.

    Returns:
        ``n x d``: that design, all that were judged, and `NUM_CANDIDATES` more: where
        designs can be counted, all of them or so many drawn without replacement, else
        those of a Sobol sequence, and as many around the best one shown, that satisfy
        the search space.
    """
    arms = _drawn(experiment, settings)
    if arms is None:
        seed = derived_seed(settings, len(experiment.trials))
        near = best_shown(adapter), NUM_CANDIDATES, seed
        arms = _spread(experiment, settings)
        arms += near_designs(experiment.search_space, *near)
    points = points_of(adapter, [*arms, Arm(parameters=anywhere)])
    return torch.cat([points, adapter.datapoints])


def _drawn(experiment: Experiment, settings: Settings) -> list[Arm] | None:
    """Different designs of a catalogue or a finite space; None of other spaces."""
    space, catalogue = experiment.search_space, Catalogue.of(experiment)
    if catalogue is not None:
        chosen: Any = [*catalogue.rows.values()]
    else:
        values = [values_of(p) for p in space.tunable_parameters.values()]
        listed = [each for each in values if each is not None]
        if len(listed) < len(values) or prod(map(len, listed)) > MAX_DESIGNS:
            return None
        names = [*space.tunable_parameters]
        chosen = [dict(zip(names, each, strict=True)) for each in product(*listed)]
    seed = derived_seed(settings, len(experiment.trials))
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(seed))
    designs = (whole_design(space, chosen[i]) for i in order.tolist())
    allowed = (design for design in designs if space.check_membership(design))
    return [Arm(parameters=design) for design in islice(allowed, NUM_CANDIDATES)]


def _spread(experiment: Experiment, settings: Settings) -> list[Arm]:
    # Ax rounds categories by NumPy's global generator.
    with with_rng_seed(derived_seed(settings, len(experiment.trials))):
        run = fitted_sobol_spec(experiment, settings, 0).gen(n=NUM_CANDIDATES)
    space = experiment.search_space
    return [arm for arm in run.arms if space.check_membership(arm.parameters)]


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
    shown = ShownOptions(num_options, tuple(answer.get(INVALID.field, ())))
    found = [
        kind.preferences(answer[kind.field], shown)
        for kind in KINDS
        if kind.field in answer
    ]
    decided, tied = zip(*found, strict=True) if found else ((), ())
    return [*chain(*decided)], [*chain(*tied)]


def _counts(experiment: Experiment) -> dict[str, int]:
    trials = experiment.trials.values()
    answers = [answer for _, answer in standing_answers(experiment)]
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
