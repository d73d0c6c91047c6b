"""Errors of a new user, answered in words."""

import importlib
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from ax.core.arm import Arm
from ax.core.generator_run import GeneratorRun
from ax.exceptions.core import AxParameterWarning
from parameters import choice, real, whole
from showing import A, B, tell, triangle

from botorch_pref import Comparisons, PairwiseProbitLikelihood
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import ExperimentError, StorageError

X = real("x")
CUP = choice("cup", [40, 60, 100], is_ordered=True)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"parameters": []}, "give a list of RangeParameterConfig"),
        ({"parameters": X}, "give a list of RangeParameterConfig"),
        ({"parameters": [{"name": "x"}]}, "give a list of RangeParameterConfig"),
        ({"parameters": [X, X]}, "must be unique"),
        (
            {"parameters": [X, replace(CUP, dependent_parameters={40: ["x"]})]},
            "'cup' has dependent_parameters",
        ),
        ({"parameters": [X, replace(X, name="")]}, r"name '' at 1 .*give the"),
        ({"parameters": [replace(X, name=" ")]}, "name ' ' at 0"),
        ({"parameters": [replace(X, name=None)]}, "name None at 0"),
        ({"parameters": [replace(X, name="a\0b")]}, r"name 'a\\x00b' at 0.*NUL"),
        ({"parameters": [X, choice("y", ["a", "b\0"])]}, "values of 'y' is 'b.*NUL"),
        (
            {"parameters": [real("caf\u00e9"), real("cafe\u0301")]},
            r"'caf\\xe9' and 'cafe\\u0301' look the same",
        ),
        (
            {"parameters": [X, choice("y", ["\u00e9", "e\u0301", "f"], False)]},
            "values of 'y' has .* look the same",
        ),
        ({"parameters": [whole("n", 0, 2**53 + 1)]}, "bounds of 'n' .*differ by one"),
        ({"parameters": [whole("n", -(2**53), 1)]}, "bounds of 'n' .*differ by one"),
        ({"parameters": [whole("n", 0, 2**64)]}, "bounds of 'n' .*differ by one"),
        ({"parameters": [choice("n", [1, 2**63])]}, "values of 'n' .*or texts"),
        ({"name": "a\0b"}, "give the experiment a name.*NUL"),
        ({"parameter_constraints": "x <= 1"}, "give a list of texts"),
        ({"parameter_constraints": ["x + z <= 1"]}, "there is no parameter 'z'"),
        ({"parameters": [replace(X, name="x\0")]}, "name 'x.x00' at 0"),
        ({"parameters": [choice("cup", ["a", "b\0"])]}, "values of 'cup' is 'b.x00'"),
        ({"name": "x\0"}, "give the experiment a name"),
        ({"name": ""}, "give the experiment a name"),
        ({"name": None}, "give the experiment a name"),
        ({"model": "PairwiseGP"}, "no model 'PairwiseGP'.*EPPreferenceGP"),
        ({"acquisition": "qEI"}, "no acquisition function 'qEI'.*DuelingEIIG"),
        ({"acquisition": "FeasibilityWeighted"}, "no acquisition function"),
        ({"initial": 0}, "initial is 0"),
        ({"seed": -1}, "seed is -1"),
        *(({"repeat_rate": rate}, "repeat_rate is") for rate in (-0.1, 1.5)),
        ({"raters": "both"}, "raters is 'both'; give 'pool' or 'share'"),
        (
            {"raters": "share", "model": "FullyBayesianEPPreferenceGP"},
            "no kernel of raters",
        ),
        (
            {
                "model": "SkewPreferenceGP",
                "model_options": {"likelihood": "PairwiseLogitLikelihood"},
            },
            "does not take Comparisons under PairwiseLogitLikelihood",
        ),
        ({"model_options": {"likelihood": "Probit"}}, "no likelihood or prior"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"sed": 1}, "no setting sed"),
        ({"num_levels": 1}, "num_levels is 1"),
        ({"initial": np.array(3)}, "initial is"),
        ({"num_levels": 2.0}, "num_levels is"),
    ],
)
def test_an_experiment_that_cannot_be_is_refused(arguments, match, tmp_path) -> None:
    defaults = {"name": "x", "parameters": [X], "storage": tmp_path / "x.db"}
    with pytest.raises(ExperimentError, match=match):
        PreferenceExperiment.create(**defaults | arguments)
    assert not (tmp_path / "x.db").exists()


