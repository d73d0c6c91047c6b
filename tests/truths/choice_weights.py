"""Posteriors of weights given choices, in NumPy: on a grid, and by a long sampler."""

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp


class WeightTruth(NamedTuple):
    """Mean, covariance and log evidence; the sampler knows no evidence."""

    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: float


def log_density(weights, items, eta):
    """Sums log likelihood and log prior; ``items`` are ``L x k x d``, chosen first.

    Items of NaN are absent.
    """
    d = weights.shape[-1]
    utilities = np.einsum("...d,lkd->...lk", weights, items)
    utilities = np.where(np.isnan(utilities), -np.inf, utilities)
    prior = 0.5 * d * np.log(eta / (2 * np.pi)) - 0.5 * eta * (weights**2).sum(-1)
    return prior + (utilities[..., 0] - logsumexp(utilities, axis=-1)).sum(-1)


def on_a_grid(items, eta, half_width, steps=161):
    """Computes the posterior of two weights, by the trapezoidal rule."""
    line = np.linspace(-half_width, half_width, steps)
    weights = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    log_p = log_density(weights, items, eta)
    cell = 2 * np.log(line[1] - line[0])
    evidence = logsumexp(log_p) + cell
    p = np.exp(log_p + cell - evidence)
    mean = p @ weights
    away = weights - mean
    return WeightTruth(mean, (away * p[:, None]).T @ away, float(evidence))


def by_a_long_run(items, eta, centre, covariance, draws=500, chains=8, seed=0):
    """Samples the posterior by Hamiltonian Monte Carlo, whitened by a guess."""
    random, d = np.random.default_rng(seed), len(centre)
    root = np.linalg.cholesky(covariance)

    def slope(white):
        weights = centre + white @ root.T
        utilities = np.einsum("cd,lkd->clk", weights, items)
        p = np.exp(utilities - logsumexp(utilities, axis=-1, keepdims=True))
        pull = items[:, 0].sum(0) - np.einsum("clk,lkd->cd", p, items)
        return (pull - eta * weights) @ root

    def height(white):
        return log_density(centre + white @ root.T, items, eta)

    white, states = random.normal(size=(chains, d)), []
    for step in range(draws + draws // 5):
        size = (0.6 + 0.5 * random.random()) / d**0.25
        place, push = white, random.normal(size=(chains, d))
        before = height(place) - 0.5 * (push**2).sum(-1)
        pull = slope(place)
        for _ in range(max(1, int(1.5 / size))):
            half = push + 0.5 * size * pull
            place = place + size * half
            pull = slope(place)
            push = half + 0.5 * size * pull
        gain = height(place) - 0.5 * (push**2).sum(-1) - before
        is_accepted = np.log(random.random(chains)) < gain
        white = np.where(is_accepted[:, None], place, white)
        if step >= draws // 5:
            states.append(centre + white @ root.T)
    weights = np.concatenate(states)
    return WeightTruth(weights.mean(0), np.cov(weights.T), float("nan"))
