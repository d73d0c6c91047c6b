"""One run of a study: problem and judge, rule, seed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """Problem that is optimised, and the judge who answers.

    Attributes:
        problem: Name of the problem, of `botorch_pref.simulation`.
        judge: Name of the judge, of `benchmarks.suite.runs.judges`.
        noise: The judge's one parameter: what `JUDGES` there makes of it.
    """

    problem: str
    judge: str = "exact"
    noise: float = 0.0


@dataclass(frozen=True)
class Rule:
    """Model that learns from the answers, the acquisition function that asks, and how.

    Attributes:
        model: Name of the model, of `benchmarks.suite.runs.models`.
        acquisition: Its name, of `benchmarks.suite.runs.acquisitions`.
        options: How many options a question has.
        answer: Which of them the answer names: the ``best``, all in their ``order``,
            or the ``worst``. Of two options all three are the same, called ``best``.
    """

    model: str
    acquisition: str
    options: int = 2
    answer: str = "best"

    @property
    def title(self) -> str:
        """The rule in words, for tables."""
        asks = {"best": "best of", "order": "order of", "worst": "worst of"}
        of_more = f", {asks[self.answer]} {self.options}" if self.options > 2 else ""
        return f"{self.model}, {self.acquisition}{of_more}"

    @property
    def key(self) -> str:
        """A name that no other rule has, fit for a file."""
        asks = f"_{self.answer}-of-{self.options}" if self.options > 2 else ""
        return f"{self.model}_{self.acquisition}{asks}"


OPTUNA = Rule("optuna", "sampler")
"""optuna-dashboard, which is model and acquisition function in one."""

GLISP = Rule("glis", "glisp")
"""GLISp (Bemporad and Piga 2021), which is both in one too."""


LIBRARY = Rule("library", "next-question", 4, "order"), Rule("library", "next-question")
"""What the library asks people who rank four, and people who compare two."""

WITHOUT_RIVALS = Rule("library", "without-rivals", 4, "order")
"""The same of those who rank, but that it never shows an unbeaten option again."""

UNDERSTANDING = Rule("library", "question-to-understand")
"""What it asks those who compare two, to know what each parameter does."""

UNDERSTANDING_FIRST = Rule("library", "understand-then-find")
"""Duels to understand up to the 17th answer, and from there on for the best design."""


@dataclass(frozen=True)
class Cell:
    """One run: everything that determines it.

    Attributes:
        study: Name of the study.
        setting: Problem and judge.
        rule: Model and acquisition function.
        seed: Of the random duels, of the judge and of all that is drawn later.
        num_random: Questions that are drawn at random, from the seed alone.
        num_duels: All of them, of two options or more.
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
        setting = self.setting
        who = f"{setting.problem}_{setting.judge}-{setting.noise:g}"
        return f"{who}_{self.rule.key}_{self.seed:04d}"
