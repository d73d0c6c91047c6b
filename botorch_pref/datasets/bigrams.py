"""Strengths of preference between pairs of keys, told with a slider."""

from __future__ import annotations

from pathlib import Path

import torch

from botorch_pref.datasets.data import FeedbackData
from botorch_pref.datasets.tables import CsvColumns, read_columns
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Strengths

FILE = "processed_bigram_data.csv"
KEY_ROWS = ("qwert", "asdfg", "zxcvb")
FEATURES = ("first_row", "first_column", "second_row", "second_column")
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
        FeedbackError: If the file is not as described; the message names the line.
        OSError: If the file cannot be read.
    """
    columns = ["user_id", "chosen_bigram", "unchosen_bigram", "sliderValue"]
    table = read_columns(Path(folder) / FILE, columns)
    sliders = table.integers("sliderValue", -SLIDER_END, SLIDER_END)
    size = torch.tensor(sliders, dtype=torch.double).abs()
    won, lost = table.cells["chosen_bigram"], table.cells["unchosen_bigram"]
    bigrams = sorted({*won, *lost})
    place = {bigram: index for index, bigram in enumerate(bigrams)}
    pairs = [
        [place[winner], place[loser]] for winner, loser in zip(won, lost, strict=True)
    ]
    users = table.cells["user_id"]
    people = {name: number for number, name in enumerate(sorted(set(users)))}
    return FeedbackData(
        torch.tensor([_key_places(b, table) for b in bigrams], dtype=torch.double),
        Strengths(
            torch.tensor(pairs), (size + SLIDER_END + 0.5) / (2 * SLIDER_END + 1)
        ),
        FEATURES,
        raters=torch.tensor([people[name] for name in users]),
    )


def _key_places(bigram: str, table: CsvColumns) -> list[int]:
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
