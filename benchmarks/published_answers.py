"""Published answers that the benchmarks alone read: from folders and R packages."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from botorch_pref.datasets import ComparisonData, FeedbackData
from botorch_pref.datasets.data import distinct_items
from botorch_pref.datasets.tables import (
    CsvTable,
    number_of,
    numbered,
    read_r_table,
)
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Ratings, Strengths, check_distinct

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
    features = [numbers(items, column) for column in COLUMN_OF_FEATURE.values()]
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
    unknown = [(row, item) for row, item in enumerate(said) if item not in place]
    what = f"{items.path} has no item"
    answers.refuse(column, ((row, f"{what} {item!r}: add it") for row, item in unknown))
    return torch.tensor([place[item] for item in said])


def numbers(table: CsvTable, column: str) -> list[float]:
    """A column as numbers."""
    cells = table.texts(column)
    values = [number_of(cell) for cell in cells]
    what = "is not a number: correct the file"
    wrong = [row for row, value in enumerate(values) if value is None]
    table.refuse(column, ((row, f"{cells[row]!r} {what}") for row in wrong))
    return [value for value in values if value is not None]


def load_car_task() -> FeedbackData[Ratings]:
    """Loads 155 judgements of how likely a sale is, one by each student.

    The question was "What is the probability that a customer trades in a coupe?" or
    "What is the probability that a customer buys a car from Carlos?" (one of four
    salespersons). `CarTask` of the R package `betareg`; Smithson, Merkle and Verkuilen,
    "Beta regression finite mixture models of polarization and priming", Journal of
    Educational and Behavioral Statistics 36 (2011). The utility is the probability. All
    answers lie between 0.1 and 0.999 and are used as they are.

    Features: `salesperson`, 1 for the second question and 0 for the first; `nfcc`, the
    student's need for closure and certainty, about 1.75 to 4.57.

    Returns:
        The ratings, `raters` being the number of the row: each is another student.
    """
    table = read_r_table("betareg", "CarTask")
    salesperson = torch.tensor((table["task"] == "Salesperson").to_numpy()).double()
    nfcc = torch.tensor(table["NFCCscale"].to_numpy())
    datapoints, indices = distinct_items(torch.stack([salesperson, nfcc], dim=-1))
    return FeedbackData(
        datapoints,
        Ratings(indices, torch.tensor(table["probability"].to_numpy())),
        ("salesperson", "nfcc"),
        raters=torch.arange(len(table)),
    )


def load_reading_skills() -> FeedbackData[Ratings]:
    """Loads the reading accuracy of 44 children, a standard example of Beta regression.

    `ReadingSkills` of the R package `betareg`; Smithson and Verkuilen, "A better lemon
    squeezer? Maximum-likelihood regression with beta-distributed dependent variables",
    Psychological Methods 11 (2006). The utility is the accuracy.

    The source scaled the scores to [0, 1] and moved them inside by (y (n - 1) + 0.5) /
    n or nearly so (its description prints a minus and leaves n open); a perfect score
    is 0.99 there, which n = 50 gives. All values lie between 0.459 and 0.99, which
    thirteen children have, and are used as they are.

    Features: `dyslexia`, 0 or 1; `iq`, non-verbal, standardised.

    Returns:
        The ratings, without raters.
    """
    table = read_r_table("betareg", "ReadingSkills")
    dyslexia = torch.tensor((table["dyslexia"] == "yes").to_numpy()).double()
    iq = torch.tensor(table["iq"].to_numpy())
    datapoints, indices = distinct_items(torch.stack([dyslexia, iq], dim=-1))
    accuracy = torch.tensor(table["accuracy"].to_numpy())
    return FeedbackData(datapoints, Ratings(indices, accuracy), ("dyslexia", "iq"))
