"""Rules as players of a run: what asks, and what learns from the answers."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import torch
from botorch.models.model import Model
from torch import Generator, Tensor

from benchmarks.suite.cell import (
    GLISP,
    LIBRARY,
    OPTUNA,
    UNDERSTANDING,
    UNDERSTANDING_FIRST,
    WITHOUT_RIVALS,
    Rule,
)
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.runs.acquisitions import ACQUISITIONS
from benchmarks.suite.runs.batch_player import MODELS_OF_BATCHES, WAYS_OF_BATCHES
from benchmarks.suite.runs.models import LEARNING, MODELS, TRIALS, FitTrials, make_model
from benchmarks.suite.runs.rivals import RIVALS, OptunaDashboard
from botorch_pref.simulation.duel_loop import ChosenDuels, Fit, Proposal, Propose

RANDOM = "random"
"""Random points meet the incumbent."""


@dataclass(frozen=True)
class RandomChallengers:
    """Random duels first, then duels of random points with the incumbent.

    Attributes:
        dim: Number of inputs `d`; points are drawn from the unit cube.
        num_random: How many duels start the run at random.
        generator: Source of every draw.
    """

    dim: int
    num_random: int
    generator: Generator

    def __call__(
        self, number: int, model: Model | None, best: Tensor | None
    ) -> Proposal:
        """Proposes the next duel, see `ChosenDuels`."""
        first, second = self._random_point(), self._random_point()
        if best is None or number < self.num_random:
            return Proposal(first, second, "random")
        return Proposal(first, best, "random")

    def _random_point(self) -> Tensor:
        return torch.rand(self.dim, generator=self.generator, dtype=torch.double)


@dataclass(frozen=True)
class Player:
    """Both halves of a rule in a run.

    Attributes:
        propose: Chooses the next duel.
        fit: Makes the model of the answers.
        hears_validity: Whether it takes labels of valid trials.
    """

    propose: Propose
    fit: Fit | FitTrials
    hears_validity: bool = False


def make_player(
    rule: Rule, dim: int, errs: bool, num_random: int, generator: Generator
) -> Player:
    """Makes the player of a rule.

    Args:
        rule: Its names.
        dim: Number of inputs `d`.
        errs: Whether the judge errs.
        num_random: How many duels start the run at random.
        generator: Source of the random duels, which are its first draws under every
            rule, and of all that is drawn later.
    """
    if rule == OPTUNA:
        rival = OptunaDashboard(dim, num_random, generator)
        return Player(rival, rival.fit)
    propose: Propose
    if rule.acquisition == RANDOM:
        propose = RandomChallengers(dim, num_random, generator)
    else:
        make = ACQUISITIONS[rule.acquisition]
        propose = ChosenDuels(dim, num_random, rule.acquisition, make, generator)
    fit = make_model(rule.model, errs)
    return Player(propose, fit, hears_validity=rule.model in TRIALS)


PACKAGES = {
    OPTUNA.model: ("optuna-dashboard", "optuna_dashboard"),
    GLISP.model: ("glis", "glis"),
}
"""Packages of rivals, and their modules, by model."""


def needs(rule: Rule) -> str:
    """Software that a rule needs and that is not installed; empty if none is."""
    package, module = PACKAGES.get(rule.model, ("", ""))
    return package if module and find_spec(module) is None else ""


def check_rule(rule: Rule) -> None:
    """Checks that the names of a rule are known.

    Raises:
        SuiteError: One is not; the message lists those that are.
    """
    of_library = *LIBRARY, WITHOUT_RIVALS, UNDERSTANDING, UNDERSTANDING_FIRST
    names = {(asks.model, asks.acquisition) for asks in of_library}
    if rule.model in PACKAGES or (rule.model, rule.acquisition) in names:
        return
    models = [*LEARNING, *MODELS, *TRIALS, *MODELS_OF_BATCHES]
    if rule.options > 2:
        models = [*MODELS_OF_BATCHES, *RIVALS]
    tables = (
        ("model", rule.model, models),
        ("acquisition", rule.acquisition, [*ACQUISITIONS, *WAYS_OF_BATCHES]),
        ("answer", rule.answer, ["best", "order", "worst"]),
    )
    for what, name, known in tables:
        if name not in known:
            names = ", ".join(sorted(known))
            raise SuiteError(f"unknown {what} {name!r}: there are {names}")
