"""Knowledge gradients: how much an answer is expected to help the choice."""

from __future__ import annotations

from math import ceil

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.posteriors.posterior import Posterior
from botorch.utils.sampling import draw_sobol_normal_samples
from botorch.utils.transforms import is_ensemble
from torch import Generator, Tensor
from torch.nn.functional import pad

from botorch_pref.acquisition.duels import (
    DuelingAcquisition,
    incumbent,
    observed_points,
    points_of,
    single_output,
    with_others,
)
from botorch_pref.acquisition.registration import register_acquisition
from botorch_pref.acquisition.rules import DuelingJointEUBO
from botorch_pref.likelihoods import DuelLink
from botorch_pref.models.answer_likelihoods import item_noise
from botorch_pref.models.known_covariance import KnownCovariance
from botorch_pref.numerics.argument_checks import check_count, checked_arguments
from botorch_pref.posteriors.gaussian import (
    draw_utilities,
    duel_mixtures,
    moments_of,
    shared_covariance_mixture,
)


@torch.no_grad()
@checked_arguments
def likely_best(
    model: Model, X: Tensor, num_points: int = 32, generator: Generator | None = None
) -> Tensor:
    """Finds points that may be the best: by the posterior mean, and by draws.

    They are the point of the largest mean, and the best one of each posterior draw, as
    BoTorch's ``MaxPosteriorSampling`` finds them, of any posterior that a
    `DuelingAcquisition` takes. For ``choices`` of `DuelingKG` and `DuelingJointKG`.

    Args:
        model: See :class:`.DuelingAcquisition`. The members of an ensemble are drawn
            from equally often.
        X: The points, ``n x d``, or ``batch_shape x n x d``; hundreds, such as some
            anywhere and some around the best so far.
        num_points: How many at most. One has the largest posterior mean.
        generator: Source of the draws, on the CPU; torch's default one if None.

    Returns:
        ``k x d``, all different; or ``batch_shape x k x d``, where some may repeat.

    Raises:
        FeedbackError: ``X`` are no points of the model.
    """
    check_count("num_points", num_points, at_least=1)
    X = points_of(single_output(model), "X", X)
    posterior = model.posterior(X)
    mean = shared_covariance_mixture(posterior)[0].mean(0)
    members = mean.shape[-2] if is_ensemble(model) else 1
    count = ceil((num_points - 1) / members)
    places = draw_utilities(posterior, count, generator).argmax(-1)
    if is_ensemble(model):
        mean, places = mean.mean(-2), places.movedim(-1, 0).flatten(0, 1)
        # There may be more members than points: some from all along their chain.
        selection = torch.linspace(0, len(places) - 1, num_points - 1).round().long()
        places = places[selection]
    places = torch.cat([mean.argmax(-1).unsqueeze(0), places]).movedim(0, -1)
    if places.dim() == 1:
        # Whole numbers and categories make designs that are the same.
        return X[places.unique()].unique(dim=0)
    X = X.expand(*places.shape[:-1], *X.shape[-2:])
    return X.take_along_dim(places.unsqueeze(-1), -2)


_LEAST, _DRAWS = 0.01, 1024
"""The chance of being heard as the best below which nobody takes an option; the number
of draws that find it."""


