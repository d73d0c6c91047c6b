"""Options that nobody ever beat are shown again, in experiments as in a loop."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from parameters import real, whole
from torch import Tensor

from botorch_pref import Rankings, default_model, incumbent
from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.unbeaten_rival import unbeaten_rival
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.generation.adapter import PreferenceAcquisition
from botorch_pref.ax.generation.question_choice import (
    SOBOL,
    chosen_questions,
    next_options,
)
from botorch_pref.ax.projection import Projection

CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
QUESTIONS = torch.tensor(
    [
        [[0.1, 0.9], [0.2, 0.8], [0.0, 0.8], [0.1, 0.7]],
        [[0.8, 0.2], [0.6, 0.3], [0.9, 0.5], [0.5, 0.1]],
        [[0.7, 0.1], [0.6, 0.5], [0.9, 0.6], [0.5, 0.5]],
        [[0.7, 0.3], [0.5, 0.3], [0.6, 0.6], [0.9, 0.0]],
        [[0.8, 0.3], [0.7, 0.5], [0.4, 0.2], [0.6, 0.0]],
        [[0.8, 0.1], [0.7, 0.4], [0.5, 0.4], [0.8, 0.6]],
    ],
    dtype=torch.float64,
)
"""Six questions, the best option first: one won among poor ones, the others nearby."""


def answered(storage: Path, **settings: Any) -> PreferenceExperiment:
    """Makes an experiment in which somebody ranked the options as they stand."""
    experiment = PreferenceExperiment.create(
        "unbeaten",
        parameters=[real("x"), real("y")],
        storage=storage,
        repeat_rate=0.0,
        **settings,
    )
    for options in QUESTIONS.tolist():
        designs = [dict(zip("xy", design, strict=True)) for design in options]
        experiment.record(designs, ranking=[0, 1, 2, 3])
    return experiment


def rival() -> Tensor:
    """Finds the option that a loop would show again, ``2`` numbers."""
    model = default_model(
        QUESTIONS.flatten(0, 1), Rankings(torch.arange(24).view(6, 4))
    )
    none_wait = torch.empty(0, 2, dtype=torch.float64)
    smallest = torch.full((2,), 0.01, dtype=torch.float64)
    space = DesignSpace.from_bounds(CUBE)
    (point,) = unbeaten_rival(model, space, incumbent(model), none_wait, smallest)
    return point


def shows(question: Any, design: Tensor) -> bool:
    """Tells whether a design is among the options, to every digit."""
    return [*design.tolist()] in [[option["x"], option["y"]] for option in question]


def test_an_experiment_shows_again_what_a_loop_does(tmp_path: Path) -> None:
    experiment = answered(tmp_path / "unbeaten.db")
    design = rival()
    question = experiment.ask(4)
    options = [[option["x"], option["y"]] for option in question.options]
    assert shows(question.options, design), f"{design.tolist()} is not in {options}"
    assert len({tuple(option) for option in options}) == 4, f"{options} repeats one"
    new = [o for o in options if o not in QUESTIONS.flatten(0, 1).tolist()]
    assert len(new) == 2, f"{options} are not the best, the rival and two challengers"
    # While that question waits, the next one is of other options.
    following = experiment.ask(4)
    assert not shows(following.options, design), "the option waits for an answer"


def test_what_waits_in_a_question_of_another_size_is_shown_once(tmp_path: Path) -> None:
    experiment = answered(tmp_path / "sizes.db")
    assert shows(experiment.ask(3).options, rival())
    assert not shows(experiment.ask(4).options, rival()), "it waits for an answer"


def test_an_unbeaten_neighbour_of_the_best_leaves_questions_to_the_model(
    tmp_path: Path,
) -> None:
    """One that nobody can tell from the best would make any question impossible."""
    experiment = PreferenceExperiment.create(
        "neighbour",
        parameters=[real("x"), real("y")],
        storage=tmp_path / "neighbour.db",
        repeat_rate=0.0,
        smallest_difference=0.15,
    )
    neighbour, best = [0.95, 0.5], [1.0, 0.5]
    for winner, losers in (
        (best, [[0.3, 0.4], [0.2, 0.8], [0.1, 0.1]]),
        (best, [[0.6, 0.5], [0.5, 0.9], [0.0, 0.2]]),
        (neighbour, [[0.5, 0.3], [0.45, 0.7], [0.3, 0.0]]),
        (best, [[0.8, 0.2], [0.25, 0.5], [0.1, 0.9]]),
        (best, [[0.7, 0.8], [0.35, 0.9], [0.15, 0.3]]),
        (best, [[0.85, 0.8], [0.65, 0.9], [0.2, 0.3]]),
        (best, [[0.8, 0.5], [0.6, 0.3], [0.4, 0.6]]),
    ):
        designs = [dict(zip("xy", design, strict=True)) for design in (winner, *losers)]
        experiment.record(designs, ranking=[0, 1, 2, 3])
    chosen = next_options(Projection(experiment.log), 4, None)
    assert chosen.chosen_by != SOBOL, "the model's questions were all refused"
    options = [[option["x"], option["y"]] for option in chosen.options]
    assert best in options, f"{options} lack the best design"
    assert neighbour not in options, f"{options} show what looks like the best"


def test_several_people_meet_it_and_different_challengers(tmp_path: Path) -> None:
    experiment = answered(tmp_path / "several.db")
    questions = chosen_questions(Projection(experiment.log), 4, ["ann", "bob"])
    first, second = (question.options for question in questions)
    assert shows(first, rival())
    assert shows(second, rival())
    assert first != second, "both people are asked the same question"


def test_a_named_acquisition_function_shows_none(tmp_path: Path) -> None:
    experiment = answered(tmp_path / "named.db", acquisition="DuelingJointKG")
    assert not shows(experiment.ask(4).options, rival())


@pytest.mark.parametrize(("y", "num_winners"), [(0.25, 2), (0.75, 1)])
def test_in_a_context_a_rival_is_what_was_shown_there(
    y: float, num_winners: int, tmp_path: Path
) -> None:
    """The best design and the rival won there; elsewhere the best one alone moves."""
    questions = [
        [0.1, 0.2, 0.0, 0.15],
        [0.8, 0.6, 0.9, 0.5],
        [0.7, 0.55, 0.95, 0.45],
        [0.75, 0.52, 0.62, 0.98],
        [0.82, 0.68, 0.42, 0.58],
        [0.78, 0.72, 0.53, 0.88],
    ]
    experiment = PreferenceExperiment.create(
        "room",
        parameters=[real("x"), real("y")],
        storage=tmp_path / "room.db",
        repeat_rate=0.0,
        context=["y"],
    )
    for options in questions:
        experiment.record([{"x": x, "y": 0.25} for x in options], ranking=[0, 1, 2, 3])
    options = [dict(option) for option in experiment.ask(4, context={"y": y}).options]
    assert [option["y"] for option in options] == [y] * 4
    winners = [option for option in options if option["x"] in [q[0] for q in questions]]
    assert len(winners) == num_winners, f"{winners} are not the best and a rival"


def test_challengers_are_apart_from_the_rival(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Among few designs a challenger could be the rival, and a search begins anew."""
    for seed in range(3):
        experiment = PreferenceExperiment.create(
            "whole",
            parameters=[whole("n", 0, 11)],
            storage=tmp_path / f"{seed}.db",
            repeat_rate=0.0,
            seed=seed,
        )
        for numbers in (
            *([0, 1], [8, 7, 9, 5], [8, 6, 10, 4], [8, 11, 3, 7]),
            *([8, 9, 6], [8, 10, 5], [8, 4, 2]),
        ):
            ranking = list(range(len(numbers)))
            experiment.record([{"n": n} for n in numbers], ranking=ranking)
        numbers = [option["n"] for option in experiment.ask(5).options]
        assert {0, 8} <= {*numbers}, f"{numbers} lack the rival, 0, or the best, 8"
        assert len({*numbers}) == 5, f"{numbers} repeats one"
    assert "unique candidates" not in caplog.text, "a challenger was the rival"


