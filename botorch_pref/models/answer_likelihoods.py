"""Registered models, and the likelihoods of the answers that each takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from botorch.models.likelihoods import pairwise as botorch_pairwise
from botorch.models.model import Model
from botorch.utils.transforms import is_ensemble
from torch import Tensor
from torch.nn import ModuleDict

from botorch_pref.class_table import Entry, check_class, register, registered
from botorch_pref.errors import BotorchPrefError, UnsupportedFeedbackError
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    LineChoices,
    OrdinalRatings,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.inference.engine import Engine
from botorch_pref.likelihoods import DuelLink
from botorch_pref.likelihoods.beta import BetaRatingLikelihood, PairwiseBetaLikelihood
from botorch_pref.likelihoods.factors import Factors, joint_factors
from botorch_pref.likelihoods.lines import LineProbitLikelihood
from botorch_pref.likelihoods.logit import PairwiseLogitLikelihood
from botorch_pref.likelihoods.ordinal import OrdinalProbitLikelihood
from botorch_pref.likelihoods.probit import (
    AffineProbitLikelihood,
    PairwiseProbitLikelihood,
)
from botorch_pref.likelihoods.protocol import PreferenceLikelihood, likelihoods_of
from botorch_pref.linalg.sparse_design import take_places
from botorch_pref.models.training_data import DistinctPoints, TrainingSet
from botorch_pref.models.utility_model import check_one_to_one
from botorch_pref.numerics.argument_checks import (
    check_finite,
    check_points,
)

M = TypeVar("M", bound=Model)


def register_model(name: str | None = None) -> Callable[[type[M]], type[M]]:
    """Makes a decorator that lets experiments in Ax and the command line make a model.

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

    def decorate(model_class: type[M]) -> type[M]:
        check_class("register_model", model_class, Model, "BoTorch models")
        register(Entry(model_class, name), Model)
        return model_class

    return decorate


def registered_models() -> list[Entry]:
    """Lists all registered models, by the names of their classes in order."""
    return registered(Model)


AnyLikelihood = PreferenceLikelihood[Any]

DEFAULT_LIKELIHOODS: dict[type[Feedback], type[AnyLikelihood]] = {
    Comparisons: PairwiseProbitLikelihood,
    Choices: PairwiseProbitLikelihood,
    Rankings: PairwiseProbitLikelihood,
    Validity: AffineProbitLikelihood,
    OrdinalRatings: OrdinalProbitLikelihood,
    Strengths: PairwiseBetaLikelihood,
    Ratings: BetaRatingLikelihood,
    LineChoices: LineProbitLikelihood,
}
"""The likelihood of each kind of answer where neither user nor model names one."""

BOTORCH_LIKELIHOODS: dict[type[Any], type[AnyLikelihood]] = {
    botorch_pairwise.PairwiseProbitLikelihood: PairwiseProbitLikelihood,
    botorch_pairwise.PairwiseLogitLikelihood: PairwiseLogitLikelihood,
}
"""Our likelihood for each of BoTorch's. Those have no parameters, and our defaults are
the same functions, without BoTorch's clamps of large differences."""

LikelihoodArgument = (
    AnyLikelihood
    | botorch_pairwise.PairwiseLikelihood
    | Mapping[type[Feedback], AnyLikelihood | botorch_pairwise.PairwiseLikelihood]
    | None
)


def _chosen(likelihood: LikelihoodArgument) -> dict[type[Feedback], AnyLikelihood]:
    """Returns the likelihood that a user named for each kind of answer, checked.

    A likelihood that came without kinds is for all that it explains. BoTorch's become
    those of this package. Missing kinds have a default, see `resolve_likelihoods`.
    """
    if likelihood is None:
        return {}
    if isinstance(likelihood, Mapping):
        chosen = {kind: _translated(choice) for kind, choice in likelihood.items()}
    else:
        ours = _translated(likelihood)
        # What is no likelihood of preferences counts as one of comparisons, and is
        # refused below.
        kinds = getattr(ours, "explains", {Comparisons: None})
        chosen = dict.fromkeys(kinds, ours)
    for kind, choice in chosen.items():
        if not (isinstance(kind, type) and issubclass(kind, Feedback)):
            raise UnsupportedFeedbackError(
                f"likelihood names {kind!r}; the keys are classes of feedback, for "
                "example botorch_pref.Ratings."
            )
        if not isinstance(choice, PreferenceLikelihood) or kind not in choice.explains:
            raise UnsupportedFeedbackError(
                f"likelihood has a {type(choice).__module__}.{type(choice).__name__}, "
                f"which does not explain {kind.__name__}; {_names(kind)} of "
                "botorch_pref does."
            )
    return chosen


