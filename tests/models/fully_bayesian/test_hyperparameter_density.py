"""The density of hyper-parameters against quadrature and finite differences."""

import math

import pytest
import torch
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.constraints import Interval, LessThan
from gpytorch.kernels import Kernel, LinearKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from gpytorch.priors import GammaPrior, LogNormalPrior, NormalPrior
from torch import Tensor

from botorch_pref import (
    AffineProbitLikelihood,
    BotorchPrefError,
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    OrdinalProbitLikelihood,
    OrdinalRatings,
    PairwiseProbitLikelihood,
    PreferenceMarginalLogLikelihood,
    Validity,
)
from botorch_pref.errors import PrecisionError
from botorch_pref.models import PreferenceGP, hyperparameter_density
from botorch_pref.models.hyperparameter_density import HyperparameterDensity

POINTS = torch.tensor([[0.1], [0.3], [0.5], [0.9]], dtype=torch.float64)
PAIRS = torch.tensor([[1, 0], [2, 1], [3, 0], [2, 3]])
TIES = Comparisons(PAIRS, ties=torch.tensor([[0, 3]]))
LEVELS = OrdinalRatings(torch.tensor([0, 1, 3]), torch.tensor([0, 1, 2]), num_levels=3)


def fixed_kernel() -> Kernel:
    return RBFKernel().double().requires_grad_(False)


def outputscale_kernel() -> Kernel:
    kernel = ScaleKernel(fixed_kernel(), outputscale_prior=GammaPrior(2.0, 2.0))
    return kernel.double()


def kernel_with_bounds(constraint: Interval, prior: NormalPrior) -> Kernel:
    kernel = LinearKernel(variance_prior=prior, variance_constraint=constraint)
    return kernel.double()


def threshold_model() -> PreferenceGP:
    likelihood = PairwiseProbitLikelihood(
        tie_threshold=0.4, tie_threshold_prior=GammaPrior(2.0, 3.0)
    )
    return EPPreferenceGP(
        POINTS, TIES, likelihood=likelihood, covar_module=fixed_kernel()
    )


def noise_model() -> PreferenceGP:
    likelihood = PairwiseProbitLikelihood(noise_prior=LogNormalPrior(0.0, 0.5))
    return LaplacePreferenceGP(
        POINTS, PAIRS, likelihood=likelihood, covar_module=fixed_kernel()
    )


def of_kernel(kernel: Kernel) -> PreferenceGP:
    return EPPreferenceGP(POINTS, PAIRS, covar_module=kernel)


