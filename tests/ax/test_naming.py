"""Kernels and likelihoods by name, and with options."""

import pytest
import torch
from ax.api.configs import RangeParameterConfig
from cases import in_turn
from gpytorch.kernels import AdditiveKernel, LinearKernel, MaternKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from showing import A, B, C, triangle

from botorch_pref import (
    Choices,
    Comparisons,
    DuelKernel,
    EPPreferenceGP,
    LapsingProbitLikelihood,
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    Rankings,
    Ratings,
    SkewPreferenceGP,
    class_table,
)
from botorch_pref.ax import PreferenceExperiment, Settings
from botorch_pref.ax.naming import (
    kernel_named,
    likelihoods_named,
    model_arguments,
    with_likelihoods,
)
from botorch_pref.errors import ExperimentError
from botorch_pref.likelihoods import register_likelihood
from botorch_pref.models import RelevanceKernel
from botorch_pref.models.training_data import FeedbackDataset

MATERN = {
    "MaternKernel": {
        "nu": 1.5,
        "lengthscale_prior": {"GammaPrior": {"concentration": 5.0, "rate": 10.0}},
        "lengthscale_constraint": {"GreaterThan": {"lower_bound": 0.01}},
    }
}
X = torch.rand(5, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0))


def test_a_kernel_with_its_options() -> None:
    kernel = kernel_named(MATERN, 3).double()
    assert isinstance(kernel, MaternKernel)
    assert kernel.lengthscale.shape == (1, 3)
    assert isinstance(kernel.lengthscale_prior, GammaPrior)
    truth = MaternKernel(nu=1.5, ard_num_dims=3).double()
    kernel.lengthscale = truth.lengthscale = torch.tensor([0.2, 0.5, 1.0])
    torch.testing.assert_close(kernel(X).to_dense(), truth(X).to_dense())
    with pytest.raises(RuntimeError, match="out of bounds"):
        kernel.initialize(lengthscale=0.001)
    alike = kernel_named({"MaternKernel": {"ard_num_dims": None}}, 3)
    assert alike.lengthscale.shape == (1, 1)


def test_the_kernel_for_few_answers() -> None:
    for named_kernel in ("DuelKernel", {"DuelKernel": {}}):
        kernel, truth = kernel_named(named_kernel, 3).double(), DuelKernel(3).double()
        torch.testing.assert_close(kernel(X).to_dense(), truth(X).to_dense())
    short = kernel_named({"DuelKernel": {"lengthscale": 0.1}}, 3)
    expected = torch.full((1, 3), 0.1, dtype=torch.float64)
    torch.testing.assert_close(short.base_kernel.lengthscale, expected)


def test_relevances_under_another_scale() -> None:
    base = {"RelevanceKernel": {"expected_inputs": 2.0}}
    kernel = kernel_named({"ScaleKernel": {"base_kernel": base}}, 3, [(0, 2)]).double()
    truth = RelevanceKernel(3, categorical=[(0, 2)], expected_inputs=2.0).double()
    kernel.outputscale = 2.0
    torch.testing.assert_close(kernel(X).to_dense(), 2 * truth(X).to_dense())


@in_turn("name", ["DuelKernel", "RelevanceKernel"])
@in_turn("choices", [[], [[0, 2]]])
def test_options_that_are_columns_stay_integers(choices, name) -> None:
    kernel = kernel_named({name: {"categorical": choices}}, 3, [(0, 1)]).double()
    truth = {"DuelKernel": DuelKernel, "RelevanceKernel": RelevanceKernel}[name]
    expected = truth(3, categorical=choices).double()
    torch.testing.assert_close(kernel(X).to_dense(), expected(X).to_dense())


def test_a_kernel_of_some_columns() -> None:
    options = {"nu": 1.5, "active_dims": [0, 2], "ard_num_dims": 2}
    kernel = kernel_named({"MaternKernel": options}, 3).double()
    truth = MaternKernel(nu=1.5, ard_num_dims=2).double()
    torch.testing.assert_close(kernel(X).to_dense(), truth(X[:, [0, 2]]).to_dense())


