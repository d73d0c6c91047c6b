"""Figures of committed results: regret over duels."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

from benchmarks.suite.tables import RULE, SETTING


def draw_regrets(runs: pd.DataFrame, folder: Path) -> list[Path]:
    """Draws median and quartiles of the regret of the recommendation over duels.

    Args:
        runs: Rows of one study, by `play.COLUMNS`.
        folder: Where a figure for each setting goes; made if needed.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for (problem, judge, noise), of_setting in runs.groupby(SETTING, sort=False):
        path = folder / f"{of_setting['study'].iloc[0]}-{problem}-{judge}-{noise:g}.png"
        _draw(of_setting, f"{problem}, judge: {judge} {noise:g}", path)
        paths.append(path)
    return paths


def _draw(of_setting: pd.DataFrame, title: str, path: Path) -> None:
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.0, 4.5), layout="constrained")
    styles = ["-", "--", ":", "-."]
    for number, (rule, of_rule) in enumerate(of_setting.groupby(RULE, sort=False)):
        by_duel = of_rule.groupby("duel")["regret_recommended"]
        shown = by_duel.quantile([0.25, 0.5, 0.75]).unstack().clip(lower=1e-6)
        duels = np.asarray(shown.index) + 1
        style = styles[number // 10 % len(styles)]
        (line,) = axes.plot(duels, shown[0.5], style, label=", ".join(rule))
        axes.fill_between(
            duels, shown[0.25], shown[0.75], alpha=0.08, color=line.get_color()
        )
    axes.set(yscale="log", xlabel="duels", ylabel="simple regret", title=title)
    axes.legend(fontsize="x-small", ncols=2)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
