"""Duels that show whether answers can be relied on, in experiments."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from parameters import real
from torch import Generator, Tensor

from botorch_pref import default_model, next_question
from botorch_pref.acquisition.reliability_check import reliability_check
from botorch_pref.asking.next_questions import CHECK
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.generation import adapter

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
    is_old = (following.unsqueeze(1) == PAIRS.view(16, 2)).all(-1).any(-1)
    assert not bool(is_old.all()), "two checks in a row"


def test_who_names_an_acquisition_function_is_asked_by_it_alone(tmp_path: Path) -> None:
    experiment = answered(tmp_path / "named.db", acquisition="DuelingEUBO")
    designs = [o.parameters for q in experiment.log.questions for o in q.options]
    options = experiment.ask(2).options
    assert not all(dict(option) in designs for option in options)


@pytest.mark.parametrize(("y", "is_check"), [(0.25, True), (0.75, False)])
def test_in_a_context_a_check_is_of_what_was_shown_there(
    y: float, is_check: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = partial(reliability_check, margin=math.inf, confidence=0.0)
    monkeypatch.setattr(adapter, "reliability_check", due)
    experiment = PreferenceExperiment.create(
        "room",
        parameters=[real("x"), real("y")],
        storage=tmp_path / "room.db",
        repeat_rate=0.0,
        context=["y"],
    )
    for pair, winner in zip(PAIRS[..., 0].tolist(), WINNERS.tolist(), strict=True):
        experiment.record([{"x": x, "y": 0.25} for x in pair], winner=winner)
    options = experiment.ask(2, context={"y": y}).options
    assert [option["y"] for option in options] == [y, y]
    are_old = [option["x"] in PAIRS[..., 0].flatten().tolist() for option in options]
    assert all(are_old) == is_check
