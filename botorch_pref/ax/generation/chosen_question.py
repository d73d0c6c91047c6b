"""Choice of the next question, from nothing but what is stored."""

from __future__ import annotations

from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun

from botorch_pref.ax.generation.asking import next_options, shown_order
from botorch_pref.ax.generation.baseline import beside_baseline
from botorch_pref.ax.settings import Settings


def chosen_question(
    experiment: Experiment, settings: Settings, size: int, rater: str | None
) -> tuple[GeneratorRun, list[int] | None]:
    """Options of the next question, and the order in which they are shown.

    Args:
        experiment: Ax's.
        settings: Of the experiment.
        size: How many options.
        rater: The name of who is asked; None for nobody in particular.

    Raises:
        ExperimentError: There are not so many options to show.
    """
    options = next_options(experiment, settings, size, rater)
    return (
        beside_baseline(options, settings, experiment.search_space),
        shown_order(experiment, settings, size),
    )
