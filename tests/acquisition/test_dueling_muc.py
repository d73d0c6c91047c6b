"""Variance of the win probability, against quadrature and sampling."""

import pytest
import torch
from torch import Tensor

from botorch_pref.acquisition import DuelingMUC
from botorch_pref.likelihoods import DuelLink, LogitLink, ProbitLink

X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
ONE = torch.tensor([[1.0, -2.0]], dtype=torch.double)
SEVERAL = torch.tensor([[1.0, -2.0], [4.0, 1.0], [-3.0, 0.5]], dtype=torch.double)


def points(*shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, 2, generator=generator, dtype=torch.double)


@pytest.mark.parametrize("link", [ProbitLink(0.5), LogitLink()])
def test_the_judges_noise_is_not_counted(link: DuelLink, linear_utility) -> None:
    """A certain duel of near equals is a coin toss that nothing can be learned from."""
    certain = DuelingMUC(linear_utility(ONE, 0.0), X_REF, link=link)
    assert float(certain(points(6, 1)).abs().max()) == 0.0
    open_question = DuelingMUC(linear_utility(0 * ONE, 1e8), X_REF, link=link)
    torch.testing.assert_close(
        open_question(points(6, 1)), torch.full((6,), 0.25).double(), rtol=1e-6, atol=0
    )


def test_the_least_sure_duel_is_not_with_a_copy(linear_utility) -> None:
    value = DuelingMUC(linear_utility(SEVERAL), X_REF, link=ProbitLink(0.5))
    assert float(value(X_REF)) == pytest.approx(0.0, abs=1e-15)
    assert bool((value(points(20, 1)) > 1e-3).all())
    assert bool((value(points(20, 1)) < 0.25).all())
