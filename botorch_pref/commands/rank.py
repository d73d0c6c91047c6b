"""Command that ranks items by a long table of answers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import torch
from gpytorch.kernels import Kernel, LinearKernel, ProductKernel
from gpytorch.priors import GammaPrior
from joblib import Parallel, delayed, parallel_config
from torch import Tensor

from botorch_pref.commands.boards import (
    BOARD_FILE,
    BOTH_BAD,
    RATERS_FILE,
    Boards,
    Ranking,
    print_boards,
    write_boards,
)
from botorch_pref.datasets.tables import (
    COUNT,
    HOME,
    LOSER,
    MOST_COUNTED,
    RATER,
    TIE,
    WINNER,
    CsvTable,
    ItemTable,
    as_read,
)
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation import (
    connected_components,
    leaderboard,
    rater_reliability,
)
from botorch_pref.evaluation.leaderboard import PositionBias, position_bias
from botorch_pref.evaluation.scores import data_frame_class, fit_by_evidence
from botorch_pref.feedback import Comparisons
from botorch_pref.likelihoods import PairwiseLogitLikelihood, RaoKupperLikelihood
from botorch_pref.models import (
    AgreementKernel,
    EPPreferenceGP,
    GroupUtility,
    LaplacePreferenceGP,
    ReliabilityKernel,
)
from botorch_pref.models.kernels import default_covar_module
from botorch_pref.plotting.drawing import readable_fonts

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MOST_POINTS = 4000
"""Items, or pairs of an item and a group, that the exact model holds in minutes."""

MINUTES = {False: 0.4, True: 1.8}
"""What 1,000 points take, and others by the cube of their number: without, with a tie
threshold for each item."""

MOST_ANSWERS = 30_000
"""Different answers with which a fit of a tie threshold for each item takes seconds."""

LEVEL, Z = 0.95, 1.959963984540054
"""Probability of the intervals, and their half width in standard deviations."""

SIDES = {"model_a": "model_b", "home": "away"}
"""Columns of tables that say in ``winner`` which of two columns won: of arenas, of
leagues."""

TIES = {"tie", "draw"}
BAD = {"tie (bothbad)", "tie(bothbad)", "bothbad", "both_bad", "both bad"}
"""What such tables write where neither won, and where both answers were bad."""


def rank(argv: Sequence[str]) -> None:
    """Ranks the items of a table; prints a board and writes all of them."""
    given = _make_parser().parse_args(argv)
    torch.set_num_threads(1)
    by = given.rater or given.category
    if given.reliability and given.rater is None:
        raise FeedbackError("--reliability is of raters: name their column by --rater")
    answers, unread = read_answers(given.table, by=by, tie=given.tie, home=given.home)
    if given.reliability and answers[RATER].nunique() < 2:
        raise FeedbackError(
            f"--reliability compares raters, and the column {by} of {given.table.name} "
            "names one: leave it out"
        )
    items = read_items(given.items, answers)
    each = given.category is not None
    out: Path = given.out or Path("runs", given.table.stem)
    known = given.items is not None
    for path in (given.table, given.items) if known else (given.table,):
        written = (out / name for name in (BOARD_FILE, RATERS_FILE))
        if any(one.exists() and one.samefile(path) for one in written):
            raise FeedbackError(
                f"{path} would be replaced by what is written to {out}: give --out "
                "another folder"
            )
    with _workers(given.jobs, given.scheduler):
        _tell_duration(items, answers)
        # The models take their time: a folder that cannot be written fails before them.
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
        ranking = rank_items(
            items, answers, known=known, each=each, noisy=given.reliability
        )
    title = f"Ranks of the items of {given.table.name}"
    try:
        _print(ranking, unread)
    finally:
        # Also where nobody reads what is printed any more, as behind "| head".
        paths = write_boards(ranking, title, out)
    for path in paths:
        print(f"written: {path}")


def _print(ranking: Ranking, unread: Sequence[str]) -> None:
    """Prints notes, the columns that were not read, and the tables."""
    for note in ranking.notes:
        print(note)
    if unread:
        more = _how_many_more(unread, 10)
        print(f"Columns that were not read: {', '.join(unread[:10])}{more}.")
    print_boards(ranking.boards)
    if ranking.raters is not None:
        print("Noise of each rater, 1 for the typical one, with a 95 % interval:")
        print(ranking.raters.round(2).to_string())


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
        description="Rank items by a long table of answers, a row each: with the "
        "columns winner and loser, and perhaps tie (true or false) and count; or with "
        "model_a, model_b and winner (model_a, model_b, tie or tie (bothbad)); or with "
        "home, away and winner (home, away or draw).",
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
        "--out",
        type=Path,
        metavar="DIR",
        help="default: runs/ and the name of FILE; what was written there is replaced",
    )
    _add_workers(parser)
    return parser


def _add_workers(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="processes for the boards of categories, -1 for all cores; default 1",
    )
    where.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="of a Dask scheduler, whose workers make the boards instead",
    )


# --- The tables that are read


def read_answers(
    path: Path, *, by: str | None, tie: str | None, home: str | None
) -> tuple[DataFrame, list[str]]:
    """Reads a long table of answers from a CSV file, a row each.

    ``by``, ``tie`` and ``home`` name columns: of raters or categories, of ties (by
    default ``tie`` where there is one), and of who was at home or shown first. Returns
    the different answers in alphabetical order: the columns ``winner``, ``loser``,
    ``tie`` and ``count``; ``rater``, ``home`` and ``both_bad`` where the file says so.
    Beside them, the columns of the file that say nothing here.
    """
    table = CsvTable.read(path)
    first = next((name for name in SIDES if name in table.header), None)
    # A table of winners and losers may say in a column "home" who was there.
    sides = None if first is None or LOSER in table.header else (first, SIDES[first])
    answers = _read_pairs(table, tie, sides)
    if (itself := answers[WINNER] == answers[LOSER]).any():
        row, column = int(itself.argmax()), LOSER if sides is None else sides[1]
        name = answers[LOSER][row]
        raise table.error(row, column, f"{name!r} meets itself: remove the line")
    if COUNT in table.header:
        counts = table.integers(COUNT, 1, MOST_COUNTED)
        if sum(counts) > MOST_COUNTED:
            raise FeedbackError(
                f"{path} counts {sum(counts)} answers, and the command ranks by at "
                f"most {MOST_COUNTED}: give smaller counts"
            )
        answers[COUNT] = counts
    if by is not None:
        answers[RATER] = table.texts(by)
    if home is not None:
        answers[HOME] = _read_home(table, home, answers)
    counted = answers if COUNT in answers.columns else answers.assign(**{COUNT: 1})
    said = [name for name in counted.columns if name != COUNT]
    merged = counted.groupby(said, sort=False, dropna=False)[COUNT].sum().reset_index()
    read = {WINNER, COUNT, by, home, *(sides or (LOSER, tie or TIE))}
    unread = [name for name in table.header if name and name not in read]
    return merged.sort_values(said, ignore_index=True), unread


def _read_pairs(
    table: CsvTable, tie: str | None, sides: tuple[str, str] | None
) -> DataFrame:
    """Winners, losers, whether they are tied, and whether both were called bad."""
    frame = data_frame_class()
    if sides is None:
        answers = frame({side: table.texts(side) for side in (WINNER, LOSER)})
        column = TIE if tie is None and TIE in table.header else tie
        answers[TIE] = False if column is None else table.truths(column)
        return answers
    if tie is not None:
        raise FeedbackError(
            f"{table.path} has the column {sides[0]}, so that {WINNER} says which "
            "answers are ties: leave out --tie"
        )
    first, second = map(table.texts, sides)
    answers = frame({WINNER: first, LOSER: second})
    said = [cell.lower() for cell in table.texts(WINNER)]
    for row, cell in enumerate(said):
        if cell not in {*sides, *TIES, *BAD}:
            what = f"{cell!r} is none of {', '.join(sides)}, tie and tie (bothbad)"
            raise table.error(row, WINNER, f"{what}: correct the file")
    turned = [cell == sides[1] for cell in said]
    answers.loc[turned, [WINNER, LOSER]] = answers.loc[turned, [LOSER, WINNER]].values
    answers[TIE] = [cell not in sides for cell in said]
    if BAD.intersection(said):
        answers[BOTH_BAD] = [cell in BAD for cell in said]
    return answers


def _read_home(table: CsvTable, column: str, answers: DataFrame) -> list[str | None]:
    """Who of each answer was at home; None on neutral ground."""
    if LOSER in table.header and column in (WINNER, LOSER):
        raise FeedbackError(
            f"--home is {column}, which says who won, not who was at home or shown "
            "first: name a column that does, with one of the two items in each cell"
        )
    home = table.texts(column, may_be_empty=True)
    both_sides = answers[WINNER], answers[LOSER]
    for row, (name, *both) in enumerate(zip(home, *both_sides, strict=True)):
        if name and name not in both:
            what = f"{name!r} is neither {both[0]!r} nor {both[1]!r}"
            raise table.error(row, column, f"{what}: correct it, or empty it")
    return [name or None for name in home]


def read_items(path: Path | None, answers: DataFrame) -> ItemTable:
    """Reads the features of items; without a file, the items that answers name."""
    frame, named = data_frame_class(), {*answers[WINNER], *answers[LOSER]}
    if path is None:
        names = sorted(named)
        _check_size(len(names), "items")
        return ItemTable.from_frame(frame(index=names))
    table = CsvTable.read(path)
    if not table.header:
        raise FeedbackError(f"{path} is empty: give it a header, and a row each item")
    names = table.texts(table.header[0])
    if unknown := sorted(named - {*names}):
        name = unknown[0]
        like = [n for n in names if as_read(n) == as_read(name)]
        instead = f", or write {like[0]!a} for {name!a}" if like else ""
        raise FeedbackError(
            f"{path} lacks the item {name!r}, which an answer names: add it{instead}"
        )
    features = frame(index=names)
    if (twice := features.index.duplicated()).any():
        row = int(twice.argmax())
        what = f"{names[row]!r} is there twice: remove one line"
        raise table.error(row, table.header[0], what)
    for place, column in enumerate(table.header[1:], 1):
        if column:
            features[column] = table.numbers_or_words([column])
        elif any("".join(row[place : place + 1]).strip() for row in table.rows):
            raise FeedbackError(
                f"{path} has cells in column {place + 1}, which has no name: name it, "
                "or empty it"
            )
    _check_size(len(names), "items")
    known = ItemTable.from_frame(features)
    if not known.feature_names:
        raise FeedbackError(
            f"{path} has no feature in which items differ: add one, or drop --items"
        )
    return known


def _check_size(count: int, what: str) -> None:
    if count > MOST_POINTS:
        raise FeedbackError(
            f"There are {count} {what}, and the command ranks at most {MOST_POINTS}: "
            "leave out those with few answers, or --rater and --category."
        )


def _tell_duration(items: ItemTable, answers: DataFrame) -> None:
    """Says about how long this will take, if that is a minute or more."""
    count, what = len(items.names), "items"
    if RATER in answers.columns:
        named = [*answers[WINNER], *answers[LOSER]]
        count = len({*zip(named, [*answers[RATER]] * 2, strict=True)})
        what = "pairs of an item and a group"
        _check_size(count, what)
    slow = bool(answers[TIE].any()) and len(answers) <= MOST_ANSWERS
    if minutes := round(MINUTES[slow] * (count / 1000) ** 3):
        long = f"{minutes} minute{'s' * (minutes > 1)} or more"
        print(f"{count:,} {what}: this takes {long}.", flush=True)


# --- From answers to boards


def rank_items(
    items: ItemTable,
    answers: DataFrame,
    *,
    known: bool,
    each: bool,
    noisy: bool = False,
) -> Ranking:
    r"""Fits one model to all answers and ranks the items by it.

    Items without features have independent utilities of one variance, which the
    evidence chooses under the models' prior. With features, the utility is what these
    say, under the default kernel of the models, and something of each item's own: two
    items with the same features differ. With groups in the column ``rater``, the kernel
    times :class:`.AgreementKernel`: what all groups share, and something of each
    group's own.
    Answers are Bradley and Terry's; where there are ties, Rao and Kupper's with a
    threshold for each item (:class:`.RaoKupperLikelihood`), or one for all where more
    than :data:`MOST_ANSWERS` different answers would make the fit slow. The scales are
    those of Laplace's evidence, the posterior is that of EP. With the column ``home``
    there is one weight of being there, and the ranks are those of neutral ground.
    ``known`` says whether items have features, ``each`` whether groups have boards, and
    ``noisy`` whether each group has a noise of its own.
    """
    if known:
        items = items.with_ids()
    points, feedback = items.points, items.comparisons(answers)
    kernel = _item_kernel(items, known)
    groups: tuple[Hashable, ...] = ()
    notes = _notes(items, answers, feedback, known)
    if RATER in answers.columns:
        points, feedback, groups = items.comparisons_by_rater(answers)
        column = (items.points.shape[-1],)
        kernel = ProductKernel(kernel, AgreementKernel(active_dims=column))
        if noisy:
            numbers = torch.arange(len(groups))
            kernel = ProductKernel(
                *kernel.kernels, ReliabilityKernel(numbers, active_dims=column)
            )
    likelihood: PairwiseLogitLikelihood | RaoKupperLikelihood
    if feedback.ties is None:
        likelihood = PairwiseLogitLikelihood()
    else:
        item = None
        if feedback.num_rows <= MOST_ANSWERS:
            # An item has one threshold, whichever group a point is of.
            features = points[:, : items.points.shape[-1]]
            item = features.unique(dim=0, return_inverse=True)[1]
        likelihood = RaoKupperLikelihood(items=item)
    options = {"likelihood": likelihood, "covar_module": kernel}
    # Both engines find nearly the same scales, and Laplace's evidence is the fast one.
    quick = LaplacePreferenceGP(points, feedback, **options)
    fit_by_evidence(quick)
    model = EPPreferenceGP(points, feedback, **options).eval()
    model.covariate_module = quick.covariate_module
    everybody = torch.arange(len(groups)) if groups else None
    chosen: list[tuple[str | None, Tensor | None]] = [(None, everybody)]
    if each:
        chosen += [(str(name), torch.tensor([i])) for i, name in enumerate(groups)]
    # Workers get the posterior with the model.
    model.solution()
    tables = Parallel()(delayed(_centred_board)(model, items, own) for _, own in chosen)
    boards: Boards = {}
    for (group, _), table in zip(chosen, tables, strict=True):
        told = answers if group is None else answers[answers[RATER] == group]
        boards[group] = _with_answers(table, told)
    raters = rater_reliability(quick, groups) if noisy else None
    if HOME not in answers.columns:
        return Ranking(boards, notes, raters=raters)
    home = position_bias(model, LEVEL)
    return Ranking(boards, [*notes, _home_note(home)], home, raters)


def _home_note(home: PositionBias) -> str:
    added, low, high = home.utility
    share, least, most = (f"{100 * one:.0f}" for one in home.share)
    return (
        f"Being at home, or shown first, adds {added:+z.2f} to the utility (95 %: "
        f"{low:+z.2f} to {high:+z.2f}): between equals that one wins {share} % "
        f"of the duels that are no ties ({least} to {most} %). Ranks are without it."
    )


def _item_kernel(items: ItemTable, known: bool) -> Kernel:
    """The kernel of features, if they are ``known``, and of ids behind them."""
    width = items.points.shape[-1]
    count = width - len(items.names)
    # The linear kernel of one-hot ids is the identity, with a variance. Its prior is
    # that of the models' output scale: few answers say nothing of a scale. Beside
    # features, which mostly say less than all, zero is unlikely, and little likeliest.
    prior = GammaPrior(1.5, 1.0) if known else GammaPrior(2.0, 0.15)
    ids = LinearKernel(variance_prior=prior, active_dims=tuple(range(count, width)))
    if not known:
        return ids
    kernel = default_covar_module(count, torch.Size())
    kernel.active_dims = torch.arange(count)
    # In the other order a sum with a product of two matrices is decomposed for nothing.
    return ids + kernel


def _centred_board(
    model: EPPreferenceGP, items: ItemTable, numbers: Tensor | None
) -> DataFrame:
    """The leaderboard of utilities above their mean, of which duels say nothing."""
    table = leaderboard(model, items.points, items.names, numbers)
    ranked = model if numbers is None else GroupUtility(model, numbers)
    with torch.no_grad():
        posterior: Any = ranked.posterior(items.points)
        utilities = posterior.distribution
        covariance = utilities.covariance_matrix
        covariance = covariance - covariance.mean(0)
        deviation = (covariance - covariance.mean(-1, keepdim=True)).diagonal().sqrt()
        mean = utilities.mean - utilities.mean.mean()
    half, order = Z * deviation, items.places(table.index)
    ends = {"utility": mean, "lower": mean - half, "upper": mean + half}
    return table.assign(**{name: end[order].numpy() for name, end in ends.items()})


def _with_answers(table: DataFrame, answers: DataFrame) -> DataFrame:
    """The board with each item's number of answers and its share of `BOTH_BAD`."""
    number = _about_each(answers, answers[COUNT]).reindex(table.index, fill_value=0)
    table = table.assign(answers=number.astype(int))
    if BOTH_BAD in answers.columns:
        bad = _about_each(answers, answers[COUNT] * answers[BOTH_BAD])
        table[BOTH_BAD] = bad.reindex(table.index, fill_value=0) / number
    return table


