"""Choice of the likelihood for each kind of answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from botorch.models.likelihoods import pairwise as botorch_pairwise

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.likelihoods.affine_probit import AffineProbitLikelihood
from botorch_pref.likelihoods.beta_rating import BetaRatingLikelihood
from botorch_pref.likelihoods.ordinal_probit import OrdinalProbitLikelihood
from botorch_pref.likelihoods.pairwise_beta import PairwiseBetaLikelihood
from botorch_pref.likelihoods.pairwise_logit import PairwiseLogitLikelihood
from botorch_pref.likelihoods.pairwise_probit import PairwiseProbitLikelihood
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.registry import likelihoods_of

AnyLikelihood = PreferenceLikelihood[Any]

DEFAULT_LIKELIHOODS: dict[type[Feedback], type[AnyLikelihood]] = {
    Comparisons: PairwiseProbitLikelihood,
    Choices: PairwiseProbitLikelihood,
    Rankings: PairwiseProbitLikelihood,
    Validity: AffineProbitLikelihood,
    OrdinalRatings: OrdinalProbitLikelihood,
    Strengths: PairwiseBetaLikelihood,
    Ratings: BetaRatingLikelihood,
}
"""The likelihood of each kind of answer where neither user nor model names one."""

BOTORCH_LIKELIHOODS: dict[type[Any], type[AnyLikelihood]] = {
    botorch_pairwise.PairwiseProbitLikelihood: PairwiseProbitLikelihood,
    botorch_pairwise.PairwiseLogitLikelihood: PairwiseLogitLikelihood,
}
"""What BoTorch's likelihoods mean here. They have no parameters, and the defaults are
the same functions, without BoTorch's clamps of large differences."""

LikelihoodArgument = (
    AnyLikelihood
    | botorch_pairwise.PairwiseLikelihood
    | Mapping[type[Feedback], AnyLikelihood | botorch_pairwise.PairwiseLikelihood]
    | None
)


def _chosen(likelihood: LikelihoodArgument) -> dict[type[Feedback], AnyLikelihood]:
    """The user's choice by kind of answer."""
    if likelihood is None:
        return {}
    if isinstance(likelihood, Mapping):
        chosen = {kind: own_likelihood(given) for kind, given in likelihood.items()}
    else:
        ours = own_likelihood(likelihood)
        kinds = getattr(ours, "explains", {Comparisons: None})
        chosen = dict.fromkeys(kinds, ours)
    for kind, given in chosen.items():
        if not (isinstance(kind, type) and issubclass(kind, Feedback)):
            raise UnsupportedFeedbackError(
                f"likelihood names {kind!r}; the keys are classes of feedback, for "
                "example botorch_pref.Ratings."
            )
        if not isinstance(given, PreferenceLikelihood) or kind not in given.explains:
            raise UnsupportedFeedbackError(
                f"likelihood has a {type(given).__module__}.{type(given).__name__}, "
                f"which does not explain {kind.__name__}; {_names(kind)} of "
                "botorch_pref does."
            )
    return chosen


def own_likelihood(likelihood: Any) -> Any:
    """A likelihood of BoTorch as ours; any other as it is, for better or worse.

    Args:
        likelihood: Of a model.
    """
    translation = BOTORCH_LIKELIHOODS.get(type(likelihood))
    return likelihood if translation is None else translation()


def resolve_likelihoods(
    feedback: Sequence[Feedback],
    likelihood: LikelihoodArgument,
    defaults: Mapping[type[Feedback], type[AnyLikelihood]],
) -> dict[type[Feedback], AnyLikelihood]:
    """One likelihood for each kind of answer.

    Answers that the same class explains share one likelihood, and so its noise: choices
    and rankings take that of comparisons unless they are given their own. The order of
    the blocks does not matter.

    Args:
        feedback: Blocks of answers; none means comparisons that are still to come.
        likelihood: The user's choice: one likelihood, for all kinds it explains, or a
            mapping from kinds to likelihoods. BoTorch's two of pairs stand for ours.
        defaults: The class for each kind that the user leaves open.

    Raises:
        UnsupportedFeedbackError: A likelihood of another library, or one that does not
            explain the kind of answers it is named for.
    """
    chosen = _chosen(likelihood)
    # Named for comparisons: of all. Named for another kind: of that kind alone.
    shared = [chosen[Comparisons]] if Comparisons in chosen else []
    resolved: dict[type[Feedback], AnyLikelihood] = {}
    for kind, block in _kinds(feedback, likelihood, chosen).items():
        default = defaults.get(kind)
        alike = [given for given in shared if type(given) is default]
        if kind in chosen:
            resolved[kind] = chosen[kind]
        elif alike:
            resolved[kind] = alike[0]
        elif default is None:
            raise UnsupportedFeedbackError(
                f"{kind.__name__} has no likelihood by default; name one with "
                f"likelihood={{{kind.__name__}: {_names(kind)}(...)}}."
            )
        else:
            resolved[kind] = default.default_for(block)
            shared.append(resolved[kind])
    return resolved


def _kinds(
    feedback: Sequence[Feedback],
    likelihood: LikelihoodArgument,
    chosen: Mapping[type[Feedback], AnyLikelihood],
) -> dict[type[Feedback], Feedback | None]:
    """Kinds of answers, comparisons first: those there are and those still to come."""
    given = {type(block): block for block in feedback}
    kinds: dict[type[Feedback], Feedback | None] = {}
    if Comparisons in given or not given:
        kinds[Comparisons] = given.get(Comparisons)
    kinds |= given
    if isinstance(likelihood, Mapping):
        return kinds | {kind: None for kind in chosen if kind not in kinds}
    if not kinds.keys() & chosen.keys() and chosen:
        if given:
            raise UnsupportedFeedbackError(
                f"{type(likelihood).__name__} explains none of the answers given "
                f"({', '.join(kind.__name__ for kind in given)}); for answers that are "
                f"still to come pass likelihood={{{next(iter(chosen)).__name__}: ...}}."
            )
        kinds[next(iter(chosen))] = None
    return kinds


def _names(kind: type[Feedback]) -> str:
    return " or ".join(cls.__name__ for cls in likelihoods_of(kind))
