"""Leaderboard: items in the order of their utilities, with what is known of it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from botorch.models.model import Model
from botorch.posteriors.torch import TorchPosterior
from torch import Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.evaluation.progress import NUM_SAMPLES, utility_samples
from botorch_pref.evaluation.scores import checked_names, table_of
from botorch_pref.models.answer_likelihoods import (
    checked_items,
    duel_share,
    knows_duels,
)
from botorch_pref.models.derived_model import DerivedModel
from botorch_pref.models.raters import GroupUtility
from botorch_pref.numerics.argument_checks import check_count
from botorch_pref.posteriors.gaussian import (
    central_interval,
    duel_mixtures,
    moments_of,
)

if TYPE_CHECKING:
    from pandas import DataFrame


def leaderboard(
    model: Model,
    X: Tensor | None = None,
    names: Sequence[Hashable] | None = None,
    raters: Tensor | None = None,
    *,
    top: int = 5,
    level: float = 0.95,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
) -> DataFrame:
    r"""Makes a table of items, the largest posterior mean of the utility first.

    The rank of an item in a joint draw of all utilities is one more than the number of
    items above it: equal items have one rank. The interval of a utility is the central
    one of probability ``level``. Ranks are whole numbers, so that hardly any run of
    them has just that probability: the interval of a rank is the shortest run whose
    probability, by draws, is ``level`` or more; ``benchmarks/leaderboards.py`` prints
    how often such intervals hold the true rank. The win rate against the field is

    .. math:: \frac{1}{n - 1} \sum_{j \ne i} \big(P(i \succ j \mid D)
        + \tfrac12 P(i \sim j \mid D)\big),

    the share of duels that the item would win against a random other one, half of a tie
    counted as a win.

    Items share a ``rank`` where the posterior means of their utilities differ from that
    of the first of them by less than these are known: the deviation of the difference
    times the engine's error (see :attr:`.Solution.mean_error`), or times 1.5e-8, closer
    than which no fit finds its scales.

    Args:
        model: Any BoTorch model with one output: without batches, or an ensemble, of
            which members count alike.
        X: ``n x d``, two items or more; by default the model's points.
        names: Of the items, each once; by default numbers from 0.
        raters: ``R x r`` or ``R`` numbers: of a model of stimuli and raters, those
            whose mean utility ranks the items, see :class:`.GroupUtility`.
        top: ``k`` of the probability to be among the best ``k``.
        level: In (0, 1).
        num_samples: Number of joint draws.
        seed: Of the draws.

    Returns:
        A row for each item, by name, its ``rank`` from 1, with the interval
        ``rank_lower`` to ``rank_upper``; ``utility``, the posterior mean, with
        ``lower`` to ``upper``; ``best``, the probability to have the largest utility,
        which copies share; ``top``, that to be among the best ``k``; and ``win_rate``,
        which is left out where the model's likelihood says nothing of duels.

    Raises:
        BotorchPrefError: Items or names that cannot be, or pandas is not installed.
    """
    if raters is not None:
        model = GroupUtility(cast("Any", model), raters)
    items = checked_items(model, X)
    labels = checked_names(names, len(items), "items")
    check_count("top", top, at_least=1)
    if not 0 < level < 1:
        raise BotorchPrefError(f"level is {level}; give a probability in (0, 1).")
    ranks, best = _drawn_ranks(model, items, num_samples, seed)
    with torch.no_grad():
        posterior: Any = cast("TorchPosterior", model.posterior(items))
        mean, lower, upper = central_interval(posterior, level)
        shared = _shared_ranks(mean, _resolution(model, posterior))
    first, last = rank_interval(ranks, level)
    order = torch.argsort(mean, descending=True, stable=True)
    columns = {
        "rank": shared,
        "rank_lower": first,
        "rank_upper": last,
        "utility": mean,
        "lower": lower,
        "upper": upper,
        "best": best,
        "top": (ranks <= top).double().mean(0),
    }
    if knows_duels(model):
        with torch.no_grad():
            wins = win_probabilities(model, posterior, len(items))
        # Without the half of each item against itself.
        columns["win_rate"] = (wins.sum(-1) - 0.5) / (len(items) - 1)
    data = {name: column[order] for name, column in columns.items()}
    return table_of(data, [labels[i] for i in order.tolist()])


def _drawn_ranks(
    model: Model, items: Tensor, num_samples: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Draws ranks jointly, ``S x n``, and computes chances to be best, ``n``.

    Items at one point have one rank, below which as many ranks are empty as there are
    further copies, and share their chance.
    """
    distinct, item, copies = torch.unique(
        items, dim=0, return_inverse=True, return_counts=True
    )
    utilities = utility_samples(model, distinct, num_samples, seed)
    # Members of an ensemble count alike.
    utilities = utilities.reshape(-1, len(distinct))
    order = utilities.argsort(-1, descending=True)
    placed = copies[order]
    # How many items, copies included, are above each place.
    above = placed.cumsum(-1) - placed
    ranks = 1 + torch.empty_like(above).scatter_(-1, order, above)
    best = (ranks == 1).to(items).mean(0) / copies
    return ranks[:, item], best[item]


