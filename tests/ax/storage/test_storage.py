"""What is stored is data: whole or not at all, refused if it cannot be read."""

import json
import os
import shutil
import sqlite3
import threading
import uuid
from pathlib import Path
from threading import Thread

import ax.storage.sqa_store.save as ax_save
import pytest
from ax.api.configs import DerivedParameterConfig, RangeParameterConfig
from ax.core.types import TParameterization
from botorch_pref.ax.storage import json_storage
from botorch_pref.ax.storage.storage_place import storage_at
from espresso import PARAMETERS, better, create

from botorch_pref.ax import Answer, PreferenceExperiment
from botorch_pref.ax.answers.circumstances import Circumstances
from botorch_pref.ax.answers.telling import give_answer
from botorch_pref.errors import ExperimentError, StorageError

KINDS = ("espresso.db", "espresso.json")
POSTGRES = "BOTORCH_PREF_TEST_POSTGRES"


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    for kind in KINDS:
        experiment = create(folder / kind)
        question = experiment.ask()
        experiment.tell(question, winner=better(question))
        experiment.ask()
    return folder


@pytest.fixture(params=KINDS)
def stored(request, played, tmp_path) -> Path:
    return Path(shutil.copy(played / request.param, tmp_path))


def refused(path: Path, match: str, name: str = "espresso") -> None:
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(StorageError, match=match):
        PreferenceExperiment.resume(name, storage=path)
    assert (path.read_bytes() if path.exists() else None) == before
    assert {p.name for p in path.parent.iterdir()} <= {path.name}


def winner(experiment: PreferenceExperiment) -> TParameterization:
    """The winner of the second question, as the data have it."""
    data = experiment.experiment.lookup_data(trial_indices={1}).df
    values = data.set_index("arm_name")["mean"]
    assert sorted(values) == [0, 1]
    return experiment.experiment.arms_by_name[values.idxmax()].parameters


def change(path: Path, old: str, new: str) -> None:
    """Replaces text wherever an experiment is stored."""
    if path.suffix == ".json":
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        return
    with sqlite3.connect(path) as connection:
        cursor = connection.execute(
            "UPDATE experiment_v2 SET properties = replace(properties, ?, ?)",
            (old, new),
        )
        assert cursor.rowcount == 1
        (properties,) = connection.execute(
            "SELECT properties FROM experiment_v2"
        ).fetchone()
        assert new in properties
    connection.close()


def test_what_is_not_there_is_not_made(tmp_path) -> None:
    for kind in KINDS:
        refused(tmp_path / kind, str(tmp_path / kind))
    assert list(tmp_path.iterdir()) == []


def test_another_name_is_refused(stored) -> None:
    refused(stored, "latte", name="latte")


def test_an_experiment_is_not_created_over_another(stored) -> None:
    before = stored.read_bytes()
    with pytest.raises(StorageError, match="already"):
        create(stored)
    assert stored.read_bytes() == before


