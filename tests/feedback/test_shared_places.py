"""Rankings with shared places, against what options heard once say."""

from itertools import combinations, pairwise

import pytest
import torch
from torch import Tensor
from torch.special import ndtr

from botorch_pref import EPPreferenceGP
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Choices, Comparisons, Rankings, rankings_with_ties
from botorch_pref.likelihoods import PairwiseProbitLikelihood


def by_hand(items: list[int], ranks: list[float]) -> tuple[list, list, list]:
    """Lists choices (the best first), wins and ties of one ranking, in loops."""
    places = [
        [i for i, r in zip(items, ranks, strict=True) if r == rank]
        for rank in sorted(set(ranks))
    ]
    choices, wins, ties = [], [], []
    if len(places) > 1 and all(len(place) == 1 for place in places[:-1]):
        order = [item for place in places for item in place]
        choices = [order[start:] for start in range(len(places) - 1)]
    else:
        for better, worse in pairwise(places):
            turns = range(min(2, max(len(better), len(worse))))
            wins += [(better[i % len(better)], worse[i % len(worse)]) for i in turns]
    for place in places:
        if len(place) == 2:
            ties.append(tuple(place))
        elif len(place) > 2:
            ties += zip(place, place[1:] + place[:1], strict=True)
    return choices, wins, ties


def test_places_make_choices_comparisons_and_ties() -> None:
    generator = torch.Generator().manual_seed(0)
    rows, rankings = [], []
    for _ in range(200):
        k = int(torch.randint(2, 7, (), generator=generator))
        items = torch.randperm(9, generator=generator)[:k].tolist()
        rows.append((items, torch.randint(0, 4, (k,), generator=generator).tolist()))
    items = torch.full((200, 6), -1)
    ranks = torch.full((200, 6), 7.0)
    choices, wins, ties = [], [], []
    for i, (named, places) in enumerate(rows):
        items[i, : len(named)] = torch.tensor(named)
        ranks[i, : len(named)] = torch.tensor(places).float()
        if len({*places}) == len(places):
            order = [n for _, n in sorted(zip(places, named, strict=True))]
            rankings.append(order + [-1] * (6 - len(order)))
            continue
        chosen, won, tied = by_hand(named, places)
        choices += [stage + [-1] * (6 - len(stage)) for stage in chosen]
        wins += won
        ties += tied
    strict, tied_rankings, shared = rankings_with_ties(items, ranks)
    assert isinstance(strict, Rankings)
    assert isinstance(tied_rankings, Choices)
    assert isinstance(shared, Comparisons)
    assert strict.orders.tolist() == rankings
    assert tied_rankings.stages().tolist() == choices
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
    """Estimates the share of hearings of all at once that give an answer."""
    noise = torch.randn(2000, f.shape[-1], dtype=f.dtype, generator=generator)
    shares = []
    for part in f.split(200):
        values = part.unsqueeze(1) + noise
        says = torch.ones(values.shape[:2], dtype=torch.bool)
        for i, j in wins:
            says &= values[..., i] - values[..., j] > THRESHOLD
        for i, j in ties:
            says &= (values[..., i] - values[..., j]).abs() <= THRESHOLD
        shares.append(says.double().mean(-1))
    return torch.cat(shares)


def heard_anew(f: Tensor, wins: list, ties: list) -> Tensor:
    """Computes the probability of duels, each of which is heard by itself."""
    probability = torch.ones(len(f), dtype=f.dtype)
    for i, j in wins:
        probability *= ndtr((f[:, i] - f[:, j] - THRESHOLD) / 2**0.5)
    for i, j in ties:
        gap = f[:, i] - f[:, j]
        at_most = [ndtr((end - gap) / 2**0.5) for end in (THRESHOLD, -THRESHOLD)]
        probability *= at_most[0] - at_most[1]
    return probability


def differences(f: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Computes means and deviations of all differences of two utilities."""
    pairs = torch.tensor([*combinations(range(f.shape[-1]), 2)])
    gaps, share = f[:, pairs[:, 0]] - f[:, pairs[:, 1]], weights / weights.sum()
    mean = share @ gaps
    return mean, (share @ (gaps - mean).square()).sqrt()


def said_by(places: list[list[int]], f: Tensor) -> Tensor:
    """Computes the probability of the library's answers of a ranking, heard anew."""
    rank = {i: r for r, place in enumerate(places) for i in place}
    ranks = torch.tensor([[rank[i] for i in range(len(rank))]])
    items = torch.arange(len(rank)).unsqueeze(0)
    probability = torch.ones(len(f), dtype=f.dtype)
    likelihood = PairwiseProbitLikelihood()
    for block in rankings_with_ties(items, ranks):
        if isinstance(block, Comparisons):
            pairs = [] if block.pairs is None else block.pairs.tolist()
            probability *= heard_anew(f, pairs, block.ties.tolist())
            continue
        for stage in block.stages():
            chosen = likelihood.log_choice_probability(f[:, stage[stage >= 0]])
            probability *= chosen[:, 0].detach().exp()
    return probability


@pytest.mark.parametrize(
    ("places", "low", "high"),
    [
        ([[0], [1, 2]], 0.85, 1.1),
        ([[0], [1, 2, 3]], 0.95, 1.2),
        ([[0, 1, 2], [3]], 1.05, 1.45),
        ([[0], [1, 2], [3]], 1.05, 1.3),
        ([[0, 1], [2, 3]], 1.05, 1.35),
        ([[0, 1], [2, 3, 4]], 0.75, 1.25),
    ],
)
def test_they_say_nearly_what_options_heard_once_say(places, low, high) -> None:
    generator = torch.Generator().manual_seed(0)
    count = max(map(max, places)) + 1
    f = torch.randn(4000, count, dtype=torch.double, generator=generator)
    rank = {i: r for r, place in enumerate(places) for i in place}
    pairs = [*combinations(range(count), 2)]
    ties = [(i, j) for i, j in pairs if rank[i] == rank[j]]
    wins = [(i, j) for i, j in pairs if rank[i] < rank[j]]
    mean, deviation = differences(f, heard_once(f, wins, ties, generator))
    own_mean, own_deviation = differences(f, said_by(places, f))
    # Draws of utilities are correlated between the two; what is left is the noise of
    # 2,000 hearings, below 0.05.
    assert (own_deviation / deviation).min() > 0.8
    assert (own_deviation / deviation).max() < 1.08
    apart = torch.tensor([rank[i] < rank[j] for i, j in pairs])
    ratios = (own_mean / mean)[apart]
    assert low < ratios.min()
    assert ratios.max() < high
    # All pairs would be surer of what is better.
    all_means, _ = differences(f, heard_anew(f, wins, ties))
    assert (all_means / mean)[apart].mean() > ratios.mean() + 0.1
