"""Every kind of answer, told to an experiment, against a model built by hand."""

import pytest
import torch
from parameters import real

from botorch_pref import (
    Choices,
    Comparisons,
    DuelKernel,
    EPPreferenceGP,
    LaplacePreferenceGP,
    LapsingProbitLikelihood,
    OrdinalRatings,
    PairwiseProbitLikelihood,
    PlackettLuceLikelihood,
    PreferenceMarginalLogLikelihood,
    Rankings,
    Ratings,
    Strengths,
    Validity,
)
from botorch_pref.ax import PreferenceExperiment, Question

NAMES = ("a", "b")
# Ax's transform of [0, 1] to [0, 1].
UNIT = [real(name) for name in NAMES]


def points(*questions: Question) -> torch.Tensor:
    rows = [[o[n] for n in NAMES] for question in questions for o in question.options]
    return torch.tensor(rows, dtype=torch.float64)


def play(storage, answers, **settings) -> tuple[PreferenceExperiment, list[Question]]:
    experiment = PreferenceExperiment.create(
        "unit",
        parameters=UNIT,
        storage=storage,
        initial=99,
        num_levels=4,
        fit_options={"optimizer_kwargs": {"options": {"maxiter": 3}}},
        **settings,
    )
    questions = []
    for size, answer in answers:
        questions.append(experiment.ask(size))
        experiment.tell(questions[-1], **answer)
    return PreferenceExperiment.resume("unit", storage=storage), questions


def check(experiment, engine, datapoints, feedback, **options) -> None:
    fitted = experiment.fitted_adapter().botorch_model
    assert type(fitted) is engine
    options["covar_module"] = DuelKernel(datapoints.shape[-1])
    by_hand = engine(datapoints, feedback=feedback, **options)
    mll = PreferenceMarginalLogLikelihood(by_hand.likelihood, by_hand)
    with torch.no_grad():
        before = mll(by_hand(datapoints), None)
        by_hand.load_state_dict(fitted.state_dict())
        by_hand.train()
        assert mll(by_hand(datapoints), None) > before
        X = torch.linspace(0, 1, 14, dtype=torch.float64).reshape(7, 2)
        expected, got = by_hand.posterior(X), fitted.posterior(X)
    torch.testing.assert_close(got.mean, expected.mean, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(got.variance, expected.variance, rtol=1e-6, atol=1e-8)


# Every kind of answer, two of most; each with its feedback below, in numbers of options
# as they were shown, counted through.
ANSWERS = [
    *((2, {"winner": 1}), (2, {"tie": True}), (2, {"winner": 0})),
    *((3, {"best": 1}), (2, {"best": 1})),
    *((3, {"ranking": [2, 0, 1]}), (4, {"ranking": [1, 3, 0, 2]})),
    *((3, {"ranking": [2, 1], "invalid": [0]}), (3, {"best": 1, "invalid": [2]})),
    *((2, {"levels": [3, None]}), (2, {"levels": [0, 2]})),
    *((2, {"ratings": [0.123456789, 0.7]}), (2, {"winner": 1, "ratings": [None, 0.9]})),
    *((2, {"strength": 0.9}), (2, {"strength": 0.2})),
]
WINS = [[1, 0], [4, 5], [10, 9], [20, 19], [22, 21], [31, 30]]
VALID = torch.tensor([False, True, True, True, True, False])
FEEDBACK = [
    Comparisons(torch.tensor(WINS), ties=torch.tensor([[2, 3]])),
    Choices(torch.tensor([[7, 6, 8]]), torch.tensor([7])),
    Rankings(torch.tensor([[13, 11, 12, -1], [15, 17, 14, 16]])),
    Strengths(
        torch.tensor([[32, 33], [34, 35]]),
        torch.tensor([0.9, 0.2], dtype=torch.float64),
    ),
    Validity(torch.arange(18, 24), VALID),
    Ratings(
        torch.tensor([28, 29, 31]),
        torch.tensor([0.123456789, 0.7, 0.9], dtype=torch.float64),
    ),
    OrdinalRatings(torch.tensor([24, 26, 27]), torch.tensor([3, 0, 2]), 4),
]


@pytest.mark.slow
def test_the_model_of_every_kind_is_the_one_built_by_hand(tmp_path) -> None:
    experiment, questions = play(tmp_path / "unit.db", ANSWERS)
    check(experiment, EPPreferenceGP, points(*questions), FEEDBACK)


def test_what_cannot_be_compared_is_no_answer_of_the_model(tmp_path) -> None:
    answers = [{"strength": 0.9}, {"cannot_compare": True}, {"strength": 0.2}]
    experiment, questions = play(
        tmp_path / "unit.db", [(2, answer) for answer in answers]
    )
    strengths = torch.tensor([0.9, 0.2], dtype=torch.float64)
    # Who gave strengths alone may be asked about duels next.
    likelihoods = {Comparisons: PairwiseProbitLikelihood()}
    feedback = [Strengths(torch.tensor([[0, 1], [2, 3]]), strengths)]
    selected_points = points(questions[0], questions[2])
    check(experiment, EPPreferenceGP, selected_points, feedback, likelihood=likelihoods)


def test_another_likelihood_by_its_name(tmp_path) -> None:
    answers = [(2, {"winner": 1}), (3, {"ranking": [1, 2, 0]})]
    feedback = [
        Comparisons(torch.tensor([[1, 0]])),
        Rankings(torch.tensor([[3, 4, 2]])),
    ]
    named = {
        "Comparisons": {"PairwiseProbitLikelihood": {"noise": 0.25}},
        "Rankings": "PlackettLuceLikelihood",
    }
    likelihood = {
        Comparisons: PairwiseProbitLikelihood(noise=0.25),
        Rankings: PlackettLuceLikelihood(),
    }
    experiment, questions = play(
        tmp_path / "unit.db",
        answers,
        model=LaplacePreferenceGP,
        model_options={"likelihood": named},
    )
    answered_points = points(*questions)
    check(
        experiment,
        LaplacePreferenceGP,
        answered_points,
        feedback,
        likelihood=likelihood,
    )


@pytest.mark.slow
def test_an_answer_taken_back_leaves_the_model(tmp_path) -> None:
    answers = [(2, {"winner": 1}), (2, {"winner": 0}), (2, {"tie": True})]
    experiment, questions = play(tmp_path / "unit.db", answers)
    experiment.withdraw(questions[1])
    experiment.withdraw(questions[2])
    experiment.tell(questions[2], winner=1)
    experiment = PreferenceExperiment.resume("unit", storage=tmp_path / "unit.db")
    selected_points = points(questions[0], questions[2])
    feedback = [Comparisons(torch.tensor([[1, 0], [3, 2]]))]
    law = LapsingProbitLikelihood.default_for(None)
    check(experiment, EPPreferenceGP, selected_points, feedback, likelihood=law)


@pytest.mark.slow
def test_points_and_arms_go_together_in_any_order_of_trials(tmp_path) -> None:
    answers = [(2, {"winner": 1}), (2, {"tie": True}), (3, {"ranking": [1, 2, 0]})]
    experiment, _ = play(tmp_path / "unit.db", answers)
    expected = experiment.recommend()
    ax_experiment = experiment.experiment
    # As PostgreSQL gives them back, which moves rows that change.
    ax_experiment._trials = dict(reversed(ax_experiment._trials.items()))
    adapter = experiment.fitted_adapter()
    rows = [[arm.parameters[name] for name in NAMES] for arm in adapter.arms]
    assert adapter.datapoints.tolist() == rows
    assert experiment.recommend() == expected
