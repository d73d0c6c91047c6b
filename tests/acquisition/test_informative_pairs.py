"""Batches of informative duels against all trees, and quadrature of information."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr, xlogy
from torch import Tensor

from botorch_pref import BotorchPrefError, EPPreferenceGP, PairwiseProbitLikelihood
from botorch_pref.acquisition import catalogue, informative_pairs

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def entropy(p: np.ndarray) -> np.ndarray:
    return -xlogy(p, p) - xlogy(1 - p, 1 - p)


def information(model: EPPreferenceGP) -> np.ndarray:
    """Of each pair of datapoints, by quadrature over the posterior, ``n x n``."""
    with torch.no_grad():
        posterior = model.posterior(model.datapoints).distribution
    mean, covariance = posterior.mean.numpy(), posterior.covariance_matrix.numpy()
    variance = np.diag(covariance)[:, None] + np.diag(covariance) - 2 * covariance
    gap = (mean[:, None] - mean)[..., None]
    u = gap + np.sqrt(np.maximum(variance, 0))[..., None] * NODES
    share = WEIGHTS / WEIGHTS.sum()
    win = ndtr(u / math.sqrt(2))
    return entropy((win * share).sum(-1)) - (entropy(win) * share).sum(-1)


def made(count: int, seed: int = 0) -> EPPreferenceGP:
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(count, 2, dtype=torch.float64, generator=generator)
    number = torch.arange(count - 1)
    pairs = torch.stack([number, number + 1], dim=-1)[::2]
    return EPPreferenceGP(points, pairs, likelihood=PairwiseProbitLikelihood()).eval()


def spans(pairs: list[tuple[int, ...]], count: int) -> bool:
    """Whether pairs, one fewer than items, connect all items."""
    group = list(range(count))
    for a, b in pairs:
        if group[a] == group[b]:
            return False
        group = [group[a] if g == group[b] else g for g in group]
    return True


def ends(pairs: Tensor) -> list[tuple[int, ...]]:
    return [tuple(sorted(pair)) for pair in pairs.tolist()]


def test_the_first_batch_is_the_best_of_all_spanning_trees() -> None:
    model = made(5)
    told = information(model)
    trees = itertools.combinations(itertools.combinations(range(5), 2), 4)
    best = max(
        (tree for tree in trees if spans([*tree], 5)),
        key=lambda tree: sum(told[pair] for pair in tree),
    )
    got = ends(informative_pairs(model))
    assert set(got) == set(best)
    assert got == sorted(got, key=lambda pair: -told[pair])


def test_more_raters_are_asked_other_pairs() -> None:
    model = made(6)
    told = information(model)
    got = ends(informative_pairs(model, 12))
    assert len(set(got)) == 12
    assert spans(got[:5], 6)
    # The second tree is the best of the pairs that the first has left.
    left = set(itertools.combinations(range(6), 2)) - {*got[:5]}
    trees = (t for t in itertools.combinations(left, 5) if spans([*t], 6))
    best = max(trees, key=lambda tree: sum(told[pair] for pair in tree))
    assert set(got[5:10]) == set(best)
    assert len(ends(informative_pairs(model, 15))) == 15
    with pytest.raises(BotorchPrefError, match="num_pairs is 16, and 15 pairs of"):
        informative_pairs(model, 16)


def test_of_many_items_neighbours_in_their_order_compete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = made(40)
    monkeypatch.setattr(catalogue, "_WINDOW", 12)
    monkeypatch.setattr(catalogue, "_NEIGHBOURS", 3)
    told = information(model)
    with torch.no_grad():
        order = model.posterior(model.datapoints).mean.squeeze(-1).argsort().tolist()
    near = {
        tuple(sorted((order[i], order[i + k])))
        for k in range(1, 4)
        for i in range(40 - k)
    }
    assert set(ends(informative_pairs(model, len(near)))) == near
    # Kruskal's algorithm.
    tree: list[tuple[int, ...]] = []
    for pair in sorted(near, key=lambda pair: -told[pair]):
        if spans([*tree, pair], 40):
            tree.append(pair)
    assert ends(informative_pairs(model)) == tree


@pytest.mark.parametrize("X", [torch.zeros(1, 2), torch.zeros(2, 3, 2)])
def test_what_is_no_catalogue_is_refused(X: Tensor) -> None:
    with pytest.raises(BotorchPrefError, match="give items, n x d, two or more"):
        informative_pairs(made(3), X=X.double())
