"""Options of every kind of question are designs: within bounds to the last digit."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref import FeedbackError, LineQuestion, next_question
from botorch_pref.acquisition.line_search import lines_through
from botorch_pref.acquisition.option_search import Climb, climbed_options
from botorch_pref.acquisition.plane_search import planes_through
from botorch_pref.acquisition.space_arguments import space_of

DOUBLE = torch.float64
EPS = torch.finfo(DOUBLE).eps


@dataclass(frozen=True)
class Space:
    """Arguments of a question: two or three numbers, a category of three at the end.

    The first number may have some values only, the second may be fixed.
    """

    bounds: Tensor
    arguments: dict[str, Any]

    def check(self, X: Tensor) -> None:
        """Checks designs in plain arithmetic, without the library's tolerance."""
        dim = self.bounds.shape[-1]
        fixed = self.arguments["fixed_features"]
        steps = self.arguments["discrete_dims"]
        columns = enumerate(zip(*self.bounds.tolist(), strict=True))
        for column, (low, high) in columns:
            allowed = {fixed[column]} if column in fixed else {*steps.get(column, ())}
            for x in X[..., column].flatten().tolist():
                assert x in allowed if allowed else low <= x <= high, (
                    f"{x!r} of column {column} is none of {allowed or (low, high)}"
                )
        category = X[..., dim - 3 :]
        assert bool(((category == 0) | (category == 1)).all())
        assert bool((category.sum(-1) == 1).all())
        reach = self.bounds.abs().amax(0)
        for columns, weights, needed in self.arguments["inequality_constraints"]:
            # Each product and each sum may be rounded, on the way there and back.
            size = float(weights.abs() @ reach[columns]) + abs(needed)
            room = Fraction(64 * EPS * size)
            if steps:
                # Values that a user lists in few digits may miss by a millionth.
                room += Fraction(2e-6 * (1 + float((weights != 0).sum()) * 3))
            for design in X.flatten(0, -2)[:, columns].tolist():
                terms = zip(weights.tolist(), design, strict=True)
                total = sum(Fraction(w) * Fraction(x) for w, x in terms)
                assert total >= Fraction(needed) - room, (
                    f"{design} misses {weights.tolist()} x >= {needed} by "
                    f"{float((Fraction(needed) - total) / room):.2g} of the room"
                )


@st.composite
def spaces(draw: Any) -> Space:
    """Draws spaces around a design, of which constraints leave much, little or none."""
    number = draw(st.integers(2, 3))
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    scale = torch.tensor([pick(1e-9, 1.0, 1e9) for _ in range(number)], dtype=DOUBLE)
    start = [pick(0.0, -0.49, 0.1) for _ in range(number)]
    low = torch.tensor(start, dtype=DOUBLE) * scale
    width = torch.tensor([pick(0.8, 1.0, 2.7) for _ in range(number)], dtype=DOUBLE)
    high = low + width * scale
    steps, fixed = {}, {}
    if draw(st.booleans()):
        steps[0] = torch.lerp(low[0], high[0], torch.linspace(0, 1, 5).double())
        steps[0] = steps[0].tolist()
    if number == 3 and draw(st.booleans()):
        # It may be beyond the bounds.
        fixed[1] = float(torch.lerp(low[1], high[1], pick(0.0, 0.3, 1.3)))
    shares = [draw(st.floats(0, 1)) for _ in range(number)]
    design = torch.lerp(low, high, torch.tensor(shares, dtype=DOUBLE))
    for column, value in {**{c: v[2] for c, v in steps.items()}, **fixed}.items():
        design[column] = value
    weights = [pick(-1.0, 0.0, 0.5, 3.0) for _ in range(number)]
    weights = torch.tensor(weights, dtype=DOUBLE) / (high - low)
    columns, total = torch.arange(number), float(weights @ design)
    above = (columns, weights, total)
    constraints = {
        "none": [],
        "half": [above],
        "thin": [above, (columns, -weights, -total - 0.003)],
        "equal": [above, (columns, -weights, -total)],
    }[pick("none", "half", "thin", "equal")]
    category = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=DOUBLE)
    arguments = {
        "inequality_constraints": constraints,
        "discrete_dims": steps,
        "fixed_features": fixed,
        "categorical": [(number, number + 1, number + 2)],
    }
    return Space(torch.cat([torch.stack([low, high]), category], -1), arguments)


class Slope(AcquisitionFunction):
    """The sum of shares of ranges of the options, which leads into corners."""

    def __init__(self, space: Space, sign: float) -> None:
        super().__init__(model=torch.nn.Module())
        self.weights = sign / (space.bounds[1] - space.bounds[0])
        # The categories are worth differently much.
        self.weights[-3:] *= torch.tensor([0.1, 0.2, 0.3])

    def forward(self, X: Tensor) -> Tensor:
        return (X * self.weights).sum((-1, -2))


@settings(max_examples=20, deadline=None)
@given(space=spaces(), sign=st.sampled_from([1.0, -1.0]), seed=st.integers(0, 9))
def test_options_are_designs(space: Space, sign: float, seed: int) -> None:
    bounds, arguments = space.bounds, space.arguments
    try:
        spread = next_question(None, bounds, 3, seed=seed, **arguments).options
    except FeedbackError:
        # Constraints leave one design of numbers, or steps that none satisfies.
        return
    space.check(spread)
    designs = space_of(
        bounds,
        arguments["inequality_constraints"],
        None,
        arguments["discrete_dims"],
        arguments["categorical"],
        arguments["fixed_features"],
    )
    climb = Climb(num_restarts=2, raw_samples=16)
    slope = Slope(space, sign)
    ends = climbed_options(slope, designs, 2, spread, seed=seed, climb=climb)
    space.check(ends)
    smallest = 0.01 * designs.widths
    for centre in (spread[:1], ends[:1]):
        space.check(planes_through(designs, centre, 3, smallest))
        try:
            lines = lines_through(designs, centre, smallest)
        except FeedbackError:
            continue
        space.check(lines)
        assert bool(((lines[:, 0] != lines[:, 1]).sum(-1) == 1).all())
    try:
        line = next_question(None, bounds, kind="line", seed=seed, **arguments)
    except FeedbackError:
        return
    assert isinstance(line, LineQuestion)
    space.check(line.at(torch.linspace(0, 1, 41, dtype=DOUBLE)))
