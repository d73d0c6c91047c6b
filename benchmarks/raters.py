"""Held-out comparisons of ten cars by sixty people: one utility, or one each.

    python benchmarks/raters.py FOLDER [--folds 5]

Prints log-loss and accuracy of each predictor and what it saves against one utility for
all, a table for each way of holding out. ``FOLDER`` holds the files that
`published_answers.load_cars` reads. Every model is EP's, fitted as it comes.
Answers are held out in three ways: a share of everybody's, all but a few of
everybody's, and all those of some people. ``raters`` is the kernel of
`rater_covar_module` over stimulus and number of the rater; a person never met then has
the consensus. Standard errors take the answers of one person as dependent.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import torch
from botorch.fit import fit_gpytorch_mll
from choice_scores import HeldOut, bradley_terry, coin
from gpytorch.kernels import Kernel
from published_answers import load_cars
from report import print_table, seconds, start
from torch import Generator, Tensor

from botorch_pref import EPPreferenceGP, PreferenceMarginalLogLikelihood
from botorch_pref.datasets import ComparisonData, assign_folds
from botorch_pref.models import rater_covar_module

Predict = Callable[[ComparisonData, ComparisonData], Tensor]
Split = tuple[Tensor, Tensor]
FEW = (5, 15)


def main() -> None:
    """Prints one table for each way of holding out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--folds", type=int, default=5)
    options = parser.parse_args()
    start("log-loss of held-out comparisons of cars, nats an answer")
    data = scaled(load_cars(options.folder))
    generator = Generator().manual_seed(0)
    strangers = {"coin": coin_of, "Bradley-Terry": linear, "one utility": one_utility}
    everybody = strangers | {"one each": one_each, "raters": raters}
    order = torch.randperm(len(data), generator=generator)
    shares = [order[k :: options.folds] for k in range(options.folds)]
    print(f"a {options.folds}th of everybody's answers:")
    report(data, [without(data, rows) for rows in shares], everybody)
    for few in FEW:
        print(f"all but {few} answers of everybody:")
        report(data, [few_of_each(data, order, few)], everybody)
    folds = assign_folds(data, options.folds, generator)
    print(f"a {options.folds}th of the people:")
    splits = [without(data, (folds == k).nonzero()[:, 0]) for k in folds.unique()]
    report(data, splits, strangers | {"raters": raters})


def scaled(data: ComparisonData) -> ComparisonData:
    """Features in [0, 1]."""
    low, high = data.datapoints.amin(0), data.datapoints.amax(0)
    points = (data.datapoints - low) / (high - low)
    return ComparisonData(points, data.comparisons, data.feature_names, data.raters)


def without(data: ComparisonData, held_out: Tensor) -> Split:
    """All other rows, and these."""
    kept = torch.ones(len(data), dtype=torch.bool)
    kept[held_out] = False
    return kept.nonzero()[:, 0], held_out


def few_of_each(data: ComparisonData, order: Tensor, few: int) -> Split:
    """The first answers of each rater in some order, and the rest."""
    shuffled = data.raters[order]
    kept = [order[shuffled == rater][:few] for rater in shuffled.unique()]
    held_out = without(data, torch.cat(kept))[0]
    return torch.cat(kept), held_out


def report(
    data: ComparisonData, splits: list[Split], predictors: dict[str, Predict]
) -> None:
    """Prints what each predictor reaches, and what it saves against one utility."""
    groups = torch.unique(data.raters, return_inverse=True)[1]
    rows = torch.cat([test for _, test in splits])
    scores, times = {}, {}

    def score(name: str) -> None:
        parts = [
            predictors[name](data.subset(train), data.subset(test))
            for train, test in splits
        ]
        scores[name] = HeldOut(torch.cat(parts), groups[rows])

    for name in predictors:
        times[name] = seconds(lambda name=name: score(name)) / len(splits)
    table = []
    for name, held_out in scores.items():
        gain, error = held_out.gain_over(scores["one utility"])
        figures = held_out.log_loss, held_out.accuracy, gain, error, times[name]
        table.append((name, *figures))
    names = "log-loss", "accuracy", "saves", "std. error", "seconds a fit"
    print_table(("model", *names), table)


def fit(points: Tensor, pairs: Tensor, kernel: Kernel | None = None) -> EPPreferenceGP:
    """EP, with hyper-parameters learned."""
    model = EPPreferenceGP(points, pairs, covar_module=kernel)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model.eval()


def log_probability(model: EPPreferenceGP, first: Tensor, second: Tensor) -> Tensor:
    """Log probability that the first is preferred."""
    with torch.no_grad():
        return model.duel_probability(first, second, observation_noise=True).log()


def coin_of(train: ComparisonData, test: ComparisonData) -> Tensor:
    """Log probability of one half for every answer."""
    return coin(train, test.winners, test.losers)


def linear(train: ComparisonData, test: ComparisonData) -> Tensor:
    """One linear utility for all."""
    return bradley_terry(train, test.winners, test.losers)


def one_utility(train: ComparisonData, test: ComparisonData) -> Tensor:
    """One utility for all."""
    model = fit(train.datapoints, train.comparisons)
    return log_probability(model, test.winners, test.losers)


def one_each(train: ComparisonData, test: ComparisonData) -> Tensor:
    """A model for each rater, who knows nothing of the others."""
    result = torch.full((len(test),), math.log(0.5), dtype=torch.double)
    for rater in test.raters.unique():
        own = train.subset(train.raters == rater)
        model = fit(own.datapoints, own.comparisons)
        asked = test.raters == rater
        result[asked] = log_probability(model, test.winners[asked], test.losers[asked])
    return result


def raters(train: ComparisonData, test: ComparisonData) -> Tensor:
    """One model of stimulus and rater."""
    points = torch.cat([rated(train.winners, train), rated(train.losers, train)])
    pairs = torch.arange(len(points)).reshape(2, -1).T
    model = fit(points, pairs, rater_covar_module(len(train.feature_names)))
    agreement = float(model.covar_module.kernels[1].agreement.detach())
    print(f"  agreement {agreement:.3f}")
    return log_probability(model, rated(test.winners, test), rated(test.losers, test))


def rated(stimuli: Tensor, data: ComparisonData) -> Tensor:
    """Stimuli with the number of the rater as their last column."""
    return torch.cat([stimuli, data.raters.to(stimuli).unsqueeze(-1)], dim=-1)


if __name__ == "__main__":
    main()
