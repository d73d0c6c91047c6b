"""A change that was not written has not happened, and the retry writes it."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from showing import A, B, C, resumed, show, triangle
from sqlalchemy.exc import OperationalError

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.log_store import LogStore
from botorch_pref.errors import StorageError

Failure = Callable[[Path, pytest.MonkeyPatch], Iterator[None]]


@contextmanager
def locked(path: Path, _patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Locks the database by another process, longer than this one waits."""
    connection = sqlite3.connect(path)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.close()


@contextmanager
def broken_disk(_path: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets the disk fail in the middle of a write, and while it is read."""

    def fail(*_args: object, **_kwargs: object) -> None:
        raise OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))

    with patch.context() as broken:
        broken.setattr(LogStore, "_record", fail)
        yield


@contextmanager
def absent(path: Path, _patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Moves the file away for a while, as on a network."""
    away = path.rename(path.with_name("away"))
    try:
        yield
    finally:
        away.rename(path)


FAILURES = [
    pytest.param(locked, id="locked"),
    pytest.param(broken_disk, id="disk"),
    pytest.param(absent, id="absent"),
]


def started(path: Path) -> PreferenceExperiment:
    """Makes an answered question and one that is pending; a lock is not waited for."""
    experiment = triangle(f"sqlite:///{path}?timeout=0.01")
    experiment.tell(show(experiment, A, B), winner=0)
    show(experiment, B, C)
    return experiment


CHANGES = {
    "ask": lambda experiment: experiment.ask(2),
    "tell": lambda experiment: experiment.tell(1, winner=1, levels=None),
    "withdraw": lambda experiment: experiment.withdraw(0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_retry_writes_what_a_failure_lost(
    failure: Failure, change, tmp_path, monkeypatch
) -> None:
    path = tmp_path / "triangle.db"
    experiment, settings = started(path), CHANGES[change]
    with failure(path, monkeypatch):
        with pytest.raises(StorageError, match="Cannot"):
            settings(experiment)
        # Neither is it taken for done, nor is anything built on it.
        for _ in range(2):
            with pytest.raises(StorageError, match=r"(?s)could not be written.*repeat"):
                settings(experiment)
        with pytest.raises(StorageError, match=r"could not be written"):
            _ = experiment.pending
    assert state(experiment) == state(resumed(path))
    assert len(state(experiment)) == 2
    settings(experiment)
    assert state(experiment) == state(resumed(path))
    assert sum(len(events) for events in state(experiment)) == 4


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_interrupted_before_it_is_written_has_not_happened(
    change, tmp_path, monkeypatch
) -> None:
    path = tmp_path / "triangle.db"
    experiment = started(path)

    def interrupt(*_args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LogStore, "append", interrupt)
        with pytest.raises(KeyboardInterrupt):
            CHANGES[change](experiment)
    assert state(experiment) == state(resumed(path))
    CHANGES[change](experiment)
    assert sum(len(events) for events in state(resumed(path))) == 4


def test_what_was_written_before_the_failure_is_not_written_twice(
    tmp_path, monkeypatch
) -> None:
    path = tmp_path / "triangle.db"
    experiment = started(path)
    save = LogStore.append

    def written_but_lost(*args: object) -> None:
        save(*args)
        raise StorageError("Cannot say whether it was written")

    with monkeypatch.context() as patch:
        patch.setattr(LogStore, "append", written_but_lost)
        with pytest.raises(StorageError, match="Cannot say"):
            experiment.tell(1, winner=1)
    experiment.tell(1, winner=1)
    assert sum(len(events) for events in state(resumed(path))) == 4


def state(experiment: PreferenceExperiment) -> list[list[str]]:
    """Lists what happened to each question."""
    trials = experiment.experiment.trials.values()
    return [
        [event["kind"] for event in trial._properties["preference_events"]]
        for trial in trials
    ]


def test_a_store_that_another_program_holds_says_what_to_do(
    tmp_path, monkeypatch
) -> None:
    path = tmp_path / "triangle.db"
    experiment = started(path)
    with (
        locked(path, monkeypatch),
        pytest.raises(StorageError, match=r"is locked; wait for the other program"),
    ):
        experiment.tell(1, winner=1)
