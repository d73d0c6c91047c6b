"""What another process chooses and finds is what would be chosen and found here."""

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
from tea import OWN, create, stored

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.asking_elsewhere import ask_chosen, packed_choice, packed_state
from botorch_pref.errors import ExperimentError, InferenceWarning
from botorch_pref.web import worker as model_worker
from botorch_pref.web.worker import (
    LOGGER,
    ModelProcess,
    ModelWorker,
    QuestionSource,
    findings_of,
)


@pytest.mark.parametrize("answers", [0, 3])
def test_the_choice_is_the_same_elsewhere(tmp_path: Path, answers: int) -> None:
    """With no answer that of the spread, with three that of the model."""
    experiment = create(tmp_path / "tea.db", initial=3)
    for _ in range(answers):
        experiment.tell(experiment.ask(), winner=0)
    twin = stored(tmp_path / "tea.db")
    chosen = ask_chosen(twin, packed_choice(packed_state(twin), 2, "ann"), rater="ann")
    assert chosen.rater == "ann"
    assert [question.options for question in twin.pending] == [chosen.options]
    assert chosen.options == create_like(tmp_path / "other.db", answers)


def create_like(storage: Path, answers: int) -> tuple[dict[str, object], ...]:
    experiment = create(storage, initial=3)
    for _ in range(answers):
        experiment.tell(experiment.ask(), winner=0)
    return experiment.ask().options


def few(storage: Path) -> PreferenceExperiment:
    """An experiment of two options."""
    whole = RangeParameterConfig(name="x", parameter_type="int", bounds=(0, 1))
    return PreferenceExperiment.create("few", parameters=[whole], storage=storage)


def warn(number: int) -> int:
    """Something that models do."""
    warnings.warn(f"did not converge {number}", InferenceWarning, stacklevel=2)
    return number


def test_warnings_are_counted_and_logged_and_not_printed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = ModelWorker(create(tmp_path / "tea.db"))

    def fails() -> None:
        warn(2)
        raise ExperimentError("after that")

    # In tests warnings are errors.
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert [worker.here(lambda: warn(1)) for _ in range(3)] == [1, 1, 1]
        with pytest.raises(ExperimentError, match="after that"):
            worker.here(fails)
    worker.experiment.record(OWN, winner=0)
    worker._can_move = False
    assert worker.findings()["warnings"] == [
        {"text": "InferenceWarning: did not converge 1", "times": 3},
        {"text": "InferenceWarning: did not converge 2", "times": 1},
    ]
    logged = [one.getMessage() for one in caplog.records if one.name == LOGGER.name]
    assert len(logged) == 4
    assert "converge" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("apart", [True, False])
def test_what_ends_a_script_is_an_error_of_the_model(
    tmp_path: Path, apart: bool
) -> None:
    worker = ModelWorker(create(tmp_path / "tea.db"), apart)
    with pytest.raises(RuntimeError, match="SystemExit: enough"):
        worker.here(lambda: sys.exit("enough"))


def test_findings_of_the_same_answers_are_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, calls = ModelWorker(create(tmp_path / "tea.db")), []
    monkeypatch.setattr(
        worker, "_new_findings", lambda: {"found": calls.append(0) or len(calls)}
    )
    assert [worker.findings()["found"] for _ in range(3)] == [1, 1, 1]
    worker.experiment.record(OWN, winner=0)
    assert [worker.findings()["found"] for _ in range(2)] == [2, 2]


