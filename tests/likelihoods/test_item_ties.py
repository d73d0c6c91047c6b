"""Tie thresholds of items: their factors, and evidence that moves with them."""

import pytest
import torch

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    RaoKupperLikelihood,
)

# The first and the last point are one item as two raters see it.
POINTS = torch.tensor([[0.2], [0.3], [0.9], [0.4]], dtype=torch.float64)
ITEMS = torch.tensor([0, 1, 2, 0])
SHIFTS = [0.3, -0.5, 0.1]
PAIRS = torch.tensor([[0, 2], [2, 1], [3, 2], [2, 0]])
TIES = torch.tensor([[2, 0], [1, 2], [1, 3]])
ANSWERS = Comparisons(
    PAIRS,
    TIES,
    pair_counts=torch.tensor([5, 2, 1, 3]),
    tie_counts=torch.tensor([4, 1, 7]),
)


def made(model_class: type = LaplacePreferenceGP):
    likelihood = RaoKupperLikelihood(0.4, items=ITEMS)
    model = model_class(POINTS, ANSWERS, likelihood=likelihood)
    likelihood.tie_shifts.data = torch.tensor(SHIFTS, dtype=torch.float64)
    return model


def test_each_pair_has_the_threshold_of_its_two_items() -> None:
    factors = made().factors()
    f = torch.tensor([0.7, 0.2, -1.1, 0.3], dtype=torch.float64)
    got = factors.log_prob(factors.rows.apply(f)).value.sum()
    want = torch.zeros(())
    for told, counts, is_tie in (
        (PAIRS, ANSWERS.pair_counts, False),
        (TIES, ANSWERS.tie_counts, True),
    ):
        for (a, b), count in zip(told.tolist(), counts.tolist(), strict=True):
            shift = SHIFTS[int(ITEMS[a])] + SHIFTS[int(ITEMS[b])]
            threshold, gap = 0.4 * torch.tensor(shift).double().exp(), f[a] - f[b]
            win = torch.sigmoid(gap - threshold)
            p = torch.sigmoid(gap + threshold) - win if is_tie else win
            want = want + count * p.log()
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("model_class", [EPPreferenceGP, LaplacePreferenceGP])
def test_evidence_moves_with_the_shifts_as_finite_differences_say(model_class) -> None:
    model = made(model_class)
    shifts = model.likelihood.tie_shifts
    (got,) = torch.autograd.grad(model.log_evidence(), shifts)
    step = 1e-4
    for i in range(3):
        values = []
        for sign in (1, -1):
            shifts.data[i] += sign * step
            values.append(float(model.log_evidence().detach()))
            shifts.data[i] -= sign * step
        want = (values[0] - values[1]) / (2 * step)
        assert float(got[i]) == pytest.approx(want, rel=2e-5, abs=5e-6)
