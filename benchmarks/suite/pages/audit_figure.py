"""Figure of the accuracy audit: errors of each engine over the number of answers."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import pandas as pd

SHOWN = {
    "mean": "mean, prior deviations",
    "queried": "answered pairs, largest",
    "evidence": "log evidence, nats",
}
COLOURS = {
    "Laplace": "#d55e00",
    "EP": "#0072b2",
    "SkewGP": "#000000",
    "variational": "#009e73",
}
"""Of the palette of Okabe and Ito, which colour-blind eyes tell apart."""

STYLES = ("-", "--", ":")


def draw_errors(rows: pd.DataFrame, path: Path) -> None:
    """Draws the mean of errors, a line for each engine and noise.

    Args:
        rows: Of `benchmarks/accuracy_audit.py`, as it writes them.
        path: Of the figure.
    """
    matplotlib.use("agg")
    from matplotlib import pyplot

    rows = rows.assign(**rows[list(SHOWN)].abs())
    laws = rows.groupby("answers", sort=False)
    figure, grid = pyplot.subplots(
        len(laws),
        len(SHOWN),
        figsize=(9, 6.5),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    styles = dict(zip(sorted(rows["noise"].unique()), STYLES, strict=False))
    lines = {}
    for line, (law, of_law) in zip(grid, laws, strict=True):
        for axes, (what, label) in zip(line, SHOWN.items(), strict=True):
            for (model, noise), errors in of_law.groupby(["model", "noise"]):
                over_m = errors.groupby("m")[what].mean()
                style, colour = styles[noise], COLOURS[model]
                (lines[f"{model}, {noise:g}"],) = axes.plot(
                    over_m.index, over_m, style, color=colour, marker="."
                )
            axes.set(xscale="log", yscale="log", title=f"{law}: {label}")
    figure.legend(
        lines.values(),
        lines,
        loc="outside lower center",
        ncols=4,
        title="engine, noise",
        handlelength=3,
    )
    for axes in grid[-1]:
        axes.set_xlabel("answers")
    figure.supylabel("error")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
