"""One of two acquisition functions, by chance."""

import pytest
import torch
from botorch.models.model import Model

from botorch_pref import (
    DuelingEIIG,
    DuelingExploringEIIG,
    DuelingTailedEI,
    EPPreferenceGP,
    FeasibilityWeighted,
    Validity,
)

DOUBLE = torch.float64
X_REF = torch.tensor([[0.4, 0.6]], dtype=DOUBLE)
X = torch.rand(7, 1, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(2))


def drawn(model: Model, number: int, **options: float) -> list[DuelingExploringEIIG]:
    generator = torch.Generator().manual_seed(5)
    return [
        DuelingExploringEIIG(model, X_REF, generator=generator, **options)
        for _ in range(number)
    ]


def test_it_is_one_of_the_two(skew_model: Model) -> None:
    pending = torch.tensor([[0.9, 0.1]], dtype=DOUBLE)
    explore, refine = drawn(skew_model, 1, epsilon=1.0) + drawn(
        skew_model, 1, epsilon=0.0, k=0.3
    )
    for chosen, plain in (
        (explore, DuelingTailedEI(skew_model, X_REF)),
        (refine, DuelingEIIG(skew_model, X_REF, k=0.3)),
    ):
        torch.testing.assert_close(chosen(X), plain(X))
        chosen.set_X_pending(pending)
        plain.set_X_pending(pending)
        torch.testing.assert_close(chosen(X), plain(X))


def test_how_often_it_explores(skew_model: Model) -> None:
    """Within four standard errors; and equal generators draw the same."""
    number = 200
    explores = [
        isinstance(a.chosen, DuelingTailedEI) for a in drawn(skew_model, number)
    ]
    error = (2 / 9 / number) ** 0.5
    assert abs(sum(explores) / number - 1 / 3) < 4 * error
    again = [isinstance(a.chosen, DuelingTailedEI) for a in drawn(skew_model, number)]
    assert explores == again


def test_what_cannot_be(skew_model: Model) -> None:
    for epsilon in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"epsilon is .* give a probability"):
            DuelingExploringEIIG(skew_model, X_REF, epsilon=epsilon)
    with pytest.raises(ValueError, match="k is -1"):
        DuelingExploringEIIG(skew_model, X_REF, epsilon=1.0, k=-1.0)


def test_trials_that_fail_weigh_as_with_the_function_that_was_drawn(
    skew_model: Model,
) -> None:
    labels = Validity(torch.arange(3), torch.tensor([True, False, True]))
    feasibility = EPPreferenceGP(X[:3, 0], feedback=[labels])
    for epsilon, plain in (
        (0.0, DuelingEIIG(skew_model, X_REF, k=0.2)),
        (1.0, DuelingTailedEI(skew_model, X_REF)),
    ):
        (exploring,) = drawn(skew_model, 1, epsilon=epsilon)
        torch.testing.assert_close(
            FeasibilityWeighted(exploring, feasibility)(X),
            FeasibilityWeighted(plain, feasibility)(X),
        )
