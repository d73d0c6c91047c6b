"""The errata of `docs/logbook/errata.md`: what the sources print, and what holds.

Each test computes the truth by another way than the corrected formula: automatic
differentiation, quadrature, brute force.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from scipy import integrate, stats
from torch import Tensor
from torch.special import digamma, ndtr, polygamma
from truths import duel_values

from botorch_pref import (
    DuelingEIIG,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PairwiseProbitLikelihood,
)

DOUBLE = {"dtype": torch.double}


def phi(z: Tensor) -> Tensor:
    return torch.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)


def derivative(function: Callable[[Tensor], Tensor], point: float, order: int) -> float:
    """Differentiates a function of a number automatically."""
    x = torch.tensor(point, **DOUBLE, requires_grad=True)
    value = function(x)
    for _ in range(order):
        (value,) = torch.autograd.grad(value, x, create_graph=True)
    return value.item()


# The note on expectation propagation.


def test_note_mean_of_a_truncated_normal() -> None:
    mu, sigma = 0.4, 1.3
    beta = -mu / sigma
    ratio = stats.norm.pdf(beta) / stats.norm.cdf(beta)
    density = stats.norm(mu, sigma).pdf
    mass, _ = integrate.quad(density, -20, 0)
    mean = integrate.quad(lambda v: v * density(v), -20, 0)[0] / mass
    assert mu - ratio * sigma == pytest.approx(mean, abs=1e-8)
    assert mu + ratio * sigma > 0 > mean  # as printed, outside of the half line


PRIOR = torch.tensor([[1.0, 0.8, -0.5], [0.8, 1.2, -0.3], [-0.5, -0.3, 0.9]], **DOUBLE)


def recursion(sign: float, sweeps: int) -> tuple[Tensor, Tensor]:
    """Runs the note's recursion for `v < 0`: its plus, or a minus."""
    mean, precision = torch.zeros(3, **DOUBLE), torch.zeros(3, **DOUBLE)
    for _ in range(sweeps):
        for j in range(3):
            covar = torch.linalg.inv(PRIOR.inverse() + precision.diag())
            mu = covar @ (precision * mean)
            cavity = 1 / (1 / covar[j, j] - precision[j])
            bar = cavity * (mu[j] / covar[j, j] - precision[j] * mean[j])
            beta = -bar / cavity.sqrt()
            ratio = phi(beta) / ndtr(beta)
            mean[j] = bar + sign * cavity.sqrt() / (beta + ratio)
            precision[j] = 1 / ((1 / (beta * ratio + ratio**2) - 1) * cavity)
    covar = torch.linalg.inv(PRIOR.inverse() + precision.diag())
    return covar @ (precision * mean), mean


def test_note_site_means() -> None:
    assert recursion(1.0, 30)[0].isnan().all()
    mean, _ = recursion(-1.0, 30)
    # Means of the truncated normal by its own draws; EP is not exact.
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(400_000, 3, generator=generator, **DOUBLE)
    draws = draws @ torch.linalg.cholesky(PRIOR).mT
    truncated = draws[(draws < 0).all(-1)]
    assert torch.allclose(mean, truncated.mean(0), atol=0.02)


def test_note_prior_mean() -> None:
    # With Sigma0^-1 mu for Sigma0^-1 mu0 the mean is that of the sites, at any prior.
    _, sites = recursion(-1.0, 30)
    precision = torch.tensor([0.7, 1.1, 0.4], **DOUBLE)
    joint = PRIOR.inverse() + precision.diag()
    printed = torch.linalg.solve(joint - PRIOR.inverse(), precision * sites)
    assert torch.allclose(printed, sites)
    right = torch.linalg.solve(joint, precision * sites)
    assert (right - sites).abs().min() > 0.1


# The paper on preferential optimisation with SkewGP.


