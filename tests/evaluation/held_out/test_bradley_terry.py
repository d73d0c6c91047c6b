import torch
from sklearn.linear_model import LogisticRegression

from botorch_pref.datasets import ComparisonData
from botorch_pref.evaluation.held_out import (
    RIDGE,
    bradley_terry,
    fit_bradley_terry,
)


def simulate(m: int, weights: torch.Tensor, seed: int) -> torch.Tensor:
    """Differences winner less loser of `m` answers by a linear utility."""
    generator = torch.Generator().manual_seed(seed)
    differences = torch.randn(m, len(weights), generator=generator).double()
    wins = torch.rand(m, generator=generator) < torch.sigmoid(differences @ weights)
    return torch.where(wins[:, None], differences, -differences)


def test_equals_logistic_regression_of_another_library() -> None:
    differences = simulate(300, torch.tensor([1.0, -0.5, 0.0]).double(), 0)
    scale = differences.square().mean(0).sqrt()
    standardised = (differences / scale).numpy()
    # sklearn wants both classes: the negated rows are the losses.
    peer = LogisticRegression(C=0.5 / RIDGE, fit_intercept=False, tol=1e-10).fit(
        [*standardised, *(-standardised)], [1] * 300 + [0] * 300
    )
    ours = fit_bradley_terry(differences) * scale
    assert torch.allclose(ours, torch.tensor(peer.coef_[0]), atol=1e-5)


def test_finds_the_weights_within_sampling_error() -> None:
    weights = torch.tensor([1.0, -0.5, 0.0]).double()
    estimate = fit_bradley_terry(simulate(20_000, weights, 1))
    # Fisher information per answer is at least E[p(1-p)] > 0.15: sd < 0.019.
    assert torch.all((estimate - weights).abs() < 4 * 0.019)


def test_units_of_the_features_do_not_matter() -> None:
    differences = simulate(200, torch.tensor([1.0, -0.5]).double(), 2)
    units = torch.tensor([100.0, 0.01]).double()
    assert torch.allclose(
        fit_bradley_terry(differences * units) * units,
        fit_bradley_terry(differences),
        rtol=1e-5,
    )


def test_no_weight_is_more_probable() -> None:
    # What is left to go is Newton's step, by automatic derivatives.
    differences = simulate(3000, torch.tensor([3.0, -0.5, 0.1, 0.0]).double(), 4)
    scale = differences.square().mean(0).sqrt()

    def log_posterior(weights: torch.Tensor) -> torch.Tensor:
        answered = torch.nn.functional.logsigmoid(differences / scale @ weights).sum()
        return answered - 0.5 * RIDGE * weights.square().sum()

    weights = (fit_bradley_terry(differences) * scale).requires_grad_()
    (slope,) = torch.autograd.grad(log_posterior(weights), weights)
    curvature = torch.autograd.functional.hessian(log_posterior, weights)
    assert torch.linalg.solve(curvature, slope).abs().max() < 1e-8


def test_separable_and_constant_features_stay_finite() -> None:
    differences = torch.tensor([[1.0, 0.0], [2.0, 0.0]]).double()
    weights = fit_bradley_terry(differences)
    assert weights.isfinite().all()
    assert weights[0] > 0
    assert weights[1] == 0


def test_predictions_of_a_pair_and_its_mirror_add_to_one() -> None:
    items = torch.rand(30, 2, generator=torch.Generator().manual_seed(3)).double()
    train = ComparisonData.from_pairs(items[:15], items[15:], ("a", "b"))
    first, second = items[:5], items[20:25]
    total = (
        bradley_terry(train, first, second).exp()
        + bradley_terry(train, second, first).exp()
    )
    assert torch.allclose(total, torch.ones(5).double())
