"""Shared parts of figures: axes, colours, bands, matrices, answered pairs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager, get_font
from torch import Tensor

from botorch_pref.evaluation.scores import by_kind, ordered_pairs
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    Rankings,
    Validity,
)

if TYPE_CHECKING:
    from pandas import DataFrame

BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
"""Colours of the palette of Okabe and Ito, which colour-blind eyes tell apart."""

STYLES = [
    (BLUE, "-", "o"),
    (ORANGE, "--", "s"),
    (GREEN, ":", "^"),
    (PURPLE, "-.", "D"),
    ("0.2", (0, (5, 1, 1, 1, 1, 1)), "v"),
]
"""Colours, dashes and marks: curves can be told apart without colours."""

MOST_ANNOTATED = 12
"""Rows of a matrix whose cells have room for a number."""


def own_axes(ax: Axes | None, width: float = 5.0, height: float = 3.6) -> Axes:
    """Returns the axes, or those of a new figure that pyplot does not know."""
    if ax is not None:
        return ax
    return Figure(figsize=(width, height), layout="constrained").subplots()


def readable_fonts(texts: Iterable[str]) -> tuple[list[str], str]:
    """Chooses families of fonts for texts, and lists the characters that no font has.

    The families are matplotlib's own choice, and installed ones with characters that it
    lacks, such as those of Chinese.
    """
    families = [*rcParams["font.family"]]
    chosen = fontManager.findfont(FontProperties(family=families))
    # The end of a line is drawn by none.
    missing = {ord(character) for text in texts for character in text} - {ord("\n")}
    missing -= get_font(chosen).get_charmap().keys()
    for font in fontManager.ttflist:
        if not missing:
            break
        # The font of last resort has a box for every character.
        if font.style == "normal" and not font.name.startswith("Last Resort"):
            covered = missing & get_font(font.fname).get_charmap().keys()
            missing -= covered
            families += [font.name] * bool(covered)
    return families, "".join(map(chr, sorted(missing)))


LONGEST_NAME, LONGEST_TITLE = 48, 28
"""Characters of a name beside an axis, and below one or in a small figure."""


def short_name(name: Hashable, longest: int = LONGEST_NAME) -> str:
    """Shortens a name to what figures show, cut off where it is long."""
    text = str(name)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def room_for(labels: Iterable[str]) -> float:
    """Computes the inches that labels need besides those for short ones."""
    return 0.1 * max(max(map(len, labels)) - 8, 0)


def text_style(texts: Iterable[str]) -> dict[str, Any]:
    """Returns keywords of texts with names that people gave.

    Fonts that have their letters, and no formulas: dollars in names are dollars.
    """
    families, _ = readable_fonts(texts)
    return {"fontfamily": families, "parse_math": False}


def name_ticks(axis: Axis, labels: Sequence[str], **style: Any) -> None:
    """Puts a tick with a name at 0, 1 and so on."""
    axis.set_ticks(range(len(labels)), labels, **text_style(labels), **style)


def add_legend(axes: Axes, **options: Any) -> None:
    """Adds a legend of names that people gave."""
    for text in axes.legend(frameon=False, **options).get_texts():
        text.update(text_style([text.get_text()]))


def draw_intervals(
    axes: Axes,
    x: Sequence[float],
    mean: Tensor,
    lower: Tensor,
    upper: Tensor,
    style: tuple[str, Any, str] = STYLES[0],
    label: str | None = None,
    apart: bool = False,
) -> None:
    """Draws a curve of means in a band of intervals, or ``apart`` marks with bars."""
    colour, dashes, mark = style
    keywords: dict[str, Any] = {"color": colour, "label": label}
    if apart:
        sides = torch.stack([mean - lower, upper - mean]).tolist()
        keywords |= {"fmt": mark, "capsize": 3, "markersize": 5}
        axes.errorbar(x, mean.tolist(), yerr=sides, **keywords)
        return
    ends = lower.tolist(), upper.tolist()
    axes.fill_between(x, *ends, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, mean.tolist(), linestyle=dashes, **keywords)


def draw_rows(axes: Axes, table: DataFrame, column: str) -> None:
    """Draws a mark for each row of a table, with its bar from lower to upper."""
    value, lower, upper = (table[c].to_numpy() for c in (column, "lower", "upper"))
    sides, places = [value - lower, upper - value], range(len(table))
    axes.errorbar(value, places, xerr=sides, fmt="o", color=BLUE, ecolor="0.5", ms=4)


def draw_matrix(
    axes: Axes,
    values: Tensor,
    names: Sequence[Hashable],
    span: tuple[float, float],
    interval: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Draws a square matrix, darker where larger, with its numbers where they fit.

    The ``span`` has the numbers of the lightest and the darkest colour. Below each
    number stands its interval, if there is one. The diagonal is left empty.
    """
    off_diagonal = values.detach().cpu().double().clone().fill_diagonal_(torch.nan)
    low, high = span
    image = axes.imshow(off_diagonal.numpy(), cmap="Blues", vmin=low, vmax=high)
    labels, places = [*map(short_name, names)], range(len(names))
    longest = max(map(len, labels))
    name_ticks(axes.xaxis, labels, rotation=90 if longest > 2 else 0)
    name_ticks(axes.yaxis, labels)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    if len(names) > MOST_ANNOTATED:
        # Names stand to the left and above; other axes may stand to the right.
        figure = cast("Figure", axes.figure)
        figure.colorbar(image, ax=axes, location="bottom", fraction=0.04, pad=0.02)
        return
    style: dict[str, Any] = {
        "ha": "center",
        "va": "center",
        "fontsize": 8 if interval is None else 6,
    }
    for i, j in permutations(places, 2):
        value = float(off_diagonal[i, j])
        text, dark = _short(value), value > low + 0.6 * (high - low)
        if interval is not None:
            low_end, high_end = (_short(float(end[i, j])) for end in interval)
            text += f"\n{low_end} to\n{high_end}"
        axes.text(j, i, text, color="white" if dark else "black", **style)


