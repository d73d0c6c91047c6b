"""Covariates of answers: home advantage, position bias, and whether intervals cover.

    pip install 'botorch-pref[data]'
    python benchmarks/answer_covariates.py [--seeds 100] [--bigrams FOLDER]

Prints the home advantage of the Bundesliga (14,018 games of 52 teams, vcd/Bundesliga),
by our model with the logistic likelihood beside Bradley and Terry's by maximum
likelihood on the 10,384 games with a winner, and by our model with ties on all games,
with the log-loss in nats of games that were left out, with and without it. Then whether
people favour the first of two train journeys (Ecdat/Train). With --bigrams, what an
arena calls style control: of two pairs of keys a person says which is more comfortable
to type (processed_bigram_data.csv of binarybottle/typing_preferences_to_comfort_scores,
MIT), and the covariates of the answer are which was shown first and how long it took to
type each this time, which differs from answer to answer. Last, of simulated duels with
a known bias, the share of 95 % intervals that hold it.
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path
from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import LinearKernel
from report import print_table, start
from torch import Generator, Tensor

from botorch_pref import (
    Comparisons,
    DuelKernel,
    EPPreferenceGP,
    PairwiseLogitLikelihood,
    PreferenceMarginalLogLikelihood,
    SparsePreferenceGP,
)
from botorch_pref.datasets.tables import read_r_table
from botorch_pref.evaluation import cross_validate_model
from botorch_pref.models import PreferenceGP
from botorch_pref.posteriors.gaussian import central_interval

GAMES, JOURNEYS, FOLDS = 14_018, 2_929, 5
BIASES, ITEMS, DUELS = (0.0, 0.3, 1.0), 8, 100
COVERAGE_TO_REACH = "91 to 99 %"


def fitted(
    X: Tensor,
    answers: Comparisons,
    engine: type[PreferenceGP] = EPPreferenceGP,
    **options: Any,
) -> PreferenceGP:
    """A model of some answers at the optimum of its evidence."""
    model = engine(X, answers, **options)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model.eval()


def bias_of(model: PreferenceGP) -> Tensor:
    """Mean, lower and upper end of the only weight, with probability 0.95."""
    return torch.cat(central_interval(model.covariate_posterior(), 0.95))


def shown(values: Tensor) -> list[str]:
    """A value and its interval as text."""
    value, low, high = values.tolist()
    return [f"{value:.3f}", f"{low:.3f} to {high:.3f}"]


def favoured(model: PreferenceGP, values: Tensor) -> list[str]:
    """The same as probabilities that the first of two equals wins, ties left out."""
    likelihood, known = model.likelihood, torch.zeros_like(values)
    won, lost = (likelihood.win_probability(z, known) for z in (values, -values))
    return shown((won / (won + lost)).detach())


def bradley_terry_at_home(home: Tensor, away: Tensor, won: Tensor) -> Tensor:
    """The home advantage of greatest likelihood, and its interval by the information.

    Newton's method; strengths are known up to a constant, so that it takes the least
    step of those that are as good.
    """
    count = int(torch.cat([home, away]).max()) + 1
    rows = torch.zeros(len(home), count + 1, dtype=torch.double)
    place = torch.arange(len(home))
    rows[place, home], rows[place, away], rows[:, -1] = 1.0, -1.0, 1.0
    weights = torch.zeros(count + 1, dtype=torch.double)
    for _ in range(50):
        share = torch.sigmoid(rows @ weights)
        information = rows.mT @ ((share * (1 - share)).unsqueeze(-1) * rows)
        covariance = torch.linalg.pinv(information, hermitian=True)
        step = covariance @ rows.mT @ (won.double() - share)
        weights = weights + step
        if float(step.abs().max()) < 1e-10:
            break
    deviation = covariance[-1, -1].sqrt()
    return weights[-1] + torch.tensor([0.0, -1.96, 1.96]).double() * deviation


def games() -> tuple[Tensor, Tensor, Tensor, int]:
    """Teams at home and away, the sign of the goals' difference, and the teams."""
    table = read_r_table("vcd", "Bundesliga")[:GAMES]
    names = sorted({*table["HomeTeam"], *table["AwayTeam"]})
    number = {name: i for i, name in enumerate(names)}
    home, away = (
        torch.tensor([number[name] for name in table[column]])
        for column in ("HomeTeam", "AwayTeam")
    )
    goals = torch.tensor((table["HomeGoals"] - table["AwayGoals"]).to_numpy())
    return home, away, goals.sign(), len(names)


