"""Figures of a utility: in one or two parameters, and around a design."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
from botorch.models.model import Model
from botorch.utils.transforms import is_ensemble
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor

from botorch_pref.acquisition.base import incumbent, observed_points
from botorch_pref.errors import BotorchPrefError
from botorch_pref.feedback import Feedback
from botorch_pref.models.answers import check_unbatched
from botorch_pref.plotting import drawing
from botorch_pref.posteriors.difference import central_interval

if TYPE_CHECKING:
    from botorch_pref.ax import PreferenceExperiment

LEVEL = 0.95
"""Probability of the intervals."""

NUM_VALUES, NUM_SIDE = 101, 41
"""Values along a curve, and along each side of a picture of two parameters."""

_CHUNK = 64
"""Points whose joint posterior is asked for at once: only each by itself is drawn."""


@dataclass(frozen=True)
class Dimension:
    """A parameter: a range of numbers, or some choices.

    Attributes:
        name: Of the parameter.
        bounds: The ends of the range.
        choices: The values, where it is no range.
        log: Whether its scale is logarithmic.
        whole: Whether only whole numbers count.
    """

    name: str
    bounds: tuple[float, float] = (0.0, 1.0)
    choices: tuple[Any, ...] = ()
    log: bool = False
    whole: bool = False

    def values(self, number: int) -> list[Any]:
        """The choices, or some numbers from the lower to the upper end."""
        if self.choices:
            return [*self.choices]
        low, high = (math.log(b) if self.log else b for b in self.bounds)
        numbers = torch.linspace(low, high, number, dtype=torch.float64)
        numbers = numbers.exp() if self.log else numbers
        # The ends as they were given, which a logarithm could round to outside.
        found = numbers.clamp(*self.bounds).tolist()
        return sorted({round(value) for value in found}) if self.whole else found

    def places(self, values: Sequence[Any]) -> list[float]:
        """Where values are on an axis: numbers at themselves, choices from 0."""
        if self.choices:
            return [float(self.choices.index(value)) for value in values]
        return [float(value) for value in values]

    def show_on(self, axis: Any) -> None:
        """Gives an axis the name, the scale and the ends of the parameter."""
        axis.set_label_text(self.name)
        set_limits = getattr(axis.axes, f"set_{axis.axis_name}lim")
        if self.choices:
            axis.set_ticks(range(len(self.choices)), [str(c) for c in self.choices])
            set_limits(-0.5, len(self.choices) - 0.5)
            return
        if self.log:
            axis._set_axes_scale("log")
        set_limits(*self.bounds)


@dataclass(frozen=True, eq=False)
class Designs:
    """Designs by the names of their parameters, and the model that values them.

    Attributes:
        model: A model of the utility.
        dimensions: Parameters that vary.
        at: The design that others differ from.
        best: The incumbent.
        shown: The design of each datapoint of the answers.
        points_of: Designs as the model takes them, ``n x d``.
        is_allowed: Whether the search space has a design.
        feedback: Answers about the designs shown.
    """

    model: Any
    dimensions: tuple[Dimension, ...]
    at: Mapping[str, Any]
    best: Mapping[str, Any]
    shown: Sequence[Mapping[str, Any]]
    points_of: Callable[[Sequence[Mapping[str, Any]]], Tensor]
    is_allowed: Callable[[Mapping[str, Any]], bool] = lambda _: True
    feedback: Sequence[Feedback] = field(default_factory=list)

    def dimension(self, given: int | str) -> Dimension:
        """The parameter of this name, or of this number from 0."""
        names = [dimension.name for dimension in self.dimensions]
        if isinstance(given, int) and -len(names) <= given < len(names):
            return self.dimensions[given]
        if given not in names:
            raise BotorchPrefError(
                f"There is no parameter {given!r}; there are {', '.join(names)}, and "
                f"numbers from 0 to {len(names) - 1}."
            )
        return self.dimensions[names.index(given)]

    def intervals(
        self,
        designs: Sequence[Mapping[str, Any]],
        level: float,
        reference: Mapping[str, Any] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Means of utilities, or of differences to a reference, and their intervals.

        They are NaN where the search space does not have a design.
        """
        allowed = torch.tensor([self.is_allowed(design) for design in designs])
        found = torch.full((3, len(designs)), torch.nan, dtype=torch.float64)
        rows = allowed.nonzero().squeeze(-1)
        against = None if reference is None else self.points_of([reference])
        with torch.no_grad():
            for part in rows.split(_CHUNK):
                X = self.points_of([designs[row] for row in part.tolist()])
                if against is None:
                    posterior = self.model.posterior(X)
                else:
                    # A design differs from itself by nothing, and has no quantiles.
                    found[:, part] = 0.0
                    others = (against != X).any(-1)
                    X, part = X[others], part[others]
                    if len(part) == 0:
                        continue
                    posterior = self.model.duel_posterior(X, against)
                intervals = torch.stack(central_interval(posterior, level))
                found[:, part] = intervals.cpu().double()
        return found[0], found[1], found[2]

    def shown_at(self, dimension: Dimension) -> list[float]:
        """Places of the designs shown on the axis of a parameter."""
        return dimension.places([design[dimension.name] for design in self.shown])


