"""The log of a run."""

import json

import torch
from draws import uniform

from botorch_pref import Question
from botorch_pref.simulation import RankedQuestion, RunSettings
from botorch_pref.simulation.question_loop import question_line, settings_line


def test_the_lines_of_a_log_have_every_figure_exactly() -> None:
    settings = RunSettings("branin", 3, 2, 0.25, 7)
    line = json.loads(settings_line(settings))
    assert line.pop("record") == "settings"
    assert RunSettings(**line) == settings
    options = uniform(3, 2)
    question = Question(options, "Sobol", "because")
    order = torch.tensor([2, 0, 1])
    answered = RankedQuestion(1, question, order, 2, options[2], 1 / 3, None)
    assert json.loads(question_line(answered)) == {
        **{"record": "question", "number": 1, "order": [2, 0, 1], "favourite": 2},
        **{"options": options.tolist(), "acquisition": "Sobol", "reason": "because"},
        **{"incumbent": options[2].tolist(), "regret": 1 / 3},
    }
