"""The next question from nothing but what is stored, and Ax's plan of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any

import torch
from ax.adapter.registry import GeneratorRegistryBase, Generators
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.search_space import SearchSpace, SearchSpaceDigest
from ax.core.trial_status import TrialStatus
from ax.core.types import TParameterization
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from ax.generators.random.sobol import SobolGenerator
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.utils.common.constants import Keys
from ax.utils.common.random import with_rng_seed
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.exceptions.errors import CandidateGenerationError

from botorch_pref.acquisition.polytopes import Frame
from botorch_pref.ax.answer_kinds import OBJECTIVE
from botorch_pref.ax.answers import Answer, check_taken
from botorch_pref.ax.events import Chosen
from botorch_pref.ax.generation.adapter import (
    CHECKS,
    COUNT,
    FURTHER,
    run_in_context,
)
from botorch_pref.ax.generation.numbers import TO_EVEN_UNIT_CUBE
from botorch_pref.ax.log import Log
from botorch_pref.ax.naming import OF_RATERS, RATER, duel_classes, model_classes
from botorch_pref.ax.projection import Projection, chosen_by, num_answers
from botorch_pref.ax.settings import SHARE, Settings
from botorch_pref.ax.space.context import (
    NO_CONTEXT,
    Context,
    context_of,
    context_text,
)
from botorch_pref.ax.space.differences import (
    can_differ,
    differ,
    has_designs,
    in_smallest_differences,
)
from botorch_pref.ax.space.options import PROPERTY as CATALOGUE
from botorch_pref.errors import ExperimentError
from botorch_pref.models import GroupUtility, PreferenceMarginalLogLikelihood


class PreferenceGenerators(GeneratorRegistryBase):
    """Ax's registry of generators with those of preferences.

    Attributes:
        PREFERENCE: Ax's modular BoTorch generator behind `PreferenceAdapter`, with
            transforms of parameters only: to the unit cube, categories to one-hot.
        SPREAD: Ax's Sobol sequence, which finds designs in thin polytopes too.
    """

    PREFERENCE = "Preference"
    SPREAD = "Spread"


Array = Any
"""An array of NumPy's, as Ax hands it on."""


class SpreadGenerator(SobolGenerator):
    """Sobol points; in a polytope that few of them fall into, a random walk's.

    Ax's own walk takes seconds in a thin polytope, and finds the same points again.
    """

    _frame: Frame | None = None

    def gen(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        linear_constraints: tuple[Array, Array] | None = None,
        *args: Any,
        **arguments: Any,
    ) -> tuple[Array, Array]:
        """Makes ``n`` points of the digest's features, ``n x d``, of weights 1 each.

        Linear constraints are ``A x <= b``; Ax gives all further arguments by name.
        ``init_position`` counts points, of the sequence and of the random walk that
        replaces it in a thin polytope: it is stored, and later points go on from there.
        """
        if linear_constraints is not None and not arguments.get("fixed_features"):
            bounds = torch.tensor(search_space_digest.bounds, dtype=torch.float64).T
            A, b = (torch.from_numpy(part).double() for part in linear_constraints)
            if self._frame is None:
                self._frame = Frame.from_thin(A, b.flatten(), bounds)
            if self._frame is not None:
                points = self._frame.spread(n, self.seed + self.init_position)
                self.init_position += n
                return points.numpy(), torch.ones(n).double().numpy()
        return super().gen(
            n, search_space_digest, linear_constraints, *args, **arguments
        )


SPREAD, MODEL = "spread", "model"
"""The nodes that choose options without a model, and by it."""


def preference_generation_strategy(
    settings: Settings, position: int = 0, size: int = 2
) -> GenerationStrategy:
    """Returns Ax's strategy: a node of a Sobol sequence, then one of the model.

    Its ``gen_single_trial(experiment, n)`` gives ``n`` options.

    Args:
        settings: Of the experiment.
        position: How many points of the Sobol sequence were used.
        size: Number of options of a question.
    """
    answered = MinTrials(
        threshold=settings.initial,
        transition_to=MODEL,
        only_in_statuses=[TrialStatus.COMPLETED],
        use_all_trials_in_exp=True,
    )
    spread = GenerationNode(
        SPREAD, [sobol_spec(settings, position)], transition_criteria=[answered]
    )
    nodes = [spread, GenerationNode(MODEL, [model_spec(settings, size=size)])]
    name = f"{settings.model}+{settings.acquisition_of(size)}"
    return GenerationStrategy(nodes=nodes, name=name)


