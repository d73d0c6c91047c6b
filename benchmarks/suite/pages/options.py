"""Pages on questions of two options and more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.suite.cell import Rule
from benchmarks.suite.pages.claims import WRONG, runs_of
from benchmarks.suite.pages.tables import (
    SETTING,
    anywhere,
    folded,
    listed_pages,
    markdown,
    of_the_cube,
    setting_name,
    setting_title,
)
from benchmarks.suite.studies.study import Study

ALL_NEW = ("qeubo", "eubo-pair")
"""Acquisition functions whose options are all new; under others one has been seen."""


@dataclass(frozen=True)
class Reading:
    """A model of the seconds that a question takes a person.

    Attributes:
        name: Of the columns of a table.
        says: In words.
        question: Seconds of every question.
        shown: Seconds for each option on display.
        fresh: Seconds for each that was not on display in the question before.
        place: Seconds for each place of a ranking after the first.
    """

    name: str
    says: str
    question: float
    shown: float
    fresh: float
    place: float

    def seconds(self, rule: Rule) -> float:
        """Seconds of one question of a rule."""
        fresh = rule.options - 1
        if rule.answer == "worst":
            fresh = 1
        elif rule.acquisition in ALL_NEW:
            fresh = rule.options
        named = rule.options - 2 if rule.answer == "order" else 0
        read = self.shown * rule.options + self.fresh * fresh
        return self.question + read + self.place * named


READINGS = (
    Reading("seen", "4 s and 2 s for each new option", 4.0, 0.0, 2.0, 2.0),
    Reading("tried", "3 s for each option, known or new", 0.0, 3.0, 0.0, 3.0),
)
"""A duel with the incumbent takes six seconds by both. The first is for what is seen at
a glance, the second for what has to be tried anew each time, as a sound has."""

MINUTES = (1, 2, 3)
QUESTIONS = (10, 15, 30)

_HEAD = f"""# options

{{asks}}

Thirty questions, five of them of random points, from the same starts; a judge who errs
perceives each option with an error of its own. Of each rule: mean regret with its
standard error, median and wrong optima at the end, and how far the mean is above that
of as many duels by the library's rule ({{reference}}) from the same starts.
*Best of* names the best option, *order of* ranks all, *worst of* is optuna-dashboard's
way: the worst goes, and one new option comes.

A person's time is modelled, not measured, in two ways:
{"; ".join(f"*{reading.name}*, {reading.says}" for reading in READINGS)}
(a ranking's further places take 2 s and 3 s each). By either a duel with the incumbent
takes 6 s, so thirty duels are three minutes; choosing the best of four takes 10 s or
12 s. Minutes have the mean regret when so much time has been spent.
"""


def options_pages(study: Study, runs: pd.DataFrame) -> dict[str, str]:
    """Pages of the study of questions of several options, one for each setting.

    Args:
        study: What is asked, and the rules.
        runs: Rows by `play.COLUMNS`, of these rules and others.
    """
    head = _HEAD.format(asks=study.asks, reference=study.reference.title)
    link, pages = f"A setting of the study [{study.name}]({study.name}.md).", {}
    for setting, of_setting in runs.groupby(SETTING, sort=False):
        tables = rows_of_setting(study, of_setting)
        if len(tables[0]) > 1:
            questions, minutes = map(markdown, tables)
            title = f"Options: {setting_title(*setting)}"
            pages[setting_name(study.name, *setting)] = (
                f"# {title}\n\n{link}\n\n{questions}\n\n"
                + folded("By the minutes of a person's time", minutes)
            )
    return {study.name: head + listed_pages("Each setting", pages), **pages}


def rows_of_setting(
    study: Study, runs: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables of a setting, a row for each rule: by questions and by minutes.

    Args:
        study: The rules.
        runs: Of the setting.
    """
    by_questions, by_minutes = [], []
    reference = regrets_of(runs_of(study.reference, runs))
    for rule in study.rules:
        mine = runs_of(rule, runs)
        if mine.empty:
            continue
        regrets = regrets_of(mine)
        wrong = int((mine["basin_regret"] > WRONG).sum())
        end = regrets.iloc[:, -1]
        row = {"rule": rule.title, "runs": len(regrets)}
        row |= {f"after {n}": _mean(regrets[n - 1]) for n in QUESTIONS}
        row |= {"median": f"{end.median():.3g}", "wrong optimum": wrong}
        tops = pd.DataFrame([anywhere(mine["regret_anywhere"].dropna())])
        row |= {"anywhere": of_the_cube(tops)[0]}
        above = (regrets - reference).dropna()
        paired = rule != study.reference and len(above) > 1
        for n in (QUESTIONS[0], QUESTIONS[-1]):
            gap = _mean(above[n - 1]) if paired else ""
            row |= {f"above duels, after {n}": gap}
        by_questions.append(row)
        by_minutes.append(row_of_minutes(rule, regrets))
    return pd.DataFrame(by_questions), pd.DataFrame(by_minutes)


def row_of_minutes(rule: Rule, regrets: pd.DataFrame) -> dict[str, str]:
    """Mean regrets of a rule when a person has spent so many minutes, by each model.

    Args:
        rule: Says how long a question takes.
        regrets: By seed and number of the question.
    """
    row = {"rule": rule.title}
    for reading in READINGS:
        each = reading.seconds(rule)
        for minutes in MINUTES:
            asked = int(60 * minutes // each)
            column = f"{reading.name}, {minutes} min"
            row[column] = _mean(regrets[asked - 1]) if asked <= len(regrets.T) else ""
    return row


def regrets_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Regrets of the recommendation, a row for each seed, a column for each question.

    Args:
        runs: Of one rule in one setting.
    """
    return runs.pivot(index="seed", columns="duel", values="regret_recommended")


def _mean(values: pd.Series) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.3g} ± {error:.2g}"
