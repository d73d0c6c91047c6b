"""Questions about the baseline, beside what else is shown."""

from __future__ import annotations

from collections import OrderedDict

from ax.core.arm import Arm
from ax.core.generator_run import ArmWeight, GeneratorRun
from ax.core.search_space import SearchSpace

from botorch_pref.ax.generation.generation_strategy import SPREAD
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.smallest_difference import squared_difference


def beside_baseline(
    run: GeneratorRun, settings: Settings, space: SearchSpace
) -> GeneratorRun:
    """The options of a question, with the baseline among those that are spread.

    Until the model chooses, each question compares with the baseline, so that answers
    join all options. Then it is an option like any other that was shown.

    Args:
        run: The options that were chosen.
        settings: Of the experiment.
        space: Ax's.
    """
    if settings.baseline is None or run._generation_node_name != SPREAD:
        return run
    baseline = Arm(settings.baseline)
    if baseline.signature in run.arm_signatures:
        return run

    def apart(arm: Arm) -> float:
        given = settings.smallest_difference
        return squared_difference(space, given, arm.parameters, baseline.parameters)

    # What is least unlike the baseline makes room for it.
    nearest = min(run.arms, key=apart)
    arms = [baseline, *(arm for arm in run.arms if arm is not nearest)]
    beside = run.clone()
    beside._arm_weight_table = OrderedDict(
        (arm.signature, ArmWeight(arm, 1.0)) for arm in arms
    )
    return beside
