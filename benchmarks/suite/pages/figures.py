"""Figures of committed results: regret over duels, and those of the logbook."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

from benchmarks.suite.cell import Rule
from benchmarks.suite.pages.audit_figure import draw_errors
from benchmarks.suite.pages.tables import RULE, SETTING, setting_name, setting_title
from benchmarks.suite.runs.store import read_record
from benchmarks.suite.studies.study import Study

FLOOR = 1e-6
"""Least regret that is drawn, for regrets may be 0 and the axis is logarithmic."""

COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Of the palette of Okabe and Ito, which colour-blind eyes tell apart."""

FEWEST = 4
"""Starts of a rule in a setting from which on pages show its regrets over duels."""

FEW = 8
"""Rules up to which quartiles are drawn: the bands of more hide each other."""

MANY = 14
"""Rules up to which the legend has one column."""

STYLES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))


def draw_figures(studies: Iterable[Study], records: Path, folder: Path) -> None:
    """Draws the figures to which the pages of the logbook link.

    Args:
        studies: Whose records are drawn.
        records: Folder of the committed records.
        folder: Where they go; made if needed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    audit = pd.read_csv(records / "accuracy_audit.csv")
    draw_errors(audit, folder / "accuracy-audit.png")
    for study in studies:
        if not study.runs_of:
            runs = read_record(study.name, records)
            starts = runs.groupby([*SETTING, *RULE])["seed"].transform("nunique")
            draw_regrets(study, runs[starts >= FEWEST], folder)


def draw_regrets(study: Study, runs: pd.DataFrame, folder: Path) -> list[Path]:
    """Draws medians of the regret of the recommendation, and quartiles of few rules.

    Args:
        study: Says which rules are drawn.
        runs: Rows by `play.COLUMNS`.
        folder: Where a figure for each setting goes; made if needed.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for (problem, judge, noise), of_setting in runs.groupby(SETTING, sort=False):
        curves = {
            Rule(*names): _quartiles(of_rule)
            for names, of_rule in of_setting.groupby(RULE, sort=False)
            if Rule(*names) in study.rules
        }
        if curves:
            title = setting_title(problem, judge, noise)
            name = setting_name(study.name, problem, judge, noise)
            path = folder / f"{name}.png"
            _draw(curves, study.num_random, title, path)
            paths.append(path)
    return paths


def _quartiles(of_rule: pd.DataFrame) -> pd.DataFrame:
    """Quartiles of the regret after each duel, from 1, and the number of starts."""
    by_duel = of_rule.groupby("duel")["regret_recommended"]
    shown = by_duel.quantile([0.25, 0.5, 0.75]).unstack()
    return shown.clip(lower=FLOOR).assign(starts=by_duel.size()).rename(lambda n: n + 1)


def _draw(
    curves: dict[Rule, pd.DataFrame], num_random: int, title: str, path: Path
) -> None:
    matplotlib.use("agg")
    from matplotlib import pyplot

    # As wide as a phone can show, with the legend below.
    columns = 1 if len(curves) <= MANY else 2
    height = 3.6 + 0.19 * math.ceil(len(curves) / columns)
    figure, axes = pyplot.subplots(figsize=(5.6, height), layout="constrained")
    lines = {}
    for number, (rule, curve) in enumerate(curves.items()):
        colour, name = COLOURS[number % len(COLOURS)], rule.title
        style = STYLES[number // len(COLOURS) % len(STYLES)]
        (line,) = axes.plot(curve.index, curve[0.5], linestyle=style, color=colour)
        if len(curves) <= FEW:
            axes.fill_between(
                curve.index, curve[0.25], curve[0.75], alpha=0.1, color=colour
            )
        lines[f"{name} ({curve['starts'].iloc[-1]})"] = line
    axes.axvline(num_random + 0.5, color="grey", linewidth=0.8, linestyle=":")
    floored = any((curve <= FLOOR).any(axis=None) for curve in curves.values())
    label = f"simple regret, at least {FLOOR:g}" if floored else "simple regret"
    axes.set(yscale="log", xlabel="duels", ylabel=label, title=title)
    # The penalty of invalid first trials would flatten all that follows.
    highest = max(curve.loc[num_random:, 0.5].max() for curve in curves.values())
    axes.set_ylim(top=min(axes.get_ylim()[1], 100 * highest))
    ordered = sorted(
        lines, key=lambda name: -float(np.asarray(lines[name].get_ydata())[-1])
    )
    figure.legend(
        [lines[name] for name in ordered],
        ordered,
        loc="outside lower center",
        ncols=columns,
        title="rule (starts), the largest regret first",
        fontsize="small",
    )
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
