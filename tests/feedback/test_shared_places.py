"""Rankings with shared places, against what they say, pair by pair."""

from itertools import combinations, pairwise

import pytest
import torch
from torch import Tensor
from torch.special import ndtr

from botorch_pref import EPPreferenceGP
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Comparisons, Rankings, rankings_with_ties


def by_hand(items: list[int], ranks: list[float]) -> tuple[list, list]:
    """Wins and ties of one ranking, in loops."""
    places = [
        [i for i, r in zip(items, ranks, strict=True) if r == rank]
        for rank in sorted(set(ranks))
    ]
    wins, ties = [], []
    for better, worse in pairwise(places):
        turns = range(max(len(better), len(worse)))
        wins += [(better[i % len(better)], worse[i % len(worse)]) for i in turns]
    for place in places:
        if len(place) == 2:
            ties.append(tuple(place))
        elif len(place) > 2:
            ties += zip(place, place[1:] + place[:1], strict=True)
    return wins, ties


def test_places_make_comparisons_and_ties() -> None:
    generator = torch.Generator().manual_seed(0)
    rows, rankings = [], []
    for _ in range(60):
        k = int(torch.randint(2, 7, (), generator=generator))
        items = torch.randperm(9, generator=generator)[:k].tolist()
        rows.append((items, torch.randint(0, 4, (k,), generator=generator).tolist()))
    items = torch.full((60, 6), -1)
    ranks = torch.full((60, 6), 7.0)
    wins, ties = [], []
    for i, (named, places) in enumerate(rows):
        items[i, : len(named)] = torch.tensor(named)
        ranks[i, : len(named)] = torch.tensor(places).float()
        if len({*places}) == len(places):
            order = [n for _, n in sorted(zip(places, named, strict=True))]
            rankings.append(order + [-1] * (6 - len(order)))
            continue
        won, tied = by_hand(named, places)
        wins += won
        ties += tied
    strict, shared = rankings_with_ties(items, ranks)
    assert isinstance(strict, Rankings)
    assert isinstance(shared, Comparisons)
    assert strict.orders.tolist() == rankings
    assert sorted(map(tuple, shared.pairs.tolist())) == sorted(wins)
    assert sorted(map(tuple, shared.ties.tolist())) == sorted(ties)


def test_one_place_for_all_is_a_ring_of_ties() -> None:
    (block,) = rankings_with_ties(torch.tensor([[4, 2, 7]]), torch.zeros(1, 3))
    assert block.pairs is None
    assert block.ties.tolist() == [[4, 2], [2, 7], [7, 4]]


def test_a_model_learns_them() -> None:
    points = torch.tensor([[0.0], [0.4], [0.6], [1.0]], dtype=torch.float64)
    items, ranks = torch.tensor([[0, 1, 2, 3]]), torch.tensor([[1, 2, 2, 4]])
    (block,) = rankings_with_ties(items, ranks)
    assert sorted(block.pairs.tolist()) == [[0, 1], [0, 2], [1, 3], [2, 3]]
    assert block.ties.tolist() == [[1, 2]]
    mean = EPPreferenceGP(points, feedback=[block]).eval().posterior(points).mean
    assert mean[0] > mean[1:3].max()
    assert mean[1:3].min() > mean[3]


@pytest.mark.parametrize(
    ("items", "ranks", "match"),
    [
        ([[0, 1, 1]], [[1, 2, 3]], "names point 1 twice"),
        ([[0, 1, 2]], [[1, 2]], r"\(1, 3\) and ranks \(1, 2\)"),
        ([[0, 1, 2]], [[1, float("nan"), 2]], r"ranks\[0, 1\] is NaN"),
    ],
)
def test_what_is_no_ranking_is_refused(items, ranks, match) -> None:
    with pytest.raises(FeedbackError, match=match):
        rankings_with_ties(torch.tensor(items), torch.tensor(ranks).double())


THRESHOLD = 0.5


def heard_once(f: Tensor, wins: list, ties: list, generator: torch.Generator) -> Tensor:
    """Share of hearings of all options at once, with noise 1, that give an answer."""
    noise = torch.randn(2000, f.shape[-1], dtype=f.dtype, generator=generator)
    shares = []
    for part in f.split(200):
        heard = part.unsqueeze(1) + noise
        says = torch.ones(heard.shape[:2], dtype=torch.bool)
        for i, j in wins:
            says &= heard[..., i] - heard[..., j] > THRESHOLD
        for i, j in ties:
            says &= (heard[..., i] - heard[..., j]).abs() <= THRESHOLD
        shares.append(says.double().mean(-1))
    return torch.cat(shares)


def heard_anew(f: Tensor, wins: list, ties: list) -> Tensor:
    """Probability of duels, each of which is heard by itself."""
    probability = torch.ones(len(f), dtype=f.dtype)
    for i, j in wins:
        probability *= ndtr((f[:, i] - f[:, j] - THRESHOLD) / 2**0.5)
    for i, j in ties:
        gap = f[:, i] - f[:, j]
        at_most = [ndtr((end - gap) / 2**0.5) for end in (THRESHOLD, -THRESHOLD)]
        probability *= at_most[0] - at_most[1]
    return probability


def differences(f: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Means and deviations of all differences of two utilities."""
    pairs = torch.tensor([*combinations(range(f.shape[-1]), 2)])
    gaps, share = f[:, pairs[:, 0]] - f[:, pairs[:, 1]], weights / weights.sum()
    mean = share @ gaps
    return mean, (share @ (gaps - mean).square()).sqrt()


@pytest.mark.parametrize("places", [[[0], [1, 2], [3]], [[0, 1], [2, 3]]])
def test_they_say_nearly_what_options_heard_once_say(places) -> None:
    generator = torch.Generator().manual_seed(0)
    f = torch.randn(4000, 4, dtype=torch.double, generator=generator)
    rank = {i: r for r, place in enumerate(places) for i in place}
    pairs = [*combinations(range(4), 2)]
    ties = [(i, j) for i, j in pairs if rank[i] == rank[j]]
    wins = [(i, j) for i, j in pairs if rank[i] < rank[j]]
    mean, deviation = differences(f, heard_once(f, wins, ties, generator))
    ranks = torch.tensor([[rank[i] for i in range(4)]])
    (block,) = rankings_with_ties(torch.arange(4).unsqueeze(0), ranks)
    ours = heard_anew(f, block.pairs.tolist(), block.ties.tolist())
    own_mean, own_deviation = differences(f, ours)
    # Draws of utilities are correlated between the two; what is left is the noise of
    # 2,000 hearings, below 0.05.
    assert (own_deviation / deviation).min() > 0.85
    assert (own_deviation / deviation).max() < 1.05
    apart = torch.tensor([rank[i] < rank[j] for i, j in pairs])
    assert (own_mean / mean)[apart].max() < 1.25
    # All pairs would be too sure of what is better.
    all_means, _ = differences(f, heard_anew(f, wins, ties))
    assert (all_means / mean)[apart].max() > 1.3
