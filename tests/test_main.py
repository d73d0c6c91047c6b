import json
import re
import runpy
import signal
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

from benchmarks.suite.runs.registry import (
    ACQUISITIONS,
    IMPROVEMENT_WEIGHT,
    NOISE,
    make_fit,
)
from botorch_pref import (
    Comparisons,
    DuelingEIIG,
    DuelKernel,
    EPPreferenceGP,
    Rankings,
    default_model,
    incumbent,
    next_question,
)
from botorch_pref.__main__ import main
from botorch_pref.commands.optimise import in_words
from botorch_pref.evaluation import StoppingAdvice
from botorch_pref.simulation import make_problem

CSV = "winner_a,winner_b,loser_a,loser_b\n" + "".join(
    f"{i % 5},{i % 3},{i % 5 - 1 - i % 2},{(i + 1) % 3}\n" for i in range(20)
)


@pytest.fixture(autouse=True)
def _few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advice from a coarse grid and few functions is advice."""
    monkeypatch.setattr("botorch_pref.evaluation.progress.NUM_CANDIDATES", 64)
    monkeypatch.setattr("botorch_pref.evaluation.progress.NUM_PATHS", 8)


def test_the_noise_of_a_judge_who_never_errs_is_learned() -> None:
    """Fine differences that agree lower it; where each third answer is wrong, not."""
    steps = 0.5 ** torch.arange(1, 13, dtype=torch.double)
    X = torch.cat([0.4 + 0.4 * steps, 0.4 - 0.3 * steps]).unsqueeze(-1)
    better = torch.arange(1, 12)
    pairs = torch.stack([better, better - 1], -1)
    pairs = torch.cat([pairs, pairs + 12, torch.stack([better + 12, better - 1], -1)])
    wrong = torch.arange(len(pairs)).remainder(3) == 0
    mistaken = torch.where(wrong.unsqueeze(-1), pairs.flip(-1), pairs)
    fit = make_fit("ep")
    agreed, confused = (
        float(fit(X, Comparisons(answers)).likelihood.noise.detach())
        for answers in (pairs, mistaken)
    )
    assert agreed < 1e-2 * NOISE < NOISE < confused
    errs = make_fit("ep", errs=True)(X, Comparisons(pairs))
    assert not errs.likelihood.raw_noise.requires_grad


def test_runs_of_other_settings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them has a folder by default, and the same settings the same one."""
    folders = []
    monkeypatch.setattr(
        "botorch_pref.commands.optimise.optimise",
        lambda settings, out: folders.append(out),
    )
    changes = "", "--noise 0.05", "--questions 9", "--options 2", "--seed 1"
    for change in (*changes, "--problem branin", ""):
        assert main(change.split()) == 0
    assert len({*folders}) == 6
    assert folders[-1] == folders[0]


