"""Figures of items, answers, raters, progress, simulated runs and curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from botorch.models.model import Model
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from scipy.spatial.distance import squareform
from scipy.stats import binomtest
from torch import Tensor

from botorch_pref.acquisition.duels import observed_points
from botorch_pref.asking.next_questions import SPREAD
from botorch_pref.errors import BotorchPrefError
from botorch_pref.evaluation.leaderboard import win_probabilities
from botorch_pref.evaluation.progress import NUM_SAMPLES
from botorch_pref.evaluation.rater_tables import in_circles, rater_agreement
from botorch_pref.evaluation.scores import checked_names
from botorch_pref.models.answer_likelihoods import check_unbatched, checked_items
from botorch_pref.plotting import drawing
from botorch_pref.posteriors.gaussian import central_interval
from botorch_pref.simulation.problem import Problem
from botorch_pref.simulation.question_loop import RankedQuestion, RunSettings

if TYPE_CHECKING:
    from pandas import DataFrame

    from botorch_pref.ax import PreferenceExperiment

LEVEL = 0.95
"""Probability of the intervals."""


def plot_probabilities(
    model: Model,
    X: Tensor | None = None,
    names: Sequence[Hashable] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    r"""Draws who beats whom: the probability that each row beats each column.

    It is that of the answer that a person would give, half of a tie counted as won. The
    items are in the order of their posterior means, the largest first.

    Args:
        model: Any BoTorch model with one output and a link, without batches or an
            ensemble.
        X: ``n x d`` items; by default the model's points.
        names: Of the items; by default numbers from 0.
        ax: Where to draw; by default in a new figure.

    Returns:
        The axes. Its image has the matrix, ``n x n``, NaN on the diagonal.

    Raises:
        BotorchPrefError: Names that are not one of each item.
    """
    check_unbatched(model)
    items = checked_items(model, observed_points(model) if X is None else X)
    labels = [*map(drawing.short_name, checked_names(names, len(items), "items"))]
    with torch.no_grad():
        posterior: Any = model.posterior(items)
        mean, _, _ = central_interval(posterior, LEVEL)
        matrix = win_probabilities(model, posterior, len(items))
    order = mean.argsort(descending=True, stable=True)
    side = max(3.2, 0.42 * len(items)) + drawing.room_for(labels)
    axes = drawing.own_axes(ax, side, side)
    matrix = matrix[order][:, order]
    drawing.draw_matrix(axes, matrix, [labels[i] for i in order.tolist()], (0.0, 1.0))
    axes.set_xlabel("P(row beats column)")
    return axes


def plot_comparisons(
    model: Model, names: Sequence[Hashable] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draws which items were compared, the one with the largest mean at the top.

    An arc joins two items of an answer, wider where there are more of the same. Arcs to
    the right are of answers that prefer the upper item, as the model does by its mean;
    arcs to the left of those that prefer the lower one; dotted arcs to the right of
    ties. Of a choice or a ranking each better item with each worse one counts.

    Args:
        model: A model with answers, of this package or `PairwiseGP`, without batches or
            an ensemble.
        names: Of its points; by default numbers from 0.
        ax: Where to draw; by default in a new figure, as high as there are items.

    Raises:
        BotorchPrefError: Names that are not one of each item.
    """
    check_unbatched(model)
    items = observed_points(model)
    labels = [*map(drawing.short_name, checked_names(names, len(items), "items"))]
    with torch.no_grad():
        mean, _, _ = central_interval(model.posterior(items), LEVEL)
    order = mean.argsort(descending=True, stable=True)
    # Places count from the top, so that the smaller one has the larger mean.
    place = order.argsort()
    pairs = drawing.answered_pairs(drawing.feedback_of(model))
    won = _counted(place[pairs.won], pairs.won_counts)
    expected = {pair: n for pair, n in won.items() if pair[0] < pair[1]}
    against = {pair: n for pair, n in won.items() if pair[0] > pair[1]}
    tied = _counted(place[pairs.tied].sort(-1).values, pairs.tied_counts)
    largest_count = max([*won.values(), *tied.values()], default=1)
    width = 4.5 + drawing.room_for(labels)
    axes = drawing.own_axes(ax, width, 1.2 + 0.26 * len(items))
    for arcs, side, colour, dashes, label in (
        (expected, 1, drawing.BLUE, "-", "the upper item was preferred"),
        (against, -1, drawing.ORANGE, "-", "the lower item was preferred"),
        (tied, 0.8, drawing.GREEN, ":", "a tie"),
    ):
        if arcs:
            axes.add_collection(
                LineCollection(
                    [_arc(pair, side) for pair in arcs],
                    colors=colour,
                    linestyles=dashes,
                    linewidths=[
                        0.6 + 2 * (n / largest_count) ** 0.5 for n in arcs.values()
                    ],
                    label=label,
                )
            )
    places = range(len(items))
    axes.plot([0] * len(items), places, "o", color="0.2", markersize=5, zorder=3)
    drawing.name_ticks(axes.yaxis, [labels[i] for i in order.tolist()])
    axes.set_ylim(len(items) - 0.5, -0.5)
    axes.autoscale_view(scaley=False)
    axes.set_xticks([])
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
    axes.tick_params(length=0)
    if won or tied:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), frameon=False)
    return axes


