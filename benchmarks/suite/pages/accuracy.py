"""Pages on inference: the accuracy audit, and four rounds of UCB."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.suite.pages.tables import markdown

_AUDIT = """# How far each engine is from exact

`python benchmarks/accuracy_audit.py`: at the hyper-parameters that made the answers,
means over noises of {noises} per item, beside a kernel of variance 1, of the root mean
square error of means at new points (in prior deviations), of deviations (relative), of
the largest error of a probability of a new and of an answered pair, and of the log
evidence (nats).

{table}

![accuracy-audit](figures/accuracy-audit.png)
"""

_ROUNDS = """# skewgp-figure-4

Benavoli et al. (2021), figure 4: seven duels of a function of one input that is largest
at 0, then {rounds} rounds that ask what an upper bound under Laplace asks, at known
hyper-parameters. `python benchmarks/skewgp_figure_4.py`: where the bound is largest
under each engine, how far it is from SkewGP's at most, and the largest skewness.

- *Laplace's bound is much worse*: it is off by {laplace:.1f} at most, EP's by {ep:.1f}.
- *Laplace explores the border*: in {border} of {rounds} rounds.
- *From the second round SkewGP asks near the maximum*: within 0.1 of it in {near} of
  {later} rounds.
- *Differences are heavily skewed*, by -1.3 at most: here by {skewness:.2f}.
"""


def audit_page(records: Path) -> str:
    """The page of the accuracy audit, a table and a figure.

    Args:
        records: Folder of the committed records.
    """
    rows = pd.read_csv(records / "accuracy_audit.csv")
    noises = ", ".join(f"{noise:g}" for noise in rows["noise"].unique())
    rows["evidence"] = rows["evidence"].abs()
    columns = ["mean", "deviation", "new_pairs", "queried", "evidence"]
    means = rows.groupby(["answers", "model", "m"], sort=False)[columns].mean()
    table = means.reset_index().sort_values(["answers", "model", "m"])
    table.columns = [name.replace("_", " ") for name in table.columns]
    return _AUDIT.format(noises=noises, table=markdown(table))


def rounds_page(records: Path) -> str:
    """The page of the four rounds, beside what the paper claims of them.

    Args:
        records: Folder of the committed records.
    """
    rows = pd.read_csv(records / "skewgp_figure_4.csv")
    later = rows[rows["round"] > 1]
    claims = _ROUNDS.format(
        rounds=len(rows),
        laplace=rows["Laplace off"].max(),
        ep=rows["EP off"].max(),
        border=int((rows["Laplace asks"].abs() > 2.5).sum()),
        near=int((later["SkewGP asks"].abs() < 0.1).sum()),
        later=len(later),
        skewness=rows["skewness"].min(),
    )
    return f"{claims}\n{markdown(rows)}\n"
