"""The command line of the suite, and what its studies declare."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from tiny_study import CELLS, RANDOM, STUDY

from benchmarks.suite.__main__ import main
from benchmarks.suite.cell import OPTUNA, Cell, Rule, Setting
from benchmarks.suite.runs.judges import JUDGES
from benchmarks.suite.runs.players import check_rule
from benchmarks.suite.runs.store import run_path
from benchmarks.suite.studies import STUDIES
from benchmarks.suite.studies.calibration import probit_deviation, tie_threshold
from benchmarks.suite.studies.own import ERRORS
from benchmarks.suite.studies.study import Study
from botorch_pref.simulation import make_problem


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
    assert main(["report", *folder, "--pages", str(tmp_path / "pages")]) == 2
    assert "--pages shows all studies" in capsys.readouterr().err
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
    output = capsys.readouterr().out
    assert (
        output
        == f"tiny: 2 runs in {tmp_path / 'records'}, 1 of them kept from before\n"
    )
    assert main(["report", *folder, *figures]) == 0
    assert "| laplace, random | 1 |" in capsys.readouterr().out
    # Again to the same figures, unless a figure on record is another.
    folder += only[:2]
    assert main(["check", *folder]) == 0
    assert "0 duels differ" in capsys.readouterr().out
    record = tmp_path / "records" / "tiny" / f"{RANDOM.key}.csv.gz"
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
        (["--study", "unjudged"], "unknown judge 'nobody': coin"),
        (["--study", "unruly"], "unknown model 'nobody': there are ep"),
        (["--study", "clueless"], "unknown acquisition 'guess': there are"),
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
        "clueless": replace(STUDY, rules=(Rule("ep", "guess"),)),
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
    output = capsys.readouterr().out
    assert "the same command goes on" in output
    assert "0 of 4 runs" in output


def test_without_a_rival_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(STUDIES, "tiny", replace(STUDY, rules=(RANDOM, OPTUNA)))
    monkeypatch.setattr("benchmarks.suite.runs.players.find_spec", lambda name: None)
    assert main(["run", "--study", "tiny", "--runs", str(tmp_path), "--list"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(
        "2 runs are left out, without optuna-dashboard; pip install"
    )
    assert output.count("tiny branin") == 2


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_all_that_studies_name_is_there(study: Study) -> None:
    cells = list(study.cells())
    assert len({cell.key for cell in cells}) == len(cells)
    claimed = [rule for c in study.claims for rule in (c.better, c.worse)]
    assert {*claimed, study.reference} <= set(study.rules)
    for rule in study.rules:
        check_rule(rule)
    for setting in study.settings:
        problem = make_problem(setting.problem)
        judge = JUDGES[setting.judge](problem.utility, setting.noise, 0)
        points = torch.zeros(2, problem.dim).double()
        assert judge.probability(*points) == pytest.approx(0.5, abs=1e-12)


def test_a_study_is_declared_as_the_page_says() -> None:
    readme = Path(__file__).parents[2] / "benchmarks" / "README.md"
    (code,) = re.findall(r"```python\n(.*?)```", readme.read_text("utf-8"), re.DOTALL)
    declared: dict = {}
    exec(code, declared)
    study = declared["STUDY"]
    assert len(list(study.cells())) == 20 * 2 * 5
    assert study.settings[1].noise == ERRORS["branin"][1]
    for rule in study.rules:
        check_rule(rule)


def test_the_noise_of_a_study_is_what_it_says() -> None:
    """By other points than those of the calibration: shares are right within 2 %."""
    problem = make_problem("sixhumpcamel-narrow")
    X = torch.rand(2**17, 2, generator=torch.Generator().manual_seed(1)).double()
    best = problem.utility(X).sort().values[-1310:]
    gaps = (best[:, None] - best).abs()
    *deviations, threshold = ERRORS["sixhumpcamel-narrow"]
    for share, deviation in zip((0.1, 0.2, 0.3), deviations, strict=True):
        errors = torch.special.ndtr(-gaps / (2**0.5 * deviation)).mean().item()
        assert errors == pytest.approx(share, abs=0.02)
    assert (gaps <= threshold).double().mean().item() == pytest.approx(0.2, abs=0.02)


def test_calibration_is_what_the_studies_have() -> None:
    *deviations, threshold = ERRORS["branin"]
    assert probit_deviation("branin", 0.2) == pytest.approx(deviations[1], rel=0.01)
    assert tie_threshold("branin", 0.2) == pytest.approx(threshold, rel=0.01)
