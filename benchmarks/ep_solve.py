"""One EP solve against a peer's, and in units of Cholesky factorisations.

    python benchmarks/ep_solve.py

Prints seconds of both, their largest errors at the training points, and one solve at m
= 1,000 in Cholesky factorisations. The peer is the rank-one EP of optuna-dashboard
(``_orthants_MVN_EP_jit``, ten sweeps, kernel matrix included in neither). Where
optuna-dashboard and optuna are not installed its stored times are printed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from reference_posterior import (
    UtilityMixture,
    root_mean_square,
    true_rows,
    utilities_given_rows,
)
from report import fastest, print_table, start
from synthetic_problems import NOISES, ComparisonProblem, synthetic_comparisons
from torch import Tensor

from botorch_pref import Comparisons, PairwiseProbitLikelihood
from botorch_pref.inference import (
    ExpectationPropagation,
    GaussianSolution,
    UtilityPrior,
)

ACCURACY_SIZE = 200
STORED_PEER_SECONDS = {100: 0.11, 200: 0.36}
PEER_SWEEPS = 10
SPEEDUP_TO_REACH = 10.0
MEAN_TO_REACH, DEVIATION_TO_REACH = 0.003, 0.01
LARGE, CHOLESKYS_TO_REACH = 1000, 40.0
REPEATS = 5

try:
    from optuna_dashboard.preferential.samplers.gp import _orthants_MVN_EP_jit
except ImportError:
    _orthants_MVN_EP_jit = None


def our_solve(problem: ComparisonProblem) -> Callable[[], GaussianSolution]:
    """Our EP from empty sites, without its gradient.

    Args:
        problem: Points, answers, kernel and noise.
    """
    covar = problem.point_covariance()
    mean = covar.new_zeros(len(covar))
    likelihood = PairwiseProbitLikelihood(problem.noise).to(covar)
    factors = likelihood.factors(Comparisons(problem.pairs), len(covar))
    prior = UtilityPrior(mean.unsqueeze(-1), mean, covar)
    engine = ExpectationPropagation()
    return torch.no_grad()(lambda: engine.solve(prior, factors))


def our_moments(problem: ComparisonProblem, result: GaussianSolution) -> UtilityMixture:
    """Our Gaussian of the utilities at the training points.

    Args:
        problem: What was solved.
        result: The solution.
    """
    covar = problem.point_covariance()
    explained = covar @ result.factor.root()
    return UtilityMixture(
        (covar @ result.weights).expand(2, -1), covar - explained @ explained.mT
    )


def peer_solve(problem: ComparisonProblem) -> Callable[[], tuple[Tensor, ...]]:
    """The peer's EP; its noise is that of a difference.

    Args:
        problem: Points, answers, kernel and noise.
    """
    covar = problem.point_covariance()
    noise = torch.tensor(2 * problem.noise, dtype=covar.dtype)
    return torch.no_grad()(
        lambda: _orthants_MVN_EP_jit(covar, problem.pairs, noise, PEER_SWEEPS)
    )


def errors(ours: UtilityMixture, truth: UtilityMixture) -> tuple[float, float]:
    """Largest error of the mean, in prior deviations (1), and of the deviation."""
    mean = (ours.mean - truth.mean).abs().max()
    deviation = (ours.deviation / truth.deviation - 1).abs().max()
    return float(mean), float(deviation)


def time_rows() -> list[list[object]]:
    """Seconds of ours and of the peer's."""
    rows = []
    for num_pairs, stored in STORED_PEER_SECONDS.items():
        for kind, noise in NOISES.items():
            problem = synthetic_comparisons(num_pairs, noise, seed=0)
            solve = our_solve(problem)
            ours, theirs = fastest(solve, REPEATS), stored
            if _orthants_MVN_EP_jit is not None:
                theirs = fastest(peer_solve(problem), 1)
            to_reach = SPEEDUP_TO_REACH if num_pairs == 200 else "-"
            sweeps = solve().iterations
            rows.append(
                [num_pairs, kind, sweeps, ours, theirs, theirs / ours, to_reach]
            )
    return rows


def accuracy_rows() -> list[list[object]]:
    """Largest errors at the training points of ``ACCURACY_SIZE`` comparisons."""
    rows = []
    for kind, noise in NOISES.items():
        problem = synthetic_comparisons(ACCURACY_SIZE, noise, seed=0)
        truth = utilities_given_rows(problem, true_rows(problem), problem.points)
        ours = our_moments(problem, our_solve(problem)())
        compared = {"ours to the truth": (ours, truth, "-", "-")}
        if _orthants_MVN_EP_jit is not None:
            mean, covariance, _ = peer_solve(problem)()
            theirs = UtilityMixture(mean.expand(2, -1), covariance)
            compared["the peer's to the truth"] = (theirs, truth, "-", "-")
            to_reach = (MEAN_TO_REACH, DEVIATION_TO_REACH)
            compared["ours to the peer's"] = (ours, theirs, *to_reach)
        for name, (a, b, mean_to_reach, deviation_to_reach) in compared.items():
            mean_error, deviation_error = errors(a, b)
            typical = root_mean_square(a.mean - b.mean)
            rows.append(
                [
                    kind,
                    name,
                    typical,
                    mean_error,
                    mean_to_reach,
                    deviation_error,
                    deviation_to_reach,
                ]
            )
    return rows


def large_rows() -> list[list[object]]:
    """One solve at ``LARGE`` in units of one Cholesky factorisation."""
    rows = []
    for kind, noise in NOISES.items():
        problem = synthetic_comparisons(LARGE, noise, seed=0)
        gamma = problem.row_covariance()
        unit = fastest(lambda g=gamma: torch.linalg.cholesky(g), 2 * REPEATS)
        solve = our_solve(problem)
        taken = fastest(solve, 2)
        sweeps = solve().iterations
        rows.append(
            [LARGE, kind, sweeps, taken, unit, taken / unit, CHOLESKYS_TO_REACH]
        )
    return rows


def main() -> None:
    """Prints three tables."""
    start("one EP solve at known hyper-parameters")
    if _orthants_MVN_EP_jit is None:
        print("optuna-dashboard is not installed: its stored times are quoted")
    peer = f"optuna-dashboard, {PEER_SWEEPS} sweeps"
    print_table(
        ["m", "noise", "sweeps", "seconds", peer, "times faster", "to reach"],
        time_rows(),
    )
    print(
        f"at all points of m = {ACCURACY_SIZE}; mean in prior deviations, deviation "
        "relative"
    )
    print_table(
        [
            "noise",
            "difference",
            "mean, typical",
            "mean, largest",
            "to reach",
            "deviation, largest",
            "to reach",
        ],
        accuracy_rows(),
    )
    print_table(
        ["m", "noise", "sweeps", "seconds", "one Cholesky", "Choleskys", "to reach"],
        large_rows(),
    )


if __name__ == "__main__":
    main()
