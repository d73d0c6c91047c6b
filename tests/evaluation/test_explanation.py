"""Drivers, and profiles of the evidence, against closed forms and other optimisers."""

import math
from collections.abc import Callable

import pytest
import scipy.optimize
import torch
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.testing import MockModel
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from linear_operator import to_linear_operator
from torch import Tensor

from botorch_pref import (
    AffineProbitLikelihood,
    BotorchPrefError,
    Comparisons,
    DuelKernel,
    EPPreferenceGP,
    FeedbackError,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
    Validity,
)
from botorch_pref.asking import default_model
from botorch_pref.evaluation import (
    EvidenceProfile,
    evidence_profile,
    feature_effect,
)
from botorch_pref.evaluation.explanation import (
    Dimension,
    changes_from,
    inclusion_probabilities,
    simultaneous_band,
)
from botorch_pref.models import (
    AveragedUtility,
    FullyBayesianEPPreferenceGP,
    PreferenceGP,
    averaged_utility,
)

DOUBLE = torch.float64
ENGINES = [LaplacePreferenceGP, EPPreferenceGP, SkewPreferenceGP]
NOISE = "likelihoods.Comparisons.noise"
GRID = torch.logspace(-2, 2, 5, dtype=DOUBLE)


def people(
    kind: type[PreferenceGP], *, validity: bool = False, duels: int = 120
) -> PreferenceGP:
    """Makes a model of duels among 15 points; noise 2, utilities from -4 to 4.

    With validity, six labels of each point with noise 4, which is known.
    """
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(15, 1, generator=generator, dtype=DOUBLE)
    utility = 4 * (6 * X[:, 0]).sin()
    first = torch.randint(15, (duels,), generator=generator)
    second = (first + torch.randint(1, 15, (duels,), generator=generator)) % 15
    pairs = torch.stack([first, second], dim=-1)
    perceived = utility[pairs] + 2**0.5 * torch.randn(
        duels, 2, generator=generator, dtype=DOUBLE
    )
    pairs = torch.where(perceived[:, :1] > perceived[:, 1:], pairs, pairs.flip(-1))
    indices = torch.arange(15).repeat(6)
    perceived = utility[indices] + 2 * torch.randn(
        90, generator=generator, dtype=DOUBLE
    )
    model = kind(
        X,
        pairs,
        feedback=[Validity(indices, perceived > 0)] if validity else [],
        likelihood={Validity: AffineProbitLikelihood(4.0)} if validity else None,
    )
    model.covar_module.base_kernel.lengthscale = 0.2
    model.covar_module.outputscale = 8.0
    return model


def freeze(model: PreferenceGP, *but: str) -> None:
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in but)


@pytest.mark.slow
def test_noise_and_output_scale_are_confounded() -> None:
    """Only their ratio counts, so that a free output scale makes up for any noise."""
    model, coarse = people(EPPreferenceGP), GRID[::2]
    profile = evidence_profile(model, NOISE, coarse)
    # Fits stop within about 1e-3 nats of their optimum.
    assert float(profile.log_evidence.max() - profile.log_evidence.min()) < 0.02
    assert profile.interval == (float(GRID[0]), float(GRID[-1]))
    assert not profile.identified
    assert "not identified" in str(profile)
    # A prior gives the profile its shape.
    profile = evidence_profile(model, NOISE, coarse, priors=True)
    assert float(profile.log_evidence.max() - profile.log_evidence.min()) > 1
    assert "identified by answers and priors" in str(profile)


@pytest.mark.slow
def test_absolute_feedback_or_a_fixed_scale_identify_the_noise() -> None:
    people_answers = people(EPPreferenceGP, validity=True)
    profile = evidence_profile(people_answers, NOISE, GRID[::2])
    assert profile.identified
    assert profile.interval[0] < 2.0 < profile.interval[1]
    fixed = people(EPPreferenceGP)
    freeze(fixed)
    profile = evidence_profile(fixed, NOISE, GRID)
    assert profile.identified
    assert profile.interval[0] < 2.0 < profile.interval[1]


