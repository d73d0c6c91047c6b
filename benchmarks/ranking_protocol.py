"""The protocol of Guo et al. (2020), sections 5 and 6, on people's answers.

    python benchmarks/ranking_protocol.py [--sushi FOLDER] [--repetitions 10]
        [--shuffle SEED]

Prints tables 3 and 4 and figures 1 to 4 of the paper, figures as tables, for each data
set. ``FOLDER`` holds the files that `botorch_pref.datasets.load_sushi` reads. Three
folds, by sets and by samples; a sample of the training sets to learn from, all test
sets to predict. M-VI is the variational bound, MAP the mode, Laplace the Gaussian
around it. The precision eta of the prior is the one of ``ETAS`` with the least log-loss
in three folds of the sample (``*``), the largest lower bound (``L``), or the largest
evidence under Laplace (``E``).

Features are scaled to mean 0 and deviation 1 over all items; the paper does not say
what it does. Of a choice only the comparisons with the chosen item count, and its items
are met once or twice, so that their values (equation 27) say nothing: there the
accuracy, the share of sets with the chosen item in front, stands for the top-K metric.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from ranking_measures import (
    RankingFold,
    comparison_auc,
    folds_by_samples,
    folds_by_sets,
    item_values,
    top_k_value,
)
from ranking_tables import (
    METHODS,
    Tested,
    print_against_eta,
    print_positive_ratio,
    print_rules,
    print_spread,
)
from report import seconds, start
from torch import Generator, Tensor

from botorch_pref import PlackettLuceRegression, Rankings
from botorch_pref.datasets import (
    FeedbackData,
    load_car,
    load_sushi,
    load_travel_mode,
)
from botorch_pref.evaluation.scores import ordered_pairs
from botorch_pref.numerics.logistic_normal import log_expected_sigmoid

Table = FeedbackData[Any]
Split = Callable[[Table, int, Generator], list[RankingFold]]
NUM_FOLDS = 3
ETAS = 3.0 ** torch.arange(-4, 8, dtype=torch.double)
SIZES = (15, 20)
SUSHI_PAPER = {
    "top-15": (0.805, 0.805, "", 0.79, 0.803, ""),
    "top-20": (0.824, 0.824, "", 0.809, 0.823, ""),
    "AUC": (0.591, 0.592, "", 0.579, 0.589, ""),
}
# Waiting times give the answer away: those of the modes that a traveller did not choose
# have two values a mode, those of chosen ones many.
LEAK = "wait"


class Weights(NamedTuple):
    """A distribution of weights for every eta.

    Attributes:
        mean: ``E x d``.
        covariance: ``E x d x d``.
        log_evidence: ``E``, or its lower bound.
    """

    mean: Tensor
    covariance: Tensor
    log_evidence: Tensor


def learned(train: Table) -> tuple[Weights, ...]:
    """One for each of ``METHODS``.

    Args:
        train: Answers about scaled items.
    """
    found = []
    for inference in ("variational", "laplace"):
        model = PlackettLuceRegression(
            train.datapoints.expand(len(ETAS), -1, -1),
            feedback=[train.feedback],
            inference=inference,
            eta=ETAS,
        )
        evidence = model.diagnostics()["log_evidence"]
        found.append(Weights(model.weights_mean, model.weights_covariance, evidence))
    variational, laplace = found
    point = laplace._replace(covariance=torch.zeros_like(laplace.covariance))
    return variational, point, laplace


def differences(weights: Weights, points: Tensor, pairs: Tensor) -> Tensor:
    """Means and variances of utility differences, ``2 x E x m``.

    Args:
        weights: For every eta.
        points: ``n x d``.
        pairs: ``m x 2``.
    """
    gap = points[pairs[:, 0]] - points[pairs[:, 1]]
    variance = ((gap @ weights.covariance) * gap).sum(-1)
    return torch.stack([weights.mean @ gap.mT, variance])


def cross_validated(train: Table, generator: Generator) -> list[int]:
    """Places of the etas of least held-out log-loss, one for each of ``METHODS``.

    Args:
        train: What is split into folds by sets.
        generator: Of the folds.
    """
    losses = torch.zeros(len(METHODS), len(ETAS), dtype=torch.double)
    for fold in folds_by_sets(train, NUM_FOLDS, generator):
        held_out = train.subset(fold.test)
        pairs = ordered_pairs(held_out.feedback.stages())
        posteriors = learned(train.subset(fold.train))
        for loss, weights in zip(losses, posteriors, strict=True):
            moments = differences(weights, held_out.datapoints, pairs)
            loss -= log_expected_sigmoid(*moments).sum(-1)
    return losses.argmin(-1).tolist()


def metrics_of(data: Table) -> tuple[str, ...]:
    """Names of what is measured.

    Args:
        data: Choices or rankings.
    """
    ranked = isinstance(data.feedback, Rankings)
    tops = [f"top-{size}" for size in SIZES] if ranked else ["accuracy"]
    return *tops, "AUC", "log-loss"


def tested(train: Table, test: Table, generator: Generator) -> Tested:
    """Learns from the one and predicts the other.

    Args:
        train: A sample of a fold's training sets.
        test: All its test sets.
        generator: Of the folds within the sample.
    """
    best = cross_validated(train, generator)
    posteriors = learned(train)
    bound, _, evidence = (int(p.log_evidence.argmax()) for p in posteriors)
    stages = test.feedback.stages()
    pairs, num_items = ordered_pairs(stages), len(test.datapoints)
    # Of few items the same pairs are compared many times.
    kinds, place = (pairs @ torch.tensor([num_items, 1])).unique(return_inverse=True)
    kinds = torch.stack([kinds // num_items, kinds % num_items], dim=-1)
    ranked = isinstance(test.feedback, Rankings)
    scores, gaps = [], []
    for posterior, at in zip(posteriors, best, strict=True):
        moments = differences(posterior, test.datapoints, kinds)
        mean, variance = moments[:, at, place]
        gaps.append(torch.stack([mean, variance.sqrt()]))
        log_wins = log_expected_sigmoid(*moments)[:, place]
        if ranked:
            tops = [top_values(log_win.exp(), pairs, num_items) for log_win in log_wins]
        else:
            tops = accuracies(posterior, test.datapoints, stages)
        scores.append(
            [
                [*top, comparison_auc(log_win.exp()), -float(log_win.mean())]
                for top, log_win in zip(tops, log_wins, strict=True)
            ]
        )
    return Tested(
        torch.tensor(scores, dtype=torch.double),
        torch.tensor([*best, bound, bound, evidence]),
        torch.stack([p.log_evidence for p in posteriors]),
        torch.stack(gaps),
        len(test),
    )


def top_values(win_probability: Tensor, pairs: Tensor, num_items: int) -> list[float]:
    """The top-K metric for each of ``SIZES``.

    Args:
        win_probability: ``m``, predicted of the winners.
        pairs: ``m x 2``, winner first.
        num_items: How many items there are.
    """
    truth = item_values(pairs, torch.ones_like(win_probability), num_items)
    estimate = item_values(pairs, win_probability, num_items)
    return [top_k_value(truth, estimate, size) for size in SIZES]


def accuracies(weights: Weights, points: Tensor, stages: Tensor) -> list[list[float]]:
    """The share of sets whose chosen item has the largest mean utility, by eta.

    Args:
        weights: For every eta.
        points: ``n x d``.
        stages: ``s x k``, the chosen item first.
    """
    utilities = (weights.mean @ points.mT)[:, stages]
    utilities = utilities.masked_fill(stages < 0, -math.inf)
    right = (utilities.argmax(-1) == 0).double().mean(-1)
    return [[share] for share in right.tolist()]


def repeated(
    data: Table, split: Split, sample: int, repetitions: int
) -> list[list[Tested]]:
    """All folds of all repetitions, but those without sets to learn from or to test.

    Args:
        data: All answers.
        split: How folds are made.
        sample: How many of the training sets are learned from, at most.
        repetitions: How often folds are drawn.
    """
    results: list[list[Tested]] = []
    for repetition in range(repetitions):
        generator = Generator().manual_seed(repetition)
        results.append([])
        for fold in split(data, NUM_FOLDS, generator):
            if len(fold.train) < NUM_FOLDS or not len(fold.test):
                continue
            drawn = torch.randperm(len(fold.train), generator=generator)[:sample]
            train, test = data.subset(fold.train[drawn]), data.subset(fold.test)
            results[-1].append(tested(train, test, generator))
    return [folds for folds in results if folds]


def scaled(data: Table, without: str = "") -> Table:
    """The same answers about items with features of mean 0 and deviation 1.

    Args:
        data: The answers.
        without: The name of a feature to leave out.
    """
    kept = [i for i, name in enumerate(data.feature_names) if name != without]
    points = data.datapoints[:, kept]
    points = (points - points.mean(0)) / points.std(0)
    names = tuple(data.feature_names[i] for i in kept)
    return FeedbackData(points, data.feedback, names, data.raters)


def with_shuffled_items(data: Table, seed: int) -> Table:
    """The same answers, with the features of the items in another order.

    Args:
        data: Answers of items; of Sushi each row of features is one item.
        seed: Of the order.
    """
    order = torch.randperm(
        len(data.datapoints), generator=Generator().manual_seed(seed)
    )
    points = data.datapoints[order]
    return FeedbackData(points, data.feedback, data.feature_names, data.raters)


def main() -> None:
    """Prints the tables of every data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sushi", metavar="FOLDER")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument(
        "--shuffle", type=int, metavar="SEED", help="give items features of others"
    )
    options = parser.parse_args()
    if options.repetitions < 2:
        parser.error("standard errors need two repetitions")
    start("the ranking paper's protocol")
    car, travel = scaled(load_car()), scaled(load_travel_mode(), without=LEAK)
    # The sample is Table 2's of Sushi, and as of its other rankings.
    settings: list[tuple[str, Table, Split, int]] = [
        ("Car, by sets", car, folds_by_sets, 300),
        ("Car, by samples", car, folds_by_samples, 300),
        (f"TravelMode without {LEAK}, by sets", travel, folds_by_sets, 300),
        (f"TravelMode without {LEAK}, by samples", travel, folds_by_samples, 300),
    ]
    if options.sushi:
        # By samples no set of ten would be left.
        sushi = scaled(load_sushi(options.sushi, "b"))
        settings.insert(0, ("Sushi, by sets", sushi, folds_by_sets, 100))
    for title, data, split, sample in settings:
        if options.shuffle is not None:
            data = with_shuffled_items(data, options.shuffle)
        results: list[list[Tested]] = []
        taken = seconds(
            lambda d=data, s=split, n=sample, r=results: r.extend(
                repeated(d, s, n, options.repetitions)
            )
        )
        folds = [fold for repetition in results for fold in repetition]
        num_sets = sum(fold.num_sets for fold in folds) / len(folds)
        print(
            f"{title}: {len(folds)} folds, {num_sets:.1f} test sets each; "
            f"{taken:.0f} seconds\n"
        )
        metrics = metrics_of(data)
        print_rules(metrics, ETAS, results, SUSHI_PAPER if "Sushi" in title else {})
        print_against_eta(metrics, ETAS, folds)
        if split is folds_by_sets:
            print_spread(folds)
            print_positive_ratio(results[0])


if __name__ == "__main__":
    main()
