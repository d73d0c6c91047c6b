"""More answers of every kind, under every engine, against models of all at once."""

import copy
import dataclasses
import importlib
import itertools
import math
from typing import Any

import pytest
import torch
from botorch.models.transforms.input import Normalize
from entries import Cell
from models.cell_models import (
    MIRROR,
    NEW,
    build,
    each_engine,
    each_part,
    moments,
    relabelled,
    takes,
)
from registry import CELLS
from torch import Tensor
from truths.answers import POINTS

from botorch_pref import (
    AffineProbitLikelihood,
    Comparisons,
    EPPreferenceGP,
    FeedbackError,
    LaplacePreferenceGP,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceRegression,
    Rankings,
    SkewPreferenceGP,
    Strengths,
    UnsupportedFeedbackError,
    Validity,
    VariationalPreferenceGP,
)
from botorch_pref.feedback import Feedback
from botorch_pref.models import PreferenceGP

DOUBLE = torch.float64
# Not all of them: a point that is known twice, and three that are not.
LATER = torch.tensor([[0.2], [0.35], [0.75], [0.9]], dtype=DOUBLE)
NUM_DRAWS = 1024


def made(engine: type, cells: list[Cell], points: Tensor = POINTS, **options: Any):
    if issubclass(engine, SkewPreferenceGP):
        options = {"num_draws": NUM_DRAWS} | options
    return build(engine, cells, points, **options)


def mirrored(feedback: Feedback) -> Feedback:
    """Makes answers that do not contradict, but are fewer, and elsewhere."""
    return relabelled(feedback.map_tensors(lambda t: t[1:]), MIRROR)


def of(cell: Cell, *blocks: Feedback) -> Cell:
    joined = blocks[0]
    for i, block in enumerate(blocks[1:], start=1):
        joined = joined.followed_by(block.shifted(4 * i))
    return dataclasses.replace(cell, feedback=joined)


def assert_same(actual: PreferenceGP, expected: PreferenceGP, x: Tensor = NEW) -> None:
    """Compares in deviations of the posterior; draws, by five standard errors."""
    (mean, covariance), (second_mean, truth) = moments(actual, x), moments(expected, x)
    tolerance = 1e-6
    if isinstance(actual, SkewPreferenceGP):
        sizes = [m.diagnostics()["effective_sample_size"] for m in (actual, expected)]
        tolerance = 5 * math.sqrt(sum(1 / min(size, NUM_DRAWS) for size in sizes))
    sd = truth.diagonal(dim1=-2, dim2=-1).sqrt()
    assert mean.shape == second_mean.shape
    assert float(((mean - second_mean) / sd).abs().max()) < tolerance
    error = (covariance - truth) / (sd.unsqueeze(-1) * sd.unsqueeze(-2))
    assert float(error.abs().max()) < 1.5 * tolerance


@each_part
def test_all_kinds_join_twice(engine, cell) -> None:
    mirrored_answers = mirrored(cell.feedback)
    model = made(engine, [cell])
    model.posterior(NEW)
    before = moments(copy.deepcopy(model))
    once = model.condition_on_observations(LATER, mirrored_answers)
    once.posterior(NEW)
    twice = once.condition_on_observations(LATER + 0.03, [mirrored_answers])
    points = torch.cat([POINTS, LATER, LATER + 0.03])
    assert_same(
        once, made(engine, [of(cell, cell.feedback, mirrored_answers)], points[:8])
    )
    everything = made(
        engine, [of(cell, cell.feedback, mirrored_answers, mirrored_answers)], points
    )
    assert_same(twice, everything)
    torch.testing.assert_close(
        twice.log_evidence(), everything.log_evidence(), rtol=1e-6, atol=1e-6
    )
    # It is the model that it was.
    assert len(model.datapoints) == 4
    for got, want in zip(moments(model), before, strict=True):
        torch.testing.assert_close(got, want)


