"""What the scales of `DuelKernel` should be, by real people's answers.

    python benchmarks/people_scales.py [--cars FOLDER] [--splits 30]

Prints what a model whose lengthscales, or whose output scale, have another prior mode
saves against the default one, in nats a duel held out. Each split learns from a few
duels drawn at random and is tested on ``HELD_OUT`` others. ``Train`` are choices
between two journeys, ``Car`` the chosen one of six vehicles against one of the others,
both of people pooled. ``cars``, from the folder that `published_answers.load_cars`
reads, are the duels of one person a split. Standard errors are those of the mean
difference over splits.
"""

from __future__ import annotations

import argparse
import math

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.priors import LogNormalPrior
from held_out_scores import scaling
from published_answers import load_cars
from report import print_table, start
from torch import Generator, Tensor

from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.datasets import ComparisonData, load_car, load_train
from botorch_pref.evaluation import predictive_log_probability

HELD_OUT = 300
DUELS = (30, 100)
LENGTHSCALES = (1.0, 0.7, 1.5)
OUTPUT_SCALES = (0.3, 3.0)
SPREAD = 0.7
"""Of the logarithm of the output scale, as in `DuelKernel`."""

OTHERS = (
    *(f"{times:g} times the lengthscale" for times in LENGTHSCALES[1:]),
    "BoTorch's lengthscale",
    *(f"{times:g} times the output scale" for times in OUTPUT_SCALES),
)


def main() -> None:
    """Prints one table, a row for each data set and number of duels."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cars", metavar="FOLDER")
    parser.add_argument("--splits", type=int, default=30)
    options = parser.parse_args()
    start("nats a duel saved by scales other than those of DuelKernel")
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
    told = [cell for other in OTHERS for cell in (other, "s.e.")]
    print_table(("data", "features", "duels", "splits", "default", *told), rows)


def vehicles() -> ComparisonData:
    """Of each choice of one out of six, the chosen one against one by chance."""
    data = load_car()
    sets, chosen = data.feedback.sets, data.feedback.chosen[:, None]
    others = sets[sets != chosen].reshape(len(sets), -1)
    place = torch.randint(5, (len(sets), 1), generator=Generator().manual_seed(0))
    pairs = torch.cat([chosen, others.gather(1, place)], 1)
    return ComparisonData(data.datapoints, pairs, data.feature_names)


def people(folder: str) -> list[ComparisonData]:
    """The comparisons of ten cars, one data set a person."""
    data = load_cars(folder)
    assert data.raters is not None
    return [data.subset(data.raters == person) for person in data.raters.unique()]


def row(name: str, data_sets: list[ComparisonData], duels: int) -> list[object]:
    """Log loss of the default, and what other kernels save, over splits.

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
    """Log loss of held-out duels, of the default and of each of ``OTHERS``.

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
    for kernel in kernels(dim):
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
    return torch.stack(losses)


def kernels(dim: int) -> list[DuelKernel]:
    """The default and each of ``OTHERS``.

    Args:
        dim: Number of features.
    """
    usual = DuelKernel(dim)
    mode = usual.base_kernel.lengthscale[0, 0].item()
    modes = [times * mode for times in LENGTHSCALES]
    modes.append(math.exp(2**0.5 - 3) * dim**0.5)
    others = [DuelKernel(dim, lengthscale=mode) for mode in modes]
    for times in OUTPUT_SCALES:
        other, scale = DuelKernel(dim), times * usual.outputscale.item()
        prior = LogNormalPrior(math.log(scale) + SPREAD**2, SPREAD)
        other.register_prior("outputscale_prior", prior, "outputscale")
        other.outputscale = scale
        others.append(other)
    return others


if __name__ == "__main__":
    main()