def _about_each(answers: DataFrame, number: Series[int]) -> Series[float]:
    """Sums of a number of each answer over the answers about each item."""
    won, lost = (number.groupby(answers[side]).sum() for side in (WINNER, LOSER))
    return won.add(lost, fill_value=0)


def _notes(
    items: ItemTable, answers: DataFrame, feedback: Comparisons, known: bool
) -> list[str]:
    total = int(answers[COUNT].sum())
    ties = int((answers[COUNT] * answers[TIE]).sum())
    told = f"{total:,} answer{'s' * (total > 1)} about {len(items.names):,} items"
    notes = [told + (f", {ties:,} of them ties." if ties else ".")]
    group = connected_components(len(items.names), [feedback])
    # Items of a file with features need not have answers.
    parts = len(group[items.places(answers[WINNER].tolist())].unique())
    if parts > 1:
        between = "only features rank" if known else "the ranks are the prior's"
        notes.append(
            f"No answers connect {parts} groups of items: between groups {between}, "
            "and a duel across two groups teaches most."
        )
    notes += _doubtful_names(items, answers)
    _, lacking = readable_fonts(map(str, items.names))
    if lacking:
        more = _how_many_more(lacking, 10)
        notes.append(
            f"No font on this computer has {lacking[:10]!r}{more}: the figure shows "
            "boxes for these characters until you install one. The page and the table "
            "show them."
        )
    return notes


