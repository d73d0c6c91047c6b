"""The likelihoods of a model, and the factors that they make of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch.nn import ModuleDict

from botorch_pref.errors import UnsupportedFeedbackError
from botorch_pref.feedback import Comparisons, Feedback
from botorch_pref.inference.engine import Engine
from botorch_pref.likelihoods.factors.factors import Factors
from botorch_pref.likelihoods.factors.joint_factors import joint_factors
from botorch_pref.likelihoods.preference_likelihood import PreferenceLikelihood
from botorch_pref.likelihoods.resolve import LikelihoodArgument, resolve_likelihoods
from botorch_pref.models.answers.supported_answers import check_supported
from botorch_pref.models.data.distinct_points import DistinctPoints
from botorch_pref.models.data.training_set import TrainingSet

AnyLikelihood = PreferenceLikelihood[Any]


class AnswerLikelihoods(ModuleDict):
    """One likelihood for each kind of answer, by the name of its container.

    Args:
        likelihoods: By kind of answer.
    """

    def __init__(self, likelihoods: Mapping[type[Feedback], AnyLikelihood]) -> None:
        super().__init__({kind.__name__: own for kind, own in likelihoods.items()})

    @property
    def leading(self) -> AnyLikelihood:
        """The likelihood of comparisons, or of the only kind of answers there is."""
        name = Comparisons.__name__
        return cast("AnyLikelihood", self[name if name in self else next(iter(self))])

    def of(self, kind: type[Feedback], engine: Engine) -> AnyLikelihood:
        """The likelihood of a kind of answers: its own, or one that explains it too.

        Args:
            kind: A class of feedback.
            engine: What has to take the factors.

        Raises:
            UnsupportedFeedbackError: There is none.
        """
        if kind.__name__ in self:
            return cast("AnyLikelihood", self[kind.__name__])
        for module in self.values():
            # Duels of somebody who only ranked so far are heard with the same noise.
            likelihood = cast("AnyLikelihood", module)
            factors = likelihood.explains.get(kind)
            if factors is not None and engine.accepts(factors):
                return likelihood
        raise UnsupportedFeedbackError(
            f"The model has no likelihood for {kind.__name__}; build it with "
            f"likelihood={{{kind.__name__}: ...}}."
        )

    def factors(
        self, data: TrainingSet, engine: Engine, distinct: DistinctPoints | None = None
    ) -> Factors:
        """The factors of all answers, in which those about one row are one.

        Args:
            data: Answers and their datapoints.
            engine: What has to take the factors.
            distinct: The points that the factors are about; None for all datapoints.
        """
        n = data.datapoints.shape[-2]
        blocks, counts = [], []
        for answers in data.answers if distinct is None else data.distinct_answers:
            kind = type(answers.given)
            likelihood = self.of(kind, engine)
            takes_counts = likelihood.explains[kind].takes_counts
            told = answers.block if takes_counts else answers.repeated
            blocks.append(_factors(likelihood, told, n))
            counts.append(answers.counts if takes_counts else None)
        if distinct is not None:
            for block in blocks:
                block.reindex(distinct.inverse, len(distinct.first))
        elif data.first_copies is not None:
            for block in blocks:
                block.rows = block.rows.reindex(data.first_copies, n)
        return joint_factors(blocks, counts, data.equal_rows)


def _factors(likelihood: AnyLikelihood, feedback: Feedback, num_points: int) -> Factors:
    """Checked: a likelihood may be the user's own."""
    made: object = likelihood.factors(feedback, num_points)
    name = f"{type(likelihood).__name__}.factors"
    if not isinstance(made, Factors):
        raise UnsupportedFeedbackError(f"{name} returned {made!r}; return Factors.")
    if made.rows.num_points != num_points:
        raise UnsupportedFeedbackError(
            f"{name} returned rows about {made.rows.num_points} points, but the "
            f"{type(feedback).__name__} are about {num_points} datapoints; use "
            "num_points as it is given."
        )
    return made


def answer_likelihoods(
    model: type[Any], feedback: Sequence[Feedback], likelihood: LikelihoodArgument
) -> AnswerLikelihoods:
    """The likelihoods of a model: the user's, and by default those of its engine.

    Args:
        model: The class of the model, with an ``engine``.
        feedback: Blocks of answers.
        likelihood: The user's choice.

    Raises:
        UnsupportedFeedbackError: The engine, or the likelihood, does not take some
            answers.
    """
    defaults = model.engine.default_likelihoods
    chosen = resolve_likelihoods(feedback, likelihood, defaults)
    check_supported(model, chosen)
    return AnswerLikelihoods(chosen)