def next_run(
    experiment: Experiment,
    settings: Settings,
    position: int,
    size: int,
    rater: int | None = None,
    count: int = 1,
    context: Context = NO_CONTEXT,
) -> GeneratorRun:
    """Gives the next run of `preference_generation_strategy`, without its bookkeeping.

    Ax's strategies go through every option of every trial before they generate, for
    which an ask would need most of its time after some hundred questions.

    Args:
        experiment: Ax's, with the answers so far.
        settings: Of the experiment.
        position: How many points of the Sobol sequence were used.
        size: Number of options.
        rater: The number of the rater whose utility counts, where raters share; None
            for the mean of all.
        count: Number of questions, of which the metadata of a model's run have those
            after the first, as `FURTHER`; there may be fewer.
        context: The values that all options have.
    """
    if num_answers(experiment) < settings.initial:
        spec = fitted_sobol_spec(experiment, settings, position)
        run = spread_run(spec, size, context)
        run._generation_node_name = SPREAD
        return run
    num_parameters = len(experiment.search_space.tunable_parameters) - len(context)
    spec = model_spec(settings, None, rater, size, num_parameters)
    spec.fit(experiment)
    # With the specification's own options: `gen` takes these in place of them.
    of_search = {
        "model_gen_options": dict(spec.generator_gen_kwargs["model_gen_options"])
    }
    of_search["model_gen_options"][Keys.AX_ACQUISITION_KWARGS.value] = {COUNT: count}
    run = spec.gen(n=size, **of_search, **_fixed(context))
    run._generation_node_name = MODEL
    return run


_DRAWS = 20
"""Points of the Sobol sequence for each option, before fewer options have to do."""


def _fixed(context: Context) -> dict[str, ObservationFeatures]:
    """Makes Ax's argument of what all options have; none without a context."""
    features = ObservationFeatures(parameters=dict(context))
    return {"fixed_features": features} if context else {}


def spread_context(log: Log) -> Context:
    """Draws a context, to see whether a new experiment has a first question in one."""
    if not log.settings.context:
        return NO_CONTEXT
    spec = fitted_sobol_spec(log.blank, log.settings, 0)
    (arm,) = spread_run(spec, 1).arms
    return context_of(arm.parameters, log.settings.context)


def spread_run(
    spec: GeneratorSpec, size: int, context: Context = NO_CONTEXT
) -> GeneratorRun:
    """Returns options of a Sobol sequence that differ, from where the sequence is.

    One point after the other: rounding to rows, choices and whole numbers makes some of
    them the same, of which Ax would warn where it makes them together. There are fewer
    options than ``size`` where so many were not found.
    """
    space, arms = spec.fitted_adapter._experiment.search_space, dict[str, Arm]()
    for _ in range(_DRAWS * size):
        run = spec.gen(n=1, **_fixed(context))
        (arm,) = run_in_context(run, space, context).arms
        arms.setdefault(arm.signature, arm)
        if len(arms) == size:
            break
    # The last run says how far the sequence was used.
    return GeneratorRun(
        [*arms.values()],
        generator_key=run._generator_key,
        generator_state_after_gen=run._generator_state_after_gen,
    )


def fitted_sobol_spec(
    experiment: Experiment, settings: Settings, position: int
) -> GeneratorSpec:
    """Makes the Sobol sequence of an experiment from a position onwards, to be drawn.

    The same position gives the same points.
    """
    spec = sobol_spec(settings, position)
    # It needs the search space and nothing else.
    names = (Keys.IMMUTABLE_SEARCH_SPACE_AND_OPT_CONF.value, CATALOGUE)
    properties = {name: experiment._properties.get(name) for name in names}
    spec.fit(Experiment(search_space=experiment.search_space, properties=properties))
    return spec


def sobol_spec(settings: Settings, position: int) -> GeneratorSpec:
    """Returns Ax's specification of an experiment's Sobol sequence, not fitted yet.

    It goes on from a position, the number of points that were used.
    """
    return GeneratorSpec(
        PreferenceGenerators.SPREAD,
        # Whoever reads the log knows it by this name.
        generator_key_override=Generators.SOBOL.value,
        generator_kwargs={
            "seed": settings.seed,
            "init_position": position,
            "transforms": TO_EVEN_UNIT_CUBE,
            # A small space may well be shown twice.
            "deduplicate": False,
        },
    )


