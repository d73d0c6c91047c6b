"""Ax's plan of a preference experiment: spread first, then let the model choose."""

from __future__ import annotations

from ax.adapter.registry import Generators
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.utils.common.constants import Keys
from botorch.acquisition.acquisition import AcquisitionFunction

from botorch_pref.ax.answers.kinds.winner import OBJECTIVE
from botorch_pref.ax.generation.preference_generators import PreferenceGenerators
from botorch_pref.ax.generation.whole_numbers import TO_EVEN_UNIT_CUBE
from botorch_pref.ax.naming.names import class_named, duel_classes, model_classes
from botorch_pref.ax.settings import SHARE, Settings
from botorch_pref.ax.shared_raters import OF_RATERS, RATER
from botorch_pref.ax.space.catalogue import PROPERTY as CATALOGUE
from botorch_pref.models import GroupUtility, PreferenceMarginalLogLikelihood

SPREAD = "spread"
"""The node that chooses options without a model."""
MODEL = "model"
"""The node that chooses them by the model."""


def preference_generation_strategy(
    settings: Settings, position: int = 0
) -> GenerationStrategy:
    """A node of a Sobol sequence, then one of the model.

    Args:
        settings: Of the experiment.
        position: How many points of the Sobol sequence were used.

    Returns:
        The strategy. Its ``gen_single_trial(experiment, n)`` gives ``n`` options.
    """
    answered = MinTrials(
        threshold=settings.initial,
        transition_to=MODEL,
        only_in_statuses=[TrialStatus.COMPLETED],
        use_all_trials_in_exp=True,
    )
    acquisition_class = class_named(
        settings.acquisition, duel_classes(), "acquisition function"
    )
    nodes = [
        GenerationNode(
            name=SPREAD,
            generator_specs=[sobol_spec(settings, position)],
            transition_criteria=[answered],
        ),
        GenerationNode(
            name=MODEL,
            generator_specs=[model_spec(settings, acquisition_class)],
        ),
    ]
    return GenerationStrategy(
        name=f"{settings.model}+{settings.acquisition}", nodes=nodes
    )


def next_run(
    experiment: Experiment,
    settings: Settings,
    position: int,
    size: int,
    rater: int | None = None,
) -> GeneratorRun:
    """The next run of `preference_generation_strategy`, without its bookkeeping.

    Ax's strategies go through every option of every trial before they generate, which
    is what an ask would spend most of its time with after some hundred questions.

    Args:
        experiment: Ax's.
        settings: Of the experiment.
        position: How many points of the Sobol sequence were used.
        size: How many options.
        rater: See `model_spec`.
    """
    completed = experiment.trial_indices_by_status[TrialStatus.COMPLETED]
    if len(completed) < settings.initial:
        name, spec = SPREAD, fitted_sobol_spec(experiment, settings, position)
    else:
        acquisition_class = class_named(
            settings.acquisition, duel_classes(), "acquisition function"
        )
        name, spec = MODEL, model_spec(settings, acquisition_class, rater)
        spec.fit(experiment)
    run = spec.gen(n=size)
    run._generation_node_name = name
    return run


def fitted_sobol_spec(
    experiment: Experiment, settings: Settings, position: int
) -> GeneratorSpec:
    """Sobol sequence of an experiment, ready to generate.

    Args:
        experiment: Ax's, of which it needs the search space and nothing else.
        settings: Of the experiment.
        position: How many points were used.
    """
    spec = sobol_spec(settings, position)
    spec.fit(
        Experiment(
            search_space=experiment.search_space,
            properties={
                Keys.IMMUTABLE_SEARCH_SPACE_AND_OPT_CONF.value: True,
                CATALOGUE: experiment._properties.get(CATALOGUE),
            },
        )
    )
    return spec


def sobol_spec(settings: Settings, position: int) -> GeneratorSpec:
    """Sobol sequence of an experiment from a position onwards.

    Args:
        settings: Of the experiment.
        position: How many points were used.
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
    acquisition_class: type[AcquisitionFunction],
    rater: int | None = None,
) -> GeneratorSpec:
    """The model of an experiment, with an acquisition function.

    Args:
        settings: Of the experiment.
        acquisition_class: The settings' own, or another one that takes no options.
        rater: The number of the one whose utility counts, where raters share; None for
            the mean of all.
    """
    own = acquisition_class.__name__ == settings.acquisition
    model_class = class_named(settings.model, model_classes(), "model")
    options = settings.model_options
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
    return GeneratorSpec(
        PreferenceGenerators.PREFERENCE,
        generator_kwargs={
            "surrogate_spec": SurrogateSpec(
                metric_to_model_configs={OBJECTIVE: [config]}
            ),
            "botorch_acqf_class": acquisition_class,
            "botorch_acqf_options": settings.acquisition_options if own else {},
            # Without the only tie, a fold has no tie threshold to take over.
            "refit_on_cv": True,
        },
        generator_gen_kwargs={
            "model_gen_options": {
                Keys.OPTIMIZER_KWARGS.value: settings.optimizer_options
            }
        },
    )