def one_duel(output_scale: float) -> EPPreferenceGP:
    model = EPPreferenceGP(
        torch.tensor([[0.2], [0.8]], **DOUBLE),
        torch.tensor([[0, 1]]),
        likelihood=PairwiseProbitLikelihood(noise=0.5),
    )
    model.covar_module.outputscale = output_scale
    return model.eval()


def test_skewgp_sign_of_the_information_gain() -> None:
    model, x = one_duel(2.0), torch.tensor([[[0.35]]], **DOUBLE)
    reference = torch.tensor([[0.2]], **DOUBLE)
    posterior = model.posterior(torch.cat([x[0], reference]))
    mean = (posterior.mean[:1] - posterior.mean[1:]).detach()
    covar = posterior.covariance_matrix.detach()
    spread = (covar[0, 0] + covar[1, 1] - 2 * covar[0, 1]).sqrt().item()
    # A utility whose difference between these points has that law.
    law = mean.unsqueeze(0), spread, torch.tensor([[1.0], [0.0]], **DOUBLE)
    gain, _ = duel_values.information(ndtr, *law)
    sum_of_both, _ = duel_values.probable_information(0.5)(ndtr, *law)
    with torch.no_grad():
        value = DuelingEIIG(model, reference, k=0.5)(x).item()
        # With a smaller k it explores more; with the printed sign it would not.
        far = torch.tensor([[[0.5]]], **DOUBLE)
        near = torch.tensor([[[0.2001]]], **DOUBLE)
        explores = DuelingEIIG(model, reference, k=1e-3)
        assert explores(far) > explores(near)
    assert value == pytest.approx(sum_of_both, abs=2e-4)
    assert gain > 0.01


def test_skewgp_scale_in_proposition_1() -> None:
    # One duel: the mean is that of a half normal, cov(f, v) phi(0) / (Phi(0) sd(v)).
    for scale in (1.0, 4.0):
        model = one_duel(scale)
        x = torch.tensor([[0.3]], **DOUBLE)
        kernel = model.covar_module
        with torch.no_grad():
            rows = (
                kernel(x, model.datapoints).to_dense()
                @ torch.tensor([1.0, -1.0]).double()
            )
            prior = kernel(model.datapoints).to_dense()
            gamma = prior[0, 0] + prior[1, 1] - 2 * prior[0, 1] + 1
            truth = model.posterior(x).mean.item()  # EP of one row is exact
        half_normal = math.sqrt(2 / math.pi) * gamma.sqrt()
        right = (rows / gamma * half_normal).item()
        assert right == pytest.approx(truth, abs=1e-8)
        # As printed, times the prior's deviation, it is right where that is 1.
        printed = kernel.outputscale.sqrt().item() * right
        assert printed == pytest.approx(scale**0.5 * truth)


# The report on pairwise judgements and absolute ratings. Away from sqrt(2) sigma = 1
# the printed derivatives of the Beta likelihood lack factors.

GAP, NU, ANSWER = 0.7, 5.0, 0.62


def beta_log_density(gap: Tensor, sigma: Tensor | float) -> Tensor:
    mean = ndtr(gap / (math.sqrt(2) * sigma))
    alpha, beta = NU * mean, NU * (1 - mean)
    norm = torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)
    y = math.log(ANSWER), math.log1p(-ANSWER)
    return (alpha - 1) * y[0] + (beta - 1) * y[1] - norm


def parts(sigma: float) -> tuple[float, float, float, float]:
    """Computes density at z, slope in alpha, psi'(alpha), psi'(beta)."""
    z = torch.tensor(GAP / (math.sqrt(2) * sigma), **DOUBLE)
    alpha, beta = NU * ndtr(z), NU * (1 - ndtr(z))
    slope = math.log(ANSWER / (1 - ANSWER)) - digamma(alpha) + digamma(beta)
    trigamma = polygamma(1, alpha).item(), polygamma(1, beta).item()
    return phi(z).item(), slope.item(), *trigamma


