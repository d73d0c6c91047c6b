"""The names that the package promises, and their documentation."""

import importlib
import inspect
import warnings
from typing import Any

import pytest

import botorch_pref
import botorch_pref.acquisition
import botorch_pref.datasets
import botorch_pref.evaluation
import botorch_pref.feedback
import botorch_pref.inference
import botorch_pref.likelihoods
import botorch_pref.linalg
import botorch_pref.models
import botorch_pref.plotting
import botorch_pref.posteriors
import botorch_pref.simulation
from botorch_pref.acquisition.registration import registered_acquisitions
from botorch_pref.likelihoods.base import registered_likelihoods
from botorch_pref.models.answers import registered_models

with warnings.catch_warnings():
    # Ax imports its own old names.
    warnings.filterwarnings("ignore", "ax.service", DeprecationWarning)
    import botorch_pref.ax
    import botorch_pref.web

PROMISED = {
    "Comparisons",
    "Choices",
    "Rankings",
    "Validity",
    "OrdinalRatings",
    "Strengths",
    "Ratings",
    "PairwiseProbitLikelihood",
    "PairwiseLogitLikelihood",
    "PairwiseBetaLikelihood",
    "BetaRatingLikelihood",
    "AffineProbitLikelihood",
    "OrdinalProbitLikelihood",
    "PlackettLuceLikelihood",
    "LaplacePreferenceGP",
    "EPPreferenceGP",
    "SkewPreferenceGP",
    "VariationalPreferenceGP",
    "PlackettLuceRegression",
    "PreferenceMarginalLogLikelihood",
    "SkewNormalPosterior",
    "DuelingUCB",
    "DuelingThompson",
    "DuelingEIIG",
    "incumbent",
}

# Beyond the design's list.
MORE = {
    "ChanceConstrained",
    "DistinctOptions",
    "DuelKernel",
    "DuelSampler",
    "DuelingBALD",
    "DuelingEUBO",
    "DuelingExploringEIIG",
    "DuelingHBEI",
    "DuelingHBUCB",
    "DuelingKG",
    "DuelingMUC",
    "DuelingTailedEI",
    "FeasibilityWeighted",
    "FullyBayesianEPPreferenceGP",
    "FullyBayesianLaplacePreferenceGP",
    "HallucinatedModel",
    "champion",
    "champion_index",
    "choice_probability",
    "incumbent_index",
    "log_validity_probability",
}

# What stands in a list of the package, and the part that exports it.
LISTED = {
    listed.__name__: importlib.import_module(".".join(listed.__module__.split(".")[:2]))
    for listed in (
        *(entry.acquisition_class for entry in registered_acquisitions()),
        *(entry.model_class for entry in registered_models()),
        *registered_likelihoods().values(),
    )
    # Other tests register classes of their own.
    if listed.__module__.startswith("botorch_pref.")
}

# Designed, not built yet.
LATER: set[str] = set()

ERRORS = {
    "BotorchPrefError",
    "ExperimentError",
    "FeedbackError",
    "InferenceWarning",
    "PrecisionError",
    "StorageError",
    "UnsupportedFeedbackError",
}

PUBLIC_PARTS = [
    botorch_pref,
    botorch_pref.acquisition,
    botorch_pref.ax,
    botorch_pref.datasets,
    botorch_pref.evaluation,
    botorch_pref.feedback,
    botorch_pref.inference,
    botorch_pref.likelihoods,
    botorch_pref.linalg,
    botorch_pref.models,
    botorch_pref.plotting,
    botorch_pref.posteriors,
    botorch_pref.simulation,
    botorch_pref.web,
]


def _exported() -> list[Any]:
    cases = {}
    for part in PUBLIC_PARTS:
        for name in part.__all__:
            value = getattr(part, name)
            cases[f"{value.__module__}.{name}"] = value
    return [pytest.param(value, id=name) for name, value in sorted(cases.items())]


def test_the_promised_names_are_there_and_no_others() -> None:
    assert LATER < PROMISED
    promised = (PROMISED - LATER) | MORE | ERRORS
    exported = set(botorch_pref.__all__)
    assert promised <= exported
    assert exported - promised <= LISTED.keys()


@pytest.mark.parametrize("name", LISTED)
def test_what_can_be_named_is_exported_by_its_part(name: str) -> None:
    assert name in LISTED[name].__all__


def test_what_comes_later_is_not_there_yet() -> None:
    built = sorted(name for name in LATER if hasattr(botorch_pref, name))
    assert not built, f"take {built} off the list LATER"


@pytest.mark.parametrize("part", PUBLIC_PARTS, ids=lambda part: part.__name__)
def test_exported_names_are_sorted_and_exist(part: Any) -> None:
    assert list(part.__all__) == sorted(part.__all__)
    assert all(hasattr(part, name) for name in part.__all__)


def _is_ours(member: Any) -> bool:
    module = getattr(member, "__module__", None) or ""
    return module.startswith("botorch_pref")


@pytest.mark.parametrize("public", _exported())
def test_everything_public_is_documented(public: Any) -> None:
    assert inspect.cleandoc(public.__doc__ or "")
    if not inspect.isclass(public):
        return
    for name, member in vars(public).items():
        function = member.fget if isinstance(member, property) else member
        if isinstance(function, classmethod | staticmethod):
            function = function.__func__
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if _is_ours(function):
            assert function.__doc__, f"{public.__name__}.{name}"


@pytest.mark.parametrize("public", _exported())
def test_every_parameter_of_a_public_function_is_described(public: Any) -> None:
    if inspect.isclass(public):
        owner = public.__mro__[
            [("__init__" in vars(c)) for c in public.__mro__].index(True)
        ]
        if not _is_ours(owner) or owner.__name__ != public.__name__:
            pytest.skip("Its constructor is that of a base class.")
        text, signature = public.__doc__, inspect.signature(owner.__init__)
    else:
        text, signature = public.__doc__, inspect.signature(public)
    for name in signature.parameters:
        if name not in ("self", "args", "kwargs", "_"):
            assert f"{name}:" in text or f"``{name}``" in text, name
