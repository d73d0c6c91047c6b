"""Weights of features from 6,000 sets of 5 among 1,200 items, d = 30.

    python benchmarks/plackett_luce_regression.py

Prints seconds and steps of the posterior, by Laplace and by the bound, and seconds and
eta where eta is learned.
"""

from __future__ import annotations

import torch
from botorch.fit import fit_gpytorch_mll
from report import print_table, seconds, start
from torch import Tensor

from botorch_pref import (
    Choices,
    PlackettLuceRegression,
    PreferenceMarginalLogLikelihood,
    Rankings,
)

ITEMS, FEATURES, SETS, SIZE = 1200, 30, 6000, 5
SECONDS_TO_REACH = 5.0


def rankings() -> tuple[Tensor, Tensor]:
    """Features of all items, and sets ranked under known weights, best first."""
    generator = torch.Generator().manual_seed(0)
    options = {"generator": generator, "dtype": torch.float64}
    features = torch.randn(ITEMS, FEATURES, **options)
    weights = torch.randn(FEATURES, **options) / FEATURES**0.5
    sets = torch.rand(SETS, ITEMS, generator=generator).topk(SIZE).indices
    gumbel = -torch.log(-torch.log(torch.rand(SETS, SIZE, **options)))
    heard = (features @ weights)[sets] + gumbel
    return features, sets.gather(-1, heard.argsort(-1, descending=True))


def main() -> None:
    """Prints the table."""
    start(f"{SETS} sets of {SIZE} among {ITEMS} items, d = {FEATURES}")
    features, orders = rankings()
    kinds = {
        "best of five": Choices(orders, orders[:, 0]),
        "rankings": Rankings(orders),
    }
    rows = []
    for kind, answers in kinds.items():
        for inference in ("laplace", "variational"):
            model = PlackettLuceRegression(
                features, feedback=[answers], inference=inference
            )
            at_one_eta = seconds(model.diagnostics)
            mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
            model.train()
            fit = seconds(lambda mll=mll: fit_gpytorch_mll(mll))
            eta, steps = float(model.eta.detach()), model.diagnostics()["iterations"]
            rows.append(
                [kind, inference, at_one_eta, steps, SECONDS_TO_REACH, fit, eta]
            )
    print_table(
        [
            "answers",
            "inference",
            "posterior, seconds",
            "steps",
            "to reach",
            "with eta learned",
            "eta",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