def model_spec(
    settings: Settings,
    acquisition_class: type[AcquisitionFunction] | None = None,
    rater: int | None = None,
    size: int = 2,
    num_parameters: int = 1,
) -> GeneratorSpec:
    """Returns Ax's specification of a model with an acquisition function, not fitted.

    Args:
        settings: Of the experiment.
        acquisition_class: By default that of the settings, which alone gets their
            ``acquisition_options``.
        rater: The number of the rater whose utility counts, where raters share; None
            for the mean of all.
        size: Number of options; with ``num_parameters`` it decides which acquisition
            function is the default, see `Settings.acquisition_of`.
        num_parameters: Number of parameters to choose.
    """
    recommended = duel_classes()[settings.acquisition_of(size, num_parameters)]
    is_recommended = acquisition_class in (None, recommended)
    model_class, options = model_classes()[settings.model], settings.model_options
    if settings.raters == SHARE:
        model_class = GroupUtility
        options = {**options, OF_RATERS: settings.model, RATER: rater}
    config = ModelConfig(
        botorch_model_class=model_class,
        model_options=options,
        mll_options=settings.fit_options,
        mll_class=PreferenceMarginalLogLikelihood,
        name=settings.model,
    )
    of_search = {
        Keys.OPTIMIZER_KWARGS.value: settings.optimizer_options,
        # No reliability checks where somebody named an acquisition function.
        CHECKS: settings.acquisition is None and acquisition_class is None,
    }
    surrogate = SurrogateSpec(metric_to_model_configs={OBJECTIVE: [config]})
    return GeneratorSpec(
        PreferenceGenerators.PREFERENCE,
        generator_kwargs={
            "surrogate_spec": surrogate,
            "botorch_acqf_class": acquisition_class or recommended,
            "botorch_acqf_options": settings.acquisition_options
            if is_recommended
            else {},
            # A fold without the only tie cannot load the tie threshold of the model.
            "refit_on_cv": True,
        },
        generator_gen_kwargs={"model_gen_options": of_search},
    )


SOBOL, REPEAT = Generators.SOBOL.value, "Repeat"
"""The choosers of options that are spread and that are asked again, in the log."""

FEW, MANY = 2, 4
"""Options of a question by default. Thirty questions of four find more than thirty
duels where inputs are many, and as much elsewhere in half the questions
(`docs/logbook/claims.md`)."""


def has_designs_to_choose(log: Log, number: int) -> bool:
    """Tells whether a person can tell so many designs apart, in one context.

    The page refuses questions of more options, and `usual_size` asks it too.
    """
    settings = log.settings
    return has_designs(
        log.space,
        log.catalogue,
        settings.smallest_difference,
        number,
        settings.context,
    )


def usual_size(log: Log) -> int:
    """Chooses how many options a question has where nobody says so.

    They are `MANY` if people can tell twice as many designs apart, and the model takes
    the best or a ranking of so many; else `FEW`.
    """
    settings = log.settings
    if not has_designs_to_choose(log, 2 * MANY):
        return FEW
    for answer in (Answer(best=0), Answer(ranking=tuple(range(MANY)))):
        with suppress(ExperimentError):
            check_taken(settings, answer, MANY, log.num_levels)
            return MANY
    return FEW


def chosen_question(
    projection: Projection,
    size: int,
    rater: str | None,
    context: Context = NO_CONTEXT,
) -> Chosen:
    """Returns options of the next question, and the order in which they are shown."""
    chosen = next_options(projection, size, rater, context)
    return _in_order(projection.log, chosen, len(projection.log.questions))


def _in_order(log: Log, chosen: Chosen, number: int) -> Chosen:
    """Sets the order in which the options of the question of a ``number`` are shown.

    It is random, since people favour what comes first, and a model that always puts its
    incumbent there would learn that.
    """
    # A question that is asked again has its order, the opposite of before.
    if chosen.places is not None:
        return chosen
    size = len(chosen.options)
    seed = derived_seed(log.settings, number, "order")
    return replace(chosen, places=Random(seed).sample(range(size), size))


