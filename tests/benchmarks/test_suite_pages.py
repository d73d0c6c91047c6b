"""Tables, claims, figures and the page of the suite."""

import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tiny_study import RANDOM, STUDY, UCB, row

from benchmarks.suite.cell import OPTUNA, Rule, Setting
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.pages import figures
from benchmarks.suite.pages.claims import against_reference, table_of_claims, verdict
from benchmarks.suite.pages.figures import draw_figures, draw_regrets
from benchmarks.suite.pages.logbook import (
    SOURCE,
    generated_names,
    make_pages,
    write_pages,
)
from benchmarks.suite.pages.options import rows_of_setting
from benchmarks.suite.pages.study import study_pages
from benchmarks.suite.pages.tables import (
    bootstrap_median,
    markdown,
    of_the_cube,
    side_by_side,
    starts_before_judges,
    table_of,
)
from benchmarks.suite.pages.targets import after_many, after_thirty, targets_page
from benchmarks.suite.runs.store import write_record
from benchmarks.suite.studies import STUDIES
from benchmarks.suite.studies.claim import Claim
from benchmarks.suite.studies.rules import ADVISED, EXPLORING
from benchmarks.suite.studies.study import Study


def test_the_figures_of_a_table() -> None:
    ends = {RANDOM: [3.0, 1.0, 8.0], UCB: [1.0, 2.0, 3.0]}
    runs = pd.DataFrame(
        row(rule, seed, duel, regret if duel == 2 else 99.0)
        for rule, regrets in ends.items()
        for seed, regret in enumerate(regrets)
        for duel in range(3)
    )
    last = (runs["acquisition"] == "ucb") & (runs["duel"] == 2)
    runs.loc[last, "distance"] = [0.049, 0.051, 0.0]
    runs.loc[last, "repeated"] = [0, 0, 1]
    runs.loc[last, "basin_regret"] = [0.8, 0.04, 0.06]
    runs.loc[last, "regret_anywhere"] = [0.25, 1.25, 0.75]
    runs.loc[runs["acquisition"] == "ucb", "chosen"] = 1
    runs.loc[runs["acquisition"] == "ucb", "told_apart"] = [0.5, 1, 0.5] * 3
    table = table_of(STUDY, runs).set_index("acquisition")
    assert list(table.index) == ["ucb", "random"]
    ucb = table.loc["ucb"]
    assert ucb["runs"] == 3
    assert ucb["median"] == 2.0
    assert ucb["mean"] == 2.0
    assert ucb["error"] == pytest.approx(1 / 3**0.5)
    # Differences of -2, 1 and -5.
    assert ucb["against reference"] == -2.0
    assert ucb["its error"] == pytest.approx(np.std([-2, 1, -5], ddof=1) / 3**0.5)
    assert ucb["better in"] == 2
    assert ucb["pairs"] == 3
    assert ucb["wrong optimum"] == 2
    assert ucb["anywhere median"] == 0.75
    assert ucb["anywhere mean"] == 0.75
    assert of_the_cube(table.reset_index()) == ["0.75, 0.75 ± 0.29", ""]
    # 9 duels were chosen, of which 6 were before the last third.
    assert ucb["near copies %"] == pytest.approx(100 * 2 / 9)
    assert ucb["repeated %"] == pytest.approx(100 / 9)
    assert ucb["unclear early %"] == pytest.approx(100 / 2)
    assert ucb["seconds"] == 3.0
    assert table.loc["random", "pairs"] == 0
    assert np.isnan(table.loc["random", "against reference"])
    # Three runs cannot have an interval of 95 %, and the reference meets others only.
    text = markdown(pd.DataFrame(side_by_side(table.reset_index())))
    assert "| 3 | 2 | 2 ± 0.58 | -2 ± 1.7 | 2 of 3 |" in text
    assert "| 3 | 3 | 4 ± 2.1 |  |  |" in text


