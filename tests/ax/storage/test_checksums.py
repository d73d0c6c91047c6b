"""What questions and answers depend on cannot change unnoticed, byte by byte."""

import json
import logging
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from showing import A, B, C, D, show, tell, triangle

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.storage.experiment_text import is_whole
from botorch_pref.ax.storage.log_head import LogHead
from botorch_pref.errors import BotorchPrefError, StorageError

COLUMNS = ("trial_index", "arm_name", "metric_name")
FLIPS = int(os.environ.get("BOTORCH_PREF_TEST_FLIPS", "20"))


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    for name in ("triangle.db", "triangle.json"):
        experiment = triangle(folder / name, num_levels=4, seed=3)
        experiment.tell(experiment.ask(), winner=0, rater="ann", note="sweet")
        tell(experiment, [A, B], winner=1, levels=[1, 2])
        tell(experiment, [B, C], strength=0.25, seconds=3.5)
        tell(experiment, [C, D], winner=0)
    return folder


def state(experiment: PreferenceExperiment) -> list[object]:
    """Everything that questions, answers and models depend on."""
    ax = experiment.experiment
    trials = ax.trials.values()
    data = ax.lookup_data().full_df
    return [
        experiment.settings,
        experiment.num_levels,
        str(ax.search_space),
        str(ax.optimization_config),
        [trial._properties for trial in trials],
        [{arm.name: arm.parameters for arm in trial.arms} for trial in trials],
        [trial.status for trial in trials],
        [
            r._generator_state_after_gen
            for trial in trials
            for r in trial.generator_runs
        ],
        data[["trial_index", "arm_name", "metric_name", "mean"]]
        .round(10)
        .values.tolist(),
    ]


def resumed(path: Path) -> PreferenceExperiment:
    return PreferenceExperiment.resume("triangle", storage=path)


def flipped(whole: bytes, at: int, bit: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]


def test_no_byte_of_a_json_store_changes_unnoticed(played, tmp_path) -> None:
    whole = (played / "triangle.json").read_bytes()
    assert is_whole(whole)
    for at in range(len(whole)):
        assert not is_whole(flipped(whole, at, at % 8))
    where, path = random.Random(0), tmp_path / "triangle.json"
    for _ in range(FLIPS):
        path.write_bytes(
            flipped(whole, where.randrange(len(whole)), where.randrange(8))
        )
        before = path.read_bytes()
        with pytest.raises(BotorchPrefError):
            resumed(path)
        assert path.read_bytes() == before


def test_no_byte_of_a_database_changes_what_is_loaded(played, tmp_path) -> None:
    whole, where = (played / "triangle.db").read_bytes(), random.Random(1)
    original = state(resumed(played / "triangle.db"))
    # Most of a little database is the empty rest of pages.
    used = [at for at, byte in enumerate(whole) if byte]
    path = tmp_path / "triangle.db"
    refused = 0
    for _ in range(FLIPS):
        path.write_bytes(flipped(whole, where.choice(used), where.randrange(8)))
        try:
            assert state(resumed(path)) == original
        except BotorchPrefError:
            refused += 1
    logging.getLogger(__name__).info("%d of %d refused", refused, FLIPS)
    assert refused > 0


def events(stored: Any, trial: int) -> list[dict]:
    return stored["trials"][str(trial)]["properties"]["preference_events"]


def arms(stored: Any, trial: int) -> list[dict]:
    (run,) = stored["trials"][str(trial)]["generator_runs"]
    return run["arms"]


def say_the_other_won(stored: Any) -> None:
    events(stored, 3)[1]["what"]["winner"] = 1
    ((_, data),) = stored["data_by_trial"]["3"].items()
    rows = json.loads(data["df"]["value"])
    rows["mean"] = {row: 1 - value for row, value in rows["mean"].items()}
    data["df"]["value"] = json.dumps(rows)


def lose_the_last(stored: Any) -> None:
    del stored["trials"]["3"], stored["data_by_trial"]["3"]


