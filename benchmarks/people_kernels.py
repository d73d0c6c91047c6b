"""What the prior of utilities should be, by real people's answers.

    python benchmarks/people_kernels.py [--cars FOLDER] [--splits 30]

Prints what `DuelKernel`, the same with other priors, BoTorch's kernel, `default_model`
and the average of its plausible models save against the stationary kernel of the suite,
in nats a duel held out. Noise is one but for the last two, which learn it. Each split
learns from a few duels drawn at random and is tested on ``HELD_OUT`` others. ``Train``
are choices between two journeys, ``Car`` the chosen one of six vehicles against one of
the others, both of people pooled. ``cars``, from the folder that
`published_answers.load_cars` reads, are the duels of one person a split. Standard
errors are those of the mean difference over splits. Types and fuels of vehicles are
unordered choices.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import Kernel
from held_out_scores import scaling
from published_answers import load_cars
from report import print_table, start
from suite.runs.kernels import scaled, stationary_kernel
from torch import Generator, Tensor

from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.asking import default_model
from botorch_pref.datasets import ComparisonData, load_car, load_train
from botorch_pref.evaluation import predictive_log_probability
from botorch_pref.models import averaged_utility

HELD_OUT = 300
DUELS = (30, 100)
Choices = list[list[int]]


KERNELS: dict[str, Callable[[int, Choices], Kernel | None]] = {
    "DuelKernel": lambda dim, choices: DuelKernel(dim, categorical=choices),
    "columns as numbers": lambda dim, choices: DuelKernel(dim),
    "0.7 times the lengthscale": partial(scaled, lengthscale=0.35),
    "1.4 times the lengthscale": partial(scaled, lengthscale=0.7),
    "the same, wider": partial(scaled, lengthscale=0.7, lengthscale_spread=0.8),
    "twice the lengthscale, wider": partial(
        scaled, lengthscale=1.0, lengthscale_spread=0.8
    ),
    "0.4 times the output scale": partial(scaled, times=0.4),
    "twice the output scale": partial(scaled, times=2.0),
    "half of the relevance spread": partial(scaled, relevance_spread=0.5),
    "twice the relevance spread": partial(scaled, relevance_spread=2.0),
    "one expected input": partial(scaled, expected_inputs=1.0),
    "two expected inputs": partial(scaled, expected_inputs=2.0),
    "BoTorch's": lambda dim, choices: None,
}


def main() -> None:
    """Prints one table, a row for each data set and number of duels."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cars", metavar="FOLDER")
    parser.add_argument("--splits", type=int, default=30)
    options = parser.parse_args()
    start("nats a duel saved against the stationary kernel")
    pooled = [[data] * options.splits for data in (load_train(), vehicles())]
    rows = [
        row(name, sets, duels)
        for name, sets in zip(("Train", "Car"), pooled, strict=True)
        for duels in DUELS
    ]
    if options.cars is None:
        print("cars: skipped, give their folder with --cars")
    else:
        rows.append(row("cars", people(options.cars)[: options.splits], 20))
    others = (*KERNELS, "default_model", "its average")
    told = [cell for other in others for cell in (other, "s.e.")]
    print_table(("data", "features", "duels", "splits", "stationary", *told), rows)


def vehicles() -> ComparisonData:
    """Of each choice of one out of six, the chosen one against one by chance."""
    data = load_car()
    sets, chosen = data.feedback.sets, data.feedback.chosen[:, None]
    others = sets[sets != chosen].reshape(len(sets), -1)
    place = torch.randint(5, (len(sets), 1), generator=Generator().manual_seed(0))
    pairs = torch.cat([chosen, others.gather(1, place)], 1)
    return ComparisonData(data.datapoints, pairs, data.feature_names)


def choices_of(data: ComparisonData) -> Choices:
    """The columns of each unordered choice, named by what they have in common."""
    columns: dict[str, list[int]] = {}
    for column, name in enumerate(data.feature_names):
        choice, between, _ = name.partition("_")
        values = data.datapoints[:, column].unique().tolist()
        if between and values == [0.0, 1.0]:
            columns.setdefault(choice, []).append(column)
    return [group for group in columns.values() if len(group) > 1]


def people(folder: str) -> list[ComparisonData]:
    """The comparisons of ten cars, one data set a person."""
    data = load_cars(folder)
    assert data.raters is not None
    return [data.subset(data.raters == person) for person in data.raters.unique()]


def row(name: str, data_sets: list[ComparisonData], duels: int) -> list[object]:
    """Log loss under the stationary kernel, and what others save, over splits.

    Args:
        name: Of the data.
        data_sets: One a split.
        duels: How many are learned from.
    """
    losses = torch.stack(
        [split_losses(data, duels, seed) for seed, data in enumerate(data_sets)]
    )
    saved = losses[:, :1] - losses[:, 1:]
    error = saved.std(0) / len(saved) ** 0.5
    dim = data_sets[0].datapoints.shape[-1]
    cells = torch.stack([saved.mean(0), error], 1).flatten().tolist()
    return [name, dim, duels, len(saved), float(losses[:, 0].mean()), *cells]


def split_losses(data: ComparisonData, duels: int, seed: int) -> Tensor:
    """Log loss of held-out duels: of the stationary kernel, ``KERNELS``, the default.

    Args:
        data: The answers.
        duels: How many are learned from.
        seed: Of the split.
    """
    order = torch.randperm(len(data), generator=Generator().manual_seed(seed))
    learned = data.subset(order[:duels])
    held_out = data.subset(order[duels : duels + HELD_OUT])
    dim = data.datapoints.shape[-1]
    losses = []
    choices = choices_of(data)
    kernels = (kernel(dim, choices) for kernel in KERNELS.values())
    for kernel in (stationary_kernel(dim), *kernels):
        model = EPPreferenceGP(
            learned.datapoints,
            learned.feedback,
            covar_module=kernel,
            input_transform=scaling(data.datapoints),
        )
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
        log_probability = predictive_log_probability(
            held_out.feedback, model.eval(), held_out.datapoints
        )
        losses.append(-log_probability.mean().detach())
    bounds = torch.stack([data.datapoints.amin(0), data.datapoints.amax(0)])
    default = default_model(
        learned.datapoints, learned.feedback, bounds=bounds, categorical=choices
    )
    tellers = default, averaged_utility(default)[0]
    losses += [log_loss(teller, held_out) for teller in tellers]
    return torch.stack(losses)


def log_loss(model: Any, held_out: ComparisonData) -> Tensor:
    """Log loss of held-out duels, as a model foresees them one by one.

    Args:
        model: That foresees, with its noise.
        held_out: Without ties.
    """
    pairs = held_out.feedback.pairs
    assert pairs is not None
    winner, loser = held_out.datapoints[pairs].unbind(-2)
    with torch.no_grad():
        chance = model.duel_probability(winner, loser, observation_noise=True)
    return -chance.log().mean()


if __name__ == "__main__":
    main()
