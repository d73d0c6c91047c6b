r"""Sweeps of expectation propagation: one loop, with acceleration and damping.

A sweep maps the sites :math:`x`, precisions :math:`\tau` before shifts :math:`\nu`, to
sites :math:`g(x)` that match the tilted moments. In the symbols of :func:`fixed_point`,

1. evaluate the sweep at ``x``: the residual :math:`f = g(x) - x`;
2. stop where the moments match;
3. propose :math:`x^+ = x + f - (\Delta X + \Delta F) \gamma`, Anderson's acceleration
   (Walker and Ni 2011, type II), or :math:`x + \lambda f` where that has negative
   precisions that no answer asks for;
4. evaluate the sweep at :math:`x^+`: where there is no posterior, or the next step is
   more than twice as long, go back to ``x``, halve :math:`\lambda` and forget
   :math:`\Delta X, \Delta F`; else double :math:`\lambda` up to 1;
5. go on from there.

Arrays are torch's, or NumPy's where answers are few: only names that both have are
used. Matrices of a hundred rows are so small that torch takes longer to start an
operation than to do it. Quick sweeps say where those of an engine start, which check
them: nothing depends on whether they arrive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast

import numpy as np
import torch
from scipy.linalg.lapack import dposv, dpotrf, dtrtrs
from scipy.special import erfcx, ndtr
from torch import Tensor

from botorch_pref.errors import PrecisionError
from botorch_pref.inference.conditioning import SiteSolver
from botorch_pref.inference.engine import Array
from botorch_pref.likelihoods.factors import (
    BoxFactors,
    CorrelatedBoxFactors,
    Factors,
    ScalarFactors,
)
from botorch_pref.likelihoods.lapses import LapsingFactors
from botorch_pref.numerics.argument_checks import check_count

Arrays = Any
"""Tensors or arrays of NumPy."""


class Sweep(Protocol):
    """A sweep from some sites, ``batch_shape x 2 m``; the rest is ``batch_shape``."""

    @property
    def sites(self) -> Arrays:
        """Sites from which the sweep starts, ``x``."""

    @property
    def step(self) -> Arrays:
        """Step to the sites that match, ``f``, ``batch_shape x 2 m``."""

    @property
    def scale(self) -> Arrays:
        """Units in which changes of sites compare, ``batch_shape x 2 m``."""

    @property
    def step_length(self) -> Arrays:
        """Length of the step in these units."""

    @property
    def mismatch(self) -> Arrays:
        """A lower bound of the residual, at less cost."""

    @property
    def residual(self) -> Arrays:
        """Distance to the fixed point, in posterior standard deviations."""

    @property
    def proper(self) -> Arrays:
        """Whether posterior and cavities are Gaussian."""

    @property
    def is_proper(self) -> bool:
        """Whether they are in all elements of the batch."""


SweepT = TypeVar("SweepT", bound=Sweep)

_ROUNDING = 16.0


class AndersonMemory:
    r"""Memory of the last residuals ``g(x) - x``, from which a fixed point follows.

    With the differences :math:`\Delta X, \Delta F` of the last iterates and residuals,
    the next iterate is :math:`x + f - (\Delta X + \Delta F) \gamma`, where
    :math:`\gamma` minimises :math:`\|D (f - \Delta F \gamma)\|` (Walker and Ni 2011,
    type II).

    Args:
        size: The number of iterates that are remembered, at least 2.
        total: Sums the products of entries over processes that have some each.

    Raises:
        FeedbackError: The size is no such number.
    """

    def __init__(
        self, size: int = 4, total: Callable[[Arrays], Arrays] = lambda values: values
    ) -> None:
        """Begins without iterates ``x``, images ``g(x)`` and residuals ``g(x) - x``."""
        check_count("size", size, at_least=2)
        self._size, self._total = size, total
        self._last: tuple[Arrays, Arrays] | None = None
        self._image_changes: list[Arrays] = []
        self._residual_changes: list[Arrays] = []

    def extrapolate(self, x: Arrays, residual: Arrays, scale: Arrays) -> Arrays:
        """Stores one more residual at ``x``, and proposes the next iterate.

        All are ``batch_shape x k``; ``scale`` weights entries of residuals. The first
        proposal is the image ``x + residual``; later ones are that image less a
        combination of the last changes of images, ``size - 1`` at most, whose
        coefficients would leave the smallest scaled residual.
        """
        image, last = x + residual, self._last
        self._last = image, residual
        if last is None:
            return image
        recent = slice(1 - self._size, None)
        self._image_changes = [*self._image_changes, image - last[0]][recent]
        self._residual_changes = [*self._residual_changes, residual - last[1]][recent]
        # Least squares in the scaled changes of residuals, by normal equations, whose
        # sums go over all processes.
        stack = _module(x).stack
        weighted = scale[..., None] * stack(self._residual_changes, -1)
        normal = self._total(weighted.mT @ weighted)
        target = self._total(weighted.mT @ (scale * residual)[..., None])
        gamma = _solve_normal(normal, target)
        return image - (stack(self._image_changes, -1) @ gamma)[..., 0]


def _module(values: Arrays) -> Any:
    return torch if isinstance(values, Tensor) else np


def _solve_normal(normal: Arrays, target: Arrays) -> Arrays:
    """Solves least squares; returns zero where there is no solution in these digits.

    The equations are ``normal gamma = target``, ``batch_shape x k x k`` and ``... x k x
    1``; ``normal`` is changed in place. Its diagonal grows by ``16 k`` roundings, so
    that differences that repeat others count little. Where all sites but two or three
    are equal the ``k`` differences span fewer than ``k`` directions, and rounding may
    leave no factor all the same.
    """
    digits = _module(normal).finfo(normal.dtype)
    ridge = _ROUNDING * normal.shape[-1] * digits.eps
    if not isinstance(normal, Tensor):
        normal.ravel()[:: len(normal) + 1] *= 1 + ridge
        _, solution, info = dposv(normal, target)
        solved = info == 0 and np.isfinite(solution).all()
        return solution if solved else np.zeros_like(target)
    normal.diagonal(dim1=-2, dim2=-1).mul_(1 + ridge).add_(digits.tiny)
    cholesky, info = torch.linalg.cholesky_ex(normal)
    solution = torch.cholesky_solve(target, cholesky)
    solved = (info == 0)[..., None, None] & solution.isfinite().all(-2, keepdim=True)
    return torch.where(solved, solution, 0.0)


# Steps this short, for want of a posterior after longer ones, lead nowhere.
_MIN_DAMPING = 2.0**-20


class Damping:
    """Share of a step that each element of a batch takes, lambda.

    Args:
        sweep: The first one.
        solver: Knows what other processes find.
    """

    def __init__(self, sweep: Sweep, solver: SiteSolver) -> None:
        """Begins with whole steps, accelerated where there is a posterior."""
        self._share = _module(sweep.sites).ones_like(sweep.mismatch)
        # Elements whose last step was accepted: the others go on without acceleration.
        self._accelerated = sweep.proper
        # Whether an element takes shorter steps, or has to go back.
        self._is_active = not sweep.is_proper
        self._in_all = solver.in_all_processes

    def next_sites(self, sweep: Sweep, memory: AndersonMemory) -> Arrays:
        """Chooses accelerated sites next, or damped ones after a step taken back.

        Damped are also those where acceleration alone makes a precision negative: one
        that is negative after the damped step too is what answers ask for. The memory
        takes in the present sweep in any case.
        """
        accelerated = memory.extrapolate(sweep.sites, sweep.step, sweep.scale)
        num_rows = accelerated.shape[-1] // 2
        tau = accelerated[..., :num_rows]
        if not self._is_active and bool(self._in_all((tau >= 0).all(-1)).all()):
            return accelerated
        damped = sweep.sites + self._share[..., None] * sweep.step
        is_asked_for = damped[..., :num_rows] < 0
        allowed = self._in_all(((tau >= 0) | is_asked_for).all(-1))
        allowed = (self._accelerated & allowed)[..., None]
        return _module(damped).where(allowed, accelerated, damped)

    def adapt(self, accepted: Arrays, all_accepted: bool) -> None:
        """Halves steps of elements of the batch that had to go back, doubles others.

        ``accepted``, ``batch_shape``, is False where an element had to: it goes on
        without acceleration. No step is longer than a whole one.
        """
        if all_accepted and not self._is_active:
            return
        module = _module(self._share)
        longer, shorter = module.clip(2 * self._share, None, 1.0), 0.5 * self._share
        self._accelerated = accepted
        self._share = module.where(accepted, longer, shorter)
        self._is_active = not all_accepted or bool((self._share < 1).any())

    def has_ended(self, converged: Arrays, any_converged: bool) -> bool:
        """Tells whether all have converged, or take steps too short to matter.

        ``converged`` is ``batch_shape``, and ``any_converged`` whether any of it is
        True.
        """
        if self._is_active:
            converged = converged | (self._share < _MIN_DAMPING)
        elif not any_converged:
            return False
        return bool(converged.all())


# Accelerated steps may well be a little longer than the one before.
_LONGER = 2.0


def fixed_point(
    evaluate: Callable[[Arrays], SweepT],
    sweep: SweepT,
    solver: SiteSolver,
    *,
    tolerance: float,
    max_iterations: int,
    memory: int,
) -> tuple[SweepT, int]:
    """Sweeps in parallel until tilted and posterior moments agree.

    A step is taken back where it leaves no posterior, or where the next one would be
    more than twice as long: answers about almost the same row overshoot together, each
    by little. Where the sweeps lead nowhere, the one with the smallest mismatch is
    returned.

    Args:
        evaluate: Gives the sweep from sites; raises a ``PrecisionError`` where rounding
            leaves no posterior.
        sweep: The first one.
        solver: Knows what other processes find.
        tolerance: Of the residual.
        max_iterations: The largest number of evaluations, the first one included, but
            for one to go back.
        memory: The number of iterates that Anderson's acceleration remembers.

    Returns:
        The last sweep, and the number of evaluations.
    """
    damping, history = Damping(sweep, solver), AndersonMemory(memory, solver.total)
    best_sites, smallest, iterations = sweep.sites, sweep.mismatch, 1
    module = _module(sweep.sites)
    while iterations < max_iterations:
        converged = sweep.mismatch <= tolerance
        any_converged = bool(converged.any())
        if any_converged:
            converged = sweep.residual <= tolerance
        if damping.has_ended(converged, any_converged):
            break
        sites = damping.next_sites(sweep, history)
        if any_converged:
            sites = module.where(converged[..., None], sweep.sites, sites)
        iterations += 1
        try:
            new = evaluate(sites)
            accepted = new.proper & (new.step_length <= _LONGER * sweep.step_length)
        except PrecisionError:
            # Too precise for a posterior; nothing says which element of a batch it was,
            # so that none is accepted.
            new, accepted = sweep, sweep.proper & False
        all_accepted = bool(accepted.all())
        damping.adapt(accepted, all_accepted)
        if not all_accepted:
            history = AndersonMemory(memory, solver.total)
            if bool(accepted.any()):
                new = evaluate(module.where(accepted[..., None], sites, sweep.sites))
                iterations += 1
            else:
                new = sweep
        sweep = new
        better = sweep.mismatch < smallest
        best_sites = module.where(better[..., None], sweep.sites, best_sites)
        smallest = module.fmin(sweep.mismatch, smallest)
    # A last sweep that has converged stays, though a mismatch before was smaller.
    worse = (sweep.mismatch > smallest) & (sweep.residual > tolerance)
    if bool(worse.any()):
        sites = module.where(worse[..., None], best_sites, sweep.sites)
        sweep = evaluate(sites)
    return sweep, iterations


# --- Quick sweeps of few answers

MOST_ROWS = 256
"""Number of rows beyond which the matrices take the time, and not the operations."""


def row_arrays(solver: SiteSolver, prior: Tensor) -> tuple[Array, Array] | None:
    """Returns prior covariance and means of rows in NumPy.

    Args:
        solver: Knows the covariance, ``m x m``.
        prior: The means, ``m``.

    Returns:
        None for a batch, for more than `MOST_ROWS` rows, off the CPU, and where rows
        outnumber points.
    """
    covar, m = solver.row_covariance, prior.shape[-1]
    if covar is None or covar.dim() > 2 or covar.device.type != "cpu" or m > MOST_ROWS:
        return None
    return None if prior.dim() > 1 else (covar.numpy(), prior.numpy())


def quick_cholesky(covar: Array, tau: Array) -> tuple[Array, Array]:
    """Computes the lower Cholesky factor of ``B = I + T^(1/2) C T^(1/2)``.

    ``covar`` is the prior covariance ``C`` of rows, ``m x m``, ``tau`` the precisions
    ``T`` of sites, ``m``. The second result is ``C T^(1/2)``. LAPACK leaves numbers
    above the diagonal that are no part of the factor.
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
        """Computes the first derivatives, and minus the second ones, each ``m``."""
        slope, _, h, g = self._hazards(mean, variance)
        return h * slope, g * slope**2

    def derivatives(self, mean: Array, variance: Array | float) -> tuple[Array, ...]:
        """Computes four derivatives of log partitions in cavity means, each ``m``.

        ``mean`` and ``variance`` are those of the cavities, ``m``; a variance of 0
        gives the derivatives of log probabilities.
        """
        slope, x, h, g = self._hazards(mean, variance)
        third = g * (x + h) - h * (1 - g)
        fourth = 2 * g * (1 - g) - third * (x + 2 * h)
        return h * slope, -g * slope**2, third * slope**3, fourth * slope**4

    def _hazards(self, mean: Array, variance: Array | float) -> tuple[Array, ...]:
        """Computes the slope of ``x`` in the mean, ``x``, ``h`` and ``g``, each ``m``.

        ``x`` is the mean's distance into the half-line in deviations, noise included;
        ``h`` is the normal density over the distribution function there, ``g = h (x +
        h)``.
        """
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
        """Computes the first derivatives, and minus the second ones, each ``m``.

        They are of the log of ``guess + attention Phi(x)``, where `share` is the second
        term's part of it. A second derivative above zero, where an answer surprises,
        counts as zero, as in :meth:`.LapsingFactors.tilted`: no answer makes a row less
        certain.
        """
        slope, x, h, g = self.lines._hazards(mean, variance)
        attentive = self.attention * ndtr(x)
        share = attentive / (attentive + self.guess)
        bend = np.maximum(share * (g - (1 - share) * h**2), 0.0)
        return share * h * slope, bend * slope**2


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
        """The larger of the mismatch and the movement by a step that matches all.

        As :attr:`.EPState.residual`: the worst mean moves by ``Sigma (dnu - dtau
        mean)``, in deviations, and variances by ``|dtau| Sigma_ii`` in sum.
        """
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
        """Makes the quick sweeps of a problem, whose rows have prior means ``prior``.

        None where `row_arrays` returns None, and where the prior knows a row exactly.
        """
        arrays = row_arrays(solver, prior)
        if arrays is None or not solver.resolves_all:
            return None
        return cls(*arrays, _tilted(factors))

    def __call__(self, sites: Array) -> QuickSweep:
        """Sweeps once from sites, ``2 m``.

        Raises:
            PrecisionError: Rounding leaves no Gaussian.
            NoQuickSweep: A site, or one that matches, has a negative precision.
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
    """Makes the tilted moments of `QuickSweeps`, of probits in few operations.

    That is a function of means and variances of cavities, each ``m``, to first
    derivatives of log partitions, minus the second ones, and ratios of variances.
    """
    lines = HalfLines.from_factors(factors) or LapsingLines.from_factors(factors)

    def of_lines(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        first, bend = cast("HalfLines | LapsingLines", lines).slopes(mean, variance)
        return first, bend, 1 - variance * bend

    def of_factors(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        tilted = factors.tilted(torch.from_numpy(mean), torch.from_numpy(variance))
        return tilted.first.numpy(), -tilted.second.numpy(), tilted.ratio.numpy()

    return of_factors if lines is None else of_lines
