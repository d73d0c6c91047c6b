"""Runs of the suite: played, written, on a cluster, into records."""

import csv
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from cases import in_turn
from tiny_study import CELLS, RANDOM, SETTING, UCB, row

from benchmarks.suite.cell import OPTUNA, Cell, Rule, Setting
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.runs.judges import judge_generator, make_judge
from benchmarks.suite.runs.play import COLUMNS, Outcome, basin_regret, is_repeated, play
from benchmarks.suite.runs.rivals import ATTEMPTS, OptunaDashboard, decided
from benchmarks.suite.runs.schedule import run_cells
from benchmarks.suite.runs.store import (
    collect,
    differences,
    is_done,
    on_record,
    read_record,
    read_runs,
    run_path,
    write_record,
    write_run,
)
from botorch_pref.feedback import Comparisons
from botorch_pref.simulation import make_problem


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs of the study, which no test changes."""
    folder = tmp_path_factory.mktemp("played")
    assert not run_cells(CELLS, folder, jobs=1)
    return folder


def rows_of(folder: Path, cell: Cell) -> list[dict[str, str]]:
    with run_path(folder, cell).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def copy_runs(cells: list[Cell], played: Path, folder: Path) -> None:
    for cell in cells:
        path = run_path(folder, cell)
        path.parent.mkdir(exist_ok=True)
        shutil.copy(run_path(played, cell), path)


def packed_files(records: Path) -> dict[str, bytes]:
    """Lists the files of the record of the tiny study, by their names."""
    paths = sorted((records / "tiny").glob("*.csv.gz"))
    return {path.name: path.read_bytes() for path in paths}


def figures(cell: Cell) -> list[dict[str, str]]:
    outcome = play(cell)
    assert not outcome.error
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in outcome.rows]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


@pytest.mark.slow
def test_all_rules_start_with_the_same_duels_and_answers(played: Path) -> None:
    columns = ("regret_best_shown", "distance", "told_apart", "regret_recommended")
    random, ucb, third_rows = (rows_of(played, cell) for cell in CELLS[:3])
    assert [[row[name] for name in columns] for row in random[:2]] == [
        [row[name] for name in columns] for row in ucb[:2]
    ]
    assert random[2]["distance"] != ucb[2]["distance"]
    assert [row["chosen"] for row in ucb] == ["0", "0", "1", "1"]
    assert third_rows[0]["distance"] != random[0]["distance"]


@in_turn(("judge", "noise"), [("probit", 1.0), ("logistic", 1.0), ("lapses", 1.0)])
def test_answers_do_not_follow_from_the_points_of_the_first_duels(
    judge: str, noise: float
) -> None:
    """Of a person who sees no difference each answer is a coin, whatever is shown."""
    runs, duels = 400, 8
    answers, points = torch.empty(runs, duels), torch.empty(runs, 2 * duels)
    point = torch.zeros(1, dtype=torch.double)
    for seed in range(runs):
        ask = make_judge(Setting("branin", judge, noise), lambda X: X.sum(-1), seed)
        answers[seed] = torch.tensor([float(ask(point, point)) for _ in range(duels)])
        # The points of the first duels are the first numbers of the seed.
        source = torch.Generator().manual_seed(seed)
        points[seed] = torch.rand(2 * duels, generator=source, dtype=torch.double)
    # Halves and quarters of the cube: a coin's answers are right in a half of the
    # runs, with a deviation of 0.025. There are 8 x 16 x 2 pairs of them.
    parts = torch.cat([points < 0.5, (points * 4).floor() % 3 == 0], 1).float()
    right = (answers.unsqueeze(-1) == parts.unsqueeze(1)).float().mean(0)
    assert float((right - 0.5).abs().max()) < 4.5 * 0.025


def test_each_seed_and_stream_has_draws_of_its_own() -> None:
    keys = [(seed, stream) for seed in range(50) for stream in range(2)]
    first = [float(torch.rand((), generator=judge_generator(*key))) for key in keys]
    again = [float(torch.rand((), generator=judge_generator(*key))) for key in keys]
    assert first == again
    assert len(set(first)) == len(keys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [Rule("pairwise-gp", "qeubo"), OPTUNA, Rule("ep-rival-prior", "hbei")]
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("few_iterations")
def test_rivals_start_like_everybody_and_come_out_again(
    rule: Rule, played: Path
) -> None:
    if rule == OPTUNA:
        pytest.importorskip("optuna_dashboard", reason="the rival is not installed")
    setting = replace(SETTING, judge="ties")
    cell = replace(CELLS[0], setting=setting, rule=rule, num_duels=3)
    mine, ours = figures(cell), rows_of(played, CELLS[0])
    assert [row["distance"] for row in mine[:2]] == [
        row["distance"] for row in ours[:2]
    ]
    assert figures(cell) == mine


def test_a_rival_that_fails_or_proposes_the_incumbent_is_asked_again() -> None:
    pytest.importorskip("optuna_dashboard", reason="the rival is not installed")
    rival = OptunaDashboard(1, 1, torch.Generator().manual_seed(3))
    X, best = torch.tensor([[0.25], [0.75]]).double(), torch.tensor([0.75]).double()
    model = rival.fit(X, Comparisons(torch.tensor([[1, 0]])))
    stored = iter([0.75, None, 0.75, 0.5])

    def sampled(*_: object) -> dict[str, float]:
        value = next(stored, None)
        if value is None:
            raise torch.linalg.LinAlgError
        return {"x000": value}

    rival.sampler.sample_relative = sampled
    rival.proposed = best
    assert rival(1, model, best).challenger.tolist() == [0.5]
    rival.proposed = best
    with pytest.raises(SuiteError, match=f"no other point {ATTEMPTS} times"):
        rival(2, model, best)


@pytest.mark.slow
def test_what_is_done_is_not_run_again(tmp_path: Path, played: Path) -> None:
    copy_runs(CELLS, played, tmp_path)
    assert all(is_done(tmp_path, cell) for cell in CELLS)
    before = read_runs(tmp_path, "tiny").drop(columns="seconds")
    assert len(before) == 4 * 4
    # One run is gone, one was cut off, one was of fewer duels, one is kept.
    paths = [run_path(tmp_path, cell) for cell in CELLS]
    paths[0].rename(paths[0].with_suffix(".part"))
    paths[1].write_text("\n".join(paths[1].read_text().splitlines()[:3]) + "\n")
    stamp = paths[3].stat().st_mtime_ns
    assert [is_done(tmp_path, cell) for cell in CELLS] == [False, False, True, True]
    assert not run_cells(CELLS, tmp_path, jobs=1)
    assert read_runs(tmp_path, "tiny").drop(columns="seconds").equals(before)
    assert paths[3].stat().st_mtime_ns == stamp


def test_a_run_that_fails_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    broken = replace(CELLS[0], setting=Setting("branin", "exact", 1.0))
    (failed,) = run_cells([broken, CELLS[0]], tmp_path, jobs=1)
    assert "an exact judge has noise 0" in failed.error
    assert failed.reason.endswith("an exact judge has noise 0, not 1.0")
    assert not is_done(tmp_path, broken)
    assert is_done(tmp_path, CELLS[0])


def test_a_regret_that_is_not_a_number_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nowhere = replace(make_problem("branin"), best=np.nan)
    monkeypatch.setattr("benchmarks.suite.runs.play.make_problem", lambda name: nowhere)
    assert play(CELLS[0]).reason.endswith("duel 0: the regret is not a number")


@pytest.mark.slow
def test_records_are_the_same_for_the_same_runs_and_take_new_ones(
    tmp_path: Path, played: Path
) -> None:
    copy_runs(CELLS[:2], played, tmp_path)
    assert collect(tmp_path, "tiny", tmp_path) == 2
    packed = packed_files(tmp_path)
    assert list(packed) == ["laplace_random.csv.gz", "laplace_ucb.csv.gz"]
    assert collect(tmp_path, "tiny", tmp_path) == 2
    assert packed_files(tmp_path) == packed
    run_path(tmp_path, CELLS[0]).unlink()
    copy_runs(CELLS[2:3], played, tmp_path)
    assert collect(tmp_path, "tiny", tmp_path) == 3
    assert CELLS[2].rule == RANDOM
    assert packed_files(tmp_path)["laplace_ucb.csv.gz"] == packed["laplace_ucb.csv.gz"]
    record = read_record("tiny", tmp_path)
    assert record[["model", "acquisition", "seed"]].drop_duplicates().shape[0] == 3
    # Seconds and warnings may be others.
    changes = {"seconds": "9", "warnings": "9"}
    rows = [tuple((row | changes).values()) for row in rows_of(played, CELLS[0])]
    assert differences(record, CELLS[0], rows) == []
    changed = [*rows[:2], (*rows[2][:8], "0.5", *rows[2][9:]), *rows[3:]]
    assert differences(record, CELLS[0], changed) == [2]
    assert on_record(record, CELLS) == CELLS[:3]
    assert read_record("no such study", tmp_path).empty


@in_turn(
    ("name", "inputs", "top"),
    [
        # Both of the second best humps are 0.816 below, from BoTorch's optima.
        ("sixhumpcamel", [(-1.6 + 3) / 6, (0.55 + 2) / 4], 0.8162),
        ("sixhumpcamel", [(0.12 + 3) / 6, (-0.7 + 2) / 4], 0.0),
        # Sasena's optimum is at the edge of what is valid.
        ("sasena", [2.8 / 5, 2.38 / 5], 0.0),
        ("hartmann6", [0.4, 0.88, 0.87, 0.57, 0.11, 0.04], 0.1192),
    ],
)
def test_the_hill_of_a_point(name: str, inputs: list[float], top: float) -> None:
    point = torch.tensor(inputs, dtype=torch.double)
    assert basin_regret(make_problem(name), point) == pytest.approx(top, abs=0.01)


def test_a_question_is_repeated_in_either_order() -> None:
    options = torch.tensor([[[0.1, 0.2], [0.3, 0.4]]]).double()
    again, near = options[0].flip(0), options[0] + 0.01
    assert is_repeated(again, options)
    assert not is_repeated(near, options)
    assert not is_repeated(again, options[:0])


def test_software_without_ties_hears_one_win_of_each() -> None:
    first_pair, second_pair = torch.tensor([[0, 1]]), torch.tensor([[2, 3]])
    assert decided(Comparisons(first_pair, ties=second_pair)).tolist() == [
        [0, 1],
        [2, 3],
        [3, 2],
    ]
    assert decided(Comparisons(None, ties=second_pair)).tolist() == [[2, 3], [3, 2]]


def written(folder: Path, *rows: dict) -> Path:
    """Writes the file of a run in the folder of the tiny study's, or some of it."""
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
    write_record(pd.read_csv(path), tmp_path / "tiny")
    with pytest.raises(SuiteError, match=f"tiny: .*{says}.*from git"):
        read_record("tiny", tmp_path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, row(UCB, 0, 0, 0.5))
    text = path.read_text()
    record = tmp_path / "tiny" / "laplace_ucb.csv.gz"
    assert collect(tmp_path, "tiny", tmp_path) == 1
    packed = record.read_bytes()
    for damaged in (b"", b"study,problem\n", packed[:60], b"\xff\xfe"):
        record.write_bytes(damaged)
        with pytest.raises(SuiteError, match=r"laplace_ucb\.csv\.gz .*git"):
            collect(tmp_path, "tiny", tmp_path)
        assert record.read_bytes() == damaged
    record.write_bytes(packed)
    path.write_text("\n".join(line.rpartition(",")[0] for line in text.splitlines()))
    with pytest.raises(
        SuiteError, match=r"run\.csv is of other columns.*regret_anywhere"
    ):
        collect(tmp_path, "tiny", tmp_path)
    path.rename(run_path(tmp_path, replace(CELLS[0], num_duels=1)))
    assert not is_done(tmp_path, replace(CELLS[0], num_duels=1))
    assert record.read_bytes() == packed


