"""Utilities of thousands of items, by the sparse precision of Laplace's approximation.

Every answer is a choice from a set, a row of a sparse design for each option that was
not chosen. A duel is a set of two. A tie of Rao and Kupper's model, in which a
winner has to be ahead by the threshold, is a win of both and a factor of the threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import coo_array, csr_array, diags_array, eye_array

from botorch_pref.errors import BotorchPrefError
from botorch_pref.linalg.sparse_precision import (
    contrast_variances,
    marginal_variances,
    solve_precision,
)


@dataclass(frozen=True, eq=False)
class ChoiceDesign:
    """Choices from sets, as rows of a linear map: each other option less the choice.

    The parameters are the utilities of the items, then weights of the answers: what
    being at home and controls add, and last the threshold of ties where there are ties.

    Attributes:
        rows: A row for each option of a set that was not chosen, ``R x p``.
        starts: Where the rows of each set begin, ``m``.
        counts: How often each choice was made, ``m``.
        num_utilities: How many parameters have the variance of utilities: those of the
            items, and slopes of these in what is known of items.
        num_ties: How often a tie was answered; above 0 the last parameter is the
            threshold.
    """

    rows: csr_array
    starts: np.ndarray
    counts: np.ndarray
    num_utilities: int
    num_ties: float = 0.0

    @cached_property
    def set_numbers(self) -> np.ndarray:
        """The set of each row, ``R``."""
        sizes = np.diff(self.starts, append=self.rows.shape[0])
        return np.repeat(np.arange(len(self.starts)), sizes)

    @cached_property
    def row_counts(self) -> np.ndarray:
        """Counts of the choice from the set of each row, ``R``."""
        return self.counts[self.set_numbers]

    def probabilities(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes how probable the options of all sets are: a softmax of utilities.

        Values are utilities less that of the set's choice, which itself has 0 and no
        row.

        Returns:
            The probabilities of rows' options, which were not chosen, ``R``; and the
            logarithms of those of the choices, ``m``.
        """
        values = self.rows @ parameters
        # Less the largest one, so that no exponential overflows.
        highest = np.maximum(np.maximum.reduceat(values, self.starts), 0.0)
        weights = np.exp(values - highest[self.set_numbers])
        total = np.exp(-highest) + np.add.reduceat(weights, self.starts)
        return weights / total[self.set_numbers], -highest - np.log(total)

    def log_likelihood(self, parameters: np.ndarray) -> float:
        """Computes the logarithm of the probability of all answers.

        Each tie, whose two wins are rows, has the factor ``exp(2 t) - 1`` besides, of
        the threshold ``t``. It is minus infinity where this is not positive, so that
        Newton's method halves a step that leads there.
        """
        threshold = parameters[-1]
        if self.num_ties and threshold <= 0:
            return -np.inf
        total = self.counts @ self.probabilities(parameters)[1]
        if self.num_ties:
            total += self.num_ties * (2 * threshold + np.log(-np.expm1(-2 * threshold)))
        return float(total)

    def gradient(self, parameters: np.ndarray) -> np.ndarray:
        """Computes the gradient of `log_likelihood`, ``p``."""
        chances, _ = self.probabilities(parameters)
        gradient = -(self.rows.T @ (chances * self.row_counts))
        # The derivative of log(exp(2 t) - 1) for each tie.
        if self.num_ties:
            gradient[-1] -= 2 * self.num_ties / np.expm1(-2 * parameters[-1])
        return np.asarray(gradient)

    def information(self, parameters: np.ndarray) -> csr_array:
        r"""Computes the negative Hessian of `log_likelihood`, ``p x p``.

        It is :math:`\sum_s c_s B_s^\top (\operatorname{diag}(\pi_s) - \pi_s
        \pi_s^\top) B_s` of the rows :math:`B_s`, their probabilities :math:`\pi_s` and
        the count :math:`c_s` of each set, plus the curvature of the ties' factor.
        """
        chances, _ = self.probabilities(parameters)
        means = self._mean_rows(chances)
        outer = self.rows.T @ (diags_array(self.row_counts * chances) @ self.rows)
        matrix = csr_array(outer - means.T @ (diags_array(self.counts) @ means))
        return self._with_ties(matrix, self._tie_curvature(parameters)[0])

    def information_slope(
        self, parameters: np.ndarray, draws: np.ndarray
    ) -> np.ndarray:
        r"""Estimates the gradient of ``log|H|`` in the parameters, by draws.

        ``H`` is `information` plus a precision of the prior, which does not depend on
        the parameters. With the rows :math:`B`, probabilities :math:`\pi` and counts
        :math:`c` of all sets, the values :math:`u = B x` of a draw ``x``, and their
        mean and variance under the probabilities of each set, it is the mean of
        :math:`B^\top (c\, \pi\, ((u - \bar u)^2 - \operatorname{Var}_\pi u))` over
        draws.

        Args:
            parameters: ``p``, at which ``H`` is taken.
            draws: Of ``N(0, H^-1)``, ``p x S``.

        Returns:
            The gradient, ``p``.
        """
        chances, log_choice = self.probabilities(parameters)
        slope = np.zeros(len(parameters))
        for draw in draws.T:
            values = self.rows @ draw
            mean = np.add.reduceat(chances * values, self.starts)
            squares = chances * np.square(values - mean[self.set_numbers])
            variance = np.add.reduceat(squares, self.starts)
            # The choice, which has no row, has the value 0.
            variance += np.exp(log_choice) * np.square(mean)
            squares -= chances * variance[self.set_numbers]
            slope += self.rows.T @ (self.row_counts * squares)
        slope /= draws.shape[1]
        if self.num_ties:
            steepness = self._tie_curvature(parameters)[1]
            slope[-1] += steepness * np.square(draws[-1]).mean()
        return slope

    def noise(
        self, parameters: np.ndarray, number: int, generator: np.random.Generator
    ) -> np.ndarray:
        """Draws vectors whose covariance is `information`, ``p x number``.

        With the probabilities ``v`` of the rows of a set, that ``q = 1 - sum(v)`` of
        its choice, and a standard normal ``e`` for each row, the covariance of
        ``sqrt(v) e - v (sqrt(v)' e) / (1 + sqrt(q))`` is ``diag(v) - v v'``.
        """
        chances, log_choice = self.probabilities(parameters)
        scale = np.sqrt(self.row_counts * chances)[:, None]
        noise = scale * generator.standard_normal((len(chances), number), np.float32)
        total = self._sums @ noise / (1 + np.exp(0.5 * log_choice))[:, None]
        vectors = self.rows.T @ noise - self._mean_rows(chances).T @ total
        if self.num_ties:
            deviation = np.sqrt(self._tie_curvature(parameters)[0])
            vectors[-1] += deviation * generator.standard_normal(number)
        return np.asarray(vectors)

    @cached_property
    def _sums(self) -> csr_array:
        """The matrix that adds up rows of sets, ``m x R``."""
        ends = np.append(self.starts, self.rows.shape[0])
        entries = np.ones(self.rows.shape[0])
        return csr_array((entries, np.arange(len(entries)), ends))

    def _mean_rows(self, chances: np.ndarray) -> csr_array:
        """Computes the mean row of each set under ``chances`` of rows, ``m x p``."""
        rows = self.rows
        weights = np.repeat(chances, np.diff(rows.indptr)) * rows.data
        ends = np.append(rows.indptr[self.starts], rows.indptr[-1])
        return csr_array(
            (weights, rows.indices, ends), shape=(len(self.starts), rows.shape[1])
        )

    def _tie_curvature(self, parameters: np.ndarray) -> tuple[float, float]:
        """Computes derivatives of minus the log of the ties' factor in the threshold.

        They are the second one, part of `information`, and the third one; 0 without
        ties, where the last parameter is something else.
        """
        sinh, cosh = np.sinh(parameters[-1]), np.cosh(parameters[-1])
        if not self.num_ties:
            return 0.0, 0.0
        return self.num_ties / sinh**2, -2 * self.num_ties * cosh / sinh**3

    def _with_ties(self, matrix: csr_array, curvature: float) -> csr_array:
        """Adds the curvature of the ties' factor in the threshold, the last entry."""
        if not self.num_ties:
            return matrix
        last = matrix.shape[0] - 1
        corner = csr_array(([curvature], ([last], [last])), shape=matrix.shape)
        return csr_array(matrix + corner)


