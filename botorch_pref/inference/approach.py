r"""Quick sweeps of expectation propagation for few answers, in NumPy.

A sweep of tens of answers is small matrices, and torch takes longer to start an
operation than to do it. These sweeps are those of :mod:`botorch_pref.inference.ep`
without its safeguards, and take a third of their time. They only say where its
iteration starts: where they find the fixed point it has nothing left to do but to see
that moments match, and where they do not it starts as it would have started anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv, dpotrf, dtrtrs
from scipy.special import erfcx
from torch import Tensor

from botorch_pref.likelihoods.factors import BoxFactors, ScalarFactors

Array = NDArray[np.float64]

MOST_ROWS = 256
"""Beyond so many rows the matrices take the time, and not the operations."""

_MOST_SWEEPS = 60
# The sum of all steps, in posterior deviations; the last one is a tenth of it still.
_TOLERANCE = 1e-6
# The length of a step from which none has led back.
_LOST = 1e6


class _Memory:
    """Anderson's acceleration by the last three changes, see `AndersonMemory`."""

    def __init__(self, size: int) -> None:
        self._images, self._residuals = np.empty((3, size)), np.empty((3, size))
        self._last: tuple[Array, Array] | None = None
        self._count = 0

    def next(self, image: Array, residual: Array, scale: Array) -> Array:
        last, self._last = self._last, (image, residual)
        if last is None:
            return image
        place = self._count % 3
        self._images[place] = image - last[0]
        self._residuals[place] = residual - last[1]
        self._count += 1
        known = min(self._count, 3)
        weighted = self._residuals[:known] * scale
        normal = weighted @ weighted.T
        size = np.sqrt(np.maximum(normal.diagonal(), np.finfo(float).tiny))
        normal /= np.outer(size, size)
        normal.flat[:: known + 1] += 64 * np.finfo(float).eps
        target = weighted @ (scale * residual) / size
        _, gamma, info = dposv(normal, target)
        if info != 0:
            return image
        return cast("Array", image - (gamma / size) @ self._images[:known])


def approach(
    covar: Tensor, prior: Tensor, factors: ScalarFactors, sites: Tensor, most: int
) -> tuple[Tensor | None, int]:
    """Sites near the fixed point, ``2 m``, and the number of sweeps they took.

    None where the sweeps do not get there, or where a site has no positive precision.

    Args:
        covar: The prior covariance of the rows, ``m x m`` in double precision.
        prior: Their prior means, ``m``.
        factors: The factors of the rows.
        sites: Where to start, ``2 m``: precisions before shifts.
        most: The largest number of sweeps.
    """
    c, means, x = covar.numpy(), prior.numpy(), sites.numpy()
    m, memory, matching = len(means), _Memory(2 * len(means)), _matching(factors)
    own = c.diagonal()
    with np.errstate(all="ignore"):
        for sweep in range(1, min(most, _MOST_SWEEPS) + 1):
            tau, nu = x[:m], x[m:]
            variance, moved = _condition(c, own, tau, nu - tau * means)
            left = 1 - tau * variance
            mean = (means + moved - variance * nu) / left
            image = matching(mean, variance / left)
            residual = image - x
            scale = np.concatenate([variance, np.sqrt(variance)])
            length = float(np.abs(residual * scale).sum())
            if not length < _LOST:
                break
            if length < _TOLERANCE:
                return torch.from_numpy(image), sweep
            x = memory.next(image, residual, scale)
            if x[:m].min() < 0:
                x = image
            if x[:m].min() < 0:
                break
    return None, sweep


def _condition(c: Array, own: Array, tau: Array, shifts: Array) -> tuple[Array, Array]:
    """Variances of the rows given sites, and how far these move their means."""
    scale = np.sqrt(tau)
    scaled = c * scale
    b = scaled * scale[:, None]
    b.flat[:: len(tau) + 1] += 1.0
    # LAPACK reads the transpose, which is the same matrix, without a copy.
    cholesky, _ = dpotrf(b.T, lower=1, clean=0, overwrite_a=1)
    half, _ = dtrtrs(cholesky, scaled.T, lower=1, overwrite_b=1)
    variance = own - np.einsum("ij,ij->j", half, half)
    return variance, c @ shifts - (half @ shifts) @ half


Matching = Callable[[Array, Array], Array]
"""From means and variances of cavities, ``m`` each, to their sites, ``2 m``."""


def _matching(factors: ScalarFactors) -> Matching:
    """Sites that give cavities the moments of tilted factors."""
    if type(factors) is BoxFactors and (ends := factors.half_lines()) is not None:
        return _half_line_sites(*(part.numpy() for part in ends))

    def sites(mean: Array, variance: Array) -> Array:
        tilted: Any = factors.tilted(*map(torch.from_numpy, (mean, variance)))
        _, first, second, shrink = (t.numpy() for t in tilted)
        return np.concatenate([-second, first - second * mean]) / np.tile(shrink, 2)

    return sites


def _half_line_sites(sides: Array, ends: Array, noise: Array) -> Matching:
    r"""Sites of probits: with the hazard ``h`` at ``x`` the derivatives are known.

    They are :math:`h` and :math:`-h (x + h)`, in units of the noise and the cavity
    together.
    """

    def sites(mean: Array, variance: Array) -> Array:
        slope = sides / np.sqrt(noise + variance)
        x = (mean - ends) * slope
        hazard = math.sqrt(2 / math.pi) / erfcx(-math.sqrt(0.5) * x)
        first = hazard * slope
        bend = first * slope * (x + hazard)
        shrink = 1 - variance * bend
        return np.concatenate([bend, first + bend * mean]) / np.tile(shrink, 2)

    return sites
