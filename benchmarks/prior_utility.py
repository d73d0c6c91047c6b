"""People whose utilities are draws of the library's own prior.

Where the prior is the truth, every statement of the averaged model should hold as often
as it says (simulation-based calibration, Talts et al. 2018): what is missing then is an
error of the inference, and what is missing on other tasks only is one of the prior.
"""

from __future__ import annotations

import torch
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import Kernel
from torch import Generator, Tensor
from torch.quasirandom import SobolEngine

from botorch_pref import DuelKernel, LapsingProbitLikelihood
from botorch_pref.simulation.problem import Problem, numbers

JITTER = 1e-8
"""Added to the variance of a draw, relative to it."""


class DrawnUtility:
    r"""A draw of a Gaussian process, exact at all points that it is asked about.

    Points that were not asked about before are drawn given all earlier ones: with the
    Cholesky factor :math:`L` of earlier points and the covariance :math:`B` of new and
    earlier ones,

    .. math:: f_* = B L^{-T} z + \operatorname{chol}(C - B L^{-T} L^{-1} B^T) \, z_* .

    Args:
        kernel: Of the process, with mean 0.
        points: ``n x d``, drawn first.
        generator: Of the draws.
    """

    def __init__(self, kernel: Kernel, points: Tensor, generator: Generator) -> None:
        self.kernel, self.generator = kernel, generator
        self.points = points[:0]
        self.values, self.white = points.new_zeros(0), points.new_zeros(0)
        self.factor = points.new_zeros(0, 0)
        self(points)

    @torch.no_grad()
    def __call__(self, X: Tensor) -> Tensor:
        """Utilities of points, ``... x d`` to ``...``."""
        rows = X.reshape(-1, X.shape[-1]).double()
        merged, place = torch.unique(
            torch.cat([self.points, rows]), dim=0, return_inverse=True
        )
        drawn = torch.full((len(merged),), -1)
        drawn[place[: len(self.points)]] = torch.arange(len(self.points))
        new = (drawn < 0).nonzero().squeeze(-1)
        if len(new):
            drawn[new] = torch.arange(len(self.points), len(self.points) + len(new))
            self._extend(merged[new])
        return self.values[drawn[place[len(place) - len(rows) :]]].reshape(X.shape[:-1])

    def _extend(self, points: Tensor) -> None:
        """Draws the utilities of new points, ``n x d``, given all earlier ones."""
        own = self.kernel(points).to_dense()
        own = own + JITTER * own.diagonal().mean() * torch.eye(len(points)).to(own)
        between = self.kernel(points, self.points).to_dense()
        rows = torch.linalg.solve_triangular(self.factor, between.mT, upper=False).mT
        corner = torch.linalg.cholesky(own - rows @ rows.mT)
        z = torch.randn(len(points), generator=self.generator, dtype=torch.double)
        before, count = len(self.points), len(points)
        factor = own.new_zeros(before + count, before + count)
        factor[:before, :before] = self.factor
        factor[before:, :before], factor[before:, before:] = rows, corner
        self.values = torch.cat([self.values, rows @ self.white + corner @ z])
        self.white = torch.cat([self.white, z])
        self.factor, self.points = factor, torch.cat([self.points, points])


class DrawnProblem(Problem):
    """A drawn utility on the cube, whose best value is that of all points drawn."""

    def regret(self, X: Tensor) -> Tensor:
        """Simple regret of ``batch_shape x d`` points."""
        utility = self.utility(X)
        drawn: Tensor = self.utility.values  # type: ignore[attr-defined]
        return drawn.max() - utility


def draw_person(dim: int, seed: int) -> tuple[Problem, float]:
    """Draws hyper-parameters and a utility of the prior, and a deviation of noise.

    Args:
        dim: Number of inputs.
        seed: Of all draws.
    """
    generator = torch.Generator().manual_seed(seed)
    kernel, likelihood = DuelKernel(dim), LapsingProbitLikelihood.default_for(None)
    with manual_seed(seed):
        for module in (kernel, likelihood):
            for _, part, prior, _, assign in module.named_priors():
                assign(part, prior.sample())
    spread = SobolEngine(dim, scramble=True, seed=seed).draw(1024, dtype=torch.double)
    utility = DrawnUtility(kernel, spread, generator)
    problem = DrawnProblem(
        "prior",
        dim,
        float(utility.values.max()),
        utility,
        parameters=numbers(*[False] * dim),
    )
    return problem, float(likelihood.noise.detach().sqrt())
