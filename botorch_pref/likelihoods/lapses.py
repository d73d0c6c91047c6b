r"""Duels of a person whose attention lapses: now and then a coin answers for her.

With the rate of lapses :math:`\epsilon` and the probability :math:`B(z)` of an answer
that she gives attentively, its probability is :math:`g + (1 - \epsilon) B(z)`, where
the guess :math:`g` is :math:`\epsilon / 2` for a win and 0 for a tie. One surprising
answer then costs at most :math:`\log(2 / \epsilon)` nats however little the noise, so
that noise can be learned from few answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from botorch.utils.probability.utils import ndtr
from gpytorch.priors import Prior
from torch import Tensor
from torch.distributions import Bernoulli

from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.likelihoods.factors import (
    BoxFactors,
    GroupsOf,
    MergedBoxFactors,
    ScalarFactors,
)
from botorch_pref.likelihoods.probit import (
    PairwiseProbitLikelihood,
    ProbitLink,
    expected_gaussians,
)
from botorch_pref.likelihoods.protocol import (
    DuelLink,
    binary_entropy,
    register_likelihood,
)
from botorch_pref.likelihoods.repeated_answers import OpposedAnswers
from botorch_pref.numerics import argument_checks
from botorch_pref.numerics.bend_quadrature import BentProducts
from botorch_pref.numerics.quadrature import (
    Integral,
    LogDerivatives,
    OfRows,
    TiltedMoments,
)


@dataclass(frozen=True, eq=False)
class OpposedLapses(OpposedAnswers):
    r"""All wins and losses of rows, any of which may be a guess.

    .. math:: \big(g + (1 - \epsilon) \Phi(x)\big)^a
        \big(g + (1 - \epsilon) \Phi(-x)\big)^b .

    No probability is less than the guess, so that densities keep their digits.
    """

    guess: Tensor
    attention: Tensor

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """Computes log probabilities of wins and losses of rows, and two derivatives.

        Derivatives are those in ``z``, ``batch_shape x m``.
        """
        x = z * self.slope
        half, root = 0.5 * self.attention, math.sqrt(0.5) * x
        win = self.guess + half * torch.erfc(-root)
        loss = self.guess + half * torch.erfc(root)
        density = math.sqrt(2 / math.pi) * half * (-root.square()).exp()
        won, lost = density / win, density / loss
        gained, suffered = self.wins * won, self.losses * lost
        first = gained - suffered
        second = -(x * first + gained * won + suffered * lost)
        value = self.wins * win.log() + self.losses * loss.log()
        return LogDerivatives(value, first * self.slope, second * self.slope.square())


class LapsingBoxes(BoxFactors):
    r"""Boxes that a guess may name instead of an attentive answer.

    .. math:: p(y_i \mid z_i) = g_i + (1 - \epsilon) \, P(l_i \le z_i + e_i \le u_i),
        \quad e_i \sim N(0, r_i).

    A Gaussian integral of the sum is the sum of two, so that partitions are known in
    closed form. No engine sees these boxes but by way of :class:`LapsingFactors`.

    Args:
        boxes: The attentive answers.
        guess: :math:`g`, ``batch_shape x m``, not negative.
        attention: :math:`1 - \epsilon`, positive, ``batch_shape x m``.
    """

    def __init__(self, boxes: BoxFactors, guess: Tensor, attention: Tensor) -> None:
        super().__init__(
            boxes.rows, boxes.variance, boxes.lower, boxes.upper, width=boxes.width
        )
        self.guess, self.attention = guess, attention

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """See base class."""
        return (*super().parameters, self.guess, self.attention)

    def opposed(
        self, parameters: Sequence[Tensor], wins: Tensor, losses: Tensor
    ) -> OpposedLapses | None:
        """Makes one factor of all wins and losses of each row, boxes with an end at 0.

        The ``parameters`` are each row's noise variance, probability of a guess and of
        attention. None where a row has no guess.
        """
        variance, guess, attention = parameters
        if not bool((guess > 0).all()):
            return None
        return OpposedLapses(variance.rsqrt(), wins, losses, guess, attention)

    def rearranged(self, change: Callable[[Tensor], Tensor]) -> LapsingBoxes:
        """See base class."""
        attentive = super().rearranged(change)
        return LapsingBoxes(attentive, change(self.guess), change(self.attention))

    def integral(self, of_rows: OfRows, num_rows: int) -> Integral:
        """See base class; products of lapses are not log-concave."""
        return BentProducts(of_rows, num_rows)

    def shifted(self, z: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        """Computes log probabilities for ``N(z, variance)``, 3 derivatives in ``z``.

        They are of ``guess + attention * p`` with the probability ``p`` of the box.
        """
        log_box, first, second, third = super().shifted(z, variance)
        attentive, guessed = self.attention.log() + log_box, self.guess.log()
        value = torch.logaddexp(attentive, guessed)
        # The posterior probabilities of attention and of a lapse.
        r, s = (attentive - value).exp(), (guessed - value).exp()
        square = first.square()
        return (
            value,
            r * first,
            r * (second + s * square),
            r * (third + 3 * s * first * second + s * (s - r) * first * square),
        )


def _without_negative_precision(
    moments: LogDerivatives | TiltedMoments, variance: Tensor
) -> TiltedMoments:
    """Changes moments so that their sites have no negative precision.

    A surprise, which is a lapse or not, may ask for a site of negative precision. With
    several of them expectation propagation may go in circles (Jylanki et al. 2011). So
    the second derivative is at most 0: the mean is matched, and the variance stays that
    of the cavity.
    """
    value, first, second = moments[:3]
    second = second.clamp_max(0.0)
    return TiltedMoments(value, first, second, 1 + variance * second)


class LapsingFactors(ScalarFactors):
    """Rows each of which has one answer that may be a guess.

    Args:
        boxes: The answers, with their rows.
    """

    takes_counts = True

    def __init__(self, boxes: LapsingBoxes) -> None:
        self.rows, self.boxes = boxes.rows, boxes

    def merged(self, counts: Tensor | None, groups_of: GroupsOf) -> ScalarFactors:
        """Merges equal rows to one each, with answers as often as they were given."""
        groups = groups_of(self.rows)
        if groups is None and counts is None:
            return self
        # The rows may see other points than those of which the boxes were made.
        self.boxes.rows = self.rows
        return MergedLapsingFactors(self.boxes, counts, groups)

    def log_prob(self, z: Tensor) -> LogDerivatives:
        """See base class."""
        return self.boxes.log_prob(z)

    def curvature_gradient(self, z: Tensor, weights: Tensor) -> Tensor:
        """See base class."""
        return self.boxes.curvature_gradient(z, weights)

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogDerivatives:
        """See base class; in closed form."""
        return self.boxes.log_partition(mean, variance)

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """See base class, but that no answer makes a row less certain."""
        return _without_negative_precision(self.log_partition(mean, variance), variance)


class MergedLapsingFactors(MergedBoxFactors):
    """Rows each of which has several answers that may be guesses, or one many times."""

    def log_partition(self, mean: Tensor, variance: Tensor) -> LogDerivatives:
        """See base class."""
        return LogDerivatives(*super().tilted(mean, variance)[:3])

    def tilted(self, mean: Tensor, variance: Tensor) -> TiltedMoments:
        """See base class, but that no answer makes a row less certain."""
        return _without_negative_precision(self.log_partition(mean, variance), variance)


# Of the Gaussians that sum up to an entropy, whatever the rate of lapses.
_EXPONENTS = (0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.05, 1.2)


class LapsingLink(DuelLink):
    r"""The link :math:`g(u) = \epsilon / 2 + (1 - \epsilon) \Phi(u / s)`.

    The entropy of an answer is replaced by
    :math:`h(\epsilon / 2) + \sum_j c_j e^{-a_j (u / s)^2}` with eight fixed
    exponents and coefficients by least squares, right within 4e-6 nats for every ``u``
    and rate. Its expectation is exact; see :class:`ProbitLink`.

    Args:
        attentive: The link of attentive answers.
        lapse_rate: :math:`\epsilon`, a number in (0, 1).
    """

    def __init__(self, attentive: ProbitLink, lapse_rate: Tensor) -> None:
        self._attentive, self._lapse_rate = attentive, lapse_rate

    def win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; one half of equals to the last digit."""
        attentive = self._attentive.win_probability(mean, variance)
        return self._lapse_rate / 2 + (1 - self._lapse_rate) * attentive

    def log_win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding."""
        log_attentive = self._attentive.log_win_probability(mean, variance)
        rate = self._lapse_rate
        return torch.logaddexp((-rate).log1p() + log_attentive, (rate / 2).log())

    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes the expected entropy of an answer, right within 4e-6 nats."""
        scale = 2 * self._attentive.noise
        exponents = mean.new_tensor(_EXPONENTS)
        return self._certain + expected_gaussians(
            self._coefficients.to(mean),
            exponents,
            mean.square() / scale,
            variance / scale,
        )

    @property
    def _certain(self) -> Tensor:
        """Entropy of an answer that says nothing new but for lapses."""
        log_p = (self._lapse_rate / 2).log()
        return binary_entropy(log_p, (-self._lapse_rate / 2).log1p())

    @cached_property
    def _coefficients(self) -> Tensor:
        """The weights of Gaussians in ``u / s``, with ``s^2`` twice the noise.

        Their sum is the entropy of an answer less `_certain`, its limit far from ``u =
        0``. By least squares at 121 values of ``u / s``, none negative: the entropy is
        symmetric.
        """
        x = torch.linspace(0, 6, 121, dtype=torch.double)
        rate = self._lapse_rate.detach().double().cpu()
        p = rate / 2 + (1 - rate) * ndtr(-x)
        excess_entropy = (
            binary_entropy(p.log(), (-p).log1p()) - self._certain.cpu().double()
        )
        basis = torch.exp(-x.square().unsqueeze(-1) * x.new_tensor(_EXPONENTS))
        solution = torch.linalg.lstsq(basis, excess_entropy.unsqueeze(-1)).solution
        return solution.squeeze(-1)

    def win_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right to rounding."""
        return (1 - self._lapse_rate) * self._attentive.win_slope(mean, variance)

    def win_variance(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; right within 1e-11 of itself."""
        attentive = self._attentive.win_variance(mean, variance)
        return (1 - self._lapse_rate).square() * attentive


