"""Blocks of answers in one block, against lists of answers in plain Python."""

import itertools

import pytest
import torch
from registry import RANDOM

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import (
    Comparisons,
    Feedback,
    OrdinalRatings,
    Rankings,
    Validity,
)

NUM_POINTS = 6
SHAPES = [((), ()), ((2,), ()), ((), (3,)), ((2, 1), (3,)), ((2,), (1,))]


def block_of(kind: type[Feedback], shape: tuple[int, ...], seed: int) -> Feedback:
    """Draws random answers, others in each element of a batch."""
    generator = torch.Generator().manual_seed(seed)
    count = torch.Size(shape).numel()
    drawn = [RANDOM[kind](generator, NUM_POINTS) for _ in range(count)]
    if not shape:
        return drawn[0]
    stacked = {
        name: torch.stack([getattr(d, name) for d in drawn]).unflatten(0, shape)
        for name, value in vars(drawn[0]).items()
        if isinstance(value, torch.Tensor)
    }
    shared_fields = {n: v for n, v in vars(drawn[0]).items() if n not in stacked}
    return kind(**stacked, **shared_fields)


def said(
    block: Feedback, name: str, element: tuple[int, ...], batch: torch.Size, by: int
) -> list:
    """Lists an entry an answer: items or a number, about points ``by`` places later."""
    value = getattr(block, name)
    if value is None:
        return []
    wide = name in block.wide_fields
    entries = value.expand(*batch, *value.shape[-2 if wide else -1 :])[element].tolist()
    by = by if name in block.index_fields else 0
    if wide:
        return [[item + by for item in row if item >= 0] for row in entries]
    return [entry + by for entry in entries]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("kind", RANDOM)
def test_a_block_says_what_both_said(kind: type[Feedback], shapes: tuple) -> None:
    for seed in range(5):
        first, second = (block_of(kind, s, seed + k) for k, s in enumerate(shapes))
        before = NUM_POINTS + seed
        joined = first.followed_by(second.shifted(before))
        batch = torch.broadcast_shapes(*shapes)
        assert joined.batch_shape == batch
        joined.check_indices(before + NUM_POINTS)
        for name, element in itertools.product(
            vars(joined), itertools.product(*map(range, batch))
        ):
            if isinstance(getattr(joined, name), torch.Tensor):
                mine = said(first, name, element, batch, 0)
                theirs = said(second, name, element, batch, before)
                assert said(joined, name, element, batch, 0) == mine + theirs
            else:
                assert getattr(joined, name) == getattr(first, name)


def test_blocks_that_cannot_be_one_are_refused() -> None:
    single, double = torch.tensor([0]), torch.tensor([0, 1])
    levels = OrdinalRatings(single, single, 3)
    with pytest.raises(FeedbackError, match=r"num_levels is 3 .* and 4 .*scales"):
        levels.followed_by(OrdinalRatings(single, single, 4))
    with pytest.raises(FeedbackError, match=r"OrdinalRatings .* Validity.*feedback="):
        levels.followed_by(Validity(single, single.bool()))
    batch = OrdinalRatings(double.expand(2, 2), double.expand(2, 2), 3)
    batched = OrdinalRatings(double.expand(3, 2), double.expand(3, 2), 3)
    with pytest.raises(FeedbackError, match=r"\(2,\).*\(3,\).*does not broadcast"):
        batch.followed_by(batched)


def test_wins_stay_wins_and_ties_ties() -> None:
    """Whichever of them a block has, and the counts that one of them brings."""
    pairs, ties = torch.tensor([[0, 1], [2, 0]]), torch.tensor([[1, 2]])
    wins = Comparisons(pairs, pair_counts=torch.tensor([7, 2]))
    for first, second in itertools.permutations([wins, Comparisons(None, ties)]):
        joined = first.followed_by(second.shifted(3))
        moved = 3 * (first is not wins)
        assert joined.pairs.tolist() == (pairs + moved).tolist()
        assert joined.ties.tolist() == (ties + 3 - moved).tolist()
        assert joined.answer_counts.tolist() == [7, 2, 1]
    wins_and_ties = Comparisons(pairs, ties).followed_by(wins)
    assert wins_and_ties.answer_counts.tolist() == [1, 1, 7, 2, 1]


def test_covariates_stay_with_their_answers() -> None:
    """Of pairs, then of ties; answers without any have zeros, as padding has."""
    pairs, ties = torch.tensor([[0, 1], [2, 0]]), torch.tensor([[1, 2]])
    answers = Comparisons(
        pairs,
        ties,
        pair_counts=torch.tensor([1, 2]),
        covariates=torch.tensor([[1.0], [2.0], [3.0]]),
    )
    none = Comparisons(pairs[:1], ties)
    for first, second, wanted in (
        (answers, none, [1, 2, 0, 3, 0]),
        (none, answers, [0, 1, 2, 0, 3]),
        (answers, Comparisons(None, ties), [1, 2, 3, 0]),
        (Comparisons(pairs), answers, [0, 0, 1, 2, 3]),
    ):
        assert first.followed_by(second).covariates.flatten().tolist() == wanted
    assert answers.repeated(4).covariates.flatten().tolist() == [1, 2, 2, 3]
    selected = answers.take(torch.tensor([1]), torch.tensor([False]))
    assert selected.ties is None
    assert selected.covariates.flatten().tolist() == [2]
    unselected = answers.take(torch.tensor([False, False]), torch.tensor([0, 0]))
    assert unselected.covariates.flatten().tolist() == [3, 3]
    wide = Rankings(torch.tensor([[2, 0, 1]]), covariates=torch.ones(1, 3, 2))
    joined = Rankings(pairs).followed_by(wide)
    assert joined.covariates.sum(-1).tolist() == [[0, 0, 0], [0, 0, 0], [2, 2, 2]]
