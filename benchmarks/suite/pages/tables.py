"""Tables of committed results: how good each rule is, and against the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple

import numpy as np
import pandas as pd

from benchmarks.suite.cell import Rule
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.pages.claims import RULE, SETTING, WRONG
from benchmarks.suite.studies.study import Study

NEAR = 0.05
"""Points of a question that are nearer than this in the unit cube are near copies."""

UNCLEAR = 0.55
"""A judge tells two points apart less often than this: not worth a question early."""

RESAMPLES = 2000
FOR_INTERVAL = 6
"""Runs from which on a median has an interval: the range of fewer covers it in less
than 95 % of cases."""


def table_of(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each rule in each setting, the best median first.

    Args:
        study: Says which rule is the reference.
        runs: Its rows, by `play.COLUMNS`.

    Returns:
        Runs; median, mean and standard error of the regret of the recommendation at the
        end, from `FOR_INTERVAL` runs on a bootstrap interval (95 %) of its median; mean
        and standard error of its difference from the reference from the same starts, in
        units of the utility, and how many these are, if it is not the reference itself;
        runs that end at a wrong optimum; median, mean and error of the regret of the
        point of the whole cube with the largest mean, where runs have it; shares of
        chosen duels between near copies, of repeated questions and of unclear duels
        before the last third; seconds a duel.

    Raises:
        SuiteError: No run is of a rule of the study.
    """
    rows = []
    for setting, of_setting in runs.groupby(SETTING, sort=False):
        last = of_setting[of_setting["duel"] == of_setting["duel"].max()]
        ends = last.set_index([*RULE, "seed"])["regret_recommended"]
        reference = _ends_of(ends, study.reference)
        for names, of_rule in of_setting.groupby(RULE, sort=False):
            rule = Rule(*names)
            if rule not in study.rules:
                continue
            row = dict(zip(SETTING, setting, strict=True))
            row |= dict(zip(RULE, rule_names(rule), strict=True))
            row |= regrets(_ends_of(ends, rule), reference)
            row |= anywhere(of_rule["regret_anywhere"].dropna())
            rows.append(row | _questions(of_rule))
    if not rows:
        raise SuiteError(f"none of these runs is of a rule of the study {study.name}")
    table = pd.DataFrame(rows)
    return table.sort_values([*SETTING, "median"], ignore_index=True)


def starts_before_judges(study: Study, runs: pd.DataFrame) -> pd.Series:
    """Number of starts of each rule before each judge, over the problems.

    Args:
        study: Says which rules and judges there are.
        runs: Its rows, by `play.COLUMNS`.

    Returns:
        By ``rule`` and ``judge``, with a zero where there is no run.
    """
    first = runs[runs["duel"] == 0]
    counted = first.groupby([*SETTING, *RULE]).size()
    starts: Counter[tuple[str, str]] = Counter()
    for judge, settings in study.judges().items():
        for setting in settings:
            for rule in study.rules_of(setting):
                names = *astuple(setting), *rule_names(rule)
                starts[rule.title, judge] += counted.get(names, 0)
    return pd.Series(starts).rename_axis(["rule", "judge"])


def rule_names(rule: Rule) -> tuple[str, str, int, str]:
    """What a rule is in a table, by `RULE`."""
    return rule.model, rule.acquisition, rule.options, rule.answer


def rule_titles(table: pd.DataFrame) -> list[str]:
    """The rule of each row in words."""
    return [Rule(*names).title for names in table[RULE].itertuples(index=False)]


def _ends_of(ends: pd.Series, rule: Rule) -> pd.Series:
    """Regrets at the end of a rule, by seed; empty where it was not run."""
    if rule_names(rule) not in ends.index.droplevel("seed"):
        return ends.iloc[:0].droplevel(RULE)
    return ends.loc[rule_names(rule)]


def regrets(ends: pd.Series, reference: pd.Series) -> dict[str, float]:
    """Figures of the regrets at the end of a rule's runs, and of the reference's.

    Args:
        ends: Of the rule, by seed.
        reference: Of the reference, by seed.
    """
    low, high = np.nan, np.nan
    if len(ends) >= FOR_INTERVAL:
        low, high = bootstrap_median(ends.to_numpy())
    gap = (ends - reference).dropna()
    if ends.equals(reference):
        gap = gap[:0]
    return {
        "runs": len(ends),
        "median": ends.median(),
        "from": low,
        "to": high,
        "mean": ends.mean(),
        "error": _standard_error(ends),
        "against reference": gap.mean(),
        "its error": _standard_error(gap),
        "better in": int((gap < 0).sum()),
        "pairs": len(gap),
    }


