"""Table of rules for duels, of fifty starts each, from before the suite had batches."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.suite.pages.tables import joined, markdown

KERNELS = {"duel": "stationary kernel", "default": "BoTorch's kernel"}
_HEAD = """# Rules for duels

Mean regret after 5 random and 25 chosen duels under expectation propagation, and its
standard error: 50 starts of each rule, 200 of `exploring-eiig` with
the stationary kernel where the deviation is 0.3 or 0.2. The runs, in
`benchmarks/records/screen_rules.csv`, are of a batched loop that the suite's replaced,
with the same random duels and other errors of the judge; runs of `default` and `people`
take their place as they are played. Deviations of 0.0815, 0.193 and 0.378 on Hartmann6
and of 0.00693, 0.0157 and 0.0294 on Six-Hump Camel misjudge 10, 20 and 30 % of close
pairs. Regrets above 0.4 on Six-Hump Camel are of another hump: their number is in
brackets.
"""


def screening_page(records: Path) -> str:
    """The page: a row for each rule, a column for each setting.

    Args:
        records: Folder of the committed records.
    """
    runs = pd.read_csv(records / "screen_rules.csv")
    runs["rule"] = runs["rule"] + ", " + runs["prior"].map(KERNELS)
    return f"{_HEAD}\n{markdown(grid_of(runs))}\n"


def grid_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Means and their errors, and how many are far off where a hump may be missed.

    Args:
        runs: Columns ``rule``, ``problem``, ``deviation`` and ``regret``.
    """
    where = runs["problem"] + ", " + runs["deviation"].map("{:g}".format)
    cells = runs.groupby(["rule", where.rename("where")], sort=False)["regret"]
    table = cells.agg(["mean", "sem", lambda regret: int((regret > 0.4).sum())])
    table.columns = ["mean", "error", "far"]
    told = joined(table, "{:.2g} ± {:.1g}", "mean", "error")
    humps = table.index.get_level_values("where").str.startswith("sixhump")
    table["cell"] = [
        f"{cell} ({far:.0f})" if hump else cell
        for cell, far, hump in zip(told, table["far"], humps, strict=True)
    ]
    grid = table["cell"].unstack("where", sort=False).fillna("")
    return grid.rename_axis(columns=None).reset_index()
