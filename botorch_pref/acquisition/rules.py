"""Acquisition functions that value a challenger by the outcome of one duel."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from torch import Generator, Tensor

from botorch_pref.acquisition.base import DifferenceAcquisition, takes_points
from botorch_pref.acquisition.reference import champion, incumbent
from botorch_pref.acquisition.registration import register_acquisition
from botorch_pref.likelihoods import DuelLink
from botorch_pref.likelihoods.base import win_and_information
from botorch_pref.numerics.argument_ranges import checked_arguments
from botorch_pref.numerics.mixtures import (
    expected_positive_part,
    narrowest_interval,
    tailed_positive_part,
)


@register_acquisition("bald")
class DuelingBALD(DifferenceAcquisition):
    r"""Bayesian active learning by disagreement (Houlsby et al. 2011) for duels.

    .. math:: \alpha(x_1, x_2) = h\big(E[g(f(x_1) - f(x_2))]\big)
        - E[h(g(f(x_1) - f(x_2)))],

    the mutual information, in nats, of the answer and the utilities, with the link
    :math:`g` of the likelihood and the binary entropy :math:`h`. It is the information
    term of :class:`~botorch_pref.acquisition.DuelingEIIG`, for two free points too, and
    a closed form, ``win_and_information`` of the links. Under the
    probit link it is right within 8.1e-8 nats, so that it may fall below 0 by as much
    where nothing is to be learned.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; None to choose all points. See
            :class:`.DuelingAcquisition`, also for batches and pending points.
        link: How the answer follows from the difference of utilities. By default that
            of ``model.likelihood``, with its present parameters.

    Raises:
        UnsupportedFeedbackError: If no link is given and the likelihood has none.
        FeedbackError: If ``X_ref`` is no such point.
    """

    def __init__(
        self,
        model: Model,
        X_ref: Tensor | None = None,
        link: DuelLink | None = None,
    ) -> None:
        super().__init__(model, X_ref)
        self._foresee_answers(link)

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        return win_and_information(self.link, means, variance)[1]


@register_acquisition("eubo")
class DuelingEUBO(DifferenceAcquisition):
    r"""Expected utility of the best option (Lin et al. 2022; Astudillo et al. 2023).

    .. math:: \alpha(x_1, x_2) = E[\max(f(x_1), f(x_2))]
        = \mu_1 \Phi(a) + \mu_2 \Phi(-a) + \theta \, \phi(a), \qquad
        a = \frac{\mu_1 - \mu_2}{\theta},

    where :math:`\theta^2` is the variance of :math:`f(x_1) - f(x_2)`; under a
    `SkewNormalPosterior`, the average over its components. With a reference point, such
    as the previous winner, :math:`E[f(x_r)]` is subtracted: a challenger is worth its
    expected improvement on it,

    .. math:: \alpha(x) = E[\max(f(x), f(x_r))] - E[f(x_r)]
        = E[\max(f(x) - f(x_r), 0)],

    which does not depend on the level of the utilities. If answers are free of noise,
    the best pair is one after whose answer the expected utility of the point that is
    then best is largest (Astudillo et al. 2023). A single option without any opponent
    is worth its expected utility.

    Where the difference is certain (:math:`\theta = 0`), as of a point with itself, the
    value is that of the better point. The deviation :math:`\theta` has a kink there;
    its gradient is taken as 0.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; None to choose all points of the duels.
            See :class:`.DuelingAcquisition`, also for batches and pending points.

    Raises:
        FeedbackError: If ``X_ref`` is no such point.
    """

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        return expected_positive_part(means, variance)

    def duel_values(
        self, posterior: Posterior, first: Tensor, second: Tensor
    ) -> Tensor:
        """See base class."""
        mean = posterior.mean.squeeze(-1)  # type: ignore[attr-defined]
        level = mean[..., second]
        if self.X_ref is not None:
            # 0 exactly for the reference itself: its duels keep their digits.
            level = level - mean[..., -1:]
        gain = super().duel_values(posterior, first, second)
        return gain + level.movedim(-1, 0)

    def value_alone(self, posterior: Posterior) -> Tensor:
        """See base class."""
        mean: Tensor = posterior.mean  # type: ignore[attr-defined]
        return mean[..., 0, 0]


@register_acquisition("eiig", reference=incumbent)
class DuelingEIIG(DifferenceAcquisition):
    r"""Dueling expected improvement and information gain.

    .. math::
        \alpha(x) = k \log P(x \succ x_r) + IG(x, x_r), \qquad
        IG = h\big(P(x \succ x_r)\big) - E[h(g(f(x) - f(x_r)))],

    maximised, where :math:`P(x \succ x_r) = E[g(f(x) - f(x_r))]` includes the noise of
    the answer, :math:`g` is the link of the likelihood and :math:`h` the binary entropy
    in nats (Benavoli, Azzimonti and Piga 2021, section 5, where the information gain is
    printed with the opposite sign). Both terms are closed forms, see
    :class:`~botorch_pref.likelihoods.DuelLink`.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; see :class:`.DuelingAcquisition`, also
            for batches and pending points.
        k: Weight of improvement, nonnegative: 0.1 explores more than 0.5.
        link: How the answer follows from the difference of utilities. By default that
            of ``model.likelihood``, with its present parameters.

    Raises:
        UnsupportedFeedbackError: If no link is given and the likelihood has none.
        ValueError: If ``k`` is negative or ``X_ref`` is no such point.
    """

    parts_differ = True

    @checked_arguments
    def __init__(
        self,
        model: Model,
        X_ref: Tensor,
        k: float = 0.1,
        link: DuelLink | None = None,
    ) -> None:
        if not k >= 0:
            raise ValueError(f"k is {k}; give a weight of at least 0.")
        super().__init__(model, X_ref)
        self.k = k
        self._foresee_answers(link)

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        log_win, information = win_and_information(self.link, means, variance)
        return self.k * log_win + information

    def feasible_value(self, X: Tensor, log_valid: Tensor) -> Tensor:
        r"""Value of points that may fail, :math:`k \log (P \, P(win)) + P \, IG`.

        To improve, a trial must be valid and win; a failed one answers no question.

        Args:
            X: New points, ``batch_shape x q x d``.
            log_valid: :math:`\log P`, that all are valid, ``batch_shape``.
        """
        information = copy(self)
        information.k = 0.0
        missed = -torch.expm1(log_valid) * information(X)
        value: Tensor = self(X)
        return value + self.k * log_valid - missed


@register_acquisition("muc", reference=champion)
class DuelingMUC(DifferenceAcquisition):
    r"""Maximally uncertain challenge (Fauvel and Chalk 2021).

    .. math:: \alpha(x) = Var\big[g(f(x) - f(x_r))\big],

    the variance under the posterior of the probability that the challenger wins, with
    the link :math:`g` of the likelihood: the part of not knowing the answer that asking
    can cure, without the judge's noise. The reference :math:`x_r` is meant to be the
    champion, the maximiser of the posterior mean
    (:func:`~botorch_pref.acquisition.champion` among observed points). Over components
    the law of total variance adds what they disagree on,

    .. math:: \alpha(x) = \frac1S \sum_s Var_s[g(u)]
        + \frac1S \sum_s \Big(E_s[g(u)] - \frac1S \sum_t E_t[g(u)]\Big)^2,

    and within one it is a closed form but for a fixed smooth quadrature, right for the
    smallest and largest deviations: :meth:`DuelLink.win_variance`.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; see :class:`.DuelingAcquisition`, also
            for batches and pending points.
        link: How the answer follows from the difference of utilities. By default that
            of ``model.likelihood``, with its present parameters.

    Raises:
        UnsupportedFeedbackError: If no link is given and the likelihood has none.
        FeedbackError: If ``X_ref`` is no such point.
    """

    def __init__(
        self, model: Model, X_ref: Tensor, link: DuelLink | None = None
    ) -> None:
        super().__init__(model, X_ref)
        self._foresee_answers(link)

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        within = self.link.win_variance(means, variance).mean(0)
        wins = self.link.win_probability(means, variance)
        return within + (wins - wins.mean(0)).square().mean(0)


@register_acquisition("tailed-ei", reference=incumbent)
class DuelingTailedEI(DifferenceAcquisition):
    r"""Expected improvement under heavy tails.

    .. math:: \alpha(x) = E[\max(t, 0)] = \max(\mu, 0)
        + \frac{1}{\pi} \Big(a - |\mu| \arctan \frac{a}{|\mu|}\Big), \qquad
        a = \sqrt3 \, \tau,

    where :math:`t` has Student's distribution with three degrees of freedom and the
    location :math:`\mu` and the scale :math:`\tau` of :math:`f(x) - f(x_r)`; under a
    `SkewNormalPosterior`, the average over its components. It is the improvement that a
    Gaussian promises whose variance is a guess from three degrees of freedom, as the
    scales of a kernel are that were learned from a few answers. Far below the reference
    it falls with the square of :math:`\mu / \tau` and not with its exponential: a hump
    that the model thinks unlikely is looked at as soon as little is to be gained
    elsewhere.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; see :class:`.DuelingAcquisition`, also
            for batches and pending points.

    Raises:
        FeedbackError: If ``X_ref`` is no such point.
    """

    parts_differ = True

    def __init__(self, model: Model, X_ref: Tensor) -> None:
        super().__init__(model, X_ref)

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        return tailed_positive_part(means, variance)


@register_acquisition("exploring-eiig", reference=incumbent)
class DuelingExploringEIIG(AcquisitionFunction):
    r"""`DuelingEIIG`, and with probability :math:`\epsilon` `DuelingTailedEI`.

    Which of the two is drawn once, when the instance is made:

    .. math:: \alpha(x) = \begin{cases}
        E[\max(t, 0)] & \text{with probability } \epsilon, \\
        k \log P(x \succ x_r) + IG(x, x_r) & \text{otherwise.} \end{cases}

    The second refines: it is local, and learns the most from each answer. The first
    leaves a hill that is known, and is by no answer kept from where the model is too
    sure that nothing is to be found. By chance and not in turn, so that no plan of how
    many questions there will be is needed and none has to be remembered.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; see :class:`.DuelingAcquisition`, also
            for batches and pending points.
        epsilon: Probability of exploring, in [0, 1].
        k: As of `DuelingEIIG`.
        link: As of `DuelingEIIG`.
        generator: Source of the draw, on the CPU; torch's default one if None.

    Raises:
        UnsupportedFeedbackError: If no link is given and the likelihood has none.
        ValueError: If ``epsilon`` is no probability, ``k`` is negative or ``X_ref`` is
            no such point.
    """

    @checked_arguments
    def __init__(
        self,
        model: Model,
        X_ref: Tensor,
        epsilon: float = 1 / 3,
        k: float = 0.2,
        link: DuelLink | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not 0 <= epsilon <= 1:
            raise ValueError(f"epsilon is {epsilon}; give a probability.")
        super().__init__(model=model)
        explores = float(torch.rand((), generator=generator)) < epsilon
        # Made in any case, for its checks.
        refining = DuelingEIIG(model, X_ref, k, link)
        self.chosen = DuelingTailedEI(model, X_ref) if explores else refining

    @property
    def X_ref(self) -> Tensor | None:
        """The reference point."""
        return self.chosen.X_ref

    @property
    def feasible_value(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """`feasible_value` of the function that was drawn; None where it has none."""
        return getattr(self.chosen, "feasible_value", None)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Hands pending points to the function that was drawn.

        Args:
            X_pending: ``n x d``, or None.
        """
        self.chosen.set_X_pending(X_pending)
        super().set_X_pending(X_pending)

    @takes_points
    def forward(self, X: Tensor) -> Tensor:
        """Mean value of the duels of the new points, by the function that was drawn.

        Args:
            X: New points, ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.
        """
        value: Tensor = self.chosen(X)
        return value


