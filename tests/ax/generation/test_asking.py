"""Options of the questions that are asked."""

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ax.utils.common.random import with_rng_seed
from botorch.exceptions.errors import CandidateGenerationError
from botorch.optim.optimize import optimize_acqf
from espresso import QUICK, QUICK_FIT, create, play
from parameters import choice, whole
from showing import triangle

from botorch_pref.acquisition import incumbent, option_search
from botorch_pref.ax import PreferenceExperiment, Settings
from botorch_pref.ax.best_designs import fitted_adapter
from botorch_pref.ax.generation import question_choice, search
from botorch_pref.ax.generation.question_choice import (
    chosen_question,
    chosen_questions,
    derived_seed,
    fitted_sobol_spec,
    next_run,
    preference_generation_strategy,
)
from botorch_pref.ax.naming import duel_classes
from botorch_pref.errors import ExperimentError

CHOOSE_ALL = {"DuelingBALD", "DuelingEUBO", "DuelingKG"}


@pytest.fixture(scope="module")
def answered(tmp_path_factory) -> Path:
    storage = tmp_path_factory.mktemp("answered") / "espresso.db"
    play(create(storage, initial=3), 3)
    return storage


@pytest.mark.slow
@pytest.mark.parametrize("acquisition", sorted(duel_classes()))
def test_questions_of_every_acquisition_function(
    acquisition, answered, tmp_path
) -> None:
    storage = shutil.copy(answered, tmp_path)
    experiment = PreferenceExperiment.resume("espresso", storage=storage)
    experiment.log.settings = replace(experiment.settings, acquisition=acquisition)
    # All that was shown was judged.
    shown_before = experiment.experiment.arms_by_name.values()
    shown_designs = {tuple(arm.parameters.items()) for arm in shown_before}
    # Of three options where they are chosen one by one, and jointly.
    sizes = (2, 3) if acquisition in ("DuelingEIIG", "DuelingEUBO") else (2, 2)
    questions = [experiment.ask(size) for size in sizes]
    for question, size in zip(questions, sizes, strict=True):
        options = [tuple(option.items()) for option in question.options]
        assert len(set(options)) == size
        for option in question.options:
            space = experiment.experiment.search_space
            assert space.check_membership(option, raise_error=True)
        is_known = [tuple(dict(option).items()) in shown_designs for option in options]
        assert sum(is_known) == (acquisition not in CHOOSE_ALL)
    assert questions[0].options != questions[1].options
    assert experiment.pending == questions


def test_the_model_asks_where_ordered_values_are_constrained(tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "uneven",
        parameters=[choice("x", [1, 2, 4, 9], is_ordered=True), whole("y", 0, 11)],
        parameter_constraints=["x + y <= 11"],
        storage=tmp_path / "uneven.db",
        initial=1,
    )
    better = {"x": 4, "y": 7}
    for y, x in ((6, 4), (9, 2), (4, 4), (6, 2)):
        experiment.record([better, {"x": x, "y": y}], winner=0)
    for _ in range(3):
        question = experiment.ask(2)
        assert (
            experiment.log.questions[question.index].content["chosen_by"]
            == "Preference"
        )
        experiment.tell(question, winner=question.options.index(better))
    assert experiment.recommend(anywhere=True) == better


def test_seeds_of_purposes_differ_and_do_not_change() -> None:
    settings = Settings(seed=4)
    seeds = [
        derived_seed(settings, *key) for key in itertools.product(range(9), [0, 1])
    ]
    assert len(set(seeds)) == len(seeds)
    assert derived_seed(settings, 3, 1) == derived_seed(Settings(seed=4), 3, 1)
    assert derived_seed(settings, 3, 1) != derived_seed(Settings(seed=5), 3, 1)
    # What was stored yesterday must go on tomorrow.
    assert derived_seed(Settings(seed=0), 7) == 3275080397


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        {"invalid": [0, 1]},
        {"levels": [0, 1]},
        {"ratings": [0.2, 0.4]},
        {"strength": 0.7},
    ],
)
def test_duels_follow_answers_that_are_no_duels(answer, tmp_path) -> None:
    experiment = create(tmp_path / "espresso.db", initial=1, num_levels=2)
    experiment.tell(experiment.ask(2), **answer)
    question = experiment.ask(2)
    assert experiment.log.questions[question.index].content["chosen_by"] == "Preference"


def little(storage, values, **settings) -> PreferenceExperiment:
    return PreferenceExperiment.create(
        "little",
        parameters=[choice("tea", values, is_ordered=True)],
        storage=storage,
        **settings,
    )


