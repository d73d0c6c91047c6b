"""Duels of many runs at once by the rule of the command line, with a judge of choice.

For `lapse_rates.py` and `stopping_errors.py`. `DuelingExploringEIIG` asks; its formulas
are those of `screen_rules.py`, which without lapses draws the same duels and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from batched_duels import BatchedDuels, Prior
from lapsing_duels import LapsingDuels
from screen_rules import K, exploring, information
from torch import Generator, Tensor

from botorch_pref.simulation.problems import Problem

MakeModels = Callable[[Prior, Tensor, Tensor, BatchedDuels | None], BatchedDuels]
"""Makes the models of winners and losers, from those of fewer duels."""


@dataclass(frozen=True)
class Answers:
    """Noise and lapses behind the answers of each run, drawn beforehand.

    Attributes:
        noise: Added to utilities, ``num_runs x num_duels x 2``.
        lapsed: Whether a coin decides, ``num_runs x num_duels``.
        coin: Whether it says that the first wins.
    """

    noise: Tensor
    lapsed: Tensor
    coin: Tensor

    def won(self, problem: Problem, number: int, pair: tuple[Tensor, ...]) -> Tensor:
        """Whether the first of each run's two points wins, ``num_runs``.

        Args:
            problem: Has the utility.
            number: Of the duel, from 0.
            pair: Two points of each run, ``num_runs x d`` each.
        """
        heard = [
            problem.utility(points) + self.noise[:, number, i]
            for i, points in enumerate(pair)
        ]
        better = torch.ge(*heard)
        return torch.where(self.lapsed[:, number], self.coin[:, number], better)


def play(
    problem: Problem,
    deviation: float,
    lapses: float,
    make: MakeModels,
    starts: int,
    num_random: int,
    num_duels: int,
) -> Iterator[BatchedDuels]:
    """The models of all runs after the last random duel and after each that follows.

    First duels, noise and lapses are the same for all models.

    Args:
        problem: What is optimised.
        deviation: Of the judge, per item.
        lapses: Share of her answers that a coin gives.
        make: The models.
        starts: How many runs.
        num_random: How many duels are random.
        num_duels: How many there are in all.
    """
    own = [Generator().manual_seed(seed) for seed in range(starts)]
    points, answers = _drawn(own, problem.dim, deviation, lapses, num_random, num_duels)
    generator = Generator().manual_seed(12345)
    winners = losers = torch.zeros(starts, 0, problem.dim, dtype=torch.double)
    model: BatchedDuels | None = None
    for number in range(num_duels):
        if model is None or number < num_random:
            pair = points[:, 2 * number], points[:, 2 * number + 1]
        else:
            best = model.incumbent()
            pair = exploring(_refining)(model, best.unsqueeze(1), generator), best
        won = answers.won(problem, number, pair).unsqueeze(-1)
        winners = torch.cat([winners, torch.where(won, *pair).unsqueeze(1)], 1)
        losers = torch.cat([losers, torch.where(won, *pair[::-1]).unsqueeze(1)], 1)
        if number >= num_random - 1:
            prior = Prior.of_duel_kernel(problem.dim)
            model = make(prior, winners, losers, model)
            yield model


def _drawn(
    own: list[Generator],
    dim: int,
    deviation: float,
    lapses: float,
    num_random: int,
    num_duels: int,
) -> tuple[Tensor, Answers]:
    """Points of the random duels, and what decides all answers."""

    def each(draw: Callable[..., Tensor], *shape: int) -> Tensor:
        return torch.stack([draw(shape, generator=g, dtype=torch.double) for g in own])

    points = each(torch.rand, 2 * num_random, dim)
    noise = deviation * each(torch.randn, num_duels, 2)
    absent, coin = each(torch.rand, num_duels, 2).unbind(-1)
    return points, Answers(noise, absent < lapses, coin < 0.5)


def _refining(model: BatchedDuels, X: Tensor, X_ref: Tensor) -> Tensor:
    """Value of `DuelingEIIG` with ``k = 0.2``, ``num_runs x num_points``."""
    if not isinstance(model, LapsingDuels):
        return information(model, X, X_ref)
    log_win, gain = model.information(X, X_ref)
    return K * log_win + gain
