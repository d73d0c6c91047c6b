"""The page of all results, made of the committed records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.suite.pages.accuracy import audit_section, rounds_section
from benchmarks.suite.pages.claims import (
    WRONG,
    against_reference,
    table_of_claims,
)
from benchmarks.suite.pages.figures import draw_regrets
from benchmarks.suite.pages.names import names_section
from benchmarks.suite.pages.screening import screening_section
from benchmarks.suite.pages.tables import (
    FOR_INTERVAL,
    NEAR,
    SETTING,
    UNCLEAR,
    joined,
    markdown,
    rule_titles,
    setting_title,
    side_by_side,
    table_of,
)
from benchmarks.suite.runs.store import read_record
from benchmarks.suite.studies.study import Study

FEWEST = 4
"""Starts from which on regrets are drawn over duels."""

_HEAD = f"""# Benchmarks

Made by `python -m benchmarks.suite report --page docs/benchmarks.md` from what lies in
`benchmarks/records`; nothing here is written by hand. The
[suite](../benchmarks/README.md) says how the runs are repeated, [Names](#names) what
the rules, problems and judges are.

All rules of a table start with the same random duels from the same seed, and are
answered by the same judge. Rows with different numbers of *runs* are of different
starts: compare them by the columns *against the reference*.

- Regret is that of the recommended point (`incumbent`) after the last duel, in units of
  the problem. *Median* has its 95 % bootstrap interval, from {FOR_INTERVAL} runs on;
  *mean* its standard error. From {FEWEST} starts on median and quartiles are drawn over
  duels; the dotted line is where questions begin to be chosen.
- *Against the reference* is the mean difference from the same starts with its standard
  error, negative where the rule is better; *better in* the number of these starts with
  less regret. The table of *all settings* compares with the reference as claims do, and
  counts the wrong optima of both in the same runs. Where no rule has {FEWEST} starts,
  one table has the medians of *each setting*.
- *Wrong optimum* counts runs that recommend a point on a hill whose top is more than
  {WRONG:g} below the best.
- Of the chosen questions, *near copies* are of two points nearer than {NEAR:g} in the
  unit cube; *repeated* were asked before; *unclear early* are, of those before the last
  third, of two points that the judge tells apart less than {100 * UNCLEAR:.0f} % of the
  time. *Invalid shown* are points of a run that are not valid, where some are not.
- Seconds are of the processor, for one proposal and one fit.
"""

_CLAIMS = """
## What holds

A claim is held against all pairs of runs from the same start, over all settings:
*better in* is the share of pairs in which its rule has *less* of what the claim is of,
ties a half. No problem's scale enters, nor by how much a rule is better: one that is
often a little better and at times far off can win here, and has its mean and its wrong
optima in the tables of the study.

Runs of one problem from one seed before several judges are alike, and count as one of
the *starts*. The interval, of two standard errors, is that of as many coins, with two
won and two lost added (Agresti and Coull 1998), and decides where a half is not in it.
It speaks of other starts on these problems, not of other problems. Of twenty claims
about rules that are alike, one would be decided.
"""


def make_page(studies: Iterable[Study], records: Path, figures: Path | None) -> str:
    """The page: what holds, accuracy, each study with results, and what is missing.

    Args:
        studies: In their order.
        records: Folder of the committed records.
        figures: Folder for the figures, beside the page; None to draw none.
    """
    studies = list(studies)
    parts = [_HEAD, _what_holds(studies, records), audit_section(records, figures)]
    parts += [rounds_section(records), screening_section(records)]
    missing = []
    for study in studies:
        runs = read_record(study.record, records)
        if len(runs):
            parts.append(study_section(study, runs, figures))
        else:
            missing.append(f"- `{study.name}`: {study.asks}")
    if missing:
        parts.append(
            "\n## Declared and not run yet\n\n"
            "Each by `python -m benchmarks.suite run --study NAME`, then `collect`:\n\n"
            + "\n".join(missing)
            + "\n"
        )
    return "".join([*parts, names_section()])


def _what_holds(studies: Sequence[Study], records: Path) -> str:
    """All claims in one table, with the studies that have more of each."""
    tables = {
        study.name: table_of_claims(study.claims, read_record(study.record, records))
        for study in studies
    }
    linked = [
        table.assign(study=f"[{name}](#{name})")
        for name, table in tables.items()
        if len(table)
    ]
    if not linked:
        return ""
    held, claims = pd.concat(linked), sum(len(study.claims) for study in studies)
    rest = f"Of {claims} claims {claims - len(held)} have no pair of runs yet."
    return f"{_CLAIMS}\n{markdown(held)}\n\n{rest}\n"


def study_section(study: Study, runs: pd.DataFrame, figures: Path | None = None) -> str:
    """The section of a study: what was run, its claims, a table for each setting.

    Args:
        study: What is asked.
        runs: Rows by `play.COLUMNS`, some of which answer it.
        figures: Folder for the figures, beside the page; None to draw none.
    """
    reference = study.reference
    settings = f"{study.num_random} random and {study.num_chosen} chosen duels"
    against = f"reference: {reference.title}"
    table = table_of(study, runs)
    parts = [f"\n## {study.name}\n\n{study.asks}\n\n{settings}; {against}. "]
    parts.append(_what_was_run(study, table))
    claims = table_of_claims(study.claims, runs)
    if len(claims):
        parts.append(f"\n{markdown(claims)}\n")
    few = table["runs"].max() < FEWEST
    drawn = []
    if figures is not None and not few and not study.runs_of:
        drawn = draw_regrets(study, runs, figures)
    groups = table.groupby(SETTING, sort=False)
    compared = against_reference(study, runs)
    if len(groups) > 1 and len(compared):
        parts.append(f"\n### All settings\n\n{markdown(compared)}\n")
    if few and len(groups) > 1:
        parts.append(f"\n### Each setting\n\n{markdown(medians(table))}\n")
        parts.append(f"\n### Questions\n\n{markdown(questions(table))}\n")
        return "".join(parts)
    for setting, of_setting in groups:
        title = setting_title(*setting)
        parts.append(f"\n### {title}\n\n{markdown(readable(of_setting))}\n")
    parts += [f"\n![{path.stem}](figures/{path.name})\n" for path in drawn]
    return "".join(parts)


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


def _what_was_run(study: Study, table: pd.DataFrame) -> str:
    """Sentence of how much of what is declared was run."""
    if study.runs_of:
        return f"The runs are those of `{study.runs_of}`.\n"
    runs, rows = table["runs"], len(study.settings) * len(study.rules)
    each = (
        f"{runs.min()}" if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"
    )
    return (
        f"Run were {each} of {study.num_seeds} declared starts, of "
        f"{len(table)} of {rows} declared combinations of rule and setting.\n"
    )


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of one setting with figures and their errors side by side."""
    shown = {
        "rule": rule_titles(table),
        **side_by_side(table),
        "wrong optimum": list(table["wrong optimum"]),
    }
    shares = ("near copies %", "unclear early %", "repeated %")
    shown |= {name: joined(table, "{:.0f}", name) for name in shares}
    if (table["invalid"] > 0).any():
        shown["invalid shown"] = joined(table, "{:.1f}", "invalid")
    return pd.DataFrame(shown | {"seconds": joined(table, "{:.2f}", "seconds")})
