"""Arguments of models by the names that experiments store: likelihoods and kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botorch.utils.datasets import SupervisedDataset

from botorch_pref.ax.naming.kernel_names import kernel_named
from botorch_pref.ax.naming.names import class_named
from botorch_pref.ax.naming.objects_by_name import class_and_options, made, plain_option
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings
from botorch_pref.likelihoods.registry import registered_likelihoods
from botorch_pref.likelihoods.resolve import AnyLikelihood
from botorch_pref.models.preference_gp import PreferenceGP


def likelihood_classes() -> dict[str, type[AnyLikelihood]]:
    """Every registered likelihood, by name."""
    return registered_likelihoods()


def likelihoods_named(given: object) -> dict[type[Feedback], AnyLikelihood]:
    """Likelihoods by kind of answer, as models take them.

    Args:
        given: One likelihood, of all kinds of answers that it explains; or likelihoods
            by the names of kinds. A likelihood is its name, or its name with options:
            ``{"PairwiseProbitLikelihood": {"noise": 0.1}}``. Options are numbers, lists
            of numbers, and priors of GPyTorch, by name with options again.

    Raises:
        ExperimentError: There is no such likelihood, kind or option, or the likelihood
            does not explain the kind.
    """
    classes = likelihood_classes()
    if isinstance(given, Mapping) and not given.keys() <= classes.keys():
        kinds = {kind.__name__: kind for c in classes.values() for kind in c.explains}
        return {
            class_named(kind, kinds, "kind of answer"): _made(one, classes)
            for kind, one in given.items()
        }
    one = _made(given, classes)
    return dict.fromkeys(one.explains, one)


def with_likelihoods(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a model, with likelihoods in the place of their names.

    Args:
        options: Perhaps with ``likelihood``, see `likelihoods_named`; one that is no
            name is left as it is.
    """
    given = options.get("likelihood")
    names = given if isinstance(given, Mapping) else [given]
    if not names or not all(isinstance(name, str) for name in names):
        return dict(options)
    return {**options, "likelihood": likelihoods_named(given)}


def model_arguments(
    model_class: type[Any], dataset: SupervisedDataset, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Constructor arguments of a model.

    Answers so far may say nothing of duels, such as levels or failures alone. The
    questions to come are duels: such a model gets the likelihood of duels as well.

    Args:
        model_class: Of the model.
        dataset: The answers.
        options: See `with_likelihoods`; perhaps with ``covar_module``, see
            `kernel_named`; one that is no name is left as it is.
    """
    arguments = {**model_class.construct_inputs(dataset), **with_likelihoods(options)}
    kernel = arguments.get("covar_module")
    if isinstance(kernel, str | Mapping):
        made_kernel = kernel_named(kernel, dataset.X.shape[-1])
        arguments["covar_module"] = made_kernel.to(dataset.X)
    kinds = {type(block) for block in arguments.get("feedback", ())}
    compared = "comparisons" in arguments or kinds & {Comparisons, Choices, Rankings}
    given = arguments.get("likelihood") or {}
    if compared or not kinds or not isinstance(given, Mapping):
        return arguments
    if issubclass(model_class, PreferenceGP):
        duels = model_class.engine.default_likelihoods[Comparisons].default_for(None)
        arguments["likelihood"] = {Comparisons: duels, **given}
    return arguments


def _made(given: object, classes: Mapping[str, type[AnyLikelihood]]) -> AnyLikelihood:
    """A likelihood from its name, or its name with options."""
    cls, options = class_and_options(given, classes, "likelihood or prior")
    return made(cls, options, plain_option)
