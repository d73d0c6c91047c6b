"""A question, and the runs that answer it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.suite.cell import Cell, Rule, Setting
from benchmarks.suite.studies.claim import Claim

STARTS = 50
"""Starts that every rule should have before every judge, over the problems."""


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
        claims: Of the source, or ours, that the runs decide.
        runs_of: Name of another study with the same settings, whose runs answer this
            question too; empty for a study with runs of its own.
        also: Rules that are run for another study, which has no runs of its own.
        without_ties: Rules of duels that are not run where the judge may see no
            difference: batches hear of no ties of two.
    """

    name: str
    asks: str
    settings: tuple[Setting, ...]
    rules: tuple[Rule, ...]
    reference: Rule
    num_seeds: int = 50
    num_random: int = 5
    num_chosen: int = 25
    claims: tuple[Claim, ...] = ()
    runs_of: str = ""
    also: tuple[Rule, ...] = ()
    without_ties: tuple[Rule, ...] = ()

    @property
    def record(self) -> str:
        """Name of the study whose runs are tabled."""
        return self.runs_of or self.name

    def cells(self) -> Iterator[Cell]:
        """All runs: every rule from one seed before the next seed.

        An interrupted study then has the same starts for all rules, and what a run
        takes is known of all of them early. None where the runs are another study's.
        """
        if self.runs_of:
            return
        for seed in range(self.num_seeds):
            for setting in self.settings:
                for rule in self.rules_of(setting):
                    yield Cell(
                        self.name,
                        setting,
                        rule,
                        seed,
                        self.num_random,
                        self.num_random + self.num_chosen,
                    )

    def judges(self) -> dict[str, tuple[Setting, ...]]:
        """The settings of each judge, one of each problem, by her name.

        Where a problem has several judges of one kind, as rates of errors, all have as
        many in the same order, and the name has their number.
        """
        seen = Counter[tuple[str, str]]()
        groups: dict[tuple[str, int], list[Setting]] = {}
        for setting in self.settings:
            kind = setting.problem, setting.judge
            seen[kind] += 1
            groups.setdefault((setting.judge, seen[kind]), []).append(setting)
        several = {judge for judge, number in groups if number > 1}
        return {
            f"{judge} {number}" if judge in several else judge: tuple(settings)
            for (judge, number), settings in groups.items()
        }

    def rules_of(self, setting: Setting) -> tuple[Rule, ...]:
        """The rules that are run in a setting."""
        rules = (*self.rules, *self.also)
        if setting.judge != "ties":
            return rules
        return tuple(rule for rule in rules if rule not in self.without_ties)
