"""Checks of what a model is trained on: its own data, in double precision."""

from __future__ import annotations

import warnings

import torch
from botorch.exceptions.warnings import InputDataWarning, _get_single_precision_warning
from torch import Tensor

from botorch_pref.errors import FeedbackError

_UNEQUAL = 100.0
_CUBE_EDGE = 0.01


def check_training_inputs(
    inputs: tuple[Tensor, ...], own: tuple[Tensor, ...]
) -> Tensor:
    """Checks that a model in train mode is called with its training inputs.

    Args:
        inputs: What it is called with.
        own: Its ``train_inputs``.

    Returns:
        The inputs, ``batch_shape x n x d``.

    Raises:
        FeedbackError: They differ, or there are none.
    """
    if not own:
        raise FeedbackError(
            "A model without datapoints cannot be trained; pass datapoints= and "
            "comparisons=, or call eval() for predictions of the prior."
        )
    if len(inputs) != 1 or not _equal(inputs[0], own[0]):
        raise FeedbackError(
            "In train mode a model takes its training inputs only; call eval() for "
            "predictions at other points."
        )
    return inputs[0]


def check_training_targets(targets: Tensor | None, own: Tensor | None) -> None:
    """Checks that an objective is asked for with the model's own comparisons.

    Args:
        targets: ``batch_shape x m x 2``, winner first; None for no check.
        own: The model's ``train_targets``.

    Raises:
        FeedbackError: They differ.
    """
    if targets is not None and (own is None or not _equal(targets, own)):
        raise FeedbackError(
            "The objective is that of the model's own comparisons, and these differ "
            "from them; set_train_data(comparisons=...) replaces them."
        )


def warn_of_single_precision(datapoints: Tensor) -> None:
    """Warns of datapoints in single precision, as all of BoTorch's models do.

    Args:
        datapoints: Of a model that is made.
    """
    if datapoints.dtype == torch.float32:
        text = _get_single_precision_warning(str(datapoints.dtype))
        warnings.warn(text, InputDataWarning, stacklevel=3)


def warn_of_unequal_scales(points: Tensor) -> None:
    """Warns of features whose ranges differ much, of which one leaves the unit cube.

    The lengthscales of the default kernel start equal, and their prior is for a cube:
    from ranges of 1, 500 and 0.001 a fit finds nothing. In the cube a small range may
    be meant.

    Args:
        points: ``batch_shape x n x d``, after any input transform.
    """
    points = points.detach().flatten(0, -2)
    low, high = points.amin(0), points.amax(0)
    ranges = (high - low)[high > low]
    outside = bool((low < -_CUBE_EDGE).any() or (high > 1 + _CUBE_EDGE).any())
    if outside and len(ranges) > 1 and ranges.amax() > _UNEQUAL * ranges.amin():
        warnings.warn(
            f"The features have ranges from {float(ranges.amin()):.3g} to "
            f"{float(ranges.amax()):.3g}, and the default kernel is for the unit cube; "
            "pass input_transform=Normalize(d, bounds=...) of "
            "botorch.models.transforms.input, or a covar_module of your own.",
            InputDataWarning,
            stacklevel=3,
        )


def _equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same, at no cost where they are the same."""
    return a is b or (a.shape == b.shape and bool((a == b).all()))
