"""What duels say about the output scale where inputs are many.

    python -m benchmarks.output_scales [--sets 30]

Simulated people answer ``DUELS`` random duels on functions of the study
``many-dimensions``, with its errors, a tenth of the range. The first table has the true
output scale beside a noise of 1: the variance of the utility by that of an error. The
second has, for EP and Laplace with the kernel of BoTorch's `PairwiseGP`, whose output
scale is all but free, and with the stationary kernel, the median of the fitted output
scale and its range in eight data sets of ten, and the rank correlation of posterior
means with the utility at new points: mean and standard error over data sets.
"""

from __future__ import annotations

import argparse

import torch
from scipy.stats import spearmanr
from torch import Generator, Tensor

from benchmarks.report import print_table, start
from benchmarks.suite.cell import Setting
from benchmarks.suite.runs.batch_player import (
    fit,
    fixed_noise,
    models_of,
    uniform,
)
from benchmarks.suite.runs.judges import make_judge
from benchmarks.suite.runs.kernels import (
    large_kernel,
    pairwise_kernel,
    stationary_kernel,
)
from benchmarks.suite.studies.own import MANY_DIMENSIONS
from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
)
from botorch_pref.models import PreferenceGP
from botorch_pref.simulation.problems import make_problem

DUELS, NEW, MANY = 50, 500, 20_000
SETTINGS = MANY_DIMENSIONS.settings[:3]
KERNELS = {
    "of PairwiseGP": pairwise_kernel,
    "stationary": stationary_kernel,
    "stationary, mode 10": large_kernel,
}
ENGINES = {"EP": EPPreferenceGP, "Laplace": LaplacePreferenceGP}


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=30)
    options = parser.parse_args()
    start("output scales of fits to random duels in many dimensions")
    true = [
        [setting.problem, make_problem(setting.problem).dim, true_scale(setting)]
        for setting in MANY_DIMENSIONS.settings
    ]
    print_table(("problem", "inputs", "true output scale"), true)
    head = ("problem", "kernel", "engine", "output scale", "least", "most")
    rows = [row for setting in SETTINGS for row in fitted(setting, options.sets)]
    print_table((*head, "rank correlation", "s.e."), rows)


def true_scale(setting: Setting) -> float:
    """Variance of the utility in the cube by the variance of an error.

    Args:
        setting: Problem and noise.
    """
    problem, generator = make_problem(setting.problem), Generator().manual_seed(0)
    points = torch.rand(MANY, problem.dim, generator=generator, dtype=torch.double)
    return float(problem.utility(points).var()) / setting.noise**2


def fitted(setting: Setting, sets: int) -> list[list[object]]:
    """A row for each kernel and engine.

    Args:
        setting: Problem, judge and noise.
        sets: Number of data sets.
    """
    problem = make_problem(setting.problem)
    sources = [Generator().manual_seed(seed) for seed in range(sets)]
    shown = uniform(sources, DUELS, 2, problem.dim)
    new = uniform(sources, NEW, problem.dim)
    told = torch.empty_like(shown)
    for seed, duels in enumerate(shown):
        judge = make_judge(setting, problem.utility, seed)
        told[seed] = torch.stack([duel[judge.order(duel)] for duel in duels])
    feedback = Comparisons(torch.arange(2 * DUELS).view(DUELS, 2))
    truth, rows = problem.utility(new.flatten(0, 1)).view(sets, NEW), []
    for kernel, make_kernel in KERNELS.items():
        for engine, model_class in ENGINES.items():
            make = models_of(model_class, make_kernel, fixed_noise(1.0))
            model = make(problem.dim, True, sets)(told.flatten(1, 2), feedback)
            fit(model)
            scales, ranks = output_scales(model), correlations(model, new, truth)
            correlation = [ranks.mean().item(), ranks.std().item() / sets**0.5]
            rows.append([setting.problem, kernel, engine, *scales, *correlation])
    return rows


def output_scales(model: PreferenceGP) -> list[float]:
    """Median, lowest and highest tenth of the output scales of a batch.

    Args:
        model: Of all data sets.
    """
    scales = model.covar_module.outputscale.detach()
    return scales.quantile(torch.tensor([0.5, 0.1, 0.9]).to(scales)).tolist()


@torch.no_grad()
def correlations(model: PreferenceGP, new: Tensor, truth: Tensor) -> Tensor:
    """Rank correlations of posterior means with the utility, one a data set.

    Args:
        model: Of all data sets.
        new: `sets x n x d`.
        truth: Their utilities, `sets x n`.
    """
    means = model.posterior(new).mean.squeeze(-1)
    found = [spearmanr(*pair).statistic for pair in zip(means, truth, strict=True)]
    return torch.tensor(found)


if __name__ == "__main__":
    main()
