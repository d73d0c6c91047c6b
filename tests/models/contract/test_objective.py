"""The objective of fits: its value, its gradient, its stationary points."""

import math
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from entries import Engine
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.means import ConstantMean
from gpytorch.priors import GammaPrior, LogNormalPrior, NormalPrior
from models.contract.duel_models import (
    PAIRS,
    POINTS,
    VALID,
    answers,
    full,
    uniform,
)
from torch import Tensor

from botorch_pref import (
    AffineProbitLikelihood,
    Comparisons,
    EPPreferenceGP,
    OrdinalProbitLikelihood,
    OrdinalRatings,
    PairwiseProbitLikelihood,
    PreferenceMarginalLogLikelihood,
    Validity,
)
from botorch_pref.models import PreferenceGP


def learnable(engine: Engine, **kwargs: Any) -> PreferenceGP:
    """Makes a model whose every parameter is learned and has a prior."""
    pairs, feedback = full(engine)
    likelihood = {
        Comparisons: PairwiseProbitLikelihood(
            0.3,
            tie_threshold=0.5,
            noise_prior=GammaPrior(2.0, 3.0),
            tie_threshold_prior=GammaPrior(2.0, 4.0),
        ),
        Validity: AffineProbitLikelihood(0.7, noise_prior=LogNormalPrior(0.0, 1.0)),
    }
    base = MaternKernel(ard_num_dims=2, lengthscale_prior=GammaPrior(3.0, 6.0))
    covar = ScaleKernel(base, outputscale_prior=GammaPrior(2.0, 0.15))
    mean = ConstantMean(constant_prior=NormalPrior(0.0, 2.0))
    model = engine(
        POINTS,
        pairs,
        feedback=feedback,
        likelihood=likelihood if engine.boxed else None,
        mean_module=mean,
        covar_module=covar,
        **kwargs,
    )
    covar.outputscale = 1.7
    base.lengthscale = torch.tensor([0.4, 0.8])
    mean.constant.data.fill_(0.3)
    return model.train()


def objective(model: PreferenceGP) -> Tensor:
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    return mll(model(*model.train_inputs), model.train_targets)


def test_the_objective_is_the_evidence_plus_the_log_priors(engine: Engine) -> None:
    model = learnable(engine)
    length = model.covar_module.base_kernel.lengthscale
    log_priors = (
        GammaPrior(3.0, 6.0).log_prob(length).sum()
        + GammaPrior(2.0, 0.15).log_prob(model.covar_module.outputscale)
        + NormalPrior(0.0, 2.0).log_prob(model.mean_module.constant)
    )
    if engine.boxed:
        pairs, validity = (model.likelihoods[n] for n in ("Comparisons", "Validity"))
        log_priors = (
            log_priors
            + GammaPrior(2.0, 3.0).log_prob(pairs.noise)
            + GammaPrior(2.0, 4.0).log_prob(pairs.tie_threshold)
            + LogNormalPrior(0.0, 1.0).log_prob(validity.noise)
        )
    expected = model.log_evidence() + log_priors
    torch.testing.assert_close(objective(model), expected)


def test_the_loss_of_a_fit_is_that_of_one_datum(engine: Engine) -> None:
    points = uniform(15, 2, seed=21)
    for count in (4, 25):
        model = engine(points, answers(points, count))
        mll = PreferenceMarginalLogLikelihood(model.likelihood, model.train())
        # A sparse model has as many as inducing points, in every process.
        expected = -objective(model) / getattr(model, "num_inducing", min(count, 15))
        torch.testing.assert_close(mll.compute_custom_loss(), expected)


def test_an_objective_can_be_differentiated_again(engine: Engine) -> None:
    """Factors that carry the graph of a learned noise are not used twice."""
    model = learnable(engine)
    learned = [p for p in model.parameters() if p.requires_grad]
    first, again = (torch.autograd.grad(objective(model), learned) for _ in range(2))
    torch.testing.assert_close(first, again, rtol=1e-5, atol=1e-6)


def test_a_changed_noise_makes_the_factors_anew(engine: Engine) -> None:
    engine.needs_boxes()
    model = engine(POINTS, PAIRS, likelihood=PairwiseProbitLikelihood(1.0))
    before = model.factors()
    assert model.factors() is before, (
        "factors of an unchanged likelihood were made anew"
    )
    model.likelihood.noise = 2.0
    expected = engine(POINTS, PAIRS, likelihood=PairwiseProbitLikelihood(2.0))
    torch.testing.assert_close(model.log_evidence(), expected.log_evidence())
    torch.testing.assert_close(
        model.factors().variance, expected.factors().variance, rtol=0, atol=0
    )


