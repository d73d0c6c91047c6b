"""Tastes of 5,000 people from ten comparisons each, in the protocol of Sushi-B.

    python benchmarks/crowd.py [--people 5000] [--sushi FOLDER]

Everybody ranks ten of 100 items. Of the pairs in each ranking ten are learned from and
one is predicted, as in crowdGPPL's experiment (Simpson and Gurevych 2020). Prints
accuracy, cross-entropy (nats) and the seconds of a fit, of

- the utilities themselves, which nobody knows. They do not know how somebody heard the
  items, which all pairs of the ranking share, and so they are no bound;
- one utility for all;
- `CrowdPreferenceGP`, a taste of each person, without factors and with some;
- for 500 people or fewer `SparsePreferenceGP` with the kernel of `rater_covar_module`.

The crowd is a simulated one, whose tastes have five factors. With ``FOLDER``, which
holds the files that `load_sushi` reads, a second table is of the rankings of sushi.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import RBFKernel
from report import print_table, seconds, start
from torch import Generator, Tensor
from torch.special import ndtr

from botorch_pref import (
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
    SparsePreferenceGP,
)
from botorch_pref.datasets import load_sushi
from botorch_pref.models import (
    CrowdKernel,
    CrowdPreferenceGP,
    PreferenceGP,
    TasteKernel,
    rater_covar_module,
)
from botorch_pref.models.kernels import default_covar_module

ITEMS, FEATURES, RANKED = 100, 6, 10
LEARNED, PREDICTED = 10, 1
RANKS = (5,)
# Deviations of what all share and of tastes, beside a noise of 1 on each item.
SHARED, TASTE, DECAY, FACTORS = 1.2, 1.2, 0.7, 5
LENGTHSCALE, UNEXPLAINED = 0.5, 0.25
LEAST_SHOWN = 0.05
MOST_OF_SPARSE, INDUCING = 500, 256
TOLERANCE = 3e-5
TO_REACH = "to reach: .78, .49 in 180 seconds; crowdGPPL on Sushi-B: .76-.78, .49-.50"


@dataclass(frozen=True)
class Crowd:
    """Items, and pairs of items that people compared, winner first.

    ``utilities`` has that of each person and item, where it is known.
    """

    items: Tensor
    people: Tensor
    pairs: Tensor
    held_people: Tensor
    held_pairs: Tensor
    utilities: Tensor | None = None


def main() -> None:
    """Prints a table for each crowd."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=5000)
    parser.add_argument("--sushi", metavar="FOLDER")
    options = parser.parse_args()
    start(f"tastes of {options.people} people; {TO_REACH}")
    generator = Generator().manual_seed(0)
    print("a simulated crowd, whose tastes have five factors:")
    report(simulated(options.people, generator))
    if options.sushi is not None:
        print("rankings of sushi, set B:")
        report(of_sushi(options.sushi, options.people, generator))


def report(crowd: Crowd) -> None:
    """Prints a row for each model.

    Args:
        crowd: What they learn from and predict.
    """
    rows: list[list[object]] = []
    if crowd.utilities is not None:
        rows.append(["the utilities themselves", *known_scores(crowd), ""])
    for name, make in models(crowd).items():
        model = make()
        rows.append([name, "", "", seconds(lambda model=model: fit(model))])
        rows[-1][1:3] = model_scores(model, crowd)
    header = ["model", "accuracy", "cross-entropy", "seconds"]
    print_table(header, rows)


def simulated(people: int, generator: Generator) -> Crowd:
    """A crowd whose tastes have five factors, each weaker than the one before.

    Args:
        people: How many there are.
        generator: Of all that is drawn.
    """
    draws = {"generator": generator, "dtype": torch.float64}
    items = torch.rand(ITEMS, FEATURES, **draws)
    covar = RBFKernel().double().initialize(lengthscale=LENGTHSCALE)(items).to_dense()
    covar = (1 - UNEXPLAINED) * covar.detach() + UNEXPLAINED * torch.eye(ITEMS).double()
    drawn = torch.linalg.cholesky(covar) @ torch.randn(ITEMS, FACTORS + 1, **draws)
    scale = DECAY ** torch.arange(FACTORS).double()
    factors = TASTE * drawn[:, 1:] * scale / scale.norm()
    weights = torch.randn(people, FACTORS, **draws)
    utilities = SHARED * drawn[:, 0] + weights @ factors.mT
    shown = torch.rand(ITEMS, **draws).square() + LEAST_SHOWN
    ranked = torch.multinomial(shown.expand(people, -1), RANKED, generator=generator)
    heard = utilities.gather(1, ranked) + torch.randn(people, RANKED, **draws)
    orders = ranked.gather(1, heard.argsort(dim=-1, descending=True))
    return compared(items, orders, generator, utilities)


