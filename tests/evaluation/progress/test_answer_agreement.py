"""Checks agreement and connectivity against enumerations."""

import itertools
import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from botorch_pref import Choices, Comparisons, Ratings
from botorch_pref.evaluation.progress import answer_agreement, connected_components
from botorch_pref.feedback import Feedback

POINTS = torch.tensor([[0.0], [1.0], [2.0], [0.0]])


def test_nothing_repeated_says_nothing() -> None:
    result = answer_agreement(POINTS, Comparisons(torch.tensor([[0, 1], [1, 2]])))
    assert result.repeated == 0
    assert math.isnan(result.agreement)


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=12))
def test_it_is_the_share_of_equal_answers(raw: list[tuple[int, int, int]]) -> None:
    said = [(a, b, kind == 2) for a, b, kind in raw if a != b]
    wins = [(a, b) for a, b, tie in said if not tie]
    ties = [(a, b) for a, b, tie in said if tie]
    if not said:
        return
    comparisons = Comparisons(
        torch.tensor(wins) if wins else None, torch.tensor(ties) if ties else None
    )
    answers = [({a, b}, "tie" if tie else a) for a, b, tie in said]
    agree = [
        first[1] == second[1]
        for first, second in itertools.combinations(answers, 2)
        if first[0] == second[0]
    ]
    result = answer_agreement(POINTS, comparisons)
    if agree:
        assert result.agreement == sum(agree) / len(agree)
    else:
        assert math.isnan(result.agreement)


def test_equal_points_are_one() -> None:
    pairs = torch.tensor([[0, 1], [3, 1], [1, 0]])
    result = answer_agreement(POINTS, Comparisons(pairs))
    assert result == (1, 1 / 3)


@given(st.lists(st.tuples(*[st.integers(0, 7)] * 2), max_size=10))
def test_components_are_those_of_a_search(raw: list[tuple[int, int]]) -> None:
    edges = [edge for edge in raw if edge[0] != edge[1]]
    blocks: list[Feedback] = [Comparisons(torch.tensor(edges))] if edges else []
    reached = []
    for start in range(8):
        seen, todo = {start}, [start]
        while todo:
            here = todo.pop()
            near = {b if a == here else a for a, b in edges if here in (a, b)}
            todo.extend(near - seen)
            seen |= near
        reached.append(seen)
    label = connected_components(8, blocks)
    for i, j in itertools.product(range(8), repeat=2):
        assert (label[i] == label[j]) == (j in reached[i])


def test_sets_join_their_items_and_ratings_share_a_scale() -> None:
    sets = Choices(torch.tensor([[0, 1, 2], [3, 4, -1]]), torch.tensor([1, 4]))
    ratings = Ratings(torch.tensor([5, 7]), torch.tensor([0.2, 0.3]))
    label = connected_components(9, [sets, ratings])
    assert label.tolist() == [0, 0, 0, 1, 1, 2, 3, 2, 4]
