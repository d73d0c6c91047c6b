"""How often Bayesian optimisation finds the best design where it is told values.

    python -m benchmarks.values_told [--problem hartmann6] [--batch 4] [--seeds 50]

As a bound for questions: a person who ranks four options thirty times shows which of
120 designs are better, and here their utilities are told without errors. BoTorch's
`SingleTaskGP` with `qLogExpectedImprovement` begins with the twenty designs of five
questions, spread by a Sobol sequence, and chooses the others ``--batch`` at a time.
Prints the regret of the best design after 40, 80 and 120 of each seed, their mean, and
how many are below ``--below``.
"""

from __future__ import annotations

import argparse

import torch
from botorch.acquisition import qLogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.utils.sampling import draw_sobol_samples, manual_seed
from gpytorch.mlls import ExactMarginalLogLikelihood

from benchmarks.report import print_table, start
from botorch_pref.simulation import make_problem

DESIGNS = (40, 80, 120)
FIRST = 20


def regrets(name: str, seed: int, batch: int, designs: tuple[int, ...]) -> list[float]:
    """Returns regrets of the best design after so many of them.

    Args:
        name: Of the problem.
        seed: Of the first designs and of all searches.
        batch: How many designs are chosen at a time.
        designs: Numbers of designs, rising.
    """
    problem = make_problem(name)
    cube = torch.zeros(2, problem.dim, dtype=torch.double)
    cube[1] = 1.0
    X = draw_sobol_samples(cube, FIRST, 1, seed=seed).squeeze(-2)
    with manual_seed(seed):
        while len(X) < designs[-1]:
            values = problem.utility(X).unsqueeze(-1)
            model = SingleTaskGP(X, values)
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            gain = qLogExpectedImprovement(model, best_f=values.max())
            size = min(batch, designs[-1] - len(X))
            options, _ = optimize_acqf(
                gain, cube, q=size, num_restarts=8, raw_samples=256, sequential=True
            )
            X = torch.cat([X, options])
    regret = problem.regret(X)
    return [float(regret[:count].min()) for count in designs]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="hartmann6")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--designs", type=int, nargs="+", default=DESIGNS)
    parser.add_argument("--below", type=float, default=0.1)
    options = parser.parse_args()
    start(f"{options.problem}, values told, {options.batch} designs at a time")
    designs = tuple(options.designs)
    rows = [
        [seed, *regrets(options.problem, seed, options.batch, designs)]
        for seed in range(options.seeds)
    ]
    table = torch.tensor(rows)
    means = ["mean", *table[:, 1:].mean(0).tolist()]
    print_table(["seed", *map(str, designs)], [*rows, means])
    below = int((table[:, -1] < options.below).sum())
    print(f"{below} of {len(table)} seeds end below {options.below:g}.")


if __name__ == "__main__":
    main()
