"""Knowledge gradients: how much an answer is expected to help the choice."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Generator, Tensor

from botorch_pref.acquisition.base import (
    DuelingAcquisition,
    duel_mixtures,
    incumbent,
    observed_points,
    points_of,
    with_others,
)
from botorch_pref.acquisition.registration import register_acquisition
from botorch_pref.acquisition.rules import DuelingJointEUBO
from botorch_pref.likelihoods import DuelLink
from botorch_pref.models.answers import item_noise
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
        values = []
        for sign, u in ((1, difference), (-1, -difference)):
            chance = self.link.win_probability(u, variance)
            gain = torch.einsum("sd...,s...n->d...n", chance, gains) / len(gains)
            values.append(self._best(sign * shift + gain, first, second))
        return values[0] + values[1]

    def _gains(self, means: Tensor) -> Tensor:
        """Component means less those of the best choice now: the level may be large."""
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


@register_acquisition("joint-kg", reference=incumbent)
class DuelingJointKG(DuelingJointEUBO):
    r"""Expected improvement on a reference of the option that an answer will show best.

    .. math:: \alpha(x_1, \dots, x_q) = E_y\big[\max\big(
        \max_i E[f(x_i) - f(x_r) \mid D, y], 0\big)\big],
        \qquad y_i = f(x_i) + e_i, \quad y_r = f(x_r) + e_r,

    the knowledge gradient of a question whose options are the choices in the end, if
    each option is heard with the noise of the likelihood. A ranking says nearly as
    much, so that the value is a little too large. Options too near to be told apart are
    worth little. `DuelingJointEUBO` is the limit without noise. With :math:`u_i =
    f(x_i) - f(x_r)` of mean :math:`m` and covariance :math:`S`, and the noise :math:`N
    = \sigma^2 (I + 1 1^T) = L L^T - S` of these differences,

    .. math:: E[u \mid D, y] \sim N\big(m, S (S + N)^{-1} S\big)
        = m + (L^{-1} S)^T z,

    averaged over `DRAWS` quasi-random draws of standard normals :math:`z`. A mixture
    counts as the Gaussian of its mean and covariance. The noise is at least
    :math:`\epsilon^{2/3}` of the largest variance of a difference, below which it hides
    nothing but rounding, and what hides the rounding of the posterior where options
    nearly coincide. Far from good points the value is all but flat: give
    ``optimize_acqf`` starts near them, ``options={"sample_around_best": True}``.

    Args:
        model: Any BoTorch model with one output and a posterior that is Gaussian or a
            `SkewNormalPosterior`; a batch of models; or an ensemble, over whose members
            values are averaged. A likelihood that says nothing of duels adds no noise.
        X_ref: The reference point, see :class:`.DuelingAcquisition`.
        generator: Source of the draws, on the CPU; torch's default one if None.

    Raises:
        FeedbackError: ``X_ref`` is no such point.
    """

    _noise: Tensor

    def __init__(
        self, model: Model, X_ref: Tensor, generator: Generator | None = None
    ) -> None:
        super().__init__(model, X_ref, generator)
        self.register_buffer("_noise", item_noise(model).to(self.X_ref))
        self._normals = self.X_ref.new_empty(0, 0)

    def _value(self, posterior: Posterior) -> Tensor:
        """See base class: of the option with the best mean after the answer."""
        mean, covariance, least = _of_gains(posterior)
        noise, k = torch.maximum(self._noise, least)[..., None, None], mean.shape[-1]
        eye = torch.eye(k, dtype=mean.dtype, device=mean.device)
        root = torch.linalg.cholesky(covariance + noise * (eye + 1))
        moves = torch.linalg.solve_triangular(root, covariance, upper=False)
        if self._normals.shape[-1] != k:
            normals = draw_sobol_normal_samples(k, self.DRAWS, seed=self._seed)
            self._normals = normals.to(mean)
        gains = mean + torch.einsum("sk,...ki->s...i", self._normals, moves)
        return gains.amax(-1).clamp_min(0.0).mean(0)


def _of_gains(posterior: Posterior) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and covariance of options less the last, and noise above rounding."""
    means, covariance = shared_covariance_mixture(posterior)
    gains = means[..., :-1] - means[..., -1:]
    mean = gains.mean(0)
    around = (gains - mean).movedim(0, -1)
    rows = covariance[..., :-1, :] - covariance[..., -1:, :]
    shared = rows[..., :-1] - rows[..., -1:]
    spread = shared + around @ around.mT / len(means)
    eps = torch.finfo(mean.dtype).eps
    variances = torch.linalg.eigvalsh(spread.detach())
    own = covariance.detach().diagonal(dim1=-2, dim2=-1).amax(-1)
    # Negative eigenvalues are rounding errors, whose size depends on the model.
    wrong = 2 * variances[..., 0].neg().clamp_min(0.0)
    least = eps ** (2 / 3) * variances[..., -1].abs() + eps * own.abs() + wrong
    return mean, spread, least + torch.finfo(mean.dtype).tiny
