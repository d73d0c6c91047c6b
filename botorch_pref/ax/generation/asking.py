"""The next question, from nothing but what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from inspect import signature
from random import Random
from typing import Any

import torch
from ax.adapter.registry import Generators
from ax.core.arm import Arm
from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.utils.common.random import with_rng_seed
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions.errors import CandidateGenerationError
from botorch.fit import fit_fully_bayesian_model_nuts
from botorch.utils.transforms import is_fully_bayesian

from botorch_pref.ax.answers import Answer, check_taken
from botorch_pref.ax.generation.adapter import with_arms
from botorch_pref.ax.generation.option_space import can_be_told
from botorch_pref.ax.generation.strategy import SPREAD, fitted_sobol_spec, next_run
from botorch_pref.ax.log import REPEATS
from botorch_pref.ax.naming import class_named, duel_classes, model_classes
from botorch_pref.ax.projection import asked_rater
from botorch_pref.ax.raters import number_of_rater
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.options import has_designs, in_smallest_differences
from botorch_pref.errors import ExperimentError
from botorch_pref.models import EPPreferenceGP

FEW, MANY = 2, 4
"""Options of a question by default. Thirty questions of four find more than thirty
duels where inputs are many, and as much elsewhere in half the questions
(`docs/benchmarks.md`)."""


def usual_size(
    experiment: Experiment, settings: Settings, num_levels: int | None
) -> int:
    """Number of options of a question, see `PreferenceExperiment.default_size`."""
    if not has_designs(experiment, settings.smallest_difference, 2 * MANY):
        return FEW
    for answer in (Answer(best=0), Answer(ranking=tuple(range(MANY)))):
        with suppress(ExperimentError):
            check_taken(settings, answer, MANY, num_levels)
            return MANY
    return FEW


def chosen_question(
    experiment: Experiment, settings: Settings, size: int, rater: str | None
) -> tuple[GeneratorRun, list[int] | None]:
    """Options of the next question, and the order in which they are shown.

    The order is random: people favour what comes first, and a model that always puts
    its incumbent there would learn that.

    Raises:
        ExperimentError: There are not so many options to show.
    """
    options = next_options(experiment, settings, size, rater)
    seed = derived_seed(settings, len(experiment.trials), "order")
    return (
        beside_baseline(options, settings, experiment.search_space),
        Random(seed).sample(range(size), size),
    )


def derived_seed(settings: Settings, *purpose: int | str) -> int:
    """Seed of a purpose, which parts tell from others, by the experiment's own."""
    digest = sha256(repr((settings.seed, *purpose)).encode()).digest()
    # NumPy takes seeds of 32 bits.
    return int.from_bytes(digest[:4], "big")