@each_part
def test_a_model_of_nothing_learns_every_kind(engine, cell) -> None:
    kind = type(cell.feedback)
    empty = engine(
        likelihood={kind: cell.likelihood().double()},
        **({"num_draws": NUM_DRAWS} if engine is SkewPreferenceGP else {}),
    )
    expected = made(engine, [cell])
    empty.mean_module, empty.covar_module = (
        expected.mean_module,
        expected.covar_module,
    )
    assert_same(empty.condition_on_observations(POINTS, cell.feedback), expected)
    without_answers = made(engine, [cell])
    without_answers.set_train_data(LATER, feedback=[])
    without_answers._data = dataclasses.replace(without_answers._data, feedback=())
    later = without_answers.condition_on_observations(POINTS, cell.feedback)
    assert_same(later, expected)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_a_model_without_data_keeps_the_tensors_that_it_is_given(
    dtype: torch.dtype,
) -> None:
    """As `PairwiseGP`, by BoTorch's own tests."""
    points, pairs = NEW.to(dtype), torch.tensor([[0, 1], [2, 1]])
    empty = EPPreferenceGP().to(dtype)
    conditioned = empty.condition_on_observations(points, pairs)
    assert conditioned.datapoints is points
    assert conditioned.comparisons is pairs
    fantasy = conditioned.condition_on_observations(points, pairs)
    assert fantasy.datapoints.shape == (6, 1)
    assert fantasy.comparisons.tolist() == [[0, 1], [2, 1], [3, 4], [5, 4]]
    other_dtype = torch.float32 if dtype is DOUBLE else DOUBLE
    assert conditioned.to(other_dtype).datapoints.dtype == other_dtype
    conditioned.set_train_data(points[:2].to(other_dtype), pairs[:1])
    assert torch.equal(conditioned.datapoints, points[:2].to(other_dtype))
    assert torch.equal(conditioned.comparisons, pairs[:1])


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@each_engine
def test_inputs_are_transformed_in_either_mode(engine, train) -> None:
    cell = next(c for c in CELLS if takes(engine, c))
    mirrored_answers = mirrored(cell.feedback)
    bounds = torch.tensor([[-1.0], [2.0]], dtype=DOUBLE)

    def scaled(*arguments: Any) -> PreferenceGP:
        model = made(*arguments, input_transform=Normalize(1, bounds=bounds))
        model.covar_module.base_kernel.lengthscale = 0.15
        return model

    model = scaled(engine, [cell])
    model.posterior(NEW)
    model.train(train)
    new = model.condition_on_observations(LATER, mirrored_answers)
    assert new.training is train
    assert model.training is train
    twice = new.condition_on_observations(LATER + 0.03, mirrored_answers)
    points = torch.cat([POINTS, LATER, LATER + 0.03])
    expected = scaled(
        engine, [of(cell, cell.feedback, mirrored_answers, mirrored_answers)], points
    )
    assert_same(twice, expected)
    torch.testing.assert_close(twice.datapoints, points)


SHAPES = [((), (3,)), ((2, 1), (3,))]


