"""Models of a few duels, ties and labels, and how their posteriors are compared."""

from typing import Any

import torch
from draws import uniform
from entries import Engine
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_pref import (
    AffineProbitLikelihood,
    Comparisons,
    PairwiseProbitLikelihood,
    Validity,
)
from botorch_pref.models import PreferenceGP

DOUBLE = torch.float64


def answers(points: Tensor, count: int, seed: int = 1) -> Tensor:
    """Draws duels of random pairs, won by the larger sum of features."""
    generator = torch.Generator().manual_seed(seed)
    n = points.shape[-2]
    pairs = torch.stack(
        [torch.randperm(n, generator=generator)[:2] for _ in range(count)]
    )
    utility = points.sum(-1)[pairs]
    return torch.where((utility[:, 0] > utility[:, 1])[:, None], pairs, pairs.flip(-1))


POINTS = uniform(7, 2)
PAIRS = answers(POINTS, 6)
NEW = uniform(4, 2, seed=5)
RAW = 30 * POINTS - 7
FULL = Comparisons(PAIRS, ties=torch.tensor([[0, 1], [5, 2]]))
VALID = Validity(torch.tensor([0, 3, 4]), torch.tensor([True, False, True]))


# As many as there are boxed answers above.
WINS = Comparisons(answers(POINTS, 11))


def full(engine: Engine) -> tuple[Comparisons, list[Validity]]:
    """Lists answers of every kind that the engine takes of those above."""
    return (FULL, [VALID]) if engine.boxed else (WINS, [])


def kernel(batch_shape: torch.Size = torch.Size(), outputscale: float = 2.0):  # noqa: B008
    """Makes an ARD kernel with fixed, unequal lengthscales."""
    base = RBFKernel(ard_num_dims=2, batch_shape=batch_shape)
    module = ScaleKernel(base, batch_shape=batch_shape).double()
    module.outputscale = outputscale
    base.lengthscale = torch.tensor([0.3, 0.6], dtype=DOUBLE)
    return module


def mixed(engine: Engine, **kwargs: Any) -> PreferenceGP:
    """Makes a model with wins, ties and validity labels, a mean and unequal noises.

    With wins only, where the engine takes no boxed answers.
    """
    mean = ConstantMean().double()
    mean.constant.data.fill_(0.4)
    likelihood = {
        Comparisons: PairwiseProbitLikelihood(0.3, tie_threshold=0.5),
        Validity: AffineProbitLikelihood(0.7),
    }
    pairs, feedback = full(engine)
    arguments = {
        "feedback": feedback,
        "likelihood": likelihood if engine.boxed else None,
        "mean_module": mean,
        "covar_module": kernel(),
    }
    return engine(POINTS, pairs, **(arguments | kwargs))


def moments(posterior: Any) -> tuple[Tensor, Tensor]:
    mean = posterior.mean.squeeze(-1).detach()
    return mean, posterior.covariance_matrix.detach()


def assert_same_posterior(
    engine: Engine, actual: Any, expected: Any, deviations: float = 1e-5
) -> None:
    """Compares up to what the engine's stopping rule and sampling leave open.

    Args:
        engine: The engine behind both.
        actual: A posterior, or a mean and a covariance.
        expected: A posterior, or a mean and a covariance.
        deviations: Tolerance in posterior standard deviations without sampling.
    """
    pair = actual if isinstance(actual, tuple) else moments(actual)
    truth = expected if isinstance(expected, tuple) else moments(expected)
    tolerance = deviations + engine.sampling_error
    sd = truth[1].diagonal(dim1=-2, dim2=-1).sqrt()
    assert pair[0].shape == truth[0].shape, (
        f"means have the shape {tuple(pair[0].shape)}, not {tuple(truth[0].shape)}"
    )
    assert pair[1].shape == truth[1].shape, (
        f"covariances have the shape {tuple(pair[1].shape)}, not "
        f"{tuple(truth[1].shape)}"
    )
    error = (pair[0] - truth[0]) / sd
    assert error.abs().max().item() < tolerance, (
        f"means differ by {error.abs().max():.2g} posterior deviations, above "
        f"{tolerance:.2g}"
    )
    scale = sd.unsqueeze(-1) * sd.unsqueeze(-2)
    # The standard error of a variance is sqrt(2) times that of a mean.
    assert ((pair[1] - truth[1]) / scale).abs().max().item() < 1.5 * tolerance