def test_the_interval_of_a_median_covers_it_as_often_as_it_says() -> None:
    generator = np.random.default_rng(3)
    draws = generator.exponential(size=(200, 40))
    covers = [low <= np.log(2) <= high for low, high in map(bootstrap_median, draws)]
    # 95 % of 200, with a deviation of 3.1, and a percent or two for small samples.
    assert sum(covers) >= 200 * 0.95 - 4 * 3.1 - 4


def test_runs_of_no_rule_of_a_study_are_told() -> None:
    runs = pd.DataFrame([row(OPTUNA, 0, 0, 1.0)])
    with pytest.raises(SuiteError, match="of a rule of the study tiny"):
        table_of(STUDY, runs)


def test_figures_are_drawn_from_the_rows_alone(tmp_path: Path) -> None:
    runs = pd.DataFrame(row(UCB, s, d, 0.1 / (d + 1)) for s in (0, 1) for d in (0, 1))
    (path,) = draw_regrets(STUDY, runs, tmp_path / "figures")
    assert path.name == "tiny-p-exact-0.png"
    assert path.stat().st_size > 10_000


LOGBOOK = Path(__file__).parents[2] / "docs" / "logbook"


@pytest.mark.slow
def test_the_pages_are_those_that_the_records_make(records: Path) -> None:
    pages = make_pages(STUDIES.values(), records)
    assert generated_names(LOGBOOK) == pages.keys()
    for name, page in pages.items():
        committed = (LOGBOOK / name).read_text(encoding="utf-8")
        assert page == committed, f"{name}: suite report --pages docs/logbook"


def test_pages_are_written_beside_those_by_hand(tmp_path: Path) -> None:
    """A page that records no longer make goes; what somebody wrote stays."""
    write_pages({"old.md": f"# Old\n\n{SOURCE}"}, tmp_path)
    (tmp_path / "errata.md").write_text("# Errata\n", encoding="utf-8")
    new = f"# New\n\n{SOURCE}"
    write_pages({"new.md": new}, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"errata.md", "new.md"}
    assert (tmp_path / "new.md").read_text(encoding="utf-8") == new


def test_questions_of_several_options_by_number_and_by_minutes() -> None:
    """Regrets fall by one a question, from 100 with duels and 50 with the best of 4."""
    four = replace(UCB, options=4)
    runs = pd.DataFrame(
        row(rule, seed, n, start + seed - n, basin_regret=0.1 * (n == 29))
        for rule, start in ((RANDOM, 100.0), (four, 50.0))
        for seed in range(2)
        for n in range(30)
    )
    study = replace(STUDY, rules=(RANDOM, four, OPTUNA))
    questions, minutes = rows_of_setting(study, runs)
    assert list(questions["rule"]) == ["laplace, random", "laplace, ucb, best of 4"]
    assert list(questions["after 10"]) == ["91.5 ± 0.5", "41.5 ± 0.5"]
    assert list(questions["above duels, after 10"]) == ["", "-50 ± 0"]
    assert list(questions["wrong optimum"]) == [2, 2]
    # A minute is ten duels, six choices of four at 10 s and five at 12 s.
    assert list(minutes.iloc[:, 1]) == ["91.5 ± 0.5", "45.5 ± 0.5"]
    assert list(minutes.iloc[:, 4]) == ["91.5 ± 0.5", "46.5 ± 0.5"]


@pytest.mark.slow
def test_a_section_has_a_table_for_each_setting(tmp_path: Path, records: Path) -> None:
    ends = {RANDOM: [3.0, 1.0, 8.0, 2.0], UCB: [1.0, 2.0, 1.5, 8.0]}
    runs = pd.DataFrame(
        row(rule, seed, duel, regret if duel == 3 else 99.0)
        for rule, regrets in ends.items()
        for seed, regret in enumerate(regrets)
        for duel in range(4)
    ).assign(problem="branin", judge="probit", noise=5.0)
    write_record(runs, tmp_path / "tiny")
    for name in ("accuracy_audit.csv", "screen_rules.csv", "skewgp_figure_4.csv"):
        shutil.copy(records / name, tmp_path)
    study = replace(STUDY, num_seeds=4)
    pages = make_pages([study], tmp_path)
    text = pages["tiny.md"]
    assert re.findall(r"\| laplace, ucb \| 4 \| (\S+) \|", text) == ["1.75"]
    assert "## branin, probit judge, 5" in text


