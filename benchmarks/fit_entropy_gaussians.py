"""Approximation of the entropy of a probit answer by a sum of Gaussians.

Fits ``h(Phi(x))`` and prints the constants of
``botorch_pref/likelihoods/probit.py`` and the largest absolute error in
nats. Houlsby et al. (2011, section 3) use one term, ``log 2 exp(-x^2 / (pi log 2))``,
whose largest error is printed beside it.

The exponents are found by nonlinear least squares with the coefficients projected out
(they enter linearly); a few rounds of reweighting by the error itself turn the least
squares fit towards the minimax one.

    python benchmarks/fit_entropy_gaussians.py [--terms 6]
"""

import argparse
import math

import numpy as np
from scipy.optimize import least_squares
from scipy.special import log_ndtr

FIT_RANGE = 9.0  # the entropy is below 1e-17 nats beyond
FIT_POINTS = 3001
ROUNDS = 60


def entropy(x: np.ndarray) -> np.ndarray:
    """``h(Phi(x))`` in nats."""
    log_win, log_loss = log_ndtr(x), log_ndtr(-x)
    return -np.exp(log_win) * log_win - np.exp(log_loss) * log_loss


def project(
    log_exponents: np.ndarray, x: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Best coefficients for given exponents, and the errors on ``x``."""
    basis = np.exp(-np.outer(x**2, np.exp(log_exponents)))
    target = entropy(x)
    coefficients = np.linalg.lstsq(
        basis * weights[:, None], target * weights, rcond=None
    )[0]
    return coefficients, basis @ coefficients - target


def fit(num_terms: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Coefficients, exponents and largest error of the best round."""
    x = np.linspace(0.0, FIT_RANGE, FIT_POINTS)
    weights = np.ones_like(x)
    logs = np.log(np.geomspace(0.45, 1.5, num_terms))
    best = (np.empty(0), np.empty(0), math.inf)
    for _ in range(ROUNDS):
        logs = least_squares(
            lambda candidate, w: project(candidate, x, w)[1] * w,
            logs,
            args=(weights,),
            x_scale=0.1,
            xtol=1e-14,
            ftol=1e-14,
            gtol=1e-14,
            max_nfev=30,
        ).x
        coefficients, errors = project(logs, x, weights)
        largest = float(np.abs(errors).max())
        if largest < best[2]:
            best = coefficients, np.exp(logs), largest
        weights = weights * np.sqrt(0.05 + np.abs(errors) / largest)
        weights /= weights.max()
    return best


def main() -> None:
    """Fits and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--terms", type=int, default=6)
    coefficients, exponents, _ = fit(parser.parse_args().terms)
    print(f"coefficients = {tuple(coefficients.tolist())}")
    print(f"exponents = {tuple(exponents.tolist())}")
    x = np.linspace(0.0, 15.0, 300_001)
    truth = entropy(x)
    error = np.exp(-np.outer(x**2, exponents)) @ coefficients - truth
    one_term = math.log(2) * np.exp(-(x**2) / (math.pi * math.log(2))) - truth
    print(f"largest error: {np.abs(error).max():.2e} nats")
    print(f"largest error of one term: {np.abs(one_term).max():.2e} nats")


if __name__ == "__main__":
    main()
