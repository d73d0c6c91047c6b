"""Pages of a study: what was run, and a page for each of its settings."""

from __future__ import annotations

import pandas as pd

from benchmarks.suite.pages.claims import against_reference
from benchmarks.suite.pages.figures import FEWEST
from benchmarks.suite.pages.options import options_pages
from benchmarks.suite.pages.tables import (
    SETTING,
    folded,
    hidden_list,
    joined,
    listed_pages,
    markdown,
    of_the_cube,
    rule_titles,
    setting_name,
    setting_title,
    side_by_side,
    starts_before_judges,
    table_of,
)
from benchmarks.suite.studies.own import OPTIONS
from benchmarks.suite.studies.study import STARTS, Study

ENOUGH = 10
"""Starts of half of the rows from which on each setting has a table of its own."""


def study_pages(study: Study, runs: pd.DataFrame) -> dict[str, str]:
    """The pages of a study by their names, the study's before those of its settings.

    Args:
        study: What is asked.
        runs: Rows by `play.COLUMNS`, some of which answer it.
    """
    if study.name == OPTIONS.name:
        return options_pages(study, runs)
    settings = f"{study.num_random} random and {study.num_chosen} chosen duels"
    against = f"reference: {study.reference.title}"
    head = f"# {study.name}\n\n{study.asks}\n\n{settings}; {against}. "
    if study.runs_of:
        link = f"[{study.runs_of}]({study.runs_of}.md)"
        head += f"The runs are those of {link}.\n"
        return {study.name: head + _all_settings(study, runs)}
    table = table_of(study, runs)
    head += _what_was_run(study, table, runs)
    groups = table.groupby(SETTING, sort=False)
    if len(groups) == 1:
        ((setting, of_setting),) = groups
        head += f"\n## {setting_title(*setting)}\n"
        return {study.name: head + _one_setting(study, setting, of_setting)}
    head += _all_settings(study, runs)
    pages = {}
    for setting, of_setting in groups:
        if of_setting["runs"].max() < FEWEST:
            continue
        name, title = setting_name(study.name, *setting), setting_title(*setting)
        told = f"# {title}\n\nA setting of the study [{study.name}]({study.name}.md).\n"
        pages[name] = told + _one_setting(study, setting, of_setting)
    if table["runs"].median() >= ENOUGH:
        return {study.name: head + listed_pages("Each setting", pages), **pages}
    head += f"\n## Each setting\n\n{markdown(medians(study, table))}\n"
    head += f"\n{folded('What each rule asked', markdown(questions(table)))}"
    return {study.name: head + (hidden_list(pages) if pages else ""), **pages}


def _one_setting(
    study: Study, setting: tuple[str, str, float], table: pd.DataFrame
) -> str:
    """The table of one setting, and its figure if a rule has the starts for it."""
    shown = f"\n{markdown(readable(table))}\n"
    if table["runs"].max() < FEWEST:
        return shown
    name = setting_name(study.name, *setting)
    alternative = f"Regret of each rule over duels: {name}"
    return f"{shown}\n![{alternative}](figures/{name}.png)\n"


def _all_settings(study: Study, runs: pd.DataFrame) -> str:
    """The table of all settings against the reference, if any run can be compared."""
    compared = against_reference(study, runs)
    if compared.empty:
        return ""
    return f"\n## All settings\n\n{markdown(compared)}\n"


def medians(study: Study, table: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting: the median regret of each rule, the best ranks first.

    Args:
        study: Whose pages of settings are linked.
        table: Of `table_of`.
    """
    told = table.assign(rule=rule_titles(table))
    grid = told.pivot(index=SETTING, columns="rule", values="median")
    ranks = grid.rank(axis="columns").mean().sort_values()
    starts = table.groupby(SETTING)["runs"].max()
    titles = [
        f"[{setting_title(*row)}]({setting_name(study.name, *row)}.md)"
        if starts[row] >= FEWEST
        else setting_title(*row)
        for row in grid.index
    ]
    shown = grid[ranks.index].reset_index(drop=True)
    shown.insert(0, "setting", titles)
    return shown


def questions(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each rule: what it asked, and its seconds, means over settings.

    Args:
        table: Of `table_of`.
    """
    shown = ["near copies %", "unclear early %", "repeated %", "invalid", "seconds"]
    by_rule = table.assign(rule=rule_titles(table)).groupby("rule", sort=False)
    means = by_rule[shown].mean()
    if not means["invalid"].any():
        means = means.drop(columns="invalid")
    return means.reset_index()


def _what_was_run(study: Study, table: pd.DataFrame, runs: pd.DataFrame) -> str:
    """Sentences of how many starts each rule has, and a table of those with too few."""
    each = " to ".join(map(str, table["runs"].agg(["min", "max"]).drop_duplicates()))
    starts = starts_before_judges(study, runs)
    says = f"In each setting a rule has {each} starts, or was not played. Before each "
    says += f"judge it has {max(starts.min(), STARTS)} or more, over all problems"
    if starts.min() >= STARTS:
        return f"{says}.\n"
    few = starts[starts < STARTS].index.unique("rule")
    counts = starts.unstack("judge", sort=False).loc[few]
    shown = counts.map("{:.0f}".format, na_action="ignore").reset_index()
    return f"{says}, but for these rules:\n\n{markdown(shown)}\n"


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of one setting with figures and their errors side by side."""
    shown = {
        "rule": rule_titles(table),
        **side_by_side(table),
        "anywhere": of_the_cube(table),
        "wrong optimum": list(table["wrong optimum"]),
    }
    if not any(shown["anywhere"]):
        del shown["anywhere"]
    shares = ("near copies %", "unclear early %", "repeated %")
    shown |= {name: joined(table, "{:.0f}", name) for name in shares}
    if (table["invalid"] > 0).any():
        shown["invalid shown"] = joined(table, "{:.1f}", "invalid")
    return pd.DataFrame(shown | {"seconds": joined(table, "{:.2f}", "seconds")})
