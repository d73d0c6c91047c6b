"""Rules by name: what learns from the answers, and what asks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from torch import Generator, Tensor

from benchmarks.suite.cell import Rule
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.rivals import OptunaDashboard, fit_pairwise_gp, qeubo
from botorch_pref.acquisition import (
    ChanceConstrained,
    DuelingEIIG,
    DuelingEUBO,
    FeasibilityWeighted,
    HallucinatedModel,
    champion,
)
from botorch_pref.commands.registry import ACQUISITIONS as REGISTERED
from botorch_pref.commands.registry import NOISE, distinct, fit_with_noise, make_fit
from botorch_pref.feedback import Comparisons, Validity
from botorch_pref.likelihoods import PairwiseProbitLikelihood
from botorch_pref.models import (
    DuelKernel,
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewPreferenceGP,
)
from botorch_pref.simulation.duel_loop import Fit, FitTrials, Propose
from botorch_pref.simulation.proposals import (
    ChosenDuels,
    MakeAcquisition,
    RandomChallengers,
)


def fit_rival_prior(datapoints: Tensor, comparisons: Comparisons) -> Model:
    """EP with the prior of optuna-dashboard: Matern-3/2, scale 1, learned noise."""
    dim = datapoints.shape[-1]
    kernel = MaternKernel(
        nu=1.5,
        ard_num_dims=dim,
        lengthscale_prior=GammaPrior(5.0, 10.0),
        lengthscale_constraint=GreaterThan(1e-4),
    )
    threshold = None if comparisons.ties is None else 0.1
    # Its Gamma(5, 50) is of the noise of a difference, twice that of an item.
    likelihood = PairwiseProbitLikelihood(
        0.05, threshold, noise_prior=GammaPrior(5.0, 100.0)
    )
    model = EPPreferenceGP(
        datapoints, comparisons, covar_module=kernel, likelihood=likelihood
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model


def known_fit(model_class: type[PreferenceGP]) -> Fit:
    """A model that keeps the hyper-parameters of Benavoli et al. (2021, section 4).

    A lengthscale of 0.35 on [-2.6, 2.6], and a kernel variance of 1 / 0.02 beside unit
    noise of a difference, with which the skewness that they print comes out.

    Args:
        model_class: The engine.
    """

    def fit(datapoints: Tensor, comparisons: Comparisons) -> Model:
        kernel = ScaleKernel(RBFKernel()).to(datapoints)
        kernel.outputscale = 1 / 0.02
        kernel.base_kernel.lengthscale = 0.35 / 5.2
        likelihood = PairwiseProbitLikelihood(noise=0.5)
        return model_class(
            datapoints, comparisons, covar_module=kernel, likelihood=likelihood
        ).eval()

    return fit


def best_under_the_draw(model: PreferenceGP, X_ref: Tensor) -> DuelingEUBO:
    """A believer's expected improvement over the best point of the draw itself."""
    believed = HallucinatedModel(model)
    return DuelingEUBO(believed, champion(believed))


def mixed_fit(model_class: type[PreferenceGP]) -> FitTrials:
    """One utility, valid above zero (Benavoli et al. 2021, section 3.2).

    Kernel and noise of comparisons are those of the models that hear of a penalty.

    Args:
        model_class: The engine.
    """

    def fit(datapoints: Tensor, comparisons: Comparisons, validity: Validity) -> Model:
        model = model_class(
            datapoints,
            comparisons,
            feedback=[validity],
            likelihood={Comparisons: PairwiseProbitLikelihood(NOISE)},
            covar_module=DuelKernel(datapoints.shape[-1]),
        )
        fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
        return model

    return fit


def fit_apart(
    datapoints: Tensor, comparisons: Comparisons, validity: Validity
) -> Model:
    """A utility of what was compared, and validity with a model of its own."""
    blocks = (comparisons.pairs, comparisons.ties)
    seen = torch.cat([block for block in blocks if block is not None]).unique()
    place = torch.full((len(datapoints),), -1)
    place[seen] = torch.arange(len(seen))
    compared = comparisons.map_tensors(lambda block: place[block])
    model = make_fit("ep")(datapoints[seen], compared)
    feasibility = EPPreferenceGP(datapoints, feedback=[validity])
    fit_gpytorch_mll(
        PreferenceMarginalLogLikelihood(feasibility.likelihood, feasibility)
    )
    model.feasibility_model = feasibility
    return model


def weighted(model: Model, X_ref: Tensor) -> FeasibilityWeighted:
    """Information of the default, weighted by the probability of a valid trial."""
    return FeasibilityWeighted(
        REGISTERED["eiig"](model, X_ref), model.feasibility_model
    )


