"""Loader of the sushi rankings, whose files do not come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_pref.datasets.data import FeedbackData
from botorch_pref.datasets.tables import number_of, one_hot
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Rankings

ITEMS_FILE = "sushi3.idata"
ORDER_FILES = {"a": "sushi3a.5000.10.order", "b": "sushi3b.5000.10.order"}
# The ids of set A, by name: from 5 on they are not those of the file of items.
SET_A = (
    *("ebi", "anago", "maguro", "ika", "uni"),
    *("ikura", "tamago", "toro", "tekka_maki", "kappa_maki"),
)
# Levels in the order of their numbers in the file.
GROUPS = {
    "style": ("maki", "other"),
    "major": ("seafood", "other"),
    "minor": (
        *("aomono", "akami", "shiromi", "tare", "clam", "squid", "shrimp", "roe"),
        *("other_seafood", "egg", "meat", "vegetables"),
    ),
}
NUMBERS = ("lightness", "eaten", "price", "sold")
NUM_FIELDS = 9


def load_sushi(
    folder: str | Path, which: Literal["a", "b"] = "b"
) -> FeedbackData[Rankings]:
    """Loads 5,000 rankings of ten sushi.

    In set A all rank the same ten, in set B everybody ranks ten of a hundred. Described
    in Kamishima, "Nantonac collaborative filtering: recommendation based on order
    responses", KDD (2003), and used by Guo et al. (2020). The data set `sushi3-2016`
    may be used for research and not be redistributed, so it does not come with this
    package.

    Features, float64, 20 in all: one column each for two styles, two major and twelve
    minor groups; `lightness` from 0 (heavy, oily) to 4; `eaten`, how often people eat
    it, from 0 to 3; `price`, normalised; `sold`, how often shops have it, from 0 to 1.

    Args:
        folder: Where `sushi3.idata` and the file of orders are.
        which: The set, `a` or `b`.

    Returns:
        The rankings. The items of set B are in the order of `sushi3.idata`, those of
        set A in the order of its own ids. `raters` is the number of the ranking, the
        line of the person in `sushi3.udata`.

    Raises:
        FeedbackError: A file is not as described; the message names the line.
        OSError: A file cannot be read.
    """
    if which not in ORDER_FILES:
        raise FeedbackError(f"which is {which!r}: choose the set 'a' or 'b'")
    folder = Path(folder)
    names, datapoints = _read_sushi(folder / ITEMS_FILE)
    if which == "a":
        missing = [name for name in SET_A if name not in names]
        if missing:
            raise FeedbackError(f"{folder / ITEMS_FILE} lacks {missing[0]} of set A")
        datapoints = datapoints[[names.index(name) for name in SET_A]]
    orders = _read_orders(folder / ORDER_FILES[which], len(datapoints))
    features = [f"{group}_{level}" for group in GROUPS for level in GROUPS[group]]
    raters = torch.arange(len(orders))
    return FeedbackData(datapoints, Rankings(orders), (*features, *NUMBERS), raters)


def _read_sushi(path: Path) -> tuple[list[str], Tensor]:
    """Names and features of the items."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    for line, row in enumerate(rows, 1):
        numbers = [number_of(cell) for cell in row[5:]]
        if len(row) != NUM_FIELDS or row[0] != str(line - 1) or None in numbers:
            raise FeedbackError(
                f"{path}, line {line}: expected {NUM_FIELDS} fields separated by tabs, "
                f"the first {line - 1}, the last four numbers; restore the original "
                "file"
            )
    _, names, *columns = map(list, zip(*rows, strict=True))
    groups = [
        one_hot(labels, [str(level) for level in range(len(levels))])
        for labels, levels in zip(columns[:3], GROUPS.values(), strict=True)
    ]
    cells = [[float(cell) for cell in column] for column in columns[3:]]
    values = torch.tensor(cells, dtype=torch.double).mT
    return names, torch.cat([*groups, values], dim=-1)


def _read_orders(path: Path, num_items: int) -> Tensor:
    header, *lines = path.read_text("utf-8").splitlines() or [""]
    if header.split() != [str(num_items), "1"]:
        raise FeedbackError(
            f"{path}, line 1: expected '{num_items} 1' for {num_items} items, got "
            f"{header!r}; restore the original files"
        )
    if not lines:
        raise FeedbackError(f"{path} has no rankings: restore the original file")
    orders = []
    for line, text in enumerate(lines, 2):
        cells = text.split()
        announced = ["0", str(len(cells) - 2)]
        if cells[:2] != announced or not all(cell.isdecimal() for cell in cells):
            raise FeedbackError(
                f"{path}, line {line}: expected 0, the number of items, the items, got "
                f"{text!r}; restore the original file"
            )
        orders.append(torch.tensor([int(cell) for cell in cells[2:]]))
    return pad_sequence(orders, batch_first=True, padding_value=-1)