@pytest.mark.slow
def test_in_a_little_space_no_option_meets_itself(tmp_path) -> None:
    experiment = little(tmp_path / "little.db", ["green", "black"], initial=2)
    for _ in range(4):
        question = experiment.ask(2)
        assert {option["tea"] for option in question.options} == {"green", "black"}
        experiment.tell(
            question, winner=[o["tea"] for o in question.options].index("green")
        )
    chosen_by = [record.content["chosen_by"] for record in experiment.log.questions]
    assert chosen_by == ["Sobol", "Sobol", "Preference", "Preference"]
    assert experiment.recommend() == {"tea": "green"}
    assert experiment.recommend(anywhere=True) == {"tea": "green"}


@pytest.mark.slow
def test_no_question_twice_while_others_are_left(tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "few",
        parameters=[
            whole("n", 0, 3),
            choice("tea", ["a", "b", "c"], is_ordered=False),
        ],
        storage=tmp_path / "few.db",
        initial=3,
        repeat_rate=0,
        fit_options=QUICK_FIT,
    )
    questions = []
    for _ in range(8):
        question = experiment.ask(2)
        shown_options = [tuple(option.values()) for option in question.options]
        questions.append(frozenset(shown_options))
        # The same judge as one who errs: the model is not sure of anything.
        experiment.tell(question, winner=len(questions) % 2)
    assert len(set(questions)) == len(questions)
    assert {len(options) for options in questions} == {2}


@pytest.mark.usefixtures("few_draws")
def test_the_only_duel_is_not_asked_twice_at_once(tmp_path) -> None:
    experiment = little(tmp_path / "little.db", ["green", "black"])
    with pytest.raises(ExperimentError, match="already; ask about fewer options"):
        experiment.ask(3)
    experiment.ask(2)
    with pytest.raises(ExperimentError, match="answer what is pending"):
        experiment.ask(2)
    with pytest.raises(ExperimentError, match="No 3 options"):
        experiment.ask(3)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("initial", [1, 9])
def test_the_only_duel_is_asked_of_everybody_once_at_a_time(initial, tmp_path) -> None:
    """Ten people who taste two teas are not to wait for one of them."""
    experiment = little(tmp_path / "two.db", ["green", "black"], initial=initial)
    experiment.tell(experiment.ask(2, rater="ann"), winner=0)
    questions = [experiment.ask(2, rater=rater) for rater in ("ann", "bob", None)]
    teas = [{option["tea"] for option in question.options} for question in questions]
    assert teas == [{"green", "black"}] * 3
    with pytest.raises(ExperimentError, match="answer what is pending"):
        experiment.ask(2, rater="ann")
    experiment.tell(questions[0], winner=0)
    assert experiment.ask(2, rater="ann").rater == "ann"


@pytest.mark.usefixtures("few_draws")
def test_what_nobody_is_asked_goes_before_what_others_are(tmp_path) -> None:
    experiment = little(tmp_path / "three.db", ["green", "black", "white"], initial=9)
    names = [
        frozenset(option["tea"] for option in experiment.ask(2, rater=rater).options)
        for rater in "abcde"
    ]
    assert len(set(names[:3])) == 3
    assert set(names[3:]) <= set(names[:3])


def test_an_answered_question_goes_before_what_others_are_asked(tmp_path) -> None:
    teas = ["green", "black", "white"]
    experiment = little(tmp_path / "three.db", teas, initial=9, repeat_rate=0)
    first = experiment.ask(2, rater="ann")
    experiment.tell(first, winner=0)
    for _ in range(2):
        experiment.ask(2, rater="bob")
    again = experiment.ask(2, rater="ann")
    assert {o["tea"] for o in again.options} == {o["tea"] for o in first.options}


def test_sobol_points_that_stand_in_go_on_where_they_were(
    tmp_path, monkeypatch
) -> None:
    def fails(*_args: object, **_keywords: object) -> None:
        raise CandidateGenerationError("Nothing can be found.")

    monkeypatch.setattr(question_choice, "next_run", fails)
    experiment = create(tmp_path / "espresso.db")
    options = []
    for _ in range(5):
        question = experiment.ask(2)
        experiment.tell(question, winner=0)
        options += [tuple(option.items()) for option in question.options]
    assert len(set(options)) == len(options)


