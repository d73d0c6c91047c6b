"""Command that fits a table of choices, scores models and draws the drivers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import InputStandardize, Normalize
from linear_operator.utils.warnings import NumericalWarning
from torch import Generator, Tensor
from tqdm import tqdm

from botorch_pref.datasets import ComparisonData, assign_folds, load_csv, load_train
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation.explanation import feature_effect
from botorch_pref.evaluation.scores import fit_by_evidence
from botorch_pref.likelihoods.protocol import log_mean
from botorch_pref.models import PlackettLuceRegression, PreferenceGP
from botorch_pref.models.answer_likelihoods import model_link, registered_models
from botorch_pref.plotting import draw_drivers
from botorch_pref.posteriors.gaussian import difference_mixture
from botorch_pref.threads import one_thread

NUM_FOLDS, FEW, MAX_LEARN = 5, 150, 500
"""Folds; comparisons that `PairwiseGP` learns from, as 1,000 take it minutes a fit;
and those from which kernel parameters are learned, while the posterior uses all."""

RIDGE = 0.01
"""Precision of the prior of each Bradley-Terry weight, per standardised feature."""

FIGURE_NAME = "drivers.png"
COIN, LINEAR, PAIRWISE = "coin", "Bradley-Terry", "PairwiseGP"

Fit = Callable[[ComparisonData], Model]


@one_thread()
def explain_choices(source: str, model_name: str, seed: int, out: Path) -> None:
    """Scores models on held-out choices; prints the scores, draws the drivers.

    The choices are those of a CSV file (see `load_csv`), or of `train`.
    """
    data = load_train() if source == "train" else load_csv(source)
    # All draws are from it, one after the other, in the order in which this runs.
    generator = Generator().manual_seed(seed)
    folds = _folds(source, data, generator)
    out.mkdir(parents=True, exist_ok=True)
    model_class = _model_class(model_name)

    fit = partial(fit_preference_gp, model_class, generator=generator)
    fits: dict[str, Fit] = {LINEAR: fit_linear, model_class.__name__: fit}
    # In the order of the numbers of folds, by which `held_out` finds them.
    learned = [(folds != k).nonzero()[:, 0] for k in folds.unique()]
    title = "learning from all answers outside the fold"
    if max(map(len, learned)) > FEW:
        _score(title, data, folds, learned, fits)
        title = f"learning from {FEW} answers outside the fold ({PAIRWISE} is slow)"
        orders = [torch.randperm(len(r), generator=generator) for r in learned]
        learned = [r[order[:FEW]] for r, order in zip(learned, orders, strict=True)]
    _score(title, data, folds, learned, fits | {PAIRWISE: fit_pairwise_gp})

    model = fit(data)
    features = data.datapoints, data.feature_names
    columns = range(len(data.feature_names))
    effects = [feature_effect(model, *features, i, generator) for i in columns]
    draw_drivers(effects, f"What drives the choices: {source}", out / FIGURE_NAME)
    print(f"written: {out / FIGURE_NAME}")


def _model_class(name: str) -> type[PreferenceGP]:
    """Finds the class of a model by its short name, as ``--model`` gives it."""
    classes = {
        entry.name: entry.cls
        for entry in registered_models()
        if entry.name is not None and issubclass(entry.cls, PreferenceGP)
    }
    if name not in classes:
        raise FeedbackError(f"--model is {name}: give one of {', '.join(classes)}")
    return classes[name]


def _folds(source: str, data: ComparisonData, generator: Generator) -> Tensor:
    """Assigns each answer to a fold, and prints how many folds of what there are.

    All answers of a rater are in one fold. Refuses data of which nothing can be held
    out, or no winner can be learned.
    """
    unit, groups = "answer; each is predicted from the others", len(data)
    if data.raters is not None:
        groups = data.raters.unique().numel()
        unit = (
            f"person ({groups} people): every answer is predicted from other people's"
        )
        unit += " answers alone"
    if groups < 2:
        raise FeedbackError(
            f"{source} has one answer: give two or more, to predict each from others"
            if data.raters is None
            else f"{source} has one rater, and everybody's answers are predicted from "
            "other people's: leave the column rater out to predict answers of one "
            "person from each other"
        )
    num_folds = min(NUM_FOLDS, groups)
    folds = assign_folds(data, num_folds, generator)
    if not all(data.decided[folds != k].any() for k in range(num_folds)):
        raise FeedbackError(
            f"every answer outside of a fold of {source} is a tie, from which no "
            "winner can be predicted: add answers that name a winner"
            + (", of other raters" if data.raters is not None else "")
        )
    about = f"{len(data)} answers about {len(data.datapoints)} items"
    print(f"{about}, features: {', '.join(data.feature_names)}")
    if data.tie is not None:
        print(
            f"{int(data.tie.sum())} of them are ties: our model learns from them, the "
            "others know none, and scores are of the rest"
        )
    print(f"{num_folds} folds by {unit}")
    return folds


def _score(
    title: str,
    data: ComparisonData,
    folds: Tensor,
    learned: list[Tensor],
    fits: dict[str, Fit],
) -> None:
    """Prints how well models predict the answers of each fold from ``learned`` rows.

    Scores are of answers with a winner. One of the ``fits`` is `LINEAR`, with which
    gains compare; the second is the model of this package, which the last line is on.
    """
    scores = {COIN: torch.full((len(data),), math.log(0.5), dtype=torch.double)}
    bar = tqdm(fits.items(), desc="held-out scores", leave=False)
    for name, fit in bar:
        scores[name] = held_out(data, folds, learned, fit)
    raters = torch.arange(len(data)) if data.raters is None else data.raters
    groups = raters[data.decided].unique(return_inverse=True)[1]
    print(f"\nheld out, {title}:")
    print(f"  {'':24s} log-loss  accuracy  gain over {LINEAR} (s.e.)")
    gains = {}
    for name, score in scores.items():
        decided = score[data.decided]
        gains[name] = clustered_mean((score - scores[LINEAR])[data.decided], groups)
        # An undecided prediction counts half.
        excess = decided - math.log(0.5)
        right = excess.where(excess.abs() > 1e-12, 0.0).sign().add(1).mean() / 2
        cell = "" if name == LINEAR else "{:+.4f} ({:.4f})".format(*gains[name])
        print(f"  {name:24s} {-decided.mean():.4f}    {right:.4f}    {cell}")
    ours = [*fits][1]
    gain, error = gains[ours]
    verdict = "better" if gain > 0 else "worse"
    # Answers that are all alike have all the same gain.
    spread = f"{abs(gain) / error:.1f} standard errors" if error else "each the same"
    size = f"{abs(gain):.4f} nats an answer, {spread}"
    print(f"  {ours} is {verdict} than {LINEAR} by {size}")


def clustered_mean(values: Tensor, groups: Tensor) -> tuple[float, float]:
    """Returns the mean of dependent values and its standard error.

    Values of one group may depend on each other, groups are independent. With group
    sums `S_g` of the residuals, `se^2 = G / (G - 1) sum_g S_g^2 / m^2` (Liang and
    Zeger, 1986), which is infinite for a single group.
    """
    mean, num_groups = values.mean(), int(groups.max()) + 1
    if num_groups == 1:
        return float(mean), math.inf
    sums = torch.zeros(num_groups).to(values).index_add(0, groups, values - mean)
    variance = sums.square().sum() * num_groups / (num_groups - 1)
    return float(mean), float(variance.sqrt()) / len(values)


def held_out(
    data: ComparisonData, folds: Tensor, learned: list[Tensor], fit: Fit
) -> Tensor:
    """Returns the log probability of each answer with a winner, given that one wins.

    Those of fold `k` are predicted from the rows ``learned[k]``; those of ties are NaN.
    """
    log_probs = torch.full((len(data),), math.nan, dtype=data.datapoints.dtype)
    for number, rows in enumerate(learned):
        test = (folds == number) & data.decided
        if test.any():
            model = fit(data.subset(rows)).eval()
            pairs = data.winners[test], data.losers[test]
            won, lost = (_log_wins(model, *pair) for pair in (pairs, pairs[::-1]))
            # What is left is the probability of a tie.
            log_probs[test] = won - torch.logaddexp(won, lost)
    return log_probs


@torch.no_grad()
def _log_wins(model: Any, first: Tensor, second: Tensor) -> Tensor:
    """Computes the log probabilities of answers that the first points win.

    The noise of answers is in them. What a win and a loss lack to 1 is that of a tie.
    """
    if not isinstance(model, PairwiseGP):
        return model.duel_probability(first, second, observation_noise=True).log()
    with warnings.catch_warnings():
        # PairwiseGP factors the joint covariance of all points, singular where they are
        # alike, and adds 1e-6 to it: nothing beside the unit noise.
        warnings.simplefilter("ignore", NumericalWarning)
        posterior = model.posterior(torch.cat([first, second]))
        place = torch.arange(len(first))
        mixture = difference_mixture(posterior, place, place + len(place))
    return log_mean(model_link(model).log_win_probability(*mixture))


def fit_linear(train: ComparisonData) -> PlackettLuceRegression:
    """Fits Bradley-Terry on standardised features, with a weak prior; no ties."""
    decided = train.subset(train.decided)
    scaling = InputStandardize(decided.datapoints.shape[-1])
    return PlackettLuceRegression(
        decided.datapoints, decided.comparisons, eta=RIDGE, input_transform=scaling
    )


def fit_preference_gp(
    model_class: type[PreferenceGP], train: ComparisonData, generator: Generator
) -> PreferenceGP:
    """Fits a model of this package with its defaults, on features scaled to [0, 1].

    Kernel parameters are learned from at most `MAX_LEARN` comparisons: learning needs
    hundreds of Cholesky factors, whose cost grows with the cube of the number of
    comparisons. The posterior uses all comparisons.
    """
    scaling = _scaling(train)
    drawn = torch.randperm(len(train), generator=generator)[:MAX_LEARN]
    learned = train if len(train) <= MAX_LEARN else train.subset(drawn)
    model = model_class(learned.datapoints, learned.feedback, input_transform=scaling)
    fit_by_evidence(model)
    if learned is train:
        return model
    # A draw without ties has learned no threshold of ties to take over.
    alike = bool(learned.decided.all()) == bool(train.decided.all())
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
    pairs = decided.datapoints, decided.comparisons
    model = PairwiseGP(*pairs, input_transform=_scaling(train))
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    return model


def _scaling(train: ComparisonData) -> Normalize:
    """Makes the transform of the range of each feature to the unit interval."""
    low, high = train.datapoints.amin(0), train.datapoints.amax(0)
    high = torch.where(high > low, high, low + 1)
    return Normalize(len(low), bounds=torch.stack([low, high]))