def _counted(pairs: Tensor, counts: Tensor) -> Counter[tuple[int, int]]:
    """Sums the counts of each pair of places, for the width of its arc."""
    total: Counter[tuple[int, int]] = Counter()
    for (first, second), number in zip(pairs.tolist(), counts.tolist(), strict=True):
        total[first, second] += number
    return total


def _arc(pair: tuple[int, int], side: float) -> Any:
    """Computes points of half an ellipse that joins two places, ``41 x 2``.

    ``side`` is its width, as a share of that of half a circle: positive to the right,
    and negative to the left.
    """
    angle = torch.linspace(-torch.pi / 2, torch.pi / 2, 41)
    middle, half = sum(pair) / 2, abs(pair[0] - pair[1]) / 2
    x, y = side * half * angle.cos(), middle + half * angle.sin()
    return torch.stack([x, y], dim=-1).numpy()


def plot_curves(
    x: Sequence[float] | Sequence[str] | Tensor,
    curves: Mapping[str, Tensor | tuple[Tensor, Tensor, Tensor]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draws values beside each other, such as those of several models and the truth.

    Over numbers each is a curve, in a band if it has intervals. Over names each is a
    row of marks beside those of the others, with bars if it has intervals.

    Args:
        x: ``n`` numbers, increasing, or ``n`` names.
        curves: By name, five at most, which differ in colours, dashes and marks: ``n``
            values, or means with the lower and the upper ends of intervals, ``n`` each.
        ax: Where to draw; by default in a new figure.

    Raises:
        BotorchPrefError: There is none or a sixth curve, or one of another length.
    """
    values = x.tolist() if isinstance(x, Tensor) else [*x]
    if not 0 < len(curves) <= len(drawing.STYLES):
        raise BotorchPrefError(
            f"There are {len(curves)} curves; give one to {len(drawing.STYLES)}, which "
            "can be told apart."
        )
    axes = drawing.own_axes(ax)
    named = any(isinstance(value, str) for value in values)
    for number, (name, curve) in enumerate(curves.items()):
        shift = 0.6 * ((number + 0.5) / len(curves) - 0.5)
        places = [place + shift for place in range(len(values))] if named else values
        parts = _checked_curve(name, curve, len(values))
        _draw_curve(axes, places, parts, drawing.STYLES[number], name, named)
    if named:
        drawing.name_ticks(axes.xaxis, [*map(drawing.short_name, values)])
    elif all(isinstance(value, int) for value in values):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(curves) > 1:
        drawing.add_legend(axes)
    return axes


def _checked_curve(
    name: str, curve: Tensor | tuple[Tensor, Tensor, Tensor], length: int
) -> list[Tensor]:
    """Checks values, or means with both ends of intervals, each of this length."""
    parts = [*curve] if isinstance(curve, tuple) else [curve]
    shapes = [tuple(part.shape) for part in parts]
    if len(parts) not in (1, 3) or {*shapes} != {(length,)}:
        raise BotorchPrefError(
            f"The curve {name!r} has tensors of shapes {shapes}; give one, or three "
            f"with the ends of intervals, of {length} numbers as x has."
        )
    return [part.detach().cpu() for part in parts]


def _draw_curve(
    axes: Axes,
    places: Sequence[float],
    parts: list[Tensor],
    style: tuple[str, Any, str],
    name: str,
    apart: bool,
) -> None:
    """Draws a curve with its intervals, if it has some; ``apart`` as marks."""
    colour, dashes, mark = style
    if len(parts) == 3:
        mean, lower, upper = parts
        drawing.draw_intervals(axes, places, mean, lower, upper, style, name, apart)
        return
    look = {"linestyle": "", "marker": mark} if apart else {"linestyle": dashes}
    axes.plot(places, parts[0].tolist(), color=colour, label=name, **look)


def plot_calibration(
    probabilities: Tensor,
    *,
    num_bins: int = 5,
    level: float = LEVEL,
    ax: Axes | None = None,
) -> Axes:
    """Draws how often the likelier option won, by how likely the model thought that.

    A duel that was answered with a probability ``p`` says that the model's favourite,
    of probability ``max(p, 1 - p)``, won (``p > 1/2``) or lost; duels of probability
    one half say nothing and are left out. The duels are put into bins of equal width
    from a half to one. Marks above the diagonal are of a model that is too cautious,
    marks below of one that is too sure. Intervals are Wilson's, duels taken as
    independent.

    Args:
        probabilities: ``m``, which the model gave to the answers of duels before it saw
            them: ``predictive_log_probability(held_out, model, X).exp()``. There are no
            ties among them.
        num_bins: How many bins.
        level: Probability of the intervals, in (0, 1).
        ax: Where to draw; by default in a new figure.

    Raises:
        BotorchPrefError: There is no probability, or one outside [0, 1].
    """
    foreseen = probabilities.detach().cpu().double()
    inside = bool(((foreseen >= 0) & (foreseen <= 1)).all())
    if foreseen.dim() != 1 or not len(foreseen) or not inside:
        raise BotorchPrefError(
            f"probabilities has shape {tuple(foreseen.shape)}; give one number "
            "or more from 0 to 1, one of each held-out duel."
        )
    foreseen = foreseen[foreseen != 0.5]
    favourite, won = torch.maximum(foreseen, 1 - foreseen), foreseen > 0.5
    edges = torch.linspace(0.5, 1, num_bins + 1, dtype=foreseen.dtype)
    bins = torch.bucketize(favourite, edges[1:-1], right=True)
    axes = drawing.own_axes(ax, 3.6, 3.6)
    axes.plot([0.5, 1], [0.5, 1], color="0.6", linewidth=1, zorder=0)
    for number in bins.unique().tolist():
        rows = bins == number
        count, wins = int(rows.sum()), int(won[rows].sum())
        interval = binomtest(wins, count).proportion_ci(level, method="wilson")
        x, share = float(favourite[rows].mean()), wins / count
        # At 0 and 1 Wilson's end is the share, but for rounding.
        sides = [[max(share - interval.low, 0.0)], [max(interval.high - share, 0.0)]]
        axes.errorbar(x, share, sides, fmt="o", color=drawing.BLUE, capsize=3)
        axes.annotate(
            f"{count}", (x, share), (6, -3), textcoords="offset points", fontsize=8
        )
    axes.set_xlim(0.48, 1.04)
    axes.set_xlabel("probability of the likelier option")
    axes.set_ylabel(f"share that it won, {100 * level:g} % interval")
    return axes


def plot_agreement(
    model: Model,
    X: Tensor,
    raters: Tensor,
    names: Sequence[Hashable] | None = None,
    *,
    reliability: DataFrame | None = None,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    r"""Draws how far raters agree: correlations of their utilities over some items.

    Each cell has the posterior mean of the correlation of :func:`.rater_agreement`, 1
    for two raters who differ in level and scale only, and its 95 % interval where there
    is room. Raters who agree stand together, so that circles of them are dark squares.
    The mean for raters who said little is near 0.

    Args:
        model: Of stimuli and raters, see :func:`.rater_covar_module`; without batches
            or an ensemble.
        X: ``n x d`` items without columns of raters, three or more.
        raters: ``R`` numbers or ``R x r`` columns, two raters or more.
        names: Of the raters; by default numbers from 0.
        reliability: Table of the same raters by name, see :func:`.rater_reliability`:
            each one's noise is drawn beside the matrix, with its interval.
        num_samples: Number of joint draws of all utilities.
        seed: Of the draws.
        ax: Where to draw; by default in a new figure.

    Returns:
        The axes. Its image has the matrix, ``R x R``, NaN on the diagonal; the noises
        are in its first child axes, in the same rows.

    Raises:
        BotorchPrefError: There are too few items or raters, or another number of names,
            or ``reliability`` has others.
    """
    table = rater_agreement(model, X, raters, names, num_samples=num_samples, seed=seed)
    labels = checked_names(names, len(raters), "raters")
    # From a row for each pair to ``R x R``: means, then both ends of intervals.
    matrices = [torch.from_numpy(squareform(table[column])) for column in table]
    order = in_circles(table)
    mean, lower, upper = (matrix[order][:, order] for matrix in matrices)
    labels = [labels[i] for i in order]
    is_dense = len(labels) > drawing.MOST_ANNOTATED
    side = max(6.3, 0.2 * len(labels)) if is_dense else max(3.2, 0.52 * len(labels))
    side += drawing.room_for(map(drawing.short_name, labels))
    axes = drawing.own_axes(ax, side + (0.0 if reliability is None else 2.4), side)
    lowest = min(0.0, float(mean.min()))
    drawing.draw_matrix(axes, mean, labels, (lowest, 1.0), (lower, upper))
    axes.set_xlabel("correlation of utilities")
    if reliability is not None:
        _draw_noises(axes, reliability, labels)
    return axes


def _draw_noises(axes: Axes, table: DataFrame, labels: list[Hashable]) -> None:
    """Draws noises with their intervals to the right of a matrix, in its rows."""
    if set(table.index) != set(labels):
        raise BotorchPrefError(
            f"reliability is of {[*table.index]}, and the raters are {labels}; give "
            "the table of the same raters by the same names."
        )
    rows = table.loc[labels]
    width = 0.3 if len(labels) > drawing.MOST_ANNOTATED else 0.6
    beside = axes.inset_axes((1.06, 0.0, width, 1.0), sharey=axes)
    drawing.draw_rows(beside, rows, "noise")
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "size": 7}
    for place in rows["outlier"].to_numpy().nonzero()[0]:
        position = (rows["noise"].iloc[place], place)
        beside.plot(*position, "o", color=drawing.ORANGE, markersize=5, zorder=4)
        beside.annotate("outlier", position, (0, 6), color=drawing.ORANGE, **style)
    beside.set_xscale("log")
    beside.axvline(1, color="0.7", linewidth=1, zorder=0)
    beside.tick_params(labelleft=False, left=False)
    beside.set_title("noise", fontsize=10)


def plot_progress(
    run: PreferenceExperiment | Sequence[RankedQuestion],
    *,
    level: float = LEVEL,
    ax: Axes | None = None,
) -> Axes:
    """Draws what came of the questions, one after the other.

    Of an experiment, by the model of all answers: dots are the utilities of the options
    of each question less that of the best option shown; the line has this difference,
    with its interval, for the option with the largest mean up to each question. Of a
    simulated run: the simple regret of the incumbent after each question.

    Args:
        run: A `PreferenceExperiment` with answers, or the questions of a run.
        level: Probability of the interval, in (0, 1).
        ax: Where to draw; by default in a new figure.

    Raises:
        BotorchPrefError: The run has no questions.
        ExperimentError: The experiment has no answers.
    """
    axes = drawing.own_axes(ax)
    if not isinstance(run, Sequence):
        _draw_options(axes, run, level)
    elif run:
        _draw_regret(axes, [answered.regret for answered in run])
        axes.set_xlabel("question")
        axes.set_ylabel("simple regret of the incumbent")
    else:
        raise BotorchPrefError("The run has no questions; give one or more.")
    return axes


def _draw_options(axes: Axes, experiment: PreferenceExperiment, level: float) -> None:
    """Draws differences of options to the best one shown, by questions from 1.

    A line has that of the option with the largest mean up to each question.
    """
    # An experiment comes with Ax, which figures of models do without.
    from botorch_pref.ax.design_tables import designs_of_experiment

    adapter = experiment.fitted_adapter()
    designs = designs_of_experiment(experiment.log.space, adapter)
    answered = [q for q in experiment.log.questions if q.standing is not None]
    options = [dict(option.parameters) for q in answered for option in q.options]
    mean, lower, upper = designs.intervals(options, level, designs.best)
    sizes = torch.tensor([len(question.options) for question in answered])
    x = [question.index + 1.0 for question in answered]
    numbers = torch.tensor(x).repeat_interleave(sizes)
    axes.plot(numbers.tolist(), mean.tolist(), "o", color="0.6", markersize=4)
    # After each question, of all options up to it.
    best = [int(mean[:end].argmax()) for end in sizes.cumsum(0).tolist()]
    drawing.draw_intervals(axes, x, mean[best], lower[best], upper[best])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("question")
    axes.set_ylabel(f"utility beside the best option's,\n{100 * level:g} % interval")


def _draw_regret(axes: Axes, regrets: Sequence[float]) -> None:
    """Draws regrets by questions, in logs where all are positive."""
    numbers = range(1, len(regrets) + 1)
    axes.step(numbers, regrets, where="post", color=drawing.BLUE)
    axes.plot(numbers, regrets, ".", color=drawing.BLUE)
    # A regret can be 0, or just below where the known optimum is rounded.
    if min(regrets) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())


def draw_run(
    settings: RunSettings,
    problem: Problem,
    answered: Sequence[RankedQuestion],
    path: Path,
) -> None:
    """Draws a simulated run to a PNG file.

    The upper panel has the utilities of all options, of those ranked first, and of the
    best design so far by the model; a dashed line is the largest utility there is. The
    lower panel has the regret in percent of the way there from the worst option shown.

    Args:
        settings: The settings of the run.
        problem: What was optimised, which the model does not know.
        answered: The questions, one or more.
        path: Where the PNG goes.
    """
    # Narrow, so that it can be read on a phone.
    figure = Figure(figsize=(6, 6.2), layout="constrained")
    utility_axes, way_axes = figure.subplots(2, 1, height_ratios=(3, 2))
    judge = "never errs" if not settings.noise else f"has noise {settings.noise:g}"
    figure.suptitle(
        f"{problem.name}, {problem.dim} inputs: {len(answered)} questions,\n"
        f"{settings.options} options each, to a judge who {judge}",
        fontsize=12,
    )
    _draw_utilities(utility_axes, problem, answered)
    _draw_way(way_axes, problem, answered)
    spread = sum(answer.question.acquisition == SPREAD for answer in answered)
    for axes in (utility_axes, way_axes):
        axes.axvspan(0.5, spread + 0.5, color="0.94", zorder=0)
        axes.set_xlim(0.5, len(answered) + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    way_axes.set_xlabel("question (shaded: options spread over all designs)")
    figure.savefig(path, dpi=150, format="png")


def _draw_utilities(
    axes: Axes, problem: Problem, answered: Sequence[RankedQuestion]
) -> None:
    """Draws utilities of options by their questions, from 1, and of the best so far."""
    numbers = [answer.number + 1 for answer in answered]
    utilities = [problem.utility(answer.question.options) for answer in answered]
    first = [
        float(u[answer.order[0]]) for u, answer in zip(utilities, answered, strict=True)
    ]
    every = [(n, value) for n, u in zip(numbers, utilities, strict=True) for value in u]
    axes.axhline(problem.best, color="0.4", linestyle="--", linewidth=1)
    axes.annotate(
        "the best there is",
        (numbers[0], problem.best),
        (0, 4),
        textcoords="offset points",
        color="0.3",
        fontsize=9,
    )
    axes.plot(*zip(*every, strict=True), "o", color="0.7", markersize=4, label="option")
    axes.plot(
        numbers, first, "o", color=drawing.ORANGE, markersize=5, label="ranked first"
    )
    best = [problem.best - answer.regret for answer in answered]
    axes.step(
        numbers,
        best,
        where="post",
        color=drawing.BLUE,
        label="best so far, by the model",
        linewidth=2,
    )
    axes.set_ylabel("utility, which the model never sees")
    axes.legend(loc="lower right", frameon=False)


def _draw_way(axes: Axes, problem: Problem, answered: Sequence[RankedQuestion]) -> None:
    """Draws the regret by question, in percent of that of the worst option shown."""
    options = torch.cat([answer.question.options for answer in answered])
    span = problem.best - float(problem.utility(options).min())
    _draw_regret(axes, [100 * answer.regret / span for answer in answered])
    axes.set_ylabel("left of the way there, in %")
