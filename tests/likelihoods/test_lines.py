"""Stops on lines: their noise, their probabilities, and what they teach."""

import itertools
import math
from typing import Any

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Generator, Tensor

from botorch_pref import (
    EPPreferenceGP,
    FeedbackError,
    LaplacePreferenceGP,
    LineChoices,
    LineLogitLikelihood,
    LineProbitLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.feedback import line_positions
from botorch_pref.likelihoods.lines import (
    difference_noise,
    line_shares,
    stop_probabilities,
)

DOUBLE = torch.float64
LENGTH = torch.tensor(0.25, dtype=DOUBLE)
NOISE = torch.tensor(0.3, dtype=DOUBLE)


def noise_paths(positions: Tensor, count: int, generator: Generator) -> Tensor:
    """Draws Markov noise, step by step from the first of sorted positions."""
    draws = torch.randn(count, len(positions), generator=generator, dtype=DOUBLE)
    path = [draws[:, 0]]
    for step, draw in zip(positions.diff(), draws[:, 1:].T, strict=True):
        rho = math.exp(-float(step / LENGTH))
        path.append(rho * path[-1] + math.sqrt(1 - rho**2) * draw)
    return float(NOISE.sqrt()) * torch.stack(path, -1)


def test_differences_share_the_noise_of_the_stop() -> None:
    positions = line_positions(torch.tensor([0.4, 0.99], dtype=DOUBLE))
    present = (positions - positions[:, :1]).abs()[:, 1:] >= 0.02
    independent, shared = difference_noise(positions, present, LENGTH)
    for row in range(2):
        (present_rivals,) = present[row].nonzero(as_tuple=True)
        order = positions[row].argsort()
        paths = torch.empty(400_000, 7, dtype=DOUBLE)
        paths[:, order] = noise_paths(
            positions[row, order], len(paths), Generator().manual_seed(row)
        )
        differences = (paths[:, :1] - paths[:, 1:])[:, present_rivals] / NOISE.sqrt()
        total = (shared[row] + independent[row].diag())[present_rivals][
            :, present_rivals
        ]
        # Four standard errors of a covariance of 400,000 draws of variances below 2.
        torch.testing.assert_close(differences.T.cov(), total, rtol=0, atol=0.02)
        assert float(torch.linalg.eigvalsh(shared[row]).min()) > -1e-12
        assert bool((independent[row] > 0).all())


@pytest.mark.parametrize("number", [3, 7, 17])
def test_stops_are_as_frequent_as_in_simulation(number: int) -> None:
    positions = torch.linspace(0, 1, number, dtype=DOUBLE)
    utilities = -4 * (positions - 0.6).square()
    paths = noise_paths(positions, 100_000, Generator().manual_seed(number))
    stops = (utilities + paths).argmax(-1)
    frequency = torch.bincount(stops, minlength=number) / len(stops)
    got = stop_probabilities(utilities, positions, NOISE, LENGTH)
    # The stated error, and four standard errors of a frequency.
    torch.testing.assert_close(
        got, frequency, rtol=0, atol=0.01 + 0.0064, check_dtype=False
    )
    forward = LineProbitLikelihood(NOISE).double().forward(utilities).probs
    torch.testing.assert_close(forward, got)


def test_people_stop_near_the_best_as_noise_and_slope_imply() -> None:
    """The ratio of curvature and noise says how exactly they stop."""
    positions = torch.linspace(0, 1, 201, dtype=DOUBLE)
    paths = noise_paths(positions, 4_000, Generator().manual_seed(0))

    def error(curvature: float, share: float) -> float:
        utilities = -curvature * (positions - 0.5).square()
        stop = positions[(utilities + share * paths).argmax(-1)]
        assert float(stop.mean()) == pytest.approx(0.5, abs=0.03)
        return float((stop - 0.5).square().mean().sqrt())

    assert error(8, 0.5) < error(4, 0.5) == error(8, 1.0)
    # Noise grows with the root of the distance s, loss with its square: the spread goes
    # with (noise / curvature)^(2/3) where both are small.
    assert error(8, 0.05) / error(8, 0.1) == pytest.approx(0.5 ** (2 / 3), rel=0.1)


@pytest.mark.parametrize("engine", [EPPreferenceGP, SkewPreferenceGP])
def test_a_posterior_is_that_of_people_who_stopped_there(engine: Any) -> None:
    """Engines beside draws of utilities and noise that made somebody stop there."""
    X = torch.tensor([[0.0], [1.0], [0.3], [0.8]], dtype=DOUBLE)
    answers = LineChoices(
        torch.tensor([[0, 1], [2, 3]]), torch.tensor([0.7, 0.1], dtype=DOUBLE)
    )
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 2.0, 0.3
    model = engine(
        X,
        feedback=[answers],
        likelihood=LineProbitLikelihood(NOISE),
        covar_module=kernel,
    ).eval()
    points, (placed,) = model.datapoints, model.feedback
    generator = Generator().manual_seed(0)
    with torch.no_grad():
        covariance = kernel(points).to_dense()
        values, vectors = torch.linalg.eigh(covariance)
        root = vectors * values.clamp_min(0.0).sqrt()
        draws = torch.randn(400_000, len(points), generator=generator, dtype=DOUBLE)
        f = draws @ root.T
        happened = torch.ones(len(f), dtype=torch.bool)
        for stop, places in zip(answers.chosen, placed.points, strict=True):
            positions = line_positions(stop)
            order = positions.argsort()
            paths = torch.empty(len(f), 7, dtype=DOUBLE)
            paths[:, order] = noise_paths(positions[order], len(f), generator)
            perceived = f[:, places.clamp_min(0)] + paths
            perceived[:, places < 0] = -torch.inf
            happened &= perceived.argmax(-1) == 0
        accepted = f[happened]
        posterior = model.posterior(points)
        mean, deviation = accepted.mean(0), accepted.std(0)
        error = 4 * deviation / math.sqrt(len(accepted))
        # EP's error, and that of the draws of SkewGP, is a few hundredths of the
        # prior's deviation.
        assert bool(((posterior.mean.squeeze(-1) - mean).abs() < error + 0.05).all())
        ratio = posterior.variance.squeeze(-1).sqrt() / deviation
        assert bool(((ratio - 1).abs() < 0.05).all())


@pytest.mark.parametrize("stop", [0.15, 0.3, 0.5, 0.8])
def test_the_best_is_where_people_stop(stop: float) -> None:
    """Also near an end: a stop is compared equally far on either side."""
    X = torch.tensor([[0.0], [1.0]], dtype=DOUBLE)
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 15.0, 0.3
    stops = torch.full((12,), stop, dtype=DOUBLE)
    answers = LineChoices(torch.tensor([[0, 1]] * 12), stops)
    model = EPPreferenceGP(X, feedback=[answers], covar_module=kernel).eval()
    line = torch.linspace(0, 1, 401, dtype=DOUBLE).unsqueeze(-1)
    with torch.no_grad():
        best = line[model.posterior(line).mean.argmax()]
    # What a hand does not feel; shares of the way to either end were off by 0.03.
    assert float(best) == pytest.approx(stop, abs=0.02)


def nearest_shares(positions: Tensor, present: Tensor) -> Tensor:
    """Shares of a fine grid that are nearest to each position, by brute force."""
    grid = (torch.arange(100_000, dtype=DOUBLE) + 0.5) / 100_000
    distance = (grid.unsqueeze(-1) - positions).abs()
    distance[:, ~present] = torch.inf
    counts = torch.bincount(distance.argmin(-1), minlength=len(positions))
    return counts / len(grid)


def test_each_position_stands_for_the_part_of_the_line_nearest_to_it() -> None:
    positions = line_positions(torch.tensor([0.4, 0.99, 0.0], dtype=DOUBLE))
    present = (positions - positions[:, :1]).abs() >= 0.02
    present[:, 0] = True
    shares = line_shares(positions, present)
    for row in range(3):
        expected = nearest_shares(positions[row], present[row])
        # Two cells of the grid.
        torch.testing.assert_close(
            shares[row], expected, rtol=0, atol=2e-5, check_dtype=False
        )


def test_the_continuous_logit_is_a_density_of_stops() -> None:
    """Positions without an end to their number have its integral for their sum."""
    positions = torch.linspace(0, 1, 2_001, dtype=DOUBLE)
    utilities = 5 * (7 * positions).sin()
    log_integral = torch.trapezoid(utilities.exp(), positions).log()
    likelihood = LineLogitLikelihood().double()
    for stop in (0, 300, 2_000):
        order = [stop, *(place for place in range(2_001) if place != stop)]
        got = likelihood.log_stop_probability(utilities[order], positions[order])
        width = 0.0005 if 0 < stop < 2_000 else 0.00025
        expected = utilities[stop] - log_integral + math.log(width)
        # The trapezoid rule is what the shares make.
        assert float(got) == pytest.approx(float(expected), abs=1e-6)
        categorical = likelihood.forward(utilities)
        assert float(categorical.log_prob(torch.tensor(stop))) == pytest.approx(
            float(got), abs=1e-9
        )


def test_laplace_of_the_continuous_logit_is_near_importance_sampling() -> None:
    X = torch.tensor([[0.0], [1.0], [0.3], [0.8]], dtype=DOUBLE)
    answers = LineChoices(
        torch.tensor([[0, 1], [2, 3]]), torch.tensor([0.7, 0.1], dtype=DOUBLE)
    )
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 2.0, 0.3
    model = LaplacePreferenceGP(
        X, feedback=[answers], likelihood=LineLogitLikelihood(), covar_module=kernel
    ).eval()
    points, (placed,) = model.datapoints, model.feedback
    with torch.no_grad():
        values, vectors = torch.linalg.eigh(kernel(points).to_dense())
        draws = torch.randn(
            400_000, len(points), generator=Generator().manual_seed(0), dtype=DOUBLE
        )
        f = draws @ (vectors * values.clamp_min(0.0).sqrt()).T
        log_weights = torch.zeros(len(f), dtype=DOUBLE)
        for stop, places in zip(answers.chosen, placed.points, strict=True):
            shares = nearest_shares(line_positions(stop), places >= 0)
            logits = f[:, places.clamp_min(0)] + shares.log()
            log_weights += logits.log_softmax(-1)[:, 0]
        weights = log_weights.softmax(0)
        mean = weights @ f
        deviation = (weights @ (f - mean).square()).sqrt()
        posterior = model.posterior(points)
        # Draws are exact to a hundredth, and Laplace to a tenth of a deviation.
        error = (posterior.mean.squeeze(-1) - mean) / deviation
        assert float(error.abs().max()) < 0.1
        ratio = posterior.variance.squeeze(-1).sqrt() / deviation
        assert bool(((ratio - 1).abs() < 0.1).all())
        evidence = float(log_weights.logsumexp(0)) - math.log(len(f))
        assert float(model.log_evidence()) == pytest.approx(evidence, abs=0.1)


def test_a_length_that_is_not_positive_is_refused() -> None:
    with pytest.raises(FeedbackError, match="correlation_length is 0"):
        LineProbitLikelihood(correlation_length=0.0)


def test_stops_on_several_lines_are_those_on_each() -> None:
    generator = torch.Generator().manual_seed(4)
    utilities = torch.randn(3, 2, 5, generator=generator, dtype=torch.float64)
    positions = torch.tensor([0.0, 0.2, 0.5, 0.6, 1.0], dtype=torch.float64)
    noise = torch.tensor([[0.3], [1.0], [4.0]], dtype=torch.float64)
    together = stop_probabilities(utilities, positions, noise, LENGTH)
    for i, j in itertools.product(range(3), range(2)):
        alone = stop_probabilities(utilities[i, j], positions, noise[i, 0], LENGTH)
        torch.testing.assert_close(together[i, j], alone)
