"""One function decides what is asked, and every door of the library calls it."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.suite.cell import LIBRARY
from benchmarks.suite.runs.library import PlayerOfLibrary
from botorch_pref import DuelingMUC, default_model, next_question
from botorch_pref.__main__ import main
from botorch_pref.acquisition.registration import registered_acquisitions
from botorch_pref.asking import default_models, next_questions, reasons
from botorch_pref.feedback import Comparisons, Feedback, Rankings, Validity
from botorch_pref.simulation import make_problem

ROOT = Path(__file__).parents[1]

DOORS = [
    *("README.md", "docs/start.md", "tutorials/quick_start.ipynb"),
    *("botorch_pref/__main__.py", "botorch_pref/optuna.py"),
    *("botorch_pref/commands", "botorch_pref/ax", "botorch_pref/web"),
    "botorch_pref/simulation/question_loop.py",
    "benchmarks/suite/runs/library.py",
]
"""Pages on which somebody is asked something. Others are about single rules."""

Asked = list[tuple[int, int]]
"""The numbers of options and of parameters of questions."""


@pytest.fixture
def another_rule(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Puts another acquisition function in the place of all recommended ones."""
    asked: Asked = []

    def recommended(
        size: int, num_parameters: int, goal: str = "best"
    ) -> type[DuelingMUC]:
        asked.append((size, num_parameters))
        return DuelingMUC

    monkeypatch.setattr(next_questions, "recommended_acquisition", recommended)
    monkeypatch.setitem(reasons._PURPOSES, DuelingMUC, "for a test.")
    return asked


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """The kinds of answers of models whose likelihoods were the recommended ones."""
    kinds: list[type] = []
    recommended = default_models.likelihoods_of_people

    def recorded(feedback: Sequence[Feedback], *options: Any) -> Any:
        kinds.extend(map(type, feedback))
        return recommended(feedback, *options)

    monkeypatch.setattr(default_models, "likelihoods_of_people", recorded)
    return kinds


POINTS = torch.rand(12, 2, generator=torch.Generator().manual_seed(0)).double()
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()


def test_no_door_names_an_acquisition_function() -> None:
    names = [entry.cls.__name__ for entry in registered_acquisitions()]
    paths = [ROOT / door for door in DOORS]
    files = [f for p in paths for f in (p.rglob("*.py") if p.is_dir() else [p])]
    assert len(files) > 40
    for path in files:
        text = path.read_text(encoding="utf-8")
        named = [name for name in names if re.search(rf"\b{name}\b", text)]
        assert not named, f"{path.relative_to(ROOT)} decides by itself: {named}"


def test_no_page_teaches_another_likelihood_of_duels() -> None:
    """What a person's duels need is in `default_model`, and is no first line."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    pages += (ROOT / "tutorials").glob("*.ipynb")
    pages += (ROOT / "botorch_pref").rglob("*.py")
    for path in pages:
        teaches = "LapsingProbitLikelihood.default_for(None)" in path.read_text("utf-8")
        assert not teaches, f"{path.relative_to(ROOT)} has it"


def test_a_loop_asks_by_it(another_rule: Asked, fitted: list[type]) -> None:
    model = default_model(POINTS, torch.arange(12).view(6, 2))
    for size in (2, 3, 4):
        assert next_question(model, CUBE, size).acquisition == "DuelingMUC"
    assert another_rule == [(2, 2), (3, 2), (4, 2)]
    assert fitted == [Comparisons]


def test_the_main_command_asks_by_it(
    another_rule: Asked,
    fitted: list[type],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("botorch_pref.evaluation.progress.NUM_PATHS", 8)
    command = "--problem branin --questions 6 --out"
    assert main([*command.split(), str(tmp_path)]) == 0
    *_, last = (tmp_path / "run.jsonl").read_text("utf-8").splitlines()
    assert json.loads(last)["acquisition"] == "DuelingMUC"
    assert another_rule == [(4, 2)]
    assert set(fitted) == {Rankings}


def test_the_suite_asks_by_it(another_rule: Asked, fitted: list[type]) -> None:
    source = torch.Generator().manual_seed(0)
    player = PlayerOfLibrary(LIBRARY[1], make_problem("branin"), False, [source])
    player.learn(POINTS.view(1, 6, 2, 2))
    player.ask()
    assert another_rule == [(2, 2)]
    assert set(fitted) == {Comparisons}


def test_the_sampler_of_optuna_asks_by_it(
    another_rule: Asked, fitted: list[type]
) -> None:
    pytest.importorskip("optuna", reason="the host is not installed")
    dashboard = pytest.importorskip("optuna_dashboard.preferential")
    from optuna.trial import TrialState

    from botorch_pref.optuna import PreferenceSampler

    study = dashboard.create_study(n_generate=2, sampler=PreferenceSampler(seed=0))
    trials = [study.ask() for _ in range(7)]
    for trial in trials:
        trial.suggest_float("x", 0.0, 1.0)
        trial.suggest_categorical("kind", ["a", "b", "c"])
    for worse in study.trials[1:-1]:
        study.report_preference(study.trials[0], worse)
    # That one may fail is learned by the same model.
    study._study.tell(trials[-1], state=TrialState.FAIL)
    study.ask().suggest_float("x", 0.0, 1.0)
    # The one that has never lost is shown beside the new one.
    assert another_rule == [(2, 2)]
    assert set(fitted) == {Comparisons, Validity}


@pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning")
def test_experiments_ask_by_it(
    tmp_path: Path, fitted: list[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so does their page, which asks what `ask` returns."""
    configs = pytest.importorskip("ax.api.configs", reason="the host is not installed")
    from botorch_pref.ax import PreferenceExperiment, naming, settings

    recorded = default_models.likelihoods_of_people
    monkeypatch.setattr(naming, "likelihoods_of_people", recorded)

    asked: Asked = []
    made: list[object] = []

    def recommended(size: int, num_parameters: int) -> type[DuelingMUC]:
        asked.append((size, num_parameters))
        return DuelingMUC

    monkeypatch.setattr(settings, "recommended_acquisition", recommended)
    forward = DuelingMUC.forward
    monkeypatch.setattr(
        DuelingMUC, "forward", lambda rule, X: made.append(rule) or forward(rule, X)
    )
    experiment = PreferenceExperiment.create(
        "rule",
        parameters=[
            configs.RangeParameterConfig(
                name=name, parameter_type="float", bounds=(0, 1)
            )
            for name in "xy"
        ],
        storage=tmp_path / "rule.db",
    )
    for pair in POINTS.view(6, 2, 2).tolist():
        designs = [dict(zip("xy", design, strict=True)) for design in pair]
        experiment.record(designs, winner=0)
    experiment.ask(2)
    assert (2, 2) in asked
    assert made
    assert set(fitted) == {Comparisons}
