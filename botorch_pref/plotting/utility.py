"""Figures of a utility: in one or two parameters, around a design, its drivers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from botorch.models.model import Model
from botorch.utils.transforms import is_ensemble
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from botorch_pref.acquisition.duels import incumbent, observed_points
from botorch_pref.errors import BotorchPrefError
from botorch_pref.evaluation.explanation import (
    Designs,
    Dimension,
    FeatureEffect,
    dimension_of,
)
from botorch_pref.feedback import Feedback
from botorch_pref.models.answer_likelihoods import check_unbatched
from botorch_pref.models.kernels import check_categorical
from botorch_pref.plotting import drawing

if TYPE_CHECKING:
    from botorch_pref.ax import PreferenceExperiment

LEVEL = 0.95
"""Probability of the intervals."""

_HALF = 1.959963984540054
"""Half width of such an interval of a Gaussian, in deviations."""

_FAILED: dict[str, Any] = {"color": "white", "mec": "black", "markersize": 8}
"""Crosses that can be seen on any ground."""

NUM_VALUES, NUM_SIDE = 101, 41
"""Values along a curve, and along each side of a picture of two parameters."""


def places(dimension: Dimension, values: Sequence[Any]) -> list[float]:
    """Places values on an axis: numbers at themselves, choices from 0."""
    if dimension.choices:
        return [float(dimension.choices.index(value)) for value in values]
    return [float(value) for value in values]


def places_shown(designs: Designs, dimension: Dimension) -> list[float]:
    """Places the designs shown on the axis of a parameter."""
    return places(dimension, [design[dimension.name] for design in designs.shown])


def show_on(axis: Any, dimension: Dimension) -> None:
    """Gives an axis, x or y, the name, the scale and the ends of a parameter."""
    name = drawing.short_name(dimension.name, drawing.LONGEST_TITLE)
    axis.set_label_text(name, **drawing.text_style([name]))
    set_limits = getattr(axis.axes, f"set_{axis.axis_name}lim")
    if dimension.choices:
        longest = drawing.LONGEST_TITLE
        labels = [drawing.short_name(choice, longest) for choice in dimension.choices]
        drawing.name_ticks(axis, labels)
        set_limits(-0.5, len(labels) - 0.5)
        return
    if dimension.log:
        # As ``set_xscale`` and ``set_yscale`` do, whichever axis it is.
        axis._set_axes_scale("log")
    elif dimension.whole:
        axis.set_major_locator(MaxNLocator(integer=True))
    set_limits(*dimension.bounds)


def designs_of(
    model: Model | PreferenceExperiment,
    bounds: Tensor | None,
    names: Sequence[str] | None,
    categorical: Sequence[Sequence[int]] | None,
    design: Tensor | Mapping[str, Any] | None,
    drawn: Sequence[int | str] = (),
) -> tuple[Designs, dict[str, Any], list[Dimension]]:
    """Reads the arguments of figures of a utility, of a model or of an experiment.

    Args:
        model: See `plot_utility`, also for the next three.
        bounds: Of models alone, as are the next two.
        names: Of the columns.
        categorical: Columns of choices.
        design: Values to be held, called ``at`` there; the incumbent has the others.
        drawn: Names or numbers of the parameters to be drawn; none for the first one.

    Returns:
        The designs with their model, the values that are held, of all parameters, and
        the parameters to be drawn.
    """
    if isinstance(model, Model):
        check_unbatched(model)
        points = observed_points(model)
        columns = _columns_of(points, bounds, names, categorical)
        designs = _designs_of_model(model, points, columns)
        chosen = _chosen(designs.dimensions, drawn)
        if isinstance(design, Tensor):
            if design.numel() != points.shape[-1]:
                raise BotorchPrefError(
                    f"at has shape {tuple(design.shape)}; give one point of "
                    f"{points.shape[-1]} numbers."
                )
            design = columns.design(design.flatten())
        _check_known(design, designs.dimensions)
        return designs, {**designs.best, **(design or {})}, chosen
    if any(argument is not None for argument in (bounds, names, categorical)):
        raise BotorchPrefError(
            "An experiment has its names, bounds and choices; leave them out."
        )
    if isinstance(design, Tensor):
        raise BotorchPrefError("at is a tensor; give values of parameters by name.")
    # An experiment comes with Ax, which figures of models do without.
    from botorch_pref.ax.design_tables import designs_of_experiment, dimensions_of

    space = model.experiment.search_space
    dimensions = dimensions_of(space)
    # Before the fit, which takes seconds.
    chosen = _chosen(dimensions, drawn)
    _check_known(design, dimensions)
    designs = designs_of_experiment(space, model.fitted_adapter())
    return designs, {**designs.best, **(design or {})}, chosen


def _chosen(
    dimensions: Sequence[Dimension], drawn: Sequence[int | str]
) -> list[Dimension]:
    """Finds the one or two parameters to draw, the first one where none is named."""
    chosen = [
        dimension_of(dimensions, drawn_dimension) for drawn_dimension in drawn or (0,)
    ]
    if len(chosen) > 2 or len({dimension.name for dimension in chosen}) < len(chosen):
        raise BotorchPrefError(
            f"dimensions are {', '.join(map(repr, drawn))}; give one parameter or "
            "two different ones."
        )
    return chosen


def _check_known(
    design: Mapping[str, Any] | None, dimensions: Sequence[Dimension]
) -> None:
    """Checks the names of values that are to be held, and choices among these."""
    names, held = [dimension.name for dimension in dimensions], design or {}
    if unknown := [name for name in held if name not in names]:
        raise BotorchPrefError(
            f"at names {unknown}; the parameters are {', '.join(names)}."
        )
    for dimension in dimensions:
        choices, value = dimension.choices, held.get(dimension.name)
        if choices and dimension.name in held and value not in choices:
            raise BotorchPrefError(
                f"at has {value!r} for {dimension.name}; give one of "
                f"{', '.join(map(repr, choices))}."
            )


class _Columns(NamedTuple):
    """The parameters of a model's points, and the columns of each."""

    dimensions: list[Dimension]
    columns: list[list[int]]

    def design(self, point: Tensor) -> dict[str, Any]:
        """Names the values of a point, ``d``; choices by their largest column."""
        return {
            dimension.name: dimension.choices[int(point[columns].argmax())]
            if dimension.choices
            else float(point[columns])
            for dimension, columns in zip(*self, strict=True)
        }

    def points(self, designs: Sequence[Mapping[str, Any]], like: Tensor) -> Tensor:
        """Makes points of designs, ``n x d``."""
        points = like.new_zeros(len(designs), sum(map(len, self.columns)))
        for dimension, columns in zip(*self, strict=True):
            for point, design in zip(points, designs, strict=True):
                value = design[dimension.name]
                if dimension.choices:
                    point[columns[dimension.choices.index(value)]] = 1.0
                else:
                    point[columns] = value
        return points