def constrained(model: Model, X_ref: Tensor) -> ChanceConstrained:
    """The same, among points that are valid with probability 0.9."""
    return ChanceConstrained(REGISTERED["eiig"](model, X_ref), model.feasibility_model)


TRIALS: dict[str, FitTrials] = {
    "ep-mixed": mixed_fit(EPPreferenceGP),
    "skew-mixed": mixed_fit(SkewPreferenceGP),
    "ep-apart": fit_apart,
}
"""Models that hear which trials are valid, by name; others hear of a penalty."""


def fit_default_prior(datapoints: Tensor, comparisons: Comparisons) -> Model:
    """EP with the kernel and the likelihood that models have where none are named."""
    model = EPPreferenceGP(datapoints, comparisons)
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    return model


LEARNING = ("ep", "laplace", "skew")

MODELS: dict[str, Fit] = {
    "ep-known": known_fit(EPPreferenceGP),
    "laplace-known": known_fit(LaplacePreferenceGP),
    "laplace-little-noise": fit_with_noise(LaplacePreferenceGP, NOISE),
    "skew-known": known_fit(SkewPreferenceGP),
    "ep-default-prior": fit_default_prior,
    "ep-rival-prior": fit_rival_prior,
    "pairwise-gp": fit_pairwise_gp,
}
"""Models by name, beside those of `LEARNING`, which are as the command line makes them:
with the noise of a judge who never errs, or of one who does. ``-known`` ones do not
learn their hyper-parameters; ``laplace-little-noise`` has the noise that the command
line gives the others for a judge who never errs."""


def make_model(name: str, errs: bool) -> Fit | FitTrials:
    """The function that fits the model of a name.

    Args:
        name: One of `LEARNING`, `MODELS` or `TRIALS`.
        errs: Whether the judge errs.
    """
    if name in LEARNING:
        return make_fit(name, errs=errs)
    return (MODELS | TRIALS)[name]


_OURS: dict[str, MakeAcquisition] = {
    **REGISTERED,
    "eiig-0.1": partial(DuelingEIIG, k=0.1),
    "eiig-0.5": partial(DuelingEIIG, k=0.5),
    "eiig-weighted": weighted,
    "eiig-constrained": constrained,
    "hbei-own-best": best_under_the_draw,
}

ACQUISITIONS: dict[str, MakeAcquisition] = {
    **{name: distinct(make) for name, make in _OURS.items()},
    "qeubo": qeubo,
}
"""Those of the command line, and more, with its smallest difference; BoTorch's as it
is."""

RANDOM = "random"
"""Random points meet the incumbent."""

OPTUNA = Rule("optuna", "sampler")
"""optuna-dashboard, which is model and acquisition function in one."""


@dataclass(frozen=True)
class Player:
    """Both halves of a rule in a run.

    Attributes:
        propose: Chooses the next duel.
        fit: Makes the model of the answers.
        hears_validity: Whether it takes labels of valid trials.
    """

    propose: Propose
    fit: Fit | FitTrials
    hears_validity: bool = False


def make_player(
    rule: Rule, dim: int, errs: bool, num_random: int, generator: Generator
) -> Player:
    """Makes the player of a rule.

    Args:
        rule: Its names.
        dim: Number of inputs `d`.
        errs: Whether the judge errs.
        num_random: How many duels start the run at random.
        generator: Source of the random duels, which are its first draws under every
            rule, and of all that is drawn later.
    """
    if rule == OPTUNA:
        rival = OptunaDashboard(dim, num_random, generator)
        return Player(rival, rival.fit)
    propose: Propose
    if rule.acquisition == RANDOM:
        propose = RandomChallengers(dim, num_random, generator)
    else:
        make = ACQUISITIONS[rule.acquisition]
        propose = ChosenDuels(dim, num_random, rule.acquisition, make, generator)
    fit = make_model(rule.model, errs)
    return Player(propose, fit, hears_validity=rule.model in TRIALS)


def needs(rule: Rule) -> str:
    """Software that a rule needs and that is not installed; empty if none is."""
    missing = rule == OPTUNA and find_spec("optuna_dashboard") is None
    return "optuna-dashboard" if missing else ""


def check_rule(rule: Rule) -> None:
    """Checks that the names of a rule are known.

    Raises:
        SuiteError: One is not; the message lists those that are.
    """
    if rule == OPTUNA:
        return
    tables = (
        ("model", rule.model, [*LEARNING, *MODELS, *TRIALS]),
        ("acquisition", rule.acquisition, [*ACQUISITIONS, RANDOM]),
    )
    for what, name, known in tables:
        if name not in known:
            names = ", ".join(sorted(known))
            raise SuiteError(f"unknown {what} {name!r}: there are {names}")
