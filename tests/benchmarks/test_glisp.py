"""GLISp among the rivals: it starts with our duels, and hears every answer."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from benchmarks.suite.cell import GLISP, Cell, Setting
from benchmarks.suite.runs.batch import batches, play_batch, play_together
from benchmarks.suite.runs.batch_player import uniform
from benchmarks.suite.runs.glisp import PlayerOfGLISp
from benchmarks.suite.runs.play import COLUMNS
from benchmarks.suite.runs.players import check_rule, needs
from botorch_pref.simulation import Problem, make_problem

START, DUELS = 5, 9


def test_what_it_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_rule(GLISP)
    monkeypatch.setattr("benchmarks.suite.runs.players.find_spec", lambda name: None)
    assert needs(GLISP) == "glis"


def played(problem: Problem) -> tuple[PlayerOfGLISp, Tensor]:
    """Plays with a judge who never errs; returns player and answers, winners first."""
    sources = [Generator().manual_seed(3)]
    player = PlayerOfGLISp(GLISP, problem, False, sources, DUELS)
    no_duels = torch.empty(1, 0, 2, problem.dim, dtype=torch.double)
    for number in range(DUELS):
        start = uniform(sources, 2, problem.dim) if number < START else player.ask()
        duel = problem.project(start)
        order = problem.utility(duel).argsort(-1, descending=True)
        winner_first = duel.gather(1, order.unsqueeze(-1).expand_as(duel))
        no_duels = torch.cat([no_duels, winner_first.unsqueeze(1)], 1)
        player.learn(no_duels)
    return player, no_duels[0]


@pytest.mark.parametrize("name", ["branin", "mixed"])
def test_it_hears_every_answer_and_nothing_else(name: str) -> None:
    pytest.importorskip("glis", reason="the rival is not installed")
    problem = make_problem(name)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    player, options = played(problem)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    points = torch.as_tensor(np.array(player.solver.X)).clamp(0.0, 1.0)
    projected = problem.project(points[torch.as_tensor(player.solver.I)])
    assert len(projected) == DUELS
    matches = (projected.unsqueeze(1) - options).abs().amax((-1, -2)) < 1e-12
    assert matches.any(0).all()
    assert matches.any(1).all()
    # The best so far is in every duel from the first chosen one on.
    later = options[START:]
    assert torch.equal(player.recommended()[0], later[-1, 0])
    before = options[START - 1 : -1, 0]
    assert (later[1:] == before[1:].unsqueeze(1)).all(-1).any(-1).all()
    winners = problem.utility(options[:, 0])
    assert winners[-1] == winners[START:].max()


def test_a_run_starts_as_all_runs_and_comes_out_again() -> None:
    pytest.importorskip("glis", reason="the rival is not installed")
    cell = Cell("t", Setting("branin", "probit", 10.0), GLISP, 2, START, DUELS)
    assert batches([cell]) == [[cell]]
    (outcome,) = play_together([cell])
    assert not outcome.error, outcome.error
    make = partial(PlayerOfGLISp, num_questions=DUELS)
    (again,) = play_batch([cell], make)
    seconds = COLUMNS.index("seconds")
    rows = [
        [row[:seconds] + row[seconds + 1 :] for row in run.rows]
        for run in (outcome, again)
    ]
    assert rows[0] == rows[1]
    points = uniform([Generator().manual_seed(2)], 2, 2)
    regret = float(outcome.rows[0][COLUMNS.index("regret_best_shown")])
    best = float(make_problem("branin").regret(points).min())
    assert regret == pytest.approx(best, rel=1e-5)
