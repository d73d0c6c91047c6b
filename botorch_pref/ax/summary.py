"""The summary of a report: rows of values, and what they mean."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from ax.core.types import TParameterization
from ax.utils.common.random import with_rng_seed
from botorch.utils.transforms import is_ensemble
from pandas import DataFrame
from torch import Tensor

from botorch_pref.ax.best_designs import allowed_here, best_shown
from botorch_pref.ax.findings import (
    BASELINE_ROWS,
    LEVEL,
    look_like_guesses,
    unit_of_differences,
)
from botorch_pref.ax.generation import question_choice
from botorch_pref.ax.generation.adapter import PreferenceAdapter
from botorch_pref.ax.log import Log
from botorch_pref.ax.number_texts import value_text
from botorch_pref.ax.projection import Projection
from botorch_pref.ax.space.constraints import equalities
from botorch_pref.ax.space.context import context_text
from botorch_pref.datasets.items import names_alike
from botorch_pref.evaluation import progress
from botorch_pref.evaluation.answer_effects import position_bias
from botorch_pref.evaluation.progress import NUM_CANDIDATES
from botorch_pref.feedback import Comparisons
from botorch_pref.models import AveragedUtility, GroupUtility
from botorch_pref.models.plausible import GUESSED, GUESSERS
from botorch_pref.models.raters import agreement_kernel

MEANINGS = {
    "expected remaining gain": "utility that the best design would add to that shown",
    "expected range": "utility from the worst to the best option judged",
    "gain as a share of the range": "from the worst to the best option judged",
    "probability of a small gain": f"of a share below {progress.GAIN_TOLERANCE:g}",
    "stop": f"a small gain or a low chance has a probability of {progress.CONFIDENCE}",
    "chance of regret": "that the best beats the one shown, half of ties; least 0.5",
    "its probability to be low": f"of a chance of regret below {progress.TOLERANCE}",
    "explanations of the answers": "hyper-parameters that gain and chance average over",
    "searched for the best": "if some designs only, gain and chance are lower bounds",
    "guessed": "that a coin gave all answers; "
    f"{GUESSERS:g} before; above {GUESSED:g} no stop",
    "agreement of raters": "correlation expected of any two; the table has each two",
    "raters who look alike": "but for capitals, spaces or zeros; each is another one",
    "constraints that make an equality": "no effect of their parameters alone",
    "pairs asked about again": "by duels and ties; checks has whole questions",
    "answered alike": "0.5 is guessing, 1 is consistent",
    "parts of the comparison graph": "between them, only the prior compares",
}
"""The meaning of some rows of the summary."""


def summary_table(
    log: Log,
    adapter: PreferenceAdapter,
    options: DataFrame,
    best: str,
    anywhere: TParameterization,
    progress_values: Mapping[str, Any],
    rater_failure: str = "",
) -> DataFrame:
    """Makes the summary of a report, see `Report`.

    Args:
        log: The log of the experiment.
        adapter: Ax's adapter with the model of all answers, in the context.
        options: The report's table of options, before constraints take rows away.
        best: What the table calls the best option shown.
        anywhere: The best design of the space.
        progress_values: See `progress_rows`.
        rater_failure: Why there are no tables of raters, if that is an error.
    """
    best_option, context = best_shown(adapter), adapter.context
    title = best if anywhere == best_option else None
    values = {
        **_counts(log),
        **({"context": context_text(context)} if context else {}),
        "recommended of those shown": _design_text(log, best_option, best),
        "recommended of all": _design_text(log, anywhere, title),
        **_other_contexts(log, adapter),
        **_baseline_rows(log, options, best),
        **progress_values,
        "explanations of the answers": adapter.explanations,
        **guesses(adapter.utility),
        **_learned_rows(log, adapter),
        **({"noise of raters": rater_failure} if rater_failure else {}),
        **_answer_rows(adapter, options),
    }
    # From guesses the model learns no utility: a small gain is no reason to stop.
    values["stop"] = values["stop"] and not look_like_guesses(values)
    table = DataFrame({"value": values}, dtype=object)
    meanings = MEANINGS | {BASELINE_ROWS[0]: unit_of_differences(values)}
    return table.assign(meaning=[meanings.get(row, "") for row in table.index])


_MOST_CONTEXTS = 8
"""Contexts of which a summary names the best option, at most."""


def _other_contexts(log: Log, adapter: PreferenceAdapter) -> dict[str, str]:
    """Makes the rows of the summary on the best options in other contexts.

    They are those of questions with an answer; where these are many there is no row.
    """
    contexts = [log.context_of(q) for q in log.questions if q.standing is not None]
    distinct = {context_text(context): context for context in contexts}
    distinct.pop(context_text(adapter.context), None)
    if len(distinct) > _MOST_CONTEXTS:
        return {}
    rows = {}
    for text, context in distinct.items():
        # The same fit: other parts of the report go on with this context.
        best_option = best_shown(adapter.in_context(context))
        rows[f"recommended where {text}"] = _design_text(log, best_option)
    return rows


def _counts(log: Log) -> dict[str, int]:
    """Makes the rows of the summary that count questions and answers.

    Sentences of the report look up what answers say by the names of these rows.
    """
    questions, answers = log.questions, [*log.answers()]
    kinds: Counter[str] = Counter()
    for answer in answers:
        # An empty list of options that failed says that none did.
        stated = [
            kind for kind, value in answer.fields.items() if value not in ((), [])
        ]
        kinds.update(dict.fromkeys(stated, answer.count))
    return {
        "questions": len(questions),
        "pending": sum(question.pending for question in questions),
        "withdrawn": sum(question.withdrawn for question in questions),
        "asked again on purpose": sum("repeats" in q.content for q in questions),
        "answers": sum(answer.count for answer in answers),
        **{f"that say {kind}": number for kind, number in sorted(kinds.items())},
    }


def progress_rows(
    projection: Projection,
    adapter: PreferenceAdapter,
    anywhere: TParameterization,
) -> dict[str, Any]:
    """Makes the rows of the summary on the gain that is left, and on stopping.

    Gain and range are in units of utility; ``anywhere`` is the best of all designs.
    """
    model, space = adapter.botorch_model, adapter.design_space()
    candidates = candidate_points(projection, adapter, anywhere)
    designs = space.designs()
    everywhere = space.is_box and not is_ensemble(model)
    advice = progress.stopping_advice(
        model,
        candidates,
        recommended=adapter.points_of([best_shown(adapter)]),
        shown=adapter.datapoints[allowed_here(adapter, adapter.arms)],
        bounds=space.bounds if everywhere else None,
        plausible=getattr(adapter.utility, "members", ()),
    )
    searched = f"{len(candidates)} designs"
    if everywhere:
        searched = "the whole space"
    elif designs is not None and len(designs) <= NUM_CANDIDATES:
        searched = f"all {len(designs)} designs"
    return {
        "expected remaining gain": advice.expected_gain,
        "its standard error": advice.gain_standard_error,
        "expected range": advice.expected_range,
        "gain as a share of the range": advice.gain_share,
        "probability of a small gain": advice.gain_confidence,
        "stop": advice.stop,
        "chance of regret": advice.chance_of_regret,
        "its probability to be low": advice.confidence,
        "searched for the best": searched,
    }


def all_judged(adapter: PreferenceAdapter) -> bool:
    """Tells whether a space has no designs but those that were judged."""
    designs = adapter.design_space().designs()
    if designs is None:
        return False
    judged = adapter.datapoints[allowed_here(adapter, adapter.arms)]
    return len(judged.unique(dim=0)) >= len(designs)


def candidate_points(
    projection: Projection, adapter: PreferenceAdapter, anywhere: TParameterization
) -> Tensor:
    """Makes points among which the best is sought, as a model takes them, ``n x d``.

    There are `NUM_CANDIDATES` of the space, or as many as it has, half of them around
    the best one shown, which is there too. Then come the design with the largest
    posterior mean (``anywhere``) and all that were judged and that constraints allow in
    the context.
    """
    log, best = projection.log, adapter.points_of([best_shown(adapter)])
    seed = question_choice.derived_seed(log.settings, len(log.questions))
    with with_rng_seed(seed):
        points = adapter.design_space().sample_near(best, NUM_CANDIDATES, seed)
    judged = adapter.datapoints[allowed_here(adapter, adapter.arms)]
    return torch.cat([points, adapter.points_of([anywhere]), judged])


def _learned_rows(log: Log, adapter: PreferenceAdapter) -> dict[str, Any]:
    """Makes the rows of the summary on raters, equalities and the bias of position."""
    rows: dict[str, Any] = {"raters": len(log.raters)} if log.raters else {}
    if alike := names_alike(log.raters):
        groups = (" and ".join(map(ascii, names)) for names in alike)
        rows["raters who look alike"] = "; ".join(groups)
    if equal := equalities(log.space):
        rows["constraints that make an equality"] = " and ".join(equal)
    model: Any = adapter.botorch_model
    if isinstance(model, GroupUtility):
        model = model.rater_model
        kernel = agreement_kernel(model)
        # The answers of one tell nothing of it.
        if kernel is not None and len(log.raters) > 1:
            rows["agreement of raters"] = float(kernel.agreement.detach())
    if getattr(model, "num_covariates", 0):
        share = position_bias(model, LEVEL).share
        mean, lower, upper = (f"{number:.0%}" for number in share)
        rows["position bias"] = (
            f"the option shown first of two equal ones is chosen {mean} of the time, "
            f"{lower} to {upper} with probability {LEVEL}"
        )
    return rows


def guesses(utility: Any) -> dict[str, float]:
    """Makes the row of the summary on guesses, where a coin explains answers better."""
    averaged = isinstance(utility, AveragedUtility)
    probability = utility.guessing_probability if averaged else 0.0
    return {"guessed": probability} if probability > GUESSERS else {}


def _baseline_rows(log: Log, options: DataFrame, best: str) -> dict[str, Any]:
    """Makes the rows of the summary that compare the best option with the baseline."""
    if log.settings.baseline is None:
        return {}
    row = options.loc[best]
    interval = map(float, row[["difference", "least", "most"]])
    return {
        "baseline": _design_text(log, log.settings.baseline),
        **dict(zip(BASELINE_ROWS, interval, strict=True)),
        "chance that it is preferred to it": float(row.preferred),
    }


def _answer_rows(adapter: PreferenceAdapter, options: DataFrame) -> dict[str, Any]:
    """Makes the rows of the summary on repeated answers and the comparison graph.

    ``options`` has the part of the comparison graph that each option is in.
    """
    agreement = progress.AnswerAgreement(0, math.nan)
    # The data set has at most one block of comparisons.
    for block in adapter.dataset.feedback:
        if isinstance(block, Comparisons):
            # Where raters share, each has her own points, and repeats herself alone.
            agreement = progress.answer_agreement(adapter.dataset.points, block)
    sizes = options.groupby("part")["part"].transform("size")
    return {
        "pairs asked about again": agreement.repeated,
        "answered alike": agreement.agreement,
        "parts of the comparison graph": options["part"].nunique(),
        "options that stand alone": ", ".join(options.index[sizes == 1]) or "none",
    }


def _design_text(log: Log, option: TParameterization, title: str | None = None) -> str:
    """Writes an option as people know it: by the id of its row, or values and title.

    The title is that under which it was shown, unless another one is given.
    """
    if log.catalogue is not None and (name := log.catalogue.id_of(option)) is not None:
        return name
    text = ", ".join(f"{name} = {value_text(value)}" for name, value in option.items())
    if title is None and (shown_as := log.name_of(option)) is not None:
        title = log.titles[shown_as]
    return text if title is None else f"{title}: {text}"
