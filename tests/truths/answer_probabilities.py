"""Probabilities of single answers, with 40 digits, and their tilted moments."""

import itertools
import math

import mpmath as mp
import torch
from numpy.polynomial import legendre
from scipy import optimize

mp.mp.dps = 40
PAIR = torch.tensor([[0, 1]])
CUTPOINTS = [-0.5, 0.2, 1.1]
LAPSE_RATE = 0.07


def number(tensor):
    return float(tensor.detach())


def phi_between(lower, upper):
    """Computes ``Phi(upper) - Phi(lower)`` with digits in both tails."""
    if lower > -upper:
        lower, upper = -upper, -lower
    return (mp.erfc(-upper / mp.sqrt(2)) - mp.erfc(-lower / mp.sqrt(2))) / 2


def probit_win(z, noise, tie_threshold=0):
    return phi_between(-mp.inf, (z - tie_threshold) / mp.sqrt(2 * noise))


def probit_tie(z, noise, tie_threshold):
    scale = mp.sqrt(2 * noise)
    return phi_between((-tie_threshold - z) / scale, (tie_threshold - z) / scale)


def lapsing_win(z, noise, tie_threshold=0):
    rate = mp.mpf(LAPSE_RATE)
    return rate / 2 + (1 - rate) * probit_win(z, noise, tie_threshold)


def lapsing_tie(z, noise, tie_threshold):
    return (1 - mp.mpf(LAPSE_RATE)) * probit_tie(z, noise, tie_threshold)


def affine(z, noise):
    return phi_between(-mp.inf, z / mp.sqrt(noise))


def logistic(z):
    return 1 / (1 + mp.exp(-z))


def rao_kupper_win(z, tie_threshold):
    return logistic(z - tie_threshold)


def rao_kupper_tie(z, tie_threshold):
    # logistic(z + t) - logistic(z - t), with all its digits.
    return mp.sinh(tie_threshold) / (mp.cosh(z) + mp.cosh(tie_threshold))


def ordinal_level(level):
    ends = [-mp.inf, *map(mp.mpf, CUTPOINTS), mp.inf]
    lower, upper = ends[level], ends[level + 1]
    return lambda z, noise: phi_between(
        (lower - z) / mp.sqrt(noise), (upper - z) / mp.sqrt(noise)
    )


def beta_density(y):
    def density(z, precision, noise):
        a = precision * phi_between(-mp.inf, z / mp.sqrt(2 * noise))
        return (
            mp.mpf(y) ** (a - 1)
            * (1 - mp.mpf(y)) ** (precision - a - 1)
            / mp.beta(a, precision - a)
        )

    return density


def tilted_moments(case, mean, variance):
    """Computes log normaliser, mean shift and variance change of the tilted density."""
    scale = math.sqrt(variance)
    mean, variance = mp.mpf(mean), mp.mpf(variance)

    def log_integrand(t):
        value = mp.log(case.probability(mean + scale * mp.mpf(t)))
        return float(value - mp.mpf(t) ** 2 / 2)

    optimum = optimize.minimize_scalar(
        lambda t: -log_integrand(t), bracket=(-1.0, 1.0), tol=1e-10
    )
    mode, peak = float(optimum.x), -float(optimum.fun)
    noise_width = math.sqrt(float(case.parameters.get("noise", 1.0))) / scale
    kink = -float(mean) / scale
    edges = {mode + k for k in (-9, -5, -2.5, -1, 0, 1, 2.5, 5, 9)}
    edges |= {
        kink + k * noise_width
        for k in (-30, -8, -3, -1, 0, 1, 3, 8, 30)
        if abs(kink + k * noise_width - mode) < 9
    }
    nodes, weights = legendre.leggauss(20)
    mass = first = second = 0.0
    for low, high in itertools.pairwise(sorted(edges)):
        half = (high - low) / 2
        for t, weight in zip(low + half * (1 + nodes), half * weights, strict=True):
            height = weight * math.exp(log_integrand(t) - peak)
            mass += height
            first += (t - mode) * height
            second += (t - mode) ** 2 * height
    value = peak + math.log(mass) - 0.5 * math.log(2 * math.pi)
    shift = mode + first / mass
    spread = second / mass - (first / mass) ** 2
    return value, shift / scale, (spread - 1) / float(variance)
