"""Batches of models, t-batches and both; transforms that change which points differ."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.models.transforms.input import (
    AppendFeatures,
    ChainedInputTransform,
    InputPerturbation,
    InteractionFeatures,
    Normalize,
    Round,
)
from draws import uniform
from gpytorch.means import LinearMean
from registry import ENGINES
from torch import Tensor

from botorch_pref import (
    Comparisons,
    DuelingEUBO,
    DuelingThompson,
    DuelSampler,
    EPPreferenceGP,
    PlackettLuceRegression,
    SkewPreferenceGP,
    champion,
    choice_probability,
    incumbent,
    log_validity_probability,
    recommend,
)
from botorch_pref.acquisition import likely_best
from botorch_pref.evaluation import (
    best_probability,
    feature_effect,
    leaderboard,
    predictive_log_probability,
)
from botorch_pref.inference.engine import cross_covariance
from botorch_pref.models import RelevanceKernel
from botorch_pref.models.raters import GroupUtility

DOUBLE = torch.float64
# Many draws, because batches and single models draw other ones.
OURS = {cls: entry.with_draws(4096).options for cls, entry in ENGINES.items()}


POINTS = uniform(2, 6, 2)
PAIRS = torch.tensor([[[0, 1], [2, 3], [4, 5]], [[1, 0], [2, 5], [3, 4]]])


# The others predict as the first of them does.
@pytest.fixture(params=[EPPreferenceGP, SkewPreferenceGP], ids=lambda cls: cls.__name__)
def cls(request: pytest.FixtureRequest) -> Any:
    return request.param


def build(cls: Any, *data: Any, **options: Any) -> Any:
    return cls(*data, **(OURS[cls] | options))


def tolerance(cls: Any) -> float:
    """Returns six standard errors of the difference of two means of draws."""
    return 6 * (2 / 4096) ** 0.5 if cls is SkewPreferenceGP else 1e-6


def duel_mean(model: Any, x: Tensor, ref: Tensor) -> Tensor:
    posterior = model.duel_posterior(x, ref)
    return (posterior.mean / posterior.variance.sqrt()).squeeze(-1)


QUANTITIES: list[Callable[[Any, Tensor, Tensor], Tensor]] = [
    duel_mean,
    lambda m, x, ref: m.duel_probability(x, ref),
    lambda m, x, ref: m.duel_probability(x, ref, observation_noise=True),
]


@pytest.mark.parametrize(
    ("x_shape", "ref_shape"),
    [
        ((3,), (1,)),
        ((3,), (3,)),
        ((5, 1, 3), (1,)),
        ((3,), (5, 1, 1)),
        ((2, 3), (2, 1)),
    ],
    ids=["one", "each", "t-batch of x", "t-batch of reference", "batch of the model"],
)
def test_duels_broadcast_and_equal_loops(
    cls: Any, x_shape: tuple[int, ...], ref_shape: tuple[int, ...]
) -> None:
    x, ref = uniform(*x_shape, 2, seed=1), uniform(*ref_shape, 2, seed=2)
    batch = torch.broadcast_shapes((2,), x_shape[:-1], ref_shape[:-1])
    model = build(cls, POINTS, PAIRS)
    values = [quantity(model, x, ref).detach() for quantity in QUANTITIES]
    assert {value.shape for value in values} == {(*batch, 3)}
    x, ref = (t.expand(*batch, *t.shape[-2:]) for t in (x, ref))
    for i in range(2):
        alone = build(cls, POINTS[i], PAIRS[i])
        for quantity, value in zip(QUANTITIES, values, strict=True):
            expected = quantity(alone, x[..., i, :, :], ref[..., i, :, :]).detach()
            assert (value[..., i, :] - expected).abs().max().item() < tolerance(cls)


def test_two_batch_dimensions(cls: Any) -> None:
    points, pairs = uniform(3, 1, 6, 2), PAIRS.expand(3, 2, 3, 2)
    model = build(cls, points, pairs)
    assert model.batch_shape == (3, 2)
    posterior = model.posterior(uniform(4, 1, 1, 5, 2, seed=1))
    assert posterior.mean.shape == posterior.variance.shape == (4, 3, 2, 5, 1)
    assert posterior.rsample(torch.Size([7])).shape == (7, 4, 3, 2, 5, 1)
    evidence = model.log_evidence()
    assert evidence.shape == (3, 2)
    alone = build(cls, points[2, 0], pairs[2, 1])
    torch.testing.assert_close(evidence[2, 1], alone.log_evidence())


def test_a_batch_of_kernels_alone() -> None:
    """Data have no batch; each kernel predicts as it does by itself."""
    kernel = RelevanceKernel(2, torch.Size([3, 2])).double()
    with torch.no_grad():
        kernel.raw_relevance += uniform(3, 2, 2, seed=1)
    batch = EPPreferenceGP(POINTS[0], PAIRS[0], covar_module=kernel)
    X = uniform(5, 3, 2, 4, 2, seed=2)
    mean = batch.posterior(X).mean.detach()
    assert mean.shape == (5, 3, 2, 4, 1)
    for i, j in ((0, 0), (2, 1)):
        single = RelevanceKernel(2).double()
        with torch.no_grad():
            single.raw_relevance.copy_(kernel.raw_relevance[i, j])
        alone = EPPreferenceGP(POINTS[0], PAIRS[0], covar_module=single)
        expected = alone.posterior(X[:, i, j]).mean.detach()
        torch.testing.assert_close(mean[:, i, j], expected, rtol=1e-6, atol=1e-6)


def test_a_batch_of_kernels_predicts_of_no_points() -> None:
    kernel = RelevanceKernel(2, torch.Size([3])).double()
    batch = EPPreferenceGP(POINTS[0], PAIRS[0], covar_module=kernel)
    covariance = cross_covariance(kernel, POINTS.new_zeros(0, 1, 4, 2), POINTS[0])
    assert covariance.shape == (0, 3, 4, 6), "an empty t-batch has no covariance"
    assert batch.posterior(uniform(5, 1, 4, 2)).mean.shape == (5, 3, 4, 1)


@pytest.mark.parametrize("cls", [*ENGINES], ids=lambda cls: cls.__name__)
def test_a_batch_of_prior_means_alone(cls: Any) -> None:
    """Data and kernel have no batch; each mean has the model that it has by itself."""
    slopes = torch.tensor([[[0.0], [0.0]], [[2.0], [1.0]], [[-1.0], [3.0]]]).double()

    def with_mean(*batch: int, weights: Tensor) -> Any:
        mean = LinearMean(2, batch_shape=torch.Size(batch), bias=False)
        mean.weights = torch.nn.Parameter(weights.clone())
        return build(cls, POINTS[0], PAIRS[0], mean_module=mean)

    model, x = with_mean(3, weights=slopes), uniform(4, 2, seed=1)
    evidence = model.log_evidence()
    (slope,) = torch.autograd.grad(evidence.sum(), model.mean_module.weights)
    posterior = model.posterior(x)
    for i, weights in enumerate(slopes):
        alone = with_mean(weights=weights)
        expected = alone.log_evidence()
        torch.testing.assert_close(evidence[i], expected)
        (weight_slope,) = torch.autograd.grad(expected, alone.mean_module.weights)
        torch.testing.assert_close(slope[i], weight_slope, rtol=1e-5, atol=1e-6)
        off = (posterior.mean[i] - alone.posterior(x).mean).abs()
        assert (off / posterior.variance[i].sqrt()).max() < tolerance(cls)
        # As many duels as models, which are not each other's.
        won, weight_slope = (m.duel_probability(x[:3], x[3:]) for m in (model, alone))
        assert (won[i] - weight_slope).abs().max() < tolerance(cls)


@pytest.mark.parametrize("learned", [False, True], ids=["round", "round a learned one"])
def test_points_that_a_transform_makes_equal_are_one(cls: Any, learned: bool) -> None:
    """In train mode the transform is applied on the way, in eval mode beforehand."""
    x = 4 * uniform(12, 2, seed=4)
    pairs = torch.arange(12).view(6, 2)[[0, 1, 2, 4]]
    rounding = Round(integer_indices=[0, 1], approximate=False)
    transform = (
        ChainedInputTransform(round=rounding, normalise=Normalize(2))
        if learned
        else rounding
    )
    model = build(cls, x, pairs, input_transform=transform)
    low, high = x.round().amin(0), x.round().amax(0)
    cells = (x.round() - low) / (high - low) if learned else x.round()
    plain = build(cls, cells, pairs)
    assert len(cells.unique(dim=0)) < 12
    torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
    new = uniform(5, 2, seed=5)
    inputs = 4 * new if not learned else new * (high - low) + low
    rounded = inputs.round() if not learned else (inputs.round() - low) / (high - low)
    for _ in range(2):
        mean, expected = model.posterior(inputs).mean, plain.posterior(rounded).mean
        error = (mean - expected).abs().max() / plain.posterior(rounded).variance.max()
        assert error.item() < 1e-5
        torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
        model.train()
        assert torch.equal(model.train_inputs[0], x)


def test_a_transform_may_turn_a_point_into_several(cls: Any) -> None:
    x = uniform(6, 1, seed=6)
    added = torch.tensor([[0.2], [0.8]], dtype=DOUBLE)
    joined = torch.cat([x, torch.full_like(x, 0.5)], dim=-1)
    # BoTorch's robust models are trained on all features and asked for some.
    transform = AppendFeatures(added, transform_on_train=False)
    model = build(cls, joined, PAIRS[0], input_transform=transform)
    posterior = model.posterior(x[:3])
    noisy = model.posterior(x[:3], observation_noise=True)
    assert posterior.mean.shape == noisy.mean.shape == (6, 1)
    plain = build(cls, joined, PAIRS[0])
    stacked = torch.cat([x[:3].repeat_interleave(2, 0), added.repeat(3, 1)], dim=-1)
    torch.testing.assert_close(posterior.mean, plain.posterior(stacked).mean)


MOVES = torch.tensor([[-0.1, 0.0], [0.1, 0.1], [0.0, 0.05]], dtype=DOUBLE)
ONE = uniform(8, 2, seed=9)
DUELS = Comparisons(torch.tensor([[0, 1], [2, 3], [4, 5]]))


def robust(cls: Any = EPPreferenceGP, n: int = 6, pairs: Any = DUELS) -> Any:
    unit = Normalize(2, bounds=torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double())
    moved = ChainedInputTransform(unit=unit, moved=InputPerturbation(MOVES))
    return build(cls, ONE[:n], pairs, input_transform=moved)


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.duel_posterior(ONE[:2], ONE[2:3]),
        lambda m: m.duel_probability(ONE[:2], ONE[2:3]),
        champion,
        incumbent,
        lambda m: recommend(m, torch.tensor([[0.0, 0.0], [1.0, 1.0]])),
        DuelingEUBO,
        lambda m: DuelingThompson(m, ONE[:1]),
        lambda m: likely_best(m, ONE),
        leaderboard,
        lambda m: best_probability(m, ONE[:2]),
        lambda m: feature_effect(m, ONE, ("a", "b"), 0, torch.Generator()),
        lambda m: predictive_log_probability(DUELS, m, ONE),
        lambda m: choice_probability(m, ONE[:2]),
        lambda m: log_validity_probability(m, ONE[:2]),
        lambda m: GroupUtility(m, torch.arange(2.0)),
    ],
)
def test_what_is_of_one_utility_a_point_refuses_several(ask: Any) -> None:
    with pytest.raises(UnsupportedError, match="this EPPreferenceGP makes several"):
        ask(robust())


def test_the_linear_duels_of_several_points_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="InputPerturbation of this Plackett"):
        PlackettLuceRegression(
            ONE, DUELS, input_transform=InputPerturbation(MOVES)
        ).duel_probability(ONE[:2], ONE[2:4])


@pytest.mark.parametrize("model", [EPPreferenceGP, PlackettLuceRegression])
def test_answers_are_about_points_as_they_are(model: Any) -> None:
    transform = InputPerturbation(MOVES, transform_on_train=True)
    with pytest.raises(UnsupportedError, match=r"24 points of the 8 .*on_train=False"):
        model(ONE, DUELS, input_transform=transform)


@pytest.mark.parametrize("is_made", [True, False], ids=["of others", "one context"])
def test_one_point_of_each_has_duels(cls: Any, is_made: bool) -> None:
    """Features of other ones, or one context, are no several points."""
    full = torch.cat([ONE[:6], ONE[:6].prod(-1, keepdim=True)], dim=-1)
    plain, x = build(cls, full, DUELS), ONE[:2]
    if is_made:
        model = build(cls, ONE[:6], DUELS, input_transform=InteractionFeatures())
        duels, wanted = (x, ONE[2:4]), (full[:2], full[2:4])
    else:
        transform = AppendFeatures(full[:1, -1:], transform_on_train=False)
        model = build(cls, full, DUELS, input_transform=transform)
        context = full[:1, -1:].expand(2, 1)
        duels = x, ONE[2:4]
        wanted = tuple(torch.cat([z, context], dim=-1) for z in duels)
    expected = plain.duel_probability(*wanted)
    torch.testing.assert_close(model.duel_probability(*duels), expected)


def test_further_answers_are_about_points_as_they_are_too(cls: Any) -> None:
    model, x = robust(cls), ONE[:3]
    model.posterior(x)
    further_pairs = torch.tensor([[1, 0]])
    pairs = Comparisons(torch.cat([DUELS.pairs, further_pairs + 6]))
    expected = robust(cls, 8, pairs).posterior(x)
    for new in (
        model.condition_on_observations(ONE[6:], further_pairs),
        model.fantasize(ONE[6:], Always(torch.Size([1]), further_pairs)),
    ):
        gap = new.posterior(x).mean - expected.mean
        assert gap.abs().max() < tolerance(cls) * expected.variance.max().sqrt()


class Always(DuelSampler):
    """Draws of two points that have the same answer always."""

    def __init__(self, shape: torch.Size, answer: Tensor) -> None:
        super().__init__(shape)
        self.answer = answer

    def forward(self, posterior: Any) -> Tensor:
        """Returns the answer, of a posterior of two points."""
        assert posterior.mean.shape == (2, 1)
        return self.answer.expand(*self.sample_shape, 1, 2)