@torch.no_grad()
def without_hopeless(
    acquisition: AcquisitionFunction,
    options: Tensor,
    beside: Tensor,
    likely: Tensor,
    generator: Generator | None = None,
) -> Tensor:
    """Replaces in turn the options that hardly any answer would name as the best.

    These are the best, noise included, in less than 1 % of draws. `next_question` uses
    it after a joint search by `DuelingJointKG`.

    A knowledge gradient takes an answer for all differences to the reference, and so
    values an option that nobody would choose: how much worse it is, it expects to
    learn. A choice or a ranking says next to nothing of that.

    Args:
        acquisition: Values options, ``batch_shape x q x d``.
        options: ``q x d``.
        beside: ``j x d``, the other options of the question, which stay.
        likely: ``k x d``, designs that may be the best, see `likely_best`.
        generator: Source of the draws; torch's default one if None.

    Returns:
        ``q x d``. A hopeless option is replaced by one of the ``likely`` designs that
        are not hopeless in its place: that with which the question has the largest
        value. It stays where there is no such design.
    """
    count, present = len(options), torch.cat([options, beside])
    posterior = acquisition.model.posterior(torch.cat([present, likely]))
    draws = draw_utilities(posterior, _DRAWS, generator)
    # What is heard: options that differ by less than the noise are all named at times.
    noise = torch.randn(draws.shape, generator=generator, dtype=torch.float64)
    # Of an ensemble each member has its own.
    deviation = item_noise(acquisition.model).to(draws).sqrt().unsqueeze(-1)
    # A new tensor, of which columns are replaced below.
    draws = (draws + deviation * noise.to(draws)).flatten(0, -2)
    is_new = ~(likely.unsqueeze(-2) == present).all(-1).any(-1)
    of_present, of_likely = draws.tensor_split([len(present)], -1)
    for place in range(count):
        is_rest = torch.arange(len(present)) != place
        best_other = of_present[:, is_rest].amax(-1, keepdim=True)
        chance = (of_present[:, place : place + 1] > best_other).double().mean()
        is_rival = (of_likely > best_other).double().mean(0) >= _LEAST
        (rivals,) = torch.where(is_rival & is_new)
        if chance >= _LEAST or not len(rivals):
            continue
        exchanged = options.repeat(len(rivals), 1, 1)
        exchanged[:, place] = likely[rivals]
        best = acquisition(exchanged).argmax()
        options = exchanged[best]
        of_present[:, place] = of_likely[:, rivals[best]]
        is_new[rivals[best]] = False
    return options


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
        """Copies the choices, by default the observed points, without gradients."""
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
        r"""Computes the knowledge gradient of each duel: see base class.

        It is :math:`\sum_y \max_x P(y) E[f(x) - f(x_b) \mid y]` over a win and a loss,
        with the choice :math:`x_b` that is the best now, and :math:`x` any choice or
        one of the two options.
        """
        means, covariance = shared_covariance_mixture(posterior)
        gains = self._gains(means)
        difference, variance = duel_mixtures(posterior, first, second)
        shift = covariance[..., first] - covariance[..., second]
        slope = self.link.win_slope(difference, variance).mean(0)
        shift = shift.movedim(-1, 0) * slope.unsqueeze(-1)
        # P(y) E[f(x) - f(x_b) | y], but for cov(f(x_b), u): that is the same for all x,
        # and of opposite signs for a win and a loss, so that it cancels in the sum.
        values = []
        for sign, u in ((1, difference), (-1, -difference)):
            chance = self.link.win_probability(u, variance)
            gain = torch.einsum("sd...,s...n->d...n", chance, gains) / len(gains)
            values.append(self._best(sign * shift + gain, first, second))
        return values[0] + values[1]

    def _gains(self, means: Tensor) -> Tensor:
        """Subtracts the component means of the choice that is the best now.

        So the level of the utilities, which may be large, is not in the maxima. Means
        and result are ``s x batch_shape x N``; the last of the ``N`` are the choices.
        """
        offset = means.shape[-1] - self.choices.shape[-2]
        best = offset + means.detach().mean(0)[..., offset:].argmax(-1, keepdim=True)
        return means - means.gather(-1, best.expand(*means.shape[:-1], 1))

    def _best(self, gain: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Finds the largest gain of all choices and of the two options of each duel.

        Gains are ``num_duels x batch_shape x N``, of which the last are the choices.
        """
        index = torch.stack([first, second], dim=-1)
        index = index.view(-1, *[1] * (gain.dim() - 2), 2)
        duelists = gain.gather(-1, index.expand(*gain.shape[:-1], 2))
        choices = gain[..., -self.choices.shape[-2] :]
        return torch.cat([choices, duelists], dim=-1).amax(-1)


@register_acquisition("joint-kg", reference=incumbent)
class DuelingJointKG(DuelingJointEUBO):
    r"""Expected gain of the choice in the end from a question of several options.

    .. math:: \alpha(x_1, \dots, x_q) = E_y\big[
        \max_{x \in C \cup \{x_1, \dots, x_q, x_r\}} E[f(x) \mid D, y]\big]
        - \max_{x \in C \cup \{x_r\}} E[f(x) \mid D],
        \qquad y_i = f(x_i) + e_i - f(x_r) - e_r,

    the knowledge gradient of a question of which the differences of options to the
    reference are heard, each option with noise of the likelihood by itself. A ranking
    says nearly as much, so that the value is a little too large. One chooses in the end
    from a set ``choices`` :math:`C` and the options. What the noise hides counts for
    nothing, so that options too near to be told apart are worth little.
    `DuelingJointEUBO` is the limit without noise and choices. With :math:`u_x = f(x) -
    f(x_r)` of mean :math:`m` and covariance :math:`S` at choices and options, the part
    :math:`S_o` of it at the options, and the noise
    :math:`N = \sigma^2 (I + 1 1^T)` of their differences,

    .. math:: E[u \mid D, y] \sim
        N\big(m, S_{\cdot o} (S_o + N)^{-1} S_{o \cdot}\big)
        = m + (L^{-1} S_{o \cdot})^T z, \qquad L L^T = S_o + N,

    averaged over `DRAWS` quasi-random draws of standard normals :math:`z`, each with
    its opposite, and four times as many for more than four new options, whose optimum
    would fit the draws: what cannot change the choice is worth nothing, and nothing is
    worth less. A mixture counts as the Gaussian of its mean and covariance. The noise
    is at least :math:`\epsilon^{2/3}` of the largest variance of a difference,
    below which it hides nothing but rounding, and what hides the rounding of the
    posterior where options nearly coincide. Far from good points the value is all but
    flat: give ``optimize_acqf`` starts near them,
    ``options={"sample_around_best": True}``.

    Args:
        model: Any BoTorch model with one output and a posterior that is Gaussian or a
            `SkewNormalPosterior`; a batch of models; or an ensemble, over whose members
            values are averaged. A likelihood that says nothing of duels adds no noise.
        X_ref: The reference point, see :class:`.DuelingAcquisition`.
        generator: Source of the draws, on the CPU; torch's default one if None.
        choices: Points that could be chosen in the end besides the options, ``n x d``,
            or ``batch_shape x n x d``; None for none. A few dozen that may be the best,
            such as `likely_best` finds, are worth their time (`docs/acquisition.md`).

    Raises:
        FeedbackError: ``X_ref`` or ``choices`` are no such points.
    """

    _noise: Tensor
    choices: Tensor

    def __init__(
        self,
        model: Model,
        X_ref: Tensor,
        generator: Generator | None = None,
        choices: Tensor | None = None,
    ) -> None:
        """Draws the seed of the normals, and copies noise and choices, if any."""
        super().__init__(model, X_ref, generator)
        self.register_buffer("_noise", item_noise(model).to(self.X_ref))
        self._normals = self.X_ref.new_empty(0, 0)
        self._covariance = KnownCovariance()
        if choices is None:
            points = self.X_ref[..., :0, :]
        else:
            points = points_of(model, "choices", choices)
        self.register_buffer("choices", points.detach().clone())

    def _posterior(self, options: Tensor) -> tuple[Tensor, Tensor]:
        """Computes means of choices and options, and covariances of options with all.

        These are the moments over all mixture components. For ``n`` choices and ``k``
        options they are ``batch_shape x (n + k)`` and ``batch_shape x k x (n + k)``:
        covariances among choices are not needed. The last of the ``k`` options is the
        reference, from which `_gain_moments` takes all differences.
        """
        choices, n = self.choices, self.choices.shape[-2]
        # Where the model allows, what depends on the choices alone is computed once.
        identity = torch.eye(n, dtype=choices.dtype, device=choices.device)
        known_covariance = self._covariance(self.model, choices, identity)
        if known_covariance is None:
            joint = moments_of(self.model.posterior(with_others(choices, options)))
            spread = joint.spread
            between = spread[..., n:, :] @ spread.mT
            return joint.mean, joint.covariance[..., n:, :] + between
        at_choices, covariance_with = known_covariance
        moments, cross = covariance_with(options)
        mean, spread = moments.mean, moments.spread
        of_choices = at_choices.mean.expand(*mean.shape[:-1], n)
        cross = cross + spread @ at_choices.spread.mT
        among = moments.covariance + spread @ spread.mT
        return torch.cat([of_choices, mean], -1), torch.cat([cross, among], -1)

    def _value(self, posterior: tuple[Tensor, Tensor]) -> Tensor:
        """Computes the expected gain of the best mean after the answer.

        The ``posterior`` is of `_posterior`, the result ``batch_shape``. Of utilities
        less the reference's let ``m`` be the means, ``S`` the covariances of options
        with all, and ``N`` the noise. Then means after the answer are ``m + (L^-1 S)'
        z``, with ``L L' = S + N`` at the options and standard normals ``z``, over draws
        of which the largest mean is averaged.
        """
        n = self.choices.shape[-2]
        mean, toward, min_noise = _gain_moments(*posterior)
        noise = torch.maximum(self._noise, min_noise)[..., None, None]
        k = toward.shape[-2]
        eye = torch.eye(k, dtype=mean.dtype, device=mean.device)
        # Differences to the reference have its noise in common.
        root = torch.linalg.cholesky(toward[..., n:] + noise * (eye + 1))
        moves = torch.linalg.solve_triangular(root, toward, upper=False)
        # The optimum of many options would fit the draws, if these were few.
        chosen = k - (0 if self.X_pending is None else self.X_pending.shape[-2])
        draws = self.DRAWS if chosen <= 4 else 4 * self.DRAWS
        if self._normals.shape != (draws, k):
            # Fixed by the seed, so that the value is a smooth function of the options.
            half = draw_sobol_normal_samples(k, draws // 2, seed=self._seed)
            self._normals = torch.cat([half, -half])
        normals = self._normals.to(mean)
        gains = mean + torch.einsum("sk,...ki->s...i", normals, moves)
        # The reference, whose gain is zero, can be chosen too. New options, in which
        # derivatives are, change nothing of what is known now.
        now = pad(mean[..., :n].detach(), (1, 0)).amax(-1)
        return gains.amax(-1).clamp_min(0.0).mean(0) - now


def _gain_moments(mean: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Computes moments of the utilities of choices and options less the reference's.

    Args:
        mean: ``batch_shape x (n + k + 1)``, of ``n`` choices, ``k`` options and the
            reference.
        rows: ``batch_shape x (k + 1) x (n + k + 1)``, covariances of options and
            reference with all points.

    Returns:
        Means, ``batch_shape x (n + k)``; covariances of options with all,
        ``batch_shape x k x (n + k)``; and the least noise of a difference,
        ``batch_shape``, that hides the rounding of the options.
    """
    mean, k = mean[..., :-1] - mean[..., -1:], rows.shape[-2] - 1
    between = rows[..., :-1, :] - rows[..., -1:, :]
    toward = between[..., :-1] - between[..., -1:]
    eps = torch.finfo(mean.dtype).eps
    variances = torch.linalg.eigvalsh(toward.detach()[..., -k:])
    largest_variance = rows.detach()[..., -k - 1 :].diagonal(dim1=-2, dim2=-1).amax(-1)
    # Negative eigenvalues are rounding errors, whose size depends on the model.
    wrong = 2 * variances[..., 0].neg().clamp_min(0.0)
    min_noise = (
        eps ** (2 / 3) * variances[..., -1].abs() + eps * largest_variance.abs() + wrong
    )
    return mean, toward, min_noise + torch.finfo(mean.dtype).tiny
