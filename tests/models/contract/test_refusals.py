"""What goes wrong: models that did not converge, and arguments that mean nothing."""

import importlib
import warnings
from typing import Any

import pytest
import torch
from botorch.models.likelihoods import pairwise as botorch_pairwise
from entries import Engine
from models.contract.duel_models import (
    NEW,
    PAIRS,
    POINTS,
    kernel,
    moments,
)

import botorch_pref
from botorch_pref import (
    Comparisons,
    FeedbackError,
    InferenceWarning,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
)


def test_a_model_that_did_not_converge_says_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = engine.iteration_cap
    monkeypatch.setattr(importlib.import_module(module), name, 1)
    # Answers nearly without noise, or utilities that are large beside it.
    likelihood = PairwiseProbitLikelihood(1e-3) if engine.boxed else None
    scale = 2.0 if engine.boxed else 1e3
    model = engine(
        POINTS, PAIRS, likelihood=likelihood, covar_module=kernel(outputscale=scale)
    )
    message = rf"{engine.cls.__name__} did not converge: after \d+ iterations .*\d"
    with pytest.warns(InferenceWarning, match=message):
        model.train().log_evidence()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InferenceWarning)
        known = model.diagnostics()
    assert known["converged"] is False
    assert known["iterations"] <= 2
    assert known["residual"] > 1e-3


def test_diagnostics_of_a_converged_model(engine: Engine) -> None:
    model = engine(POINTS, PAIRS)
    known = model.diagnostics()
    assert known["converged"] is True
    assert known["iterations"] >= 1
    assert 0 <= known["residual"] < 1e-5
    torch.testing.assert_close(
        known["log_evidence"], engine(POINTS, PAIRS).log_evidence().detach()
    )
    if engine.num_draws is not None:
        assert known["num_draws"] == engine.num_draws
        assert known["effective_sample_size"] >= engine.num_draws
        assert known["r_hat"] < 1.05


def test_sampling_that_did_not_converge_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = importlib.import_module("botorch_pref.inference.skew.mcmc_stopping")
    monkeypatch.setattr(module, "_R_HAT_TARGET", 0.5)
    model = SkewPreferenceGP(POINTS, PAIRS, num_draws=64)
    with pytest.warns(InferenceWarning, match=r"R-hat is \d.* effective .* of 64"):
        model.posterior(NEW)
    assert model.diagnostics()["converged"] is False


def test_the_exact_model_names_the_engines_that_take_logit() -> None:
    with pytest.raises(
        UnsupportedFeedbackError, match=r"EPPreferenceGP.* LaplacePreferenceGP"
    ):
        SkewPreferenceGP(POINTS, PAIRS, likelihood=PairwiseLogitLikelihood())


def test_ties_have_a_threshold_that_is_learned_by_default(engine: Engine) -> None:
    engine.needs_boxes()
    model = engine(POINTS, Comparisons(PAIRS, ties=PAIRS[:1]))
    (raw,) = [p for n, p in model.named_parameters() if "tie_threshold" in n]
    assert raw.requires_grad
    (gradient,) = torch.autograd.grad(model.log_evidence(), raw)
    assert float(gradient) != 0
    with pytest.raises(FeedbackError, match="no tie threshold; pass"):
        engine(
            POINTS,
            Comparisons(PAIRS, ties=PAIRS[:1]),
            likelihood=PairwiseProbitLikelihood(),
        )


@pytest.mark.parametrize("logit", [False, True], ids=["probit", "logit"])
def test_likelihoods_of_botorch_stand_for_ours(engine: Engine, logit: bool) -> None:
    theirs, ours = (
        getattr(module, f"Pairwise{'Logit' if logit else 'Probit'}Likelihood")
        for module in (botorch_pairwise, botorch_pref)
    )
    if not engine.cls.engine.accepts(ours.explains[Comparisons]):
        with pytest.raises(UnsupportedFeedbackError, match=r"does not take .* under"):
            engine(POINTS, PAIRS, likelihood=theirs())
        return
    expected = moments(engine(POINTS, PAIRS, likelihood=ours()).posterior(NEW))
    for likelihood in (theirs(), {Comparisons: theirs()}):
        model = engine(POINTS, PAIRS, likelihood=likelihood)
        torch.testing.assert_close(moments(model.posterior(NEW)), expected)
        assert type(model.likelihood) is ours


class _OtherLikelihood(botorch_pairwise.PairwiseProbitLikelihood):
    """Might mean anything."""


def test_other_likelihoods_are_refused(engine: Engine) -> None:
    with pytest.raises(
        UnsupportedFeedbackError, match=r"_OtherLikelihood.*botorch_pref does"
    ):
        engine(POINTS, PAIRS, likelihood=_OtherLikelihood())
    with pytest.raises(UnsupportedFeedbackError, match="does not explain Validity"):
        engine(POINTS, PAIRS, likelihood={Validity: PairwiseProbitLikelihood()})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, PAIRS), "no datapoints"),
        ((POINTS.long(), PAIRS), "floating point"),
        ((POINTS.tolist(), PAIRS), "floating point"),
        ((POINTS[0], PAIRS), "expected batch_shape x n x d"),
        ((POINTS[:0], PAIRS), "at least one point"),
        ((POINTS.where(POINTS[3, 1] != POINTS, torch.nan), PAIRS), r"\[3, 1\].*row 3"),
        ((POINTS.where(POINTS[3, 1] != POINTS, torch.inf), PAIRS), r"\[3, 1\].*row 3"),
        ((POINTS, torch.tensor([[0, 1], [2, 7]])), r"\[1, 1\] is 7.*7 datapoints"),
        ((POINTS, torch.tensor([[0, 1], [-1, 2]])), r"\[1, 0\] is -1"),
        ((POINTS, torch.tensor([[0, 1], [2, 2]])), r"\[1\] compares point 2"),
        ((POINTS, PAIRS.double()), "indices"),
        ((POINTS, PAIRS[:0]), "no rows"),
        ((POINTS, PAIRS[:, :1]), "m x 2"),
        (
            (POINTS.expand(2, 7, 2), PAIRS.expand(3, *PAIRS.shape)),
            "does not broadcast",
        ),
    ],
)
def test_data_that_mean_nothing_are_refused(
    engine: Engine, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(FeedbackError, match=message):
        engine(*arguments)


def test_feedback_that_means_nothing_is_refused(engine: Engine) -> None:
    with pytest.raises(FeedbackError, match="2 blocks of Comparisons"):
        engine(POINTS, PAIRS, feedback=[Comparisons(PAIRS)])
    with pytest.raises(FeedbackError, match="wrap answers in a container"):
        engine(POINTS, feedback=[PAIRS])
    with pytest.raises(FeedbackError, match="pass a sequence"):
        engine(POINTS, feedback=Comparisons(PAIRS))
    if engine.boxed:
        with pytest.raises(FeedbackError, match="indices"):
            engine(POINTS, feedback=[Validity(torch.tensor([9]), torch.tensor([True]))])
    model = engine(POINTS, PAIRS)
    with pytest.raises(FeedbackError, match=r"there are 1 datapoints"):
        model.set_train_data(POINTS[:1], PAIRS)
    with pytest.raises(FeedbackError, match="strict"):
        model.set_train_data(POINTS[:1], strict=True)
    torch.testing.assert_close(model.train_inputs[0], POINTS)