def designs_of(
    model: Model | PreferenceExperiment,
    bounds: Tensor | None,
    names: Sequence[str] | None,
    at: Tensor | Mapping[str, Any] | None,
) -> Designs:
    """The designs of a model, or of an experiment, which has names and bounds."""
    if isinstance(model, Model):
        return _designs_of_model(model, bounds, names, at)
    if bounds is not None or names is not None:
        raise BotorchPrefError(
            "An experiment has names and bounds of its parameters; leave both out."
        )
    if isinstance(at, Tensor):
        raise BotorchPrefError("at is a tensor; give values of parameters by name.")
    return _designs_of_experiment(model, at)


def _designs_of_model(
    model: Model,
    bounds: Tensor | None,
    names: Sequence[str] | None,
    at: Tensor | Mapping[str, Any] | None,
) -> Designs:
    check_unbatched(model)
    points = observed_points(model)
    dim = points.shape[-1]
    labels = [f"x{i}" for i in range(dim)] if names is None else [*names]
    if len(labels) != dim or len(set(labels)) < dim:
        raise BotorchPrefError(
            f"The points have {dim} columns, and names are {labels}; name each once."
        )
    if bounds is None:
        bounds = torch.stack(torch.aminmax(points, dim=0))
    if bounds.shape != (2, dim) or not bool((bounds[0] < bounds[1]).all()):
        raise BotorchPrefError(
            f"bounds is {bounds.tolist()}; give 2 x {dim}, the lower and then the "
            "larger upper end of each column."
        )

    def design(point: Tensor) -> dict[str, Any]:
        return dict(zip(labels, point.tolist(), strict=True))

    best = design(incumbent(model).squeeze(0))
    if isinstance(at, Tensor):
        if at.numel() != dim:
            raise BotorchPrefError(
                f"at has shape {tuple(at.shape)}; give one point of {dim} numbers."
            )
        at = design(at.flatten())
    feedback = drawing.feedback_of(model)
    if is_ensemble(model):
        # All members have the same answers.
        feedback = [_first_of_batch(block) for block in feedback]
    return Designs(
        model,
        tuple(
            Dimension(name, (float(low), float(high)))
            for name, low, high in zip(labels, *bounds, strict=True)
        ),
        _held(best, at),
        best,
        [design(point) for point in points],
        lambda designs: points.new_tensor([[d[n] for n in labels] for d in designs]),
        feedback=feedback,
    )


def _first_of_batch(block: Feedback) -> Feedback:
    index = getattr(block, block.index_fields[0])
    return block.map_tensors(lambda t: t[0]) if index.dim() > 2 else block


def _held(best: Mapping[str, Any], at: Mapping[str, Any] | None) -> dict[str, Any]:
    """The incumbent, with the values that are given by name instead of its own."""
    given = {} if at is None else dict(at)
    if unknown := [name for name in given if name not in best]:
        raise BotorchPrefError(
            f"at names {unknown}; the parameters are {', '.join(best)}."
        )
    return {**best, **given}


def _designs_of_experiment(
    experiment: PreferenceExperiment, at: Mapping[str, Any] | None
) -> Designs:
    """Designs of an experiment, whose incumbent is what it recommends of those shown.

    Fixed and derived parameters follow from the others and are left to Ax.
    """
    # An experiment comes with Ax, which figures of models do without.
    from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter

    adapter = experiment.fitted_adapter()
    space = experiment.experiment.search_space
    dimensions = []
    for name, parameter in space.parameters.items():
        if isinstance(parameter, ChoiceParameter):
            choices = tuple(cast("Sequence[Any]", parameter.values))
            dimensions.append(Dimension(name, choices=choices))
        elif isinstance(parameter, RangeParameter):
            ends = float(parameter.lower), float(parameter.upper)
            whole = parameter.parameter_type is ParameterType.INT
            dimensions.append(
                Dimension(name, ends, log=parameter.log_scale, whole=whole)
            )
    free = [dimension.name for dimension in dimensions]
    shown = [{n: arm.parameters[n] for n in free} for arm in adapter.arms]
    points = adapter.points_of(shown)
    with torch.no_grad():
        posterior: Any = adapter.botorch_model.posterior(points)
        mean, _, _ = central_interval(posterior, LEVEL)
    best = shown[int(mean.argmax())]
    return Designs(
        adapter.botorch_model,
        tuple(dimensions),
        _held(best, at),
        best,
        shown,
        lambda designs: adapter.points_of([dict(design) for design in designs]),
        lambda design: space.check_membership(
            dict(design), check_all_parameters_present=False
        ),
        adapter.feedback,
    )


