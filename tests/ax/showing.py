"""An experiment on a triangle whose questions a test chooses itself."""

from pathlib import Path
from typing import Any

import pytest
import torch
from espresso import QUICK
from parameters import real
from torch import Tensor

from botorch_pref.ax import PreferenceExperiment, Question, report, summary
from botorch_pref.models import plausible, plausible_models

PARAMETERS = [real(name, 0, 2) for name in ("a", "b")]
A, B, C, D, E = (0.5, 0.2), (1.0, 0.4), (0.4, 1.2), (1.5, 0.5), (0.1, 1.8)
OPTIONS = (A, B, C, D, E)


def triangle(storage: Path, **settings: Any) -> PreferenceExperiment:
    return PreferenceExperiment.create(
        "triangle",
        parameters=PARAMETERS,
        parameter_constraints=["a + b <= 2"],
        storage=storage,
        **{"optimizer_options": QUICK, **settings},
    )


def averaged_draws(model: Any, points: Tensor, number: int) -> Tensor:
    """Draws utilities, as many of each plausible model, in units of one noise."""
    members, unit = plausible_models(model), model.likelihood.noise
    draws = []
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        for member in members:
            scale = (unit / member.likelihood.noise).sqrt()
            size = torch.Size([number // len(members)])
            draws.append(scale * member.posterior(points).rsample(size).squeeze(-1))
    return torch.cat(draws)


def averaged_components(model: Any, points: Tensor) -> tuple[Tensor, Tensor]:
    """Computes means and variances by plausible models, ``S x n``, of one noise."""
    means, variances = [], []
    with torch.no_grad():
        for member in plausible_models(model):
            scale = (model.likelihood.noise / member.likelihood.noise).sqrt()
            posterior = member.posterior(points)
            means.append(scale * posterior.mean.squeeze(-1))
            variances.append(scale.square() * posterior.variance.squeeze(-1))
    return torch.stack(means), torch.stack(variances)


def averaged_moments(model: Any, points: Tensor) -> tuple[Tensor, Tensor]:
    """Computes mean and deviation of the mixture of `averaged_components`."""
    means, variances = averaged_components(model, points)
    mean = means.mean(0)
    return mean, ((variances + means.square()).mean(0) - mean.square()).sqrt()


def resumed(storage: Path, **door: Any) -> PreferenceExperiment:
    return PreferenceExperiment.resume("triangle", storage=storage, **door)


def show(experiment: PreferenceExperiment, *options: tuple[float, float]) -> Question:
    """Asks about options that the caller chooses."""
    return experiment.ask(options=[{"a": a, "b": b} for a, b in options])


def tell(
    experiment: PreferenceExperiment, options: list[tuple[float, float]], **answers: Any
) -> None:
    experiment.tell(show(experiment, *options), **answers)


def short_report(experiment: PreferenceExperiment) -> report.Report:
    """Makes a report by two explanations of the answers, and by few designs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "NUM_CANDIDATES", 16)
        patch.setattr(plausible, "NUM_MODELS", 2)
        return experiment.report()
