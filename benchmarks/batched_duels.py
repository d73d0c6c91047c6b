"""Expectation propagation on duels of many runs at once, for `screen_rules.py`.

A model for each run in one batch: the difference of utilities of each duel is the
latent variable, so that a run with m duels costs a Cholesky factorisation of m rows
however often points repeat. All runs have equally many duels. Formulas as in the
package.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.acquisition.analytic import _log_ei_helper
from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched
from torch import Tensor

from botorch_pref.numerics.normal import log_ndtr

SWEEPS, TOLERANCE, DAMPING = 60, 1e-6, 0.8
SHORTEST, LONGEST = math.log(0.025), 6.0
SMALL = 1e-12
_SQRT_2PI = math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Prior:
    """Kernel and log densities of its scales.

    Attributes:
        rough: Whether the kernel is Matern-5/2, and not RBF.
        lengthscale: Log density of a lengthscale, from its logarithm.
        scale: Log density of the output scale, from its logarithm.
        start: Logarithms of output scale and lengthscale to start from.
    """

    rough: bool
    lengthscale: Callable[[Tensor], Tensor]
    scale: Callable[[Tensor], Tensor]
    start: tuple[float, float]

    @classmethod
    def of_duel_kernel(cls, dim: int) -> Prior:
        """Prior of `DuelKernel`."""
        mode = math.sqrt(2) - 3 + math.log(dim) / 2
        return cls(
            True,
            lambda log: -((log - mode) ** 2) / (2 * 0.4**2),
            lambda log: -((log - math.log(10)) ** 2) / (2 * 0.7**2),
            (math.log(10), math.log(0.4)),
        )

    @classmethod
    def of_default_kernel(cls, dim: int) -> Prior:
        """Prior of the package's default kernel."""
        centre = math.sqrt(2) + math.log(dim) / 2
        return cls(
            False,
            lambda log: -((log - centre) ** 2) / 6 - log,
            lambda log: log - 0.15 * log.exp(),
            (math.log(1 / 0.15), centre - 3),
        )

    def covariance(self, X: Tensor, Y: Tensor, scale: Tensor, length: Tensor) -> Tensor:
        """Covariance of utilities, ``num_runs x n x m``."""
        a, b = X / length.unsqueeze(-2), Y / length.unsqueeze(-2)
        square = a.square().sum(-1).unsqueeze(-1) + b.square().sum(-1).unsqueeze(-2)
        square = (square - 2 * a @ b.mT).clamp_min(0)
        if self.rough:
            r = math.sqrt(5) * (square + 1e-20).sqrt()
            correlation = (1 + r + 5 / 3 * square) * torch.exp(-r)
        else:
            correlation = torch.exp(-0.5 * square)
        return scale[:, None, None] * correlation


def improvement_in_logs(mean: Tensor, variance: Tensor) -> Tensor:
    """Logarithm of the expected positive part of a Gaussian."""
    deviation = variance.sqrt()
    value: Tensor = deviation.log() + _log_ei_helper(mean / deviation)
    return value


