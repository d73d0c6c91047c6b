"""Quick sweeps of expectation propagation, which say where its iteration starts.

A sweep of tens of answers is small matrices, of which torch takes longer to start an
operation than to do it. These are the engine's sweeps in NumPy, without its safeguards,
in a fifth of the time. Where they do not arrive, rounding leaves no Gaussian, or a site
has no positive precision, they find nothing, and the engine starts elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv, dpotrf, dtrtrs

from botorch_pref.errors import PrecisionError

MOST_ROWS = 256
"""Beyond so many rows the matrices take the time, and not the operations."""

Array = NDArray[np.float64]

# The sum of all steps, in posterior deviations; the last one is a tenth of it still.
_TOLERANCE = 1e-6
# The length of a step from which none has led back.
_LOST = 1e6
_MAX_SWEEPS = 200


def approach(
    covar: Array,
    prior: Array,
    matching: Callable[[Array, Array], Array],
    sites: Array,
) -> tuple[Array | None, int]:
    """Sites near the fixed point, ``2 m``, and the number of sweeps they took.

    Args:
        covar: The prior covariance of the rows, ``m x m``.
        prior: Their prior means, ``m``.
        matching: From means and variances of cavities, each ``m``, to the sites that
            match the tilted moments.
        sites: Where to start: precisions before shifts, ``2 m``.
    """
    m, memory = len(prior), _Memory()
    with np.errstate(all="ignore"):
        for sweep in range(1, _MAX_SWEEPS + 1):
            tau, nu = sites[:m], sites[m:]
            variance, moved = _condition(covar, tau, nu - tau * prior)
            left = 1 - tau * variance
            mean = (prior + moved - variance * nu) / left
            if not (variance.min() > 0 and left.min() > 0 and np.isfinite(mean).all()):
                break
            try:
                image = matching(mean, variance / left)
            except PrecisionError:
                break
            step = image - sites
            scale = np.concatenate([variance, np.sqrt(variance)])
            length = np.abs(step) @ scale
            if length < _TOLERANCE:
                return image, sweep
            sites = memory.extrapolate(image, step, scale)
            if sites[:m].min() < 0:
                sites = image
            if not length < _LOST or sites[:m].min() < 0:
                break
    return None, sweep


def _condition(covar: Array, tau: Array, shifts: Array) -> tuple[Array, Array]:
    """Variances of the rows given sites, and how far these move their means."""
    scale = np.sqrt(tau)
    scaled = covar * scale
    b = scaled * scale[:, None]
    b.ravel()[:: len(tau) + 1] += 1.0
    # LAPACK reads the transpose, which is the same matrix, without a copy.
    cholesky, _ = dpotrf(b.T, lower=1, clean=0, overwrite_a=1)
    half, _ = dtrtrs(cholesky, scaled.T, lower=1, overwrite_b=1)
    variance = covar.diagonal() - np.einsum("ij,ij->j", half, half)
    return variance, covar @ shifts - (half @ shifts) @ half


class _Memory:
    """The last three differences of iterates and of steps: see `AndersonMemory`."""

    def __init__(self) -> None:
        self._last: tuple[Array, Array] | None = None
        self._images: list[Array] = []
        self._steps: list[Array] = []

    def extrapolate(self, image: Array, step: Array, scale: Array) -> Array:
        """The next iterate, from the last one's image and the step that led there."""
        last, self._last = self._last, (image, step)
        if last is None:
            return image
        self._images = [*self._images[-2:], image - last[0]]
        self._steps = [*self._steps[-2:], step - last[1]]
        weighted = np.array(self._steps) * scale
        length = np.sqrt(np.einsum("ij,ij->i", weighted, weighted))
        weighted /= length[:, None]
        normal = weighted @ weighted.T
        # Differences that repeat others count little.
        normal.ravel()[:: len(length) + 1] += 1e-14
        _, gamma, info = dposv(normal, weighted @ (scale * step))
        return image if info else image - (gamma / length) @ np.array(self._images)
