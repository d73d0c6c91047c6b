"""Gaussians whose precision is sparse: solutions, draws and marginal variances."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from linear_operator.utils.linear_cg import linear_cg
from linear_operator.utils.warnings import NumericalWarning
from scipy.sparse import csr_array

from botorch_pref.errors import BotorchPrefError


def solve_precision(
    precision: csr_array,
    right: np.ndarray,
    tolerance: float = 1e-10,
    *,
    most_steps: int = 20_000,
) -> np.ndarray:
    """Solves ``H x = b`` by conjugate gradients, preconditioned by the diagonal.

    Args:
        precision: ``H``, ``n x n``, symmetric and positive definite.
        right: ``b``, ``n x k``.
        tolerance: Norm of ``b - H x`` relative to that of ``b``, averaged over columns.
        most_steps: Products with ``H`` after which it ends whatever the residual.

    Returns:
        ``x``, ``n x k``.

    Raises:
        BotorchPrefError: The residual is larger than ten times the tolerance plus what
            rounding leaves.
    """
    diagonal = torch.from_numpy(precision.diagonal()).unsqueeze(-1)
    with warnings.catch_warnings():
        # The residual is checked below, and is an error there.
        warnings.simplefilter("ignore", NumericalWarning)
        solution = linear_cg(
            lambda x: torch.from_numpy(precision @ x.numpy()),
            torch.from_numpy(right),
            tolerance=tolerance,
            # No column stops before the mean of all has reached the tolerance.
            eps=torch.finfo(torch.double).tiny,
            stop_updating_after=0.0,
            max_iter=most_steps,
            max_tridiag_iter=0,
            preconditioner=lambda residual: residual / diagonal,
        ).numpy()
    norms = np.linalg.norm(right, axis=0)
    residual = np.linalg.norm(right - precision @ solution, axis=0)
    # What rounding leaves of a solution to the last digit.
    rounding = _ROUNDINGS * float(abs(precision).sum(0).max())
    limit = 10 * tolerance * norms + rounding * np.linalg.norm(solution, axis=0)
    if residual.mean() > limit.mean():
        worst = (residual / np.where(norms > 0, norms, 1.0)).mean()
        raise BotorchPrefError(
            f"{most_steps:,} conjugate gradients left a residual of {worst:.1e}; the "
            "answers tell some items apart that are joined by very few answers."
        )
    return np.asarray(solution)


_ROUNDINGS = 32 * np.finfo(float).eps
"""Share of ``|H| |x|`` that rounding leaves as a residual, at most."""


def marginal_variances(precision: csr_array, draws: np.ndarray) -> np.ndarray:
    r"""Estimates the diagonal of ``H^-1`` from draws of ``N(0, H^-1)``.

    The variance of a variable is the sum of its variance given all others, which is
    exact, and the variance of its conditional mean, which the draws estimate (Siden,
    Lindgren, Bolin and Villani 2018):

    .. math:: (H^{-1})_{ii} = \frac{1}{H_{ii}}
        + \operatorname{Var}\Big(x_i - \frac{(H x)_i}{H_{ii}}\Big).

    The relative error of the second part is about ``sqrt(2 / S)``.

    Args:
        precision: ``H``, ``n x n``.
        draws: ``n x S``, of mean zero.

    Returns:
        Variances, ``n``.
    """
    diagonal = precision.diagonal()
    conditional = draws - (precision @ draws) / diagonal[:, None]
    return np.asarray(1 / diagonal + np.square(conditional).mean(-1))


def contrast_variances(
    precision: csr_array, draws: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    r"""Estimates variances of differences of each variable to a weighted sum of all.

    With the covariances :math:`c = H^{-1} w`, the variance :math:`q = w^\top c` of the
    sum :math:`s = w^\top x`, and :math:`b = c / q`, the parts :math:`(b_i - 1) s` and
    :math:`r_i = x_i - b_i s` of a difference are independent. The first one is exact,
    the draws estimate the second as in `marginal_variances`: what all variables share
    with the sum adds no error.

    Args:
        precision: ``H``, ``n x n``.
        draws: Of ``N(0, H^-1)``, ``n x S``.
        weights: ``w``, ``n``.

    Returns:
        Variances, ``n``.
    """
    diagonal = precision.diagonal()
    covariance = solve_precision(precision, weights[:, None])[:, 0]
    variance = weights @ covariance
    slope = covariance / variance
    direct = 1 - slope * weights
    # r_i given all other variables: its mean, (1 - b_i w_i) (x_i - (H x)_i / H_ii)
    # - b_i (s - w_i x_i), whose variance is estimated, and (1 - b_i w_i)^2 / H_ii.
    remainder = direct[:, None] * (draws - (precision @ draws) / diagonal[:, None])
    remainder -= slope[:, None] * (weights @ draws - weights[:, None] * draws)
    indirect = np.square(remainder).mean(-1) + np.square(direct) / diagonal
    return np.asarray(np.square(slope - 1) * variance + indirect)
