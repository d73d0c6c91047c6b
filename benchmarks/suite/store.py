"""Results of runs: a small file a run, and a compressed table a study."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from benchmarks.suite.cell import Cell
from benchmarks.suite.play import COLUMNS, Outcome

_RUN = ["problem", "judge", "noise", "model", "acquisition", "seed"]


def run_path(folder: Path, cell: Cell) -> Path:
    """The file of a run in the folder of all runs."""
    return folder / cell.study / f"{cell.key}.csv"


def is_done(folder: Path, cell: Cell) -> bool:
    """Whether the file of a run is there, with all its duels."""
    path = run_path(folder, cell)
    if not path.exists():
        return False
    return path.read_text(encoding="utf-8").count("\n") == cell.num_duels + 1


def write_run(folder: Path, outcome: Outcome) -> None:
    """Writes the file of a run: all of it or nothing."""
    path = run_path(folder, outcome.cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(outcome.rows)
    part = path.with_suffix(".part")
    part.write_text(text.getvalue(), encoding="utf-8")
    part.replace(path)


def read_runs(folder: Path, study: str) -> pd.DataFrame:
    """All finished runs of a study, as they lie in the folder of runs."""
    paths = sorted((folder / study).glob("*.csv"))
    tables = [pd.read_csv(path) for path in paths]
    return _sorted(pd.concat(tables)) if tables else pd.DataFrame(columns=COLUMNS)


def read_record(study: str, records: Path) -> pd.DataFrame:
    """The committed runs of a name; none where there is no file of it."""
    path = records / f"{study}.csv.gz"
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=COLUMNS)


def collect(folder: Path, study: str, records: Path) -> int:
    """Puts the finished runs of a study into its record, in the place of older ones.

    The file is the same for the same runs: sorted, and without a time.

    Returns:
        Number of runs in the record.
    """
    new, old = read_runs(folder, study), read_record(study, records)
    kept = old.merge(new[_RUN].drop_duplicates(), how="left", on=_RUN, indicator=True)
    old = kept.loc[kept["_merge"] == "left_only", list(COLUMNS)]
    parts: Iterable[pd.DataFrame] = [part for part in (old, new) if len(part)]
    table = _sorted(pd.concat(parts))
    records.mkdir(parents=True, exist_ok=True)
    with (records / f"{study}.csv.gz").open("wb") as file:
        packed = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
        with packed, io.TextIOWrapper(packed, encoding="utf-8") as text:
            table.to_csv(text, index=False, lineterminator="\n")
    return len(table[_RUN].drop_duplicates())


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values([*_RUN, "duel"], ignore_index=True)


def differences(
    record: pd.DataFrame, cell: Cell, rows: Iterable[tuple[str, ...]]
) -> list[int]:
    """Duels of a run whose figures are not those on record.

    Seconds do not count, nor do warnings, which some libraries give once a process.

    Args:
        record: The committed runs of the study.
        cell: The run.
        rows: Its rows as they came out again.

    Returns:
        Their numbers; all of them where there are no rows.
    """
    setting, rule = cell.setting, cell.rule
    values = setting.problem, setting.judge, setting.noise, rule.model
    kept = record
    for name, value in zip(_RUN, (*values, rule.acquisition, cell.seed), strict=True):
        kept = kept[kept[name] == value]
    text = io.StringIO()
    csv.writer(text).writerows([COLUMNS, *rows])
    text.seek(0)
    apart = ["seconds", "warnings"]
    again = pd.read_csv(text).set_index("duel").drop(columns=apart)
    before = kept.set_index("duel").drop(columns=apart)
    again = again.reindex(before.index)
    same = (again == before) | (again.isna() & before.isna())
    return list(before.index[~same.all(axis=1)])
