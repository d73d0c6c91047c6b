"""Comparisons of ten cars by sixty people."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from botorch_pref.datasets.data import ComparisonData
from botorch_pref.datasets.tables import CsvColumns, read_columns
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import check_distinct

ITEMS_FILE = "items1.csv"
ANSWERS_FILE = "prefs1.csv"
COLUMN_OF_FEATURE = {
    "body_type": "Body_Type",
    "transmission": "Transmission",
    "engine_capacity": "Engin_Capacity",
    "fuel_consumed": "Fuel_Consumed",
}


def load_cars(folder: str | Path) -> ComparisonData:
    """Loads 2,675 comparisons of ten cars by sixty people.

    Nearly everybody compared all 45 pairs. The first experiment of Abbasnejad, Sanner,
    Bonilla and Poupart, "Learning community-based preferences via Dirichlet process
    mixtures of Gaussian processes", IJCAI (2013); files `items1.csv` and `prefs1.csv`.

    The item of column 2 is the preferred one. The control questions, which repeat a
    pair, agree that the two columns are an answer and not the order on the screen: 261
    of 296 have the same order as the pair's first answer. They are left out (rows whose
    `Is Control` is 1, 298 of 2,973), so that no pair counts twice for a person.

    Features, float64, coded as in the source: `body_type` (1 sedan, 2 SUV),
    `transmission` (1 manual, 2 automatic), `engine_capacity` in litres,
    `fuel_consumed` (1 hybrid, 2 not).

    Args:
        folder: Where the files are.

    Returns:
        The comparisons, items in the order of their file, `raters` the ids of the
        people.

    Raises:
        FeedbackError: If a file is not as described; the message names the line.
        OSError: If a file cannot be read.
    """
    folder = Path(folder)
    items = read_columns(folder / ITEMS_FILE, ["Item_ID", *COLUMN_OF_FEATURE.values()])
    answers = read_columns(
        folder / ANSWERS_FILE, ["User_ID", "Item1_ID", "Item2_ID", "Is Control"]
    )
    features = [items.numbers(column) for column in COLUMN_OF_FEATURE.values()]
    columns = [_places_of(answers, name, items) for name in ("Item1_ID", "Item2_ID")]
    pairs = torch.stack(columns, dim=-1)
    asked = torch.tensor(answers.integers("Is Control", 0, 1)) == 0
    check_distinct(f"{answers.path}: comparisons", pairs)
    raters = torch.tensor(answers.integers("User_ID", 0))
    return ComparisonData(
        torch.tensor(features, dtype=torch.double).mT.contiguous(),
        pairs[asked],
        tuple(COLUMN_OF_FEATURE),
        raters[asked],
    )


def _places_of(answers: CsvColumns, column: str, items: CsvColumns) -> Tensor:
    """Positions in the file of items of the items in a column, ``m`` long."""
    place = {item: index for index, item in enumerate(items.cells["Item_ID"])}
    for line, item in zip(answers.lines, answers.cells[column], strict=True):
        if item not in place:
            raise FeedbackError(
                f"{answers.path}, line {line}, column {column}: {items.path} has no "
                f"item {item!r}: add it"
            )
    return torch.tensor([place[item] for item in answers.cells[column]])
