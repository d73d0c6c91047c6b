"""The log of an experiment as a table."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from ax.core.experiment import Experiment

from botorch_pref.ax.events import events

_COLUMNS = ("number", "time", "trial", "kind", "what")


def write_log(experiment: Experiment, path: Path) -> None:
    """Writes every question, answer and withdrawal, in order.

    Args:
        experiment: Ax's.
        path: Of the CSV file; replaced if there is one. Its column ``what`` is JSON.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(_COLUMNS)
        for event in events(experiment):
            what = json.dumps(dict(event.what))
            table.writerow([event.number, event.time, event.trial, event.kind, what])
