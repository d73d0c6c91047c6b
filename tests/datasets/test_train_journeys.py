from botorch_pref.datasets import load_train


def test_the_choices_are_those_of_the_survey() -> None:
    data = load_train()
    assert len(data) == 2929
    assert data.feature_names == ("price", "time", "change", "comfort")
    assert data.raters is not None
    assert data.raters.unique().numel() == 235
    # The first person's first and fourth answers, as in the printed table of Ecdat.
    assert data.winners[0].tolist() == [24.0, 150.0, 0.0, 1.0]
    assert data.losers[0].tolist() == [40.0, 150.0, 0.0, 1.0]
    assert data.winners[3].tolist() == [32.0, 150.0, 0.0, 0.0]
    assert data.losers[3].tolist() == [40.0, 130.0, 0.0, 1.0]


def test_people_choose_the_journey_that_is_no_worse_in_anything() -> None:
    """Lower is better in each feature: a dominating journey nearly always wins."""
    data = load_train()
    change = data.winners - data.losers
    winner_dominates = int((change <= 0).all(-1).sum())
    loser_dominates = int((change >= 0).all(-1).sum())
    assert winner_dominates > 50
    assert winner_dominates > 8 * loser_dominates
