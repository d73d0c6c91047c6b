"""Why a question is asked: each sentence is true of the question it stands by."""

from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    default_model,
    incumbent,
    next_question,
)

ROWS = torch.tensor(
    [[0.2, 0.3], [0.7, 0.8], [0.5, 0.1], [0.9, 0.4], [0.1, 0.9]], dtype=torch.float64
)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


@pytest.fixture(scope="module")
def model() -> EPPreferenceGP:
    """Knows three of five designs, of which the first is the best."""
    pairs = torch.tensor([[0, 1], [0, 2], [1, 2]] * 2)
    return default_model(ROWS[:3], Comparisons(pairs))


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("goal", ["best", "understand"])
@pytest.mark.parametrize("num_beside", [0, 1, 2, 3])
@pytest.mark.parametrize("first", [0, 1])
def test_why_options_are_chosen(
    model: EPPreferenceGP, size: int, goal: Any, num_beside: int, first: int
) -> None:
    """Of a catalogue with the best design so far, and of one without it."""
    if num_beside >= size:
        pytest.skip("beside has fewer options than the question")
    rows, beside = ROWS[first:], ROWS[1 : 1 + num_beside]
    question = next_question(
        model,
        CUBE,
        size,
        goal=goal,
        discrete=rows,
        beside=beside if num_beside else None,
    )
    options, reason = question.options, question.reason

    def has(design: Tensor) -> bool:
        return bool((options == design).all(-1).any())

    best = incumbent(model)
    assert torch.equal(best, ROWS[:1])
    says = {
        "Both options were chosen": size == 2 and not num_beside,
        "One option is the best design so far": size > 2 and not num_beside,
        "1 option was there already": num_beside == 1,
        f"{num_beside} options were there already": num_beside > 1,
        "the other one was chosen": num_beside == size - 1,
        "chosen together": size == 4 and goal == "best" and num_beside < 3,
    }
    for words, is_true in says.items():
        assert (words in reason) == is_true, f"{reason!r} says or misses {words!r}"
    assert all(map(has, beside))
    if "best design so far" in reason:
        # Where the incumbent is no row, it is the best of what was seen.
        assert has(best) if first == 0 else has(ROWS[1]) or has(ROWS[2])


def test_a_design_in_place_of_the_best_is_not_called_so(model: EPPreferenceGP) -> None:
    """None of the designs that have answers is one of those that there are."""
    question = next_question(model, CUBE, 3, discrete=torch.cat([ROWS[3:], CUBE]))
    assert "as the best design so far cannot be shown" in question.reason


def test_spread_options_join_what_is_there() -> None:
    alone, joined = (
        next_question(None, CUBE, 3, beside=beside).reason
        for beside in (None, ROWS[:2])
    )
    assert alone.endswith("before there are 5, options are spread over all designs.")
    assert joined.endswith("5, further options are spread over all designs.")


def test_lines_and_planes_name_the_design_they_run_through(
    model: EPPreferenceGP,
) -> None:
    for kind, size in (("line", 2), ("plane", 9)):
        ask: Any = {"kind": kind, "size": size}
        assert "recommended design" in next_question(model, CUBE, **ask).reason
        question = next_question(model, CUBE, **ask, best=ROWS[1:2])
        assert "of the best design so far" in question.reason or kind == "line"
        assert "recommended" not in question.reason
    first = next_question(model, CUBE, kind="line")
    assert "passed over" not in first.reason
    other = next_question(model, CUBE, kind="line", pending=first.options[None])
    assert "A number that was just moved alone is passed over." in other.reason
    both = torch.stack([first.options, other.options])
    again = next_question(model, CUBE, kind="line", pending=both)
    assert "passed over" not in again.reason


PAIRS = ROWS[torch.tensor([[0, 1], [2, 0], [1, 2]])]


def test_spread_rows_make_no_open_question() -> None:
    """The third pair of three designs, and none where all three are open."""
    for seed in range(5):
        options = next_question(
            None, CUBE, 2, discrete=ROWS[:3], pending=PAIRS[:2], seed=seed
        ).options
        assert {*map(tuple, options.tolist())} == {*map(tuple, PAIRS[2].tolist())}
    with pytest.raises(FeedbackError, match="pending has all questions"):
        next_question(None, CUBE, 2, discrete=ROWS[:3], pending=PAIRS)


def test_all_duels_that_have_answers_may_be_asked_again(model: EPPreferenceGP) -> None:
    """Of a catalogue in which rows stand more than once, too."""
    twice = ROWS[:3].repeat(2, 1)
    options = next_question(model, CUBE, 2, discrete=twice).options
    assert len({*map(tuple, options.tolist())} & {*map(tuple, ROWS.tolist())}) == 2
    with pytest.raises(FeedbackError, match=r"There are 2 designs besides .* needs 3"):
        next_question(model, CUBE, 4, discrete=twice)
    with pytest.raises(FeedbackError, match=r"There is 1 design besides .* needs 2"):
        next_question(model, CUBE, 2, discrete=ROWS[:1])
