"""The page of all results, made of the committed records alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.suite.pages.accuracy import audit_section, rounds_section
from benchmarks.suite.pages.claims import (
    FACTOR,
    MEDIUM,
    WRONG,
    against_reference,
    table_of_claims,
)
from benchmarks.suite.pages.figures import draw_regrets
from benchmarks.suite.pages.names import names_section
from benchmarks.suite.pages.options import options_section
from benchmarks.suite.pages.screening import screening_section
from benchmarks.suite.pages.tables import (
    FOR_INTERVAL,
    NEAR,
    RULE,
    SETTING,
    UNCLEAR,
    joined,
    markdown,
    of_the_cube,
    rule_titles,
    setting_title,
    side_by_side,
    starts_before_judges,
    table_of,
)
from benchmarks.suite.pages.targets import targets_section
from benchmarks.suite.runs.store import read_record
from benchmarks.suite.studies.own import OPTIONS
from benchmarks.suite.studies.study import STARTS, Study

FEWEST = 4
"""Starts of a rule in a setting from which on its regrets are drawn over duels."""

ENOUGH = 10
"""Starts of half of the rows from which on each setting has a table of its own."""

_HEAD = """# Benchmarks

Made by `python -m benchmarks.suite report --page docs/benchmarks.md` from what lies in
`benchmarks/records`; nothing here is written by hand.
[How to read](#how-to-read-the-tables) is below, [what is not decided](#not-decided) and
the [names](#names) of rules, problems and judges are at the end.
"""

_CLAIMS = """
## {title}

{about}

{table}
"""

_FIRST = """Each claim is held against pairs of runs from the same start: the share in
which its rule has less regret at the end, with an interval of two standard errors, and
its mean as a multiple (*times*) of the other rule's. An interval that lies on one side
of a half decides. {decided} of {number} claims with runs are decided."""

_HOLDS = """Further claims by the same rule; *less* is what is compared."""

_NOT = "These are decided the other way."

_LEVEL = f"""Each of these intervals lies between {100 * (1 - MEDIUM):.0f} and
{100 * MEDIUM:.0f} %, outside of which Vargha and Delaney (2000) call a difference
medium. Means are within a factor of {FACTOR:g}."""

_OPEN = """A half lies in the interval, for want of starts or of a difference. Of
{claims} claims {missing} have no pair of runs yet, and are not listed."""

_READING = f"""
## How to read the tables

All rules of a table start with the same random questions from the same seed, and are
answered by the same judge. Rows with different numbers of *runs* are of different
starts: compare them by the columns *against the reference*.

- Regret is that of the recommended point (`incumbent`) after the last question, in
  units of the problem. *Median* has its 95 % bootstrap interval, from {FOR_INTERVAL}
  runs on; *mean* its standard error. Rules of {FEWEST} starts or more are
  drawn, with their quartiles.
- *Anywhere* has median and mean regret of the other recommendation, the point of the
  whole cube with the largest posterior mean (`recommend`), whether it was shown or not.
- *Against the reference* is the mean difference from the same starts with its standard
  error, negative where the rule is better; *better in* the number of these starts with
  less regret. Studies with fewer than {ENOUGH} starts of most rules have one table
  of medians.
- *Wrong optimum* counts runs that recommend a point on a hill whose top is more than
  {WRONG:g} below the best.
- Of the chosen questions, *near copies* have two options nearer than {NEAR:g} in the
  unit cube; *repeated* were asked before; *unclear early* are, of those before the last
  third, without two options that the judge tells apart {100 * UNCLEAR:.0f} % of the
  time. *Invalid shown* are points of a run that are not valid, where some are not.
- Seconds are of the processor, for one question and one fit; in a batch of runs, each
  run's share.
- A claim's interval is that of as many coins as there are *starts*, with two won and
  two lost added (Agresti and Coull 1998); several judges of one problem and seed are
  one start, a tie a half. It speaks of other starts on these problems, not of other
  problems. Of twenty claims about rules that are alike, one would be decided.
"""


def make_page(studies: Iterable[Study], records: Path, figures: Path | None) -> str:
    """The page: what holds, each study with results, accuracy, and what is missing.

    Args:
        studies: In their order.
        records: Folder of the committed records.
        figures: Folder for the figures, beside the page; None to draw none.
    """
    studies = list(studies)
    names = dict.fromkeys(study.record for study in studies)
    played = {name: read_record(name, records) for name in names}
    held, missing = _held(studies, played)
    parts = [_HEAD, *_first_screen(held)]
    parts += _claims(held, "holds", "What holds", _HOLDS)
    parts += _claims(held, "is wrong here", "What does not", _NOT)
    parts += _claims(held, "is level", "What is level", _LEVEL)
    parts += [targets_section(played, held), _READING]
    unplayed = []
    for study in studies:
        runs = played[study.record]
        if len(runs):
            parts.append(study_section(study, runs, figures))
        else:
            unplayed.append(f"- `{study.name}`: {study.asks}")
    parts += [audit_section(records, figures), rounds_section(records)]
    parts.append(screening_section(records))
    number = sum(len(study.claims) for study in studies)
    about = _OPEN.format(claims=number, missing=missing)
    parts += _claims(held, "is not decided", "Not decided", about)
    if unplayed:
        parts.append(
            "\n## Declared and not run yet\n\n"
            "Each by `python -m benchmarks.suite run --study NAME`, then `collect`:\n\n"
            + "\n".join(unplayed)
            + "\n"
        )
    return "".join([*parts, names_section()])


def _held(
    studies: Sequence[Study], played: Mapping[str, pd.DataFrame]
) -> tuple[pd.DataFrame, int]:
    """All claims that have runs, with their studies, and how many have none."""
    tables = [
        table_of_claims(study.claims, played[study.record]).assign(
            study=f"[{study.name}](#{study.name})"
        )
        for study in studies
    ]
    table = pd.concat([t for t in tables if len(t)]) if any(map(len, tables)) else None
    number = sum(len(study.claims) for study in studies)
    if table is None:
        return pd.DataFrame({"so it": [], "leads": np.empty(0, bool)}), number
    return table, number - len(table)


def _first_screen(held: pd.DataFrame) -> list[str]:
    """The section of the claims that lead; none where there are none."""
    decided = held["so it"] != "is not decided"
    first = held[held["leads"] & decided]
    if first.empty:
        return []
    about = _FIRST.format(decided=decided.sum(), number=len(held))
    table = markdown(
        first[["claim", "so it", "starts", "better in %", "times", "study"]]
    )
    return [_CLAIMS.format(title="In one screen", about=about, table=table)]


def _claims(held: pd.DataFrame, verdict: str, title: str, about: str) -> list[str]:
    """The section of the claims with a verdict; none where there are none."""
    of_first = held["leads"] & (held["so it"] != "is not decided")
    these = held[(held["so it"] == verdict) & ~of_first]
    if these.empty:
        return []
    table = markdown(
        these[["claim", "less", "starts", "better in %", "times", "study"]]
    )
    return [_CLAIMS.format(title=title, about=about, table=table)]


def study_section(study: Study, runs: pd.DataFrame, figures: Path | None = None) -> str:
    """The section of a study: what was run, and a table for each setting.

    Args:
        study: What is asked.
        runs: Rows by `play.COLUMNS`, some of which answer it.
        figures: Folder for the figures, beside the page; None to draw none.
    """
    if study is OPTIONS:
        return options_section(study, runs)
    reference = study.reference
    settings = f"{study.num_random} random and {study.num_chosen} chosen duels"
    against = f"reference: {reference.title}"
    parts = [f"\n## {study.name}\n\n{study.asks}\n\n{settings}; {against}. "]
    if study.runs_of:
        parts.append(f"The runs are those of `{study.runs_of}`.\n")
        return "".join(parts + _all_settings(study, runs))
    table = table_of(study, runs)
    parts.append(_what_was_run(study, table, runs))
    few = table["runs"].median() < ENOUGH
    drawn = []
    if figures is not None:
        starts = runs.groupby([*SETTING, *RULE])["seed"].transform("nunique")
        drawn = draw_regrets(study, runs[starts >= FEWEST], figures)
    shown = [
        f"\n![Regret of each rule over duels: {path.stem}](figures/{path.name})\n"
        for path in drawn
    ]
    groups = table.groupby(SETTING, sort=False)
    if len(groups) > 1:
        parts += _all_settings(study, runs)
    if few and len(groups) > 1:
        parts.append(f"\n### Each setting\n\n{markdown(medians(table))}\n")
        parts.append(f"\n### Questions\n\n{markdown(questions(table))}\n")
        return "".join([*parts, *shown])
    for setting, of_setting in groups:
        title = setting_title(*setting)
        parts.append(f"\n### {title}\n\n{markdown(readable(of_setting))}\n")
    return "".join([*parts, *shown])


def _all_settings(study: Study, runs: pd.DataFrame) -> list[str]:
    """The table of all settings against the reference, if any run can be compared."""
    compared = against_reference(study, runs)
    if compared.empty:
        return []
    return [f"\n### All settings\n\n{markdown(compared)}\n"]


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting: the median regret of each rule, the best ranks first.

    Args:
        table: Of `table_of`.
    """
    titles = [setting_title(*row) for row in table[SETTING].itertuples(index=False)]
    told = table.assign(setting=titles, rule=rule_titles(table))
    grid = told.pivot(index="setting", columns="rule", values="median")
    ranks = grid.rank(axis="columns").mean().sort_values()
    return grid[ranks.index].reset_index()


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
    """Sentences of how many starts each rule has, and which ones have too few."""
    each = " to ".join(map(str, table["runs"].agg(["min", "max"]).drop_duplicates()))
    starts = starts_before_judges(study, runs)
    says = f"Each rule has {each} starts in a setting, and"
    if starts.min() >= STARTS:
        return f"{says} {starts.min()} or more over the problems of a judge.\n"
    few = [
        f"{rule} ({judge}, {n})" for (rule, judge), n in starts.items() if n < STARTS
    ]
    listed = "; ".join(few)
    return f"{says} {STARTS} or more over the problems of a judge, but for {listed}.\n"


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
