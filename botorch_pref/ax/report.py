"""The report of an experiment."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from ax.core.arm import Arm
from ax.core.parameter import ChoiceParameter, ParameterType
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization
from ax.utils.common.random import with_rng_seed
from botorch.utils.transforms import is_ensemble
from pandas import DataFrame
from torch import Tensor

from botorch_pref.ax.answer_kinds import preferred
from botorch_pref.ax.answer_table import parameter_columns
from botorch_pref.ax.best_designs import (
    allowed_here,
    best_anywhere,
    best_shown,
    fitted_adapter,
)
from botorch_pref.ax.findings import (
    LEVEL,
    OPTION_COLUMNS,
    advice_in_words,
    look_like_guesses,
    printed_effects,
    printed_options,
    representatives,
    value_text,
)
from botorch_pref.ax.generation import question_choice
from botorch_pref.ax.generation.adapter import PreferenceAdapter
from botorch_pref.ax.log import Log
from botorch_pref.ax.projection import Projection
from botorch_pref.ax.rater_report import (
    chances,
    favourites_of,
    rater_checks,
    rater_tables,
)
from botorch_pref.ax.report_page import rater_sentences, report_html
from botorch_pref.ax.space.constraints import equalities
from botorch_pref.ax.space.context import Context, context_text
from botorch_pref.ax.space.lines import has_digits, readable
from botorch_pref.ax.space.options import differ, in_smallest_differences
from botorch_pref.datasets.items import names_alike
from botorch_pref.errors import BotorchPrefError
from botorch_pref.evaluation import progress
from botorch_pref.evaluation.answer_effects import position_bias
from botorch_pref.evaluation.explanation import Designs, Dimension
from botorch_pref.evaluation.progress import NUM_CANDIDATES
from botorch_pref.evaluation.scores import table_of
from botorch_pref.feedback import Comparisons
from botorch_pref.models import AveragedUtility, GroupUtility
from botorch_pref.models.raters import agreement_kernel
from botorch_pref.posteriors.gaussian import central_interval

MEANINGS = {
    "expected remaining gain": "utility that the best design would add to that shown",
    "expected range": "utility from the worst to the best option judged",
    "gain as a share of the range": "from the worst to the best option judged",
    "probability of a small gain": f"of a share below {progress.GAIN_TOLERANCE:g}",
    "stop": f"a small gain or a low chance has a probability of {progress.CONFIDENCE}",
    "chance of regret": "that the best design is preferred to that shown; least 0.5",
    "its probability to be low": f"of a chance of regret below {progress.TOLERANCE}",
    "explanations of the answers": "hyper-parameters that gain and chance average over",
    "searched for the best": "if some designs only, gain and chance are lower bounds",
    "its difference to the baseline": "in utility, as the expected range",
    "guessed": "probability that a coin gave all; 0.5 before; above 0.9 no stop",
    "agreement of raters": "correlation of the utilities of two of them",
    "raters who look alike": "but for capitals, spaces or zeros; each is another one",
    "constraints that make an equality": "no effect of their parameters alone",
    "pairs asked about again": "duels only; checks has questions of any size",
    "answered alike": "0.5 is guessing, 1 is consistent",
    "parts of the comparison graph": "between them, only the prior compares",
}
"""The meaning of some rows of the summary."""


_MOST_PRINTED = 30
"""Options of a printed report."""


@dataclass(frozen=True)
class Report:
    """Report on the answers: ``print`` it, or end a notebook's cell with it.

    Attributes:
        summary: The column ``value`` has numbers of questions and answers; what is
            recommended, of a catalogue its id; the expected gain (in units of utility)
            of knowing the best option of the search space over the best one shown;
            whether to ``stop``, and the ``chance of regret`` in what the person would
            notice; how much of the space was ``searched for the best``; how often
            repeated questions were answered alike; into how many parts the comparisons
            join the options; with ``position_bias`` also how often the option shown
            first is chosen between equals, ties left out, with a 95 % interval. The
            column ``meaning`` has what to make of a value.
        options: A row for each option that was judged or could have been, and that
            constraints allow in the context, the largest posterior mean first, by what
            people call it (`.PreferenceExperiment.titles` has the names of Ax's arms):
            its parameters, whose columns end in
            ``_parameter`` where they would be called as others; its utility's posterior
            ``mean`` and 95 % interval from ``lower`` to ``upper``; the probability that
            it is the ``best`` of those that were judged; how many options it was said
            to be better than (``wins``), worse than (``losses``) and equal to
            (``ties``); how often it ``failed``; and the ``part`` of the comparison
            graph that it is in. Of options that nobody could tell apart one has an
            entry in ``best``, which ``copy_of`` names; they are printed as one. Then
            its ``difference`` to the ``reference``, with a 95 % interval from ``least``
            to ``most``; the probability that its utility is ``better``; and with a
            baseline the probability that it is ``preferred`` in an answer. These are
            printed, for comparisons say nothing of the level of utilities, and as
            shares, see `in_shares`.
        raters: A row for each rater, those who agree beside each other: the table of
            :func:`.rater_reliability`. None unless two to 40 people with names compared
            options, three or more of them.
        agreement: A row for each two raters: the table of :func:`.rater_agreement` over
            options that were judged. None where ``raters`` is.
        checks: A row for each rater who was asked about the same options again, the
            name empty of those who gave none: the number of ``checks``, the share that
            was answered ``alike`` (the same options are the best), and its 95 %
            interval from ``lower`` to ``upper``. None where nobody was.
        effects: What each parameter does around the best option shown, the others held:
            a row for each ``parameter`` and ``value`` that the space has, with the
            ``change`` of utility from that option and its 95 % interval from ``lower``
            to ``upper``. None of a catalogue, whose rows are all there is, and of a
            model that averages over its hyper-parameters. Printed is where each
            parameter is best and worst, and the ``difference``, the largest one first;
            or that its effect is not known, where no interval excludes 0.
        advice: How sure it is that the best option shown is the best design, and so
            whether to go on asking, in words. It names an option that is the best with
            a larger probability, and raters who part from the others. Where the answers
            look like guesses, it says that alone.
        reference: The design to which differences of ``options`` are: the baseline, or
            the best option shown.
        favourites: A row for each rater, where raters share: the name of the
            ``favourite``, the option with the largest mean of that rater's utility, and
            the probabilities that it is ``better`` to the rater than the best option
            shown, and ``preferred`` to it. None where raters do not share.
        expected_range: In utility, from the worst to the best option that was judged.
    """

    summary: DataFrame
    options: DataFrame
    raters: DataFrame | None = None
    agreement: DataFrame | None = None
    checks: DataFrame | None = None
    effects: DataFrame | None = None
    advice: str = ""
    reference: str = "the best"
    favourites: DataFrame | None = None
    expected_range: float = 1.0

    def in_shares(self) -> Report:
        """Divides differences and changes of utility by the expected range.

        Duels and rankings say hardly how precise a person is, and so what a unit of
        utility is: of one who seldom errs, differences leave their intervals in a third
        of the cases after 8 to 30 answers, and as shares of the range in few
        (``docs/logbook/calibration.md``).
        """

        def divided(table: DataFrame, *columns: str) -> DataFrame:
            return table.assign(
                **{name: table[name] / self.expected_range for name in columns}
            )

        options, effects = self.options, self.effects
        if "difference" in options:
            options = divided(options, "difference", "least", "most")
        if effects is not None:
            effects = divided(effects, "change", "lower", "upper")
        return replace(self, options=options, effects=effects, expected_range=1.0)

    def to_markdown(self) -> str:
        """Writes the recommendation and how sure it is, then all tables, in Markdown.

        Of many options it has the best; agreements are a square, effects a row for each
        parameter; the summary is last. Differences are shares, see `in_shares`.
        """
        shares = self.in_shares()
        options = printed_options(shares.options, self.reference)
        parts, tables = [], [options.head(_MOST_PRINTED)]
        if self.advice:
            values = self.summary["value"]
            best = values["recommended of those shown"]
            parts = [
                _cell_text(f"The best option shown is {best}."),
                f"{'Stop' if values['stop'] else 'Go on'}. {self.advice}",
            ]
        if len(options) > _MOST_PRINTED:
            count = f"{_MOST_PRINTED} of {len(options)}"
            parts.append(f"The best {count} options; `report.options` has all of them.")
        if shares.effects is not None:
            tables.insert(0, printed_effects(shares.effects))
        if self.favourites is not None:
            tables.append(self.favourites)
        if self.raters is not None and self.agreement is not None:
            tables += [self.raters, _square(self.agreement, [*self.raters.index])]
        if self.checks is not None:
            tables.append(self.checks)
        for table in (*tables, self.summary):
            texts = table.map(_cell_text).rename(index=_cell_text, columns=_cell_text)
            parts.append(str(texts.to_markdown(disable_numparse=True)))
        return "\n\n".join(map(str, parts))

    def to_html(self, title: str = "What was learned") -> str:
        """Makes one page with its figures, which needs no other file and no network.

        It has what to take and how sure that is, what each parameter does, differences
        as shares with their intervals, a sentence for each rater, tables, and how to
        cite it.

        Args:
            title: The title of the page.
        """
        shares = self.in_shares()
        return report_html(
            title,
            self.summary,
            shares.options,
            advice=self.advice,
            reference=self.reference,
            effects=shares.effects,
            raters=rater_sentences(self.raters, self.agreement, self.checks),
        )

    __str__ = to_markdown
    _repr_markdown_ = to_markdown


def guesses(utility: Any) -> dict[str, float]:
    """Makes the row of the summary on guesses, where answers look more like them."""
    averaged = isinstance(utility, AveragedUtility)
    probability = utility.guessing_probability if averaged else 0.0
    return {"guessed": probability} if probability > 0.5 else {}


def preference_report(projection: Projection, context: Context | None = None) -> Report:
    """Makes the report on the answers so far, in a context or that of the last one."""
    log = projection.log
    context = log.last_context if context is None else context
    adapter = fitted_adapter(projection, context=context)
    arms = _judged_arms(projection, adapter)
    joins = [*adapter.feedback, *_stops_and_ends(log, arms), *_copies(arms)]
    part = progress.connected_components(len(arms), joins)
    titles = [log.titles[arm.name] for arm in arms]
    raters, pairs, rater_row = None, None, {}
    try:
        if (tables := rater_tables(projection, adapter)) is not None:
            raters, pairs = tables
    except BotorchPrefError as error:
        rater_row = {"noise of raters": f"not known: {error}"}
    best_option, anywhere = best_shown(adapter), best_anywhere(log, adapter)
    designs = designs_of_experiment(log.space, adapter)
    parameters = [arm.parameters for arm in arms]
    options = _options(log, adapter, arms).assign(part=part.numpy())
    best, baseline = titles[parameters.index(best_option)], log.settings.baseline
    # Of a design that was seen in two contexts, one title.
    best = str(representatives(options)[best])
    values = {
        **_counts(log),
        **({"context": context_text(context)} if context else {}),
        "recommended of those shown": _design_text(log, best_option, best),
        "recommended of all": _design_text(
            log, anywhere, best if anywhere == best_option else None
        ),
        **_other_contexts(log, adapter),
        **_baseline_rows(log, designs, best_option),
        **_progress(projection, adapter, anywhere),
        "explanations of the answers": adapter.explanations,
        **guesses(adapter.utility),
        **_learned_rows(log, adapter),
        **rater_row,
        **_answer_rows(adapter, titles, part),
    }
    # Little is left to gain by a utility that guesses do not tell.
    values["stop"] = values["stop"] and not look_like_guesses(values)
    differences = _differences(designs, parameters, baseline or best_option)
    if baseline is None:
        differences = differences.drop(columns="preferred")
    options = options.join(differences.set_axis(titles))
    options = options[allowed_here(adapter, arms).tolist()]
    options = options.sort_values("mean", ascending=False, kind="stable")
    favourites = favourites_of(log, adapter)
    summary = DataFrame({"value": values}, dtype=object)
    meaning = [MEANINGS.get(row, "") for row in summary.index]
    return Report(
        summary.assign(meaning=meaning),
        options,
        raters,
        pairs,
        rater_checks(log),
        _effects(log, adapter, designs),
        advice_in_words(values, options, best, favourites),
        "the baseline" if baseline else best,
        favourites,
        # One option alone has no range.
        values["expected range"] or 1.0,
    )


def _answer_rows(
    adapter: PreferenceAdapter, titles: Sequence[str], part: Tensor
) -> dict[str, Any]:
    """Makes the rows of the summary on answers that agree and options that meet."""
    agreement = progress.AnswerAgreement(0, math.nan)
    for block in adapter.dataset.feedback:
        if isinstance(block, Comparisons):
            # A rater is asked about agreement with herself.
            agreement = progress.answer_agreement(adapter.dataset.points, block)
    sizes = torch.bincount(part)
    isolated = [title for title, p in zip(titles, part, strict=True) if sizes[p] == 1]
    return {
        "pairs asked about again": agreement.repeated,
        "answered alike": agreement.agreement,
        "parts of the comparison graph": len(sizes),
        "options that stand alone": ", ".join(isolated) or "none",
    }


def _square(agreement: DataFrame, raters: list[str]) -> DataFrame:
    """Writes agreements with their intervals as texts, ``R x R``."""
    table = DataFrame("", index=raters, columns=raters)
    for (first, second), row in agreement.iterrows():
        text = f"{row.agreement:.2f} ({row.lower:.2f} to {row.upper:.2f})"
        table.loc[first, second] = table.loc[second, first] = text
    return table


def _judged_arms(projection: Projection, adapter: PreferenceAdapter) -> list[Arm]:
    """Lists the arms of the model's points, then others of questions with an answer."""
    arms = {arm.name: arm for arm in adapter.arms}
    arms_by_name = projection.experiment().arms_by_name
    for question in projection.log.questions:
        if question.standing is not None:
            arms |= {o.name: arms_by_name[o.name] for o in question.judged}
    return [adapter.arm_in_context(arm) for arm in arms.values()]


def _stops_and_ends(log: Log, arms: Sequence[Arm]) -> list[Comparisons]:
    """Returns pairs of a stop within a line and an end of it, as places of arms."""
    place = {arm.name: i for i, arm in enumerate(arms)}
    pairs = [
        [place[question.judged[-1].name], place[question.options[0].name]]
        for question in log.questions
        if len(question.judged) > len(question.options)
    ]
    return [Comparisons(torch.tensor(pairs))] if pairs else []


def _copies(arms: Sequence[Arm]) -> list[Comparisons]:
    """Returns pairs of arms that are one design here, seen in two contexts."""
    first: dict[str, int] = {}
    places = [first.setdefault(arm.signature, i) for i, arm in enumerate(arms)]
    pairs = [[place, i] for i, place in enumerate(places) if place != i]
    return [Comparisons(torch.tensor(pairs))] if pairs else []


_MOST_CONTEXTS = 8
"""Contexts of which a summary names the best option, at most."""


def _other_contexts(log: Log, adapter: PreferenceAdapter) -> dict[str, str]:
    """Makes the rows of the summary on the best options in other contexts."""
    contexts = [log.context_of(q) for q in log.questions if q.standing is not None]
    distinct = {context_text(context): context for context in contexts}
    distinct.pop(context_text(adapter.context), None)
    if len(distinct) > _MOST_CONTEXTS:
        return {}
    rows = {}
    for text, context in distinct.items():
        there = copy(adapter)
        there.context = context
        rows[f"recommended where {text}"] = _design_text(log, best_shown(there))
    return rows


def _counts(log: Log) -> dict[str, int]:
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


def _progress(
    projection: Projection,
    adapter: PreferenceAdapter,
    anywhere: TParameterization,
) -> dict[str, Any]:
    """Makes the rows of the summary on the gain that is left, and on stopping."""
    model, space = adapter.botorch_model, adapter.design_space()
    candidates = candidate_points(projection, adapter, anywhere)
    designs = space.designs()
    everywhere = space.is_box and not is_ensemble(model)
    advice = progress.stopping_advice(
        model,
        candidates,
        recommended=adapter.points_of([best_shown(adapter)]),
        shown=adapter.datapoints,
        bounds=space.bounds if everywhere else None,
        plausible=[*getattr(adapter.utility, "members", ())],
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


def candidate_points(
    projection: Projection, adapter: PreferenceAdapter, anywhere: TParameterization
) -> Tensor:
    """Makes points among which the best is sought, as a model takes them, ``n x d``.

    There are `NUM_CANDIDATES` of the space, half of them around the best one shown.
    Then come the design with the largest posterior mean and all that were judged and
    that constraints allow in the context.
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
        if kernel is not None:
            rows["agreement of raters"] = float(kernel.agreement.detach())
    if getattr(model, "num_covariates", 0):
        share = position_bias(model, LEVEL).share
        mean, lower, upper = (f"{number:.0%}" for number in share)
        rows["position bias"] = (
            f"the option shown first of two equal ones is chosen {mean} of the time, "
            f"{lower} to {upper} with probability {LEVEL}"
        )
    return rows


def _baseline_rows(
    log: Log, designs: Designs, best: TParameterization
) -> dict[str, Any]:
    """Makes the rows of the summary that compare the best option with the baseline."""
    baseline = log.settings.baseline
    if baseline is None:
        return {}
    (row,) = _differences(designs, [best], baseline).itertuples()
    return {
        "baseline": _design_text(log, baseline),
        "its difference to the baseline": float(row.difference),
        f"from, with probability {LEVEL}": float(row.least),
        "to": float(row.most),
        "chance that it is preferred to it": float(row.preferred),
    }


def _differences(
    designs: Designs,
    options: Sequence[TParameterization],
    reference: TParameterization,
) -> DataFrame:
    """Predicts differences of options to another one, a row each, see `Report`."""
    mean, lower, upper = designs.intervals(options, LEVEL, reference=reference)
    points, against = designs.points_of(options), designs.points_of([reference])
    columns = {"difference": mean, "least": lower, "most": upper}
    return table_of(columns | chances(designs.model, points, against))


NUM_VALUES = 11
"""The number of values of a numeric parameter that its effect has."""


def dimensions_of(space: SearchSpace) -> tuple[Dimension, ...]:
    """Lists the parameters of a search space that vary."""
    dimensions = []
    for name, parameter in space.tunable_parameters.items():
        if isinstance(parameter, ChoiceParameter):
            dimensions.append(Dimension(name, choices=tuple(parameter.values)))
            continue
        ends = float(parameter.lower), float(parameter.upper)
        integer = parameter.parameter_type is ParameterType.INT
        dimensions.append(Dimension(name, ends, log=parameter.log_scale, whole=integer))
    return tuple(dimensions)


def designs_of_experiment(space: SearchSpace, adapter: PreferenceAdapter) -> Designs:
    """Makes designs of the parameters that vary; Ax adds what is fixed and derived.

    Args:
        space: The search space.
        adapter: Ax's adapter with the model of all answers.
    """

    def varied(design: TParameterization) -> TParameterization:
        return {name: design[name] for name in space.tunable_parameters}

    dimensions = dimensions_of(space)
    return Designs(
        adapter.utility,
        tuple(d for d in dimensions if d.name not in adapter.context),
        varied(best_shown(adapter)),
        [varied(arm.parameters) for arm in adapter.arms],
        adapter.feedback,
        lambda designs: adapter.points_of([dict(design) for design in designs]),
        lambda design: space.check_membership(
            dict(design), check_all_parameters_present=False
        ),
    )


def _effects(
    log: Log, adapter: PreferenceAdapter, designs: Designs
) -> DataFrame | None:
    """Predicts changes of utility from the best design shown, see `Report`."""
    if log.catalogue is not None or is_ensemble(adapter.botorch_model):
        return None
    rows = []
    for dimension in designs.dimensions:
        values, intervals = designs.effect(dimension, designs.best, NUM_VALUES, LEVEL)
        changes = torch.stack(intervals, dim=-1).tolist()
        parameter = log.space.parameters[dimension.name]
        if has_digits(parameter):
            best = designs.best[dimension.name]
            values = [x if x == best else readable(parameter, x) for x in values]
        rows += [
            (dimension.name, value, *change)
            for value, change in zip(values, changes, strict=True)
            if not math.isnan(change[0])
        ]
    return DataFrame(rows, columns=["parameter", "value", "change", "lower", "upper"])


def _options(log: Log, adapter: PreferenceAdapter, arms: list[Arm]) -> DataFrame:
    points = adapter.points_of(arm.parameters for arm in arms)
    mean, lower, upper = central_interval(adapter.utility.posterior(points), LEVEL)
    titles = [log.titles[arm.name] for arm in arms]
    columns = parameter_columns(log.space.parameters, OPTION_COLUMNS)
    table = DataFrame([arm.parameters for arm in arms], index=titles)
    table = table.rename(columns=columns)
    moments = {"mean": mean.numpy(), "lower": lower.numpy(), "upper": upper.numpy()}
    judged = len(adapter.arms)
    designs = [arm.parameters for arm in adapter.arms]
    smallest_difference = log.settings.smallest_difference
    apart = in_smallest_differences(log.space, smallest_difference, designs)
    allowed = allowed_here(adapter, adapter.arms)
    places = _representatives(apart, mean[:judged].where(allowed, -torch.inf))
    best = torch.full_like(mean, math.nan)
    best[places] = 0.0
    probability = progress.best_probability(
        adapter.utility, adapter.datapoints[allowed]
    )
    best.index_add_(0, places[allowed], probability)
    copies = ["" if i == j else titles[j] for i, j in enumerate(places.tolist())]
    table = table.assign(**moments, best=best.numpy())
    table = table.join(_wins_and_losses(log, titles))
    if any(copies):
        table["copy_of"] = [*copies, *[""] * (len(arms) - judged)]
    return table


def _representatives(apart: Tensor, utilities: Tensor) -> Tensor:
    """Finds the place of the option that stands for each option and its near copies.

    From the largest utility downwards, an option stands for all that do not `differ`
    from it in ``apart``, ``n x c``, and are not stood for yet.
    """
    places = torch.full((len(apart),), -1)
    for i in utilities.argsort(descending=True, stable=True).tolist():
        if places[i] < 0:
            near = ~differ((apart - apart[i]).square().sum(-1))
            places[near & (places < 0)] = i
    return places


def _wins_and_losses(log: Log, rows: list[str]) -> DataFrame:
    columns = ["wins", "losses", "ties", "failed"]
    counts = {column: dict.fromkeys(rows, 0) for column in columns}
    for answer in log.answers():
        titles = log.titles_of(log.questions[answer.question])
        decided, tied = preferred(answer.fields, len(titles))
        groups = {
            "wins": [better for better, _ in decided],
            "losses": [worse for _, worse in decided],
            "ties": [option for pair in tied for option in pair],
            "failed": answer.fields.get("invalid", ()),
        }
        for column, members in groups.items():
            for option in members:
                counts[column][titles[option]] += answer.count
    return DataFrame(counts, index=rows, columns=columns)


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


def _cell_text(value: object) -> object:
    if isinstance(value, str):
        # A name with either of them would be two cells, or two rows.
        return " ".join(value.splitlines()).replace("|", r"\|")
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return ""
    # Prices and grams in full; three digits of them would be powers of ten.
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"
