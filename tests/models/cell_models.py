"""Models of the answers that the registry lists, told otherwise, and compared."""

import dataclasses
import itertools
from typing import Any

import pytest
import torch
from entries import Cell
from registry import CELLS, ENGINES
from torch import Tensor
from truths.answers import NOISE, PAIRS, POINTS

from botorch_pref import (
    BetaRatingLikelihood,
    PairwiseBetaLikelihood,
    Ratings,
    SkewPreferenceGP,
    Strengths,
)
from botorch_pref.feedback import Feedback
from botorch_pref.models import PreferenceGP


def build(
    engine: type[PreferenceGP],
    cells: list[Cell],
    points: Tensor = POINTS,
    **options: Any,
) -> PreferenceGP:
    """Makes a model of answers under their likelihoods, always with one prior."""
    likelihood = {type(cell.feedback): cell.likelihood().double() for cell in cells}
    model = engine(
        points,
        feedback=[cell.feedback for cell in cells],
        likelihood=likelihood,
        **options,
    )
    model.covar_module.base_kernel.lengthscale = 0.5
    model.covar_module.outputscale = 2.0
    if hasattr(model.mean_module, "constant"):
        model.mean_module.initialize(constant=0.2)
    if engine in ENGINES and ENGINES[engine].all_inducing:
        model.inducing_points = points.detach()
    return model.eval()


def names(cell: Cell) -> str:
    return f"{type(cell.feedback).__name__}-{type(cell.likelihood()).__name__}"


# Each with answers that the others hold for unlikely: sites of negative precision.
UNLIKELY = [
    Cell(
        lambda: PairwiseBetaLikelihood(8.0, noise=NOISE),
        Strengths(PAIRS[[0, 0, 1, 0]], torch.tensor([0.99, 0.99, 0.7, 0.02]).double()),
    ),
    Cell(
        lambda: BetaRatingLikelihood(8.0, noise=NOISE),
        Ratings(torch.tensor([2, 2, 2]), torch.tensor([0.99, 0.97, 0.02]).double()),
    ),
]
each_cell = pytest.mark.parametrize("cell", CELLS, ids=names)
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.__name__)


def takes(engine: type[PreferenceGP], cell: Cell) -> bool:
    factors = type(cell.likelihood()).explains[type(cell.feedback)]
    return engine.engine.accepts(factors)


# --- The same answers told otherwise, and how models of them are compared

DOUBLE = torch.float64
NEW = torch.tensor([[0.15], [0.5], [0.8]], dtype=DOUBLE)
NUM_DRAWS = 256
PARTS = [
    pytest.param(engine, cell, id=f"{engine.__name__}-{names(cell)}")
    for engine, cell in itertools.product(ENGINES, CELLS)
    if takes(engine, cell)
]
each_part = pytest.mark.parametrize(("engine", "cell"), PARTS)


def made(
    engine: type[PreferenceGP], cell: Cell, points: Tensor = POINTS, **options: Any
) -> PreferenceGP:
    """Makes a model of the cell, with few draws where there are draws."""
    if issubclass(engine, SkewPreferenceGP):
        options = {"num_draws": NUM_DRAWS} | options
    return build(engine, [cell], points, **options)


def with_feedback(cell: Cell, feedback: Feedback) -> Cell:
    return dataclasses.replace(cell, feedback=feedback)


def tensors(feedback: Feedback) -> dict[str, Tensor]:
    """Lists the fields of a container that hold one entry for each answer."""
    fields = {f.name: getattr(feedback, f.name) for f in dataclasses.fields(feedback)}
    return {name: v for name, v in fields.items() if isinstance(v, Tensor)}


def relabelled(feedback: Feedback, new_places: Tensor) -> Feedback:
    """Moves the answers to points that are now elsewhere."""
    moved = {
        name: torch.where(index < 0, index, new_places[index.clamp_min(0)])
        for name, index in tensors(feedback).items()
        if name in feedback.index_fields
    }
    return dataclasses.replace(feedback, **moved)


def reordered(feedback: Feedback) -> Feedback:
    """Reverses the answers, the last one first."""
    return feedback.map_tensors(lambda value: value.flip(len(feedback.batch_shape)))


def stacked(first: Feedback, second: Feedback) -> Feedback:
    """Stacks two blocks of answers to a batch."""
    pairs = zip(tensors(first).items(), tensors(second).values(), strict=True)
    return dataclasses.replace(
        first, **{name: torch.stack([a, b]) for (name, a), b in pairs}
    )


MIRROR = torch.arange(len(POINTS)).flip(0)


def other_answers(cell: Cell) -> Cell:
    """Makes other answers of the same kind: the padding of sets is elsewhere too."""
    return with_feedback(cell, relabelled(reordered(cell.feedback), MIRROR))


def moments(model: PreferenceGP, x: Tensor = NEW) -> tuple[Tensor, Tensor]:
    posterior = model.posterior(x)
    return posterior.mean.squeeze(-1).detach(), posterior.covariance_matrix.detach()


def assert_same_moments(
    engine: type[PreferenceGP], actual: Any, expected: Any, deviations: float = 1e-5
) -> None:
    """Compares up to stopping rules and, with draws, six standard errors."""
    if issubclass(engine, SkewPreferenceGP):
        deviations = deviations + 6 * NUM_DRAWS**-0.5
    sd = expected[1].diagonal(dim1=-2, dim2=-1).sqrt()
    assert actual[0].shape == expected[0].shape
    assert float(((actual[0] - expected[0]) / sd).abs().max()) < deviations
    scale = sd.unsqueeze(-1) * sd.unsqueeze(-2)
    error = (actual[1] - expected[1]) / scale
    assert float(error.abs().max()) < 1.5 * deviations


def assert_same_model(
    engine: type[PreferenceGP], actual: PreferenceGP, expected: PreferenceGP
) -> None:
    """Compares posteriors and evidences."""
    assert_same_moments(engine, moments(actual), moments(expected))
    torch.testing.assert_close(
        actual.log_evidence(), expected.log_evidence(), rtol=1e-6, atol=1e-6
    )


def same_answers(first: Feedback, second: Feedback) -> bool:
    pairs = zip(tensors(first).items(), tensors(second).items(), strict=True)
    return type(first) is type(second) and all(
        a == b and torch.equal(x, y) for (a, x), (b, y) in pairs
    )


def late(index: Tensor) -> Tensor:
    """Tells which rows of indices, without a batch, are in their second half."""
    row = torch.arange(len(index)).reshape(-1, *[1] * (index.dim() - 1))
    return row >= len(index) // 2