@pytest.mark.parametrize("kind", [EPPreferenceGP, SkewPreferenceGP])
def test_one_label_in_closed_form(kind: type[PreferenceGP]) -> None:
    """P(valid) = Phi(c / sqrt(noise + outputscale)), which EP has exactly."""
    mean = ConstantMean()
    mean.initialize(constant=1.5)
    model = kind(
        torch.zeros(1, 1, dtype=DOUBLE),
        feedback=[Validity(torch.tensor([0]), torch.tensor([True]))],
        mean_module=mean,
    )
    model.covar_module.outputscale = 2.0
    freeze(model)
    profile = evidence_profile(model, "likelihoods.Validity.noise", GRID)
    expected = torch.special.log_ndtr(1.5 / (GRID + 2).sqrt())
    torch.testing.assert_close(profile.log_evidence, expected, rtol=0, atol=1e-6)
    # A parameter of the prior, likewise; with priors, that of the lengthscale counts
    # and that of the output scale itself does not.
    profile = evidence_profile(model, "covar_module.outputscale", GRID, priors=True)
    kernel = model.covar_module.base_kernel
    log_prior = kernel.lengthscale_prior.log_prob(kernel.lengthscale).sum().detach()
    expected = torch.special.log_ndtr(1.5 / (GRID + 1).sqrt()) + log_prior
    torch.testing.assert_close(profile.log_evidence, expected, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [EPPreferenceGP, LaplacePreferenceGP])
def test_everything_else_is_refitted(kind: type[PreferenceGP]) -> None:
    """Against Brent's method in the one other parameter."""
    model = people(kind, validity=True)
    freeze(model, "covar_module.raw_outputscale")
    values = torch.tensor([0.05, 0.5, 5.0], dtype=DOUBLE)
    profile = evidence_profile(model, NOISE, values, priors=True)
    for value, objective in zip(values, profile.log_evidence, strict=True):
        model.likelihoods["Comparisons"].noise = value

        def negative(log_scale: float) -> float:
            model.covar_module.outputscale = math.exp(log_scale)
            mll = PreferenceMarginalLogLikelihood(model.likelihood, model).train()
            with torch.no_grad():
                return -float(mll(model(*model.train_inputs), model.train_targets))

        best = scipy.optimize.minimize_scalar(
            negative, bounds=(-3, 7), method="bounded", options={"xatol": 1e-3}
        )
        assert abs(float(objective) + best.fun) < 2e-3


