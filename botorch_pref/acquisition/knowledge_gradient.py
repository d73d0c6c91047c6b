"""Knowledge gradient of a duel: how much its answer is expected to help the choice."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from torch import Tensor

from botorch_pref.acquisition.base import (
    DuelingAcquisition,
    duel_mixtures,
    observed_points,
    points_of,
    with_others,
)
from botorch_pref.acquisition.registration import register_acquisition
from botorch_pref.likelihoods import DuelLink
from botorch_pref.posteriors.difference import shared_covariance_mixture


@register_acquisition("kg")
class DuelingKG(DuelingAcquisition):
    r"""Knowledge gradient of a duel, in closed form.

    .. math:: \alpha(x_1, x_2) = E_y\Big[\max_{x \in C \cup \{x_1, x_2\}}
        E[f(x) \mid D, y]\Big] - \max_{x \in C} E[f(x) \mid D],

    the expected gain in utility of the point that one would choose in the end: from a
    finite set ``choices`` :math:`C` now, and from these and the two points of the duel
    once their answer :math:`y` is known. With :math:`u = f(x_1) - f(x_2)`, the link
    :math:`g` and :math:`G = E[g(u)]`, Stein's identity gives for each Gaussian
    component of the posterior

    .. math:: P(win) \, E[f(x) \mid win] = E[f(x) g(u)]
        = \mu(x) \, G + \operatorname{cov}(f(x), u) \, \frac{dG}{d\mu_u},

    and for a loss the same with :math:`1 - G` and the opposite sign; components are
    averaged. The value is exact for the posterior at hand and nonnegative. Without
    noise, and with the pair for ``choices``, it is `DuelingEUBO` less the larger mean.

    The term subtracted does not depend on the duel. (Scott, Frazier and Powell 2011
    have the points of the duel in both maxima, and then kinks at the maxima of the
    value, where optimisers stop.) All kinks bend upwards. The value is 0, and flat,
    where no answer would change the choice.

    Args:
        model: See :class:`.DuelingAcquisition`.
        X_ref: See :class:`.DuelingAcquisition`; None to choose all points.
        choices: Points that could be chosen in the end besides those of the duel,
            ``n x d`` with ``n >= 1``, or ``batch_shape x n x d``; by default those that
            the model has observed. The cost grows with the square of ``n``.
        link: See :class:`.DuelingBALD`.

    Raises:
        FeedbackError: No choices are given and the model has observed no points, or
            ``X_ref`` or ``choices`` are no such points.
        UnsupportedFeedbackError: No link is given and the likelihood has none.
    """

    choices: Tensor

    def __init__(
        self,
        model: Model,
        X_ref: Tensor | None = None,
        choices: Tensor | None = None,
        link: DuelLink | None = None,
    ) -> None:
        super().__init__(model, X_ref)
        if choices is None:
            points = observed_points(model)
        else:
            points = points_of(model, "choices", choices)
        self.register_buffer("choices", points.detach().clone())
        self._foresee_answers(link)

    def _posterior(self, points: Tensor) -> Posterior:
        return self.model.posterior(with_others(points, self.choices))

    def duel_values(
        self, posterior: Posterior, first: Tensor, second: Tensor
    ) -> Tensor:
        """See base class."""
        means, covariance = shared_covariance_mixture(posterior)
        gains = self._gains(means)
        difference, variance = duel_mixtures(posterior, first, second)
        shift = covariance[..., first] - covariance[..., second]
        slope = self.link.win_slope(difference, variance).mean(0)
        shift = shift.movedim(-1, 0) * slope.unsqueeze(-1)
        # P(y) E[gain | y], but for a share of all points that both answers cancel.
        win, loss = (
            sign * shift + _weighted_mean(self.link.win_probability(u, variance), gains)
            for sign, u in ((1, difference), (-1, -difference))
        )
        return self._best(win, first, second) + self._best(loss, first, second)

    def _gains(self, means: Tensor) -> Tensor:
        """Component means less those of the choice that is the best now.

        So the level of the utilities, which may be large, is not in the maxima.
        """
        offset = means.shape[-1] - self.choices.shape[-2]
        best = offset + means.detach().mean(0)[..., offset:].argmax(-1, keepdim=True)
        return means - means.gather(-1, best.expand(*means.shape[:-1], 1))

    def _best(self, gain: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """The largest of ``num_duels x batch_shape x n`` among choices and duelists."""
        index = torch.stack([first, second], dim=-1)
        index = index.view(-1, *[1] * (gain.dim() - 2), 2)
        duelists = gain.gather(-1, index.expand(*gain.shape[:-1], 2))
        choices = gain[..., -self.choices.shape[-2] :]
        return torch.cat([choices, duelists], dim=-1).amax(-1)


def _weighted_mean(weights: Tensor, values: Tensor) -> Tensor:
    """Mean over components, ``num_duels x batch_shape x n``, which weights begin."""
    total = torch.einsum("sd...,s...n->d...n", weights, values)
    return total / len(values)
