"""Pairs of a catalogue of items whose duels say most, many at once."""

from __future__ import annotations

from typing import Any

import torch
from botorch.models.model import Model
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.likelihoods.base import win_and_information
from botorch_pref.models.answers import check_unbatched, model_link
from botorch_pref.numerics.argument_ranges import check_count
from botorch_pref.posteriors.difference import shared_covariance_mixture

_WINDOW = 1024
"""Items of which a joint covariance is made at once; of so many, all pairs compete."""
_NEIGHBOURS = 24
"""Items above each one that compete to meet it, where the window does not hold all."""


@torch.no_grad()
def informative_pairs(
    model: Model, num_pairs: int | None = None, X: Tensor | None = None
) -> Tensor:
    r"""Pairs of items for many raters at once, the most informative duel first.

    The information of a duel about the utilities is
    :math:`h(E[g(u)]) - E[h(g(u))]` of the difference :math:`u` under the posterior (see
    :class:`.DuelingBALD`). The pairs of a batch are a spanning tree of the items in
    which the sum of the information is largest: every item is asked about, and the
    answers compare all of them (Mikhailiuk et al. 2021; Li et al. 2018). More pairs
    than a tree has are further trees, of the pairs that are left. These are chosen as
    if nothing of the trees before were asked. Pairs that say as much as each other
    stand in a random order, which has a fixed seed.

    Of up to 1,024 items all pairs compete. Of more, those whose places in the order of
    posterior means are at most 24 apart: no covariance of all items is made.

    Args:
        model: Any BoTorch model with one output and a likelihood of duels, without
            batches or an ensemble.
        num_pairs: How many; by default one tree, a pair fewer than items.
        X: ``n x d`` items, two or more; by default the model's points.

    Returns:
        ``num_pairs x 2`` places in ``X``, all pairs different; the pairs of a tree
        stand together.

    Raises:
        BotorchPrefError: The items are fewer than two, or fewer pairs compete than are
            asked for.
        UnsupportedFeedbackError: The model's likelihood says nothing of duels.
    """
    check_unbatched(model)
    items: Tensor | None = getattr(model, "datapoints", None) if X is None else X
    if items is None or items.dim() != 2 or len(items) < 2:
        given = "nothing" if items is None else f"shape {tuple(items.shape)}"
        raise BotorchPrefError(f"X is {given}; give items, n x d, two or more.")
    wanted = len(items) - 1 if num_pairs is None else num_pairs
    check_count("num_pairs", wanted, at_least=1)
    pairs, information = _candidates(model, items)
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
        left = torch.ones_like(information, dtype=torch.bool)
        left[tree] = False
        pairs, information = pairs[left], information[left]
    return torch.cat(chosen)[:wanted]


def _candidates(model: Model, items: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs that compete, ``m x 2``, and the information of their duels, ``m``."""
    count, link = len(items), model_link(model)
    reach, order = count - 1, torch.arange(count, device=items.device)
    if count > _WINDOW:
        reach = _NEIGHBOURS
        order = _mean(model, items).argsort(stable=True)
    pairs, information = [], []
    for start in range(0, count - 1, _WINDOW - reach):
        window = order[start : start + _WINDOW]
        posterior: Any = model.posterior(items[window])
        means, covariance = shared_covariance_mixture(posterior)
        size = len(window)
        first, second = torch.triu_indices(size, size, 1, device=items.device)
        # Pairs that begin in the next window's part are that window's own.
        last = start + _WINDOW >= count
        keep = (second - first <= reach) & (last | (first < _WINDOW - reach))
        first, second = first[keep], second[keep]
        variances = covariance.diagonal(dim1=-2, dim2=-1)
        variance = variances[..., first] + variances[..., second]
        variance = (variance - 2 * covariance[..., first, second]).clamp_min(0.0)
        gap = means[..., first] - means[..., second]
        _, each = win_and_information(link, gap, variance)
        # Members of an ensemble count alike.
        information.append(each.reshape(-1, len(first)).mean(0))
        pairs.append(torch.stack([window[first], window[second]], dim=-1))
        if last:
            break
    return torch.cat(pairs), torch.cat(information)


def _mean(model: Model, items: Tensor) -> Tensor:
    """Posterior means of items, without their covariance."""
    parts = []
    for part in items.split(_WINDOW):
        posterior: Any = model.posterior(part.unsqueeze(-2))
        parts.append(posterior.mean.reshape(-1, len(part)).mean(0))
    return torch.cat(parts)


def _spanning_tree(pairs: Tensor, information: Tensor, count: int) -> Tensor:
    """Places of the pairs of the best tree, or of trees, most informative first."""
    order = information.argsort(descending=True, stable=True)
    ends = pairs[order].cpu().numpy()
    # The best tree depends on the order of weights alone. Places from 1 as weights say
    # which pairs it has.
    weights = range(1, len(ends) + 1)
    graph = coo_array((weights, (ends[:, 0], ends[:, 1])), shape=(count, count))
    tree = minimum_spanning_tree(graph.tocsr())
    place = torch.as_tensor(tree.data, device=pairs.device).long().sort().values
    return order[place - 1]