@register_acquisition("ucb", reference=incumbent)
class DuelingUCB(DifferenceAcquisition):
    r"""Dueling upper credible bound (Benavoli, Azzimonti and Piga 2021, section 5).

    The upper end of the narrowest interval that holds :math:`f(x) - f(x_r)` with
    probability ``level``. Under a Gaussian posterior of the difference,

    .. math:: \alpha(x) = \mu + \Phi^{-1}\big(\tfrac{1 + level}{2}\big) \, \tau .

    At ``x = x_r`` its value is 0. The deviation :math:`\tau` has a kink there; its
    gradient is taken as 0.

    Args:
        model: Any BoTorch model whose posterior `shared_covariance_mixture` takes.
        X_ref: The reference point, ``1 x d``; see :class:`.DuelingAcquisition`, also
            for batches and pending points.
        level: Probability of the interval, in (0, 1).

    Raises:
        ValueError: If ``level`` is not in (0, 1) or ``X_ref`` is no such point.
    """

    parts_differ = True

    @checked_arguments
    def __init__(self, model: Model, X_ref: Tensor, level: float = 0.95) -> None:
        if not 0 < level < 1:
            raise ValueError(f"level is {level}; give a probability between 0 and 1.")
        super().__init__(model, X_ref)
        self.level = level

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        return narrowest_interval(means, variance, self.level)[1]
