"""Polytopes that are thin or flat: their frames, and points spread over them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.utils.sampling import draw_sobol_samples, sample_polytope
from scipy.optimize import linprog
from torch import Tensor

from botorch_pref.errors import ExperimentError

_FLAT = 1e-6
"""Width, as a share of the unit cube's, below which a polytope has none."""

ROOMY = 0.01
"""Share of the box; of a larger part, trying finds points that satisfy constraints."""

_WALK = 100
"""Steps between two points, and before the first."""


@dataclass(frozen=True)
class Frame:
    r"""Coordinates :math:`w` in which a polytope is about as wide in each direction.

    A point is :math:`x = c + T w` with the centre :math:`c` (``d``) in the relative
    interior and the axes :math:`T` (``d x k``), orthogonal, each as long as the
    polytope is wide there, and fewer where inequalities leave no width. The
    ``inequalities`` are those of :math:`w`, at most (``m x k`` and ``m``).
    """

    centre: Tensor
    axes: Tensor
    inequalities: tuple[Tensor, Tensor]

    @property
    def bounds(self) -> Tensor:
        """``2 x k``: along each axis the polytope is 1 wide, with the centre in it."""
        return torch.tensor([[-1.0], [1.0]]).double().expand(2, self.axes.shape[-1])

    @classmethod
    def of(cls, A: Tensor, b: Tensor, bounds: Tensor) -> Frame:
        r"""The frame of :math:`A x \le b` within bounds ``2 x d`` of about 0 and 1.

        The vertices that lie farthest along the coordinates give directions, as their
        principal axes; the vertices that lie farthest along these give widths, and the
        mean of all is a point that no inequality holds back unless it always does.
        """
        unit = torch.eye(bounds.shape[-1]).to(A)
        first = _vertices(unit, A, b, bounds)
        _, _, directions = torch.linalg.svd(first - first.mean(0))
        second = _vertices(directions, A, b, bounds)
        there, back = (second @ directions.T).reshape(2, len(directions), -1)
        width = there.diagonal() - back.diagonal()
        centre = torch.cat([first, second]).mean(0)
        wide = width > _FLAT
        axes = (directions[wide] * width[wide, None]).T
        rows = torch.cat([A, unit, -unit])
        slopes = rows @ axes
        # Those that always hold with equality do not change along any axis.
        binding = slopes.norm(dim=-1) > _FLAT * rows.norm(dim=-1)
        slack = torch.cat([b, bounds[1], -bounds[0]]) - rows @ centre
        return cls(centre, axes, (slopes[binding], slack[binding].clamp_min(0)))

    @classmethod
    def of_thin(cls, A: Tensor, b: Tensor, bounds: Tensor) -> Frame | None:
        """The frame of a polytope, None where trying finds points: see `ROOMY`."""
        points = draw_sobol_samples(bounds, 1024, 1, seed=0).squeeze(-2)
        share = (points @ A.T <= b).all(-1).double().mean()
        return None if share >= ROOMY else cls.of(A, b, bounds)

    def points(self, w: Tensor) -> Tensor:
        """Points, ``... x d``, by their coordinates, ``... x k``."""
        return self.centre + w @ self.axes.mT

    def coordinates(self, points: Tensor) -> Tensor:
        """Coordinates, ``... x k``, of points, or of the nearest ones in the frame."""
        return (points - self.centre) @ (self.axes / self.axes.square().sum(0))

    def spread(self, n: int, seed: int) -> Tensor:
        """Uniform points of the polytope, ``n x d``, by BoTorch's random walk."""
        num_axes = self.axes.shape[-1]
        if num_axes == 0:
            return self.centre.expand(n, -1)
        slopes, slack = self.inequalities
        start = self.centre.new_zeros(num_axes, 1)
        walk = sample_polytope(
            slopes, slack.unsqueeze(-1), start, n, _WALK, _WALK, seed=seed
        )
        return self.points(walk)


def _vertices(directions: Tensor, A: Tensor, b: Tensor, bounds: Tensor) -> Tensor:
    """The points of a polytope farthest along directions, then against them."""
    found = []
    limits = {"A_ub": A.numpy(), "b_ub": b.numpy(), "bounds": bounds.T.numpy()}
    for direction in (*directions, *-directions):
        solved = linprog(-direction.numpy(), method="highs", **limits)
        if solved.x is None:
            raise ExperimentError(f"The constraints cannot be: {solved.message}")
        found.append(torch.from_numpy(solved.x))
    return torch.stack(found)