def _columns_of(
    points: Tensor,
    bounds: Tensor | None,
    names: Sequence[str] | None,
    categorical: Sequence[Sequence[int]] | None,
) -> _Columns:
    """Reads the arguments of `plot_utility` about the columns of points, ``n x d``."""
    dim = points.shape[-1]
    labels = [f"x{i}" for i in range(dim)] if names is None else [*names]
    if len(labels) != dim or len(set(labels)) < dim:
        raise BotorchPrefError(
            f"The points have {dim} columns, and names are {labels}; name each once."
        )
    choices = [] if categorical is None else categorical
    check_categorical(choices, dim)
    coded = [column for choice in choices for column in choice]
    if bounds is None:
        bounds = torch.stack(torch.aminmax(points, dim=0))
        bounds[:, coded] = bounds.new_tensor([[0.0], [1.0]])
    if bounds.shape != (2, dim) or not bool((bounds[0] < bounds[1]).all()):
        raise BotorchPrefError(
            f"bounds is {bounds.tolist()}; give 2 x {dim}, the lower and then the "
            "larger upper end of each column."
        )
    low, high = bounds.tolist()
    numbers = [[column] for column in range(dim) if column not in coded]
    # Parameters are in the order of their first columns.
    columns = sorted(numbers + [[*choice] for choice in choices])
    dimensions = []
    for group in columns:
        values = tuple(labels[column] for column in group)
        (first, *remaining) = group
        dimensions.append(
            Dimension(", ".join(values), choices=values)
            if remaining
            else Dimension(labels[first], (low[first], high[first]))
        )
    return _Columns(dimensions, columns)


def _designs_of_model(model: Model, points: Tensor, columns: _Columns) -> Designs:
    """Makes the designs of a model of columns."""
    feedback = drawing.feedback_of(model)
    if is_ensemble(model):
        # All members have the same answers.
        feedback = [_first_of_batch(block) for block in feedback]
    return Designs(
        model,
        tuple(columns.dimensions),
        columns.design(incumbent(model).squeeze(0)),
        [columns.design(point) for point in points],
        feedback,
        lambda designs: columns.points(designs, like=points),
    )


