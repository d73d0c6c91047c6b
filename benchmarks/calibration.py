"""How often what is stated of a person holds, after 10, 30 and 100 answers.

    python -m benchmarks.calibration --task bump --task parts --persons 8

A simulated person, whose utility is a task's, answers the duels that the library asks,
or with ``--options 4`` ranks its questions of four. After some answers models are asked
for all that a report states, and each statement is compared with the truth:

- ``effect (dead)``, ``effect (live)``: 95 % bands of the change of utility as one
  parameter moves from the best option, of parameters that do nothing and of the others:
  a band holds if it holds at all values;
- ``matters (...)``: that a parameter does something, by how probably it is said to;
- ``called dead``: parameters that do nothing of which the report says that their effect
  is not known;
- ``named``: other parameters of which it says something; nothing is promised here;
- ``called guesses``: how many people are told that their answers look like a coin's;
- ``difference``: 95 % intervals of the difference to the best option shown;
- ``... as a share``: the same differences and effects as shares of the range of the
  options shown, as reports print them;
- ``rank``: 95 % intervals of the ranks of the options shown;
- ``P(best)``: that the option called best is the best of those shown;
- ``preferred``: that an answer prefers the option that the model favours, of random
  pairs of those shown and of new designs;
- ``chance of regret``: that the ideal design is preferred to the option called best;
- ``recommended``: that the design with the largest mean is better than that option;
- ``gain left``: the share of the range that the ideal design would add;
- ``little left``: that this share is below a tenth;
- ``stop``: of those who are told to stop, that no more is left than is promised;
- ``told to stop``: how many are.

Utilities are compared in units of the judge's noise, or as shares. ``--read`` prints
the tables of a record. Statements about raters and positions are of `--people panel`
and `position`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import torch
from botorch.fit import fit_gpytorch_mll
from torch import Generator, Tensor

from benchmarks.prior_utility import draw_person
from benchmarks.report import print_table, start
from benchmarks.statements import (
    LEVEL,
    Tally,
    chances_hold,
    coverage,
    favoured,
    intervals_hold,
    table_of_tallies,
    true_ranks,
)
from botorch_pref import (
    Comparisons,
    DuelKernel,
    EPPreferenceGP,
    PreferenceMarginalLogLikelihood,
    Rankings,
)
from botorch_pref.asking.request import Goal
from botorch_pref.evaluation import (
    best_probability,
    leaderboard,
    rater_agreement,
    rater_reliability,
    stopping_advice,
    stopping_candidates,
)
from botorch_pref.evaluation.answer_effects import position_bias
from botorch_pref.evaluation.explanation import changes_from, inclusion_probabilities
from botorch_pref.evaluation.progress import (
    GAIN_TOLERANCE,
    TOLERANCE,
    StoppingAdvice,
)
from botorch_pref.feedback import Feedback
from botorch_pref.models import (
    AveragedUtility,
    averaged_utility,
    rater_covar_module,
)
from botorch_pref.models.plausible import GUESSED
from botorch_pref.posteriors.gaussian import central_interval
from botorch_pref.simulation.judges import (
    LapsingJudge,
    Panel,
    ProbitJudge,
    panel_with_contrarian,
)
from botorch_pref.simulation.problems import Problem, make_problem
from botorch_pref.simulation.question_loop import (
    RunSettings,
    problem_model,
    run_questions,
)
from botorch_pref.simulation.tasks import TASK_NAMES

Fit = Callable[[Problem, Tensor, Feedback], Any]
"""Fits a model to `n x d` points of a problem and what was said of them."""


def fit_average(problem: Problem, points: Tensor, feedback: Feedback) -> Any:
    """Fits what the library recommends, averaged over plausible hyper-parameters.

    Args:
        problem: Whose designs were compared.
        points: `n x d`.
        feedback: What was said of them.
    """
    return averaged_utility(problem_model(problem, points, feedback))[0]


MODELS: dict[str, Fit] = {"default": problem_model, "average": fit_average}
ERRORS = {"steady": 0.02, "errs": 0.1, "errs much": 0.25}
"""Noise deviation of a judge per option, as a share of the range of the utility."""
LAPSES = 0.05
CHECKPOINTS = 10, 30
NUM_VALUES = 11
INDIVIDUAL = 0.3
"""Deviation of what raters like alone, as a share of that of the utility."""


@dataclass(frozen=True)
class Person:
    """A judge of a task, and what is true of her.

    Attributes:
        problem: Whose utility she has.
        deviation: Of her noise, per option.
        generator: Source of her errors, and of random designs.
    """

    problem: Problem
    deviation: float
    generator: Generator

    @property
    def judge(self) -> LapsingJudge:
        """Who answers."""
        source = self.generator
        probit = ProbitJudge(self.problem.utility, self.deviation**2, source)
        return LapsingJudge(probit, LAPSES, source)

    def designs(self, number: int) -> Tensor:
        """Random designs, `n x d`."""
        draws = torch.rand(
            number, self.problem.dim, generator=self.generator, dtype=torch.double
        )
        return self.problem.project(draws)

    def preferred(self, first: Tensor, second: Tensor) -> Tensor:
        """The true probability that the first of two designs wins a duel."""
        gap = self.problem.utility(first) - self.problem.utility(second)
        attentive = torch.special.ndtr(gap / (math.sqrt(2) * self.deviation))
        return (1 - LAPSES) * attentive + LAPSES / 2


def play(
    person: Person, checkpoints: Sequence[int], size: int = 2, goal: Goal = "best"
) -> Iterator[tuple[Tensor, Feedback]]:
    """Points and what was said of them after each of some numbers of answers.

    Args:
        person: Who answers the questions that the library asks.
        checkpoints: Increasing numbers of answers.
        size: How many options a question has: two to compare, or more to rank.
        goal: What questions are chosen for.
    """
    problem, seed = person.problem, person.generator.initial_seed()
    settings = RunSettings("", size, checkpoints[-1], 0.0, seed, goal)
    orders: list[Tensor] = []
    for answered in run_questions(problem, person.judge, settings):
        orders.append(answered.question.options[answered.order])
        if len(orders) in checkpoints:
            points, place = distinct(torch.cat(orders))
            places = place.view(-1, size)
            yield points, Comparisons(places) if size == 2 else Rankings(places)


def distinct(points: Tensor) -> tuple[Tensor, Tensor]:
    """Points each once, and the place of each given one among them.

    Args:
        points: `n x d`.
    """
    return torch.unique(points, dim=0, return_inverse=True)


def statements(person: Person, model: Any) -> Iterator[Tally]:
    """All that a model states of a person after some answers, beside the truth.

    Args:
        person: Who answered.
        model: That tells.
    """
    points = model.datapoints
    with torch.no_grad():
        noise = model.likelihood.observation_variance.sqrt().reshape(())
        best = points[_means(model, points).argmax()].unsqueeze(0)
    utility = person.problem.utility
    values, advice = utility(points), stop_advice(person, model, best)
    units = {
        "": float(noise) / person.deviation,
        " as a share": advice.expected_range / float(values.max() - values.min()),
    }
    others = points[(points != best).any(-1)]
    with torch.no_grad():
        interval = central_interval(model.duel_posterior(others, best), LEVEL)
    yield from effects(person, model, best, units)
    for name, unit in units.items():
        truth = unit * (utility(others) - utility(best))
        yield intervals_hold(f"difference{name}", interval[1], interval[2], truth)
    board = leaderboard(model).sort_index()
    ends = (torch.tensor(board[f"rank_{end}"].to_numpy()) for end in ("lower", "upper"))
    yield intervals_hold("rank", *ends, *true_ranks(utility(points)))
    chance = best_probability(model, best_first := torch.cat([best, others]))[:1]
    is_best = utility(best) >= utility(best_first).max()
    yield chances_hold("P(best)", chance, is_best)
    if isinstance(model, AveragedUtility):
        guesses = torch.tensor([model.guessing_probability > GUESSED]).double()
        yield chances_hold("called guesses", guesses, guesses)
    yield duels(person, model, points)
    yield from what_is_left(person, model, best, advice)


def _means(model: Any, points: Tensor) -> Tensor:
    return central_interval(model.posterior(points), LEVEL)[0]


MATTERS = {"below 0.3": (0.0, 0.3), "0.3 to 0.7": (0.3, 0.7), "above 0.7": (0.7, 1.0)}
"""Ranges of the stated probability that a parameter matters."""


def effects(
    person: Person, model: Any, best: Tensor, units: Mapping[str, float]
) -> Iterator[Tally]:
    """Effects of parameters around the best option shown, see the module.

    Args:
        person: Who answered.
        model: That tells.
        best: `1 x d`.
        units: Of the model, how many are one of the utility, by the unit's name; that
            of the noise has none.
    """
    problem, parameters = person.problem, person.problem.parameters
    live = torch.tensor([not parameter.dead for parameter in parameters])
    kinds = {"dead": ~live, "live": live}
    moved = [_moved(problem, best, parameter) for parameter in parameters]
    changes = [changes_from(model, best, X, LEVEL) for X in moved]
    for name, unit in units.items():
        held = []
        for X, change in zip(moved, changes, strict=True):
            truth = unit * (problem.utility(X) - problem.utility(best))
            held.append(((truth >= change.lower) & (truth <= change.upper)).all())
        holds = torch.stack(held)
        for kind, of_kind in kinds.items():
            stated = torch.full((int(of_kind.sum()),), LEVEL)
            yield chances_hold(f"effect ({kind}){name}", stated, holds[of_kind])
    named = torch.tensor([bool(((c.lower > 0) | (c.upper < 0)).any()) for c in changes])
    if isinstance(model, AveragedUtility):
        inputs = [parameter.columns for parameter in parameters]
        chances = torch.tensor(inclusion_probabilities(model, inputs))
        named = named | (chances >= LEVEL)
        for text, (low, high) in MATTERS.items():
            of_range = (chances > low) & (chances <= high)
            stated, truth = chances[of_range], live[of_range]
            yield chances_hold(f"matters ({text})", stated, truth)
    stated = torch.full((int((~live).sum()),), LEVEL)
    yield chances_hold("called dead", stated, ~named[~live])
    yield chances_hold("named", named[live].double(), named[live])


def _moved(problem: Problem, best: Tensor, parameter: Any) -> Tensor:
    """Designs with one parameter moved, which differ from the best one."""
    first, *others = parameter.columns
    count = len(parameter.columns) if others else NUM_VALUES
    moved = best.repeat(count, 1)
    if others:
        moved[:, list(parameter.columns)] = torch.eye(count).to(best)
    else:
        moved[:, first] = torch.linspace(0, 1, count).to(best)
    moved = problem.project(moved)
    return moved[(moved - best).abs().amax(-1) > 1e-3]


def duels(person: Person, model: Any, points: Tensor) -> Tally:
    """Answers of duels of options shown, and of new designs, as they are foreseen.

    Args:
        person: Who answered.
        model: That tells.
        points: Options shown, `n x d`.
    """
    count = min(10, len(points) // 2)
    shown = points[torch.randperm(len(points), generator=person.generator)]
    new = person.designs(40)
    first = torch.cat([shown[:count], new[:20]])
    second = torch.cat([shown[count : 2 * count], new[20:]])
    with torch.no_grad():
        stated = model.duel_probability(first, second, observation_noise=True)
    truth = person.preferred(first, second)
    return chances_hold("preferred", *favoured(stated, truth))


def _candidates(problem: Problem, best: Tensor) -> Tensor:
    return distinct(problem.project(stopping_candidates(best, problem.cube)))[0]


def stop_advice(person: Person, model: Any, best: Tensor) -> StoppingAdvice:
    """Asks whether to stop, as reports do.

    Args:
        person: Who answered.
        model: That tells.
        best: `1 x d`.
    """
    problem = person.problem
    return stopping_advice(
        getattr(model, "model", model),
        _candidates(problem, best),
        recommended=best,
        shown=model.datapoints,
        bounds=problem.cube if problem.is_cube else None,
        plausible=getattr(model, "members", ()),
    )


def what_is_left(
    person: Person, model: Any, best: Tensor, advice: StoppingAdvice
) -> Iterator[Tally]:
    """What better designs than the best one shown would bring, and the advice to stop.

    Args:
        person: Who answered.
        model: That tells.
        best: `1 x d`.
        advice: Of the model.
    """
    problem, points = person.problem, model.datapoints
    candidates = _candidates(problem, best)
    with torch.no_grad():
        top = candidates[_means(model, candidates).argmax()].unsqueeze(0)
        better = model.duel_probability(top, best)
    utility = problem.utility
    if not torch.equal(top, best):
        yield chances_hold("recommended", better, utility(top) > utility(best))
    values = utility(points)
    share = problem.regret(best) / (values.max() - values.min())
    ideal = torch.special.ndtr(problem.regret(best) / (math.sqrt(2) * person.deviation))
    chance = (1 - LAPSES) * ideal + LAPSES / 2
    yield chances_hold(
        "chance of regret", torch.tensor([advice.chance_of_regret]), chance
    )
    yield chances_hold("gain left", torch.tensor([advice.gain_share]), share)
    little = share < GAIN_TOLERANCE
    yield chances_hold("little left", torch.tensor([advice.gain_confidence]), little)
    enough = (little | (chance < TOLERANCE)).double()
    told = torch.tensor([float(advice.stop)])
    yield chances_hold("told to stop", told, told)
    yield chances_hold("found enough", enough, enough)
    if advice.stop:
        sure = max(advice.gain_confidence, advice.confidence)
        yield chances_hold("stop", torch.tensor([sure]), enough)


def panel(person: Person, answers: int) -> Iterator[Tally]:
    """Agreement and reliability of six raters with a clique and a contrarian.

    All of them answer random duels of fifteen designs, with the same noise. Each has a
    part of taste that is only theirs, of `INDIVIDUAL` of the deviation of the utility:
    no interval within a continuous posterior has a correlation of exactly 1.

    Args:
        person: Whose task it is.
        answers: Of each rater.
    """
    problem, source = person.problem, person.generator
    utility, raters = problem.utility, torch.arange(6)
    # The clique has the task with its first two inputs the other way round.
    flip = torch.zeros(problem.dim, dtype=torch.double)
    flip[:2] = 1.0

    def clique(X: Tensor) -> Tensor:
        return utility((flip - X).abs())

    judges = panel_with_contrarian(utility, clique, person.deviation**2, [source] * 6)
    items = person.designs(15)
    slopes = torch.randn(6, problem.dim, generator=source, dtype=torch.double)
    slopes *= INDIVIDUAL * utility(items).std() / (items @ slopes.mT).std(0)[:, None]
    tastes = [
        lambda X, taste=judge.utility, slope=slope: taste(X) + X @ slope
        for judge, slope in zip(judges.raters, slopes, strict=True)
    ]
    judges = Panel([ProbitJudge(t, person.deviation**2, source) for t in tastes])
    pairs, of_rater = [], []
    for number in range(6 * answers):
        places = torch.randperm(len(items), generator=source)[:2]
        pairs.append(places[judges.order(items[places])])
        of_rater.append(number % 6)
    rater = torch.tensor(of_rater).unsqueeze(-1)
    points = torch.cat(
        [items.repeat(6, 1), raters.repeat_interleave(15).unsqueeze(-1)], -1
    )
    model = EPPreferenceGP(
        points.double(),
        torch.stack(pairs) + 15 * rater,
        covar_module=rater_covar_module(
            problem.dim, stimulus=DuelKernel(problem.dim), noisy_raters=raters
        ),
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    model.eval()
    agreement = rater_agreement(model, items, raters)
    correlation = torch.corrcoef(torch.stack([taste(items) for taste in tastes]))
    truth = torch.stack([correlation[a, b] for a, b in agreement.index])
    yield _of_columns("agreement", agreement, truth)
    noise = rater_reliability(model)
    yield _of_columns("noise of a rater", noise, torch.ones(6))


def _of_columns(statement: str, table: pd.DataFrame, truth: Tensor) -> Tally:
    lower, upper = (torch.tensor(table[end].to_numpy()) for end in ("lower", "upper"))
    return intervals_hold(statement, lower, upper, truth)


def positions(person: Person, answers: int) -> Iterator[Tally]:
    """The share of duels of equals that the option shown first wins.

    Args:
        person: Who answers random duels, the first option half a noise deviation ahead.
        answers: How many.
    """
    advantage = 0.5 * person.deviation
    judge = ProbitJudge(
        person.problem.utility,
        person.deviation**2,
        person.generator,
        advantage=advantage,
    )
    options = person.designs(2 * answers)
    orders = torch.stack([judge.order(pair) for pair in options.view(answers, 2, -1)])
    pairs = orders + 2 * torch.arange(answers).unsqueeze(-1)
    # Of the winner: 1 where it was shown first, and -1 where second.
    first = 1.0 - 2.0 * orders[:, :1].double()
    model = EPPreferenceGP(
        options,
        feedback=[Comparisons(pairs, covariates=first)],
        covar_module=DuelKernel(person.problem.dim),
    )
    fit_gpytorch_mll(PreferenceMarginalLogLikelihood(model.likelihood, model))
    model.eval()
    _, lower, upper = (torch.tensor([x]) for x in position_bias(model, LEVEL).share)
    truth = torch.special.ndtr(torch.tensor([advantage / person.deviation / 2**0.5]))
    yield intervals_hold("position bias", lower, upper, truth)


PRIOR, PRIOR_DIM = "prior", 4
"""The task of people whose utility and noise are draws of the prior, and its inputs."""


def make_person(task: str, errors: str, seed: int) -> Person:
    """Makes a person of a task.

    Args:
        task: Her utility.
        errors: How much she errs, of `ERRORS`; the prior says it of its own people.
        seed: Of her errors and of random designs.
    """
    generator = torch.Generator().manual_seed(seed)
    if task == PRIOR:
        problem, deviation = draw_person(PRIOR_DIM, seed)
        return Person(problem, deviation, generator)
    problem = make_problem(task)
    assert problem.worst is not None
    deviation = ERRORS[errors] * (problem.best - problem.worst)
    return Person(problem, deviation, generator)


def rows_of(
    task: str,
    errors: str,
    seed: int,
    ask: str,
    tell: Sequence[str],
    checkpoints: Sequence[int],
    goal: Goal = "best",
    size: int = 2,
) -> pd.DataFrame:
    """The rows of the record of one person.

    Args:
        task: Her utility.
        errors: How much she errs, of `ERRORS`.
        seed: Of her errors and of random designs.
        ask: What chooses questions: `default`, the library; `panel` or `position` for
            raters, or positions, and random questions.
        tell: The models of what is stated, each of the same answers.
        checkpoints: Numbers of answers.
        goal: What questions are chosen for.
        size: How many options a question has.
    """
    person = make_person(task, errors, seed)
    problem = person.problem
    asked = ask if size == 2 else f"{size} to rank"
    known = {"task": task, "errors": errors, "seed": seed, "ask": asked}
    tables = []
    if ask in RANDOM_QUESTIONS:
        for answers in checkpoints:
            tallies = RANDOM_QUESTIONS[ask](person, answers)
            tables.append(table_of_tallies(tallies, **known, tell="", answers=answers))
        return pd.concat(tables)
    played = play(person, checkpoints, size, goal)
    for answers, (points, feedback) in zip(checkpoints, played, strict=True):
        # All models are asked about the same designs, and the play goes on from there.
        state = person.generator.get_state()
        for name in tell:
            person.generator.set_state(state)
            tallies = statements(person, MODELS[name](problem, points, feedback))
            row = {**known, "tell": name, "answers": answers}
            tables.append(table_of_tallies(tallies, **row))
    return pd.concat(tables)


RANDOM_QUESTIONS = {"panel": panel, "position": positions}


def main() -> None:
    """Plays persons, adds their rows to a record, and prints how often what holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", action="append", choices=[*TASK_NAMES, PRIOR])
    parser.add_argument("--errors", action="append", choices=ERRORS)
    parser.add_argument("--persons", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--answers", type=int, action="append")
    ask = ["default", *RANDOM_QUESTIONS]
    parser.add_argument("--ask", default="default", choices=ask)
    parser.add_argument("--options", type=int, default=2, help="of a question")
    parser.add_argument("--goal", default="best", choices=get_args(Goal))
    parser.add_argument("--tell", action="append", choices=MODELS)
    parser.add_argument("--record", type=Path, help="a table to add the tallies to")
    parser.add_argument("--read", type=Path, help="a table of tallies to print")
    options = parser.parse_args()
    start("how often what is stated of a person holds")
    if options.read:
        read = pd.read_csv(options.read, keep_default_na=False)
        print_coverage(read)
        print(page_table(read))
        return
    seeds = range(options.first_seed, options.first_seed + options.persons)
    persons = product(options.task or TASK_NAMES, options.errors or ["errs"], seeds)
    more = (
        options.ask,
        options.tell or [*MODELS],
        options.answers or CHECKPOINTS,
        options.goal,
        options.options,
    )
    tables = []
    for person in persons:
        begin = time.process_time()
        tables.append(rows_of(*person, *more))
        if options.record:
            record(options.record, tables[-1])
        print(*person, f"{time.process_time() - begin:.1f} s", flush=True)
    print_coverage(pd.concat(tables))


def record(path: Path, rows: pd.DataFrame) -> None:
    """Adds rows to a record, which is made if it is not there.

    Args:
        path: Of the record.
        rows: To add.
    """
    rows.to_csv(
        path,
        mode="a",
        header=not path.exists(),
        index=False,
        float_format="%.4g",
        lineterminator="\n",
    )


def print_coverage(table: pd.DataFrame) -> None:
    """Prints how often statements hold, over all tasks and by task.

    Args:
        table: Of a record.
    """
    for by in (["tell", "answers"], ["tell", "answers", "task"]):
        cells = coverage(table, by)
        print_table([*cells.columns], cells.to_numpy().tolist())


def page_table(table: pd.DataFrame) -> str:
    """Tabulates how often each statement holds, for `docs/logbook/calibration.md`.

    People of the tasks and those of the prior have columns of their own.

    Args:
        table: Of a record.
    """
    people = table["task"].eq(PRIOR).map({True: "prior", False: "tasks"})
    cells = coverage(table.assign(people=people), ["people", "tell", "answers"])
    cells = cells[~cells["statement"].isin(COUNTS)]
    texts = {
        (
            cell.statement,
            f"{cell.people} {cell.tell} {cell.answers}".replace("  ", " "),
        ): (
            f"{_percent(cell.held)} ± {_percent(cell.error)}, {_percent(cell.expected)}"
        )
        for cell in cells.itertuples()
    }
    heads = list(dict.fromkeys(head for _, head in texts))
    lines = [
        "| statement | " + " | ".join(heads) + " |",
        "| --- " * (len(heads) + 1) + "|",
    ]
    for statement in dict.fromkeys(statement for statement, _ in texts):
        row = [texts.get((statement, head), "") for head in heads]
        lines.append("| " + " | ".join([statement, *row]) + " |")
    return "\n".join(lines)


COUNTS = "named", "called guesses", "told to stop", "found enough"
"""What promises nothing."""


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.0f}"


if __name__ == "__main__":
    main()
