"""Devices of engines, and how often they wait for one.

Each truth value of a tensor waits.
"""

from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from draws import uniform
from torch.utils._python_dispatch import TorchDispatchMode

from botorch_pref import (
    Comparisons,
    EPPreferenceGP,
    LaplacePreferenceGP,
    OrdinalRatings,
    PreferenceMarginalLogLikelihood,
    Rankings,
    Ratings,
    SkewPreferenceGP,
    SparsePreferenceGP,
    Strengths,
    Validity,
    VariationalPreferenceGP,
)
from botorch_pref.feedback import Feedback
from botorch_pref.inference import sweeps
from botorch_pref.models import PreferenceGP

WAITING = {
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.nonzero.default,
    torch.ops.aten.masked_select.default,
    torch.ops.aten.equal.default,
    torch.ops.aten._unique2.default,
}


class Waits(TorchDispatchMode):
    """Counts operations of which the host needs the result."""

    number = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.number += func in WAITING
        return func(*args, **(kwargs or {}))


# Of each sweep or step: whether there is a posterior, whether rows need the slower of
# two formulas, whether a step was too long, and whether it was the last one. Of duels
# that repeat each other besides: how many have a product that is narrow.
ALLOWED: dict[str, tuple[type[PreferenceGP], int, dict[str, Any], int]] = {
    "EP on rows": (EPPreferenceGP, 40, {}, 8),
    "EP on points": (EPPreferenceGP, 9, {}, 11),
    "sparse EP": (SparsePreferenceGP, 40, {"num_inducing": 9}, 7),
    "Laplace": (LaplacePreferenceGP, 40, {}, 6),
    "variational": (VariationalPreferenceGP, 40, {}, 6),
}


@pytest.mark.parametrize("engine", ALLOWED)
def test_a_step_waits_as_often_as_it_has_to_decide(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, num_points, options, allowed = ALLOWED[engine]
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(num_points, 2, generator=generator, dtype=torch.float64)
    drawn = torch.rand(30, num_points, generator=generator).argsort(-1)
    counts = []
    # Quick sweeps are for processors only.
    monkeypatch.setattr(sweeps, "MOST_ROWS", 0)
    with torch.no_grad():
        for steps in (2, 3):
            # Factors remember what was asked of them.
            model = kind(points, drawn[:, :2], **options)
            prior, factors = model.prior(), model.factors()
            capped: Any = replace(cast("Any", model.engine), max_iterations=steps)
            with Waits() as waits:
                capped.solve(prior, factors)
            counts.append(waits.number)
    assert counts[1] - counts[0] == allowed


PLACES = torch.arange(5)
COMPARISONS = Comparisons(torch.stack([PLACES, PLACES + 4], -1))
LEVELS = torch.linspace(0.1, 0.9, 5)
VALIDITY = Validity(PLACES, PLACES != 2)
OTHERS = [
    Comparisons(None, torch.tensor([[0, 3]])),
    Rankings(torch.tensor([[0, 1, 2, 3], [4, 5, 2, 1]])),
    Strengths(torch.stack([PLACES, PLACES + 3], -1), LEVELS),
    OrdinalRatings(PLACES, PLACES % 3, 3),
    Ratings(PLACES, LEVELS),
]
HEARD: dict[type[PreferenceGP], list[Feedback]] = {
    EPPreferenceGP: [COMPARISONS, VALIDITY, *OTHERS],
    LaplacePreferenceGP: [COMPARISONS, VALIDITY, OTHERS[0], *OTHERS[2:]],
    SparsePreferenceGP: [COMPARISONS, VALIDITY, *OTHERS],
    SkewPreferenceGP: [COMPARISONS, VALIDITY],
    VariationalPreferenceGP: [COMPARISONS],
}


@pytest.mark.parametrize("kind", HEARD)
def test_all_tensors_are_made_where_the_data_are(kind: type[PreferenceGP]) -> None:
    # A tensor made without a device is without numbers here, and fails beside others.
    points = uniform(12, 2)
    options: Any = {"num_inducing": 6} if kind is SparsePreferenceGP else {}
    for feedback in HEARD[kind]:
        model = kind(points, feedback=[feedback], **options)
        mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
        with torch.device("meta"):
            mll.compute_custom_loss().backward()
            posterior = model.eval().posterior(points[:3] / 2)
            moments = posterior.mean, posterior.variance
        assert all(bool(moment.isfinite().all()) for moment in moments)