def _how_many_more(told: Sequence[object], most: int) -> str:
    return f" and {len(told) - most:,} more" if len(told) > most else ""


def _doubtful_names(items: ItemTable, answers: DataFrame) -> list[str]:
    """Sentences about names that may be misspelt, so that one item became two."""
    notes = _names_alike(map(str, items.names), "items")
    if RATER in answers.columns:
        notes += _names_alike(answers[RATER].unique(), "groups")
    number = _about_each(answers, answers[COUNT])
    once = [name for name, count in number.items() if count == 1]
    # Where many items have one answer, it says nothing of how they are written.
    if len(once) > len(number) / 10:
        few = len(once) <= 10
        once = [name for name in once if few and _is_near_another(name, number.index)]
    if once:
        told = ", ".join(map(repr, once[:10]))
        more = _how_many_more(once, 10)
        notes.append(
            f"In one answer alone: {told}{more}. A misspelt name is an item of its own."
        )
    return notes


def _names_alike(names: Iterable[str], what: str) -> list[str]:
    """A sentence about names that only look different, if there are some."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(as_read(name), []).append(name)
    same = [found for found in alike.values() if len(found) > 1]
    if not same:
        return []
    told = "; ".join(" and ".join(map(ascii, found)) for found in same[:5])
    more = _how_many_more(same, 5)
    note = (
        "These names differ only in capitals, spaces, zeros or coding of letters, and "
    )
    return [f"{note}are {what} of their own: {told}{more}."]


def _is_near_another(name: str, names: Iterable[str]) -> bool:
    """Whether a letter or two make one name the other, the numbers in both being equal.

    "Barolo 2015" and "Barolo 2016" are two wines.
    """
    numbers = re.findall(r"\d+", name)
    others = [o for o in names if o != name and re.findall(r"\d+", o) == numbers]
    return bool(get_close_matches(name, others, n=1, cutoff=0.8))
