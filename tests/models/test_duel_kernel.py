"""The prior of utilities: its sets of inputs, its priors, and what it is there for."""

import math
from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.sampling.pathwise import gen_kernel_features
from botorch.utils.sampling import manual_seed
from cases import in_turn
from draws import uniform
from gpytorch.kernels import MaternKernel
from gpytorch.settings import lazily_evaluate_kernels
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot

from botorch_pref import (
    DuelKernel,
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
)
from botorch_pref.errors import FeedbackError
from botorch_pref.models import RelevanceKernel, relevance_covariance

DOUBLE = torch.float64


def mixed_points(count: int, seed: int = 0) -> Tensor:
    """Draws two numbers around a choice of three, in the columns 1 to 3."""
    numbers = uniform(count, 2, seed=seed)
    choice = one_hot(torch.arange(count) % 3, 3).double()
    return torch.cat([numbers[:, :1], choice, numbers[:, 1:]], dim=-1)


def mixed_kernel() -> RelevanceKernel:
    """Makes a kernel with relevances and lengthscales that all differ."""
    kernel = RelevanceKernel(5, categorical=[(1, 2, 3)]).double()
    kernel.lengthscale = torch.tensor([[0.3, 0.9]])
    with torch.no_grad():
        kernel.raw_relevance.copy_(torch.tensor([0.1, 0.6, 0.4]).logit())
    return kernel


