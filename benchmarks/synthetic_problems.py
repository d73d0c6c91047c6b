"""The synthetic comparisons that every benchmark uses, seeded.

``m`` distinct pairs of uniform points in the unit cube of dimension 6, an RBF kernel of
variance 1, and answers from one draw of the prior with independent noise of variance
``sigma^2`` on each presented item: low (0.01) or human (0.25).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

DIMENSION = 6
LENGTHSCALE = 0.7
NOISES = {"low": 0.01, "human": 0.25}
SIZES = (50, 100, 200)


@dataclass(frozen=True)
class ComparisonProblem:
    """Points, answers and the noise of the answers.

    Attributes:
        points: ``n x d``.
        pairs: ``m x 2`` indices of points, winner first.
        noise: ``sigma^2`` per presented item.
        lengthscale: Of the kernel.
    """

    points: Tensor
    pairs: Tensor
    noise: float
    lengthscale: float = LENGTHSCALE

    def kernel(self, first: Tensor, second: Tensor) -> Tensor:
        """The prior covariance of utilities at two sets of points."""
        scaled = first / self.lengthscale, second / self.lengthscale
        return torch.exp(-0.5 * torch.cdist(*scaled).square())

    def point_covariance(self) -> Tensor:
        """``K``, ``n x n``."""
        return self.kernel(self.points, self.points)

    def row_noise(self) -> Tensor:
        """``r``, the variance ``2 sigma^2`` of each difference, ``m``."""
        return self.points.new_full((len(self.pairs),), 2 * self.noise)

    def row_covariance(self) -> Tensor:
        """``Gamma = A K A' + R`` of ``v``, ``m x m``: the answers say ``v >= 0``."""
        covar = self.point_covariance()
        winner, loser = self.pairs.unbind(-1)
        rows = covar[winner] - covar[loser]
        rows = rows[:, winner] - rows[:, loser]
        return rows + torch.diag(self.row_noise())


def synthetic_comparisons(
    num_pairs: int, noise: float, seed: int, lengthscale: float = LENGTHSCALE
) -> ComparisonProblem:
    """Comparisons of ``num_pairs`` pairs that share no point.

    Args:
        num_pairs: ``m``.
        noise: ``sigma^2`` per presented item.
        seed: Of points, prior draw and noise.
        lengthscale: Of the kernel.

    Returns:
        The problem, in double precision.
    """
    generator = torch.Generator().manual_seed(seed)
    options = {"generator": generator, "dtype": torch.float64}
    points = torch.rand(2 * num_pairs, DIMENSION, **options)
    unordered = torch.arange(2 * num_pairs).view(num_pairs, 2)
    problem = ComparisonProblem(points, unordered, noise, lengthscale)
    values, vectors = torch.linalg.eigh(problem.point_covariance())
    normal = torch.randn(2 * num_pairs, **options)
    utilities = vectors @ (values.clamp_min(0.0).sqrt() * normal)
    heard = utilities + noise**0.5 * torch.randn(2 * num_pairs, **options)
    first_lost = (heard[unordered[:, 0]] < heard[unordered[:, 1]]).unsqueeze(-1)
    pairs = torch.where(first_lost, unordered.flip(-1), unordered)
    return ComparisonProblem(points, pairs, noise, lengthscale)
