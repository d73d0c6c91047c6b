"""Command that fits a table of choices, scores models and draws the drivers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize
from linear_operator.utils.warnings import NumericalWarning
from scipy.optimize import minimize
from torch import Generator, Tensor
from torch.func import grad, hessian
from torch.nn.functional import logsigmoid
from tqdm import tqdm

from botorch_pref.commands.registry import MODELS
from botorch_pref.datasets import (
    ComparisonData,
    FeedbackData,
    assign_folds,
    load_csv,
    load_train,
)
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation.explanation import feature_effect
from botorch_pref.evaluation.scores import fit_by_evidence
from botorch_pref.likelihoods.base import log_mean
from botorch_pref.models import PreferenceGP
from botorch_pref.models.answers import model_link
from botorch_pref.plotting.figures import draw_drivers
from botorch_pref.posteriors.difference import difference_mixture

# --- Predictors of held-out choices

RIDGE = 0.01
"""Precision of the Gaussian prior of each weight, per standardised feature."""


def fit_bradley_terry(differences: Tensor) -> Tensor:
    """Most probable weights ``d`` of a linear utility, in the units of the features.

    From differences ``m x d`` of the winner's features and the loser's. They maximise
    `sum_i log sigmoid(w' (x_winner - x_loser)_i) - (RIDGE / 2) |s w|^2`, where `s` is
    the root mean square of each feature's difference: logistic regression with a prior
    too weak to matter unless data are separable (Bradley and Terry, 1952).
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
    """Log probabilities ``t`` that the first is preferred, by Bradley-Terry.

    It learns from the features of comparisons, without their ties.
    """
    decided = train.decided
    weights = fit_bradley_terry(train.winners[decided] - train.losers[decided])
    return logsigmoid((first - second) @ weights)


Predictor = Callable[[ComparisonData, Tensor, Tensor], Tensor]
"""Maps training comparisons and two `t x d` tables to `t` log probabilities that the
first is preferred, given that one of the two is."""


@dataclass(frozen=True)
class HeldOut:
    """Log probabilities ``m`` that were predicted for held-out answers.

    Answers of different ``groups``, of raters for example, are independent.
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
        """Log-loss saved against another prediction, and its standard error."""
        return clustered_mean(self.log_probability - other.log_probability, self.groups)


def clustered_mean(values: Tensor, groups: Tensor) -> tuple[float, float]:
    """Mean of dependent values and its standard error.

    Values of one group may depend on each other, groups are independent. With group
    sums `S_g` of the residuals, `se^2 = G / (G - 1) sum_g S_g^2 / m^2` (Liang and
    Zeger, 1986), which is infinite for a single group.
    """
    mean = values.mean()
    num_groups = int(groups.max()) + 1
    if num_groups == 1:
        return float(mean), math.inf
    sums = torch.zeros(num_groups).to(values).index_add(0, groups, values - mean)
    variance = sums.square().sum() * num_groups / (num_groups - 1)
    return float(mean), float(variance.sqrt()) / len(values)


def coin(train: ComparisonData, first: Tensor, second: Tensor) -> Tensor:
    """Baseline that gives every answer probability one half."""
    return first.new_full(first.shape[:1], math.log(0.5))


class RankingFold(NamedTuple):
    """Rows of the answers to learn from, and of those held out."""

    train: Tensor
    test: Tensor


def folds_by_sets(
    data: ComparisonData | FeedbackData[Any], num_folds: int, generator: Generator
) -> list[RankingFold]:
    r"""Folds of the answers; items appear on both sides.

    The :math:`\mathcal L` partition of Guo et al. (2020), section 5.2. Answers of one
    rater, where raters are known, fall in one fold.
    """
    folds = assign_folds(data, num_folds, generator)
    sides = ((folds != number, folds == number) for number in range(num_folds))
    return [RankingFold(*(side.nonzero()[:, 0] for side in both)) for both in sides]


def cross_validate(
    data: ComparisonData, folds: Sequence[RankingFold], predictor: Predictor
) -> HeldOut:
    """Predicts the held-out answers of each fold from the others.

    Ties are learned from, by predictors that can, and not scored. Every row is held out
    once.
    """
    if not data.decided.any():
        raise FeedbackError(
            "every answer is a tie: add answers that name a winner, to be scored"
        )
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
    """Fits BoTorch's `PairwiseGP` as its tutorial does; it is not told of ties."""
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