@pytest.fixture(params=[False, True], ids=["at once", "in blocks"])
def portions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has few points computed as many are: a row or two at a time."""
    if request.param:
        for name, entries in {
            "_FEW_ENTRIES": 0,
            "_BLOCK_ENTRIES": 14,
            "_GRAPH_ENTRIES": 42,
        }.items():
            monkeypatch.setattr(relevance_covariance, name, entries)


@pytest.mark.usefixtures("portions")
def test_the_kernel_is_the_sum_over_sets_of_inputs() -> None:
    kernel, X = mixed_kernel(), mixed_points(7)
    correlations = [
        MaternKernel(2.5, active_dims=(column,)).double() for column in kernel.numbers
    ]
    parts = []
    for matern, lengthscale in zip(correlations, (0.3, 0.9), strict=True):
        matern.lengthscale = lengthscale
        parts.append(matern(X).to_dense())
    choice = X[:, 1:4].argmax(-1)
    parts.append((choice.unsqueeze(-1) == choice).double())
    relevance = [0.1, 0.6, 0.4]
    expected, total = torch.zeros(7, 7, dtype=DOUBLE), 0.0
    for size in (1, 2, 3):
        for inputs in combinations(range(3), size):
            weights = [r if i in inputs else 1 - r for i, r in enumerate(relevance)]
            product = torch.stack([parts[i] for i in inputs]).prod(0)
            expected += math.prod(weights) * product
            total += math.prod(weights)
    torch.testing.assert_close(kernel(X).to_dense(), expected / total)
    with torch.no_grad():
        torch.testing.assert_close(kernel(X).to_dense(), expected / total)
    unit = torch.ones(7, dtype=DOUBLE)
    torch.testing.assert_close(kernel(X, diag=True), unit)
    torch.testing.assert_close(kernel(X, X[:4]).to_dense(), expected[:, :4] / total)


def sum_over_sets(log_odds: Tensor, correlations: Tensor) -> Tensor:
    """Sums the kernel, ``q x m``, of correlations by each input, ``n x q x m``.

    Weights of sets by their logs: they keep their digits at any relevances.
    """
    log_some, log_none = logsigmoid(log_odds), logsigmoid(-log_odds)
    inputs = range(len(log_odds))
    sets = [s for size in inputs for s in combinations(inputs, size + 1)]
    logs = [sum(log_some[i] if i in s else log_none[i] for i in inputs) for s in sets]
    weights = torch.stack([torch.as_tensor(part) for part in logs]).softmax(-1)
    products = torch.stack([correlations[list(s)].prod(0) for s in sets])
    return torch.einsum("s,sqm->qm", weights, products)


def matern(X: Tensor, second_points: Tensor, lengthscale: Tensor) -> Tensor:
    """Correlations by each input; GPyTorch takes squares apart, which costs digits."""
    offset = X.mT.unsqueeze(-1) - second_points.mT.unsqueeze(-2)
    root = math.sqrt(5) * offset.abs() / lengthscale[:, None, None]
    return (1 + root + root.square() / 3) * torch.exp(-root)


LOG_ODDS = [
    *([end] * 3 for end in (-800.0, -40.0, -12.0, 0.0, 12.0, 40.0, 800.0)),
    [-40.0, 0.5, 40.0],
    [40.0, -40.0, -41.0],
    [-800.0, 800.0, -1.0],
]


@pytest.mark.usefixtures("portions")
@pytest.mark.parametrize("log_odds", LOG_ODDS)
def test_extreme_relevances_keep_their_digits(log_odds: list[float]) -> None:
    """Main effects at one end, the product of all inputs at the other."""
    kernel = RelevanceKernel(3, lengthscale=0.4).double()
    with torch.no_grad():
        kernel.raw_relevance.copy_(torch.tensor(log_odds))
    # A copy, neighbours, and points so far apart that a factor is 0.
    X = torch.cat([uniform(5, 3), uniform(1, 3), torch.full((1, 3), 2e3)])
    X = X.double().requires_grad_()
    pull = uniform(7, 7, seed=1)
    expected = sum_over_sets(
        kernel.raw_relevance, matern(X, X, kernel.lengthscale.flatten())
    )
    dense_kernel = kernel(X).to_dense()
    torch.testing.assert_close(dense_kernel, expected, rtol=1e-12, atol=1e-15)
    with torch.no_grad():
        without_graph = kernel(X).to_dense()
    torch.testing.assert_close(without_graph, expected, rtol=1e-12, atol=1e-15)
    sources = kernel.raw_relevance, kernel.raw_lengthscale, X
    for part, truth in zip(
        torch.autograd.grad((pull * dense_kernel).sum(), sources),
        torch.autograd.grad((pull * expected).sum(), sources),
        strict=True,
    ):
        torch.testing.assert_close(part, truth, rtol=1e-10, atol=1e-13)


def test_an_irrelevant_input_does_nothing() -> None:
    kernel, X = mixed_kernel(), mixed_points(6)
    with torch.no_grad():
        kernel.raw_relevance[0] = -80.0
    moved = X.clone()
    moved[:, 0] = uniform(6, seed=5)
    torch.testing.assert_close(kernel(X).to_dense(), kernel(moved).to_dense())


def test_options_of_a_choice_are_exchangeable() -> None:
    kernel, X = mixed_kernel(), mixed_points(6)
    renamed = X[:, [0, 3, 1, 2, 4]]
    torch.testing.assert_close(kernel(X).to_dense(), kernel(renamed).to_dense())


@pytest.mark.usefixtures("portions")
@pytest.mark.parametrize("log_odds", [[-2.0, 0.5, -0.4], [40.0, -40.0, 1.0]])
def test_gradients_are_those_of_differences(log_odds: list[float]) -> None:
    """Of points on both sides, and once more; see also saturated relevances above."""
    kernel, X = mixed_kernel(), mixed_points(4)
    second_points = mixed_points(3, seed=1)

    def value(raw: Tensor, log_lengths: Tensor, *points: Tensor) -> Tensor:
        state = {"raw_relevance": raw, "raw_lengthscale": log_lengths}
        # Evaluated later, it would be that of the kernel's own parameters.
        with lazily_evaluate_kernels(False):
            return torch.func.functional_call(kernel, state, points).to_dense()

    raw = torch.tensor(log_odds, dtype=DOUBLE)
    inputs = raw, kernel.raw_lengthscale.detach().clone(), X, second_points
    for tensor in inputs:
        tensor.requires_grad_(True)
    torch.autograd.gradcheck(value, inputs)
    torch.autograd.gradgradcheck(value, inputs)
    # Autograd, which computes those to differentiate again, has the same ones.
    pull = uniform(4, 3, seed=2)
    closed, recorded = (
        torch.autograd.grad((pull * value(*inputs)).sum(), inputs, create_graph=again)
        for again in (False, True)
    )
    for part, same_part in zip(closed, recorded, strict=True):
        torch.testing.assert_close(part, same_part)


@pytest.mark.usefixtures("portions")
@in_turn("other_points", [lambda X: X, lambda X: X[:2], lambda X: 1 - X])
def test_gradients_to_differentiate_again_count_shared_points_once(
    other_points: Callable[[Tensor], Tensor],
) -> None:
    """Both sets of points are one, or the second is made of the first."""
    kernel = RelevanceKernel(2, lengthscale=0.4).double()

    def value(X: Tensor) -> Tensor:
        return kernel(X, other_points(X)).to_dense()

    X = uniform(4, 2).requires_grad_()
    pull = uniform(*value(X).shape, seed=2)
    closed, recorded = (
        torch.autograd.grad((pull * value(X)).sum(), X, create_graph=again)[0]
        for again in (False, True)
    )
    torch.testing.assert_close(recorded, closed)
    torch.autograd.gradcheck(value, X)
    torch.autograd.gradgradcheck(value, X)


@pytest.mark.usefixtures("portions")
def test_points_of_choices_alone_have_second_derivatives() -> None:
    """They have no numbers, of which there is nothing to differentiate."""
    kernel = RelevanceKernel(4, categorical=[(0, 1), (2, 3)]).double()
    X = torch.cat([one_hot(torch.arange(4) // n % 2, 2).double() for n in (1, 2)], -1)
    raw = torch.tensor([0.4, -1.0], dtype=DOUBLE)

    def value(raw: Tensor, X: Tensor) -> Tensor:
        # Evaluated later, it would be that of the kernel's own parameters.
        with lazily_evaluate_kernels(False):
            state = {"raw_relevance": raw}
            return torch.func.functional_call(kernel, state, (X,)).to_dense()

    columns = X.unflatten(-1, (2, 2)).movedim(-2, 0)
    expected = sum_over_sets(raw, columns @ columns.mT)
    torch.testing.assert_close(value(raw, X), expected)
    inputs = raw.requires_grad_(True), X.requires_grad_(True)
    torch.autograd.gradcheck(value, inputs)
    torch.autograd.gradgradcheck(value, inputs)


@pytest.mark.usefixtures("portions")
def test_models_of_a_batch_have_relevances_of_their_own() -> None:
    batch = torch.Size([2])
    kernel = RelevanceKernel(5, batch, categorical=[(1, 2, 3)]).double()
    alone = [mixed_kernel() for _ in range(2)]
    with torch.no_grad():
        for place, single in enumerate(alone):
            single.raw_relevance += place
            single.raw_lengthscale -= place
            kernel.raw_relevance[place] = single.raw_relevance
            kernel.raw_lengthscale[place] = single.raw_lengthscale
    X, second_points = mixed_points(4), mixed_points(2 * 4, seed=1).unflatten(0, (2, 4))
    pull = uniform(2, 4, 4, seed=2)
    for diag in (False, True):
        covariance = kernel(X, second_points, diag=diag)
        covariances = covariance if diag else covariance.to_dense()
        weights = pull[..., 0] if diag else pull
        (weights * covariances).sum().backward()
        for place, single in enumerate(alone):
            single.zero_grad()
            alone_found = single(X, second_points[place], diag=diag)
            expected = alone_found if diag else alone_found.to_dense()
            torch.testing.assert_close(covariances[place], expected)
            (weights[place] * expected).sum().backward()
            for name in ("raw_relevance", "raw_lengthscale"):
                gradient = getattr(kernel, name).grad[place]
                torch.testing.assert_close(gradient, getattr(single, name).grad)
        kernel.zero_grad()


@pytest.mark.parametrize("batch", [(), (2,)])
def test_features_have_the_covariance_of_the_kernel(batch: tuple[int, ...]) -> None:
    kernel = RelevanceKernel(5, torch.Size(batch), categorical=[(1, 2, 3)]).double()
    with torch.no_grad():
        kernel.raw_relevance.copy_(torch.tensor([0.1, 0.6, 0.4]).logit())
    X, count = mixed_points(6), 1 << 15
    with manual_seed(3):
        features = gen_kernel_features(kernel, num_inputs=5, num_outputs=2 * count)
    values = features(X)
    covariance = values @ values.mT
    # A mean of cosines of independent phases, each of a variance below one.
    bound = 5 / count**0.5
    error = (covariance - kernel(X).to_dense()).abs().amax().item()
    assert error < bound, f"off by {error:.4f}, {bound:.4f} is five deviations"
    assert error > 1e-8, "the features are the kernel itself, which draws cannot be"


@in_turn("dim", [0, -1])
def test_a_kernel_has_features(dim: int) -> None:
    with pytest.raises(FeedbackError, match=f"dim is {dim}; give an integer of at"):
        DuelKernel(dim)


@in_turn("columns", [[(0, 1), (1, 2)], [(2, 3)], [(-1, 0)], [0, 1], [(0,)], [()]])
def test_columns_of_choices_are_features(columns: list) -> None:
    with pytest.raises(FeedbackError, match="columns of each choice, from 0 to 2"):
        DuelKernel(3, categorical=columns)


@in_turn("value", [0.0, -1.0, math.inf, math.nan])
@in_turn(
    ("kernel", "name"),
    [
        (RelevanceKernel, "lengthscale_spread"),
        (RelevanceKernel, "expected_inputs"),
        (RelevanceKernel, "relevance_spread"),
        (RelevanceKernel, "share_spread"),
        (DuelKernel, "outputscale"),
        (DuelKernel, "outputscale_spread"),
    ],
)
def test_numbers_of_priors_are_positive(kernel: type, name: str, value: float) -> None:
    options: dict = {name: value}
    with pytest.raises(FeedbackError, match=f"{name} is {value}; give a positive"):
        kernel(3, **options)


@in_turn("dim", [1, 3])
def test_points_of_other_dimensions_are_refused(dim: int) -> None:
    """One lengthscale would broadcast, three would fail without a name."""
    points = uniform(4, 2)
    model = EPPreferenceGP(
        points, torch.tensor([[0, 1]]), covar_module=DuelKernel(dim).double()
    )
    with pytest.raises(FeedbackError, match=f"2 features and DuelKernel {dim}"):
        model.posterior(points)


@in_turn("mode", [0.025, 0.0, -1.0, math.inf, math.nan])
def test_modes_that_lengthscales_cannot_have_are_refused(mode: float) -> None:
    with pytest.raises(FeedbackError, match=f"lengthscale is {mode}; give a finite"):
        DuelKernel(2, lengthscale=mode)


@in_turn(("dim", "mode"), [(1, 0.5), (6, 0.5), (64, 0.5), (20, 0.36)])
def test_priors_and_start(dim: int, mode: float) -> None:
    """Log densities are those of the docstrings, and the start is at their modes."""
    kernel = DuelKernel(dim, lengthscale=mode).double()
    base = kernel.base_kernel
    torch.testing.assert_close(
        base.lengthscale.detach(), torch.full((1, dim), mode, dtype=DOUBLE)
    )
    scale = {1: 10.0, 6: 10.0, 20: 3.0, 64: 0.9375}[dim]
    assert float(kernel.outputscale.detach()) == pytest.approx(scale)
    for prior, most_probable, spread in (
        (base.lengthscale_prior, mode, 0.5),
        (kernel.outputscale_prior, scale, 1.0),
    ):
        values = most_probable * torch.tensor([0.2, 1.0, 5.0], dtype=DOUBLE)
        density = prior.log_prob(values)
        expected = -(math.log(5) ** 2) / (2 * spread**2)
        assert float(density[0] - density[1]) == pytest.approx(expected, rel=1e-5)
        assert float(density[2] - density[1]) == pytest.approx(expected, rel=1e-5)
    chosen = DuelKernel(20, outputscale=4.0, outputscale_spread=0.5)
    assert float(chosen.outputscale.detach()) == pytest.approx(4.0 * 6 / 20)
    ends = chosen.outputscale_prior.log_prob(torch.tensor([1.2, 6.0]).double())
    fall = float(ends[1] - ends[0])
    assert fall == pytest.approx(-(math.log(5) ** 2) / (2 * 0.5**2), rel=1e-5)
    start = base.relevance.detach()
    torch.testing.assert_close(start, torch.full_like(start, min(3 / dim, 0.5)))
    step = uniform(dim)
    spread, together, apart = 1.0, step.mean(), step - step.mean()
    expected = -0.5 * apart.square().sum() / spread**2
    expected = expected - 0.5 * dim * together**2 / (spread**2 + dim * 1.5**2)
    log_odds = base.raw_relevance.detach()
    prior = base.relevance_prior
    difference = prior.log_prob(log_odds + step) - prior.log_prob(log_odds)
    torch.testing.assert_close(difference, expected, rtol=1e-5, atol=1e-8)


def test_few_answers_do_not_carry_the_scales_away() -> None:
    """Six answers of a coin: the default kernel's lengthscales leave by factors."""
    X = uniform(12, 2, seed=3)
    pairs = torch.arange(12).reshape(6, 2)
    model = EPPreferenceGP(X, pairs, covar_module=DuelKernel(2))
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    start = DuelKernel(2).base_kernel.lengthscale.detach()
    ratio = (model.covar_module.base_kernel.lengthscale / start).log().abs()
    # Within three deviations of the prior's logarithm.
    assert float(ratio.detach().amax()) < 1.5


def test_answers_tell_which_inputs_matter() -> None:
    """Of a sum of two inputs among five, after 60 duels of random points."""
    X = uniform(120, 5, seed=1)
    utility = 6 * X[:, 1] - 8 * (X[:, 3] - 0.4).abs()
    pairs = torch.arange(120).reshape(60, 2)
    loses = utility[pairs[:, 0]] < utility[pairs[:, 1]]
    pairs[loses] = pairs[loses].flip(-1)
    model = EPPreferenceGP(X, pairs, covar_module=DuelKernel(5))
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    relevance = model.covar_module.base_kernel.relevance.detach()
    matters = torch.tensor([False, True, False, True, False])
    smallest, largest = relevance[matters].amin(), relevance[~matters].amax()
    assert smallest > 1.3 * largest, f"an input that does nothing matters: {relevance}"
