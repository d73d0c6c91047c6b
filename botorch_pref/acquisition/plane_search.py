r"""Planes of designs to ask about, and the one whose best is expected to be the best.

A plane, a gallery, has ``k x k`` designs in rows: two numbers of a design move, one
from row to row and one along the rows, each in equal steps. Categories and all other
numbers stay as they are.
"""

from __future__ import annotations

from math import isqrt

import torch
from botorch.models.model import Model
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.option_search import in_portions
from botorch_pref.acquisition.rules import DuelingJointEUBO
from botorch_pref.errors import FeedbackError

_STEPS = (1.0, 1 / 3, 1 / 9)
"""Steps of planes, in those by which a plane has just room: the first is nearly as wide
as the space, the last a ninth of it."""

_ROUNDING = 1e-6
"""The share of a range by which a design may be beyond it, as by rounding."""


def side_of(size: int) -> int:
    """Finds the number of rows of a plane, which is that of designs in a row.

    Raises:
        FeedbackError: The number of designs is no square of 3, 5, 7, ...: only then a
            design is in the middle.
    """
    side = isqrt(size)
    if side < 3 or side % 2 == 0 or side * side != size:
        raise FeedbackError(
            f"size is {size}; a plane has 9 designs, three by three, or 25, five by "
            "five, with one in the middle."
        )
    return side


def planes_through(
    space: DesignSpace, centre: Tensor, side: int, smallest: Tensor
) -> Tensor:
    r"""Lists planes of designs through one: of all pairs of numbers, in several steps.

    With the coordinates :math:`z` of the centre, the plane of the numbers :math:`i` and
    :math:`j` has the designs

    .. math:: z + s \, (a - a_0) \, e_i + s \, (b - b_0) \, e_j,
        \quad a, b \in \{0, \dots, k - 1\},

    with a step :math:`s` in shares of ranges; a number of listed values moves by whole
    places. The place :math:`(a_0, b_0)` of the centre is in the middle, or as near to
    it as bounds and constraints allow.

    Args:
        space: Of the designs.
        centre: ``1 x d``, one of them.
        side: The number :math:`k` of rows.
        smallest: ``d``, the smallest difference that somebody could tell in each
            column. Planes of smaller steps are left out.

    Returns:
        ``p x k^2 x d``, row by row; there may be none.
    """
    pairs, extents = _moving_pairs(space)
    coordinates = space.coordinates(centre)
    # 1 along a number is all of its range.
    axes = one_hot(pairs, coordinates.shape[-1]).to(coordinates) * extents
    steps = coordinates.new_tensor(_STEPS) / side
    directions = (steps.view(-1, 1, 1, 1) * axes).flatten(0, 1)
    # Places in lists of values are whole.
    directions[..., len(space.columns) :].round_()
    places = torch.arange(side, device=coordinates.device)
    cells = torch.cartesian_prod(places, places)
    planes = centre.repeat(len(directions), len(cells), 1)
    is_there = torch.zeros(len(directions), dtype=torch.bool, device=coordinates.device)
    # The centre takes the first place of the plane, from the middle outwards, with
    # which the plane fits.
    order = (cells - side // 2).square().sum(-1).argsort(stable=True)
    for middle in order.tolist():
        moves = (cells - cells[middle]).to(coordinates) @ directions
        designs, allowed = _designs_at(space, coordinates + moves, extents)
        # To the last digit: `best_plane` finds it by equality.
        designs[:, middle] = centre
        fits = allowed & _all_differ(designs, smallest) & ~is_there
        planes[fits] = designs[fits]
        is_there |= fits
    return planes[is_there]


def best_plane(
    model: Model,
    planes: Tensor,
    centre: Tensor,
    waiting: Tensor,
    smallest: Tensor,
    generator: Generator | None = None,
) -> Tensor:
    r"""Finds the plane whose best design is expected to be the best, ``k^2 x d``.

    .. math:: \alpha(x_1, \dots, x_{k^2}) = E[\max_j f(x_j)] - E[f(x_r)],

    with the centre :math:`x_r`, which is one of them: `DuelingJointEUBO` of the others.

    Args:
        model: Any BoTorch model with one output whose posterior BoTorch draws from.
        planes: ``p x k^2 x d``, of `planes_through`.
        centre: ``1 x d``.
        waiting: ``q x k^2 x d``, questions without answers, which are not asked again
            while there is another plane.
        smallest: ``d``, see `planes_through`: planes that differ by less are the same.
        generator: Source of the draws, on the CPU; torch's default one if None.

    Raises:
        FeedbackError: There is no plane.
    """
    if not len(planes):
        raise FeedbackError(
            "No plane through the recommended design has room: two numbers have to "
            "move, in steps that somebody can tell, within the constraints. Ask for "
            "options."
        )
    # The centre is in each plane once, and is the reference.
    squares = planes[(planes != centre).any(-1)].view(len(planes), -1, centre.shape[-1])
    values = in_portions(DuelingJointEUBO(model, centre, generator), squares)
    gaps = ((planes.unsqueeze(1) - waiting) / smallest).abs()
    is_open = (gaps < 1).flatten(-2).all(-1).any(-1)
    # Where all planes wait for an answer, the best of them is asked again.
    values = torch.where(is_open & ~is_open.all(), -torch.inf, values)
    return planes[values.argmax()]


def _moving_pairs(space: DesignSpace) -> tuple[Tensor, Tensor]:
    """Lists pairs of coordinates that a plane may move, ``p x 2``, and ranges, ``c``.

    Numbers move, categories do not. A share has the range 1, a place in a list of ``v``
    values ``v - 1``; ranges are those of all coordinates.
    """
    k = len(space.columns)
    ranges = [1.0] * k + [len(listed.values) - 1.0 for listed in space.listed]
    numbers = [
        *range(k),
        *(k + i for i, entry in enumerate(space.listed) if len(entry.columns) == 1),
    ]
    pairs = torch.combinations(torch.tensor(numbers, dtype=torch.long), 2)
    return pairs.to(space.base.device), space.base.new_tensor(ranges)


def _designs_at(
    space: DesignSpace, Z: Tensor, extents: Tensor
) -> tuple[Tensor, Tensor]:
    """Makes the designs of planes, and tells which planes are in the space.

    Args:
        space: The designs that there are.
        Z: ``p x k^2 x c``, the planes by coordinates.
        extents: ``c``, the range of each coordinate, from 0.

    Returns:
        ``p x k^2 x d`` designs, moved to the edge where they are beyond it, and ``p``
        booleans: whether the space has all designs of a plane, but for rounding.
    """
    nearest = Z.clamp_min(0.0).minimum(extents)
    within = ((Z - nearest).abs() <= _ROUNDING * extents).flatten(1).all(-1)
    designs = space.features(nearest)
    return designs, within & space.allows(designs).all(-1)


def _all_differ(designs: Tensor, smallest: Tensor) -> Tensor:
    """Tells of which planes, ``p x k^2 x d``, all designs can be told apart, ``p``.

    Their Euclidean distance is at least 1 in units of ``smallest``, ``d``.
    """
    places = designs / smallest
    # The form with a matrix product loses the digits of small distances.
    gaps = torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")
    itself = torch.eye(designs.shape[-2], dtype=torch.bool, device=designs.device)
    return gaps.masked_fill(itself, torch.inf).flatten(1).amin(-1) >= 1 - _ROUNDING
