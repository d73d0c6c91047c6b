"""Settings and search space of an experiment, checked, and Ax's experiment of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self, get_args

from ax.api.configs import (
    ChoiceParameterConfig,
    DerivedParameterConfig,
    RangeParameterConfig,
)
from ax.api.utils.instantiation.from_config import parameter_from_config
from ax.core.experiment import Experiment
from ax.core.objective import Objective
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ChoiceParameter, Parameter
from ax.core.parameter_constraint import validate_constraint_parameters
from ax.core.search_space import SearchSpace
from ax.utils.common.constants import Keys
from botorch.models.model import Model

from botorch_pref.asking.next_questions import recommended_acquisition
from botorch_pref.asking.request import INITIAL
from botorch_pref.ax.answer_kinds import OBJECTIVE, new_metrics
from botorch_pref.ax.naming import class_named, duel_classes, model_classes
from botorch_pref.ax.space import constraints, context, options
from botorch_pref.ax.space.differences import (
    DEFAULT_SHARE,
    check_smallest_difference,
    plain_differences,
)
from botorch_pref.ax.space.options import PROPERTY as CATALOGUE
from botorch_pref.ax.user_values import (
    TEXT,
    argument_error,
    checked_integer,
    checked_truth,
    finite_number,
    is_text,
    look_alike,
    plain_options,
    quoted,
)
from botorch_pref.errors import ExperimentError, StorageError
from botorch_pref.models import DuelKernel, PreferenceGP

PROPERTY = "botorch_pref"
"""The property of Ax's experiment that holds the settings."""

_OPTIONS = ("model_options", "fit_options", "acquisition_options", "optimizer_options")

POOL, SHARE = "pool", "share"
"""Answers of several raters are about one utility, or about one each, which have
something in common."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the choice of questions.

    Attributes:
        model: The name of a model.
        acquisition: The name of an acquisition function. None for that by which
            `botorch_pref.next_question` chooses so many options; its checks of answers
            are left out where one is named.
        initial: How many questions are answered before the model chooses.
        seed: Of everything random. Equal seeds and answers give equal questions.
        model_options: Further arguments of the model. If there is no ``covar_module``
            among them, `create` takes a `DuelKernel`; of models that average over
            hyper-parameters or share raters the kernel is theirs. If there is no
            ``likelihood``, EP learns one noise of duels, choices and rankings, and
            takes a `LapsingProbitLikelihood` of duels that come without the others.
        fit_options: Of BoTorch's ``fit_gpytorch_mll``, or for fully Bayesian models of
            ``fit_fully_bayesian_model_nuts``.
        acquisition_options: Further arguments of the acquisition function.
        optimizer_options: Of BoTorch's ``optimize_acqf``, by default eight restarts.
        baseline: A design to compare with, which each question shows before the model
            chooses; or None.
        smallest_difference: Smallest difference that somebody could tell: a share of
            the range of each number, on its scale; or for some of them by name in their
            own unit, on a log scale as a factor. Whole numbers that differ, and
            choices, can be told apart unless this says otherwise of the former.
        raters: ``pool``: all answers are about one utility, whoever gave them;
            ``share``: each rater has one, and they have in common what answers show.
        repeat_rate: How often a rater is asked an answered question again, with its
            options in the opposite order, to see whether answers are consistent, once
            the model chooses.
        position_bias: Whether the model learns how much being shown first adds to an
            option. The report says it, and what is chosen and recommended does not
            depend on where options were shown.
        context: The names of parameters that are measured and not chosen, as the room
            of a tasting: all options of a question have the values that ``ask`` is
            given.

    Raises:
        ExperimentError: There is no such model or acquisition function, a number that
            cannot be, or options that cannot be stored.
    """

    model: str = "EPPreferenceGP"
    acquisition: str | None = None
    initial: int = INITIAL
    seed: int = 0
    model_options: dict[str, Any] = field(default_factory=dict)
    fit_options: dict[str, Any] = field(default_factory=dict)
    acquisition_options: dict[str, Any] = field(default_factory=dict)
    optimizer_options: dict[str, Any] = field(default_factory=dict)
    baseline: dict[str, Any] | None = None
    smallest_difference: float | dict[str, float] = DEFAULT_SHARE
    repeat_rate: float = 0.05
    raters: str = POOL
    position_bias: bool = False
    context: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Validates the fields, and makes them plain values, as they are stored."""
        model_class = class_named(self.model, model_classes(), "model")
        if self.acquisition is not None:
            class_named(self.acquisition, duel_classes(), "acquisition function")
        checked: dict[str, Any] = {
            "initial": checked_integer("initial", self.initial, 1),
            "seed": checked_integer("seed", self.seed, 0),
            "position_bias": checked_truth("position_bias", self.position_bias),
            "context": _names("context", self.context),
            "repeat_rate": finite_number(self.repeat_rate),
            "smallest_difference": plain_differences(self.smallest_difference),
            **{name: plain_options(name, getattr(self, name)) for name in _OPTIONS},
        }
        rate = checked["repeat_rate"]
        if rate is None or not 0 <= rate <= 1:
            raise argument_error(
                "repeat_rate", self.repeat_rate, "a number from 0 to 1"
            )
        if self.raters not in (POOL, SHARE):
            raise argument_error("raters", self.raters, f"{POOL!r} or {SHARE!r}")
        if self.raters == SHARE and not _has_one_kernel(model_class):
            raise ExperimentError(
                f"{self.model} has no kernel of raters; give another model, or pool "
                "the answers of all."
            )
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.acquisition is None and self.acquisition_options:
            raise ExperimentError(
                f"acquisition_options has {', '.join(self.acquisition_options)}; name "
                "the acquisition function that takes them."
            )

    def acquisition_of(self, size: int, num_parameters: int = 1) -> str:
        """Names the acquisition function of questions with ``size`` options."""
        usual = recommended_acquisition(size, num_parameters)
        return self.acquisition or usual.__name__

    @classmethod
    def from_arguments(cls, arguments: dict[str, Any]) -> Self:
        """Returns settings from arguments; classes count as their names.

        A model with one kernel takes a `DuelKernel` where no ``covar_module`` is named.
        """
        names = [attribute.name for attribute in fields(cls)]
        if unknown := ", ".join(sorted(set(arguments) - set(names))):
            raise ExperimentError(
                f"There is no setting {unknown}; there are {', '.join(names)}."
            )
        chosen = cls(**{k: getattr(v, "__name__", v) for k, v in arguments.items()})
        if _has_one_kernel(model_classes()[chosen.model]):
            options = {"covar_module": DuelKernel.__name__, **chosen.model_options}
            chosen = replace(chosen, model_options=options)
        return chosen

    @classmethod
    def from_experiment(cls, experiment: Experiment) -> Self:
        """Reads the settings of Ax's experiment, or makes the default ones."""
        return cls(**(experiment._properties or {}).get(PROPERTY, {}))

    @classmethod
    def from_stored(cls, stored: object) -> Self:
        """Returns settings that were stored with an experiment.

        Where they say nothing of positions and of a context, positions do not count and
        there is no context.
        """
        names = {attribute.name for attribute in fields(cls)}
        # Older experiments were stored without these.
        later = {"position_bias", "context"}
        try:
            if not isinstance(stored, dict) or {*stored} | later != names:
                raise ValueError(f"{quoted(stored)}, and there are {sorted(names)}")
            return cls(**stored)
        except (TypeError, ValueError) as error:
            raise StorageError(
                f"The stored settings cannot be; they were changed or damaged: {error}"
            ) from error