# A model with few learned numbers, and the mass of its prior on where they may be.
LONG = 1 - LogNormalPrior(math.sqrt(2), math.sqrt(3)).cdf(torch.tensor(0.025)).item()
BETWEEN = 0.5 * (math.erf(2 / math.sqrt(2)) + math.erf(1 / math.sqrt(2)))
CASES = {
    "output scale": (lambda: of_kernel(outputscale_kernel()), 1.0),
    "lengthscale above a bound": (
        lambda: of_kernel(get_covar_module_with_dim_scaled_prior(1).double()),
        LONG,
    ),
    "variance in an interval": (
        lambda: of_kernel(
            kernel_with_bounds(Interval(1.0, 4.0, transform=None), NormalPrior(3, 1))
        ),
        BETWEEN,
    ),
    "variance below a bound": (
        lambda: of_kernel(
            kernel_with_bounds(LessThan(3.0, transform=None), NormalPrior(3, 1))
        ),
        0.5,
    ),
    "tie threshold": (threshold_model, 1.0),
    "noise": (noise_model, 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_priors_keep_their_mass(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without evidence the density over a free number integrates to the prior's mass.

    The trapezoidal rule, on a smooth density that is below 1e-8 at both ends.
    """
    build, mass = CASES[case]
    model = build()
    zero = torch.zeros((), dtype=torch.float64)
    monkeypatch.setattr(type(model), "log_evidence", lambda self: zero)
    density = HyperparameterDensity(model)
    grid = torch.linspace(-22, 22, 221, dtype=torch.float64)
    free = grid.unsqueeze(-1).requires_grad_()
    heights = torch.stack([density.log_density(u) for u in free]).detach().exp()
    assert heights[0] + heights[-1] < 1e-8
    total = heights.sum() * (grid[1] - grid[0])
    assert total.item() == pytest.approx(mass, abs=1e-6)


def test_the_volume_of_a_prior_on_numbers_that_depend_on_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cut point is the sum of gaps, so that the volume is the product of gaps."""
    prior = NormalPrior(torch.tensor([-1.0, 0.5, 1.0]).double(), 0.7)
    levels = OrdinalRatings(torch.tensor([0, 1, 3]), torch.tensor([0, 1, 3]), 4)
    model = EPPreferenceGP(
        POINTS,
        feedback=[levels],
        likelihood=OrdinalProbitLikelihood(4, cutpoints_prior=prior),
        mean_module=ConstantMean().requires_grad_(False),
        covar_module=fixed_kernel(),
    )
    zero = torch.zeros((), dtype=torch.float64)
    monkeypatch.setattr(EPPreferenceGP, "log_evidence", lambda self: zero)
    free = torch.tensor([-0.8, 0.3, -0.4], dtype=torch.float64)
    gaps = free[1:].exp()
    cutpoints = torch.stack([free[0], free[0] + gaps[0], free[0] + gaps.sum()])
    expected = prior.log_prob(cutpoints).sum() + gaps.log().sum()
    density = HyperparameterDensity(model)
    torch.testing.assert_close(density.log_density(free.requires_grad_()), expected)


def everything() -> PreferenceGP:
    likelihood = {
        Comparisons: PairwiseProbitLikelihood(
            tie_threshold=0.4,
            tie_threshold_prior=GammaPrior(2.0, 3.0),
            noise_prior=LogNormalPrior(0.0, 1.0),
        ),
        Validity: AffineProbitLikelihood(noise_prior=LogNormalPrior(0.0, 1.0)),
        OrdinalRatings: OrdinalProbitLikelihood(
            3, cutpoints_prior=NormalPrior(torch.zeros(2).double(), 2.0)
        ),
    }
    valid = Validity(torch.tensor([0, 2]), torch.tensor([False, True]))
    mean = ConstantMean(constant_prior=NormalPrior(0.0, 2.0)).double()
    return EPPreferenceGP(
        POINTS, TIES, feedback=[valid, LEVELS], likelihood=likelihood, mean_module=mean
    )


@pytest.mark.parametrize("build", [everything, noise_model])
def test_gradient_is_that_of_finite_differences(build) -> None:
    density = HyperparameterDensity(build())
    free = (density.start + 0.3).requires_grad_()
    torch.autograd.gradcheck(density.log_density, free, eps=1e-4, atol=2e-4)


def test_density_is_the_objective_of_a_fit_and_the_volume() -> None:
    """All parameters but the mean are logarithms here, as far as their priors see."""
    model = EPPreferenceGP(POINTS, PAIRS)
    density = HyperparameterDensity(model)
    values = []
    for shift in (0.0, 0.5):
        free = (density.start + shift).requires_grad_()
        for name, raw in density.parameters_of(free).items():
            model.get_parameter(name).data = raw.detach()
        mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
        scale = model.covar_module.outputscale
        lower = model.covar_module.base_kernel.raw_lengthscale_constraint.lower_bound
        lengthscale = model.covar_module.base_kernel.lengthscale - lower
        volume = scale.log().sum() + lengthscale.log().sum()
        expected = mll.forward(model.train()(*model.train_inputs), None) + volume
        values.append((density.log_density(free).item(), expected.item()))
    for value, expected in values:
        assert value == pytest.approx(expected, abs=1e-6)


def test_the_model_stays_as_it_is() -> None:
    model = everything()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    density = HyperparameterDensity(model)
    torch.testing.assert_close(
        density.parameters_of(density.start),
        {n: p for n, p in before.items() if model.get_parameter(n).requires_grad},
    )
    density.log_density((density.start + 1).requires_grad_())
    for name, value in before.items():
        assert torch.equal(model.get_parameter(name), value)


def shared_prior(model: PreferenceGP) -> PreferenceGP:
    def product(module: Kernel) -> Tensor:
        return module.outputscale * module.base_kernel.lengthscale.squeeze()

    model.covar_module.register_prior("product_prior", GammaPrior(2, 1), product)
    return model


def two_priors(model: PreferenceGP) -> PreferenceGP:
    model.covar_module.register_prior("again", GammaPrior(2, 1), "outputscale")
    return model


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: EPPreferenceGP(POINTS, TIES),
            r"No prior on likelihoods\.Comparisons\.raw_tie_threshold: .*register",
        ),
        (
            lambda: EPPreferenceGP(
                POINTS,
                PAIRS,
                covar_module=ScaleKernel(RBFKernel()),
            ),
            r"No prior on covar_module\.raw_outputscale, .*base_kernel\.raw_length",
        ),
        (
            lambda: shared_prior(EPPreferenceGP(POINTS, PAIRS)),
            r"covar_module\.product_prior is on 1 numbers that depend on .* and ",
        ),
        (
            lambda: two_priors(EPPreferenceGP(POINTS, PAIRS)),
            r"again is a second prior on covar_module\.raw_outputscale",
        ),
        (lambda: of_kernel(fixed_kernel()), "nothing to sample"),
        (
            lambda: EPPreferenceGP(POINTS.expand(2, 4, 1), PAIRS),
            r"batch shape \(2,\)",
        ),
    ],
)
def test_densities_that_are_none_are_refused(build, message: str) -> None:
    with pytest.raises(BotorchPrefError, match=message):
        HyperparameterDensity(build())


