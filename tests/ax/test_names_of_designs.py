"""Designs of a catalogue have their ids, and experiments say what they are."""

import pickle

import pandas as pd
from showing import A, B, tell, triangle

from botorch_pref.ax import Design, PreferenceExperiment

SONGS = pd.DataFrame(
    {"length": [2.5, 3.0, 4.5], "loud": [0.1, 0.9, 0.4]},
    index=["aria", "march", "waltz"],
)


def test_what_is_shown_and_recommended_has_its_id(tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "songs", catalogue=SONGS, storage=tmp_path / "songs.db"
    )
    question = experiment.record(["waltz", "aria"], winner=0)
    assert [option.id for option in question.options] == ["waltz", "aria"]
    assert [option.id for option in experiment.ask().options] == [
        *experiment.pending[0].names
    ]
    assert experiment.recommend().id == "waltz"
    best = experiment.recommend(anywhere=True)
    assert best == SONGS.loc[best.id].to_dict()
    assert "id='waltz'" in repr(experiment.recommend())
    # As any design, it can be asked about.
    assert experiment.ask(options=[best, "aria"]).names == (best.id, "aria")


def test_a_design_is_a_dictionary(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B], winner=1)
    best = experiment.recommend()
    assert (best, best.id) == ({"a": B[0], "b": B[1]}, None)
    assert repr(best) == repr(dict(best))
    design = Design({"x": 1}, "one")
    for other in (design.copy(), pickle.loads(pickle.dumps(design))):
        assert (other, other.id) == (design, "one")


def test_an_experiment_says_what_it_is(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    experiment = triangle(path, model="LaplacePreferenceGP")
    tell(experiment, [A, B], winner=1)
    tell(experiment, [A, B], cannot_compare=True)
    experiment.ask()
    said = repr(experiment)
    for part in (
        "'triangle'",
        str(path),
        "3 questions, 2 answers",
        "LaplacePreferenceGP",
        "DuelingExploringEIIG",
    ):
        assert part in said
    experiment.withdraw(0)
    assert "1 answers" in repr(experiment)
