"""Answers of merged copies: the same one counts once, and the last one is the last."""

import pytest
from showing import A, B, C, show, tell, triangle

from botorch_pref.ax import log


@pytest.fixture
def clock(monkeypatch):
    """A minute later at each event."""
    minutes = iter(range(60))
    monkeypatch.setattr(
        log, "now", lambda: f"2026-01-01T00:{next(minutes):02}:00.000+00:00"
    )


@pytest.mark.usefixtures("clock")
def test_the_same_answer_of_both_copies_counts_once(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    question = show(experiment, A, B)
    copy = experiment.copy(storage=tmp_path / "copy.db")
    experiment.tell(question, winner=0, rater="ann", seconds=3)
    copy.tell(question, winner=0, rater="ann", seconds=2)
    assert experiment.merge(copy) == []
    assert experiment.num_answers == 1
    # What followed in one of them follows here.
    copy.undo(question)
    copy.tell(question, winner=1, rater="ann")
    assert experiment.merge(copy) == []
    assert [told.said for told in experiment.log.answers()] == [{"winner": 1}]
    # A note, or another rater, is another answer.
    for said in ({"rater": "bo"}, {"rater": "ann", "note": "hot"}):
        other = show(experiment, A, C)
        copy = experiment.copy(storage=tmp_path / f"{[*said]}.db")
        experiment.tell(other, winner=0, rater="ann")
        copy.tell(other, winner=0, **said)
        assert len(experiment.merge(copy)) == 1


@pytest.mark.usefixtures("clock")
def test_undo_takes_back_the_answer_that_was_given_last(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.db")
    question = show(experiment, A, B)
    copy = experiment.copy(storage=tmp_path / "copy.db")
    tell(copy, [B, C], winner=0)
    tell(copy, [C, A], winner=0)
    experiment.tell(question, winner=1)
    experiment.merge(copy)
    times = [told.time for told in experiment.log.answers()]
    assert times == sorted(times, reverse=True)
    assert [experiment.undo().index for _ in range(3)] == [0, 2, 1]
