"""Options that nobody could tell apart, and the penalty that keeps from them."""

import math
from typing import Any

import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import PosteriorMean
from botorch.generation import gen
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from draws import uniform, with_points_among
from scipy.optimize import brentq
from scipy.stats import norm
from torch import Tensor

from botorch_pref import (
    Comparisons,
    DistinctOptions,
    DuelingEIIG,
    DuelingEUBO,
    DuelingJointKG,
    DuelingThompson,
    DuelingUCB,
    EPPreferenceGP,
    FeedbackError,
    FullyBayesianEPPreferenceGP,
    LapsingProbitLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    Ratings,
    SkewPreferenceGP,
    incumbent,
)
from botorch_pref.acquisition.exploring_rule import nearness
from botorch_pref.posteriors.gaussian import difference_mixture

DOUBLE = torch.float64
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=DOUBLE)
DIFFERENCE = torch.tensor([0.1, 0.02], dtype=DOUBLE)


@pytest.fixture
def model() -> Model:
    """Answers that contradict each other: whatever is asked, half of it is noise."""
    X = uniform(4, 2)
    pairs = torch.tensor([[0, 1], [2, 3], [0, 2], [1, 0], [2, 0]])
    fitted = EPPreferenceGP(X, pairs).eval()
    fitted.covar_module.base_kernel.lengthscale = 0.6
    fitted.covar_module.outputscale = 0.5
    return fitted


def exact_model(noise: float = 1e-8, dtype: torch.dtype = DOUBLE) -> EPPreferenceGP:
    """Makes a model of four points in order, told by somebody who hardly errs."""
    X = torch.rand(4, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))
    likelihood = PairwiseProbitLikelihood(noise)
    pairs = torch.tensor([[0, 1], [1, 2], [2, 3]])
    return EPPreferenceGP(X, pairs, likelihood=likelihood).eval()


def penalty(X: Tensor, rivals: list[Tensor], weight: Tensor) -> Tensor:
    """Sums penalties of each set of new points with each other and with others."""
    total = torch.zeros(len(X), dtype=DOUBLE)
    for number, points in enumerate(X):
        everyone = [*points, *rivals]
        for i in range(len(points)):
            for j in range(i + 1, len(everyone)):
                r = ((everyone[i] - everyone[j]) / DIFFERENCE).norm()
                total[number] += weight * max(0.0, 1 - float(r) ** 2) ** 2
    return total


def near(point: Tensor, number: int) -> Tensor:
    steps = 2 * uniform(20, number, 2, seed=1) - 1
    return point + steps * DIFFERENCE


def test_each_pair_costs_by_its_distance(model: Model) -> None:
    best = incumbent(model)
    pending = best + torch.tensor([[0.08, 0.0]], dtype=DOUBLE)
    plain, priced = (DuelingUCB(model, best) for _ in range(2))
    distinct = DistinctOptions(priced, DIFFERENCE)
    points = with_points_among(model.train_inputs[0])
    values = plain(points.unsqueeze(-2))
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


@pytest.mark.parametrize("difference", [None, DIFFERENCE])
def test_options_of_open_questions_cost_nothing(
    model: Model, difference: Tensor | None
) -> None:
    """Of three pending points beside pairs two are a question; one is an option."""
    best = incumbent(model)
    pending = best + torch.tensor([[0.0, 0.0], [0.3, 0.3], [0.01, 0.01]], dtype=DOUBLE)
    plain, priced = (DuelingEUBO(model) for _ in range(2))
    distinct = DistinctOptions(priced, difference)
    # So near that they may look alike, and as near to the open question.
    X = torch.stack([best, best + 0.03], dim=-2).expand(1, 2, 2)
    costs = []
    for number in (0, 2, 3):
        for value in (plain, distinct):
            value.set_X_pending(pending[:number] if number else None)
        costs.append(float(((plain(X) - distinct(X)) / distinct.weight).detach()))
    assert costs[0] == pytest.approx(costs[1], abs=1e-9)
    assert costs[2] > costs[1] + 0.5


