"""The suite of regrets: runs, their files, the cluster, the tables."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.suite.__main__ import main
from benchmarks.suite.cell import OPTUNA, Cell, Rule, Setting
from benchmarks.suite.errors import SuiteError
from benchmarks.suite.pages.claims import (
    against_reference,
    table_of_claims,
    verdict,
)
from benchmarks.suite.pages.figures import draw_regrets
from benchmarks.suite.pages.page import make_page, study_section
from benchmarks.suite.pages.screening import screening_section
from benchmarks.suite.pages.tables import (
    bootstrap_median,
    markdown,
    side_by_side,
    table_of,
)
from benchmarks.suite.runs.acquisitions import ACQUISITIONS
from benchmarks.suite.runs.judges import JUDGES
from benchmarks.suite.runs.models import MODELS
from benchmarks.suite.runs.play import COLUMNS, Outcome, basin_regret, is_repeated, play
from benchmarks.suite.runs.players import check_rule
from benchmarks.suite.runs.rivals import decided
from benchmarks.suite.runs.schedule import run_cells
from benchmarks.suite.runs.store import (
    collect,
    differences,
    is_done,
    on_record,
    read_record,
    read_runs,
    run_path,
    write_run,
)
from benchmarks.suite.studies import STUDIES
from benchmarks.suite.studies.calibration import probit_deviation, tie_threshold
from benchmarks.suite.studies.claim import Claim
from benchmarks.suite.studies.own import ERRORS
from benchmarks.suite.studies.study import Study
from botorch_pref.feedback import Comparisons
from botorch_pref.simulation.problems import make_problem

SETTING = Setting("branin", "probit", 5.0)
RANDOM, UCB = Rule("laplace", "random"), Rule("laplace", "ucb")
STUDY = Study("tiny", "?", (SETTING,), (RANDOM, UCB), RANDOM, 2, 2, 2)
CELLS = list(STUDY.cells())
RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"


def figures(cell: Cell) -> list[dict[str, str]]:
    outcome = play(cell)
    assert not outcome.error
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in outcome.rows]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def test_all_rules_start_with_the_same_duels_and_answers() -> None:
    kept = ("regret_best_shown", "distance", "told_apart", "regret_recommended")
    random, ucb = (figures(replace(CELLS[0], rule=rule)) for rule in (RANDOM, UCB))
    assert [[row[name] for name in kept] for row in random[:2]] == [
        [row[name] for name in kept] for row in ucb[:2]
    ]
    assert random[2]["distance"] != ucb[2]["distance"]
    assert [row["chosen"] for row in ucb] == ["0", "0", "1", "1"]
    other = figures(replace(CELLS[0], seed=5))
    assert other[0]["distance"] != random[0]["distance"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [Rule("pairwise-gp", "qeubo"), OPTUNA, Rule("ep-rival-prior", "hbei")]
)
@pytest.mark.filterwarnings("ignore")
def test_rivals_start_like_everybody_and_come_out_again(rule: Rule) -> None:
    if rule == OPTUNA:
        pytest.importorskip("optuna_dashboard", reason="the rival is not installed")
    setting = replace(SETTING, judge="ties")
    cell = replace(CELLS[0], setting=setting, rule=rule, num_duels=3)
    mine, ours = figures(cell), figures(replace(cell, rule=RANDOM))
    assert [row["distance"] for row in mine[:2]] == [
        row["distance"] for row in ours[:2]
    ]
    assert figures(cell) == mine


def test_what_is_done_is_not_run_again(tmp_path: Path) -> None:
    assert not run_cells(CELLS, tmp_path, jobs=1)
    assert all(is_done(tmp_path, cell) for cell in CELLS)
    before = read_runs(tmp_path, "tiny").drop(columns="seconds")
    assert len(before) == 4 * 4
    # One run is gone, one was cut off, one was of fewer duels, one is kept.
    paths = [run_path(tmp_path, cell) for cell in CELLS]
    paths[0].rename(paths[0].with_suffix(".part"))
    paths[1].write_text("\n".join(paths[1].read_text().splitlines()[:3]) + "\n")
    stamp = paths[3].stat().st_mtime_ns
    assert [is_done(tmp_path, cell) for cell in CELLS] == [False, False, True, True]
    assert not run_cells(CELLS, tmp_path, jobs=1)
    assert read_runs(tmp_path, "tiny").drop(columns="seconds").equals(before)
    assert paths[3].stat().st_mtime_ns == stamp


def test_a_run_that_fails_is_told_and_leaves_no_file(tmp_path: Path) -> None:
    broken = replace(CELLS[0], setting=Setting("branin", "exact", 1.0))
    (failed,) = run_cells([broken, CELLS[0]], tmp_path, jobs=1)
    assert "an exact judge has noise 0" in failed.error
    assert failed.reason.endswith("an exact judge has noise 0, not 1.0")
    assert not is_done(tmp_path, broken)
    assert is_done(tmp_path, CELLS[0])


@pytest.mark.slow
def test_processes_and_a_cluster_of_two_workers_find_the_same(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="dask is not installed")
    pytest.importorskip("joblib", reason="joblib is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        folder = tmp_path / "cluster"
        assert not run_cells(CELLS, folder, scheduler=cluster.scheduler_address)
    assert not run_cells(CELLS, tmp_path / "here", jobs=1)
    mine, theirs = (
        read_runs(tmp_path / name, "tiny").drop(columns="seconds")
        for name in ("here", "cluster")
    )
    assert mine.equals(theirs)


def test_records_are_the_same_for_the_same_runs_and_take_new_ones(
    tmp_path: Path,
) -> None:
    run_cells(CELLS[:2], tmp_path, jobs=1)
    assert collect(tmp_path, "tiny", tmp_path) == 2
    packed = (tmp_path / "tiny.csv.gz").read_bytes()
    assert collect(tmp_path, "tiny", tmp_path) == 2
    assert (tmp_path / "tiny.csv.gz").read_bytes() == packed
    run_path(tmp_path, CELLS[0]).unlink()
    run_cells(CELLS[2:3], tmp_path, jobs=1)
    assert collect(tmp_path, "tiny", tmp_path) == 3
    record = read_record("tiny", tmp_path)
    assert record[["model", "acquisition", "seed"]].drop_duplicates().shape[0] == 3
    rows = play(CELLS[0]).rows
    assert differences(record, CELLS[0], rows) == []
    changed = [*rows[:2], (*rows[2][:8], "0.5", *rows[2][9:]), *rows[3:]]
    assert differences(record, CELLS[0], changed) == [2]
    assert on_record(record, CELLS) == CELLS[:3]
    assert read_record("no such study", tmp_path).empty


def row(rule: Rule, seed: int, duel: int, regret: float, **other: float) -> dict:
    kept = {"study": "tiny", "problem": "p", "judge": "exact", "noise": 0.0}
    kept |= {"model": rule.model, "acquisition": rule.acquisition}
    kept |= {"seed": seed, "duel": duel, "regret_recommended": regret}
    kept |= {"regret_best_shown": 0.0, "seconds": 2.0 * duel, "chosen": duel // 2}
    kept |= {"distance": 0.5, "repeated": 0, "told_apart": 1.0, "tied": 0}
    kept |= {"invalid": 0, "warnings": 0, "basin_regret": np.nan}
    return kept | other


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
    runs.loc[runs["acquisition"] == "ucb", "chosen"] = 1
    runs.loc[runs["acquisition"] == "ucb", "told_apart"] = [0.5, 1, 0.5] * 3
    table = table_of(STUDY, runs).set_index("acquisition")
    assert list(table.index) == ["ucb", "random"]
    ucb = table.loc["ucb"]
    assert ucb["runs"] == 3
    assert (ucb["median"], ucb["mean"]) == (2.0, 2.0)
    assert ucb["error"] == pytest.approx(1 / 3**0.5)
    # Differences of -2, 1 and -5.
    assert ucb["against reference"] == -2.0
    assert ucb["its error"] == pytest.approx(np.std([-2, 1, -5], ddof=1) / 3**0.5)
    assert (ucb["better in"], ucb["pairs"], ucb["wrong optimum"]) == (2, 3, 2)
    # 9 duels were chosen, of which 6 were before the last third.
    assert ucb["near copies %"] == pytest.approx(100 * 2 / 9)
    assert ucb["repeated %"] == pytest.approx(100 / 9)
    assert ucb["unclear early %"] == pytest.approx(100 / 2)
    assert ucb["seconds"] == 3.0
    assert table.loc["random", "pairs"] == 0
    assert np.isnan(table.loc["random", "against reference"])
    # Three runs cannot have an interval of 95 %, and the reference meets others only.
    shown = markdown(pd.DataFrame(side_by_side(table.reset_index())))
    assert "| 3 | 2 | 2 ± 0.58 | -2 ± 1.7 | 2 of 3 |" in shown
    assert "| 3 | 3 | 4 ± 2.1 |  |  |" in shown


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


def test_an_interval_of_a_share_ends_at_none_and_all() -> None:
    runs = pd.DataFrame(row(rule, 0, 0, r) for rule, r in ((RANDOM, 2.0), (UCB, 1.0)))
    claims = [Claim("?", UCB, RANDOM), Claim("?", RANDOM, UCB)]
    table = table_of_claims(claims, runs)
    # Three of five and two of five, two errors of 0.219 away.
    assert list(table["better in %"]) == ["100 (16 to 100)", "0 (0 to 84)"]


def test_one_studys_runs_may_answer_another_question() -> None:
    assert not list(STUDIES["inference"].cells())
    assert set(STUDIES["inference"].rules) <= set(STUDIES["default"].rules)
    ends = {RANDOM: [3.0, 1.0], UCB: [1.0, 2.0]}
    runs = pd.DataFrame(
        row(rule, seed, 0, regret)
        for rule, regrets in ends.items()
        for seed, regret in enumerate(regrets)
    )
    table = table_of(replace(STUDY, rules=(UCB,)), runs)
    assert list(table["acquisition"]) == ["ucb"]
    assert table["against reference"][0] == -0.5


def test_without_the_reference_there_is_no_comparison() -> None:
    runs = pd.DataFrame([row(UCB, seed, 0, 1.0) for seed in range(2)])
    (only,) = table_of(STUDY, runs).to_dict("records")
    assert np.isnan(only["against reference"])
    assert only["median"] == 1.0


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


@pytest.mark.parametrize(
    ("name", "inputs", "top"),
    [
        # Both of the second best humps are 0.816 below, from BoTorch's optima.
        ("sixhumpcamel", [(-1.6 + 3) / 6, (0.55 + 2) / 4], 0.8162),
        ("sixhumpcamel", [(0.12 + 3) / 6, (-0.7 + 2) / 4], 0.0),
        # Sasena's optimum is at the edge of what is valid.
        ("sasena", [2.8 / 5, 2.38 / 5], 0.0),
        ("hartmann6", [0.4, 0.88, 0.87, 0.57, 0.11, 0.04], 0.1192),
    ],
)
def test_the_hill_of_a_point(name: str, inputs: list[float], top: float) -> None:
    point = torch.tensor(inputs, dtype=torch.double)
    assert basin_regret(make_problem(name), point) == pytest.approx(top, abs=0.01)


def test_a_question_is_repeated_in_either_order() -> None:
    asked = torch.tensor([[[0.1, 0.2], [0.3, 0.4]]]).double()
    again, near = asked[0].flip(0), asked[0] + 0.01
    assert is_repeated(again, asked)
    assert not is_repeated(near, asked)
    assert not is_repeated(again, asked[:0])


def test_software_without_ties_hears_one_win_of_each() -> None:
    one, other = torch.tensor([[0, 1]]), torch.tensor([[2, 3]])
    assert decided(Comparisons(one, ties=other)).tolist() == [[0, 1], [2, 3], [3, 2]]
    assert decided(Comparisons(None, ties=other)).tolist() == [[2, 3], [3, 2]]


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_all_that_studies_name_is_there(study: Study) -> None:
    cells = list(study.cells())
    assert len({cell.key for cell in cells}) == len(cells)
    claimed = [rule for c in study.claims for rule in (c.better, c.worse)]
    assert {*claimed, study.reference} <= set(study.rules)
    for rule in study.rules:
        check_rule(rule)
    for setting in study.settings:
        problem = make_problem(setting.problem)
        judge = JUDGES[setting.judge](problem.utility, setting.noise, 0)
        points = torch.zeros(2, problem.dim).double()
        assert judge.probability(points[0], points[1]) == 0.5


def test_a_study_is_declared_as_the_page_says() -> None:
    readme = Path(__file__).parents[2] / "benchmarks" / "README.md"
    (code,) = re.findall(r"```python\n(.*?)```", readme.read_text("utf-8"), re.DOTALL)
    declared: dict = {}
    exec(code, declared)
    study = declared["STUDY"]
    assert len(list(study.cells())) == 20 * 2 * 5
    assert study.settings[1].noise == ERRORS["branin"][1]
    for rule in study.rules:
        check_rule(rule)


def test_unknown_names_are_told_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown model 'nobody': .*pairwise-gp"):
        check_rule(Rule("nobody", "ucb"))
    with pytest.raises(ValueError, match=r"unknown acquisition 'guess': .*random"):
        check_rule(Rule("ep", "guess"))
    assert {"ep-rival-prior", "pairwise-gp"} <= set(MODELS)
    assert {"eiig", "qeubo"} <= set(ACQUISITIONS)


def test_the_page_is_the_one_that_the_records_make() -> None:
    page = Path(__file__).parents[2] / "docs" / "benchmarks.md"
    made = make_page(STUDIES.values(), RECORDS, figures=None)
    told = page.read_text(encoding="utf-8")
    without_figures = re.sub(r"\n!\[.*\]\(.*\)\n", "", told)
    assert made == without_figures, "python -m benchmarks.suite report --page ..."


def test_rules_screened_and_other_software_from_the_same_starts(
    tmp_path: Path,
) -> None:
    """Regrets 3 and 1 of the default, 1 and 2 of EIIG, 5 of the peer's one start."""
    lines = ["prior,rule,problem,deviation,start,regret,unclear"]
    for rule, regrets in (("exploring-eiig", (3, 1)), ("eiig", (1, 2))):
        lines += [f"duel,{rule},p,0.0,{i},{r},0.25" for i, r in enumerate(regrets)]
    (tmp_path / "screen_rules.csv").write_text("\n".join(lines) + "\n")
    peer = pd.DataFrame([row(OPTUNA, 1, duel, 5.0) for duel in range(3)])
    elsewhere = peer.assign(problem="another")
    pd.concat([peer, elsewhere]).to_csv(tmp_path / "default.csv.gz", index=False)
    text = screening_section(tmp_path)
    assert "another" not in text.replace("another hump", "")
    assert "| DuelKernel, eiig | 2 | 1.5 | 1.5 ± 0.5 | -0.5 ± 1.5 | 1 of 2 |" in text
    (peer_row,) = re.findall(r"\| optuna, sampler .*", text)
    assert peer_row == "| optuna, sampler | 1 | 5 |  |  | 0 of 1 | 1 |  |"