@pytest.mark.slow
def test_a_process_chooses_finds_refuses_and_is_started_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    experiment = create(tmp_path / "tea.db", initial=7)
    worker = ModelWorker(experiment)
    source = QuestionSource(experiment, worker, 2)
    # The first question is far from those that a model chooses.
    experiment.tell(source.ask("ann", num_raters=1), winner=0)
    assert worker._process is None
    source.ask("ann", num_raters=1)
    process = worker._process
    assert isinstance(process, ModelProcess)
    for cups in (1, 2, 3, 4, 1, 2):
        experiment.record([OWN[0], {**OWN[1], "cups": cups}], winner=cups % 2)
    assert process.started()
    state, notes = packed_state(experiment), []
    there = process.run(notes, packed_choice, state, 2, None)
    (run, order), (same, same_order) = (
        pickle.loads(there),
        pickle.loads(packed_choice(state, 2, None)),
    )
    assert run.arm_signatures == same.arm_signatures
    assert order == same_order
    assert repr(worker.findings()) == repr({**findings_of(state), "warnings": []})
    with pytest.raises(ExperimentError, match="options"):
        process.run(
            notes, packed_choice, packed_state(few(tmp_path / "few.db")), 3, None
        )
    with pytest.raises(RuntimeError, match="JSONDecodeError"):
        process.run(notes, json.loads, "{")
    assert process.run(notes, json.loads, "1") == 1
    assert notes == []
    assert process.run(notes, warnings.warn, "did not converge") is None
    assert notes == ["UserWarning: did not converge"]
    question = source.ask("bob", num_raters=2)
    assert experiment.pending[-1] == question
    process._process.send_signal(signal.SIGKILL)
    process._process.wait()
    assert source.ask("bob", num_raters=2) == experiment.pending[-1]
    again = worker._process
    assert isinstance(again, ModelProcess)
    assert (again is process, again.ready) == (False, True)
    assert len(experiment.pending) == 3
    (note,) = worker._notes.to_json()
    assert note["text"].endswith("it is started again.")
    source.close()
    assert worker._process is None
    assert capfd.readouterr().err == ""


class Dying:
    """A process that ends as soon as it has something to do."""

    def __init__(self, before: Callable[[], None]) -> None:
        self.before = before

    def started(self) -> bool:
        return True

    def run(self, *job: Any) -> Any:
        self.before()
        raise EOFError

    def close(self) -> None:
        pass


class Working(Dying):
    """A process that does what it has to."""

    def __init__(self) -> None:
        super().__init__(lambda: None)

    def run(self, notes: list[str], job: Callable[..., Any], *given: Any) -> Any:
        return job(*given)


def test_the_end_of_the_process_is_noted_unless_it_was_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = ModelWorker(create(tmp_path / "tea.db"))
    monkeypatch.setattr(worker, "_process", Dying(lambda: None))
    with pytest.raises(EOFError):
        worker.elsewhere(findings_of, b"")
    (note,) = worker._notes.to_json()
    assert note["text"].startswith("The process that fits models has ended")
    assert note["times"] == 1
    monkeypatch.setattr(worker, "_process", Dying(worker.close))
    with pytest.raises(EOFError):
        worker.elsewhere(findings_of, b"")
    assert worker._notes.to_json() == [note]


@pytest.mark.parametrize("job", ["question", "findings"])
def test_processes_that_end_one_after_the_other_are_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    """As where each fit takes more memory than there is."""
    worker = ModelWorker(create(tmp_path / "tea.db", initial=1))
    worker.experiment.record(OWN, winner=0)
    started: list[Dying] = []

    def process() -> Dying:
        started.append(Dying(lambda: None))
        return started[-1]

    monkeypatch.setattr(model_worker, "ModelProcess", process)
    if job == "question":
        question = QuestionSource(worker.experiment, worker, 2).ask(None, num_raters=1)
        assert worker.experiment.pending == [question]
    else:
        assert dict(worker.findings()["summary"])["answers"] == 1
    assert len(started) == 3
    # The more frequent note comes first.
    assert [note["times"] for note in worker._notes.to_json()] == [2, 1]
    assert worker.start() is None


def test_a_process_that_works_again_makes_good_for_those_that_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = ModelWorker(create(tmp_path / "tea.db"))
    for _ in range(5):
        for _ in range(2):
            monkeypatch.setattr(worker, "_process", Dying(lambda: None))
            with pytest.raises(EOFError):
                worker.elsewhere(json.loads, "1")
        monkeypatch.setattr(worker, "_process", Working())
        assert worker.elsewhere(json.loads, "1") == 1
    assert worker._can_move


def test_what_is_being_chosen_when_all_is_closed_is_not_chosen_here_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = ModelWorker(create(tmp_path / "tea.db", initial=1))
    worker.experiment.record(OWN, winner=0)
    source = QuestionSource(worker.experiment, worker, 2)
    monkeypatch.setattr(worker, "_process", Dying(source.close))
    with pytest.raises(ExperimentError, match="closed"):
        source.ask(None, num_raters=1)
    assert worker.experiment.pending == []


@pytest.mark.slow
def test_a_process_that_cannot_start_is_no_reason_not_to_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    worker = ModelWorker(create(tmp_path / "tea.db", initial=1))
    source = QuestionSource(worker.experiment, worker, 2)
    assert source.ask(None, num_raters=1) == worker.experiment.pending[0]
    worker.experiment.tell(0, winner=0)
    assert dict(worker.findings()["summary"])["answers"] == 1
    assert worker._process is None
