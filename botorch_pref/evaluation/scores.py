"""Scores of predicted probabilities and of orders on answers that were left out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Integral
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.posteriors.posterior import Posterior
from botorch.posteriors.torch import TorchPosterior
from botorch.sampling.get_sampler import get_sampler
from botorch.utils.transforms import is_ensemble
from joblib import Parallel, delayed
from torch import Generator, Tensor

from botorch_pref.errors import (
    BotorchPrefError,
    FeedbackError,
    UnsupportedFeedbackError,
)
from botorch_pref.feedback import (
    Choices,
    Comparisons,
    Feedback,
    LineChoices,
    OrdinalRatings,
    Rankings,
    line_positions,
)
from botorch_pref.feedback.container import AnswerFold, answer_folds
from botorch_pref.likelihoods import (
    LineLogitLikelihood,
    LineProbitLikelihood,
    PairwiseLogitLikelihood,
    PreferenceLikelihood,
    ScalarFactors,
)
from botorch_pref.linalg.sparse_design import SparseDesign
from botorch_pref.models import PreferenceGP, PreferenceMarginalLogLikelihood
from botorch_pref.models.utility_model import check_one_to_one
from botorch_pref.numerics.argument_checks import check_kind
from botorch_pref.posteriors.gaussian import (
    Moments,
    gaussian_posterior,
    shared_covariance_mixture,
)

if TYPE_CHECKING:
    from pandas import DataFrame


NUM_DRAWS = 128
"""Quasi-random draws of the utilities of each set."""

# In sets of many items integrals have more nodes.
_ITEMS_AT_ONCE = 320
_SEED = 0


def predictive_log_probability(
    feedback: Feedback, model: PreferenceGP, datapoints: Tensor
) -> Tensor:
    """Computes the log probability of each answer by itself under a fitted model.

    A log density for ratings and strengths. Answers that see one number each (all but
    choices, rankings and stops on lines) are exact under the posterior: the log
    partitions of the likelihood's factors, in closed form or by quadrature. For those
    three the likelihood's own probabilities are averaged over `NUM_DRAWS` quasi-random
    draws of the utilities of the set, with a fixed seed: where the noise is below a
    thousandth of the variance of utilities, an answer that no draw expects is given far
    too little (-83 for a log probability of -7.6 at a ten-thousandth). The probability
    under an ensemble is the mean of its members'; under an :class:`.AveragedUtility` an
    answer may be a guess, too, see its ``guesser_weight``.

    Args:
        feedback: `m` answers that the model has not seen.
        model: Has a likelihood of such answers.
        datapoints: `n x d`, the points of the indices in the answers.

    Returns:
        `m` log probabilities; of comparisons those of pairs, then of ties. Each is of
        one answer: `feedback.answer_counts` says how often it was given.

    Raises:
        FeedbackError: An answer is about a point that is not there.
        UnsupportedFeedbackError: The model has no likelihood of such answers, or one
            that says nothing of them.
    """
    if not isinstance(feedback, Feedback):
        raise UnsupportedFeedbackError(
            f"The probability of held-out {type(feedback).__name__} is not known; give "
            "a container of answers, such as Comparisons."
        )
    feedback.check_indices(datapoints.shape[-2])
    datapoints, feedback = feedback.placed(datapoints)
    likelihood = _likelihood_of(model, type(feedback))
    options = _Shown(model, datapoints)
    if feedback.covariates is not None:
        feedback, places, covariates = feedback.options()
        options = _Shown(model, datapoints[places], covariates)
    log_probabilities = _of_answers(feedback, likelihood, options)
    if not is_ensemble(model):
        return log_probabilities
    of_members = log_probabilities.logsumexp(-1) - math.log(log_probabilities.shape[-1])
    guesses = getattr(model, "guesser_weight", 0.0)
    if guesses == 0:
        return of_members
    of_guesser = _of_answers(feedback, likelihood, _EqualOptions(*options))
    return torch.logaddexp(
        math.log1p(-guesses) + of_members, math.log(guesses) + of_guesser
    )


class _Shown(NamedTuple):
    """Options as held-out answers met them, ``n x d`` and perhaps ``n x p``."""

    model: PreferenceGP
    datapoints: Tensor
    covariates: Tensor | None = None

    def posterior(self, places: Tensor) -> Posterior:
        """Returns the joint posterior of the options at ``m x q`` places."""
        X = self.datapoints[places]
        if self.covariates is None:
            return self.model.posterior(X)
        return self.model.option_posterior(X, self.covariates[places])


class _EqualOptions(_Shown):
    """Options to one who guesses: all have the utility 0."""

    def posterior(self, places: Tensor) -> Posterior:
        """See base class."""
        zeros = self.datapoints.new_zeros(1, *places.shape)
        covariance = zeros[0].unsqueeze(-1).expand(*places.shape, places.shape[-1])
        return gaussian_posterior(Moments(zeros, covariance))


def _of_answers(
    feedback: Feedback, likelihood: PreferenceLikelihood[Any], options: _Shown
) -> Tensor:
    """Computes log probabilities of answers without covariates, ``m``.

    They are ``m x S`` of the members of an ensemble.
    """
    if isinstance(feedback, Choices):
        choice = likelihood.log_choice_probability
        return _of_sets(feedback.stages(), lambda f: choice(f)[..., 0], options)
    if isinstance(feedback, Rankings):
        return _of_sets(feedback.orders, likelihood.log_order_probability, options)
    if isinstance(feedback, LineChoices):
        return _of_stops(feedback, likelihood, options)
    return _of_rows(feedback, likelihood, options)


def level_probabilities(model: PreferenceGP, X: Tensor) -> Tensor:
    """Computes probabilities of the levels that points ``X``, `m x d`, will be given.

    They are `m x K`, exact under the posterior of a ``model`` with a likelihood of
    ordinal ratings; `m x S x K` for an ensemble.
    """
    likelihood: Any = _likelihood_of(model, OrdinalRatings)
    means, covariance = shared_covariance_mixture(model.posterior(X.unsqueeze(-2)))
    levels = likelihood.level_probabilities(means[..., 0], covariance[..., 0, 0])
    return levels.mean(0)


def _of_rows(
    feedback: Feedback, likelihood: PreferenceLikelihood[Any], options: _Shown
) -> Tensor:
    """Computes log probabilities of answers that see one number each, ``m``.

    They are log partitions of the likelihood's factors, averaged over the components of
    the posterior; ``m x S`` of the members of an ensemble.
    """
    try:
        factors = likelihood.factors(feedback, len(options.datapoints))
    except FeedbackError as error:
        raise UnsupportedFeedbackError(
            f"The model's {type(likelihood).__name__} does not explain the held-out "
            f"{type(feedback).__name__}: {error}"
        ) from error
    if not isinstance(factors, ScalarFactors) or factors.noise is not None:
        raise UnsupportedFeedbackError(
            f"The factors that {type(likelihood).__name__} makes of "
            f"{type(feedback).__name__} are not one for each answer; the probability "
            "of held-out answers needs ScalarFactors without shared noise."
        )
    means, variance = _row_moments(factors.rows, options)
    # Members of an ensemble are batches of the likelihood's parameters, before rows.
    last = means.movedim(1, -1), variance.movedim(0, -1)
    log_partitions = factors.log_partition(*last).value.movedim(-1, 1)
    return log_partitions.logsumexp(0) - math.log(len(log_partitions))


def _row_moments(rows: SparseDesign, options: _Shown) -> tuple[Tensor, Tensor]:
    """Computes moments of what each row sums up of utilities, such as a difference.

    The posterior is a mixture of `s` Gaussians of one covariance: means are `s x m` and
    variances `m`; `s x m x S` and `m x S` for an ensemble.
    """
    means, covariance = shared_covariance_mixture(options.posterior(rows.indices))
    c = rows.coefficients
    # Members of an ensemble are between the rows and their points.
    c = c.reshape(len(c), *[1] * (means.dim() - 3), c.shape[-1])
    variance = (c.unsqueeze(-1) * covariance * c.unsqueeze(-2)).sum((-2, -1))
    # Of a point and itself the difference is known, but for rounding.
    variance = variance.clamp_min(torch.finfo(variance.dtype).tiny)
    return (c * means).sum(-1), variance


def _of_sets(
    sets: Tensor, log_probability: Callable[[Tensor], Tensor], options: _Shown
) -> Tensor:
    """Averages probabilities of answers about sets over draws of the utilities.

    Sets of one size are taken at once, in portions for memory. All get the same normal
    draws, so that the size of portions changes no more than rounding.

    Args:
        sets: Places of options, ``m x k``, at the end of shorter sets -1.
        log_probability: Of each answer, by the utilities of its set in that order.
        options: What the sets are of.

    Returns:
        Log probabilities, ``m``, or ``m x S`` of the members of an ensemble.
    """
    sizes = (sets >= 0).sum(-1)
    done, order = [], []
    for size in sizes.unique().tolist():
        portion = max(1, _ITEMS_AT_ONCE // size)
        for rows in (sizes == size).nonzero()[:, 0].split(portion):
            posterior = options.posterior(sets[rows, :size])
            sampler = get_sampler(
                cast("TorchPosterior", posterior), torch.Size([NUM_DRAWS]), seed=_SEED
            )
            log_probabilities = log_probability(sampler(posterior).squeeze(-1))
            done.append(log_probabilities.logsumexp(0) - math.log(NUM_DRAWS))
            order.append(rows)
    # Back in the order of the answers.
    return torch.cat(done)[torch.cat(order).argsort()]


def _of_stops(
    feedback: LineChoices, likelihood: PreferenceLikelihood[Any], options: _Shown
) -> Tensor:
    """Averages probabilities of stops on lines over draws, ``m``.

    Stops that are compared with the same of the positions of `line_positions` are taken
    at once. Of the members of an ensemble they are ``m x S``.
    """
    assert feedback.points is not None, "placed before"
    if not isinstance(likelihood, LineLogitLikelihood | LineProbitLikelihood):
        raise UnsupportedFeedbackError(
            f"{type(likelihood).__name__} says nothing of stops on lines; use "
            "LineProbitLikelihood or LineLogitLikelihood."
        )
    positions = line_positions(feedback.chosen.to(options.datapoints))
    patterns, group = (feedback.points >= 0).unique(dim=0, return_inverse=True)
    done, order = [], []
    for number, compared in enumerate(patterns):
        rows = (group == number).nonzero()[:, 0]
        posterior = options.posterior(feedback.points[rows][:, compared])
        sampler = get_sampler(
            cast("TorchPosterior", posterior), torch.Size([NUM_DRAWS]), seed=_SEED
        )
        draws = sampler(posterior).squeeze(-1)
        log_probabilities = likelihood.log_stop_probability(
            draws, positions[rows][:, compared]
        )
        done.append(log_probabilities.logsumexp(0) - math.log(NUM_DRAWS))
        order.append(rows)
    return torch.cat(done)[torch.cat(order).argsort()]


def _likelihood_of(
    model: PreferenceGP, kind: type[Feedback]
) -> PreferenceLikelihood[Any]:
    """Finds the model's likelihood of a kind of answers.

    Raises:
        UnsupportedFeedbackError: It has none.
    """
    # Some models have one likelihood in all.
    if not hasattr(check_one_to_one(model), "likelihoods"):
        if kind in model.likelihood.explains:
            return model.likelihood
        if kind is Comparisons:
            # Two options of Plackett-Luce are a logistic duel.
            return PairwiseLogitLikelihood().to(model.datapoints)
        raise UnsupportedFeedbackError(
            f"{type(model).__name__} has no likelihood for {kind.__name__}."
        )
    if kind.__name__ not in model.likelihoods:
        raise UnsupportedFeedbackError(
            f"The model has no likelihood for {kind.__name__}; build it with "
            f"likelihood={{{kind.__name__}: ...}}."
        )
    return cast("PreferenceLikelihood[Any]", model.likelihoods[kind.__name__])


DUELS = "duels"
"""The name of comparisons with a winner; other kinds have the names of containers."""


class HeldOutAnswers(NamedTuple):
    """Answers about ``n x d`` points, and a model that was fitted without them."""

    model: PreferenceGP
    feedback: Sequence[Feedback]
    datapoints: Tensor


def answer_scores(folds: Iterable[HeldOutAnswers]) -> DataFrame:
    """Makes a table of scores, a row for each kind of answer, from parts of them.

    Its columns are the number of ``answers``, those with counts as often as they count;
    how many of these were ``scored``, the others having left no answer of their kind to
    learn from; ``log_loss``, the mean negative log probability (of ratings and
    strengths log density) in nats; its ``standard_error``, answers taken as
    independent; and for duels ``accuracy``, the share whose winner was thought the
    likelier (an even one counts half).
    """
    return _table(map(_fold_scores, folds))


class _BlockScores(NamedTuple):
    """Log probabilities of answers of one kind, and how often each was given.

    ``correct`` is of duels: 1 where the winner was thought the likelier, else 0.
    """

    kind: str
    scores: Tensor
    counts: Tensor
    correct: Tensor


def _fold_scores(fold: HeldOutAnswers) -> list[_BlockScores]:
    """Scores each kind of the held-out answers of a fold.

    The winner of a duel was thought the likelier one where the answer is more probable
    than its opposite; of two that are equal it is half.
    """
    block_scores = []
    for kind, block in by_kind(fold.feedback):
        scores = _scores(block, fold)
        correct = torch.full_like(scores, math.nan)
        if isinstance(block, Comparisons) and block.pairs is not None:
            turned_covariates = None if block.covariates is None else -block.covariates
            turned = Comparisons(block.pairs.flip(-1), covariates=turned_covariates)
            correct = (1 + (scores - _scores(turned, fold)).sign()) / 2
        block_scores.append(_BlockScores(kind, scores, block.answer_counts, correct))
    return block_scores


def _table(folds: Iterable[Sequence[_BlockScores]]) -> DataFrame:
    """Makes the table of scores of all folds, duels first."""
    blocks: dict[str, list[_BlockScores]] = defaultdict(list)
    for block in chain.from_iterable(folds):
        blocks[block.kind].append(block)
    rows = {}
    for kind in sorted(blocks, key=lambda kind: (kind != DUELS, kind)):
        _, *columns = zip(*blocks[kind], strict=True)
        rows[kind] = _row(*map(torch.cat, columns))
    table = data_frame_class()(rows).T.astype({"answers": int, "scored": int})
    return table if DUELS in rows else table.drop(columns="accuracy")


def data_frame_class() -> type[DataFrame]:
    """Imports the class of the tables of pandas, which not everybody has installed."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise BotorchPrefError(
            "Tables need pandas: pip install 'botorch-pref[data]'"
        ) from error
    return DataFrame


