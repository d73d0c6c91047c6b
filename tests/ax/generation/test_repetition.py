"""Questions that are asked again for the sake of consistency."""

import pytest
import torch
from parameters import real
from showing import PARAMETERS, A, B, C, D, short_report, triangle

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.generation.question_choice import question_again
from botorch_pref.ax.rater_report import rater_checks


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
    runs = [question_again(log, 2, seed, None) for seed in range(1000)]
    again = [run for run in runs if run is not None]
    # Four standard deviations of a binomial count.
    assert abs(len(again) - 200) < 4 * (1000 * 0.2 * 0.8) ** 0.5
    # Each but the last, which everybody remembers.
    counts = [sum(run.repeats == number for run in again) for number in range(4)]
    for run in again:
        parameters = [
            option.parameters for option in log.questions[run.repeats].options
        ]
        assert all(option in parameters for option in run.options)
        assert len(run.options) == 2
    assert counts[-1] == 0
    assert all(count > 30 for count in counts[:-1])
    assert question_again(log, 3, 0, None) is None
    object.__setattr__(settings, "initial", 5)
    assert all(question_again(log, 2, seed, None) is None for seed in range(50))


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
        record = experiment.log.questions[question.index].content
        assert record["chosen_by"] == "Repeat"
        before = experiment.log.questions[record["repeats"]].options
        assert experiment.log.questions[question.index].options == before[::-1]
        assert {arm.signature for arm in trial.arms} == earlier[record["repeats"]]
        experiment.tell(question, winner=0)
    resumed = PreferenceExperiment.resume("again", storage=storage)
    report = short_report(resumed)
    # The first of two won, and again when the order was the opposite.
    assert report.checks.loc["", ["checks", "alike"]].tolist() == [2, 0]
    assert "checks" in str(report)
    value = report.summary["value"]
    assert value["asked again on purpose"] == 2
    assert value["pairs asked about again"] == 2


def test_raters_are_asked_their_own_questions_again_in_the_opposite_order(
    tmp_path,
) -> None:
    storage = tmp_path / "again.db"
    experiment = experiment_with(storage, 0, initial=4, repeat_rate=1.0)
    for rater in ("ann", "bob", "ann", "bob", "ann"):
        # Bob's page shows options in an order of its own.
        order = [2, 0, 1] if rater == "bob" else None
        question = experiment.ask(3, rater=rater)
        experiment.tell(question, best=0, order=order)
    experiment = PreferenceExperiment.resume("again", storage=storage)
    log = experiment.log
    for name, earlier, order in (("bob", [1], [1, 0, 2]), ("ann", [0, 2], [2, 1, 0])):
        question = experiment.ask(3, rater=name)
        number = log.questions[question.index].content["repeats"]
        assert number in earlier
        options = experiment.question(number).options
        assert question.options == tuple(options[place] for place in order)
    # Bob has one left that he was not asked again, and nobody knows Cem.
    assert {question_again(log, 3, seed, "bob").repeats for seed in range(9)} == {3}
    assert all(question_again(log, 3, seed, "cem") is None for seed in range(9))


def test_checks_are_counted_by_rater_from_what_was_shown(tmp_path) -> None:
    experiment = triangle(tmp_path / "checks.db")
    pair, trio = (A, B), (A, B, C)
    answers = [
        (None, (A, D), {"winner": 0}),
        ("ann", pair, {"winner": 0}),
        ("bob", pair, {"winner": 1}),
        ("ann", pair[::-1], {"winner": 1}),  # alike
        ("ann", pair, {"tie": True}),  # not
        ("ann", pair[::-1], {"cannot_compare": True}),  # no answer
        ("ann", pair[::-1], {"tie": True}),  # alike
        ("ann", trio, {"best": 2}),
        ("ann", trio[::-1], {"ranking": (0, 2, 1)}),  # alike
        (None, (D, A), {"winner": 0}),  # not
    ]
    for rater, options, answer in answers:
        designs = [{"a": a, "b": b} for a, b in options]
        experiment.record(designs, rater=rater, **answer)
    checks = rater_checks(experiment.log)
    assert checks.index.tolist() == ["ann", ""]
    assert checks["checks"].tolist() == [4, 1]
    assert checks["alike"].tolist() == [0.75, 0.0]
    for end in (checks["lower"], checks["upper"]):
        # Each end is 1.96 of its own deviations away from the share.
        deviation = (end * (1 - end) / checks["checks"]) ** 0.5
        away = (end - checks["alike"]).abs()
        assert away.to_numpy() == pytest.approx(1.959963985 * deviation.to_numpy())
    experiment.withdraw(len(answers) - 1)
    assert rater_checks(experiment.log).index.tolist() == ["ann"]
    for number in (1, 2, 3, 4, 6, 8):
        experiment.withdraw(number)
    assert rater_checks(experiment.log) is None


@pytest.mark.slow
def test_who_sees_no_difference_is_asked_something_else(tmp_path) -> None:
    """Without a warning of the search, which is an error here."""
    experiment = PreferenceExperiment.create(
        "same", parameters=[real("x"), real("y")], storage=tmp_path / "same.db"
    )
    options: list[torch.Tensor] = []
    for number in range(9):
        question = experiment.ask(2)
        points = torch.tensor([[o["x"], o["y"]] for o in question.options])
        for before in options[5:]:
            apart = torch.cdist(points, before)
            assert max(apart.amin(0).max(), apart.amin(1).max()) > 0.05, (
                f"question {number} shows options that were tied before"
            )
        options.append(points)
        experiment.tell(question, tie=True)


def test_a_search_is_told_which_questions_were_ties(tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "some", parameters=[real("x"), real("y")], storage=tmp_path / "some.db"
    )
    for answer in ({"winner": 0}, {"tie": True}, {"winner": 1}, {"tie": True}):
        question = experiment.ask(2)
        experiment.tell(question, **answer)
    experiment.ask(2)
    adapter = experiment.fitted_adapter()
    smallest_differences = adapter._search_arguments(2, {})["distinctness"]
    assert len(smallest_differences.questions) == 5
    assert torch.equal(
        smallest_differences.tied, smallest_differences.questions[[1, 3]]
    )
    assert torch.equal(smallest_differences.pending, smallest_differences.questions[4:])