# --- The command

NUM_FOLDS = 5
FEW = 150
"""Comparisons that `PairwiseGP` learns from: at 1,000 it takes minutes a fit."""

FIGURE_NAME = "drivers.png"
COIN, LINEAR, PAIRWISE = "coin", "Bradley-Terry", "PairwiseGP"


def explain_choices(source: str, model_name: str, seed: int, out: Path) -> None:
    """Scores models on held-out choices; prints the scores, draws the drivers.

    The choices are those of a CSV file (see `load_csv`), or of `train`.
    """
    data = load_train() if source == "train" else load_csv(source)
    num_groups = len(data) if data.raters is None else data.raters.unique().numel()
    if num_groups < 2:
        raise FeedbackError(
            f"{source} has one answer: give two or more, to predict each from others"
            if data.raters is None
            else f"{source} has one rater, and everybody's answers are predicted from "
            "other people's: leave the column rater out to predict answers of one "
            "person from each other"
        )
    out.mkdir(parents=True, exist_ok=True)
    generator = Generator().manual_seed(seed)
    folds = folds_by_sets(data, min(NUM_FOLDS, num_groups), generator)
    fit = partial(fit_preference_gp, MODELS[model_name], generator=generator)
    ours = MODELS[model_name].__name__

    _print_data(data, len(folds))
    everyone = {COIN: coin, LINEAR: bradley_terry, ours: predict_with(fit)}
    title = "learning from all answers outside the fold"
    if max(len(fold.train) for fold in folds) > FEW:
        _print_scores(title, _score(data, folds, everyone), ours)
        title = f"learning from {FEW} answers outside the fold ({PAIRWISE} is slow)"
        folds = [
            RankingFold(
                fold.train[torch.randperm(len(fold.train), generator=generator)[:FEW]],
                fold.test,
            )
            for fold in folds
        ]
    all_models = everyone | {PAIRWISE: predict_with(fit_pairwise_gp)}
    _print_scores(title, _score(data, folds, all_models), ours)

    model = fit(data)
    effects = [
        feature_effect(model, data.datapoints, data.feature_names, feature, generator)
        for feature in range(len(data.feature_names))
    ]
    draw_drivers(effects, f"What drives the choices: {source}", out / FIGURE_NAME)
    print(f"written: {out / FIGURE_NAME}")


def _score(
    data: ComparisonData, folds: Sequence[RankingFold], predictors: dict[str, Predictor]
) -> dict[str, HeldOut]:
    """Cross-validates each predictor."""
    bar = tqdm(predictors.items(), desc="held-out scores", leave=False)
    return {name: cross_validate(data, folds, predictor) for name, predictor in bar}


def _print_data(data: ComparisonData, num_folds: int) -> None:
    print(
        f"{len(data)} answers about {len(data.datapoints)} items, features: "
        + ", ".join(data.feature_names)
    )
    if data.tie is not None:
        print(
            f"{int(data.tie.sum())} of them are ties: our model learns from them, the "
            "others know none, and scores are of the rest"
        )
    if data.raters is None:
        print(f"{num_folds} folds by answer; each is predicted from the others")
        return
    print(
        f"{num_folds} folds by person ({data.raters.unique().numel()} people): every "
        "answer is predicted from other people's answers alone"
    )


def _print_scores(title: str, scores: dict[str, HeldOut], ours: str) -> None:
    print(f"\nheld out, {title}:")
    print(f"  {'':24s} log-loss  accuracy  gain over {LINEAR} (s.e.)")
    for name, score in scores.items():
        gain, error = score.gain_over(scores[LINEAR])
        told = "" if name == LINEAR else f"{gain:+.4f} ({error:.4f})"
        print(f"  {name:24s} {score.log_loss:.4f}    {score.accuracy:.4f}    {told}")
    gain, error = scores[ours].gain_over(scores[LINEAR])
    verdict = "better" if gain > 0 else "worse"
    # Answers that are all alike have all the same gain.
    spread = f"{abs(gain) / error:.1f} standard errors" if error else "each the same"
    print(
        f"  {ours} is {verdict} than {LINEAR} by {abs(gain):.4f} nats an answer, "
        f"{spread}"
    )