def test_the_model_stays_as_it_is() -> None:
    model = people(EPPreferenceGP, duels=8).eval()
    X = torch.rand(3, 1, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    learned = [p.requires_grad for p in model.parameters()]
    mean = model.posterior(X).mean.detach()
    evidence_profile(model, NOISE, torch.tensor([0.1, 1.0, 10.0]))
    assert not model.training
    assert learned == [p.requires_grad for p in model.parameters()]
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(model.posterior(X).mean.detach(), mean)


def synthetic(function: Callable[[Tensor], Tensor]) -> EvidenceProfile:
    values = torch.linspace(-4, 4, 801, dtype=DOUBLE)
    return EvidenceProfile("x", values, function(values))


def test_interval_of_a_quadratic() -> None:
    """A normal's 95 % interval, whose ends lie between points of the grid."""
    profile = synthetic(lambda x: -0.5 * ((x - 0.5) / 0.7).square() - 30)
    assert profile.identified
    assert abs(profile.best - 0.5) < 1e-9
    for end, sign in zip(profile.interval, (-1, 1), strict=True):
        # Linear interpolation of a quadratic at steps of 0.01.
        assert abs(end - (0.5 + sign * 1.959964 * 0.7)) < 1e-4
    assert str(profile).splitlines()[-1].endswith(": identified by answers")


def test_a_one_sided_profile_is_not_identified() -> None:
    profile = synthetic(lambda x: -(x.clamp_min(0.0).square()))
    assert not profile.identified
    assert profile.interval[0] == -4
    assert abs(profile.interval[1] - 1.9207**0.5) < 1e-4


def test_what_has_no_profile_is_refused() -> None:
    model = people(EPPreferenceGP, duels=8)
    with pytest.raises(
        BotorchPrefError, match=r"known are .*covar_module\.outputscale"
    ):
        evidence_profile(model, "noise", GRID)
    with pytest.raises(BotorchPrefError, match="at least three, increasing"):
        evidence_profile(model, NOISE, GRID.flip(0))
    with pytest.raises(BotorchPrefError, match="positive"):
        evidence_profile(model, NOISE, torch.tensor([-1.0, 1.0, 2.0]))
    lengthscale = "covar_module.base_kernel.lengthscale"
    with pytest.raises(RuntimeError, match="out of bounds"):
        evidence_profile(model, lengthscale, torch.tensor([0.001, 1.0, 2.0]))


WEIGHTS = torch.tensor([2.0, -1.0]).double()


class Linear(MockModel):
    """Utility `w' x` with independent weights of known mean and unit variance."""

    def __init__(self) -> None:
        super().__init__(None)

    def posterior(self, X: Tensor, **_: object) -> GPyTorchPosterior:
        covariance = to_linear_operator(X @ X.T)
        return GPyTorchPosterior(MultivariateNormal(X @ WEIGHTS, covariance))


@pytest.mark.parametrize("feature", [0, 1])
def test_the_effect_of_a_linear_utility_is_its_weight(feature: int) -> None:
    generator = torch.Generator().manual_seed(0)
    items = torch.rand(50, 2, generator=generator).double() * 10
    effect = feature_effect(Linear(), items, ("a", "b"), feature, generator)
    assert effect.name == "ab"[feature]
    ends = items[:, feature].quantile(torch.tensor([0.05, 0.95]).double())
    assert torch.allclose(effect.values[[0, -1]], ends)
    moved = effect.values - effect.values[0]
    assert torch.allclose(effect.mean, moved * WEIGHTS[feature])
    assert torch.allclose(effect.deviation, moved, atol=1e-6)


def test_the_effect_under_an_ensemble_is_that_of_the_mixture_of_its_members() -> None:
    items = torch.rand(12, 2, generator=torch.Generator().manual_seed(0)).double()
    pairs = torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7]])
    ensemble = FullyBayesianEPPreferenceGP(items, pairs)
    single = EPPreferenceGP(items, pairs)
    spread = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.double)
    samples = {
        key: value.detach() + spread.reshape(-1, *[1] * value.dim())
        for key, value in single.named_parameters()
    }
    ensemble.load_mcmc_samples(samples)

    def effect(model: PreferenceGP) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        mixture_effect = feature_effect(model.eval(), items, ("a", "b"), 0, generator)
        return mixture_effect.mean, mixture_effect.deviation.square()

    members = []
    for i in range(len(spread)):
        single.load_state_dict({k: v[i] for k, v in samples.items()}, strict=False)
        members.append(effect(single))
    means, variances = map(torch.stack, zip(*members, strict=True))
    mean, variance = effect(ensemble)
    torch.testing.assert_close(mean, means.mean(0), rtol=1e-6, atol=1e-7)
    second = (variances + means.square()).mean(0)
    want = second - means.mean(0).square()
    torch.testing.assert_close(variance, want, rtol=1e-5, atol=1e-7)


NUM_DRAWS = 200_000


def test_a_band_of_places_that_move_together_is_their_intervals() -> None:
    normal = torch.randn(NUM_DRAWS, 1, generator=torch.Generator().manual_seed(0))
    draws = normal.double() @ torch.tensor([[1.0, -2.0, 0.5]]).double()
    lower, upper = simultaneous_band(draws, 0.95)
    expected = 1.96 * torch.tensor([1.0, 2.0, 0.5]).double()
    # The error of a quantile of draws is 2.7 times their deviation over their root.
    tolerance = 5 * 2.7 * 2 / NUM_DRAWS**0.5
    for ends in (-lower, upper):
        assert (ends - expected).abs().max() < tolerance, ends