def table_of(
    columns: Mapping[str, Tensor], labels: Sequence[Hashable] | None = None
) -> DataFrame:
    """Makes a table of columns by name, with a label for each row."""
    data = {name: column.numpy(force=True) for name, column in columns.items()}
    return data_frame_class()(data, index=labels)


def checked_names(
    names: Sequence[Hashable] | None, count: int, noun: str
) -> list[Hashable]:
    """Checks that each of ``count`` things has its own name; numbers from 0 by default.

    The ``noun`` is for errors: items or raters.
    """
    labels = [*range(count)] if names is None else [*names]
    if len(labels) != count or len(set(labels)) < count:
        raise BotorchPrefError(
            f"There are {count} {noun}, and {len(labels)} names, {len(set(labels))} of "
            "them different; name each once."
        )
    return labels


def by_kind(feedback: Sequence[Feedback]) -> Iterator[tuple[str, Feedback]]:
    """Yields blocks of answers without batches, each after the name of its kind.

    Comparisons are in two: duels with a winner, and ties.
    """
    for block in feedback:
        if not isinstance(block, Comparisons):
            yield type(block).__name__.lower(), block
            continue
        if block.pairs is not None:
            covariates = block.pair_covariates
            yield (
                DUELS,
                replace(block, ties=None, tie_counts=None, covariates=covariates),
            )
        if block.ties is not None:
            covariates = block.tie_covariates
            yield (
                "ties",
                replace(block, pairs=None, pair_counts=None, covariates=covariates),
            )


