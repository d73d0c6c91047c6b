"""Experiments as files, copied to other spaces, and in Ax's own storage."""

import json
import re
import sqlite3
import time
import warnings
from datetime import datetime, timedelta

import pandas as pd
import pytest
from ax.storage.json_store.load import load_experiment
from cases import in_turn
from parameters import real
from showing import A, B, C, show, tell, triangle

from botorch_pref.ax import PreferenceExperiment, log
from botorch_pref.errors import ExperimentError, StorageError


@pytest.fixture
def played(tmp_path) -> PreferenceExperiment:
    experiment = triangle(tmp_path / "triangle.db", num_levels=3, seed=5)
    experiment.tell(experiment.ask(2), winner=0, rater="Zoë", note='a "b"\nc, d')
    tell(experiment, [A, B], tie=True, levels=[0, 2])
    tell(experiment, [A, B, C], ranking=[2, 0, 1], seconds=1.5)
    experiment.undo()
    show(experiment, B, C)
    return experiment


def test_what_was_written_is_read_back_whole(played, tmp_path) -> None:
    file = tmp_path / "all.json"
    played.write_json(file)
    read = PreferenceExperiment.read(file, storage=tmp_path / "read.db")
    assert read.version == played.version
    assert read.settings == played.settings
    assert read.pending == played.pending
    assert read.answers().equals(played.answers())
    assert read.ask(2).options == played.ask(2).options
    named = PreferenceExperiment.read(file, storage=tmp_path / "read.db", name="other")
    assert named.answers().equals(read.answers())
    assert named.experiment.name == "other"
    with pytest.raises(StorageError, match="already"):
        PreferenceExperiment.read(file, storage=tmp_path / "read.db")


def test_notes_of_every_length_and_end_of_line_come_back(tmp_path) -> None:
    # Python's reader of CSV refuses cells of more than 131,072 characters.
    notes = ["a\rb", "a\nb", "a\r\nb", "\r", 'a,"b"', "é" * 140_000]
    experiment = triangle(tmp_path / "triangle.db")
    for note in notes:
        tell(experiment, [A, B], winner=0, note=note)
    experiment.write_json(tmp_path / "all.json")
    read = PreferenceExperiment.read(tmp_path / "all.json", storage=tmp_path / "a.db")
    assert read.answers().equals(experiment.answers())
    experiment.write_answers(tmp_path / "answers.csv")
    with pytest.raises(StorageError, match=r"no log that write_json.* record_table"):
        PreferenceExperiment.read(tmp_path / "answers.csv", storage=tmp_path / "c.db")
    second_experiment = triangle(tmp_path / "b.db")
    second_experiment.record_table(tmp_path / "answers.csv")
    assert [*second_experiment.answers()["note"]][::2] == notes


@in_turn(
    ("act", "match"),
    [
        (lambda e, p: e.copy(storage=p, parameters=[3]), "give a list of Range"),
        (lambda e, p: e.copy(storage=p, parameters="x"), "give a list of Range"),
        (lambda e, p: e.copy(storage=p, parameter_constraints=["a<=1"]), "without"),
        (lambda e, p: e.copy(storage=p, name=""), "give the experiment a name"),
        (lambda e, p: e.write_json(None), "path is None; give a path"),
        (lambda e, p: e.write_answers(None), "path is None; give a path"),
        (lambda e, p: e.write_json("a\0b"), "Cannot write .* null"),
        (lambda e, p: e.save_to_ax(None), "place is None; give a path"),
        (lambda e, p: PreferenceExperiment.read(None, storage=p), "path is None"),
    ],
)
def test_arguments_that_cannot_be_are_named(act, match, played, tmp_path) -> None:
    with pytest.raises((ExperimentError, StorageError), match=match):
        act(played, tmp_path / "other.db")
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_space_that_cannot_be_is_not_resumed(read_only, tmp_path) -> None:
    triangle(tmp_path / "triangle.db")

    def resume(**arguments: object) -> None:
        path = tmp_path / "triangle.db"
        door = {"storage": path, "read_only": read_only}
        PreferenceExperiment.resume("triangle", **door, **arguments)

    with pytest.raises(ExperimentError, match="give a list of Range"):
        resume(parameters=[3])
    with pytest.raises(ExperimentError, match="without parameters"):
        resume(parameter_constraints=["a <= 1"])