def _first_of_batch(block: Feedback) -> Feedback:
    index = getattr(block, block.index_fields[0])
    return block.map_tensors(lambda t: t[0]) if index.dim() > 2 else block


def plot_utility(
    model: Model | PreferenceExperiment,
    *dimensions: int | str,
    bounds: Tensor | None = None,
    names: Sequence[str] | None = None,
    categorical: Sequence[Sequence[int]] | None = None,
    at: Tensor | Mapping[str, Any] | None = None,
    level: float = LEVEL,
    ax: Axes | None = None,
) -> Axes:
    """Draws the utility in one parameter or in two, the others held.

    - In one parameter: the posterior mean and the band of central intervals, which is
      skewed where the posterior is; of choices a mark with a bar each.
    - In two numbers: filled contours of the mean, and dashed lines where the interval
      has the half width that is written on them. In a number and choices: a curve with
      its band for each choice.

    Each duel is a line from the loser to the winner, which has the dot, ties are dotted
    lines; in one parameter they stand below the curve, the first one lowest. Crosses
    are designs that failed. Designs differ in the other parameters too: only their
    places in these parameters are drawn.
    The star is the incumbent: `incumbent` of a model, of an experiment what it
    recommends. Nothing is drawn where the search space has no design.

    Args:
        model: Any BoTorch model with training inputs and one output, without batches or
            an ensemble; or a `PreferenceExperiment`.
        dimensions: One or two parameters, by their names or by their numbers from 0; by
            default the first one.
        bounds: ``2 x d``, the ends of the axes; by default those of the points of the
            answers. An experiment has its own.
        names: ``d`` names, by default ``x0``, ``x1`` and so on. An experiment has its
            own.
        categorical: The columns of each unordered choice, coded as zeros and a one. The
            names of its columns, joined by commas, are the name of the choice.
        at: The values of the other parameters: by name, or of a model ``d`` numbers. By
            default those of the incumbent.
        level: Probability of the intervals, in (0, 1).
        ax: Where to draw; by default in a new figure, see ``Axes.figure``.

    Raises:
        BotorchPrefError: There are no such parameters, or names or bounds that do not
            fit the points.
    """
    designs, held, chosen = designs_of(
        model, bounds, names, categorical, at, dimensions
    )
    axes = drawing.own_axes(ax)
    if len(chosen) == 1:
        _plot_lines(axes, designs, held, chosen[0], None, level)
    elif any(dimension.choices for dimension in chosen):
        # Along the numbers, one curve for each choice.
        along, across = sorted(chosen, key=lambda dimension: bool(dimension.choices))
        _plot_lines(axes, designs, held, along, across, level)
    else:
        _plot_contours(axes, designs, held, chosen[0], chosen[1], level)
    return axes


def _plot_lines(
    axes: Axes,
    designs: Designs,
    held: Mapping[str, Any],
    along: Dimension,
    across: Dimension | None,
    level: float,
) -> None:
    """Draws one curve along a parameter, or one for each choice of another."""
    categories = [None] if across is None else across.choices
    values = along.values(NUM_VALUES)
    show_on(axes.xaxis, along)
    for number, category in enumerate(categories):
        moved = {} if across is None else {across.name: category}
        design = {**held, **moved}
        intervals = designs.intervals(
            [{**design, along.name: v} for v in values], level
        )
        style = drawing.STYLES[number % len(drawing.STYLES)]
        label = None
        if across is not None:
            name = f"{across.name} {category}"
            label = drawing.short_name(name, drawing.LONGEST_TITLE)
        shift = 0.6 * ((number + 0.5) / len(categories) - 0.5) if along.choices else 0.0
        x = [place + shift for place in places(along, values)]
        drawing.draw_intervals(axes, x, *intervals, style, label, bool(along.choices))
    axes.set_ylabel(f"utility, {100 * level:g} % interval")
    utility, _, _ = designs.intervals([designs.best], level)
    place = places(along, [designs.best[along.name]])
    axes.plot(place, utility.tolist(), "*", color="black", markersize=10, zorder=4)
    _draw_duels_below(axes, designs, along)
    if across is not None:
        # Above, where neither curves nor duels are.
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1)}
        drawing.add_legend(axes, ncols=2, fontsize="small", **above)


