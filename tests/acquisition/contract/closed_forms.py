"""The closed forms of the registry, as parameters of tests, and points to try."""

import pytest
import torch
from draws import uniform
from registry import ACQUISITIONS
from torch import Tensor

X_REF = torch.tensor([[0.4, 0.6]], dtype=torch.double)
ONE = torch.tensor([[1.0, -2.0]], dtype=torch.double)
SEVERAL = torch.tensor([[1.0, -2.0], [4.0, 1.0], [-3.0, 0.5]], dtype=torch.double)
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
# Differences of utilities near each other lose digits of the covariance.
CLOSE = {"rtol": 1e-6, "atol": 1e-7}

CLOSED = {name: entry for name, entry in ACQUISITIONS.items() if not entry.drawn}


def each(**chosen: bool) -> pytest.MarkDecorator:
    """Parametrises a test by the closed forms whose entries say this."""
    closed_forms = {
        name: entry
        for name, entry in CLOSED.items()
        if all(bool(getattr(entry, key)) == value for key, value in chosen.items())
    }
    return pytest.mark.parametrize(
        "kind", closed_forms.values(), ids=closed_forms.keys()
    )


def points(*shape: int, seed: int = 3) -> Tensor:
    return uniform(*shape, 2, seed=seed)
