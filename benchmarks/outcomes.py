"""Preferences over outcomes: our models in `PairwiseGP`'s place.

    python benchmarks/outcomes.py [--starts 10] [--problem NAME]

Preference exploration as Lin et al. (2022) have it: a Gaussian process learns several
outcomes of 16 designs, a person answers 20 questions about hypothetical outcomes that
EUBO-zeta chooses, and four designs are then tried that `qLogNoisyExpectedImprovement`
chooses under BoTorch's `LearnedObjective`. Problems and utilities need nothing from
outside: DTLZ2 with the distance from one outcome, vehicle safety with a utility that
bends at a required value, car side impact with a product of curves that saturate. The
person hears each utility with an error of a tenth of its deviation over designs.

Prints means over starts with their standard errors: how much utility the best of the
four designs falls short of the best of 20,000 (below zero: it is better), in deviations
of the utility; the share of pairs of outcomes of new designs that the model orders
rightly; and processor seconds of a fit and of a question.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import LearnedObjective
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.fit import fit_gpytorch_mll
from botorch.models.deterministic import FixedSingleSampleModel
from botorch.models.gp_regression import SingleTaskGP
from botorch.models.model import Model
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize
from botorch.optim.optimize import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from botorch.test_functions.multi_objective import (
    DTLZ2,
    CarSideImpact,
    VehicleSafety,
)
from botorch.utils.sampling import draw_sobol_samples, manual_seed
from gpytorch.mlls import ExactMarginalLogLikelihood
from report import print_table, start
from torch import Generator, Tensor

from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
)

NUM_DESIGNS, NUM_QUESTIONS, NUM_TRIED = 16, 20, 4
NUM_RANDOM = 3
NUM_TRUTH = 20_000
NUM_PAIRS = 2_000
NUM_RESTARTS, RAW_SAMPLES = 4, 64
NUM_SAMPLES = 32


def distance(Y: Tensor) -> Tensor:
    """Minus the sum of distances from the outcome that has half of each range."""
    return -(Y - 0.5).abs().sum(-1)


def bent(Y: Tensor) -> Tensor:
    """A sum of outcomes that count four times as much below a required value."""
    required = torch.linspace(0.6, 0.8, Y.shape[-1], dtype=Y.dtype)
    return (Y + 3 * (Y - required).clamp_max(0.0)).sum(-1)


def saturating(Y: Tensor) -> Tensor:
    """A product of distribution functions of Kumaraswamy's, steep in the middle."""
    return (1 - (1 - Y.clamp(0.0, 1.0) ** 2) ** 4).prod(-1)


PROBLEMS: dict[
    str, tuple[Callable[[], torch.nn.Module], Callable[[Tensor], Tensor]]
] = {
    "DTLZ2": (lambda: DTLZ2(dim=8, num_objectives=4, negate=True), distance),
    "vehicle safety": (lambda: VehicleSafety(negate=True), bent),
    "car side impact": (lambda: CarSideImpact(negate=True), saturating),
}


@dataclass(frozen=True)
class Task:
    """Outcomes in the unit cube of designs in the unit cube, and their utility.

    Attributes:
        dim: Number of parameters `d`.
        outcomes: From designs, `... x d`, to outcomes, `... x k`, the more the better.
        utility: From outcomes to what the person thinks of them, of deviation 1.
        best: The largest utility of many designs.
    """

    dim: int
    outcomes: Callable[[Tensor], Tensor]
    utility: Callable[[Tensor], Tensor]
    best: float


def make_task(name: str) -> Task:
    """The task of a name, its scales those of many designs.

    Args:
        name: One of `PROBLEMS`.
    """
    make, utility = PROBLEMS[name]
    problem = make().double()
    lower, upper = problem.bounds

    def raw(X: Tensor) -> Tensor:
        return problem(lower + X * (upper - lower))

    many = raw(uniform(NUM_TRUTH, problem.dim, seed=0))
    least, largest = many.amin(0), many.amax(0)

    def outcomes(X: Tensor) -> Tensor:
        return (raw(X) - least) / (largest - least)

    values = utility((many - least) / (largest - least))
    scale = float(values.std())
    best = float(values.max()) / scale
    return Task(problem.dim, outcomes, lambda Y: utility(Y) / scale, best)


def uniform(number: int, dim: int, seed: int) -> Tensor:
    """Sobol points in the unit cube, ``number x dim``."""
    return draw_sobol_samples(unit(dim), number, 1, seed=seed).squeeze(-2)


def unit(dim: int) -> Tensor:
    """Bounds of the unit cube, ``2 x dim``."""
    return torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, dim)


def fit_theirs(Y: Tensor, pairs: Tensor) -> Model:
    """BoTorch's `PairwiseGP` as its tutorial has it."""
    model = PairwiseGP(Y, pairs, input_transform=Normalize(Y.shape[-1]))
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    return model


def fit_ours(model_class: type[EPPreferenceGP] | type[LaplacePreferenceGP]) -> Fit:
    """One of our engines with the kernel for few answers."""

    def fit(Y: Tensor, pairs: Tensor) -> Model:
        dim = Y.shape[-1]
        model = model_class(
            Y, pairs, covar_module=DuelKernel(dim), input_transform=Normalize(dim)
        )
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
        return model

    return fit


Fit = Callable[[Tensor, Tensor], Model]