def test_a_file_of_a_rule_does_not_depend_on_other_runs(tmp_path: Path) -> None:
    """Noise and rates that are whole in all runs of a rule, and not in another's."""
    written(tmp_path, row(UCB, 0, 0, 1))
    assert collect(tmp_path, "tiny", tmp_path) == 1
    (alone,) = packed_files(tmp_path).items()
    other = row(RANDOM, 0, 0, 0.5, noise=0.5, told_apart=0.75, basin_regret=0.25)
    written(tmp_path, other)
    assert collect(tmp_path, "tiny", tmp_path) == 2
    assert alone in packed_files(tmp_path).items()
    written(tmp_path, row(UCB, 0, 0, 1), other)
    assert collect(tmp_path, "tiny", tmp_path) == 2
    assert alone in packed_files(tmp_path).items()


def test_a_record_has_the_digits_that_are_read_and_changes_with_its_runs(
    tmp_path: Path,
) -> None:
    """A file from before rounding stays until its rule has another start."""
    full = {"seconds": 0.0123456, "distance": 0.123456, "told_apart": 0.654321}
    full |= {"basin_regret": 1.23457, "regret_anywhere": 0.345678}
    rows = [row(rule, 0, 0, 0.765432) | full for rule in (RANDOM, UCB)]
    written(tmp_path, *rows)
    for record in rows:
        path = tmp_path / "tiny" / f"laplace_{record['acquisition']}.csv.gz"
        pd.DataFrame([record], columns=COLUMNS).to_csv(path, index=False)
    before = packed_files(tmp_path)
    assert collect(tmp_path, "tiny", tmp_path) == 2
    assert packed_files(tmp_path) == before
    written(tmp_path, *rows, rows[1] | {"seed": 1})
    assert collect(tmp_path, "tiny", tmp_path) == 3
    after = packed_files(tmp_path)
    changed = [name for name in after if after[name] != before[name]]
    assert changed == ["laplace_ucb.csv.gz"]
    short = read_record("tiny", tmp_path).iloc[1:].to_dict("records")
    rounded = {"seconds": 0.012, "distance": 0.123, "told_apart": 0.654}
    assert short == [rows[1] | rounded | {"seed": seed} for seed in range(2)]
    assert collect(tmp_path, "tiny", tmp_path) == 3
    assert packed_files(tmp_path) == after


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