class SparsePosterior(NamedTuple):
    """Laplace's approximation of the parameters of a `ChoiceDesign`.

    Attributes:
        mean: The mode, ``p``.
        precision: ``p x p``.
        draws: Of the deviation from the mean, ``p x S``.
        prior_variance: Of the utilities.
    """

    mean: np.ndarray
    precision: csr_array
    draws: np.ndarray
    prior_variance: float

    def deviation(self, place: int) -> float:
        """Computes the deviation of one parameter."""
        unit = np.zeros((len(self.mean), 1))
        unit[place] = 1.0
        return float(np.sqrt(solve_precision(self.precision, unit)[place, 0]))

    def contrast_deviations(self, weights: np.ndarray) -> np.ndarray:
        """Computes deviations of parameters' differences to a weighted sum of them.

        Args:
            weights: Of the first ``n`` parameters.

        Returns:
            ``n`` deviations.
        """
        padded = np.zeros(len(self.mean))
        padded[: len(weights)] = weights
        variances = contrast_variances(self.precision, self.draws, padded)
        return np.sqrt(variances[: len(weights)])

    def with_slopes(self, features: np.ndarray) -> SparsePosterior:
        """Returns the posterior of whole utilities in place of their first parts.

        A fit has the utility of an item in two parts: one of its own, and its features
        times slopes, which are parameters. Here the first ``n`` parameters are the sum.

        Args:
            features: Of the ``n`` items, ``n x k``; the parameters from ``n`` on are
                their slopes.
        """
        size, count = len(self.mean), len(features)
        block = coo_array(features)
        shifted = (block.row, block.col + count)
        slopes = csr_array((block.data, shifted), shape=(size, size))
        # The inverse of the identity plus the slopes, whose square is zero.
        back = eye_array(size, format="csr") - slopes
        return self._replace(
            mean=self.mean + slopes @ self.mean,
            precision=csr_array(back.T @ self.precision @ back),
            draws=self.draws + slopes @ self.draws,
        )