def test_a_section_has_a_table_for_each_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.suite.pages.page.FEWEST", 2)
    run_cells(CELLS, tmp_path, jobs=1)
    collect(tmp_path, "tiny", tmp_path)
    for name in ("accuracy_audit.csv", "screen_rules.csv", "skewgp_figure_4.csv"):
        shutil.copy(RECORDS / name, tmp_path)
    text = make_page([STUDY], tmp_path, tmp_path / "figures")
    ends = read_record("tiny", tmp_path).query("duel == 3")
    median = ends.query("acquisition == 'ucb'")["regret_recommended"].median()
    (row,) = re.findall(r"\| laplace, ucb \| 2 \| (\S+) \|", text)
    assert float(row) == pytest.approx(median, rel=1e-2)
    assert "### branin, probit judge, 5" in text
    audit, *regrets = re.findall(r"\]\((figures/\S+)\)", text)
    assert len(regrets) == 1
    assert all((tmp_path / figure).exists() for figure in (audit, *regrets))


def test_a_section_of_few_starts_has_one_table_of_all_settings() -> None:
    """UCB is worse before the exact judge, and better before the other one."""
    ends = {("exact", 0.0): (1.0, 4.0), ("probit", 0.5): (9.0, 2.0)}
    runs = pd.concat(
        pd.DataFrame(
            row(rule, 0, duel, regret, distance=[0.5, 0.01][rule == UCB])
            for rule, regret in zip((RANDOM, UCB), of_judge, strict=True)
            for duel in range(4)
        ).assign(judge=judge, noise=noise)
        for (judge, noise), of_judge in ends.items()
    )
    runs.loc[
        (runs["judge"] == "probit") & (runs["acquisition"] == "ucb"), "repeated"
    ] = 1
    told = study_section(STUDY, runs)
    assert "| p, exact | 1 | 4 |" in told
    assert "| p, probit judge, 0.5 | 9 | 2 |" in told
    # Of the chosen duels all of UCB's are near copies, and half are repeated.
    (asked,) = re.findall(r"\| laplace, ucb \| 100 \| (.*) \|", told)
    assert asked.split(" | ")[1] == "50"
    assert "| rule | runs |" not in told


