"""Rules of one duel beyond the contract: other libraries, edges and own options."""

import math

import pytest
import torch
from acquisition.contract.closed_forms import ONE, SEVERAL, X_REF, points
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
)
from botorch.exceptions.errors import UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from scipy.stats import norm

from botorch_pref import (
    DuelingBALD,
    DuelingEIIG,
    DuelingEUBO,
    DuelingExploringEIIG,
    DuelingJointEUBO,
    DuelingMUC,
    DuelingTailedEI,
    DuelingThompson,
    DuelingUCB,
    EPPreferenceGP,
    FeasibilityWeighted,
    PairwiseProbitLikelihood,
    Validity,
)
from botorch_pref.acquisition import champion, incumbent
from botorch_pref.likelihoods import DuelLink, LogitLink, ProbitLink

# Of the closed form of the probit's expected entropy, in nats.
ENTROPY_ERROR = 8.1e-8
LINKS = [ProbitLink(0.5), LogitLink()]


@pytest.mark.parametrize("link", LINKS)
def test_nothing_is_learned_from_what_is_known(link: DuelLink, linear_utility) -> None:
    unsure = DuelingBALD(linear_utility(ONE, 2.0), link=link)
    equal_options = X_REF.expand(1, 2, 2)
    assert float(unsure(equal_options)) == pytest.approx(0.0, abs=ENTROPY_ERROR)
    certain = DuelingBALD(linear_utility(ONE, 0.0), link=link)
    assert float(certain(points(6, 2)).abs().max()) <= ENTROPY_ERROR
    apart = torch.tensor([[[800.0, 0.0], [0.0, 0.0]]], dtype=torch.double)
    apart.requires_grad_()
    sure = DuelingBALD(linear_utility(ONE, 0.01), link=link)(apart)
    assert float(sure.detach()) == pytest.approx(0.0, abs=1e-12)
    (gradient,) = torch.autograd.grad(sure, apart)
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("link", LINKS)
def test_an_open_question_between_very_different_points(
    link: DuelLink, linear_utility
) -> None:
    """Its answer tells one bit, and its probability of a win is 0 or 1."""
    model, X = linear_utility(0 * ONE, 1e8), points(6, 2)
    bits = DuelingBALD(model, link=link)(X)
    torch.testing.assert_close(
        bits, torch.full_like(bits, math.log(2)), rtol=0, atol=1e-7
    )
    variance = DuelingMUC(model, X_REF, link=link)(X[:, :1])
    quarter = torch.full_like(variance, 0.25)
    torch.testing.assert_close(variance, quarter, rtol=1e-6, atol=0)


@pytest.mark.parametrize("link", LINKS)
def test_the_judges_noise_is_not_counted(link: DuelLink, linear_utility) -> None:
    """A certain duel of near equals is a coin toss that nothing can be learned from."""
    certain = DuelingMUC(linear_utility(ONE, 0.0), X_REF, link=link)
    assert float(certain(points(6, 1)).abs().max()) == 0.0


def test_differences_of_800_keep_value_and_gradient(linear_utility) -> None:
    center = torch.tensor([[800.0, 0.0]], dtype=torch.double)
    X = (X_REF - torch.tensor([[1.0, 0.0]])).unsqueeze(0).requires_grad_()
    acquisition = DuelingEIIG(linear_utility(center, 1.0), X_REF, link=ProbitLink(0.5))
    value = acquisition(X)
    assert float(value.detach()) == pytest.approx(
        0.1 * norm.logcdf(-800 / math.sqrt(2)), rel=1e-12
    )
    (gradient,) = torch.autograd.grad(value, X)
    # d/dx1 of log Phi(z), z = 800 (x1 - r1) / sqrt(1 + (x1 - r1)^2) at x1 - r1 = -1.
    z = -800 / math.sqrt(2)
    hazard = -z - 1 / z
    expected = 0.1 * hazard * 800 / 2**1.5
    assert float(gradient[0, 0, 0]) == pytest.approx(expected, rel=1e-8)


def test_learned_noise_does_not_break_repeated_backward_passes() -> None:
    likelihood = PairwiseProbitLikelihood(noise=0.5).double()
    likelihood.raw_noise.requires_grad_(True)
    model = EPPreferenceGP(
        points(3), torch.tensor([[0, 1], [1, 2]]), likelihood=likelihood
    )
    acquisition = DuelingEIIG(model, X_REF)
    for _ in range(2):
        acquisition(points(6, 1)).sum().backward()
    assert bool(likelihood.raw_noise.grad.isfinite().all())


