"""Acquisition functions of trials that may fail: weighted, or kept to likely ones."""

import math
from copy import deepcopy

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
from draws import uniform, with_points_among
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref import (
    AffineProbitLikelihood,
    ChanceConstrained,
    DistinctOptions,
    DuelingBALD,
    DuelingEIIG,
    DuelingHBEI,
    DuelingKG,
    DuelingMUC,
    DuelingThompson,
    DuelingUCB,
    EPPreferenceGP,
    FeasibilityWeighted,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
    log_validity_probability,
)
from botorch_pref.acquisition.validity import failing_value

DOUBLE = torch.float64
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
X_REF = torch.tensor([[0.4, 0.4]], dtype=DOUBLE)
MANY = uniform(300, 1, 2, seed=4)
POINTS = MANY[:6]


@pytest.fixture(scope="module", params=[EPPreferenceGP, SkewPreferenceGP])
def feasibility(request: pytest.FixtureRequest) -> Model:
    """Trials fail where the first coordinate is large."""
    X = uniform(16, 2, seed=1)
    model = request.param(
        X,
        feedback=[Validity(torch.arange(16), X[:, 0] < 0.5)],
        likelihood=AffineProbitLikelihood(0.1),
    )
    model.covar_module.base_kernel.lengthscale = 0.5
    model.covar_module.outputscale = 4.0
    return model.eval()


@pytest.fixture(scope="module")
def utility() -> Model:
    """More of the first coordinate is better."""
    X = torch.tensor([[0.4, 0.4], [0.9, 0.5], [0.1, 0.2]], dtype=DOUBLE)
    return EPPreferenceGP(X, torch.tensor([[1, 0], [0, 2]])).eval()


def log_valid(model: Model, X: Tensor) -> Tensor:
    """Computes log probabilities of points to be valid, without a gradient."""
    return log_validity_probability(model, X).detach()


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
    log_p = log_valid(feasibility, POINTS).squeeze(-1)
    p = log_p.exp()
    for function in functions(model):
        value = function(POINTS)
        weighted = FeasibilityWeighted(function, feasibility)
        if isinstance(function, DuelingEIIG):
            gain = DuelingEIIG(model, X_REF, k=0.0)(POINTS)
            log_win = (value - gain) / 0.3
            expected = 0.3 * (log_win + log_p) + p * gain
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
        p = log_valid(feasibility, pair).sum(-1).exp()
        value = function(pair)
        if not isinstance(function, DuelingHBEI):
            # The best of two points may be worse than the reference; not so knowledge.
            assert float(value.detach().min()) > -1e-7
        expected = value * torch.where(value > 0, p, 2 - p)
        torch.testing.assert_close(weighted(pair), expected, rtol=1e-6, atol=1e-7)


def test_pairs_need_two_valid_points(feasibility: Model) -> None:
    """Also with a function of BoTorch's, and a worth of failures."""
    X = uniform(5, 2, 2)
    model = EPPreferenceGP(X[:, 0], torch.tensor([[0, 1], [2, 3], [1, 4]]))
    pair = AnalyticExpectedUtilityOfBestOption(model)
    weighted = FeasibilityWeighted(pair, feasibility, failure_value=-2.0)
    p = log_valid(feasibility, X).exp().prod(-1)
    assert bool((pair(X) > -2).all())
    torch.testing.assert_close(weighted(X), p * pair(X) - 2 * (1 - p))


@pytest.mark.parametrize("difference", [None, 0.01])
def test_distinct_options_say_what_a_failure_is_worth(
    feasibility: Model, difference: float | None
) -> None:
    """EIIG does, inside the penalty too: far apart nothing else is subtracted."""
    X = uniform(5, 2, 2)
    model = EPPreferenceGP(X[:, 0], torch.tensor([[0, 1], [2, 3], [1, 4]])).eval()
    plain, distinct_value = (DuelingEIIG(model, X_REF) for _ in range(2))
    distinct = DistinctOptions(distinct_value, difference)
    weighted = FeasibilityWeighted(distinct, feasibility)
    cost = plain(MANY) - distinct(MANY)
    assert bool((cost == 0).any())
    expected = FeasibilityWeighted(plain, feasibility)(MANY) - cost
    torch.testing.assert_close(weighted(MANY), expected)
    with pytest.raises(ValueError, match="says itself what a failure is worth"):
        FeasibilityWeighted(distinct, feasibility, failure_value=-1.0)


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


def test_hopeless_points_keep_a_gradient(feasibility: Model, utility: Model) -> None:
    feasibility = deepcopy(feasibility)
    with torch.no_grad():
        feasibility.mean_module.initialize(constant=-300.0)
    X = POINTS.clone().requires_grad_(True)
    for function in functions(utility):
        value = FeasibilityWeighted(function, feasibility)(X)
        assert bool(value.isfinite().all())
        (gradient,) = torch.autograd.grad(value.sum(), X)
        assert bool(gradient.isfinite().all())


class Frugal(DuelingUCB):
    """A function of a user's own that pays for every trial that may fail."""

    def feasible_value(self, X: Tensor, log_valid: Tensor) -> Tensor:
        return self(X) + 3 * torch.expm1(log_valid)


def test_what_is_wrapped_in_log_space_stays_there(
    utility: Model, feasibility: Model
) -> None:
    sampler = SobolQMCNormalSampler(torch.Size([64]), seed=0)
    distinct = DistinctOptions(qLogExpectedImprovement(utility, 0.5, sampler=sampler))
    weighted = FeasibilityWeighted(distinct, feasibility)
    log_p = log_valid(feasibility, POINTS).squeeze(-1)
    assert torch.allclose(weighted(POINTS), distinct(POINTS) + log_p, rtol=1e-12)


