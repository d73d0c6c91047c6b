"""Factors of a density known by its values, against closed forms and dense sums."""

import itertools
import math
import pickle
import warnings

import numpy
import pytest
import torch
from cases import in_turn
from scipy.stats import norm
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.special import log_ndtr

from botorch_pref.errors import InferenceWarning
from botorch_pref.likelihoods import DensityFactors
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.likelihoods.logit import LogitFactors
from botorch_pref.linalg import pair_rows, point_rows
from botorch_pref.linalg.sparse_design import row_groups

DOUBLE = torch.float64
CAVITIES = [
    (mean * scale, scale)
    for scale in (1e-3, 0.1, 1.0, 10.0)
    for mean in (-30.0, -5.0, -0.7, 0.0, 2.0, 20.0)
]
MEAN, DEVIATION = (torch.tensor(v, dtype=DOUBLE) for v in zip(*CAVITIES, strict=True))
ROWS = point_rows(torch.zeros(len(MEAN), dtype=torch.long), 1, MEAN)


def boxes(noise: float) -> BoxFactors:
    variance, zeros = torch.full_like(MEAN, noise), torch.zeros_like(MEAN)
    return BoxFactors(ROWS, variance, zeros, torch.full_like(MEAN, torch.inf))


def normal(y: float, deviation: float):
    return lambda z: -0.5 * ((y - z) / deviation) ** 2 - math.log(deviation)


CLOSED = {
    "logit": (logsigmoid, LogitFactors(ROWS)),
    "probit": (log_ndtr, boxes(1.0)),
    "little noise": (lambda z: log_ndtr(z / 1e-3), boxes(1e-6)),
    "much noise": (lambda z: log_ndtr(z / 30), boxes(900.0)),
}


@in_turn("name", CLOSED)
def test_partitions_are_those_in_closed_form(name: str) -> None:
    density, closed = CLOSED[name]
    got = DensityFactors(ROWS, density).log_partition(MEAN, DEVIATION.square())
    want = closed.log_partition(MEAN, DEVIATION.square())
    for order, (value, expected) in enumerate(zip(got, want, strict=True)):
        # In deviations of the cavity, which sites and their precisions are.
        unit = DEVIATION**order
        torch.testing.assert_close(value * unit, expected * unit, rtol=1e-8, atol=1e-10)


@in_turn(("y", "deviation"), [(3.7, 1e-3), (0.0, 1.0), (-20.0, 0.3), (50.0, 40.0)])
def test_gaussian_densities_are_conjugate(y: float, deviation: float) -> None:
    factors = DensityFactors(ROWS, normal(y, deviation))
    mean = torch.full_like(MEAN, y) + MEAN
    got = factors.log_partition(mean, DEVIATION.square())
    total = DEVIATION.square() + deviation**2
    want = (-0.5 * (MEAN.square() / total + total.log()), -MEAN / total, -1 / total)
    for order, (value, expected) in enumerate(zip(got, want, strict=True)):
        unit = total.sqrt() ** order
        torch.testing.assert_close(value * unit, expected * unit, rtol=1e-9, atol=1e-9)


def student(z: Tensor) -> Tensor:
    """Computes the density of a rating of 2 with noise of Student's t, 3 degrees."""
    return -2 * torch.log1p(((z - 2) / 0.4).square() / 3)


@in_turn(("mean", "deviation"), [(0.0, 1.0), (8.0, 3.0), (2.1, 0.02)])
def test_heavy_tails_with_a_lapse(mean: float, deviation: float) -> None:
    """Not log-concave: bumps at the answer and at the cavity."""

    def density(z: Tensor) -> Tensor:
        return torch.logaddexp(student(z), torch.full_like(z, -6.0))

    cuts = {mean + deviation * k for k in (-12, -9, -6, -4, -2, 0, 2, 4, 6, 9, 12)}
    low, high = min(cuts), max(cuts)
    near = {2 + s * 0.4 * 2.0**k for s in (-1, 1) for k in range(-3, 8)} | {2.0}
    cuts |= {cut for cut in near if low < cut < high}
    nodes, weights = numpy.polynomial.legendre.leggauss(40)
    moments = numpy.zeros(3)
    for a, b in itertools.pairwise(sorted(cuts)):
        z = 0.5 * (a + b) + 0.5 * (b - a) * nodes
        values = (1 + ((z - 2) / 0.4) ** 2 / 3) ** -2 + math.exp(-6)
        values = 0.5 * (b - a) * weights * values * norm.pdf(z, mean, deviation)
        t = (z - mean) / deviation
        moments += [values.sum(), values @ t, values @ t**2]
    shift = moments[1] / moments[0]
    spread = moments[2] / moments[0] - shift**2
    want = math.log(moments[0]), shift / deviation, (spread - 1) / deviation**2
    rows = point_rows(torch.tensor([0]), 1, MEAN)
    cavity = torch.tensor([[mean], [deviation**2]], dtype=DOUBLE)
    got = DensityFactors(rows, density).log_partition(*cavity)
    for value, expected in zip(got, want, strict=True):
        assert float(value) == pytest.approx(float(expected), rel=1e-7, abs=1e-9)


