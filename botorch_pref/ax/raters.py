"""Raters of an experiment, by name and by number."""

from __future__ import annotations

from typing import Any

import torch
from ax.core.experiment import Experiment
from gpytorch.kernels import ProductKernel

from botorch_pref.ax.log import TOLD
from botorch_pref.ax.naming import class_named, model_arguments, model_classes
from botorch_pref.ax.projection import events, standing_event
from botorch_pref.ax.settings import PROPERTY, SHARE
from botorch_pref.errors import ExperimentError
from botorch_pref.models import rater_covar_module
from botorch_pref.models.data import FeedbackDataset


def rater_numbers(experiment: Experiment) -> dict[str, int]:
    """Numbers of the raters who have answered, by name, in the order of the answers."""
    told = (e.what.get("rater") for e in events(experiment) if e.kind == TOLD)
    names = dict.fromkeys(name for name in told if name is not None)
    return {name: number for number, name in enumerate(names)}


def raters_of_trials(experiment: Experiment) -> dict[int, int] | None:
    """Number of the rater of each answer that stands, by trial.

    Returns:
        None where answers are pooled.
    """
    stored = (experiment._properties or {}).get(PROPERTY, {})
    if stored.get("raters") != SHARE:
        return None
    numbers = rater_numbers(experiment)
    standing = map(standing_event, experiment.trials.values())
    return {
        event.question: numbers[event.what["rater"]]
        for event in standing
        if event is not None
    }


def number_of_rater(experiment: Experiment, rater: str | None) -> int | None:
    """Number of a rater whose own utility counts; None for what all have in common.

    Returns:
        Somebody new has the next number: nothing but what others let expect is known.
    """
    if rater is None or raters_of_trials(experiment) is None:
        return None
    numbers = rater_numbers(experiment)
    return numbers.get(rater, len(numbers))


def known_rater(experiment: Experiment, rater: str) -> int:
    """Number of a rater who has answered, and is told from others."""
    if raters_of_trials(experiment) is None:
        raise ExperimentError(
            f"The answers of {experiment.name!r} are pooled: nothing is known of "
            f"{rater!r} alone; create an experiment with raters={SHARE!r}."
        )
    numbers = rater_numbers(experiment)
    if rater not in numbers:
        raise ExperimentError(
            f"There are no answers of {rater!r}; there are some of "
            f"{', '.join(map(repr, numbers)) or 'nobody'}."
        )
    return numbers[rater]


OF_RATERS, RATER = "model of raters", "rater"
"""Options of a group besides those of the model: its name, and whose utility counts."""


def group_arguments(
    dataset: FeedbackDataset, options: dict[str, Any]
) -> dict[str, Any]:
    """Constructor arguments of a `GroupUtility` of all raters, or of one."""
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
