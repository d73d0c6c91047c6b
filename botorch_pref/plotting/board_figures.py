"""Figures of boards of items: one, or those of categories side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from textwrap import wrap
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from botorch_pref.errors import BotorchPrefError
from botorch_pref.plotting import drawing

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_ITEMS = 60
"""Items that one figure can show."""

MOST_BOARDS, PANELS_IN_A_ROW = 12, 4
"""Boards that one figure can show, and how many stand beside each other."""

_OF_INDEX = ("board", "item")
"""Names of the index of a leaderboard that `rank` writes."""


def plot_leaderboard(
    table: DataFrame, title: str = "", *, ax: Axes | None = None
) -> Axes:
    """Draws a leaderboard: utilities with intervals, ranks beside the names.

    Args:
        table: See :func:`.leaderboard`; the first 60 items are drawn.
        title: Of the figure.
        ax: Where to draw; by default in a new figure, as high as there are items.

    Raises:
        BotorchPrefError: The names of items stand in a column, not in the index.
    """
    columns = map(str, table.columns)
    if names := [n for n in columns if n in _OF_INDEX or n.startswith("Unnamed: ")]:
        raise BotorchPrefError(
            f"The table has the column {names[0]!r}, which belongs to the index: read "
            f"a file with pandas.read_csv(path, index_col={names!r}), and draw one "
            "board of several, as table.loc[name]."
        )
    head = table.head(MOST_ITEMS)
    axes = drawing.own_axes(ax, 7, 1.2 + 0.22 * len(head))
    _draw_items(axes, head)
    ranked = zip(head.index, _ranks(head), strict=True)
    labels = [f"{drawing.short_name(name)}  {ranks}" for name, ranks in ranked]
    drawing.name_ticks(axes.yaxis, labels, fontsize=8)
    axes.set_xlabel("utility; ranks beside the names")
    remark = "" if len(table) == len(head) else f" (the first {len(head)})"
    axes.set_title(title + remark, fontsize=10, **drawing.text_style([title]))
    return axes


def plot_boards(boards: Mapping[str, DataFrame], title: str = "") -> Figure:
    """Draws boards of the same items side by side, each in the order of the first.

    The ranks of an item stand to the right of it in each panel.

    Args:
        boards: See :func:`.leaderboard`, by their names; of the first 12 the first 60
            items are drawn.
        title: Of the figure.
    """
    names = [*boards][:MOST_BOARDS]
    first = boards[names[0]]
    items = first.index[:MOST_ITEMS]
    columns = min(len(names), PANELS_IN_A_ROW)
    rows = math.ceil(len(names) / columns)
    size = (2.4 + 2.1 * columns, 0.8 + rows * (0.7 + 0.2 * len(items)))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, name in zip(panels.flat, names, strict=False):
        head = boards[name].loc[items]
        _draw_items(axes, head)
        for place, ranks in enumerate(_ranks(head)):
            anchor = {"xy": (1.02, place), "xycoords": axes.get_yaxis_transform()}
            axes.annotate(ranks, **anchor, va="center", fontsize=6)
        text = drawing.short_name(name, drawing.LONGEST_TITLE)
        axes.set_title(text, fontsize=9, **drawing.text_style([text]))
    labels = [drawing.short_name(name, drawing.LONGEST_TITLE) for name in items]
    drawing.name_ticks(panels[0, 0].yaxis, labels, fontsize=8)
    for axes in panels.flat[: len(names)]:
        axes.tick_params(labelsize=8)
    for axes in panels.flat[len(names) :]:
        axes.set_axis_off()
    # Those above a gap have no other panel below with their numbers.
    for axes in panels.flat[max(len(names) - columns, 0) : len(names)]:
        axes.tick_params(labelbottom=True)
    remarks = [
        f"the first {drawn}{noun}"
        for drawn, number, noun in (
            (len(items), len(first), ""),
            (len(names), len(boards), " boards"),
        )
        if drawn < number
    ]
    remark = f" ({', '.join(remarks)})" if remarks else ""
    figure.suptitle(title + remark, fontsize=10, **drawing.text_style([title]))
    figure.supxlabel("utility; ranks to the right", fontsize=9)
    return figure


def _draw_items(axes: Axes, table: DataFrame) -> None:
    """Draws utilities with intervals, the first item at the top."""
    drawing.draw_rows(axes, table, "utility")
    axes.set_ylim(len(table) - 0.5, -0.5)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)


def _ranks(table: DataFrame) -> list[str]:
    """Returns the intervals of ranks as texts."""
    ends = zip(table["rank_lower"], table["rank_upper"], strict=True)
    return [
        f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
        for low, high in ends
    ]


def add_caption(figure: Figure, text: str) -> None:
    """Adds a caption below all of a figure, in lines as long as it is wide.

    What stands there already, as the label of an axis, stays above it.
    """
    # An inch has about so many characters of this size.
    width = round(12 * figure.get_size_inches()[0])
    lines = [line for part in text.splitlines() for line in wrap(part, width)]
    style = drawing.text_style([text])
    below = figure.get_supxlabel()
    head = [below] if below else []
    figure.supxlabel("\n".join([*head, *lines]), fontsize=8, **style)
