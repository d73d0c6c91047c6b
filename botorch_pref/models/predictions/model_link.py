"""The link of a model's duels."""

from __future__ import annotations

from typing import Any

from botorch.models.model import Model

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.likelihoods.links.duel_link import DuelLink
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.resolve import own_likelihood


def model_link(model: Model) -> DuelLink:
    """The link of a model's likelihood, with its present parameters.

    BoTorch's pairwise likelihoods stand for ours, whose noise is 1 per item.

    Args:
        model: With a likelihood of duels or choices.

    Raises:
        UnsupportedFeedbackError: Its likelihood says nothing of duels.
    """
    likelihood: Any = own_likelihood(getattr(model, "likelihood", None))
    try:
        if isinstance(likelihood, PreferenceLikelihood):
            return likelihood.link
        reason = "it is no likelihood of preferences"
    except UnsupportedFeedbackError as error:
        reason = str(error)
    raise UnsupportedFeedbackError(
        f"The answer to a duel under {type(likelihood).__name__} is not known "
        f"({reason}); give link=ProbitLink(noise) or link=LogitLink(), or use a "
        "pairwise likelihood."
    )