_DIGITS = torch.finfo(torch.float64).eps ** 0.5
"""Relative accuracy of an optimum: the objective is flat within."""


def _resolution(model: Model, posterior: TorchPosterior) -> Tensor:
    """Computes differences of items' means that are no more than error, ``n x n``.

    The error of the engine is a share of the posterior deviation of a difference; means
    are rounded besides.
    """
    while isinstance(model, DerivedModel):
        model = model._source
    solve = getattr(model, "solution", None)
    solution = None if solve is None else solve()
    error = _DIGITS if solution is None else max(_DIGITS, solution.mean_error)
    moments = moments_of(posterior)
    means, spread = moments.mean, moments.spread
    covariance = moments.covariance + spread @ spread.mT
    # Members of an ensemble count alike.
    covariance = covariance.reshape(-1, *covariance.shape[-2:]).mean(0)
    variance = covariance.diagonal()
    squares = variance + variance.unsqueeze(-1) - 2 * covariance
    rounding = 8 * torch.finfo(means.dtype).eps * means.abs().amax()
    return rounding + error * squares.clamp_min(0.0).sqrt()


def _shared_ranks(mean: Tensor, resolution: Tensor) -> Tensor:
    """Ranks items by their means, ``n``, the same where these are not resolved.

    Each rank has a first item, and those behind it up to the first that is resolved
    from it, with which the next rank begins: a row of small steps is not one rank.
    """
    order = mean.argsort(descending=True, stable=True)
    ordered = mean[order]
    apart = ordered.unsqueeze(-1) - ordered > resolution[order][:, order]
    count = len(mean)
    # The place of the first item that is resolved from each; past the end for none.
    ends = torch.where(apart.any(-1), apart.int().argmax(-1), count).tolist()
    place = torch.empty_like(order)
    start = 0
    while start < count:
        place[order[start : ends[start]]] = 1 + start
        start = ends[start]
    return place


def rank_interval(ranks: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Finds intervals of ranks: the shortest runs that hold a share of the draws.

    Of runs of one length it is the one that holds most.

    Args:
        ranks: Draws of them, ``S x n``.
        level: The least share of draws that a run has.

    Returns:
        The first and the last rank of each run, ``n`` each.
    """
    ordered = ranks.mT.sort(-1).values.contiguous()
    number = math.ceil(level * len(ranks))
    # Of all runs of so many draws in a row, in their order, the shortest.
    width = (ordered[:, number - 1 :] - ordered[:, : len(ranks) - number + 1]).amin(-1)
    # How many draws a run of this length holds from each of them on.
    ends = torch.searchsorted(ordered, ordered + width.unsqueeze(-1), right=True)
    held = ends - torch.searchsorted(ordered, ordered)
    first = ordered.gather(-1, held.argmax(-1, keepdim=True)).squeeze(-1)
    return first, first + width


def top_probability(utilities: Tensor, mean: Tensor, top: int) -> float:
    """Computes the probability that items of the largest means are the best ``top``.

    They are, in whatever order, if each of them is above all others.

    Args:
        utilities: Draws, ``S x n``.
        mean: Of the utilities, ``n``.
        top: How many of the items, less than ``n``.
    """
    order = mean.argsort(descending=True, stable=True)
    above, below = utilities[:, order[:top]], utilities[:, order[top:]]
    return float((above.amin(-1) > below.amax(-1)).double().mean())


def win_probabilities(model: Model, posterior: TorchPosterior, count: int) -> Tensor:
    """Computes probabilities that items of rows beat those of columns, ``n x n``.

    A half of a tie counts as won, and an item beats itself with a half. Members of an
    ensemble are averaged.
    """
    matrix = 0.5 * torch.eye(count).to(posterior.mean)
    # One item at a time: pairs of all would be too many for a mixture.
    for i in range(count):
        opponents = torch.tensor([j for j in range(count) if j != i])
        first = torch.full_like(opponents, i)
        # Parameters of an ensemble come last.
        win = duel_share(model, *duel_mixtures(posterior, first, opponents)).mean(0)
        matrix[i, opponents] = win.reshape(count - 1, -1).mean(-1)
    return matrix