MODELS: dict[str, Fit] = {
    "PairwiseGP": fit_theirs,
    "EP": fit_ours(EPPreferenceGP),
    "Laplace": fit_ours(LaplacePreferenceGP),
}


@dataclass
class Exploration:
    """Questions about outcomes, and their answers.

    Attributes:
        task: What is asked about.
        outcome_model: From designs to outcomes.
        generator: Of random questions and of the person's errors.
        Y: Outcomes asked about, `2 m x k`, side by side those of a question.
        pairs: Winners and losers, `m x 2`.
    """

    task: Task
    outcome_model: Model
    generator: Generator
    Y: Tensor
    pairs: Tensor

    def ask(self, outcomes: Tensor) -> None:
        """Puts a question, `2 x k`, to the person."""
        errors = torch.randn(2, generator=self.generator, dtype=torch.double)
        first, second = (self.task.utility(outcomes) + 0.1 * errors).tolist()
        n = len(self.Y)
        answer = [n, n + 1] if first > second else [n + 1, n]
        self.Y = torch.cat([self.Y, outcomes])
        self.pairs = torch.cat([self.pairs, torch.tensor([answer])])

    def hypothetical(self, model: Model | None) -> Tensor:
        """The outcomes that EUBO-zeta asks about, or random ones, `2 x k`."""
        one = FixedSingleSampleModel(model=self.outcome_model)
        dim = self.task.dim
        if model is None:
            X = torch.rand(2, dim, generator=self.generator, dtype=torch.double)
        else:
            X, _ = optimize_acqf(
                AnalyticExpectedUtilityOfBestOption(model, outcome_model=one),
                unit(dim),
                q=2,
                num_restarts=NUM_RESTARTS,
                raw_samples=RAW_SAMPLES,
            )
        with torch.no_grad():
            return one(X)


def explore(task: Task, fit: Fit, seed: int) -> tuple[float, float, float, float]:
    """One start: the shortfall, the share ordered rightly, two times in seconds.

    Args:
        task: What is asked about.
        fit: Fits the preference model.
        seed: Of all draws.
    """
    X = uniform(NUM_DESIGNS, task.dim, seed)
    outcomes = SingleTaskGP(X, task.outcomes(X))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(outcomes.likelihood, outcomes))
    k = outcomes.num_outputs
    generator = Generator().manual_seed(seed)
    empty = torch.empty(0, k, dtype=torch.double), torch.empty(0, 2, dtype=torch.long)
    run, model, fits, asks = (
        Exploration(task, outcomes, generator, *empty),
        None,
        0.0,
        0.0,
    )
    with manual_seed(seed):
        for number in range(NUM_QUESTIONS):
            begin = time.process_time()
            question = run.hypothetical(model if number >= NUM_RANDOM else None)
            asked = time.process_time()
            run.ask(question)
            model = fit(run.Y, run.pairs)
            asks, fits = asks + asked - begin, fits + time.process_time() - asked
        shortfall = task.best - float(
            task.utility(task.outcomes(tried(run, model, X))).max()
        )
    new = task.outcomes(uniform(2 * NUM_PAIRS, task.dim, seed=10_000 + seed))
    with torch.no_grad():
        means = model.posterior(new).mean.view(-1, 2)
    truth = task.utility(new).view(-1, 2)
    right = ((means[:, 0] > means[:, 1]) == (truth[:, 0] > truth[:, 1])).double().mean()
    return shortfall, float(right), fits / NUM_QUESTIONS, asks / NUM_QUESTIONS


def tried(run: Exploration, model: Model, X: Tensor) -> Tensor:
    """The designs that are tried after the questions, `q x d`."""
    acquisition = qLogNoisyExpectedImprovement(
        run.outcome_model,
        X_baseline=X,
        sampler=SobolQMCNormalSampler(torch.Size([NUM_SAMPLES]), seed=0),
        objective=LearnedObjective(model, sample_shape=torch.Size([4]), seed=0),
        prune_baseline=True,
        cache_root=False,
    )
    found, _ = optimize_acqf(
        acquisition,
        unit(run.task.dim),
        q=NUM_TRIED,
        num_restarts=NUM_RESTARTS,
        raw_samples=RAW_SAMPLES,
        sequential=True,
    )
    return found


def main() -> None:
    """Plays all starts and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--problem", choices=PROBLEMS, action="append")
    options = parser.parse_args()
    start("Preferences over outcomes")
    # BoTorch tells of each search that it begins again.
    warnings.simplefilter("ignore")
    rows = []
    for name in options.problem or PROBLEMS:
        task = make_task(name)
        for model, fit in MODELS.items():
            runs = [explore(task, fit, seed) for seed in range(options.starts)]
            figures = torch.tensor(runs).double()
            spread = figures.std(0, correction=0) / max(options.starts - 1, 1) ** 0.5
            told = [
                f"{m:.3f} ± {s:.3f}"
                for m, s in zip(figures.mean(0), spread, strict=True)
            ]
            rows.append(
                [name, model, *told[:2], *(f"{m:.2f}" for m in figures.mean(0)[2:])]
            )
    head = [
        "problem",
        "model",
        "short of the best",
        "ordered rightly",
        "fit, s",
        "question, s",
    ]
    print_table(head, rows)


if __name__ == "__main__":
    main()
