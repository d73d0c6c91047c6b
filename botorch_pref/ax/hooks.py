"""Registration of our classes with Ax, done as this module is imported."""

from __future__ import annotations

from typing import Any

from ax.adapter.random import RandomAdapter
from ax.adapter.registry import GENERATOR_KEY_TO_GENERATOR_SETUP, GeneratorSetup
from ax.core.arm import Arm
from ax.core.parameter_constraint import ParameterConstraint
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.generators.torch.botorch_modular.surrogate import (
    Surrogate,
    submodel_input_constructor,
)
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from ax.storage import botorch_modular_registry as registry
from ax.storage.json_store.encoders import arm_to_dict, parameter_constraint_to_dict
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
from ax.storage.transform_registry import register_transform
from botorch.fit import fit_fully_bayesian_model_nuts, fit_gpytorch_mll
from botorch.models.model import Model
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.transforms import is_fully_bayesian
from gpytorch.mlls import MarginalLogLikelihood

from botorch_pref.acquisition import FeasibilityWeighted
from botorch_pref.ax import naming
from botorch_pref.ax.generation import numbers
from botorch_pref.ax.generation.adapter import PreferenceAcquisition, PreferenceAdapter
from botorch_pref.ax.generation.question_choice import (
    PreferenceGenerators,
    SpreadGenerator,
)
from botorch_pref.ax.projection import SignedArm
from botorch_pref.ax.space.constraints import LinearConstraint
from botorch_pref.models import GroupUtility, PreferenceMarginalLogLikelihood
from botorch_pref.models.raters import answered_model
from botorch_pref.models.training_data import FeedbackDataset


def _fit(
    model: Model,
    mll_class: type[MarginalLogLikelihood],
    mll_options: dict[str, Any] | None = None,
) -> None:
    """Fits a model with our objective, or samples it, as Ax's hook.

    Ax's own objective, ``mll_class``, is one of numbers with noise, not of answers.
    """
    options = mll_options or {}
    fitted = answered_model(model)
    if is_fully_bayesian(fitted):
        fit_fully_bayesian_model_nuts(fitted, disable_progbar=True, **options)
    else:
        mll = PreferenceMarginalLogLikelihood(fitted.likelihood, fitted)
        fit_gpytorch_mll(mll, **options)


def _inputs(
    botorch_model_class: type[Model],
    model_config: ModelConfig,
    dataset: SupervisedDataset,
    search_space_digest: SearchSpaceDigest,
    surrogate: Surrogate,
) -> dict[str, Any]:
    """Returns constructor arguments of a model from its data and options, as Ax's hook.

    The digest of the search space would add nothing: features are in the unit cube, and
    categories are one-hot.
    """
    options = model_config.model_options
    if issubclass(botorch_model_class, GroupUtility):
        assert isinstance(dataset, FeedbackDataset)
        return naming.group_arguments(dataset, options)
    return naming.model_arguments(botorch_model_class, dataset, options)


def _register_model(model_class: type[Model]) -> None:
    registry.register_model(model_class)
    fit_botorch_model.register(model_class)(_fit)
    submodel_input_constructor.register(model_class)(_inputs)


def register_classes() -> None:
    """Puts every registered model and acquisition function into Ax's registries.

    Experiments do so when they are opened: Ax fits and stores what it has there.
    Those that a user has registered since are added; no class is put there twice.
    """
    for model_class in naming.model_classes().values():
        if model_class not in registry.MODEL_REGISTRY:
            _register_model(model_class)
    for acquisition_class in naming.duel_classes().values():
        if acquisition_class not in registry.ACQUISITION_FUNCTION_REGISTRY:
            registry.register_acquisition_function(acquisition_class)


def _constraint_to_dict(constraint: LinearConstraint) -> dict[str, Any]:
    """Gives Ax's hook: a constraint as Ax stores its own class, which it reads back."""
    stored = parameter_constraint_to_dict(constraint)
    return {**stored, "__type": ParameterConstraint.__name__}


def _arm_to_dict(arm: SignedArm) -> dict[str, Any]:
    """Gives Ax's hook: an arm as Ax stores its own class, which it reads back."""
    return {**arm_to_dict(arm), "__type": Arm.__name__}


def _register() -> None:
    """Registers generators, transforms and encoders in the tables of Ax."""
    GENERATOR_KEY_TO_GENERATOR_SETUP[PreferenceGenerators.PREFERENCE.value] = (
        GeneratorSetup(
            adapter_class=PreferenceAdapter,
            generator_class=BoTorchGenerator,
            transforms=numbers.TO_UNIT_CUBE,
            default_generator_kwargs={"acquisition_class": PreferenceAcquisition},
            # Rounding integers must see the constraints, which an expanded space drops.
            standard_adapter_kwargs={"expand_model_space": False},
        )
    )
    GENERATOR_KEY_TO_GENERATOR_SETUP[PreferenceGenerators.SPREAD.value] = (
        GeneratorSetup(
            adapter_class=RandomAdapter,
            generator_class=SpreadGenerator,
            transforms=numbers.TO_EVEN_UNIT_CUBE,
        )
    )
    CORE_DECODER_REGISTRY[PreferenceGenerators.__name__] = PreferenceGenerators
    CORE_ENCODER_REGISTRY[LinearConstraint] = _constraint_to_dict
    CORE_ENCODER_REGISTRY[SignedArm] = _arm_to_dict
    for transform in (
        *(numbers.CatalogueRows, numbers.NearestIntegers, numbers.PlacesInOrder),
        *(numbers.ReadableNumbers, numbers.UnitNumbers, numbers.WholeNumbers),
    ):
        register_transform(transform)
    registry.register_acquisition(PreferenceAcquisition)
    # It takes more than a model, so that no setting names it.
    registry.register_acquisition_function(FeasibilityWeighted)
    registry.register_mll(PreferenceMarginalLogLikelihood)
    _register_model(GroupUtility)
    register_classes()


_register()