class BatchedDuels:
    """Models of the duels of several runs, fitted when made.

    Args:
        prior: Of utilities.
        winners: ``num_runs x num_duels x d``.
        losers: The same.
        noise: Of the probit likelihood, per item.
        before: The models of fewer duels, to start from.
    """

    def __init__(
        self,
        prior: Prior,
        winners: Tensor,
        losers: Tensor,
        noise: float,
        before: BatchedDuels | None = None,
    ) -> None:
        self.prior, self.winners, self.losers = prior, winners, losers
        self.noise = noise
        self.runs, self.duels, self.dim = winners.shape
        self.precision = winners.new_zeros(self.runs, self.duels)
        self.shift = winners.new_zeros(self.runs, self.duels)
        self.draw: tuple[Tensor, Tensor, Tensor] | None = None
        if before is None:
            self.logs = winners.new_tensor(
                [prior.start[0], *self.dim * [prior.start[1]]]
            ).repeat(self.runs, 1)
        else:
            self.precision[:, : before.duels] = before.precision
            self.shift[:, : before.duels] = before.shift
            self.logs = before.logs
        self._fit()

    def _between_duels(self, logs: Tensor, runs: Tensor) -> Tensor:
        points = torch.cat([self.winners[runs], self.losers[runs]], 1)
        scales = logs[:, 0].exp(), logs[:, 1:].exp()
        full, m = self.prior.covariance(points, points, *scales), self.duels
        return full[:, :m, :m] + full[:, m:, m:] - full[:, :m, m:] - full[:, m:, :m]

    def _solve(self, covar: Tensor, runs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sites, and what of the log evidence does not depend on the covariance."""
        precision, shift = self.precision[runs], self.shift[runs]
        for sweep in range(SWEEPS):
            root = precision.clamp_min(0).sqrt()
            half = root.unsqueeze(-1) * covar
            factor = _cholesky(half * root.unsqueeze(-2))
            half = torch.linalg.solve_triangular(factor, half, upper=False)
            variance = covar.diagonal(dim1=-2, dim2=-1) - half.square().sum(-2)
            variance = variance.clamp_min(SMALL)
            given = shift.unsqueeze(-1)
            mean = (covar @ given - half.mT @ (half @ given)).squeeze(-1)
            left = 1 / (1 / variance - precision).clamp_min(SMALL)
            centre = left * (mean / variance - shift)
            spread = (2 * self.noise + left).sqrt()
            z = centre / spread
            log_win = log_ndtr(z)
            hazard = torch.exp(-0.5 * z * z - log_win) / _SQRT_2PI
            bend = -hazard * (z + hazard) / spread.square()
            new = (-bend / (1 + left * bend)).clamp_min(SMALL)
            moved = (hazard / spread - centre * bend) / (1 + left * bend)
            change = float(((new - precision).abs() / (new + precision)).amax())
            step = DAMPING if sweep else 1.0
            precision = (1 - step) * precision + step * new
            shift = (1 - step) * shift + step * moved
            if sweep and change < TOLERANCE:
                break
        self.precision[runs], self.shift[runs] = precision, shift
        widened = 1 + precision * left
        square = shift**2 * left + 2 * shift * centre - precision * centre**2
        constant = log_win + 0.5 * widened.log() - 0.5 * square / widened
        return precision, shift, constant.sum(-1)

    def _log_evidence(self, logs: Tensor, runs: Tensor) -> Tensor:
        covar = self._between_duels(logs, runs)
        with torch.no_grad():
            precision, shift, constant = self._solve(covar.detach(), runs)
        root, given = precision.sqrt(), covar @ shift.unsqueeze(-1)
        factor = _cholesky(root.unsqueeze(-1) * covar * root.unsqueeze(-2))
        whitened = torch.linalg.solve_triangular(
            factor, root.unsqueeze(-1) * given, upper=False
        )
        quadratic = (shift.unsqueeze(-2) @ given).flatten()
        quadratic = quadratic - whitened.square().sum((-1, -2))
        log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return constant - log_det + 0.5 * quadratic

    def _fit(self) -> None:
        def objective(x: Any, batch_indices: list[int]) -> tuple[Any, Any]:
            logs = torch.tensor(x, requires_grad=True)
            value = self._log_evidence(logs, torch.tensor(batch_indices))
            value = value + self.prior.lengthscale(logs[:, 1:]).sum(-1)
            value = value + self.prior.scale(logs[:, 0])
            (slope,) = torch.autograd.grad(value.sum(), logs)
            return -value.detach().numpy(), -slope.numpy()

        bounds = [(-12.0, 14.0), *self.dim * [(SHORTEST, LONGEST)]]
        found = _minimised(objective, self.logs.numpy(), bounds, 1e-3, 30)
        self.logs = torch.tensor(found[0])
        everyone = torch.arange(self.runs)
        with torch.no_grad():
            covar = self._between_duels(self.logs, everyone)
            precision, shift, _ = self._solve(covar, everyone)
            root = precision.sqrt()
            factor = _cholesky(root.unsqueeze(-1) * covar * root.unsqueeze(-2))
            self.root = torch.linalg.solve_triangular(
                factor, torch.diag_embed(root), upper=False
            )
            given = self.root.mT @ (self.root @ (covar @ shift.unsqueeze(-1)))
            self.weights = shift - given.squeeze(-1)

    def of(self, runs: Tensor) -> BatchedDuels:
        """The models of some runs, or of one run several times."""
        some = copy(self)
        some.runs = len(runs)
        for name in ("winners", "losers", "root", "weights", "logs"):
            setattr(some, name, getattr(self, name)[runs])
        some.draw = None if self.draw is None else tuple(t[runs] for t in self.draw)  # type: ignore[assignment]
        return some

    def _covariance(self, X: Tensor, Y: Tensor) -> Tensor:
        scales = self.logs[:, 0].exp(), self.logs[:, 1:].exp()
        return self.prior.covariance(X, Y, *scales)

    def _with_duels(self, X: Tensor) -> Tensor:
        return self._covariance(X, self.winners) - self._covariance(X, self.losers)

    def joint(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and covariance of utilities at ``num_runs x n x d`` points."""
        cross = self._with_duels(X)
        half = cross @ self.root.mT
        mean = (cross @ self.weights.unsqueeze(-1)).squeeze(-1)
        return mean, self._covariance(X, X) - half @ half.mT

    def difference(self, X: Tensor, X_ref: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the difference from the reference.

        Args:
            X: ``num_runs x n x d``.
            X_ref: ``num_runs x 1 x d``.

        Returns:
            Both ``num_runs x n``; under the draw that is believed, if there is one.
        """
        cross = self._with_duels(X) - self._with_duels(X_ref)
        half = cross @ self.root.mT
        mean = (cross @ self.weights.unsqueeze(-1)).squeeze(-1)
        variance = 2 * self.logs[:, :1].exp() - 2 * self._covariance(X, X_ref)[..., 0]
        variance = variance - half.square().sum(-1)
        if self.draw is not None:
            points, direction, normal = self.draw
            with_points = self._covariance(X, points) - self._covariance(X_ref, points)
            known = self._with_duels(points) @ self.root.mT
            moved = (with_points - half @ known.mT) @ direction
            mean = mean + (moved @ normal.unsqueeze(-1)).squeeze(-1)
            variance = variance - moved.square().sum(-1)
        return mean, variance.clamp_min(SMALL * float(self.logs[:, 0].exp().max()))

    def shown(self) -> Tensor:
        """Points of all duels, ``num_runs x 2 num_duels x d``, repeated ones too."""
        return torch.cat([self.winners, self.losers], 1)

    def incumbent(self) -> Tensor:
        """Incumbent of each run, by the soft Copeland score over distinct points."""
        points = self.shown()
        mean, covar = self.joint(points)
        own = covar.diagonal(dim1=1, dim2=2)
        variance = own.unsqueeze(-1) + own.unsqueeze(-2) - 2 * covar
        variance = variance.clamp_min(1e-14 * self.logs[:, :1, None].exp())
        gap = mean.unsqueeze(-1) - mean.unsqueeze(-2)
        wins = 0.5 * torch.erfc(-gap / (2 * variance).sqrt())
        same = (points.unsqueeze(2) == points.unsqueeze(1)).all(-1)
        copies = torch.triu(same, 1).any(1)
        wins = wins.masked_fill(same, 0.0).masked_fill(copies.unsqueeze(1), 0.0)
        best = wins.sum(-1).masked_fill(copies, -1).argmax(1)
        return points[torch.arange(self.runs), best]

    def believe(self, generator: torch.Generator) -> None:
        """Draws the utilities of the shown points, and takes them as known."""
        points = self.shown()
        mean, covar = self.joint(points)
        values, vectors = torch.linalg.eigh(covar)
        unknown = values > 1e-10 * values[:, -1:]
        inverse = torch.where(unknown, values.clamp_min(1e-300).rsqrt(), 0.0)
        normal = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
        self.draw = points, vectors * inverse.unsqueeze(-2), normal

    def forget(self) -> None:
        """Drops the draw."""
        self.draw = None


def maximise(
    value: Callable[[BatchedDuels, Tensor, Tensor], Tensor],
    model: BatchedDuels,
    X_ref: Tensor,
    generator: torch.Generator,
    restarts: int = 4,
) -> Tensor:
    """Best challenger of each run, from uniform starts and ones near the reference.

    Args:
        value: From models, points and references to ``num_runs x num_points``.
        model: Of all runs.
        X_ref: ``num_runs x 1 x d``.
        generator: Source of the starting points.
        restarts: How many points of each run are optimised.

    Returns:
        ``num_runs x d``.
    """
    options = {"generator": generator, "dtype": X_ref.dtype}
    runs, dim = model.runs, model.dim
    X = torch.rand(runs, 256, dim, **options)
    near = X_ref + 0.1 * torch.randn(runs, 128, dim, **options)
    nearer = X_ref + 0.02 * torch.randn(runs, 64, dim, **options)
    X = torch.cat([X, near.clamp(0, 1), nearer.clamp(0, 1)], 1)
    values = value(model, X, X_ref)
    z = values - values.mean(1, keepdim=True)
    z = z / values.std(1, keepdim=True).clamp_min(SMALL)
    odds = torch.softmax(2 * z, 1).clamp_min(SMALL)
    others = torch.multinomial(odds, restarts - 1, generator=generator)
    chosen = torch.cat([values.argmax(1, keepdim=True), others], 1)
    begin = X.gather(1, chosen.unsqueeze(-1).expand(-1, -1, dim)).flatten(0, 1)
    run = torch.arange(runs).repeat_interleave(restarts)

    def objective(x: Any, batch_indices: list[int]) -> tuple[Any, Any]:
        some, points = run[torch.tensor(batch_indices)], torch.tensor(x)
        points.requires_grad_()
        found = value(model.of(some), points.unsqueeze(1), X_ref[some])[:, 0]
        (slope,) = torch.autograd.grad(found.sum(), points)
        return -found.detach().numpy(), -torch.nan_to_num(slope).numpy()

    x, f = _minimised(objective, begin.numpy(), dim * [(0.0, 1.0)], 1e-5, 60)
    best = torch.tensor(f).reshape(runs, restarts).argmin(1)
    return torch.tensor(x).reshape(runs, restarts, dim)[torch.arange(runs), best]


def _cholesky(product: Tensor) -> Tensor:
    """Cholesky factor of the identity and a symmetric product."""
    identity = torch.eye(product.shape[-1], dtype=product.dtype)
    return torch.linalg.cholesky(identity + product)


def _minimised(
    objective: Callable[..., tuple[Any, Any]],
    start: Any,
    bounds: list[tuple[float, float]],
    gradient: float,
    iterations: int,
) -> tuple[Any, Any]:
    points, values, _ = fmin_l_bfgs_b_batched(
        objective,
        np.ascontiguousarray(start),
        bounds=bounds,
        factr=1e9,
        pgtol=gradient,
        maxiter=iterations,
        pass_batch_indices=True,
    )
    return points, values
