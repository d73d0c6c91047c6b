"""Boards of ranked items: printed, and written as a table, a figure and a page."""

from __future__ import annotations

import base64
import html
import shutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unicodedata import category, east_asian_width

import botorch_pref
from botorch_pref.datasets.layout_words import BOTH_BAD
from botorch_pref.evaluation.answer_effects import PositionBias
from botorch_pref.plotting import plot_boards, plot_leaderboard
from botorch_pref.plotting.board_figures import add_caption

if TYPE_CHECKING:
    from pandas import DataFrame, Series

PRINTED = 20
"""Items of a board that are printed; the files have all."""

BOARD_FILE, RATERS_FILE = "leaderboard.csv", "raters.csv"
"""Names of the tables that are written."""

_HEAD_OF_RATERS = b"rater,answers"
"""The head of the second one, by which it is told from a file of somebody else's."""

Boards = dict[str | None, "DataFrame"]
"""The :func:`.leaderboard` of everybody (None), then those of raters or categories."""


@dataclass(frozen=True)
class Ranking:
    """Boards that are printed and written, and notes on the answers.

    ``home`` is what being at home or shown first adds, if that was told; ``raters`` is
    a table of the raters, if these are named.
    """

    boards: Boards
    notes: list[str]
    home: PositionBias | None = None
    raters: DataFrame | None = None


def _terminal_width(text: str) -> int:
    """Counts columns of a terminal: two for a wide character, none for a mark."""
    joined = [
        character for character in text if category(character) not in ("Mn", "Me", "Cf")
    ]
    return len(joined) + sum(
        east_asian_width(character) in "WF" for character in joined
    )


def _cut(text: str, columns: int) -> str:
    """Cuts the middle out of a text that is wider than so many columns of a terminal.

    Two thirds of what stays are its start, and one third is its end.
    """
    if _terminal_width(text) <= columns:
        return text
    start, end = text, text
    while _terminal_width(start) > columns - 1 - columns // 3:
        start = start[:-1]
    while _terminal_width(end) > columns // 3:
        end = end[1:]
    return f"{start}…{end}"


_LEAST_WIDTH = 12
"""Columns of a terminal that names have at least."""


def print_boards(boards: Boards) -> None:
    """Prints the head of the first board, and how many others there are."""
    table = boards[None]
    heads = ["rank", "95 %", "", "utility", "to the first", "better", "answers"]
    # Ratings have no winners, but a rating of each item.
    last = "wins" if "win_rate" in table.columns else "rating"
    heads.insert(-1, last)
    texts = [heads, *(_printed(row) for _, row in table.head(PRINTED).iterrows())]
    # A cell of a spreadsheet may have several lines.
    names = [" ".join(str(name).split()) for name in table.index[:PRINTED]]
    widths = [max(len(row[i]) for row in texts) for i in range(len(heads))]
    columns = shutil.get_terminal_size(fallback=(120, 24)).columns
    room = max(columns - sum(widths) - 2 * (len(heads) - 1), _LEAST_WIDTH)
    names = ["item", *(_cut(name, room) for name in names)]
    width = max(map(_terminal_width, names))
    for name, row in zip(names, texts, strict=True):
        cells = [cell.rjust(size) for cell, size in zip(row, widths, strict=True)]
        # Names go to the left, and by their width, which is not their length.
        cells[2] = name + " " * (width - _terminal_width(name))
        print("  ".join(cells))
    if (unprinted := len(table) - PRINTED) > 0:
        print(f"... and {unprinted:,} more, in the files")
    if len(boards) > 1:
        print(f"The boards of {len(boards) - 1:,} categories are in the files.")


def print_raters(raters: DataFrame) -> None:
    """Prints a table of raters; of many the noisiest ones."""
    head, unprinted = head_of_raters(raters), len(raters) - PRINTED
    if unprinted > 0 and "noise" in raters.columns:
        raters = raters.sort_values("noise", ascending=False, kind="stable")
        head += "; the noisiest first"
    print(f"{head}:")
    print(raters.head(PRINTED).round(2).to_string())
    if unprinted > 0:
        print(f"... and {unprinted:,} more, in the files")