def chosen_questions(
    projection: Projection,
    size: int,
    raters: Sequence[str | None],
    context: Context = NO_CONTEXT,
) -> list[Chosen]:
    """Returns next questions for people who answer at the same time, the best first.

    The page calls this for raters in one context. The model is fitted once and searched
    once, see `NotedQuestions`: all questions have the same answers behind them. There
    may be fewer questions than ``raters``: one where options are spread, where each
    rater has a utility, or where the first rater is asked a question again.
    """
    log, settings = projection.log, projection.log.settings
    first, experiment = len(log.questions), projection.experiment()
    repeat_seed = derived_seed(settings, first, "repeat")
    by_model = num_answers(experiment) >= settings.initial
    pooled = len(raters) > 1 and settings.raters != SHARE
    choices: list[Chosen] = []
    repeated = question_again(log, size, repeat_seed, raters[0], context)
    if by_model and pooled and repeated is None:
        with (
            with_rng_seed(derived_seed(settings, first, 0)),
            suppress(CandidateGenerationError),
        ):
            run = next_run(
                experiment,
                settings,
                log.position,
                size,
                count=len(raters),
                context=context,
            )
            best = chosen_by(run)
            further = (run.gen_metadata or {}).get(FURTHER, [])
            choices = [best, *(replace(best, options=options) for options in further)]
    is_new = (
        chosen for chosen in choices if _turn(log, chosen.options, size, None) == _NEW
    )
    placed = [_in_order(log, chosen, first + i) for i, chosen in enumerate(is_new)]
    return placed or [chosen_question(projection, size, raters[0], context)]


def derived_seed(settings: Settings, *purpose: int | str) -> int:
    """Derives the seed of a ``purpose``, such as a question's number and a word.

    It is the same in all processes. Other seeds would change the questions of
    experiments that have begun.
    """
    digest = sha256(repr((settings.seed, *purpose)).encode()).digest()
    # NumPy takes seeds of 32 bits.
    return int.from_bytes(digest[:4], "big")


def beside_baseline(
    chosen: Chosen, settings: Settings, space: SearchSpace
) -> Sequence[TParameterization]:
    """Returns the options of a question, with the baseline among those that are spread.

    Until the model chooses, each question compares with the baseline, so that answers
    join all options. Then it is an option like any other that was shown.
    """
    baseline, options = settings.baseline, chosen.options
    spread = (chosen.generated or {}).get("node") == SPREAD
    if baseline is None or not spread or baseline in options:
        return options
    designs = [baseline, *options]
    first, *points = in_smallest_differences(
        space, settings.smallest_difference, designs
    )
    # The option least unlike the baseline makes room for it.
    nearest = int((torch.stack(points) - first).square().sum(-1).argmin())
    return [baseline, *options[:nearest], *options[nearest + 1 :]]


_ATTEMPTS, _ROUNDS = 4, 60
"""Proposals of the strategy for one question, and of spread options after these."""


def next_options(
    projection: Projection,
    size: int,
    rater: str | None = None,
    context: Context = NO_CONTEXT,
) -> Chosen:
    """Chooses options in a context that differ and were not asked about.

    Now and then the rater is asked an answered question again, see `question_again`.
    Otherwise a question is repeated only where no new one was found. Rounded options
    can violate constraints, and spread ones can fall together: then the next of the
    `_proposals` is tried. Where only questions pending with other raters are left, one
    of these is asked: a table of few rows may have fewer questions than people.

    A generator is made anew for each question, and its seed derived from the question's
    number: a restart changes nothing.
    """
    log = projection.log
    repeat_seed = derived_seed(log.settings, len(log.questions), "repeat")
    repeated = question_again(log, size, repeat_seed, rater, context)
    if repeated is not None:
        return repeated
    if context and not can_differ(log.space, log.settings.smallest_difference, context):
        raise ExperimentError(
            f"Constraints leave no two designs that differ where "
            f"{context_text(context)}; give another context."
        )
    choices: dict[int, Chosen] = {}
    for chosen in _proposals(projection, size, rater, context):
        turn = _turn(log, chosen.options, size, rater)
        # The model repeats a question where it found no other.
        is_meant = chosen.chosen_by != SOBOL
        if turn == _NEW or (turn == _ANSWERED and is_meant):
            return chosen
        if turn is not None:
            choices.setdefault(turn, chosen)
    if not choices:
        is_open = any(question.pending for question in log.questions)
        answer = "answer what is pending, or " if is_open else ""
        raise ExperimentError(
            f"No {size} options were found that differ, satisfy the constraints and "
            f"are not asked about already; {answer}ask about fewer options."
        )
    return choices[min(choices)]


