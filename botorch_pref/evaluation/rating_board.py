"""Ranking of items by ratings of many raters, each with a bias of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from botorch_pref.datasets.items import ITEM, RATER, RATING
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation.leaderboard import rank_interval, top_probability
from botorch_pref.evaluation.many_ranking import LEVEL
from botorch_pref.evaluation.scores import table_of

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_RATERS = 4000
"""The smaller of the numbers of items and raters, whose square is held in memory."""

NUM_SCALES = 64
"""Draws of the variances."""

MOST_VALUES = 16_000_000
"""Values of draws that are held in memory."""


class Scales(NamedTuple):
    """Variances of the items, of the raters' biases, and of the noise of a rating."""

    items: Tensor
    raters: Tensor
    noise: Tensor


@dataclass(frozen=True, eq=False)
class RatingDesign:
    """Ratings of items by raters, in sums.

    Of items and raters the more numerous ones are ``wide``, whose precision given all
    else is diagonal; the others and the mean of all are ``narrow``.

    Attributes:
        counts: How often each narrow one, the mean last, stands with each wide one,
            ``n_wide x (n_narrow + 1)``.
        wide_sums: Sums of the centred ratings, ``n_wide``.
        narrow_sums: The same, ``n_narrow + 1``.
        squares: Sum of the squared centred ratings.
        number: Of ratings.
        items_are_wide: Whether items are the wide ones.
    """

    counts: Tensor
    wide_sums: Tensor
    narrow_sums: Tensor
    squares: float
    number: int
    items_are_wide: bool

    @property
    def narrow_counts(self) -> Tensor:
        """Numbers of ratings that two narrow effects share, ``(n + 1) x (n + 1)``.

        A rating has the effect of one narrow rater (or item, where these are narrow),
        and that of the mean of all, the last. So no rating has those of two raters.
        """
        totals = self.counts.sum(0)
        matrix = totals.diag()
        matrix[-1] = matrix[:, -1] = totals
        return matrix

    def precisions(self, scales: Scales) -> tuple[Tensor, Tensor, Tensor]:
        """Computes posterior precisions, with the wide ones integrated out.

        Returns:
            The precisions of wide ones given the narrow ones, ``n_wide``; the precision
            matrix of the narrow ones and the mean of all, ``n_narrow + 1`` wide; and
            the product of this matrix and their posterior mean.
        """
        wide, narrow = scales.items, scales.raters
        if not self.items_are_wide:
            wide, narrow = narrow, wide
        diagonal = self.counts[:, -1] / scales.noise + 1 / wide
        is_proper = torch.ones(self.counts.shape[1]).to(diagonal)
        # The mean of all has a flat prior.
        is_proper[-1] = 0.0
        matrix = self.narrow_counts / scales.noise + (is_proper / narrow).diag()
        weights = self.counts / diagonal.unsqueeze(-1)
        matrix = matrix - self.counts.mT @ weights / scales.noise**2
        right = self.narrow_sums / scales.noise
        return (
            diagonal,
            matrix,
            right - weights.mT @ self.wide_sums / scales.noise**2,
        )

    def log_evidence(self, scales: Scales) -> Tensor:
        """Computes the log evidence of scales, up to a constant, to choose them.

        Items, biases and the mean of all, whose prior is flat, are integrated out: it
        is the restricted likelihood.
        """
        diagonal, matrix, right = self.precisions(scales)
        root = _root(matrix)
        solved = torch.linalg.solve_triangular(root, right.unsqueeze(-1), upper=False)
        fit = (self.wide_sums / scales.noise).square() / diagonal
        wide, narrow = len(diagonal), len(matrix) - 1
        ends = (scales.items, scales.raters)
        first, second = ends if self.items_are_wide else ends[::-1]
        return 0.5 * (
            fit.sum()
            + solved.square().sum()
            - self.squares / scales.noise
            - (self.number * scales.noise.log())
            - wide * first.log()
            - narrow * second.log()
            - diagonal.log().sum()
            - 2 * root.diagonal().log().sum()
        )

    @torch.no_grad()
    def draws(
        self, scales: Scales, number: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draws utilities of the items from the posterior.

        Returns:
            The posterior mean of the items' values, ``n``; joint draws of these,
            ``number x n``; and the posterior mean of the mean of all, less the mean of
            the ratings, which are centred.
        """
        diagonal, matrix, right = self.precisions(scales)
        root = _root(matrix)
        mean = torch.cholesky_solve(right.unsqueeze(-1), root).squeeze(-1)
        normal = torch.randn(len(matrix), number, generator=generator).to(matrix)
        narrow = mean.unsqueeze(-1)
        narrow = narrow + torch.linalg.solve_triangular(root.mT, normal, upper=True)

        def wide(values: Tensor) -> Tensor:
            """Computes means of wide ones given narrow ones and the mean, by column."""
            shares = self.wide_sums.unsqueeze(-1) - self.counts @ values
            return shares / (scales.noise * diagonal).unsqueeze(-1)

        if not self.items_are_wide:
            return mean[:-1], narrow[:-1].mT, mean[-1]
        normal = torch.randn(len(diagonal), number, generator=generator).to(diagonal)
        draws = wide(narrow) + normal / diagonal.sqrt().unsqueeze(-1)
        return wide(mean.unsqueeze(-1)).squeeze(-1), draws.mT, mean[-1]


def _root(precision: Tensor) -> Tensor:
    """Factors a precision that noise alone keeps definite, by Cholesky."""
    root, failure = torch.linalg.cholesky_ex(precision)
    if int(failure):
        raise FeedbackError(
            "Items and raters explain the ratings to the last digit; round these to "
            "the digits that raters gave."
        )
    return root


_ROUNDING = 1e-9
"""Difference of means up to which items share a rank."""


@dataclass(frozen=True, eq=False)
class RatingRanking:
    """Items ranked by ratings, see `rank_ratings`.

    Attributes:
        names: Of the items, in the order of their texts.
        ratings: The table.
        scales: The fitted variances.
        mean: Posterior means of the items above the mean of all, ``n``.
        samples: Joint draws, ``S x n``.
        level_of_all: The mean of all items, in the unit of the ratings.
    """

    names: tuple[Hashable, ...]
    ratings: DataFrame
    scales: Scales
    mean: Tensor
    samples: Tensor
    level_of_all: float

    def board(
        self, rater: Hashable | None = None, *, top: int = 5, level: float = LEVEL
    ) -> DataFrame:
        """Makes the leaderboard of :meth:`.ItemRanking.board`, without win rates.

        Utilities are in the unit of the ratings, and ``rating`` is the item's mean
        rating by a rater without bias. Intervals are quantiles of the draws.

        Args:
            rater: There is one board for all: ``None``.
            top: ``k`` of the probability to be among the best ``k``.
            level: Probability of the intervals, in (0, 1).
        """
        order = self.mean.argsort(descending=True, stable=True)
        mean, samples = self.mean[order], self.samples[:, order]
        ranks = samples.argsort(-1, descending=True).argsort(-1) + 1
        lower, upper = rank_interval(ranks, level)
        ends = torch.tensor([0.5 - 0.5 * level, 0.5 + 0.5 * level]).to(mean)
        low, high = samples.quantile(ends, dim=0)
        difference = samples - samples[:, :1]
        low_gap, high_gap = difference.quantile(ends, dim=0)
        columns = {
            "rank": 1 + torch.searchsorted(-mean, -mean - _ROUNDING),
            "rank_lower": lower,
            "rank_upper": upper,
            "utility": mean,
            "lower": low,
            "upper": high,
            "rating": self.level_of_all + mean,
            "best": (ranks == 1).to(mean).mean(0),
            "top": (ranks <= top).to(mean).mean(0),
            "difference": mean - mean[0],
            "least": low_gap,
            "most": high_gap,
            "better": (difference > 0).to(mean).mean(0),
        }
        table = table_of(columns, [self.names[i] for i in order.tolist()])
        number = self.ratings[ITEM].value_counts()
        table["answers"] = number.reindex(table.index, fill_value=0).astype(int)
        return table

    def top_probability(self, top: int) -> float:
        """Computes the probability that the first items of the board are the best."""
        return top_probability(self.samples, self.mean, top)

    def position_bias(self, level: float = LEVEL) -> None:
        """Returns nothing: ratings are of one item."""


def rank_ratings(ratings: DataFrame, *, seed: int = 0) -> RatingRanking:
    r"""Fits items and raters' biases to ratings, which are taken for Gaussian.

    The rating of item `i` by rater `r` is :math:`\mu + f_i + b_r + e`, with normal
    items, biases and noise, whose variances have priors of density
    :math:`v \exp(-v / s^2)`, with the variance :math:`s^2` of all ratings. Ratings are
    rounded to the smallest step :math:`\delta` between two of them, so that the noise
    has the variance :math:`v + \delta^2 / 12`, also where all raters agree. The
    logarithms of the variances have Laplace's approximation around their most probable
    values: with four ratings of each of six items the deviations of items are 4 % less
    than those of quadrature. Without raters there are no biases.

    Args:
        ratings: A row each, with the columns ``item``, ``rating`` and perhaps
            ``rater``.
        seed: Of the draws.

    Raises:
        FeedbackError: A column, an item, a rater or a number is missing; there are too
            few ratings, or they are all equal; items and raters explain all digits; or
            there are more than 4,000 items and raters.
    """
    names, values = _checked(ratings)
    design = _design(names, ratings, values)
    loss, scales_of = _loss_of_scales(design, values)
    best, covariance = _laplace(loss)
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(NUM_SCALES, 3, generator=generator).to(best)
    logs = best + normal @ torch.linalg.cholesky(covariance).mT
    number = min(4096, max(256, MOST_VALUES // len(names))) // NUM_SCALES
    drawn = [
        design.draws(scales_of(scale_logs), number, generator) for scale_logs in logs
    ]
    means, draws, levels = map(torch.stack, zip(*drawn, strict=True))
    mean, samples = means.mean(0), draws.flatten(0, 1)
    return RatingRanking(
        names,
        ratings,
        scales_of(best),
        mean - mean.mean(),
        samples - samples.mean(-1, keepdim=True),
        float(levels.mean() + mean.mean() + values.mean()),
    )


def _loss_of_scales(
    design: RatingDesign, values: np.ndarray
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Scales]]:
    """Makes the function that a fit of the variances minimises.

    Args:
        design: The ratings.
        values: Their numbers, as users gave them.

    Returns:
        The negative log density of logarithms of three variances, which are shares of
        the variance of all ratings; and the function that makes scales of them.
    """
    spread, step = float(np.var(values)), float(np.diff(np.unique(values)).min())

    def scales_of(logs: Tensor) -> Scales:
        items, raters, noise = spread * logs.exp()
        return Scales(items, raters, noise + step**2 / 12)

    def loss(logs: Tensor) -> Tensor:
        # The density of a logarithm is that of the variance times the variance.
        prior = (2 * logs - logs.exp()).sum()
        return -design.log_evidence(scales_of(logs)) - prior

    return loss, scales_of


def _checked(ratings: DataFrame) -> tuple[tuple[Hashable, ...], np.ndarray]:
    """Checks a table of ratings.

    Returns:
        The names of the items, in the order of their texts; and the numbers of all
        ratings, in the order of the table.
    """
    from pandas import to_numeric

    needed = [name for name in (ITEM, RATING, RATER) if name in ratings.columns]
    if missing := [name for name in (ITEM, RATING) if name not in needed]:
        raise FeedbackError(
            f"The ratings have no column {missing[0]!r}, but {[*ratings.columns]}; add "
            "it."
        )
    numbers = to_numeric(ratings[RATING], errors="coerce")
    for name in needed:
        gaps = (numbers if name == RATING else ratings[name]).isna()
        if gaps.any():
            place = int(gaps.to_numpy().argmax())
            raise FeedbackError(
                f"The {name} of row {ratings.index[place]} is "
                f"{ratings[name].iloc[place]}; give "
                f"{'a number' if name == RATING else 'a name'}, or leave the row out."
            )
    names = tuple(sorted({*ratings[ITEM]}, key=str))
    values = numbers.to_numpy(float)
    if len(names) < 2 or not np.isfinite(values).all() or np.ptp(values) == 0.0:
        ends = f" from {values.min():g} to {values.max():g}" if len(values) else ""
        raise FeedbackError(
            f"{len(values)} ratings of {len(names)} items{ends} rank nothing; give "
            "finite ones of two items or more, which differ."
        )
    return names, values


def _laplace(loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Approximates a density of logarithms of scales by a Gaussian at its maximum.

    Args:
        loss: The negative log density, as `_loss_of_scales` makes it.

    Returns:
        The mode, and the covariance: the inverse Hessian of the loss there.
    """

    def with_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        """Computes the loss and its gradient, as SciPy wants them."""
        logs = torch.tensor(point, requires_grad=True)
        value = loss(logs)
        (gradient,) = torch.autograd.grad(value, logs)
        return float(value.detach()), gradient.numpy()

    # Of items, raters and noise, as shares of a variance.
    start = np.log([0.5, 0.2, 0.5])
    options = {"maxiter": 500, "gtol": 1e-6}
    fit = minimize(with_gradient, start, jac=True, method="L-BFGS-B", options=options)
    best = torch.tensor(fit.x)
    hessian = torch.autograd.functional.hessian(loss, best)
    return best, torch.linalg.inv(hessian)


def _design(
    names: tuple[Hashable, ...], ratings: DataFrame, values: np.ndarray
) -> RatingDesign:
    """Sums up ratings of the named items, for a fit that does not see each by itself.

    Of items and raters the more numerous are wide, the others and the mean of all
    narrow. Without a column of raters only the mean of all is narrow.

    Raises:
        FeedbackError: There are too many items and raters.
    """
    place = {name: i for i, name in enumerate(names)}
    items = torch.tensor([place[name] for name in ratings[ITEM]])
    raters, num_raters = torch.zeros(0, dtype=torch.long), 0
    if RATER in ratings.columns:
        raters = torch.tensor(ratings[RATER].factorize()[0])
        num_raters = int(raters.max()) + 1
    items_are_wide = len(names) >= num_raters
    sizes: Any = (len(names), num_raters)
    wide, narrow = items, raters
    if not items_are_wide:
        wide, narrow, sizes = raters, items, sizes[::-1]
    if sizes[1] > MOST_RATERS or math.prod(sizes) > 10 * MOST_VALUES:
        raise FeedbackError(
            f"There are {len(names):,} items and {num_raters:,} raters, too many for "
            "their biases: leave out the raters (rank_items(answers.drop(columns="
            "'rater')), or python -m botorch_pref rank of a file without their "
            "column), or items with few ratings."
        )
    centred = torch.tensor(values - values.mean())
    counts = torch.zeros(sizes[0], sizes[1] + 1, dtype=torch.double)
    units = torch.ones(len(values), dtype=torch.double)
    sums = torch.zeros(sizes[1] + 1, dtype=torch.double)
    if num_raters:
        counts.index_put_((wide, narrow), units, accumulate=True)
        sums.index_add_(0, narrow, centred)
    counts[:, -1] = torch.bincount(wide, minlength=sizes[0]).double()
    sums[-1] = centred.sum()
    wide_sums = torch.zeros(sizes[0], dtype=torch.double).index_add_(0, wide, centred)
    squares = float(centred.square().sum())
    return RatingDesign(counts, wide_sums, sums, squares, len(values), items_are_wide)