@dataclass(frozen=True)
class SparseLaplace:
    """Settings of a fit to a `ChoiceDesign`.

    Weights of the answers and the threshold have a standard normal prior; utilities are
    independent with one variance, which Laplace's evidence chooses under the prior of
    density ``v^(shape - 1) exp(-rate v)``.

    Attributes:
        shape: Of the gamma prior of the variance.
        rate: Of that prior.
        num_samples: Draws of the posterior.
        num_scale_samples: Draws for each gradient of the evidence.
        scale_tolerance: Error of the logarithm of the variance.
        sample_tolerance: Relative residual of the draws.
        block: Draws that are held at a time with a value for each option.
        seed: Of the draws.
    """

    shape: float = 2.0
    rate: float = 0.15
    num_samples: int = 256
    num_scale_samples: int = 16
    scale_tolerance: float = 0.05
    sample_tolerance: float = 1e-3
    block: int = 8
    seed: int = 0

    def fit(self, design: ChoiceDesign) -> SparsePosterior:
        """Fits the variance of utilities by the evidence, then their posterior."""
        parameters = np.zeros(design.rows.shape[1])
        # A threshold of ties has to be positive.
        if design.num_ties:
            parameters[-1] = 0.5

        def slope(log_variance: float) -> float:
            """Computes the slope of the evidence; each mode begins at the last one."""
            nonlocal parameters
            prior = self._prior(design, np.exp(log_variance))
            parameters = posterior_mode(design, prior, parameters)
            return self._evidence_slope(design, prior, parameters)

        log_variance = _falling_root(slope, self.scale_tolerance)
        prior = self._prior(design, np.exp(log_variance))
        parameters = posterior_mode(design, prior, parameters)
        precision = _precision(design, prior, parameters)
        draws = self._draws(design, prior, parameters, precision, self.num_samples)
        return SparsePosterior(
            parameters, precision, draws, float(np.exp(log_variance))
        )

    def _prior(self, design: ChoiceDesign, variance: float) -> np.ndarray:
        """Returns prior precisions of the parameters, ``p``."""
        precisions = np.ones(design.rows.shape[1])
        precisions[: design.num_utilities] = 1 / variance
        return precisions

    def _evidence_slope(
        self, design: ChoiceDesign, prior: np.ndarray, mode: np.ndarray
    ) -> float:
        """Estimates the derivative of the log evidence by the log variance, ``log v``.

        That of the log prior of ``v`` is added. With the mode ``m`` of the ``n``
        utilities, the derivative at a fixed mode is
        ``(m' m / v - n + tr(H^-1) / v) / 2``, with the trace over the utilities.

        Args:
            design: The answers.
            prior: Precisions of the parameters, ``p``: first those of utilities.
            mode: That of the posterior under this prior, ``p``.
        """
        n, inverse_variance = design.num_utilities, prior[0]
        precision = _precision(design, prior, mode)
        draws = self._draws(design, prior, mode, precision, self.num_scale_samples)
        trace = inverse_variance * marginal_variances(precision, draws)[:n].sum()
        direct = 0.5 * (inverse_variance * mode[:n] @ mode[:n] - n + trace)
        # The mode moves with the variance, by H^-1 (m / v), and log|H| with the mode.
        pull = np.zeros((len(mode), 1))
        pull[:n, 0] = inverse_variance * mode[:n]
        motion = solve_precision(precision, pull, self.sample_tolerance)[:, 0]
        indirect = -0.5 * design.information_slope(mode, draws) @ motion
        return float(direct + indirect + self.shape - 1 - self.rate / inverse_variance)

    def _draws(
        self,
        design: ChoiceDesign,
        prior: np.ndarray,
        mode: np.ndarray,
        precision: csr_array,
        number: int,
    ) -> np.ndarray:
        """Draws ``N(0, H^-1)``, ``p x number``, with the precision ``H``.

        They are draws of ``N(0, H)`` times ``H^-1`` (Papandreou and Yuille 2010). Each
        call has the same seed, so that the slope of the evidence is a smooth function
        of the variance.
        """
        generator = np.random.default_rng(self.seed)
        blocks = []
        for start in range(0, number, self.block):
            size = min(self.block, number - start)
            noise = design.noise(mode, size, generator)
            noise += np.sqrt(prior)[:, None] * generator.standard_normal(noise.shape)
            blocks.append(solve_precision(precision, noise, self.sample_tolerance))
        return np.concatenate(blocks, axis=1)