def test_a_study_of_several_settings_has_a_page_for_each() -> None:
    ends = {RANDOM: 3.0, UCB: 1.0}
    runs = pd.concat(
        pd.DataFrame(
            row(rule, seed, 0, factor * regret)
            for rule, regret in ends.items()
            for seed in range(12)
        ).assign(problem=problem)
        for problem, factor in (("p", 1.0), ("q", 2.0))
    )
    pages = study_pages(STUDY, runs)
    assert list(pages) == ["tiny", "tiny-p-exact-0", "tiny-q-exact-0"]
    assert "- [q, exact](tiny-q-exact-0.md)" in pages["tiny"]
    assert "100 (" in pages["tiny"].partition("## All settings")[2]
    assert pages["tiny-q-exact-0"].startswith("# q, exact\n")
    # Median and mean with its error, of twelve runs that all end at 2.
    assert "| 12 | 2 (2 to 2) | 2 ± 0 |" in pages["tiny-q-exact-0"]
    assert "| 12 | 1 (1 to 1) | 1 ± 0 |" in pages["tiny-p-exact-0"]


def test_starts_are_counted_over_the_problems_of_each_judge() -> None:
    """Two problems with two rates of errors each, and a judge who may tie."""
    learned = Rule("ep-learned-noise", "eiig")
    settings = tuple(
        Setting(problem, judge, noise)
        for problem, noises in (("branin", (0.1, 0.2)), ("levy", (0.3, 0.4)))
        for judge, noise in (*(("probit", n) for n in noises), ("ties", noises[0]))
    )
    study = Study("one", "?", settings, (UCB, learned), UCB, without_ties=(learned,))
    assert study.judges() == {
        "probit 1": (settings[0], settings[3]),
        "probit 2": (settings[1], settings[4]),
        "ties": (settings[2], settings[5]),
    }
    played = ((settings[0], UCB, 3), (settings[3], UCB, 4), (settings[4], learned, 5))
    runs = pd.DataFrame(
        row(rule, seed, duel, 1.0) | asdict(setting)
        for setting, rule, number in played
        for seed in range(number)
        for duel in range(2)
    )
    assert starts_before_judges(study, runs).to_dict() == {
        (UCB.title, "probit 1"): 7,
        (UCB.title, "probit 2"): 0,
        (UCB.title, "ties"): 0,
        (learned.title, "probit 1"): 0,
        (learned.title, "probit 2"): 5,
    }
    page = study_pages(study, runs)["one"]
    few = page.partition("but for these rules:\n\n")[2]
    assert few.splitlines()[:4] == [
        "| rule | probit 1 | probit 2 | ties |",
        "| --- | --- | --- | --- |",
        f"| {UCB.title} | 7 | 0 | 0 |",
        f"| {learned.title} | 0 | 5 |  |",
    ]