def test_a_band_of_independent_places_is_wider_by_a_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(NUM_DRAWS, 6, generator=generator).double()
    lower, upper = simultaneous_band(draws, 0.9)
    # All six are inside with the probability 0.9 if each is with its sixth root.
    end = torch.special.ndtri(torch.tensor((1 + 0.9 ** (1 / 6)) / 2))
    for ends in (-lower, upper):
        assert (ends - end).abs().max() < 5 * 6 / NUM_DRAWS**0.5, ends


def test_a_band_of_skewed_curves_holds_as_many_as_it_says() -> None:
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(2 * NUM_DRAWS, 8, generator=generator).double()
    curves = (0.5 * steps).cumsum(-1).exp()
    drawn, fresh = curves.chunk(2)
    lower, upper = simultaneous_band(drawn, 0.95)
    share = float(((fresh >= lower) & (fresh <= upper)).all(-1).double().mean())
    # Both halves have the error of a share.
    assert abs(share - 0.95) < 4 * (2 * 0.95 * 0.05 / NUM_DRAWS) ** 0.5, share
    # The skew is that of the quantiles: upwards the band is wider.
    middle = drawn.median(0).values
    assert (upper - middle > 2 * (middle - lower)).all()


CHOICE = [2, 3, 4]
"""Columns of a choice behind two numbers."""


def duels_of_the_first_number(number: int) -> tuple[Tensor, Comparisons]:
    """Draws random designs in pairs; the first number alone decides which one wins."""
    generator = torch.Generator().manual_seed(7)
    numbers = torch.rand(2 * number, 2, generator=generator, dtype=DOUBLE)
    options = torch.randint(3, (2 * number,), generator=generator)
    X = torch.cat([numbers, torch.eye(3, dtype=DOUBLE)[options]], dim=-1)
    first, second = torch.arange(2 * number).view(-1, 2).unbind(-1)
    wins = (X[first, 0] > X[second, 0]).unsqueeze(-1)
    pairs = torch.stack([first, second], dim=-1)
    return X, Comparisons(torch.where(wins, pairs, pairs.flip(-1)))


def with_hyperparameters(kernel: DuelKernel, seed: int, inputs: list[int]) -> None:
    """Draws hyper-parameters of numbers 0 and 1 and the choice 2; keeps some of them.

    ``inputs`` are those that the kernel has.
    """
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(6, generator=generator, dtype=DOUBLE)
    base, numbers = kernel.base_kernel, [i for i in inputs if i < 2]
    kernel.outputscale = float((2 + 0.5 * normal[5]).exp())
    base.raw_relevance.data = normal[inputs]
    if numbers:
        base.lengthscale = (0.5 * normal[3:5] - 1)[numbers].exp().unsqueeze(0)


def test_inclusion_compares_evidences_with_those_of_models_without_an_input() -> None:
    X, duels = duels_of_the_first_number(8)

    def model_of(seed: int, inputs: list[int]) -> PreferenceGP:
        columns = [c for i in inputs for c in ([i] if i < 2 else CHOICE)]
        places = [columns.index(c) for c in CHOICE] if 2 in inputs else []
        kernel = DuelKernel(len(columns), categorical=[places] if places else ())
        with_hyperparameters(kernel, seed, inputs)
        return EPPreferenceGP(X[:, columns], duels, covar_module=kernel).eval()

    members = [model_of(seed, [0, 1, 2]) for seed in range(4)]
    evidences = torch.stack([member.log_evidence() for member in members]).detach()
    # What sweeps leave is of second order: the tolerance, 1e-7, beside some nats.
    values = torch.stack([member.evidence_value() for member in members])
    assert torch.allclose(values, evidences, rtol=1e-6), "no gradient, the same value"
    averaged = AveragedUtility(members[0], members)
    stated = inclusion_probabilities(averaged, [[0], [1], CHOICE, [4], [1, 3]])
    others = [[1, 2], [0, 2], [0, 1], [0, 1], [0]]
    for probability, inputs in zip(stated, others, strict=True):
        without = [model_of(seed, inputs).log_evidence() for seed in range(4)]
        ratios = (torch.stack(without).detach() - evidences).exp()
        expected = 1 / (1 + float(ratios.mean()))
        assert probability == pytest.approx(expected, abs=1e-5), inputs
    after = torch.stack([member.log_evidence() for member in members])
    assert torch.allclose(after, evidences, rtol=0, atol=1e-9), "members stay"


