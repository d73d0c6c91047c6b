"""Models of several raters who share, as Ax makes and fits them."""

from __future__ import annotations

from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import ProductKernel

from botorch_pref.ax.naming.likelihood_names import model_arguments
from botorch_pref.ax.naming.names import class_named, model_classes
from botorch_pref.models import (
    GroupUtility,
    PreferenceMarginalLogLikelihood,
    rater_covar_module,
)
from botorch_pref.models.data.feedback_dataset import FeedbackDataset

OF_RATERS, RATER = "model of raters", "rater"
"""Options of a group besides those of the model: its name, and whose utility counts."""


def group_arguments(
    dataset: FeedbackDataset, options: dict[str, Any]
) -> dict[str, Any]:
    """Constructor arguments of a `GroupUtility` of all raters, or of one.

    Args:
        dataset: The answers, with raters.
        options: Of the model, where a kernel is that of the designs; its name; and
            perhaps the rater.
    """
    own = {k: v for k, v in options.items() if k not in (OF_RATERS, RATER)}
    model_class = class_named(options[OF_RATERS], model_classes(), "model")
    arguments = model_arguments(model_class, dataset, own)
    kernel = rater_covar_module(dataset.X.shape[-1])
    if "covar_module" in own:
        stimulus, rater_kernel = arguments["covar_module"], kernel.kernels[1]
        stimulus.active_dims = kernel.kernels[0].active_dims
        kernel = ProductKernel(stimulus, rater_kernel)
    arguments["covar_module"] = kernel.to(dataset.X)
    assert dataset.raters is not None
    rater = options.get(RATER)
    raters = dataset.raters.unique() if rater is None else torch.tensor([rater])
    return {"model": model_class(**arguments), "raters": raters.to(dataset.X)}


def fit_group(group: GroupUtility, options: dict[str, Any]) -> None:
    """Fits the model of all raters.

    Args:
        group: Whose model it is.
        options: Of BoTorch's ``fit_gpytorch_mll``.
    """
    model = group.rater_model
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, **options)