def _draw_duels_below(axes: Axes, designs: Designs, along: Dimension) -> None:
    """Draws a line for each duel in the lower quarter of the axes, the first lowest.

    Above them stand the designs that failed.
    """
    pairs = drawing.answered_pairs(designs.feedback)
    failed = drawing.failed_rows(designs.feedback)
    number = len(pairs.won) + len(pairs.tied)
    if number + len(failed) == 0:
        return
    low, high = axes.get_ylim()
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    axes.set_ylim(low - 0.35 * (high - low), high)
    # Heights below this line are no utilities.
    axes.axhline(low, color="0.7", linewidth=0.8)
    axes.set_yticks(ticks)
    place = torch.tensor(places_shown(designs, along), dtype=torch.float64)
    heights = torch.linspace(0.02, 0.22, max(number, 2), dtype=torch.float64)
    rows = heights[:number].split([len(pairs.won), len(pairs.tied)])
    won, tied = (
        torch.stack([place[ends], height.unsqueeze(-1).expand_as(ends)], dim=-1)
        for ends, height in zip((pairs.won, pairs.tied), rows, strict=True)
    )
    style: dict[str, Any] = {"transform": axes.get_xaxis_transform()}
    width = min(1.2, 30 / max(number, 1))
    lines = {"colors": "0.45", "linewidths": width, **style}
    _draw_duels(
        axes, won, tied, lines, {"s": (3 * width) ** 2, "color": "0.2", **style}
    )
    # On the line between utilities and duels.
    axes.plot(place[failed], [0.26] * len(failed), "X", **_FAILED, **style)


def _draw_duels(
    axes: Axes, won: Tensor, tied: Tensor, lines: dict[str, Any], dots: dict[str, Any]
) -> None:
    """Draws a line from the loser of each duel to the winner, which has the dot.

    Ends are ``m x 2 x 2``, those of the winner first; lines of ties are dotted.
    """
    for ends, dashes in ((won, "-"), (tied, ":")):
        segments = [*ends.flip(1).numpy()]
        drawn = LineCollection(segments, linestyles=dashes, **lines)
        axes.add_collection(drawn, autolim=False)
    if len(won):
        axes.scatter(*won[:, 0].mT.numpy(), zorder=3, **dots)


def _plot_contours(
    axes: Axes,
    designs: Designs,
    held: Mapping[str, Any],
    first: Dimension,
    second: Dimension,
    level: float,
) -> None:
    """Draws the mean over two parameters, with lines of its intervals."""
    across, up = first.values(NUM_SIDE), second.values(NUM_SIDE)
    # Row by row from below, as the means are put into a matrix again.
    moved = [{**held, first.name: a, second.name: b} for b in up for a in across]
    parts = designs.intervals(moved, level)
    mean, lower, upper = (part.reshape(len(up), -1).numpy() for part in parts)
    show_on(axes.xaxis, first)
    show_on(axes.yaxis, second)
    x, y = places(first, across), places(second, up)
    filled = axes.contourf(x, y, mean, levels=12, cmap="cividis")
    bar = cast("Figure", axes.figure).colorbar(filled, ax=axes)
    bar.set_label("utility, posterior mean")
    half = 0.5 * (upper - lower)
    widths = axes.contour(x, y, half, levels=4, colors="white", linestyles="--")
    widths.set_linewidth(0.9)
    axes.clabel(widths, fmt="±%.2g", fontsize=7)
    pairs = drawing.answered_pairs(designs.feedback)
    plotted_places = [places_shown(designs, dimension) for dimension in (first, second)]
    ends = torch.tensor(plotted_places, dtype=torch.float64).mT
    lines = {"colors": "white", "linewidths": 0.8, "alpha": 0.6}
    dots = {"s": 14, "color": "white", "edgecolors": "black"}
    _draw_duels(axes, ends[pairs.won], ends[pairs.tied], lines, dots)
    axes.plot(*ends[drawing.failed_rows(designs.feedback)].mT, "X", **_FAILED)
    place = [places(d, [designs.best[d.name]]) for d in (first, second)]
    axes.plot(*place, "*", color="white", mec="black", markersize=13, zorder=4)