def plot_utility(
    model: Model | PreferenceExperiment,
    *dimensions: int | str,
    bounds: Tensor | None = None,
    names: Sequence[str] | None = None,
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
    lines; in one parameter they stand below the curve, the first one lowest. Designs
    differ in the other parameters too: only their places in these parameters are drawn.
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
        at: The values of the other parameters: by name, or of a model ``d`` numbers. By
            default those of the incumbent.
        level: Probability of the intervals, in (0, 1).
        ax: Where to draw; by default in a new figure, see ``Axes.figure``.

    Returns:
        The axes.

    Raises:
        BotorchPrefError: There are no such parameters, or names or bounds that do not
            fit the points.
    """
    designs = designs_of(model, bounds, names, at)
    chosen = [designs.dimension(given) for given in dimensions or (0,)]
    if len(chosen) > 2 or len({dimension.name for dimension in chosen}) < len(chosen):
        raise BotorchPrefError(
            f"dimensions are {', '.join(map(repr, dimensions))}; give one parameter or "
            "two different ones."
        )
    axes = drawing.own_axes(ax)
    if len(chosen) == 1:
        _plot_lines(axes, designs, chosen[0], None, level)
    elif any(dimension.choices for dimension in chosen):
        # Along the numbers, one curve for each choice.
        along, across = sorted(chosen, key=lambda dimension: bool(dimension.choices))
        _plot_lines(axes, designs, along, across, level)
    else:
        _plot_contours(axes, designs, chosen[0], chosen[1], level)
    return axes


def _plot_lines(
    axes: Axes,
    designs: Designs,
    along: Dimension,
    across: Dimension | None,
    level: float,
) -> None:
    """One curve along a parameter, or one for each choice of another."""
    others = [None] if across is None else across.choices
    values = along.values(NUM_VALUES)
    along.show_on(axes.xaxis)
    for number, other in enumerate(others):
        moved = {} if across is None else {across.name: other}
        at = {**designs.at, **moved}
        intervals = designs.intervals([{**at, along.name: v} for v in values], level)
        style = drawing.STYLES[number % len(drawing.STYLES)]
        label = None if across is None else f"{across.name} {other}"
        x = along.places(values)
        if along.choices:
            shift = 0.6 * ((number + 0.5) / len(others) - 0.5)
            drawing.draw_bars(axes, [p + shift for p in x], *intervals, style, label)
        else:
            drawing.draw_band(axes, x, *intervals, style, label)
    axes.set_ylabel(f"utility, {100 * level:g} % interval")
    utility, _, _ = designs.intervals([designs.best], level)
    place = along.places([designs.best[along.name]])
    axes.plot(place, utility.tolist(), "*", color="black", markersize=10, zorder=4)
    _draw_duels_below(axes, designs, along)
    if across is not None:
        # Above, where neither curves nor duels are.
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=2,
            fontsize="small",
            frameon=False,
        )


def _draw_duels_below(axes: Axes, designs: Designs, along: Dimension) -> None:
    """A line for each duel in the lower quarter of the axes, the first one lowest."""
    pairs = drawing.answered_pairs(designs.feedback)
    number = len(pairs.won) + len(pairs.tied)
    if number == 0:
        return
    low, high = axes.get_ylim()
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    axes.set_ylim(low - 0.35 * (high - low), high)
    # Heights below this line are no utilities.
    axes.axhline(low, color="0.7", linewidth=0.8)
    axes.set_yticks(ticks)
    place = torch.tensor(designs.shown_at(along), dtype=torch.float64)
    heights = torch.linspace(0.02, 0.22, max(number, 2), dtype=torch.float64)
    rows = heights[:number].split([len(pairs.won), len(pairs.tied)])
    to_axes = axes.get_xaxis_transform()
    width = min(1.2, 30 / number)
    for ends, height, dashes in (
        (place[pairs.won], rows[0], "-"),
        (place[pairs.tied], rows[1], ":"),
    ):
        segments = torch.stack([ends, height.unsqueeze(-1).expand_as(ends)], dim=-1)
        axes.add_collection(
            LineCollection(
                [*segments.flip(1).numpy()],
                colors="0.45",
                linewidths=width,
                linestyles=dashes,
                transform=to_axes,
            ),
            autolim=False,
        )
    winners = place[pairs.won[:, 0]]
    axes.scatter(
        winners.numpy(),
        rows[0].numpy(),
        s=(3 * width) ** 2,
        color="0.2",
        transform=to_axes,
        zorder=3,
    )


def _plot_contours(
    axes: Axes, designs: Designs, first: Dimension, second: Dimension, level: float
) -> None:
    across, up = first.values(NUM_SIDE), second.values(NUM_SIDE)
    moved = [{**designs.at, first.name: a, second.name: b} for b in up for a in across]
    mean, lower, upper = (
        part.reshape(len(up), len(across)).numpy()
        for part in designs.intervals(moved, level)
    )
    first.show_on(axes.xaxis)
    second.show_on(axes.yaxis)
    x, y = first.places(across), second.places(up)
    filled = axes.contourf(x, y, mean, levels=12, cmap="cividis")
    bar = cast("Figure", axes.figure).colorbar(filled, ax=axes)
    bar.set_label("utility, posterior mean")
    widths = axes.contour(
        x, y, 0.5 * (upper - lower), levels=4, colors="white", linestyles="--"
    )
    widths.set_linewidth(0.9)
    axes.clabel(widths, fmt="±%.2g", fontsize=7)
    _draw_duels_between(axes, designs, first, second)
    place = [first.places([designs.best[first.name]])]
    place.append(second.places([designs.best[second.name]]))
    axes.plot(
        *place, "*", color="white", markeredgecolor="black", markersize=13, zorder=4
    )


def _draw_duels_between(
    axes: Axes, designs: Designs, first: Dimension, second: Dimension
) -> None:
    """A line from the loser of each duel to the winner, which has the dot."""
    pairs = drawing.answered_pairs(designs.feedback)
    places = torch.tensor([designs.shown_at(d) for d in (first, second)]).double().mT
    for ends, dashes in ((pairs.won, "-"), (pairs.tied, ":")):
        axes.add_collection(
            LineCollection(
                [*places[ends.flip(-1)].numpy()],
                colors="white",
                linewidths=0.8,
                linestyles=dashes,
                alpha=0.6,
            ),
            autolim=False,
        )
    if len(pairs.won):
        x, y = places[pairs.won[:, 0]].unbind(-1)
        axes.scatter(
            x.numpy(), y.numpy(), s=14, color="white", edgecolors="black", zorder=3
        )


def plot_effects(
    model: Model | PreferenceExperiment,
    *,
    bounds: Tensor | None = None,
    names: Sequence[str] | None = None,
    at: Tensor | Mapping[str, Any] | None = None,
    level: float = LEVEL,
    ax: Sequence[Axes] | None = None,
) -> list[Axes]:
    r"""Draws what each parameter does around a design, the others held.

    Each panel has the change of utility :math:`f(x) - f(x_0)` from the design
    :math:`x_0` as one parameter moves, with central intervals, in one scale for all
    panels: a parameter that matters little looks like it. The change is 0 at the design
    itself, and free of the level of utilities, which comparisons never show. A vertical
    line marks the design's own value; choices have a mark with a bar each.

    Args:
        model: A model of this package, without batches or an ensemble; or a
            `PreferenceExperiment`.
        bounds: See `plot_utility`.
        names: See `plot_utility`.
        at: The design: values by name, the others being those of the incumbent; or of a
            model ``d`` numbers. By default the incumbent.
        level: Probability of the intervals, in (0, 1).
        ax: Where to draw, an axes for each parameter; by default in a new figure.

    Returns:
        The axes of each parameter, in order.

    Raises:
        BotorchPrefError: Another number of axes than parameters, or what `plot_utility`
            says.
    """
    designs = designs_of(model, bounds, names, at)
    count = len(designs.dimensions)
    panels = _own_panels(count) if ax is None else [*ax]
    if len(panels) != count:
        raise BotorchPrefError(
            f"There are {count} parameters, and {len(panels)} axes; give one for each."
        )
    for axes, dimension in zip(panels, designs.dimensions, strict=True):
        values = dimension.values(NUM_VALUES)
        moved = [{**designs.at, dimension.name: value} for value in values]
        intervals = designs.intervals(moved, level, reference=designs.at)
        dimension.show_on(axes.xaxis)
        x = dimension.places(values)
        (drawing.draw_bars if dimension.choices else drawing.draw_band)(
            axes, x, *intervals
        )
        axes.axhline(0, color="0.7", linewidth=1, zorder=0)
        (held,) = dimension.places([designs.at[dimension.name]])
        axes.axvline(held, color="0.4", linewidth=1, linestyle=":", zorder=0)
    lows, highs = zip(*(axes.get_ylim() for axes in panels), strict=True)
    for axes in panels:
        axes.set_ylim(min(lows), max(highs))
    panels[0].set_ylabel("change of utility")
    return panels


_COLUMNS = 3


def _own_panels(count: int) -> list[Axes]:
    columns = min(count, _COLUMNS)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(2.4 * columns + 0.6, 2.6 * rows), layout="constrained")
    panels = [*figure.subplots(rows, columns, squeeze=False).ravel()]
    for axes in panels[count:]:
        axes.remove()
    return panels[:count]
