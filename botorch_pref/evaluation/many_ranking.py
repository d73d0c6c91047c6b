"""Ranking of thousands of items: the board of a sparse posterior of their utilities."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.signal import fftconvolve
from scipy.sparse import coo_array, csgraph
from scipy.special import entr, expit, ndtr, ndtri

from botorch_pref.datasets.items import (
    CHOICE,
    COUNT,
    HOME,
    LOSER,
    TIE,
    WINNER,
    answer_totals,
    control_columns,
)
from botorch_pref.evaluation.answer_effects import (
    PositionBias,
    effect_table,
    home_bias,
    standardised,
    typical_controls,
)
from botorch_pref.evaluation.leaderboard import rank_interval, top_probability
from botorch_pref.evaluation.many_items import (
    ChoiceDesign,
    SparseLaplace,
    SparsePosterior,
    choice_design,
)
from botorch_pref.evaluation.scores import data_frame_class

if TYPE_CHECKING:
    from pandas import DataFrame

LEVEL = 0.95
"""Probability of the intervals."""


@dataclass(frozen=True, eq=False)
class ManyItemRanking:
    """Thousands of items without features, ranked by one sparse Laplace approximation.

    The answers are Bradley and Terry's, Rao and Kupper's with one threshold where there
    are ties, and Plackett and Luce's of choices. Draws of the posterior rank the items.
    By ``S`` of them a probability has a standard error of ``1 / sqrt(4 S)`` at most,
    and the half width of an interval one of ``1 / sqrt(2 S)`` of that part of it which
    other items' utilities cause.

    Attributes:
        names: Of the items, in the order of their texts.
        answers: The different ones, each with its ``count``.
        posterior: Of the utilities, and of the weights of answers behind them.
        control_scales: The root mean squares of the controls, see `standardised`.
    """

    names: tuple[Hashable, ...]
    answers: DataFrame
    posterior: SparsePosterior
    control_scales: dict[str, float]

    @property
    def threshold(self) -> float:
        """Threshold of ties; 0 without any."""
        return float(self.posterior.mean[-1]) if self.answers[TIE].any() else 0.0

    def board(
        self, rater: Hashable | None = None, *, top: int = 5, level: float = LEVEL
    ) -> DataFrame:
        """Makes the leaderboard with the columns of :meth:`.ItemRanking.board`.

        Args:
            rater: There are none: ``None``.
            top: ``k`` of the probability to be among the best ``k``.
            level: Probability of the intervals, in (0, 1).
        """
        count, half = len(self.names), float(ndtri(0.5 + 0.5 * level))
        mean = self.posterior.mean[:count]
        order = np.argsort(-mean, kind="stable")
        draws = self.draws()
        ranks = drawn_ranks(draws)
        lower, upper = rank_interval(torch.from_numpy(ranks.T), level)
        weights = np.full(count, 1 / count)
        deviation = self.posterior.contrast_deviations(weights)
        utility = mean - mean.mean()
        columns = {
            "rank": 1 + np.searchsorted(-mean[order], -mean - _RESOLUTION),
            "rank_lower": lower.numpy(),
            "rank_upper": upper.numpy(),
            "utility": utility,
            "lower": utility - half * deviation,
            "upper": utility + half * deviation,
            "best": (ranks == 1).mean(-1),
            "top": (ranks <= top).mean(-1),
            "win_rate": field_win_rates(draws, self.threshold),
            **self._beside_the_first(int(order[0]), half),
        }
        table = data_frame_class()(
            {name: column[order] for name, column in columns.items()},
            index=[self.names[i] for i in order],
        )
        number = answer_totals(self.answers, self.answers[COUNT])
        table["answers"] = number.reindex(table.index, fill_value=0).astype(int)
        if (groups := answer_groups(self.names, self.answers)).any():
            table["group"] = 1 + groups[order]
        return table

    def draws(self) -> np.ndarray:
        """Returns utilities of the items in draws of the posterior, ``n x S``."""
        count = len(self.names)
        return self.posterior.mean[:count, None] + self.posterior.draws[:count]

    def position_bias(self, level: float = LEVEL) -> PositionBias | None:
        """Computes the advantage of being at home or shown first; None if none said."""
        if HOME not in self.answers.columns:
            return None
        return home_bias(self._effects([HOME], self._weights_start, level))

    @property
    def _weights_start(self) -> int:
        """Place where weights of answers begin: behind utilities and their slopes."""
        return len(self.names) + len(self.control_scales)

    def controls(self, level: float = LEVEL) -> DataFrame:
        """Lists what one deviation more of each control adds, see `effect_table`."""
        names = [*self.control_scales]
        start = self._weights_start + (HOME in self.answers.columns)
        table = self._effects(names, start, level)
        return table.assign(deviation=[*self.control_scales.values()])

    def _effects(self, names: list[str], start: int, level: float) -> DataFrame:
        """Makes the table of what weights of answers add, see `effect_table`.

        Args:
            names: Of the weights.
            start: The place of the first of them among the parameters.
            level: Probability of the intervals.
        """
        mean = self.posterior.mean[start : start + len(names)]
        deviations = [self.posterior.deviation(start + i) for i in range(len(names))]
        half = torch.tensor(deviations, dtype=torch.double) * ndtri(0.5 + 0.5 * level)
        return effect_table(
            names,
            torch.from_numpy(mean),
            half,
            lambda ahead: torch.sigmoid(ahead - self.threshold),
        )

    def top_probability(self, top: int) -> float:
        """Computes the probability that the first items of the board are the best."""
        mean = torch.from_numpy(self.posterior.mean[: len(self.names)])
        return top_probability(torch.from_numpy(self.draws().T), mean, top)

    def next_pairs(
        self, number: int, names: Sequence[Hashable]
    ) -> list[tuple[Hashable, Hashable]]:
        """Lists pairs of items whose answers would say most of the utilities.

        That is the mutual information, in nats, of an answer and the utilities by their
        draws; the pair with the largest is the first.

        Args:
            number: Of pairs.
            names: Of items of which pairs are made.
        """
        place_of = {name: place for place, name in enumerate(self.names)}
        candidates = np.array([place_of[name] for name in names])
        utilities, threshold = self.draws()[candidates], self.threshold
        first, second = np.triu_indices(len(candidates), 1)
        information = np.empty(len(first))
        # A row of pairs at a time: all draws of all pairs would be too many.
        for row in range(len(candidates) - 1):
            place = np.flatnonzero(first == row)
            difference = utilities[row] - utilities[second[place]]
            won, lost = expit(difference - threshold), expit(-difference - threshold)
            chances = np.stack([won, lost, np.maximum(1 - won - lost, 0.0)])
            # The entropy of the mean over draws, less the mean of entropies.
            nats = entr(chances.mean(-1)) - entr(chances).mean(-1)
            information[place] = nats.sum(0)
        best = np.argsort(-information, kind="stable")[:number]
        ends = zip(candidates[first[best]], candidates[second[best]], strict=True)
        return [(self.names[i], self.names[j]) for i, j in ends]

    def _beside_the_first(self, leader: int, half: float) -> dict[str, np.ndarray]:
        """Computes differences to the first item, with the chance to be positive."""
        count = len(self.names)
        mean = self.posterior.mean[:count]
        deviation = self.posterior.contrast_deviations(np.eye(1, count, leader)[0])
        # That of the first one is nothing but rounding.
        deviation[leader] = 0.0
        difference = mean - mean[leader]
        scale = np.where(deviation > 0, deviation, np.inf)
        better = np.where(deviation > 0, ndtr(difference / scale), 0.0)
        return {
            "difference": difference,
            "least": difference - half * deviation,
            "most": difference + half * deviation,
            "better": better,
        }


_RESOLUTION = 1e-6
"""Difference of utilities up to which Newton's method does not tell items apart."""


