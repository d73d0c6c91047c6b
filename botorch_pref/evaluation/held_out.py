"""Models and baselines scored on answers that were left out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize
from botorch.utils.transforms import is_ensemble
from linear_operator.utils.warnings import NumericalWarning
from scipy.optimize import minimize
from torch import Generator, Tensor
from torch.func import grad, hessian
from torch.nn.functional import logsigmoid

from botorch_pref.datasets import ComparisonData, FeedbackData, assign_folds
from botorch_pref.datasets.data import check_num_folds
from botorch_pref.errors import BotorchPrefError, FeedbackError
from botorch_pref.evaluation.scores import HeldOutAnswers, answer_scores
from botorch_pref.feedback import Feedback
from botorch_pref.likelihoods.base import log_mean
from botorch_pref.models import PreferenceGP, PreferenceMarginalLogLikelihood
from botorch_pref.models.answers import model_link
from botorch_pref.numerics.argument_ranges import check_count
from botorch_pref.posteriors.difference import difference_mixture

if TYPE_CHECKING:
    from pandas import DataFrame


RIDGE = 0.01
"""Precision of the Gaussian prior of each weight, per standardised feature."""


def fit_bradley_terry(differences: Tensor) -> Tensor:
    """Most probable weights of a linear utility.

    They maximise `sum_i log sigmoid(w' (x_winner - x_loser)_i) - (RIDGE / 2) |s w|^2`,
    where `s` is the root mean square of each feature's difference: logistic regression
    on differences, with a prior too weak to matter unless data are separable (Bradley
    and Terry, 1952).

    Args:
        differences: `m x d` features of the winner less those of the loser.

    Returns:
        The `d` weights, in the units of the features.
    """
    scale = differences.square().mean(0).sqrt()
    # A feature that never differs has no say.
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    rows = (differences / scale).detach().cpu().double()

    def loss(weights: Tensor) -> Tensor:
        return 0.5 * RIDGE * weights @ weights - logsigmoid(rows @ weights).sum()

    def of_arrays(function: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
        return lambda point: function(torch.as_tensor(point)).numpy()

    found = minimize(
        of_arrays(loss),
        torch.zeros(rows.shape[-1]).double().numpy(),
        jac=of_arrays(grad(loss)),
        hess=of_arrays(hessian(loss)),
        method="trust-exact",
        tol=1e-9,
    )
    return torch.as_tensor(found.x).to(scale) / scale


def bradley_terry(train: ComparisonData, first: Tensor, second: Tensor) -> Tensor:
    """Log probabilities of answers by Bradley-Terry on the features.

    Args:
        train: The comparisons to learn from, without their ties.
        first: `t x d` features.
        second: `t x d` features.

    Returns:
        `t` log probabilities that the first is preferred.
    """
    decided = train.decided
    weights = fit_bradley_terry(train.winners[decided] - train.losers[decided])
    return logsigmoid((first - second) @ weights)


Predictor = Callable[[ComparisonData, Tensor, Tensor], Tensor]
"""Maps training comparisons and two `t x d` tables to `t` log probabilities that the
first is preferred, given that one of the two is."""


@dataclass(frozen=True)
class HeldOut:
    """Log probabilities that were predicted for held-out answers.

    Attributes:
        log_probability: `m` log probabilities of the answers that were given.
        groups: `m` long numbers of what is independent: the rater, or the answer.
    """

    log_probability: Tensor
    groups: Tensor

    @property
    def log_loss(self) -> float:
        """Mean negative log probability of the answer, in nats."""
        return -float(self.log_probability.mean())

    @property
    def accuracy(self) -> float:
        """Share of answers that were predicted; an undecided prediction counts half."""
        excess = self.log_probability - math.log(0.5)
        undecided = excess.abs() < 1e-12
        right = torch.where(undecided, 0.5, (excess > 0).to(excess))
        return float(right.mean())

    def gain_over(self, other: HeldOut) -> tuple[float, float]:
        """Log-loss saved against another prediction of the same answers.

        Returns:
            The mean difference, positive where this one is better, and its standard
            error, see `clustered_mean`.
        """
        return clustered_mean(self.log_probability - other.log_probability, self.groups)


def clustered_mean(values: Tensor, groups: Tensor) -> tuple[float, float]:
    """Mean of dependent values and its standard error.

    Values of one group may depend on each other, groups are independent. With group
    sums `S_g` of the residuals, `se^2 = G / (G - 1) sum_g S_g^2 / m^2` (Liang and
    Zeger, 1986).

    Args:
        values: `m` values.
        groups: `m` long group numbers in `0 .. G - 1`.

    Returns:
        The mean and its standard error, which is infinite for a single group.
    """
    mean = values.mean()
    num_groups = int(groups.max()) + 1
    if num_groups == 1:
        return float(mean), math.inf
    sums = torch.zeros(num_groups).to(values).index_add(0, groups, values - mean)
    variance = sums.square().sum() * num_groups / (num_groups - 1)
    return float(mean), float(variance.sqrt()) / len(values)


def coin(train: ComparisonData, first: Tensor, second: Tensor) -> Tensor:
    """Baseline that gives every answer probability one half.

    ``train``, ``first``, ``second`` and the result are those of `bradley_terry`.
    """
    return first.new_full(first.shape[:1], math.log(0.5))


class RankingFold(NamedTuple):
    """Rows of the answers to learn from, and of those held out.

    Attributes:
        train: Long row numbers.
        test: Long row numbers.
    """

    train: Tensor
    test: Tensor


def folds_by_sets(
    data: ComparisonData | FeedbackData[Any], num_folds: int, generator: Generator
) -> list[RankingFold]:
    r"""Folds of the answers; items appear on both sides.

    The :math:`\mathcal L` partition of Guo et al. (2020), section 5.2. Answers of one
    rater, where raters are known, fall in one fold.

    Args:
        data: Comparisons, choices or rankings.
        num_folds: See :func:`.assign_folds`, also for errors.
        generator: Source of the shuffle.

    Returns:
        One a fold; every answer is held out once.
    """
    folds = assign_folds(data, num_folds, generator)
    return [_fold(folds != number, folds == number) for number in range(num_folds)]


def folds_by_samples(
    data: FeedbackData[Any], num_folds: int, generator: Generator
) -> list[RankingFold]:
    r"""Folds of the items; no held-out item was seen in training.

    The :math:`\mathcal N` partition of Guo et al. (2020), section 5.2: sets within the
    training items are learned from, and sets within the test items are held out. Of
    sets of k items about :math:`(1 - 1/F)^k` and :math:`F^{-k}` remain, which may be
    none.

    Args:
        data: Comparisons, choices or rankings.
        num_folds: F, at least 2 and at most the number of items.
        generator: Source of the shuffle.

    Returns:
        One a fold; ``train`` or ``test`` is empty where no set remains.

    Raises:
        FeedbackError: There are fewer items than folds, or fewer than two folds.
    """
    num_items = len(data.datapoints)
    check_num_folds(num_folds, num_items, "items")
    sets = getattr(data.feedback, data.feedback.index_fields[0])
    folds = torch.randperm(num_items, generator=generator) % num_folds
    fold_of, absent = folds[sets], sets < 0
    return [
        _fold(
            ((fold_of != number) | absent).all(-1),
            ((fold_of == number) | absent).all(-1),
        )
        for number in range(num_folds)
    ]


def _fold(train: Tensor, test: Tensor) -> RankingFold:
    return RankingFold(train.nonzero()[:, 0], test.nonzero()[:, 0])


def cross_validate(
    data: ComparisonData, folds: Sequence[RankingFold], predictor: Predictor
) -> HeldOut:
    """Predicts the held-out answers of each fold from the others.

    Ties are learned from, by predictors that can, and not scored.

    Args:
        data: The comparisons.
        folds: For each the rows to learn from, and those to predict; every row is held
            out once, see :func:`folds_by_sets`.
        predictor: The predictor that is scored.

    Returns:
        The score of every answer that is no tie.

    Raises:
        FeedbackError: Every answer is one, or they have covariates, which predictors do
            not see.
    """
    if data.feedback.num_covariates:
        raise FeedbackError(
            "Predictors see points alone, and the answers have covariates; score a "
            "model of them with cross_validate_model."
        )
    if not data.decided.any():
        raise FeedbackError("every answer is a tie, so that there is nothing to score")
    log_probability = torch.empty(len(data), dtype=data.datapoints.dtype)
    for fold in folds:
        test = fold.test[data.decided[fold.test]]
        if len(test):
            train = data.subset(fold.train)
            asked = data.winners[test], data.losers[test]
            log_probability[test] = predictor(train, *asked)
    groups = torch.arange(len(data)) if data.raters is None else data.raters
    scored = torch.unique(groups[data.decided], return_inverse=True)[1]
    return HeldOut(log_probability[data.decided], scored)


MAX_LEARN = 500
"""Comparisons, drawn at random, from which kernel parameters are learned; the posterior
uses all."""


def fit_preference_gp(
    model_class: type[PreferenceGP], train: ComparisonData, generator: Generator
) -> PreferenceGP:
    """Fits a model of this package with its defaults, on features scaled to [0, 1].

    Kernel parameters are learned from at most `MAX_LEARN` comparisons: learning needs
    hundreds of Cholesky factors, each in the cube of their number. The posterior uses
    them all.

    Args:
        model_class: The model.
        train: The comparisons.
        generator: Source of the draw of comparisons.
    """
    scaling = _scaling(train)
    drawn = torch.randperm(len(train), generator=generator)[:MAX_LEARN]
    few = train if len(train) <= MAX_LEARN else train.subset(drawn)
    model = model_class(few.datapoints, few.feedback, input_transform=scaling)
    fit_by_evidence(model)
    if few is train:
        return model
    # A draw without ties has learned no threshold of ties to take over.
    alike = bool(few.decided.all()) == bool(train.decided.all())
    return model_class(
        train.datapoints,
        train.feedback,
        likelihood=model.likelihood if alike else None,
        covar_module=model.covar_module,
        input_transform=scaling,
    )


def fit_pairwise_gp(train: ComparisonData) -> PairwiseGP:
    """Fits BoTorch's `PairwiseGP` as its tutorial does.

    Args:
        train: The comparisons; it knows no ties and is not told of them.
    """
    decided = train.subset(train.decided)
    model = PairwiseGP(
        decided.datapoints, decided.comparisons, input_transform=_scaling(train)
    )
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    return model


def _scaling(train: ComparisonData) -> Normalize:
    """Input transform that maps the range of each feature to the unit interval."""
    low, high = train.datapoints.amin(0), train.datapoints.amax(0)
    high = torch.where(high > low, high, low + 1)
    return Normalize(len(low), bounds=torch.stack([low, high]))


def predict_with(fit: Callable[[ComparisonData], Model]) -> Predictor:
    """Predictor of held-out answers, from a function that fits a model.

    The prediction of an answer that is no tie is the win probability of the model's
    likelihood, averaged over the posterior.

    Args:
        fit: Fits a model: one of ours, or BoTorch's `PairwiseGP`.
    """

    def predict(train: ComparisonData, first: Tensor, second: Tensor) -> Tensor:
        model = fit(train)
        with torch.no_grad():
            if isinstance(model, PreferenceGP):
                wins, loses = (
                    model.duel_probability(*pair, observation_noise=True)
                    for pair in ((first, second), (second, first))
                )
                # What is left is the probability of a tie.
                return wins.log() - (wins + loses).log()
            with warnings.catch_warnings():
                # PairwiseGP factors the joint covariance of all points, singular where
                # they are alike, and adds 1e-6 to it: nothing beside the unit noise.
                warnings.simplefilter("ignore", NumericalWarning)
                posterior = model.posterior(torch.cat([first, second]))
                place = torch.arange(len(first))
                mixture = difference_mixture(posterior, place, place + len(place))
            return log_mean(model_link(model).log_win_probability(*mixture))

    return predict


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
) -> DataFrame:
    r"""Scores of a model's answers, each predicted from a part of the others.

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

    Returns:
        See :func:`.answer_scores`.

    Raises:
        BotorchPrefError: There are not so many answers, or the model is a batch or an
            ensemble.
    """
    points = model.datapoints
    if points is None or len(model.batch_shape) > 0 or is_ensemble(model):
        raise BotorchPrefError(
            "The model has no answers of its own to be left out, or is a batch or an "
            "ensemble; give one model, with answers."
        )
    counts = [len(block.answer_counts) for block in model.feedback]
    check_count("num_folds", num_folds, at_least=2)
    if num_folds > sum(counts):
        raise BotorchPrefError(
            f"num_folds is {num_folds}, and there are {sum(counts)} answers."
        )
    deal = torch.randperm(sum(counts), generator=Generator().manual_seed(seed))
    folds = (deal % num_folds).split(counts)

    def parts() -> Iterator[HeldOutAnswers]:
        for number in range(num_folds):
            copy = model.with_feedback(_some(model, [f != number for f in folds]))
            if fit is not None:
                fit(copy.train())
            test = _some(model, [fold == number for fold in folds])
            yield HeldOutAnswers(copy.eval(), test, points)

    return answer_scores(parts())


def _some(model: PreferenceGP, masks: list[Tensor]) -> list[Feedback]:
    """The answers of each block of a model that its mask keeps."""
    found = []
    for block, mask in zip(model.feedback, masks, strict=True):
        if mask.any():
            sizes = [len(getattr(block, names[0])) for names in block.tables.values()]
            found.append(block.take(*mask.split(sizes)))
    return found
