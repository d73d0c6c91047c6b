"""Function draws against the posterior that they are drawn from."""

import pytest
import torch
from botorch.models import PairwiseGP
from botorch.models.model import Model
from botorch.models.transforms import Normalize
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import MaternKernel, ScaleKernel
from torch import Tensor

import botorch_pref.models.pathwise  # noqa: F401 (registers the draws)
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Validity
from botorch_pref.models import EPPreferenceGP, LaplacePreferenceGP, SkewPreferenceGP

NUM_FEATURE_SETS, PER_SET = 40, 100
PAIRS = torch.tensor([[0, 1], [2, 1], [3, 4], [0, 4], [5, 3], [2, 5], [0, 1]])


def points(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 10 * torch.rand(count, 2, generator=generator, dtype=torch.double)


def samples(model: Model, X: Tensor) -> Tensor:
    with manual_seed(11), torch.no_grad():
        shape = torch.Size([PER_SET])
        return torch.cat(
            [draw_matheron_paths(model, shape)(X) for _ in range(NUM_FEATURE_SETS)]
        )


def check_moments(model: Model, X: Tensor) -> None:
    """Five standard errors of the sample, and of the mean over feature sets.

    One set of 2,048 features is off by about 1 / sqrt(2048) output scales.
    """
    values = samples(model, X)
    posterior = model.posterior(X)
    if not isinstance(model, SkewPreferenceGP):
        posterior.covariance_matrix = posterior.distribution.covariance_matrix
    mean = posterior.mean.squeeze(-1).detach()
    covariance = posterior.covariance_matrix.detach()
    variance = covariance.diagonal()
    scale = float(model.covar_module.outputscale.detach())
    count = len(values)
    feature_error = scale / (2048 * NUM_FEATURE_SETS) ** 0.5
    mean_error = (values.mean(0) - mean).abs()
    assert bool((mean_error < 5 * (variance / count).sqrt() + feature_error).all())
    spread = (variance[:, None] * variance + covariance.square()).sqrt()
    error = (values.T.cov() - covariance).abs()
    assert bool((error < 5 * spread / count**0.5 + 5 * feature_error).all())


@pytest.mark.parametrize(
    "kind", [PairwiseGP, LaplacePreferenceGP, EPPreferenceGP, SkewPreferenceGP]
)
def test_moments_are_those_of_the_posterior(kind: type[Model]) -> None:
    X = points(6, 1)
    model = kind(X, PAIRS, input_transform=Normalize(d=2)).eval()
    check_moments(model, torch.cat([X[:3], points(3, 2)]))


def test_matern_kernel_with_a_learned_mean_and_absolute_answers() -> None:
    X = points(6, 1) / 10
    model = EPPreferenceGP(
        X,
        PAIRS,
        feedback=[Validity(torch.tensor([0, 1]), torch.tensor([True, False]))],
        covar_module=ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)),
    ).eval()
    model.mean_module.constant.data.fill_(1.5)
    check_moments(model, torch.cat([X[:3], points(3, 2) / 10]))


def test_without_answers_draws_are_the_priors() -> None:
    model = EPPreferenceGP(points(6, 1)).eval()
    check_moments(model, points(4, 2))


def test_without_datapoints_the_error_says_so() -> None:
    with pytest.raises(FeedbackError, match="datapoints"):
        draw_matheron_paths(EPPreferenceGP(), torch.Size())
