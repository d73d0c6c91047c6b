"""Pairs of a catalogue of items whose duels say most, many at once."""

from __future__ import annotations

from typing import Any

import torch
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from scipy.interpolate import RectBivariateSpline
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import roots_hermitenorm
from torch import Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.likelihoods import DuelLink
from botorch_pref.likelihoods.protocol import QuadratureLink, win_and_information
from botorch_pref.models.answer_likelihoods import (
    checked_items,
    model_link,
    noticeable_difference,
)
from botorch_pref.models.predictions import awaiting_answers
from botorch_pref.numerics.argument_checks import check_count
from botorch_pref.posteriors import Moments, gaussian_posterior
from botorch_pref.posteriors.gaussian import duel_mixtures, mean_at, moments_of

_WINDOW = 1024
"""Items of which a joint covariance is made at once; of so many, all pairs compete."""
_NEIGHBOURS = 24
"""Items above each one that compete to meet it among however many."""
_SIDE = 64
"""Nodes of each side of a table of information."""
_NODES = 7
"""Nodes of the quadrature over means that pending answers may lead to."""


@torch.no_grad()
def informative_pairs(
    model: Model,
    num_pairs: int | None = None,
    X: Tensor | None = None,
    pairs_pending: Tensor | None = None,
) -> Tensor:
    r"""Chooses pairs of items for many raters at once, the most informative first.

    The information of a duel about the utilities is :math:`h(E[g(u)]) - E[h(g(u))]` of
    the difference :math:`u` under the posterior (see :class:`.DuelingBALD`). The pairs
    of a batch are a spanning tree of the items in which the sum of the information is
    largest: every item is asked about, and the answers compare all of them (Mikhailiuk
    et al. 2021; Li et al. 2018). More pairs than a tree has are further trees, of the
    pairs that are left, chosen as if nobody were asked the trees before. Pairs that say
    as much as each other stand in a random order of fixed seed.

    A duel counts for less where pending duels will say the same. The answer to a
    pending duel that is expected to take a share :math:`\rho^2` of the variance
    :math:`\tau^2` away (see :func:`.answer_correlation`) counts as the difference with
    a Gaussian noise of :math:`\tau^2 (1 - \rho^2) / \rho^2`. All of them together leave
    the covariance :math:`C - \Delta`; the means :math:`m \sim N(\mu, \Delta)` that they
    will leave are unknown, and the information of another duel is averaged over these.

    Of up to 1,024 items all pairs compete; of more, those that are nearest to each
    other in the order of posterior means: up to 512 places apart at first, 134 of 2,000
    items, and 24 from 4,730 on. No covariance of all items is made. Where a link has no
    closed form, the information of thousands of pairs is interpolated, within 1e-5
    nats.

    Args:
        model: Any BoTorch model with one output and a likelihood of duels: without
            batches, or an ensemble, of which members count alike.
        num_pairs: How many; by default one tree, a pair fewer than items.
        X: ``n x d`` items, two or more; by default the model's points.
        pairs_pending: ``m x 2`` places in ``X`` of duels that were asked and are not
            answered yet; one that was asked twice stands there twice.

    Returns:
        ``num_pairs x 2`` places in ``X``, all pairs different, tree by tree.

    Raises:
        BotorchPrefError: The items are fewer than two, fewer pairs compete than are
            asked for, or a pending pair is not of two of the items.
        UnsupportedFeedbackError: The model's likelihood says nothing of duels.
    """
    items = checked_items(model, X)
    wanted = len(items) - 1 if num_pairs is None else num_pairs
    check_count("num_pairs", wanted, at_least=1)
    if pairs_pending is not None:
        _check_pending(pairs_pending, len(items))
    pairs, information = _candidates(model, items, pairs_pending)
    # Before there are answers all pairs say as much, and the first item would be in
    # each pair of a tree.
    shuffle = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))
    shuffle = shuffle.to(items.device)
    pairs, information = pairs[shuffle], information[shuffle]
    if wanted > len(pairs):
        raise BotorchPrefError(
            f"num_pairs is {wanted}, and {len(pairs)} pairs of the {len(items)} items "
            "compete; ask for fewer, and for more once these are answered."
        )
    chosen: list[Tensor] = []
    while sum(map(len, chosen)) < wanted:
        tree = _spanning_tree(pairs, information, len(items))
        chosen.append(pairs[tree])
        outside_tree = torch.ones_like(information, dtype=torch.bool)
        outside_tree[tree] = False
        pairs, information = pairs[outside_tree], information[outside_tree]
    return torch.cat(chosen)[:wanted]


def _check_pending(pairs: Tensor, count: int) -> None:
    """Checks that pending pairs are places of two different items each."""
    is_integer = not (pairs.is_floating_point() or pairs.dtype == torch.bool)
    if is_integer and pairs.dim() == 2 and pairs.shape[-1] == 2:
        inside = bool(((pairs >= 0) & (pairs < count)).all())
        if inside and not bool((pairs[:, 0] == pairs[:, 1]).any()):
            return
    raise BotorchPrefError(
        f"pairs_pending has shape {tuple(pairs.shape)} and dtype {pairs.dtype}; give "
        f"m x 2 places of two different items each, from 0 to {count - 1}."
    )