def _translated(likelihood: Any) -> Any:
    """Translates a likelihood of BoTorch to ours; returns any other as it is."""
    translation = BOTORCH_LIKELIHOODS.get(type(likelihood))
    return likelihood if translation is None else translation()


def model_link(model: Model) -> DuelLink:
    """Returns the link of a model's likelihood; for BoTorch's, ours of noise 1."""
    return _likelihood_and_link(model)[1]


def knows_duels(model: Model) -> bool:
    """Tells whether the model's likelihood says how a duel is answered."""
    try:
        _likelihood_and_link(model)
    except UnsupportedFeedbackError:
        return False
    return True


def duel_share(model: Model, mean: Tensor, variance: Tensor) -> Tensor:
    """Computes the share of a duel's points that the first option is expected to win.

    A win is worth one and a tie a half, as in the scores of a leaderboard: so the
    shares of both options sum to one.

    Args:
        model: Its likelihood says what an answer is; it raises as `model_link` does.
        mean: Of the difference of utilities, any shape.
        variance: Of the difference, nonnegative, broadcastable with ``mean``.
    """
    likelihood, _ = _likelihood_and_link(model)
    tied = likelihood.tie_probability(mean, variance)
    return likelihood.win_probability(mean, variance) + 0.5 * tied


@torch.no_grad()
def noticeable_difference(model: Model) -> Tensor:
    """Returns the difference of utilities that a person just notices, with no gradient.

    It is a scale by which acquisition functions measure utilities, shaped as the
    parameters of the model's likelihood, which defines it. Without a link it raises as
    `model_link` does.
    """
    likelihood, _ = _likelihood_and_link(model)
    return likelihood.noticeable_difference


@torch.no_grad()
def item_noise(model: Model) -> Tensor:
    """Returns the noise variance of one option, half of that of a duel.

    Draws of utilities with this noise tell which option a person would name. It is 0 if
    the likelihood knows no duels, and is a copy: a later fit does not change it.
    """
    if not knows_duels(model):
        return torch.zeros(())
    likelihood, _ = _likelihood_and_link(model)
    return likelihood.observation_variance.clone()


def _likelihood_and_link(model: Model) -> tuple[AnyLikelihood, DuelLink]:
    """Returns the model's likelihood, ours for BoTorch's, and its link of duels.

    A model whose likelihood is none of preferences, or explains no duels, is refused.
    """
    likelihood = _translated(getattr(model, "likelihood", None))
    try:
        if isinstance(likelihood, PreferenceLikelihood):
            return likelihood, likelihood.link
        reason = "it is no likelihood of preferences"
    except UnsupportedFeedbackError as error:
        reason = str(error)
    raise UnsupportedFeedbackError(
        f"The answer to a duel under {type(likelihood).__name__} is not known "
        f"({reason}); give the model a likelihood of comparisons too, or, where there "
        "is an argument link, a ProbitLink or LogitLink of botorch_pref.likelihoods."
    )


def check_unbatched(model: Model) -> None:
    """Refuses a batch of models where a table, a figure or a choice is of one model.

    An ensemble is one model.
    """
    if len(model.batch_shape) > 0 and not is_ensemble(model):
        raise BotorchPrefError(
            f"The model is a batch of shape {tuple(model.batch_shape)}; give each of "
            "its models by itself."
        )


def checked_items(model: Model, X: Tensor | None) -> Tensor:
    """Returns the items that are to be ranked: ``X``, or the points of the model.

    They are two or more, ``n x d``, and the model has no batches; else it is an error.
    """
    check_unbatched(check_one_to_one(model))
    items: Tensor | None = getattr(model, "datapoints", None) if X is None else X
    if items is not None:
        items = check_finite("X", check_points("X", items))
    if items is None or items.dim() != 2 or len(items) < 2:
        description = "nothing" if items is None else f"shape {tuple(items.shape)}"
        raise BotorchPrefError(f"X is {description}; give items, n x d, two or more.")
    return items


