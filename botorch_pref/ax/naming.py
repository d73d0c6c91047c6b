"""Classes, kernels and likelihoods by the names that experiments store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar

import torch
from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.utils.datasets import SupervisedDataset
from gpytorch import constraints, kernels, priors
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel
from gpytorch.priors import Prior

from botorch_pref.acquisition.registration import registered_acquisitions
from botorch_pref.asking.default_models import likelihoods_of_people
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Feedback
from botorch_pref.likelihoods.protocol import registered_likelihoods
from botorch_pref.models import (
    DuelKernel,
    PreferenceGP,
    RelevanceKernel,
    rater_covar_module,
)
from botorch_pref.models.answer_likelihoods import AnyLikelihood, registered_models
from botorch_pref.models.training_data import FeedbackDataset

T = TypeVar("T")


def model_classes() -> dict[str, type[Model]]:
    """Returns every registered model, by the name of its class."""
    return {e.cls.__name__: e.cls for e in registered_models()}


def duel_classes() -> dict[str, type[AcquisitionFunction]]:
    """Returns every registered acquisition function, by the name of its class."""
    registered = (entry.cls for entry in registered_acquisitions())
    return {cls.__name__: cls for cls in registered}


def class_named(name: str, classes: dict[str, type[T]], noun: str) -> type[T]:
    """Returns a class by its name; where there is none, the error lists all names."""
    if not isinstance(name, str) or name not in classes:
        raise ExperimentError(
            f"There is no {noun} {name!r}; there are {', '.join(sorted(classes))}."
        )
    return classes[name]


def _exported(base: Any, *modules: ModuleType) -> dict[str, type[Any]]:
    """Returns the classes that modules export and that are of a base class, by name."""
    exported = {name: getattr(m, name) for m in modules for name in m.__all__}
    classes = {name: cls for name, cls in exported.items() if isinstance(cls, type)}
    return {name: cls for name, cls in classes.items() if issubclass(cls, base)}


_COLUMNS = frozenset({"categorical", "active_dims"})
"""Options that list columns, which stay integers."""


def object_named(
    description: object,
    classes: Mapping[str, type[Any]],
    noun: str,
    defaults: Callable[[type[Any]], dict[str, Any]] = lambda cls: {},
) -> Any:
    """Makes the object that a description names, of one of some classes.

    A description is the name of a class, or ``{name: options}``. Options are numbers,
    lists of numbers, or descriptions: of objects of the same classes, or of priors and
    constraints of GPyTorch. A list in place of options has the parts of a sum or a
    product. ``defaults`` gives options of a class that the description leaves out.
    """
    by_name = {description: {}} if isinstance(description, str) else description
    if not isinstance(by_name, Mapping) or len(by_name) != 1:
        raise ExperimentError(
            f"{description!r} is no {noun}; give a name, or "
            '{"its name": {"option": value}}.'
        )
    ((name, options),) = by_name.items()
    cls: Any = class_named(name, dict(classes), noun)

    def option(value: Any) -> Any:
        """Makes a tensor of a list, and an object of a name; other values stay."""
        if isinstance(value, list):
            return torch.tensor(value, dtype=torch.float64)
        if not isinstance(value, str | Mapping):
            return value
        name = value if isinstance(value, str) else next(iter(value), None)
        if name in classes:
            return object_named(value, classes, noun, defaults)
        parts = _exported((Prior, Interval), priors, constraints)
        return object_named(value, parts, "likelihood or prior")

    if isinstance(options, list):
        return cls(*(object_named(part, classes, noun, defaults) for part in options))
    try:
        if not isinstance(options, Mapping):
            raise TypeError(f"it has the options {options!r}; give them by name")
        arguments = {
            key: value if key in _COLUMNS else option(value)
            for key, value in options.items()
        }
        return cls(**{**defaults(cls), **arguments})
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise ExperimentError(f"{name} does not take {options!r}: {error}") from error


def kernel_named(
    description: object, dim: int, categorical: Sequence[Sequence[int]] = ()
) -> Kernel:
    """Returns a kernel of GPyTorch or of this package, of points with ``dim`` features.

    It is described as to `object_named`:
    ``{"ScaleKernel": {"base_kernel": {"MaternKernel": {"nu": 1.5}}}}``. Kernels have a
    lengthscale for each feature, unless ``ard_num_dims`` says otherwise.
    ``categorical``, for kernels of this package, has the columns of each unordered
    choice.
    """
    of_people = DuelKernel, RelevanceKernel
    classes = _exported(Kernel, kernels) | {cls.__name__: cls for cls in of_people}

    def defaults(cls: type[Kernel]) -> dict[str, Any]:
        if cls in of_people:
            return {"dim": dim, "categorical": categorical}
        return {"ard_num_dims": dim} if cls.has_lengthscale else {}

    kernel: Kernel = object_named(description, classes, "kernel", defaults)
    return kernel


def choice_columns(feature_names: Sequence[str]) -> list[list[int]]:
    """Gives the columns of each unordered choice, which Ax codes as zeros and a one."""
    columns: dict[str, list[int]] = {}
    for column, name in enumerate(feature_names):
        parameter, infix, _ = name.rpartition(OH_PARAM_INFIX)
        if infix:
            columns.setdefault(parameter, []).append(column)
    return [*columns.values()]


def likelihoods_named(description: object) -> dict[type[Feedback], AnyLikelihood]:
    """Returns likelihoods by kind of answer, as models take them.

    They are described by kind, as ``{"Comparisons": ...}``, or by one description, see
    `object_named`, of a likelihood for all kinds that it explains.
    """
    classes, noun = registered_likelihoods(), "likelihood or prior"
    if isinstance(description, Mapping) and not description.keys() <= classes.keys():
        kinds = {kind.__name__: kind for c in classes.values() for kind in c.explains}
        return {
            class_named(kind, kinds, "kind of answer"): object_named(
                likelihood, classes, noun
            )
            for kind, likelihood in description.items()
        }
    likelihood = object_named(description, classes, noun)
    return dict.fromkeys(likelihood.explains, likelihood)


def with_likelihoods(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options of a model, with likelihoods in place of their descriptions.

    Without the option, or where it has likelihoods already, options stay.
    """
    description = options.get("likelihood")
    names = description if isinstance(description, Mapping) else [description]
    if not names or not all(isinstance(name, str) for name in names):
        return dict(options)
    return {**options, "likelihood": likelihoods_named(description)}


