"""Predictions of answers, and of utilities once open duels are answered."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from botorch.posteriors.posterior import Posterior
from botorch.posteriors.torch import TorchPosterior
from botorch.sampling.get_sampler import get_sampler
from botorch.utils.transforms import is_ensemble
from torch import Tensor

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Choices, Rankings, Validity
from botorch_pref.likelihoods import DuelLink, PreferenceLikelihood, ScalarFactors
from botorch_pref.likelihoods.protocol import answer_correlation
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.models.regression import PlackettLuceRegression
from botorch_pref.models.utility_model import check_one_to_one
from botorch_pref.numerics.argument_checks import check_count, checked_arguments
from botorch_pref.posteriors import SkewNormalPosterior, gaussian_posterior
from botorch_pref.posteriors.gaussian import (
    difference_mixture,
    moments_of,
    resolved_variance,
)


@checked_arguments
def choice_probability(
    model: PreferenceGP | PlackettLuceRegression,
    X: Tensor,
    num_samples: int = 512,
    seed: int = 0,
) -> Tensor:
    """Computes the probabilities that a person chooses each point of a set as its best.

    The likelihood's own probabilities given utilities, averaged over quasi-random
    draws of the joint posterior: differentiable in ``X``, and probabilities of a set
    sum to one. The standard error is at most about ``0.5 / sqrt(num_samples)``. The
    probability under an ensemble is the mean of its members'.

    Args:
        model: Has a likelihood of choices or rankings.
        X: ``batch_shape x k x d``, a set of k points each.
        num_samples: How many draws.
        seed: Of the draws.

    Returns:
        ``batch_shape x k``.

    Raises:
        FeedbackError: ``num_samples`` is below 1.
        UnsupportedFeedbackError: The model has no likelihood of sets.
    """
    check_count("num_samples", num_samples, at_least=1)
    likelihood = _set_likelihood(check_one_to_one(model))
    posterior = cast("TorchPosterior", model.posterior(X))
    sampler = get_sampler(posterior, torch.Size([num_samples]), seed=seed)
    utilities = sampler(posterior).squeeze(-1)
    chances = likelihood.log_choice_probability(utilities).exp().mean(0)
    return chances.mean(-2) if is_ensemble(model) else chances


def _set_likelihood(
    model: PreferenceGP | PlackettLuceRegression,
) -> PreferenceLikelihood[Any]:
    """Finds the model's likelihood of choices or rankings; an error without one."""
    if isinstance(model, PlackettLuceRegression):
        return model.likelihood
    for kind in (Choices, Rankings):
        if kind.__name__ in model.likelihoods:
            return model.likelihood_of(kind)
    raise UnsupportedFeedbackError(
        "The model has no likelihood of choices or rankings; build it with "
        "likelihood={Choices: PairwiseProbitLikelihood()} or another of sets."
    )


@checked_arguments
def log_validity_probability(model: PreferenceGP, X: Tensor) -> Tensor:
    r"""Computes the log probability that a trial at each point is valid.

    .. math:: \log P(\mathrm{valid} \mid x)
        = \log \frac{1}{S} \sum_{s=1}^S \int p(\mathrm{valid} \mid f) \,
        N(f; m_s(x), c(x)) \, df
        = \log \frac{1}{S} \sum_{s=1}^S
        \Phi\!\left(\frac{m_s(x)}{\sqrt{\sigma_c^2 + c(x)}}\right),

    with the posterior's means :math:`m_s` and variance :math:`c`; a Gaussian posterior
    has one mean. The last form is that of `AffineProbitLikelihood`. Exact under the
    posterior, in log space, so that it has a gradient where the probability itself is 0
    in floating point. The probability under an ensemble is the mean of its members'.

    Args:
        model: One with a likelihood of `Validity`: of its own, or shared with other
            feedback.
        X: ``batch_shape x q x d``.

    Returns:
        ``batch_shape x q``, each point by itself.

    Raises:
        FeedbackError: ``X`` is no tensor of points.
        UnsupportedFeedbackError: The model has no likelihood of validity, or one whose
            factors have no partition.
    """
    X = check_one_to_one(model).check_points("X", X)
    likelihood = model.likelihood_of(Validity)
    valid = Validity(torch.tensor([0]), torch.tensor([True]))
    factors = likelihood.factors(valid.map_tensors(lambda t: t.to(X.device)), 1)
    if not isinstance(factors, ScalarFactors):
        raise UnsupportedFeedbackError(
            f"The factors of {type(likelihood).__name__} have no log_partition, hence "
            "no probability of a valid trial; use AffineProbitLikelihood."
        )
    # Each point is a batch element of its own: covariances of points are not needed.
    # Points come first, for the batch of the model and its likelihood comes last.
    moments = model.moments(X.unsqueeze(-2).movedim(-3, 0))
    # Rounding alone can leave a variance below zero.
    variance = moments.covariance[..., 0].clamp_min(0.0)
    # A sign that the rows carry does not change the variance.
    sign = factors.rows.coefficients[0, 0]
    log_valid = factors.log_partition(sign * moments.means, variance).value.squeeze(-1)
    log_valid = (log_valid.logsumexp(0) - math.log(len(log_valid))).movedim(0, -1)
    if not is_ensemble(model):
        return log_valid
    return log_valid.logsumexp(-2) - math.log(log_valid.shape[-2])


