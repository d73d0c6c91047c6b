"""Figures of drivers and of a run of duels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from botorch_pref.evaluation.explanation import FeatureEffect
from botorch_pref.plotting.answers import plot_progress
from botorch_pref.plotting.drawing import BLUE, ORANGE, draw_band
from botorch_pref.simulation.duel_loop import LoggedDuel, RunSettings

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
        color=BLUE,
        ecolor="0.3",
        capsize=3,
    )
    axes.axvline(0, color="0.3", linewidth=1)
    axes.set_xlabel("utility, from 5 % to 95 % of the feature")


def _draw_curve(axes: Axes, effect: FeatureEffect) -> None:
    mean, half = effect.mean, BAND * effect.deviation
    draw_band(axes, effect.values.tolist(), mean, mean - half, mean + half)
    axes.axhline(0, color="0.7", linewidth=1, zorder=0)
    axes.set_xlabel(effect.name)
    axes.set_ylabel("change of utility")


def draw_run(settings: RunSettings, duels: Sequence[LoggedDuel], path: Path) -> None:
    """Draws a run to a PNG file.

    Left, the simple regret of the incumbent after each duel; right, the probability
    that the model gave to the challenger before the answer, coloured by the answer.

    Args:
        settings: The settings of the run.
        duels: Its duels, at least one.
        path: Where the PNG goes.
    """
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    figure.suptitle(
        f"{settings.problem}, {settings.model}, {settings.acquisition}, "
        f"judge's noise {settings.noise:g}, seed {settings.seed}"
    )
    plot_progress(duels, ax=left)
    _draw_probabilities(right, duels)
    for axes in (left, right):
        num_random = min(settings.random_duels, len(duels))
        axes.axvspan(0.5, num_random + 0.5, color="0.93", zorder=0)
        axes.set_xlim(0.5, len(duels) + 0.5)
        axes.set_xlabel("duel (random ones shaded)")
    figure.savefig(path, dpi=150, format="png")


def _draw_probabilities(axes: Axes, duels: Sequence[LoggedDuel]) -> None:
    for won, colour, label in (
        (True, BLUE, "challenger won"),
        (False, ORANGE, "challenger lost"),
    ):
        rows = [logged.duel for logged in duels if logged.duel.challenger_won is won]
        axes.plot(
            [duel.number + 1 for duel in rows],
            [duel.probability for duel in rows],
            "o" if won else "x",
            color=colour,
            label=label,
        )
    axes.axhline(0.5, color="0.7", linewidth=1, zorder=1)
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("predicted P(challenger wins)")
    axes.legend(loc="best")
