"""Ask, tell, withdraw and recommend, and what Ax sees of it."""

import pytest


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


@pytest.mark.slow
def test_recommendations_are_feasible_and_those_anywhere_no_worse(played) -> None:
    space = played.experiment.search_space
    shown, anywhere = played.recommend(), played.recommend(anywhere=True)
    assert shown in [arm.parameters for arm in played.experiment.arms_by_name.values()]
    assert space.check_membership(anywhere, raise_error=True)
