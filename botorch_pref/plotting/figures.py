"""Figures of drivers, of an evidence profile and of a run of duels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from botorch_pref.evaluation.explanation import DROP, EvidenceProfile, FeatureEffect
from botorch_pref.simulation.run_log import LoggedDuel, RunSettings

if TYPE_CHECKING:
    from pandas import DataFrame

BAND = 1.959963984540054
"""Half width of a central 95 % interval in standard deviations."""

COLUMNS = 3
BLUE, ORANGE = "#0072b2", "#d55e00"


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
    values, mean = effect.values.tolist(), effect.mean.tolist()
    lower = (effect.mean - BAND * effect.deviation).tolist()
    upper = (effect.mean + BAND * effect.deviation).tolist()
    axes.fill_between(values, lower, upper, color=BLUE, alpha=0.2)
    axes.plot(values, mean, color=BLUE)
    axes.axhline(0, color="0.7", linewidth=1, zorder=0)
    axes.set_xlabel(effect.name)
    axes.set_ylabel("change of utility")


def draw_evidence_profile(profile: EvidenceProfile, path: Path) -> None:
    """Draws an evidence profile to a PNG file.

    The log evidence below its maximum, the level 1.92 nats below, and the interval of
    values above that level, shaded. The axis of positive values is logarithmic.

    Args:
        profile: What is drawn.
        path: Where the PNG goes.
    """
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(*profile.interval, color=BLUE, alpha=0.15)
    below = (profile.log_evidence - profile.log_evidence.max()).tolist()
    axes.plot(profile.values.tolist(), below, ".-", color=BLUE)
    axes.axhline(-DROP, color="0.5", linewidth=1)
    if float(profile.values[0]) > 0:
        axes.set_xscale("log")
    axes.set_xlabel(profile.parameter)
    axes.set_ylabel("log evidence below best")
    figure.savefig(path, dpi=150, format="png")


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
    _draw_regret(left, duels)
    _draw_probabilities(right, duels)
    for axes in (left, right):
        num_random = min(settings.random_duels, len(duels))
        axes.axvspan(0.5, num_random + 0.5, color="0.93", zorder=0)
        axes.set_xlim(0.5, len(duels) + 0.5)
        axes.set_xlabel("duel (random ones shaded)")
    figure.savefig(path, dpi=150, format="png")


def _draw_regret(axes: Axes, duels: Sequence[LoggedDuel]) -> None:
    numbers = [logged.duel.number + 1 for logged in duels]
    regrets = [logged.regret for logged in duels]
    axes.step(numbers, regrets, where="post", color=BLUE)
    axes.plot(numbers, regrets, ".", color=BLUE)
    # A regret can be 0, or just below where the known optimum is rounded.
    if min(regrets) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("simple regret of the incumbent")


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


MOST_ITEMS = 60
"""Items of a leaderboard that one figure can show."""


def draw_leaderboard(table: DataFrame, title: str, path: Path) -> None:
    """Draws a leaderboard to a PNG file: utilities with intervals, ranks beside names.

    Args:
        table: See :func:`.leaderboard`; the first `MOST_ITEMS` items are drawn.
        title: Title of the figure.
        path: Where the PNG goes.
    """
    shown = table.head(MOST_ITEMS)
    figure = Figure(figsize=(7, 1.2 + 0.22 * len(shown)), layout="constrained")
    axes = figure.subplots()
    mean = shown["utility"].to_numpy()
    sides = [mean - shown["lower"].to_numpy(), shown["upper"].to_numpy() - mean]
    places = range(len(shown))
    axes.errorbar(mean, places, xerr=sides, fmt="o", color=BLUE, ecolor="0.5", ms=4)
    ranks = zip(shown.index, shown["rank_lower"], shown["rank_upper"], strict=True)
    labels = [
        f"{name}  {low:.0f}" + ("" if low == high else f" to {high:.0f}")
        for name, low, high in ranks
    ]
    axes.set_yticks(places, labels, fontsize=8)
    axes.invert_yaxis()
    axes.margins(y=0.5 / len(shown))
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.set_xlabel("utility with 95 % interval; ranks beside the names")
    more = "" if len(table) == len(shown) else f" (the first {len(shown)})"
    axes.set_title(title + more, fontsize=10)
    figure.savefig(path, dpi=150, format="png")