@pytest.mark.parametrize("damage", ["cut", "noise", "empty"])
def test_damaged_files_are_refused(stored, damage) -> None:
    whole = stored.read_bytes()
    damaged = {
        "cut": whole[: len(whole) // 3],
        "noise": b"\x80\x04K" * 99,
        "empty": b"",
    }
    stored.write_bytes(damaged[damage])
    refused(stored, "espresso")


def test_another_version_is_refused(stored) -> None:
    change(stored, '"version": 2', '"version": 3')
    refused(stored, "version 3.*reads version 2")


def test_settings_that_cannot_be_are_refused(stored) -> None:
    change(stored, "DuelingExploringEIIG", "DuelingExploringEIEIO")
    refused(stored, "DuelingExploringEIEIO")


def test_settings_that_are_missing_are_refused(stored) -> None:
    change(stored, '"seed"', '"sead"')
    refused(stored, "sead")


def test_an_ax_experiment_without_settings_is_refused(stored) -> None:
    change(stored, '"botorch_pref"', '"botorch_numeric"')
    refused(stored, "no preference experiment")


@pytest.mark.parametrize("text", ['"espresso"', '{"__type": "Arm", "parameters": {}}'])
def test_json_that_is_no_experiment_is_refused(tmp_path, text) -> None:
    path = tmp_path / "espresso.json"
    path.write_text(text, encoding="utf-8")
    refused(path, "instead of an experiment")


def test_classes_that_ax_does_not_know_are_refused(played, tmp_path) -> None:
    path = Path(shutil.copy(played / "espresso.json", tmp_path))
    change(path, '"__type": "SearchSpace"', '"__type": "posix.system"')
    refused(path, "posix.system")


def test_stored_objectives_are_not_executed(played, tmp_path, capsys) -> None:
    path = Path(shutil.copy(played / "espresso.json", tmp_path))
    change(path, '"expression": "pairwise_pref_query"', '"expression": "print((1))"')
    refused(path, "never executed")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", KINDS)
def test_stored_parameters_are_not_executed(tmp_path, kind, capsys) -> None:
    path = tmp_path / kind
    PreferenceExperiment.create(
        "espresso",
        parameters=[
            RangeParameterConfig(name="dose", parameter_type="float", bounds=(14, 22)),
            DerivedParameterConfig(
                name="water", parameter_type="float", expression_str="2.0 * dose"
            ),
        ],
        storage=path,
    )
    assert PreferenceExperiment.resume("espresso", storage=path)
    if kind.endswith("json"):
        change(path, "2.0 * dose", "dose + print(1)")
    else:
        with sqlite3.connect(path) as connection:
            connection.execute(
                "UPDATE parameter_v2 SET expression_str = 'dose + print(1)' "
                "WHERE name = 'water'"
            )
        connection.close()
    refused(path, "never executed")
    assert capsys.readouterr().out == ""


def test_an_objective_that_is_minimised_is_refused(played, tmp_path) -> None:
    path = Path(shutil.copy(played / "espresso.json", tmp_path))
    change(path, '"expression": "pairwise', '"expression": "-pairwise')
    with pytest.raises(ExperimentError, match="minimises"):
        PreferenceExperiment.resume("espresso", storage=path)


def test_another_objective_is_refused(played, tmp_path) -> None:
    path = Path(shutil.copy(played / "espresso.json", tmp_path))
    change(
        path, '"expression": "pairwise_pref_query"', '"expression": "preference_tie"'
    )
    with pytest.raises(ExperimentError, match="must be pairwise_pref_query"):
        PreferenceExperiment.resume("espresso", storage=path)


def test_another_search_space_is_refused(stored) -> None:
    with pytest.raises(ExperimentError, match="search space"):
        PreferenceExperiment.resume("espresso", storage=stored, parameters=PARAMETERS)


def test_a_write_that_fails_has_not_happened(stored, monkeypatch) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise OSError("disk full")

    experiment = PreferenceExperiment.resume("espresso", storage=stored)
    (question,) = experiment.pending
    before = stored.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(ax_save, "save_or_update_data_for_trials", fail)
        patch.setattr(Path, "replace", fail)
        with pytest.raises((StorageError, OSError), match="disk full"):
            experiment.tell(question, winner=0)
    assert experiment.pending == [question]
    assert stored.read_bytes() == before
    assert list(stored.parent.iterdir()) == [stored]
    experiment.tell(question, winner=1)
    again = PreferenceExperiment.resume("espresso", storage=stored)
    assert again.pending == []
    assert winner(again) == question.options[1]


def test_two_experiments_in_one_database(tmp_path) -> None:
    path = tmp_path / "both.db"
    first, second = create(path, "first"), create(path, "second", seed=1)
    asked = first.ask(), second.ask()
    assert asked[0].options != asked[1].options
    for name, question in zip(("first", "second"), asked, strict=True):
        assert PreferenceExperiment.resume(name, storage=path).pending == [question]


@pytest.mark.parametrize("place", ["", 3, "nosuchdatabase://x", "sqlite:/x"])
def test_places_that_are_none_are_refused(place) -> None:
    with pytest.raises(StorageError):
        storage_at(place).load("espresso")


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StorageError) as caught:
        storage_at("postgresql://me:secret@127.0.0.1:1/none").load("espresso")
    assert "secret" not in str(caught.value)


