"""Results of runs: a small file a run, and in a record a compressed table a rule."""

from __future__ import annotations

import csv
import gzip
import io
import uuid
import zlib
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import pandas as pd

from benchmarks.suite.cell import Cell, Rule
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.runs.play import COLUMNS, Outcome

_RULE = ["model", "acquisition", "options", "answer"]
_RUN = ["problem", "judge", "noise", *_RULE, "seed"]
_HEAD = ",".join(COLUMNS) + "\n"
_FIGURES = [
    *("noise", "regret_recommended", "regret_best_shown", "seconds", "distance"),
    *("told_apart", "basin_regret", "regret_anywhere"),
]
_DIGITS = {"seconds": 2, "distance": 3, "told_apart": 3}
"""Significant digits on record of what readers average, or hold against a bound."""


def run_path(folder: Path, cell: Cell) -> Path:
    """The file of a run in the folder of all runs."""
    return folder / cell.study / f"{cell.key}.csv"


def is_done(folder: Path, cell: Cell) -> bool:
    """Whether the file of a run is there, with all its duels and columns."""
    path = run_path(folder, cell)
    if not path.exists():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    return text.startswith(_HEAD) and text.count("\n") == cell.num_duels + 1


def check_writable(folder: Path) -> None:
    """Makes a folder, and checks that files can be written there.

    Raises:
        OSError: They cannot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder):
        pass


def write_run(folder: Path, outcome: Outcome) -> None:
    """Writes the file of a run: all of it or nothing."""
    path = run_path(folder, outcome.cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(outcome.rows)
    _write(path, text.getvalue().encode())


def _write(path: Path, content: bytes) -> None:
    """Writes a file, all of it or nothing, whoever else writes it."""
    part = path.with_suffix(f".{uuid.uuid4().hex}.part")
    part.write_bytes(content)
    part.replace(path)


def read_runs(folder: Path, study: str) -> pd.DataFrame:
    """All finished runs of a study, as they lie in the folder of runs.

    Raises:
        SuiteError: A file is not of a run, or runs do not go together.
    """
    table = _read_all((folder / study).glob("*.csv"))
    return _whole(table, f"{folder / study}: {{}}; delete its file and run it again")


def read_record(study: str, records: Path) -> pd.DataFrame:
    """The committed runs of a name; none where there is no folder of it.

    Raises:
        SuiteError: A file is damaged, or of other columns.
    """
    table = _read_all((records / study).glob("*.csv.gz"))
    return _whole(table, f"{records / study}: {{}}; take its file back from git")


def _read_all(paths: Iterable[Path]) -> pd.DataFrame:
    """The rows of some files, or none of no file."""
    tables = [_read(path) for path in sorted(paths)]
    return pd.concat(tables) if tables else pd.DataFrame(columns=COLUMNS)


def _read(path: Path) -> pd.DataFrame:
    """The rows of one file, of which only the columns are known to be right."""
    again = "delete the file and run it again, or take it back from git"
    try:
        # Else a column of whole figures would be written otherwise than one of others.
        table = pd.read_csv(path, dtype=dict.fromkeys(_FIGURES, float))
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise SuiteError(f"{path} cannot be read ({error}): {again}") from error
    differing = sorted(set(table.columns) ^ set(COLUMNS))
    if differing:
        named = ", ".join(map(str, differing[:4]))
        raise SuiteError(f"{path} is of other columns than today's ({named}): {again}")
    return table[list(COLUMNS)]


def _whole(table: pd.DataFrame, says: str) -> pd.DataFrame:
    """The rows of runs in order, if each has all duels once, and a regret for each.

    Args:
        table: The rows.
        says: The message with which others are refused, with a place for the reason.
    """
    table = _sorted(table)
    regrets = table[["regret_recommended", "regret_best_shown"]].to_numpy(float)
    runs = table.groupby(_RUN)["duel"]
    numbers = runs.transform("max") + 1
    reasons = {
        "has a duel twice or not at all": table["duel"] != runs.cumcount(),
        "has a regret that is not a number": ~np.isfinite(regrets).all(-1),
        f"has fewer duels than another, which has {numbers.max()}": (
            numbers != numbers.max()
        ),
    }
    for reason, wrong in reasons.items():
        if wrong.any():
            run = " ".join(map(str, table.loc[wrong, _RUN].iloc[0]))
            raise SuiteError(says.format(f"the run {run} {reason}"))
    return table


def collect(folder: Path, study: str, records: Path) -> int:
    """Puts the finished runs of a study into its record, in the place of older ones.

    Files of rules without such a run stay as they are.

    Returns:
        Number of runs in the record.

    Raises:
        SuiteError: A file is damaged, or runs do not go together.
    """
    new, old = read_runs(folder, study), read_record(study, records)
    kept = old.merge(new[_RUN].drop_duplicates(), how="left", on=_RUN, indicator=True)
    old = kept.loc[kept["_merge"] == "left_only", list(COLUMNS)]
    parts: Iterable[pd.DataFrame] = [part for part in (old, new) if len(part)]
    remedy = "collect under another --records, or run those on record again"
    says = f"{records / study} with {folder / study}: {{}}; {remedy}"
    table = _whole(pd.concat(parts), says)
    rules = new[_RULE].drop_duplicates()
    write_record(table.merge(rules, on=_RULE), records / study)
    return num_runs(table)


def write_record(runs: pd.DataFrame, folder: Path) -> None:
    """Writes the file of each rule, which is the same for the same runs.

    A file of these runs stays as it is, with the digits that it has.

    Args:
        runs: Their rows; a file has all of a rule, sorted, and no time.
        folder: The folder of the record.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for rule, of_rule in _rounded(_sorted(runs)).groupby(_RULE):
        path = folder / f"{Rule(*rule).key}.csv.gz"
        rows = of_rule.reset_index(drop=True)
        if path.exists() and _rounded(_read(path)).equals(rows):
            continue
        packed = io.BytesIO()
        with gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as file:
            file.write(rows.to_csv(index=False, lineterminator="\n").encode())
        _write(path, packed.getvalue())


