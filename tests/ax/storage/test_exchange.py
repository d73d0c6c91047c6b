"""Experiments as files, copied to other spaces, merged, and in Ax's own storage."""

import json
import re
import sqlite3
import time
import warnings
from datetime import datetime, timedelta

import pandas as pd
import pytest
from ax.api.configs import (
    DerivedParameterConfig,
)
from ax.storage.json_store.load import load_experiment
from cases import in_turn
from parameters import choice, real
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


@pytest.mark.parametrize("name", ["all.json", "all.csv"])
def test_what_was_written_is_read_back_whole(name, played, tmp_path) -> None:
    file = tmp_path / name
    (played.write_log if name.endswith("csv") else played.write_json)(file)
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
    experiment.write_log(tmp_path / "log.csv")
    read = PreferenceExperiment.read(tmp_path / "log.csv", storage=tmp_path / "a.db")
    assert read.version == experiment.version
    experiment.write_answers(tmp_path / "answers.csv")
    with pytest.raises(StorageError, match=r"no column kind.* record_table"):
        PreferenceExperiment.read(tmp_path / "answers.csv", storage=tmp_path / "c.db")
    other = triangle(tmp_path / "b.db")
    other.record_table(tmp_path / "answers.csv")
    assert [*other.answers()["note"]][::2] == notes


