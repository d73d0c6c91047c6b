r"""Answers in (0, 1) with a Beta distribution: strengths of preference and ratings.

Symbols: precision :math:`\nu`, mean :math:`\Phi(t)`, shapes :math:`a = \nu \Phi(t)` and
:math:`b = \nu \Phi(-t)`, the hazard :math:`h = \phi / \Phi`. In

.. math::
    \log \mathrm{Beta}(y; a, b) = \log \Phi(t) + \log \Phi(-t)
    + \log \Gamma(\nu) + 2 \log \nu - \log \Gamma(1 + a) - \log \Gamma(1 + b)
    + (a - 1) \log y + (b - 1) \log(1 - y)

everything singular in the tails is in the first two terms, which have stable
derivatives, and what remains has arguments of at least 1.

Source: Jensen and Nielsen (2014), appendices A.1.2 and A.2.1, with :math:`d\mu / df`
carrying the factor :math:`1 / (\sqrt 2 \sigma)` that equations 75 and 105 lack, and
:math:`\psi_1(a) + \psi_1(b)` for the repeated :math:`\psi_1(a)` of 81 and 111.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import ClassVar

import torch
from botorch.utils.probability.utils import ndtr
from gpytorch.priors import GammaPrior, Prior
from scipy.special import betainc
from torch import Tensor
from torch.distributions import Beta

from botorch_pref.feedback import Ratings, Strengths
from botorch_pref.likelihoods.factors import IntegratedFactors
from botorch_pref.likelihoods.protocol import (
    FeedbackT,
    GaussianNoise,
    PositiveParameter,
    register_likelihood,
    register_positive,
)
from botorch_pref.linalg.sparse_design import SparseDesign, pair_rows, point_rows
from botorch_pref.numerics.bend_quadrature import (
    Peak,
    ValueAndSlope,
    density_bend,
    moving_nodes,
    peaked_integral,
)
from botorch_pref.numerics.normal import (
    hazard,
    log_ndtr,
    log_ndtr_derivatives,
    with_slope,
)
from botorch_pref.numerics.quadrature import LogDerivatives, TiltedMoments

_INVERSE_ROOT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)


def _digamma(x: Tensor) -> Tensor:
    # Torch differentiates it to 5e-10 only; the Hurwitz zeta has all digits.
    return with_slope(x, torch.digamma, _trigamma)


def _trigamma(x: Tensor) -> Tensor:
    return torch.special.zeta(2.0, x)


def _shapes(t: Tensor, precision: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Computes ``1 + a``, ``1 + b`` and ``nu phi(t)`` of a Beta answer.

    Its shapes are ``a = nu Phi(t)`` and ``b = nu Phi(-t)``, with the precision ``nu``
    and the standardised utility ``t``; the third is the slope of ``a`` in ``t``.
    """
    above = torch.special.ndtr(t)
    below = torch.special.ndtr(-t)
    slope = precision * _INVERSE_ROOT_2_PI * (-0.5 * t.square()).exp()
    return 1 + precision * above, 1 + precision * below, slope


def beta_value(y: Tensor, precision: Tensor, t: Tensor) -> Tensor:
    """Computes the log density of answers ``y`` in (0, 1) at the standardised ``t``.

    It is that of ``Beta(y; a, b)``, ``a = nu Phi(t)`` and ``b = nu Phi(-t)``, with the
    precision ``nu``. In the tails of ``t`` a shape goes to 0, where its log gamma has a
    pole. So ``log Gamma(a) = log Gamma(1 + a) - log a``, with ``log a = log nu + log
    Phi(t)`` exact in the tails; ``b`` likewise.
    """
    a1, b1, _ = _shapes(t, precision)
    regular = (a1 - 2) * y.log() + (b1 - 2) * torch.log1p(-y)
    regular = regular - torch.lgamma(a1) - torch.lgamma(b1)
    constant = torch.lgamma(precision) + 2 * precision.log()
    return log_ndtr(t) + log_ndtr(-t) + (constant + regular)


