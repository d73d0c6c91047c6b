"""Tables of a report on options and on parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from ax.core.arm import Arm
from ax.core.parameter import ChoiceParameter, ParameterType
from ax.core.search_space import SearchSpace
from ax.core.types import TParameterization
from botorch.utils.transforms import is_ensemble
from pandas import DataFrame
from torch import Tensor

from botorch_pref.ax.answer_kinds import preferred
from botorch_pref.ax.answer_table import parameter_columns
from botorch_pref.ax.best_designs import allowed_here, best_shown
from botorch_pref.ax.findings import LEVEL, OPTION_COLUMNS
from botorch_pref.ax.generation.adapter import PreferenceAdapter
from botorch_pref.ax.log import Log
from botorch_pref.ax.projection import Projection
from botorch_pref.ax.rater_report import chances
from botorch_pref.ax.space.differences import differ, in_smallest_differences
from botorch_pref.ax.space.lines import has_digits, readable
from botorch_pref.evaluation import progress
from botorch_pref.evaluation.explanation import (
    Designs,
    Dimension,
    inclusion_probabilities,
)
from botorch_pref.evaluation.scores import table_of
from botorch_pref.feedback import Comparisons
from botorch_pref.models import AveragedUtility
from botorch_pref.posteriors.gaussian import central_interval

NUM_VALUES = 11
"""The number of values of a numeric parameter that its effect has."""


def dimensions_of(space: SearchSpace) -> tuple[Dimension, ...]:
    """Lists the parameters of a search space that vary, for effects and figures."""
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
    """Makes the `Designs` by which a report's effects and differences are computed.

    They have the parameters that vary: others are no features of the model. Parameters
    of the adapter's context have no effect.

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


def judged_arms(projection: Projection, adapter: PreferenceAdapter) -> list[Arm]:
    """Lists arms for a report's table of options, as they are in the context.

    Those of the model's points come first, in their order; then others of questions
    with an answer, such as that nothing can be said of them.
    """
    arms = {arm.name: arm for arm in adapter.arms}
    arms_by_name = projection.experiment().arms_by_name
    for question in projection.log.questions:
        if question.standing is not None:
            arms |= {o.name: arms_by_name[o.name] for o in question.judged}
    return [adapter.arm_in_context(arm) for arm in arms.values()]


def option_table(
    log: Log,
    adapter: PreferenceAdapter,
    arms: Sequence[Arm],
    designs: Designs,
    unit: float,
) -> DataFrame:
    """Makes the table of options of a `Report`, in the order of the arms.

    Args:
        log: The log of the experiment.
        adapter: Ax's adapter with the model of all answers, in the context.
        arms: Those of `judged_arms`.
        designs: See `designs_of_experiment`.
        unit: The utility of which differences are shares.
    """
    titles = [log.titles[arm.name] for arm in arms]
    parameters = [arm.parameters for arm in arms]
    judged, posteriors = len(adapter.arms), [adapter.judged_posterior]
    if len(arms) > judged:
        unjudged = adapter.points_of(parameters[judged:])
        posteriors.append(adapter.utility.posterior(unjudged))
    parts = [central_interval(posterior, LEVEL) for posterior in posteriors]
    mean, lower, upper = map(torch.cat, zip(*parts, strict=True))
    moments = table_of({"mean": mean, "lower": lower, "upper": upper})
    best, places = _best_probabilities(log, adapter, mean[:judged])
    copies = ["" if i == j else titles[j] for i, j in enumerate(places)]
    columns = parameter_columns(log.space.parameters, OPTION_COLUMNS)
    table = DataFrame(parameters, index=titles).rename(columns=columns)
    table = table.join(moments.set_axis(titles))
    table["best"] = [*best, *[math.nan] * (len(arms) - judged)]
    table = table.join(_wins_and_losses(log, titles))
    if any(copies):
        table["copy_of"] = [*copies, *[""] * (len(arms) - judged)]
    table["part"] = _parts(log, adapter, arms, places).numpy()
    baseline = log.settings.baseline
    reference = baseline or dict(designs.best)
    differences = _differences(designs, parameters, reference, unit)
    if baseline is None:
        differences = differences.drop(columns="preferred")
    return table.join(differences.set_axis(titles))


def _best_probabilities(
    log: Log, adapter: PreferenceAdapter, mean: Tensor
) -> tuple[list[float], list[int]]:
    """Computes the probability that each judged option is the best of them.

    Of options that nobody can tell apart, one stands for all and has the probability of
    all; that of the others is NaN. Options that constraints forbid are never the best.

    Returns:
        Probabilities, and the place of the option that stands for each: its own place,
        or that of the option whose copy it is.
    """
    parameters = [arm.parameters for arm in adapter.arms]
    apart = in_smallest_differences(
        log.space, log.settings.smallest_difference, parameters
    )
    allowed = allowed_here(adapter, adapter.arms)
    places = _representatives(apart, mean.where(allowed, -torch.inf))
    best = torch.full_like(mean, math.nan)
    best[places] = 0.0
    probability = progress.best_probability(
        adapter.utility, adapter.datapoints[allowed]
    )
    best.index_add_(0, places[allowed], probability)
    return best.tolist(), places.tolist()


