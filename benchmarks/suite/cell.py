"""One run of a study, and the study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """Problem that is optimised, and the judge who answers.

    Attributes:
        problem: Name of the problem, of `botorch_pref.simulation`.
        judge: Name of the judge, of `benchmarks.suite.judges`.
        noise: The judge's one parameter: what `benchmarks.suite.judges` makes of it.
    """

    problem: str
    judge: str = "exact"
    noise: float = 0.0


@dataclass(frozen=True)
class Rule:
    """Model that learns from the answers, and the acquisition function that asks.

    Attributes:
        model: Name of the model, of `benchmarks.suite.players`.
        acquisition: Name of the acquisition function, of `benchmarks.suite.players`.
    """

    model: str
    acquisition: str


@dataclass(frozen=True)
class Cell:
    """One run: everything that determines it.

    Attributes:
        study: Name of the study.
        setting: Problem and judge.
        rule: Model and acquisition function.
        seed: Of the random duels, of the judge and of all that is drawn later.
        num_random: Duels that are drawn at random, from the seed alone.
        num_duels: All of them.
    """

    study: str
    setting: Setting
    rule: Rule
    seed: int
    num_random: int
    num_duels: int

    @property
    def key(self) -> str:
        """A name that no other run of the study has, fit for a file."""
        setting, rule = self.setting, self.rule
        who = f"{setting.problem}_{setting.judge}-{setting.noise:g}"
        return f"{who}_{rule.model}_{rule.acquisition}_{self.seed:04d}"


@dataclass(frozen=True)
class Study:
    """A question and the runs that answer it: settings times rules times seeds.

    Attributes:
        name: Its name.
        asks: The question, in a sentence.
        settings: Problems and judges.
        rules: Models and acquisition functions.
        reference: The rule that the others are compared with.
        num_seeds: Runs of each rule in each setting.
        num_random: Duels that start a run.
        num_chosen: Duels that follow.
    """

    name: str
    asks: str
    settings: tuple[Setting, ...]
    rules: tuple[Rule, ...]
    reference: Rule
    num_seeds: int = 50
    num_random: int = 5
    num_chosen: int = 25

    def cells(self) -> Iterator[Cell]:
        """All runs: every rule from one seed before the next seed.

        An interrupted study then has the same starts for all rules, and what a run
        takes is known of all of them early.
        """
        for seed in range(self.num_seeds):
            for setting in self.settings:
                for rule in self.rules:
                    yield Cell(
                        self.name,
                        setting,
                        rule,
                        seed,
                        self.num_random,
                        self.num_random + self.num_chosen,
                    )
