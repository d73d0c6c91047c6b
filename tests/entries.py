"""Entries of the registry."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import mpmath as mp
import pytest
import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from torch import Tensor
from truths.answers import log_probabilities

from botorch_pref.feedback import Feedback
from botorch_pref.likelihoods import Factors, PreferenceLikelihood
from botorch_pref.likelihoods.factors import BoxFactors
from botorch_pref.models import PreferenceGP


@dataclass(frozen=True)
class Engine:
    """Facts about a model class that the contract has to know.

    Attributes:
        cls: The class.
        capped: Makes an engine of inference that takes at most some iterations.
        with_evidence: Makes a solution of another that has this evidence.
        deviations: How far mean and deviation may be from the truth, in prior
            deviations, for any answers.
        nats: How far the evidence may be from the truth.
        logit: Whether it takes `PairwiseLogitLikelihood`.
        num_draws: How many draws stand behind a result; None where none do.
        options: Constructor arguments that are its own.
        all_inducing: Whether it takes inducing points: all points, so that it is exact.
    """

    cls: type[PreferenceGP]
    deviations: float
    nats: float
    capped: Callable[[Any, int], Any] = lambda engine, number: replace(
        engine, max_iterations=number
    )
    with_evidence: Callable[[Any, Tensor], Any] = lambda solution, evidence: replace(
        solution, evidence=evidence
    )
    logit: bool = True
    num_draws: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    all_inducing: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> PreferenceGP:
        model: Any = self.cls(*args, **(self.options | kwargs))
        if self.all_inducing and model.datapoints is not None:
            model.inducing_points = model.datapoints.detach()
        return model

    def with_draws(self, num_draws: int) -> "Engine":
        if self.num_draws is None:
            return self
        options = self.options | {"num_draws": num_draws}
        return replace(self, num_draws=num_draws, options=options)

    @property
    def boxed(self) -> bool:
        """Whether it takes probit answers, ties and validity."""
        return self.cls.engine.accepts(BoxFactors)

    def needs_boxes(self) -> None:
        if not self.boxed:
            pytest.skip("The engine takes no boxed answers.")

    @property
    def sampling_error(self) -> float:
        """Six standard errors of a mean, in posterior standard deviations."""
        return 0.0 if self.num_draws is None else 6 * self.num_draws**-0.5


@dataclass
class Cell:
    """Answers under a likelihood."""

    likelihood: Callable[[], PreferenceLikelihood[Any]]
    feedback: Feedback

    def log_prob(self, f: Tensor) -> Tensor:
        """Computes log probabilities of all answers, of utilities ``num_draws x n``."""
        law = self.likelihood().double()
        return log_probabilities(f, self.feedback, law).sum(-1)


@dataclass
class Case:
    """A likelihood, an answer, and the answer's probability given ``z``."""

    likelihood: type[PreferenceLikelihood]
    feedback: Feedback
    truth: Callable
    # Row of A over three points, from the definition of z.
    row: list[float]
    factors: type[Factors]
    parameters: dict = field(default_factory=dict)
    # Arguments of the likelihood that are no positive parameters.
    fixed: dict = field(default_factory=dict)
    # How many items are heard with noise.
    items: int = 2
    # Between the ends of the answer's interval.
    width: float = math.inf

    def build(self, dtype=torch.float64, **changes):
        arguments = self.fixed | self.parameters | changes
        module = self.likelihood(**arguments).to(dtype)
        for name, value in (self.fixed | self.parameters).items():
            # Constructed in the default dtype, which rounds.
            setattr(module, name, changes.get(name, value))
        return module

    def probability(self, z, **changes):
        return self.truth(mp.mpf(z), **(self.parameters | changes))


@dataclass
class SetCase:
    """A likelihood of a set of three: the log probability of one answer, given all."""

    likelihood: type[PreferenceLikelihood]
    kind: type[Feedback]
    factors: type[Factors]
    parameters: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Acquisition:
    """Facts about an acquisition function that the contract has to know.

    Attributes:
        cls: The class.
        pairs: Whether it also chooses both points of a duel.
        drawn: Whether it is of a draw; the contract of closed forms then leaves it out.
        linked: Whether it asks how answers follow from utilities.
        power: Of the unit of utility that the value is proportional to; 0 for bits.
        level: Whether values of pairs have the mean of the reference besides.
        itself: Value of a duel of a point with itself.
        value: Brute force, of ``truths.duel_values``.
        options: Constructor arguments that are its own.
    """

    cls: type[AcquisitionFunction]
    pairs: bool = False
    drawn: bool = False
    linked: bool = False
    power: int = 0
    level: bool = False
    itself: float = 0.0
    value: Callable[..., tuple[float, float]] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *args: Any, **kwargs: Any) -> AcquisitionFunction:
        return self.cls(*args, **(self.options | kwargs))
