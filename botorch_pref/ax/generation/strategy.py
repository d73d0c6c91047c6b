"""Ax's plan of a preference experiment: spread first, then let the model choose."""

from __future__ import annotations

from typing import Any

import torch
from ax.adapter.registry import GeneratorRegistryBase, Generators
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.search_space import SearchSpaceDigest
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from ax.generators.random.sobol import SobolGenerator
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.utils.common.constants import Keys
from botorch.acquisition.acquisition import AcquisitionFunction

from botorch_pref.ax.generation.numbers import TO_EVEN_UNIT_CUBE
from botorch_pref.ax.kinds import OBJECTIVE
from botorch_pref.ax.naming import OF_RATERS, RATER, duel_classes, model_classes
from botorch_pref.ax.settings import SHARE, Settings
from botorch_pref.ax.space.catalogue import PROPERTY as CATALOGUE
from botorch_pref.ax.space.polytope import Frame
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
"""Of NumPy, as Ax hands it on."""


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
        **given: Any,
    ) -> tuple[Array, Array]:
        """See base class, which is given all further arguments by name."""
        if linear_constraints is not None and not given.get("fixed_features"):
            bounds = torch.tensor(search_space_digest.bounds, dtype=torch.float64).T
            A, b = (torch.from_numpy(part).double() for part in linear_constraints)
            if self._frame is None:
                self._frame = Frame.of_thin(A, b.flatten(), bounds)
            if self._frame is not None:
                points = self._frame.spread(n, self.seed + self.init_position)
                self.init_position += n
                return points.numpy(), torch.ones(n).double().numpy()
        return super().gen(n, search_space_digest, linear_constraints, *args, **given)


SPREAD = "spread"
"""The node that chooses options without a model."""
MODEL = "model"
"""The node that chooses them by the model."""


def preference_generation_strategy(
    settings: Settings, position: int = 0, size: int = 2
) -> GenerationStrategy:
    """A node of a Sobol sequence, then one of the model.

    Args:
        settings: Of the experiment.
        position: How many points of the Sobol sequence were used.
        size: Number of options of a question.

    Returns:
        The strategy. Its ``gen_single_trial(experiment, n)`` gives ``n`` options.
    """
    answered = MinTrials(
        threshold=settings.initial,
        transition_to=MODEL,
        only_in_statuses=[TrialStatus.COMPLETED],
        use_all_trials_in_exp=True,
    )
    nodes = [
        GenerationNode(
            name=SPREAD,
            generator_specs=[sobol_spec(settings, position)],
            transition_criteria=[answered],
        ),
        GenerationNode(name=MODEL, generator_specs=[model_spec(settings, size=size)]),
    ]
    return GenerationStrategy(
        name=f"{settings.model}+{settings.acquisition_of(size)}", nodes=nodes
    )


def next_run(
    experiment: Experiment,
    settings: Settings,
    position: int,
    size: int,
    rater: int | None = None,
) -> GeneratorRun:
    """The next run of `preference_generation_strategy`, without its bookkeeping.

    Ax's strategies go through every option of every trial before they generate, for
    which an ask would need most of its time after some hundred questions.
    """
    completed = experiment.trial_indices_by_status[TrialStatus.COMPLETED]
    if len(completed) < settings.initial:
        run = spread_run(fitted_sobol_spec(experiment, settings, position), size)
        run._generation_node_name = SPREAD
        return run
    spec = model_spec(settings, rater=rater, size=size)
    spec.fit(experiment)
    run = spec.gen(n=size)
    run._generation_node_name = MODEL
    return run


_DRAWS = 20
"""Points of the Sobol sequence for each option, before fewer options have to do."""


def spread_run(spec: GeneratorSpec, size: int) -> GeneratorRun:
    """Options of a Sobol sequence that differ, from where the sequence is.

    One point after the other: rounding to rows, choices and whole numbers makes some of
    them the same, of which Ax would warn where it makes them together. There are fewer
    options than ``size`` where so many were not found.
    """
    found: dict[str, Arm] = {}
    for _ in range(_DRAWS * size):
        run = spec.gen(n=1)
        found.setdefault(run.arms[0].signature, run.arms[0])
        if len(found) == size:
            break
    return GeneratorRun(
        [*found.values()],
        generator_key=run._generator_key,
        generator_state_after_gen=run._generator_state_after_gen,
    )


def fitted_sobol_spec(
    experiment: Experiment, settings: Settings, position: int
) -> GeneratorSpec:
    """Sobol sequence of an experiment from a position onwards, ready to generate."""
    spec = sobol_spec(settings, position)
    # It needs the search space and nothing else.
    kept = (Keys.IMMUTABLE_SEARCH_SPACE_AND_OPT_CONF.value, CATALOGUE)
    properties = {name: experiment._properties.get(name) for name in kept}
    spec.fit(Experiment(search_space=experiment.search_space, properties=properties))
    return spec


def sobol_spec(settings: Settings, position: int) -> GeneratorSpec:
    """Sobol sequence of an experiment from a position onwards."""
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
) -> GeneratorSpec:
    """The model of an experiment, with an acquisition function.

    Without an ``acquisition_class``, which takes no options, it is the settings' own
    for questions with ``size`` options.
    Where raters share, the utility of the ``rater`` of a number counts, or the mean.
    """
    own = duel_classes()[settings.acquisition_of(size)]
    is_own = acquisition_class in (None, own)
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
    of_optimizer = {Keys.OPTIMIZER_KWARGS.value: settings.optimizer_options}
    return GeneratorSpec(
        PreferenceGenerators.PREFERENCE,
        generator_kwargs={
            "surrogate_spec": SurrogateSpec(
                metric_to_model_configs={OBJECTIVE: [config]}
            ),
            "botorch_acqf_class": acquisition_class or own,
            "botorch_acqf_options": settings.acquisition_options if is_own else {},
            # Without the only tie, a fold has no tie threshold to take over.
            "refit_on_cv": True,
        },
        generator_gen_kwargs={"model_gen_options": of_optimizer},
    )