@pytest.mark.parametrize("sigma", [math.sqrt(0.5), 1.3])
def test_report_derivatives_of_the_beta_likelihood(sigma: float) -> None:
    """Equations 75, 76, 81, 93, 94, 101, 105, 106, 111, 123, 124 and 129."""
    density, slope, *trigammas = parts(sigma)
    factor, gap = 1 / (math.sqrt(2) * sigma), torch.tensor(GAP, **DOUBLE)
    mean = derivative(lambda f: ndtr(f / (math.sqrt(2) * sigma)), GAP, 1)
    first, second = (
        derivative(lambda f: beta_log_density(f, sigma), GAP, order) for order in (1, 2)
    )
    mean_in_sigma = derivative(lambda s: ndtr(gap / (math.sqrt(2) * s)), sigma, 1)
    in_sigma = derivative(lambda s: beta_log_density(gap, s), sigma, 1)

    def bend(trigammas: float) -> float:
        curve = density * trigammas * factor**2
        curve += GAP / (2 * NU * sigma**2) * slope * factor
        return -(NU**2) * density * curve

    assert density * factor == pytest.approx(mean)
    assert NU * density * slope * factor == pytest.approx(first)
    assert bend(sum(trigammas)) == pytest.approx(second)
    assert -GAP / sigma * density * factor == pytest.approx(mean_in_sigma)
    assert -NU * GAP / sigma * density * slope * factor == pytest.approx(in_sigma)
    # As printed, with trigamma(alpha) twice, and without the factors.
    assert abs(bend(2 * trigammas[0]) - second) > 0.1 * abs(second)
    if sigma == 1.3:
        for printed, truth in ((density, mean), (NU * density * slope, first)):
            assert abs(printed / truth - math.sqrt(2) * 1.3) < 1e-9
        printed = -GAP / sigma * density * slope
        assert abs(printed / in_sigma - math.sqrt(2) * 1.3 / NU) < 1e-9


def test_report_third_derivative_of_the_probit_likelihood() -> None:
    """Equation 65."""
    sigma, z = 0.8, GAP / (math.sqrt(2) * 0.8)
    density, cdf = stats.norm.pdf(z), stats.norm.cdf(z)
    truth = derivative(
        lambda f: torch.special.log_ndtr(f / (math.sqrt(2) * sigma)), GAP, 3
    )

    def printed(power: int) -> float:
        terms = density / cdf * (1 - z**2) - 3 * z * (density / cdf) ** 2
        return -(terms - 2 * density**3 / cdf**power) / (2 * math.sqrt(2) * sigma**3)

    assert printed(3) == pytest.approx(truth)
    assert abs(printed(2) - truth) > 0.1 * abs(truth)


