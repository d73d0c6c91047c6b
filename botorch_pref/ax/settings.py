"""Settings that are stored with an experiment."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from ax.core.experiment import Experiment
from botorch.models.model import Model

from botorch_pref.ax.given import finite_number, given_integer, given_options, written
from botorch_pref.ax.naming import class_named, duel_classes, model_classes
from botorch_pref.ax.space.options import (
    DEFAULT_SHARE,
    SmallestDifference,
    given_difference,
)
from botorch_pref.errors import ExperimentError, StorageError
from botorch_pref.models.preference_gp import DuelKernel, PreferenceGP

PROPERTY = "botorch_pref"
"""The property of Ax's experiment that holds the settings."""

_OPTIONS = ("model_options", "fit_options", "acquisition_options", "optimizer_options")

POOL, SHARE = "pool", "share"
"""Answers of several raters are about one utility, or about one each, which have
something in common."""

SHORT_WALKS: dict[str, Any] = {"options": {"n_burnin": 512, "n_thinning": 4}}
"""Of the optimizer in constrained spaces, where BoTorch finds starting points by random
walks that take twice the time of all that follows. Elsewhere it does not know them."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the choice of questions.

    Attributes:
        model: The name of a model.
        acquisition: The name of an acquisition function.
        initial: How many questions are answered before the model chooses.
        seed: Of everything random. Equal seeds and answers give equal questions.
        model_options: Further arguments of the model. If there is no ``covar_module``
            among them, `create` takes a `DuelKernel`; of models that average over
            hyper-parameters or share raters the kernel is theirs.
        fit_options: Of BoTorch's ``fit_gpytorch_mll``, or for fully Bayesian models of
            ``fit_fully_bayesian_model_nuts``.
        acquisition_options: Further arguments of the acquisition function.
        optimizer_options: Of BoTorch's ``optimize_acqf``. If none are given and there
            are constraints, `SHORT_WALKS`.
        baseline: A design to compare with, such as what is in use; or None. The
            questions before the model chooses each show it.
        smallest_difference: Smallest difference that somebody could tell: a share of
            the range of each number, on its scale; or for some of them by name in their
            own unit, on a log scale as a factor. Whole numbers that differ, and
            choices, can be told apart unless this says otherwise of the former.
        raters: ``pool``: all answers are about one utility, whoever gave them;
            ``share``: each rater has one, and they have in common what answers show.
        repeat_rate: How often an answered question is asked again, to see whether
            answers are consistent, once the model chooses.

    Raises:
        ExperimentError: There is no such model or acquisition function, a number
            that cannot be, or options that cannot be stored.
    """

    model: str = "EPPreferenceGP"
    acquisition: str = "DuelingExploringEIIG"
    initial: int = 5
    seed: int = 0
    model_options: dict[str, Any] = field(default_factory=dict)
    fit_options: dict[str, Any] = field(default_factory=dict)
    acquisition_options: dict[str, Any] = field(default_factory=dict)
    optimizer_options: dict[str, Any] = field(default_factory=dict)
    baseline: dict[str, Any] | None = None
    smallest_difference: float | dict[str, float] = DEFAULT_SHARE
    repeat_rate: float = 0.05
    raters: str = POOL

    def __post_init__(self) -> None:
        """Validates the fields."""
        model_class = class_named(self.model, model_classes(), "model")
        class_named(self.acquisition, duel_classes(), "acquisition function")
        for name, least in (("initial", 1), ("seed", 0)):
            number = given_integer(name, getattr(self, name), least)
            object.__setattr__(self, name, number)
        self._check_raters(model_class)
        rate = finite_number(self.repeat_rate)
        if rate is None or not 0 <= rate <= 1:
            raise ExperimentError(
                f"repeat_rate is {written(self.repeat_rate)}; give a number from 0 to "
                "1."
            )
        object.__setattr__(self, "repeat_rate", rate)
        difference = given_difference(self.smallest_difference)
        object.__setattr__(self, "smallest_difference", difference)
        for name in _OPTIONS:
            object.__setattr__(self, name, given_options(name, getattr(self, name)))

    def _check_raters(self, model_class: type[Model]) -> None:
        if self.raters not in (POOL, SHARE):
            raise ExperimentError(
                f"raters is {self.raters!r}; give {POOL!r} or {SHARE!r}."
            )
        shares = issubclass(model_class, PreferenceGP)
        if self.raters == SHARE and (not shares or model_class._is_ensemble):
            raise ExperimentError(
                f"{self.model} has no kernel of raters; give another model, or pool "
                "the answers of all."
            )

    @classmethod
    def from_arguments(cls, given: dict[str, Any]) -> Self:
        """Settings from arguments; classes count as their names.

        Where no kernel is named, one that is fitted is a `DuelKernel`.
        """
        names = [attribute.name for attribute in fields(cls)]
        if unknown := sorted(set(given) - set(names)):
            raise ExperimentError(
                f"There is no setting {', '.join(unknown)}; there are "
                f"{', '.join(names)}."
            )
        chosen = cls(**{k: getattr(v, "__name__", v) for k, v in given.items()})
        model_class = class_named(chosen.model, model_classes(), "model")
        one = issubclass(model_class, PreferenceGP) and not model_class._is_ensemble
        if one and chosen.raters == POOL:
            options = {"covar_module": DuelKernel.__name__, **chosen.model_options}
            chosen = replace(chosen, model_options=options)
        return chosen

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """Settings of a preference experiment."""
        return cls(**experiment._properties[PROPERTY])

    @classmethod
    def of_stored(cls, stored: object) -> Self:
        """Settings that were stored with an experiment."""
        names = {attribute.name for attribute in fields(cls)}
        if not isinstance(stored, dict) or names != set(stored):
            found = sorted(stored) if isinstance(stored, dict) else stored
            raise StorageError(
                f"The stored settings are {found}, but must be {sorted(names)}; they "
                "were changed or damaged."
            )
        try:
            return cls(**stored)
        except (ExperimentError, TypeError) as error:
            raise StorageError(f"The stored settings cannot be: {error}") from error


def smallest_difference_of(experiment: Experiment) -> SmallestDifference:
    """Smallest difference that is stored with Ax's experiment, or that by default."""
    stored = (experiment._properties or {}).get(PROPERTY, {})
    found: SmallestDifference = stored.get("smallest_difference", DEFAULT_SHARE)
    return found
