"""Worth of three questions that are chosen while the ones before are open.

    python benchmarks/questions_at_once.py [--starts 10]

EP on the unit square after eight duels of ten points. Prints, of three questions, the
nats that their answers will tell about the utilities, and how much larger the largest
posterior mean is expected to be: sums over all eight outcomes, each with a model of its
own, and means over starts. An open question is forgotten, so that it is asked three
times; or its options meet the new ones; or its answer is awaited, as `awaiting_answers`
has it. The library does the last for pairs, and the second for challengers of a
reference.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from itertools import product

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf
from botorch.posteriors.posterior import Posterior
from botorch.utils.sampling import draw_sobol_samples, manual_seed
from report import print_table, start
from torch import Generator, Tensor

from botorch_pref.acquisition import (
    DuelingBALD,
    DuelingEIIG,
    DuelingEUBO,
    DuelingKG,
    DuelingTailedEI,
    DuelingUCB,
    incumbent,
)
from botorch_pref.acquisition.duels import new_duels, with_others
from botorch_pref.likelihoods import PairwiseProbitLikelihood
from botorch_pref.models import EPPreferenceGP
from botorch_pref.models.predictions import awaiting_answers
from botorch_pref.posteriors.gaussian import (
    Moments,
    difference_mixture,
    gaussian_posterior,
    shared_covariance_mixture,
)

NOISES = (0.1, 1.0)
AT_ONCE = 3
NUM_RESTARTS, RAW_SAMPLES = 3, 64
NUM_POINTS, NUM_DUELS = 10, 8
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
CHOICES = draw_sobol_samples(BOUNDS, 256, 1, seed=0).squeeze(-2)
RULES = {
    "EUBO, pairs": DuelingEUBO,
    "BALD, pairs": DuelingBALD,
    "KG, pairs": DuelingKG,
    "EIIG, k = 0.2": partial(DuelingEIIG, k=0.2),
    "tailed EI": DuelingTailedEI,
    "UCB": DuelingUCB,
}
WAYS = ("forgotten", "met", "awaited")


class Awaiting(EPPreferenceGP):
    """A model that expects the answers of open duels, ``num_open x 2 x d``."""

    open_duels: Tensor

    def posterior(self, X: Tensor, *args: object, **kwargs: object) -> Posterior:
        """The posterior of EP, once the open duels have been answered."""
        if len(self.open_duels) == 0:
            return super().posterior(X)
        joint = super().posterior(with_others(X, self.open_duels.flatten(0, 1)))
        q = X.shape[-2]
        first = torch.arange(q, q + 2 * len(self.open_duels), 2)
        link = self.likelihood.link
        after = awaiting_answers(joint, link, first, first + 1)
        means, covariance = shared_covariance_mixture(after)
        return gaussian_posterior(Moments(means[..., :q], covariance[..., :q, :q]))


def made(X: Tensor, duels: list[tuple[int, int]], noise: float) -> Awaiting:
    """The model of some duels, with fixed hyper-parameters.

    Args:
        X: ``n x d``.
        duels: Winners and losers.
        noise: Of the likelihood.
    """
    likelihood = PairwiseProbitLikelihood(noise=noise)
    model = Awaiting(X, torch.tensor(duels), likelihood=likelihood)
    model.open_duels = X.new_zeros(0, 2, X.shape[-1])
    model.covar_module.base_kernel.lengthscale = 0.4
    model.covar_module.outputscale = 4.0
    return model.eval()


def answered(seed: int) -> tuple[Tensor, list[tuple[int, int]]]:
    """Points and answers of somebody whose best point is drawn.

    Args:
        seed: Of points, best point and duels.
    """
    generator = Generator().manual_seed(seed)
    drawn = torch.rand(NUM_POINTS + 1, 2, generator=generator, dtype=torch.double)
    X, best = drawn[1:], drawn[0]
    near = -(X - best).square().sum(-1)
    duels = [
        torch.randperm(NUM_POINTS, generator=generator)[:2] for _ in range(NUM_DUELS)
    ]
    return X, [tuple(d[near[d].argsort(descending=True)].tolist()) for d in duels]


class AllMeet(AcquisitionFunction):
    """Mean worth of the duels of two new points with each other and with open options.

    Args:
        acquisition: Of pairs.
        options: The open options, ``n x d``.
    """

    def __init__(self, acquisition: AcquisitionFunction, options: Tensor) -> None:
        super().__init__(acquisition.model)
        self.acquisition, self.options = acquisition, options

    def forward(self, X: Tensor) -> Tensor:
        """Mean worth of these duels.

        Args:
            X: ``b x 2 x d``.
        """
        points = with_others(X, self.options)
        first, second = new_duels(2, points.shape[-2], X.device)
        pairs = torch.stack([points[:, first], points[:, second]], dim=-2)
        return self.acquisition(pairs.flatten(0, 1)).view(pairs.shape[:2]).mean(-1)


def acquisition_of(
    rule: str, way: str, model: Awaiting, X_ref: Tensor | None, found: Tensor
) -> AcquisitionFunction:
    """The acquisition function of the next question.

    Args:
        rule: One of `RULES`.
        way: One of `WAYS`.
        model: Of the answers so far.
        X_ref: The reference of challengers; None for pairs.
        found: Open duels, ``num_open x 2 x d``.
    """
    model.open_duels = found if way == "awaited" else found[:0]
    make = RULES[rule]
    if X_ref is not None:
        acquisition: AcquisitionFunction = make(model, X_ref)
        if way == "met" and len(found):
            acquisition.set_X_pending(found[:, 0])
        return acquisition
    if way == "met" and len(found):
        return AllMeet(make(model), found.flatten(0, 1))
    return make(model)


def chosen(rule: str, way: str, model: Awaiting) -> Tensor:
    """Duels chosen one after the other, ``AT_ONCE x 2 x d``.

    Args:
        rule: One of `RULES`.
        way: One of `WAYS`.
        model: Of the answers so far.
    """
    X_ref = None if "pairs" in rule else incumbent(model)
    found = BOUNDS.new_zeros(0, 2, 2)
    with manual_seed(0):
        for _ in range(AT_ONCE):
            acquisition = acquisition_of(rule, way, model, X_ref, found)
            q = 2 if X_ref is None else 1
            best, _ = optimize_acqf(acquisition, BOUNDS, q, NUM_RESTARTS, RAW_SAMPLES)
            duel = best if X_ref is None else torch.cat([best, X_ref])
            found = torch.cat([found, duel.unsqueeze(0)])
    model.open_duels = found[:0]
    return found


@torch.no_grad()
def worth(
    X: Tensor, duels: list[tuple[int, int]], questions: Tensor, noise: float
) -> tuple[float, float]:
    """Information and gain of the answers of questions, over all outcomes.

    Args:
        X: ``n x d``.
        duels: Answers so far.
        questions: ``AT_ONCE x 2 x d``.
        noise: Of the likelihood.
    """
    points = torch.cat([X, questions.flatten(0, 1)])
    looked_at = torch.cat([CHOICES, points])
    asked = [(i, i + 1) for i in range(len(X), len(points), 2)]
    before = made(points, duels, noise)
    link, posterior = before.likelihood.link, before.posterior(points)
    information, gain = 0.0, -float(before.posterior(looked_at).mean.max())
    for first, second in asked:
        means, variance = difference_mixture(posterior, first, second)
        information -= float(link.expected_entropy(means[0], variance))
    for wins in product((True, False), repeat=AT_ONCE):
        said = [
            pair if win else pair[::-1] for pair, win in zip(asked, wins, strict=True)
        ]
        after = made(points, duels + said, noise)
        log_p = float(after.log_evidence() - before.log_evidence())
        information -= math.exp(log_p) * log_p
        gain += math.exp(log_p) * float(after.posterior(looked_at).mean.max())
    return information, gain


def main() -> None:
    """Prints a table for each noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=10)
    options = parser.parse_args()
    start(f"information in nats, and gain, of {AT_ONCE} questions at once")
    for noise in NOISES:
        rows = []
        for rule in RULES:
            row: list[str] = [rule]
            for way in WAYS:
                found = []
                for seed in range(options.starts):
                    X, duels = answered(seed)
                    questions = chosen(rule, way, made(X, duels, noise))
                    found.append(worth(X, duels, questions, noise))
                information, gain = torch.tensor(found).mean(0).tolist()
                row.append(f"{information:.2f}, {gain:.2f}")
            rows.append(row)
        print_table([f"noise {noise:g}", *WAYS], rows)


if __name__ == "__main__":
    main()