def num_runs(table: pd.DataFrame) -> int:
    """The number of runs of some rows."""
    return len(table[_RUN].drop_duplicates())


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with the digits that a record has of them."""
    short = {
        name: [float(f"{figure:.{digits}g}") for figure in table[name]]
        for name, digits in _DIGITS.items()
    }
    return table.assign(**short)


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values([*_RUN, "duel"], ignore_index=True)


def on_record(record: pd.DataFrame, cells: Iterable[Cell]) -> list[Cell]:
    """Runs, of some, that a record has.

    Args:
        record: The committed runs of the study.
        cells: The runs.
    """
    there = set(record[_RUN].itertuples(index=False, name=None))
    return [cell for cell in cells if _names(cell) in there]


def _names(cell: Cell) -> tuple[str | float, ...]:
    """Values that set a run apart in a record, by `_RUN`."""
    setting, rule = cell.setting, cell.rule
    who = setting.problem, setting.judge, setting.noise
    return *who, rule.model, rule.acquisition, rule.options, rule.answer, cell.seed


def differences(
    record: pd.DataFrame, cell: Cell, rows: Iterable[tuple[str, ...]]
) -> list[int]:
    """Duels of a run whose figures are not those on record, to the digits of these.

    Seconds do not count, nor do warnings, which some libraries give once a process.

    Args:
        record: The committed runs of the study.
        cell: The run, which is one of them.
        rows: Its rows as they came out again.
    """
    of_cell = (record[_RUN] == pd.Series(_names(cell), _RUN)).all(axis=1)
    text = io.StringIO()
    csv.writer(text).writerows([COLUMNS, *rows])
    text.seek(0)
    apart = ["seconds", "warnings"]
    again = _rounded(pd.read_csv(text)).set_index("duel").drop(columns=apart)
    before = _rounded(record[of_cell]).set_index("duel").drop(columns=apart)
    again = again.reindex(before.index)
    same = (again == before) | (again.isna() & before.isna())
    return list(before.index[~same.all(axis=1)])
