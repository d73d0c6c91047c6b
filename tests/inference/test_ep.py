"""Sweeps of EP: how they are accelerated, and sites that nothing merges."""

import pytest
import torch
from draws import normal
from truths.engines import expectation_propagation

from botorch_pref import Comparisons, EPPreferenceGP
from botorch_pref.errors import FeedbackError, PrecisionError
from botorch_pref.inference import ExpectationPropagation
from botorch_pref.inference import ep as module
from botorch_pref.inference.sweeps import AndersonMemory
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg import pair_rows

DOUBLE = torch.float64


def linear_map(seed, *batch, size=3, contraction=0.9):
    generator = torch.Generator().manual_seed(seed)
    shape = (*batch, size, size)
    basis, _ = torch.linalg.qr(
        torch.randn(shape, generator=generator, dtype=torch.float64)
    )
    spectrum = torch.linspace(-contraction, contraction, size, dtype=torch.float64)
    matrix = basis @ torch.diag(spectrum) @ basis.mT
    offset = torch.randn(*batch, size, generator=generator, dtype=torch.float64)
    identity = torch.eye(size, dtype=torch.float64)
    return matrix, offset, torch.linalg.solve(identity - matrix, offset)


def iterate(matrix, offset, count, scale):
    memory = AndersonMemory()
    x = torch.zeros_like(offset)
    for _ in range(count):
        image = (matrix @ x.unsqueeze(-1)).squeeze(-1) + offset
        x = memory.extrapolate(x, image - x, scale)
    return x


