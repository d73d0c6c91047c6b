r"""Thurstone's likelihoods of utilities that are heard with Gaussian noise.

Each item of a set is heard as :math:`f_i + \epsilon_i` with
:math:`\epsilon_i \sim N(0, \sigma^2)`, once for the whole answer (Thurstone 1927).
Differences of heard items share the noise of these items. That noise ``R`` is split
into its smallest eigenvalue, which is independent, and the rest. Given the heard value
of one item the others are independent, which leaves integrals on a line for the
probabilities of choices and rankings, by rules on one grid for all items of a set.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from botorch.utils.probability.utils import ndtr
from gpytorch.constraints import GreaterThan
from gpytorch.priors import LogNormalPrior, Prior
from torch import Tensor
from torch.distributions import Bernoulli
from torch.nn.functional import pad

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings, Validity
from botorch_pref.likelihoods.factors import (
    BoxFactors,
    CorrelatedBoxFactors,
    ScalarFactors,
)
from botorch_pref.likelihoods.protocol import (
    SMALLEST,
    DuelLink,
    GaussianNoise,
    in_spreads,
    register_likelihood,
    register_positive,
    register_prior,
    set_positive,
)
from botorch_pref.linalg import SparseDesign, pair_rows, stack_rows
from botorch_pref.linalg.covariance import joint_shape
from botorch_pref.linalg.sparse_design import NoiseBlocks
from botorch_pref.numerics.normal import log_ndtr, probit_win_variance

_THRESHOLD_IN_NOISE_DEVIATIONS = 0.5
_LOG_NOISE, _NOISE_SPREAD = 1.0, 1.0
"""Mean and deviation of the logarithm of the noise among people who do not guess."""
# h(Phi(x)) = sum_j c_j exp(-a_j x^2) within 8.1e-8 nats for every x; reproduced by
# benchmarks/fit_entropy_gaussians.py --terms 3.
_ENTROPY_COEFFICIENTS = (0.9999029396900049, -0.31793185570114957, 0.011176176913576474)
_ENTROPY_EXPONENTS = (0.4894522438049068, 0.5657159646826896, 0.7843069257495794)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


@dataclass(frozen=True, eq=False)
class ProbitLink(DuelLink):
    r"""Thurstone's link :math:`g(u) = \Phi(u / s)` with :math:`s^2` twice the noise.

    .. math:: E[g(u)] = \Phi\big(\mu / \sqrt{s^2 + \tau^2}\big).

    The entropy :math:`h(\Phi(x))` is replaced by a sum of three Gaussians
    :math:`\sum_j c_j e^{-a_j x^2}`, right within 8.1e-8 nats for every x, whose
    expectation is exact for every :math:`\tau`: with
    :math:`\rho_j = 1 + 2 a_j \tau^2 / s^2`,

    .. math:: E[h(g(u))] = \sum_j c_j \rho_j^{-1/2} e^{-a_j (\mu / s)^2 / \rho_j}.

    (Houlsby et al. 2011 use a single Gaussian, right within 1.9e-3 nats.)

    Args:
        noise: :math:`\sigma^2`, the variance per presented item, positive. A tensor is
            broadcast against the batch and may require a gradient.
    """

    noise: Tensor | float = 1.0

    def log_win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding in both tails."""
        return log_ndtr(mean * (2 * self.noise + variance).rsqrt())

    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes the expected entropy of an answer, right within 8.1e-8 nats."""
        scale = 2 * self.noise
        square, share = mean.square() / scale, variance / scale
        return expected_gaussians(
            mean.new_tensor(_ENTROPY_COEFFICIENTS),
            mean.new_tensor(_ENTROPY_EXPONENTS),
            square,
            share,
        )

    def win_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class: the density of ``N(0, s^2 + variance)`` at the mean."""
        inverse = (2 * self.noise + variance).rsqrt()
        return inverse * torch.exp(-0.5 * (mean * inverse).square()) * _INV_SQRT_2PI

    def win_variance(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right within 1e-11 of itself."""
        return probit_win_variance(mean, variance, 2 * self.noise)


def expected_gaussians(
    coefficients: Tensor, exponents: Tensor, square: Tensor, variance: Tensor
) -> Tensor:
    r"""Computes :math:`E[\sum_j c_j e^{-a_j x^2}]` for Gaussian ``x``, for entropies.

    Args:
        coefficients: :math:`c`, one for each term.
        exponents: :math:`a`, positive.
        square: The squared mean of ``x``, any shape.
        variance: Of ``x``, nonnegative, broadcastable with it.
    """
    terms = -1, *[1] * max(square.dim(), variance.dim())
    coefficients, exponents = coefficients.view(terms), exponents.view(terms)
    spread = 1 + 2 * exponents * variance
    gaussians = torch.exp(-(exponents / spread) * square)
    return (coefficients * spread.rsqrt() * gaussians).sum(0)


@register_likelihood
class PairwiseProbitLikelihood(GaussianNoise[Feedback]):
    r"""Each item's utility is heard with Gaussian noise; the larger one wins.

    .. math::
        P(w \succ l) = \Phi\Big(\frac{f_w - f_l - \delta}{\sqrt{2 \sigma^2}}\Big),
        \qquad
        P(a \sim b) = \Phi\Big(\frac{\delta - f_a + f_b}{\sqrt{2 \sigma^2}}\Big)
        - \Phi\Big(\frac{-\delta - f_a + f_b}{\sqrt{2 \sigma^2}}\Big)

    (Thurstone 1927; Chu and Ghahramani 2005; equation 3 of Jensen and Nielsen 2014; the
    threshold is that of Glenn and David 1960). A choice is of the item that is heard
    as the best of its set, a ranking is the order in which all items were heard, each
    item once.

    Args:
        noise: :math:`\sigma^2`, the variance *per presented item*, positive. Fixed
            unless it has a prior: only its ratio to the kernel's output scale is
            identified. ``raw_noise.requires_grad_(True)`` learns it without a prior.
        tie_threshold: :math:`\delta`, positive: a heard difference of at most
            this size, of either sign, is a tie. Learned. None if there are no ties.
        noise_prior: A prior on the noise, which is then learned.
        tie_threshold_prior: A prior on the threshold.

    Raises:
        FeedbackError: A parameter that is not positive, or a prior on no threshold.
    """

    explains: ClassVar = {
        Comparisons: BoxFactors,
        Choices: CorrelatedBoxFactors,
        Rankings: CorrelatedBoxFactors,
    }

    def __init__(
        self,
        noise: float | Tensor = 1.0,
        tie_threshold: float | Tensor | None = None,
        *,
        noise_prior: Prior | None = None,
        tie_threshold_prior: Prior | None = None,
    ) -> None:
        """Registers the noise, and a threshold, which is learned, if there are ties."""
        super().__init__()
        register_positive(self, "noise", noise, noise_prior)
        self._has_ties = tie_threshold is not None
        if tie_threshold is not None:
            register_positive(
                self, "tie_threshold", tie_threshold, tie_threshold_prior, learned=True
            )
        elif tie_threshold_prior is not None:
            raise FeedbackError(
                "tie_threshold_prior without a tie_threshold: pass its initial value."
            )

    @property
    def tie_threshold(self) -> Tensor:
        r""":math:`\delta`; zero where the likelihood has none."""
        if not self._has_ties:
            return torch.zeros_like(self.noise)
        return self.raw_tie_threshold_constraint.transform(self.raw_tie_threshold)

    @tie_threshold.setter
    def tie_threshold(self, value: float | Tensor) -> None:
        """Sets the threshold, where there is one."""
        if not self._has_ties:
            raise FeedbackError(
                f"This {type(self).__name__} has no tie threshold to set; construct "
                "it with tie_threshold=..."
            )
        set_positive(self, "tie_threshold", value)

    @classmethod
    def default_for(
        cls, feedback: Feedback | None, kinds: Collection[type[Feedback]] = ()
    ) -> Self:
        """Makes the likelihood of a model whose user named none: see base class.

        It has a tie threshold where there are ties. The fit learns that where duels
        were decided and nobody gave choices or rankings. Elsewhere it is fixed:
        learned, it would grow until ties say nothing.
        """
        if not isinstance(feedback, Comparisons) or feedback.ties is None:
            return cls()
        likelihood = cls(tie_threshold=_THRESHOLD_IN_NOISE_DEVIATIONS)
        is_told = feedback.pairs is not None and not {Choices, Rankings} & {*kinds}
        likelihood.raw_tie_threshold.requires_grad_(is_told)
        return likelihood

    def learn_noise(self) -> Self:
        """Lets a fit learn the noise from 1, the mode of the prior of people's noise.

        `LapsingProbitLikelihood.default_for` calls it where a user named no likelihood.
        """
        # Before the noise is set, whose raw value follows from the constraint.
        constraint = GreaterThan(SMALLEST, **in_spreads(_NOISE_SPREAD))
        self.register_constraint("raw_noise", constraint)
        self.noise = 1.0
        register_prior(self, "noise", LogNormalPrior(_LOG_NOISE, _NOISE_SPREAD))
        self.raw_noise.requires_grad_(True)
        return self

    def factors(self, feedback: Feedback, num_points: int) -> ScalarFactors:
        """Makes factors of duels, choices or rankings by the kind of the answers.

        Raises:
            FeedbackError: There are ties but no tie threshold.
        """
        if isinstance(feedback, Choices):
            return choice_factors(
                feedback.stages(), num_points, self.noise.unsqueeze(-1)
            )
        if isinstance(feedback, Rankings):
            return ranking_factors(
                feedback.orders, num_points, self.noise.unsqueeze(-1)
            )
        assert isinstance(feedback, Comparisons), "of a type in explains"
        return self._duel_factors(feedback, num_points)

    def _duel_factors(self, feedback: Comparisons, num_points: int) -> BoxFactors:
        """Makes boxes of duels: differences beyond the threshold of ties, or within.

        Decided duels come first, then ties; counts of answers have this order.

        Raises:
            FeedbackError: There are ties but no tie threshold.
        """
        if feedback.ties is not None and not self._has_ties:
            raise FeedbackError(
                "Comparisons has ties, but the likelihood has no tie threshold; pass "
                f"likelihood={type(self).__name__}(tie_threshold=...), for example "
                "half the noise's deviation: it is learned from there."
            )
        threshold, noise = self.tie_threshold.unsqueeze(-1), self.noise.unsqueeze(-1)
        parameter_batch = joint_shape(threshold.shape[:-1], noise.shape[:-1])
        batch = joint_shape(parameter_batch, feedback.batch_shape)
        blocks, lower, upper = [], [], []
        if feedback.pairs is not None:
            blocks.append(pair_rows(feedback.pairs, num_points, threshold))
            lower.append(threshold.expand(*batch, feedback.pairs.shape[-2]))
            upper.append(torch.full_like(lower[-1], torch.inf))
        if feedback.ties is not None:
            blocks.append(pair_rows(feedback.ties, num_points, threshold))
            upper.append(threshold.expand(*batch, feedback.ties.shape[-2]))
            lower.append(-upper[-1])
        ends = torch.cat(lower, dim=-1), torch.cat(upper, dim=-1)
        return BoxFactors(stack_rows(blocks), (2 * noise).expand_as(ends[0]), *ends)

    @property
    def link(self) -> ProbitLink:
        """See base class; as if the tie threshold were 0."""
        return ProbitLink(self.noise)

    @property
    def noticeable_difference(self) -> Tensor:
        """See base class; in closed form. Lapses, if any, do not change it."""
        deviation, threshold = (2 * self.noise).sqrt(), self.tie_threshold
        halfway = 0.5 + 0.5 * ndtr(-threshold / deviation)
        return threshold + deviation * torch.special.ndtri(halfway)

    def win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; in closed form."""
        return self.link.win_probability(mean - self.tie_threshold, variance)

    def tie_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes the probability of a tie; zero without a tie threshold."""
        scale = (2 * self.noise + variance).sqrt()
        # Both terms are lower tails where the mean is large: they keep their digits.
        upper, lower = self.tie_threshold - mean.abs(), -self.tie_threshold - mean.abs()
        return ndtr(upper / scale) - ndtr(lower / scale)

    def log_choice_probability(self, utilities: Tensor) -> Tensor:
        """See base class; right to rounding."""
        return thurstone_choice_log_probability(utilities, self.noise.unsqueeze(-1))

    def log_order_probability(self, utilities: Tensor) -> Tensor:
        """See base class; each item is heard once for the whole order."""
        return thurstone_ranking_log_probability(utilities, self.noise)

    def forward(self, function_samples: Tensor) -> Bernoulli:
        """See base class: the probability that the first item wins."""
        scale = (2 * self.noise).sqrt()
        return Bernoulli(probs=ndtr((function_samples - self.tie_threshold) / scale))


# --- Probabilities of sets

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
# Beyond it the density of an item is 2e-17 of its maximum.
_HALF_WIDTH = 8.5
# So is any integrand around its centre: it falls off at least as fast, from a maximum
# within sqrt(2 log k) of it.
_REACH = 12.0
# An integrand of k items is as narrow as 1 / sqrt(k): at 0.7 / sqrt(k) the trapezoidal
# rule, which errs by exp(-2 pi^2 / (h^2 k)), is right to rounding in effect.
_TRAPEZOIDAL_SPACING = 0.7


def thurstone_choice_log_probability(utilities: Tensor, noise: Tensor) -> Tensor:
    r"""Computes log probabilities that each item is heard as the best, ``... x k``.

    .. math:: \log P(i) = \log \int \phi(t - f_i) \prod_{j \ne i} \Phi(t - f_j) \, dt
        \quad \text{for } \sigma = 1

    (Thurstone 1927, case V). Right to rounding in effect in both tails. Each item is
    heard once, with noise of the variance ``noise``, ``... x 1`` or ``... x k``.
    """
    items = utilities.double() / noise.double().sqrt()
    k = items.shape[-1]
    spacing = _TRAPEZOIDAL_SPACING / math.sqrt(k)
    # Item i's integrand has its centre at the mean of i and the j best, largest over j.
    sums = pad(items.sort(-1, descending=True).values.cumsum(-1)[..., :-1], (1, 0))
    means = (items.unsqueeze(-1) + sums.unsqueeze(-2)) / torch.arange(1, k + 1).to(sums)
    grid = _heard_grid(items, means.amax(-1), spacing)
    gaps = [grid - item.unsqueeze(-1) for item in items.unbind(-1)]
    below = [log_ndtr(gap) for gap in gaps]
    all_below = torch.stack(below).sum(0)
    integrals = [
        (_log_density(gap) + all_below - log_below).logsumexp(-1)
        for gap, log_below in zip(gaps, below, strict=True)
    ]
    log_probabilities = torch.stack(integrals, dim=-1) + math.log(spacing)
    return log_probabilities.to(torch.promote_types(utilities.dtype, noise.dtype))


@torch.no_grad()
def _heard_grid(items: Tensor, centres: Tensor, spacing: float) -> Tensor:
    """Places nodes of integrals over a heard value, ``... x g``, in even steps.

    Items, ``... x k``, have noise 1. Nodes skip what is far from all ``centres`` of
    integrands, ``... x k``: their number does not grow with the distances of items.
    They are constants, so that no derivative is that of a place.
    """
    low, high = items.amin(-1, keepdim=True), items.amax(-1, keepdim=True)
    # In steps from the first node.
    ends = (centres.sort(-1).values - low + _HALF_WIDTH + _REACH) / spacing
    ends = pad(ends, (1, 0))
    reach = _REACH / spacing
    # A gap shorter than the reach costs less than it takes to skip it.
    gaps = ends.diff(dim=-1) - 2 * reach
    skipped = torch.where(gaps > reach, gaps.floor(), 0.0)
    before = pad(skipped.cumsum(-1), (1, 0))
    length = (high - low + 2 * _HALF_WIDTH) / spacing - before[..., -1:]
    count = math.ceil(float(length.max())) + 1
    steps = torch.arange(count, dtype=items.dtype, device=items.device)
    if bool(skipped.any()):
        # Half a step on, for an end at the first node.
        middles = (steps + 0.5).expand(*ends.shape[:-1], count).contiguous()
        places = torch.searchsorted(ends[..., :-1] - before[..., :-1], middles)
        steps = steps + before.gather(-1, places)
    return low - _HALF_WIDTH + spacing * steps


def _log_density(x: Tensor) -> Tensor:
    """Computes the log density of a standard normal."""
    return -0.5 * x.square() - _LOG_SQRT_2PI


# Cumulative integrals are of sixth order in the spacing.
_CUMULATIVE_SPACING = 0.1
# The integral of the polynomial through six nodes over the panel in the middle.
_PANEL = tuple(weight / 1440 for weight in (11, -93, 802, 802, -93, 11))


def thurstone_ranking_log_probability(utilities: Tensor, noise: Tensor) -> Tensor:
    r"""Computes the log probability that items of a set are heard in order, best first.

    With :math:`G_{k + 1}(t) = 1` the probability is :math:`G_1(\infty)` of

    .. math:: G_j(t) = \int_{-\infty}^t \phi(u - f_j) \, G_{j+1}(u) \, du
        \quad \text{for } \sigma = 1,

    the probability of the items from j on in their order, with j below t. The integrals
    accumulate panels of the polynomial through the six nearest nodes, and in steep
    tails of exponential functions. They are right to 1e-5 for orders against which
    neighbours stand by up to three noise deviations, and to 1e-2 for any. Utilities
    are ``... x k``, and the noise broadcasts with ``...``.
    """
    items = utilities.double() / noise.double().sqrt().unsqueeze(-1)
    # Items from i on are in order with i heard at the mean of i to j, largest over j.
    k, sums = items.shape[-1], pad(items.cumsum(-1), (1, 0))
    places = torch.arange(k + 1, device=items.device)
    lengths = places[1:] - places[:k, None]
    means = (sums[..., None, 1:] - sums[..., :-1, None]) / lengths
    centres = means.masked_fill(lengths < 1, -torch.inf).amax(-1)
    grid = _heard_grid(items, centres, _CUMULATIVE_SPACING)
    *before, worst = items.unbind(-1)
    below = log_ndtr(grid - worst.unsqueeze(-1))
    far = bool((items.amax(-1) - items.amin(-1) > _FAR).any())
    for item in reversed(before):
        integrand = _log_density(grid - item.unsqueeze(-1)) + below
        # In units of the largest, or improbable orders would underflow.
        largest = integrand.amax(-1, keepdim=True)
        scaled = (integrand - largest).exp()
        total = _cumulative_integral(scaled)
        below = total.clamp_min(torch.finfo(total.dtype).tiny).log() + largest
        if far:
            tail = _log_cumulative_integral(integrand)
            below = torch.where(total > _LEAST_SHARE, below, tail)
    return below[..., -1].to(torch.promote_types(utilities.dtype, noise.dtype))


# Of the largest value: where it is less a cumulative integral is that of a steep tail.
# It counts where items are so many noise deviations apart.
_LEAST_SHARE, _FAR = 1e-16, 12.0


def _log_cumulative_integral(logs: Tensor) -> Tensor:
    """Integrates from the first node to each in logs, for steep tails of a ranking.

    Panels are exact where the log is straight; ``logs`` are of the integrand at nodes,
    ``... x g``, in steps of `_CUMULATIVE_SPACING`.
    """
    # -expm1(-x) / x is 1 at 0.
    step = logs.diff(dim=-1).abs().clamp_min(1e-6)
    share = (-torch.expm1(-step) / step).log()
    panels = torch.maximum(logs[..., 1:], logs[..., :-1]) + share
    panels = torch.cat([logs[..., :1], panels], dim=-1)
    return panels.logcumsumexp(-1) + math.log(_CUMULATIVE_SPACING)


def _cumulative_integral(values: Tensor) -> Tensor:
    """Integrates from the first node to each, ``... x g``, for rankings.

    Values are of the integrand at nodes in steps of `_CUMULATIVE_SPACING`; beyond the
    nodes it is 0.
    """
    n = values.shape[-1]
    outer = pad(values, (3, 2))
    # Panel after panel in place: windows of one matrix product would be copied.
    panels = outer[..., :n] * _PANEL[0]
    for step, weight in enumerate(_PANEL[1:], 1):
        panels.add_(outer[..., step : step + n], alpha=weight)
    return _CUMULATIVE_SPACING * panels.cumsum(-1)


# --- Factors


def choice_factors(
    stages: Tensor, num_points: int, noise: Tensor
) -> CorrelatedBoxFactors:
    r"""Makes factors of the best of a set: :math:`f_c + \epsilon_c > f_j + \epsilon_j`.

    The noise of the rows of a set has the covariance :math:`\sigma^2 (I + 1 1')`: they
    share that of its winner, the first of its items in ``stages``, ``batch_shape x m x
    k`` padded with -1. The noise :math:`\sigma^2` is ``batch_shape x 1``.
    """
    losers = stages[..., 1:]
    winners = stages[..., :1].expand_as(losers)
    unit_variances = torch.ones_like(losers, dtype=noise.dtype)
    shared = unit_variances.unsqueeze(-1) * unit_variances.unsqueeze(-2)
    return boxed_rows(winners, losers, unit_variances, shared, num_points, noise)


def ranking_factors(
    orders: Tensor, num_points: int, noise: Tensor
) -> CorrelatedBoxFactors:
    r"""Makes factors of neighbours in a ranking, the first heard as the better one.

    The noise of the rows of a ranking has the covariance :math:`\sigma^2` times the
    tridiagonal matrix of -1, 2, -1, whose smallest eigenvalue for k items is :math:`2 -
    2 \cos(\pi / k)`. Arguments as in :func:`choice_factors`, best first.
    """
    better, worse = orders[..., :-1], orders[..., 1:]
    # Items without padding, -1.
    lengths = (orders >= 0).sum(-1, keepdim=True).to(noise)
    # A cosine by a sine that is exactly 0 for two items, whose noise is not shared.
    cosine = (0.5 * math.pi * (lengths - 2) / lengths).sin()
    independent = (2 - 2 * cosine).expand(worse.shape)
    neighbours = torch.ones(worse.shape[-1] - 1, dtype=noise.dtype, device=noise.device)
    neighbours = neighbours.diag(1) + neighbours.diag(-1)
    shared = torch.diag_embed(2 - independent) - neighbours
    return boxed_rows(better, worse, independent, shared, num_points, noise)


def boxed_rows(
    better: Tensor,
    worse: Tensor,
    independent: Tensor,
    shared: Tensor,
    num_points: int,
    noise: Tensor,
) -> CorrelatedBoxFactors:
    """Makes rows, ``better`` less ``worse``, which were heard as positive.

    Both are places of datapoints, ``batch_shape x m x k`` for ``m`` answers, padded
    with -1, of which no rows are made. A row that is padding in some elements of a
    batch has no coefficients there. The noise of the rows over ``noise`` has a part
    that is ``independent``, ``batch_shape x m x k``, and one that is ``shared``,
    ``batch_shape x m x k x k``.
    """
    present = worse >= 0
    pair_present = present.unsqueeze(-1) & present.unsqueeze(-2)
    shared = torch.where(pair_present, shared, 0.0)
    used = present.reshape(-1, *present.shape[-2:]).any(0)
    num_rows = int(used.sum())
    # The row of each place in a block; ``num_rows`` is no row, but padding.
    places = torch.full_like(used, num_rows, dtype=torch.long)
    places[used] = torch.arange(num_rows, device=used.device)
    pairs = torch.stack([better, worse], dim=-1).clamp_min(0)[..., used, :]
    present, independent = present[..., used], independent[..., used]
    rows = pair_rows(pairs, num_points, noise)
    coefficients = torch.where(present.unsqueeze(-1), rows.coefficients, 0.0)
    batch = torch.broadcast_shapes(noise.shape[:-1], present.shape[:-1])
    variance = (noise * independent).expand(*batch, -1)
    lower = torch.where(present, 0.0, -torch.inf).to(variance).expand_as(variance)
    return CorrelatedBoxFactors(
        replace(rows, coefficients=coefficients),
        variance,
        lower,
        torch.full_like(variance, torch.inf),
        noise=NoiseBlocks(places, noise[..., None, None] * shared, num_rows),
    )


@register_likelihood
class AffineProbitLikelihood(GaussianNoise[Validity]):
    r"""Probit likelihood of valid and failed trials: noisy utility above or below zero.

    .. math::
        P(\mathrm{valid} \mid f_i) = \Phi(f_i / \sigma_c), \qquad
        P(\mathrm{failed} \mid f_i) = \Phi(-f_i / \sigma_c)

    (Benavoli et al. 2021, section 3.2.)

    Args:
        noise: :math:`\sigma_c^2`, positive. Fixed unless it has a prior.
        noise_prior: A prior on the noise, which is then learned.

    Raises:
        FeedbackError: The noise is not positive.
    """

    explains: ClassVar = {Validity: BoxFactors}

    def __init__(
        self, noise: float | Tensor = 1.0, *, noise_prior: Prior | None = None
    ) -> None:
        super().__init__()
        register_positive(self, "noise", noise, noise_prior)

    def factors(self, feedback: Validity, num_points: int) -> BoxFactors:
        """Makes boxes of trials, whose utility is heard above 0, or if failed below."""
        noise = self.noise.unsqueeze(-1)
        sign = torch.where(feedback.valid, 1.0, -1.0).to(noise)
        rows = SparseDesign(
            feedback.indices.unsqueeze(-1), sign.unsqueeze(-1), num_points
        )
        batch = torch.broadcast_shapes(noise.shape[:-1], sign.shape[:-1])
        variance = noise.expand(*batch, sign.shape[-1])
        lower = torch.zeros_like(variance)
        return BoxFactors(rows, variance, lower, torch.full_like(lower, torch.inf))

    def forward(self, function_samples: Tensor) -> Bernoulli:
        """See base class: the probability that a trial is valid."""
        return Bernoulli(probs=ndtr(function_samples / self.noise.sqrt()))
