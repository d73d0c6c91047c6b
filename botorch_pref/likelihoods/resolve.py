"""Which likelihood explains which kind of answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Comparisons, Feedback, Validity
from botorch_pref.likelihoods.affine_probit import AffineProbitLikelihood
from botorch_pref.likelihoods.pairwise_probit import PairwiseProbitLikelihood
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood

DEFAULT_LIKELIHOODS: dict[type[Feedback], type[PreferenceLikelihood[Any]]] = {
    Comparisons: PairwiseProbitLikelihood,
    Validity: AffineProbitLikelihood,
}
"""The likelihood of each kind of answer where the user names none."""

LikelihoodArgument = (
    PreferenceLikelihood[Any]
    | Mapping[type[Feedback], PreferenceLikelihood[Any]]
    | None
)


def resolve_likelihoods(
    feedback: Sequence[Feedback], likelihood: LikelihoodArgument
) -> dict[type[Feedback], PreferenceLikelihood[Any]]:
    """One likelihood for each kind of answer.

    Args:
        feedback: Blocks of answers; none means comparisons that are still to come.
        likelihood: The user's choice: one likelihood, which replaces the default of its
            kind, or a mapping from kinds to likelihoods.

    Raises:
        UnsupportedFeedbackError: A likelihood of another library, or one that does not
            explain the kind of answers it is named for.
    """
    if likelihood is None:
        chosen: dict[type[Feedback], PreferenceLikelihood[Any]] = {}
    elif isinstance(likelihood, Mapping):
        chosen = dict(likelihood)
    else:
        chosen = {getattr(likelihood, "feedback_type", Comparisons): likelihood}
    for kind, given in chosen.items():
        if not isinstance(given, PreferenceLikelihood) or given.feedback_type != kind:
            raise UnsupportedFeedbackError(
                f"{type(given).__module__}.{type(given).__name__} does not explain "
                f"{kind.__name__}; {_names(kind)} of botorch_pref does."
            )
    kinds = [type(block) for block in feedback] or [Comparisons]
    kinds += [kind for kind in chosen if kind not in kinds]
    return {
        kind: chosen[kind] if kind in chosen else DEFAULT_LIKELIHOODS[kind]()
        for kind in kinds
    }


def _names(kind: type[Feedback]) -> str:
    known = [
        c for c in PreferenceLikelihood.__subclasses__() if c.feedback_type == kind
    ]
    return " or ".join(sorted(cls.__name__ for cls in known))
