"""From a likelihood of comparisons to the link of its answers."""

from __future__ import annotations

from functools import singledispatch

from botorch.models.likelihoods import pairwise as botorch_pairwise
from gpytorch.likelihoods import Likelihood

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.likelihoods.links.duel_link import DuelLink, LogitLink, ProbitLink
from botorch_pref.likelihoods.pairwise_logit import PairwiseLogitLikelihood
from botorch_pref.likelihoods.pairwise_probit import PairwiseProbitLikelihood
from botorch_pref.likelihoods.plackett_luce import PlackettLuceLikelihood


@singledispatch
def answer_link(likelihood: Likelihood) -> DuelLink:
    """The link of the duels that a likelihood describes.

    Known are this package's likelihoods of comparisons and BoTorch's, whose probit link
    is ``Phi(f / sqrt(2))``: a noise of 1 per item. A likelihood with a tie threshold
    has the link of a judge who must decide, as if the threshold were 0. Plackett and
    Luce's of a set of two is logistic.
    ``answer_link.register(Class)`` adds one.

    Args:
        likelihood: A likelihood of comparisons.

    Raises:
        UnsupportedFeedbackError: If its link is not known.
    """
    raise UnsupportedFeedbackError(
        f"The answer to a duel under {type(likelihood).__name__} is not known; give "
        "link=ProbitLink(noise) or link=LogitLink(), or use a pairwise likelihood."
    )


@answer_link.register
def _(likelihood: PairwiseProbitLikelihood) -> DuelLink:
    return ProbitLink(likelihood.noise)


@answer_link.register
def _(likelihood: botorch_pairwise.PairwiseProbitLikelihood) -> DuelLink:
    return ProbitLink(1.0)


@answer_link.register(PairwiseLogitLikelihood)
@answer_link.register(botorch_pairwise.PairwiseLogitLikelihood)
@answer_link.register(PlackettLuceLikelihood)
def _(likelihood: Likelihood) -> DuelLink:
    return LogitLink()
