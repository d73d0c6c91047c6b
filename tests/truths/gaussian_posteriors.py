"""Posteriors of boxed and logistic answers, independently, in dense matrices."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import scipy.optimize
import torch
from torch import Tensor

from botorch_pref import (
    Comparisons,
    Validity,
)

DOUBLE = torch.float64


@dataclass(frozen=True)
class Rows:
    """Boxed answers about a joint Gaussian: ``lower <= matrix f + noise <= upper``."""

    matrix: Tensor
    variance: Tensor
    lower: Tensor
    upper: Tensor

    def log_prob(self, utilities: Tensor) -> Tensor:
        """Log probability of all answers, ``... x n`` to ``...``."""
        z, sd = utilities @ self.matrix.T, self.variance.sqrt()
        # Infinite ends would have NaN for derivatives.
        upper = torch.special.ndtr((self.upper.clamp_max(1e3) - z) / sd)
        lower = torch.special.ndtr((self.lower - z) / sd)
        return (upper - lower).log().sum(-1)


def rows_of(
    pairs: Comparisons,
    validity: Validity | None,
    threshold: float,
    noises: tuple[float, float],
    num_points: int,
) -> Rows:
    """The table of feedback of the design, row by row."""
    matrix, boxes = [], []

    def add(variance: float, lower: float, upper: float, **signs: float) -> None:
        row = torch.zeros(num_points, dtype=DOUBLE)
        for name, sign in signs.items():
            row[int(name[1:])] = sign
        matrix.append(row)
        boxes.append((variance, lower, upper))

    for winner, loser in pairs.pairs.tolist():
        signs = {f"i{winner}": 1.0, f"i{loser}": -1.0}
        add(2 * noises[0], threshold, torch.inf, **signs)
    for first, second in [] if pairs.ties is None else pairs.ties.tolist():
        signs = {f"i{first}": 1.0, f"i{second}": -1.0}
        add(2 * noises[0], -threshold, threshold, **signs)
    if validity is not None:
        for index, valid in zip(validity.indices.tolist(), validity.valid, strict=True):
            add(noises[1], 0.0, torch.inf, **{f"i{index}": 1.0 if valid else -1.0})
    variance, lower, upper = torch.tensor(boxes, dtype=DOUBLE).T
    return Rows(torch.stack(matrix), variance, lower, upper)


def _white_root(covariance: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    return vectors * values.clamp_min(0).sqrt()


def _white_mode(root: Tensor, mean: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """Mode and Hessian of the negative log posterior of ``w`` in ``f = mean + L w``."""

    def negative_log_posterior(w: Tensor) -> Tensor:
        return 0.5 * w @ w - rows.log_prob(mean + root @ w)

    def numpy_function(function: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
        return lambda w: function(torch.from_numpy(w)).numpy()

    mode = scipy.optimize.minimize(
        numpy_function(negative_log_posterior),
        torch.zeros(root.shape[-1], dtype=DOUBLE).numpy(),
        jac=numpy_function(torch.func.grad(negative_log_posterior)),
        hess=numpy_function(torch.func.hessian(negative_log_posterior)),
        method="trust-exact",
        options={"gtol": 1e-10},
    ).x
    w = torch.from_numpy(mode)
    return w, torch.func.hessian(negative_log_posterior)(w)


def laplace_reference(
    covariance: Tensor, mean: Tensor, rows: Rows
) -> tuple[Tensor, Tensor]:
    """The Gaussian around the mode that a generic optimiser finds."""
    root = _white_root(covariance)
    w, hessian = _white_mode(root, mean, rows)
    return mean + root @ w, root @ torch.linalg.solve(hessian, root.T)


def variational_reference(
    covariance: Tensor, mean: Tensor, rows: Rows
) -> tuple[Tensor, Tensor]:
    r"""Jaakkola and Jordan's fixed point, in dense matrices, for logistic answers.

    A pair counts as a Gaussian of precision :math:`\tanh(\zeta / 2) / (2 \zeta)` and
    shift one half, where :math:`\zeta^2 = E[z^2]`.
    """
    zeta = torch.ones(len(rows.matrix), dtype=DOUBLE)
    for _ in range(500):
        tau = torch.tanh(zeta / 2) / (2 * zeta)
        gain = rows.matrix @ covariance
        inverse = torch.linalg.inv(gain @ rows.matrix.T + torch.diag(1 / tau))
        centre = mean + gain.T @ inverse @ (0.5 / tau - rows.matrix @ mean)
        spread = covariance - gain.T @ inverse @ gain
        second = (rows.matrix @ centre).square()
        zeta = (second + (rows.matrix @ spread @ rows.matrix.T).diagonal()).sqrt()
    return centre, spread


def _equal_rows(matrix: Tensor) -> list[list[int]]:
    """Numbers of rows that are equal up to their sign."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for i, row in enumerate(matrix):
        first = next(v for v in row.tolist() if v)
        groups.setdefault(tuple((row * first).tolist()), []).append(i)
    return [*groups.values()]


