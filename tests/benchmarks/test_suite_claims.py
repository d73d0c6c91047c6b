"""Claims of the suite, held against pairs of runs from the same start."""

from dataclasses import replace

import pandas as pd
from tiny_study import RANDOM, STUDY, UCB, row

from benchmarks.suite.cell import OPTUNA, Rule
from benchmarks.suite.pages.claims import (
    against_reference,
    table_of_claims,
    verdict,
)
from benchmarks.suite.studies.claim import Claim


def test_a_claim_is_held_against_pairs_from_the_same_start() -> None:
    # From the same start UCB is better, worse, the same, better: 2.5 of 4 pairs. A run
    # without its pair does not count.
    ends = {RANDOM: [3.0, 1.0, 8.0, 2.0, 0.0], UCB: [1.0, 2.0, 8.0, 1.5]}
    runs = pd.DataFrame(
        row(
            *(rule, seed, duel, regret - (duel == 0) * 10 * (rule == RANDOM)),
            invalid=int(rule == RANDOM),
        )
        for rule, regrets in ends.items()
        for seed, regret in enumerate(regrets)
        for duel in range(2)
    )
    ways = "end", "way", "seconds", "invalid"
    table = table_of_claims([Claim(of, UCB, RANDOM, of) for of in ways], runs)
    assert list(table["pairs"]) == [4, 4, 4, 4]
    assert list(table["starts"]) == [4, 4, 4, 4]
    # Regret on the way is the mean of both duels, with ten less for random's first.
    # With two won and two lost added, 4.5, 2, 4 and 6 of 8, and two errors of 0.175,
    # 0.153, 0.177 and 0.153, within what a share can be.
    assert list(table["better in %"]) == [
        "62 (21 to 91)",
        "0 (0 to 56)",
        "50 (15 to 85)",
        "100 (44 to 100)",
    ]
    assert list(table["less"])[1:3] == ["mean regret of all duels", "seconds"]
    assert list(table["lower median in"]) == ["1 of 1", "0 of 1", "0 of 1", "1 of 1"]
    assert set(table["so it"]) == {"is not decided"}
    assert verdict(0.39, 0.05) == "is wrong here"
    assert verdict(0.61, 0.05) == "holds"
    assert verdict(0.59, 0.05) == "is not decided"
    assert table_of_claims([Claim("?", UCB, OPTUNA)], runs).empty


def test_judges_of_one_start_are_no_more_starts() -> None:
    # UCB wins one start before three judges and loses the other before one.
    ends = {RANDOM: [2.0, 2.0], UCB: [1.0, 3.0]}
    runs = pd.concat(
        pd.DataFrame(
            row(rule, seed, 0, regret)
            for rule, both in ends.items()
            for seed, regret in enumerate(both)
        ).assign(noise=noise)
        for noise in (0.0, 1.0, 2.0)
    )
    runs = runs[(runs["noise"] == 0.0) | (runs["seed"] == 0)]
    (told,) = table_of_claims([Claim("?", UCB, RANDOM)], runs).to_dict("records")
    assert (told["pairs"], told["starts"]) == (4, 2)
    # Three of six, with two won and two lost added to one of two.
    error = 100 * 2 * (0.5 * 0.5 / 6) ** 0.5
    assert told["better in %"] == f"50 ({50 - error:.0f} to {50 + error:.0f})"


def test_rules_are_compared_with_the_reference_over_all_settings() -> None:
    # UCB wins one start of one problem, and both of the other's.
    ends = {RANDOM: [2.0, 2.0], UCB: [1.0, 3.0], OPTUNA: [4.0]}
    of_one = pd.DataFrame(
        row(rule, seed, 0, regret, basin_regret=regret / 50)
        for rule, both in ends.items()
        for seed, regret in enumerate(both)
    )
    other = of_one.assign(problem="q")
    other.loc[other["acquisition"] == "ucb", "regret_recommended"] = 0.0
    study = replace(STUDY, rules=(RANDOM, OPTUNA, UCB, Rule("ep", "ucb")))
    table = against_reference(study, pd.concat([of_one, other]))
    assert list(table["rule"]) == ["laplace, ucb", "optuna, sampler"]
    assert list(table["pairs"]) == [4, 2]
    # 3 of 4 and none of 2: with two and two more, 5 of 8 and 2 of 6, and two errors.
    assert list(table["better in %"]) == ["75 (28 to 97)", "0 (0 to 72)"]
    # Tops of hills, a fiftieth of the regret below the best: 0.02 to 0.08.
    assert list(table["wrong optimum"]) == [2, 2]
    assert list(table["the reference's"]) == [0, 0]
    assert against_reference(replace(STUDY, reference=OPTUNA), of_one[:2]).empty
