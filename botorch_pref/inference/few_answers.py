r"""Few answers, in NumPy: sweeps and steps, and second derivatives of evidences.

Matrices of a hundred rows are so small that torch takes longer to start an operation
than to do it. Quick sweeps and steps say where the iteration of an engine starts, which
checks them: nothing depends on whether they arrive. Second derivatives in the logs of a
kernel's scales are for fits.

With the symbols of :mod:`.conditioning`, :math:`S = (I + C T)^{-1}`, the posterior
means :math:`\mu` of the rows and the first derivatives :math:`C_i` of their covariance,
a change of scale ``i`` moves the means and variances of the rows while sites stay by

.. math::
    b_i = S C_i a, \qquad v_i = \mathrm{diag}(S C_i S'),

and forces and precision by :math:`a_i = S' f_i - W C_i a` and :math:`W_i = S'
\mathrm{diag}(\tau_i) S - W C_i W`, with the changes :math:`\tau_i`, :math:`\nu_i` of
the sites and :math:`f_i = \nu_i - \mu \circ \tau_i`. The evidence of expectation
propagation, whose derivative is :math:`\frac12 \langle a a' - W, C_i \rangle` at its
fixed point, has therefore the second derivatives

.. math::
    \tfrac12 \langle a a' - W, C_{ij} \rangle - a' C_i W C_j a
    + \tfrac12 \mathrm{tr}(W C_i W C_j) + f_i' b_j - \tfrac12 \tau_i' v_j .

Sites match tilted moments, so that their changes follow, row by row, from those of the
moments, :math:`b_i + \Sigma f_i` and :math:`v_i - (\Sigma \circ \Sigma) \tau_i`: these
are ``2 m`` equations. For Laplace see :func:`laplace_derivatives`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dgesv, dposv, dpotrf, dpotri, dpotrs, dtrtrs
from scipy.special import erfcx
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.inference.conditioning import SiteSolver
from botorch_pref.inference.engine import Array, OfScales
from botorch_pref.likelihoods.factors import BoxFactors, Factors
from botorch_pref.linalg.covariance import RowKernel

MOST_ROWS = 256
"""Beyond so many rows the matrices take the time, and not the operations."""


def quick_problem(
    solver: SiteSolver, prior: Tensor, sites: Tensor
) -> tuple[Array, Array, Array] | None:
    """Prior covariance and means of rows, and sites to start from, in NumPy.

    Args:
        solver: Knows the covariance, ``m x m``.
        prior: The means, ``m``.
        sites: ``2 m``.

    Returns:
        None for a batch, for many rows, off the CPU, where rows outnumber points, and
        where a site has a negative precision.
    """
    covar, m = solver.row_covariance, prior.shape[-1]
    if covar is None or covar.dim() > 2 or covar.device.type != "cpu" or m > MOST_ROWS:
        return None
    if prior.dim() > 1 or sites.dim() > 1 or sites[:m].amin() < 0:
        return None
    return covar.numpy(), prior.numpy(), sites.numpy()


def quick_cholesky(covar: Array, tau: Array) -> tuple[Array, Array]:
    """The lower Cholesky factor of ``B``, and ``C T^(1/2)``.

    LAPACK leaves numbers above the diagonal that are no part of the factor.
    """
    scale = np.sqrt(tau)
    scaled = covar * scale
    b = scaled * scale[:, None]
    b.ravel()[:: len(tau) + 1] += 1.0
    # LAPACK reads the transpose, which is the same matrix, without a copy.
    return dpotrf(b.T, lower=1, clean=0, overwrite_a=1)[0], scaled


class HalfLines(NamedTuple):
    r"""Probits of rows: sides, 1 for a lower end, -1 for an upper, ends and noise.

    Derivatives are those of log partitions in the means of cavities; with variances of
    zero, of log probabilities. With the hazard :math:`h` at :math:`x` and :math:`g = h
    (x + h)` those of :math:`\log \Phi` are :math:`h`, :math:`-g`, :math:`t = g (x +
    h) - h (1 - g)` and :math:`2 g (1 - g) - t (x + 2 h)`.
    """

    sides: Array
    ends: Array
    noise: Array

    @classmethod
    def of(cls, factors: Factors) -> HalfLines | None:
        """Those of factors; None for factors of another kind."""
        ends = factors.half_lines() if type(factors) is BoxFactors else None
        return None if ends is None else cls(*(part.numpy() for part in ends))

    def slopes(self, mean: Array, variance: Array | float) -> tuple[Array, Array]:
        """The first derivatives, and minus the second ones, each ``m``."""
        slope, _, h, g = self._hazards(mean, variance)
        return h * slope, g * slope**2

    def derivatives(self, mean: Array, variance: Array | float) -> tuple[Array, ...]:
        """Four derivatives, each ``m``."""
        slope, x, h, g = self._hazards(mean, variance)
        third = g * (x + h) - h * (1 - g)
        fourth = 2 * g * (1 - g) - third * (x + 2 * h)
        return h * slope, -g * slope**2, third * slope**3, fourth * slope**4

    def _hazards(self, mean: Array, variance: Array | float) -> tuple[Array, ...]:
        slope = self.sides / np.sqrt(self.noise + variance)
        x = (mean - self.ends) * slope
        h = math.sqrt(2 / math.pi) / erfcx(-math.sqrt(0.5) * x)
        return slope, x, h, h * (x + h)


# --- Sweeps and steps, which say where an iteration starts


# The sum of all steps, in posterior deviations; the last one is a tenth of it still.
_SHORT_SWEEP = 1e-6
# The length of a step from which none has led back.
_LOST = 1e6


def approach(
    covar: Array,
    prior: Array,
    sites: Array,
    matching: Callable[[Array, Array], Array],
    most: int,
) -> tuple[Array | None, int]:
    """Sites near the fixed point, ``2 m``, and the number of sweeps they took.

    These are the sweeps of `_iterate` in NumPy, without its safeguards, in a fifth of
    the time. Where they do not arrive, rounding leaves no Gaussian, or a site has no
    positive precision, there are no sites.

    Args:
        covar: See `quick_problem`, as for ``prior`` and ``sites``.
        prior: The prior means of the rows.
        sites: Where to start.
        matching: From means and variances of cavities, each ``m``, to the sites that
            match the tilted moments.
        most: The number of sweeps.
    """
    m, memory = len(prior), _QuickMemory()
    with np.errstate(all="ignore"):
        for sweep in range(1, most + 1):
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
            if length < _SHORT_SWEEP:
                return image, sweep
            sites = memory.extrapolate(image, step, scale)
            if sites[:m].min() < 0:
                sites = image
            if not length < _LOST or sites[:m].min() < 0:
                break
    return None, sweep


def _condition(covar: Array, tau: Array, shifts: Array) -> tuple[Array, Array]:
    """Variances of the rows given sites, and how far these move their means."""
    cholesky, scaled = quick_cholesky(covar, tau)
    half, _ = dtrtrs(cholesky, scaled.T, lower=1, overwrite_b=1)
    variance = covar.diagonal() - np.einsum("ij,ij->j", half, half)
    return variance, covar @ shifts - (half @ shifts) @ half


class _QuickMemory:
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


# Length of the last quick step, after which the next one is its square.
_SHORT_STEP = 1e-7


def approach_mode(
    covar: Array,
    prior: Array,
    sites: Array,
    slopes: Callable[[Array], tuple[Array, Array]],
    most: int,
) -> tuple[Array | None, int]:
    """Forces near the mode, ``m``, and the number of steps that they took.

    These are Newton's steps in NumPy, without a line search. Where one is not half as
    long as the one before, there are no forces.

    Args:
        covar: See `quick_problem`, as for ``prior`` and ``sites``.
        prior: The prior means of the rows.
        sites: Where to start: at the mean under them.
        slopes: From rows, ``m``, to the slopes of their log probabilities and minus the
            second derivatives, which are positive.
        most: The number of steps.
    """
    m, before = len(prior), math.inf
    tau, shift = sites[:m], sites[m:] - sites[:m] * prior
    forces = moved = pull = np.zeros(m)
    with np.errstate(all="ignore"):
        for step in range(most):
            scale, (cholesky, scaled) = np.sqrt(tau), quick_cholesky(covar, tau)
            inner, _ = dpotrs(cholesky, shift @ scaled, lower=1)
            new = shift - scale * inner
            new_moved = covar @ new
            length = math.sqrt(abs(pull @ (new_moved - moved))) if step else math.inf
            forces, moved = new, new_moved
            if length < _SHORT_STEP:
                return forces, step
            if step > 1 and not length < 0.5 * before:
                break
            first, tau = slopes(prior + moved)
            before, pull, shift = length, first - forces, first + tau * moved
    return None, step


# --- Second derivatives of evidences


class RowMoments(NamedTuple):
    """Site precisions, means, variances and forces of rows at a solution: ``m``."""

    precision: Array
    mean: Array
    variance: Array
    force: Array


class _Response(NamedTuple):
    """What changes of the covariance do to a posterior while its sites stay.

    ``spread`` is :math:`S C_i`, ``p x m x m``; ``pulls`` are :math:`C_i a`, ``moved``
    is ``b`` and ``widened`` is ``v``, each ``p x m``.
    """

    precision: Array
    influence: Array
    covariance: Array
    spread: Array
    pulls: Array
    moved: Array
    widened: Array


def _response(covar: Array, rows: RowMoments, changes: Array) -> _Response:
    """The response to changes of the covariance ``C``, ``p x m x m``."""
    scale = np.sqrt(rows.precision)
    cholesky, _ = quick_cholesky(covar, rows.precision)
    inverse, _ = dpotri(cholesky, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    precision = scale[:, None] * inverse * scale
    influence = np.eye(len(scale)) - covar @ precision
    spread = influence @ changes
    return _Response(
        precision=precision,
        influence=influence,
        covariance=influence @ covar,
        spread=spread,
        pulls=changes @ rows.force,
        moved=spread @ rows.force,
        widened=np.einsum("pij,ij->pi", spread, influence),
    )


def _traces(tau: Array, spread: Array) -> Array:
    """The traces of ``W C_i W C_j``, where ``W = T S``: ``p x p``."""
    own = tau[:, None] * spread
    turned = own.transpose(0, 2, 1).reshape(len(own), -1)
    return own.reshape(len(own), -1) @ turned.T


def ep_derivatives(
    covar: Array,
    rows: RowMoments,
    cavity: tuple[Array, Array],
    factors: HalfLines,
    kernel: RowKernel,
) -> OfScales:
    """Derivatives of the evidence of expectation propagation.

    Args:
        covar: ``C``, ``m x m``.
        rows: At the fixed point.
        cavity: Means and variances there, each ``m``.
        factors: Of the rows.
        kernel: Of the rows.
    """
    at, force = kernel.slopes(), rows.force
    changes = kernel.first(at)
    own = _response(covar, rows, changes)
    weights = 0.5 * (np.outer(force, force) - own.precision)
    of_tau, of_force = _site_slopes(rows, cavity, factors)
    moments = np.concatenate([own.moved, own.widened], axis=1)
    moments = _with_reaction(own.covariance, of_tau, of_force, moments)
    of_mean, of_variance = np.split(moments, 2, axis=1)
    tau = of_tau[0] * of_mean + of_tau[1] * of_variance
    pull = of_force[0] * of_mean + of_force[1] * of_variance
    hessian: Array = (
        kernel.second(at, weights)
        - own.pulls @ own.precision @ own.pulls.T
        + 0.5 * _traces(rows.precision, own.spread)
        + pull @ own.moved.T
        - 0.5 * tau @ own.widened.T
    )
    return _products(changes, weights), hessian


def _products(changes: Array, weights: Array) -> Array:
    return changes.reshape(len(changes), -1) @ weights.ravel()


Slopes = tuple[Array, Array]
"""Derivatives in the posterior mean and in the variance of a row, each ``m``."""


def _site_slopes(
    rows: RowMoments, cavity: tuple[Array, Array], factors: HalfLines
) -> tuple[Slopes, Slopes]:
    r"""Derivatives of the precisions :math:`\tau` and of the forces ``f`` of sites.

    Those of the tilted moments in the cavity's, of which the derivatives of a log
    partition in the variance are combinations of those in the mean, are inverted; then
    :math:`\tau = 1 / v - 1 / s` and :math:`\nu = \mu / v - m / s`.
    """
    mean, s = cavity
    first, second, third, fourth = factors.derivatives(mean, s)
    mean_mean, mean_s = 1 + s * second, first + s * (0.5 * third + first * second)
    variance_mean = s**2 * third
    variance_s = 1 + 2 * s * second
    variance_s += s**2 * (0.5 * fourth + second**2 + first * third)
    det = mean_mean * variance_s - mean_s * variance_mean
    of_mean = variance_s / det, -mean_s / det
    of_s = -variance_mean / det, mean_mean / det
    off = (rows.mean - mean) / s**2
    of_tau = of_s[0] / s**2, of_s[1] / s**2 - rows.variance**-2
    of_force = (
        1 / rows.variance - of_mean[0] / s - off * of_s[0],
        -of_mean[1] / s - off * of_s[1],
    )
    return of_tau, of_force


def _with_reaction(
    covariance: Array, of_tau: Slopes, of_force: Slopes, moments: Array
) -> Array:
    """Changes of means and variances, ``p x 2 m``, with those that sites make then."""
    m = len(covariance)
    square, reaction = covariance**2, np.empty((2 * m, 2 * m))
    for half, columns in enumerate((slice(m), slice(m, None))):
        np.multiply(covariance, -of_force[half], out=reaction[:m, columns])
        np.multiply(square, of_tau[half], out=reaction[m:, columns])
    reaction.ravel()[:: 2 * m + 1] += 1.0
    # LAPACK takes columns first, which the transposes are.
    return dgesv(reaction, moments.T, overwrite_b=1)[2].T


def laplace_derivatives(
    covar: Array, rows: RowMoments, factors: HalfLines, kernel: RowKernel
) -> OfScales:
    r"""Derivatives of Laplace's evidence.

    With the third and fourth derivatives :math:`l_3, l_4` of log probabilities,
    :math:`s = \frac12 \mathrm{diag}(\Sigma) \circ l_3` and :math:`q = S' s` the
    evidence has the first derivatives :math:`\frac12 \langle a a' + 2 q a' - W, C_i
    \rangle`. The mode moves by ``b``, so that

    .. math::
        \tau_i = - l_3 \circ b_i, \qquad a_i = - T b_i, \qquad
        s_i = \tfrac12 l_3 \circ (v_i - (\Sigma \circ \Sigma) \tau_i)
        + \tfrac12 \mathrm{diag}(\Sigma) \circ l_4 \circ b_i, \qquad
        S_i = - S (C_i T + C \, \mathrm{diag}(\tau_i)) S .

    Args:
        covar: ``C``, ``m x m``.
        rows: At the mode.
        factors: Of the rows.
        kernel: Of the rows.
    """
    at, force = kernel.slopes(), rows.force
    changes = kernel.first(at)
    own = _response(covar, rows, changes)
    _, _, third, fourth = factors.derivatives(rows.mean, 0.0)
    s = 0.5 * rows.variance * third
    q = s @ own.influence
    tau = -third * own.moved
    shifted = rows.precision * own.moved
    widened = own.widened - tau @ own.covariance**2
    of_s = 0.5 * (third * widened + rows.variance * fourth * own.moved)
    tilt = (changes @ q) @ shifted.T
    # Symmetric, as are the changes: the part of q counts once with each side.
    weights = np.outer(force + q, force + q) - np.outer(q, q) - own.precision
    hessian: Array = (
        kernel.second(at, 0.5 * weights)
        - own.pulls @ shifted.T
        + 0.5 * _traces(rows.precision, own.spread)
        - 0.5 * tau @ own.widened.T
        + (of_s - (covar @ q) * tau) @ own.moved.T
        - tilt
        - tilt.T
    )
    return _products(changes, 0.5 * weights), hessian