def rank_many_items(
    answers: DataFrame, settings: SparseLaplace | None = None
) -> ManyItemRanking:
    """Fits the utilities of items that answers name, however many these are.

    Args:
        answers: The different ones with their counts: the columns ``winner``,
            ``loser``, ``tie`` and ``count``, and perhaps ``home``, ``choice`` and
            controls.
        settings: Of the fit.
    """
    names = tuple(sorted({*answers[WINNER], *answers[LOSER]}, key=str))
    scaled, scales = standardised(answers)
    posterior = (settings or SparseLaplace()).fit(design_of_answers(names, scaled))
    if scales:
        posterior = posterior.with_slopes(typical_controls(names, scaled).numpy())
    return ManyItemRanking(names, answers, posterior, scales)


def design_of_answers(names: tuple[Hashable, ...], answers: DataFrame) -> ChoiceDesign:
    """Makes the design of a fit from a table of different answers with counts.

    A tie is a win of either side, times a factor of the threshold (Rao and Kupper
    1967): its row comes twice, the second time the other way round.
    """
    winners, losers = _places(names, answers)
    counts = answers[COUNT].to_numpy(float)
    tied = answers[TIE].to_numpy(bool)
    is_duel = np.ones(len(answers), bool)
    # A duel is a set of its own, and so is either side of a tie.
    sets = np.arange(len(answers))
    if CHOICE in answers.columns:
        is_duel = answers[CHOICE].isna().to_numpy()
        codes = answers[CHOICE].factorize()[0]
        sets = np.where(is_duel, sets, len(answers) + codes)
    sets = np.concatenate([sets, 2 * len(answers) + np.flatnonzero(tied)])
    order = np.argsort(sets, kind="stable")
    starts = np.flatnonzero(np.diff(sets[order], prepend=-1))
    # Of winners over losers; rows have it of losers over winners.
    covariates = _covariates(names, answers)
    return choice_design(
        np.concatenate([winners, losers[tied]])[order],
        np.concatenate([losers, winners[tied]])[order],
        starts,
        np.concatenate([counts, counts[tied]])[order][starts],
        len(names),
        num_slopes=len(control_columns(answers)),
        covariates=np.concatenate([-covariates, covariates[tied]])[order],
        is_duel=np.concatenate([is_duel, is_duel[tied]])[order],
        num_ties=float(counts[tied].sum()),
    )