def model_arguments(
    model_class: type[Any], dataset: SupervisedDataset, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns constructor arguments of a model of a data set, for Ax to make it.

    Kernels and likelihoods are made of descriptions in ``options``. Likelihoods that
    the user did not choose are those of `likelihoods_of_people`.
    """
    arguments = {**model_class.construct_inputs(dataset), **with_likelihoods(options)}
    kernel = arguments.get("covar_module")
    if isinstance(kernel, str | Mapping):
        choices = choice_columns(dataset.feature_names)
        made_kernel = kernel_named(kernel, dataset.X.shape[-1], choices)
        arguments["covar_module"] = made_kernel.to(dataset.X)
    chosen = arguments.get("likelihood") or {}
    blocks = arguments.get("feedback")
    if blocks and isinstance(chosen, Mapping) and issubclass(model_class, PreferenceGP):
        likelihoods = likelihoods_of_people(blocks, model_class, chosen)
        if likelihoods:
            arguments["likelihood"] = {**likelihoods, **chosen}
    return arguments


OF_RATERS, RATER = "model of raters", "rater"
"""Options of a group besides those of the model: its name, and whose utility counts."""


def group_arguments(
    dataset: FeedbackDataset, options: dict[str, Any]
) -> dict[str, Any]:
    """Returns constructor arguments of a `GroupUtility` of all raters, or of one."""
    model_options = {k: v for k, v in options.items() if k not in (OF_RATERS, RATER)}
    model_class = class_named(options[OF_RATERS], model_classes(), "model")
    arguments = model_arguments(model_class, dataset, model_options)
    stimulus = arguments["covar_module"] if "covar_module" in model_options else None
    kernel = rater_covar_module(dataset.X.shape[-1], stimulus=stimulus)
    arguments["covar_module"] = kernel.to(dataset.X)
    assert dataset.raters is not None
    rater = options.get(RATER)
    raters = dataset.raters.unique() if rater is None else torch.tensor([rater])
    return {"model": model_class(**arguments), "raters": raters.to(dataset.X)}
