"""Whether answers identify the noise: profiles of the evidence.

    python benchmarks/noise_identification.py

Prints the interval of noise that each set of answers leaves, and whether it is
identified: simulated duels with a known noise, alone, with the output scale fixed, and
with labels of validity whose own noise is known.
"""

from __future__ import annotations

import torch
from report import print_table, seconds, start
from torch import Tensor

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    PairwiseProbitLikelihood,
    Validity,
)
from botorch_pref.evaluation import (
    EvidenceProfile,
    evidence_profile,
)

POINTS, DUELS, LABELS, NOISE, SCALE = 40, 120, 40, 0.49, 4.0
GRID = torch.logspace(-3, 2, 11, dtype=torch.float64)
PARAMETER = "likelihoods.Comparisons.noise"


def simulate() -> tuple[Tensor, Comparisons, Validity]:
    """Points on a line, duels heard with noise, and labels heard with unit noise."""
    generator = torch.Generator().manual_seed(0)
    options = {"generator": generator, "dtype": torch.float64}
    points = torch.rand(POINTS, 1, **options)
    covariance = SCALE * (-0.5 * ((points - points.mT) / 0.2).square()).exp()
    values, vectors = torch.linalg.eigh(covariance)
    utilities = vectors @ (values.clamp_min(0).sqrt() * torch.randn(POINTS, **options))
    pairs = torch.stack(
        [torch.randperm(POINTS, generator=generator)[:2] for _ in range(DUELS)]
    )
    heard = utilities[pairs] + NOISE**0.5 * torch.randn(DUELS, 2, **options)
    lost = (heard[:, 0] < heard[:, 1]).unsqueeze(-1)
    tried = torch.arange(LABELS)
    valid = utilities[tried] + torch.randn(LABELS, **options) > 0
    duels = Comparisons(torch.where(lost, pairs.flip(-1), pairs))
    return points, duels, Validity(tried, valid)


def model_of(*feedback: Comparisons | Validity, points: Tensor) -> EPPreferenceGP:
    """A model that learns the noise of duels.

    Args:
        feedback: Duels, and labels or not.
        points: What they are about.
    """
    likelihood = {Comparisons: PairwiseProbitLikelihood(NOISE)}
    return EPPreferenceGP(points, feedback=feedback, likelihood=likelihood)


def row(name: str, model: EPPreferenceGP, *, priors: bool = False) -> list[object]:
    """One line of the table.

    Args:
        name: Of the setting.
        model: What to profile.
        priors: Whether the priors of the other parameters count.
    """
    found: list[EvidenceProfile] = []
    cost = seconds(
        lambda: found.append(evidence_profile(model, PARAMETER, GRID, priors=priors))
    )
    (profile,) = found
    drop = float(profile.log_evidence.max() - profile.log_evidence.min())
    low, high = profile.interval
    return [name, profile.best, low, high, drop, str(profile.identified), cost]


def main() -> None:
    """Prints the table."""
    start(
        f"Noise of {DUELS} duels of {POINTS} points, truth {NOISE}: values within 1.92 "
        "nats of the best"
    )
    points, duels, labels = simulate()
    fixed = model_of(duels, points=points)
    fixed.covar_module.outputscale = SCALE
    fixed.covar_module.raw_outputscale.requires_grad_(False)
    settings = [
        row("duels, output scale free", model_of(duels, points=points)),
        row("the same, with its prior", model_of(duels, points=points), priors=True),
        row("duels, output scale fixed", fixed),
        row(f"duels and {LABELS} labels", model_of(duels, labels, points=points)),
    ]
    columns = ["answers", "best", "from", "to", "drop, nats", "identified", "seconds"]
    print_table(columns, settings)


if __name__ == "__main__":
    main()
