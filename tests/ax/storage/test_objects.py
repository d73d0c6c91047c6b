"""Objects of experiments: pickled and copied, they are the experiment opened again."""

import copy
import pickle

import pytest
from showing import A, B, resumed, show, tell, triangle

from botorch_pref.errors import ExperimentError


def test_a_pickle_is_the_name_and_the_storage(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B], winner=0)
    sent = pickle.dumps(experiment)
    assert len(sent) < 500
    question = show(experiment, B, A)
    for again in (
        pickle.loads(sent),
        copy.copy(experiment),
        copy.deepcopy([experiment])[0],
    ):
        assert again is not experiment
        assert again.version == experiment.version
        assert again.pending == [question]
    # It is the same experiment, not another one with the same answers.
    again.tell(question, winner=1)
    assert resumed(tmp_path / "triangle.db").num_answers == 2


def test_what_cannot_be_opened_again_says_what_does_it(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    to_be_read = resumed(tmp_path / "triangle.db", read_only=True)
    match = r"opened to be read.*resume\('triangle', storage="
    for act in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ExperimentError, match=match):
            act(to_be_read)
    store = experiment._stored._store
    store.path, store._place = None, "postgresql://user:secret@host/database"
    with pytest.raises(ExperimentError, match=r"URL is secret.*resume") as error:
        pickle.dumps(experiment)
    assert "secret@" not in str(error.value)
    store._place = "postgresql://user@host/database"
    assert b"postgresql://user@host/database" in pickle.dumps(experiment)
