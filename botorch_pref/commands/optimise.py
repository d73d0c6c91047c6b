"""Command that optimises a function by asking a simulated judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from botorch_pref.acquisition.duels import observed_points
from botorch_pref.evaluation import progress
from botorch_pref.models import EPPreferenceGP, plausible_models
from botorch_pref.plotting import draw_run
from botorch_pref.simulation import (
    Problem,
    RankedQuestion,
    RunSettings,
    make_problem,
    run_questions,
)
from botorch_pref.simulation.question_loop import (
    make_judge,
    question_line,
    settings_line,
)
from botorch_pref.threads import one_thread

LOG_NAME = "run.jsonl"
FIGURE_NAME = "run.png"


@one_thread()
def optimise(settings: RunSettings, out: Path) -> None:
    """Asks a simulated judge; prints each question, writes the log and the figure."""
    problem = make_problem(settings.problem)
    run = run_questions(problem, make_judge(problem, settings), settings)
    out.mkdir(parents=True, exist_ok=True)
    answered: list[RankedQuestion] = []
    with (out / LOG_NAME).open("w", encoding="utf-8") as file:
        file.write(settings_line(settings) + "\n")
        for latest in tqdm(
            run, total=settings.questions, desc="questions", unit="question"
        ):
            file.write(question_line(latest) + "\n")
            # What was asked is kept wherever the run is stopped.
            file.flush()
            tqdm.write(_describe(latest))
            answered.append(latest)
    draw_run(settings, problem, answered, out / FIGURE_NAME)
    print(_findings(problem, settings, answered))
    print(_advice(problem, answered[-1]))
    print(f"The figure is {out / FIGURE_NAME}, and every question in {out / LOG_NAME}.")


def _describe(answered: RankedQuestion) -> str:
    """Writes a line about an answered question."""
    question = answered.question
    rank = ""
    if answered.favourite is not None:
        place = answered.order.tolist().index(answered.favourite) + 1
        rank = f"the model's favourite came {_ordinal(place):5s} "
    return (
        f"question {answered.number + 1:3d}  {question.acquisition:20s}  {rank:37s} "
        f"regret of the model's best {answered.regret:.4g}"
    )


def _ordinal(place: int) -> str:
    return f"{place}" + {1: "st", 2: "nd", 3: "rd"}.get(place, "th")


def _findings(
    problem: Problem, settings: RunSettings, answered: Sequence[RankedQuestion]
) -> str:
    """Returns the best design by the model, and its regret beside the truth, in words.

    The share of the way that is done is counted from the utility of the worst option
    shown to that of the best design of the problem.
    """
    best, regret = answered[-1].incumbent, answered[-1].regret
    options = torch.cat([ranked.question.options for ranked in answered])
    utilities = problem.utility(options)
    worst = float(utilities.min())
    share = regret / (problem.best - worst)
    inputs = ", ".join(f"{value:.4f}" for value in best.tolist())
    ask = "two options to compare" if settings.options == 2 else "options to rank"
    if settings.options > 2:
        ask = f"{settings.options} {ask}"
    judge = "never errs" if not settings.noise else "errs at times"
    return (
        f"\nFound after {len(answered)} questions with {ask}, of a judge who {judge}:\n"
        f"the best design is [{inputs}], each input from 0 to 1.\n"
        f"Its utility is {problem.best - regret:.4g}, that of the best design there is "
        f"{problem.best:.4g}, and of the worst one shown {worst:.4g}:\n"
        f"{100 * (1 - share):.3g} % of the way is done, and a regret of {regret:.3g} "
        "is left.\n"
    )


def _advice(problem: Problem, latest: RankedQuestion) -> str:
    """Returns the advice to stop or to ask more, from the answers alone, in words."""
    cube = problem.cube
    model, best = latest.model, latest.incumbent.unsqueeze(0)
    candidates = progress.stopping_candidates(best, cube, progress.NUM_CANDIDATES)
    advice = progress.stopping_advice(
        model,
        problem.project(candidates),
        recommended=best,
        shown=observed_points(model),
        bounds=cube if problem.is_cube else None,
        # The model of a run is always one of EP; only its type does not say so.
        plausible=plausible_models(model) if isinstance(model, EPPreferenceGP) else (),
    )
    return in_words(advice)


def in_words(advice: progress.StoppingAdvice) -> str:
    """Writes the advice with its reasons.

    These are how much better another design may be, and how often that one would be
    preferred. The second is left out where the first says to stop.
    """
    gain = (
        f"the best design there may be is better by {100 * advice.gain_share:.2g} % of "
        "the range of the designs shown, and by less than "
        f"{100 * progress.GAIN_TOLERANCE:g} % with a probability of "
        f"{advice.gain_confidence:.2f}"
    )
    notice = (
        f"it would be preferred in {100 * advice.chance_of_regret:.0f} of 100 "
        "comparisons, where 50 means as good as equal"
    )
    start = "Stop" if advice.stop else "Ask more"
    if advice.stop and advice.gain_confidence >= progress.CONFIDENCE:
        return f"{start}. By the answers alone {gain}."
    return f"{start}. By the answers alone {gain}; {notice}."
