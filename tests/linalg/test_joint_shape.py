"""Shapes that broadcast, as torch says."""

import itertools

import pytest
import torch

from botorch_pref.linalg.covariance import joint_shape

SHAPES = [torch.Size(shape) for shape in ((), (1,), (3,), (2, 1), (2, 3), (1, 1, 3))]


def test_it_is_that_of_torch() -> None:
    for shapes in itertools.product(SHAPES, repeat=3):
        found = joint_shape(*shapes)
        assert isinstance(found, torch.Size)
        assert found == torch.broadcast_shapes(*shapes)
    assert joint_shape() == torch.Size()


def test_what_does_not_broadcast_is_refused() -> None:
    with pytest.raises(RuntimeError, match="broadcast"):
        joint_shape(torch.Size([2]), torch.Size([3]))