def _covariates(names: tuple[Hashable, ...], answers: DataFrame) -> np.ndarray:
    """Computes how much more of each weighted covariate winners have, ``m x w``.

    First comes what items have of controls by and large, whose weights are slopes of
    the utilities, then being at home, then the controls of the answers. Readers of the
    posterior count on this order.
    """
    controls = control_columns(answers)
    columns = [answers[name].to_numpy(float) for name in controls]
    if HOME in answers.columns:
        at_home = [answers[HOME] == answers[side] for side in (WINNER, LOSER)]
        columns.insert(0, at_home[0].to_numpy(float) - at_home[1].to_numpy(float))
    if controls:
        winners, losers = _places(names, answers)
        typical = typical_controls(names, answers).numpy()
        columns = [*(typical[winners] - typical[losers]).T, *columns]
    return np.stack(columns, -1) if columns else np.zeros((len(answers), 0))


def _places(
    names: tuple[Hashable, ...], answers: DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """Finds the places of the winners and the losers of answers among names."""
    place = {name: i for i, name in enumerate(names)}
    winners, losers = (
        answers[side].map(place).to_numpy(np.int64) for side in (WINNER, LOSER)
    )
    return winners, losers


def answer_groups(names: tuple[Hashable, ...], answers: DataFrame) -> np.ndarray:
    """Numbers the groups of items that answers connect, from 0, ``n``.

    Boards show them, as only the prior and features compare items of two groups.
    """
    ends = _places(names, answers)
    graph = coo_array((np.ones(len(answers)), ends), shape=(len(names), len(names)))
    return np.asarray(csgraph.connected_components(graph, directed=False)[1])


def drawn_ranks(utilities: np.ndarray) -> np.ndarray:
    """Ranks items in draws, 1 for the largest utility, ``n x S`` each."""
    order = np.argsort(-utilities, axis=0, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, 1 + np.arange(len(order))[:, None], axis=0)
    return ranks


def field_win_rates(
    utilities: np.ndarray, threshold: float, *, num_nodes: int = 4096
) -> np.ndarray:
    r"""Computes the share of duels that items win against the others, ties as half.

    The mean over draws of :math:`\frac{1}{n - 1} \sum_{j \ne i} g(u_i - u_j)` with
    :math:`g(d) = \frac12 (1 + \sigma(d - t) - \sigma(-d - t))`, by linear interpolation
    between the nodes of a grid, on which the sum is a convolution.

    Args:
        utilities: ``n x S``.
        threshold: ``t``, of ties.
        num_nodes: Of the grid over all utilities.

    Returns:
        Win rates, ``n``.
    """
    count, number = utilities.shape
    low, high = utilities.min(), utilities.max()
    step = (high - low) / (num_nodes - 1)
    gaps = step * np.arange(1 - num_nodes, num_nodes)
    shares = 0.5 * (1 + expit(gaps - threshold) - expit(-gaps - threshold))
    total = np.zeros(count)
    for draw in utilities.T:
        place = (draw - low) / step
        node = np.minimum(place.astype(int), num_nodes - 2)
        weight = place - node
        density = np.bincount(node, 1 - weight, num_nodes)
        density += np.bincount(node + 1, weight, num_nodes)
        won = fftconvolve(density, shares, mode="full")
        # Place i is the sum over nodes j of their density times the share at gap i - j.
        won = won[num_nodes - 1 : 2 * num_nodes - 1]
        total += (1 - weight) * won[node] + weight * won[node + 1]
    # Less the half of each item against itself.
    return np.asarray((total / number - 0.5) / (count - 1))
