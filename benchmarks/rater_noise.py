"""Simulated crowds: intervals of raters' noise, and who is named an outlier.

    python benchmarks/rater_noise.py [--crowds 40]

Five raters judge 25 pairs of eight designs each, whose utilities are drawn from a known
kernel with an agreement of 0.95. Prints how many 95 % intervals of `rater_reliability`
hold the true noise, in how many crowds an honest rater is an outlier, and in how many a
rater who answers at random is one, of crowds with equal noises, with noises that differ
as their prior says, and with one rater who answers at random.
"""

from __future__ import annotations

import argparse

import torch
from botorch.fit import fit_gpytorch_mll
from report import print_table, start
from torch import Generator, Tensor

from botorch_pref import LaplacePreferenceGP, PreferenceMarginalLogLikelihood
from botorch_pref.evaluation import rater_reliability
from botorch_pref.models import PreferenceGP, rater_covar_module
from botorch_pref.models.raters import at_raters

RATERS, DESIGNS, PAIRS = 5, 8, 25
AT_RANDOM = 20.0
"""Log noise of a rater who answers at random."""


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crowds", type=int, default=40)
    crowds = parser.parse_args().crowds
    start("noise of raters in simulated crowds")
    rows = []
    for name, spread, guessing in (
        ("equal noises", 0.0, False),
        ("noises of the prior", 1.0, False),
        ("one answers at random", 0.0, True),
    ):
        rows.append([name, *scores(crowds, spread, guessing)])
    head = ["crowds", "intervals that hold", "honest named", "guessing named"]
    print_table(head, rows)


def scores(crowds: int, spread: float, guessing: bool) -> list[str]:
    """Shares of intervals that hold the noise, and of crowds with outliers."""
    inside, honest, found = [], [], []
    for seed in range(crowds):
        generator = Generator().manual_seed(seed)
        log_noise = spread * torch.randn(RATERS, generator=generator).double()
        if guessing:
            log_noise[0] = AT_RANDOM
        table = rater_reliability(fitted_crowd(generator, log_noise))
        truth = (log_noise - log_noise.mean()).exp().numpy()
        inside += ((table["lower"] < truth) & (truth < table["upper"])).tolist()
        named = table["outlier"].tolist()
        honest.append(any(named[guessing:]))
        found.append(named[0])
    held = "" if guessing else f"{sum(inside) / len(inside):.3f}"
    caught = f"{sum(found)} of {crowds}" if guessing else ""
    return [held, f"{sum(honest)} of {crowds}", caught]


def fitted_crowd(generator: Generator, log_noise: Tensor) -> PreferenceGP:
    """A model of a crowd's answers, which knows all but the noises."""
    numbers = torch.arange(RATERS)
    kernel = rater_covar_module(2, noisy_raters=numbers).double()
    kernel.kernels[0].outputscale = 9.0
    kernel.kernels[0].base_kernel.lengthscale = 0.4
    kernel.kernels[1].agreement = 0.95
    for part in kernel.kernels[:2]:
        part.requires_grad_(False)
    designs = torch.rand(DESIGNS, 2, generator=generator).double()
    points = at_raters(designs, numbers).unflatten(0, (DESIGNS, RATERS))
    points = points.transpose(0, 1).flatten(0, 1)
    with torch.no_grad():
        covariance = kernel(points).to_dense()
    root = torch.linalg.cholesky(covariance + 1e-8 * torch.eye(len(points)))
    utilities = root @ torch.randn(len(points), generator=generator).double()
    first = torch.randint(DESIGNS, (RATERS, PAIRS), generator=generator)
    other = torch.randint(1, DESIGNS, (RATERS, PAIRS), generator=generator)
    pairs = torch.stack([first, (first + other) % DESIGNS], dim=-1)
    pairs = pairs + DESIGNS * numbers[:, None, None]
    heard = torch.randn(RATERS, PAIRS, generator=generator).double()
    heard = heard * (2 * log_noise.exp()).sqrt().unsqueeze(-1)
    heard = heard + utilities[pairs[..., 0]] - utilities[pairs[..., 1]]
    pairs = torch.where((heard > 0).unsqueeze(-1), pairs, pairs.flip(-1))
    model = LaplacePreferenceGP(points, pairs.flatten(0, 1), covar_module=kernel)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model


if __name__ == "__main__":
    main()