def resolve_likelihoods(
    feedback: Sequence[Feedback],
    likelihood: LikelihoodArgument,
    defaults: Mapping[type[Feedback], type[AnyLikelihood]],
) -> dict[type[Feedback], AnyLikelihood]:
    """Finds one likelihood for each kind of answer.

    Answers that the same class explains share one likelihood, and so its noise: choices
    and rankings take that of comparisons unless they are given their own. The order of
    the blocks does not matter; without blocks, comparisons are still to come.
    """
    chosen = _chosen(likelihood)
    # A likelihood named for comparisons serves every kind with the same class by
    # default. One that is named for another kind is for that kind alone.
    shared = [chosen[Comparisons]] if Comparisons in chosen else []
    given_kinds = {type(block) for block in feedback}
    resolved: dict[type[Feedback], AnyLikelihood] = {}
    for kind, block in _kinds(feedback, likelihood, chosen).items():
        default = defaults.get(kind)
        alike = [candidate for candidate in shared if type(candidate) is default]
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
            resolved[kind] = default.default_for(block, given_kinds)
            shared.append(resolved[kind])
    return resolved


def _kinds(
    feedback: Sequence[Feedback],
    likelihood: LikelihoodArgument,
    chosen: Mapping[type[Feedback], AnyLikelihood],
) -> dict[type[Feedback], Feedback | None]:
    """Lists the kinds of answers that need a likelihood, with their blocks.

    Comparisons come first, for others share their likelihood. None stands for answers
    that are still to come: comparisons of a model without answers, and the kinds of
    which a user names the likelihood. One likelihood without a kind must explain some
    of the answers, if there are any.
    """
    blocks = {type(block): block for block in feedback}
    kinds: dict[type[Feedback], Feedback | None] = {}
    if Comparisons in blocks or not blocks:
        kinds[Comparisons] = blocks.get(Comparisons)
    kinds |= blocks
    if isinstance(likelihood, Mapping):
        return kinds | {kind: None for kind in chosen if kind not in kinds}
    if not kinds.keys() & chosen.keys() and chosen:
        if blocks:
            raise UnsupportedFeedbackError(
                f"{type(likelihood).__name__} explains none of the answers given "
                f"({', '.join(kind.__name__ for kind in blocks)}); for answers that "
                f"are still to come pass "
                f"likelihood={{{next(iter(chosen)).__name__}: ...}}."
            )
        kinds[next(iter(chosen))] = None
    return kinds


def _names(kind: type[Feedback]) -> str:
    return " or ".join(cls.__name__ for cls in likelihoods_of(kind))


def engines() -> list[type[Any]]:
    """Lists the registered classes of models that have an engine, by name.

    For error messages and the table of engines: ensembles are left out, whose engines
    are those of other classes.
    """
    model_classes = (entry.cls for entry in registered_models())
    with_engine = (
        m for m in model_classes if isinstance(getattr(m, "engine", None), Engine)
    )
    return [model for model in with_engine if not model._is_ensemble]


def check_engine(model: object) -> None:
    """Raises a `TypeError` where the class of a model has no engine."""
    engine = getattr(type(model), "engine", None)
    if not isinstance(engine, Engine):
        raise TypeError(
            f"{type(model).__name__}.engine is {engine!r}; give the class an instance "
            "of an Engine, for example engine = ExpectationPropagation(), or take "
            "EPPreferenceGP."
        )


def _check_supported(
    model: type[Any], likelihoods: Mapping[type[Feedback], AnyLikelihood]
) -> None:
    """Refuses answers whose factors the engine of a class of models does not take."""
    for kind, likelihood in likelihoods.items():
        factors = likelihood.explains[kind]
        if model.engine.accepts(factors):
            continue
        able = [m.__name__ for m in engines() if m.engine.accepts(factors)]
        message = (
            f"{model.__name__} does not take {kind.__name__} under "
            f"{type(likelihood).__name__}; take {' or '.join(able)}."
        )
        candidates = likelihoods_of(kind)
        accepted = [c for c in candidates if model.engine.accepts(c.explains[kind])]
        if accepted:
            names = " or ".join(c.__name__ for c in accepted)
            message += f" Or pass likelihood={{{kind.__name__}: {names}(...)}}."
        raise UnsupportedFeedbackError(message)