def _scores(block: Feedback, fold: HeldOutAnswers) -> Tensor:
    """Computes log probabilities, ``m``; NaN where the model has no likelihood of them.

    That is so where a fold left no answer of the kind to learn from.
    """
    X = fold.datapoints
    try:
        # A graph would keep every integrand of sets.
        with torch.no_grad():
            return predictive_log_probability(block, fold.model, X)
    except UnsupportedFeedbackError:
        return X.new_full((block.num_rows,), math.nan)


def _row(scores: Tensor, counts: Tensor, correct: Tensor) -> dict[str, float]:
    """Averages scores of one kind of answers, each as often as it counts.

    Scores are log probabilities, NaN of answers that are not scored, ``m``, as are
    ``correct``, NaN but for duels.

    Returns:
        The columns of `answer_scores` by name.
    """
    is_scored = ~scores.isnan()
    scored, often = scores[is_scored], counts[is_scored]
    count = int(often.sum())
    mean = float((often * scored).sum()) / count if count else math.nan
    squares = float((often * (scored - mean).square()).sum())
    error = (squares / (count - 1) / count) ** 0.5 if count > 1 else math.nan
    accuracy = float((often * correct[is_scored]).sum()) / count if count else math.nan
    columns = {"answers": int(counts.sum()), "scored": count, "log_loss": -mean}
    return {**columns, "standard_error": error, "accuracy": accuracy}