def _printed(row: Series[float]) -> list[str]:
    """Returns the cells of a row in a terminal; the third, for the name, is empty."""
    difference = f"{row['least']:+z.2f} to {row['most']:+z.2f}"
    return [
        f"{row['rank']:.0f}",
        f"{row['rank_lower']:.0f}-{row['rank_upper']:.0f}",
        "",
        f"{row['utility']:+z.2f}",
        "" if _is_first(row) else difference,
        _better(row),
        _win_rate_or_rating(row),
        f"{row['answers']:,.0f}",
    ]


def _is_first(row: Series[float]) -> bool:
    """Tells whether a row is the first item's, which differs from itself by nothing."""
    return bool(row["least"] == row["most"])


def _better(row: Series[float]) -> str:
    """Returns the probability that an item is better than the first one."""
    return "" if _is_first(row) else f"{100 * row['better']:.0f} %"


def _win_rate_or_rating(row: Series[float]) -> str:
    if "win_rate" in row.index:
        return f"{100 * row['win_rate']:.0f} %"
    return f"{row['rating']:z.2f}"


def write_boards(
    ranking: Ranking, title: str, out: Path, caption: str = ""
) -> list[Path]:
    """Writes boards as a table, a page and a figure, those of categories side by side.

    Returns the files: `leaderboard.csv` and `leaderboard.html`, the figure as
    `leaderboard.png`, `leaderboard.svg` and `leaderboard.pdf`, and `raters.csv` where
    raters are named. They replace earlier files, which stay where the new ones cannot
    be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    # A full disk leaves no part of a file.
    with TemporaryDirectory(dir=out) as beside:
        written = _write_files(ranking, title, Path(beside), caption)
        paths = [path.replace(out / path.name) for path in written]
    before = out / RATERS_FILE
    is_stale = ranking.raters is None and before.is_file()
    # A table of raters from other answers would stand beside the new files.
    if is_stale and before.read_bytes().startswith(_HEAD_OF_RATERS):
        before.unlink()
    return paths


def _write_files(ranking: Ranking, title: str, out: Path, caption: str) -> list[Path]:
    """Writes the boards as tables, figures and a page, and returns the files.

    The page has the figure in it, and so is written after it.
    """
    from pandas import concat

    kinds = ("csv", "png", "html", "svg", "pdf")
    paths = [out / f"leaderboard.{kind}" for kind in kinds]
    boards = _named_boards(ranking.boards)
    if len(boards) == 1:
        ranking.boards[None].to_csv(paths[0], index_label="item")
    else:
        names = ["board", "item"]
        concat([*boards.values()], keys=[*boards], names=names).to_csv(paths[0])
    figure = _figure(boards, title, ranking.home, caption)
    with warnings.catch_warnings():
        # The notes tell of characters that no font has.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        for path in (paths[1], *paths[3:]):
            figure.savefig(path, dpi=150)
    paths[2].write_text(_page(ranking, title, paths[1], caption), encoding="utf-8")
    if ranking.raters is not None:
        paths.append(out / RATERS_FILE)
        ranking.raters.to_csv(paths[-1], index_label="rater")
    return paths


def _named_boards(boards: Boards) -> dict[str, DataFrame]:
    """Names boards for tables and figures: ``all`` is that of everybody.

    Where a category is called ``all``, everybody's board has a longer name.
    """
    everybody = "all"
    while everybody in boards:
        everybody += " answers"
    names = (everybody if group is None else group for group in boards)
    return dict(zip(names, boards.values(), strict=True))


def _figure(
    boards: dict[str, DataFrame], title: str, home: PositionBias | None, caption: str
) -> Any:
    """Draws one board, or several side by side; below, what being first adds."""
    if len(boards) == 1:
        (board,) = boards.values()
        axes = plot_leaderboard(board, title)
        figure: Any = axes.figure
        figure.supxlabel(axes.get_xlabel(), fontsize=9)
        axes.set_xlabel("")
    else:
        figure = plot_boards(boards, title)
    if home is not None:
        # A bar among the utilities would stretch their axis where few items are drawn.
        added, low, high = home.utility
        add_caption(
            figure,
            f"at home or first: {added:+z.2f} (95 %: {low:+z.2f} to {high:+z.2f})",
        )
    if caption:
        add_caption(figure, caption)
    return figure


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 66rem;
  padding: 0 1rem; color: #222; background: #fff }}
div {{ overflow-x: auto }}
figure {{ margin: 0 }}
@property --hidden {{ syntax: "<length>"; inherits: false; initial-value: 0px }}
@keyframes scrolled {{ from, 90% {{ --hidden: 2rem }} to {{ --hidden: 0px }} }}
@supports (animation-timeline: scroll(self inline)) {{
  div {{ animation: scrolled linear; animation-timeline: scroll(self inline);
    mask-image: linear-gradient(to left, transparent, black var(--hidden)) }}
}}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums }}
th, td {{ padding: .2rem .6rem; text-align: right; white-space: nowrap }}
th {{ border-bottom: 2px solid #888 }}
td {{ border-bottom: 1px solid #ddd }}
th:nth-child(2), td:nth-child(2) {{ text-align: left }}
td:nth-child(2) {{ white-space: normal; overflow-wrap: anywhere; min-width: 6rem }}
img {{ max-width: 100% }}
@media (max-width: 40rem) {{
  table {{ font-size: 13px }}
  th, td {{ padding: .25rem .3rem }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
{notes}
<p>{links}</p>
<p>In brackets are the likely ranks, where they are more than one: as few ranks in a row
as have a probability of 95 % or more. A utility is that above the mean of all items,
with its 95 % interval: where no duel is a tie, an item that is 1 above another one wins
73 % of their duels. <b>To the first</b> is how far an item is behind the first one, and
<b>better</b> the probability that it is better than that one. The <b>win rate</b> is
the share that an item would win against a random other one, half of a tie counted;
<b>best</b> is the probability that it is the best of all.</p>
{tables}
<h2 id="figure">Figure</h2>
<figure><img alt="Utilities of the items with intervals"
  src="data:image/png;base64,{figure}">
<figcaption>{caption}</figcaption></figure>
<p>{citation}</p>
</body>
</html>
"""


