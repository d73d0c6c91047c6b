"""Numbers of options of a question where nobody says how many."""

from typing import Any

import pandas as pd
import pytest
from ax.api.configs import (
    ChoiceParameterConfig,
    DerivedParameterConfig,
    RangeParameterConfig,
)
from espresso import QUICK, QUICK_FIT, create, utility
from parameters import choice, real, whole

from botorch_pref.acquisition import duels
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError


def cups(name: str, upper: int, **options: Any) -> RangeParameterConfig:
    return whole(name, 1, upper, **options)


def kinds(name: str, number: int) -> ChoiceParameterConfig:
    return choice(name, [f"{name}{i}" for i in range(number)], is_ordered=False)


TWICE = DerivedParameterConfig(
    name="twice", parameter_type="float", expression_str="2 * cups"
)
FINEST = real("x", 1, 16, scaling="log")
TWO_NUMBERS = [cups("a", 5), cups("b", 5)]


@pytest.mark.parametrize(
    ("parameters", "options", "size"),
    [
        ([real("x")], {}, 4),
        ([cups("cups", 7)], {}, 2),
        ([cups("cups", 8)], {}, 4),
        ([cups("cups", 7, scaling="log")], {}, 2),
        # Of 1, 2, ... 5 to the right of a, those whose sum is at most 4 or 5: 6 and 10.
        (TWO_NUMBERS, {"parameter_constraints": ["a + b <= 4"]}, 2),
        (TWO_NUMBERS, {"parameter_constraints": ["a + b <= 5"]}, 4),
        ([*TWO_NUMBERS, kinds("c", 2)], {"parameter_constraints": ["a + b <= 3"]}, 2),
        ([*TWO_NUMBERS, kinds("c", 3)], {"parameter_constraints": ["a + b <= 3"]}, 4),
        ([kinds("c", 2), kinds("d", 3)], {}, 2),
        ([kinds("c", 2), kinds("d", 4)], {}, 4),
        # A derived one makes no further designs.
        ([cups("cups", 5), TWICE], {}, 2),
        # Steps of a fifth: 6 numbers; of a seventh: 8; factors of 2: 5, of 1.4: 9.
        ([real("x")], {"smallest_difference": 1 / 5}, 2),
        ([real("x")], {"smallest_difference": 1 / 7}, 4),
        ([FINEST], {"smallest_difference": {"x": 2.0}}, 2),
        ([FINEST], {"smallest_difference": {"x": 1.4}}, 4),
    ],
)
def test_few_designs_are_compared_in_pairs(tmp_path, parameters, options, size) -> None:
    storage = tmp_path / "few.db"
    created = PreferenceExperiment.create(
        "few", parameters=parameters, storage=storage, **options
    )
    for experiment in (
        created,
        PreferenceExperiment.resume("few", storage=storage, read_only=True),
    ):
        assert experiment.default_size == size
    for number in (None, 2):
        assert len(created.ask(number).options) == (number or size)


@pytest.mark.parametrize(("number", "size"), [(5, 2), (7, 2), (8, 4)])
def test_few_rows_are_compared_in_pairs(tmp_path, number, size) -> None:
    rows = [f"tea {i}" for i in range(number)]
    table = pd.DataFrame({"price": [1.5 * i for i in range(number)]}, index=rows)
    experiment = PreferenceExperiment.create(
        "teas", catalogue=table, storage=tmp_path / "teas.db", fit_options=QUICK_FIT
    )
    assert experiment.default_size == size
    for rater in ("ann", "bob"):
        questions = [experiment.ask(rater=rater) for _ in range(4)]
        sets = [frozenset(question.names) for question in questions]
        assert len(set(sets)) == 4
        assert {len(names) for names in sets} == {size}
    if size == 2:
        experiment.tell(experiment.ask(3), best=2)


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({}, 4),
        ({"model": "SkewPreferenceGP"}, 4),
        ({"model": "VariationalPreferenceGP"}, 4),
        ({"model": "PlackettLuceRegression"}, 4),
        ({"model": "FullyBayesianEPPreferenceGP"}, 4),
        ({"model": "LaplacePreferenceGP"}, 2),
        ({"model": "FullyBayesianLaplacePreferenceGP"}, 2),
        # Takes rankings, and no best of four.
        (
            {
                "model": "LaplacePreferenceGP",
                "model_options": {"likelihood": {"Rankings": "PlackettLuceLikelihood"}},
            },
            4,
        ),
    ],
)
def test_models_of_duels_alone_are_asked_about_duels(tmp_path, settings, size) -> None:
    experiment = create(tmp_path / "espresso.db", fit_options={}, **settings)
    assert experiment.default_size == size
    question = experiment.ask()
    assert len(question.options) == size
    answer = {"winner": 1} if size == 2 else {"ranking": [3, 1, 0, 2]}
    experiment.tell(question, **answer)
    if size == 2:
        with pytest.raises(ExperimentError, match="does not take"):
            experiment.tell(experiment.ask(4), best=0)


@pytest.mark.parametrize(
    ("acquisition", "raters"),
    [
        (None, "pool"),
        (None, "share"),
        ("DuelingExploringEIIG", "pool"),
        ("DuelingThompson", "share"),
    ],
)
def test_the_model_chooses_four_after_questions_of_four(
    tmp_path, acquisition, raters
) -> None:
    experiment = create(
        tmp_path / "espresso.db",
        acquisition=acquisition,
        initial=2,
        raters=raters,
        repeat_rate=0,
        optimizer_options=QUICK,
    )
    for rater in ("ann", "bob", "ann"):
        question = experiment.ask(rater=rater)
        assert len(question.options) == 4
        liked = [utility(option) for option in question.options]
        experiment.tell(question, best=liked.index(max(liked)), rater=rater)
    (last,) = experiment.experiment.trials[2].generator_runs
    assert last._generation_node_name == "model"
    assert len({arm.signature for arm in last.arms}) == 4


def test_the_incumbent_is_found_once(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a rule that takes it for its reference, and choices around it."""
    experiment = create(tmp_path / "espresso.db", initial=1, repeat_rate=0)
    experiment.tell(experiment.ask(), ranking=[3, 1, 0, 2])
    scores, calls = duels._copeland_scores, []
    monkeypatch.setattr(
        duels,
        "_copeland_scores",
        lambda *arguments: calls.append(arguments) or scores(*arguments),
    )
    assert len(experiment.ask().options) == 4
    assert len(calls) == 1
