"""Answers about one row as a site each: what is left where nothing merges them."""

import pytest
import torch
from truths.engines import expectation_propagation

from botorch_pref.errors import PrecisionError
from botorch_pref.inference import ep as module
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.linalg import pair_rows

DOUBLE = torch.float64


def solve(count: int, scale: float, correlation: float):
    covar = torch.tensor([[1.0, correlation], [correlation, 1.0]], dtype=DOUBLE)
    rows = pair_rows(torch.tensor([[0, 1]] * count), 2, covar)
    one = torch.ones(count, dtype=DOUBLE)
    factors = BoxFactors(rows, 2 * one, 0 * one, torch.inf * one)
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
    given, calls = module.ep_state, []

    def once_too_precise(*arguments):
        calls.append(None)
        if len(calls) == 3:
            raise PrecisionError("as if rounding had exceeded the noise")
        return given(*arguments)

    monkeypatch.setattr(module, "ep_state", once_too_precise)
    found = solve(3, 4.0, 0.3)
    assert len(calls) > 3
    assert found.converged
    torch.testing.assert_close(found.log_evidence, expected.log_evidence)
