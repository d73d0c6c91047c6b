"""A study of four runs, and rows as a run of it would have them."""

import numpy as np

from benchmarks.suite.cell import Rule, Setting
from benchmarks.suite.studies.study import Study

SETTING = Setting("branin", "probit", 5.0)
RANDOM, UCB = Rule("laplace", "random"), Rule("laplace", "ucb")
STUDY = Study("tiny", "?", (SETTING,), (RANDOM, UCB), RANDOM, 2, 2, 2)
CELLS = list(STUDY.cells())


def row(rule: Rule, seed: int, duel: int, regret: float, **columns: float) -> dict:
    record = {"study": "tiny", "problem": "p", "judge": "exact", "noise": 0.0}
    record |= {"model": rule.model, "acquisition": rule.acquisition}
    record |= {"options": rule.options, "answer": rule.answer}
    record |= {"seed": seed, "duel": duel, "regret_recommended": regret}
    record |= {"regret_best_shown": 0.0, "seconds": 2.0 * duel, "chosen": duel // 2}
    record |= {"distance": 0.5, "repeated": 0, "told_apart": 1.0, "tied": 0}
    record |= {"invalid": 0, "warnings": 0, "basin_regret": np.nan}
    record |= {"regret_anywhere": np.nan}
    return record | columns
