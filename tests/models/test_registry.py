"""The list of models, and models of a user's own in it."""

import inspect

import pytest
from botorch.models.model import Model

from botorch_pref import class_table, models
from botorch_pref.errors import BotorchPrefError
from botorch_pref.inference import Laplace
from botorch_pref.models import (
    AveragedUtility,
    CrowdPreferenceGP,
    EPPreferenceGP,
    GroupUtility,
    PreferenceGP,
    UtilityModel,
    register_model,
)
from botorch_pref.models.answer_likelihoods import registered_models


@pytest.fixture(autouse=True)
def _forgotten_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_table, "_TABLE", dict(class_table._TABLE))


def test_every_exported_model_of_answers_is_registered() -> None:
    exported = {getattr(models, name) for name in models.__all__}
    model_classes = {e for e in exported if inspect.isclass(e) and issubclass(e, Model)}
    assert {entry.cls for entry in registered_models()} == model_classes - {
        AveragedUtility,
        PreferenceGP,
        CrowdPreferenceGP,
        GroupUtility,
        UtilityModel,
    }


def test_a_model_of_ones_own_is_listed() -> None:
    class Own(EPPreferenceGP):
        pass

    assert register_model("own")(Own) is Own
    register_model("own")(Own)
    assert [e.name for e in registered_models() if e.cls is Own] == ["own"]


@pytest.mark.parametrize(
    ("name", "class_name"), [("ep", "Other"), (None, "EPPreferenceGP")]
)
def test_a_name_that_is_taken_is_refused(name: str | None, class_name: str) -> None:
    custom_class = type(class_name, (EPPreferenceGP,), {})
    with pytest.raises(ValueError, match=r"EPPreferenceGP.*'ep'"):
        register_model(name)(custom_class)


def test_a_decorator_without_its_call_is_refused() -> None:
    """It would put a function in the place of the class."""
    with pytest.raises(TypeError, match="@register_model"):
        register_model(EPPreferenceGP)


@pytest.mark.parametrize("candidate", [3, dict, EPPreferenceGP()])
def test_only_classes_of_models_are_registered(candidate: object) -> None:
    with pytest.raises(TypeError, match="registers classes of BoTorch models"):
        register_model("own")(candidate)


@pytest.mark.parametrize("engine", [None, "laplace", Laplace])
def test_a_model_needs_an_engine(engine: object) -> None:
    model_class = type("Own", (PreferenceGP,), {"engine": engine})
    with pytest.raises(TypeError, match=r"Own\.engine is .*; give the class"):
        model_class()
    with pytest.raises(TypeError, match=r"PreferenceGP\.engine is None"):
        PreferenceGP()


def test_without_datapoints_there_is_no_prior_of_their_utilities() -> None:
    with pytest.raises(BotorchPrefError, match="no datapoints"):
        EPPreferenceGP().prior()
