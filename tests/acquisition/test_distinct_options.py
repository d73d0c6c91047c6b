"""Options that nobody could tell apart, and the penalty that keeps from them."""

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import PosteriorMean
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from torch import Tensor

from botorch_pref import (
    DistinctOptions,
    DuelingEIIG,
    DuelingEUBO,
    DuelingThompson,
    DuelingUCB,
    EPPreferenceGP,
    FeedbackError,
    incumbent,
)
from botorch_pref.acquisition.rules import nearness

DOUBLE = torch.float64
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
DIFFERENCE = torch.tensor([0.1, 0.02], dtype=DOUBLE)


@pytest.fixture
def model() -> Model:
    """Answers that contradict each other: whatever is asked, half of it is noise."""
    X = torch.rand(4, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    pairs = torch.tensor([[0, 1], [2, 3], [0, 2], [1, 0], [2, 0]])
    made = EPPreferenceGP(X, pairs).eval()
    made.covar_module.base_kernel.lengthscale = 0.6
    made.covar_module.outputscale = 0.5
    return made


def penalty(X: Tensor, others: list[Tensor], weight: Tensor) -> Tensor:
    """Of each set of new points with each other and with others, pair by pair."""
    total = torch.zeros(len(X), dtype=DOUBLE)
    for number, points in enumerate(X):
        everyone = [*points, *others]
        for i in range(len(points)):
            for j in range(i + 1, len(everyone)):
                r = ((everyone[i] - everyone[j]) / DIFFERENCE).norm()
                total[number] += weight * max(0.0, 1 - float(r) ** 2) ** 2
    return total


def near(point: Tensor, number: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    steps = 2 * torch.rand(20, number, 2, generator=generator, dtype=DOUBLE) - 1
    return point + steps * DIFFERENCE


def test_each_pair_costs_by_its_distance(model: Model) -> None:
    best = incumbent(model)
    pending = best + torch.tensor([[0.08, 0.0]], dtype=DOUBLE)
    plain, kept = (DuelingUCB(model, best) for _ in range(2))
    distinct = DistinctOptions(kept, DIFFERENCE)
    values = plain(model.train_inputs[0].unsqueeze(-2))
    weight = values.amax() - values.amin()
    torch.testing.assert_close(distinct.weight, weight)
    for number in (1, 2):
        X = near(best, number)
        expected = plain(X) - penalty(X, [best[0]], weight)
        torch.testing.assert_close(distinct(X), expected)
    plain.set_X_pending(pending)
    distinct.set_X_pending(pending)
    X = near(best, 2)
    expected = plain(X) - penalty(X, [pending[0], best[0]], weight)
    torch.testing.assert_close(distinct(X), expected)
    far = 1 - best.unsqueeze(0)
    torch.testing.assert_close(distinct(far), plain(far), rtol=0, atol=0)


def test_pairs_of_new_points(model: Model) -> None:
    plain = DuelingEUBO(model)
    distinct = DistinctOptions(DuelingEUBO(model), DIFFERENCE)
    X = near(torch.tensor([0.5, 0.5], dtype=DOUBLE), 2)
    expected = plain(X) - penalty(X, [], distinct.weight)
    torch.testing.assert_close(distinct(X), expected)
    assert distinct.X_ref is None


@pytest.mark.slow
@pytest.mark.parametrize("difference", [0.1, 2 * DIFFERENCE])
def test_the_reference_itself_is_not_asked(
    model: Model, difference: float | Tensor
) -> None:
    """As it is where the reference is thought to be the best and winning is all."""
    torch.manual_seed(0)
    options = {"num_restarts": 4, "raw_samples": 64}
    best, _ = optimize_acqf(PosteriorMean(model), BOUNDS, q=1, **options)
    eiig = DuelingEIIG(model, best, k=5.0)
    same, _ = optimize_acqf(eiig, BOUNDS, q=1, **options)
    assert float((same - best).norm()) < 1e-3
    distinct = DistinctOptions(eiig, difference)
    candidate, _ = optimize_acqf(distinct, BOUNDS, q=1, **options)
    assert float(((candidate - best) / difference).norm()) > 0.95


@pytest.mark.slow
def test_more_steps_of_the_line_search_lead_to_the_foot_of_the_wall(
    model: Model,
) -> None:
    """With 20 of them `optimize_acqf` warns, which is an error here."""
    torch.manual_seed(0)
    options = {"num_restarts": 4, "raw_samples": 64}
    best, _ = optimize_acqf(PosteriorMean(model), BOUNDS, q=1, **options)
    distinct = DistinctOptions(DuelingEIIG(model, best, k=5.0))
    more = {"sample_around_best": True, "maxls": 60}
    candidate, _ = optimize_acqf(distinct, BOUNDS, q=1, options=more, **options)
    assert float((candidate - best).norm()) / 0.01 == pytest.approx(1.0, abs=1e-3)


def test_gradients_are_those_of_differences(model: Model) -> None:
    best = incumbent(model)
    distinct = DistinctOptions(DuelingUCB(model, best), DIFFERENCE)
    X = near(best, 1)[:5].requires_grad_()
    assert torch.autograd.gradcheck(distinct, (X,), eps=1e-6, atol=1e-5)


def test_several_challengers_keep_apart_one_by_one(model: Model) -> None:
    best = incumbent(model)
    torch.manual_seed(0)
    thompson = DuelingThompson(model, best, torch.Generator().manual_seed(0))
    distinct = DistinctOptions(thompson, 0.1)
    X, _ = optimize_acqf(
        distinct, BOUNDS, q=3, sequential=True, num_restarts=4, raw_samples=64
    )
    apart = torch.pdist(torch.cat([X, best])) / 0.1
    assert float(apart.min()) > 0.98


@pytest.mark.parametrize("difference", [0.0, -0.1, float("nan"), float("inf")])
def test_differences_that_cannot_be(model: Model, difference: float) -> None:
    acquisition: AcquisitionFunction = DuelingEUBO(model)
    with pytest.raises(ValueError, match=r"smallest_difference is .* give a positive"):
        DistinctOptions(acquisition, difference)


def test_a_model_of_one_point() -> None:
    one = EPPreferenceGP(torch.zeros(1, 2, dtype=DOUBLE))
    with pytest.raises(FeedbackError, match="ask a first duel"):
        DistinctOptions(DuelingEUBO(one))


SQUARED = torch.tensor([0.0, 0.25, 1.0, 1.5, 1.5625, 9.0], dtype=torch.double)


@pytest.mark.parametrize(("free", "full"), [(1.0, 0.0), (1.5625, 1.0)])
def test_it_is_the_square_of_what_is_missing(free: float, full: float) -> None:
    expected = [max(0.0, free - r) ** 2 / (free - full) ** 2 for r in SQUARED.tolist()]
    assert nearness(SQUARED, free, full).tolist() == pytest.approx(expected, abs=1e-15)
    at = torch.tensor([free, full], dtype=torch.double, requires_grad=True)
    price = nearness(at, free, full)
    assert price.tolist() == [0.0, 1.0]
    (slope,) = torch.autograd.grad(price.sum(), at)
    assert slope.tolist() == pytest.approx([0.0, -2 / (free - full)])
