"""Progress rows of a report: what is left to be gained, and whether to stop."""

from __future__ import annotations

from itertools import islice, product
from math import prod
from typing import Any

import torch
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.types import TParameterization
from ax.utils.common.random import with_rng_seed
from torch import Tensor

from botorch_pref.ax.generation.asking import derived_seed
from botorch_pref.ax.generation.generation_strategy import fitted_sobol_spec
from botorch_pref.ax.generation.preference_adapter import PreferenceAdapter
from botorch_pref.ax.generation.search.option_space import MAX_DESIGNS, values_of
from botorch_pref.ax.reporting.near_designs import near_designs
from botorch_pref.ax.reporting.points import points_of
from botorch_pref.ax.reporting.recommendation import best_shown
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.catalogue import Catalogue
from botorch_pref.ax.space.own_options import whole_design
from botorch_pref.evaluation.progress.remaining_gain import remaining_gain
from botorch_pref.evaluation.progress.stopping import (
    CONFIDENCE,
    GAIN_TOLERANCE,
    TOLERANCE,
    stopping_advice,
)

NUM_CANDIDATES = 256
"""How many points of the search space stand for all of it."""

MEANINGS = {
    "expected remaining gain": "utility that the best design would add to that shown",
    "gain as a share of the range": "from the worst to the best option judged",
    "probability of a small gain": f"of a share below {GAIN_TOLERANCE:g}",
    "stop": f"a small gain or a low chance, with probability {CONFIDENCE}",
    "chance of regret": "that the best design is preferred to that shown; least 0.5",
    "its probability to be low": f"of a chance of regret below {TOLERANCE}",
    "agreement of raters": "correlation of the utilities of two of them",
    "answered alike": "0.5 is guessing, 1 is consistent",
    "parts of the comparison graph": "between them, only the prior compares",
}
"""What to make of some rows of the summary."""


def progress(
    experiment: Experiment,
    settings: Settings,
    adapter: PreferenceAdapter,
    anywhere: TParameterization,
) -> dict[str, Any]:
    """Rows of the summary that say how much is left, and whether to stop.

    Args:
        experiment: Ax's.
        settings: Of the experiment.
        adapter: See `fitted_adapter`.
        anywhere: The best design of the whole space, as far as the answers tell.
    """
    best = points_of(adapter, [Arm(parameters=best_shown(adapter))])
    candidates = candidate_points(experiment, settings, adapter, anywhere)
    model = adapter.botorch_model
    gain = remaining_gain(model, best, candidates)
    advice = stopping_advice(
        model, candidates, recommended=best, shown=adapter.datapoints
    )
    return {
        # Over a batch of models, if it is one.
        "expected remaining gain": float(gain.expected.mean()),
        "its standard error": float(gain.standard_error.mean()),
        "gain as a share of the range": advice.gain_share,
        "probability of a small gain": advice.gain_confidence,
        "stop": advice.stop,
        "chance of regret": advice.chance_of_regret,
        "its probability to be low": advice.confidence,
    }


def candidate_points(
    experiment: Experiment,
    settings: Settings,
    adapter: PreferenceAdapter,
    anywhere: TParameterization,
) -> Tensor:
    """Points among which the best one is sought, as the model takes them.

    Args:
        experiment: Ax's.
        settings: Of the experiment.
        adapter: See `fitted_adapter`.
        anywhere: The best design of the whole space, as far as the answers tell.

    Returns:
        ``n x d``: that design, all that were judged, and `NUM_CANDIDATES` more: where
        designs can be counted, all of them or so many drawn without replacement, else
        those of a Sobol sequence, and as many around the best one shown, that satisfy
        the search space.
    """
    arms = _drawn(experiment, settings)
    if arms is None:
        seed = derived_seed(settings, len(experiment.trials))
        near = best_shown(adapter), NUM_CANDIDATES, seed
        arms = _spread(experiment, settings)
        arms += near_designs(experiment.search_space, *near)
    points = points_of(adapter, [*arms, Arm(parameters=anywhere)])
    return torch.cat([points, adapter.datapoints])


def _drawn(experiment: Experiment, settings: Settings) -> list[Arm] | None:
    """Different designs of a catalogue or a finite space; None of other spaces."""
    space, catalogue = experiment.search_space, Catalogue.of(experiment)
    if catalogue is not None:
        chosen: Any = [*catalogue.rows.values()]
    else:
        values = [values_of(p) for p in space.tunable_parameters.values()]
        listed = [each for each in values if each is not None]
        if len(listed) < len(values) or prod(map(len, listed)) > MAX_DESIGNS:
            return None
        names = [*space.tunable_parameters]
        chosen = [dict(zip(names, each, strict=True)) for each in product(*listed)]
    seed = derived_seed(settings, len(experiment.trials))
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(seed))
    designs = (whole_design(space, chosen[i]) for i in order.tolist())
    allowed = (design for design in designs if space.check_membership(design))
    return [Arm(parameters=design) for design in islice(allowed, NUM_CANDIDATES)]


def _spread(experiment: Experiment, settings: Settings) -> list[Arm]:
    # Ax rounds categories by NumPy's global generator.
    with with_rng_seed(derived_seed(settings, len(experiment.trials))):
        run = fitted_sobol_spec(experiment, settings, 0).gen(n=NUM_CANDIDATES)
    space = experiment.search_space
    return [arm for arm in run.arms if space.check_membership(arm.parameters)]
