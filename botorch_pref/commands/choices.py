"""Command that fits a table of choices, scores models and draws the drivers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Generator
from tqdm import tqdm

from botorch_pref.commands.registry import MODELS
from botorch_pref.datasets import ComparisonData, load_csv, load_train
from botorch_pref.errors import FeedbackError
from botorch_pref.evaluation.explanation import feature_effect
from botorch_pref.evaluation.held_out import (
    HeldOut,
    Predictor,
    RankingFold,
    bradley_terry,
    coin,
    cross_validate,
    fit_pairwise_gp,
    fit_preference_gp,
    folds_by_sets,
    predict_with,
)
from botorch_pref.plotting.figures import draw_drivers

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