def test_report_sign_of_the_damping() -> None:
    """Equation 22: damping makes the step shorter, and uphill, with a plus."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(3, 3, generator=generator, **DOUBLE)
    precision = torch.linalg.inv(root @ root.mT + torch.eye(3))
    rows = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]], **DOUBLE)

    def objective(f: Tensor) -> Tensor:
        return torch.special.log_ndtr(rows @ f).sum() - 0.5 * f @ precision @ f

    f = torch.tensor([-1.0, 0.5, 2.0], **DOUBLE, requires_grad=True)
    likelihood = torch.special.log_ndtr(rows @ f).sum()
    (slope,) = torch.autograd.grad(likelihood, f, create_graph=True)
    W = -torch.autograd.functional.hessian(
        lambda g: torch.special.log_ndtr(rows @ g).sum(), f
    )
    f, slope, start = f.detach(), slope.detach(), objective(f).detach()

    def step(damping: float) -> Tensor:
        damped = W + damping * torch.eye(3)
        return torch.linalg.solve(precision + damped, damped @ f + slope)

    assert objective(step(20.0)) > start
    assert objective(step(-20.0)) < start  # as printed
    assert (step(20.0) - f).norm() < (step(0.0) - f).norm()


def test_report_implicit_term_of_the_evidence() -> None:
    """Appendix B.2.3: the mode moves with parameters of the likelihood."""
    points = torch.linspace(0, 1, 4, **DOUBLE).unsqueeze(-1)
    pairs = torch.tensor([[0, 1], [0, 2], [3, 1], [2, 1]])
    likelihood = PairwiseProbitLikelihood(noise=0.4)
    model = LaplacePreferenceGP(points, pairs, likelihood=likelihood).eval()
    model.covar_module.outputscale = 3.0
    with torch.no_grad():
        prior = model.covar_module(points).to_dense()
        f = model.posterior(points).mean.squeeze(-1)
    rows = torch.zeros(4, 4, **DOUBLE)
    rows[range(4), pairs[:, 0]], rows[range(4), pairs[:, 1]] = 1.0, -1.0

    def evidence(noise: float) -> float:
        """Computes the evidence of another noise, at the same mode."""
        z = rows @ f / math.sqrt(2 * noise)
        r = phi(z) / ndtr(z)
        W = rows.mT @ ((r * (z + r)) / (2 * noise)).diag() @ rows
        value = torch.special.log_ndtr(z).sum() - 0.5 * f @ torch.linalg.solve(prior, f)
        return (value - 0.5 * torch.logdet(torch.eye(4) + prior @ W)).item()

    assert model.log_evidence().item() == pytest.approx(evidence(0.4))
    step, noise = 1e-5, likelihood.raw_noise.requires_grad_(True)
    explicit = (evidence(0.4 + step) - evidence(0.4 - step)) / (2 * step)
    model.log_evidence().backward()
    chain = torch.autograd.grad(likelihood.noise.sum(), noise)[0]
    gradient = (noise.grad / chain).item()
    assert abs(explicit / gradient - 1) > 0.05


def test_report_beta_likelihood_is_not_log_concave() -> None:
    """An answer of 0.62 where the model is sure of the other: the curvature is up."""
    assert derivative(lambda f: beta_log_density(f, 0.8), -2.0, 2) > 0.1


# The paper on variational Plackett-Luce.


def jaakkola(t: Tensor) -> Tensor:
    return torch.tanh(t / 2) / (4 * t)


def test_plackett_luce_slope_of_lambda() -> None:
    for t in (0.1, 1.0, 5.0):
        assert derivative(jaakkola, t, 1) < 0


def bound(means: Tensor, variances: Tensor, alpha: Tensor, xi: Tensor) -> Tensor:
    """Computes the expectation of equation 15 for a set with the first chosen."""
    squares = (means - alpha) ** 2 + variances - xi**2
    terms = (
        torch.nn.functional.logsigmoid(xi)
        - (means - alpha + xi) / 2
        - jaakkola(xi) * squares
    )
    return means[0] - alpha + terms.sum()


def test_plackett_luce_equations_15_22_23() -> None:
    generator = torch.Generator().manual_seed(1)
    means, variances = torch.rand(2, 4, generator=generator, **DOUBLE)
    xi, alpha = torch.rand(4, generator=generator, **DOUBLE) + 0.5, torch.tensor(0.3)
    for _ in range(2000):
        weights = jaakkola(xi)
        alpha = (0.5 * (len(xi) / 2 - 1) + (weights * means).sum()) / weights.sum()
        xi = (variances + (means - alpha) ** 2).sqrt()
    leaves = [alpha.double().requires_grad_(), xi.requires_grad_()]
    value = bound(means, variances, *leaves)
    for slope in torch.autograd.grad(value, leaves):
        assert slope.abs().max() < 1e-9
    draws = means + variances.sqrt() * torch.randn(
        100_000, 4, generator=generator, **DOUBLE
    )
    expected = torch.log_softmax(draws, -1)[:, 0].mean()
    assert value < expected


def test_every_erratum_is_shown_here() -> None:
    page = Path(__file__).parents[1] / "docs" / "logbook" / "errata.md"
    named = set(re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")))
    names = {name for name in globals() if name.startswith("test_")}
    assert named == names - {"test_every_erratum_is_shown_here"}
