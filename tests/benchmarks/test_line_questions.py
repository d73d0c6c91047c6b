"""The simulated person at a slider: where she stops, and what is kept of her runs."""

from pathlib import Path

import torch
from torch import Generator

from benchmarks import line_questions
from botorch_pref.simulation import make_problem

PROBLEM = make_problem("bump")
LINE = torch.full((line_questions.POSITIONS, PROBLEM.dim), 0.4, dtype=torch.double)
LINE[:, 0] = torch.linspace(0, 1, len(LINE), dtype=torch.double)
BEST = int(PROBLEM.utility(LINE).argmax())


def stops(errors: str, number: int = 400) -> torch.Tensor:
    generator = Generator().manual_seed(0)
    places = [
        line_questions.stop(PROBLEM, LINE, errors, generator) for _ in range(number)
    ]
    return torch.tensor(places)


def test_who_never_errs_stops_at_the_best() -> None:
    assert stops("none", 1).tolist() == [BEST]


def test_a_hand_misses_by_what_is_stated() -> None:
    off = (stops("hand") - BEST).double() / (len(LINE) - 1)
    # Four standard errors of a deviation of 400 draws, and half a position.
    assert abs(float(off.std()) - line_questions.HAND) < 4 * line_questions.HAND / 28
    assert abs(float(off.mean())) < 4 * line_questions.HAND / 20 + 0.0025


def test_who_overshoots_stops_as_soon_as_she_hears_the_loss() -> None:
    utilities = PROBLEM.utility(LINE)
    least = utilities[BEST] - line_questions.DEVIATIONS["bump"] / 2
    places = stops("overshoot", 20).unique()
    # On one side or the other.
    assert len(places) == 2
    for place in places.tolist():
        nearer = place - 1 if place > BEST else place + 1
        assert utilities[place] < least <= utilities[nearer]


def test_runs_of_a_file_are_read_as_they_were_played(tmp_path: Path) -> None:
    record = tmp_path / "runs.csv"
    runs = {
        ("bump", "none", "line", 0): [0.5, 0.25],
        ("bump", "hears", "duel", 1): [1.0, 0.125],
    }
    for run, regrets in runs.items():
        line_questions.add_record(record, run, regrets)
    assert line_questions.recorded(record) == runs