def duels(home: Tensor, away: Tensor, result: Tensor) -> Comparisons:
    """Games as duels; the covariate is 1 for a winner at home, and -1 away."""
    both, won, tied = torch.stack([home, away], -1), result != 0, result == 0
    lost = (result < 0).unsqueeze(-1)
    pairs = torch.where(lost, both.flip(-1), both)[won]
    covariates = [result[won].double(), torch.ones(int(tied.sum())).double()]
    return Comparisons(
        pairs,
        both[tied] if bool(tied.any()) else None,
        covariates=torch.cat(covariates).unsqueeze(-1),
    )


def league() -> None:
    """Home advantage of the Bundesliga."""
    home, away, result, count = games()
    X, decided = torch.eye(count, dtype=torch.double), result != 0
    parts = (home[decided], away[decided], result[decided])
    rows = []
    peer = bradley_terry_at_home(parts[0], parts[1], parts[2] > 0)
    share = shown(torch.sigmoid(peer))
    rows.append(["Bradley-Terry, games with a winner", *shown(peer), *share, "", ""])
    for name, told, likelihood in (
        ("logistic, games with a winner", duels(*parts), PairwiseLogitLikelihood()),
        ("probit, all games", duels(home, away, result), None),
    ):
        options: dict[str, Any] = {"likelihood": likelihood}
        model = fitted(X, told, covar_module=LinearKernel(), **options)
        blind = Comparisons(told.pairs, told.ties)
        without = fitted(X, blind, covar_module=LinearKernel(), **options)
        losses = [
            float(cross_validate_model(one, FOLDS, fit=None)["log_loss"]["duels"])
            for one in (model, without)
        ]
        value = bias_of(model)
        texts = [f"{loss:.4f}" for loss in losses]
        rows.append([name, *shown(value), *favoured(model, value), *texts])
    print("Home advantage in the Bundesliga\n")
    print_table(
        ("model", "weight", "95 %", "home wins", "95 %", "log-loss", "without"),
        rows,
    )


def trains() -> None:
    """Position bias in choices between two train journeys."""
    table = read_r_table("Ecdat", "Train")[:JOURNEYS]
    sides = [
        torch.tensor(
            table[
                [f"{f}{i}" for f in ("price", "time", "change", "comfort")]
            ].to_numpy()
        )
        for i in (1, 2)
    ]
    X, places = torch.unique(torch.cat(sides).double(), dim=0, return_inverse=True)
    both = places.view(2, -1).mT
    first = torch.tensor((table["choice"] == "choice1").to_numpy()).unsqueeze(-1)
    told = Comparisons(
        torch.where(first, both, both.flip(-1)),
        covariates=torch.where(first, 1.0, -1.0).double(),
    )
    # Utilities that are linear in four features are those of few inducing points.
    options: dict[str, Any] = {"covar_module": LinearKernel(), "num_inducing": 16}
    model = fitted(X, told, SparsePreferenceGP, input_transform=Normalize(4), **options)
    value = bias_of(model)
    print("\nThe first of two train journeys\n")
    print_table(
        ("choices", "weight", "95 %", "chosen between equals", "95 %"),
        [[str(len(table)), *shown(value), *favoured(model, value)]],
    )