def awaiting_answers(
    posterior: Posterior, link: DuelLink, first: Tensor, second: Tensor
) -> Posterior:
    r"""Makes a posterior in which the answers of some duels of its points have come.

    The answers leave the mean and reduce the covariance, as the hallucinated
    observations of batch upper confidence bounds do (Desautels, Krause and Burdick
    2014). The answer about the difference :math:`u = f(x_1) - f(x_2)` of a duel, of
    correlation :math:`\rho` with it, see `answer_correlation`, counts as an observation
    of :math:`u`, equal to its mean, with Gaussian noise of variance
    :math:`\operatorname{var}(u) (\rho^{-2} - 1)`. Of one duel that leaves the
    covariance expected after its answer, exactly so under a Gaussian; of several

    .. math:: \operatorname{cov}(f) - C M^{-1} C^T, \qquad
        C_k = \rho_k \frac{\operatorname{cov}(f, u_k)}{\sqrt{\operatorname{var}(u_k)}},
        \quad M_{kl} = \rho_k \rho_l \operatorname{corr}(u_k, u_l) \; (k \ne l),
        \quad M_{kk} = 1 .

    The components of a mixture keep equal weights and one covariance: by Matheron's
    rule each moves towards the common mean as its own differences say.

    Args:
        posterior: Of the utilities of all points that may meet.
        link: The probability that the first of two options wins.
        first: Places of the first options of ``k`` open duels among the points.
        second: Places of the second ones.
    """
    moments = moments_of(posterior)
    rho, deviation = _correlations(posterior, link, first, second)

    def scaled(points: Tensor) -> Tensor:
        """Multiplies the differences of duels by rho over their deviations."""
        difference = points[..., first, :] - points[..., second, :]
        return difference * (rho / deviation).unsqueeze(-1)

    spread = moments.spread
    # C', with the covariance between components; then M, and the gain C M^-1.
    covariance = scaled(moments.covariance) + scaled(spread) @ spread.mT
    identity = torch.eye(len(first), dtype=torch.bool, device=rho.device)
    matrix = torch.where(identity, 1.0, scaled(covariance.mT))
    gain = torch.cholesky_solve(covariance, torch.linalg.cholesky(matrix)).mT
    # By Matheron's rule of components around the common mean, which stays; the noise of
    # the answers is in what is left.
    stays = gain @ scaled(moments.mean.unsqueeze(-1))
    after = moments.combined(lambda f: f - gain @ scaled(f), stays.squeeze(-1))
    noise = gain * (1 - rho.square()).unsqueeze(-2) @ gain.mT
    is_skew = isinstance(posterior, SkewNormalPosterior)
    make = SkewNormalPosterior.from_moments if is_skew else gaussian_posterior
    return make(after.with_more_covariance(noise))


def _correlations(
    posterior: Posterior, link: DuelLink, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes correlations of answers to duels with differences of utilities.

    Returned with them are the deviations of the differences, over all components of the
    posterior; both are ``batch_shape x k``.
    """
    means, variance = difference_mixture(posterior, first, second)
    covariance = moments_of(posterior).covariance
    variances = covariance.diagonal(dim1=-2, dim2=-1)
    # Positive: two options may coincide.
    scale = variances[..., first] + variances[..., second]
    variance = resolved_variance(variance, scale)
    # Parameters of the link may differ in the batch, which then comes last.
    rho = answer_correlation(link, means.movedim(-1, 1), variance.movedim(-1, 0))
    total = variance + (means - means.mean(0)).square().mean(0)
    return rho.movedim(0, -1), total.sqrt()
