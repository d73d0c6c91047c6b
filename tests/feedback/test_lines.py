"""Stops on lines: what cannot be, and the datapoints that a model adds."""

import re

import pytest
import torch

from botorch_pref import EPPreferenceGP, FeedbackError, LineChoices
from botorch_pref.feedback import line_positions

X = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]], dtype=torch.float64)
LINES = torch.tensor([[0, 1], [1, 2]])
STOPS = torch.tensor([0.4, 1.0], dtype=torch.float64)


def test_the_stop_is_compared_on_either_side() -> None:
    stop, *others, first, last = line_positions(STOPS)[0].tolist()
    assert others == pytest.approx([0.3, 0.1, 0.5, 0.7])
    assert stop == 0.4
    assert first == 0.0
    assert last == 1.0
    # What would lie beyond an end is moved there.
    near_ends = line_positions(torch.tensor([0.05, 0.8], dtype=torch.float64))
    expected = [[0.05, 0, 0, 0.15, 0.35, 0, 1], [0.8, 0.7, 0.5, 0.9, 1, 0, 1]]
    torch.testing.assert_close(near_ends, near_ends.new_tensor(expected))


def test_a_model_has_a_datapoint_at_each_position() -> None:
    answers = LineChoices(LINES, STOPS)
    model = EPPreferenceGP(X, feedback=[answers])
    (placed,) = model.feedback
    torch.testing.assert_close(model.datapoints[: len(X)], X)
    for line, stop, points in zip(LINES, STOPS, placed.points, strict=True):
        for place, position in zip(points, line_positions(stop), strict=True):
            chosen_point = torch.lerp(*X[line], position)
            if place >= 0:
                torch.testing.assert_close(model.datapoints[place], chosen_point)
    # Beyond the stop at the end of the second line there is nothing.
    assert (placed.points[0] >= 0).tolist() == [True] * 7
    assert (placed.points[1] >= 0).tolist() == [True] * 3 + [False] * 2 + [True, False]


def test_no_position_is_compared_twice() -> None:
    """One that lies beyond an end is not the end."""
    for stop in torch.linspace(0, 1, 101, dtype=torch.float64):
        datapoints, placed = LineChoices(LINES[:1], stop.view(1)).placed(X)
        compared = datapoints[placed.points[placed.points >= 0]]
        assert float(torch.pdist(compared).min()) > 0.0199


def test_points_are_added_once() -> None:
    datapoints, answers = LineChoices(LINES, STOPS).placed(X)
    again, same_points = answers.placed(datapoints)
    assert again is datapoints
    assert same_points is answers


def test_a_batch_of_lines_is_its_elements() -> None:
    stops = torch.stack([STOPS, 1 - STOPS])
    points = torch.stack([X, X.square() + 0.1])
    lines = LINES.expand(2, 2, 2)
    datapoints, answers = LineChoices(lines, stops).placed(points)
    for element in range(2):
        alone, element_answers = LineChoices(LINES, stops[element]).placed(
            points[element]
        )
        assert answers.points[element].tolist() == element_answers.points.tolist()
        torch.testing.assert_close(datapoints[element], alone)


def test_an_answer_that_was_given_three_times_is_three_answers() -> None:
    counts = torch.tensor([3, 1])
    counted = LineChoices(LINES, STOPS, counts=counts)
    rows = torch.tensor([0, 0, 0, 1])
    repeated = LineChoices(LINES[rows], STOPS[rows])
    means = [
        EPPreferenceGP(X, feedback=[answers]).eval().posterior(X).mean
        for answers in (counted, repeated)
    ]
    torch.testing.assert_close(*means, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chosen": torch.tensor([0.4, 1.2])}, "chosen[1] is 1.2"),
        ({"chosen": torch.tensor([torch.nan, 0.2])}, "chosen[0] is nan"),
        ({"chosen": torch.tensor([0, 1])}, "floating point tensor of positions"),
        ({"chosen": torch.tensor([0.4])}, "one answer a row"),
        ({"lines": torch.tensor([[0, 0], [1, 2]])}, "point 0 with itself"),
        ({"lines": torch.tensor([[0, -1], [1, 2]])}, "lines[0, 1] is -1"),
        ({"points": torch.tensor([[0, 1], [1, 2]])}, "m x 7"),
        ({"points": torch.full((2, 7), -1)}, "points[0, 0] is padding"),
    ],
)
def test_what_is_no_stop_is_refused(fields: dict, message: str) -> None:
    with pytest.raises(FeedbackError, match=re.escape(message)):
        LineChoices(**({"lines": LINES, "chosen": STOPS} | fields))


def test_lines_of_a_model_do_not_join_lines_that_none_has_placed() -> None:
    _, placed = LineChoices(LINES, STOPS).placed(X)
    further = LineChoices(LINES[:1], STOPS[:1])
    for first, second in ((placed, further), (further, placed)):
        with pytest.raises(FeedbackError, match="before a model places them"):
            first.followed_by(second)
