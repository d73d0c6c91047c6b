"""The loop that the library recommends, with a simulated judge: ask, learn, log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from botorch.models.model import Model
from torch import Generator, Tensor

from botorch_pref.acquisition import incumbent
from botorch_pref.asking import Question, default_model, next_question
from botorch_pref.asking.request import Goal
from botorch_pref.feedback import Comparisons, Feedback, Rankings
from botorch_pref.simulation.judges import Judge, ProbitJudge
from botorch_pref.simulation.problem import Problem


@dataclass(frozen=True)
class RunSettings:
    """Settings that determine a simulated run.

    Attributes:
        problem: The name of the problem.
        options: How many options a question has, at least 2.
        questions: How many are asked.
        noise: Variance of the judge's noise per option; 0 for one who never errs.
        seed: Of every draw.
        goal: What questions are chosen for, see `next_question`.
    """

    problem: str
    options: int
    questions: int
    noise: float
    seed: int
    goal: Goal = "best"


@dataclass(frozen=True)
class RankedQuestion:
    """A question that was answered, and what the model made of the answer.

    Attributes:
        number: Position in the run, from 0.
        question: Its options, and why these.
        order: Places of the options, the best first.
        favourite: Place of the option with the largest posterior mean before the
            answer; None where there was no model.
        incumbent: ``d`` inputs of the best design so far, by the model after the
            answer.
        regret: The simple regret of the incumbent.
        model: Of all answers so far.
    """

    number: int
    question: Question
    order: Tensor
    favourite: int | None
    incumbent: Tensor
    regret: float
    model: Model


def problem_question(
    problem: Problem,
    model: Model | None,
    size: int,
    seed: int = 0,
    goal: Goal = "best",
    best: Tensor | None = None,
) -> Question:
    """Chooses the next question about a problem, by the rule the library recommends.

    Args:
        problem: Whose designs are options.
        model: Of the answers so far, in the unit cube; None before the first.
        size: Number of options.
        seed: Of the options before there is a model, and of all draws.
        goal: What the question is chosen for, see `next_question`.
        best: ``1 x d``, the best design so far, where it is not the model's to say.
    """
    limit = problem.sum_limit
    return next_question(
        model,
        problem.cube,
        size,
        inequality_constraints=None if limit is None else [limit.inequality],
        discrete_dims=problem.discrete_dims or None,
        categorical=problem.categorical,
        seed=seed,
        goal=goal,
        best=best,
    )


def problem_model(problem: Problem, X: Tensor, feedback: Feedback) -> Model:
    """Fits the model that the library recommends to answers about a problem.

    Args:
        problem: Whose designs were shown.
        X: ``n x d`` designs.
        feedback: What was said of them.
    """
    return default_model(X, feedback, categorical=problem.categorical)


def run_questions(
    problem: Problem, judge: Judge, settings: RunSettings
) -> Iterator[RankedQuestion]:
    """Asks a judge by the rule of the library, and yields each answered question.

    Args:
        problem: What the judge knows and the model does not.
        judge: Ranks the options of a question.
        settings: The number of questions and options, and the seed.
    """
    model: Model | None = None
    X = torch.empty(0, problem.dim, dtype=torch.double)
    orders = torch.empty(0, settings.options, dtype=torch.long)
    for number in range(settings.questions):
        question = problem_question(
            problem, model, settings.options, settings.seed, settings.goal
        )
        order = judge.order(question.options)
        favourite = None if model is None else _favourite(model, question.options)
        # Answers name options by their rows in X, to which these are about to be added.
        orders = torch.cat([orders, len(X) + order.unsqueeze(0)])
        X = torch.cat([X, question.options])
        pairs = settings.options == 2
        feedback = Comparisons(orders) if pairs else Rankings(orders)
        model = problem_model(problem, X, feedback)
        best = incumbent(model).flatten()
        regret = float(problem.regret(best))
        yield RankedQuestion(number, question, order, favourite, best, regret, model)


def _favourite(model: Model, options: Tensor) -> int:
    """Finds the place of the option with the largest posterior mean."""
    with torch.no_grad():
        posterior: Any = model.posterior(options)
    return int(posterior.mean.flatten().argmax())


def make_judge(problem: Problem, settings: RunSettings) -> ProbitJudge:
    """Makes the judge of a run, whose noise is drawn by its seed."""
    generator = Generator().manual_seed(settings.seed)
    return ProbitJudge(problem.utility, settings.noise, generator)


# --- A run as JSON lines: the settings first, then one line a question


def settings_line(settings: RunSettings) -> str:
    """Writes the first line of a log."""
    return json.dumps({"record": "settings", **asdict(settings)})


def question_line(answered: RankedQuestion) -> str:
    """Writes the line of a question, with floats that read back exactly."""
    fields = {"record": "question", **vars(answered)}
    del fields["model"]
    fields |= fields.pop("question")._asdict()
    return json.dumps(fields, default=Tensor.tolist)
