"""No difference between three options and more: how much it says, and that it does."""

from itertools import combinations

import pytest
import torch
from espresso import QUICK_FIT
from parameters import real
from torch import Tensor
from torch.special import ndtr

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.answer_containers import tied_in_turn

THRESHOLD = 0.5


def within_the_threshold(f: Tensor) -> Tensor:
    """Computes the probability that all options are heard within the threshold.

    Each is heard once, with noise of deviation 1: an integral over the lowest one.
    """
    low = torch.linspace(-9, 9, 121, dtype=f.dtype)
    total = torch.zeros(len(f), dtype=f.dtype)
    for i in range(f.shape[-1]):
        density = torch.exp(-0.5 * (low - f[:, i, None]).square())
        for j in range(f.shape[-1]):
            if j != i:
                height = low - f[:, j, None]
                density = density * (ndtr(height + THRESHOLD) - ndtr(height))
        total += density.sum(-1)
    return total


def spreads(f: Tensor, weights: Tensor) -> Tensor:
    """Computes the root mean square of each difference of two utilities."""
    pairs = torch.tensor([*combinations(range(f.shape[-1]), 2)])
    squares = (f[:, pairs[:, 0]] - f[:, pairs[:, 1]]).square()
    return (weights @ squares / weights.sum()).sqrt()


def test_ties_in_turn_say_nearly_what_one_answer_says() -> None:
    generator = torch.Generator().manual_seed(0)
    f = torch.randn(3000, 4, dtype=torch.double, generator=generator)

    def tied(pairs: list[tuple[int, int]]) -> Tensor:
        u = torch.stack([f[:, i] - f[:, j] for i, j in pairs])
        tie_probability = ndtr((THRESHOLD - u) / 2**0.5) - ndtr(
            (-THRESHOLD - u) / 2**0.5
        )
        return tie_probability.prod(0)

    answer = dict.fromkeys(range(4), 1.0)
    turn = [tuple(pair) for pair in tied_in_turn(answer)]
    exact = spreads(f, within_the_threshold(f))
    ratio = spreads(f, tied(turn)) / exact
    assert ratio.min() > 0.87
    assert ratio.max() < 1.03
    # Ties of all pairs would be too sure.
    assert (spreads(f, tied([*combinations(range(4), 2)])) / exact).max() < 0.86


@pytest.mark.parametrize("biased", [False, True])
def test_ties_count_beside_choices(biased: bool, tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "line",
        parameters=[real("x", 0, 1)],
        storage=tmp_path / "line.db",
        position_bias=biased,
        fit_options=QUICK_FIT,
    )
    row = [{"x": x} for x in (0.1, 0.4, 0.6, 0.9)]
    experiment.record([{"x": x} for x in (0.2, 0.5, 0.7)], best=1)
    question = experiment.ask(options=row)
    experiment.tell(question, tie=True)
    adapter = experiment.fitted_adapter()
    model = adapter.botorch_model
    ties = next(b for b in model.feedback if getattr(b, "ties", None) is not None)
    x = [adapter.arms[i].parameters["x"] for i in ties.ties.flatten().tolist()]
    pairs = {frozenset(pair) for pair in zip(x[::2], x[1::2], strict=True)}
    assert pairs == {
        frozenset(p) for p in [(0.1, 0.4), (0.4, 0.6), (0.6, 0.9), (0.9, 0.1)]
    }
    if biased:
        # From a half for the first to minus a half for the last.
        place = dict(
            zip((0.1, 0.4, 0.6, 0.9), (1 / 2, 1 / 6, -1 / 6, -1 / 2), strict=True)
        )
        expected = [place[a] - place[b] for a, b in zip(x[::2], x[1::2], strict=True)]
        assert ties.covariates.flatten().tolist() == pytest.approx(expected)
    # Learned from ties and choices alone it would grow without an end.
    thresholds = [
        float(part.tie_threshold)
        for part in model.modules()
        if hasattr(part, "tie_threshold")
    ]
    assert {*thresholds} == {THRESHOLD}


def test_ties_alone_say_that_options_are_alike(tmp_path) -> None:
    experiment = PreferenceExperiment.create(
        "line", parameters=[real("x", 0, 1)], storage=tmp_path / "line.db"
    )
    for number in range(6):
        experiment.record([{"x": number / 6}, {"x": (number + 1) / 6}], tie=True)
        experiment.record([{"x": number / 6}, {"x": 0.9 - number / 12}], tie=True)
    likelihood = experiment.fitted_adapter().botorch_model.likelihood
    # Learned from ties alone it would grow without an end.
    assert float(likelihood.tie_threshold) == THRESHOLD
    # It would be 0.98 then; 128 functions leave an error of 0.03, and instruction sets
    # draw other ones.
    assert experiment.report().summary["value"]["chance of regret"] < 0.9
