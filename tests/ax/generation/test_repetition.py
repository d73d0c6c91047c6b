"""Questions that are asked again for the sake of consistency."""

import pytest
from showing import PARAMETERS

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.generation.asking import question_again


def experiment_with(storage, answers, **settings) -> PreferenceExperiment:
    settings = {"initial": 100, **settings}
    experiment = PreferenceExperiment.create(
        "again", parameters=PARAMETERS, storage=storage, **settings
    )
    for _ in range(answers):
        experiment.tell(experiment.ask(2), winner=0)
    return experiment


def test_the_rate_is_that_of_the_settings(tmp_path) -> None:
    experiment = experiment_with(tmp_path / "again.db", 4)
    log, settings = experiment.log, experiment.log.settings
    object.__setattr__(settings, "initial", 4)
    object.__setattr__(settings, "repeat_rate", 0.2)
    runs = [question_again(log, 2, seed) for seed in range(1000)]
    again = [run for run in runs if run is not None]
    # Four standard deviations of a binomial count.
    assert abs(len(again) - 200) < 4 * (1000 * 0.2 * 0.8) ** 0.5
    # Each but the last, which everybody remembers.
    counts = [sum(run.repeats == number for run in again) for number in range(4)]
    for run in again:
        shown = [option.parameters for option in log.questions[run.repeats].options]
        assert all(option in shown for option in run.options)
        assert len(run.options) == 2
    assert counts[-1] == 0
    assert all(count > 30 for count in counts[:-1])
    assert question_again(log, 3, 0) is None
    object.__setattr__(settings, "initial", 5)
    assert all(question_again(log, 2, seed) is None for seed in range(50))


@pytest.mark.slow
def test_the_log_and_the_report_say_which_question_was_asked_again(tmp_path) -> None:
    storage = tmp_path / "again.db"
    experiment = experiment_with(storage, 3, initial=3, repeat_rate=1.0)
    earlier = [
        {arm.signature for arm in trial.arms}
        for trial in experiment.experiment.trials.values()
    ]
    for _ in range(2):
        question = experiment.ask(2)
        trial = experiment.experiment.trials[question.index]
        what = experiment.log.questions[question.index].asked
        assert what["chosen_by"] == "Repeat"
        assert {arm.signature for arm in trial.arms} == earlier[what["repeats"]]
        experiment.tell(question, winner=0)
    resumed = PreferenceExperiment.resume("again", storage=storage)
    value = resumed.report().summary["value"]
    assert value["asked again on purpose"] == 2
    assert value["pairs asked about again"] == 2
