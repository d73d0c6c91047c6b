"""Our parts in Ax's own hands: strategies, storage and the client."""

import json
import warnings

import pytest
import torch
from ax.adapter.registry import Generators, MBM_X_trans_base
from ax.api.client import Client
from ax.core.arm import Arm
from ax.exceptions.core import UnsupportedError
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from espresso import QUICK_FIT, better, create
from parameters import real
from showing import A, B, tell, triangle

from botorch_pref import class_table
from botorch_pref.acquisition import (
    DifferenceAcquisition,
    FeasibilityWeighted,
    incumbent,
    register_acquisition,
)
from botorch_pref.ax import (
    PreferenceExperiment,
    PreferenceGenerators,
    Settings,
    preference_generation_strategy,
)
from botorch_pref.ax.naming import duel_classes, model_classes
from botorch_pref.errors import ExperimentError
from botorch_pref.models import PreferenceMarginalLogLikelihood

FEW_STARTS = {"num_restarts": 1, "raw_samples": 8}


def through_json(strategy):
    return object_from_json(json.loads(json.dumps(object_to_json(strategy))))


@pytest.mark.parametrize(
    ("model", "acquisition"),
    [
        *((model, "DuelingEIIG") for model in sorted(model_classes())),
        *(("SkewPreferenceGP", acquisition) for acquisition in sorted(duel_classes())),
    ],
)
def test_strategies_come_back_from_ax_storage(model, acquisition) -> None:
    settings = Settings(model=model, acquisition=acquisition, seed=3)
    strategy = preference_generation_strategy(settings)
    read = through_json(strategy)
    strategy._unset_non_persistent_state_fields()
    assert read == strategy
    (spec,) = read._nodes[1].generator_specs
    assert spec.generator_enum is PreferenceGenerators.PREFERENCE
    assert spec.generator_kwargs["botorch_acqf_class"] is duel_classes()[acquisition]


def test_every_acquisition_function_is_stored_by_name() -> None:
    for acquisition in (*duel_classes().values(), FeasibilityWeighted):
        assert through_json({"class": acquisition}) == {"class": acquisition}


