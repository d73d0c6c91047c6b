"""The pages of the logbook, made of the committed records alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.suite.pages.accuracy import audit_page, rounds_page
from benchmarks.suite.pages.claims import FACTOR, MEDIUM, WRONG, table_of_claims
from benchmarks.suite.pages.figures import FEW, FEWEST
from benchmarks.suite.pages.names import names_page
from benchmarks.suite.pages.screening import screening_page
from benchmarks.suite.pages.study import ENOUGH, study_pages
from benchmarks.suite.pages.tables import (
    FOR_INTERVAL,
    NEAR,
    UNCLEAR,
    hidden_list,
    listed_pages,
    markdown,
)
from benchmarks.suite.pages.targets import targets_page
from benchmarks.suite.runs.store import read_record
from benchmarks.suite.studies.study import Study

SOURCE = "_`python -m benchmarks.suite report --pages docs/logbook` made this page._\n"
"""Last line of every page that is not written by hand."""

_LEADING = """# Claims

Each claim is held against pairs of runs from the same start: the share in which its
rule has less regret at the end, with an interval of two standard errors, and its mean
as a multiple (*times*) of the other rule's. An interval that lies on one side of a half
decides. {decided} of {number} claims with runs are decided. These lead:

{table}

[Further claims](further-claims.md) by the same rule,
[figures to reach](figures-to-reach.md), and [how to read](how-to-read.md) the tables.
"""

_FURTHER = """# Further claims

Held against pairs of runs as the [claims that lead](claims.md) are.
"""

_VERDICTS = {
    "holds": (
        "claims-that-hold",
        "Claims that hold",
        "The interval lies above a half.",
    ),
    "is wrong here": (
        "claims-that-fail",
        "Claims that fail",
        "These are decided the other way: the interval lies below a half.",
    ),
    "is level": (
        "claims-that-are-level",
        "Claims of what is level",
        f"""Each of these intervals lies between {100 * (1 - MEDIUM):.0f} and
{100 * MEDIUM:.0f} %, outside of which Vargha and Delaney (2000) call a difference
medium. Means are within a factor of {FACTOR:g}.""",
    ),
    "is not decided": (
        "claims-not-decided",
        "Claims that are not decided",
        "A half lies in the interval, for want of starts or of a difference.",
    ),
}
"""Name of the page of a verdict, its title, and what it says."""

_READING = f"""# How to read the tables

All rules of a table start with the same random questions from the same seed, and are
answered by the same judge. Rows with different numbers of *runs* are of different
starts: compare them by the columns *against the reference*. [Names](names.md) has the
rules, problems and judges; judges of one kind are numbered from the fewest errors on.
The runs are in `benchmarks/records/STUDY`, a file for each rule; figures are drawn of
them when the site is built.

- Regret is that of the recommended point (`incumbent`) after the last question, in
  units of the problem. *Median* has its 95 % bootstrap interval, from {FOR_INTERVAL}
  runs on; *mean* its standard error. Rules of {FEWEST} starts or more are
  drawn, up to {FEW} of them with their quartiles.
- *Anywhere* has median and mean regret of the other recommendation, the point of the
  whole cube with the largest posterior mean (`recommend`), whether it was shown or not.
- *Against the reference* is the mean difference from the same starts with its standard
  error, negative where the rule is better; *better in* the number of these starts with
  less regret. Studies with fewer than {ENOUGH} starts of most rules have a table of
  the medians of all settings.
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

_STUDIES = """# Studies

Each study asks a question, and plays its rules from the same starts.

| study | question |
| --- | --- |
{rows}

[Rules for duels](rules-for-duels.md) are from before the suite had batches.
"""

_UNPLAYED = """
## Declared and not run yet

Each by `python -m benchmarks.suite run --study NAME`, then `collect`:

{rows}
"""


