"""Answers that the model takes are kept; others are refused before."""

import pytest
from espresso import create

from botorch_pref.ax import Settings
from botorch_pref.ax.answers import check_taken, checked_answer
from botorch_pref.ax.naming import model_classes
from botorch_pref.errors import ExperimentError

ANSWERS = {
    "winner": 0,
    "tie": True,
    "invalid": [0],
    "levels": [1, None],
    "ratings": [0.2, 0.4],
    "strength": 0.7,
    "best": 2,
    "ranking": [2, 0, 1],
    "cannot_compare": True,
}
ALL = set(ANSWERS)
SETS = {"winner", "best", "ranking", "cannot_compare"}
# As the table of docs/feedback.md has it, and what must have a prior to be sampled.
TAKEN = {
    "EPPreferenceGP": ALL,
    "SkewPreferenceGP": ALL - {"ratings", "strength"},
    "SparsePreferenceGP": ALL,
    "LaplacePreferenceGP": ALL - {"best", "ranking"},
    "VariationalPreferenceGP": SETS,
    "PlackettLuceRegression": SETS,
    "FullyBayesianEPPreferenceGP": SETS | {"invalid", "levels", "ratings", "strength"},
    "FullyBayesianLaplacePreferenceGP": {
        *("winner", "invalid", "cannot_compare", "levels", "ratings", "strength"),
    },
}


def takes(settings: Settings, answer_kind: str) -> bool:
    size = 3 if answer_kind in ("best", "ranking") else 2
    answer = checked_answer(size, 4, **{answer_kind: ANSWERS[answer_kind]})
    try:
        check_taken(settings, answer, size, 4)
    except ExperimentError:
        return False
    return True


@pytest.mark.parametrize("model", model_classes())
def test_each_model_takes_what_it_has_a_likelihood_for(model) -> None:
    assert {
        answer for answer in ANSWERS if takes(Settings(model=model), answer)
    } == TAKEN[model]


def test_another_likelihood_takes_other_answers() -> None:
    laplace = {"likelihood": {"Rankings": "PlackettLuceLikelihood"}}
    settings = Settings(model="LaplacePreferenceGP", model_options=laplace)
    assert takes(settings, "ranking")
    assert not takes(settings, "best")
    logit = {"likelihood": "PairwiseLogitLikelihood"}
    assert not takes(Settings(model_options=logit), "tie")
    prior = {"GammaPrior": {"concentration": 2.0, "rate": 2.0}}
    for model in ("FullyBayesianEPPreferenceGP", "FullyBayesianLaplacePreferenceGP"):
        probit = {"tie_threshold": 1.0, "tie_threshold_prior": prior}
        ties = {"likelihood": {"PairwiseProbitLikelihood": probit}}
        if model.endswith("LaplacePreferenceGP"):
            ties = {"likelihood": {"Comparisons": ties["likelihood"]}}
        assert takes(Settings(model=model, model_options=ties), "tie")


def test_a_refused_answer_is_not_kept(tmp_path) -> None:
    path = tmp_path / "espresso.db"
    experiment = create(path, model="VariationalPreferenceGP")
    question = experiment.ask(2)
    before = path.read_bytes()
    with pytest.raises(ExperimentError, match=r"EPPreferenceGP.*take.*model="):
        experiment.tell(question, tie=True)
    assert path.read_bytes() == before
    assert experiment.pending == [question]
    experiment.tell(question, winner=0)


def test_what_a_model_takes_without_positions_it_may_not_take_with_them() -> None:
    """Whatever another experiment took before."""
    answer = checked_answer(2, 4, strength=0.7)
    check_taken(Settings(), answer, 2, 4)
    with pytest.raises(ExperimentError, match="position_bias adds to"):
        check_taken(Settings(position_bias=True), answer, 2, 4)