@register_likelihood
class LapsingProbitLikelihood(PairwiseProbitLikelihood):
    r"""The probit likelihood of duels for a person who lapses now and then.

    .. math::
        P(w \succ l) = \frac{\epsilon}{2}
        + (1 - \epsilon) \, \Phi\Big(\frac{f_w - f_l - \delta}{\sqrt{2 \sigma^2}}\Big)

    In a lapse, which has the probability :math:`\epsilon` whatever the options are, a
    coin names one of the two, and nobody calls a tie (the lapse rate of psychometric
    functions: Wichmann and Hill 2001, equation 1).

    It is not log-concave: an answer that contradicts all others is taken for a lapse.
    Expectation propagation suits it; where noise is little Laplace's evidence is off by
    nats, and after such answers its variances may be above the prior's. Learn
    its noise, ``noise_prior=LogNormalPrior(1.0, 1.0)``, to ask people whose precision
    nobody knows.

    Args:
        noise: See :class:`PairwiseProbitLikelihood`.
        tie_threshold: See there.
        lapse_rate: :math:`\epsilon`, in (0, 1), fixed: a few tens of answers do not
            tell it.
        noise_prior: See there.
        tie_threshold_prior: See there.

    Raises:
        FeedbackError: A parameter is out of its range, or there is a prior on no
            threshold.
    """

    explains: ClassVar = {Comparisons: LapsingFactors}
    lapse_rate: Tensor

    def __init__(
        self,
        noise: float | Tensor = 1.0,
        tie_threshold: float | Tensor | None = None,
        *,
        lapse_rate: float = 0.05,
        noise_prior: Prior | None = None,
        tie_threshold_prior: Prior | None = None,
    ) -> None:
        """Registers parameters of attentive answers, and the rate as a buffer."""
        super().__init__(
            noise,
            tie_threshold,
            noise_prior=noise_prior,
            tie_threshold_prior=tie_threshold_prior,
        )
        self.register_buffer("lapse_rate", self._checked_rate(lapse_rate))

    def _checked_rate(self, rate: object) -> Tensor:
        """Checks that a rate is one probability; returns a copy of the noise's type."""
        like = self.raw_noise
        rate = argument_checks.number_tensor(
            "lapse_rate", rate, like.dtype, like.device
        )
        argument_checks.check_probabilities("lapse_rate", rate)
        if rate.dim():
            raise FeedbackError(
                f"lapse_rate has the shape {tuple(rate.shape)}; give one number for "
                "all elements of a batch."
            )
        return rate.clone()

    def __setattr__(self, name: str, value: Any) -> None:
        """Checks a rate that is assigned as one that is given to the constructor."""
        if name == "lapse_rate":
            value = self._checked_rate(value)
        super().__setattr__(name, value)

    @classmethod
    def default_for(
        cls, feedback: Feedback | None, kinds: Collection[type[Feedback]] = ()
    ) -> Self:
        """See base class; the noise is learned too (`learn_noise`)."""
        return super().default_for(feedback, kinds).learn_noise()

    def factors(self, feedback: Feedback, num_points: int) -> LapsingFactors:
        """Makes factors of duels, each of which may be a guess; nobody guesses ties.

        Raises:
            FeedbackError: There are ties but no tie threshold.
        """
        assert isinstance(feedback, Comparisons), "of a type in explains"
        boxes = self._duel_factors(feedback, num_points)
        decided = boxes.upper.isinf()
        guess = torch.where(decided, self.lapse_rate / 2, 0.0).to(boxes.lower)
        attention = (1 - self.lapse_rate).expand_as(guess).to(guess)
        return LapsingFactors(LapsingBoxes(boxes, guess, attention))

    @property
    def link(self) -> LapsingLink:  # type: ignore[override]
        """See base class; as if the tie threshold were 0."""
        return LapsingLink(super().link, self.lapse_rate)

    def tie_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """See base class; zero without a tie threshold."""
        return (1 - self.lapse_rate) * super().tie_probability(mean, variance)

    def log_choice_probability(self, utilities: Tensor) -> Tensor:
        """See base class; not known."""
        raise self._says_nothing("a choice", "Choices")

    def log_order_probability(self, utilities: Tensor) -> Tensor:
        """See base class; not known."""
        raise self._says_nothing("a ranking", "Rankings")

    def forward(self, function_samples: Tensor) -> Bernoulli:
        """Returns a Bernoulli whose 1 is a win of the first item, given differences."""
        attentive = super().forward(function_samples).probs
        return Bernoulli(
            probs=0.5 * self.lapse_rate + (1 - self.lapse_rate) * attentive
        )