def test_eubo_is_botorchs_under_gaussian_models(gaussian_model: Model) -> None:
    X, close = points(50, 2), {"rtol": 1e-9, "atol": 1e-10}
    theirs = AnalyticExpectedUtilityOfBestOption(gaussian_model)
    torch.testing.assert_close(DuelingEUBO(gaussian_model)(X), theirs(X), **close)
    theirs = AnalyticExpectedUtilityOfBestOption(gaussian_model, previous_winner=X_REF)
    ours = DuelingEUBO(gaussian_model, X_REF)
    torch.testing.assert_close(ours(X[:, :1]), theirs(X[:, :1]), **close)


def test_equal_points_and_certain_ones(linear_utility) -> None:
    """The better mean, and the mean of the slopes where both are the best."""
    X = X_REF.expand(1, 2, 2).clone().requires_grad_()
    value = DuelingEUBO(linear_utility(SEVERAL, 0.0))(X)
    mean = SEVERAL.mean(0)
    assert float(value.detach()) == pytest.approx(float((X_REF @ mean).squeeze()))
    (gradient,) = torch.autograd.grad(value.sum(), X)
    torch.testing.assert_close(gradient, 0.5 * mean.expand(1, 2, 2))
    far = torch.tensor([[[1e6, 0.0], [-1e6, 0.0]]], dtype=torch.double)
    certain = DuelingEUBO(linear_utility(ONE, 1e-3))(far)
    assert float(certain) == pytest.approx(1e6, rel=1e-12)


@pytest.mark.parametrize("scale", [0.0, 1e-9, 1e-3, 1.0])
def test_hopeless_challengers_have_no_slope_and_no_nan(
    scale: float, linear_utility
) -> None:
    """Beyond 38 deviations an improvement is 0 in double precision."""
    X = torch.tensor([[[0.0, 1e3]], [[0.0, 50.0]], [[0.4, 1e8]]], dtype=torch.double)
    X.requires_grad_()
    value = DuelingEUBO(linear_utility(ONE, scale), X_REF)(X)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    assert bool((value >= 0).all())
    assert bool(gradient.isfinite().all())
    if scale < 1e-2:
        assert not bool(value.any())
        assert not bool(gradient.any())


@pytest.mark.parametrize(("level", "z"), [(0.95, 1.959963985), (0.5, 0.674489750)])
def test_bounds_of_a_gaussian_in_closed_form(
    level: float, z: float, linear_utility
) -> None:
    acquisition = DuelingUCB(linear_utility(ONE, 0.7), X_REF, level=level)
    step = (points(6, 1) - X_REF).squeeze(-2)
    expected = step @ ONE[0] + z * 0.7 * step.norm(dim=-1)
    torch.testing.assert_close(
        acquisition(points(6, 1)), expected, rtol=1e-8, atol=1e-9
    )


def test_numbers_that_cannot_be(linear_utility) -> None:
    model = linear_utility(ONE, 1.0, PairwiseProbitLikelihood())
    for level in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="level is"):
            DuelingUCB(model, X_REF, level=level)
    for k in (-0.1, math.nan):
        with pytest.raises(ValueError, match="k is"):
            DuelingEIIG(model, X_REF, k=k)
        with pytest.raises(ValueError, match="k is"):
            DuelingExploringEIIG(model, X_REF, epsilon=1.0, k=k)
    for epsilon in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"epsilon is .* give a probability"):
            DuelingExploringEIIG(model, X_REF, epsilon=epsilon)


def test_a_model_of_several_outputs_is_refused() -> None:
    X = points(3, 2).flatten(0, 1)
    model = SingleTaskGP(X, X)
    for rule in (DuelingEUBO, DuelingJointEUBO, DuelingThompson):
        with pytest.raises(UnsupportedError, match="SingleTaskGP has 2 outputs"):
            rule(model, X[:1])
    with pytest.raises(UnsupportedError, match="SingleTaskGP has 2 outputs"):
        champion(model)


def test_a_list_of_one_model_is_refused_where_its_points_are_wanted() -> None:
    X = points(3, 2).flatten(0, 1)
    members = ModelListGP(SingleTaskGP(X, X[:, :1]))
    for best in (champion, incumbent):
        with pytest.raises(UnsupportedError, match=r"one model, models\[0\]"):
            best(members)