def test_arms_are_those_of_ax(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    tell(experiment, [A, B], winner=0)
    trial = experiment.experiment.trials[0]
    designs = [{"a": a, "b": b} for a, b in (A, B)]
    arms = [trial.arms_by_name[name] for name in ("0_0", "0_1")]
    for arm, design in zip(arms, designs, strict=True):
        plain = Arm(design, name=arm.name)
        assert arm == plain
        assert plain == arm
        assert arm != Arm(design, name="another")
        assert arm != Arm({"a": 0.5, "b": 1.0}, name=arm.name)
        assert arm != design
        assert arm.signature == plain.signature
        assert hash(arm) == hash(plain)
        assert arm.clone(clear_name=True).signature == plain.signature
        stored = through_json(arm)
        assert type(stored) is Arm
        assert stored == plain


@pytest.mark.slow
def test_a_strategy_that_was_stored_asks_on(played) -> None:
    strategy = through_json(preference_generation_strategy(played.settings))
    run = strategy.gen_single_trial(played.experiment, n=2)
    assert run._generation_node_name == "model"
    assert len(run.arms) == 2
    signatures = {arm.signature for arm in played.experiment.arms_by_name.values()}
    assert [arm.signature in signatures for arm in run.arms] == [False, False]
    strategy = preference_generation_strategy(played.settings, size=3)
    of_three = strategy.gen_single_trial(played.experiment, n=3)
    # The reference, an option that nobody beat, and a challenger.
    assert [arm.signature in signatures for arm in of_three.arms] == [
        True,
        True,
        False,
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Unknown solver options")
@pytest.mark.usefixtures("short_walks")
def test_our_models_in_the_generator_that_ax_has(played) -> None:
    """Wins alone need no adapter of ours: ``Generators.BOTORCH_MODULAR`` will do."""
    model = model_classes()["EPPreferenceGP"]
    config = ModelConfig(
        botorch_model_class=model,
        mll_class=PreferenceMarginalLogLikelihood,
        mll_options=QUICK_FIT,
    )
    spec = GeneratorSpec(
        Generators.BOTORCH_MODULAR,
        generator_kwargs={
            "surrogate_spec": SurrogateSpec(
                metric_to_model_configs={"pairwise_pref_query": [config]}
            ),
            "botorch_acqf_class": duel_classes()["DuelingEIIG"],
            "transforms": MBM_X_trans_base,
        },
        generator_gen_kwargs={"model_gen_options": {"optimizer_kwargs": FEW_STARTS}},
    )
    experiment = played.experiment
    spec.fit(
        experiment,
        data=experiment.lookup_data().filter(metric_names=["pairwise_pref_query"]),
    )
    (fitted,) = spec.fitted_adapter.botorch_model.models
    assert isinstance(fitted, model)
    wins = fitted.comparisons
    means = fitted.posterior(fitted.datapoints).mean.squeeze(-1)
    assert len(wins) == 4
    assert bool((means[wins[:, 0]] > means[wins[:, 1]]).all())
    assert bool(torch.isfinite(means).all())
    assert len(spec.gen(n=1).arms) == 1


@pytest.mark.slow
def test_ax_client_summarises_the_experiment(played) -> None:
    table = played.client().summarize()
    # A row for each option of each question.
    assert len(table) == 2 * len(played.log.questions)
    assert set(table["trial_status"]) == {"COMPLETED"}


@pytest.mark.slow
def test_ax_client_knows_the_best_option(played) -> None:
    client = played.client()
    best, values, index, name = client.get_best_parameterization()
    assert best == played.recommend()
    assert played.experiment.trials[index].arms_by_name[name].parameters == best
    assert index == max(
        i for i, t in played.experiment.trials.items() if name in t.arms_by_name
    )
    predicted = played.predict([best])
    mean, variance = values["pairwise_pref_query"]
    assert mean == pytest.approx(predicted["mean"].item(), rel=1e-6)
    assert variance == pytest.approx(predicted["deviation"].item() ** 2, rel=1e-6)
    with pytest.raises(UnsupportedError, match="none has a number of its own"):
        client.get_best_parameterization(use_model_predictions=False)


def test_a_strategy_without_answers_says_what_ax_needs() -> None:
    """On an experiment of Ax's own, whose trials were completed without data."""
    client = Client()
    client.configure_experiment(parameters=[real("a"), real("b")])
    with warnings.catch_warnings():
        # Of its own, which its client calls.
        warnings.simplefilter("ignore", DeprecationWarning)
        client.configure_optimization(objective="pairwise_pref_query")
    strategy = preference_generation_strategy(Settings(initial=1))
    experiment = client._experiment
    trial = experiment.new_batch_trial(strategy.gen_single_trial(experiment, n=2))
    trial.mark_running(no_runner_required=True).mark_completed()
    with pytest.raises(ExperimentError, match="give trials of two arms data of the"):
        strategy.gen_single_trial(experiment, n=2)


@pytest.mark.slow
def test_an_acquisition_function_of_ones_own_is_asked_by_name(
    tmp_path, monkeypatch
) -> None:
    """Registered after Ax was told of ours, and found again by a resumed experiment."""
    monkeypatch.setattr(class_table, "_TABLE", dict(class_table._TABLE))

    @register_acquisition("mean", reference=incumbent)
    class MeanGain(DifferenceAcquisition):
        def duel_value(self, means, variance):
            return means.mean(0)

    path = tmp_path / "espresso.db"
    experiment = create(path, acquisition=MeanGain, initial=1)
    question = experiment.ask(2)
    experiment.tell(question, winner=better(question))
    names_asked = experiment.ask(2)
    again = PreferenceExperiment.resume("espresso", storage=path)
    assert again.settings.acquisition == "MeanGain"
    assert again.pending == [names_asked]
    assert question.options[better(question)] in names_asked.options
