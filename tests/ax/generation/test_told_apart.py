"""Options that can be told apart, beside loops over all of them."""

from itertools import combinations

import pytest
import torch

from botorch_pref.ax.generation.search import Distinctness


def squared(x, y, widths) -> float:
    return sum(
        ((a - b) / w) ** 2
        for a, b, w in zip(x.tolist(), y.tolist(), widths.tolist(), strict=True)
    )


def alike(question, second_question, widths) -> float:
    """Finds the smallest level at which each option of either has one of the other."""
    distance = max(
        min(squared(x, y, widths) for y in second_question) for x in question
    )
    back = max(min(squared(x, y, widths) for x in question) for y in second_question)
    return max(distance, back)


@pytest.fixture
def drawn():
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.double)

    return draw


@pytest.mark.parametrize("with_reference", [False, True])
def test_gaps_and_repeats_are_those_of_loops(drawn, with_reference) -> None:
    widths = 0.2 + drawn(2)
    open_questions, pending = drawn(6, 3, 2), drawn(2, 3, 2)
    reference = drawn(1, 2) if with_reference else None
    rivals = drawn(2, 2)
    apart = Distinctness(
        widths, open_questions, pending, reference, rivals, open_questions[:2]
    )
    options = drawn(7, 2 if with_reference else 3, 2)
    gaps, novelty = apart.smallest_gap(options), apart.novelty(options)
    from_ties = apart.difference_from_ties(options)
    times, waits = apart.repetitions(options), apart.is_pending(options)
    for i, chosen in enumerate(options):
        joint = [*chosen, *(reference if with_reference else [])]
        pairs = [
            *combinations(chosen, 2),
            *((x, y) for x in chosen for y in [*joint[len(chosen) :], *rivals]),
        ]
        assert gaps[i] == pytest.approx(min(squared(x, y, widths) for x, y in pairs))
        levels = [
            alike(joint, open_question, widths) for open_question in open_questions
        ]
        assert novelty[i] == pytest.approx(min(levels))
        assert from_ties[i] == pytest.approx(min(levels[:2]))
        assert times[i] == sum(level < 1 for level in levels)
        assert waits[i] == any(
            alike(joint, open_question, widths) < 1 for open_question in pending
        )


def test_a_question_is_the_same_in_any_order_and_not_one_of_its_options(drawn) -> None:
    open_questions = drawn(1, 2, 3)
    apart = Distinctness(torch.full((3,), 0.01), open_questions, open_questions[:0])
    assert apart.repetitions(open_questions.flip(-2)) == 1
    assert apart.repetitions(open_questions[:, [0, 0]]) == 0
    assert not apart.is_pending(open_questions)
    assert apart.novelty(open_questions) == 0


def test_nothing_was_asked(drawn) -> None:
    none = torch.zeros(0, 2, 3, dtype=torch.double)
    apart = Distinctness(torch.ones(3), none, none)
    assert apart.novelty(drawn(4, 2, 3)).isinf().all()
    assert apart.difference_from_ties(drawn(4, 2, 3)).isinf().all()
    assert apart.repetitions(drawn(4, 2, 3)).eq(0).all()