def _names(argument: str, names: Any) -> list[str]:
    """Checks names of parameters, and lists each once."""
    listed = isinstance(names, Sequence) and not isinstance(names, str)
    if not listed or not all(isinstance(name, str) for name in names):
        raise argument_error(argument, names, "a list of names of parameters")
    return [*dict.fromkeys(names)]


def _has_one_kernel(model_class: type[Model]) -> bool:
    return issubclass(model_class, PreferenceGP) and not model_class._is_ensemble


ParameterConfig = RangeParameterConfig | ChoiceParameterConfig | DerivedParameterConfig
_CONFIGS = get_args(ParameterConfig)


def new_experiment(
    name: str,
    parameters: Sequence[Any] | None,
    parameter_constraints: Sequence[str],
    num_levels: int | None,
    settings: Settings,
    catalogue: options.Catalogue | None = None,
) -> Experiment:
    """Makes Ax's experiment without questions, with a metric for each answer kind.

    The search space is checked first. Properties of the experiment have the settings
    and the catalogue, which adapters read there.
    """
    if not is_text(name) or not name:
        raise argument_error("name", name, f"the experiment a name, {TEXT}")
    parameters = checked_space(parameters, parameter_constraints)
    if num_levels is not None:
        num_levels = checked_integer("num_levels", num_levels, 2)
    space = _search_space(parameters, parameter_constraints)
    constraints.check_coefficients(space)
    constraints.check_feasible(space)
    constraints.fit_ranges(space)
    # By the ranges, which `fit_ranges` may have narrowed.
    check_smallest_difference(space, settings.smallest_difference)
    context.check_names(space, settings.context)
    if settings.context and (catalogue is not None or settings.baseline is not None):
        rival = "baseline" if catalogue is None else "catalogue"
        raise ExperimentError(
            f"context goes with no {rival}, each of whose designs is in one context; "
            f"leave out {rival}."
        )
    metrics = new_metrics(num_levels)
    signatures = {m.name: m.signature for m in metrics if m.name == OBJECTIVE}
    objective = Objective(expression=OBJECTIVE, metric_name_to_signature=signatures)
    experiment = Experiment(
        search_space=space,
        name=name,
        tracking_metrics=metrics,
        optimization_config=OptimizationConfig(objective),
    )
    # So that Ax keeps no copy of the space with every run.
    experiment._properties[Keys.IMMUTABLE_SEARCH_SPACE_AND_OPT_CONF.value] = True
    if catalogue is not None:
        experiment._properties[CATALOGUE] = catalogue.to_property()
    if settings.baseline is not None:
        design = options.own_design(space, catalogue, settings.baseline)
        settings = replace(settings, baseline=design)
    experiment._properties[PROPERTY] = asdict(settings)
    return experiment


