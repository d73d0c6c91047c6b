"""Rules that value challengers by their duels: BALD, EUBO, MUC and UCB."""

from __future__ import annotations

from typing import Any

import torch
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.sampling.base import MCSampler
from botorch.sampling.get_sampler import get_sampler
from botorch.utils.transforms import (
    average_over_ensemble_models,
    t_batch_mode_transform,
)
from torch import Generator, Tensor

from botorch_pref.acquisition.duels import (
    DifferenceAcquisition,
    ReferenceAcquisition,
    champion,
    incumbent,
    reference_point,
    takes_points,
    with_others,
)
from botorch_pref.acquisition.registration import register_acquisition
from botorch_pref.likelihoods import DuelLink
from botorch_pref.likelihoods.protocol import win_and_information
from botorch_pref.numerics import mixtures
from botorch_pref.numerics.argument_checks import checked_arguments


@register_acquisition("bald")
class DuelingBALD(DifferenceAcquisition):
    r"""Bayesian active learning by disagreement (Houlsby et al. 2011) for duels.

    .. math:: \alpha(x_1, x_2) = h\big(E[g(f(x_1) - f(x_2))]\big)
        - E[h(g(f(x_1) - f(x_2)))],

    the mutual information, in nats, of the answer and the utilities, with the link
    :math:`g` of the likelihood and the binary entropy
    :math:`h(p) = -p \log p - (1 - p) \log(1 - p)`: a closed form, see
    :func:`.win_and_information`. Under the probit link it is right within 8.1e-8 nats,
    so that it may fall below 0 by as much where nothing is to be learned.

    Args:
        model: See :class:`.DuelingAcquisition`.
        X_ref: See :class:`.DuelingAcquisition`; None to choose all points.
        link: From a difference of utilities to an answer. By default that of
            ``model.likelihood``, with its present parameters.

    Raises:
        UnsupportedFeedbackError: No link is given and the likelihood has none.
        FeedbackError: ``X_ref`` is no such point.
    """

    def __init__(
        self, model: Model, X_ref: Tensor | None = None, link: DuelLink | None = None
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
    as the previous winner, :math:`E[f(x_r)]` is subtracted, so that the value of a
    challenger is its expected improvement on the reference,

    .. math:: \alpha(x) = E[\max(f(x), f(x_r))] - E[f(x_r)]
        = E[\max(f(x) - f(x_r), 0)],

    which does not depend on the level of the utilities. The value of an option without
    an opponent is its expected utility. Where :math:`\theta = 0`, as of a point with
    itself, the value is that of the better point, and the gradient of :math:`\theta`
    is taken as 0.

    The arguments are those of :class:`.DuelingAcquisition`.
    """

    def duel_value(self, means: Tensor, variance: Tensor) -> Tensor:
        """See base class."""
        return mixtures.expected_positive_part(means, variance)

    def duel_values(
        self, posterior: Posterior, first: Tensor, second: Tensor
    ) -> Tensor:
        """Computes the expected utility of the better option of each duel.

        It is the sum of the second option's mean (the level) and the expected
        improvement of the first on it (the gain). A reference's mean is subtracted.
        """
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


@register_acquisition("joint-eubo", reference=incumbent)
class DuelingJointEUBO(ReferenceAcquisition):
    r"""Expected improvement of the best of several options on a reference.

    .. math:: \alpha(x_1, \dots, x_q)
        = E\big[\max\big(\max_i f(x_i) - f(x_r), 0\big)\big],

    the qEUBO of Astudillo et al. (2023) of a question that shows the reference beside
    ``q`` challengers, which are meant to be chosen jointly. It is an average over
    `DRAWS` quasi-random draws of the utilities, which stay fixed: smooth, and off, as
    another generator shows, by up to a tenth at good points and by half at poor ones.
    Pending points are options of the same question. The value of one challenger is what
    `DuelingEUBO` has without draws.

    Args:
        model: Any BoTorch model with one output whose posterior BoTorch draws from; a
            batch of models; or an ensemble, over whose members values are averaged.
        X_ref: The reference point, see :class:`.DuelingAcquisition`.
        generator: Source of the draws, on the CPU; torch's default one if None.

    Raises:
        FeedbackError: ``X_ref`` is no such point.
    """

    DRAWS = 64
    chosen_jointly = True
    """Whether the challengers of a question are chosen at once."""

    X_ref: Tensor

    @checked_arguments
    def __init__(
        self, model: Model, X_ref: Tensor, generator: Generator | None = None
    ) -> None:
        """Draws the seed of the utilities; the sampler waits for a first posterior."""
        super().__init__(model, reference_point(X_ref, model))
        self._seed = int(torch.randint(2**31, (), generator=generator))
        self._sampler: MCSampler | None = None

    @takes_points
    @t_batch_mode_transform()
    @average_over_ensemble_models  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Computes the expected improvement of the best of all options.

        Args:
            X: New points, ``batch_shape x q x d``.

        Returns:
            ``batch_shape``, broadcast with the batch of the model.
        """
        options = with_others(X, self.X_pending, self.X_ref)
        return self._value(self._posterior(options))

    def _posterior(self, options: Tensor) -> Any:
        """Returns the joint posterior that the value is of."""
        return self.model.posterior(options)

    def _value(self, posterior: Any) -> Tensor:
        """Computes by how much the best option is expected to exceed the reference.

        The reference is the last of the options; the result is ``batch_shape``.
        """
        # Draws stay fixed, so that the value is a smooth function of the options.
        if self._sampler is None:
            shape = torch.Size([self.DRAWS])
            self._sampler = get_sampler(posterior, shape, seed=self._seed)
        utilities: Tensor = self._sampler(posterior).squeeze(-1)
        return (utilities.amax(-1) - utilities[..., -1]).mean(0)


@register_acquisition("muc", reference=champion)
class DuelingMUC(DifferenceAcquisition):
    r"""Maximally uncertain challenge (Fauvel and Chalk 2021).

    .. math:: \alpha(x) = Var\big[g(f(x) - f(x_r))\big],

    the variance under the posterior of the probability that the challenger wins, with
    the link :math:`g` of the likelihood: what is not known of the answer and can be
    learned, without the judge's noise. The reference :math:`x_r` is meant to be the
    :func:`~botorch_pref.acquisition.champion`. By the law of total variance the spread
    of the components' means counts too,

    .. math:: \alpha(x) = \frac1S \sum_s Var_s[g(u)]
        + \frac1S \sum_s \Big(E_s[g(u)] - \frac1S \sum_t E_t[g(u)]\Big)^2 ;

    the variance within one is :meth:`DuelLink.win_variance`.

    Args:
        model: See :class:`.DuelingAcquisition`.
        X_ref: The reference point, see :class:`.DuelingAcquisition`.
        link: See :class:`.DuelingBALD`.

    Raises:
        UnsupportedFeedbackError: No link is given and the likelihood has none.
        FeedbackError: ``X_ref`` is no such point.
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


@register_acquisition("ucb", reference=incumbent)
class DuelingUCB(DifferenceAcquisition):
    r"""Dueling upper credible bound (Benavoli, Azzimonti and Piga 2021, section 5).

    The upper end of the narrowest interval that holds :math:`f(x) - f(x_r)` with
    probability ``level``. Under a Gaussian posterior of the difference,

    .. math:: \alpha(x) = \mu + \Phi^{-1}\big(\tfrac{1 + level}{2}\big) \, \tau .

    At ``x = x_r`` its value is 0. The deviation :math:`\tau` has a kink there; its
    gradient is taken as 0.

    Args:
        model: See :class:`.DuelingAcquisition`.
        X_ref: The reference point, see :class:`.DuelingAcquisition`.
        level: Probability of the interval, in (0, 1).

    Raises:
        ValueError: ``level`` is not in (0, 1) or ``X_ref`` is no such point.
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
        return mixtures.narrowest_interval(means, variance, self.level)[1]