def test_a_rival_waits_beside_what_waits_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending: list[Tensor] = []
    present_options = PreferenceAcquisition._present_options

    def recorded(acquisition: PreferenceAcquisition, n: int) -> Tensor | None:
        before = acquisition.acqf.X_pending
        options = present_options(acquisition, n)
        pending.extend([before, acquisition.acqf.X_pending])
        return options

    monkeypatch.setattr(PreferenceAcquisition, "_present_options", recorded)
    experiment = answered(tmp_path / "waiting.db")
    experiment.ask(2)
    pending.clear()
    assert shows(experiment.ask(4).options, rival())
    before, after = pending[:2]
    assert len(before), "the first question waits"
    assert torch.equal(after[:-1], before), "what waited is forgotten"
    torch.testing.assert_close(after[-1], rival())


def test_a_rival_that_leaves_too_few_designs_is_left_out(tmp_path: Path) -> None:
    """Nobody can tell the unbeaten tea from its neighbours, which differ."""
    prices = pd.DataFrame({"price": [0.20, 0.28, 0.36, 1.0]}, index=[*"NRMB"])
    experiment = PreferenceExperiment.create(
        "teas",
        catalogue=prices,
        storage=tmp_path / "teas.db",
        initial=1,
        repeat_rate=0.0,
        smallest_difference=0.15,
    )
    for neighbour in "NM":
        experiment.record(["R", neighbour], winner=0)
        for _ in range(4):
            experiment.record(["B", neighbour], winner=0)
    chosen = next_options(Projection(experiment.log), 3, None)
    assert chosen.chosen_by != SOBOL, "the model's questions were all refused"
    shown_prices = {option["price"] for option in chosen.options}
    assert shown_prices == {0.20, 0.36, 1.0}, f"{shown_prices} are not all that differ"