CHANGES: dict[str, tuple[Callable[[Any], object], str]] = {
    "another winner, everywhere": (say_the_other_won, "'winner': 1.*not what was"),
    "another note": (
        lambda s: events(s, 0)[1]["what"].update(note="sour"),
        "sour.*not what was written",
    ),
    "another time": (
        lambda s: events(s, 0)[1].update(time="2020-01-01T00:00:00.000+00:00"),
        "2020.*not what was written",
    ),
    "another rater": (
        lambda s: events(s, 0)[1]["what"].update(rater="bob"),
        "bob.*not what was written",
    ),
    "another option of the space": (
        lambda s: arms(s, 1)[0]["parameters"].update(a=0.25),
        "options of trial 1.*0.25.*not what was written",
    ),
    "another place in the sequence": (
        lambda s: s["trials"]["0"]["generator_runs"][0][
            "generator_state_after_gen"
        ].update(init_position=50),
        "trial 0.*not what was written",
    ),
    "another seed": (
        lambda s: s["properties"]["botorch_pref"].update(seed=4),
        "created with other settings;",
    ),
    "another range": (
        lambda s: s["search_space"]["parameters"][0].update(upper=3.0),
        "created with other parameters;",
    ),
    "no constraint": (
        lambda s: s["search_space"]["parameter_constraints"].clear(),
        "created with other constraints;",
    ),
    "other levels": (
        lambda s: [
            m["properties"].update(num_levels=5)
            for m in s["tracking_metrics"]
            if m["name"] == "preference_level"
        ],
        "created with other metrics;",
    ),
    "no last question": (lose_the_last, "has 6 events, and 8 were written"),
    "no checksums": (
        lambda s: s["properties"].pop("preference_log"),
        "head of the log cannot be read",
    ),
    "another head": (
        lambda s: s["properties"]["preference_log"].update(events=-8),
        "head of the log is damaged",
    ),
    "what Ax notes for itself": (
        lambda s: s["trials"]["0"]["generator_runs"][0].update(gen_time=3.0),
        "not what was written, though its questions and answers are",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_differs_is_said(change, played, tmp_path) -> None:
    path = Path(shutil.copy(played / "triangle.json", tmp_path))
    stored = json.loads(path.read_text(encoding="utf-8"))
    act, match = CHANGES[change]
    act(stored)
    path.write_text(json.dumps(stored), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(StorageError, match=match):
        resumed(path)
    assert path.read_bytes() == before


IN_A_DATABASE = {
    "UPDATE arm_v2 SET parameters = replace(parameters, '0.2', '0.6') "
    "WHERE name = '1_0'": "options of trial 1.*0.6.*not what was written",
    "UPDATE trial_v2 SET properties = replace(properties, 'sweet', 'sour')": (
        "sour.*not what was written"
    ),
    "UPDATE parameter_v2 SET upper = 3 WHERE name = 'a'": "other parameters;",
    "UPDATE experiment_v2 SET properties = replace(properties, "
    "'\"initial\": 5', '\"initial\": 6')": "other settings;",
}


@pytest.mark.parametrize(("statement", "match"), IN_A_DATABASE.items())
def test_what_differs_in_a_database_is_said(statement, match, played, tmp_path) -> None:
    path = Path(shutil.copy(played / "triangle.db", tmp_path))
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match=match):
        resumed(path)
    assert path.read_bytes() == before


def test_checksums_are_the_same_in_every_store(played, tmp_path) -> None:
    heads = []
    for name in ("triangle.db", "triangle.json"):
        experiment = resumed(played / name)
        experiment.write_json(tmp_path / "copy.json")
        copy = resumed(tmp_path / "copy.json")
        assert state(copy) == state(experiment)
        assert LogHead.of(copy.experiment) == LogHead.of(experiment.experiment)
        heads.append(LogHead.of(copy.experiment))
    # Only the times of the events differ.
    assert heads[0].parts == heads[1].parts
    assert heads[0].checksum != heads[1].checksum


def test_a_copy_that_fell_behind_is_not_overwritten(played, tmp_path) -> None:
    """Not even one with as many events: of another afternoon, put back."""
    for name in ("triangle.db", "triangle.json"):
        path = Path(shutil.copy(played / name, tmp_path))
        experiment, other = resumed(path), resumed(path)
        show(other, A, D)
        shutil.copy(path, tmp_path / "other")
        shutil.copy(played / name, path)
        show(experiment, B, D)
        shutil.copy(tmp_path / "other", path)
        with pytest.raises(StorageError, match="Another process"):
            experiment.tell(4, winner=0)
        assert state(experiment) == state(other)
