"""Acquisition functions weighted by the probability of a valid trial."""

import math

import pytest
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogExpectedImprovement,
    PosteriorMean,
    qLogExpectedImprovement,
)
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.exceptions.errors import UnsupportedError
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref import (
    AffineProbitLikelihood,
    DistinctOptions,
    DuelingBALD,
    DuelingEIIG,
    DuelingHBEI,
    DuelingKG,
    DuelingMUC,
    DuelingThompson,
    DuelingUCB,
    EPPreferenceGP,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
)
from botorch_pref.acquisition.wrappers import (
    FeasibilityWeighted,
    failing_value,
)
from botorch_pref.models.predictions import (
    log_validity_probability,
)

DOUBLE = torch.float64
X_REF = torch.tensor([[0.4, 0.4]], dtype=DOUBLE)
POINTS = torch.rand(6, 1, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(4))


@pytest.fixture(params=[EPPreferenceGP, SkewPreferenceGP])
def feasibility(request: pytest.FixtureRequest) -> Model:
    """Trials fail where the first coordinate is large."""
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(12, 2, generator=generator, dtype=DOUBLE)
    model = request.param(
        X,
        feedback=[Validity(torch.arange(12), X[:, 0] < 0.5)],
        likelihood=AffineProbitLikelihood(0.3),
    )
    model.covar_module.base_kernel.lengthscale = 0.5
    model.covar_module.outputscale = 4.0
    return model.eval()


def functions(model: Model) -> list[AcquisitionFunction]:
    sampler = SobolQMCNormalSampler(torch.Size([64]), seed=0)
    mean_like = [] if isinstance(model, SkewPreferenceGP) else [PosteriorMean(model)]
    return [
        DuelingUCB(model, X_REF),
        DuelingThompson(model, X_REF, generator=torch.Generator().manual_seed(0)),
        DuelingEIIG(model, X_REF, k=0.3),
        qLogExpectedImprovement(model, best_f=0.5, sampler=sampler),
        *mean_like,
    ]


def test_values_by_hand(model: Model, feasibility: Model) -> None:
    log_valid = log_validity_probability(feasibility, POINTS).squeeze(-1)
    p = log_valid.exp()
    for function in functions(model):
        value = function(POINTS)
        weighted = FeasibilityWeighted(function, feasibility)
        if isinstance(function, DuelingEIIG):
            gain = DuelingEIIG(model, X_REF, k=0.0)(POINTS)
            log_win = (value - gain) / 0.3
            expected = 0.3 * (log_win + log_valid) + p * gain
        elif isinstance(function, qLogExpectedImprovement):
            expected = (value.exp() * p).log()
        else:
            expected = torch.where(value > 0, value * p, value + value * (1 - p))
        torch.testing.assert_close(weighted(POINTS), expected)


def test_what_is_learned_is_learned_from_valid_trials(
    model: Model, feasibility: Model
) -> None:
    """Both new points must be valid; pending ones are passed on, and not weighed."""
    pair, pending = torch.cat([POINTS, POINTS.flip(0)], dim=-2), POINTS[:1, 0]
    choices = torch.full((1, 2), 0.95, dtype=DOUBLE)
    for function in (
        DuelingBALD(model),
        DuelingKG(model, choices=choices),
        DuelingMUC(model, X_REF),
        DuelingHBEI(model, X_REF, torch.Generator().manual_seed(0)),
    ):
        weighted = FeasibilityWeighted(function, feasibility)
        weighted.set_X_pending(pending)
        assert torch.equal(function.X_pending, pending)
        p = log_validity_probability(feasibility, pair).sum(-1).exp()
        value = function(pair)
        if not isinstance(function, DuelingHBEI):
            # The best of two points may be worse than the reference; not so knowledge.
            assert float(value.detach().min()) > -1e-7
        expected = value * torch.where(value > 0, p, 2 - p)
        torch.testing.assert_close(weighted(pair), expected, rtol=1e-6, atol=1e-7)


def test_expected_value_by_trials(feasibility: Model) -> None:
    """A hundred thousand trials, of which some fail and are worth -1 each."""
    value = torch.tensor([0.3, 2.0, -0.9], dtype=DOUBLE)
    log_valid = log_validity_probability(feasibility, POINTS[:3]).squeeze(-1).detach()
    generator = torch.Generator().manual_seed(0)
    draws = torch.rand(100_000, 3, generator=generator, dtype=DOUBLE)
    worth = torch.where(draws < log_valid.exp(), value, -1.0)
    error = failing_value(value, log_valid, -1.0) - worth.mean(0)
    standard_error = worth.std(0) / math.sqrt(len(draws))
    assert bool((error.abs() < 4 * standard_error).all())


def test_gradients(model: Model, feasibility: Model) -> None:
    X = POINTS.clone().requires_grad_(True)
    for function in functions(model):
        weighted = FeasibilityWeighted(function, feasibility)
        (gradient,) = torch.autograd.grad(weighted(X).sum(), X)
        for column in range(2):
            step = torch.zeros(2, dtype=DOUBLE)
            step[column] = 1e-5
            with torch.no_grad():
                slope = (weighted(POINTS + step) - weighted(POINTS - step)) / 2e-5
            # UCB of a mixture solves for its ends to about 1e-9.
            torch.testing.assert_close(
                gradient[:, 0, column], slope, rtol=1e-4, atol=1e-5
            )


