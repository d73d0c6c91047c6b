"""The same answers about the same options share a trial of Ax's, with their counts."""

from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from espresso import QUICK_FIT
from pandas import DataFrame
from showing import A, B, C, D, resumed, short_report, triangle

from botorch_pref import Choices, Comparisons, OrdinalRatings, Rankings
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.best_designs import cross_validation
from botorch_pref.errors import ExperimentError
from botorch_pref.feedback import Feedback
from botorch_pref.models.training_data import FeedbackDataset

# Options and answers, each of which is recorded as often as it is here.
RECORDED = [
    ((A, B), {"winner": 0}),
    ((A, B), {"winner": 1}),
    ((A, B), {"winner": 0}),
    ((C, D), {"tie": True}),
    ((A, B), {"winner": 0, "note": "again"}),
    ((C, D), {"tie": True}),
    ((A, B, C), {"best": 2}),
    ((A, B, C), {"ranking": [1, 0, 2]}),
    ((A, B, C), {"best": 2}),
    ((A, B, C), {"ranking": [1, 0, 2]}),
    ((A, D), {"levels": [2, 0]}),
    ((A, D), {"levels": [2, 0]}),
    ((C, D), {"cannot_compare": True}),
]
DISTINCT = 7


def designs(options: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
    return [{"a": a, "b": b} for a, b in options]


def recorded(storage, answers=RECORDED, **settings) -> PreferenceExperiment:
    experiment = triangle(
        storage, num_levels=3, **{"fit_options": QUICK_FIT, **settings}
    )
    for options, answer in answers:
        experiment.record(designs(options), **answer)
    return experiment


def expected(answers) -> Counter:
    """Counts each answer in the words of containers, as often as it was given."""
    counted: Counter = Counter()
    for options, answer in answers:
        times = answer.get("count", 1)
        if "winner" in answer:
            order = options if answer["winner"] == 0 else options[::-1]
            counted["pairs", order] += times
        elif "tie" in answer:
            counted["ties", frozenset(options)] += times
        elif "best" in answer:
            best = options[answer["best"]]
            counted["choice", best, frozenset(options)] += times
        elif "ranking" in answer:
            counted["ranking", tuple(options[i] for i in answer["ranking"])] += times
        elif "levels" in answer:
            for option, level in zip(options, answer["levels"], strict=True):
                counted["level", option, level] += times
    return counted


def told(dataset: FeedbackDataset) -> Counter:
    """Counts the same in the data that a model was given, one by one."""
    # Features are shares of the ranges, from 0 to 2.
    points = [tuple(round(2 * x, 6) for x in row) for row in dataset.X.tolist()]
    counted: Counter = Counter()

    def rows(part: torch.Tensor | None, counts: torch.Tensor | None):
        values = [] if part is None else part.tolist()
        times = [1] * len(values) if counts is None else counts.tolist()
        return zip(values, times, strict=True)

    for block in dataset.feedback:
        match block:
            case Comparisons():
                for pair, count in rows(block.pairs, block.pair_counts):
                    counted["pairs", tuple(points[i] for i in pair)] += count
                for pair, count in rows(block.ties, block.tie_counts):
                    counted["ties", frozenset(points[i] for i in pair)] += count
            case Choices():
                for best, (row, count) in zip(
                    block.chosen.tolist(), rows(block.sets, block.counts), strict=True
                ):
                    options = frozenset(points[i] for i in row)
                    counted["choice", points[best], options] += count
            case Rankings():
                for row, count in rows(block.orders, block.counts):
                    counted["ranking", tuple(points[i] for i in row)] += count
            case OrdinalRatings():
                levels = zip(block.indices.tolist(), block.levels.tolist(), strict=True)
                for i, level in levels:
                    counted["level", points[i], level] += 1
    return counted


def dataset(experiment: PreferenceExperiment) -> FeedbackDataset:
    return experiment.fitted_adapter().dataset


def assert_same(first: Sequence[Feedback], second: Sequence[Feedback]) -> None:
    assert [type(block) for block in first] == [type(block) for block in second]
    for first_event, second_event in zip(first, second, strict=True):
        for name, value in vars(first_event).items():
            if isinstance(value, torch.Tensor):
                assert value.equal(getattr(second_event, name)), f"{name} differs"
            else:
                assert value == getattr(second_event, name)


@pytest.fixture(scope="module")
def once(tmp_path_factory) -> PreferenceExperiment:
    return recorded(tmp_path_factory.mktemp("many") / "triangle.db")


def test_a_model_is_told_each_answer_as_often_as_it_was_given(once) -> None:
    assert told(dataset(once)) == expected(RECORDED)


def test_there_is_a_trial_for_each_distinct_answer(once) -> None:
    trials = once.experiment.trials
    # The one who could not compare is abandoned, as ever.
    assert len(trials) == DISTINCT
    assert [*trials] == [0, 1, 3, 6, 7, 10, 12]
    kinds = [e["question"] for e in trials[0]._properties["preference_events"]]
    assert kinds == [0, 0, 2, 2, 4, 4]
    assert trials[0]._properties["preference_raters"] == [[None, 3]]
    assert once.num_answers == len(RECORDED)


def test_what_is_taken_back_is_taken_from_the_data(tmp_path) -> None:
    experiment = recorded(tmp_path / "triangle.db")
    # That of the trial, one that shares it, and all that share one.
    for dropped in (0, 5, 6, 8):
        assert len(experiment.experiment.trials) >= DISTINCT
        experiment.undo(dropped)
    kept_records = [
        record for i, record in enumerate(RECORDED) if i not in (0, 5, 6, 8)
    ]
    live = dataset(experiment)
    assert told(live) == expected(kept_records)
    again = resumed(tmp_path / "triangle.db")
    assert_same(live.feedback, dataset(again).feedback)
    trials = [{**e.experiment.trials} for e in (experiment, again)]
    assert [*trials[0]] == [*trials[1]]
    assert [t.status for t in trials[0].values()] == [
        t.status for t in trials[1].values()
    ]
    assert [question.index for question in again.pending] == [0, 5, 6, 8]
    # Told anew, and recorded once more.
    again.tell(0, winner=0)
    again.record(designs((C, D)), tie=True)
    kept_records += [RECORDED[0], RECORDED[3]]
    assert told(dataset(again)) == expected(kept_records)
    assert again.undo().index == len(RECORDED)
    assert told(dataset(again)) == expected(kept_records[:-1])


def test_a_count_is_as_many_answers(tmp_path) -> None:
    items = DataFrame([A, B, C], columns=["a", "b"], index=["x", "y", "z"])
    rows = [("x", "y", False, 3), ("y", "x", False, 1), ("x", "z", True, 2)]
    columns = ["winner", "loser", "tie", "count"]
    counted_rows = [row[:3] for row in rows for _ in range(row[3])]
    experiments = []
    for name, table in (
        ("counted", DataFrame(rows, columns=columns)),
        ("repeated", DataFrame(counted_rows, columns=columns[:3])),
    ):
        experiment = triangle(tmp_path / f"{name}.db", fit_options=QUICK_FIT)
        experiment.record_table(table, items)
        experiments.append(experiment)
    counted, repeated = experiments
    assert len(counted.log.questions) == 3
    assert len(repeated.log.questions) == 6
    assert counted.num_answers == repeated.num_answers == 6
    first, second = map(dataset, experiments)
    assert_same(first.feedback, second.feedback)
    reports = [short_report(experiment) for experiment in experiments]
    # Questions are fewer, and what was answered about them is not.
    columns = ["a", "b", "mean", "lower", "upper", "wins", "losses", "ties"]
    tables = [report.options[columns].reset_index(drop=True) for report in reports]
    assert tables[0].equals(tables[1])
    assert tables[0].set_index("a")["wins"].to_dict() == {0.5: 3, 1.0: 1, 0.4: 0}
    assert reports[0].checks.equals(reports[1].checks)
    # Of four answers about a pair three repeat it, one of them otherwise than before.
    assert reports[0].checks.loc["", "checks"] == 4
    assert reports[0].checks.loc["", "alike"] == 3 / 4
    labels = ["answers", "that say winner", "that say tie", "answered alike"]
    values = [report.summary["value"][labels].tolist() for report in reports]
    assert values[0] == values[1] == [6, 4, 2, (3 + 1) / (6 + 1)]
    assert counted.answers()["count"].tolist() == [3, 3, 1, 1, 2, 2]


def test_counts_go_through_files_and_are_checked(tmp_path) -> None:
    experiment = recorded(tmp_path / "triangle.db", [((A, B), {"winner": 0})])
    experiment.record(designs((A, B)), winner=1, count=4)
    experiment.write_answers(tmp_path / "answers.csv")
    # It has them all.
    assert experiment.record_table(tmp_path / "answers.csv") == []
    second_experiment = triangle(tmp_path / "other.db", num_levels=3)
    second_experiment.record_table(tmp_path / "answers.csv")
    counts = [question.standing.count for question in second_experiment.log.questions]
    assert counts == [1, 4]
    for count in (0, -1, 1.5, "two", 2**53 + 1):
        with pytest.raises(ExperimentError, match="count is"):
            experiment.record(designs((A, B)), winner=1, count=count)
    question = experiment.ask(2)
    with pytest.raises(ExperimentError, match="give record answers from elsewhere"):
        experiment.tell(question, winner=0, count=2)


def test_raters_who_say_the_same_are_kept_apart_where_they_count(tmp_path) -> None:
    answers = [
        ((A, B), {"winner": 0, "rater": "ann"}),
        ((A, B), {"winner": 0, "rater": "bob"}),
        ((A, B), {"winner": 0, "rater": "ann"}),
        ((B, C), {"winner": 0, "rater": "bob"}),
        ((B, C), {"winner": 0}),
    ]
    pooled = recorded(tmp_path / "pooled.db", answers)
    trials = pooled.experiment.trials
    assert [t._properties["preference_raters"] for t in trials.values()] == [
        [[0, 2], [1, 1]],
        [[1, 1], [None, 1]],
    ]
    shared = recorded(tmp_path / "shared.db", answers[:-1], raters="share")
    data = dataset(shared)
    assert len(shared.experiment.trials) == 3
    (block,) = data.feedback
    by_rater = {
        int(data.raters[pair[0]]): count
        for pair, count in zip(
            block.pairs.tolist(), block.pair_counts.tolist(), strict=True
        )
        if tuple(round(2 * x, 6) for x in data.X[pair[0]].tolist()) == A
    }
    assert by_rater == {0: 2, 1: 1}


def test_options_on_display_otherwise_are_another_answer(tmp_path) -> None:
    experiment = triangle(
        tmp_path / "triangle.db", fit_options=QUICK_FIT, position_bias=True
    )
    for order in ([0, 1], [1, 0], [0, 1], None):
        experiment.record(designs((A, B)), winner=0, order=order)
    (block,) = dataset(experiment).feedback
    rows = zip(block.covariates[:, 0].tolist(), block.pair_counts.tolist(), strict=True)
    # The winner first, second, and somewhere.
    assert sorted(rows) == [(-1.0, 1), (0.0, 1), (1.0, 2)]


def test_an_answer_given_often_is_dealt_out_to_folds(tmp_path, monkeypatch) -> None:
    answers = [((A, B), {"winner": 0, "count": 6}), ((B, C), {"winner": 1, "count": 3})]
    experiment = recorded(tmp_path / "triangle.db", answers)
    adapter, parts = experiment.fitted_adapter(), []
    original = adapter.dataset_of

    def kept(part, *arguments):
        parts.append(original(part, *arguments))
        return parts[-1]

    monkeypatch.setattr(adapter, "dataset_of", kept)
    monkeypatch.setattr(adapter, "model_of", lambda _: adapter.botorch_model)
    table = cross_validation(adapter, 3)
    assert table["answers"].to_dict() == {"duels": 9}
    for train, test in zip(parts[::2], parts[1::2], strict=True):
        assert told(test).total() == 3
        assert told(train) + told(test) == expected(answers)