def make_pages(studies: Iterable[Study], records: Path) -> dict[str, str]:
    """The generated pages of the logbook, by the names of their files.

    They link to the figures of `draw_figures`.

    Args:
        studies: In their order.
        records: Folder of the committed records.
    """
    studies = list(studies)
    names = dict.fromkeys(study.record for study in studies)
    runs = {name: read_record(name, records) for name in names}
    claims, num_missing = _tested_claims(studies, runs)
    pages = {
        "claims": _leading_claims(claims),
        **_further_claims(claims, num_missing),
        "figures-to-reach": targets_page(runs, claims),
        "how-to-read": _READING,
        "names": names_page(),
        "studies": _list_of_studies(studies, runs),
        "accuracy": audit_page(records),
        "skewgp-figure-4": rounds_page(records),
        "rules-for-duels": screening_page(records),
    }
    for study in studies:
        if len(runs[study.record]):
            pages |= study_pages(study, runs[study.record])
    return {f"{name}.md": f"{page}\n{SOURCE}" for name, page in pages.items() if page}


def write_pages(pages: Mapping[str, str], folder: Path) -> None:
    """Writes the pages, and removes generated ones that no longer are.

    Args:
        pages: Of `make_pages`.
        folder: Of the logbook; pages written by hand stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in generated_names(folder) - pages.keys():
        (folder / name).unlink()
    for name, page in pages.items():
        (folder / name).write_text(page, encoding="utf-8")


def generated_names(folder: Path) -> set[str]:
    """Names of the pages of a folder that were made of records."""
    return {
        path.name
        for path in folder.glob("*.md")
        if path.read_text(encoding="utf-8").endswith(SOURCE)
    }


def _tested_claims(
    studies: Sequence[Study], runs: Mapping[str, pd.DataFrame]
) -> tuple[pd.DataFrame, int]:
    """All claims that have runs, with their studies, and how many have none."""
    tables = [
        table_of_claims(study.claims, runs[study.record]).assign(
            study=f"[{study.name}]({study.name}.md)"
        )
        for study in studies
    ]
    table = pd.concat([t for t in tables if len(t)]) if any(map(len, tables)) else None
    number = sum(len(study.claims) for study in studies)
    if table is None:
        return pd.DataFrame({"so it": [], "leads": np.empty(0, bool)}), number
    return table, number - len(table)


def _leads(claims: pd.DataFrame) -> pd.Series:
    """Which claims stand on the first page: those that lead and are decided."""
    return claims["leads"] & (claims["so it"] != "is not decided")


def _leading_claims(claims: pd.DataFrame) -> str:
    """The page of the claims that lead; empty where there are none."""
    leading = claims[_leads(claims)]
    if leading.empty:
        return ""
    columns = ["claim", "so it", "starts", "better in %", "times", "study"]
    decided = (claims["so it"] != "is not decided").sum()
    return _LEADING.format(
        decided=decided, number=len(claims), table=markdown(leading[columns])
    )


def _further_claims(claims: pd.DataFrame, num_missing: int) -> dict[str, str]:
    """The page that links the other claims, then these by their verdicts."""
    others = claims[~_leads(claims)]
    columns = ["claim", "less", "starts", "better in %", "times", "study"]
    pages = {}
    for verdict, (name, title, about) in _VERDICTS.items():
        rows = others[others["so it"] == verdict]
        if len(rows):
            told = f"# {title}\n\n{about} *Less* is what is compared.\n"
            pages[name] = f"{told}\n{markdown(rows[columns])}\n"
    if not pages:
        return {}
    further = _FURTHER + listed_pages("By what runs say", pages)
    if num_missing:
        number = len(claims) + num_missing
        further += (
            f"\nOf {number} claims {num_missing} have no pair of runs yet, and are not "
            "listed.\n"
        )
    return {"further-claims": further, **pages}


def _list_of_studies(studies: Sequence[Study], runs: Mapping[str, pd.DataFrame]) -> str:
    """The page that links the studies with runs, and names those without."""
    played = [study for study in studies if len(runs[study.record])]
    rows = [f"| [{study.name}]({study.name}.md) | {study.asks} |" for study in played]
    page = _STUDIES.format(rows="\n".join(rows))
    unplayed = [f"- `{s.name}`: {s.asks}" for s in studies if s not in played]
    if unplayed:
        page += _UNPLAYED.format(rows="\n".join(unplayed))
    names = [study.name for study in played]
    return page + hidden_list([*names, "skewgp-figure-4", "rules-for-duels"])