@pytest.mark.parametrize(("of_points", "of_answers"), SHAPES)
@each_engine
def test_new_batches_are_those_of_points_and_answers(
    engine, of_points, of_answers
) -> None:
    cell = next(c for c in CELLS if takes(engine, c))
    model = made(engine, [cell])
    model.posterior(NEW)
    batch = torch.broadcast_shapes(of_points, of_answers)
    shift = torch.rand(*of_points, 1, 1, generator=torch.Generator().manual_seed(0))
    x = LATER + 0.1 * shift.double()
    pairs = torch.tensor([[[0, 1]], [[1, 0]], [[3, 2]]])
    pairs = pairs[: of_answers[0]] if of_answers else pairs[0]
    new = model.condition_on_observations(x, pairs)
    assert new.batch_shape == batch
    mean, covariance = moments(new)
    x, pairs = x.expand(*batch, 4, 1), pairs.expand(*batch, 1, 2)
    for element in itertools.product(*map(range, batch)):
        single = model.condition_on_observations(x[element], pairs[element])
        expected = moments(single)
        # Elements share random numbers: draws are equal too.
        torch.testing.assert_close(mean[element], expected[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            covariance[element], expected[1], rtol=1e-5, atol=1e-6
        )


def test_several_kinds_join_at_once_in_any_order() -> None:
    likelihood = {
        Comparisons: PairwiseProbitLikelihood(0.4, tie_threshold=0.3),
        Validity: AffineProbitLikelihood(0.5),
        Rankings: PairwiseProbitLikelihood(0.4),
    }
    validity = Validity(torch.tensor([0, 2]), torch.tensor([True, False]))
    rankings = Rankings(torch.tensor([[2, 0, 1], [3, 1, -1]]))
    ties = Comparisons(torch.tensor([[0, 1]]), torch.tensor([[2, 3]]))
    model = EPPreferenceGP(
        POINTS, feedback=[validity, rankings], likelihood=likelihood
    ).eval()
    model.posterior(NEW)
    wide = Rankings(torch.tensor([[3, 2, 1, 0]]))
    new = model.condition_on_observations(LATER, [wide, ties, validity])
    assert [type(b) for b in new.feedback] == [Comparisons, Validity, Rankings]
    everything = EPPreferenceGP(
        torch.cat([POINTS, LATER]),
        feedback=[
            validity.followed_by(validity.shifted(4)),
            rankings.followed_by(wide.shifted(4)),
            ties.shifted(4),
        ],
        likelihood=likelihood,
    )
    everything.load_state_dict(model.state_dict())
    assert_same(new, everything.eval())
    # Each site stays with its answer, and further ones are not empty.
    (before, _), (start, _) = (
        m._cache.start.sites
        for m in (model, model.condition_on_observations(LATER, [wide, ties, validity]))
    )
    assert torch.equal(start[2:4], before[:2])
    assert torch.equal(start[6:9], before[2:])
    assert bool((start[[0, 1, 4, 5, 9, 10, 11]] > 0).all())
    assert len(start) == 12


def test_the_engine_starts_where_it_was() -> None:
    """With fewer sweeps and steps than from nothing."""
    x = torch.rand(60, 3, generator=torch.Generator().manual_seed(2)).double()
    pairs = torch.arange(60).view(30, 2)
    pair, answer = x[:2] + 0.1, torch.tensor([[0, 1]])
    sharp, soft = PairwiseProbitLikelihood(0.05), PairwiseLogitLikelihood()
    for engine, likelihood in (
        (EPPreferenceGP, sharp),
        (LaplacePreferenceGP, sharp),
        (VariationalPreferenceGP, soft),
    ):
        model = engine(x, pairs, likelihood=likelihood)
        model.posterior(pair)
        warm = model.condition_on_observations(pair, answer)
        cold = copy.deepcopy(warm)
        cold.set_train_data()
        fewer = warm.diagnostics()["iterations"], cold.diagnostics()["iterations"]
        assert fewer[0] < fewer[1]


# --- Draws that go on


def tuned(**options: Any) -> SkewPreferenceGP:
    cell = CELLS[0]
    return build(SkewPreferenceGP, [cell], num_draws=4096, **options)


def test_continued_draws_are_as_exact_as_new_ones() -> None:
    model = tuned()
    model.posterior(NEW)
    mirrored_answers = mirrored(CELLS[0].feedback)
    continued = model.condition_on_observations(LATER, mirrored_answers)
    anew = copy.deepcopy(continued)
    anew.set_train_data()
    (mean, covariance), (second_mean, truth) = moments(continued), moments(anew)
    assert continued.solution().ep_solution is None
    assert anew.solution().ep_solution is not None
    sd = truth.diagonal().sqrt()
    size = continued.diagnostics()["effective_sample_size"]
    assert 0.25 * 4096 < size < 4096
    error = 4 * (1 / size + 1 / 4096) ** 0.5
    assert float(((mean - second_mean) / sd).abs().max()) < error
    spread = (covariance - truth) / torch.outer(sd, sd)
    assert float(spread.abs().max()) < 1.5 * error
    skewness = continued.posterior(NEW).skewness - anew.posterior(NEW).skewness
    assert float(skewness.detach().abs().max()) < 4 * error
    # What EP says of it is still to be had.
    evidence = continued.diagnostics()["log_evidence"]
    torch.testing.assert_close(evidence, anew.log_evidence().detach())


def test_continued_draws_have_a_gradient_in_the_further_points() -> None:
    """That of the chains' posterior, as far as both are known."""
    slopes = []
    for continued in (True, False):
        model = tuned()
        model.posterior(NEW)
        x = LATER[::3].clone().requires_grad_()
        new = model.condition_on_observations(x, torch.tensor([[1, 0]]))
        if not continued:
            new.set_train_data(new.datapoints)
        mean = new.posterior(NEW).mean
        rows = [torch.autograd.grad(m, x, retain_graph=True)[0] for m in mean.flatten()]
        slopes.append(torch.stack(rows))
    mine, anew = slopes
    assert float(anew.abs().max()) > 0.3
    assert float((mine - anew).norm() / anew.norm()) < 0.15


def test_chains_run_anew_where_an_answer_was_not_expected() -> None:
    x = torch.tensor([[0.0], [1.0]], dtype=DOUBLE)
    model = SkewPreferenceGP(
        x,
        torch.tensor([[0, 1]] * 8),
        likelihood=PairwiseProbitLikelihood(0.05),
        num_draws=512,
    )
    model.covar_module.outputscale = 2.0
    model.posterior(x)
    expected = model.condition_on_observations(x, torch.tensor([[0, 1]]))
    surprise = model.condition_on_observations(x, torch.tensor([[1, 0]]))
    assert float(surprise._cache.start.draws.effective_sample_size) < 0.25 * 512
    for new, runs in ((expected, False), (surprise, True)):
        new.posterior(x)
        assert (new.solution().ep_solution is not None) is runs
        assert new.diagnostics()["effective_sample_size"] >= 0.25 * 512


@pytest.mark.slow
def test_draws_of_other_hyper_parameters_do_not_go_on() -> None:
    model = tuned()
    model.posterior(NEW)
    mirrored_answers = mirrored(CELLS[0].feedback)
    new = model.condition_on_observations(LATER, mirrored_answers)
    new.covar_module.outputscale = 4.0
    expected = tuned()
    expected.covar_module.outputscale = 4.0
    expected.set_train_data(
        torch.cat([POINTS, LATER]),
        CELLS[0].feedback.followed_by(mirrored_answers.shifted(4)),
    )
    for got, want in zip(moments(new), moments(expected), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)
    # Nor those that were drawn before the last change.
    model.covar_module.outputscale = 4.0
    later = model.condition_on_observations(LATER, mirrored_answers)
    assert_same(later, expected)


def test_every_answer_has_random_numbers_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the chains' nor those that an earlier answer was continued with."""
    module = importlib.import_module("botorch_pref.inference.skew.unified_skew_normal")
    seeds, continued = [], module.continue_draws

    def seen(*arguments: Any) -> Any:
        seeds.append(arguments[-1].initial_seed())
        return continued(*arguments)

    monkeypatch.setattr(module, "continue_draws", seen)
    model = made(SkewPreferenceGP, [CELLS[0]], num_draws=64, seed=3)
    for _ in range(3):
        model.posterior(NEW)
        model = model.condition_on_observations(LATER, torch.tensor([[0, 1]]))
    assert len({3, *seeds}) == 4


# --- Weights of features


def test_regression_joins_choices_and_rankings() -> None:
    x = torch.rand(5, 2, generator=torch.Generator().manual_seed(0)).double()
    later = x.flip(-1)[:4]
    rankings = Rankings(torch.tensor([[0, 2, 1], [3, 4, -1]]))
    wide = Rankings(torch.tensor([[3, 0, 1, 2]]))
    model = PlackettLuceRegression(x, feedback=[rankings], inference="laplace")
    new = model.condition_on_observations(
        later, [wide, Comparisons(wide.orders[:, :2])]
    )
    expected = PlackettLuceRegression(
        torch.cat([x, later]),
        wide.orders[:, :2] + 5,
        feedback=[rankings.followed_by(wide.shifted(5))],
        inference="laplace",
    )
    torch.testing.assert_close(new.weights_mean, expected.weights_mean)
    torch.testing.assert_close(new.weights_covariance, expected.weights_covariance)
    batch = model.condition_on_observations(
        torch.stack([later, later + 1]), torch.tensor([[[[0, 1]]], [[[1, 0]]]])
    )
    assert batch.batch_shape == (2, 2)
    single = model.condition_on_observations(later + 1, torch.tensor([[1, 0]]))
    torch.testing.assert_close(batch.weights_mean[1, 1], single.weights_mean)


# --- What cannot join


@each_engine
def test_answers_that_mean_nothing_are_refused(engine) -> None:
    cell = next(c for c in CELLS if takes(engine, c))
    model = made(engine, [cell])
    with pytest.raises(FeedbackError, match=r"there are 4 datapoints"):
        model.condition_on_observations(LATER, Comparisons(torch.tensor([[0, 4]])))
    with pytest.raises(FeedbackError, match="integers"):
        model.condition_on_observations(LATER, torch.rand(4, 1))
    block = Comparisons(torch.tensor([[0, 1]]))
    with pytest.raises(FeedbackError, match=r"2 blocks of Comparisons.*followed_by"):
        model.condition_on_observations(LATER, [block, block])
    with pytest.raises(FeedbackError, match="number of features"):
        model.condition_on_observations(LATER.expand(4, 3), torch.tensor([[0, 1]]))
    kind = Strengths(torch.tensor([[0, 1]]), torch.tensor([0.7]))
    if isinstance(cell.feedback, Strengths):
        return
    with pytest.raises(
        UnsupportedFeedbackError, match=r"no likelihood for Strengths.*Strengths:"
    ):
        model.condition_on_observations(LATER, kind)
