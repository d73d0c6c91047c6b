"""The names that the package promises, their documentation, and their import."""

import inspect
import subprocess
import sys
from importlib import import_module
from typing import Any

import botorch_pref
from botorch_pref.acquisition.registration import registered_acquisitions
from botorch_pref.likelihoods.protocol import registered_likelihoods
from botorch_pref.models.answer_likelihoods import registered_models

FOLDERS = """
    acquisition ax datasets evaluation feedback inference likelihoods linalg models
    optuna plotting posteriors simulation web
"""
PUBLIC_PARTS = [
    botorch_pref,
    *(import_module(f"botorch_pref.{name}") for name in FOLDERS.split()),
]

PROMISED = """
AffineProbitLikelihood BetaRatingLikelihood BotorchPrefError ChanceConstrained
Choices Comparisons DistinctOptions DuelKernel DuelSampler DuelingBALD DuelingEIIG
DuelingEUBO DuelingExploringEIIG DuelingHBEI DuelingHBUCB DuelingJointEUBO
DuelingJointKG DuelingKG DuelingMUC
DuelingTailedEI DuelingThompson DuelingUCB EPPreferenceGP ExperimentError
FeasibilityWeighted FeedbackError FullyBayesianEPPreferenceGP
FullyBayesianLaplacePreferenceGP HallucinatedModel InferenceWarning
LaplacePreferenceGP LineChoices LineLogitLikelihood LineProbitLikelihood LineQuestion
OrdinalProbitLikelihood OrdinalRatings PairwiseBetaLikelihood
PairwiseLogitLikelihood PairwiseProbitLikelihood PlackettLuceLikelihood
PlackettLuceRegression PrecisionError PreferenceMarginalLogLikelihood Rankings
Ratings Recommendation SkewNormalPosterior SkewPreferenceGP StorageError Strengths
UnsupportedFeedbackError Validity VariationalPreferenceGP champion champion_index
choice_probability default_model incumbent incumbent_index log_validity_probability
next_question Question recommend
"""

# What stands in a list of the package, and the part that exports it.
LISTED = {
    listed.__name__: import_module(".".join(listed.__module__.split(".")[:2]))
    for listed in (
        *(entry.cls for entry in registered_acquisitions()),
        *(entry.cls for entry in registered_models()),
        *registered_likelihoods().values(),
    )
    # Other tests register classes of their own.
    if listed.__module__.startswith("botorch_pref.")
}


def _exported() -> dict[str, Any]:
    exported = {}
    for part in PUBLIC_PARTS:
        for name in part.__all__:
            value = getattr(part, name)
            exported[f"{value.__module__}.{name}"] = value
    return exported


def test_the_promised_names_are_there_and_no_others() -> None:
    exported, promised = set(botorch_pref.__all__), set(PROMISED.split())
    assert exported >= promised
    assert exported - promised <= LISTED.keys()
    assert [name for name, part in LISTED.items() if name not in part.__all__] == []
    for part in PUBLIC_PARTS:
        assert list(part.__all__) == sorted(part.__all__), f"{part} is not in order"
        missing = [name for name in part.__all__ if not hasattr(part, name)]
    assert not missing, f"{part} lists {missing} and has them not"


def _is_ours(member: Any) -> bool:
    module = getattr(member, "__module__", None) or ""
    return module.startswith("botorch_pref")


def test_everything_public_is_documented() -> None:
    silent = []
    for path, public in _exported().items():
        members = vars(public) if inspect.isclass(public) else {}
        functions = {
            f"{path}.{name}": getattr(public, name)
            if not isinstance(member, property)
            else member.fget
            for name, member in members.items()
            if not name.startswith("_")
        }
        ours = {
            name: function
            for name, function in functions.items()
            if inspect.isroutine(function) and _is_ours(function)
        }
        documented = {path: public, **ours}
        silent += [
            name
            for name, documented_object in documented.items()
            if not documented_object.__doc__
        ]
    assert silent == []


def _undescribed(public: Any) -> list[str]:
    """Lists parameters that a docstring does not name, but for a base class's."""
    function = public
    if inspect.isclass(public):
        owner = next(cls for cls in public.__mro__ if "__init__" in vars(cls))
        if owner is not public:
            return []
        function = public.__init__
    names = set(inspect.signature(function).parameters) - {"self", "args", "kwargs"}
    text = public.__doc__
    return [n for n in names - {"_"} if f"{n}:" not in text and f"``{n}``" not in text]


def test_every_parameter_of_a_public_function_is_described() -> None:
    undescribed = {
        path: _undescribed(documented_object)
        for path, documented_object in _exported().items()
    }
    assert {path: names for path, names in undescribed.items() if names} == {}


# BoTorch's input constructors bring NUTS in JAX and SciPy's distributions.
LEFT_OUT = (
    "ax",
    "botorch.acquisition.input_constructors",
    "botorch.models.fully_bayesian",
    "jax",
    "matplotlib",
    "numpyro",
    "optuna",
    "pandas",
    "scipy.stats",
    "sqlalchemy",
)

PROGRAM = f"""
import sys
import botorch_pref
from botorch_pref import EPPreferenceGP

found = [name for name in {LEFT_OUT} if name in sys.modules]
assert not found, found
assert set(botorch_pref.__all__) <= set(dir(botorch_pref))
assert not hasattr(botorch_pref, "DuelingNothing")

from botorch_pref import *
from botorch.acquisition.input_constructors import get_acqf_input_constructor

for kind in (DuelingEIIG, FeasibilityWeighted):
    assert callable(get_acqf_input_constructor(kind))
assert botorch_pref.acquisition.DuelingEIIG is DuelingEIIG
assert all(name in globals() for name in botorch_pref.__all__)
"""


def test_importing_the_package_leaves_out_what_it_does_not_use() -> None:
    """Where BoTorch's input constructors are imported later, they know our classes."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