def test_what_decides_all_answers_matters_and_the_rest_hardly_does() -> None:
    X, duels = duels_of_the_first_number(40)
    model = default_model(X, duels, categorical=[CHOICE])
    averaged = averaged_utility(model)[0]
    first, second, choice = inclusion_probabilities(averaged, [[0], [1], CHOICE])
    assert first > 0.99, "40 answers of the first number's order leave no doubt"
    assert max(second, choice) < 0.5, "what decides nothing gets less probable"


def test_nothing_is_said_of_inputs_without_relevance() -> None:
    X, duels = duels_of_the_first_number(4)
    stationary = EPPreferenceGP(X, duels).eval()
    averaged = AveragedUtility(stationary, [stationary])
    assert math.isnan(inclusion_probabilities(averaged, [[0]])[0])
    only = EPPreferenceGP(X[:, :1], duels, covar_module=DuelKernel(1)).eval()
    (probability,) = inclusion_probabilities(AveragedUtility(only, [only]), [[0]])
    assert math.isnan(probability), "a kernel without any input is no kernel"


def test_nothing_is_said_of_inputs_that_another_kernel_depends_on() -> None:
    X, duels = duels_of_the_first_number(4)
    numbers = X[:, :2]

    def stated(kernel: Kernel) -> list[float]:
        model = EPPreferenceGP(numbers, duels, covar_module=kernel).eval()
        return inclusion_probabilities(AveragedUtility(model, [model]), [[0], [1]])

    of_first = ScaleKernel(RBFKernel(active_dims=[0]))
    first, second = stated(DuelKernel(2) + of_first.double())
    assert math.isnan(first), "without its relevance the first number still counts"
    assert 0 < second < 1, "no other kernel depends on the second number"
    both = stated(DuelKernel(2) + DuelKernel(2))
    assert all(0 < p < 1 for p in both), "without relevances a number counts nowhere"


def test_changes_are_those_from_the_design_under_all_members_alike() -> None:
    """Of two members whose slopes differ; noises, and so units, are equal."""
    X, duels = duels_of_the_first_number(4)
    members = []
    for lengthscale in (0.3, 3.0):
        kernel = DuelKernel(1, lengthscale=lengthscale)
        members.append(EPPreferenceGP(X[:, :1], duels, covar_module=kernel).eval())
    averaged = AveragedUtility(members[0], members)
    design = torch.tensor([[0.9]], dtype=DOUBLE)
    moved = torch.tensor([[0.1], [0.9], [0.5]], dtype=DOUBLE)
    changes = changes_from(averaged, design, moved, 0.95)
    joint = [m.posterior(torch.cat([design, moved])) for m in members]
    means = torch.stack([p.mean.squeeze(-1).detach() for p in joint])
    expected = (means[:, 1:] - means[:, :1]).mean(0)
    torch.testing.assert_close(changes.mean, expected)
    assert changes.mean[0] < changes.mean[2] < 0, "larger numbers won"
    assert torch.stack(changes)[:, 1].tolist() == [0, 0, 0], "the design itself"
    generator = torch.Generator().manual_seed(0)
    inside = []
    for mean, posterior in zip(means, joint, strict=True):
        covariance = posterior.covariance_matrix.detach()[[0, 1, 3]][:, [0, 1, 3]]
        normal = torch.randn(20_000, 3, generator=generator, dtype=DOUBLE)
        drawn = mean[[0, 1, 3]] + normal @ torch.linalg.cholesky(covariance).T
        curves = drawn[:, 1:] - drawn[:, :1]
        ends = changes.lower[[0, 2]], changes.upper[[0, 2]]
        inside.append(((curves > ends[0]) & (curves < ends[1])).all(-1).double().mean())
    share = float(torch.stack(inside).mean())
    # The band is of 2,048 draws of each member: 4 errors of a share of them.
    assert abs(share - 0.95) < 4 * (0.95 * 0.05 / 4096) ** 0.5, share


