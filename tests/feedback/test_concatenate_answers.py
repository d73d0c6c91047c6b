"""Blocks of answers in one block, against lists of answers in plain Python."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from registry import RANDOM

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)

NUM_POINTS = 5
LEVELS = 3


def sets(draw: Any, shape: tuple[int, ...], size: int) -> torch.Tensor:
    """Different items in each row, the last ones left out in some."""
    rows = []
    for _ in range(torch.Size(shape).numel()):
        items = draw(st.permutations(range(NUM_POINTS)))[:size]
        there = draw(st.integers(2, size))
        rows.append(items[:there] + [-1] * (size - there))
    return torch.tensor(rows).reshape(*shape, size)


def numbers(draw: Any, shape: tuple[int, ...], low: int, high: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    values = draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
    return torch.tensor(values).reshape(shape)


def comparisons(draw: Any, shape: tuple[int, ...]) -> Comparisons:
    which = draw(st.sampled_from(["pairs", "ties", "both"]))
    pairs = None if which == "ties" else sets(draw, shape, 2)
    ties = None if which == "pairs" else sets(draw, (*shape[:-1], 2), 2)
    return Comparisons(pairs, ties)


def choices(draw: Any, shape: tuple[int, ...]) -> Choices:
    members = sets(draw, shape, draw(st.integers(2, 4)))
    return Choices(members, members[..., draw(st.integers(0, 1))])


BLOCKS = {
    Comparisons: comparisons,
    Choices: choices,
    Rankings: lambda draw, shape: Rankings(sets(draw, shape, draw(st.integers(2, 4)))),
    Strengths: lambda draw, shape: Strengths(
        sets(draw, shape, 2), numbers(draw, shape, 1, 99) / 100
    ),
    Ratings: lambda draw, shape: Ratings(
        numbers(draw, shape, 0, 4), numbers(draw, shape, 1, 99) / 100
    ),
    Validity: lambda draw, shape: Validity(
        numbers(draw, shape, 0, 4), numbers(draw, shape, 0, 1).bool()
    ),
    OrdinalRatings: lambda draw, shape: OrdinalRatings(
        numbers(draw, shape, 0, 4), numbers(draw, shape, 0, 2), LEVELS
    ),
}


def test_every_container_is_drawn_here() -> None:
    assert BLOCKS.keys() == set(RANDOM)


def said(block: Feedback, element: tuple[int, ...], batch: torch.Size) -> list[Any]:
    """What an element of a batch says, an entry an answer: items, then the answer."""

    def of(value: torch.Tensor, wide: bool) -> list[Any]:
        shape = value.shape[-2 if wide else -1 :]
        return value.expand(*batch, *shape)[element].tolist()

    def items(rows: torch.Tensor) -> list[Any]:
        return [[i for i in row if i >= 0] for row in of(rows, True)]

    match block:
        case Comparisons(pairs, ties):
            wins = [] if pairs is None else [("win", i) for i in items(pairs)]
            return wins + ([] if ties is None else [("tie", i) for i in items(ties)])
        case Choices(rows, chosen):
            return list(zip(items(rows), of(chosen, False), strict=True))
        case Rankings(orders):
            return items(orders)
        case Strengths(pairs, strengths):
            return list(zip(items(pairs), of(strengths, False), strict=True))
        case Ratings(indices, answers) | Validity(indices, answers):
            return list(zip(of(indices, False), of(answers, False), strict=True))
        case OrdinalRatings(indices, levels, _):
            return list(zip(of(indices, False), of(levels, False), strict=True))
    raise AssertionError(type(block))


def later(answer: Any, by: int) -> Any:
    """An answer about points that come ``by`` places later."""
    match answer:
        case list():
            return [i + by for i in answer]
        case ("win" | "tie" as kind, rows):
            return kind, [i + by for i in rows]
        case (list() as rows, int(chosen)):
            return [i + by for i in rows], chosen + by
        case (list() as rows, strength):
            return [i + by for i in rows], strength
        case (int(index), value):
            return index + by, value
    raise AssertionError(answer)


@pytest.mark.parametrize("kind", BLOCKS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_block_says_what_both_said(kind: type[Feedback], data: Any) -> None:
    shapes = [((), ()), ((2,), ()), ((), (3,)), ((2, 1), (3,)), ((2,), (1,))]
    one, two = data.draw(st.sampled_from(shapes))
    rows = st.integers(1, 3)
    first = BLOCKS[kind](data.draw, (*one, data.draw(rows)))
    second = BLOCKS[kind](data.draw, (*two, data.draw(rows)))
    before = NUM_POINTS + data.draw(st.integers(0, 2))
    joined = first.followed_by(second.shifted(before))
    batch = torch.broadcast_shapes(one, two)
    assert joined.batch_shape == batch
    joined.check_indices(before + NUM_POINTS)
    for element in itertools.product(*map(range, batch)):
        mine = said(first, element, batch)
        theirs = [later(answer, before) for answer in said(second, element, batch)]
        both = said(joined, element, batch)
        # Wins stay before ties.
        assert sorted(both, key=str) == sorted(mine + theirs, key=str)
        if kind is not Comparisons:
            assert both == mine + theirs


def test_blocks_that_cannot_be_one_are_refused() -> None:
    one, two = torch.tensor([0]), torch.tensor([0, 1])
    levels = OrdinalRatings(one, one, 3)
    with pytest.raises(FeedbackError, match=r"num_levels is 3 .* and 4 .*scales"):
        levels.followed_by(OrdinalRatings(one, one, 4))
    with pytest.raises(FeedbackError, match=r"OrdinalRatings .* Validity.*feedback="):
        levels.followed_by(Validity(one, one.bool()))
    batch = OrdinalRatings(two.expand(2, 2), two.expand(2, 2), 3)
    other = OrdinalRatings(two.expand(3, 2), two.expand(3, 2), 3)
    with pytest.raises(FeedbackError, match=r"\(2,\).*\(3,\).*does not broadcast"):
        batch.followed_by(other)


def test_padding_stays_where_points_come_before() -> None:
    moved = Rankings(torch.tensor([[2, 0, 1], [1, 3, -1]])).shifted(4)
    assert moved.orders.tolist() == [[6, 4, 5], [5, 7, -1]]
