"""Files of runs and records of the suite that are damaged, or do not go together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tiny_study import CELLS, UCB, row

from benchmarks.suite.errors import SuiteError
from benchmarks.suite.runs.play import COLUMNS, Outcome
from benchmarks.suite.runs.store import (
    collect,
    is_done,
    read_record,
    read_runs,
    run_path,
    write_run,
)


def written(folder: Path, *rows: dict) -> Path:
    """The file of a run in the folder of the tiny study's, or some of it."""
    path = folder / "tiny" / "run.csv"
    path.parent.mkdir(exist_ok=True)
    pd.DataFrame(rows, columns=COLUMNS).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            [row(UCB, 0, 1, 0.5)],
            "p exact 0.0 laplace ucb 2 best 0 has a duel twice or not",
        ),
        ([row(UCB, 0, 0, 0.5)] * 2, "has a duel twice or not"),
        ([row(UCB, 0, 0, np.nan)], "has a regret that is not a number"),
        (
            [row(UCB, 0, 0, 0.5), row(UCB, 1, 0, 0.5), row(UCB, 1, 1, 0.5)],
            "laplace ucb 2 best 0 has fewer duels than another, which has 2",
        ),
    ],
)
def test_runs_that_are_none_are_refused(
    rows: list[dict], says: str, tmp_path: Path
) -> None:
    path = written(tmp_path, *rows)
    with pytest.raises(SuiteError, match=f"{says}.*run it again"):
        read_runs(tmp_path, "tiny")
    pd.read_csv(path).to_csv(tmp_path / "tiny.csv.gz", index=False)
    with pytest.raises(SuiteError, match=f"tiny.csv.gz.*{says}.*from git"):
        read_record("tiny", tmp_path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, row(UCB, 0, 0, 0.5))
    whole = path.read_text()
    record = tmp_path / "tiny.csv.gz"
    assert collect(tmp_path, "tiny", tmp_path) == 1
    packed = record.read_bytes()
    for damaged in (b"", b"study,problem\n", packed[:60], b"\xff\xfe"):
        record.write_bytes(damaged)
        with pytest.raises(SuiteError, match=r"tiny\.csv\.gz .*git"):
            collect(tmp_path, "tiny", tmp_path)
        assert record.read_bytes() == damaged
    record.write_bytes(packed)
    path.write_text("\n".join(line.rpartition(",")[0] for line in whole.splitlines()))
    with pytest.raises(SuiteError, match=r"run\.csv is of other columns.*basin_regret"):
        collect(tmp_path, "tiny", tmp_path)
    path.rename(run_path(tmp_path, replace(CELLS[0], num_duels=1)))
    assert not is_done(tmp_path, replace(CELLS[0], num_duels=1))
    assert record.read_bytes() == packed


def test_runs_of_another_length_do_not_join_a_record(tmp_path: Path) -> None:
    written(tmp_path, row(UCB, 0, 0, 0.5))
    assert collect(tmp_path, "tiny", tmp_path) == 1
    written(tmp_path, *(row(UCB, 1, duel, 0.5) for duel in range(2)))
    with pytest.raises(SuiteError, match="fewer duels than another, which has 2"):
        collect(tmp_path, "tiny", tmp_path)
    written(tmp_path, *(row(UCB, 0, duel, 0.25) for duel in range(2)))
    assert collect(tmp_path, "tiny", tmp_path) == 1
    assert len(read_record("tiny", tmp_path)) == 2


def test_two_writers_of_one_run_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writes the same run while this one has written, and not renamed."""
    outcome = Outcome(CELLS[0], (("1",) * len(COLUMNS),))
    rename = Path.replace

    def last(part: Path, path: Path) -> Path:
        monkeypatch.setattr(Path, "replace", rename)
        write_run(tmp_path, outcome)
        return rename(part, path)

    monkeypatch.setattr(Path, "replace", last)
    write_run(tmp_path, outcome)
    (path,) = run_path(tmp_path, CELLS[0]).parent.iterdir()
    assert path == run_path(tmp_path, CELLS[0])
