"""Figure of the drivers of a preference: the effect of each feature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from botorch_pref.evaluation.explanation.drivers import FeatureEffect

BAND = 1.959963984540054
"""Half width of a central 95 % interval in standard deviations."""

COLUMNS = 3


def draw_drivers(effects: Sequence[FeatureEffect], title: str, path: Path) -> None:
    """Draws the effects of all features to a PNG file.

    First the effects of moving each feature through its range, largest first, with
    95 % credible intervals; then each feature's curve with its 95 % band.

    Args:
        effects: One effect a feature.
        title: Title of the figure.
        path: Where the PNG goes.
    """
    rows = math.ceil((len(effects) + 1) / COLUMNS)
    figure = Figure(figsize=(4 * COLUMNS, 3.2 * rows), layout="constrained")
    figure.suptitle(title)
    panels = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    _draw_bars(panels[0], effects)
    curves = panels[1 : len(effects) + 1]
    for axes, effect in zip(curves, effects, strict=True):
        # One scale for all, so that a feature that matters little looks like it. An
        # axis that is shared after drawing has the limits of the first curve alone.
        if axes is not curves[0]:
            axes.sharey(curves[0])
        _draw_curve(axes, effect)
    for axes in panels[len(effects) + 1 :]:
        axes.set_visible(False)
    figure.savefig(path, dpi=150, format="png")


def _draw_bars(axes: Axes, effects: Sequence[FeatureEffect]) -> None:
    ordered = sorted(effects, key=lambda effect: abs(float(effect.mean[-1])))
    axes.barh(
        [effect.name for effect in ordered],
        [float(effect.mean[-1]) for effect in ordered],
        xerr=[BAND * float(effect.deviation[-1]) for effect in ordered],
        color="#0072b2",
        ecolor="0.3",
        capsize=3,
    )
    axes.axvline(0, color="0.3", linewidth=1)
    axes.set_xlabel("utility, from 5 % to 95 % of the feature")


def _draw_curve(axes: Axes, effect: FeatureEffect) -> None:
    values, mean = effect.values.tolist(), effect.mean.tolist()
    lower = (effect.mean - BAND * effect.deviation).tolist()
    upper = (effect.mean + BAND * effect.deviation).tolist()
    axes.fill_between(values, lower, upper, color="#0072b2", alpha=0.2)
    axes.plot(values, mean, color="#0072b2")
    axes.axhline(0, color="0.7", linewidth=1, zorder=0)
    axes.set_xlabel(effect.name)
    axes.set_ylabel("change of utility")