finite = st.floats(-1e6, 1e6)
log_p = st.floats(-800.0, 0.0)


@given(finite, finite, log_p, log_p, finite)
def test_never_decreasing_in_value_and_in_probability(
    a: float, b: float, p: float, q: float, failure: float
) -> None:
    (a, b), (p, q) = sorted((a, b)), sorted((p, q))

    def weigh(value: float, log_valid: float) -> float:
        pair = torch.tensor([value, log_valid], dtype=DOUBLE)
        return float(failing_value(pair[0], pair[1], failure))

    # Rounding of the sum with the failure's value.
    slack = 1e-15 * (abs(failure) + max(abs(a), abs(b))) * 4
    assert weigh(a, p) <= weigh(b, p) + slack
    assert weigh(a, p) <= weigh(a, q) + slack
    assert abs(weigh(a, 0.0) - a) <= slack
    if a >= failure:
        assert weigh(a, p) >= failure - slack


@pytest.mark.slow
def test_more_probable_is_better_for_every_function(
    model: Model, feasibility: Model
) -> None:
    """Raising the prior mean of validity raises every probability."""
    for function in functions(model):
        values = []
        for constant in (-3.0, 0.0, 2.0):
            with torch.no_grad():
                feasibility.mean_module.initialize(constant=constant)
                values.append(FeasibilityWeighted(function, feasibility)(POINTS))
        steps = torch.stack(values).diff(dim=0)
        # The zero of `DuelingUCB` at the reference point is not among the points.
        assert bool((steps > 0).all())


def test_hopeless_points_keep_a_gradient(feasibility: Model, model: Model) -> None:
    with torch.no_grad():
        feasibility.mean_module.initialize(constant=-300.0)
    X = POINTS.clone().requires_grad_(True)
    for function in functions(model):
        value = FeasibilityWeighted(function, feasibility)(X)
        assert bool(value.isfinite().all())
        (gradient,) = torch.autograd.grad(value.sum(), X)
        assert bool(gradient.isfinite().all())


def test_pairs_need_two_valid_points(feasibility: Model) -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(5, 2, 2, dtype=DOUBLE, generator=generator)
    model = EPPreferenceGP(X[:, 0], torch.tensor([[0, 1], [2, 3], [1, 4]]))
    pair = AnalyticExpectedUtilityOfBestOption(model)
    weighted = FeasibilityWeighted(pair, feasibility, failure_value=-2.0)
    p = torch.stack([log_validity_probability(feasibility, x).exp().prod() for x in X])
    assert bool((pair(X) > -2).all())
    torch.testing.assert_close(weighted(X), p * pair(X) - 2 * (1 - p))


def test_pending_points_are_passed_on(model: Model, feasibility: Model) -> None:
    function = DuelingUCB(model, X_REF)
    weighted = FeasibilityWeighted(function, feasibility)
    assert weighted.X_pending is None
    pending = torch.tensor([[0.1, 0.9]], dtype=DOUBLE)
    weighted.set_X_pending(pending)
    assert torch.equal(function.X_pending, pending)
    log_valid = log_validity_probability(feasibility, POINTS).squeeze(-1)
    expected = failing_value(function(POINTS), log_valid, 0.0)
    torch.testing.assert_close(weighted(POINTS), expected)
    weighted.set_X_pending()
    assert function.X_pending is None
    function.set_X_pending(pending)
    assert torch.equal(FeasibilityWeighted(function, feasibility).X_pending, pending)


def test_optimize_acqf_in_sequence(model: Model) -> None:
    X = torch.rand(12, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))
    labels = Validity(torch.arange(12), X[:, 0] < 0.5)
    feasibility = EPPreferenceGP(X, feedback=[labels])
    feasibility.covar_module.base_kernel.lengthscale = 0.5
    feasibility.covar_module.outputscale = 20.0
    weighted = FeasibilityWeighted(DuelingUCB(model, X_REF), feasibility)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
    torch.manual_seed(0)
    candidates, values = optimize_acqf(
        weighted, bounds, q=2, num_restarts=2, raw_samples=32, sequential=True
    )
    assert float((candidates[0] - candidates[1]).norm()) > 0.05
    grid = torch.cartesian_prod(*torch.linspace(0, 1, 21, dtype=DOUBLE).expand(2, -1))
    with torch.no_grad():
        best = weighted(grid.unsqueeze(1)).max()
    assert float(values[0]) > float(best) - 1e-3


class Frugal(DuelingUCB):
    """A function of a user's own that pays for every trial that may fail."""

    def feasible_value(self, X: Tensor, log_valid: Tensor) -> Tensor:
        return self(X) + 3 * torch.expm1(log_valid)