@pytest.mark.parametrize(
    ("epsilon", "plain"),
    [
        (0.0, lambda model: DuelingEIIG(model, X_REF, k=0.3)),
        (1.0, lambda model: DuelingTailedEI(model, X_REF)),
    ],
)
def test_exploring_is_one_of_two_functions(epsilon, plain, skew_model: Model) -> None:
    """Also with pending points, and weighted by the probability of a valid trial."""
    X, pending = points(7, 1, seed=2), torch.tensor([[0.9, 0.1]], dtype=torch.double)
    chosen = DuelingExploringEIIG(skew_model, X_REF, epsilon=epsilon, k=0.3)
    expected = plain(skew_model)
    torch.testing.assert_close(chosen(X), expected(X))
    labels = Validity(torch.arange(3), torch.tensor([True, False, True]))
    feasibility = EPPreferenceGP(X[:3, 0], feedback=[labels])
    torch.testing.assert_close(
        *(FeasibilityWeighted(a, feasibility)(X) for a in (chosen, expected))
    )
    chosen.set_X_pending(pending)
    expected.set_X_pending(pending)
    torch.testing.assert_close(chosen(X), expected(X))


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_exploring_chooses_challengers_one_by_one(epsilon, gaussian_model) -> None:
    """Each at least as good, given those before, as where the search began."""
    rule = DuelingExploringEIIG(gaussian_model, X_REF, epsilon=epsilon)
    bounds, starts = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double(), points(16, 1)
    chosen, values = optimize_acqf(
        rule,
        bounds,
        q=2,
        sequential=True,
        num_restarts=2,
        raw_samples=len(starts),
        ic_generator=lambda *args, **kwargs: starts,
        options={"maxiter": 5},
    )
    for number, value in enumerate(values):
        rule.set_X_pending(chosen[:number] if number else None)
        with torch.no_grad():
            torch.testing.assert_close(rule(chosen[number : number + 1])[0], value)
            assert float(value) >= float(rule(starts).max()) - 1e-9


def test_how_often_it_explores(linear_utility) -> None:
    """Within four standard errors; and equal generators draw the same."""
    model, number = linear_utility(ONE, 1.0, PairwiseProbitLikelihood()), 200

    def drawn() -> list[bool]:
        generator = torch.Generator().manual_seed(5)
        acquisitions = (
            DuelingExploringEIIG(model, X_REF, generator=generator)
            for _ in range(number)
        )
        return [
            isinstance(acquisition.acquisition, DuelingTailedEI)
            for acquisition in acquisitions
        ]

    explores = drawn()
    error = (2 / 9 / number) ** 0.5
    assert abs(sum(explores) / number - 1 / 3) < 4 * error
    assert explores == drawn()


def joint(model: Model, seed: int = 0) -> DuelingJointEUBO:
    generator = torch.Generator().manual_seed(seed)
    return DuelingJointEUBO(model, X_REF, generator)


@pytest.mark.parametrize("q", [1, 3])
def test_joint_improvement_is_a_mean_over_independent_draws(
    linear_utility, monkeypatch: pytest.MonkeyPatch, q: int
) -> None:
    """Within four standard errors of both; of one challenger the closed form too."""
    model, X, count = linear_utility(SEVERAL, 0.7), points(4, q), 2**14
    monkeypatch.setattr(DuelingJointEUBO, "DRAWS", count)
    value = joint(model)(X)
    generator = torch.Generator().manual_seed(7)
    member = torch.randint(len(SEVERAL), (count,), generator=generator)
    noise = torch.randn(count, 2, generator=generator, dtype=torch.double)
    weights = SEVERAL[member] + 0.7 * noise
    gain = torch.einsum("nd,bqd->nbq", weights, X - X_REF).amax(-1).clamp_min(0.0)
    error = gain.std(0) / count**0.5
    assert ((value - gain.mean(0)).abs() < 4 * 2**0.5 * error).all()
    if q == 1:
        exact = DuelingEUBO(model, X_REF)(X)
        assert ((value - exact).abs() < 4 * error).all()


def test_joint_improvement_takes_pending_options_for_its_own(skew_model: Model) -> None:
    X = points(5, 3)
    joint_value, part = joint(skew_model), joint(skew_model)
    part.set_X_pending(X[0, 2:])
    torch.testing.assert_close(part(X[:1, :2]), joint_value(X[:1]))
    torch.testing.assert_close(
        joint(skew_model)(X_REF.expand(1, 2, 2)),
        torch.zeros(1, dtype=torch.double),
        rtol=0.0,
        atol=1e-6,
    )


def test_joint_improvement_has_the_gradient_of_its_draws(skew_model: Model) -> None:
    value = joint(skew_model)
    assert torch.autograd.gradcheck(value, points(3, 2).requires_grad_())