def test_three_dimensions_are_solved_in_five_steps() -> None:
    """Equivalent to GMRES on linear maps (Walker and Ni 2011): exact after k + 1."""
    matrix, offset, solution = linear_map(0)
    x = iterate(matrix, offset, 5, torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(x, solution, rtol=1e-8, atol=1e-8)
    # The plain iteration still has 0.9^5 of its error.
    plain = torch.zeros(3, dtype=torch.float64)
    for _ in range(5):
        plain = matrix @ plain + offset
    assert float((plain - solution).norm()) > 0.1 * float(solution.norm())


def test_it_converges_faster_where_the_memory_is_too_short() -> None:
    matrix, offset, solution = linear_map(1, size=12, contraction=0.95)
    scale = torch.linspace(0.1, 10, 12, dtype=torch.float64)
    x = iterate(matrix, offset, 40, scale)
    # Plain iteration leaves 0.95^40 = 0.13.
    assert float((x - solution).norm()) < 1e-3 * float(solution.norm())


def test_batches_are_independent() -> None:
    matrix, offset, _ = linear_map(2, 3)
    scale = torch.ones_like(offset)
    together = iterate(matrix, offset, 4, scale)
    for i in range(3):
        alone = iterate(matrix[i], offset[i], 4, scale[i])
        torch.testing.assert_close(together[i], alone, rtol=1e-8, atol=1e-8)


def test_a_solved_element_stays_where_it_is() -> None:
    """No residual and no differences: the pseudo-inverse of zero is zero."""
    memory = AndersonMemory()
    x, none = torch.tensor([3.0, 4.0]), torch.zeros(2)
    for _ in range(6):
        assert torch.equal(memory.extrapolate(x, none, torch.ones(2)), x)


def test_a_memory_of_two_iterates_is_the_secant_method() -> None:
    """Of whatever came before the last two iterates nothing is left."""
    matrix, offset, _ = linear_map(3)
    memory, x, before = AndersonMemory(2), torch.zeros_like(offset), None
    for _ in range(4):
        residual = matrix @ x + offset - x
        expected = x + residual
        if before is not None:
            change = residual - before[1]
            share = (change @ residual) / change.square().sum()
            expected = expected - share * (x - before[0] + change)
        proposal = memory.extrapolate(x, residual, torch.ones_like(x))
        torch.testing.assert_close(proposal, expected, rtol=1e-9, atol=1e-9)
        before, x = (x, residual), proposal


@pytest.mark.parametrize("size", [1, 0, 2.0, True])
def test_a_memory_without_differences_is_refused(size: object) -> None:
    """Of one iterate there are none; all sweeps were kept."""
    with pytest.raises(FeedbackError, match=f"size is {size}; give an integer of at l"):
        AndersonMemory(size)  # type: ignore[arg-type]
    with pytest.raises(FeedbackError, match=f"memory is {size}; give an integer of at"):
        ExpectationPropagation(memory=size)  # type: ignore[arg-type]


def test_dependent_differences_are_bounded() -> None:
    """Where all sites but one are equal, memory of four spans two directions.

    Without a scale, and with the failure of the factor ignored, sites reached 1e15.
    """
    basis = normal(40, 2, seed=3)
    scale = torch.ones(40, dtype=torch.float64)
    matrix = torch.tensor([[0.9, 0.1], [0.0, -0.7]], dtype=torch.float64)
    for size in (1.0, 1e-6, 1e6):
        memory, x = AndersonMemory(), torch.zeros(40, dtype=torch.float64)
        target = size * basis @ torch.ones(2, dtype=torch.float64)
        for step in range(30):
            inside = torch.linalg.lstsq(basis, (x - target).unsqueeze(-1)).solution
            image = target + (basis @ matrix @ inside).squeeze(-1)
            x = memory.extrapolate(x, image - x, scale * 10.0 ** -(step % 3))
            assert float(x.abs().max()) < 100 * float(target.abs().max())
        torch.testing.assert_close(x, target, rtol=0, atol=1e-8 * size)


def solve(count: int, scale: float, correlation: float):
    covar = torch.tensor([[1.0, correlation], [correlation, 1.0]], dtype=DOUBLE)
    rows = pair_rows(torch.tensor([[0, 1]] * count), 2, covar)
    unit = torch.ones(count, dtype=DOUBLE)
    factors = BoxFactors(rows, 2 * unit, 0 * unit, torch.inf * unit)
    return expectation_propagation(scale * covar, torch.zeros(2, dtype=DOUBLE), factors)


@pytest.mark.parametrize(
    ("count", "scale", "correlation"),
    [(1_000, 1e3, 0.2), (700, 1e4, 0.5), (1_000, 100.0, 0.5)],
)
def test_a_thousand_equal_sites_converge(count, scale, correlation) -> None:
    """Anderson's differences span two directions; some processors ended at 1e15."""
    result = solve(count, scale, correlation)
    assert result.converged
    tau = result.sites.precision
    # All of them are the same site.
    assert float((tau - tau[0]).abs().max()) < 1e-5 * float(tau[0])


def test_a_step_without_a_posterior_is_halved(monkeypatch) -> None:
    expected = solve(3, 4.0, 0.3)
    evaluate, calls = module.EPProblem.state, []

    def once_too_precise(*arguments):
        calls.append(None)
        if len(calls) == 3:
            raise PrecisionError("as if rounding had exceeded the noise")
        return evaluate(*arguments)

    monkeypatch.setattr(module.EPProblem, "state", once_too_precise)
    solution = solve(3, 4.0, 0.3)
    assert len(calls) > 3
    assert solution.converged
    torch.testing.assert_close(solution.log_evidence, expected.log_evidence)


def test_rounding_is_no_variance_that_nothing_matches(monkeypatch) -> None:
    """Products of log-concave answers match all moments, and no system is solved."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.combinations(torch.arange(6))
    counts = torch.randint(1, 400, (2, len(pairs)), generator=generator)
    answers = Comparisons(pairs, pairs, pair_counts=counts[0], tie_counts=counts[1])
    model = EPPreferenceGP(torch.eye(6, dtype=DOUBLE), answers)
    threshold = model.likelihood.raw_tie_threshold
    assert threshold.requires_grad

    def refused(*_, **__):
        raise AssertionError("all moments are matched, but for rounding")

    monkeypatch.setattr(module, "_unmatched_form", refused)
    (slope,) = torch.autograd.grad(model.log_evidence(), threshold)
    ends, step = [], 1e-5
    with torch.no_grad():
        for moved in (step, -2 * step):
            threshold += moved
            ends.append(float(model.log_evidence()))
    assert float(slope) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)