def test_figures_that_are_drawn_are_those_to_which_pages_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, records: Path
) -> None:
    """Of rules with four starts: of one in setting p, of both in q, of none in r."""
    played = (("p", RANDOM, 3), ("p", UCB, 4), ("r", UCB, 3))
    played = (*played, ("q", RANDOM, 4), ("q", UCB, 5))
    runs = pd.DataFrame(
        row(rule, seed, 0, 1.0) | {"problem": problem}
        for problem, rule, starts in played
        for seed in range(starts)
    )
    write_record(runs, tmp_path / "tiny")
    write_record(runs[runs["problem"] == "q"], tmp_path / "one")
    for name in ("accuracy_audit.csv", "screen_rules.csv", "skewgp_figure_4.csv"):
        shutil.copy(records / name, tmp_path)
    drawn: dict[str, list[Rule]] = {}

    def draw(curves: dict[Rule, pd.DataFrame], *arguments: object) -> None:
        *_, path = arguments
        drawn[path.name] = list(curves)

    monkeypatch.setattr(figures, "_draw", draw)
    one, other = replace(STUDY, name="one"), replace(STUDY, name="2", runs_of="tiny")
    draw_figures([STUDY, one, other], tmp_path, tmp_path / "figures")
    assert drawn == {
        "tiny-p-exact-0.png": [UCB],
        "tiny-q-exact-0.png": [RANDOM, UCB],
        "one-q-exact-0.png": [RANDOM, UCB],
    }
    (audit,) = (tmp_path / "figures").iterdir()
    pages = make_pages([STUDY, one, other], tmp_path)
    links = re.findall(r"!\[.*\]\(figures/(\S+)\)", "".join(pages.values()))
    assert sorted(links) == sorted([*drawn, audit.name])


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
    table = table_of_claims([Claim(way, UCB, RANDOM, way) for way in ways], runs)
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
    assert verdict(0.39, 0.05, 1.0) == "is wrong here"
    assert verdict(0.61, 0.05, 1.0) == "holds"
    assert verdict(0.59, 0.05, 1.0) == "is not decided"
    # Between 36 and 64 %, and within a factor of 1.25.
    assert verdict(0.53, 0.05, 1.24) == verdict(0.47, 0.05, 0.81) == "is level"
    assert verdict(0.55, 0.05, 1.0) == verdict(0.45, 0.05, 1.0) == "is not decided"
    assert verdict(0.53, 0.05, 1.26) == verdict(0.53, 0.05, 0.79) == "is not decided"
    assert verdict(0.53, 0.05, float("nan")) == "is not decided"
    assert table_of_claims([Claim("?", UCB, OPTUNA)], runs).empty


def test_judges_of_one_start_are_no_more_starts() -> None:
    # UCB wins one start before three judges and loses the other before one.
    ends = {RANDOM: [2.0, 2.0], UCB: [1.0, 3.0]}
    runs = pd.concat(
        pd.DataFrame(
            row(rule, seed, 0, regret)
            for rule, rules in ends.items()
            for seed, regret in enumerate(rules)
        ).assign(noise=noise)
        for noise in (0.0, 1.0, 2.0)
    )
    runs = runs[(runs["noise"] == 0.0) | (runs["seed"] == 0)]
    (claim,) = table_of_claims([Claim("?", UCB, RANDOM)], runs).to_dict("records")
    assert claim["pairs"] == 4
    assert claim["starts"] == 2
    # Three of six, with two won and two lost added to one of two.
    error = 100 * 2 * (0.5 * 0.5 / 6) ** 0.5
    assert claim["better in %"] == f"50 ({50 - error:.0f} to {50 + error:.0f})"


def test_figures_to_reach_stand_beside_those_reached_and_paired_rivals() -> None:
    """Ours at 1, 2 and 6; optuna's at 4 and 7, from the first two of these starts."""
    start_row = {"problem": "sixhumpcamel-narrow", "duel": 29}
    ends = [(ADVISED, 0, 1.0), (ADVISED, 1, 2.0), (ADVISED, 2, 6.0)]
    ends += [(OPTUNA, 0, 4.0), (OPTUNA, 1, 7.0), (OPTUNA, 9, 100.0)]
    rows = [row(rule, seed, 0, regret) | start_row for rule, seed, regret in ends]
    # Two tops of hills are too low, and what went before does not count.
    for number, regret in enumerate((0.04, 0.06, 0.2)):
        rows[number]["basin_regret"] = regret
    rows += [record | {"duel": 28, "regret_recommended": 50.0} for record in rows]
    runs = pd.DataFrame(rows)
    (summary,) = after_thirty(runs).to_dict("records")
    assert summary["to reach"] == "0.001, 0.005, none"
    assert summary["reached"] == "2, 3, 2"
    assert summary["runs"] == "3"
    # The third run of the rival has no pair; differences are -3 and -5.
    assert summary["optuna-dashboard"] == "5.5: -4 ± 1 (2)"
    assert summary["chance"] == ""
    assert after_thirty(runs[runs["model"] == "optuna"]).empty
    long = runs.assign(acquisition=runs["acquisition"].replace("joint-kg", "eiig"))
    assert after_many([long]).empty
    duels = {"options": 2, "answer": "best", "regret_anywhere": 0.5}
    long = runs.assign(**duels, acquisition=EXPLORING.acquisition)
    long.loc[runs["model"] == "optuna", "acquisition"] = OPTUNA.acquisition
    long.loc[long["seed"] == 1, "regret_recommended"] += 6.0 * (long["model"] == "ep")
    (summary,) = after_many([long]).to_dict("records")
    assert summary["optuna-dashboard"] == 5.5
    assert summary["reached"] == 4.5
    assert summary["anywhere"] == 0.5
    assert summary["less in"] == "1 of 2"
    # Differences are -3 and 1.
    assert summary["means"] == "5.5: -1 ± 2 (2)"
    held = pd.DataFrame({"so it": ["holds", "is not decided", "is level"]})
    names = ("default", "skewgp-figure-5", "skewgp-figure-6")
    page = targets_page(dict(zip(names, (runs, long, long), strict=True)), held)
    assert "2 of 3 claims with runs are decided, 67 %" in page
    assert targets_page({"default": runs}, held) == ""


