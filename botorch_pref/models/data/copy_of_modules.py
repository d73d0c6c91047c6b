"""Copies of models that share what is never changed in place."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

from torch.nn import Module

ModuleT = TypeVar("ModuleT", bound=Module)


def copy_of_modules(model: ModuleT) -> ModuleT:
    """A copy with modules and parameters of its own that shares all else.

    Nothing changes data and results in place, and no copy of a graph can be made.

    Args:
        model: The model.
    """
    shared = {
        id(part): part
        for part in vars(model).values()
        if not isinstance(part, dict | set)
    }
    return deepcopy(model, shared)
