"""Log probabilities, tilted moments, derivatives and chances of single answers."""

import itertools
import math

import mpmath as mp
import pytest
import torch
from likelihoods.contract.parametrised import (
    CAVITIES,
    each_case,
    each_dtype,
    each_entry,
)
from registry import CASES, TIE, WIN
from truths.answer_probabilities import number, tilted_moments


@each_entry
def test_entries_name_what_the_likelihood_takes(case) -> None:
    likelihood = case.build()
    assert likelihood.explains[type(case.feedback)] is case.factors, (
        f"{type(likelihood).__name__}.explains names other factors than the registry"
    )
    assert type(likelihood.factors(case.feedback, 3)) is case.factors, (
        f"{type(likelihood).__name__}.factors makes other factors than it names"
    )


@each_entry
def test_rows_are_the_latent_that_the_answer_sees(case) -> None:
    utilities = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    row = torch.tensor(case.row, dtype=torch.float64)
    rows = case.build().factors(case.feedback, 3).rows
    assert rows.apply(utilities).tolist() == [float(row @ utilities)], (
        f"the row of utilities 1, 10, 100 is not {case.row}"
    )


def log_derivatives(case, z, **changes):
    """Computes log probability and three derivatives, by mpmath's differences."""
    return list(mp.diffs(lambda t: mp.log(case.probability(t, **changes)), z, 3))


@each_case
def test_log_probability_and_derivatives(case) -> None:
    for z in (-800.0, -30.0, -2.5, -0.1, 0.0, 0.4, 3.0, 30.0, 800.0):
        expected = log_derivatives(case, mp.mpf(z))
        for dtype in (torch.float64, torch.float32):
            check_log_probability(case, z, dtype, expected)


def check_log_probability(case, z, dtype, expected) -> None:
    factors = case.build(dtype).factors(case.feedback, 3)
    place = torch.tensor([z], dtype=dtype)
    third = factors.curvature_gradient(place, torch.ones_like(place))
    got = factors.log_prob(place)
    eps = torch.finfo(dtype).eps
    # In units of the noise: bounds there are seen with a relative rounding of eps, and
    # far from them the value is quadratic.
    noise = float(case.parameters.get("noise", 1.0))
    scale = math.sqrt(min(noise, 1.0))
    reach = (abs(z) + 1) / scale
    for order, (value, want) in enumerate(zip((*got, third), expected, strict=True)):
        got_value = number(value)
        size = 1 + (reach ** max(2 - order, 0) if order != 3 else min(reach, 1e3))
        relative = 40 * eps if dtype == torch.float64 else 100 * eps
        if order >= 2:
            # The digits that the hazard's excess keeps, see its documentation.
            relative *= 1 + min(reach, 43.0 if dtype == torch.float64 else 8.0) ** 2
        tolerance = relative * size / scale**order
        # The width of an interval is what is left of ends around z.
        tolerance += 8 * eps * abs(z) / case.width if order == 0 else 0
        name = ("value", "slope", "curvature", "curvature's slope")[order]
        assert abs(mp.mpf(got_value) - want) <= tolerance, (
            f"the {name} of the log probability at z = {z} in {dtype} is {got_value}, "
            f"the truth {mp.nstr(want, 15)}, tolerance {float(tolerance):.1e}"
        )
    assert number(got.second) <= 0, f"not log-concave at z = {z} in {dtype}"


@each_entry
def test_derivatives_are_those_of_autograd(case) -> None:
    z = torch.linspace(-6, 6, 25, dtype=torch.float64).unsqueeze(-1).requires_grad_()
    factors = case.build().factors(case.feedback, 3)
    third = factors.curvature_gradient(z, torch.ones_like(z))
    derivatives = (*factors.log_prob(z), third)
    scale = float(case.parameters.get("noise", 1.0)) ** 0.5
    for order in range(3):
        (got,) = torch.autograd.grad(derivatives[order].sum(), z, retain_graph=True)
        torch.testing.assert_close(
            got,
            derivatives[order + 1].detach(),
            rtol=1e-7,
            atol=1e-9 / scale ** (order + 1),
        )


@each_case
def test_log_partition_against_quadrature(case) -> None:
    likelihood = case.build()
    factors = likelihood.factors(case.feedback, 3)
    for cavity in CAVITIES:
        mean, variance = torch.tensor(cavity, dtype=torch.float64)
        got = factors.log_partition(mean.reshape(1), variance.reshape(1))
        expected = tilted_moments(case, *cavity)
        # Twenty Gauss points a piece leave about 1e-9 of the moments.
        tolerances = 1e-8 / variance ** torch.tensor([0.0, 0.5, 1.0])
        cavity_words = f"of the cavity with mean {mean} and variance {variance}"
        names = ("value", "slope", "curvature")
        for name, value, want, near in zip(
            names, got, expected, tolerances, strict=True
        ):
            close = pytest.approx(want, rel=1e-7, abs=float(near))
            assert number(value) == close, (
                f"the log partition's {name} {cavity_words} is not that of quadrature"
            )
        if case.feedback in (WIN, TIE):
            ties = case.feedback is TIE
            probability = (
                likelihood.tie_probability if ties else likelihood.win_probability
            )
            chance = pytest.approx(math.exp(expected[0]), rel=1e-8)
            assert number(probability(mean, variance)) == chance, (
                f"the probability {cavity_words} is not its partition"
            )


@each_dtype
@each_case
def test_partition_at_extremes_shrinks_the_cavity(case, dtype) -> None:
    factors = case.build(dtype).factors(case.feedback, 3)
    for mean, variance in itertools.product((-800.0, 800.0), (1e-6, 1.0, 1e4)):
        cavity = torch.tensor([[mean], [variance]], dtype=dtype)
        partition = factors.log_partition(*cavity)
        cavity_words = f"of the cavity with mean {mean:g} and variance {variance:g}"
        assert all(part.isfinite().all() for part in partition), (
            f"the log partition {cavity_words} or a derivative is not finite"
        )
        # Log-concave: -1 / s < second <= 0, so sites have non-negative precision.
        assert -1 / variance < number(partition.second) <= 0, (
            f"the answer widens, or makes certain, the utility {cavity_words}"
        )
        assert number(partition.value) <= 0, (
            f"the probability of the answer {cavity_words} is above 1"
        )


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("variance", [0.0, 0.7])
def test_levels_have_the_probabilities_of_their_intervals(level, variance) -> None:
    case = CASES[f"ordinal {level}"]
    z = torch.tensor([-20.0, -1.0, 0.3, 2.0, 20.0], dtype=torch.float64)
    got = case.build().level_probabilities(z, torch.full_like(z, variance))[..., level]
    want = [float(case.truth(mp.mpf(float(x)), noise=0.3 + variance)) for x in z]
    assert got.tolist() == pytest.approx(want, rel=1e-9)
    if not variance:
        torch.testing.assert_close(case.build()(z).probs[..., level], got)