def beta_slope(y: Tensor, precision: Tensor, t: Tensor) -> Tensor:
    """Computes the derivative of :func:`beta_value` in ``t``."""
    a1, b1, slope = _shapes(t, precision)
    pull = torch.logit(y) - _digamma(a1) + _digamma(b1)
    return slope * pull + hazard(t) - hazard(-t)


def beta_log_density(
    y: Tensor, precision: Tensor, t: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Computes the log density and its first three derivatives in ``t``.

    The log density is :math:`\log \Phi(t) + \log \Phi(-t)` plus a part that has the
    derivatives :math:`\delta r`, :math:`-t \delta r - \delta^2 S_1` and :math:`(t^2 -
    1) \delta r + 3 t \delta^2 S_1 - \delta^3 S_2`, with the shapes :math:`a = \nu
    \Phi(t)` and :math:`b = \nu \Phi(-t)`, :math:`\delta = \nu \phi(t)`, :math:`r =
    \mathrm{logit}(y) - \psi(1 + a) + \psi(1 + b)`, and :math:`S_k = \psi_k(1 + a) -
    (-1)^k \psi_k(1 + b)` of the polygammas :math:`\psi_k`. The density has one peak,
    and its log falls like :math:`-t^2 / 2` in both tails, but is not concave. All four
    results are differentiable, to all digits, in ``precision`` and ``t``.
    """
    a1, b1, slope = _shapes(t, precision)
    _, *above = log_ndtr_derivatives(t)
    _, *below = log_ndtr_derivatives(-t)
    pull = slope * (torch.logit(y) - _digamma(a1) + _digamma(b1))
    spread = slope.square() * (_trigamma(a1) + _trigamma(b1))
    # psi_2(x) = -2 zeta(3, x)
    skew = torch.special.zeta(3.0, b1) - torch.special.zeta(3.0, a1)
    first = pull + above[0] - below[0]
    second = above[1] + below[1] - t * pull - spread
    third = above[2] - below[2] + (t.square() - 1) * pull + 3 * t * spread
    third = third - 2 * slope**3 * skew
    return beta_value(y, precision, t), first, second, third


@torch.no_grad()
def beta_majority(a: Tensor, b: Tensor) -> Tensor:
    """Computes ``P(y > 1/2)``, ``y ~ Beta(a, b)``, on the host; not differentiable."""
    shapes = (shape.double().cpu().numpy() for shape in (b, a))
    return torch.as_tensor(betainc(*shapes, 0.5)).to(a)


def _partition(
    y: Tensor,
    precision: Tensor,
    scale: Tensor,
    mean: Tensor,
    variance: Tensor,
    peak: Peak,
) -> TiltedMoments:
    r"""Computes :math:`\log \int \mathrm{Beta}(y \mid z) N(z; m, s) dz`, and slopes.

    The mean of the answer is ``Phi(z / scale)``; the ``peak`` is that of the density as
    a function of ``z / scale``. The result has the log integral's derivatives in the
    ``mean``, and the variance of the product over the Gaussian's. Arguments broadcast.
    """
    arguments = y, precision, scale, mean, variance, *peak
    # Terms of high precisions are so large that single precision has no digits left.
    y, precision, scale, centre, spread, *of_peak = torch.broadcast_tensors(
        *(part.double() for part in arguments)
    )

    def of_rows(places: Tensor | None) -> ValueAndSlope:
        """Makes the log density and its slope at some places; at all for None."""
        parts = y, precision
        if places is not None:
            parts = y[..., places], precision[..., places]
        return lambda t: (beta_value(*parts, t), beta_slope(*parts, t))

    square = scale.square()
    value, first, second, ratio = peaked_integral(
        of_rows, centre / scale, spread / square, Peak(*of_peak)
    )
    parts = value, first / scale, second / square, ratio
    return TiltedMoments(*(part.to(mean.dtype) for part in parts))


@torch.no_grad()
def _peak(y: Tensor, precision: Tensor) -> Peak:
    """Finds the peak of the density as a function of ``z / scale``, for integrals."""
    y, precision = torch.broadcast_tensors(y.double(), precision.double())
    place, width = density_bend(partial(beta_value, y, precision), torch.zeros_like(y))
    height, _, second, _ = beta_log_density(y, precision, place)
    # Terms of the log density cancel, so that their rounding is left in its height.
    terms = torch.lgamma(precision).abs() - precision * (y.log() + torch.log1p(-y))
    rounding = 4 * torch.finfo(y.dtype).eps * (1 + terms)
    return Peak(place, width, -second, height, rounding)


class BetaFactors(IntegratedFactors):
    r"""Rows whose answer is a fraction of a scale.

    .. math::
        p(y_i \mid z_i) = \mathrm{Beta}(y_i;\, \nu \mu_i, \nu (1 - \mu_i)), \qquad
        \mu_i = \Phi(z_i / \sqrt{2 \sigma^2}).

    They have one peak each but are not log-concave: far from the peak they bend up.
    Answers are ``batch_shape x m``; the precision and the noise broadcast with them.
    """

    def __init__(
        self, rows: SparseDesign, answers: Tensor, precision: Tensor, noise: Tensor
    ) -> None:
        """Keeps answers, and the unit of ``z``, the square root of twice the noise."""
        self.rows = rows
        self.answers, self.precision = answers, precision
        self.scale = (2 * noise).sqrt()

    @cached_property
    def _peak(self) -> Peak:
        return _peak(self.answers, self.precision)

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """Computes log densities of the answers, and two derivatives in ``z``."""
        value, first, second, _ = beta_log_density(
            self.answers, self.precision, z / self.scale
        )
        return LogDerivatives(value, first / self.scale, second / self.scale.square())

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        third = beta_log_density(self.answers, self.precision, z / self.scale)[3]
        return weights * third / self.scale**3

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """See base class; see :func:`.peaked_integral`."""
        return _partition(
            self.answers, self.precision, self.scale, mean, variance, self._peak
        )


# An answer rounded to steps of 1/s has a deviation of 1/(s sqrt(12)) at least, that of
# this precision where the mean is a half: 3 s^2.
_FINEST_SCALE = 100


class BetaAnswers(GaussianNoise[FeedbackT]):
    r"""Predictions of answers :math:`y \sim \mathrm{Beta}(\nu \mu, \nu (1 - \mu))`.

    The mean is :math:`\mu = \Phi(z / \sqrt{2 \sigma^2})`. All take the mean and the
    variance of a Gaussian ``z``; average over the components of a mixture. The
    arguments are those of :class:`PairwiseBetaLikelihood`.
    """

    precision = PositiveParameter()

    def __init__(
        self,
        precision: float | Tensor = 10.0,
        noise: float | Tensor = 1.0,
        *,
        precision_prior: Prior | None = None,
        noise_prior: Prior | None = None,
    ) -> None:
        """Registers the precision, to be learned, and the noise with its prior."""
        super().__init__()
        if precision_prior is None:
            # The mean is the highest precision of answers rounded to hundredths.
            precision_prior = GammaPrior(1.0, 1 / (3 * _FINEST_SCALE**2))
        register_positive(self, "precision", precision, precision_prior, learned=True)
        register_positive(self, "noise", noise, noise_prior)

    def expected_answer(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Computes :math:`E[y] = \Phi(m / \sqrt{2 \sigma^2 + s})` for ``z ~ N(m, s)``.

        It is equation 53 of Jensen and Nielsen (2014).
        """
        return ndtr(mean / (2 * self.noise + variance).sqrt())

    def answer_log_density(
        self, answer: Tensor, mean: Tensor, variance: Tensor
    ) -> Tensor:
        r"""Computes :math:`\log \int p(y \mid z) N(z; m, s) dz`, by quadrature.

        These are equations 38 and 41 of Jensen and Nielsen (2014).
        """
        scale, peak = (2 * self.noise).sqrt(), _peak(answer, self.precision)
        return _partition(answer, self.precision, scale, mean, variance, peak).value

    def forward(self, function_samples: Tensor) -> Beta:
        """Returns the distribution of the answer, given the ``z`` that it sees."""
        standard = function_samples / (2 * self.noise).sqrt()
        # Beta refuses a shape that underflows to zero.
        tiny = torch.finfo(standard.dtype).tiny
        above = (self.precision * ndtr(standard)).clamp_min(tiny)
        below = (self.precision * ndtr(-standard)).clamp_min(tiny)
        return Beta(above, below)


@register_likelihood
class PairwiseBetaLikelihood(BetaAnswers[Strengths]):
    r"""Beta likelihood of strengths of preference on a scale from 0 to 1.

    .. math::
        p(y \mid f) = \mathrm{Beta}(y;\, \nu \mu,\, \nu (1 - \mu)), \qquad
        \mu = \Phi\Big(\frac{f_a - f_b}{\sqrt{2 \sigma^2}}\Big)

    (Jensen and Nielsen 2014, section 3.1.2, whose v is the first item here.) It is not
    log-concave: an answer that the model holds for impossible says little. EP and
    Laplace take it; EP may find no posterior where answers contradict each other at a
    high precision, and then says that it did not converge.

    Args:
        precision: :math:`\nu`, positive: how consistently the scale is used. Learned.
        noise: :math:`\sigma^2`, the variance *per presented item*, positive. Fixed
            unless it has a prior: only its ratio to the kernel's output scale counts.
        precision_prior: A prior on the precision; by default exponential, of the mean
            that rounding to a hundred steps would leave of exact answers.
        noise_prior: A prior on the noise, which is then learned.

    Raises:
        FeedbackError: A parameter that is not positive.
    """

    explains: ClassVar = {Strengths: BetaFactors}

    def factors(self, feedback: Strengths, num_points: int) -> BetaFactors:
        """Makes factors of strengths, in the differences of their pairs' utilities."""
        precision = self.precision.unsqueeze(-1)
        rows = pair_rows(feedback.pairs, num_points, precision)
        answers = feedback.strengths.to(precision)
        return BetaFactors(rows, answers, precision, self.noise.unsqueeze(-1))

    def preference_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Computes P(strength > 1/2), that the first item is preferred.

        :math:`\int P(y > \tfrac12 \mid z) N(z; m, s) dz` (equation 45 of Jensen and
        Nielsen 2014), by quadrature. Differentiable where the variance is positive.

        Args:
            mean: Of the difference of utilities, any shape.
            variance: Of the difference, broadcastable with ``mean``; zero for an item
                and itself, where the probability is a half.
        """
        # P(y > 1/2) rises around z = 0, over about this width.
        width = (2 * self.noise / (1 + self.precision)).sqrt().detach()
        mean, variance, width = torch.broadcast_tensors(mean, variance, width)
        variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
        offset, log_weights = moving_nodes(
            mean, variance, torch.zeros_like(mean), width
        )
        shapes = self.forward((mean + offset).detach())
        # Nodes are constants: the weights have the derivatives in mean and variance.
        above = beta_majority(shapes.concentration1, shapes.concentration0)
        # Normalised, so that no rounding makes a probability larger than one.
        return (above * log_weights.softmax(0)).sum(0).clamp_max(1.0)


@register_likelihood
class BetaRatingLikelihood(BetaAnswers[Ratings]):
    r"""Beta likelihood of ratings of items on a scale from 0 to 1.

    .. math::
        p(y \mid f_i) = \mathrm{Beta}(y;\, \nu \mu,\, \nu (1 - \mu)), \qquad
        \mu = \Phi\Big(\frac{f_i}{\sqrt{2 \sigma^2}}\Big)

    (Jensen and Nielsen 2014, section 3.2.1 and equation 11, factor 2 included.) The
    unit of utility on the scale is :math:`\sqrt{2 \sigma^2}`. Arguments, errors and
    limits are those of :class:`PairwiseBetaLikelihood`.
    """

    explains: ClassVar = {Ratings: BetaFactors}

    def factors(self, feedback: Ratings, num_points: int) -> BetaFactors:
        """Makes factors of ratings, in the utilities of their items."""
        precision = self.precision.unsqueeze(-1)
        answers = feedback.ratings.to(precision)
        rows = point_rows(feedback.indices, num_points, precision)
        return BetaFactors(rows, answers, precision, self.noise.unsqueeze(-1))
