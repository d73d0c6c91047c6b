"""What must hold for any answers: random ones of every kind, on every engine."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from entries import Cell
from hypothesis import given, settings
from hypothesis import strategies as st
from models.cell_answers import (
    NEW,
    NUM_DRAWS,
    assert_same_model,
    assert_same_moments,
    each_part,
    late,
    made,
    moments,
    relabelled,
    reordered,
    tensors,
    with_feedback,
)
from models.cell_models import each_engine, takes
from registry import CELLS, RANDOM
from torch import Generator, Tensor
from truths.answers import NOISE

from botorch_pref import Comparisons, EPPreferenceGP, LaplacePreferenceGP
from botorch_pref import SkewPreferenceGP as Skew

DOUBLE = torch.float64


def random_case(cell: Cell, seed: int, n: int) -> tuple[Cell, Tensor, Generator]:
    """Random answers about random points, the last two of them close together."""
    generator = Generator().manual_seed(seed)
    points = torch.rand(n, 1, generator=generator, dtype=DOUBLE)
    points[-1] = points[-2] + 1e-4
    random = with_feedback(cell, RANDOM[type(cell.feedback)](generator, n))
    return random, points, generator


@each_part
@settings(max_examples=2)
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
    batch = made(engine, copied, twice.expand(1, -1, -1))
    assert batch._distinct is None
    alone = tuple(part[0] for part in moments(batch))
    assert_same_moments(engine, alone, moments(expected))


def scaled_by(cell: Cell, c: float) -> Cell:
    """The same likelihood in units of utility that are ``sqrt(c)`` times smaller."""

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
@settings(max_examples=2)
@given(seed=st.integers(0, 2**31), log_c=st.floats(-6, 6))
def test_the_unit_of_utility_does_not_matter(engine, cell, seed, log_c) -> None:
    """Output scale and noise times c are utilities times its root, and no more."""
    if not hasattr(cell.likelihood(), "noise"):
        pytest.skip("The likelihood has a unit of its own.")
    random, points, _ = random_case(cell, seed, 4)
    c = 10.0**log_c
    one, other = (made(engine, scaled_by(random, k), points) for k in (1.0, c))
    other.covar_module.outputscale = c * one.covar_module.outputscale.detach()
    if hasattr(one.mean_module, "constant"):
        other.mean_module.initialize(
            constant=math.sqrt(c) * one.mean_module.constant.detach()
        )
    mean, covariance = moments(other)
    scaled = mean / math.sqrt(c), covariance / c
    assert_same_moments(engine, scaled, moments(one))
    torch.testing.assert_close(
        other.log_evidence(), one.log_evidence(), rtol=1e-6, atol=1e-6
    )


@each_engine
@pytest.mark.parametrize("index", [0, 1], ids=["probit", "logistic"])
@settings(max_examples=5)
@given(seed=st.integers(0, 2**31), n=st.integers(3, 6))
def test_one_more_win_speaks_for_the_winner(engine, index, seed, n) -> None:
    """It never makes the next win of the same point less likely.

    Weighing any density of a difference by a function that increases moves it up, so
    that this holds for the exact posterior and, up to sampling errors, for draws of it.
    At a mode the difference moves up too: it has the gradient of the new factor, times
    a variance. EP follows the exact mean to 0.02 deviations. For the others' variances,
    which shrink, and for a bound there is no such law.
    """
    cell = CELLS[index]
    if not takes(engine, cell):
        pytest.skip("Not an answer for this engine.")
    random, points, generator = random_case(
        with_feedback(cell, Comparisons(torch.tensor([[0, 1]]))), seed, n
    )
    pairs = random.feedback.pairs
    more = torch.randperm(n, generator=generator)[:2]
    added = with_feedback(cell, Comparisons(torch.cat([pairs, more.unsqueeze(0)])))
    first, second = points[more[:1]], points[more[1:]]
    before, after = (
        made(engine, c, points).duel_posterior(first, second) for c in (random, added)
    )
    deviation = math.sqrt(before.variance.item())
    gain = (after.mean.item() - before.mean.item()) / max(deviation, 1e-12)
    if engine is LaplacePreferenceGP:
        assert gain >= -1e-9
    elif engine is EPPreferenceGP:
        assert gain >= -0.02
    elif engine is Skew:
        assert gain >= -6 * (2 / NUM_DRAWS) ** 0.5
        zero = torch.zeros(1, 1, dtype=DOUBLE)
        won = [1 - p.cdf(zero).item() for p in (before, after)]
        assert won[1] >= won[0] - 6 * (0.5 / NUM_DRAWS) ** 0.5


@each_engine
@settings(max_examples=3)
@given(seed=st.integers(0, 2**31), n=st.integers(3, 6))
def test_a_duel_is_won_by_either_or_tied(engine, seed, n) -> None:
    cell = CELLS[0]
    if not takes(engine, cell):
        pytest.skip("Ties are boxed rows.")
    random, points, _ = random_case(cell, seed, n)
    model = made(engine, random, points)
    x = torch.cat([points, NEW])
    first, second = x[:3], x[-3:]
    won, lost = (
        model.duel_probability(*pair, observation_noise=True).detach()
        for pair in ((first, second), (second, first))
    )
    # The probability of the interval of a tie, from the moments of each component.
    duel = model.moments(torch.stack([first, second], dim=-2))
    gap = duel.means[..., 0] - duel.means[..., 1]
    c = duel.covariance
    variance = c[..., 0, 0] + c[..., 1, 1] - 2 * c[..., 0, 1]
    scale = (2 * NOISE + variance).sqrt()
    below, above = (torch.special.ndtr((t - gap) / scale) for t in (-0.3, 0.3))
    tied = (above - below).mean(0).detach()
    torch.testing.assert_close(won + lost + tied, torch.ones(3, dtype=DOUBLE))
