"""Command that optimises a test function by duels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Generator, Tensor
from tqdm import tqdm

from botorch_pref.commands.registry import ACQUISITIONS, distinct, make_fit
from botorch_pref.evaluation import progress
from botorch_pref.plotting import draw_run
from botorch_pref.simulation import (
    ChosenDuels,
    LoggedDuel,
    ProbitJudge,
    Problem,
    RunSettings,
    make_problem,
    run_duels,
)
from botorch_pref.simulation.duel_loop import Fit, duel_line, fit_answers, settings_line

LOG_NAME = "run.jsonl"
FIGURE_NAME = "run.png"


def optimise(settings: RunSettings, out: Path) -> None:
    """Runs duels with a simulated judge; prints each, writes the log and the figure."""
    problem = make_problem(settings.problem)
    seeds = torch.randint(2**62, (2,), generator=Generator().manual_seed(settings.seed))
    for_duels, for_judge = (Generator().manual_seed(int(seed)) for seed in seeds)
    propose = ChosenDuels(
        dim=problem.dim,
        num_random=settings.random_duels,
        acquisition=settings.acquisition,
        make_acquisition=distinct(ACQUISITIONS[settings.acquisition]),
        generator=for_duels,
    )
    judge = ProbitJudge(problem.utility, settings.noise, for_judge)
    fit = make_fit(settings.model, errs=settings.noise > 0)
    duels = run_duels(propose, judge, fit, settings.duels)
    out.mkdir(parents=True, exist_ok=True)
    done: list[LoggedDuel] = []
    with (out / LOG_NAME).open("w", encoding="utf-8") as file:
        file.write(settings_line(settings) + "\n")
        for duel in tqdm(duels, total=settings.duels, desc="duels", unit="duel"):
            logged = LoggedDuel(duel, float(problem.regret(duel.incumbent)))
            file.write(duel_line(logged) + "\n")
            file.flush()
            tqdm.write(_describe(logged))
            done.append(logged)
    draw_run(settings, done, out / FIGURE_NAME)
    last = done[-1]
    extent = torch.aminmax(problem.utility(_shown(done)))
    share = last.regret / float(extent.max - extent.min)
    inputs = ", ".join(f"{value:.4f}" for value in last.duel.incumbent.tolist())
    print(f"recommended: [{inputs}] of the unit cube")
    print(
        f"utility {problem.best - last.regret:.4g} of at most {problem.best:.4g}, "
        f"simple regret {last.regret:.4g}, {100 * share:.2g} % of the range shown"
    )
    print(f"written: {out / LOG_NAME}, {out / FIGURE_NAME}")
    print(_advice(problem, fit, done))


def _describe(logged: LoggedDuel) -> str:
    duel = logged.duel
    answer = "won" if duel.challenger_won else "lost"
    return (
        f"duel {duel.number + 1:3d}  {duel.proposal.source:8s}  "
        f"P(challenger wins) {duel.probability:.2f}, it {answer:4s}  "
        f"regret of the winner so far {logged.regret:.4g}"
    )


def _shown(done: Sequence[LoggedDuel]) -> Tensor:
    """Distinct points of all duels, ``n x d``."""
    proposals = [logged.duel.proposal for logged in done]
    ends = [end for each in proposals for end in (each.challenger, each.opponent)]
    return torch.unique(torch.stack(ends), dim=0)


def _advice(problem: Problem, fit: Fit, done: Sequence[LoggedDuel]) -> str:
    """Advice to stop or to ask more, in words."""
    duels = [logged.duel for logged in done]
    answers = [(duel.proposal, duel.challenger_won) for duel in duels]
    model = fit_answers(answers, fit)
    assert model is not None, "every duel of a run has an answer"
    cube = torch.tensor([[0.0], [1.0]]).expand(2, problem.dim)
    best = duels[-1].incumbent.unsqueeze(0)
    candidates = progress.stopping_candidates(best, cube, progress.NUM_CANDIDATES)
    advice = progress.stopping_advice(
        model, candidates, recommended=best, shown=_shown(done), bounds=cube
    )
    return (
        f"still to gain, by the model: {100 * advice.gain_share:.2g} % of the range of "
        f"utilities shown; below {100 * progress.GAIN_TOLERANCE:g} % with probability "
        f"{advice.gain_confidence:.2f}\n"
        f"chance of regret {advice.chance_of_regret:.2f} (that the best point there is "
        f"would be preferred), below {progress.TOLERANCE} with probability "
        f"{advice.confidence:.2f}: {'stop' if advice.stop else 'ask more'}"
    )
