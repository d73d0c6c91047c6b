"""Models by name, the answers that each takes, and the likelihoods of its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from botorch.models.likelihoods import pairwise as botorch_pairwise
from botorch.models.model import Model
from torch.nn import ModuleDict

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
from botorch_pref.inference.engine import Engine
from botorch_pref.likelihoods.base import PreferenceLikelihood, likelihoods_of
from botorch_pref.likelihoods.beta import BetaRatingLikelihood, PairwiseBetaLikelihood
from botorch_pref.likelihoods.factors import Factors, joint_factors
from botorch_pref.likelihoods.logit import PairwiseLogitLikelihood
from botorch_pref.likelihoods.ordinal import OrdinalProbitLikelihood
from botorch_pref.likelihoods.probit import (
    AffineProbitLikelihood,
    PairwiseProbitLikelihood,
)
from botorch_pref.models.data import DistinctPoints, TrainingSet

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class RegisteredModel:
    """A class of models, as names stand for it.

    Attributes:
        model_class: The class; experiments in Ax store its own name.
        name: Its short name on the command line; None if it is not to be had there.
    """

    model_class: type[Model]
    name: str | None = None


_REGISTERED: dict[str, RegisteredModel] = {}


def register_model(name: str | None = None) -> Callable[[type[M]], type[M]]:
    """A decorator that lets experiments in Ax and the command line make a model.

    Args:
        name: A short name that no other has, for models of ``python -m botorch_pref``:
            made from datapoints, comparisons and ``likelihood=``, and fitted by
            ``fit_gpytorch_mll``. None for others.

    Raises:
        TypeError: The name is not a text, or what is registered not a class of models.
        ValueError: Another class has this name, or is called as this class is.
    """
    if not (name is None or isinstance(name, str)):
        raise TypeError(
            f"register_model takes a short name, got {name!r}; write "
            '@register_model("name") above the class, or @register_model() for none.'
        )

    def register(model_class: type[M]) -> type[M]:
        if not (isinstance(model_class, type) and issubclass(model_class, Model)):
            raise TypeError(
                "register_model registers classes of BoTorch models, got "
                f"{model_class!r}."
            )
        entry = RegisteredModel(model_class, name)
        for known in registered_models():
            _check_apart(entry, known)
        _REGISTERED[model_class.__name__] = entry
        return model_class

    return register


def registered_models() -> tuple[RegisteredModel, ...]:
    """All registered models, by the names of their classes in alphabetical order."""
    return tuple(_REGISTERED[name] for name in sorted(_REGISTERED))


def _check_apart(entry: RegisteredModel, known: RegisteredModel) -> None:
    """Checks that two entries are of one class or share no name."""
    one, other = (e.model_class for e in (entry, known))
    if (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__):
        # A notebook's cell that is run again makes the same class again.
        return
    if one.__name__ == other.__name__ or (entry.name and entry.name == known.name):
        raise ValueError(
            f"{other.__module__}.{other.__qualname__} is registered with the name "
            f"{known.name!r}; give {one.__module__}.{one.__qualname__} names of its "
            "own."
        )


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


def engines() -> list[type[Any]]:
    """All registered classes of models with an engine of their own, by name.

    Ensembles have the engine of their members.
    """
    found = [entry.model_class for entry in registered_models()]
    return [
        model
        for model in found
        if isinstance(getattr(model, "engine", None), Engine) and not model._is_ensemble
    ]


def check_engine(model: object) -> None:
    """Checks that a model has an engine.

    Args:
        model: Of a class with an attribute ``engine``.

    Raises:
        TypeError: There is no engine, or another thing in its place.
    """
    engine = getattr(type(model), "engine", None)
    if not isinstance(engine, Engine):
        raise TypeError(
            f"{type(model).__name__}.engine is {engine!r}; give the class an instance "
            "of an Engine, for example engine = ExpectationPropagation(), or take "
            "EPPreferenceGP."
        )


def check_supported(
    model: type[Any], likelihoods: Mapping[type[Feedback], PreferenceLikelihood[Any]]
) -> None:
    """Checks that the engine of a model takes all its answers.

    Args:
        model: The class of the model, with an ``engine``.
        likelihoods: Its likelihoods by kind of answer.

    Raises:
        UnsupportedFeedbackError: The engine does not take some answer under its
            likelihood; the message names what does.
    """
    for kind, likelihood in likelihoods.items():
        factors = likelihood.explains[kind]
        if model.engine.accepts(factors):
            continue
        able = [m.__name__ for m in engines() if m.engine.accepts(factors)]
        message = (
            f"{model.__name__} does not take {kind.__name__} under "
            f"{type(likelihood).__name__}; {_listed(able)} "
            f"{'does' if len(able) == 1 else 'do'}."
        )
        instead = [
            c.__name__
            for c in likelihoods_of(kind)
            if model.engine.accepts(c.explains[kind])
        ]
        if instead:
            message += (
                f" Or pass likelihood={{{kind.__name__}: {' or '.join(instead)}(...)}}."
            )
        raise UnsupportedFeedbackError(message)


def _listed(names: list[str]) -> str:
    """Names as a sentence has them: ``a, b and c``."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


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
    """The likelihoods of a model: the user's, and by default those of its class.

    Args:
        model: The class of the model, with an ``engine``.
        feedback: Blocks of answers.
        likelihood: The user's choice.

    Raises:
        UnsupportedFeedbackError: The engine, or the likelihood, does not take some
            answers.
    """
    defaults = model.default_likelihoods
    chosen = resolve_likelihoods(feedback, likelihood, defaults)
    check_supported(model, chosen)
    return AnswerLikelihoods(chosen)