def _page(ranking: Ranking, title: str, figure: Path, caption: str) -> str:
    """Makes the HTML page of all boards, which needs no other file and no other host.

    The figure, a PNG file, is in it.
    """
    tables = [
        (f"board-{number}", "All answers" if group is None else group, _texts(board))
        for number, (group, board) in enumerate(ranking.boards.items())
    ]
    if len(ranking.boards) > 1:
        tables.append(("side-by-side", "Side by side", _side_by_side(ranking.boards)))
    if ranking.raters is not None:
        head, texts = head_of_raters(ranking.raters), _texts_of_raters(ranking.raters)
        tables.append(("raters", head, texts))
    places = [*((place, head) for place, head, _ in tables), ("figure", "Figure")]
    return PAGE.format(
        title=html.escape(title),
        caption=html.escape(caption),
        notes="\n".join(f"<p>{html.escape(note)}</p>" for note in ranking.notes),
        links=" · ".join(
            f'<a href="#{place}">{html.escape(head)}</a>' for place, head in places
        ),
        tables="\n".join(_section(*table) for table in tables),
        citation=html.escape(botorch_pref.__citation__),
        figure=base64.b64encode(figure.read_bytes()).decode(),
    )


Texts = list[list[str]]
"""The cells of a table, row by row, after the names of its columns."""


def _section(place: str, head: str, texts: Texts) -> str:
    names, *rows = texts
    lines = [_cells("th", names), *(_cells("td", row) for row in rows)]
    table = "<div><table>\n" + "\n".join(lines) + "\n</table></div>"
    return f'<h2 id="{place}">{html.escape(head)}</h2>\n{table}'


