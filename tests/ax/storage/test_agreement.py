"""What was changed in a store is refused, and what differs is said."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from showing import A, B, C, D, show, tell, triangle

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import StorageError


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    for name in ("triangle.db", "triangle.json"):
        experiment = triangle(folder / name, num_levels=4)
        tell(experiment, [A, B], winner=1, levels=[1, 2])
        tell(experiment, [A, B, C], ranking=[2, 0, 1], invalid=[])
        tell(experiment, [B, C], strength=1 / 3, ratings=[0.1 + 0.2, None])
        tell(experiment, [A, C], cannot_compare=True)
        tell(experiment, [C, D], tie=True)
        experiment.withdraw(4)
        experiment.tell(4, winner=0)
        experiment.withdraw(show(experiment, D, A))
        show(experiment, B, D)
    return folder


def test_what_nobody_changed_agrees(played) -> None:
    for path in played.iterdir():
        experiment = PreferenceExperiment.resume("triangle", storage=path)
        assert len(experiment.experiment.trials) == 7


def event(stored: Any, trial: int, number: int = 1) -> dict:
    return stored["trials"][str(trial)]["properties"]["preference_events"][number]


def arm(stored: Any, trial: int) -> dict:
    (run,) = stored["trials"][str(trial)]["generator_runs"]
    return run["arms"][0]["parameters"]


CHANGES: dict[str, tuple[Callable[[Any], object], str]] = {
    "winner of none": (
        lambda s: event(s, 0)["what"].update(winner=7),
        "trial 0 .*'winner': 7.*not one of",
    ),
    "other winner": (
        lambda s: event(s, 0)["what"].update(winner=0),
        "The log of trial 0 says .*data say",
    ),
    "other level": (
        lambda s: event(s, 0)["what"].update(levels=[1, 3]),
        "The log of trial 0 says",
    ),
    "no boolean": (
        lambda s: event(s, 3)["what"].update(cannot_compare="no"),
        "True or False",
    ),
    "told twice": (lambda s: event(s, 4, 2).update(kind="told"), "told, told"),
    "asked twice": (lambda s: event(s, 0).update(kind="asked"), "asked, asked"),
    "never told": (
        lambda s: event(s, 0).update(kind="withdrawn"),
        "COMPLETED, and by its log it is ABANDONED",
    ),
    "outside the space": (lambda s: arm(s, 0).update(a=9.0), "not in the search space"),
    "against a constraint": (
        lambda s: arm(s, 0).update(a=1.9, b=1.9),
        "not in the search space",
    ),
    "no number": (
        lambda s: arm(s, 0).update(a=float("nan")),
        "not in the search space",
    ),
    "no parameter": (lambda s: arm(s, 0).pop("a"), "not in the search space"),
    "no trial": (lambda s: s["trials"].pop("2"), "cannot be read|holds no experiment"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_refused(change, played, tmp_path) -> None:
    path = Path(shutil.copy(played / "triangle.json", tmp_path))
    stored = json.loads(path.read_text(encoding="utf-8"))
    act, match = CHANGES[change]
    act(stored)
    path.write_text(json.dumps(stored), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(StorageError, match=match):
        PreferenceExperiment.resume("triangle", storage=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("DELETE FROM data_v2", "data say nothing"),
        ("DELETE FROM data_v2 WHERE trial_index = 2", "log of trial 2 .*say nothing"),
        ("UPDATE data_v2 SET trial_index = 5 WHERE trial_index = 4", "log of trial 4"),
        ("UPDATE data_v2 SET data_json = replace(data_json, '1.0', '0.0')", "log of"),
        ('UPDATE trial_v2 SET status = 2 WHERE "index" = 0', "Trial 0 is"),
        ('DELETE FROM trial_v2 WHERE "index" = 1', "count from 0|lost"),
    ],
)
def test_a_changed_database_is_refused(statement, match, played, tmp_path) -> None:
    path = Path(shutil.copy(played / "triangle.db", tmp_path))
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match=match):
        PreferenceExperiment.resume("triangle", storage=path)
    assert path.read_bytes() == before
