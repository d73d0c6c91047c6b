"""Choices and findings of another process, which are those made here."""

import json
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ax.api.configs import RangeParameterConfig
from espresso import QUICK, QUICK_FIT
from tea import OWN, create, stored

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError, InferenceWarning
from botorch_pref.web import worker as model_worker
from botorch_pref.web.worker import (
    LOGGER,
    ModelProcess,
    ModelWorker,
    ask_chosen,
    findings_of,
    packed_choices,
    packed_state,
)

# What is the same here and there does not depend on how long it is sought.
SHORT = {"optimizer_options": QUICK, "fit_options": QUICK_FIT}


@pytest.mark.slow
@pytest.mark.parametrize("answers", [0, 3])
def test_the_choice_is_the_same_elsewhere(tmp_path: Path, answers: int) -> None:
    """With no answer that of the spread, with three that of the model."""

    def told(name: str) -> PreferenceExperiment:
        experiment = create(tmp_path / name, initial=3, **SHORT)
        for _ in range(answers):
            experiment.tell(experiment.ask(2), winner=0)
        return experiment

    told("tea.db")
    twin = stored(tmp_path / "tea.db")
    (chosen,) = ask_chosen(
        twin, packed_choices(packed_state(twin), 2, ["ann"], {}), ["ann"]
    )
    assert chosen.rater == "ann"
    assert [question.options for question in twin.pending] == [chosen.options]
    assert chosen.options == told("other.db").ask(2).options


def few(storage: Path) -> PreferenceExperiment:
    """Makes an experiment of two options."""
    integer = RangeParameterConfig(name="x", parameter_type="int", bounds=(0, 1))
    return PreferenceExperiment.create("few", parameters=[integer], storage=storage)


def warn(number: int) -> int:
    """Warns as models do."""
    warnings.warn(f"did not converge {number}", InferenceWarning, stacklevel=2)
    return number


@pytest.mark.slow
def test_warnings_are_counted_and_logged_and_not_printed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = ModelWorker(create(tmp_path / "tea.db"), 2)

    def fails() -> None:
        warn(2)
        raise ExperimentError("after that")

    # In tests warnings are errors.
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert [worker.run_here(lambda: warn(1)) for _ in range(3)] == [1, 1, 1]
        with pytest.raises(ExperimentError, match="after that"):
            worker.run_here(fails)
    worker.experiment.record(OWN, winner=0)
    worker._can_move = False
    assert worker.findings()["warnings"] == [
        {"text": "InferenceWarning: did not converge 1", "times": 3},
        {"text": "InferenceWarning: did not converge 2", "times": 1},
    ]
    logged = [
        record.getMessage() for record in caplog.records if record.name == LOGGER.name
    ]
    assert len(logged) == 4
    assert "converge" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("apart", [True, False])
def test_what_ends_a_script_is_an_error_of_the_model(
    tmp_path: Path, apart: bool
) -> None:
    worker = ModelWorker(create(tmp_path / "tea.db"), 2, apart)
    with pytest.raises(RuntimeError, match="SystemExit: enough"):
        worker.run_here(lambda: sys.exit("enough"))


def test_findings_of_the_same_answers_are_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, calls = ModelWorker(create(tmp_path / "tea.db"), 2), []
    monkeypatch.setattr(
        worker, "_new_findings", lambda _: {"found": calls.append(0) or len(calls)}
    )
    assert [worker.findings()["found"] for _ in range(3)] == [1, 1, 1]
    worker.experiment.record(OWN, winner=0)
    assert [worker.findings()["found"] for _ in range(2)] == [2, 2]