def _candidates(
    model: Model, items: Tensor, pending: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Lists competing pairs, ``m x 2``, and the information of their duels, ``m``.

    Of many items, pairs are in windows along the order of posterior means, so that no
    covariance of all items is made. ``pending`` pairs are places of items, or None.
    """
    count, link = len(items), model_link(model)
    scale = noticeable_difference(model)
    reach, order = count - 1, torch.arange(count, device=items.device)
    pending_items, place = order[:0], None
    if pending is not None and len(pending):
        pending_items, place = torch.unique(
            pending.to(items.device), return_inverse=True
        )
    if count > _WINDOW:
        # How many places apart pairs compete: half a window where items are one more
        # than fill a window, and a quarter of that where they are twice as many.
        reach = max(_NEIGHBOURS, _WINDOW**3 // (2 * count**2))
        order = _mean(model, items).argsort(stable=True)
    pairs, information = [], []
    for start in range(0, count - 1, _WINDOW - reach):
        window = order[start : start + _WINDOW]
        size = len(window)
        posterior: Any = model.posterior(items[torch.cat([window, pending_items])])
        first, second = torch.triu_indices(size, size, 1, device=items.device)
        # Pairs whose first item is in the next window too are listed there.
        last = start + _WINDOW >= count
        keep = (second - first <= reach) & (last | (first < _WINDOW - reach))
        first, second = first[keep], second[keep]
        if place is None:
            gap, variance = duel_mixtures(posterior, first, second)
            duel_information = _information(link, scale, gap, variance)
        else:
            before = _as_gaussian(posterior)
            # Pending items stand behind the window's in the posterior.
            after = awaiting_answers(before, link, *(size + place).unbind(-1))
            gap, variance = duel_mixtures(before, first, second)
            _, variance_after = duel_mixtures(after, first, second)
            duel_information = _information_after(
                link, scale, gap, variance, variance_after.minimum(variance)
            )
        # Members of an ensemble count alike.
        information.append(duel_information.reshape(len(first), -1).mean(-1))
        pairs.append(torch.stack([window[first], window[second]], dim=-1))
        if last:
            break
    return torch.cat(pairs), torch.cat(information)


def _as_gaussian(posterior: Posterior) -> Posterior:
    """Returns the Gaussian with the mean and the covariance of a mixture.

    It takes the mixture's place before answers are foreseen: these would change the
    weights of components, which `Moments` keeps equal.
    """
    moments = moments_of(posterior)
    covariance = moments.covariance + moments.spread @ moments.spread.mT
    return gaussian_posterior(Moments(moments.mean.unsqueeze(0), covariance))


def _information(
    link: DuelLink, scale: Tensor, gap: Tensor, variance: Tensor
) -> Tensor:
    """Computes the information of duels whose differences are mixtures of Gaussians.

    That of one Gaussian is a smooth function of two numbers, the size of the mean and
    the deviation. Where the link needs a quadrature for each pair, and pairs are more
    than four times the nodes of a table, it is a spline of that table. The nodes are
    evenly spaced in the inverse hyperbolic sine of the two numbers, in units of the
    ``scale`` of the link. Means, ``gap``, are ``num_components x m``, or of an ensemble
    ``num_components x m x members``.
    """
    is_slow = isinstance(link, QuadratureLink) and gap.numel() > 4 * _SIDE**2
    if not is_slow or gap.dim() > 2 or len(gap) > 1:
        return win_and_information(link, gap, variance)[1]
    sides = [gap[0].abs(), variance.sqrt()]
    places = [(side / scale).asinh().cpu() for side in sides]
    ends = [max(float(place.max()), 1.0) for place in places]
    nodes = [torch.linspace(0, end, _SIDE, dtype=torch.float64) for end in ends]
    mean, deviation = torch.meshgrid(
        *(scale * node.to(gap).sinh() for node in nodes), indexing="ij"
    )
    variances = deviation.square().flatten()
    _, table = win_and_information(link, mean.reshape(1, -1), variances)
    spline = RectBivariateSpline(*nodes, table.reshape(_SIDE, _SIDE).cpu())
    return torch.from_numpy(spline.ev(*places)).to(gap)


def _information_after(
    link: DuelLink, scale: Tensor, gap: Tensor, variance: Tensor, variance_after: Tensor
) -> Tensor:
    """Computes the expected information of duels once pending ones are answered.

    Their answers shrink the variance of a difference, and move its mean by a Gaussian
    of the variance that it loses, over which the information is averaged.
    """
    nodes, weights = roots_hermitenorm(_NODES)
    total, moves = torch.zeros_like(variance), (variance - variance_after).sqrt()
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        node_information = _information(link, scale, gap + node * moves, variance_after)
        total = total + weight * node_information
    return total


def _mean(model: Model, items: Tensor) -> Tensor:
    """Computes posterior means of items, without their covariance."""
    parts = items.unsqueeze(-2).split(_WINDOW)
    return torch.cat([mean_at(model, part).squeeze(-1) for part in parts])


def _spanning_tree(pairs: Tensor, information: Tensor, count: int) -> Tensor:
    """Finds the spanning tree of items with the largest sum of information.

    Returned are places in ``pairs``, most informative first. Where the pairs do not
    join all ``count`` items, each part of them has a tree.
    """
    order = information.argsort(descending=True, stable=True)
    ends = pairs[order].cpu().numpy()
    # The best tree depends on the order of weights alone. Weights that are places in
    # the order say which pairs it has; they count from 1, since 0 would be no pair.
    weights = range(1, len(ends) + 1)
    graph = coo_array((weights, (ends[:, 0], ends[:, 1])), shape=(count, count))
    tree = minimum_spanning_tree(graph.tocsr())
    place = torch.as_tensor(tree.data, device=pairs.device).long().sort().values
    return order[place - 1]
