"""Errors of each engine against the truth, over the number of answers and their noise.

    python benchmarks/accuracy_audit.py [--seeds 1] [--out benchmarks/results]

Prints, for Laplace, EP and SkewGP with probit answers and for the variational bound,
Laplace and EP with logistic ones, errors of means (in prior deviations), of deviations
(relative), of probabilities of new and of answered pairs, of the log evidence (nats),
and the largest skewness of an answered difference, at the hyper-parameters that made
the answers. Writes the rows to ``accuracy_audit.csv`` and draws them in
``accuracy_audit.png``.

The truth of probit answers is `reference_posterior` (exact Hamiltonian dynamics, at
least 20,000 effective draws) and minimax tilting; that of logistic answers importance
sampling around EP, whose effective draws are in the table. Logistic answers are the
same answers, under a kernel whose variance has the same ratio to their noise, pi^2 / 6
per item.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pandas as pd
import torch
from evidence_accuracy import tilting
from known_models import known_kernel, known_model
from posterior_accuracy import model_mixture, new_pairs, new_points
from reference_posterior import (
    UtilityMixture,
    root_mean_square,
    true_rows,
    utilities_given_rows,
)
from report import print_table, start
from suite.pages.audit_figure import draw_errors
from synthetic_problems import ComparisonProblem, synthetic_comparisons
from torch import Tensor

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseLogitLikelihood,
    SkewPreferenceGP,
    VariationalPreferenceGP,
)
from botorch_pref.models import PreferenceGP

SIZES = (10, 30, 100)
NOISES = (0.01, 0.1, 1.0)
PROBIT = {
    "Laplace": LaplacePreferenceGP,
    "EP": EPPreferenceGP,
    "SkewGP": SkewPreferenceGP,
}
LOGISTIC = {
    "variational": VariationalPreferenceGP,
    "Laplace": LaplacePreferenceGP,
    "EP": EPPreferenceGP,
}
LOGISTIC_NOISE = math.pi**2 / 6
IMPORTANCE_DRAWS, RESAMPLED, CHUNK = 400_000, 20_000, 20_000


@dataclass(frozen=True)
class Row:
    """Errors of one engine on one problem.

    Attributes:
        m: Number of answers.
        noise: Their variance per item, beside a kernel of variance 1.
        seed: Of the problem.
        answers: Their law, probit or logistic.
        model: The engine.
        mean: Root mean square over new points, in prior deviations.
        deviation: The same of deviations, relative.
        new_pairs: Largest error of a probability over new pairs.
        queried: The same over answered pairs.
        evidence: Of the log evidence, nats.
        skewness: The largest of an answered difference.
        true_skewness: What it is.
        effective: Effective draws of the truth.
    """

    m: int
    noise: float
    seed: int
    answers: str
    model: str
    mean: float
    deviation: float
    new_pairs: float
    queried: float
    evidence: float
    skewness: float
    true_skewness: float
    effective: float


@dataclass(frozen=True)
class Truth:
    """The exact posterior of a problem.

    Attributes:
        new: Utilities at new points.
        queried: Differences that were answered.
        log_evidence: Of the answers.
        effective: Effective draws.
    """

    new: UtilityMixture
    queried: UtilityMixture
    log_evidence: float
    effective: float


def probit_truth(problem: ComparisonProblem) -> Truth:
    """Long Hamiltonian runs, and minimax tilting."""
    rows = true_rows(problem)
    at_data = utilities_given_rows(problem, rows, problem.points)
    return Truth(
        utilities_given_rows(problem, rows, new_points()),
        at_data.differences(problem.pairs),
        tilting(problem.row_covariance(), seed=0)[0],
        rows.effective,
    )


def logistic_model(
    model_class: type[PreferenceGP], problem: ComparisonProblem
) -> PreferenceGP:
    """A model that knows the kernel, in units of logistic noise."""
    kernel = known_kernel(problem)
    kernel.outputscale = LOGISTIC_NOISE / problem.noise
    return model_class(
        problem.points,
        problem.pairs,
        likelihood=PairwiseLogitLikelihood(),
        covar_module=kernel,
    )


@torch.no_grad()
def logistic_truth(problem: ComparisonProblem) -> Truth:
    """Importance sampling of the answered differences around EP's Gaussian."""
    scale = LOGISTIC_NOISE / problem.noise
    winner, loser = problem.pairs.unbind(-1)

    def rows_of(covariance: Tensor) -> Tensor:
        half = covariance[winner] - covariance[loser]
        return half[:, winner] - half[:, loser]

    law = logistic_model(EPPreferenceGP, problem).posterior(problem.points).distribution
    prior = scale * rows_of(problem.point_covariance())
    around = torch.distributions.MultivariateNormal(
        law.mean[winner] - law.mean[loser], rows_of(law.covariance_matrix)
    )
    truth = torch.distributions.MultivariateNormal(
        torch.zeros(len(prior)).to(prior), prior
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = around.sample((IMPORTANCE_DRAWS,))
        weights = torch.cat([_log_weight(z, truth, around) for z in draws.split(CHUNK)])
        shares = weights.softmax(0)
        kept = draws[torch.multinomial(shares, RESAMPLED, replacement=True)]
    new = new_points()
    cross = problem.kernel(new, problem.points)
    cross = scale * (cross[:, winner] - cross[:, loser])
    gain = torch.linalg.solve(prior, cross.mT)
    left = scale * problem.kernel(new, new) - cross @ gain
    # In prior deviations, as the means of probit answers are.
    root = scale**0.5
    return Truth(
        UtilityMixture(kept @ gain / root, left / scale),
        UtilityMixture(kept / root, torch.zeros_like(prior)),
        float(weights.logsumexp(0)) - math.log(IMPORTANCE_DRAWS),
        float(1 / shares.square().sum()),
    )


def _log_weight(
    z: Tensor,
    truth: torch.distributions.Distribution,
    around: torch.distributions.Distribution,
) -> Tensor:
    answered = torch.nn.functional.logsigmoid(z).sum(-1)
    return answered + truth.log_prob(z) - around.log_prob(z)


def won(differences: UtilityMixture) -> Tensor:
    """Probability that each difference is positive; a share where it is drawn."""
    if bool((differences.covariance.diagonal() > 0).all()):
        return differences.probability_positive()
    return (differences.means > 0).to(differences.means).mean(0)


@torch.no_grad()
def audited(
    name: str, model: PreferenceGP, problem: ComparisonProblem, truth: Truth
) -> tuple[float, ...]:
    """Errors of a model, in the order of `Row`."""
    root = float(model.covar_module.outputscale) ** 0.5
    new = _in_units(model_mixture(model, new_points()), root)
    at_data = _in_units(model_mixture(model, problem.points), root)
    queried = at_data.differences(problem.pairs)
    pairs = new_pairs()
    gap = won(new.differences(pairs)) - won(truth.new.differences(pairs))
    evidence = float(model.log_evidence()) - truth.log_evidence
    return (
        root_mean_square(new.mean - truth.new.mean),
        root_mean_square(new.deviation / truth.new.deviation - 1),
        float(gap.abs().max()),
        float((won(queried) - won(truth.queried)).abs().max()),
        evidence,
        _most(queried.skewness()),
        _most(truth.queried.skewness()),
        truth.effective,
    )


def _in_units(mixture: UtilityMixture, root: float) -> UtilityMixture:
    return UtilityMixture(mixture.means / root, mixture.covariance / root**2)


def _most(values: Tensor) -> float:
    return float(values[values.abs().argmax()])


def audit(seeds: int) -> list[Row]:
    """All rows, printed as they come."""
    rows = []
    for m in SIZES:
        for noise in NOISES:
            for seed in range(seeds):
                problem = synthetic_comparisons(m, noise, seed)
                truths = {
                    "probit": probit_truth(problem),
                    "logistic": logistic_truth(problem),
                }
                models = [
                    ("probit", name, _probit_model(name, problem)) for name in PROBIT
                ] + [
                    ("logistic", name, logistic_model(LOGISTIC[name], problem))
                    for name in LOGISTIC
                ]
                rows += [
                    Row(
                        *(m, noise, seed, answers, name),
                        *audited(name, model, problem, truths[answers]),
                    )
                    for answers, name, model in models
                ]
    return rows


def _probit_model(name: str, problem: ComparisonProblem) -> PreferenceGP:
    options = {"exact_evidence": True} if name == "SkewGP" else {}
    return known_model(PROBIT[name], problem, **options)


def write(rows: Sequence[Row], path: Path) -> None:
    """Writes the rows, four digits each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        for row in rows:
            values = asdict(row).values()
            writer.writerow(
                f"{value:.4g}" if isinstance(value, float) else value
                for value in values
            )


def main() -> None:
    """Prints, writes and draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    start("engines against the truth at known hyper-parameters")
    rows = audit(options.seeds)
    print_table(
        [field.name.replace("_", " ") for field in fields(Row)],
        [list(asdict(row).values()) for row in rows],
    )
    write(rows, options.out / "accuracy_audit.csv")
    draw_errors(pd.DataFrame(rows), options.out / "accuracy_audit.png")
    print(f"written: {options.out}/accuracy_audit.csv and .png")


if __name__ == "__main__":
    main()