def of_sushi(folder: str, people: int, generator: Generator) -> Crowd:
    """Set B of the rankings of sushi.

    Args:
        folder: With its files.
        people: How many of them, the first ones.
        generator: Of the pairs.
    """
    data = load_sushi(folder, "b")
    low, high = data.datapoints.amin(0), data.datapoints.amax(0)
    items = (data.datapoints - low) / (high - low).clamp_min(1e-9)
    # Sushi of equal features are different all the same.
    own = torch.linspace(0, 1, len(items)).double().unsqueeze(-1)
    orders = data.feedback.orders[:people]
    return compared(torch.cat([items, own], dim=-1), orders, generator)


def compared(
    items: Tensor, orders: Tensor, generator: Generator, utilities: Tensor | None = None
) -> Crowd:
    """Pairs of rankings, some of each to learn from and some to predict.

    Args:
        items: Their features.
        orders: A ranking of each person, best first.
        generator: Of the choice.
        utilities: Of each person and item, where they are known.
    """
    people, size = orders.shape
    pairs = torch.combinations(torch.arange(size))
    chosen = torch.rand(people, len(pairs), generator=generator).argsort(-1)
    places = pairs[chosen[:, : LEARNED + PREDICTED]].flatten(1)
    told = orders.gather(1, places).unflatten(-1, (-1, 2))
    who = torch.arange(people).unsqueeze(-1).expand(told.shape[:2])
    parts = [LEARNED, told.shape[1] - LEARNED]
    (people, held_people), (pairs, held) = who.split(parts, 1), told.split(parts, 1)
    first, second = people.flatten(), pairs.flatten(0, 1)
    rest = held_people.flatten(), held.flatten(0, 1)
    return Crowd(items, first, second, *rest, utilities)


def models(crowd: Crowd) -> dict[str, Callable[[], PreferenceGP]]:
    """Models by name, before a fit.

    Args:
        crowd: What they learn from.
    """
    items, dim = crowd.items, crowd.items.shape[-1]
    points = at_people(crowd, crowd.people, crowd.pairs).flatten(0, 1)
    told = torch.arange(len(points)).view(-1, 2)

    def factors(rank: int) -> PreferenceGP:
        shared = default_covar_module(dim, torch.Size())
        covar = CrowdKernel(shared, TasteKernel(items, rank))
        return CrowdPreferenceGP(points, told, covar_module=covar)

    made: dict[str, Callable[[], PreferenceGP]] = {
        "one utility for all": lambda: EPPreferenceGP(items, crowd.pairs),
        "a taste of each": lambda: CrowdPreferenceGP(points, told),
    }
    for rank in RANKS:
        made[f"a taste of each, {rank} factors"] = lambda rank=rank: factors(rank)
    if len(crowd.people) <= MOST_OF_SPARSE * LEARNED:
        made[f"agreement, {INDUCING} inducing points"] = lambda: SparsePreferenceGP(
            points, told, covar_module=rater_covar_module(dim), num_inducing=INDUCING
        )
    return made


def at_people(crowd: Crowd, people: Tensor, pairs: Tensor) -> Tensor:
    """The two items of each pair with the number of the person behind, ``m x 2``.

    Args:
        crowd: Has the items.
        people: Who compared, a number each.
        pairs: Of items.
    """
    number = people.double()[:, None, None].expand(-1, 2, 1)
    return torch.cat([crowd.items[pairs], number], dim=-1)


def fit(model: PreferenceGP) -> None:
    """Fits a model until an iteration gains less than a nat in 30,000.

    Args:
        model: A new one.
    """
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"ftol": TOLERANCE}})


@torch.no_grad()
def model_scores(model: PreferenceGP, crowd: Crowd) -> list[object]:
    """Scores of the pairs that were held out.

    Args:
        model: After its fit.
        crowd: Has the pairs.
    """
    rows = at_people(crowd, crowd.held_people, crowd.held_pairs)
    ends = rows[..., : model.datapoints.shape[-1]].split(1, dim=1)
    return scores(model.duel_probability(*ends, observation_noise=True))


def known_scores(crowd: Crowd) -> list[object]:
    """Scores of who knows all utilities.

    Args:
        crowd: Has them.
    """
    first, second = crowd.utilities[crowd.held_people.unsqueeze(-1), crowd.held_pairs].T
    return scores(ndtr((first - second) / 2**0.5))


def scores(probability: Tensor) -> list[object]:
    """Accuracy and cross-entropy of the probabilities of what was answered.

    Args:
        probability: One for each answer.
    """
    right = (probability > 0.5).double().mean()
    return [f"{right:.3f}", f"{-probability.log().mean():.3f}"]


if __name__ == "__main__":
    main()
