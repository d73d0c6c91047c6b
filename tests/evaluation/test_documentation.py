"""The code of docs/evaluation.md runs, and prints what it says."""

import re
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"


def test_the_page(capsys) -> None:
    text = PAGE.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.M))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found: dict = {}
        exec(code, found)
    printed = capsys.readouterr().out
    assert "win_rate" in printed
    # The first coordinate decides every answer: the model foresees nearly all.
    scores = found["predictive_log_probability"](
        found["held_out"], found["model"], found["X"]
    )
    assert scores.mean() > -0.4
    assert found["advice"].chance_of_regret >= 0.5