def _proposals(
    projection: Projection, size: int, rater: str | None, context: Context
) -> Iterator[Chosen]:
    """Proposes options to ask about, one question after the other.

    First come `_ATTEMPTS` questions of the strategy, then `_ROUNDS` of spread options:
    half of these beside one option of the strategy, and half without it, since every
    question with that option may be pending.
    """
    log, experiment = projection.log, projection.experiment()
    settings, position = log.settings, log.position
    of_rater = log.number_of_rater(rater)
    options: Sequence[TParameterization] = []
    for attempt in range(_ATTEMPTS):
        place = position + attempt * size
        with with_rng_seed(derived_seed(settings, len(log.questions), attempt)):
            try:
                run = next_run(
                    experiment, settings, place, size, of_rater, context=context
                )
            except CandidateGenerationError:
                # Rounding took every start out of the constraints.
                continue
        chosen = chosen_by(run)
        options = beside_baseline(chosen, settings, log.space)
        yield replace(chosen, options=options)
    first = [option for option in options if log.space.check_membership(option)][:1]
    place = position + _ATTEMPTS * size
    spread = _spread(log, experiment, place, size, context)
    for attempt, chosen in zip(range(_ROUNDS), spread, strict=False):
        fixed = first if 2 * attempt < _ROUNDS else []
        yield replace(chosen, options=[*fixed, *chosen.options[: size - len(fixed)]])


def _spread(
    log: Log, experiment: Experiment, position: int, size: int, context: Context
) -> Iterator[Chosen]:
    """Spreads options by the Sobol sequence, without end; rows of a table at random.

    A point of the sequence stands for the row next to it. Where a few rows are far from
    all others, nearly all points stand for these.
    """
    if log.catalogue is None:
        spec = fitted_sobol_spec(experiment, log.settings, position)
        while True:
            run = spread_run(spec, size, context)
            yield replace(chosen_by(run), chosen_by=SOBOL)
    rows = [*log.catalogue.rows.values()]
    random = Random(derived_seed(log.settings, len(log.questions), "rows"))
    while True:
        yield Chosen(random.sample(rows, min(size, len(rows))), SOBOL)


_NEW, _ANSWERED, _WITH_OTHERS = range(3)


def _turn(
    log: Log, options: Sequence[TParameterization], size: int, rater: str | None
) -> int | None:
    """Finds how welcome a question is: new, answered, or waiting with other raters.

    `next_options` takes the smallest number: `_NEW`, `_ANSWERED`, `_WITH_OTHERS`. None
    is for options that are too few, are outside the space, look alike, or are pending
    with the rater.
    """
    twice = any(option in options[:i] for i, option in enumerate(options))
    if twice or len(options) != size:
        return None
    if not all(map(log.space.check_membership, options)):
        return None
    smallest_difference = log.settings.smallest_difference
    points = in_smallest_differences(log.space, smallest_difference, options)
    if not differ(torch.pdist(points).square()).all():
        return None
    names = {log.name_of(option) for option in options}
    if None in names:
        return _NEW
    sets = [q for q in log.questions if not q.is_line]
    repeated = [q for q in sets if names == {o.name for o in q.options}]
    waiting = [question.rater for question in repeated if question.pending]
    if waiting:
        return None if rater in waiting else _WITH_OTHERS
    return _ANSWERED if repeated else _NEW


def question_again(
    log: Log, size: int, seed: int, rater: str | None, context: Context = NO_CONTEXT
) -> Chosen | None:
    """Returns an answered question that the rater is to be asked again, now and then.

    Its options are shown in the opposite order. Each question is asked again once at
    most, and not as the very next one. Without a rater, it may be anybody's.
    """
    draws, settings = Random(seed), log.settings
    if draws.random() >= settings.repeat_rate:
        return None
    if log.num_compared < settings.initial:
        return None
    # A question is that of whoever answered it, or of the rater who is asked.
    answered = [q for q in log.questions if rater in (None, (q.standing or q).rater)]
    names = [frozenset(option.name for option in q.options) for q in answered]
    times = Counter(names)
    once = [
        question
        for question, options in zip(answered[:-1], names, strict=False)
        if question.compared
        and not question.is_line
        and len(options) == size
        and log.context_of(question) == context
        and times[options] == 1
    ]
    if not once:
        return None
    again = draws.choice(once)
    options = [option.parameters for option in again.as_chosen]
    # The display has places in the question, and `Chosen` those in the order of choice.
    chosen_as = again.content.get("places", range(size))
    places = [chosen_as[place] for place in reversed(again.display or range(size))]
    return Chosen(options, REPEAT, places, repeats=again.index)
