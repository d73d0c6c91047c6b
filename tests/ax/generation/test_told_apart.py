"""Options that can be told apart, beside loops over all of them."""

from itertools import combinations

import pytest
import torch

from botorch_pref.ax.generation.search import ToldApart


def squared(x, y, widths) -> float:
    return sum(
        ((a - b) / w) ** 2
        for a, b, w in zip(x.tolist(), y.tolist(), widths.tolist(), strict=True)
    )


def alike(question, other, widths) -> float:
    """The smallest level at which each option of either has one of the other."""
    there = max(min(squared(x, y, widths) for y in other) for x in question)
    back = max(min(squared(x, y, widths) for x in question) for y in other)
    return max(there, back)


@pytest.fixture
def drawn():
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.double)

    return draw


@pytest.mark.parametrize("with_reference", [False, True])
def test_gaps_and_repeats_are_those_of_loops(drawn, with_reference) -> None:
    widths = 0.2 + drawn(2)
    asked, pending = drawn(6, 3, 2), drawn(2, 3, 2)
    reference = drawn(1, 2) if with_reference else None
    others = drawn(2, 2)
    apart = ToldApart(widths, asked, pending, reference, others, asked[:2])
    options = drawn(7, 2 if with_reference else 3, 2)
    gaps, novelty = apart.smallest_gap(options), apart.novelty(options)
    from_ties = apart.difference_from_ties(options)
    times, waits = apart.times_asked(options), apart.is_pending(options)
    for i, chosen in enumerate(options):
        whole = [*chosen, *(reference if with_reference else [])]
        pairs = [
            *combinations(chosen, 2),
            *((x, y) for x in chosen for y in [*whole[len(chosen) :], *others]),
        ]
        assert gaps[i] == pytest.approx(min(squared(x, y, widths) for x, y in pairs))
        levels = [alike(whole, other, widths) for other in asked]
        assert novelty[i] == pytest.approx(min(levels))
        assert from_ties[i] == pytest.approx(min(levels[:2]))
        assert times[i] == sum(level < 1 for level in levels)
        assert waits[i] == any(alike(whole, other, widths) < 1 for other in pending)


def test_a_question_is_the_same_in_any_order_and_not_one_of_its_options(drawn) -> None:
    asked = drawn(1, 2, 3)
    apart = ToldApart(torch.full((3,), 0.01), asked, asked[:0])
    assert apart.times_asked(asked.flip(-2)) == 1
    assert apart.times_asked(asked[:, [0, 0]]) == 0
    assert not apart.is_pending(asked)
    assert apart.novelty(asked) == 0


def test_nothing_was_asked(drawn) -> None:
    none = torch.zeros(0, 2, 3, dtype=torch.double)
    apart = ToldApart(torch.ones(3), none, none)
    assert apart.novelty(drawn(4, 2, 3)).isinf().all()
    assert apart.difference_from_ties(drawn(4, 2, 3)).isinf().all()
    assert apart.times_asked(drawn(4, 2, 3)).eq(0).all()