def ep_reference(covariance: Tensor, mean: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """Textbook EP: one site at a time, rank-one updates, moments by quadrature.

    Answers about one row have one site.
    """
    groups = _equal_rows(rows.matrix)
    tau = torch.zeros(len(groups), dtype=DOUBLE)
    nu = torch.zeros(len(groups), dtype=DOUBLE)
    centre, spread = mean.clone(), covariance.clone()
    grid = torch.linspace(-12, 12, 2401, dtype=DOUBLE)
    for _ in range(60):
        for i, members in enumerate(groups):
            row = rows.matrix[members[0]]
            direction = spread @ row
            variance, m = row @ direction, row @ centre
            cavity = 1 / (1 / variance - tau[i])
            shift = cavity * (m / variance - nu[i])
            z, weight = shift + cavity.sqrt() * grid, torch.ones_like(grid)
            for k in members:
                sign, sd = (row @ rows.matrix[k]).sign(), rows.variance[k].sqrt()
                below = torch.special.ndtr((rows.upper[k] - sign * z) / sd)
                above = torch.special.ndtr((rows.lower[k] - sign * z) / sd)
                weight = weight * (below - above)
            weight = weight * (-0.5 * grid**2).exp()
            weight = weight / weight.sum()
            tilted_mean = (weight * z).sum()
            tilted = (weight * (z - tilted_mean) ** 2).sum()
            new_tau, new_nu = (
                1 / tilted - 1 / cavity,
                tilted_mean / tilted - shift / cavity,
            )
            change, tau[i] = new_tau - tau[i], new_tau
            shift_change, nu[i] = new_nu - nu[i], new_nu
            gain = 1 / (1 + change * variance)
            centre = centre + direction * gain * (shift_change - change * m)
            spread = spread - gain * change * torch.outer(direction, direction)
    return centre, spread


def exact_reference(
    covariance: Tensor, mean: Tensor, rows: Rows
) -> tuple[Tensor, Tensor]:
    """Importance sampling from a widened Gaussian around the mode."""
    root = _white_root(covariance)
    w, hessian = _white_mode(root, mean, rows)
    factor = torch.linalg.cholesky(1.3 * torch.linalg.inv(hessian))
    normal = torch.randn(
        200_000, len(w), generator=torch.Generator().manual_seed(0), dtype=DOUBLE
    )
    draws = w + normal @ factor.T
    utilities = mean + draws @ root.T
    log_weight = rows.log_prob(utilities) - 0.5 * draws.square().sum(-1)
    weight = torch.softmax(log_weight + 0.5 * normal.square().sum(-1), dim=0)
    assert 1 / weight.square().sum() > 50_000
    centre = weight @ utilities
    deviation = utilities - centre
    return centre, deviation.T @ (weight.unsqueeze(-1) * deviation)