def styles(folder: Path) -> None:
    """Choices between pairs of keys by their comfort, and the time that typing took.

    Args:
        folder: With processed_bigram_data.csv.
    """
    path = folder / "processed_bigram_data.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["unchosen_bigram_time"]]
    sides = "chosen_bigram", "unchosen_bigram"
    names = sorted({row[side] for row in rows for side in sides})
    number = {name: i for i, name in enumerate(names)}
    pairs = torch.tensor([[number[row[side]] for side in sides] for row in rows])
    first = [1.0 if row["bigram1"] == row[sides[0]] else -1.0 for row in rows]
    slower = [
        math.log(float(row[f"{sides[0]}_time"]) / float(row[f"{sides[1]}_time"]))
        for row in rows
    ]
    covariates = torch.tensor([first, slower], dtype=torch.double).mT
    covariates[:, 1] /= covariates[:, 1].std()
    X, likelihood = torch.eye(len(names), dtype=torch.double), PairwiseLogitLikelihood
    table = []
    for told, weights in (
        ("none", None),
        ("shown first", covariates[:, :1]),
        ("shown first, log time", covariates),
    ):
        answers = Comparisons(pairs, covariates=weights)
        model = fitted(X, answers, likelihood=likelihood(), covar_module=LinearKernel())
        score = cross_validate_model(model, FOLDS, fit=None).loc["duels"]
        values = "" if weights is None else ", ".join(weights_of(model))
        loss = f"{score['log_loss']:.4f}"
        table.append([told, values, loss, f"{100 * score['accuracy']:.1f} %"])
    print(f"\n{len(rows)} choices of the more comfortable of two pairs of keys\n")
    print_table(("covariates", "weights, 95 %", "log-loss", "predicted"), table)


def weights_of(model: PreferenceGP) -> list[str]:
    """Each weight of the covariates with its 95 % interval.

    Args:
        model: Fitted.
    """
    ends = torch.stack(central_interval(model.covariate_posterior(), 0.95), -1)
    return [f"{m:.2f} ({low:.2f} to {high:.2f})" for m, low, high in ends.tolist()]


def simulated(seed: int, bias: float) -> PreferenceGP:
    """A fit to duels of utilities from the kernel's own prior, with a bias."""
    generator = Generator().manual_seed(seed)
    X = torch.rand(ITEMS, 2, generator=generator, dtype=torch.double)
    kernel = DuelKernel(2).double()
    with torch.no_grad():
        root = torch.linalg.cholesky(kernel(X).to_dense())
    f = root @ torch.randn(ITEMS, generator=generator, dtype=torch.double)
    both = torch.rand(DUELS, ITEMS, generator=generator).topk(2).indices
    noise = torch.randn(DUELS, generator=generator, dtype=torch.double)
    heard = f[both[:, 0]] - f[both[:, 1]] + bias + math.sqrt(2) * noise
    return fitted(X, duels(*both.unbind(-1), heard.sign()), covar_module=DuelKernel(2))


def coverage(seeds: int) -> None:
    """Share of intervals that hold the bias that made the answers."""
    rows = []
    for bias in BIASES:
        found = torch.stack([bias_of(simulated(seed, bias)) for seed in range(seeds)])
        mean, low, high = found.unbind(-1)
        share = ((low < bias) & (bias < high)).double().mean()
        width = float((high - low).mean())
        row = [f"{bias:g}", f"{float(mean.mean()):.3f}", f"{width:.2f}"]
        rows.append([*row, f"{float(share):.0%}", COVERAGE_TO_REACH])
    print(f"\n{seeds} data sets of {DUELS} duels of {ITEMS} options\n")
    print_table(
        ("bias", "mean found", "width", "covered", "to reach"),
        rows,
    )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--bigrams", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    start("Covariates of answers")
    league()
    trains()
    if given.bigrams is not None:
        styles(given.bigrams)
    coverage(given.seeds)


if __name__ == "__main__":
    main()