class AnswerLikelihoods(ModuleDict):
    """One likelihood for each kind of answer, by the name of its container."""

    def __init__(self, likelihoods: Mapping[type[Feedback], AnyLikelihood]) -> None:
        super().__init__(
            {kind.__name__: likelihood for kind, likelihood in likelihoods.items()}
        )

    @property
    def leading(self) -> AnyLikelihood:
        """The likelihood of comparisons, or of the only kind of answers there is."""
        name = Comparisons.__name__
        return cast("AnyLikelihood", self[name if name in self else next(iter(self))])

    def likelihood_of(self, kind: type[Feedback], engine: Engine) -> AnyLikelihood:
        """Finds the likelihood of a kind of answers: its own, or that of another kind.

        The latter is the first likelihood that explains this kind too, by factors that
        the engine takes.
        """
        if kind.__name__ in self:
            return cast("AnyLikelihood", self[kind.__name__])
        for module in self.values():
            # Duels of somebody who only ranked so far have the noise of the rankings.
            likelihood = cast("AnyLikelihood", module)
            factors = likelihood.explains.get(kind)
            if factors is not None and engine.accepts(factors):
                return likelihood
        raise UnsupportedFeedbackError(
            f"The model has no likelihood for {kind.__name__}; build it with "
            f"likelihood={{{kind.__name__}: ...}}."
        )

    def factors(
        self,
        data: TrainingSet,
        engine: Engine,
        distinct: DistinctPoints | None = None,
        num_covariates: int = 0,
    ) -> Factors:
        """Makes the factors of all answers for an engine, in which equal rows are one.

        Args:
            data: The answers, merged where they are equal.
            engine: Of the model; it does not take the factors of every likelihood.
            distinct: The distinct points, which the rows are about; None for rows about
                all datapoints, in batches about the first copy of each.
            num_covariates: The weights of covariates, the columns of rows behind those
                of the points.
        """
        # How many points rows are about, and the one of them of each datapoint.
        count, place = data.datapoints.shape[-2], data.first_copies
        if distinct is not None:
            count, place = len(distinct.first), distinct.inverse
        blocks, counts = [], []
        for answers in data.answers if distinct is None else data.distinct_answers:
            kind = type(answers.source)
            likelihood = self.likelihood_of(kind, engine)
            takes_counts = likelihood.explains[kind].takes_counts
            if answers.source.covariates is None:
                # Likelihoods may have parameters of each datapoint: factors are made
                # about all of them, then written about the distinct ones.
                block = answers.block if takes_counts else answers.repeated
                block_factors = _factors(likelihood, block, data.datapoints.shape[-2])
                if distinct is not None:
                    block_factors.reindex(distinct.inverse, count)
                elif place is not None:
                    block_factors.rows = block_factors.rows.reindex(place, count)
                block_factors.rows = replace(
                    block_factors.rows, num_points=count + num_covariates
                )
            else:
                # Equal points with different covariates are different options: factors
                # are made about options, then written about points and weights.
                options = answers.options if takes_counts else answers.repeated_options
                points = options.points
                option_likelihood = likelihood._of_options(points)
                block_factors = _factors(
                    option_likelihood, options.block, points.shape[-1]
                )
                points = points if place is None else take_places(place, points)
                block_factors.see_options(points, options.covariates, count)
            blocks.append(block_factors)
            counts.append(answers.counts if takes_counts else None)
        return joint_factors(blocks, counts, data.equal_rows)


def _factors(likelihood: AnyLikelihood, feedback: Feedback, num_points: int) -> Factors:
    """Makes the factors of a block of answers about ``num_points`` points.

    The likelihood may be the user's own, so that what it returns is checked.
    """
    result: object = likelihood.factors(feedback, num_points)
    name = f"{type(likelihood).__name__}.factors"
    if not isinstance(result, Factors):
        raise UnsupportedFeedbackError(f"{name} returned {result!r}; return Factors.")
    if result.rows.num_points != num_points:
        raise UnsupportedFeedbackError(
            f"{name} returned rows about {result.rows.num_points} points, but the "
            f"{type(feedback).__name__} are about {num_points} datapoints; use "
            "num_points as it is given."
        )
    return result


def answer_likelihoods(
    model: type[Any], feedback: Sequence[Feedback], likelihood: LikelihoodArgument
) -> AnswerLikelihoods:
    """Makes the likelihoods of a class of models: the user's, else the class's own."""
    chosen = resolve_likelihoods(feedback, likelihood, model.default_likelihoods)
    _check_supported(model, chosen)
    return AnswerLikelihoods(chosen)
