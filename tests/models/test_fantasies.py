"""Fantasies of duels and the look-ahead on them, against models built by hand."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from botorch.sampling.normal import IIDNormalSampler, SobolQMCNormalSampler
from botorch.sampling.pairwise_samplers import PairwiseSobolQMCNormalSampler
from gpytorch.kernels import RBFKernel, ScaleKernel
from registry import ENGINES
from torch import Tensor

from botorch_pref import (
    AffineProbitLikelihood,
    EPPreferenceGP,
    FeedbackError,
    PairwiseProbitLikelihood,
    PlackettLuceRegression,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
    VariationalPreferenceGP,
)
from botorch_pref.posteriors import DuelSampler

DOUBLE = torch.float64
X = torch.rand(8, 2, generator=torch.Generator().manual_seed(4)).double()
PAIRS = torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7], [0, 2], [6, 4]])
NEW = torch.rand(3, 2, generator=torch.Generator().manual_seed(5)).double()
NUM_DRAWS = 512
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.__name__)


def made(engine: type, x: Tensor = X, pairs: Tensor = PAIRS) -> Any:
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 2.0, 0.4
    options: dict[str, Any] = {"covar_module": kernel}
    if engine is not VariationalPreferenceGP:
        options["likelihood"] = PairwiseProbitLikelihood(0.3)
    if engine is SkewPreferenceGP:
        options["num_draws"] = NUM_DRAWS
    return engine(x, pairs, **options)


def drawn_utilities(model: Any, x: Tensor, base: Tensor) -> Tensor:
    """Computes what is heard of some points, from standard normals: ``s x q``."""
    posterior = model.posterior(x)
    noise = model.likelihood.observation_variance.detach()
    eye = torch.eye(len(x), dtype=DOUBLE)
    if isinstance(model, SkewPreferenceGP):
        means = posterior.component_means.detach()
        uniform = torch.special.ndtr(base[:, 0])
        chosen = (uniform * len(means)).long()
        root = torch.linalg.cholesky(posterior.component_covariance + noise * eye)
        return (means[chosen] + base[:, 1:] @ root.mT).detach()
    root = torch.linalg.cholesky(posterior.covariance_matrix + noise * eye)
    return (posterior.mean.squeeze(-1) + base @ root.mT).detach()


def answers(utilities: Tensor) -> Tensor:
    rows = []
    for u in utilities.tolist():
        pairs = itertools.combinations(range(len(u)), 2)
        rows.append([[a, b] if u[a] > u[b] else [b, a] for a, b in pairs])
    return torch.tensor(rows)


@pytest.mark.parametrize(
    ("sampler", "q"), [(SobolQMCNormalSampler, 3), (IIDNormalSampler, 2)]
)
@each_engine
def test_any_sampler_of_utilities_will_do(engine, sampler, q) -> None:
    model = made(engine)
    drawing = sampler(torch.Size([5]), seed=1)
    fantasy = model.fantasize(NEW[:q], drawing)
    utilities = drawn_utilities(model, NEW[:q], drawing.base_samples)
    expected = answers(utilities)
    assert torch.equal(fantasy.comparisons[:, len(PAIRS) :], expected + len(X))
    assert fantasy.batch_shape == (5,)
    single = model.condition_on_observations(NEW[:q], expected[2])
    got, want = fantasy.posterior(X).mean[2], single.posterior(X).mean
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@each_engine
def test_samplers_of_pairs_will_do(engine) -> None:
    """And the larger utility wins, whatever BoTorch's samplers make of it."""
    model = made(engine)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    shape = torch.Size([5])
    samplers = [
        PairwiseSobolQMCNormalSampler(shape, seed=1),
        DuelSampler(shape, seed=1),
        SobolQMCNormalSampler(shape, seed=1),
    ]
    first, *later_comparisons = (model.fantasize(NEW, s).comparisons for s in samplers)
    assert all(torch.equal(first, comparison) for comparison in later_comparisons)
    short_sampler = PairwiseSobolQMCNormalSampler(shape, seed=1, max_num_comparisons=2)
    fantasy_pairs = model.fantasize(NEW, short_sampler).comparisons[:, len(PAIRS) :]
    assert fantasy_pairs.shape == (5, 2, 2)
    for mine, theirs in zip(fantasy_pairs.tolist(), first.tolist(), strict=True):
        assert all(pair in theirs for pair in mine)
        assert mine[0] != mine[1]
    assert bool((np.random.get_state()[1] == state).all())  # noqa: NPY002


def test_other_noise() -> None:
    model = made(EPPreferenceGP)
    huge = torch.full((2, 1), 1e8, dtype=DOUBLE)
    fantasy = model.fantasize(
        NEW[:2], DuelSampler(torch.Size([512])), observation_noise=huge
    )
    share = (fantasy.comparisons[:, -1, 0] == len(X)).double().mean()
    assert abs(float(share) - 0.5) < 0.01


def test_regression_fantasizes() -> None:
    model = PlackettLuceRegression(X, PAIRS, inference="laplace")
    sampler = DuelSampler(torch.Size([3]), seed=2)
    fantasy = model.fantasize(NEW[:2], sampler)
    assert fantasy.batch_shape == (3,)
    for i in range(3):
        pair = fantasy.comparisons[i, -1:] - len(X)
        single = model.condition_on_observations(NEW[:2], pair)
        torch.testing.assert_close(fantasy.weights_mean[i], single.weights_mean)


def test_what_no_duel_can_be_about_is_refused() -> None:
    with pytest.raises(FeedbackError, match=r"an X with q=2 .* qMaxValueEntropy"):
        made(EPPreferenceGP).fantasize(NEW[:1], DuelSampler(torch.Size([2])))
    validity = Validity(torch.tensor([0, 1]), torch.tensor([True, False]))
    model = EPPreferenceGP(X, feedback=[validity], likelihood=AffineProbitLikelihood())
    with pytest.raises(UnsupportedFeedbackError, match="Comparisons: "):
        model.fantasize(NEW[:2], DuelSampler(torch.Size([2])))


# --- The knowledge gradient
