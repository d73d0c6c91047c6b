"""Duels that show whether answers can be relied on, in experiments."""

from pathlib import Path
from typing import Any

import torch
from parameters import real
from torch import Generator, Tensor

from botorch_pref import default_model, next_question
from botorch_pref.asking.next_questions import CHECK
from botorch_pref.ax import PreferenceExperiment

CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
PAIRS = torch.rand(8, 2, 2, generator=Generator().manual_seed(4), dtype=torch.float64)
WINNERS = (PAIRS - 0.3).square().sum(-1).argmin(-1)
"""Eight duels, each won by the design nearer to (0.3, 0.3)."""


def answered(storage: Path, **settings: Any) -> PreferenceExperiment:
    """Makes an experiment with eight duels that a coin explains nearly as well."""
    experiment = PreferenceExperiment.create(
        "checks",
        parameters=[real("x"), real("y")],
        storage=storage,
        repeat_rate=0.0,
        **settings,
    )
    for pair, winner in zip(PAIRS, WINNERS, strict=True):
        designs = [dict(zip("xy", design.tolist(), strict=True)) for design in pair]
        experiment.record(designs, winner=int(winner))
    return experiment


def points_of(options: Any) -> Tensor:
    """Returns options as points, the one with the smaller x first."""
    points = torch.tensor([[o["x"], o["y"]] for o in options], dtype=torch.float64)
    return points[points[:, 0].argsort()]


def test_an_experiment_checks_answers_as_a_loop_does(tmp_path: Path) -> None:
    experiment = answered(tmp_path / "checks.db")
    rows = torch.arange(16).view(8, 2)
    order = torch.stack([WINNERS, 1 - WINNERS], dim=-1)
    model = default_model(PAIRS.view(16, 2), rows.gather(-1, order))
    question = next_question(model, CUBE, 2)
    assert question.acquisition == CHECK
    asked = points_of(experiment.ask(2).options)
    expected = question.options[question.options[:, 0].argsort()]
    assert torch.equal(asked, expected), "an experiment asks another duel than a loop"
    # While that one waits, the next question is one of the search.
    following = points_of(experiment.ask(2).options)
    assert not torch.equal(following, asked)


def test_who_names_an_acquisition_function_is_asked_by_it_alone(tmp_path: Path) -> None:
    experiment = answered(tmp_path / "named.db", acquisition="DuelingEUBO")
    shown = [o.parameters for q in experiment.log.questions for o in q.options]
    options = experiment.ask(2).options
    assert not all(dict(option) in shown for option in options)