def _cells(tag: str, cells: Sequence[str]) -> str:
    escaped = map(html.escape, cells)
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in escaped) + "</tr>"


def _texts(board: DataFrame) -> Texts:
    """Writes the cells of a board for the page, with a row of heads."""
    bad = BOTH_BAD in board.columns
    heads = ["rank", "item", "utility", "95 %", "to the first", "better"]
    heads.append("win rate" if "win_rate" in board.columns else "rating")
    heads += ["best", "answers"]
    rows = [heads + ["both bad"] * bad]
    for name, row in board.iterrows():
        cells = [
            _ranks(row),
            str(name),
            f"{row['utility']:z.2f}",
            f"{row['lower']:z.2f} to {row['upper']:z.2f}",
            _beside_the_first(row),
            _better(row),
            _win_rate_or_rating(row),
            f"{100 * row['best']:.0f} %",
            f"{row['answers']:,.0f}",
        ]
        if bad:
            # A group may have no answers about an item.
            has_answers = row["answers"] > 0
            cells.append(f"{100 * row[BOTH_BAD]:.0f} %" if has_answers else "")
        rows.append(cells)
    return rows


def _beside_the_first(row: Series[float]) -> str:
    """Returns the difference of a utility to the first one, with its interval."""
    if _is_first(row):
        return ""
    return f"{row['difference']:z.2f} ({row['least']:z.2f} to {row['most']:z.2f})"


def _ranks(row: Series[float]) -> str:
    """Returns a rank with its interval, where that says more."""
    rank, low, high = row["rank"], row["rank_lower"], row["rank_upper"]
    span = "" if low == high == rank else f" ({low:.0f} to {high:.0f})"
    return f"{rank:.0f}{span}"


def _side_by_side(boards: Boards) -> Texts:
    """Returns the cells of a table of ranks, a column for each board, for the page.

    Items are in the order of the first board.
    """
    groups = ["all answers" if group is None else group for group in boards]
    first, *later = boards.values()
    rows = [
        [_ranks(row), str(name), *(_ranks(board.loc[name]) for board in later)]
        for name, row in first.iterrows()
    ]
    return [[groups[0], "item", *groups[1:]], *rows]


def head_of_raters(raters: DataFrame) -> str:
    """Writes the heading of a table of raters, which says what its columns are."""
    parts = []
    if "noise" in raters.columns:
        parts.append("noise of answers, 1 for the typical rater")
    if "bias" in raters.columns:
        parts.append("what being first adds")
    if "repeated" in raters.columns:
        parts.append("answers repeated and contradicted, by the rater and as expected")
    return f"Raters: {'; '.join(parts) or 'answers'}"


def _texts_of_raters(raters: DataFrame) -> Texts:
    """Returns the cells of a table of raters, both ends of an interval in one.

    Names are in the second column, as of boards: the page's style puts it to the left.
    """
    rows = [
        ["answers", "rater"],
        *([f"{n:,}", str(r)] for r, n in raters["answers"].items()),
    ]

    def add(head: str, cells: Iterable[str]) -> None:
        for row, cell in zip(rows, [head, *cells], strict=True):
            row.append(cell)

    for name, ends in (
        ("noise", ["lower", "upper"]),
        ("bias", ["bias_lower", "bias_upper"]),
    ):
        if name in raters.columns:
            add(name, (f"{value:z.2f}" for value in raters[name]))
            low_high = raters[ends].itertuples(index=False)
            add("95 %", (f"{low:z.2f} to {high:z.2f}" for low, high in low_high))
    if "outlier" in raters.columns:
        add("outlier", ("yes" if is_one else "" for is_one in raters["outlier"]))
    for name in ("repeated", "contradicted", "expected"):
        if name in raters.columns:
            add(name, (f"{number:,.0f}" for number in raters[name]))
    return rows
