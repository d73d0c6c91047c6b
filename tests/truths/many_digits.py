"""Expectation propagation and Laplace's approximation in as many digits as are wanted.

Dense and by the book (Rasmussen and Williams 2006, section 3.6 and algorithm 3.1), with
mpmath, for a few rows: what an engine should have found from the very same numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath as mp
from torch import Tensor

DIGITS = 40
Partition = Callable[[int, Any, Any], tuple[Any, Any, Any]]


class Found(NamedTuple):
    """Site precisions, forces, and the log evidence."""

    tau: list[Any]
    forces: Any
    log_evidence: Any


def exact(values: Tensor) -> Any:
    """Converts a tensor to a matrix of mpmath, or a vector to a list."""
    if values.dim() == 1:
        return [mp.mpf(v) for v in values.tolist()]
    return mp.matrix([[mp.mpf(v) for v in row] for row in values.tolist()])


def box_partition(lower: Any, upper: Any, noise: Any, mean: Any, variance: Any) -> Any:
    """Computes log mass of ``N(mean, variance + noise)`` in a box, two derivatives."""
    scale = mp.sqrt(variance + noise)
    below, above = (lower - mean) / scale, (upper - mean) / scale
    if below > 0:  # The tail that is not next to 1.
        below, above = -above, -below
        sign = -1
    else:
        sign = 1
    mass = mp.erfc(-above / mp.sqrt(2)) / 2 - mp.erfc(-below / mp.sqrt(2)) / 2
    heights = [mp.npdf(x) if mp.isfinite(x) else mp.mpf(0) for x in (below, above)]
    turns = [
        x * h if h else mp.mpf(0) for x, h in zip((below, above), heights, strict=True)
    ]
    first = sign * (heights[0] - heights[1]) / mass / scale
    second = (turns[0] - turns[1]) / mass / scale**2 - first**2
    return mp.log(mass), first, second


def conditioned(covariance: Any, tau: Sequence[Any], shift: Sequence[Any]) -> Any:
    """Computes ``Sigma``, the forces ``(I + T C)^-1 s`` and ``log |I + T C|``."""
    system = mp.eye(len(tau)) + mp.diag(tau) * covariance
    inverse = system**-1
    return covariance * inverse, inverse * mp.matrix(shift), mp.log(mp.det(system))


def expectation_propagation(
    covariance: Any,
    prior: Sequence[Any],
    partition: Partition,
    tau: Sequence[Any],
    nu: Sequence[Any],
    tolerance: float = 1e-11,
) -> Found:
    """Finds the fixed point next to some sites, from parallel sweeps.

    Args:
        covariance: ``C``, of the rows.
        prior: Means of the rows.
        partition: Row, cavity mean and variance to the log partition, two derivatives.
        tau: Site precisions to start from.
        nu: Site shifts to start from.
        tolerance: For moments that are left unmatched, in deviations.
    """
    for _ in range(3000):
        shift = [n - t * p for n, t, p in zip(nu, tau, prior, strict=True)]
        sigma, forces, log_det = conditioned(covariance, tau, shift)
        moved = covariance * forces
        worst, sites, value = mp.mpf(0), [], -log_det / 2
        for i, (t, m) in enumerate(zip(tau, prior, strict=True)):
            cavity_ratio = 1 - t * sigma[i, i]
            cavity = sigma[i, i] / cavity_ratio
            centre = m + moved[i] - cavity * forces[i]
            log_z, first, second = partition(i, centre, cavity)
            shrink = 1 + cavity * second
            off = cavity * (first - forces[i]) / mp.sqrt(sigma[i, i])
            worst = max(worst, abs(off), abs(shrink / cavity_ratio - 1))
            sites.append((-second / shrink, (first - second * centre) / shrink))
            value += log_z - (forces[i] * (centre - m) + mp.log(cavity_ratio)) / 2
        if worst < tolerance:
            return Found(list(tau), forces, value)
        tau, nu = ([site[k] for site in sites] for k in (0, 1))
    raise AssertionError(f"no fixed point: {mp.nstr(worst, 3)} deviations are left")


def laplace(
    covariance: Any,
    prior: Sequence[Any],
    log_probability: Callable[[int, Any], tuple[Any, Any, Any]],
    start: Sequence[Any],
    tolerance: float = 1e-14,
) -> Found:
    """Finds the mode next to some utilities of the rows, from Newton's steps.

    Args:
        covariance: ``C``, of the rows.
        prior: Means of the rows.
        log_probability: Row and utility to the log probability and two derivatives.
        start: Utilities of the rows, less their prior means.
        tolerance: For the last step, in posterior deviations.
    """
    u = mp.matrix(list(start))
    for _ in range(100):
        derivatives = [log_probability(i, m + u[i]) for i, m in enumerate(prior)]
        tau = [-second for _, _, second in derivatives]
        shift = [k[1] + t * x for k, t, x in zip(derivatives, tau, u, strict=True)]
        sigma, forces, log_det = conditioned(covariance, tau, shift)
        new = covariance * forces
        step = max(abs(new[i] - u[i]) / mp.sqrt(sigma[i, i]) for i in range(len(tau)))
        u = new
        if step < tolerance:
            value = sum(k[0] for k in derivatives) - (forces.T * u)[0] / 2 - log_det / 2
            return Found(tau, forces, value)
    raise AssertionError(f"no mode: the last step is {mp.nstr(step, 3)} deviations")


class Moments(NamedTuple):
    """Means less prior means, and variances, of utilities anywhere."""

    mean: list[Any]
    variance: list[Any]


def predict(
    posterior: Found, covariance: Any, design: Any, cross: Any, prior: Any
) -> Moments:
    """Computes the posterior at some points.

    Args:
        posterior: The solution.
        covariance: ``C``, of the rows.
        design: ``A``, rows by points.
        cross: Covariance of these points with those of the answers.
        prior: Prior variances of these points.
    """
    size = len(posterior.tau)
    precision = mp.diag(posterior.tau) * (
        (mp.eye(size) + covariance * mp.diag(posterior.tau)) ** -1
    )
    k = cross * design.T
    mean = k * posterior.forces
    explained = k * precision * k.T
    return Moments(list(mean), [p - explained[i, i] for i, p in enumerate(prior)])