def root_under_ties(noise: float, threshold: float) -> float:
    """Finds where a win is halfway from that of equal options to a sure one."""

    def excess(u: float) -> float:
        win, chance = norm.cdf([u, 0.0], loc=threshold, scale=(2 * noise) ** 0.5)
        return win - 0.5 - 0.5 * chance

    return brentq(excess, 0.0, 2.0, xtol=1e-14)


NOTICEABLE = {
    # Where the better option is named three times in four; under ties by the root of
    # the definition, which lapses do not move.
    "probit": (PairwiseProbitLikelihood(0.3), norm.ppf(0.75) * 0.6**0.5),
    "logit": (PairwiseLogitLikelihood(), math.log(3)),
    "ties": (PairwiseProbitLikelihood(0.02, 0.7), root_under_ties(0.02, 0.7)),
    "noise": (PairwiseProbitLikelihood(0.3, 0.2), root_under_ties(0.3, 0.2)),
    "lapses": (LapsingProbitLikelihood(0.3, 0.2), root_under_ties(0.3, 0.2)),
}


@pytest.mark.parametrize("name", NOTICEABLE)
def test_each_pair_costs_by_what_the_model_tells_apart(model: Model, name: str) -> None:
    """By the moments of BoTorch's posterior, of two new points and a pending one."""
    likelihood, noticeable = NOTICEABLE[name]
    model = EPPreferenceGP(
        model.train_inputs[0], torch.tensor([[0, 1], [2, 3]]), likelihood=likelihood
    ).eval()
    best = incumbent(model)
    pending = best + torch.tensor([[0.08, 0.0]], dtype=DOUBLE)
    plain, priced = DuelingUCB(model, best), DuelingUCB(model, best)
    distinct = DistinctOptions(priced)
    for value in (plain, distinct):
        value.set_X_pending(pending)
    X = near(best, 2)
    with torch.no_grad():
        cost = torch.zeros(len(X), dtype=DOUBLE)
        for number, points in enumerate(X):
            posterior = model.posterior(torch.cat([points, pending, best]))
            mean, C = posterior.mean.squeeze(-1), posterior.covariance_matrix
            for i, j in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]:
                square = (mean[i] - mean[j]) ** 2 + C[i, i] + C[j, j] - 2 * C[i, j]
                r2 = float(square) / (0.375 * noticeable) ** 2
                cost[number] += max(0.0, 1 - r2) ** 2
        assert cost.amax() > cost.amin() >= 0
        prices = (plain(X) - distinct(X)) / distinct.weight
    torch.testing.assert_close(prices, cost, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("engine", [EPPreferenceGP, SkewPreferenceGP])
def test_options_that_surely_differ_cost_nothing_however_near(engine) -> None:
    """Of somebody who hardly errs; the same points are one to somebody who guesses."""
    X = uniform(4, 2)
    pairs = torch.tensor([[0, 1], [1, 2], [2, 3]])
    for noise, differs in ((1e-8, True), (1e6, False)):
        likelihood = PairwiseProbitLikelihood(noise)
        sure_model = engine(X, pairs, likelihood=likelihood).eval()
        best = incumbent(sure_model)
        plain = DuelingUCB(sure_model, best)
        distinct = DistinctOptions(plain)
        for step in (1e-4, 1e-2, 0.3):
            points = (best + step).unsqueeze(0)
            price = (plain(points) - distinct(points)).detach()
            if differs:
                assert float(price) == 0.0
            else:
                assert float(price) > 0.99 * float(distinct.weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("noise", [1e-8, 1.0])
def test_the_same_option_twice_costs_all_and_has_a_gradient(
    dtype: torch.dtype, noise: float
) -> None:
    sure_model = exact_model(noise, dtype)
    best = incumbent(sure_model)
    distinct = DistinctOptions(DuelingEIIG(sure_model, best))
    X = best.expand(1, 2, 2).clone().requires_grad_()
    value = distinct(X)
    assert value.dtype == dtype
    (slope,) = torch.autograd.grad(value.sum(), X)
    assert bool(slope.isfinite().all())
    # Three pairs, each off by what rounding leaves: 5 of 64 parts.
    cost = (distinct.acquisition(X) - value) / distinct.weight
    assert float(cost.detach()) == pytest.approx(3.0, abs=3 * 2 * 5 / 64)
    pair = DistinctOptions(DuelingEUBO(sure_model))
    (slope,) = torch.autograd.grad(pair(X).sum(), X)
    assert bool(slope.isfinite().all())


@pytest.mark.parametrize("count", [3, 4])
def test_each_t_batch_has_a_reference_of_its_own(model: Model, count: int) -> None:
    """Also where they are as many as the points that the model has observed."""
    references, X = uniform(count, 1, 2, seed=3), uniform(count, 1, 2, seed=4)
    together = DistinctOptions(DuelingEUBO(model, references))(X)
    alone = [
        DistinctOptions(DuelingEUBO(model, reference))(x)
        for reference, x in zip(references, X, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(alone))
    near_all = DistinctOptions(DuelingEUBO(model, references))(references + 1e-3)
    near_one = DistinctOptions(DuelingEUBO(model, references[1]))
    torch.testing.assert_close(near_all[1:2], near_one(references[1] + 1e-3))


def test_a_batch_of_models_is_its_models() -> None:
    X = uniform(3, 5, 2, seed=2)
    pairs = torch.tensor([[0, 1], [2, 3], [4, 0]])
    noise = torch.tensor([0.01, 0.1, 1.0], dtype=DOUBLE)

    def distinct(points: Tensor, noise: Tensor, difference: float | None) -> Tensor:
        likelihood = PairwiseProbitLikelihood(noise)
        element_model = EPPreferenceGP(points, pairs, likelihood=likelihood).eval()
        return DistinctOptions(
            DuelingEIIG(element_model, incumbent(element_model)), difference
        )

    pending = X[:, 1:3] + 1e-3
    for difference in (None, 0.1):
        together = distinct(X, noise, difference)
        value = together(pending)
        for number in range(3):
            alone = distinct(X[number], noise[number], difference)
            torch.testing.assert_close(together.weight[number], alone.weight)
            torch.testing.assert_close(value[number], alone(pending[number])[0])


def test_an_ensemble_averages_what_its_members_tell_apart() -> None:
    X = uniform(4, 2)
    ensemble = FullyBayesianEPPreferenceGP(X, torch.tensor([[0, 1], [2, 3]]))
    draws = {
        name: torch.stack([parameter.detach(), parameter.detach() + 1.5])
        for name, parameter in ensemble.named_parameters()
        if parameter.requires_grad
    }
    ensemble.load_mcmc_samples(draws)
    best = incumbent(ensemble.eval())
    plain = DuelingUCB(ensemble, best)
    points = near(best, 1)
    for difference in (None, 0.1):
        distinct = DistinctOptions(plain, difference)
        assert distinct.weight.dim() == 0
        price = (plain(points) - distinct(points)) / distinct.weight
        if difference is None:
            means, variance = difference_mixture(
                ensemble.posterior(torch.cat([points, best.expand(20, 1, 2)], -2))
            )
            square = means.squeeze(0).square() + variance
            expected = nearness(square / distinct.smallest_square).mean(-1)
        else:
            expected = nearness(((points - best) / 0.1).square().sum((-1, -2)))
        torch.testing.assert_close(price, expected, rtol=1e-6, atol=1e-9)


def test_who_rates_keeps_options_a_hundredth_apart() -> None:
    X = uniform(4, 2)
    rated = Ratings(torch.arange(4), torch.tensor([0.1, 0.5, 0.4, 0.9], dtype=DOUBLE))
    rating_model = EPPreferenceGP(X, feedback=[rated]).eval()
    distinct = DistinctOptions(DuelingUCB(rating_model, incumbent(rating_model)))
    assert distinct.smallest_square is None
    assert float(distinct.smallest_difference) == 0.01


def test_pairs_of_new_points(model: Model) -> None:
    plain = DuelingEUBO(model)
    distinct = DistinctOptions(DuelingEUBO(model), DIFFERENCE)
    X = near(torch.tensor([0.5, 0.5], dtype=DOUBLE), 2)
    expected = plain(X) - penalty(X, [], distinct.weight)
    torch.testing.assert_close(distinct(X), expected)
    assert distinct.X_ref is None
    plain, alone = DuelingEUBO(model), X[:, :1]
    torch.testing.assert_close(DistinctOptions(plain)(alone), plain(alone))


def test_a_function_that_knows_no_duels_is_priced_alike(model: Model) -> None:
    """Thompson sampling, whose options meet without a joint posterior."""
    best = incumbent(model)
    thompson = DuelingThompson(model, best, torch.Generator().manual_seed(0))
    distinct = DistinctOptions(thompson)
    duels = DistinctOptions(DuelingUCB(model, best))
    X = near(best, 2)
    price = (thompson(X) - distinct(X)) / distinct.weight
    prices = (DuelingUCB(model, best)(X) - duels(X)) / duels.weight
    assert float(price.detach().amin()) > 0
    torch.testing.assert_close(price, prices, rtol=1e-6, atol=1e-6)


def test_two_new_points_keep_apart_where_one_duel_was_answered() -> None:
    """Both orders of its points are worth the same: nothing spreads over observed."""
    X = torch.tensor([[0.2, 0.3], [0.7, 0.6]], dtype=DOUBLE)
    model = EPPreferenceGP(X, torch.tensor([[0, 1]])).eval()
    distinct = DistinctOptions(DuelingEUBO(model))
    doubled = torch.full((1, 2, 2), 0.5, dtype=DOUBLE)
    pairs = uniform(500, 2, 2)
    with torch.no_grad():
        assert float(distinct(doubled)) < float(distinct(pairs).amin())


@pytest.mark.parametrize("count", [5, 20, 50])
def test_challengers_keep_apart_where_no_observed_point_can_be_better(count) -> None:
    """Each pair of six points was answered often: improvement on the best is 0."""
    X = uniform(6, 2, seed=1)
    order = torch.combinations((-((X - 0.4) ** 2).sum(-1)).argsort(descending=True))
    answers = Comparisons(order, pair_counts=torch.full((15,), count))
    model = EPPreferenceGP(X, feedback=[answers]).eval()
    best = incumbent(model)
    for rule in (
        DuelingEUBO(model, best),
        DuelingJointKG(model, best, generator=torch.Generator().manual_seed(0)),
    ):
        distinct = DistinctOptions(rule, 0.1)
        new = uniform(2_000, 2, 2, seed=2)
        with torch.no_grad():
            apart = (new[:, 0] - new[:, 1]).norm(dim=-1) > 0.1
            far = ((new - best).norm(dim=-1) > 0.1).all(-1)
            largest = float(rule(new[apart & far]).amax())
            # The same point twice costs what its pair is worth, or most of it.
            twice = new[far][:, :1].expand(-1, 2, -1)
            assert float(distinct(twice).amax()) < 0.5 * largest


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
    chosen, _ = optimize_acqf(eiig, BOUNDS, q=1, **options)
    assert float((chosen - best).norm()) < 1e-3
    distinct = DistinctOptions(eiig, difference)
    candidate, _ = optimize_acqf(
        distinct, BOUNDS, q=1, **options, options=distinct.optimizer_options
    )
    assert float(((candidate - best) / difference).norm()) > 0.95


@pytest.mark.slow
def test_more_steps_of_the_line_search_lead_to_the_foot_of_the_wall(
    model: Model,
) -> None:
    """With 20 of them `optimize_acqf` warns, which is an error here."""
    torch.manual_seed(0)
    options = {"num_restarts": 4, "raw_samples": 64}
    best, _ = optimize_acqf(PosteriorMean(model), BOUNDS, q=1, **options)
    distinct = DistinctOptions(DuelingEIIG(model, best, k=5.0), 0.01)
    maxls = distinct.optimizer_options["maxls"]
    search_options = {"sample_around_best": True, "maxls": maxls}
    candidate, _ = optimize_acqf(
        distinct, BOUNDS, q=1, options=search_options, **options
    )
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
    model_of_point = EPPreferenceGP(torch.zeros(1, 2, dtype=DOUBLE))
    with pytest.raises(FeedbackError, match="ask a first duel"):
        DistinctOptions(DuelingEUBO(model_of_point))


class Hopeless(DuelingUCB):
    """Has no value anywhere, as a logarithm of nothing."""

    def forward(self, X: Tensor) -> Tensor:
        return torch.full(X.shape[:-2], -torch.inf, dtype=X.dtype)


def test_a_function_without_values(model: Model) -> None:
    with pytest.raises(FeedbackError, match="Hopeless has no finite value at any"):
        DistinctOptions(Hopeless(model, incumbent(model)))


SQUARED = torch.tensor([0.0, 0.25, 1.0, 1.5, 1.5625, 9.0], dtype=torch.double)


@pytest.mark.parametrize(("free", "full"), [(1.0, 0.0), (1.5625, 1.0)])
def test_it_is_the_square_of_what_is_missing(free: float, full: float) -> None:
    expected = [max(0.0, free - r) ** 2 / (free - full) ** 2 for r in SQUARED.tolist()]
    assert nearness(SQUARED, free, full).tolist() == pytest.approx(expected, abs=1e-15)
    places = torch.tensor([free, full], dtype=torch.double, requires_grad=True)
    price = nearness(places, free, full)
    assert price.tolist() == [0.0, 1.0]
    (slope,) = torch.autograd.grad(price.sum(), places)
    assert slope.tolist() == pytest.approx([0.0, -2 / (free - full)])


@pytest.mark.parametrize("first_unknown", [gen.SCIPY_UNTESTED_VERSION, 0])
def test_a_search_that_ends_early_finds_the_same_value(
    monkeypatch: pytest.MonkeyPatch, first_unknown: int
) -> None:
    """Within a ten-thousandth of the spread, in fewer evaluations.

    BoTorch climbs by SciPy where it does not know the release of SciPy.
    """
    monkeypatch.setattr(gen, "SCIPY_UNTESTED_VERSION", first_unknown)
    generator = torch.Generator().manual_seed(2)
    X = torch.rand(20, 5, dtype=DOUBLE, generator=generator)
    model = EPPreferenceGP(X, torch.arange(20).view(-1, 2)).eval()
    bounds = torch.tensor([[0.0], [1.0]], dtype=DOUBLE).expand(2, 5)
    starts = torch.rand(4, 1, 5, dtype=DOUBLE, generator=generator)
    question = DistinctOptions(DuelingEIIG(model, incumbent(model)))
    forward, values, evaluations = DistinctOptions.forward, [], []
    for options in ({}, question.optimizer_options):
        calls: list[int] = []

        def counted(self: DistinctOptions, X: Tensor, calls: Any = calls) -> Tensor:
            calls.append(len(X))
            return forward(self, X)

        monkeypatch.setattr(DistinctOptions, "forward", counted)
        _, value = optimize_acqf(
            question,
            bounds,
            q=1,
            num_restarts=4,
            batch_initial_conditions=starts,
            options=options,
        )
        values.append(value)
        evaluations.append(len(calls))
    assert evaluations[1] < evaluations[0]
    assert values[1] >= values[0] - 1e-4 * question.weight
