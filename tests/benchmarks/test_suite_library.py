"""Questions of the library, as the suite plays it: on designs of every kind."""

import pytest
import torch
from torch import Tensor

from benchmarks.suite.cell import (
    LIBRARY,
    UNDERSTANDING,
    UNDERSTANDING_FIRST,
    WITHOUT_RIVALS,
    Cell,
    Rule,
    Setting,
)
from benchmarks.suite.runs.batch import batches, play_together
from benchmarks.suite.runs.library import PlayerOfLibrary
from benchmarks.suite.runs.play import COLUMNS
from benchmarks.suite.runs.players import check_rule
from benchmarks.suite.studies import STUDIES
from botorch_pref import (
    Comparisons,
    Rankings,
    default_model,
    incumbent,
    next_question,
    recommend,
)
from botorch_pref.asking.request import Goal
from botorch_pref.simulation import make_problem

BEST_OF_FOUR = Rule("library", "next-question", 4, "best")


def test_every_study_has_what_the_library_asks() -> None:
    for study in STUDIES.values():
        for setting in study.settings:
            rules = study.rules_of(setting)
            check_rule(LIBRARY[0])
            assert LIBRARY[0] in rules
            # Batches hear of no ties of two.
            assert (LIBRARY[1] in rules) == (setting.judge != "ties")


@pytest.mark.parametrize(
    "rule",
    [*LIBRARY, WITHOUT_RIVALS, UNDERSTANDING, BEST_OF_FOUR],
    ids=lambda rule: rule.title,
)
@pytest.mark.parametrize("name", ["mixed", "choices", "branin"])
def test_it_asks_about_designs_of_every_kind(name: str, rule: Rule) -> None:
    """Steps, choices and a limit of a sum: of 6 questions the last one is chosen."""
    cells = [Cell("t", Setting(name), rule, seed, 5, 6) for seed in range(2)]
    assert batches(cells) == [[cell] for cell in cells]
    (outcome,) = play_together(cells[:1])
    assert not outcome.error, outcome.error
    last = dict(zip(COLUMNS, outcome.rows[-1], strict=True))
    assert last["chosen"] == "1"
    assert float(last["distance"]) > 0
    regrets = [float(row[COLUMNS.index("regret_best_shown")]) for row in outcome.rows]
    assert regrets == sorted(regrets, reverse=True)


@pytest.mark.parametrize(
    ("rule", "answers"),
    [
        *((rule, 6) for rule in (*LIBRARY, WITHOUT_RIVALS, UNDERSTANDING)),
        *((UNDERSTANDING_FIRST, answers) for answers in (16, 17)),
    ],
    ids=lambda case: case.title if isinstance(case, Rule) else f"{case} answers",
)
def test_it_is_the_recommended_model_and_question(rule: Rule, answers: int) -> None:
    problem = make_problem("branin")
    sources = [torch.Generator().manual_seed(3)]
    player = PlayerOfLibrary(rule, problem, False, sources)
    size = rule.options
    X = torch.rand(
        answers * size, 2, generator=torch.Generator().manual_seed(0)
    ).double()
    questions = X.view(answers, size, 2)
    order = problem.utility(questions).argsort(-1, descending=True)
    ordered = questions.gather(1, order.unsqueeze(-1).expand_as(questions))
    player.learn(ordered.unsqueeze(0))
    rows = torch.arange(len(X)).view(answers, size)
    feedback = Comparisons(rows) if size == 2 else Rankings(rows)
    model = default_model(ordered.flatten(0, 1), feedback)
    torch.testing.assert_close(player.recommended(), incumbent(model))

    def draw() -> int:
        source = torch.Generator().manual_seed(3)
        return int(torch.randint(2**31, (), generator=source))

    understands = rule == UNDERSTANDING or (
        rule == UNDERSTANDING_FIRST and answers < 17
    )
    goal: Goal = "understand" if understands else "best"
    best_named = incumbent(model) if rule == WITHOUT_RIVALS else None
    question = next_question(
        model, problem.cube, size, seed=draw(), goal=goal, best=best_named
    )
    repeated: Tensor = player.ask()
    torch.testing.assert_close(repeated.squeeze(0), question.options)
    best = recommend(model, problem.cube).point
    torch.testing.assert_close(player.best_anywhere(), best)