def test_the_json_file_is_json(played) -> None:
    stored = json.loads((played / "espresso.json").read_text(encoding="utf-8"))
    assert stored["__type"] == "Experiment"
    assert stored["properties"]["botorch_pref"]["version"] == 2


def test_two_processes_lose_no_answer_of_each_other(stored) -> None:
    mine = PreferenceExperiment.resume("espresso", storage=stored)
    other = PreferenceExperiment.resume("espresso", storage=stored)
    (question,) = mine.pending
    other.tell(question, winner=1)
    with pytest.raises(StorageError, match="Another process"):
        mine.tell(question, winner=0)
    mine.tell(question, winner=1)
    with pytest.raises(ExperimentError, match="withdraw it"):
        mine.tell(question, winner=0)
    asked = other.ask()
    with pytest.raises(StorageError, match="Another process"):
        mine.ask()
    assert mine.pending == [asked]
    assert mine.ask() != asked
    assert len(PreferenceExperiment.resume("espresso", storage=stored).pending) == 2


@pytest.mark.skipif(json_storage.fcntl is None, reason="has no locks")
def test_files_are_written_one_after_the_other(played, tmp_path, monkeypatch) -> None:
    path = Path(shutil.copy(played / "espresso.json", tmp_path))
    mine = PreferenceExperiment.resume("espresso", storage=path)
    other = PreferenceExperiment.resume("espresso", storage=path)
    (question,) = mine.pending
    failed = []

    def tell() -> None:
        try:
            # As another process would, which does not wait for this one's turn.
            other._kept.keep(
                lambda experiment: give_answer(
                    experiment.trials[question.index],
                    Answer(winner=1),
                    Circumstances(),
                )
            )
        except StorageError as error:
            failed.append(str(error))

    thread = Thread(target=tell)
    write = json_storage.replace_file

    def meanwhile(*args: object) -> None:
        # The other one has time enough to write before this one does.
        if threading.current_thread() is not thread:
            thread.start()
            thread.join(0.5)
        write(*args)

    monkeypatch.setattr(json_storage, "replace_file", meanwhile)
    mine.tell(question, winner=0)
    thread.join()
    assert "Another process" in failed[0]
    assert winner(other) == question.options[0]


@pytest.mark.skipif(POSTGRES not in os.environ, reason=f"needs a URL in {POSTGRES}")
def test_postgresql_goes_on_as_sqlite(tmp_path) -> None:
    name = f"espresso {uuid.uuid4()}"
    outcomes = []
    for place in (os.environ[POSTGRES], tmp_path / "espresso.db"):
        experiment = create(place, name, initial=2)
        for _ in range(3):
            question = experiment.ask()
            experiment.tell(question, winner=better(question))
            experiment = PreferenceExperiment.resume(name, storage=place)
        experiment.withdraw(0)
        experiment = PreferenceExperiment.resume(name, storage=place)
        outcomes.append((experiment.recommend(), experiment.ask()))
    assert outcomes[0] == outcomes[1]
    with pytest.raises(StorageError, match="already"):
        create(os.environ[POSTGRES], name)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('"number": 1', '"number": 7', "should count from 0"),
        ('"number": 1', '"number": "1"', "damaged"),
        ('"trial": 0', '"trial": 1', "damaged"),
        ('"kind": "told"', '"sort": "told"', "log of trial 0"),
        ('"values": ["a"', '"values": [null', "can be read"),
        ('"preference_events": [', '"events": 3, "preference_events": [3, ', "log of"),
        ('"index": 0,', '"index": 1e999,', "can be read"),
    ],
)
def test_a_damaged_log_or_trial_is_refused(played, tmp_path, old, new, match) -> None:
    path = Path(shutil.copy(played / "espresso.json", tmp_path))
    change(path, old, new)
    refused(path, match)