def plot_effects(
    model: Model | PreferenceExperiment,
    *,
    bounds: Tensor | None = None,
    names: Sequence[str] | None = None,
    categorical: Sequence[Sequence[int]] | None = None,
    at: Tensor | Mapping[str, Any] | None = None,
    level: float = LEVEL,
    ax: Sequence[Axes] | None = None,
) -> list[Axes]:
    r"""Draws what each parameter does around a design, the others held.

    Each panel has the change of utility :math:`f(x) - f(x_0)` from the design
    :math:`x_0` as one parameter moves, in a band that holds the whole curve with the
    probability ``level`` (see :func:`.simultaneous_band`), in one scale for all panels:
    a parameter that matters little looks like it. The change is 0 at the design
    itself, and free of the level of utilities, which comparisons never show. A vertical
    line marks the design's own value; choices have a mark with a bar each.

    Args:
        model: Of this package, without batches or an ensemble; or an experiment.
        bounds: See `plot_utility`.
        names: See `plot_utility`.
        categorical: See `plot_utility`.
        at: The design, see `plot_utility`; by default the incumbent.
        level: Probability of each band, in (0, 1).
        ax: An axes for each parameter, which are returned; by default new ones.

    Raises:
        BotorchPrefError: Another number of axes than parameters, or what `plot_utility`
            says.
    """
    designs, held, _ = designs_of(model, bounds, names, categorical, at)
    count = len(designs.dimensions)
    if ax is None:
        # Rows of equal lengths, as far as that goes.
        columns = math.ceil(count / math.ceil(count / _COLUMNS))
        ax = _own_panels(count, 2.4 + 0.6 / columns, 2.6, columns)
    panels = [*ax]
    if len(panels) != count:
        raise BotorchPrefError(
            f"There are {count} parameters, and {len(panels)} axes; give one for each."
        )
    for axes, dimension in zip(panels, designs.dimensions, strict=True):
        values, changes = designs.effect(dimension, held, NUM_VALUES, level)
        show_on(axes.xaxis, dimension)
        x, apart = places(dimension, values), bool(dimension.choices)
        drawing.draw_intervals(axes, x, *changes, apart=apart)
        axes.axhline(0, color="0.7", linewidth=1, zorder=0)
        (place,) = places(dimension, [held[dimension.name]])
        axes.axvline(place, color="0.4", linewidth=1, linestyle=":", zorder=0)
    lows, highs = zip(*(axes.get_ylim() for axes in panels), strict=True)
    for axes in panels:
        axes.set_ylim(min(lows), max(highs))
    panels[0].set_ylabel("change of utility")
    return panels


def draw_drivers(effects: Sequence[FeatureEffect], title: str, path: Path) -> None:
    """Draws the effects of all features to a PNG file.

    First the effects of moving each feature through its range, largest first, with
    95 % credible intervals; then each feature's curve with its 95 % band.

    Args:
        effects: One effect a feature.
        title: Title of the figure.
        path: Where the PNG goes.
    """
    bars, *curves = _own_panels(len(effects) + 1, 4.0, 3.2, _COLUMNS)
    figure = cast("Figure", bars.figure)
    figure.suptitle(title, **drawing.text_style([title]))
    ordered = sorted(effects, key=lambda effect: abs(float(effect.mean[-1])))
    names = [drawing.short_name(effect.name) for effect in ordered]
    # The last value of a feature is its 95 % quantile, and the first its 5 % quantile.
    # Bars go upwards, so that the largest effect is at the top.
    ends = [float(effect.mean[-1]) for effect in ordered]
    sides = [_HALF * float(effect.deviation[-1]) for effect in ordered]
    rows = range(len(names))
    bars.barh(rows, ends, xerr=sides, color=drawing.BLUE, ecolor="0.3", capsize=3)
    drawing.name_ticks(bars.yaxis, names)
    bars.axvline(0, color="0.3", linewidth=1)
    bars.set_xlabel("utility, from 5 % to 95 % of the feature")
    for axes, effect in zip(curves, effects, strict=True):
        # One scale for all, so that a feature that matters little looks like it. An
        # axis that is shared after drawing has the limits of the first curve alone.
        if axes is not curves[0]:
            axes.sharey(curves[0])
        mean, half = effect.mean, _HALF * effect.deviation
        x = effect.values.tolist()
        drawing.draw_intervals(axes, x, mean, mean - half, mean + half)
        axes.axhline(0, color="0.7", linewidth=1, zorder=0)
        name = drawing.short_name(effect.name, drawing.LONGEST_TITLE)
        axes.set_xlabel(name, **drawing.text_style([name]))
        axes.set_ylabel("change of utility")
    figure.savefig(path, dpi=150, format="png")


_COLUMNS = 3


def _own_panels(count: int, width: float, height: float, columns: int) -> list[Axes]:
    """Makes panels of a new figure, row by row."""
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    panels = [*figure.subplots(rows, columns, squeeze=False).ravel()]
    for axes in panels[count:]:
        axes.remove()
    return panels[:count]