def test_the_commands(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(STUDIES, "tiny", STUDY)
    folder = ["--study", "tiny", "--runs", str(tmp_path)]
    only = ["--acquisition", "random", "--seeds", "0:1"]
    assert main(["run", *folder, *only, "--list"]) == 0
    assert capsys.readouterr().out.split() == ["tiny", CELLS[0].key]
    assert main(["run", *folder, *only, "--jobs", "1"]) == 0
    assert "1 of 1 runs" in capsys.readouterr().out
    figures = ["--figures", str(tmp_path / "figures")]
    assert main(["report", *folder, *figures, "--uncollected"]) == 0
    assert "| laplace, random | 1 |" in capsys.readouterr().out
    assert main(["report", *folder, "--page", str(tmp_path / "page.md")]) == 2
    assert "--page shows all studies" in capsys.readouterr().err
    # What is there is not what would run.
    assert main(["run", *folder, "--seeds", "0:1", "--list"]) == 0
    assert capsys.readouterr().out.split() == ["tiny", CELLS[1].key]

    folder += ["--records", str(tmp_path / "records")]
    assert main(["collect", *folder]) == 0
    assert capsys.readouterr().out.endswith(", 0 of them kept from before\n")
    run_path(tmp_path, CELLS[0]).rename(tmp_path / "away")
    run_path(tmp_path, CELLS[1]).write_text(
        (tmp_path / "away").read_text().replace(",random,", ",ucb,")
    )
    assert main(["collect", *folder]) == 0
    told = capsys.readouterr().out
    assert (
        told == f"tiny: 2 runs in {tmp_path / 'records'}, 1 of them kept from before\n"
    )
    assert main(["report", *folder, *figures]) == 0
    assert "| laplace, random | 1 |" in capsys.readouterr().out
    # Again to the same figures, unless a figure on record is another.
    folder += only[:2]
    assert main(["check", *folder]) == 0
    assert "0 duels differ" in capsys.readouterr().out
    record = tmp_path / "records" / "tiny.csv.gz"
    table = pd.read_csv(record)
    table.loc[2, "regret_recommended"] += 0.5
    table.to_csv(record, index=False)
    assert main(["check", *folder]) == 1
    assert "1 duels differ" in capsys.readouterr().out
    assert main(["check", *folder, "--seeds", "1:2"]) == 2
    assert "no such run of tiny" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--seeds", "abc"], "'abc' should be FIRST:LAST"),
        (["--seeds", "5:3"], "'5:3' should be FIRST:LAST"),
        (["--seeds", "7:9"], "no run has a seed from 7 on: the last is 1"),
        (["--jobs", "0"], "0 processes run nothing: -1 is all cores"),
        (
            ["--jobs", "2", "--scheduler", "tcp://:1"],
            "not allowed with argument --jobs",
        ),
        (["--model", "laplace", "--model", "nobody"], "--model nobody: there are lap"),
        (["--runs", "/dev/null"], "/dev/null"),
        (["--study", "inference"], "inference has no runs of its own"),
        (["--study", "nowhere"], "unknown problem 'nowhere'"),
        (["--study", "unjudged"], "unknown judge 'nobody': exact"),
        (["--study", "unruly"], "unknown model 'nobody': there are ep"),
    ],
)
def test_what_cannot_run_is_told_before_anything_does(
    options: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = {
        "nowhere": replace(STUDY, settings=(Setting("nowhere"),)),
        "unjudged": replace(STUDY, settings=(Setting("branin", "nobody"),)),
        "unruly": replace(STUDY, rules=(Rule("nobody", "ucb"),)),
    }
    for name, study in {"tiny": STUDY, **wrong}.items():
        monkeypatch.setitem(STUDIES, name, replace(study, name=name))
    study_options = [] if "--study" in options else ["--study", "tiny"]
    try:
        status = main(["run", *study_options, *options])
    except SystemExit as refused:
        status = refused.code
    assert status == 2
    assert says in capsys.readouterr().err


def test_an_interrupted_run_says_how_it_goes_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(cell: Cell) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(STUDIES, "tiny", STUDY)
    monkeypatch.setattr("benchmarks.suite.runs.schedule.play", interrupted)
    command = ["run", "--study", "tiny", "--runs", str(tmp_path), "--jobs", "1"]
    assert main(command) == 130
    told = capsys.readouterr().out
    assert "the same command goes on" in told
    assert "0 of 4 runs" in told


def test_without_a_rival_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(STUDIES, "tiny", replace(STUDY, rules=(RANDOM, OPTUNA)))
    monkeypatch.setattr("benchmarks.suite.runs.players.find_spec", lambda name: None)
    assert main(["run", "--study", "tiny", "--runs", str(tmp_path), "--list"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("2 runs are left out, without optuna-dashboard; pip install")
    assert told.count("tiny branin") == 2


def test_a_regret_that_is_not_a_number_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nowhere = replace(make_problem("branin"), best=np.nan)
    monkeypatch.setattr("benchmarks.suite.runs.play.make_problem", lambda name: nowhere)
    assert play(CELLS[0]).reason.endswith("duel 0: the regret is not a number")


def written(folder: Path, *rows: dict) -> Path:
    """The file of a run in the folder of the tiny study's, or some of it."""
    path = folder / "tiny" / "run.csv"
    path.parent.mkdir(exist_ok=True)
    pd.DataFrame(rows, columns=COLUMNS).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([row(UCB, 0, 1, 0.5)], "p exact 0.0 laplace ucb 0 has a duel twice or not"),
        ([row(UCB, 0, 0, 0.5)] * 2, "has a duel twice or not"),
        ([row(UCB, 0, 0, np.nan)], "has a regret that is not a number"),
        (
            [row(UCB, 0, 0, 0.5), row(UCB, 1, 0, 0.5), row(UCB, 1, 1, 0.5)],
            "laplace ucb 0 has fewer duels than another, which has 2",
        ),
    ],
)
def test_runs_that_are_none_are_refused(
    rows: list[dict], says: str, tmp_path: Path
) -> None:
    path = written(tmp_path, *rows)
    with pytest.raises(SuiteError, match=f"{says}.*run it again"):
        read_runs(tmp_path, "tiny")
    pd.read_csv(path).to_csv(tmp_path / "tiny.csv.gz", index=False)
    with pytest.raises(SuiteError, match=f"tiny.csv.gz.*{says}.*from git"):
        read_record("tiny", tmp_path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, row(UCB, 0, 0, 0.5))
    whole = path.read_text()
    record = tmp_path / "tiny.csv.gz"
    assert collect(tmp_path, "tiny", tmp_path) == 1
    packed = record.read_bytes()
    for damaged in (b"", b"study,problem\n", packed[:60], b"\xff\xfe"):
        record.write_bytes(damaged)
        with pytest.raises(SuiteError, match=r"tiny\.csv\.gz .*git"):
            collect(tmp_path, "tiny", tmp_path)
        assert record.read_bytes() == damaged
    record.write_bytes(packed)
    path.write_text("\n".join(line.rpartition(",")[0] for line in whole.splitlines()))
    with pytest.raises(SuiteError, match=r"run\.csv is of other columns.*basin_regret"):
        collect(tmp_path, "tiny", tmp_path)
    path.rename(run_path(tmp_path, replace(CELLS[0], num_duels=1)))
    assert not is_done(tmp_path, replace(CELLS[0], num_duels=1))
    assert record.read_bytes() == packed


def test_runs_of_another_length_do_not_join_a_record(tmp_path: Path) -> None:
    written(tmp_path, row(UCB, 0, 0, 0.5))
    assert collect(tmp_path, "tiny", tmp_path) == 1
    written(tmp_path, *(row(UCB, 1, duel, 0.5) for duel in range(2)))
    with pytest.raises(SuiteError, match="fewer duels than another, which has 2"):
        collect(tmp_path, "tiny", tmp_path)
    written(tmp_path, *(row(UCB, 0, duel, 0.25) for duel in range(2)))
    assert collect(tmp_path, "tiny", tmp_path) == 1
    assert len(read_record("tiny", tmp_path)) == 2


def test_two_writers_of_one_run_do_not_disturb_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writes the same run while this one has written, and not renamed."""
    outcome = Outcome(CELLS[0], (("1",) * len(COLUMNS),))
    rename = Path.replace

    def last(part: Path, path: Path) -> Path:
        monkeypatch.setattr(Path, "replace", rename)
        write_run(tmp_path, outcome)
        return rename(part, path)

    monkeypatch.setattr(Path, "replace", last)
    write_run(tmp_path, outcome)
    (path,) = run_path(tmp_path, CELLS[0]).parent.iterdir()
    assert path == run_path(tmp_path, CELLS[0])


def test_the_noise_of_a_study_is_what_it_says() -> None:
    """By other points than those of the calibration: shares are right within 2 %."""
    problem = make_problem("sixhumpcamel-narrow")
    X = torch.rand(2**17, 2, generator=torch.Generator().manual_seed(1)).double()
    best = problem.utility(X).sort().values[-1310:]
    gaps = (best[:, None] - best).abs()
    *deviations, threshold = ERRORS["sixhumpcamel-narrow"]
    for share, deviation in zip((0.1, 0.2, 0.3), deviations, strict=True):
        errors = torch.special.ndtr(-gaps / (2**0.5 * deviation)).mean().item()
        assert errors == pytest.approx(share, abs=0.02)
    assert (gaps <= threshold).double().mean().item() == pytest.approx(0.2, abs=0.02)


def test_calibration_is_what_the_studies_have() -> None:
    *deviations, threshold = ERRORS["branin"]
    assert probit_deviation("branin", 0.2) == pytest.approx(deviations[1], rel=0.01)
    assert tie_threshold("branin", 0.2) == pytest.approx(threshold, rel=0.01)
