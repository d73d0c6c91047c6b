"""Points that acquisition functions cannot take, named with what to pass."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from acquisition.contract.closed_forms import X_REF, points
from botorch.models import PairwiseGP
from botorch.models.model import Model
from entries import Acquisition
from registry import ACQUISITIONS

from botorch_pref.acquisition import FeasibilityWeighted
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import Validity
from botorch_pref.models import EPPreferenceGP

X = points(1, seed=5)
WRONG = [
    (X.tolist(), "{} must be a tensor of points.* got list"),
    (X.numpy(), "{} must be a tensor of points.* got ndarray"),
    (X[:, :1], r"{} has shape \(1, 1(, 1)?\), expected .* x 2"),
    (X.half(), r"{} is torch\.float16"),
    (X.to_sparse(), r"{} is sparse; pass {}\.to_dense\(\)"),
]
every = pytest.mark.parametrize("kind", ACQUISITIONS.values(), ids=ACQUISITIONS)


def assert_refused(call: Callable[[Any], Any], name: str) -> None:
    for value, message in WRONG:
        with pytest.raises(FeedbackError, match=message.replace("{}", name)):
            call(value)


@every
def test_wrong_points(kind: Acquisition, skew_model: Model) -> None:
    """Wrong references: with the arguments of all public classes."""
    acquisition = kind(skew_model, X_REF)
    assert_refused(acquisition, "X")
    assert_refused(acquisition.set_X_pending, "X_pending")
    with pytest.raises(FeedbackError, match=r"X_pending\[0, 0\] is nan: row 0"):
        acquisition.set_X_pending(torch.full_like(X, torch.nan))
    for value, message in (
        (None, "got NoneType"),
        (X[0], r"X has shape \(2,\)"),
        (X[:0], r"X has shape .* no points"),
    ):
        with pytest.raises(FeedbackError, match=message):
            acquisition(value)
    torch.testing.assert_close(kind(skew_model, X_REF[0]).X_ref, X_REF)
    with pytest.raises(FeedbackError, match="one reference point"):
        kind(skew_model, points(3))


def test_wrong_points_of_a_weighted_function(skew_model: Model) -> None:
    labels = Validity(torch.arange(3), torch.tensor([True, False, True]))
    feasibility = EPPreferenceGP(points(3, seed=9), feedback=[labels])
    acquisition = ACQUISITIONS["DuelingUCB"](skew_model, X_REF)
    assert_refused(FeasibilityWeighted(acquisition, feasibility), "X")


@every
@pytest.mark.filterwarnings("ignore:A not p.d.")
def test_points_are_finite(kind: Acquisition) -> None:
    """Asked for in a batch, with a gradient or without, or as the reference.

    BoTorch's `PairwiseGP` would say that a matrix is not positive definite.
    """
    batch = points(3, seed=5).unsqueeze(-2)
    for model_kind, bad in ((EPPreferenceGP, torch.nan), (PairwiseGP, -torch.inf)):
        model = model_kind(points(3, seed=9), torch.tensor([[0, 1], [2, 1]]))
        acquisition = kind(model, X_REF)
        batch[1, 0, 1] = bad
        for X_bad in (batch, batch.clone().requires_grad_()):
            with pytest.raises(FeedbackError, match=rf"X\[1, 0, 1\] is {bad}: row 0"):
                acquisition(X_bad)
        with pytest.raises(FeedbackError, match=rf"X_ref\[0, 1\] is {bad}: row 0"):
            kind(model, batch[1])


@every
def test_points_in_single_precision_are_taken_in_double(
    kind: Acquisition, skew_model: Model
) -> None:
    single = X.float()
    acquisition = kind(skew_model, single)
    assert torch.equal(acquisition.X_ref, single.double()), (
        "X_ref in single precision is not what was given, in double"
    )
    x = (single + 0.25).unsqueeze(0)
    assert torch.equal(acquisition(x), acquisition(x.double()))
    acquisition.set_X_pending(single - 0.25)
    assert torch.equal(acquisition.X_pending, (single - 0.25).double()), (
        "X_pending in single precision is not what was given, in double"
    )
    assert torch.equal(acquisition(x), acquisition(x.double()))
