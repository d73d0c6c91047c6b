"""Questions chosen in another process are those that would be asked here."""

import pickle
from pathlib import Path

import pytest
from ax.api.configs import RangeParameterConfig
from tea import create, stored

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.asking_elsewhere import ask_chosen, packed_choice, packed_state
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web.asking.choosing_process import ChoosingProcess
from botorch_pref.web.asking.question_source import QuestionSource


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


@pytest.mark.slow
def test_a_process_chooses_refuses_and_is_done_without(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    experiment = create(tmp_path / "tea.json", initial=1)
    experiment.tell(experiment.ask(), winner=0)
    source = QuestionSource(experiment, 2)
    # One person has nobody to wait for.
    source.ask("ann", num_raters=1)
    assert source._process is None
    source.ask("ann", num_raters=2)
    process = source._process
    assert isinstance(process, ChoosingProcess)
    assert process._ready.wait(120)
    state = packed_state(experiment)
    there, here = process.choose(state, 2, None), packed_choice(state, 2, None)
    (run, order), (same, same_order) = pickle.loads(there), pickle.loads(here)
    assert run.arm_signatures == same.arm_signatures
    assert order == same_order
    with pytest.raises(ExperimentError, match="options"):
        process.choose(packed_state(few(tmp_path / "few.json")), 3, None)
    question = source.ask("bob", num_raters=2)
    assert experiment.pending[-1] == question
    process._process.kill()
    process._process.wait()
    assert source.ask("bob", num_raters=2) == experiment.pending[-1]
    assert source._process is None
    assert len(experiment.pending) == 4
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_process_that_cannot_start_is_no_reason_not_to_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    process = ChoosingProcess()
    process._waiting.join()
    assert not process.ready
    with pytest.raises((EOFError, BotorchPrefError)):
        process.choose(b"", 2, None)
    process.close()