def test_kernels_of_kernels() -> None:
    scaled = {"ScaleKernel": {"base_kernel": {"MaternKernel": {"nu": 1.5}}}}
    kernel = kernel_named({"AdditiveKernel": [scaled, "LinearKernel"]}, 3).double()
    truth = AdditiveKernel(
        ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=3)), LinearKernel()
    ).double()
    torch.testing.assert_close(kernel(X).to_dense(), truth(X).to_dense())


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        ("Matern", "no kernel 'Matern'.*MaternKernel"),
        ({"MaternKernel": {"nu": 0.7}}, "does not take .*0.7"),
        ({"MaternKernel": 1.5}, r"options 1\.5; give them by name"),
        ({"ScaleKernel": {"base_kernel": "Matern"}}, "no likelihood or prior 'Matern'"),
        ({"A": 1, "B": 2}, "is no kernel; give a name"),
    ],
)
def test_kernels_that_cannot_be_are_refused(kernel, match, tmp_path) -> None:
    with pytest.raises(ExperimentError, match=match):
        kernel_named(kernel, 2)
    with pytest.raises(ExperimentError, match=match):
        triangle(tmp_path / "triangle.db", model_options={"covar_module": kernel})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("raters", ["pool", "share"])
def test_an_experiment_keeps_its_kernel(raters, tmp_path) -> None:
    path = tmp_path / "triangle.db"
    options = {"covar_module": {"ScaleKernel": {"base_kernel": MATERN}}}
    triangle(path, model_options=options, raters=raters, initial=1)
    experiment = PreferenceExperiment.resume("triangle", storage=path)
    for winner, loser in ((A, B), (C, A)):
        pair = [dict(zip("ab", point, strict=True)) for point in (winner, loser)]
        experiment.record(pair, winner=0, rater="ann")
    model = experiment.fitted_adapter().botorch_model
    kernels = getattr(model, "rater_model", model).covar_module.modules()
    (matern,) = (kernel for kernel in kernels if isinstance(kernel, MaternKernel))
    assert matern.nu == 1.5
    assert matern.lengthscale.shape == (1, 2)
    assert len(experiment.ask(rater="ann").options) == 4


def test_one_name_is_of_all_that_it_explains() -> None:
    likelihoods = likelihoods_named("PairwiseProbitLikelihood")
    assert set(likelihoods) == {Comparisons, Choices, Rankings}
    assert len({id(likelihood) for likelihood in likelihoods.values()}) == 1
    assert isinstance(likelihoods[Comparisons], PairwiseProbitLikelihood)
    assert float(likelihoods[Comparisons].noise) == pytest.approx(1)


def test_names_by_kinds_of_answers() -> None:
    likelihoods = likelihoods_named(
        {
            "Rankings": "PlackettLuceLikelihood",
            "Comparisons": {
                "PairwiseProbitLikelihood": {
                    "noise": 0.25,
                    "tie_threshold": 0.5,
                    "tie_threshold_prior": {
                        "GammaPrior": {"concentration": 3.0, "rate": 2.0}
                    },
                }
            },
        }
    )
    assert set(likelihoods) == {Rankings, Comparisons}
    assert isinstance(likelihoods[Rankings], PlackettLuceLikelihood)
    duels = likelihoods[Comparisons]
    assert float(duels.noise) == pytest.approx(0.25)
    assert float(duels.tie_threshold.detach()) == pytest.approx(0.5)
    prior = duels.tie_threshold_prior
    assert isinstance(prior, GammaPrior)
    assert float(prior.concentration) == 3
    assert float(prior.rate) == 2