def test_columns_that_a_kernel_selects_are_counted_as_points_have_them() -> None:
    X, duels = duels_of_the_first_number(8)
    columns = torch.cat([X[:, 1:2], torch.zeros_like(X[:, :1]), X[:, :1]], dim=-1)

    def stated(active: list[int], points: Tensor) -> list[float]:
        kernel = DuelKernel(2)
        with_hyperparameters(kernel, 0, [0, 1])
        kernel.active_dims = torch.tensor(active)
        model = EPPreferenceGP(points, duels, covar_module=kernel).eval()
        averaged = AveragedUtility(model, [model])
        return inclusion_probabilities(averaged, [[i] for i in range(points.shape[1])])

    first, second = stated([0, 1], X[:, :2])
    assert first > second, "the first number decides all answers"
    later, unused, sooner = stated([2, 0], columns)
    assert (sooner, later) == pytest.approx((first, second)), "columns have moved"
    assert math.isnan(unused), "no kernel has the middle column"
    beside = DuelKernel(1) + DuelKernel(1)
    beside.kernels[0].active_dims = torch.tensor([0])
    beside.kernels[1].active_dims = torch.tensor([1])
    model = EPPreferenceGP(X[:, :2], duels, covar_module=beside).eval()
    for chance in inclusion_probabilities(AveragedUtility(model, [model]), [[0], [1]]):
        assert math.isnan(chance), "a kernel without its only input is no kernel"


def test_inclusion_is_of_averages_alone() -> None:
    X, duels = duels_of_the_first_number(4)
    with pytest.raises(FeedbackError, match=r"model is of the class EPPreferenceGP"):
        inclusion_probabilities(default_model(X[:, :2], duels), [[0]])  # type: ignore[arg-type]


def test_an_input_that_a_kernel_leaves_out_changes_nothing() -> None:
    X, duels = duels_of_the_first_number(4)
    kernel = ScaleKernel(RBFKernel(active_dims=[0])).double()
    model = EPPreferenceGP(X[:, :2], duels, covar_module=kernel).eval()
    design = X[:1, :2]
    moved = design + torch.tensor([[0.0, 0.1], [0.0, 0.3], [0.2, 0.1]], dtype=DOUBLE)
    mean, lower, upper = changes_from(model, design, moved, 0.95)
    # A utility that does not depend on the second number is the same to rounding.
    for ends in (mean, lower, upper):
        assert ends[:2].abs().max() < 1e-9, "the second number changes nothing"
    assert lower[2] < mean[2] < upper[2], "the first number has a band"


def test_values_of_a_parameter_are_even_on_its_scale() -> None:
    rate, dose = Dimension("rate", (0.01, 100.0), log=True), Dimension("dose", (14, 22))
    assert rate.values(5) == pytest.approx([0.01, 0.1, 1, 10, 100])
    assert dose.values(5) == pytest.approx([14, 16, 18, 20, 22])
    # One's own value takes the place of one that is a thousandth of the range away.
    assert rate.values(5, reference=1.005) == pytest.approx([0.01, 0.1, 1.005, 10, 100])
    assert rate.values(5, reference=1.05) == pytest.approx(
        [0.01, 0.1, 1, 1.05, 10, 100]
    )
    assert Dimension("shots", (1, 4), whole=True).values(9) == [1, 2, 3, 4]