def checked_space(parameters: Any, parameter_constraints: Any) -> list[ParameterConfig]:
    """Checks parameters and constraints that a person gave; returns the parameters."""
    listed = isinstance(parameters, Sequence) and len(parameters) > 0
    if not listed or not all(isinstance(p, _CONFIGS) for p in parameters):
        kinds = ", ".join(config.__name__ for config in _CONFIGS)
        raise argument_error(
            "parameters",
            parameters,
            f"a list of {kinds} of ax.api.configs; or bring an experiment of Ax's by "
            "PreferenceExperiment.from_ax",
        )
    listed = isinstance(parameter_constraints, Sequence)
    if not listed or isinstance(parameter_constraints, str):
        raise argument_error(
            "parameter_constraints", parameter_constraints, "a list of texts"
        )
    for text in parameter_constraints:
        if not isinstance(text, str):
            raise argument_error(
                "parameter_constraints", [text], "texts such as 'x + y <= 1'"
            )
    for place, config in enumerate(parameters):
        if not is_text(config.name) or not config.name.strip():
            raise ExperimentError(
                f"parameters has the name {quoted(config.name)} at {place} (counted "
                f"from 0); give the parameter a name, {TEXT}."
            )
        constraints.check_config(config)
    if alike := look_alike(config.name for config in parameters):
        raise ExperimentError(
            f"The parameters {alike[0]} and {alike[1]} look the same; give one of them "
            "another name."
        )
    return [*parameters]


def _search_space(
    configs: list[Any], parameter_constraints: Sequence[str]
) -> SearchSpace:
    """Makes Ax's search space, for which a person's formulas are written anew.

    Ax evaluates the texts of formulas, so that `linear_form` reads them before. Derived
    parameters are replaced in the list ``configs`` itself.
    """
    names = [str(config.name) for config in configs]
    try:
        for i, config in enumerate(configs):
            if isinstance(config, DerivedParameterConfig):
                text = constraints.linear_text(config.expression_str, names)
                configs[i] = replace(config, expression_str=text)
        parameters = [_parameter(config) for config in configs]
        parsed = constraints.LinearConstraint.parsed
        limits = []
        for text in parameter_constraints:
            limit = parsed(text, names).without_fixed(parameters)
            if limit is not None:
                about = [p for p in parameters if p.name in limit.constraint_dict]
                validate_constraint_parameters(about)
                limits.append(limit)
        return SearchSpace(parameters, [*limits])
    except Warning:
        # A filter of the user's has made an error of a warning.
        raise
    # Ax, and SymPy that it calls, refuse with errors of all kinds.
    except Exception as error:
        raise ExperimentError(f"Ax does not take this search space: {error}") from error


def _parameter(config: ParameterConfig) -> Parameter:
    """Returns Ax's parameter of a configuration, without a log scale of its choices.

    Ax takes ordered numbers such as 1, 10, 100 to be on a log scale, and allows no
    constraint of them then. Here their places count, whatever the scale.
    """
    parameter = parameter_from_config(config)
    if isinstance(parameter, ChoiceParameter) and parameter.log_scale:
        return ChoiceParameter(
            name=parameter.name,
            parameter_type=parameter.parameter_type,
            values=parameter.values,
            is_ordered=True,
            sort_values=True,
            log_scale=False,
        )
    return parameter


def check_with_parameters(parameters: object, parameter_constraints: object) -> None:
    """Checks that no constraints are given without the parameters that they are of."""
    if parameters is None and parameter_constraints != ():
        raise ExperimentError(
            f"parameter_constraints is {quoted(parameter_constraints)} without "
            "parameters; give both, or neither."
        )


def check_same_space(
    experiment: Experiment,
    parameters: Sequence[Any],
    parameter_constraints: Sequence[str],
) -> None:
    """Checks that parameters and constraints are those of an experiment to resume.

    Raises:
        ExperimentError: They are not; names each parameter that differs.
    """
    name, stored_space = experiment.name, experiment.search_space
    configs = [
        *map(constraints.in_steps, checked_space(parameters, parameter_constraints))
    ]
    experiment_anew = new_experiment(
        name, configs, parameter_constraints, None, Settings()
    )
    if (space := experiment_anew.search_space) == stored_space:
        return
    differences = []
    for parameter in {**stored_space.parameters, **space.parameters}:
        spaces = (
            stored_space.parameters.get(parameter),
            space.parameters.get(parameter),
        )
        if spaces[0] != spaces[1]:
            has, says = (options.allowed(p) if p else "not there" for p in spaces)
            says = "another kind of these" if says == has else says
            differences.append(f"{parameter} is {has}, and given as {says}")
    raise ExperimentError(
        f"The experiment {name!r} is there already, in another search space: "
        f"{'; '.join(differences) or 'its constraints are others'}. To go on with it "
        "leave parameters and constraints out; for the new ones give another name. "
        "copy(parameters=...) takes its answers along."
    )
