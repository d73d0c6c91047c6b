"""Stops of people on lines of designs: one answer about all that a line holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback.container import (
    PADDING,
    Feedback,
    check_index_tensor,
    first_place,
)

_OFFSETS = (0.1, 0.3)
"""Distances from the stop at which it is compared on either side, in lengths of the
line. Equally far: nearer on the side of the nearer end, the best would seem to lie on
the other."""

STEADINESS = 0.02
"""Precision of a hand, in lengths of the line: positions nearer to the stop are the
stop."""


@dataclass(frozen=True, eq=False)
class LineChoices(Feedback):
    r"""Positions on lines of designs where people stopped because none was better.

    Line ``i`` runs from ``X[lines[i, 0]]`` to ``X[lines[i, 1]]``. Who turns a knob, or
    moves a slider, sees the design

    .. math:: x(t) = (1 - t) \, a + t \, b, \quad 0 \le t \le 1,

    change with the position, and stops where it is best.

    A model compares the stop with up to six other positions, those of
    :func:`line_positions`, and has a datapoint at each: it adds them behind its
    datapoints, and :attr:`points` says where they are.

    Attributes:
        lines: ``batch_shape x m x 2`` integers, the two ends.
        chosen: ``batch_shape x m``, the position of the stop, from 0 to 1.
        counts: ``batch_shape x m`` integers, how often each answer was given; None for
            once.
        points: ``batch_shape x m x k`` integers, datapoints at the stop and at the
            other positions, -1 where there is none; None until a model adds them.

    Raises:
        FeedbackError: Wrong type or shape, a line whose ends are one point, a position
            that is not from 0 to 1, or a count that is not positive.
    """

    relative = True
    padded = True
    wide_fields = ("lines", "points")
    counted: ClassVar[Mapping[str | None, tuple[str, ...]]] = {
        "counts": ("lines", "chosen", "points")
    }

    lines: Tensor
    chosen: Tensor
    _: KW_ONLY
    counts: Tensor | None = None
    points: Tensor | None = None

    @property
    def index_fields(self) -> tuple[str, ...]:
        """See base class."""
        return ("lines",) if self.points is None else ("lines", "points")

    def _check(self) -> None:
        """Checks ends, positions and the datapoints at these."""
        self._check_pairs("lines")
        if place := first_place(self.lines < 0):
            raise FeedbackError(
                f"LineChoices.lines{place} is {int(self.lines[tuple(place)])}; a line "
                "has two ends, and indices go from 0."
            )
        _check_positions(self.chosen)
        self._check_one_a_row("chosen", "lines")
        if self.points is not None:
            check_index_tensor("LineChoices.points", self.points, width=_NUM_POSITIONS)
            if self.points.shape[-2] != self.lines.shape[-2]:
                raise FeedbackError(
                    f"LineChoices.points has {self.points.shape[-2]} rows, lines "
                    f"{self.lines.shape[-2]}; join lines before a model places them."
                )
            if place := first_place(self.points[..., 0] < 0):
                raise FeedbackError(
                    f"LineChoices.points{[*place, 0]} is padding; the first datapoint "
                    "of a row is the stop."
                )

    def placed(self, datapoints: Tensor) -> tuple[Tensor, Self]:
        """See base class: with datapoints at the stop and four positions of each line.

        Each line gets all five, so that the elements of a batch have as many. What is
        not compared is -1 in ``points``, whose last two are the ends of the line.
        """
        if self.points is not None or not self.num_rows:
            return datapoints, self
        positions = line_positions(self.chosen.to(datapoints))
        batch = torch.broadcast_shapes(self.batch_shape, datapoints.shape[:-2])
        datapoints = datapoints.expand(*batch, *datapoints.shape[-2:])
        lines = self.lines.to(datapoints.device)
        lines = lines.expand(*batch, *lines.shape[-2:])
        place = lines.flatten(-2).unsqueeze(-1)
        ends = datapoints.gather(
            -2, place.expand(*place.shape[:-1], datapoints.shape[-1])
        )
        start, end = ends.unflatten(-2, lines.shape[-2:]).unsqueeze(-2).unbind(-3)
        # The ends are there already.
        path = torch.lerp(start, end, positions[..., :-2].unsqueeze(-1))
        n = datapoints.shape[-2]
        numbers = torch.arange(n, n + path.shape[-3:-1].numel(), device=path.device)
        numbers = numbers.view(path.shape[-3:-1]).expand(path.shape[:-1])
        points = torch.cat([numbers, lines.to(numbers)], dim=-1)
        points = torch.where(_is_compared(positions), points, PADDING)
        datapoints = torch.cat([datapoints, path.flatten(-3, -2)], dim=-2)
        return datapoints, replace(self, points=points)


_NUM_POSITIONS = 3 + 2 * len(_OFFSETS)


def line_positions(chosen: Tensor) -> Tensor:
    """Places the stop on each line, and the positions with which a model compares it.

    Four are 0.1 and 0.3 of the line away from the stop on either side, where they tell
    the slope, and two are the ends, which tell the level. A model leaves out an end
    that is less than 0.02 of the line away from the stop, and any other position that
    would be beyond an end or is at most 0.02 away from one.

    Args:
        chosen: ``batch_shape x m``, from 0 to 1.

    Returns:
        ``batch_shape x m x 7``, the stop first, and the ends last.
    """
    steps = [0.0, *(sign * offset for sign in (-1, 1) for offset in _OFFSETS)]
    near = chosen.unsqueeze(-1) + chosen.new_tensor(steps)
    ends = chosen.new_tensor([0.0, 1.0]).expand(*chosen.shape, 2)
    return torch.cat([near.clamp(0.0, 1.0), ends], dim=-1)


def _is_compared(positions: Tensor) -> Tensor:
    """Tells which positions of `line_positions` a model compares; the stop is one."""
    is_far = (positions - positions[..., :1]).abs() >= STEADINESS
    is_within = (positions > STEADINESS) & (positions < 1 - STEADINESS)
    # The last two are the ends. `line_positions` moved positions beyond an end to it.
    is_within[..., -2:] = True
    is_compared = is_far & is_within
    is_compared[..., 0] = True
    return is_compared


def _check_positions(chosen: object) -> None:
    """Checks that positions are numbers from 0 to 1."""
    if not isinstance(chosen, Tensor) or not chosen.is_floating_point():
        kind = getattr(chosen, "dtype", type(chosen).__name__)
        raise FeedbackError(
            "LineChoices.chosen must be a floating point tensor of positions from 0, "
            f"the first end of a line, to 1, the second, got {kind}."
        )
    # Negated, so that NaN counts as outside.
    if place := first_place(~((chosen >= 0) & (chosen <= 1))):
        raise FeedbackError(
            f"LineChoices.chosen{place} is {float(chosen[tuple(place)])}; a position "
            "on a line is from 0, its first end, to 1, its second."
        )
