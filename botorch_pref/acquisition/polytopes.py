"""Thin and flat polytopes: coordinates in which they are wide, and points of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from botorch.utils.sampling import draw_sobol_samples, sample_polytope
from scipy.optimize import linprog
from torch import Tensor

from botorch_pref.errors import FeedbackError

_FLAT, ROOMY = 1e-6, 0.01
"""Width, as a share of the unit cube's, below which a polytope has none; and share of
the box, from which on trying finds points that satisfy constraints."""

_WALK = 100
"""Steps between two points, and before the first."""


@dataclass(frozen=True)
class Frame:
    r"""Coordinates :math:`w` in which a polytope is about as wide in each direction.

    A point is :math:`x = c + T w` with the centre :math:`c` (``d``) in the relative
    interior and the axes :math:`T` (``d x k``), orthogonal, each as long as the
    polytope is wide there, and fewer where inequalities leave no width. The
    ``inequalities`` are those of :math:`w`, at most (``m x k`` and ``m``), and the
    ``vertices`` some of the polytope's (``V x d``).
    """

    centre: Tensor
    axes: Tensor
    inequalities: tuple[Tensor, Tensor]
    vertices: Tensor

    def to(self, device: torch.device) -> Frame:
        """Copies the frame, which is made on the processor, to a device."""
        slopes, slack = (part.to(device) for part in self.inequalities)
        centre, axes, vertices = (
            part.to(device) for part in (self.centre, self.axes, self.vertices)
        )
        return Frame(centre, axes, (slopes, slack), vertices)

    @property
    def bounds(self) -> Tensor:
        """``2 x k``: along each axis the polytope is 1 wide, with the centre in it."""
        return torch.tensor([[-1.0], [1.0]]).double().expand(2, self.axes.shape[-1])

    @classmethod
    def from_constraints(cls, A: Tensor, b: Tensor, bounds: Tensor) -> Frame:
        r"""Makes the frame of :math:`A x \le b` in bounds ``2 x d`` of about 0 and 1.

        The vertices that lie farthest along the coordinates give directions, as their
        principal axes; the vertices that lie farthest along these give widths. The mean
        of all is in the relative interior: only what always holds with equality does so
        there. ``A`` is ``m x d``, on the processor and in double precision.
        """
        unit = torch.eye(bounds.shape[-1]).to(A)
        first = _vertices(unit, A, b, bounds)
        _, _, directions = torch.linalg.svd(first - first.mean(0))
        second = _vertices(directions, A, b, bounds)
        farthest, back = (second @ directions.T).reshape(2, len(directions), -1)
        width = farthest.diagonal() - back.diagonal()
        vertices = torch.cat([first, second])
        centre = vertices.mean(0)
        wide = width > _FLAT
        axes = (directions[wide] * width[wide, None]).T
        rows = torch.cat([A, unit, -unit])
        slopes = rows @ axes
        # Those that always hold with equality do not change along any axis.
        binding = slopes.norm(dim=-1) > _FLAT * rows.norm(dim=-1)
        slack = torch.cat([b, bounds[1], -bounds[0]]) - rows @ centre
        inequalities = slopes[binding], slack[binding].clamp_min(0)
        # The same vertex is found several times, each to rounding.
        _, first_of_each = np.unique(
            vertices.round(decimals=9), axis=0, return_index=True
        )
        return cls(centre, axes, inequalities, vertices[first_of_each])

    @classmethod
    def from_thin(cls, A: Tensor, b: Tensor, bounds: Tensor) -> Frame | None:
        """Makes a polytope's frame; None if it fills 1 % of the bounds or more."""
        points = draw_sobol_samples(bounds, 1024, 1, seed=0).squeeze(-2)
        share = (points @ A.T <= b).all(-1).double().mean()
        return None if share >= ROOMY else cls.from_constraints(A, b, bounds)

    def points(self, w: Tensor) -> Tensor:
        """Makes points, ``... x d``, of their coordinates, ``... x k``."""
        return self.centre + w @ self.axes.mT

    def coordinates(self, points: Tensor) -> Tensor:
        """Finds coordinates, ``... x k``, of points, or of the nearest in the frame."""
        return (points - self.centre) @ (self.axes / self.axes.square().sum(0))

    def mixtures(self, n: int) -> Tensor:
        """Mixes vertices, ``n x d``: points all over the polytope, by one product.

        They are uniform where the polytope is a simplex. With more vertices, each has a
        smaller ``concentration``, which keeps mixtures from gathering in the middle.
        Weights are drawn from the global generator, which callers seed.
        """
        concentration = (self.axes.shape[-1] + 1) / len(self.vertices)
        even = self.vertices.new_full(self.vertices.shape[:1], concentration)
        return torch.distributions.Dirichlet(even).sample((n,)) @ self.vertices

    def spread(self, n: int, seed: int) -> Tensor:
        """Draws uniform points of the polytope, ``n x d``, by BoTorch's random walk.

        Questions spread over a space need them uniform; `mixtures` are not, and cost
        less.
        """
        num_axes = self.axes.shape[-1]
        if num_axes == 0:
            return self.centre.expand(n, -1)
        slopes, slack = self.inequalities
        start = self.centre.new_zeros(num_axes, 1)
        walk = sample_polytope(
            slopes, slack[:, None], start, n, _WALK, _WALK, seed=seed
        )
        return self.points(walk)


def _vertices(directions: Tensor, A: Tensor, b: Tensor, bounds: Tensor) -> Tensor:
    """Finds the points of a polytope farthest along directions, then against them.

    Of ``k`` directions, ``k x d``, these are ``2k x d`` vertices in that order, which
    `Frame.from_constraints` relies on.

    Raises:
        FeedbackError: The polytope is empty.
    """
    vertices = []
    limits = {"A_ub": A.numpy(), "b_ub": b.numpy(), "bounds": bounds.T.numpy()}
    for direction in (*directions, *-directions):
        solved = linprog(-direction.numpy(), method="highs", **limits)
        if solved.x is None:
            raise FeedbackError(f"The constraints cannot be: {solved.message}")
        vertices.append(torch.from_numpy(solved.x))
    return torch.stack(vertices)
