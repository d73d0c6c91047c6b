"""Command that ranks items by a long table of answers."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from joblib import Parallel, delayed, parallel_config

from botorch_pref.acquisition import informative_pairs
from botorch_pref.commands import program
from botorch_pref.commands.boards import (
    BOARD_FILE,
    RATERS_FILE,
    Boards,
    Ranking,
    print_boards,
    print_raters,
    write_boards,
)
from botorch_pref.commands.item_file import read_items
from botorch_pref.commands.notes import (
    notes_on_answers,
    remainder_of,
    sentence_of_biases,
    sentence_of_home,
    sentence_of_moves,
    sentences_of_controls,
)
from botorch_pref.datasets.answer_files import AnswerFile, read_answers
from botorch_pref.datasets.items import (
    CATEGORY,
    CHOICE,
    COUNT,
    ITEM,
    LOSER,
    RATER,
    RATING,
    WINNER,
    ItemTable,
    answer_totals,
)
from botorch_pref.datasets.layout_words import BOTH_BAD, NamedColumns
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation import (
    ItemRanking,
    ManyItemRanking,
    RatingRanking,
    rank_items,
)
from botorch_pref.evaluation.answer_effects import PositionBias
from botorch_pref.evaluation.item_models import ranking_size
from botorch_pref.evaluation.item_ranking import RankedItems
from botorch_pref.evaluation.many_ranking import LEVEL
from botorch_pref.threads import one_thread

if TYPE_CHECKING:
    from pandas import DataFrame, Series


@one_thread()
def rank(argv: Sequence[str]) -> None:
    """Ranks the items of a table; prints a board and writes all of them."""
    arguments = _make_parser().parse_args(argv)
    table: Path = arguments.table
    _check_arguments(arguments)
    file = _read(arguments)
    answers = _answers_without(arguments.without, file.answers)
    # For all answers: --without also ranks these, for the board before.
    items = read_items(arguments.items, file.answers) if arguments.items else None
    out: Path = arguments.out or Path("runs", table.stem)
    _check_folder(out, [path for path in (table, arguments.items) if path])
    if RATING not in answers.columns:
        _print_duration(answers, items, arguments.reliability)
    with _workers(arguments.jobs, arguments.scheduler):
        # The models take their time: a folder that cannot be written fails before them.
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
        ranked = rank_items(answers, items, reliability=arguments.reliability)
        boards = _boards(ranked, answers, arguments.top or 5)
    notes = [*file.notes, *notes_on_answers(ranked, answers)]
    if arguments.without:
        before = rank_items(
            file.answers, items, reliability=arguments.reliability
        ).board()
        notes.append(sentence_of_moves(before, boards[None], arguments.without))
    ranking = _described(ranked, boards, notes, arguments)
    next_lines = []
    if arguments.next and not isinstance(ranked, RatingRanking):
        next_lines = _next_pairs(ranked, boards[None], arguments.next, arguments.top)
    try:
        _print(ranking, file.unread)
        for line in next_lines:
            print(line)
    finally:
        # Also where nobody reads what is printed any more, as behind "| head".
        title = arguments.title or f"Ranks of the items of {table.name}"
        paths = write_boards(ranking, title, out, arguments.caption)
    for path in paths:
        print(f"written: {path}")


def _read(arguments: argparse.Namespace) -> AnswerFile:
    """Reads the answers of a table, and refuses options that such answers do not have.

    Before the ranking, which takes its time.
    """
    named = {name: getattr(arguments, name) for name in _COLUMNS}
    columns = NamedColumns(
        **named, tie=arguments.tie, rater=arguments.rater, first_won=arguments.first_won
    )
    file = read_answers(
        arguments.table,
        columns,
        home=arguments.home,
        category=arguments.category,
        controls=arguments.control,
    )
    if arguments.reliability and file.answers[RATER].nunique() < 2:
        raise FeedbackError(
            f"--reliability compares raters, and the column {arguments.rater} of "
            f"{arguments.table.name} names one: leave it out"
        )
    _check_options(arguments, RATING in file.answers.columns)
    return file


def _described(
    ranked: RankedItems,
    boards: Boards,
    notes: list[str],
    arguments: argparse.Namespace,
) -> Ranking:
    """Gathers all that is printed and written: boards, notes and a table of raters.

    The ``notes`` on the answers come first, then those on the ranking.
    """
    home, raters = ranked.position_bias(), None
    about = _notes_on_ranking(ranked, boards[None], home, arguments.top)
    notes = [*notes, *about]
    if arguments.rater and isinstance(ranked, ItemRanking):
        biases = ranked.rater_biases()
        if len(biases):
            notes.append(sentence_of_biases(biases))
        raters = _rater_table(ranked, biases, arguments.reliability)
    return Ranking(boards, notes, home, raters)


def _answers_without(items: Sequence[str], answers: DataFrame) -> DataFrame:
    """Drops the answers about items of ``--without``; refuses items that have none."""
    ends = [ITEM] if RATING in answers.columns else [WINNER, LOSER]
    names = {name for end in ends for name in answers[end]}
    if unknown := [item for item in items if item not in names]:
        raise FeedbackError(
            f"--without is {unknown[0]}, which no answer names: write it as the file "
            "does"
        )
    answers_between = answers[~answers[ends].isin(items).any(axis=1)]
    if answers_between.empty:
        raise FeedbackError(
            f"--without {' '.join(items)} leaves no answer: leave out fewer items"
        )
    return answers_between.reset_index(drop=True)


def _check_options(arguments: argparse.Namespace, is_rated: bool) -> None:
    """Checks that no option is of duels where a file has ratings."""
    options = ("items", "tie", "category", "reliability", "next", "control")
    of_duels = [f"--{name}" for name in options if getattr(arguments, name)]
    if is_rated and of_duels:
        raise FeedbackError(
            f"{arguments.table} has ratings: leave out {', '.join(of_duels)}, which "
            "duels alone have"
        )


def _print_duration(
    answers: DataFrame, items: ItemTable | None, reliability: bool
) -> None:
    """Says about how long this will take, if that is a minute or more."""
    size = ranking_size(answers, items, reliability=reliability)
    if minutes := round(size.minutes):
        duration = f"{minutes} minute{'s' * (minutes > 1)} or more"
        # Each noise is one more hyper-parameter.
        advice = ", and less without --reliability" * reliability
        print(
            f"{size.num_points:,} {size.noun}: this takes {duration}{advice}.",
            flush=True,
        )


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


def _boards(ranking: RankedItems, answers: DataFrame, top: int) -> Boards:
    """Makes the board of all, and those of categories, in the processes of `_workers`.

    Where answers can say that both items are bad, a column has the share that do.
    """
    if not isinstance(ranking, ItemRanking):
        boards: Boards = {None: ranking.board(top=top)}
    else:
        chosen = [None, *map(str, ranking.categories)]
        board = delayed(ranking.board)
        tables = Parallel()(board(None, category, top=top) for category in chosen)
        boards = dict(zip(chosen, tables, strict=True))
    if BOTH_BAD in answers.columns:
        for group, table in boards.items():
            about = answers if group is None else answers[answers[CATEGORY] == group]
            bad = answer_totals(about, about[COUNT] * about[BOTH_BAD])
            table[BOTH_BAD] = bad.reindex(table.index, fill_value=0) / table["answers"]
    return boards


def _rater_table(
    ranking: ItemRanking, biases: DataFrame, reliability: bool
) -> DataFrame:
    """Returns what is known of each rater: noise, bias, and contradictions."""
    answers = ranking.answers
    if CHOICE in answers.columns:
        # The rows of a choice from several are one answer.
        again = answers[CHOICE].notna() & answers.duplicated([RATER, WINNER, CHOICE])
        answers = answers[~again]
    number = answers.groupby(RATER)[COUNT].sum().reindex([*ranking.raters])
    table = number.to_frame("answers")
    if reliability:
        table = ranking.reliability()
    columns = {"utility": "bias", "lower": "bias_lower", "upper": "bias_upper"}
    if len(biases):
        table = table.join(biases[[*columns]].rename(columns=columns))
    repeated = ranking.contradictions()
    return table.join(repeated) if repeated["repeated"].any() else table


def _print(ranking: Ranking, unread: Sequence[str]) -> None:
    """Prints notes, the columns that were not read, and the tables."""
    for note in ranking.notes:
        print(note)
    if unread:
        remainder = remainder_of(unread, 10)
        print(f"Columns that were not read: {', '.join(unread[:10])}{remainder}.")
    print_boards(ranking.boards)
    if ranking.raters is not None and len(ranking.raters.columns) > 1:
        print_raters(ranking.raters)


def _sentence_of_top(ranking: RankedItems, board: DataFrame, top: int) -> str:
    """Says how probably the first items of a board, of ``--top``, are the best ones.

    Also how many items may or may not be among these, where that is not settled.
    """
    if top >= len(board):
        raise FeedbackError(
            f"--top is {top}, and there are {len(board)} items: give fewer"
        )
    chance = ranking.top_probability(top)
    names = "The first one is the best" if top == 1 else f"The first {top} are the best"
    if chance >= LEVEL:
        return f"{names} with a probability of {100 * chance:.0f} %: this is settled."
    number = int(_is_open(board, top).sum())
    advice = f" --next N --top {top} names pairs that decide it."
    return (
        f"{names} with a probability of {100 * chance:.0f} %: this is not settled, "
        f"{number:,} items may or may not be among them."
        + ("" if isinstance(ranking, RatingRanking) else advice)
    )


def _is_open(board: DataFrame, top: int) -> Series[bool]:
    """Tells whether items may or may not be among the first, by intervals of ranks."""
    return (board["rank_lower"] <= top) & (board["rank_upper"] > top)


MOST_OPEN = 300
"""Items of thousands of which all pairs compete to be asked about."""


def _next_pairs(
    ranking: ItemRanking | ManyItemRanking,
    board: DataFrame,
    number: int,
    top: int | None,
) -> list[str]:
    """Writes lines with the pairs to ask about next, the most informative one first.

    They are as many as ``--next`` says, or fewer; with ``top``, of items that may or
    may not be among the first so many.
    """
    names = [*ranking.names]
    if top is not None:
        names = [*board.index[_is_open(board, top)]]
    elif isinstance(ranking, ManyItemRanking):
        names = [*board.index]
    if len(names) < 2:
        return [f"No pair is left to ask about: the first {top} are settled."]
    is_many = isinstance(ranking, ManyItemRanking)
    items = names[:MOST_OPEN] if is_many else names
    # Users cannot know how many items are open: a number of more pairs is no error.
    count = min(number, math.comb(len(items), 2))
    about = "this pair" if count == 1 else "these pairs"
    if count < number:
        about += ", the only one" if count == 1 else f", all {count:,} that there are"
    if top is not None:
        about += f", to settle the first {top}"
    if len(items) < len(names):
        about += f", of the first {MOST_OPEN} of {len(names):,} items"
    if isinstance(ranking, ManyItemRanking):
        pairs = ranking.next_pairs(count, items)
    else:
        points = ranking.items.points[ranking.items.places(items)]
        places = informative_pairs(ranking.utility(), count, X=points).tolist()
        pairs = [(items[i], items[j]) for i, j in places]
    order = "" if count == 1 else ", of which the first says most"
    lines = (f"  {first} against {second}" for first, second in pairs)
    return [f"Ask next about {about}{order}:", *lines]


@contextmanager
def _workers(jobs: int, scheduler: str | None) -> Iterator[None]:
    """Gives joblib's work in a ``with`` block to processes here, or to Dask's."""
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


def _check_arguments(arguments: argparse.Namespace) -> None:
    """Checks options by themselves, before a file is read."""
    for option, noun in (("next", "pairs"), ("top", "items")):
        number = getattr(arguments, option)
        if number is not None and number < 1:
            raise FeedbackError(f"--{option} is {number}: give 1 or more {noun}")
    if arguments.reliability and arguments.rater is None:
        raise FeedbackError("--reliability is of raters: name their column by --rater")


def _notes_on_ranking(
    ranking: RankedItems, board: DataFrame, home: PositionBias | None, top: int | None
) -> list[str]:
    """Writes what is said of being first, of controls and of the first items."""
    notes = [] if home is None else [sentence_of_home(home)]
    if not isinstance(ranking, RatingRanking):
        notes += sentences_of_controls(ranking.controls())
    if top is not None:
        notes.append(_sentence_of_top(ranking, board, top))
    return notes


def _make_parser() -> argparse.ArgumentParser:
    """Makes the parser of ``rank``."""
    parser = argparse.ArgumentParser(
        prog=f"{program()} rank",
        description="Rank items by a file of answers, whose layout is recognised by "
        "its columns and told: winners and losers; two items and who won, by name, "
        "side, number or scores; matrices of wins; rankings, and the best and worst of "
        "sets; ratings. CSV, JSON, lines of JSON, PGN, and PrefLib's soc, soi, toc and "
        "toi. Columns without names have their numbers.",
    )
    _add_columns(parser.add_argument)
    _add_groups(parser)
    _add_boards(parser.add_argument)
    _add_workers(parser)
    return parser


def _add_columns(add: Callable[..., Any]) -> None:
    """Adds options of the files and their columns."""
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
    add(
        "--first-won",
        metavar="VALUE",
        help="of the column of winners where the first of two items won, as 1 or 0",
    )
    add("--tie", metavar="COLUMN", help="that says which answers are ties; default tie")
    add(
        "--home",
        metavar="COLUMN",
        help="that names the item at home or shown first, such as home or model_a: "
        "what this adds is estimated, and ranks are those without it",
    )
    add(
        "--control",
        action="extend",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="what the two items have more or less of, such as length of the columns "
        "length_a and length_b, or a column of how much more the first one has: what "
        "it adds is estimated, and ranks are those of items that have the same",
    )


def _add_groups(parser: argparse.ArgumentParser) -> None:
    """Adds options of who answered, and of what."""
    add = parser.add_argument
    add(
        "--rater",
        metavar="COLUMN",
        help="that names who answered: ranks are those of the raters' mean utility",
    )
    add(
        "--category",
        metavar="COLUMN",
        help="that names the kind of question: a board for each beside that of all",
    )
    parser.add_argument(
        "--reliability",
        action="store_true",
        help="each rater of --rater has a noise, which is learned and listed, with "
        "those who stand out",
    )


def _add_boards(add: Callable[..., Any]) -> None:
    """Adds options of what is said of the items, and where it is written."""
    add(
        "--next",
        type=int,
        metavar="N",
        help="also name the N pairs of items whose answers would say most, with --top "
        "those that say which items are the first",
    )
    add(
        "--without",
        action="append",
        default=[],
        metavar="ITEM",
        help="rank without the answers about an item, and say who moves; may be "
        "repeated",
    )
    add("--title", metavar="TEXT", help="of the page and the figure")
    add("--caption", default="", metavar="TEXT", help="below the figure")
    add(
        "--top",
        type=int,
        metavar="K",
        help="also say whether the first K are settled: the probability that they are "
        "the best K",
    )
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="default: runs/ and the name of FILE; what was written there is replaced",
    )


_COLUMNS = {
    "first": "that names the first of two items, or the item of a row; line, where "
    "each line without names of columns has ratings of an item",
    "second": "that names the second of two items",
    "winner": "that says who won: a name, a side or a number",
    "rating": "of ratings, larger ones being better; --first names that of items",
    "order": "of ranks, 1 for the best, with sessions told apart by --rater; or of the "
    "best items of rankings, where columns with other numbers have the other places",
    "count": "that says how often an answer was given; default count",
}
"""Options that name columns which a header does not tell by itself."""


def _add_workers(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of processes and of workers elsewhere."""
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