def test_a_prior_on_a_fixed_parameter_is_a_constant() -> None:
    model = noise_model()
    model.likelihood.raw_noise.requires_grad_(False)
    model.covar_module.raw_lengthscale.requires_grad_(False)
    model.mean_module = ConstantMean(constant_prior=NormalPrior(0.0, 2.0)).double()
    density = HyperparameterDensity(model)
    assert list(density.parameters_of(density.start)) == ["mean_module.raw_constant"]


def batch_of_vectors() -> tuple[HyperparameterDensity, Tensor]:
    """Makes a density of lengthscale and threshold, and vectors, ``5 x 2``."""
    kernel = RBFKernel(lengthscale_prior=GammaPrior(3.0, 6.0)).double()
    likelihood = PairwiseProbitLikelihood(
        tie_threshold=0.4, tie_threshold_prior=GammaPrior(2.0, 3.0)
    )
    model = EPPreferenceGP(POINTS, TIES, likelihood=likelihood, covar_module=kernel)
    density = HyperparameterDensity(model)
    steps = torch.linspace(-1, 1, 5, dtype=torch.float64).unsqueeze(-1)
    return density, density.start.detach() + steps


@pytest.mark.parametrize("limit", [2, 5])
def test_a_batch_has_the_densities_and_gradients_of_its_vectors(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    density, free = batch_of_vectors()
    monkeypatch.setattr(hyperparameter_density, "MOST_ENTRIES", limit * 5**2)
    apart = [density.evaluate(vector) for vector in free]
    expected, slopes = map(torch.stack, zip(*apart, strict=True))
    values, gradients = density.evaluate(free)
    # An evidence has an error of second order in the tolerance of EP: 1e-7 with a
    # gradient, and its root without.
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(density.values(free), expected, rtol=0, atol=1e-7)
    torch.testing.assert_close(gradients, slopes, rtol=0, atol=1e-6)


def test_one_vector_without_evidence_leaves_that_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    density, free = batch_of_vectors()
    expected, _ = density.evaluate(free)
    evidence = EPPreferenceGP.log_evidence
    worst = density.parameters_of(free[3])["covar_module.raw_lengthscale"]

    def fails(model: EPPreferenceGP) -> Tensor:
        if bool((model.covar_module.raw_lengthscale == worst).any()):
            raise PrecisionError("Rounding leaves no posterior of the rows.")
        return evidence(model)

    monkeypatch.setattr(EPPreferenceGP, "log_evidence", fails)
    values, gradients = density.evaluate(free)
    assert values[3] == -torch.inf, "the density without evidence is not zero"
    assert not gradients[3].any(), "it has a gradient"
    places = [0, 1, 2, 4]
    torch.testing.assert_close(values[places], expected[places], rtol=0, atol=1e-10)