def test_lists_of_numbers_are_tensors() -> None:
    (levels,) = likelihoods_named(
        {"OrdinalProbitLikelihood": {"cutpoints": [-1.0, 0.5]}}
    ).values()
    expected = torch.tensor([-1.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(levels.cutpoints.detach(), expected)


@in_turn(
    ("likelihood", "match"),
    [
        ("Probit", "no likelihood or prior 'Probit'.*PairwiseProbitLikelihood"),
        ("PreferenceLikelihood", "no likelihood"),
        ({"Ranking": "PlackettLuceLikelihood"}, "no kind of answer 'Ranking'"),
        ({"Rankings": "PlackettLuce"}, "no likelihood or prior 'PlackettLuce'"),
        ({"Rankings": 3}, "3 is no likelihood"),
        (3, "3 is no likelihood"),
        ({"PairwiseProbitLikelihood": {"noise": -1.0}}, "does not take.*positive"),
        ({"PairwiseProbitLikelihood": {"nose": 1.0}}, "does not take.*nose"),
        ({"PairwiseProbitLikelihood": 1.0}, "does not take 1.0"),
        (
            {"PairwiseProbitLikelihood": {"noise_prior": "GammaPrior"}},
            "GammaPrior does not take",
        ),
        ({"PairwiseProbitLikelihood": {"noise_prior": "exit"}}, "or prior 'exit'"),
    ],
)
def test_what_is_no_likelihood_is_refused(likelihood, match) -> None:
    with pytest.raises(ExperimentError, match=match):
        likelihoods_named(likelihood)


def test_options_that_are_no_names_stay() -> None:
    logit = PairwiseLogitLikelihood()
    for likelihood in (None, logit, {Ratings: logit}, {}):
        options = {"likelihood": likelihood, "num_draws": 3}
        assert with_likelihoods(options) == options
    assert with_likelihoods({}) == {}
    named = with_likelihoods({"likelihood": "PairwiseLogitLikelihood", "num_draws": 3})
    assert named["num_draws"] == 3
    assert isinstance(named["likelihood"][Comparisons], PairwiseLogitLikelihood)


def test_a_registered_likelihood_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_table, "_TABLE", dict(class_table._TABLE))

    @register_likelihood
    class OwnLikelihood(PairwiseLogitLikelihood):
        pass

    assert type(likelihoods_named("OwnLikelihood")[Comparisons]) is OwnLikelihood


PAIR = torch.tensor([[0, 1]])
DUELS, CHOICES = Comparisons(PAIR), Choices(torch.tensor([[0, 1, 2]]), PAIR[0, :1])
RATED = Ratings(PAIR[0], torch.tensor([0.2, 0.7]))


@in_turn(
    ("model", "feedback", "options", "expected", "is_learned"),
    [
        (EPPreferenceGP, [DUELS], {}, LapsingProbitLikelihood, True),
        (EPPreferenceGP, [DUELS, RATED], {}, LapsingProbitLikelihood, True),
        # Choices share the noise of duels, which does not lapse then.
        (EPPreferenceGP, [DUELS, CHOICES], {}, PairwiseProbitLikelihood, True),
        (EPPreferenceGP, [RATED], {}, PairwiseProbitLikelihood, False),
        (SkewPreferenceGP, [DUELS], {}, PairwiseProbitLikelihood, False),
        (
            EPPreferenceGP,
            [DUELS],
            {"likelihood": "PairwiseLogitLikelihood"},
            PairwiseLogitLikelihood,
            False,
        ),
    ],
)
def test_the_likelihood_of_duels_follows_from_what_was_answered(
    model, feedback, options, expected, is_learned
) -> None:
    dataset = FeedbackDataset(
        X, feedback, feature_names=[*"abc"], outcome_names=["utility"]
    )
    fitted = model(**model_arguments(model, dataset, options))
    assert type(fitted.likelihoods["Comparisons"]) is expected
    parameters = fitted.likelihoods["Comparisons"].parameters()
    learned = any(parameter.requires_grad for parameter in parameters)
    assert learned == is_learned


@in_turn(
    ("size", "parameters", "expected"),
    [
        (1, 3, "DuelingExploringEIIG"),
        (2, 6, "DuelingEUBO"),
        (2, 7, "DuelingExploringEIIG"),
        (3, 3, "DuelingExploringEIIG"),
        (4, 20, "DuelingJointKG"),
    ],
)
def test_the_acquisition_function_follows_from_the_question(
    size, parameters, expected
) -> None:
    assert Settings().acquisition_of(size, parameters) == expected
    settings = Settings(acquisition="DuelingUCB")
    assert settings.acquisition_of(size, parameters) == "DuelingUCB"


@pytest.mark.slow
@in_turn(("parameters", "is_known"), [(6, [False, False]), (7, [True, False])])
def test_many_parameters_are_asked_about_beside_the_incumbent(
    tmp_path, parameters, is_known
) -> None:
    experiment = PreferenceExperiment.create(
        f"of {parameters}",
        parameters=[
            RangeParameterConfig(name=name, parameter_type="float", bounds=(0, 1))
            for name in "abcdefg"[:parameters]
        ],
        storage=tmp_path / f"{parameters}.db",
        initial=2,
        repeat_rate=0,
        optimizer_options={"num_restarts": 1, "raw_samples": 8},
    )
    learned = []
    for _ in range(2):
        question = experiment.ask(2)
        learned += question.options
        experiment.tell(question, winner=0)
    options = experiment.ask(2).options
    assert sorted((option in learned for option in options), reverse=True) == is_known
