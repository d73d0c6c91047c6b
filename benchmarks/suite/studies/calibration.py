"""The noise with which a judge errs as often as a study says, on pairs that are close.

Close are pairs of points among the best hundredth of a problem, as in the protocol of
Astudillo et al. (2023): where an optimiser asks.
"""

from __future__ import annotations

import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.simulation.problems import make_problem

POINTS, BEST = 2**16, 0.01


def close_gaps(problem_name: str) -> Tensor:
    """Absolute differences of utility of all pairs of the best points.

    Args:
        problem_name: Of a problem of `botorch_pref.simulation`.
    """
    problem = make_problem(problem_name)
    engine = SobolEngine(problem.dim, scramble=True, seed=0)
    values = problem.utility(engine.draw(POINTS, dtype=torch.double)).sort().values
    best = values[-int(BEST * POINTS) :].unsqueeze(-1)
    return torch.nn.functional.pdist(best)


def probit_deviation(problem_name: str, errors: float) -> float:
    """Deviation per item of a probit judge who errs in this share of close pairs."""
    gaps = close_gaps(problem_name)

    def missed(deviation: float) -> float:
        return float(torch.special.ndtr(-gaps / (2**0.5 * deviation)).mean()) - errors

    scale = float(gaps.mean())
    return float(brentq(missed, 1e-3 * scale, 1e3 * scale, rtol=1e-6))


def tie_threshold(problem_name: str, ties: float) -> float:
    """Difference up to which this share of close pairs is the same."""
    return float(close_gaps(problem_name).quantile(ties))