Fit = Callable[[PreferenceGP], object]
"""Learns the hyper-parameters of a model, in place."""


def fit_by_evidence(model: PreferenceGP) -> None:
    """Maximises the model's own evidence."""
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))


def cross_validate_model(
    model: PreferenceGP,
    num_folds: int = 5,
    *,
    fit: Fit | None = fit_by_evidence,
    seed: int = 0,
    n_jobs: int | None = None,
) -> DataFrame:
    r"""Scores a model's answers, each predicted from a part of the others.

    Answers of all kinds are dealt out to folds at random. For each fold a copy of the
    model learns from the other folds. The log-loss of a kind is

    .. math:: -\frac{1}{m} \sum_{i=1}^m \log p(y_i \mid D_{-i}) .

    Repeated answers, and those of one rater, fall into different folds and are easy to
    foresee. An answer with a count stays whole, and counts as often in the scores.

    Args:
        model: With answers, without batches. It stays as it is.
        num_folds: From 2 to the number of answers, where each is left out by itself.
        fit: Learns the hyper-parameters of each copy anew, from where the model's are;
            None keeps them.
        seed: Of the deal; the global random state stays as it is.
        n_jobs: Processes among which joblib deals the folds out, -1 for all cores. By
            default what ``joblib.parallel_config`` says, which is one unless it is
            asked for more, or for a cluster: ``parallel_config(backend="dask")``.

    Returns:
        See `answer_scores`.

    Raises:
        BotorchPrefError: There are not so many answers, the model is a batch or an
            ensemble, or a number of folds or processes is none.
    """
    check_kind("model", model, PreferenceGP)
    points = model.datapoints
    if points is None or len(model.batch_shape) > 0 or is_ensemble(model):
        raise BotorchPrefError(
            "The model has no answers of its own to be left out, or is a batch or an "
            "ensemble; give one model, with answers."
        )
    check_kind("n_jobs", n_jobs, Integral, NoneType)
    if n_jobs == 0:
        raise FeedbackError("n_jobs is 0; give 1 or more processes, or -1 for all.")
    folds = answer_folds(model.feedback, num_folds, Generator().manual_seed(seed))
    score = delayed(_scores_of_copy)
    fold_scores = Parallel(n_jobs=n_jobs)(score(model, points, f, fit) for f in folds)
    return _table(cast("list[list[_BlockScores]]", fold_scores))


def _scores_of_copy(
    model: PreferenceGP, points: Tensor, fold: AnswerFold, fit: Fit | None
) -> list[_BlockScores]:
    """Scores the answers left out by a copy of a model that learns from the others.

    Answers are about ``points``, ``n x d``. It runs in joblib's processes, so that it
    takes all that it needs as arguments.
    """
    copy = model.with_feedback(fold.train)
    if fit is not None:
        fit(copy.train())
    return _fold_scores(HeldOutAnswers(copy.eval(), fold.held_out, points))


def ordered_pairs(stages: Tensor) -> Tensor:
    """Lists pairs of items that rankings put in order, ``m x 2``, winner first.

    Stages, ``s x k``, are those of ``Rankings.stages()`` and ``Choices.stages()``: the
    first item of a row is above all others, and -1 is none.
    """
    losers = stages[:, 1:]
    pairs = torch.stack([stages[:, :1].expand_as(losers), losers], dim=-1)
    return pairs[losers >= 0]
