"""What a new user gets wrong is answered in words."""

import subprocess
import sys

import numpy as np
import pytest
from ax.api.configs import RangeParameterConfig
from showing import A, B, show, tell, triangle

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError, StorageError

X = RangeParameterConfig(name="x", parameter_type="float", bounds=(0, 1))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"parameters": []}, "give a list of RangeParameterConfig"),
        ({"parameters": X}, "give a list of RangeParameterConfig"),
        ({"parameters": [{"name": "x"}]}, "give a list of RangeParameterConfig"),
        ({"parameters": [X, X]}, "must be unique"),
        ({"parameter_constraints": "x <= 1"}, "give a list of texts"),
        ({"parameter_constraints": ["x + z <= 1"]}, "`z` does not exist"),
        ({"name": ""}, "give the experiment a name"),
        ({"name": None}, "give the experiment a name"),
        ({"sed": 1}, "no setting sed"),
        ({"seed": True}, "seed is True"),
        ({"initial": np.array(3)}, "initial is"),
        ({"num_levels": 2.0}, "num_levels is"),
        ({"num_levels": True}, "num_levels is"),
    ],
)
def test_an_experiment_that_cannot_be_is_refused(given, match, tmp_path) -> None:
    arguments = {"name": "x", "parameters": [X], "storage": tmp_path / "x.json"}
    with pytest.raises(ExperimentError, match=match):
        PreferenceExperiment.create(**arguments | given)
    assert not (tmp_path / "x.json").exists()


def test_numbers_may_be_of_numpy(tmp_path) -> None:
    path = tmp_path / "triangle.json"
    numbers = {"initial": np.int64(3), "seed": np.uint32(7), "num_levels": np.int8(4)}
    experiment = triangle(path, **numbers)
    question = experiment.ask(np.int64(2))
    experiment.tell(np.int64(question.index), winner=np.int64(1))
    again = PreferenceExperiment.resume("triangle", storage=path)
    assert again.settings == experiment.settings
    assert again.num_levels == 4
    with pytest.raises(ExperimentError, match="anywhere is 'no'"):
        again.recommend(anywhere="no")
    for size in (2.0, True, "2", np.array(2)):
        with pytest.raises(ExperimentError, match="size is"):
            again.ask(size)


@pytest.mark.parametrize("question", ["0", None, [0], 1.0, True, 1])
def test_a_question_that_is_none_is_refused(question, tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.json")
    show(experiment, A, B)
    with pytest.raises(ExperimentError, match=r"no question .*so far are \[0\]"):
        experiment.tell(question, winner=0)


def test_a_log_that_cannot_be_written_is_said_so(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.json")
    tell(experiment, [A, B], winner=0)
    with pytest.raises(StorageError, match=r"Cannot write .*log\.csv"):
        experiment.write_log(tmp_path / "nowhere" / "log.csv")


def test_a_database_without_its_driver_is_said_so(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StorageError, match="driver psycopg"):
        triangle("postgresql+psycopg://user:secret@localhost/database")


@pytest.mark.slow
def test_without_ax_the_extra_is_named() -> None:
    lines = "import sys; sys.modules['ax'] = None; import botorch_pref.ax"
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", lines],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "need ax: pip install 'botorch-pref[ax]'" in process.stderr
