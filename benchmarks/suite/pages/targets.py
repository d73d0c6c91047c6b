"""Page of the figures to reach, and how near to them the runs are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from benchmarks.suite.cell import OPTUNA, Rule, Setting
from benchmarks.suite.pages.claims import WRONG, ends_by_rule
from benchmarks.suite.pages.tables import markdown, setting_title
from benchmarks.suite.studies.own import DEFAULTS
from benchmarks.suite.studies.papers import FIGURE_5, FIGURE_6
from benchmarks.suite.studies.rules import ADVISED, EXPLORING

TO_REACH: dict[Setting, tuple[float, ...]] = {
    Setting("hartmann6"): (0.03, 0.15),
    Setting("sixhumpcamel-narrow"): (0.001, 0.005, 0),
    Setting("hartmann6", "probit", 0.3): (0.25, 0.4),
    Setting("sixhumpcamel-narrow", "probit", 0.2): (0.015, 0.03, 0),
}
"""Median and mean regret after thirty questions, and perhaps how many runs may end at a
wrong optimum."""

LONG = (FIGURE_5, FIGURE_6)
"""Studies of 110 duels without errors."""

SHARE_DECIDED = 45 / 57
"""Of the claims with runs, those that are to be decided."""

RIVALS = {
    "optuna-dashboard": OPTUNA,
    "optuna-dashboard, worst of 4": Rule("optuna", "sampler", 4, "worst"),
    "`PairwiseGP`, qEUBO": Rule("pairwise-gp", "qeubo"),
    "chance": Rule("ep", "random"),
    "chance, best of 4": Rule("ep", "random", 4),
}

_PAGE = """# Figures to reach

They were set before these rules were found.

Regret after thirty questions that the library advises, four to rank ({advised}):
median, mean, and on Six-Hump Camel the runs that end at a wrong optimum. Each rival
asks thirty questions from the same starts, of two options where nothing else is said:
its mean regret, how far the library's is above it with the standard error, and the
number of pairs of runs.

{thirty}

Regret after 110 duels without errors ({default}), at most optuna-dashboard's: medians,
also of the other recommendation (*anywhere*), and in how many starts it is less; then
the means in pairs, as above, which runs at a wrong optimum decide.

{long}

{decided} of {known} claims with runs are decided, {share:.0f} %; to reach:
{least:.0f} %.
"""


def targets_page(records: Mapping[str, pd.DataFrame], held: pd.DataFrame) -> str:
    """The page; empty without runs of both studies.

    Args:
        records: Runs by the name of their study.
        held: Claims with runs, by `claims.table_of_claims`.
    """
    if not {study.name for study in (DEFAULTS, *LONG)} <= records.keys():
        return ""
    thirty = after_thirty(records[DEFAULTS.name])
    long = after_many([records[study.name] for study in LONG])
    if thirty.empty or long.empty:
        return ""
    decided = int((held["so it"] != "is not decided").sum())
    return _PAGE.format(
        advised=ADVISED.title,
        default=EXPLORING.title,
        thirty=markdown(thirty),
        long=markdown(long),
        known=len(held),
        decided=decided,
        share=100 * decided / len(held),
        least=100 * SHARE_DECIDED,
    )


def after_thirty(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting with a figure to reach, and runs of the advised rule."""
    regrets = ends_by_rule(runs, "regret_recommended")
    tops = ends_by_rule(runs, "basin_regret")
    rows = []
    for setting, to_reach in TO_REACH.items():
        ends = _in_setting(setting, regrets.get(ADVISED))
        if ends.empty:
            continue
        wrong = int((_in_setting(setting, tops.get(ADVISED)) > WRONG).sum())
        reached = (ends.median(), ends.mean(), wrong)[: len(to_reach)]
        row = {
            "setting": setting_title(setting.problem, setting.judge, setting.noise),
            "to reach": _in_one_cell(to_reach),
            "reached": _in_one_cell(reached),
            "runs": str(len(ends)),
        }
        for name, rival in RIVALS.items():
            row[name] = _paired(ends, _in_setting(setting, regrets.get(rival)))
        rows.append(row)
    return pd.DataFrame(rows)


def _in_setting(setting: Setting, ends: pd.Series | None) -> pd.Series:
    """Ends of one rule by seed; none where it was not played in the setting."""
    where = setting.problem, setting.judge, setting.noise
    if ends is None or where not in ends.index.droplevel("seed"):
        return pd.Series(dtype=float)
    return ends.loc[where]


def _in_one_cell(figures: tuple[float, ...]) -> str:
    return ", ".join(f"{figure:.2g}" if figure else "none" for figure in figures)


def _paired(ends: pd.Series, rivals: pd.Series) -> str:
    """Mean of a rival in pairs, how far above it ours is, and the number of pairs."""
    gap = (ends - rivals).dropna()
    if len(gap) < 2:
        return ""
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    return (
        f"{rivals[gap.index].mean():.2g}: {gap.mean():.2g} ± {error:.1g} ({len(gap)})"
    )


def after_many(records: list[pd.DataFrame]) -> pd.DataFrame:
    """One row for each problem of long runs without errors that both have played."""
    rows = []
    for runs in records:
        ends = ends_by_rule(runs, "regret_recommended")
        cube = ends_by_rule(runs, "regret_anywhere").get(EXPLORING)
        if not {EXPLORING, OPTUNA} <= ends.keys():
            continue
        both = {"ours": ends[EXPLORING], "theirs": ends[OPTUNA], "cube": cube}
        pairs = pd.concat(both, axis=1).dropna(subset=["ours", "theirs"])
        for problem, own in pairs.groupby(level="problem", sort=False):
            median = own.median()
            less = int((own["ours"] < own["theirs"]).sum())
            row = {"problem": problem, "optuna-dashboard": median["theirs"]}
            row |= {"reached": median["ours"], "anywhere": median["cube"]}
            row["less in"] = f"{less} of {len(own)}"
            rows.append(row | {"means": _paired(own["ours"], own["theirs"])})
    return pd.DataFrame(rows)
