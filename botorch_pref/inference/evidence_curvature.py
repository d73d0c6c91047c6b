r"""Few answers, in NumPy: sweeps, and second derivatives of evidences.

Matrices of a hundred rows are so small that torch takes longer to start an operation
than to do it. Quick sweeps say where those of an engine start, which check them:
nothing depends on whether they arrive. Second derivatives in the logs of a kernel's
scales are for fits.

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
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, cast

import numpy as np
import torch
from scipy.linalg.lapack import dgesv, dpotrf, dpotri, dtrtrs
from scipy.special import erfcx, ndtr
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.inference.conditioning import SiteSolver
from botorch_pref.inference.engine import Array, OfScales
from botorch_pref.likelihoods.factors import (
    BoxFactors,
    CorrelatedBoxFactors,
    Factors,
    ScalarFactors,
)
from botorch_pref.likelihoods.lapses import LapsingFactors
from botorch_pref.linalg.covariance import RowKernel

MOST_ROWS = 256
"""Beyond so many rows the matrices take the time, and not the operations."""


def row_arrays(solver: SiteSolver, prior: Tensor) -> tuple[Array, Array] | None:
    """Prior covariance and means of rows in NumPy.

    Args:
        solver: Knows the covariance, ``m x m``.
        prior: The means, ``m``.

    Returns:
        None for a batch, for many rows, off the CPU, and where rows outnumber points.
    """
    covar, m = solver.row_covariance, prior.shape[-1]
    if covar is None or covar.dim() > 2 or covar.device.type != "cpu" or m > MOST_ROWS:
        return None
    return None if prior.dim() > 1 else (covar.numpy(), prior.numpy())


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
    def from_factors(cls, factors: Factors) -> HalfLines | None:
        """Reads the half-lines of factors; None for factors of another kind."""
        is_of_boxes = type(factors) in (BoxFactors, CorrelatedBoxFactors)
        ends = cast("BoxFactors", factors).half_lines if is_of_boxes else None
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


class LapsingLines(NamedTuple):
    """Probits of rows that may be guesses: see :class:`.LapsingFactors`.

    ``guess`` and ``attention`` are those of :class:`.LapsingBoxes`.
    """

    lines: HalfLines
    guess: Array
    attention: Array

    @classmethod
    def from_factors(cls, factors: Factors) -> LapsingLines | None:
        """Reads the half-lines of factors; None for factors of another kind."""
        if not isinstance(factors, LapsingFactors):
            return None
        boxes = factors.boxes
        if (ends := boxes.half_lines) is None:
            return None
        of_lapses = (part.detach().numpy() for part in (boxes.guess, boxes.attention))
        return cls(HalfLines(*(part.numpy() for part in ends)), *of_lapses)

    def slopes(self, mean: Array, variance: Array | float) -> tuple[Array, Array]:
        """Those of `HalfLines`, but that no answer makes a row less certain."""
        slope, x, h, g = self.lines._hazards(mean, variance)
        attentive = self.attention * ndtr(x)
        share = attentive / (attentive + self.guess)
        bend = np.maximum(share * (g - (1 - share) * h**2), 0.0)
        return share * h * slope, bend * slope**2


# --- Sweeps of expectation propagation


class NoQuickSweep(Exception):
    """An answer asks for a negative precision, which quick sweeps do not take."""


@dataclass(frozen=True, eq=False)
class QuickSweep:
    """A sweep in NumPy: see :class:`.Sweep`. Posterior and cavities are Gaussian.

    ``half`` is ``L^-1 T^(1/2) C`` with the Cholesky factor ``L`` of ``B``; ``means``
    and ``variances`` are those of the rows, ``m`` each.
    """

    sites: Array
    step: Array
    scale: Array
    step_length: np.float64
    mismatch: np.float64
    covar: Array
    half: Array
    means: Array
    variances: Array
    proper: ClassVar = np.True_
    is_proper: ClassVar[bool] = True

    @cached_property
    def residual(self) -> np.float64:
        """The mismatch, or how far matching all would move the posterior."""
        m, step = len(self.means), self.step
        tau, shifts = step[:m], step[m:] - step[:m] * self.means
        moved = self.covar @ shifts - (self.half @ shifts) @ self.half
        movement = np.abs(moved / np.sqrt(self.variances)).max()
        spread = np.abs(tau) @ self.variances
        return np.float64(max(self.mismatch, movement, spread))


@dataclass(frozen=True, eq=False)
class QuickSweeps:
    """Sweeps of few answers in NumPy, in a fifth of the time.

    They take no precise sites apart, so that their rounding errors are larger, and only
    sites of positive precision.

    Attributes:
        covar: ``C``, ``m x m``.
        prior: The prior means of the rows.
        tilted: From means and variances of cavities, each ``m``, to the first
            derivatives of log partitions, minus the second ones, and the ratios of
            tilted variances to those of cavities.
    """

    covar: Array
    prior: Array
    tilted: Callable[[Array, Array], tuple[Array, Array, Array]]

    @classmethod
    def from_problem(
        cls, solver: SiteSolver, prior: Tensor, factors: ScalarFactors
    ) -> QuickSweeps | None:
        """Makes those of a problem; None where `row_arrays` has none."""
        arrays = row_arrays(solver, prior)
        if arrays is None or not solver.resolves_all:
            return None
        return cls(*arrays, _tilted(factors))

    def __call__(self, sites: Array) -> QuickSweep:
        """The sweep from sites, ``2 m``.

        Raises:
            PrecisionError: Rounding leaves no Gaussian.
            NoQuickSweep: A precision is negative, or is to be.
        """
        m = len(self.prior)
        tau, nu = sites[:m], sites[m:]
        if not tau.min() >= 0:
            raise NoQuickSweep
        with np.errstate(all="ignore"):
            # Rasmussen and Williams (2006), algorithm 3.5: the posterior by B = L L',
            # from which each site is removed (3.56).
            cholesky, scaled = quick_cholesky(self.covar, tau)
            half, _ = dtrtrs(cholesky, scaled.T, lower=1, overwrite_b=1)
            variance = self.covar.diagonal() - np.einsum("ij,ij->j", half, half)
            shifts = nu - tau * self.prior
            moved = self.covar @ shifts - (half @ shifts) @ half
            mean, force = self.prior + moved, shifts - tau * moved
            cavity_ratio = 1 - tau * variance
            cavity_variance = variance / cavity_ratio
            cavity_mean = mean - cavity_variance * force
            if not (
                variance.min() > 0
                and cavity_ratio.min() > 0
                and np.isfinite(cavity_mean).all()
            ):
                raise PrecisionError("Rounding leaves no posterior of the rows.")
            # The tilted moments (3.58), and the sites that give the cavities these.
            first, bend, ratio = self.tilted(cavity_mean, cavity_variance)
            target_tau = bend / ratio
            if not target_tau.min() >= 0:
                raise NoQuickSweep
            target_nu = (first + bend * cavity_mean) / ratio
            deviation = np.sqrt(variance)
            step = np.concatenate([target_tau - tau, target_nu - nu])
            scale = np.concatenate([variance, deviation])
            shift = np.abs(cavity_variance * (first - force) / deviation).max()
            mismatch = max(shift, np.abs(ratio / cavity_ratio - 1).max())
        return QuickSweep(
            sites=sites,
            step=step,
            scale=scale,
            step_length=np.float64(np.abs(step) @ scale),
            mismatch=np.float64(mismatch),
            covar=self.covar,
            half=half,
            means=mean,
            variances=variance,
        )


def _tilted(
    factors: ScalarFactors,
) -> Callable[[Array, Array], tuple[Array, Array, Array]]:
    """The tilted moments of `QuickSweeps`, of probits in few operations."""
    lines = HalfLines.from_factors(factors) or LapsingLines.from_factors(factors)

    def of_lines(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        first, bend = cast("HalfLines | LapsingLines", lines).slopes(mean, variance)
        return first, bend, 1 - variance * bend

    def of_factors(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        tilted = factors.tilted(torch.from_numpy(mean), torch.from_numpy(variance))
        return tilted.first.numpy(), -tilted.second.numpy(), tilted.ratio.numpy()

    return of_factors if lines is None else of_lines


# --- Second derivatives of evidences


class RowMoments(NamedTuple):
    """Site precisions, means, variances and forces of rows at a solution: ``m``."""

    precision: Array
    mean: Array
    variance: Array
    force: Array


class _Response(NamedTuple):
    """The change of a posterior with the covariance while its sites stay.

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
    weighted = tau[:, None] * spread
    turned = weighted.transpose(0, 2, 1).reshape(len(weighted), -1)
    return weighted.reshape(len(weighted), -1) @ turned.T


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
    kernel_slopes, force = kernel.slopes(), rows.force
    changes = kernel.first(kernel_slopes)
    response = _response(covar, rows, changes)
    weights = 0.5 * (np.outer(force, force) - response.precision)
    of_tau, of_force = _site_slopes(rows, cavity, factors)
    moments = np.concatenate([response.moved, response.widened], axis=1)
    moments = _with_reaction(response.covariance, of_tau, of_force, moments)
    of_mean, of_variance = np.split(moments, 2, axis=1)
    tau = of_tau[0] * of_mean + of_tau[1] * of_variance
    pull = of_force[0] * of_mean + of_force[1] * of_variance
    hessian: Array = (
        kernel.second(kernel_slopes, weights)
        - response.pulls @ response.precision @ response.pulls.T
        + 0.5 * _traces(rows.precision, response.spread)
        + pull @ response.moved.T
        - 0.5 * tau @ response.widened.T
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
    kernel_slopes, force = kernel.slopes(), rows.force
    changes = kernel.first(kernel_slopes)
    response = _response(covar, rows, changes)
    _, _, third, fourth = factors.derivatives(rows.mean, 0.0)
    s = 0.5 * rows.variance * third
    q = s @ response.influence
    tau = -third * response.moved
    shifted = rows.precision * response.moved
    widened = response.widened - tau @ response.covariance**2
    of_s = 0.5 * (third * widened + rows.variance * fourth * response.moved)
    tilt = (changes @ q) @ shifted.T
    # Symmetric, as are the changes: the part of q counts once with each side.
    weights = np.outer(force + q, force + q) - np.outer(q, q) - response.precision
    hessian: Array = (
        kernel.second(kernel_slopes, 0.5 * weights)
        - response.pulls @ shifted.T
        + 0.5 * _traces(rows.precision, response.spread)
        - 0.5 * tau @ response.widened.T
        + (of_s - (covar @ q) * tau) @ response.moved.T
        - tilt
        - tilt.T
    )
    return _products(changes, 0.5 * weights), hessian
