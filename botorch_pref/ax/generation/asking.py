"""The next question, from nothing but what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from random import Random

import torch
from ax.adapter.registry import Generators
from ax.core.arm import Arm
from ax.core.batch_trial import BatchTrial
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.utils.common.random import with_rng_seed
from botorch.exceptions.errors import CandidateGenerationError

from botorch_pref.ax.answers import Answer, check_taken
from botorch_pref.ax.generation.adapter import with_arms
from botorch_pref.ax.generation.option_space import can_be_told
from botorch_pref.ax.generation.strategy import SPREAD, fitted_sobol_spec, next_run
from botorch_pref.ax.log import REPEATS
from botorch_pref.ax.projection import number_of_rater, question_of
from botorch_pref.ax.settings import Settings
from botorch_pref.ax.space.options import has_designs, in_smallest_differences
from botorch_pref.errors import ExperimentError

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
    together. Then the strategy is asked again with another seed, and after a few times
    Sobol points are taken. Where all that is left is pending with other raters, one of
    theirs is asked: a table of few rows may have fewer questions than people.

    A generator is made anew for each question, and its seed derived from the question's
    number: a restart changes nothing.
    """
    number = len(experiment.trials)
    again = derived_seed(settings, number, "repeat")
    repeated = question_again(experiment, settings, size, again)
    if repeated is not None:
        return repeated
    found: dict[int, GeneratorRun] = {}
    for run, is_meant in _proposals(experiment, settings, size, rater):
        turn = _turn(experiment, settings, run, size, rater)
        if turn == _NEW or (turn == _ANSWERED and is_meant):
            return run
        if turn is not None:
            found.setdefault(turn, run)
    if not found:
        raise ExperimentError(
            f"No {size} options were found that differ, satisfy the constraints and "
            "are not asked about already; answer what is pending, or ask about fewer "
            "options."
        )
    return found[min(found)]


def _proposals(
    experiment: Experiment, settings: Settings, size: int, rater: str | None
) -> Iterator[tuple[GeneratorRun, bool]]:
    """Options to ask about, and whether a repeated question is meant to be one.

    Those of the strategy; then the first of them that can be shown, with Sobol points
    for the others; and in the end Sobol points alone, for every question with the first
    one may be pending.
    """
    number, position = len(experiment.trials), _sobol_position(experiment)
    of_rater = number_of_rater(experiment, rater)
    arms: list[Arm] = []
    for attempt in range(_ATTEMPTS):
        at = position + attempt * size
        with with_rng_seed(derived_seed(settings, number, attempt)):
            try:
                run = next_run(experiment, settings, at, size, of_rater)
            except CandidateGenerationError:
                # Rounding took every start out of the constraints.
                continue
        # The model repeats a question where it found no other.
        yield run, run._generator_key != Generators.SOBOL.value
        arms = run.arms
    space = experiment.search_space
    first = [arm for arm in arms if space.check_membership(arm.parameters)][:1]
    spec = fitted_sobol_spec(experiment, settings, position + _ATTEMPTS * size)
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
        yield filled, False


_NEW, _ANSWERED, _WITH_OTHERS = range(3)


def _turn(
    experiment: Experiment,
    settings: Settings,
    run: GeneratorRun,
    size: int,
    rater: str | None,
) -> int | None:
    """Place of a question in the order of asking: new ones, answered, those of others.

    None is the place of options that are not in the space, that nobody can tell apart,
    or that the rater is asked about already.
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
    waiting = [question_of(trial).rater for trial in asked if trial.status.is_running]
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

    Each is asked again once at most, and not as the very next one.
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
