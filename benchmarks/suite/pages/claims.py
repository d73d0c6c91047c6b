"""Table of claims, each held against paired runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

import numpy as np
import pandas as pd

from benchmarks.suite.cell import Rule
from benchmarks.suite.studies.claim import Claim
from benchmarks.suite.studies.study import Study

SETTING = ["problem", "judge", "noise"]
RULE = ["model", "acquisition", "options", "answer"]
_START = [*SETTING, "seed"]

WRONG = 0.05
"""Regret at the top of the hill of the recommendation from which it is a wrong one."""

DECIDED = 2.0
"""Standard errors from a half at which runs decide."""

MEDIUM = 0.64
"""Share of better runs from which Vargha and Delaney (2000) call a difference medium:
rules whose interval stays below it on both sides may be level."""

FACTOR = 1.25
"""By which means of level rules differ at most."""

_LESS_OF = {
    "end": "regret at the end",
    "way": "mean regret of all duels",
    "seconds": "seconds",
    "invalid": "invalid points",
    "top": "regret at the top of the hill",
}


def table_of_claims(claims: Iterable[Claim], runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each claim that has runs.

    Args:
        claims: What is held against the runs.
        runs: Rows by `play.COLUMNS`.

    Returns:
        The claim; what is compared; the number of pairs of runs from the same start,
        and of starts; the share of pairs in which the rule is better, ties a half, with
        the interval of `DECIDED` standard errors around the centre by `share_of`, which
        no problem's scale enters; the mean figure of the better rule in units of the
        worse one's, the geometric mean over settings; the settings in which its median
        is lower; and what follows: an interval without a half decides, and so does one
        within which no difference is `MEDIUM`, where means are within a `FACTOR`. Pairs
        that share problem and seed, and differ in the judge, are alike: they count as
        one start, with the mean of their scores.
    """
    claims = list(claims)
    figures = {of: _figures(runs, of) for of in dict.fromkeys(c.of for c in claims)}
    held = ((claim, _pairs(claim, figures[claim.of])) for claim in claims)
    return pd.DataFrame([_row(claim, pairs) for claim, pairs in held if len(pairs)])


def _row(claim: Claim, pairs: pd.DataFrame) -> dict[str, str | int]:
    """The row of one claim, by its pairs."""
    starts = _scores(pairs)
    share, centre, error = share_of(starts)
    low = 100 * max(centre - DECIDED * error, 0.0)
    high = 100 * min(centre + DECIDED * error, 1.0)
    settings = pairs.groupby(SETTING, sort=False)
    medians, means = settings.median(), settings.mean()
    above = means[(means > 0).all(axis=1)]
    times = np.exp(np.log(above["better"] / above["worse"]).mean())
    lower = int((medians["better"] < medians["worse"]).sum())
    return {
        "claim": claim.says,
        "less": _LESS_OF[claim.of],
        "pairs": len(pairs),
        "starts": len(starts),
        "better in %": f"{100 * share:.0f} ({low:.0f} to {high:.0f})",
        "times": f"{times:.2f}" if len(above) else "",
        "lower median in": f"{lower} of {len(medians)}",
        "so it": verdict(centre, error, float(times)),
        "leads": claim.leads,
    }


def _pairs(claim: Claim, figures: Mapping[Rule, pd.Series]) -> pd.DataFrame:
    """Figures of both rules in the runs from the same start, by setting and seed."""
    if not {claim.better, claim.worse} <= figures.keys():
        return pd.DataFrame()
    both = {"better": figures[claim.better], "worse": figures[claim.worse]}
    return pd.concat(both, axis=1).dropna()


def _scores(pairs: pd.DataFrame) -> pd.Series:
    """Share of the pairs of each start in which the better rule is so, ties a half."""
    better, worse = pairs["better"], pairs["worse"]
    score = (better < worse) + 0.5 * (better == worse)
    return score.groupby(["problem", "seed"]).mean()


def against_reference(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each rule with runs from starts of the reference's, the best first.

    Args:
        study: Says which rules there are, and which is the reference.
        runs: Rows by `play.COLUMNS`.

    Returns:
        Pairs, starts, and the share of pairs with less regret at the end, as of claims,
        over all settings; and how many of these runs end at a wrong optimum, the rule's
        and the reference's.
    """
    rows = []
    ends, tops = _figures(runs, "end"), _figures(runs, "top")
    for rule in study.rules:
        claim = Claim(rule.title, rule, study.reference)
        pairs = _pairs(claim, ends)
        if rule != study.reference and len(pairs):
            wrong = (_pairs(claim, tops) > WRONG).sum()
            row = {"rule": claim.says, **_row(claim, pairs)} | {
                "wrong optimum": wrong["better"],
                "the reference's": wrong["worse"],
            }
            rows.append((float(_scores(pairs).mean()), row))
    rows.sort(key=lambda scored: -scored[0])
    table = pd.DataFrame([row for _, row in rows])
    return table.drop(columns=["claim", "less", "so it", "leads"], errors="ignore")


def share_of(score: pd.Series) -> tuple[float, float, float]:
    """Mean of scores in [0, 1], and centre and deviation of what it estimates.

    Two pairs won and two lost are added (Agresti and Coull 1998), so that a few pairs
    that agree do not seem to be certain.
    """
    number = len(score) + 4
    centre = (float(score.sum()) + 2) / number
    return float(score.mean()), centre, (centre * (1 - centre) / number) ** 0.5


def verdict(centre: float, error: float, times: float) -> str:
    """Verdict on a claim.

    Args:
        centre: Share of better runs.
        error: Its standard error.
        times: Mean figure of the better rule in units of the worse one's.
    """
    if centre - 0.5 > DECIDED * error:
        return "holds"
    if 0.5 - centre > DECIDED * error:
        return "is wrong here"
    narrow = abs(centre - 0.5) + DECIDED * error < MEDIUM - 0.5
    if narrow and 1 / FACTOR <= times <= FACTOR:
        return "is level"
    return "is not decided"


def runs_of(rule: Rule, runs: pd.DataFrame) -> pd.DataFrame:
    """The rows of one rule."""
    return runs[np.logical_and.reduce([runs[n] == v for n, v in asdict(rule).items()])]


def _figures(runs: pd.DataFrame, of: str) -> dict[Rule, pd.Series]:
    """Figures of the runs of each rule that are compared, by setting and seed."""
    at_end = {"end": "regret_recommended", "top": "basin_regret"}
    if of in at_end:
        return ends_by_rule(runs, at_end[of])
    column = "regret_recommended" if of == "way" else of
    return _by_rule(runs.groupby([*RULE, *_START])[column].mean())


def ends_by_rule(runs: pd.DataFrame, column: str) -> dict[Rule, pd.Series]:
    """A column after the last question of each run, by setting and seed, of each rule.

    Args:
        runs: Rows by `play.COLUMNS`.
        column: One of these.
    """
    each = runs.groupby([*RULE, *_START])["duel"]
    last = runs["duel"] == each.transform("max")
    return _by_rule(runs[last].set_index([*RULE, *_START])[column])


def _by_rule(figures: pd.Series) -> dict[Rule, pd.Series]:
    rules = figures.groupby(level=RULE)
    return {Rule(*names): of_rule.droplevel(RULE) for names, of_rule in rules}