@in_turn(
    ("act", "match"),
    [
        (lambda e, p: e.merge(None), "other is None; give a PreferenceExperiment"),
        (lambda e, p: e.merge("triangle.db"), "as resume returns one"),
        (lambda e, p: e.copy(storage=p, parameters=[3]), "give a list of Range"),
        (lambda e, p: e.copy(storage=p, parameters="x"), "give a list of Range"),
        (lambda e, p: e.copy(storage=p, parameter_constraints=["a<=1"]), "without"),
        (lambda e, p: e.copy(storage=p, rename=["a"]), "give a dictionary of new"),
        (lambda e, p: e.copy(storage=p, rename={"a": ""}), "give a dictionary of new"),
        (lambda e, p: e.copy(storage=p, rename={"a": 3}), "give a dictionary of new"),
        (lambda e, p: e.copy(storage=p, name=""), "give the experiment a name"),
        (lambda e, p: e.write_json(None), "path is None; give a path"),
        (lambda e, p: e.write_log(3), "path is 3; give a path"),
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

    def resume(**given: object) -> None:
        path = tmp_path / "triangle.db"
        door = {"storage": path, "read_only": read_only}
        PreferenceExperiment.resume("triangle", **door, **given)

    with pytest.raises(ExperimentError, match="give a list of Range"):
        resume(parameters=[3])
    with pytest.raises(ExperimentError, match="without parameters"):
        resume(parameter_constraints=["a <= 1"])


@pytest.mark.parametrize("name", ["all.json", "all.csv"])
def test_a_damaged_file_is_refused_by_what_is_wrong(name, played, tmp_path) -> None:
    file = tmp_path / name
    (played.write_log if name.endswith("csv") else played.write_json)(file)
    whole = file.read_bytes()
    fewer = whole[: whole.rstrip().rindex(b"\r\n") + 2] if name.endswith("csv") else b""
    if name.endswith("json"):
        stored = json.loads(whole)
        fewer = json.dumps({**stored, "events": stored["events"][:-1]}).encode()
    for damaged in (
        whole[: len(whole) // 2],
        fewer,
        whole.replace(b"tie", b"tye"),
        whole.replace(b"seed", b"sead", 1),
        whole.replace(b"undone", b"\x80undone"),
        # A field, or a column, that is not there.
        whole.replace(b"checksum", b"checksam", 1),
        whole.replace(b"number", b"numbers", 1),
        re.sub(rb'(catalogue"+: ?)null', rb"\1[1]", whole),
        b"",
        b"[]",
        b"[" * 100_000,
    ):
        file.write_bytes(damaged)
        with pytest.raises(StorageError, match=f"{name} is (damaged|no log)"):
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
    played.write_log(tmp_path / "log.csv")
    written = pd.read_csv(tmp_path / "log.csv")
    assert written["kind"].tolist() == ["created", *events["kind"]]


def test_a_copy_goes_on_in_a_wider_space(played, tmp_path) -> None:
    wide = [real(name, 0, 3) for name in ("a", "b")]
    copy = played.copy(storage=tmp_path / "wide.db", parameters=wide)
    assert copy.answers().equals(played.answers())
    assert copy.experiment.search_space.parameter_constraints == []
    assert copy.pending == played.pending
    tell(copy, [(2.5, 2.5), A], winner=0)
    assert played.num_answers == 2
    narrow = [real(name, 0, 1) for name in ("a", "b")]
    with pytest.raises(ExperimentError, match=r"Event 0 .* search space.*\)\. To copy"):
        played.copy(storage=tmp_path / "narrow.db", parameters=narrow)
    assert not (tmp_path / "narrow.db").exists()
    # What the error advises.
    answers = played.answers()
    inside = (answers[["a", "b"]] <= 1).all(axis=1)
    other = PreferenceExperiment.create(
        "kept", parameters=narrow, storage=tmp_path / "kept.db", num_levels=3
    )
    inside = inside.groupby(answers["question"]).transform("all")
    kept = other.record_table(answers[inside])
    assert [q.options for q in kept] == [played.question(1).options]
    more = [real(name, 0, 3) for name in ("a", "b", "c")]
    with pytest.raises(ExperimentError, match=r"no c.*record_table.*answers\(\)"):
        played.copy(storage=tmp_path / "more.db", parameters=more)


def test_a_copy_has_other_names_wherever_they_are(tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "names",
        parameters=[
            real("a", 0, 2),
            real("b", 0, 2),
            choice("c", ["x", "y"], is_ordered=True),
            DerivedParameterConfig(
                name="d", parameter_type="float", expression_str="2 * a + b"
            ),
        ],
        parameter_constraints=["a + 2 * b <= 3"],
        storage=tmp_path / "names.db",
        baseline={"a": 0.5, "b": 1, "c": "x"},
        smallest_difference={"a": 0.1},
    )
    one, two = {"a": 0.5, "b": 1.0, "c": "x"}, {"a": 1.0, "b": 0.5, "c": "y"}
    experiment.record([one, two], winner=1)
    copy = experiment.copy(
        storage=tmp_path / "names.db", name="new", rename={"a": "b", "b": "a"}
    )
    (question,) = [copy.question(0)]
    assert question.options[0] == {"b": 0.5, "a": 1.0, "c": "x", "d": 2.0}
    (constraint,) = copy.experiment.search_space.parameter_constraints
    assert constraint.constraint_dict == {"b": 1.0, "a": 2.0}
    assert constraint.bound == 3.0
    assert copy.settings.baseline == {"b": 0.5, "a": 1.0, "c": "x", "d": 2.0}
    assert copy.settings.smallest_difference == {"b": 0.1}
    with pytest.raises(ExperimentError, match=r"rename has 'z'; .* a, b, c, d"):
        experiment.copy(storage=tmp_path / "z.db", rename={"z": "y"})


def test_a_copy_of_a_catalogue_has_other_names_of_its_columns(tmp_path) -> None:
    items = pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": [3.0, 1.0, 2.0]}, index=[*"abc"])
    experiment = PreferenceExperiment.create(
        "items", catalogue=items, storage=tmp_path / "items.db"
    )
    experiment.record(["a", "b"], winner=1)
    copy = experiment.copy(storage=tmp_path / "copy.db", rename={"x": "z"})
    assert copy.question(0).options == ({"z": 0.0, "y": 3.0}, {"z": 1.0, "y": 1.0})
    again = PreferenceExperiment.resume("items", storage=tmp_path / "copy.db")
    assert again.ask(options=["c", "a"]).options[0] == {"z": 2.0, "y": 2.0}


def test_a_question_asked_again_is_merged_as_that_of_its_question(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [B, C], winner=0)
    other = triangle(tmp_path / "other.db", initial=1, repeat_rate=1.0)
    tell(other, [A, B], winner=0)
    tell(other, [A, C], winner=0)
    assert other.log.questions[other.ask(2).index].asked["repeats"] == 0
    added = experiment.merge(other)
    assert [question.index for question in added] == [1, 2, 3]
    assert experiment.log.questions[3].asked["repeats"] == 1
    assert added[2].options == added[0].options[::-1]


def test_merged_experiments_have_what_both_had(played, tmp_path) -> None:
    other = triangle(tmp_path / "other.db", num_levels=3, seed=6)
    tell(other, [C, A], winner=0, rater="Bo")
    show(other, A, B)
    before = played.answers()
    added = played.merge(other)
    assert [question.index for question in added] == [4, 5]
    again = PreferenceExperiment.resume("triangle", storage=tmp_path / "triangle.db")
    assert again.version == played.version
    assert played.answers()[: len(before)].equals(before)
    last = played.answers()[len(before) :]
    assert last["rater"].tolist() == ["Bo", "Bo"]
    # An option that both showed is one.
    assert last["name"].tolist() == ["2_2", "1_0"]
    assert len(other.answers()) == 2
    low = triangle(tmp_path / "low.db")
    count = played.num_answers
    tell(other, [A, B], levels=[2, 2])
    with pytest.raises(ExperimentError, match=r"Event 4 .*levels"):
        low.merge(other)
    assert (low.num_answers, played.num_answers) == (0, count)


@pytest.mark.parametrize(
    ("settings", "said", "refusal"),
    [
        ({"raters": "share"}, {"winner": 0}, "the answer has no rater"),
        ({"model": "LaplacePreferenceGP"}, {"best": 0}, "does not take Choices"),
        ({"position_bias": True}, {"strength": 0.7}, "position_bias adds"),
    ],
)
def test_answers_that_the_model_does_not_take_are_not_merged(
    settings, said, refusal, tmp_path
) -> None:
    """Nothing could be asked after them."""
    experiment = triangle(tmp_path / "triangle.db", **settings)
    other = triangle(tmp_path / "other.db")
    tell(other, [A, B, C] if "best" in said else [A, B], **said)
    with pytest.raises(ExperimentError, match=f"Event 1 of 'triangle' .*{refusal}"):
        experiment.merge(other)
    assert experiment.log.events == []
    other.withdraw(0)
    assert len(experiment.merge(other)) == 1


def test_no_event_is_merged_twice(played, tmp_path) -> None:
    """Neither one's own, nor those that a copy has, nor what was merged before."""
    # The same twice in one table, perhaps in one millisecond, is two answers.
    columns = ["winner_a", "winner_b", "loser_a", "loser_b"]
    played.record_table(pd.DataFrame([[*A, *C]] * 2, columns=columns))
    version, before = played.version, played.answers()
    assert played.merge(played) == []
    copy = played.copy(storage=tmp_path / "copy.db", name="of the same")
    assert played.merge(copy) == []
    assert played.version == version
    # Each goes on: with what was pending, with what was told, with something new.
    pending = copy.pending[-1]
    copy.tell(pending, winner=0)
    copy.undo()
    copy.tell(pending, winner=1)
    copy.withdraw(0)
    new = show(copy, A, B)
    played.withdraw(1)
    assert [q.options for q in played.merge(copy)] == [new.options]
    assert played.merge(copy) == []
    again = PreferenceExperiment.resume("triangle", storage=tmp_path / "triangle.db")
    assert again.version == played.version
    answered = {*before["question"]} - {0, 1} | {pending.index}
    assert {*again.answers()["question"]} == answered
    assert again.pending[-1].options == new.options


def test_answers_of_a_table_are_not_merged_again(tmp_path) -> None:
    experiment, other = (triangle(tmp_path / f"{name}.db") for name in "ab")
    for winner in (0, 1):
        tell(experiment, [A, B], winner=winner, rater="ann")
    table = experiment.answers()
    assert experiment.record_table(table) == []
    # A day is not the time of an answer, and what differs is another answer.
    unlike = table.assign(time=table["time"].str[:10]), table.assign(rater="bo")
    assert [len(other.record_table(each)) for each in (table, *unlike)] == [2, 2, 2]
    # An answer that was taken back here does not come back, nor one from there.
    experiment.withdraw(0)
    other.withdraw(1)
    assert len(experiment.merge(other)) == 4
    assert {*experiment.answers()["question"]} == {2, 3, 4, 5}
    assert experiment.merge(other) == experiment.record_table(table) == []
    assert other.merge(experiment) == []


def test_a_corrected_answer_does_not_come_back(tmp_path) -> None:
    """From a table of before, or another experiment that has the table."""
    experiment, other = (triangle(tmp_path / f"{name}.db") for name in "ab")
    tell(experiment, [A, B], winner=0)
    table = experiment.answers()
    other.record_table(table)
    experiment.undo(0)
    experiment.tell(0, winner=1)
    assert experiment.record_table(table) == experiment.merge(other) == []
    assert experiment.answers()["winner"].tolist() == [0, 1]
    # There it is corrected too, once.
    assert other.merge(experiment) == other.merge(experiment) == []
    assert other.answers()["winner"].tolist() == [0, 1]


def test_two_corrections_of_one_answer_are_two_answers(tmp_path) -> None:
    """And an answer that was corrected is none, also where both are recorded."""
    experiment, other, third = (triangle(tmp_path / f"{name}.db") for name in "abc")
    tell(experiment, [A, B], winner=0)
    tables = [experiment.answers()]
    other.record_table(tables[0])
    for one, said in ((experiment, {"winner": 1}), (other, {"tie": True})):
        one.undo(0)
        one.tell(0, **said)
    tables.append(experiment.answers())
    for table in tables:
        third.record_table(table)
    assert experiment.merge(third) == []
    assert [question.index for question in experiment.merge(other)] == [1]
    assert experiment.answers()["winner"].dropna().tolist() == [0, 1]
    assert experiment.answers()["tie"].dropna().tolist() == [1, 1]


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
    with pytest.raises(ExperimentError, match=r"Question 0 .* withdraw question 0"):
        experiment.record_table(edited)
    assert experiment.record_table(table) == []
    experiment.withdraw(0)
    assert len(experiment.record_table(edited)) == 1
    assert experiment.record_table(edited) == []
    assert experiment.answers()["winner"].tolist() == [0, 1, 0, 1]


def test_each_of_two_equal_questions_has_its_own_events(tmp_path, monkeypatch) -> None:
    """As of a table that says a duel twice, and is recorded in one millisecond."""
    monkeypatch.setattr(log, "now", lambda: "2026-01-01T00:00:00.000+00:00")
    experiment = triangle(tmp_path / "triangle.db")
    for _ in range(3):
        tell(experiment, [A, B], winner=0)
    copy = experiment.copy(storage=tmp_path / "copy.db")
    copy.withdraw(1)
    assert experiment.merge(copy) == []
    assert {*experiment.answers()["question"]} == {0, 2}


def test_what_two_copies_were_told_of_one_question_is_two_answers(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    question = show(experiment, A, B)
    copy = experiment.copy(storage=tmp_path / "copy.db")
    experiment.tell(question, winner=0, rater="ann")
    copy.tell(question, winner=1, rater="bo")
    (added,) = experiment.merge(copy)
    assert (added.index, added.options) == (1, question.options)
    table = experiment.answers()
    assert table["winner"].tolist() == [1, 0, 0, 1]
    assert table["rater"].tolist() == ["ann", "ann", "bo", "bo"]


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
            found = load.load_experiment("triangle")
    finally:
        db.SESSION_FACTORY = None
    assert str(found.search_space) == str(played.experiment.search_space)
    assert len(found.trials) == 4
    means = found.lookup_data().df.sort_values(["trial_index", "arm_name"])["mean"]
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
    found = trial.time_created, trial.time_completed
    for local, event in zip(found, experiment.log.events, strict=True):
        in_utc = datetime.fromisoformat(event.time).replace(tzinfo=None)
        assert local - in_utc == timedelta(hours=9)
