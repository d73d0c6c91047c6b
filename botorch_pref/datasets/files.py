"""Loaders of published answers whose files do not come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_pref.datasets.data import ComparisonData, FeedbackData
from botorch_pref.datasets.tables import CsvTable, number_of, numbered, one_hot
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Rankings, Strengths, check_distinct

KEY_ROWS = ("qwert", "asdfg", "zxcvb")
SLIDER_END = 100


def load_bigrams(folder: str | Path) -> FeedbackData[Strengths]:
    """Loads choices between two key pairs and how strongly they were meant.

    4,490 answers of 61 people about 112 pairs of keys of the left hand, from the
    repository binarybottle/typing_preferences_to_comfort_scores (file
    `processed_bigram_data.csv`).

    Strength, the chosen pair first: a slider from -100 to 100, whose size is the
    strength and whose sign is only the side of the screen, becomes (size + 100.5) /
    201. That is the correction (y (n - 1) + 0.5) / n of Smithson and Verkuilen (2006)
    for y = (size + 100) / 200 and n = 201, the number of places of the slider. A full
    slider (851 answers) becomes 0.9975, a slider of 0 (none here) 0.5. No answer is
    left out.

    The first of each pair won, so `Comparisons(data.feedback.pairs)` are the same
    answers without strengths.

    Features, float64, of the two keys in the order typed: `first_row` and `second_row`,
    0 at the top to 2 at the bottom; `first_column` and `second_column`, 0 at the
    little finger (q, a, z) to 4 (t, g, b).

    Args:
        folder: Where the file is.

    Returns:
        The answers, `raters` counting the people in the order of their names.

    Raises:
        FeedbackError: The file is not as described; the message names the line.
        OSError: The file cannot be read.
    """
    table = CsvTable.read(Path(folder) / "processed_bigram_data.csv")
    sliders = table.integers("sliderValue", -SLIDER_END, SLIDER_END)
    size = torch.tensor(sliders, dtype=torch.double).abs()
    won, lost = table.texts("chosen_bigram"), table.texts("unchosen_bigram")
    bigrams = sorted({*won, *lost})
    keys = torch.tensor([_key_places(b, table) for b in bigrams], dtype=torch.double)
    pairs = numbered([*won, *lost]).view(2, -1).T.contiguous()
    return FeedbackData(
        keys,
        Strengths(pairs, (size + SLIDER_END + 0.5) / (2 * SLIDER_END + 1)),
        ("first_row", "first_column", "second_row", "second_column"),
        raters=numbered(table.texts("user_id")),
    )


def _key_places(bigram: str, table: CsvTable) -> list[int]:
    places = [
        (number, keys.index(key))
        for key in bigram
        for number, keys in enumerate(KEY_ROWS)
        if key in keys
    ]
    if len(bigram) != 2 or len(places) != 2:
        raise FeedbackError(
            f"{table.path} has the bigram {bigram!r}, which is not two keys of "
            f"{', '.join(KEY_ROWS)}: correct the file"
        )
    return [*places[0], *places[1]]


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
        FeedbackError: A file is not as described; the message names the line.
        OSError: A file cannot be read.
    """
    items = CsvTable.read(Path(folder) / "items1.csv")
    answers = CsvTable.read(Path(folder) / "prefs1.csv")
    features = [items.numbers(column) for column in COLUMN_OF_FEATURE.values()]
    columns = [_places_of(answers, name, items) for name in ("Item1_ID", "Item2_ID")]
    pairs = torch.stack(columns, dim=-1)
    check_distinct(f"{answers.path}: comparisons", pairs)
    asked = torch.tensor(answers.integers("Is Control", 0, 1)) == 0
    raters = torch.tensor(answers.integers("User_ID", 0))
    return ComparisonData(
        torch.tensor(features, dtype=torch.double).mT.contiguous(),
        pairs[asked],
        tuple(COLUMN_OF_FEATURE),
        raters[asked],
    )


def _places_of(answers: CsvTable, column: str, items: CsvTable) -> Tensor:
    """Places in the file of items of the items in a column, ``m`` long."""
    place = {item: index for index, item in enumerate(items.texts("Item_ID"))}
    said = answers.texts(column)
    for row, item in enumerate(said):
        if item not in place:
            what = f"{items.path} has no item {item!r}: add it"
            raise answers.error(row, column, what)
    return torch.tensor([place[item] for item in said])


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