def test_spread_options_are_the_points_of_one_sequence(tmp_path) -> None:
    experiment = create(tmp_path / "espresso.db", initial=9)
    ax, settings = experiment.experiment, experiment.settings
    with with_rng_seed(0):
        run = fitted_sobol_spec(ax, settings, 0).gen(n=6)
    options = [option for _ in range(3) for option in experiment.ask(2).options]
    for number, option in enumerate(options):
        drawn = [arm.parameters for arm in run.arms[number // 2 * 2 :][:2]]
        # Choices are rounded at random where several of them are equally near.
        assert option["dose"] in [design["dose"] for design in drawn]


@pytest.mark.slow
def test_what_is_pending_counts_and_what_was_withdrawn_does_not(
    answered, tmp_path
) -> None:
    storage = shutil.copy(answered, tmp_path)
    experiment = PreferenceExperiment.resume("espresso", storage=storage)
    experiment.withdraw(experiment.ask(2))
    question = experiment.ask(2)
    assert experiment.log.questions[question.index].content["chosen_by"] == "Preference"
    pending = [(option["dose"] - 14) / 8 for option in question.options]
    adapter = fitted_adapter(
        experiment._stored.projection, duel_classes()["DuelingEIIG"]
    )
    adapter.gen(2, model_gen_options={"optimizer_kwargs": QUICK})
    points = adapter.generator._acquisition.acqf.X_pending
    dose = adapter.parameters.index("dose")
    assert sorted(points[:, dose].tolist()) == pytest.approx(sorted(pending))


@pytest.mark.slow
def test_open_questions_are_whole_where_all_options_are_chosen(
    answered, tmp_path
) -> None:
    """One option was answered already, and a question of another size is no pair."""
    storage = shutil.copy(answered, tmp_path)
    experiment = PreferenceExperiment.resume("espresso", storage=storage)
    parameters = experiment.experiment.trials[0].arms[0].parameters
    question = experiment.ask(options=[parameters, {**parameters, "dose": 15.5}])
    experiment.ask(
        options=[{**parameters, "dose": dose} for dose in (16.5, 17.5, 18.5)]
    )
    adapter = fitted_adapter(
        experiment._stored.projection, duel_classes()["DuelingEUBO"]
    )
    adapter.gen(2, model_gen_options={"optimizer_kwargs": QUICK})
    pending = adapter.generator._acquisition.acqf.X_pending
    dose = adapter.parameters.index("dose")
    expected = [(option["dose"] - 14) / 8 for option in question.options]
    assert pending[:, dose].tolist() == pytest.approx(expected)


@pytest.mark.slow
def test_an_option_that_was_judged_is_not_pending(answered, tmp_path) -> None:
    """Also where a question about it and another one is open."""
    storage = shutil.copy(answered, tmp_path)
    experiment = PreferenceExperiment.resume("espresso", storage=storage)
    parameters = experiment.experiment.trials[0].arms[0].parameters
    experiment.ask(options=[parameters, {**parameters, "dose": 15.5}])
    adapter = fitted_adapter(
        experiment._stored.projection, duel_classes()["DuelingEIIG"]
    )
    adapter.gen(2, model_gen_options={"optimizer_kwargs": QUICK})
    pending = adapter.generator._acquisition.acqf.X_pending
    dose = adapter.parameters.index("dose")
    assert pending[:, dose].tolist() == pytest.approx([1.5 / 8])


@pytest.mark.slow
def test_a_gain_is_over_choices_as_good_as_the_incumbent(answered, tmp_path) -> None:
    storage = shutil.copy(answered, tmp_path)
    experiment = PreferenceExperiment.resume("espresso", storage=storage)
    joint = duel_classes()["DuelingJointKG"]
    adapter = fitted_adapter(experiment._stored.projection, joint)
    adapter.gen(4, model_gen_options={"optimizer_kwargs": QUICK})
    model, choices = adapter.botorch_model, adapter.generator._acquisition.acqf.choices
    assert len(choices) > 4
    best = model.posterior(incumbent(model)).mean
    assert model.posterior(choices).mean.max() >= best - 1e-9


def test_options_of_the_optimizer_reach_it(tmp_path, monkeypatch) -> None:
    calls: list[dict] = []

    def noted(*args, **options):
        calls.append(options)
        return optimize_acqf(*args, **options)

    monkeypatch.setattr(option_search, "optimize_acqf", noted)
    experiment = triangle(tmp_path / "triangle.db", initial=1, optimizer_options=QUICK)
    experiment.tell(experiment.ask(2), winner=0)
    experiment.ask(2)
    assert calls[-1]["num_restarts"] == 1
    assert calls[-1]["options"].items() >= QUICK["options"].items()


@pytest.mark.slow
@pytest.mark.parametrize("initial", [3, 4])
def test_questions_are_those_of_the_strategy(initial, answered) -> None:
    experiment = PreferenceExperiment.resume("espresso", storage=answered)
    ax, settings = experiment.experiment, replace(experiment.settings, initial=initial)
    strategy = preference_generation_strategy(settings, position=6)
    with with_rng_seed(9):
        theirs = strategy.gen_single_trial(ax, n=2)
    with with_rng_seed(9):
        ours = next_run(ax, settings, position=6, size=2)
    assert [a.parameters for a in ours.arms] == [a.parameters for a in theirs.arms]
    assert ours._generation_node_name == theirs._generation_node_name
    assert ours._generator_key == theirs._generator_key
    assert ours._generator_state_after_gen == theirs._generator_state_after_gen


def test_the_strategy_of_an_experiment_goes_on_where_it_stands(tmp_path) -> None:
    experiment = create(tmp_path / "espresso.db", initial=100)
    question = experiment.ask(2)
    experiment.tell(question, winner=0)
    ax, strategy = experiment.experiment, experiment.generation_strategy
    theirs = [arm.parameters for arm in strategy.gen_single_trial(ax, n=2).arms]
    parameters = [arm.parameters for arm in ax.arms_by_name.values()]
    assert [design in parameters for design in theirs] == [False, False]


def of_four(storage: Path, **settings: Any) -> PreferenceExperiment:
    """Makes an experiment with three answers about four options, for a model."""
    experiment = create(storage, **{"initial": 3, "repeat_rate": 0, **settings})
    for number in range(3):
        experiment.tell(experiment.ask(4), best=number, rater="ann")
    return experiment


PEOPLE = ["ann", "bob", "cid", "dan", "eve"]


@pytest.mark.slow
def test_people_who_answer_at_the_same_time_are_asked_different_questions(
    tmp_path,
) -> None:
    experiment = of_four(tmp_path / "espresso.db")
    projection, before = experiment._stored.projection, experiment.version
    found_questions = chosen_questions(projection, 4, PEOPLE)
    assert found_questions[0] == chosen_question(projection, 4, "ann")
    assert 2 < len(found_questions) <= 5
    assert {chosen.chosen_by for chosen in found_questions} == {"Preference"}
    assert experiment.version == before
    # Kept as they are asked, and each only if it is new there.
    questions = [
        experiment._add(lambda log, chosen=chosen, name=name: log.ask(chosen, name))[0]
        for chosen, name in zip(found_questions, PEOPLE, strict=False)
    ]
    assert len({frozenset(question.names) for question in questions}) == len(
        found_questions
    )
    reopened = PreferenceExperiment.resume("espresso", storage=tmp_path / "espresso.db")
    assert reopened.pending == questions
    orders = [chosen.places for chosen in found_questions]
    assert len({tuple(order) for order in orders}) > 1


def test_one_question_is_chosen_where_others_cannot_be(tmp_path) -> None:
    """Of the spread, of people with utilities of their own, and of one who is alone."""
    spread = create(tmp_path / "spread.db")
    assert len(chosen_questions(spread._stored.projection, 4, PEOPLE)) == 1
    for name, people in (("share", PEOPLE), ("pool", PEOPLE[:1])):
        experiment = of_four(tmp_path / f"{name}.db", raters=name)
        (chosen,) = chosen_questions(experiment._stored.projection, 4, people)
        assert chosen == chosen_question(experiment._stored.projection, 4, people[0])


def test_of_many_open_options_a_choice_allows_for_those_that_may_be_the_best(
    tmp_path, monkeypatch
) -> None:
    experiment, allowed = of_four(tmp_path / "espresso.db"), []

    def noted(search: object, acquisition: Any, *_arguments: object) -> None:
        allowed.append(acquisition)
        raise CandidateGenerationError("not needed")

    monkeypatch.setattr(search.QuestionSearch, "several", noted)
    for number in range(1, 12):
        if number not in (1, 4, 8, 11):
            # As those that a choice without a search spreads, but sooner.
            doses = [14 + 0.1 * (4 * number + i) for i in range(4)]
            first = {"grind": 1.0, "ratio": 1, "bean": "a", "cup": 2}
            experiment.ask(options=[{"dose": dose, **first} for dose in doses])
            continue
        experiment.ask(4)
        pending = allowed[-1].X_pending
        assert (0 if pending is None else len(pending)) <= min(4 * number - 4, 24)
    waiting = [option for question in experiment.pending for option in question.options]
    adapter = fitted_adapter(experiment._stored.projection)
    points = adapter.points_of(waiting[:40])
    assert all((points == point).all(-1).any() for point in pending)
    means = allowed[-1].model.posterior(points).mean.squeeze(-1)
    best = points[means.argmax()]
    assert (pending == best).all(-1).any()
