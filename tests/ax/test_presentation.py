"""The order in which options are shown, and how an experiment shows itself."""

import pytest
from showing import PARAMETERS, A, B, tell, triangle

from botorch_pref.ax import PreferenceExperiment

QUESTIONS = 20


@pytest.fixture(scope="module")
def spread(tmp_path_factory) -> PreferenceExperiment:
    storage = tmp_path_factory.mktemp("spread") / "spread.db"
    experiment = PreferenceExperiment.create(
        "spread", parameters=PARAMETERS, storage=storage, initial=QUESTIONS + 1
    )
    for _ in range(QUESTIONS):
        experiment.ask(2)
    return experiment


@pytest.mark.slow
def test_what_was_chosen_first_is_shown_first_half_of_the_time(spread) -> None:
    first = sum(
        spread.question(trial.index).names[0] == trial.arms[0].name
        for trial in spread.experiment.trials.values()
    )
    # Three standard deviations of fair coins.
    assert abs(first - QUESTIONS / 2) < 3 * (QUESTIONS / 4) ** 0.5


def test_the_order_is_that_of_the_seed_and_of_the_log(spread, tmp_path) -> None:
    again = PreferenceExperiment.create(
        "spread",
        parameters=PARAMETERS,
        storage=tmp_path / "spread.db",
        initial=QUESTIONS + 1,
    )
    for pending_question in spread.pending[:3]:
        assert again.ask(2) == pending_question
    resumed = PreferenceExperiment.resume("spread", storage=tmp_path / "spread.db")
    assert resumed.pending == spread.pending[:3]
    assert resumed.ask(2) == spread.pending[3]


def test_an_experiment_says_what_it_is(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    experiment = triangle(path, model="LaplacePreferenceGP")
    tell(experiment, [A, B], winner=1)
    tell(experiment, [A, B], cannot_compare=True)
    experiment.ask(2)
    text = repr(experiment)
    for part in ("'triangle'", str(path), "3 questions, 2 answers", "LaplacePref"):
        assert part in text