def test_a_damaged_file_is_refused_by_what_is_wrong(played, tmp_path) -> None:
    file = tmp_path / "all.json"
    played.write_json(file)
    content = file.read_bytes()
    stored = json.loads(content)
    # An event that another one follows.
    fewer = json.dumps({**stored, "events": stored["events"][1:]}).encode()
    for damaged in (
        content[: len(content) // 2],
        fewer,
        content.replace(b"tie", b"tye"),
        content.replace(b"seed", b"sead", 1),
        content.replace(b"undone", b"\x80undone"),
        # A field that is not there.
        content.replace(b'"number"', b'"numbers"', 1),
        re.sub(rb'(catalogue"+: ?)null', rb"\1[1]", content),
        b"",
        b"[]",
        b"[" * 100_000,
    ):
        file.write_bytes(damaged)
        with pytest.raises(StorageError, match=r"all\.json is (damaged|no log)"):
            PreferenceExperiment.read(file, storage=tmp_path / "read.db")
    with pytest.raises(StorageError, match="Cannot read"):
        PreferenceExperiment.read(tmp_path / "away", storage=tmp_path / "read.db")
    assert not (tmp_path / "read.db").exists()


def test_a_database_is_not_read_as_an_exported_file(played, tmp_path) -> None:
    with pytest.raises(StorageError, match=r"database, not what.*resume") as refusal:
        PreferenceExperiment.read(
            tmp_path / "triangle.db", storage=tmp_path / "read.db"
        )
    assert len(str(refusal.value)) < 400
    picture = tmp_path / "picture.json"
    picture.write_bytes(b"\x89PNG" * 10_000)
    with pytest.raises(StorageError, match="is no log") as refusal:
        PreferenceExperiment.read(picture, storage=tmp_path / "read.db")
    # The text does not have the file in it.
    assert len(str(refusal.value)) < 400


def test_pandas_and_sqlite_read_the_tables(played, tmp_path) -> None:
    with sqlite3.connect(tmp_path / "triangle.db") as connection:
        events = pd.read_sql("SELECT * FROM preference_events", connection)
        (settings,) = connection.execute(
            "SELECT settings FROM preference_experiments"
        ).fetchone()
    connection.close()
    assert events["kind"].tolist() == [*["asked", "told"] * 3, "undone", "asked"]
    assert events["rater"].dropna().tolist() == ["Zoë"]
    assert json.loads(events["what"][3]) == {"tie": True, "levels": [0, 2]}
    assert json.loads(settings)["seed"] == 5


def test_a_copy_goes_on_in_a_wider_space(played, tmp_path) -> None:
    wide = [real(name, 0, 3) for name in ("a", "b")]
    copy = played.copy(storage=tmp_path / "wide.db", parameters=wide)
    assert copy.answers().equals(played.answers())
    assert copy.experiment.search_space.parameter_constraints == []
    assert copy.pending == played.pending
    tell(copy, [(2.5, 2.5), A], winner=0)
    assert played.num_answers == 2
    narrow = [real(name, 0, 1) for name in ("a", "b")]
    with pytest.raises(ExperimentError, match=r"Event 0 .* search space.*\. To copy"):
        played.copy(storage=tmp_path / "narrow.db", parameters=narrow)
    assert not (tmp_path / "narrow.db").exists()
    # What the error advises.
    answers = played.answers()
    inside = (answers[["a", "b"]] <= 1).all(axis=1)
    second_experiment = PreferenceExperiment.create(
        "kept", parameters=narrow, storage=tmp_path / "kept.db", num_levels=3
    )
    inside = inside.groupby(answers["question"]).transform("all")
    recorded = second_experiment.record_table(answers[inside])
    assert [q.options for q in recorded] == [played.question(1).options]
    parameters = [real(name, 0, 3) for name in ("a", "b", "c")]
    with pytest.raises(ExperimentError, match=r"no c.*record_table.*answers\(\)"):
        played.copy(storage=tmp_path / "more.db", parameters=parameters)


def test_answers_of_a_table_are_not_merged_again(tmp_path) -> None:
    experiment, second_experiment = (triangle(tmp_path / f"{name}.db") for name in "ab")
    for winner in (0, 1):
        tell(experiment, [A, B], winner=winner, rater="ann")
    table = experiment.answers()
    assert experiment.record_table(table) == []
    # A day is not the time of an answer, and what differs is another answer.
    unlike = table.assign(time=table["time"].str[:10]), table.assign(rater="bo")
    assert [len(second_experiment.record_table(rows)) for rows in (table, *unlike)] == [
        2,
        2,
        2,
    ]
    # An answer that was taken back here does not come back.
    experiment.withdraw(0)
    assert experiment.record_table(table) == []
    assert len(experiment.record_table(second_experiment.answers())) == 4
    assert {*experiment.answers()["question"]} == {1, 2, 3, 4, 5}
    assert experiment.record_table(second_experiment.answers()) == []
    assert second_experiment.record_table(experiment.answers()) == []


def test_a_corrected_answer_does_not_come_back(tmp_path) -> None:
    """From a table of before."""
    experiment, second_experiment = (triangle(tmp_path / f"{name}.db") for name in "ab")
    tell(experiment, [A, B], winner=0)
    table = experiment.answers()
    second_experiment.record_table(table)
    experiment.undo(0)
    experiment.tell(0, winner=1)
    assert experiment.record_table(table) == []
    assert experiment.answers()["winner"].tolist() == [0, 1]


def test_each_row_is_one_answer_however_many_have_its_moment(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(log, "now", lambda: "2026-01-01T00:00:00.000+00:00")
    experiment = triangle(tmp_path / "triangle.db")
    for winner in (0, 1):
        tell(experiment, [A, B], winner=winner)
    table = experiment.answers()
    assert experiment.record_table(table) == []
    # What nobody edited stands for itself: a row more is an answer more.
    again = table.assign(question=table["question"] + 2)
    assert len(experiment.record_table(pd.concat([table, again[:2]]))) == 1
    assert len(experiment.answers()) == 6


def test_an_answer_that_was_edited_in_a_table_is_refused(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    for winner in (0, 1):
        tell(experiment, [A, B], winner=winner, rater="ann")
    table = experiment.answers()
    edited = table.assign(winner=[0, 1, 0, 1])
    with pytest.raises(
        ExperimentError, match=r"Question 1 \(index 0\) has .* by withdraw\(0\)"
    ):
        experiment.record_table(edited)
    assert experiment.record_table(table) == []
    experiment.withdraw(0)
    assert len(experiment.record_table(edited)) == 1
    assert experiment.record_table(edited) == []
    assert experiment.answers()["winner"].tolist() == [0, 1, 0, 1]


@pytest.mark.slow
def test_ax_reads_what_was_saved_to_its_storage(played, tmp_path) -> None:
    from ax.storage.sqa_store import db, load

    played.save_to_ax(tmp_path / "ax.json")
    read = load_experiment(str(tmp_path / "ax.json"))
    assert read == played.experiment
    assert read._properties == played.experiment._properties
    played.save_to_ax(tmp_path / "ax.db")
    assert db.SESSION_FACTORY is None
    with pytest.raises(StorageError, match="already"):
        played.save_to_ax(tmp_path / "ax.db")
    db.init_engine_and_session_factory(url=f"sqlite:///{tmp_path / 'ax.db'}")
    try:
        with warnings.catch_warnings():
            # Ax's own.
            warnings.simplefilter("ignore")
            loaded = load.load_experiment("triangle")
    finally:
        db.SESSION_FACTORY = None
    assert str(loaded.search_space) == str(played.experiment.search_space)
    assert len(loaded.trials) == 4
    means = loaded.lookup_data().df.sort_values(["trial_index", "arm_name"])["mean"]
    ours = played.experiment.lookup_data().df.sort_values(["trial_index", "arm_name"])
    assert means.tolist() == ours["mean"].tolist()
    for place in (tmp_path / "away" / "ax.db", "nosuchdatabase://x"):
        with pytest.raises(StorageError, match="Cannot"):
            played.save_to_ax(place)
    # An Ax experiment is no experiment of ours.
    with pytest.raises(StorageError, match="no experiment 'triangle'; it has none"):
        PreferenceExperiment.resume("triangle", storage=tmp_path / "ax.db")


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="The zone cannot be changed.")
def test_ax_has_times_of_this_place(tmp_path, monkeypatch) -> None:
    """Nine hours before those of the log, which are in UTC."""
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "here-9")
            time.tzset()
            experiment = triangle(tmp_path / "triangle.db")
            tell(experiment, [A, B], winner=0)
            (trial,) = experiment.experiment.trials.values()
    finally:
        time.tzset()
    times = trial.time_created, trial.time_completed
    for local, event in zip(times, experiment.log.events, strict=True):
        in_utc = datetime.fromisoformat(event.time).replace(tzinfo=None)
        assert local - in_utc == timedelta(hours=9)
