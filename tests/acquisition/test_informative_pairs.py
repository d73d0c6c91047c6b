"""Batches of informative duels against all trees, and quadrature of information."""

import itertools
import math

import numpy as np
import pytest
import torch
from draws import uniform
from scipy.special import ndtr, xlogy
from torch import Tensor

from botorch_pref import (
    BotorchPrefError,
    EPPreferenceGP,
    FullyBayesianEPPreferenceGP,
    PairwiseProbitLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.acquisition import catalogue, informative_pairs
from botorch_pref.likelihoods.protocol import QuadratureLink, win_and_information
from botorch_pref.models import PreferenceGP

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


def entropy(p: np.ndarray) -> np.ndarray:
    return -xlogy(p, p) - xlogy(1 - p, 1 - p)


def information(model: EPPreferenceGP) -> np.ndarray:
    """Computes the information of pairs of datapoints by quadrature, ``n x n``."""
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
    points = uniform(count, 2, seed=seed)
    number = torch.arange(count - 1)
    pairs = torch.stack([number, number + 1], dim=-1)[::2]
    return EPPreferenceGP(points, pairs, likelihood=PairwiseProbitLikelihood()).eval()


def spans(pairs: list[tuple[int, ...]], count: int) -> bool:
    """Tells whether pairs, one fewer than items, connect all items."""
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
    gains = information(model)
    trees = itertools.combinations(itertools.combinations(range(5), 2), 4)
    best = max(
        (tree for tree in trees if spans([*tree], 5)),
        key=lambda tree: sum(gains[pair] for pair in tree),
    )
    got = ends(informative_pairs(model))
    assert set(got) == set(best)
    assert got == sorted(got, key=lambda pair: -gains[pair])


def test_more_raters_are_asked_other_pairs() -> None:
    model = made(6)
    gains = information(model)
    got = ends(informative_pairs(model, 12))
    assert len(set(got)) == 12
    assert spans(got[:5], 6)
    # The second tree is the best of the pairs that the first has left.
    open_pairs = set(itertools.combinations(range(6), 2)) - {*got[:5]}
    trees = (t for t in itertools.combinations(open_pairs, 5) if spans([*t], 6))
    best = max(trees, key=lambda tree: sum(gains[pair] for pair in tree))
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
    gains = information(model)
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
    for pair in sorted(near, key=lambda pair: -gains[pair]):
        if spans([*tree, pair], 40):
            tree.append(pair)
    assert ends(informative_pairs(model)) == tree


@pytest.mark.parametrize("X", [torch.zeros(1, 2), torch.zeros(2, 3, 2)])
def test_what_is_no_catalogue_is_refused(X: Tensor) -> None:
    with pytest.raises(BotorchPrefError, match="give items, n x d, two or more"):
        informative_pairs(made(3), X=X.double())


@pytest.mark.parametrize("engine", [EPPreferenceGP, SkewPreferenceGP])
def test_pending_answers_are_not_asked_for_again(engine: type[PreferenceGP]) -> None:
    model = made(6, 1)
    conditioned = engine(
        model.datapoints, model.comparisons, likelihood=model.likelihood
    )
    conditioned.covar_module.outputscale = 3.0
    conditioned.eval()
    pending = torch.tensor([[0, 2], [5, 1], [2, 0], [3, 4]])
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        drawn = conditioned.posterior(conditioned.datapoints).rsample(
            torch.Size([60_000])
        )
    f, every = drawn.squeeze(-1).numpy(), list(itertools.combinations(range(6), 2))

    def wins(pairs: np.ndarray) -> np.ndarray:
        return ndtr((f[:, pairs[:, 0]] - f[:, pairs[:, 1]]) / math.sqrt(2))

    # Of every set of answers, its probability and what would be left to say.
    win, of_pending = wins(np.array(every)), wins(pending.numpy())
    truth = -entropy(win).mean(0)
    for outcomes in itertools.product((False, True), repeat=len(pending)):
        weight = np.where(outcomes, of_pending, 1 - of_pending).prod(-1)
        expected = (weight[:, None] * win).sum(0) / weight.sum()
        truth += weight.mean() * entropy(expected)
    gains = []
    for pending_pairs in (None, pending):
        with torch.no_grad():
            pairs, values = catalogue._candidates(
                conditioned, conditioned.datapoints, pending_pairs
            )
        gains.append(dict(zip(ends(pairs), values.tolist(), strict=True)))
    now, later = gains
    missed = max(abs(later[p] - t) for p, t in zip(every, truth, strict=True))
    before = max(abs(now[p] - t) for p, t in zip(every, truth, strict=True))
    # A Gaussian for answers; without it the error is far larger.
    assert missed < 0.012
    assert before > 5 * missed
    got = ends(informative_pairs(conditioned, 15, pairs_pending=pending))
    assert set(got) == set(every)
    assert got != ends(informative_pairs(conditioned, 15))
    assert ends(informative_pairs(conditioned, 15, pairs_pending=pending[:0])) == ends(
        informative_pairs(conditioned, 15)
    )


def test_items_of_an_ensemble_are_in_the_order_of_the_mean_of_all_members() -> None:
    X, pairs = uniform(7, 2), torch.tensor([[0, 1], [2, 3], [4, 5], [6, 0]])
    model = FullyBayesianEPPreferenceGP(X, pairs)
    model.load_mcmc_samples(
        {
            name: value.detach() + torch.linspace(-1, 1, 3).view(3, *[1] * value.dim())
            for name, value in model.named_parameters()
            if value.requires_grad
        }
    )
    with torch.no_grad():
        member_means = model.eval().posterior(X).mean.squeeze(-1)
        mean = catalogue._mean(model, X)
    assert member_means.shape == (3, 7)
    torch.testing.assert_close(mean, member_means.mean(0))


def test_pending_pairs_need_not_be_in_one_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, pending = made(40), torch.tensor([[0, 30], [7, 12], [39, 3]])
    monkeypatch.setattr(catalogue, "_NEIGHBOURS", 9)
    batches = []
    for window in (12, 30):
        monkeypatch.setattr(catalogue, "_WINDOW", window)
        batches.append(ends(informative_pairs(model, pairs_pending=pending)))
    assert batches[0] == batches[1]


@pytest.mark.parametrize(
    "pending",
    [torch.tensor([[1, 1]]), torch.tensor([[0, 3]]), torch.tensor([0.0, 1.0])],
)
def test_what_is_no_pending_pair_is_refused(pending: Tensor) -> None:
    with pytest.raises(BotorchPrefError, match="places of two different items each"):
        informative_pairs(made(3), pairs_pending=pending)


def test_one_item_more_than_a_window_has_pairs_that_are_far_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not only the nearest ones, as where windows are many."""
    model = made(40)
    monkeypatch.setattr(catalogue, "_WINDOW", 39)
    monkeypatch.setattr(catalogue, "_NEIGHBOURS", 3)
    with torch.no_grad():
        pairs, _ = catalogue._candidates(model, model.datapoints, None)
        order = model.posterior(model.datapoints).mean.squeeze(-1).argsort()
    place = order.argsort()[pairs]
    apart = (place[:, 0] - place[:, 1]).abs()
    assert sorted(apart.tolist()) == sorted(
        b - a for a, b in itertools.combinations(range(40), 2) if b - a <= 18
    )


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_information_is_interpolated_where_pairs_are_many(scale: float) -> None:
    """Of differences that are small and large beside the width of the link."""
    link = QuadratureLink(lambda u: torch.sigmoid(u / scale))
    gap = scale * 12 * uniform(20_000, 1, seed=1).mT.square()
    variance = (scale * 9 * uniform(20_000, 1, seed=2).squeeze(-1)).square()
    unit = torch.tensor(scale * math.log(3), dtype=torch.double)
    gain = catalogue._information(link, unit, gap, variance)
    sample = slice(0, 20_000, 100)
    _, exact = win_and_information(link, gap[:, sample], variance[sample])
    torch.testing.assert_close(gain[sample], exact, rtol=0, atol=1e-5)