def test_rules_are_compared_with_the_reference_over_all_settings() -> None:
    # UCB wins one start of one problem, and both of the other's.
    ends = {RANDOM: [2.0, 2.0], UCB: [1.0, 3.0], OPTUNA: [4.0]}
    of_one = pd.DataFrame(
        row(rule, seed, 0, regret, basin_regret=regret / 50)
        for rule, rules in ends.items()
        for seed, regret in enumerate(rules)
    )
    other_problem = of_one.assign(problem="q")
    other_problem.loc[other_problem["acquisition"] == "ucb", "regret_recommended"] = 0.0
    study = replace(STUDY, rules=(RANDOM, OPTUNA, UCB, Rule("ep", "ucb")))
    table = against_reference(study, pd.concat([of_one, other_problem]))
    assert list(table["rule"]) == ["laplace, ucb", "optuna, sampler"]
    assert list(table["pairs"]) == [4, 2]
    # 3 of 4 and none of 2: with two and two more, 5 of 8 and 2 of 6, and two errors.
    assert list(table["better in %"]) == ["75 (28 to 97)", "0 (0 to 72)"]
    # Tops of hills, a fiftieth of the regret below the best: 0.02 to 0.08.
    assert list(table["wrong optimum"]) == [2, 2]
    assert list(table["the reference's"]) == [0, 0]
    assert against_reference(replace(STUDY, reference=OPTUNA), of_one[:2]).empty


def test_the_first_screen_has_the_decided_claims_that_lead(
    tmp_path: Path, records: Path
) -> None:
    runs = pd.DataFrame(
        row(rule, seed, 0, regret)
        for rule, regret in ((UCB, 1.0), (RANDOM, 2.0))
        for seed in range(30)
    )
    write_record(runs, tmp_path / "tiny")
    for name in ("accuracy_audit.csv", "screen_rules.csv", "skewgp_figure_4.csv"):
        shutil.copy(records / name, tmp_path)
    claims = (
        Claim("It wins.", UCB, RANDOM, leads=True),
        Claim("It takes less time.", UCB, RANDOM, "seconds", leads=True),
        Claim("It loses.", RANDOM, UCB),
    )
    pages = make_pages([replace(STUDY, claims=claims)], tmp_path)
    first, further = pages.pop("claims.md"), pages["further-claims.md"]
    # With two won and two lost 32 of 34, and two errors of 0.040.
    assert "2 of 3 claims with runs are decided." in first
    assert "| It wins. | holds | 30 | 100 (86 to 100) | 0.50 |" in first
    assert "It wins." not in "".join(pages.values())
    assert "| It loses. |" in pages["claims-that-fail.md"]
    assert "| It takes less time. |" in pages["claims-not-decided.md"]
    linked = ("Claims that fail](claims-that-fail.md", "claims-not-decided.md")
    assert all(link in further for link in linked)
