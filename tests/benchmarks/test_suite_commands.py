"""The command line of the suite."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from tiny_study import CELLS, RANDOM, STUDY

from benchmarks.suite.__main__ import main
from benchmarks.suite.cell import OPTUNA, Cell, Rule, Setting
from benchmarks.suite.runs.store import (
    run_path,
)
from benchmarks.suite.studies import STUDIES


@pytest.mark.slow
def test_the_commands(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(STUDIES, "tiny", STUDY)
    folder = ["--study", "tiny", "--runs", str(tmp_path)]
    only = ["--acquisition", "random", "--seeds", "0:1"]
    assert main(["run", *folder, *only, "--list"]) == 0
    assert capsys.readouterr().out.split() == ["tiny", CELLS[0].key]
    assert main(["run", *folder, *only, "--jobs", "1"]) == 0
    assert "1 of 1 runs" in capsys.readouterr().out
    figures = ["--figures", str(tmp_path / "figures")]
    assert main(["report", *folder, *figures, "--uncollected"]) == 0
    assert "| laplace, random | 1 |" in capsys.readouterr().out
    assert main(["report", *folder, "--page", str(tmp_path / "page.md")]) == 2
    assert "--page shows all studies" in capsys.readouterr().err
    # What is there is not what would run.
    assert main(["run", *folder, "--seeds", "0:1", "--list"]) == 0
    assert capsys.readouterr().out.split() == ["tiny", CELLS[1].key]

    folder += ["--records", str(tmp_path / "records")]
    assert main(["collect", *folder]) == 0
    assert capsys.readouterr().out.endswith(", 0 of them kept from before\n")
    run_path(tmp_path, CELLS[0]).rename(tmp_path / "away")
    run_path(tmp_path, CELLS[1]).write_text(
        (tmp_path / "away").read_text().replace(",random,", ",ucb,")
    )
    assert main(["collect", *folder]) == 0
    told = capsys.readouterr().out
    assert (
        told == f"tiny: 2 runs in {tmp_path / 'records'}, 1 of them kept from before\n"
    )
    assert main(["report", *folder, *figures]) == 0
    assert "| laplace, random | 1 |" in capsys.readouterr().out
    # Again to the same figures, unless a figure on record is another.
    folder += only[:2]
    assert main(["check", *folder]) == 0
    assert "0 duels differ" in capsys.readouterr().out
    record = tmp_path / "records" / "tiny.csv.gz"
    table = pd.read_csv(record)
    table.loc[2, "regret_recommended"] += 0.5
    table.to_csv(record, index=False)
    assert main(["check", *folder]) == 1
    assert "1 duels differ" in capsys.readouterr().out
    assert main(["check", *folder, "--seeds", "1:2"]) == 2
    assert "no such run of tiny" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--seeds", "abc"], "'abc' should be FIRST:LAST"),
        (["--seeds", "5:3"], "'5:3' should be FIRST:LAST"),
        (["--seeds", "7:9"], "no run has a seed from 7 on: the last is 1"),
        (["--jobs", "0"], "0 processes run nothing: -1 is all cores"),
        (
            ["--jobs", "2", "--scheduler", "tcp://:1"],
            "not allowed with argument --jobs",
        ),
        (["--model", "laplace", "--model", "nobody"], "--model nobody: there are lap"),
        (["--runs", "/dev/null"], "/dev/null"),
        (["--study", "inference"], "inference has no runs of its own"),
        (["--study", "nowhere"], "unknown problem 'nowhere'"),
        (["--study", "unjudged"], "unknown judge 'nobody': exact"),
        (["--study", "unruly"], "unknown model 'nobody': there are ep"),
    ],
)
def test_what_cannot_run_is_told_before_anything_does(
    options: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = {
        "nowhere": replace(STUDY, settings=(Setting("nowhere"),)),
        "unjudged": replace(STUDY, settings=(Setting("branin", "nobody"),)),
        "unruly": replace(STUDY, rules=(Rule("nobody", "ucb"),)),
    }
    for name, study in {"tiny": STUDY, **wrong}.items():
        monkeypatch.setitem(STUDIES, name, replace(study, name=name))
    study_options = [] if "--study" in options else ["--study", "tiny"]
    try:
        status = main(["run", *study_options, *options])
    except SystemExit as refused:
        status = refused.code
    assert status == 2
    assert says in capsys.readouterr().err


def test_an_interrupted_run_says_how_it_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(cells: list[Cell]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(STUDIES, "tiny", STUDY)
    monkeypatch.setattr("benchmarks.suite.runs.schedule.play_together", interrupted)
    command = ["run", "--study", "tiny", "--runs", str(tmp_path), "--jobs", "1"]
    assert main(command) == 130
    told = capsys.readouterr().out
    assert "the same command goes on" in told
    assert "0 of 4 runs" in told


def test_without_a_rival_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(STUDIES, "tiny", replace(STUDY, rules=(RANDOM, OPTUNA)))
    monkeypatch.setattr("benchmarks.suite.runs.players.find_spec", lambda name: None)
    assert main(["run", "--study", "tiny", "--runs", str(tmp_path), "--list"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("2 runs are left out, without optuna-dashboard; pip install")
    assert told.count("tiny branin") == 2