def test_derivatives_are_those_of_the_density() -> None:
    z = torch.linspace(-6, 6, len(MEAN), dtype=DOUBLE)
    ours, closed = DensityFactors(ROWS, logsigmoid), LogitFactors(ROWS)
    for value, expected in zip(ours.log_prob(z), closed.log_prob(z), strict=True):
        torch.testing.assert_close(value, expected)
        assert not value.requires_grad
    weights = torch.linspace(-1, 2, len(MEAN), dtype=DOUBLE)
    torch.testing.assert_close(
        ours.curvature_gradient(z, weights), closed.curvature_gradient(z, weights)
    )


def test_gradients_match_finite_differences_also_in_parameters() -> None:
    rows = point_rows(torch.zeros(4, dtype=torch.long), 1, MEAN)
    mean = torch.tensor([-2.0, 0.0, 0.4, 3.0], dtype=DOUBLE)
    variance = torch.tensor([0.1, 4.0, 1.0, 0.5], dtype=DOUBLE)
    scale = torch.tensor(0.6, dtype=DOUBLE)

    def values(m: Tensor, v: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        factors = DensityFactors(rows, lambda z: student(z / s) - s.log())
        third = factors.curvature_gradient(m, v)
        return (*factors.log_partition(m, v), *factors.log_prob(m), third)

    arguments = tuple(t.requires_grad_() for t in (mean, variance, scale))
    assert torch.autograd.gradcheck(values, arguments)


def test_parameters_may_come_in_batches() -> None:
    scale = torch.tensor([[0.1], [3.0]], dtype=DOUBLE)
    together = DensityFactors(ROWS, lambda z: logsigmoid(z / scale))
    parts = [
        DensityFactors(ROWS, lambda z, s=s: logsigmoid(z / s)).log_partition(
            MEAN, DEVIATION.square()
        )
        for s in scale[:, 0].tolist()
    ]
    for value, alone in zip(
        together.log_partition(MEAN, DEVIATION.square()),
        zip(*parts, strict=True),
        strict=True,
    ):
        torch.testing.assert_close(value, torch.stack(alone), rtol=1e-9, atol=1e-9)


def test_what_the_quadrature_does_not_resolve_is_said() -> None:
    """Several steps, none of them where the density is halfway."""
    rows = point_rows(torch.tensor([0]), 1, MEAN)
    steps = torch.tensor([0.31, 0.77, 1.3], dtype=DOUBLE)

    def density(z: Tensor) -> Tensor:
        return -3.0 + 0.5 * (z.unsqueeze(-1) > steps).sum(-1)

    zero = torch.zeros(1, dtype=DOUBLE)
    with pytest.warns(InferenceWarning, match="known within"):
        DensityFactors(rows, density).log_partition(zero, zero + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DensityFactors(rows, logsigmoid).log_partition(zero, zero + 1)


def test_merged_densities_can_be_stored() -> None:
    """A model that was asked for its posterior is pickled with its factors."""
    rows = pair_rows(torch.tensor([[0, 1], [1, 0]]), 2, torch.zeros(1, dtype=DOUBLE))
    one_by_one = DensityFactors(rows, logsigmoid)
    counts = torch.tensor([3.0, 2.0], dtype=DOUBLE)
    merged = one_by_one.merged(counts, row_groups)
    again = pickle.loads(pickle.dumps(merged))
    z = torch.tensor([0.7], dtype=DOUBLE)
    sides = torch.stack([z, -z], -1)
    truth = (counts * logsigmoid(sides)).sum(-1)
    torch.testing.assert_close(again.log_prob(z).value, truth)
