"""Models of a synthetic problem at the hyper-parameters that made its answers."""

from __future__ import annotations

from botorch.models.pairwise_gp import (
    PairwiseGP,
    PairwiseLaplaceMarginalLogLikelihood,
)
from gpytorch.kernels import RBFKernel, ScaleKernel
from synthetic_problems import DIMENSION, ComparisonProblem

from botorch_pref import PairwiseProbitLikelihood, PreferenceMarginalLogLikelihood
from botorch_pref.models import PreferenceGP


def known_kernel(problem: ComparisonProblem) -> ScaleKernel:
    """The kernel of a problem: RBF-ARD, variance 1.

    Args:
        problem: Its lengthscale counts.
    """
    kernel = ScaleKernel(RBFKernel(ard_num_dims=DIMENSION)).to(problem.points)
    kernel.outputscale = 1.0
    kernel.base_kernel.lengthscale = problem.lengthscale
    return kernel


def known_model(
    model_class: type[PreferenceGP], problem: ComparisonProblem, **options: object
) -> PreferenceGP:
    """A model of this package that knows kernel and noise; nothing is left to fit.

    Args:
        model_class: The engine.
        problem: Points, answers and what made them.
        options: For the constructor.
    """
    return model_class(
        problem.points,
        problem.pairs,
        likelihood=PairwiseProbitLikelihood(problem.noise),
        covar_module=known_kernel(problem),
        **options,
    )


def fresh_mll(
    model_class: type[PreferenceGP] | type[PairwiseGP], problem: ComparisonProblem
) -> PreferenceMarginalLogLikelihood | PairwiseLaplaceMarginalLogLikelihood:
    """Objective for ``fit_gpytorch_mll`` of a new model with its own defaults.

    Args:
        model_class: One of ours, or ``PairwiseGP``.
        problem: Points and answers.
    """
    model = model_class(problem.points, problem.pairs)
    if issubclass(model_class, PairwiseGP):
        return PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
    return PreferenceMarginalLogLikelihood(model.likelihood, model)