def logged(folder: Path) -> list[dict]:
    """Reads the questions of a run, as its log has them."""
    lines = (folder / "run.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "noise"), [(4, 0), (2, 0.01)])
def test_a_run_asks_as_the_library_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int, noise: float
) -> None:
    options = f"--problem branin --options {size} --questions 7 --noise {noise}"
    assert main([*options.split(), "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    cube = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    X = torch.empty(0, 2).double()
    orders = torch.empty(0, size).long()
    model = None
    for question in logged(tmp_path):
        library_question = next_question(model, cube, size)
        assert question["acquisition"] == library_question.acquisition
        assert question["options"] == library_question.options.tolist()
        orders = torch.cat([orders, len(X) + torch.tensor([question["order"]])])
        X = torch.cat([X, library_question.options])
        model = default_model(X, Comparisons(orders) if size == 2 else Rankings(orders))
        assert question["incumbent"] == incumbent(model).flatten().tolist()
    problem = make_problem("branin")
    regret = float(problem.regret(incumbent(model)))
    assert f"a regret of {regret:.3g} is left" in output
    share = 1 - regret / (problem.best - float(problem.utility(X).min()))
    assert f"{100 * share:.3g} % of the way is done" in output
    assert re.search(r"^(Stop|Ask more)\. By the answers alone", output, re.MULTILINE)
    assert output.count("the model's favourite came") == 6
    assert (tmp_path / "run.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_seed_decides_the_run(tmp_path: Path) -> None:
    """Of the options at first, and of the draws of the rule."""

    def options(name: str, seed: int) -> list:
        choices = ["--questions", "6", "--seed", str(seed), "--problem", "sixhumpcamel"]
        assert main([*choices, "--out", str(tmp_path / name)]) == 0
        return [question["options"] for question in logged(tmp_path / name)]

    first, again, reseeded = options("a", 1), options("b", 1), options("c", 2)
    assert first == again
    assert all(mine != theirs for mine, theirs in zip(first, reseeded, strict=True))


def test_a_mixed_problem_is_asked_about_its_designs(tmp_path: Path) -> None:
    """Numbers with steps, choices and a limit of a sum."""
    options = "--problem mixed --questions 6 --out"
    assert main([*options.split(), str(tmp_path)]) == 0
    problem = make_problem("mixed")
    logged_options = torch.tensor(
        [question["options"] for question in logged(tmp_path)]
    )
    logged_options = logged_options.double()
    torch.testing.assert_close(
        problem.project(logged_options), logged_options, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(
    ("share", "chance", "start"),
    [(0.9, 0.1, "Stop. "), (0.1, 0.9, "Stop. "), (0.1, 0.1, "Ask more. ")],
)
def test_advice_has_the_reason_that_decides(
    share: float, chance: float, start: str
) -> None:
    """A judge who never errs prefers anything better: there the gain decides."""
    advice = StoppingAdvice(
        max(share, chance) > 0.75, 0.98, chance, 1.0, 0.02, share, 0
    )
    sentence = in_words(advice)
    assert sentence.startswith(start)
    assert f"by less than 10 % with a probability of {share:.2f}" in sentence
    assert ("preferred in 98 of 100" in sentence) == (share < 0.75)


@pytest.mark.filterwarnings("ignore:PlackettLuceRegression has few answers")
@pytest.mark.slow
def test_choices_are_scored_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "choices.csv"
    table.write_text(CSV)
    assert main(["--data", str(table), "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    for name in ("coin", "Bradley-Terry", "EPPreferenceGP", "PairwiseGP"):
        assert f"  {name} " in output
    assert output.count("held out, learning from all answers") == 1
    assert "20 answers about" in output
    assert "folds by answer" in output
    assert (tmp_path / "out" / "drivers.png").stat().st_size > 10_000


@pytest.mark.filterwarnings("ignore:PlackettLuceRegression has few answers")
def test_answers_that_are_all_alike_are_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "alike.csv"
    table.write_text("winner_a,loser_a\n1,2\n1,2\n")
    assert main(["--data", str(table), "--out", str(tmp_path)]) == 0
    assert "nats an answer, each the same" in capsys.readouterr().out


REFUSED = [
    "--questions 0",
    "--questions many",
    "--options 1",
    "--model ep",
    "--seed -1",
    f"--seed {2**63}",
    "--noise -0.1",
    "--noise nan",
    "--model gp",
    "--problem branin --data train",
    "--data train --questions 3",
]
UNUSABLE = [
    ("--problem hartman6", "unknown problem 'hartman6'"),
    ("--data absent.csv", "absent.csv"),
    ("--data alone.csv", "leave the column rater out"),
    ("--questions 1 --out file", "file"),
]


def test_what_cannot_be_run_is_said_and_ends_with_status_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("in the way of a folder")
    Path("alone.csv").write_text("rater,winner_a,loser_a\nann,1,2\nann,2,3\n")
    for options in REFUSED:
        with pytest.raises(SystemExit) as stop:
            main(options.split())
        assert stop.value.code == 2, f"status after {options}"
        assert "error: " in capsys.readouterr().err, f"no error after {options}"
    for options, message in UNUSABLE:
        assert main(options.split()) == 2, f"status after {options}"
        (error_line,) = capsys.readouterr().err.strip().splitlines()
        assert error_line.startswith("botorch_pref: error: "), f"no error: {options}"
        assert message in error_line


@pytest.mark.parametrize(
    ("name", "judge", "noise"),
    [("ep", 0.0, 1e-3), ("ep", 0.04, 1.0), ("skew", 0.0, 1e-3), ("laplace", 0.0, 1.0)],
)
def test_a_judge_who_errs_is_not_taken_at_her_word(
    name: str, judge: float, noise: float
) -> None:
    X = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)).double()
    fit = make_fit(name, errs=judge > 0)
    fitted = fit(X, Comparisons(torch.tensor([[0, 1], [2, 3]])))
    # Laplace's method cannot take anybody at her word.
    # Of a judge who never errs EP learns it, which two answers hardly move.
    assert float(fitted.likelihood.noise.detach()) == pytest.approx(noise, rel=0.1)
    assert isinstance(fitted.covar_module, DuelKernel)


def test_eiig_in_a_loop_has_the_weight_that_was_measured() -> None:
    X = torch.tensor([[0.1], [0.8]], dtype=torch.double)
    model = EPPreferenceGP(X, torch.tensor([[0, 1]])).eval()
    x = torch.tensor([[[0.4]]], dtype=torch.double)
    expected = DuelingEIIG(model, X[:1], k=IMPROVEMENT_WEIGHT)(x)
    assert torch.equal(ACQUISITIONS["eiig"](model, X[:1])(x), expected)
    assert IMPROVEMENT_WEIGHT == 0.2


def test_the_console_script_does_what_the_module_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    ((name, target),) = tomllib.loads(text)["project"]["scripts"].items()
    assert name == "botorch-pref"
    script = EntryPoint(name, target, "console_scripts").load()
    (tmp_path / "duels.csv").write_text("winner,loser\n" + "a,b\nb,c\n" * 3)
    handler = signal.getsignal(signal.SIGINT)
    try:
        for file, status in (("duels.csv", 0), ("none.csv", 2)):
            arguments = ["rank", str(tmp_path / file), "--out", str(tmp_path)]
            assert main(arguments) == status
            printed = capsys.readouterr()
            monkeypatch.setattr("sys.argv", [name, *arguments])
            with pytest.raises(SystemExit) as end:
                script()
            assert end.value.code == status
            assert capsys.readouterr() == printed
    finally:
        signal.signal(signal.SIGINT, handler)


def test_the_usage_names_the_program_that_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = EntryPoint("", "botorch_pref.__main__:run", "console_scripts").load()
    # As in a new interpreter, it is imported when it runs.
    monkeypatch.delitem(sys.modules, "botorch_pref.__main__")

    def run_module() -> None:
        runpy.run_module("botorch_pref", run_name="__main__", alter_sys=True)

    for path, program, start in (
        (str(tmp_path / "botorch-pref"), "botorch-pref", script),
        ("botorch-pref", "botorch-pref", script),
        ("", "python -m botorch_pref", run_module),
        # Of another program that runs the command line in its own process.
        (str(tmp_path / "lab.py"), "python -m botorch_pref", script),
    ):
        for command in ((), ("serve",), ("rank",)):
            monkeypatch.setattr("sys.argv", [path, *command, "--help"])
            with pytest.raises(SystemExit) as end:
                start()
            assert end.value.code == 0
            printed = " ".join(capsys.readouterr().out.split())
            called = " ".join([program, *command])
            assert printed.startswith(f"usage: {called} [-h]"), f"by {path!r}"
            if not command:
                for further in ("serve", "rank"):
                    assert f": {program} {further} --help." in printed
