"""Recommended settings, which give the same on a GPU as on the processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref import (
    Choices,
    Comparisons,
    LineChoices,
    Rankings,
    Ratings,
    default_model,
    next_question,
    recommend,
)
from botorch_pref.evaluation import best_probability, leaderboard, stopping_advice
from botorch_pref.feedback import Feedback
from botorch_pref.models import AveragedUtility, plausible_models

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="There is no GPU."
)

BOUNDS = torch.tensor([[14.0, 3.0, 0.0], [22.0, 9.0, 1.0]], dtype=torch.double)


def designs(number: int) -> Tensor:
    """Draws designs all over the bounds, `number x 3`."""
    source = torch.Generator().manual_seed(5)
    draws = torch.rand(number, 3, generator=source, dtype=torch.double)
    return BOUNDS[0] + draws * (BOUNDS[1] - BOUNDS[0])


def utility(X: Tensor) -> Tensor:
    """Computes a hump, beside a column that does nothing."""
    return -((X[:, 0] - 17) / 4).square() - ((X[:, 1] - 6) / 3).square()


X = designs(32)
ORDERS = utility(X).view(8, 4).argsort(-1, descending=True)
RANKED = ORDERS + 4 * torch.arange(8).unsqueeze(-1)
ANSWERS: dict[str, Callable[[], Feedback]] = {
    "duels": lambda: Comparisons(RANKED[:, [0, 3]]),
    "rankings": lambda: Rankings(RANKED),
    "choices": lambda: Choices(torch.arange(32).view(8, 4), RANKED[:, 0]),
    "ratings": lambda: Ratings(torch.arange(32), (utility(X) / 8 + 0.9).clamp(0.1)),
    "lines": lambda: LineChoices(
        RANKED[:, [0, 3]], torch.linspace(0.1, 0.6, 8, dtype=torch.double)
    ),
}
KINDS = pytest.mark.parametrize("kind", ANSWERS)


def fitted(kind: str, device: str) -> Any:
    """Fits the recommended model on a device."""
    return default_model(X.to(device), ANSWERS[kind](), bounds=BOUNDS.to(device))


@KINDS
def test_the_recommended_model_is_the_same(kind: str) -> None:
    new = designs(40)[32:]
    moments = []
    for device in ("cpu", "cuda"):
        posterior = fitted(kind, device).posterior(new.to(device))
        assert posterior.mean.device.type == device
        moments.append((posterior.mean.detach(), posterior.variance.detach()))
    (mean, variance), (mean_there, variance_there) = moments
    # Optimisers of the hyper-parameters stop at about 1e-5 of the evidence.
    tolerance = 1e-2 * variance.max().sqrt().item()
    torch.testing.assert_close(mean_there.cpu(), mean, rtol=0, atol=tolerance)
    torch.testing.assert_close(variance_there.cpu(), variance, rtol=2e-2, atol=1e-6)


@KINDS
@pytest.mark.parametrize("size", [2, 3, 4])
def test_questions_are_asked_where_the_model_is(kind: str, size: int) -> None:
    model, bounds = fitted(kind, "cuda"), BOUNDS.cuda()
    options = next_question(model, bounds, size).options
    assert options.device.type == "cuda"
    assert options.unique(dim=0).shape == (size, 3)
    assert bool(((options >= bounds[0]) & (options <= bounds[1])).all())


SPACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "limit": lambda device: {
        "inequality_constraints": [
            (
                torch.tensor([0, 1], device=device),
                torch.tensor([-1.0, -1.0], dtype=torch.double, device=device),
                -28.0,
            )
        ]
    },
    "thin": lambda device: {
        "inequality_constraints": [
            (torch.tensor([0, 1]), torch.tensor([sign, sign]).double(), sign * end)
            for sign, end in ((1.0, 24.99), (-1.0, 25.01))
        ]
    },
    "steps": lambda device: {"discrete_dims": {0: [14.0, 17.0, 22.0], 2: [0.0, 1.0]}},
    "few designs": lambda device: {
        "discrete_dims": {0: [14.0, 17.0, 22.0], 1: [3.0, 6.0, 9.0], 2: [0.0, 1.0]}
    },
    "catalogue": lambda device: {"discrete": designs(300).to(device)},
    "fixed": lambda device: {"fixed_features": {2: 0.3}},
}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("size", [2, 4])
def test_questions_of_other_spaces(space: str, size: int) -> None:
    model, bounds = fitted("rankings", "cuda"), BOUNDS.cuda()
    options = next_question(model, bounds, size, **SPACES[space]("cuda")).options
    assert options.device.type == "cuda"
    assert options.unique(dim=0).shape == (size, 3)
    if space == "thin":
        assert bool(((options[:, 0] + options[:, 1] - 25).abs() < 0.02).all())
    if space == "limit":
        assert float((options[:, 0] + options[:, 1]).max()) < 28 + 1e-6


def test_a_choice_and_raters() -> None:
    """A choice of three is coded in three columns, and two raters saw the designs."""
    levels = torch.eye(3, dtype=torch.double).repeat(11, 1)[:32]
    coded = torch.cat([X[:, :1], levels], -1).cuda()
    bounds = torch.tensor([[14.0, 0, 0, 0], [22.0, 1, 1, 1]], dtype=torch.double).cuda()
    arguments = {"bounds": bounds, "categorical": [(1, 2, 3)]}
    raters = (torch.arange(32) // 16).cuda()
    for model in (
        default_model(coded, Rankings(RANKED), **arguments),
        default_model(coded, Rankings(RANKED), raters=raters, **arguments),
    ):
        options = next_question(model, bounds, categorical=[(1, 2, 3)]).options
        assert options.device.type == "cuda"
        assert bool((options[:, 1:].sum(-1) == 1).all())


def test_lines_planes_and_questions_to_understand_are_asked_there() -> None:
    model, bounds = fitted("duels", "cuda"), BOUNDS.cuda()
    line = next_question(model, bounds, kind="line")
    assert line.options.device.type == "cuda"
    assert int((line.options[0] != line.options[1]).sum()) == 1
    plane = next_question(model, bounds, 9, kind="plane").options
    assert plane.device.type == "cuda"
    assert int((plane != plane[0]).any(0).sum()) == 2
    question = next_question(model, bounds, 2, goal="understand")
    assert question.options.device.type == "cuda"


def test_what_is_recommended_is_the_same() -> None:
    points = [
        recommend(fitted("rankings", device), BOUNDS.to(device)).point.cpu()
        for device in ("cpu", "cuda")
    ]
    span = BOUNDS[1] - BOUNDS[0]
    torch.testing.assert_close(points[1] / span, points[0] / span, rtol=0, atol=1e-2)


def test_findings_are_the_same() -> None:
    tables = []
    for device in ("cpu", "cuda"):
        model = fitted("rankings", device)
        averaged = AveragedUtility(model, plausible_models(model))
        chances = best_probability(averaged, X.to(device)).cpu()
        board = leaderboard(averaged).sort_index()
        advice = stopping_advice(
            model,
            X.to(device),
            recommended=X[:1].to(device),
            shown=X.to(device),
            bounds=BOUNDS.to(device),
        )
        tables.append((chances, torch.tensor(board["win_rate"].to_numpy()), advice))
    chances, rates, advice = tables[0]
    chances_there, rates_there, advice_there = tables[1]
    # Of 8 x 4,096 draws; the fits differ, too, and draws of 128 functions.
    torch.testing.assert_close(chances_there, chances, rtol=0, atol=0.06)
    torch.testing.assert_close(rates_there, rates, rtol=0, atol=0.03)
    assert advice_there.expected_gain == pytest.approx(advice.expected_gain, rel=0.5)
