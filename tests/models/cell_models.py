"""Models of the answers that the registry lists, under a prior that is the same."""

from typing import Any

import pytest
from entries import Cell
from registry import CELLS, ENGINES
from torch import Tensor
from truths.answers import POINTS

from botorch_pref.models.preference_gp import PreferenceGP


def build(
    engine: type[PreferenceGP],
    cells: list[Cell],
    points: Tensor = POINTS,
    **options: Any,
) -> PreferenceGP:
    """A model of answers under their likelihoods, with a prior that is the same."""
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
    return model.eval()


def names(cell: Cell) -> str:
    return f"{type(cell.feedback).__name__}-{type(cell.likelihood()).__name__}"


each_cell = pytest.mark.parametrize("cell", CELLS, ids=names)
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.__name__)


def takes(engine: type[PreferenceGP], cell: Cell) -> bool:
    factors = type(cell.likelihood()).explains[type(cell.feedback)]
    return engine.engine.accepts(factors)