def test_numbers_may_be_of_numpy(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    numbers = {"initial": np.int64(3), "seed": np.uint32(7), "num_levels": np.int8(4)}
    experiment = triangle(path, **numbers)
    question = experiment.ask(np.int64(2))
    experiment.tell(np.int64(question.index), winner=np.int64(1))
    again = PreferenceExperiment.resume("triangle", storage=path)
    assert again.settings == experiment.settings
    assert again.num_levels == 4
    with pytest.raises(ExperimentError, match="anywhere is 'no'"):
        again.recommend(anywhere="no")
    for size in (2.0, True, "2", np.array(2)):
        with pytest.raises(ExperimentError, match="size is"):
            again.ask(size)


def test_a_database_without_its_driver_is_said_so(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StorageError, match="driver psycopg"):
        triangle("postgresql+psycopg://user:secret@localhost/database")


def test_without_ax_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ax", None)
    monkeypatch.delitem(sys.modules, "botorch_pref.ax")
    with pytest.raises(ImportError, match=r"need ax: pip install .botorch-pref.ax"):
        importlib.import_module("botorch_pref.ax")


def test_without_ax_page_and_widget_name_their_extras(monkeypatch) -> None:
    importlib.import_module("botorch_pref.web")
    monkeypatch.delattr("botorch_pref.web")
    for name in list(sys.modules):
        if re.match(r"(ax|botorch_pref\.ax|botorch_pref\.web)(\.|$)", name):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ax", None)
    web = importlib.import_module("botorch_pref.web")
    for name in web.__all__:
        extra = "widget" if name == "QuestionWidget" else "web"
        needed = rf"^{name} needs ax\S*: pip install 'botorch-pref\[ax,{extra}\]'$"
        with pytest.raises(ImportError, match=needed):
            getattr(web, name)


N = whole("n", 0, 3)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"acquisition_options": {"k": 1}}, "name the acquisition function that"),
        (
            {"acquisition": "DuelingUCB", "acquisition_options": {"kk": 1}},
            r"acquisition_options=\{'kk': 1\}.*kk",
        ),
        (
            {"acquisition": "DuelingEIIG", "acquisition_options": {"k": "much"}},
            "DuelingEIIG.*acquisition_options=",
        ),
        ({"acquisition_options": [0.5]}, "acquisition_options is .*dictionary"),
        (
            {"model_options": {"likelihood": PairwiseProbitLikelihood()}},
            r"(?s)model_options\['likelihood'\] is PairwiseProbit.*cannot be stored",
        ),
        (
            {"model_options": {"likelihood": {"Comparisons": object()}}},
            r"model_options\['likelihood'\]\['Comparisons'\] is .*cannot be stored",
        ),
        ({"model_options": {3: 4}}, "model_options has an option 3; name it"),
        ({"model_options": {"noise": 0.1}}, "model_options=.*noise"),
        ({"model_options": {"covar_module": "rbf"}}, "no kernel 'rbf'.*RBFKernel"),
        (
            {"fit_options": {"maxiter": 10}},
            "fit_options has maxiter; .*optimizer_kwargs",
        ),
        ({"optimizer_options": {"q": 3}}, "optimizer_options has q; .*num_restarts"),
        (
            {
                "model": "FullyBayesianEPPreferenceGP",
                "fit_options": {"max_attempts": 2},
            },
            "fit_options has max_attempts; .*warmup_steps",
        ),
    ],
)
def test_options_are_refused_before_they_are_used(options, match, tmp_path) -> None:
    with pytest.raises(ExperimentError, match=match):
        triangle(tmp_path / "x.db", **{"optimizer_options": {}, **options})
    assert not (tmp_path / "x.db").exists()


def test_options_are_kept_as_stores_give_them_back(tmp_path) -> None:
    path = tmp_path / "triangle.db"
    experiment = triangle(
        path,
        model_options={
            "likelihood": {
                Comparisons: {PairwiseProbitLikelihood: {"noise": np.float64(0.5)}}
            }
        },
        fit_options={"optimizer_kwargs": {"options": {"maxiter": np.int64(10)}}},
        optimizer_options={"num_restarts": 1, "options": {"sizes": (1, np.float32(2))}},
    )
    again = PreferenceExperiment.resume("triangle", storage=path)
    assert again.settings == experiment.settings
    assert again.settings.optimizer_options["options"] == {"sizes": [1, 2.0]}


@pytest.mark.parametrize(
    ("parameters", "constraints", "match"),
    [
        ([X, N], ["x + n <= -0.5"], r"ranges.* x \+ n <= -0.5\."),
        ([X, N], ["x + n <= 1", "x + n >= 3"], r"all of .*<= 1, .*<= -3"),
        # The ranges allow it, whole numbers do not.
        ([X, N], ["2*n <= 1.5", "2*n >= 0.5"], "no design satisfies all of"),
        # Between 60 and 100 there is no cup.
        ([X, CUP], ["cup <= 85", "cup >= 65"], "no design satisfies all of"),
        ([X, CUP], ["cup + x <= 85", "cup + x >= 61.5"], "no design satisfies all of"),
    ],
)
def test_constraints_that_nothing_satisfies_are_refused(
    parameters, constraints, match, tmp_path
) -> None:
    def create(constraints: list[str]) -> PreferenceExperiment:
        return PreferenceExperiment.create(
            "x",
            parameters=parameters,
            parameter_constraints=constraints,
            storage=tmp_path / "x.db",
        )

    with pytest.raises(ExperimentError, match=match):
        create(constraints)
    assert not (tmp_path / "x.db").exists()
    create(["x <= 0.5"])


def test_trials_that_somebody_else_added_are_refused(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B], winner=0)
    calls = {
        "experiment": lambda: experiment.experiment,
        "report": lambda: experiment.report(),
        "ask": lambda: experiment.ask(2),
    }
    for call in calls.values():
        ax = experiment.experiment
        ax.new_batch_trial(GeneratorRun([Arm({"a": 0.1, "b": 0.3})])).mark_running(
            no_runner_required=True
        )
        with pytest.raises(ExperimentError, match=r"added to Ax's .*by ask.*by record"):
            call()
        # It was not kept, and what the log has is there again.
        assert len(experiment.experiment.trials) == 1
    experiment.ask(2)
    again = PreferenceExperiment.resume("triangle", storage=tmp_path / "triangle.db")
    assert len(again.experiment.trials) == 2


def test_a_warning_that_is_an_error_names_itself(tmp_path) -> None:
    with pytest.raises(AxParameterWarning, match="is_ordered"):
        PreferenceExperiment.create(
            "two", parameters=[X, choice("cup", [40, 60])], storage=tmp_path / "two.db"
        )
    assert not (tmp_path / "two.db").exists()