def _representatives(apart: Tensor, utilities: Tensor) -> Tensor:
    """Finds the place of the option that stands for each option and its near copies.

    From the largest utility downwards, an option stands for all that people cannot tell
    from it and that no option stands for yet. ``apart``, ``n x c``, has the ``c``
    coordinates that `in_smallest_differences` gives an option.
    """
    places = torch.full((len(apart),), -1)
    for i in utilities.argsort(descending=True, stable=True).tolist():
        if places[i] < 0:
            near = ~differ((apart - apart[i]).square().sum(-1))
            places[near & (places < 0)] = i
    return places


def _wins_and_losses(log: Log, rows: list[str]) -> DataFrame:
    """Counts wins, losses, ties and failures of each option in all answers that stand.

    An answer counts for each pair of options that it decides, as often as it was given.
    ``rows`` are the titles of the options.
    """
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


def _parts(
    log: Log, adapter: PreferenceAdapter, arms: Sequence[Arm], places: Sequence[int]
) -> Tensor:
    """Numbers the part of the comparison graph that each arm is in, ``len(arms)``.

    Answers join options, and a line its stop and its ends; between parts only the prior
    compares. Options that nobody can tell apart are one, at one of the ``places``.
    """
    equals = [*enumerate(places), *_copies(arms), *_stops_and_ends(log, arms)]
    pairs = torch.tensor([pair for pair in equals if len({*pair}) > 1]).view(-1, 2)
    joins = [*adapter.feedback, Comparisons(pairs.long())]
    return progress.connected_components(len(arms), joins)


def _stops_and_ends(log: Log, arms: Sequence[Arm]) -> list[tuple[int, int]]:
    """Returns pairs of a stop within a line and its first end, as places of arms.

    They join the graph of comparisons: an answer to a line names no pair of options.
    """
    place = {arm.name: i for i, arm in enumerate(arms)}
    return [
        (place[question.judged[-1].name], place[question.options[0].name])
        for question in log.questions
        if len(question.judged) > len(question.options)
    ]


def _copies(arms: Sequence[Arm]) -> list[tuple[int, int]]:
    """Returns pairs of `judged_arms` with the same design, as places of arms.

    People saw them in different contexts. In that of the report they are one design,
    so the graph of comparisons joins them.
    """
    first: dict[str, int] = {}
    return [(first.setdefault(arm.signature, i), i) for i, arm in enumerate(arms)]


def _differences(
    designs: Designs,
    options: Sequence[TParameterization],
    reference: TParameterization,
    unit: float,
) -> DataFrame:
    """Predicts differences of options to a reference, a row each, see `Report`.

    Differences of utility, with intervals, are shares of the ``unit``; beside them are
    the probabilities of `chances`.
    """
    means, lower, upper = designs.intervals(options, LEVEL, reference=reference)
    points, against = designs.points_of(options), designs.points_of([reference])
    shares = {"difference": means / unit, "least": lower / unit, "most": upper / unit}
    return table_of(shares | chances(designs.model, points, against))


def effect_table(
    log: Log, adapter: PreferenceAdapter, designs: Designs, unit: float
) -> DataFrame | None:
    """Predicts changes of utility from the best design shown, see `Report`.

    There is no table of a catalogue, and of an ensemble.

    Args:
        log: The log of the experiment.
        adapter: Ax's adapter with the model of all answers.
        designs: See `designs_of_experiment`.
        unit: The utility of which changes are shares.
    """
    if log.catalogue is not None or is_ensemble(adapter.botorch_model):
        return None
    utility, rows = adapter.utility, []
    matters = [math.nan] * len(designs.dimensions)
    if isinstance(utility, AveragedUtility):
        inputs = [designs.columns(dimension) for dimension in designs.dimensions]
        matters = inclusion_probabilities(utility, inputs)
    for dimension, chance in zip(designs.dimensions, matters, strict=True):
        values, effect = designs.effect(dimension, designs.best, NUM_VALUES, LEVEL)
        changes = (torch.stack(effect, dim=-1) / unit).tolist()
        parameter = log.space.parameters[dimension.name]
        if has_digits(parameter):
            best = designs.best[dimension.name]
            # The design that was shown keeps its digits.
            values = [x if x == best else readable(parameter, x) for x in values]
        forbidden = [math.isnan(mean) for mean, *_ in changes]
        # Beside a forbidden value; of choices by name any value is.
        limited = [any(forbidden[max(0, i - 1) : i + 2]) for i in range(len(values))]
        allowed = [i for i, is_forbidden in enumerate(forbidden) if not is_forbidden]
        # What moves with others only has no effect of its own.
        matter = chance if len(allowed) > 1 else math.nan
        rows += [
            (dimension.name, values[i], *changes[i], matter, limited[i])
            for i in allowed
        ]
    columns = ["parameter", "value", "change", "lower", "upper", "matters", "limited"]
    return DataFrame(rows, columns=columns)