def test_the_objective_of_model_batches_equals_loops(engine: Engine) -> None:
    points = torch.stack([POINTS, POINTS.flip(0), uniform(7, 2, seed=3)])
    value = objective(engine(points, PAIRS))
    assert value.shape == (3,), (
        f"the objective of three models has the shape {tuple(value.shape)}"
    )
    singles = torch.stack([objective(engine(points[i], PAIRS)) for i in range(3)])
    torch.testing.assert_close(value, singles, rtol=1e-6, atol=1e-6)
    # Batches of data under one kernel: its prior counts in each.
    shared = objective(
        engine(points, PAIRS, covar_module=learnable(engine).covar_module)
    )
    for i in range(3):
        covar = learnable(engine).covar_module
        single = objective(engine(points[i], PAIRS, covar_module=covar))
        torch.testing.assert_close(shared[i], single, rtol=1e-6, atol=1e-6)


def test_fitting_climbs_to_a_stationary_point(engine: Engine) -> None:
    points = uniform(15, 2, seed=21)
    model = engine(points, answers(points, 25))
    before = objective(model.train()).item()
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll)
    assert not model.training, "after a fit the model is in training mode"
    model.train()
    after = objective(model)
    assert after.item() > before + 0.1, (
        f"the fit took the objective from {before:.4f} to {after.item():.4f} only"
    )
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(after, parameters)
    # L-BFGS stops at a relative change of the objective of 1e-9 or so.
    assert max(g.abs().max().item() for g in gradients) < 0.05, (
        "after a fit the objective still has the slopes "
        f"{[g.tolist() for g in gradients]}"
    )
    assert model.diagnostics()["converged"], (
        "the solution at the fitted hyper-parameters did not converge"
    )


def test_fitting_a_model_of_validity_alone(engine: Engine) -> None:
    engine.needs_boxes()
    model = engine(POINTS, feedback=[VALID])
    assert model.train_targets is None, "a model of validity alone has train_targets"
    before = objective(model.train()).item()
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    assert objective(model.train()).item() > before, (
        "fitting a model of validity alone did not raise its objective"
    )


def test_fitting_model_batches() -> None:
    points = torch.stack([POINTS, POINTS.flip(0)])
    batch = EPPreferenceGP(points, PAIRS)
    singles = [EPPreferenceGP(points[i], PAIRS) for i in range(2)]
    options = {"options": {"maxiter": 50}}
    for model in (batch, *singles):
        mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, optimizer_kwargs=options)
    expected = torch.stack([objective(m.train()) for m in singles]).detach()
    value = objective(batch.train()).detach()
    torch.testing.assert_close(value, expected, rtol=0, atol=0.02)


@pytest.mark.parametrize("batch", [3, 4])  # As many as there are cut points, too.
def test_a_prior_on_numbers_that_batches_share_counts_in_each_batch(batch) -> None:
    answered_levels = torch.tensor([0, 1, 2, 3, 4, 2]).expand(batch, 6)
    levels = OrdinalRatings(torch.arange(6).expand(batch, 6), answered_levels, 5)
    cutpoints, slopes = torch.tensor([-1.0, -0.2, 0.5, 2.0], dtype=torch.double), []
    for deviation in (1.0, 2.0):
        likelihood = OrdinalProbitLikelihood(
            cutpoints=cutpoints, cutpoints_prior=NormalPrior(0.0, deviation)
        )
        points = torch.linspace(0, 1, 6, dtype=torch.double).view(6, 1)
        model = EPPreferenceGP(
            points.expand(batch, 6, 1), feedback=[levels], likelihood=likelihood
        )
        mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
        slopes.append(mll.log_posterior().detach())
    square = float(cutpoints.square().sum())
    expected = square / 8 - square / 2 + 4 * math.log(2)
    assert (slopes[0] - slopes[1]).tolist() == pytest.approx(
        [expected] * batch, rel=1e-5
    )


def test_a_prior_on_numbers_of_each_batch_counts_there_alone() -> None:
    answered_levels = torch.tensor([0, 1, 2, 2]).expand(2, 4)
    levels = OrdinalRatings(torch.arange(4).expand(2, 4), answered_levels, 3)
    cutpoints, slopes = torch.tensor([[-1.0, 0.5], [0.2, 3.0]]).double(), []
    for deviation in (1.0, 2.0):
        likelihood = OrdinalProbitLikelihood(
            cutpoints=cutpoints, cutpoints_prior=NormalPrior(0.0, deviation)
        )
        points = torch.linspace(0, 1, 4, dtype=torch.double).view(4, 1)
        model = EPPreferenceGP(
            points.expand(2, 4, 1), feedback=[levels], likelihood=likelihood
        )
        mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
        slopes.append(mll.log_posterior().detach())
    squares = cutpoints.square().sum(-1)
    expected = squares / 8 - squares / 2 + 2 * math.log(2)
    torch.testing.assert_close(slopes[0] - slopes[1], expected, rtol=0, atol=1e-6)