def test_what_is_wrapped_in_log_space_stays_there(
    model: Model, feasibility: Model
) -> None:
    sampler = SobolQMCNormalSampler(torch.Size([64]), seed=0)
    distinct = DistinctOptions(qLogExpectedImprovement(model, 0.5, sampler=sampler))
    weighted = FeasibilityWeighted(distinct, feasibility)
    log_valid = log_validity_probability(feasibility, POINTS).squeeze(-1)
    assert torch.allclose(weighted(POINTS), distinct(POINTS) + log_valid, rtol=1e-12)


def test_a_function_says_itself_how_it_is_weighed(
    model: Model, feasibility: Model
) -> None:
    function = Frugal(model, X_REF)
    weighted = FeasibilityWeighted(function, feasibility)
    weighted.set_X_pending(POINTS[0])
    p = log_validity_probability(feasibility, POINTS).squeeze(-1).exp()
    expected = function(POINTS) - 3 * (1 - p)
    torch.testing.assert_close(weighted(POINTS), expected)
    with pytest.raises(ValueError, match="says itself what a failure is worth"):
        FeasibilityWeighted(function, feasibility, failure_value=1.0)


def test_by_name(model: Model, feasibility: Model) -> None:
    construct = get_acqf_input_constructor(FeasibilityWeighted)
    arguments = construct(
        model=model,
        feasibility_model=feasibility,
        acquisition_class=DuelingUCB,
        acquisition_options={"level": 0.5},
        failure_value=-0.5,
        training_data=None,
    )
    weighted = FeasibilityWeighted(**arguments)
    assert isinstance(weighted.acquisition, DuelingUCB)
    assert weighted.acquisition.level == 0.5
    assert weighted.failure_value == -0.5
    default = FeasibilityWeighted(
        **construct(model=model, feasibility_model=feasibility)
    )
    assert isinstance(default.acquisition, DuelingEIIG)


def test_what_has_no_weight_is_refused(feasibility: Model) -> None:
    model = EPPreferenceGP(POINTS[:, 0], torch.tensor([[0, 1]]))
    for function in (
        DuelingEIIG(model, X_REF),
        LogExpectedImprovement(model, best_f=0.0),
    ):
        with pytest.raises(ValueError, match="logarithms"):
            FeasibilityWeighted(function, feasibility, failure_value=1.0)
        # Analytic functions take no pending points, weighted or not.
        if isinstance(function, LogExpectedImprovement):
            weighted = FeasibilityWeighted(function, feasibility)
            with pytest.raises(UnsupportedError, match="X_pending"):
                weighted.set_X_pending(X_REF)
    with pytest.raises(UnsupportedFeedbackError, match="Validity"):
        FeasibilityWeighted(DuelingUCB(model, X_REF), model)(POINTS)


def run_duels(weigh: bool, seed: int) -> tuple[int, float]:
    """Number of failed trials of twelve, and regret against the best valid point.

    The utility grows up to 0.9; trials fail beyond 0.55, so that the best is there.
    """
    generator = torch.Generator().manual_seed(seed)
    grid = torch.linspace(0, 1, 101, dtype=DOUBLE)
    tried, valid = (
        grid[torch.randperm(50, generator=generator)[:2]].tolist(),
        [True] * 2,
    )
    pairs = [sorted((0, 1), key=lambda i: -tried[i])]
    failures, best = 0, pairs[0][0]
    for _ in range(12):
        X = torch.tensor(tried, dtype=DOUBLE).unsqueeze(-1)
        utility = EPPreferenceGP(X, torch.tensor(pairs))
        utility.covar_module.base_kernel.lengthscale = 0.3
        utility.covar_module.outputscale = 8.0
        function: AcquisitionFunction = DuelingUCB(utility, X[best : best + 1])
        if weigh:
            labels = Validity(torch.arange(len(X)), torch.tensor(valid))
            feasibility = EPPreferenceGP(
                X, feedback=[labels], likelihood=AffineProbitLikelihood(0.05)
            )
            feasibility.covar_module.base_kernel.lengthscale = 0.2
            feasibility.covar_module.outputscale = 4.0
            function = FeasibilityWeighted(function, feasibility)
        with torch.no_grad():
            x = float(grid[function(grid[:, None, None]).argmax()])
        tried.append(x)
        valid.append(x <= 0.55)
        if not valid[-1]:
            failures += 1
        elif x != tried[best]:
            new = len(tried) - 1
            winner = new if -abs(x - 0.9) > -abs(tried[best] - 0.9) else best
            pairs.append([winner, new + best - winner])
            best = winner
    return failures, 0.55 - tried[best]


@pytest.mark.slow
def test_weighted_duels_fail_less_and_find_the_best_valid_point() -> None:
    weighted = [run_duels(True, seed) for seed in range(6)]
    plain = [run_duels(False, seed) for seed in range(6)]
    failures = [sum(count for count, _ in runs) for runs in (weighted, plain)]
    # Without a model of failures every duel fails. With one, six to seven of twelve:
    # about as many as it takes to know the edge of what is valid.
    assert failures[1] == 6 * 12
    assert failures[0] <= 6 * 7
    assert max(regret for _, regret in weighted) <= 0.05
