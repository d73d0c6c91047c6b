"""Table of `benchmarks/screen_rules.py`: rules for questions, many starts of each."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.suite.cell import Rule
from benchmarks.suite.pages.claims import runs_of
from benchmarks.suite.pages.tables import (
    joined,
    markdown,
    regrets,
    side_by_side,
    unclear_early,
)
from benchmarks.suite.runs.store import read_record
from benchmarks.suite.studies.rules import PEERS

KERNELS = {"duel": "DuelKernel", "default": "BoTorch's kernel"}
REFERENCE = "DuelKernel, exploring-eiig"
BESIDE = (*PEERS, Rule("ep", "eubo-pair"))
"""Rules whose runs are the suite's."""

STUDIES = ("default", "people")
"""Studies that have them."""

FAR = 0.4
_WHERE = ["problem", "deviation"]

_HEAD = f"""
## Rules for questions

`python benchmarks/screen_rules.py`: expectation propagation on 5 random and 25 chosen
duels, the runs of all starts in one batch. Answers are exact, or those of a judge with
a probit deviation per item. The reference, `{REFERENCE}`,
is what the library asks by default; where the judge errs, its rows of most *runs* say
best what to expect. Of a judge who errs, other answers from the same starts move a mean
by its standard error: the suite and this batch think the same of the same answers,
which a test holds them to, and the suite's rows below, of fewer starts and other
answers, differ from these by as much. Rows of other software, and of `ep, eubo-pair`,
which asks of two new points each time, are the suite's, from the same random duels,
with a judge of the same kind and other answers. Deviations of 0.0815, 0.193 and 0.378
on Hartmann6, and of 0.00693, 0.0157 and 0.0294 on Six-Hump Camel, misjudge 10, 20 and
30 % of close pairs. *Far off* are recommendations with a
regret above {FAR}, which on Six-Hump Camel is another hump; *unclear early* as above.
"""


def screening_section(records: Path) -> str:
    """The section of the page: a table for each setting.

    Args:
        records: Folder of the committed records.
    """
    runs = _screened(records)
    parts = [_HEAD]
    for (problem, deviation), of_setting in runs.groupby(_WHERE, sort=False):
        who = f"judge with deviation {deviation:g}" if deviation else "exact"
        table = markdown(readable_rules(of_setting))
        parts.append(f"\n### {problem}, {who}\n\n{table}\n")
    return "".join(parts)


def readable_rules(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each rule of one setting, the best mean first.

    Args:
        runs: Columns ``rule``, ``start``, ``regret`` and ``unclear``.
    """
    regret = runs.set_index(["rule", "start"])["regret"]
    rows = []
    for rule, of_rule in runs.groupby("rule", sort=False):
        row = {"rule": rule} | regrets(regret.loc[rule], regret.loc[REFERENCE])
        row |= {"far": int((of_rule["regret"] > FAR).sum())}
        rows.append(row | {"unclear": 100 * of_rule["unclear"].mean()})
    table = pd.DataFrame(rows).sort_values("mean", ignore_index=True)
    return pd.DataFrame(
        {
            "rule": joined(table, "{}", "rule"),
            **side_by_side(table),
            "far off": joined(table, "{}", "far"),
            "unclear early %": joined(table, "{:.0f}", "unclear"),
        }
    )


def _screened(records: Path) -> pd.DataFrame:
    """Runs of the screening, and of rules of the suite from the same starts."""
    ours = pd.read_csv(records / "screen_rules.csv")
    ours["rule"] = ours["prior"].map(KERNELS) + ", " + ours["rule"]
    suite = pd.concat([read_record(name, records) for name in STUDIES])
    suite = suite[suite["judge"].isin(["exact", "probit"])]
    others = [_runs_beside(rule, runs_of(rule, suite)) for rule in BESIDE]
    known = ours[_WHERE].drop_duplicates()
    beside = pd.concat(others).merge(known, on=_WHERE) if len(suite) else ours[:0]
    return pd.concat([ours, beside], ignore_index=True)


def _runs_beside(rule: Rule, runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each run of a rule of the suite, as the screening has them."""
    rows = [
        {
            "problem": problem,
            "deviation": noise,
            "start": seed,
            "rule": f"{rule.model}, {rule.acquisition}",
            "regret": run["regret_recommended"].iloc[-1],
            "unclear": unclear_early(run),
        }
        for (problem, noise, seed), run in runs.groupby(["problem", "noise", "seed"])
    ]
    return pd.DataFrame(rows)