@pytest.mark.slow
def test_a_process_chooses_finds_refuses_and_is_started_again(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = create(tmp_path / "tea.db", initial=7, **SHORT)
    worker = ModelWorker(experiment, 2)
    # The first question is far from those that a model chooses.
    experiment.tell(worker.ask(["ann"], num_raters=1)[0], winner=0)
    assert worker._process is None
    worker.ask(["ann"], num_raters=1)
    process = worker._process
    assert isinstance(process, ModelProcess)
    for cups in (1, 2, 3, 4, 1, 2):
        experiment.record([OWN[0], {**OWN[1], "cups": cups}], winner=cups % 2)
    state, notes = packed_state(experiment), []
    packed = process.run(notes, packed_choices, state, 2, [None], {})
    assert pickle.loads(packed) == pickle.loads(packed_choices(state, 2, [None], {}))
    assert repr(worker.findings()) == repr({**findings_of(state), "warnings": []})
    with pytest.raises(ExperimentError, match="options"):
        process.run(
            notes, packed_choices, packed_state(few(tmp_path / "few.db")), 3, [None], {}
        )
    with pytest.raises(RuntimeError, match="JSONDecodeError"):
        process.run(notes, json.loads, "{")
    assert process.run(notes, json.loads, "1") == 1
    assert notes == []
    assert process.run(notes, warnings.warn, "did not converge") is None
    assert notes == ["UserWarning: did not converge"]
    (question,) = worker.ask(["bob"], num_raters=2)
    assert experiment.pending[-1] == question
    # To start another one as well would take seconds more.
    of_processes(monkeypatch, Dying(works=True))
    process._process.send_signal(signal.SIGKILL)
    process._process.wait()
    assert worker.ask(["bob"], num_raters=2) == experiment.pending[-1:]
    assert worker._process not in (None, process)
    assert len(experiment.pending) == 3
    (note,) = worker.warnings()
    assert note["text"].endswith("it is started again.")
    worker.close()
    assert worker._process is None
    assert capfd.readouterr().err == ""


class Dying:
    """A process that ends when it has something to do, unless it works."""

    def __init__(
        self, before: Callable[[], None] = lambda: None, works: bool = False
    ) -> None:
        self.before, self.works = before, works

    def run(self, notes: list[str], job: Callable[..., Any], *arguments: Any) -> Any:
        if job is int or self.works:
            return job(*arguments)
        self.before()
        raise EOFError

    def close(self) -> None:
        pass


def of_processes(patch: pytest.MonkeyPatch, *processes: Dying) -> None:
    """Has these processes started, one after the other."""
    patch.setattr(model_worker, "ModelProcess", iter(processes).__next__)


@pytest.mark.slow
def test_processes_that_end_are_noted_and_done_without_after_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where each fit takes more memory than there is."""
    for job in ("question", "findings"):
        worker = ModelWorker(create(tmp_path / f"{job}.db", initial=1), 2)
        worker.experiment.record(OWN, winner=0)
        of_processes(monkeypatch, Dying(), Dying(), Dying())
        if job == "question":
            questions = worker.ask([None], num_raters=1)
            assert worker.experiment.pending == questions
        else:
            assert dict(worker.findings()["summary"])["answers"] == 1
        # The more frequent note comes first.
        assert [note["times"] for note in worker.warnings()] == [2, 1]
        assert worker.warnings()[0]["text"].endswith("it is started again.")
        assert worker.start() is None


def test_a_process_that_works_again_makes_good_for_those_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = ModelWorker(create(tmp_path / "tea.db"), 2)
    for _ in range(3):
        monkeypatch.setattr(worker, "_process", Dying())
        of_processes(monkeypatch, Dying(), Dying(works=True))
        assert worker.run_in_process(len) == len(packed_state(worker.experiment))


def test_what_is_being_chosen_when_all_is_closed_is_not_chosen_here_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = ModelWorker(create(tmp_path / "tea.db", initial=1), 2)
    worker.experiment.record(OWN, winner=0)
    monkeypatch.setattr(worker, "_process", Dying(worker.close))
    with pytest.raises(ExperimentError, match="closed"):
        worker.ask([None], num_raters=1)
    assert worker.experiment.pending == []
    assert worker.warnings() == []


@pytest.mark.slow
def test_a_process_that_cannot_start_is_no_reason_not_to_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    worker = ModelWorker(create(tmp_path / "tea.db", initial=1), 2)
    assert worker.ask([None], num_raters=1) == worker.experiment.pending
    worker.experiment.tell(0, winner=0)
    assert dict(worker.findings()["summary"])["answers"] == 1
    assert worker._process is None
