"""Places where experiments are kept: whole or not at all, or refused."""

import os
import shutil
import sqlite3
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from ax.api.configs import DerivedParameterConfig
from ax.storage.sqa_store.sqa_classes import SQATrial
from espresso import CONSTRAINTS, PARAMETERS, create, play
from parameters import real
from sqlalchemy import event
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.events import VERSION, json_value
from botorch_pref.ax.log import Log
from botorch_pref.ax.log_store import EVENTS, EXPERIMENTS, LogStore, definition_of
from botorch_pref.ax.stored_log import checked_log
from botorch_pref.errors import ExperimentError, StorageError

POSTGRES = "BOTORCH_PREF_TEST_POSTGRES"


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("played") / "espresso.db"
    experiment = create(path)
    play(experiment, 1)
    experiment.ask(2)
    return path


@pytest.fixture
def stored(played, tmp_path) -> Path:
    return Path(shutil.copy(played, tmp_path))


def refused(path: Path, match: str, name: str = "espresso") -> None:
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(StorageError, match=match):
        PreferenceExperiment.resume(name, storage=path)
    assert (path.read_bytes() if path.exists() else None) == before
    assert {p.name for p in path.parent.iterdir()} <= {path.name}


def test_another_name_is_refused(stored) -> None:
    refused(stored, "no experiment 'latte'; it has 'espresso'", name="latte")


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda content: content[: len(content) // 3], "malformed; put back a copy"),
        (lambda _: b"\x80\x04K" * 999, "not a database; name another"),
        (lambda _: b"", "no experiment"),
    ],
)
def test_damaged_files_are_refused_by_what_is_wrong(stored, damage, match) -> None:
    experiment = PreferenceExperiment.resume("espresso", storage=stored)
    stored.write_bytes(damage(stored.read_bytes()))
    refused(stored, match)
    before = stored.read_bytes()
    with pytest.raises(StorageError, match=match):
        experiment.tell(1, winner=0)
    assert stored.read_bytes() == before


def test_another_version_is_refused(stored) -> None:
    with sqlite3.connect(stored) as connection:
        connection.execute(
            "UPDATE preference_experiments SET version = ?", (VERSION + 1,)
        )
    connection.close()
    refused(stored, f"version {VERSION + 1}.*version {VERSION}; use")


def test_stored_parameters_are_not_executed(tmp_path, capsys) -> None:
    """What is no sum of parameters is refused."""
    dose = real("dose", 14, 22)
    for water in ("dose + print(1)", "__import__('os').getpid() * dose", "print((1))"):
        derived = DerivedParameterConfig(
            name="water", parameter_type="float", expression_str=water
        )
        with pytest.raises(ExperimentError, match="no linear expression"):
            PreferenceExperiment.create(
                "x", parameters=[dose, derived], storage=tmp_path / "x.db"
            )
    derived = DerivedParameterConfig(
        name="water", parameter_type="float", expression_str="2 * (dose - 1) / 4"
    )
    path = tmp_path / "water.db"
    experiment = PreferenceExperiment.create(
        "x", parameters=[dose, derived], storage=path
    )
    question = experiment.ask(options=[{"dose": 15}, {"dose": 21.0}])
    assert question.options[0] == {"dose": 15.0, "water": 7.0}
    again = PreferenceExperiment.resume("x", storage=path)
    assert again.pending == [question]
    record, _ = LogStore(path).read("x")
    evil = record["parameters"].replace("2 * (dose - 1) / 4", "print((1))")
    definition = definition_of(record)
    with pytest.raises(ExperimentError, match="no linear expression"):
        Log(replace(definition, parameters=json_value(evil)))
    assert capsys.readouterr().out == ""


def test_another_search_space_is_refused(stored) -> None:
    def refused(parameters, limits, message: str) -> None:
        with pytest.raises(ExperimentError) as caught:
            PreferenceExperiment.resume(
                "espresso",
                storage=stored,
                parameters=parameters,
                parameter_constraints=limits,
            )
        assert f"search space: {message}. To go on with it leave" in str(caught.value)

    refused(PARAMETERS, (), "its constraints are others")
    dose, grind, *further_parameters = PARAMETERS
    wide = replace(dose, bounds=(10, 22))
    message = "dose is a number from 14 to 22, and given as a number from 10 to 22"
    refused([wide, grind, *further_parameters], CONSTRAINTS, message)
    message = "grind is a number from 0.1 to 10, and given as "
    linear = replace(grind, scaling=None)
    refused(
        [dose, linear, *further_parameters],
        CONSTRAINTS,
        f"{message}another kind of these",
    )
    refused([dose, *further_parameters], CONSTRAINTS, f"{message}not there")


