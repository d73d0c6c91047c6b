"""The log of an experiment as a table."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

from ax.core.experiment import Experiment

from botorch_pref.ax.storage.events import events
from botorch_pref.ax.storage.whole_file import replace_file

_COLUMNS = ("number", "time", "trial", "kind", "what")


def write_log(experiment: Experiment, path: Path) -> None:
    """Writes every question, answer and withdrawal, in order.

    Args:
        experiment: Ax's.
        path: Of the CSV file; replaced, whole, if there is one. Its column ``what`` is
            JSON.

    Raises:
        StorageError: It cannot be written.
    """
    rows = [
        [
            event.number,
            event.time,
            event.trial,
            event.kind,
            json.dumps(dict(event.what)),
        ]
        for event in events(experiment)
    ]
    table = StringIO(newline="")
    csv.writer(table).writerows([_COLUMNS, *rows])
    replace_file(path, table.getvalue().encode())
