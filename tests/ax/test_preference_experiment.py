"""Ask, tell, withdraw and recommend, and what Ax sees of it."""

import pytest
from ax.core.trial_status import TrialStatus
from espresso import better


@pytest.mark.slow
def test_options_differ_and_satisfy_the_search_space(played) -> None:
    space = played.experiment.search_space
    for trial in played.experiment.trials.values():
        assert len(trial.arms) == 2
        for arm in trial.arms:
            assert space.check_membership(arm.parameters, raise_error=True)
            assert arm.parameters["dose"] + arm.parameters["ratio"] <= 21
            assert isinstance(arm.parameters["ratio"], int)


@pytest.mark.slow
def test_questions_are_spread_first_and_then_of_the_model(played) -> None:
    nodes = [
        trial.generator_runs[0]._generation_node_name
        for trial in played.experiment.trials.values()
    ]
    assert nodes == ["spread", "spread", "model", "model"]


def test_a_challenger_meets_the_incumbent(played) -> None:
    for index in (2, 3):
        earlier = {
            arm.signature
            for trial in list(played.experiment.trials.values())[:index]
            for arm in trial.arms
        }
        incumbent, challenger = played.experiment.trials[index].arms
        assert incumbent.signature in earlier
        assert challenger.signature not in earlier


def test_ax_sees_the_winners(played) -> None:
    data = played.experiment.lookup_data().df
    assert set(data.metric_name) == {"pairwise_pref_query"}
    for index, trial in played.experiment.trials.items():
        rows = data[data.trial_index == index].set_index("arm_name")["mean"]
        winner = better(played.question(index))
        names = played.question(index).names
        assert rows[names[winner]] == 1
        assert rows[names[1 - winner]] == 0
        assert trial.status is TrialStatus.COMPLETED


@pytest.mark.slow
def test_recommendations_are_feasible_and_those_anywhere_no_worse(played) -> None:
    space = played.experiment.search_space
    shown, anywhere = played.recommend(), played.recommend(anywhere=True)
    assert shown in [arm.parameters for arm in played.experiment.arms_by_name.values()]
    assert space.check_membership(anywhere, raise_error=True)