def test_two_experiments_in_one_database(tmp_path) -> None:
    path = tmp_path / "both.db"
    first, second = create(path, "first"), create(path, "second", seed=1)
    questions = first.ask(2), second.ask(2)
    assert questions[0].options != questions[1].options
    for name, question in zip(("first", "second"), questions, strict=True):
        assert PreferenceExperiment.resume(name, storage=path).pending == [question]


@pytest.mark.parametrize(
    "place",
    [
        *("", 3, "nosuchdatabase://x", "sqlite:/x", "sqlite://"),
        "sqlite:///f?uri=true",
        # Names that no file can have.
        *("a\0b", "a" * 300, "sqlite:///" + "a" * 300),
    ],
)
def test_places_that_are_none_are_refused(place, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError):
        LogStore(place).read("espresso")
    with pytest.raises(StorageError):
        create(place)
    assert list(tmp_path.iterdir()) == []


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StorageError) as caught:
        LogStore("postgresql://me:secret@127.0.0.1:1/none").read("espresso")
    assert "secret" not in str(caught.value)


def test_the_tables_are_those_of_any_database() -> None:
    for table in (EXPERIMENTS, EVENTS):
        ddl = str(CreateTable(table).compile(dialect=postgresql.dialect()))
        assert "TEXT NOT NULL" in ddl
    assert "PRIMARY KEY (experiment, number)" in ddl
    # Ax's are not: docs/ax.md says so as long as it is true.
    trials = str(CreateTable(SQATrial.__table__).compile(dialect=postgresql.dialect()))
    assert "TEXT(4294967295)" in trials


def test_two_processes_lose_no_answer_of_each_other(stored) -> None:
    mine = PreferenceExperiment.resume("espresso", storage=stored)
    resumed = PreferenceExperiment.resume("espresso", storage=stored)
    (question,) = mine.pending
    resumed.tell(question, winner=1)
    with pytest.raises(StorageError, match="Another process"):
        mine.tell(question, winner=0)
    mine.tell(question, winner=1)
    with pytest.raises(ExperimentError, match="withdraw it"):
        mine.tell(question, winner=0)
    questions = resumed.ask(2)
    with pytest.raises(StorageError, match="Another process"):
        mine.ask(2)
    assert mine.pending == [questions]
    assert mine.ask(2) != questions
    again = PreferenceExperiment.resume("espresso", storage=stored)
    assert len(again.pending) == 2
    assert again.version == mine.version


def test_an_event_of_one_number_is_written_once(stored) -> None:
    """The database refuses it, even where nobody looks at the number of events."""
    with sqlite3.connect(stored) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(
            "INSERT INTO preference_events SELECT * FROM preference_events"
        )
    connection.close()


@pytest.mark.skipif(POSTGRES not in os.environ, reason=f"needs a URL in {POSTGRES}")
def test_postgresql_goes_on_as_sqlite(tmp_path) -> None:
    name = f"espresso {uuid.uuid4()}"
    outcomes = []
    for place in (os.environ[POSTGRES], tmp_path / "espresso.db"):
        experiment = create(place, name, initial=2)
        for number in range(3):
            play(experiment, number + 1)
            experiment = PreferenceExperiment.resume(name, storage=place)
        experiment.withdraw(0)
        experiment = PreferenceExperiment.resume(name, storage=place)
        outcomes.append((experiment.recommend(), experiment.ask(2)))
        resumed = PreferenceExperiment.resume(name, storage=place)
        experiment.withdraw(3)
        with pytest.raises(StorageError, match="Another process"):
            resumed.withdraw(3)
    assert outcomes[0] == outcomes[1]
    with pytest.raises(StorageError, match="already"):
        create(os.environ[POSTGRES], name)


@pytest.mark.skipif(POSTGRES not in os.environ, reason=f"needs a URL in {POSTGRES}")
def test_postgresql_is_read_as_of_one_moment() -> None:
    """Another process wrote between two queries, and the log was said to be damaged."""
    place, name = os.environ[POSTGRES], f"espresso {uuid.uuid4()}"
    experiment, store = create(place, name), LogStore(place)
    questions: list[object] = []

    def ask(connection, cursor, statement, *_) -> None:
        if f"FROM {EXPERIMENTS.name}" in statement and not questions:
            questions.append(experiment.ask(2))

    event.listen(store._engine, "after_cursor_execute", ask)
    assert len(checked_log(store, name).events) == 0
    assert len(checked_log(store, name).events) == 1 == len(questions)