def anywhere(ends: pd.Series) -> dict[str, float]:
    """Figures of the regrets at the end of what is recommended of the whole cube."""
    return {
        "anywhere median": ends.median(),
        "anywhere mean": ends.mean(),
        "anywhere error": _standard_error(ends),
    }


def _standard_error(values: pd.Series) -> float:
    return float(values.std(ddof=1) / max(len(values), 1) ** 0.5)


def bootstrap_median(values: np.ndarray) -> tuple[float, float]:
    """Ends of the 95 % percentile interval of a median, from `RESAMPLES` resamples."""
    generator = np.random.default_rng(0)
    picked = generator.integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(np.median(values[picked], axis=1), [0.025, 0.975])
    return float(low), float(high)


def _questions(of_rule: pd.DataFrame) -> dict[str, float]:
    chosen, duel = of_rule["chosen"] == 1, of_rule["duel"]
    early = chosen & (duel < (duel.max() + 1) * 2 / 3)
    return {
        "wrong optimum": int((of_rule["basin_regret"] > WRONG).sum()),
        "near copies %": 100 * (of_rule["distance"][chosen] < NEAR).mean(),
        "repeated %": 100 * of_rule["repeated"][chosen].mean(),
        "unclear early %": 100 * (of_rule["told_apart"][early] < UNCLEAR).mean(),
        "invalid": of_rule["invalid"].sum() / of_rule["seed"].nunique(),
        "seconds": of_rule["seconds"][duel > 0].mean(),
    }


def setting_title(problem: str, judge: str, noise: float) -> str:
    """The words for a setting above its table and figure."""
    return f"{problem}, {judge}" + (f" judge, {noise:g}" if noise else "")


def setting_name(study: str, problem: str, judge: str, noise: float) -> str:
    """The name of the files of a setting: its page, and its figure."""
    return f"{study}-{problem}-{judge}-{noise:g}"


def joined(table: pd.DataFrame, pattern: str, *names: str) -> list[str]:
    """Figures of some columns in one cell a row; nothing where one is missing."""
    rows = table[list(names)].itertuples(index=False)
    return [
        "" if any(pd.isna(v) for v in row) else pattern.format(*row) for row in rows
    ]


def side_by_side(table: pd.DataFrame) -> dict[str, list[str]]:
    """Columns of the figures of `regrets` with their errors."""
    return {
        "runs": joined(table, "{}", "runs"),
        "median": [
            median + interval
            for median, interval in zip(
                joined(table, "{:.3g}", "median"),
                joined(table, " ({:.3g} to {:.3g})", "from", "to"),
                strict=True,
            )
        ],
        "mean": joined(table, "{:.3g} ± {:.2g}", "mean", "error"),
        "against the reference": joined(
            table, "{:.2g} ± {:.2g}", "against reference", "its error"
        ),
        "better in": [
            f"{better} of {pairs}" if pairs else ""
            for better, pairs in zip(table["better in"], table["pairs"], strict=True)
        ],
    }


def of_the_cube(table: pd.DataFrame) -> list[str]:
    """Median and mean regret of recommendations of the whole cube, one cell a row."""
    names = "anywhere median", "anywhere mean", "anywhere error"
    return joined(table, "{:.3g}, {:.3g} ± {:.2g}", *names)


def listed_pages(title: str, pages: Mapping[str, str]) -> str:
    """A section that links pages by their titles, and puts them below this one.

    Args:
        title: Of the section.
        pages: By their names; the first line of each is its title.
    """
    lines = [
        f"- [{page.partition(chr(10))[0].lstrip('# ')}]({name}.md)"
        for name, page in pages.items()
    ]
    return "\n".join(["", f"## {title}", "", *lines, hidden_list(pages)])


def hidden_list(names: Iterable[str]) -> str:
    """A table of contents for the sidebar alone."""
    return "\n".join(["", "```{toctree}", ":hidden:", "", *names, "```", ""])


def folded(title: str, text: str) -> str:
    """A part of a page that opens at a click on its title.

    Args:
        title: What is seen before.
        text: In Markdown.
    """
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>\n"


def markdown(table: pd.DataFrame) -> str:
    """A table in Markdown: three digits, nothing where there is no figure."""
    lines = [list(table.columns), ["---"] * len(table.columns)]
    lines += [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.3g}"
    return str(value)