def _precision(
    design: ChoiceDesign, prior: np.ndarray, parameters: np.ndarray
) -> csr_array:
    return csr_array(design.information(parameters) + diags_array(prior))


def posterior_mode(
    design: ChoiceDesign,
    prior: np.ndarray,
    start: np.ndarray,
    *,
    tolerance: float = 1e-12,
    most_steps: int = 100,
) -> np.ndarray:
    """Finds the mode of a concave posterior by Newton's method with halved steps.

    Args:
        design: The answers.
        prior: Precisions of the parameters, whose prior means are zero, ``p``.
        start: Where to begin, ``p``.
        tolerance: Of the squared Newton decrement, divided by the number of parameters.
        most_steps: Steps after which it fails.

    Raises:
        BotorchPrefError: It has not converged.
    """

    def objective(parameters: np.ndarray) -> float:
        penalty = 0.5 * prior @ np.square(parameters)
        return design.log_likelihood(parameters) - penalty

    parameters, value = start, objective(start)
    for _ in range(most_steps):
        gradient = design.gradient(parameters) - prior * parameters
        precision = _precision(design, prior, parameters)
        step = solve_precision(precision, gradient[:, None], 1e-8)[:, 0]
        rise = gradient @ step
        share = 1.0
        while share > 1e-8:
            moved = objective(parameters + share * step)
            # Near the mode the rise is less than what is rounded.
            if moved >= value + 0.1 * share * rise - 1e-12 * abs(value):
                break
            share /= 2
        parameters, value = parameters + share * step, moved
        if rise <= tolerance * len(parameters) and share == 1.0:
            return parameters
    raise BotorchPrefError(
        f"{most_steps} steps of Newton's method have not found the most probable "
        "utilities; please report the answers."
    )


def _falling_root(function: Callable[[float], float], tolerance: float) -> float:
    """Finds where a function of a logarithm falls through zero, from 0 outwards.

    The derivative of an evidence does so at its maximum. Steps are factors of three.

    Args:
        function: Positive below the root and negative above it.
        tolerance: Of the root.
    """
    lower = upper = 0.0
    value = function(0.0)
    step = np.log(3.0) if value > 0 else -np.log(3.0)
    while True:
        lower, upper = upper, upper + step
        if function(upper) * value <= 0:
            return float(brentq(function, lower, upper, xtol=tolerance))


def choice_design(
    winners: np.ndarray,
    losers: np.ndarray,
    starts: np.ndarray,
    counts: np.ndarray,
    num_items: int,
    *,
    num_slopes: int = 0,
    covariates: np.ndarray | None = None,
    is_duel: np.ndarray | None = None,
    num_ties: float = 0.0,
) -> ChoiceDesign:
    """Makes the rows of choices: in each, the other option's value less the choice's.

    The columns are the items, the covariates in their order, and the threshold.

    Args:
        winners: The chosen item of each row, ``R``.
        losers: The other item of each row, ``R``.
        starts: Where the rows of each set begin, ``m``.
        counts: How often each choice was made, ``m``.
        num_items: How many items there are.
        num_slopes: How many of the covariates, the first ones, are of items' features.
            Their weights are slopes, with the prior variance of utilities.
        covariates: How much more the loser of a row has of each, such as 1 where it was
            at home, and -1 where the winner was, ``R x w``.
        is_duel: Whether a row's set could be a tie, ``R``; by default all where there
            are ties.
        num_ties: How often a tie was answered.
    """
    units, count = np.ones(len(winners)), len(winners)
    columns, values, width = [losers, winners], [units, -units], num_items
    thresholds = units if is_duel is None else is_duel.astype(float)
    weighed = [] if covariates is None else [*covariates.T]
    for column in [*weighed, thresholds] if num_ties else weighed:
        columns.append(np.full(count, width))
        values.append(column)
        width += 1
    ends = np.arange(count + 1) * len(columns)
    rows = csr_array(
        (np.stack(values, 1).ravel(), np.stack(columns, 1).ravel(), ends),
        shape=(count, width),
    )
    return ChoiceDesign(rows, starts, counts, num_items + num_slopes, num_ties)