def test_a_function_says_itself_how_it_is_weighed(
    utility: Model, feasibility: Model
) -> None:
    function = Frugal(utility, X_REF)
    weighted = FeasibilityWeighted(function, feasibility)
    p = log_valid(feasibility, POINTS).squeeze(-1).exp()
    torch.testing.assert_close(weighted(POINTS), function(POINTS) - 3 * (1 - p))
    with pytest.raises(ValueError, match="says itself what a failure is worth"):
        FeasibilityWeighted(function, feasibility, failure_value=1.0)


def test_by_name(utility: Model, feasibility: Model) -> None:
    construct = get_acqf_input_constructor(FeasibilityWeighted)
    arguments = construct(
        model=utility,
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
    default = construct(model=utility, feasibility_model=feasibility)
    assert isinstance(FeasibilityWeighted(**default).acquisition, DuelingEIIG)


def test_what_has_no_weight_is_refused(utility: Model, feasibility: Model) -> None:
    for function in (
        DuelingEIIG(utility, X_REF),
        LogExpectedImprovement(utility, best_f=0.0),
    ):
        with pytest.raises(ValueError, match="logarithms"):
            FeasibilityWeighted(function, feasibility, failure_value=1.0)
    # Analytic functions take no pending points, weighted or not.
    weighted = FeasibilityWeighted(function, feasibility)
    with pytest.raises(UnsupportedError, match="X_pending"):
        weighted.set_X_pending(X_REF)


BOTH = pytest.mark.parametrize("wrapper", [FeasibilityWeighted, ChanceConstrained])


@BOTH
def test_pending_points_are_passed_on(
    wrapper: type, utility: Model, feasibility: Model
) -> None:
    """Those that the function has already, and those to come."""
    function, pending = DuelingUCB(utility, X_REF), POINTS[0]
    wrapped = wrapper(function, feasibility)
    assert wrapped.X_pending is None
    wrapped.set_X_pending(pending)
    assert torch.equal(function.X_pending, pending)
    assert torch.equal(wrapped.X_pending, pending)
    assert torch.equal(wrapper(function, feasibility).X_pending, pending)
    wrapped.set_X_pending()
    assert function.X_pending is None


@BOTH
def test_options_are_kept_from_the_reference_of_what_is_wrapped(
    wrapper: type, utility: Model, feasibility: Model
) -> None:
    """At the reference the penalty is the range over observed points and among them."""
    wrapped = wrapper(DuelingUCB(utility, X_REF), feasibility)
    values = wrapped(with_points_among(utility.train_inputs[0]).unsqueeze(-2))
    distinct, reference = DistinctOptions(wrapped, 0.05), X_REF.unsqueeze(0)
    cost = values.max() - values.min()
    torch.testing.assert_close(distinct(reference), wrapped(reference) - cost)


@BOTH
def test_a_model_without_validity_is_refused(wrapper: type, utility: Model) -> None:
    with pytest.raises(UnsupportedFeedbackError, match="Validity"):
        wrapper(DuelingUCB(utility, X_REF), utility)(POINTS)


def test_safe_points_keep_their_order_and_beat_all_others(
    utility: Model, feasibility: Model
) -> None:
    with torch.no_grad():
        log_p = log_valid(feasibility, MANY).squeeze(-1)
        # Past the slope, which ends three tenths of the way to certainty.
        safe, unsafe = log_p.exp() >= 0.8**0.7, log_p.exp() < 0.8
        assert 20 < safe.sum() < 280
        for function in functions(utility)[:4]:
            plain = function(MANY)
            value = ChanceConstrained(function, feasibility, 0.8)(MANY)
            order = plain[safe].argsort()
            assert (value[safe][order].diff() >= 0).all()
            assert value[safe].min() > 0 > value[unsafe].max()
            # Of the others, the one that is most likely to be valid is best.
            expected = log_p[unsafe] - math.log(0.8)
            torch.testing.assert_close(value[unsafe], expected)


def test_the_largest_promise_is_refused_where_it_is_likely_to_fail(
    utility: Model, feasibility: Model
) -> None:
    plain = DuelingUCB(utility, X_REF)
    constrained = ChanceConstrained(plain, feasibility, 0.95)
    torch.manual_seed(0)
    free, safe = (
        optimize_acqf(function, BOUNDS, q=1, num_restarts=2, raw_samples=64)[0]
        for function in (plain, constrained)
    )
    with torch.no_grad():
        assert log_valid(feasibility, free).exp() < 0.5
        assert log_valid(feasibility, safe).exp() >= 0.95
        # A fine grid knows no better safe point.
        grid = torch.cartesian_prod(*[torch.linspace(0, 1, 41, dtype=DOUBLE)] * 2)
        best = constrained(grid.unsqueeze(-2)).max()
        assert constrained(safe) >= best - 0.02 * best.abs()


def test_of_several_points_the_least_likely_one_counts(
    utility: Model, feasibility: Model
) -> None:
    pairs = torch.stack([MANY[:150, 0], MANY[150:, 0]], dim=-2)
    with torch.no_grad():
        smallest = log_valid(feasibility, pairs).amin(-1).exp()
        value = ChanceConstrained(DuelingBALD(utility), feasibility, 0.7)(pairs)
    assert ((value > 0) == (smallest >= 0.7)).all()


def test_impossible_levels(utility: Model, feasibility: Model) -> None:
    for level in (0.0, 1.0, -0.5, math.nan):
        with pytest.raises(ValueError, match=r"level is .*; give the least probab"):
            ChanceConstrained(DuelingUCB(utility, X_REF), feasibility, level)
