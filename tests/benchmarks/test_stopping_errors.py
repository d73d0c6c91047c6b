"""`docs/logbook/stopping.md` says of the advice to stop what the script prints."""

import re
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.stopping_errors import SETTINGS, fates

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "logbook" / "stopping.md"
ROW = re.compile(
    r"^\| [^|]+ \| [^|]+ \| (\d+), (\d+), (\d+) of 50 \| ([\d-]+) \| (\d+) \|", re.M
)


@pytest.fixture(scope="module")
def rows() -> list[list[int]]:
    text = PAGE.read_text(encoding="utf-8")
    return [
        [int(number.replace("-", "0")) for number in row] for row in ROW.findall(text)
    ]


@pytest.mark.parametrize(
    ("record", "part"),
    [("stopping_errors", slice(0, 8)), ("stopping_errors_pairs", slice(8, 16))],
)
def test_the_page_has_the_fates_of_the_runs_on_record(
    rows: list[list[int]], record: str, part: slice, records: Path
) -> None:
    read = pd.read_csv(records / f"{record}.csv")
    pairs = pd.Series(list(zip(read["problem"], read["deviation"], strict=True)))
    judged = read[pairs.isin(SETTINGS["judged"])]
    settings = judged.groupby(["problem", "deviation"], sort=False)
    *settings_fates, total = (fate[2:] for fate in fates(settings, [20, 40, 60]))
    assert [fate[:5] for fate in settings_fates] == rows[part]
    text = PAGE.read_text(encoding="utf-8")
    stopped, wrong, enough, untold = total[2:]
    for number in (stopped, wrong, enough, untold):
        assert f" {number} " in text
    assert f"{wrong / stopped:.1%}".replace("%", " %") in text
