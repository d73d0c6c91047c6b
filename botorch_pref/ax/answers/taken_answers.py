"""Check that an experiment's model takes an answer, before it is kept."""

from __future__ import annotations

import json
from typing import Any

import torch
from botorch.utils.transforms import is_fully_bayesian

from botorch_pref.ax.answers.answer import Answer
from botorch_pref.ax.answers.feedback_data import feedback_blocks
from botorch_pref.ax.answers.kinds.winner import OBJECTIVE
from botorch_pref.ax.naming.likelihood_names import model_arguments
from botorch_pref.ax.naming.names import class_named, model_classes
from botorch_pref.ax.settings import Settings
from botorch_pref.errors import ExperimentError
from botorch_pref.models.data.feedback_dataset import FeedbackDataset

_TAKEN: set[tuple[str, ...]] = set()
"""Models with kinds of answers that they were found to take. What is refused is tried
again, so that the error is about the answer at hand."""


def check_taken(
    settings: Settings, answer: Answer, num_options: int, num_levels: int | None
) -> None:
    """Checks that a model of an answer, and nothing else, can be made.

    Kinds of answers do not exclude each other: a model that takes each takes all. That
    depends on kinds and not on what an answer says, so it is tried once for each.

    Args:
        settings: Of the experiment.
        answer: To a question of the experiment.
        num_options: How many options were shown.
        num_levels: How many levels the scale has; None if there is none.

    Raises:
        ExperimentError: The model, its likelihood or its options do not go with it.
    """
    rows = answer.rows(num_options)
    key = json.dumps([settings.model, settings.model_options, num_options, num_levels])
    kinds = (key, *sorted(rows))
    if not rows or kinds in _TAKEN:
        return
    blocks = feedback_blocks(
        lambda metric: iter([(0, rows[metric])] if metric in rows else []), num_levels
    )
    # Where the options are does not matter.
    points = torch.linspace(0, 1, num_options, dtype=torch.float64).unsqueeze(-1)
    dataset = FeedbackDataset(
        points, blocks, feature_names=["x"], outcome_names=[OBJECTIVE]
    )
    model_class = class_named(settings.model, model_classes(), "model")
    try:
        arguments = model_arguments(model_class, dataset, settings.model_options)
        model: Any = model_class(**arguments)
        if is_fully_bayesian(model):
            # Asks for the priors that sampling needs.
            _ = model.pyro_model
    except ExperimentError:
        raise
    except Exception as error:
        # Whatever a model says to options that are not for it.
        raise ExperimentError(
            f"{settings.model} with model_options={settings.model_options!r} does not "
            f"take {answer.given()}: {error} In an experiment, name the model in "
            "model= and likelihoods in model_options={'likelihood': ...}."
        ) from error
    _TAKEN.add(kinds)
