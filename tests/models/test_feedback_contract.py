"""Every kind of feedback through the life of a model, under every engine that takes it.

What is here holds for any answers, so that a new kind of feedback or likelihood needs
nothing but its entries in the registry.
"""

import copy
import dataclasses
import math
import pickle
from typing import Any

import pytest
import torch
from botorch.models.transforms.input import Normalize
from entries import Cell
from hypothesis import given, settings
from hypothesis import strategies as st
from models.cell_models import (
    NEW,
    PARTS,
    assert_same_model,
    assert_same_moments,
    each_part,
    late,
    made,
    moments,
    names,
    other_answers,
    relabelled,
    reordered,
    same_answers,
    stacked,
    takes,
    tensors,
    with_feedback,
)
from registry import CELLS, RANDOM
from torch import Generator, Tensor
from truths.answers import NOISE, POINTS

from botorch_pref import (
    OrdinalRatings,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
)

DOUBLE = torch.float64
# Every answer under one engine that takes it, and each engine with one of them.
FIRST = {names(p.values[1]): p for p in reversed(PARTS)}
FIRST |= {p.values[0].__name__: p for p in reversed(PARTS)}
each_answer = pytest.mark.parametrize(
    ("engine", "cell"), {p.id: p for p in FIRST.values()}.values()
)

# --- Copies, storage, precision


CLONES = (copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)))


@each_answer
def test_copies_keep_answers_and_predictions(engine, cell) -> None:
    model = made(engine, cell, input_transform=Normalize(1))
    fresh = [clone(model) for clone in CLONES]
    model.log_evidence().backward()
    expected = moments(model)
    priors = [name for name, *_ in model.named_priors()]
    for tested in (*fresh, *(clone(model) for clone in CLONES)):
        assert same_answers(tested.feedback[0], cell.feedback), (
            "a copy of a model has other answers"
        )
        assert [name for name, *_ in tested.named_priors()] == priors, (
            f"a copy of a model has other priors than {priors}"
        )
        torch.testing.assert_close(tested.datapoints, POINTS)
        torch.testing.assert_close(moments(tested), expected, rtol=0, atol=1e-6)


@each_answer
def test_the_state_dict_carries_every_parameter(engine, cell) -> None:
    model, loaded = made(engine, cell), made(engine, cell)
    generator = Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.rand(parameter.shape, generator=generator))
    stale = loaded.log_evidence()
    loaded.load_state_dict(model.state_dict())
    assert_same_model(engine, loaded, model)
    assert abs(float((loaded.log_evidence() - stale).detach())) > 1e-3, (
        "the state that was loaded changed no evidence"
    )


@each_part
def test_single_precision_and_back(engine, cell) -> None:
    model = made(engine, cell)
    expected, evidence = moments(model), model.log_evidence().detach()
    model.to(torch.float32)
    floats = [v for v in tensors(model.feedback[0]).values() if v.is_floating_point()]
    assert all(v.dtype == torch.float32 for v in floats), (
        "after model.to(float32) some numbers of the answers are in another precision"
    )
    single = tuple(part.double() for part in moments(model, NEW.float()))
    assert model.posterior(NEW.float()).mean.dtype == torch.float32, (
        "a model in single precision predicts in another one"
    )
    # The square root of single precision, which is where engines stop.
    assert_same_moments(engine, single, expected, 3e-3)
    low = model.log_evidence()
    assert low.dtype == torch.float32, (
        f"the evidence of a model in single precision is in {low.dtype}"
    )
    torch.testing.assert_close(low.detach().double(), evidence, rtol=1e-4, atol=1e-4)
    model.to(torch.float64)
    # What single precision has rounded stays rounded.
    assert_same_moments(engine, moments(model), expected, 1e-4)


# --- Other answers


@each_answer
def test_answers_without_a_likelihood_are_refused_at_once(engine, cell) -> None:
    model = made(engine, cell)
    before = moments(model)
    kind = Validity if type(cell.feedback) is not Validity else OrdinalRatings
    other_answers = next(c.feedback for c in CELLS if type(c.feedback) is kind)
    with pytest.raises(
        UnsupportedFeedbackError, match=f"no likelihood for {kind.__name__}"
    ):
        model.set_train_data(feedback=[other_answers])
    assert same_answers(model.feedback[0], cell.feedback), (
        "a refusal of other answers changed those of before"
    )
    assert_same_moments(engine, moments(model), before)


# --- What must not matter


@each_part
def test_batches_equal_their_elements(engine, cell) -> None:
    second_answers = other_answers(cell)
    batched = with_feedback(cell, stacked(cell.feedback, second_answers.feedback))
    points = torch.stack([POINTS, POINTS.square() + 0.1])
    first = made(engine, cell)
    for data in (POINTS, points):
        model = made(engine, batched, data)
        assert model.batch_shape == (2,), (
            f"two stacked elements have the batch shape {tuple(model.batch_shape)}"
        )
        mean, covariance = moments(model)
        evidence = model.log_evidence()
        second = made(engine, second_answers, data.expand_as(points)[1])
        for i, single in enumerate((first, second)):
            assert_same_moments(engine, (mean[i], covariance[i]), moments(single))
            torch.testing.assert_close(
                evidence[i], single.log_evidence(), rtol=1e-6, atol=1e-6
            )