def _short(value: float) -> str:
    return f"{value:.2f}".replace("0.", ".", 1)


class AnsweredPairs(NamedTuple):
    """Pairs of points in answers, ``m x 2`` and ``t x 2``, and how often each.

    Of a choice or a ranking each better item with each worse one is a pair.
    """

    won: Tensor
    won_counts: Tensor
    tied: Tensor
    tied_counts: Tensor


def answered_pairs(feedback: Sequence[Feedback]) -> AnsweredPairs:
    """Lists the pairs of all comparisons, choices and rankings, winners first.

    Ties stand apart; beside pairs and ties stands how often each was answered.
    """
    no_pairs, no_counts = torch.empty(0, 2).long(), torch.empty(0).long()
    won, won_counts, tied, tied_counts = ([part] for part in (no_pairs, no_counts) * 2)
    for _, block in by_kind(feedback):
        counts = block.answer_counts
        if isinstance(block, Choices | Rankings):
            stages = block.stages()
            losers = (stages[:, 1:] >= 0).sum(-1)
            # Counts are in the order of the pairs: all losers of a stage, then those of
            # the next one.
            won.append(ordered_pairs(stages))
            won_counts.append(
                counts[block.answers_of_stages()].repeat_interleave(losers)
            )
        elif isinstance(block, Comparisons) and block.pairs is not None:
            won.append(block.pairs)
            won_counts.append(counts)
        elif isinstance(block, Comparisons) and block.ties is not None:
            tied.append(block.ties)
            tied_counts.append(counts)
    fields = won, won_counts, tied, tied_counts
    return AnsweredPairs(
        *(torch.cat([part.cpu() for part in parts]) for parts in fields)
    )


def failed_rows(feedback: Sequence[Feedback]) -> Tensor:
    """Lists indices of the points of trials that failed."""
    trials = [block for block in feedback if isinstance(block, Validity)]
    failures = [block.indices[~block.valid].cpu() for block in trials]
    return torch.cat([torch.empty(0).long(), *failures])


def feedback_of(model: Any) -> list[Feedback]:
    """Returns the answers of a model of this package, or of BoTorch's `PairwiseGP`.

    Any other model has none.
    """
    if hasattr(model, "feedback"):
        return [*model.feedback]
    comparisons = getattr(model, "comparisons", None)
    return [] if comparisons is None else [Comparisons(comparisons)]
