"""The simulated person at a slider: where she stops, and what is kept of her runs."""

from pathlib import Path

import torch
from torch import Generator

from benchmarks import line_questions
from botorch_pref.simulation import make_problem

PROBLEM = make_problem("hartmann3-dead")
LINE = torch.full((line_questions.POSITIONS, PROBLEM.dim), 0.7, dtype=torch.double)
# The second input that does something.
LINE[:, 2] = torch.linspace(0, 1, len(LINE), dtype=torch.double)
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
    least = utilities[BEST] - line_questions.DEVIATIONS[PROBLEM.name] / 2
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


def test_a_table_has_the_regret_when_the_time_is_over() -> None:
    person = line_questions.PersonTime(look=1, decision=2, sweep=6, available=50)
    # To the end, two looks and a decision; two looks and one; four of both.
    answers = {
        kind: person.num_answers(kind) for kind in ("line", "duel", "four ranked")
    }
    assert answers == {"line": 5, "duel": 12, "four ranked": 4}
    steps = torch.arange(1.0, 31.0)
    regrets = {
        ("hartmann6", "none", kind): torch.stack([100 + steps, 200 + steps])
        for kind in answers
    }
    rows = line_questions.regret_rows(regrets, person)
    for *rule, runs, _, after_15, after_30, in_time in rows:
        assert (runs, rule[2] in answers) == ("2", True)
        assert after_15.startswith("165 ± 50 (115)")
        assert after_30.startswith("180 ± 50 (130)")
        number = answers[rule[2]]
        assert in_time.startswith(f"{150 + number} ± 50 (")
        assert in_time.endswith(f", {number}")
