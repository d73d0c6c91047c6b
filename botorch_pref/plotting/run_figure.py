"""Figure of a run of duels: regret, and the predicted probability of each answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from botorch_pref.simulation.run_log import LoggedDuel, RunSettings

WON, LOST = "#0072b2", "#d55e00"


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
    axes.step(numbers, regrets, where="post", color=WON)
    axes.plot(numbers, regrets, ".", color=WON)
    # A regret can be 0, or just below where the known optimum is rounded.
    if min(regrets) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("simple regret of the incumbent")


def _draw_probabilities(axes: Axes, duels: Sequence[LoggedDuel]) -> None:
    for won, colour, label in (
        (True, WON, "challenger won"),
        (False, LOST, "challenger lost"),
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
