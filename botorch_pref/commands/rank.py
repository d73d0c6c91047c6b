"""Command that ranks items by a long table of answers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import torch
from joblib import Parallel, delayed, parallel_config

from botorch_pref.acquisition import informative_pairs
from botorch_pref.commands.boards import (
    BOARD_FILE,
    RATERS_FILE,
    Boards,
    Ranking,
    print_boards,
    write_boards,
)
from botorch_pref.commands.item_file import read_items
from botorch_pref.datasets.answer_files import read_answers
from botorch_pref.datasets.items import (
    CHOICE,
    COUNT,
    LOSER,
    RATER,
    TIE,
    WINNER,
    ItemTable,
    names_alike,
)
from botorch_pref.datasets.layout_words import BOTH_BAD, MISSING, NamedColumns
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation import ItemRanking, connected_components, rank_items
from botorch_pref.evaluation.item_ranking import MOST_ANSWERS, answers_about
from botorch_pref.evaluation.leaderboard import PositionBias
from botorch_pref.plotting.drawing import readable_fonts

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_POINTS = 4000
"""Items, or pairs of an item and a group, that the exact model holds in minutes."""

MINUTES = {False: 0.4, True: 1.8}
"""What 1,000 points take, and others by the cube of their number: without, with a tie
threshold for each item."""


def rank(argv: Sequence[str]) -> None:
    """Ranks the items of a table; prints a board and writes all of them."""
    arguments = _make_parser().parse_args(argv)
    torch.set_num_threads(1)
    table: Path = arguments.table
    grouping = arguments.rater or arguments.category
    if arguments.next is not None and arguments.next < 1:
        raise FeedbackError(f"--next is {arguments.next}: give 1 or more pairs")
    if arguments.reliability and arguments.rater is None:
        raise FeedbackError("--reliability is of raters: name their column by --rater")
    named = {name: getattr(arguments, name) for name in _COLUMNS}
    columns = NamedColumns(**named, tie=arguments.tie, rater=grouping)
    file = read_answers(table, columns, home=arguments.home)
    if arguments.reliability and file.answers[RATER].nunique() < 2:
        raise FeedbackError(
            f"--reliability compares raters, and the column {grouping} of "
            f"{table.name} names one: leave it out"
        )
    # Before there is a column for each id.
    _check_size(len({*file.answers[WINNER], *file.answers[LOSER]}), "items")
    items = read_items(arguments.items, file.answers)
    _check_size(len(items.names), "items")
    out: Path = arguments.out or Path("runs", table.stem)
    _check_folder(out, [path for path in (table, arguments.items) if path])
    with _workers(arguments.jobs, arguments.scheduler):
        _print_duration(items, file.answers)
        # The models take their time: a folder that cannot be written fails before them.
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
        ranking = rank_items(file.answers, items, reliability=arguments.reliability)
        boards = _boards(ranking, file.answers, arguments.category is not None)
    notes = [*file.notes, *_notes(ranking, file.answers)]
    home = ranking.position_bias()
    if home is not None:
        notes.append(_home_note(home))
    raters = ranking.reliability() if arguments.reliability else None
    next_lines = _next_pairs(ranking, arguments.next) if arguments.next else []
    board = Ranking(boards, notes, home, raters)
    try:
        _print(board, file.unread)
        for line in next_lines:
            print(line)
    finally:
        # Also where nobody reads what is printed any more, as behind "| head".
        paths = write_boards(board, f"Ranks of the items of {table.name}", out)
    for path in paths:
        print(f"written: {path}")


def _check_folder(out: Path, read: Sequence[Path]) -> None:
    """Checks that boards can go to a folder, and replace nothing that is read."""
    if out.exists() and not out.is_dir():
        raise FeedbackError(f"--out is {out}, a file: give a folder")
    written = [out / name for name in (BOARD_FILE, RATERS_FILE)]
    for path in read:
        if any(file.exists() and file.samefile(path) for file in written):
            raise FeedbackError(
                f"{path} would be replaced by what is written to {out}: give --out "
                "another folder"
            )


def _boards(ranking: ItemRanking, answers: DataFrame, of_raters: bool) -> Boards:
    """The board of all, and perhaps those of raters or categories."""
    chosen: list[str | None] = [None]
    if of_raters:
        chosen += map(str, ranking.raters)
    tables = Parallel()(delayed(ranking.board)(rater) for rater in chosen)
    boards: Boards = dict(zip(chosen, tables, strict=True))
    if BOTH_BAD in answers.columns:
        for rater, table in boards.items():
            about = answers if rater is None else answers[answers[RATER] == rater]
            bad = answers_about(about, about[COUNT] * about[BOTH_BAD])
            table[BOTH_BAD] = bad.reindex(table.index, fill_value=0) / table["answers"]
    return boards


def _print(ranking: Ranking, unread: Sequence[str]) -> None:
    """Prints notes, the columns that were not read, and the tables."""
    for note in ranking.notes:
        print(note)
    if unread:
        remainder = _remainder(unread, 10)
        print(f"Columns that were not read: {', '.join(unread[:10])}{remainder}.")
    print_boards(ranking.boards)
    if ranking.raters is not None:
        print("Noise of each rater, 1 for the typical one, with a 95 % interval:")
        print(ranking.raters.round(2).to_string())


def _next_pairs(ranking: ItemRanking, number: int) -> list[str]:
    """Lines that name the pairs to ask about next, the most informative one first."""
    names, points = ranking.items.names, ranking.items.points
    pairs = informative_pairs(ranking.utility(), number, X=points)
    head = "Ask next about these pairs, of which the first says most:"
    return [head, *(f"  {names[i]} against {names[j]}" for i, j in pairs.tolist())]


@contextmanager
def _workers(jobs: int, scheduler: str | None) -> Iterator[None]:
    """Gives boards to processes of this machine, or to those of a Dask scheduler."""
    if jobs == 0:
        raise FeedbackError("--jobs is 0; give 1 or more processes, or -1 for all.")
    if scheduler is None:
        with parallel_config(n_jobs=jobs):
            yield
        return
    from dask.distributed import Client

    try:
        client = Client(scheduler)
    except ValueError as error:
        raise FeedbackError(
            f"--scheduler is {scheduler!r}: {error}; give one like tcp://HOST:PORT."
        ) from error
    with client, parallel_config(backend="dask"):
        yield


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m botorch_pref rank",
        description="Rank items by a file of answers, whose layout is recognised by "
        "its columns and told: winners and losers; two items and who won, by name, "
        "side, number or scores; matrices of wins; rankings, and the best and worst of "
        "sets. CSV, JSON, lines of JSON, and PrefLib's soc, soi, toc and toi.",
    )
    add = parser.add_argument
    add("table", type=Path, metavar="FILE.csv", help="the answers")
    add(
        "--items",
        type=Path,
        metavar="ITEMS.csv",
        help="features of the items, their names in the first column; without it items "
        "are known by their answers alone",
    )
    for name, help_text in _COLUMNS.items():
        add(f"--{name}", metavar="COLUMN", help=help_text)
    add("--tie", metavar="COLUMN", help="that says which answers are ties; default tie")
    add(
        "--home",
        metavar="COLUMN",
        help="that names the item at home or shown first, such as home or model_a: "
        "what this adds is estimated, and ranks are those without it",
    )
    groups = parser.add_mutually_exclusive_group()
    groups.add_argument(
        "--rater",
        metavar="COLUMN",
        help="that names who answered: ranks are those of the raters' mean utility",
    )
    groups.add_argument(
        "--category",
        metavar="COLUMN",
        help="that names the kind of question: a board for each beside that of all",
    )
    add(
        "--reliability",
        action="store_true",
        help="each rater of --rater has a noise, which is learned and listed, with "
        "those who stand out",
    )
    add(
        "--next",
        type=int,
        metavar="N",
        help="also name the N pairs of items whose answers would say most",
    )
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="default: runs/ and the name of FILE; what was written there is replaced",
    )
    _add_workers(parser)
    return parser


_COLUMNS = {
    "first": "that names the first of two items, or the item of a row",
    "second": "that names the second of two items",
    "winner": "that says who won: a name, a side or a number",
    "order": "of ranks, 1 for the best; sessions are told apart by --rater",
    "count": "that says how often an answer was given; default count",
}
"""Options that name columns which a header does not tell by itself."""


def _add_workers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes for the boards of categories, -1 for all cores; default 1",
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="of a Dask scheduler, whose workers make the boards instead",
    )


# --- How long it takes


def _check_size(count: int, plural: str) -> None:
    if count > MOST_POINTS:
        raise FeedbackError(
            f"There are {count} {plural}, and the command ranks at most {MOST_POINTS}: "
            "leave out those with few answers, or --rater and --category."
        )


def _print_duration(items: ItemTable, answers: DataFrame) -> None:
    """Says about how long this will take, if that is a minute or more."""
    count, plural = len(items.names), "items"
    if RATER in answers.columns:
        named = [*answers[WINNER], *answers[LOSER]]
        count = len({*zip(named, [*answers[RATER]] * 2, strict=True)})
        plural = "pairs of an item and a group"
        _check_size(count, plural)
    slow = bool(answers[TIE].any()) and len(answers) <= MOST_ANSWERS
    if minutes := round(MINUTES[slow] * (count / 1000) ** 3):
        long = f"{minutes} minute{'s' * (minutes > 1)} or more"
        print(f"{count:,} {plural}: this takes {long}.", flush=True)


# --- Notes on answers and items


def _home_note(home: PositionBias) -> str:
    added, low, high = home.utility
    share, lower, upper = (f"{100 * number:.0f}" for number in home.share)
    return (
        f"Being at home, or shown first, adds {added:+z.2f} to the utility (95 %: "
        f"{low:+z.2f} to {high:+z.2f}): between equals that one wins {share} % "
        f"of the duels that are no ties ({lower} to {upper} %). Ranks are without it."
    )


def _notes(ranking: ItemRanking, answers: DataFrame) -> list[str]:
    items = ranking.items
    # The rows of a choice from several are one answer.
    again = answers[COUNT] < 0
    if CHOICE in answers.columns:
        again = answers[CHOICE].notna() & answers.duplicated(CHOICE)
    total = int(answers[COUNT][~again].sum())
    ties = int((answers[COUNT] * answers[TIE]).sum())
    head = f"{total:,} answer{'s' * (total > 1)} about {len(items.names):,} items"
    notes = [head + (f", {ties:,} of them ties." if ties else ".")]
    group = connected_components(len(items.names), [items.comparisons(answers)])
    # Items of a file with features need not have answers.
    parts = len(group[items.places(answers[WINNER].tolist())].unique())
    if parts > 1:
        features = items.has_features
        between = "only features rank" if features else "the ranks are the prior's"
        notes.append(
            f"No answers connect {parts} groups of items: between groups {between}, "
            "and a duel across two groups teaches most."
        )
    notes += _one_sided(answers) + _doubtful_names(items, answers)
    _, lacking = readable_fonts(map(str, items.names))
    if lacking:
        listing = f"{lacking[:10]!r}{_remainder(lacking, 10)}"
        notes.append(
            f"No font on this computer has {listing}: the figure shows "
            "boxes for these characters until you install one. The page and the table "
            "show them."
        )
    return notes


def _one_sided(answers: DataFrame) -> list[str]:
    """A sentence about items that won or lost all answers, whose ends are rough."""
    number = answers_about(answers, answers[COUNT])
    decided = answers[~answers[TIE]]
    sides = {
        side: decided.groupby(end)[COUNT].sum().reindex(number.index, fill_value=0)
        for side, end in (("won", WINNER), ("lost", LOSER))
    }
    sides_in_words = [
        f"{', '.join(map(repr, names[:3]))}{_remainder(names, 3)} {side} all"
        for side, count in sides.items()
        if (names := [str(name) for name in number.index[count == number]])
    ]
    if not sides_in_words:
        return []
    rough = "bound such utilities on one side, and the other ends of their intervals"
    return [
        f"{'; '.join(sides_in_words)}: answers {rough} may be a tenth of them too near."
    ]


def _remainder(names: Sequence[object], limit: int) -> str:
    return f" and {len(names) - limit:,} more" if len(names) > limit else ""


def _doubtful_names(items: ItemTable, answers: DataFrame) -> list[str]:
    """Sentences about names that may be misspelt, so that one item became two."""
    names = {"items": [*map(str, items.names)]}
    if RATER in answers.columns:
        names["groups"] = answers[RATER].unique().tolist()
    notes = [
        note
        for plural, listed in names.items()
        for note in _names_alike(listed, plural) + _missing_names(listed, plural)
    ]
    number = answers_about(answers, answers[COUNT])
    singles = [name for name, count in number.items() if count == 1]
    # Where many items have one answer, it says nothing of how they are written.
    if len(singles) > len(number) / 10:
        compared = singles if len(singles) <= 10 else []
        singles = [n for n in compared if _is_near_another(n, number.index)]
    if singles:
        listing = ", ".join(map(repr, singles[:10])) + _remainder(singles, 10)
        notes.append(
            f"In one answer alone: {listing}. A misspelt name is an item of its own."
        )
    return notes


def _names_alike(names: Iterable[str], plural: str) -> list[str]:
    """A sentence about names that only look different, if there are some."""
    groups = names_alike(names)
    if not groups:
        return []
    listing = "; ".join(" and ".join(map(ascii, alike)) for alike in groups[:5])
    remainder = _remainder(groups, 5)
    note = (
        "These names differ only in capitals, spaces, zeros or coding of letters, and "
    )
    return [f"{note}are {plural} of their own: {listing}{remainder}."]


def _missing_names(names: Iterable[str], plural: str) -> list[str]:
    """A sentence about names that stand for nothing, if there are some."""
    missing = [name for name in names if name.casefold() in MISSING - {"-"}]
    if not missing:
        return []
    names = " and ".join(map(repr, missing))
    verb = "are" if len(missing) > 1 else "is"
    advice = "where that stands for a name that is missing, leave these rows out."
    return [f"{names} {verb} among the {plural}: {advice}"]


def _is_near_another(name: str, names: Iterable[str]) -> bool:
    """Whether a letter or two make one name the other, the numbers in both being equal.

    "Barolo 2015" and "Barolo 2016" are two wines.
    """
    numbers = re.findall(r"\d+", name)
    candidates = [o for o in names if o != name and re.findall(r"\d+", o) == numbers]
    return bool(get_close_matches(name, candidates, n=1, cutoff=0.8))
