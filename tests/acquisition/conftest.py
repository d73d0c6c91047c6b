"""A model whose posterior is known by hand, and fitted ones."""

from functools import cache
from pathlib import Path

import pytest
import torch
from botorch.models import PairwiseGP
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultivariateNormal
from linear_operator import to_linear_operator
from torch import Tensor

from botorch_pref.models import EPPreferenceGP, SkewPreferenceGP
from botorch_pref.posteriors import SkewNormalPosterior


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lets `PairwiseGP` say that it adds jitter.

    It factors the joint prior of the points that it is asked of, of which a reference
    and the observed points behind a believed draw coincide.
    """
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents and "PairwiseGP" in item.nodeid:
            item.add_marker(pytest.mark.filterwarnings("ignore:A not p.d."))


class LinearUtility(Model):
    """``f(x) = w'x`` with ``w`` a mixture of ``N(centers[s], scale^2 I)``.

    The difference of ``x`` and ``r`` then has means ``centers (x - r)`` and variance
    ``scale^2 |x - r|^2``. Leading dimensions of ``shift`` make a batch of models.
    """

    num_outputs = 1

    def __init__(self, centers: Tensor, scale: float = 1.0, likelihood=None) -> None:
        super().__init__()
        self.centers, self.scale, self.likelihood = centers, scale, likelihood

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size()

    def posterior(self, X: Tensor, **_: object) -> Posterior:
        means = torch.stack([X @ center for center in self.centers])
        covariance = self.scale**2 * X @ X.mT
        if len(self.centers) == 1:
            normal = MultivariateNormal(means[0], to_linear_operator(covariance))
            return GPyTorchPosterior(normal)
        return SkewNormalPosterior(means, covariance)


@pytest.fixture
def linear_utility() -> type[LinearUtility]:
    return LinearUtility


def answers(num_points: int = 12, num_pairs: int = 15) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    X = torch.rand(num_points, 2, generator=generator, dtype=torch.double)
    first = torch.randint(num_points, (num_pairs,), generator=generator)
    step = torch.randint(1, num_points, (num_pairs,), generator=generator)
    second = (first + step) % num_points
    utility = -(X - 0.3).square().sum(-1)
    better = utility[first] > utility[second]
    winner, loser = (
        torch.where(better, first, second),
        torch.where(better, second, first),
    )
    return X, torch.stack([winner, loser], dim=-1)


@pytest.fixture(params=[PairwiseGP, EPPreferenceGP])
def gaussian_model(request: pytest.FixtureRequest) -> Model:
    return make_model(request.param)


@pytest.fixture(params=[PairwiseGP, EPPreferenceGP, SkewPreferenceGP])
def model(request: pytest.FixtureRequest) -> Model:
    return make_model(request.param)


@pytest.fixture
def skew_model() -> Model:
    return make_model(SkewPreferenceGP)


@cache
def make_model(kind: type[Model]) -> Model:
    """Makes a model once, which no test changes: solutions take longer than tests."""
    result = kind(*answers())
    result.covar_module.base_kernel.lengthscale = 0.5
    result.covar_module.outputscale = 4.0
    if kind is PairwiseGP:
        # It computes its mode when it is made, not when hyper-parameters change.
        result._update(result.transform_inputs(result.datapoints))
    return result.eval()
