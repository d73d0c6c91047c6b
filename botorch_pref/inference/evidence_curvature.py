r"""Second derivatives of evidences of few answers in the logs of kernel scales.

They are for fits, and in NumPy, as quick sweeps are: see :mod:`.sweeps`. With the
symbols of :mod:`.conditioning`, :math:`S = (I + C T)^{-1}`, the posterior means
:math:`\mu` of the rows and the first derivatives :math:`C_i` of their covariance, a
change of scale ``i`` moves the means and variances of the rows while sites stay by

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

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dgesv, dpotri

from botorch_pref.inference.engine import Array, OfScales
from botorch_pref.inference.sweeps import HalfLines, quick_cholesky
from botorch_pref.linalg.covariance import RowKernel


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
    """Computes the response to changes of the covariance of rows, ``p x m x m``.

    With the prior covariance ``C`` of rows, ``covar``, and site precisions ``T``, which
    stay: ``W = (C + T^-1)^-1`` is `precision`, ``S = I - C W`` is `influence` and ``S
    C`` the posterior covariance; ``a`` are the forces, and the ``changes`` are ``C_i``.
    """
    scale = np.sqrt(rows.precision)
    cholesky, _ = quick_cholesky(covar, rows.precision)
    # LAPACK fills one triangle of B^-1, with B = I + T^(1/2) C T^(1/2).
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
    """Computes the traces of ``W C_i W C_j``, where ``W = T S``: ``p x p``.

    ``spread`` are ``S C_i``, ``p x m x m``, and ``tau`` the diagonal of ``T``.
    """
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
    r"""Differentiates EP's evidence twice, in the logs of the kernel's ``p`` scales.

    With the forces ``a`` of sites and the derivatives :math:`C_i` of the prior
    covariance the first derivatives are :math:`\frac12 \langle a a' - W, C_i \rangle`.
    The formula of the second ones is at the head of the module; the changes of sites
    in it are those that keep them matching the moments.

    Args:
        covar: ``C``, the prior covariance of rows, ``m x m``.
        rows: At the fixed point.
        cavity: Means and variances of the cavities there, each ``m``.
        factors: Of the rows.
        kernel: Of the rows.

    Returns:
        ``p`` first and ``p x p`` second derivatives.
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
    r"""Differentiates the precisions :math:`\tau` and the forces ``f`` of sites.

    The derivatives are in the tilted mean :math:`\mu` and variance ``v`` of the row.
    Those of :math:`\mu` and ``v`` in the cavity's mean ``m`` and variance ``s`` are
    inverted; they follow from derivatives in ``m`` alone, since a partition ``Z`` has
    :math:`\partial_s Z = \frac12 \partial_m^2 Z`. Then :math:`\tau = 1 / v - 1 / s` and
    :math:`\nu = \mu / v - m / s`, and the change of ``f`` is that of :math:`\nu` less
    :math:`\mu` times that of :math:`\tau`.
    """
    mean, s = cavity
    first, second, third, fourth = factors.derivatives(mean, s)
    mean_mean, mean_s = 1 + s * second, first + s * (0.5 * third + first * second)
    variance_mean = s**2 * third
    variance_s = 1 + 2 * s * second
    variance_s += s**2 * (0.5 * fourth + second**2 + first * third)
    det = mean_mean * variance_s - mean_s * variance_mean
    # Derivatives of m, then those of s: each in mu and in v.
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
    r"""Adds to changes of means and variances, ``p x 2 m``, those that sites make.

    The ``moments``, which are overwritten, are the changes ``b`` of means and ``v`` of
    variances while sites stay. Those with the sites, ``x``, solve the ``2 m`` linear
    equations :math:`x_\mu = b + \Sigma f(x)` and :math:`x_v = v - (\Sigma \circ \Sigma)
    \tau(x)`: the slopes times ``x`` are the changes ``f`` of the sites' forces and
    :math:`\tau` of their precisions. ``covariance`` is :math:`\Sigma` of rows.
    """
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
    r"""Differentiates Laplace's evidence twice, in the logs of the kernel's scales.

    With the derivatives :math:`C_i` of the prior covariance ``C`` of rows, the site
    precisions ``T``, the forces ``a``, :math:`S = (I + C T)^{-1}`, :math:`W = T S`, the
    posterior covariance :math:`\Sigma = S C`, :math:`b_i = S C_i a` and :math:`v_i =
    \mathrm{diag}(S C_i S')`, with the third and fourth derivatives
    :math:`l_3, l_4` of log probabilities, :math:`s = \frac12 \mathrm{diag}(\Sigma)
    \circ l_3` and :math:`q = S' s` the evidence has the first derivatives
    :math:`\frac12 \langle a a' + 2 q a' - W, C_i \rangle`. The mode moves by
    :math:`b_i` with the log of scale ``i``, so that the other factors change by

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

    Returns:
        ``p`` first and ``p x p`` second derivatives.
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
    # The symmetric part of a a' + 2 q a' - W, since changes are symmetric.
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