def beside_baseline(
    run: GeneratorRun, settings: Settings, space: SearchSpace
) -> GeneratorRun:
    """The options of a question, with the baseline among those that are spread.

    Until the model chooses, each question compares with the baseline, so that answers
    join all options. Then it is an option like any other that was shown.
    """
    if settings.baseline is None or run._generation_node_name != SPREAD:
        return run
    baseline = Arm(settings.baseline)
    if baseline.signature in run.arm_signatures:
        return run
    designs = [baseline.parameters, *(arm.parameters for arm in run.arms)]
    first, *others = in_smallest_differences(
        space, settings.smallest_difference, designs
    )
    # The option least unlike the baseline makes room for it.
    nearest = int((torch.stack(others) - first).square().sum(-1).argmin())
    kept = [arm for i, arm in enumerate(run.arms) if i != nearest]
    return with_arms(run, [baseline, *kept])


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
    number: a restart changes nothing. Where raters share, the utility of the one who is
    asked counts.

    Raises:
        ExperimentError: The search space has no more options to show.
    """
    number = len(experiment.trials)
    again = derived_seed(settings, number, "repeat")
    repeated = question_again(experiment, settings, size, again)
    if repeated is not None:
        return repeated
    position = _sobol_position(experiment)
    kept = GeneratorRun(arms=[])
    of_rater = number_of_rater(experiment, rater)
    for attempt in range(_ATTEMPTS):
        at = position + attempt * size
        with with_rng_seed(derived_seed(settings, number, attempt)):
            try:
                run = next_run(experiment, settings, at, size, of_rater)
            except CandidateGenerationError:
                # Rounding took every start out of the constraints.
                continue
        # The model repeats a question where it found no other.
        spread = run._generator_key == Generators.SOBOL.value
        turn = _turn(experiment, settings, run, size, rater)
        if turn == _NEW or (turn == _ANSWERED and not spread):
            return run
        kept = run
    return _filled_up(experiment, settings, kept, size, position, rater)


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
    found: dict[int, GeneratorRun] = {}
    rounds = 15 * _ATTEMPTS
    for attempt in range(rounds):
        # Goes on in the sequence where it was.
        spread = spec.gen(n=size)
        kept = first if 2 * attempt < rounds else []
        filled = GeneratorRun(
            arms=[*kept, *spread.arms[: size - len(kept)]],
            generator_key=Generators.SOBOL.value,
            # Where the sequence goes on.
            generator_state_after_gen=spread._generator_state_after_gen,
        )
        turn = _turn(experiment, settings, filled, size, rater)
        if turn is not None:
            found.setdefault(turn, filled)
        if turn == _NEW:
            break
    if not found:
        raise ExperimentError(
            f"No {size} options were found that differ, satisfy the constraints and "
            "are not asked about already; answer what is pending, or ask about fewer "
            "options."
        )
    return found[min(found)]


_NEW, _ANSWERED, _WITH_OTHERS = range(3)


def _turn(
    experiment: Experiment,
    settings: Settings,
    run: GeneratorRun,
    size: int,
    rater: str | None,
) -> int | None:
    """Place of a question in the order of asking.

    New questions come before answered ones, and these before what other raters are
    asked. None is the place of options that are not in the space, that nobody can tell
    apart, or that the rater is asked about already.
    """
    space, options = experiment.search_space, [arm.parameters for arm in run.arms]
    if len(options) != size or not all(map(space.check_membership, options)):
        return None
    points = in_smallest_differences(space, settings.smallest_difference, options)
    if not can_be_told(torch.pdist(points).square()).all():
        return None
    known = experiment.arms_by_signature
    if not run.arm_signatures <= known.keys():
        return _NEW
    names = {known[signature].name for signature in run.arm_signatures}
    trials = experiment.trials.values()
    asked = [trial for trial in trials if names == trial.arms_by_name.keys()]
    waiting = [asked_rater(trial) for trial in asked if trial.status.is_running]
    if waiting:
        return None if rater in waiting else _WITH_OTHERS
    return _ANSWERED if asked else _NEW


def _sobol_position(experiment: Experiment) -> int:
    """Number of points of the Sobol sequence that were used."""
    runs = (run for trial in experiment.trials.values() for run in trial.generator_runs)
    states = (run._generator_state_after_gen or {} for run in runs)
    return max((int(state.get("init_position", 0)) for state in states), default=0)


REPEAT = "Repeat"
"""The chooser of a question that is asked again, in the log."""


def question_again(
    experiment: Experiment, settings: Settings, size: int, seed: int
) -> GeneratorRun | None:
    """The options of an answered question that is to be asked again, now and then.

    Each answered question is asked again once at most, and not as the very next one.
    None is returned where another question is to be asked.
    """
    completed = experiment.trial_indices_by_status[TrialStatus.COMPLETED]
    draws = Random(seed)
    if len(completed) < settings.initial or draws.random() >= settings.repeat_rate:
        return None
    trials = [*experiment.trials.values()]
    shown = [frozenset(trial.arms_by_name) for trial in trials]
    times = Counter(shown)
    once = [
        trial
        for trial, options in zip(trials[:-1], shown, strict=False)
        if trial.index in completed and len(options) == size and times[options] == 1
    ]
    if not once:
        return None
    chosen = draws.choice(once)
    assert isinstance(chosen, BatchTrial)
    return GeneratorRun(
        [arm.clone() for arm in chosen.arms],
        generator_key=REPEAT,
        gen_metadata={REPEATS: chosen.index},
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

    Raises:
        ExperimentError: An option is none; the message names its argument.
    """
    model_class: Any = class_named(settings.model, model_classes(), "model")
    of_fit: Iterable[str] = _FIT
    if is_fully_bayesian(model_class):
        ours = {"model", "disable_progbar"}
        of_fit = signature(fit_fully_bayesian_model_nuts).parameters.keys() - ours
    for argument, names in (("fit_options", of_fit), ("optimizer_options", _OPTIMIZER)):
        if unknown := sorted(getattr(settings, argument).keys() - set(names)):
            raise ExperimentError(
                f"{argument} has {', '.join(unknown)}; there are "
                f"{', '.join(sorted(names))}."
            )
    # A small model takes what the experiment's takes.
    points = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    model = EPPreferenceGP(points, torch.tensor([[0, 1]])).eval()
    acquisition_class: Any = duel_classes()[settings.acquisition]
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


def check_first_question(experiment: Experiment, settings: Settings) -> None:
    """Checks that the search space of a new experiment has a first question.

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