@pytest.mark.parametrize(
    "cell", [c for c in CELLS if takes(SkewPreferenceGP, c)], ids=names
)
def test_exact_evidences_of_batches_are_those_of_their_elements(cell) -> None:
    second_answers = other_answers(cell)
    batched = with_feedback(cell, stacked(cell.feedback, second_answers.feedback))
    with torch.no_grad():
        batch, *parts = (
            made(SkewPreferenceGP, c, exact_evidence=True).log_evidence()
            for c in (batched, cell, second_answers)
        )
    # Bridge sampling from 256 draws that EP's Gaussian is close to: 0.02 nats.
    torch.testing.assert_close(batch, torch.stack(parts), rtol=0, atol=0.1)


# --- Optimising


@each_part
def test_gradients_of_the_posterior_are_those_of_finite_differences(
    engine, cell
) -> None:
    model = made(engine, cell)

    def statistic(x: Tensor) -> Tensor:
        posterior = model.posterior(x)
        return posterior.mean.sum() + posterior.covariance_matrix.sin().sum()

    assert torch.autograd.gradcheck(statistic, (NEW.clone().requires_grad_(),))


# --- Random answers, and what must not matter


def random_case(cell: Cell, seed: int, n: int) -> tuple[Cell, Tensor, Generator]:
    """Draws answers about random points, the last two of them close together."""
    generator = Generator().manual_seed(seed)
    points = torch.rand(n, 1, generator=generator, dtype=DOUBLE)
    points[-1] = points[-2] + 1e-4
    random = with_feedback(cell, RANDOM[type(cell.feedback)](generator, n))
    return random, points, generator


@each_part
@settings(max_examples=1)
@given(seed=st.integers(0, 2**31), n=st.integers(3, 6))
def test_neither_order_nor_copies_matter(engine, cell, seed, n) -> None:
    random, points, generator = random_case(cell, seed, n)
    expected = made(engine, random, points)
    to_old = torch.randperm(n, generator=generator)
    moved = relabelled(reordered(random.feedback), to_old.argsort())
    assert_same_model(
        engine, made(engine, with_feedback(cell, moved), points[to_old]), expected
    )
    # Half of the answers are about copies, which are counted once or, in a batch, not.
    spread = {
        name: torch.where((index >= 0) & late(index), index + n, index)
        for name, index in tensors(random.feedback).items()
        if name in random.feedback.index_fields
    }
    copied = with_feedback(cell, dataclasses.replace(random.feedback, **spread))
    twice = points.repeat(2, 1)
    assert_same_model(engine, made(engine, copied, twice), expected)
    batch = made(engine, copied, twice.expand(2, -1, -1))
    assert batch._distinct is None, (
        "copies in a batch were counted once, which nothing tests then"
    )
    alone = tuple(part[1] for part in moments(batch))
    assert_same_moments(engine, alone, moments(expected))


def scaled_by(cell: Cell, c: float) -> Cell:
    """Scales the likelihood to units of utility ``sqrt(c)`` times smaller."""

    def likelihood() -> Any:
        module = cell.likelihood().double()
        module.noise = c * NOISE
        for name in ("tie_threshold", "cutpoints"):
            value = getattr(module, name, None)
            if value is not None and bool((value != 0).any()):
                setattr(module, name, math.sqrt(c) * value.detach())
        return module

    return dataclasses.replace(cell, likelihood=likelihood)


@each_part
@settings(max_examples=1)
@given(seed=st.integers(0, 2**31), log_c=st.floats(-6, 6))
def test_the_unit_of_utility_does_not_matter(engine, cell, seed, log_c) -> None:
    """Output scale and noise times c are utilities times its root, and no more."""
    if not hasattr(cell.likelihood(), "noise"):
        pytest.skip("The likelihood has a unit of its own.")
    random, points, _ = random_case(cell, seed, 4)
    c = 10.0**log_c
    plain, rescaled = (made(engine, scaled_by(random, k), points) for k in (1.0, c))
    rescaled.covar_module.outputscale = c * plain.covar_module.outputscale.detach()
    if hasattr(plain.mean_module, "constant"):
        rescaled.mean_module.initialize(
            constant=math.sqrt(c) * plain.mean_module.constant.detach()
        )
    mean, covariance = moments(rescaled)
    scaled = mean / math.sqrt(c), covariance / c
    assert_same_moments(engine, scaled, moments(plain))
    torch.testing.assert_close(
        rescaled.log_evidence(), plain.log_evidence(), rtol=1e-6, atol=1e-6
    )
