"""The next question, from nothing but what is stored."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from inspect import signature
from itertools import combinations
from random import Random
from typing import Any

import torch
from ax.adapter.registry import Generators
from ax.core.arm import Arm
from ax.core.base_trial import BaseTrial
from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment
from ax.core.generator_run import ArmWeight, GeneratorRun
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.utils.common.random import with_rng_seed
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions.errors import CandidateGenerationError
from botorch.fit import fit_fully_bayesian_model_nuts
from botorch.utils.transforms import is_fully_bayesian

from botorch_pref.ax.generation.option_space import question_again
from botorch_pref.ax.generation.strategy import SPREAD, fitted_sobol_spec, next_run
from botorch_pref.ax.naming import class_named, duel_classes, model_classes
from botorch_pref.ax.projection import asked_rater
from botorch_pref.ax.raters import number_of_rater
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.options import squared_difference
from botorch_pref.errors import ExperimentError
from botorch_pref.models import EPPreferenceGP


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


_ATTEMPTS = 4


def next_options(
    experiment: Experiment, settings: Settings, size: int, rater: str | None = None
) -> GeneratorRun:
    """Options that can be told apart and lie in the search space, and were not asked.

    Now and then an answered question is asked again, see `question_again`. Otherwise
    one is repeated only where none was found that was not asked.

    Rounding under constraints can leave them, and points that are spread can fall
    together. Then the strategy is asked again with another seed; after a few times,
    Sobol points take the place of what cannot be shown, and the run is Sobol's by
    name. Where all that is left is pending with other raters, one of theirs is asked:
    a table of few rows may have fewer questions than people.

    A generator is made anew for each question, and its seed derived from the question's
    number: a restart changes nothing.

    Args:
        experiment: Ax's.
        settings: Of the experiment.
        size: How many options.
        rater: Who is asked: whose own utility counts, where raters share.

    Raises:
        ExperimentError: The search space has no more options to show.
    """
    again = derived_seed(settings, len(experiment.trials), "repeat")
    repeated = question_again(experiment, settings, size, again)
    if repeated is not None:
        return repeated
    position = _sobol_position(experiment)
    kept = GeneratorRun(arms=[])
    number = number_of_rater(experiment, rater)
    for attempt in range(_ATTEMPTS):
        with with_rng_seed(derived_seed(settings, len(experiment.trials), attempt)):
            try:
                run = next_run(
                    experiment, settings, position + attempt * size, size, number
                )
            except CandidateGenerationError:
                # Rounding took every start out of the constraints.
                continue
        # The model repeats a question where it found no other.
        chosen = run._generator_key != Generators.SOBOL.value
        found = chosen or not _was_asked(experiment, run)
        if found and _can_be_shown(experiment, settings, run, size):
            return run
        kept = run
    return _filled_up(experiment, settings, kept, size, position, rater)


def derived_seed(settings: Settings, *purpose: int | str) -> int:
    """Seed of a purpose, by the experiment's own.

    Args:
        settings: Of the experiment.
        purpose: What tells it from others.
    """
    digest = sha256(repr((settings.seed, *purpose)).encode()).digest()
    # NumPy takes seeds of 32 bits.
    return int.from_bytes(digest[:4], "big")


def shown_order(experiment: Experiment, settings: Settings, size: int) -> list[int]:
    """Random order in which the options of the next question are shown.

    People favour what comes first, and a model that always puts its incumbent there
    would learn that.

    Args:
        experiment: Ax's.
        settings: Of the experiment.
        size: How many options.
    """
    seed = derived_seed(settings, len(experiment.trials), "order")
    return Random(seed).sample(range(size), size)


def _can_be_shown(
    experiment: Experiment, settings: Settings, run: GeneratorRun, size: int
) -> bool:
    is_question = _is_question(experiment, settings, run, size)
    return is_question and not _pending(experiment, run)


def _is_question(
    experiment: Experiment, settings: Settings, run: GeneratorRun, size: int
) -> bool:
    """Whether the options are in the space and can be told apart."""
    space, options = experiment.search_space, [arm.parameters for arm in run.arms]
    return (
        len(options) == size
        and all(map(space.check_membership, options))
        and all(
            squared_difference(space, settings.smallest_difference, *pair) >= 1 - 1e-6
            for pair in combinations(options, 2)
        )
    )


def _pending(experiment: Experiment, run: GeneratorRun) -> list[BaseTrial]:
    """Questions about the same options that are not answered."""
    running = experiment.trials_by_status[TrialStatus.RUNNING]
    return _about(experiment, run, running)


def _was_asked(experiment: Experiment, run: GeneratorRun) -> bool:
    return bool(_about(experiment, run, experiment.trials.values()))


def _about(
    experiment: Experiment, run: GeneratorRun, trials: Iterable[BaseTrial]
) -> list[BaseTrial]:
    """Questions about the same options, among some."""
    known = experiment.arms_by_signature
    if not run.arm_signatures <= known.keys():
        return []
    names = {known[signature].name for signature in run.arm_signatures}
    return [trial for trial in trials if names == trial.arms_by_name.keys()]


def _filled_up(
    experiment: Experiment,
    settings: Settings,
    run: GeneratorRun,
    size: int,
    position: int,
    rater: str | None,
) -> GeneratorRun:
    """The first option that can be shown, and Sobol points for the others.

    In the end for all of them: every question with the first one may be pending.
    """
    space = experiment.search_space
    first = [arm for arm in run.arms if space.check_membership(arm.parameters)][:1]
    spec = fitted_sobol_spec(experiment, settings, position + _ATTEMPTS * size)
    asked: GeneratorRun | None = None
    elsewhere: GeneratorRun | None = None
    rounds = 15 * _ATTEMPTS
    for turn in range(rounds):
        # Goes on in the sequence where it was.
        spread = spec.gen(n=size)
        kept = first if 2 * turn < rounds else []
        filled = GeneratorRun(
            arms=[*kept, *spread.arms[: size - len(kept)]],
            generator_key=Generators.SOBOL.value,
            # Where the sequence goes on.
            generator_state_after_gen=spread._generator_state_after_gen,
        )
        if not _is_question(experiment, settings, filled, size):
            continue
        if pending := _pending(experiment, filled):
            if all(asked_rater(trial) != rater for trial in pending):
                elsewhere = elsewhere or filled
        elif _was_asked(experiment, filled):
            asked = asked or filled
        else:
            return filled
    if found := asked or elsewhere:
        return found
    raise ExperimentError(
        f"No {size} options were found that differ, satisfy the constraints and are "
        "not asked about already; answer what is pending, or ask about fewer options."
    )


def _sobol_position(experiment: Experiment) -> int:
    """Number of points of the Sobol sequence that were used."""
    used = 0
    for trial in experiment.trials.values():
        assert isinstance(trial, BatchTrial)
        for run in trial.generator_runs:
            state = run._generator_state_after_gen or {}
            used = max(used, int(state.get("init_position", 0)))
    return used


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


_FIT = (
    "closure_kwargs",
    "max_attempts",
    "optimizer_kwargs",
    "pick_best_of_all_attempts",
)
"""What can be stored of the arguments of ``fit_gpytorch_mll``, which ignores others."""

_OPTIMIZER = (
    "num_restarts",
    "options",
    "raw_samples",
    "retry_on_optimization_warning",
    "sequential",
    "timeout_sec",
)
"""What can be stored of the arguments of ``optimize_acqf``, and is not ours to give."""


def check_options(settings: Settings) -> None:
    """Checks options that would fail, or do nothing, when the model first chooses.

    Args:
        settings: Of a new experiment, with a model that can be made.

    Raises:
        ExperimentError: An option is none; says of which argument.
    """
    names = _names_of_sampling() if _samples(settings) else _FIT
    _check_names("fit_options", settings.fit_options, names)
    _check_names("optimizer_options", settings.optimizer_options, _OPTIMIZER)
    _check_acquisition(settings)


def check_first_question(experiment: Experiment, settings: Settings) -> None:
    """Checks that the search space has a first question, by choosing it.

    Args:
        experiment: Ax's, new.
        settings: Of the experiment.

    Raises:
        ExperimentError: It has none; the message names the constraints.
    """
    try:
        next_options(experiment, settings, 2)
    except ExperimentError as error:
        constraints = experiment.search_space.parameter_constraints
        among = f" that satisfy {constraints}" if constraints else ""
        raise ExperimentError(
            f"There would be no question to ask: no two designs{among} were found that "
            f"differ by smallest_difference={settings.smallest_difference!r}. Leave "
            "more room between the constraints or the bounds, add values, or give a "
            "smaller smallest_difference."
        ) from error


def _samples(settings: Settings) -> bool:
    model_class: Any = class_named(settings.model, model_classes(), "model")
    return is_fully_bayesian(model_class)


def _names_of_sampling() -> list[str]:
    ours = {"model", "disable_progbar"}
    names = signature(fit_fully_bayesian_model_nuts).parameters
    return [name for name in names if name not in ours]


def _check_names(argument: str, given: Iterable[str], names: Iterable[str]) -> None:
    if unknown := sorted(set(given) - set(names)):
        raise ExperimentError(
            f"{argument} has {', '.join(unknown)}; there are "
            f"{', '.join(sorted(names))}."
        )


def _check_acquisition(settings: Settings) -> None:
    """Makes the acquisition function of a small model, whatever the experiment's is."""
    acquisition_class: Any = class_named(
        settings.acquisition, duel_classes(), "acquisition function"
    )
    points = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    model = EPPreferenceGP(points, torch.tensor([[0, 1]])).eval()
    options = settings.acquisition_options
    try:
        construct = get_acqf_input_constructor(acquisition_class)
        acquisition_class(**construct(model=model, **options))
    except Exception as error:
        # Whatever a class says to what it is given.
        raise ExperimentError(
            f"{settings.acquisition} does not take acquisition_options={options!r}: "
            f"{error}"
        ) from error
