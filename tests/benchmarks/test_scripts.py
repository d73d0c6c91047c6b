"""Every script in `benchmarks/`, run on a tiny setting, so that none rots."""

import importlib
import json
import math
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import botorch.fit
import forks
import jax
import pytest
import torch
from scipy import integrate, stats

from botorch_pref.inference import VariationalBound
from botorch_pref.inference.weight_space import WeightEngine, variational_weights
from botorch_pref.models import VariationalPreferenceGP, regression

FOLDER = Path(__file__).parents[2] / "benchmarks"


@dataclass(frozen=True)
class First:
    """The first answers of what a loader loads."""

    number: int

    def of(self, load: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: load().subset(torch.arange(self.number))


@dataclass(frozen=True)
class Only:
    """One entry of a table."""

    name: str

    def of(self, table: dict[str, Any]) -> dict[str, Any]:
        return {self.name: table[self.name]}


def tiny(*arguments: str, **constants: Any) -> tuple[dict[str, Any], list[str]]:
    """Lists what shrinks a script: constants, of another module as NAME__CONSTANT."""
    return constants, [part for argument in arguments for part in argument.split()]


FEW_DRAWS = {
    "reference_posterior__EFFECTIVE_DRAWS": 50,
    "evidence_accuracy__TILTING_DRAWS": 200,
    # Every pair of them is looked at in every draw.
    "posterior_accuracy__NEW_POINTS": 10,
}
FEW_ANSWERS = {"many_comparisons__ITEMS": 6, "many_comparisons__ANSWERS": 20}
TINY = {
    "ax_ask_time": tiny(
        **{"TO_REACH": {2: 1.0}, "SEEDS": (0,), "CONSTRAINTS": Only("none")},
        **{"DESIGNS": (9,), "RANKED": 2},
    ),
    "report_time": tiny(
        "--repeats 1",
        **{"ANSWERED": {"4 parameters": (2,)}, "TASKS": ("recommend",)},
    ),
    "accuracy_audit": tiny(
        "--out {folder}",
        **{"SIZES": (3,), "NOISES": (0.25,), **FEW_DRAWS},
        **{"IMPORTANCE_DRAWS": 2000, "RESAMPLED": 2000},
    ),
    "answer_covariates": tiny(
        "--seeds 2",
        **{"GAMES": 40, "JOURNEYS": 30, "FOLDS": 2, "DUELS": 10, "BIASES": (0.3,)},
    ),
    "answer_cost": tiny(
        **{"POINTS": 5, "COUNTS": (6,), "REPEATS": 1, "DUELS": 20, "DUEL_POINTS": 5},
        **{"LEVEL_QUESTIONS": 3},
        **{"ARENA_ITEMS": 5, "ARENA_PAIRS": 8, "ARENA_VOTES": 100},
        **{"RATERS": 2, "EACH": 3, "MANY": 6, "CROWD_ITEMS": 4, "ENGINES": Only("EP")},
        **{"SIZES": (4,), "CHORD_GAINS": (0.3,)},
    ),
    "ask_time": tiny(
        **{"TO_REACH": {("ep", 6): 1.0}, "TODAYS_BEST": {6: "-"}, "SEEDS": (0,)},
        **{"RECOMMENDED": {2: 1.0}, "RECOMMENDED_DUELS": 6},
    ),
    "active_pairs": tiny(
        "--runs 1 --large",
        **{"ITEMS": 5, "ERROR_TO_REACH": 1.0, "MANY_ITEMS": 300, "MANY_PAIRS": 400},
    ),
    "consistent_answers": tiny(SIZES=(3,), CHAINS=8, STEPS=6, WARM_UP=2),
    "board_peers": tiny("--sizes 6:60", RESAMPLES=3),
    "condition_time": tiny(SIZES=(4,), REPEATS=1),
    "conditioned_gradients": tiny(ANSWERS=3, DRAWS=(64,), TRUE_DRAWS=800, SEEDS=(0,)),
    "ep_solve": tiny(
        STORED_PEER_SECONDS={8: 0.1},
        **{"ACCURACY_SIZE": 6, "LARGE": 12, "REPEATS": 1, "PEER_SWEEPS": 1},
        **{"NOISES": Only("low"), **FEW_DRAWS},
    ),
    "evidence_accuracy": tiny(
        **{"SIZES": (5,), "TILTING_DRAWS": 200},
        **{"GRADIENT_SIZES": (4,), "GRADIENT_SEEDS": 2},
    ),
    "fit_entropy_gaussians": tiny("--terms 2", ROUNDS=2, FIT_POINTS=201),
    "gpu": tiny(EXACT=(4, 8), SPARSE=(9,), NEW=3, RAW=4),
    "files": tiny(
        DATA=(("ordinal", "wine", {"rating": "response", "first": "temp"}, False),)
    ),
    "fit_time": tiny(SIZES=(5,), SEEDS=(0,), NOISES=Only("low")),
    "fully_bayesian": tiny(
        "--seeds 1",
        **{"SIZES": (4,), "NOISES": Only("low"), "FITS": Only("averaged")},
        **{"WARMUP": 1, "STEPS": 1, "THINNING": 1, "HELD_OUT": 10, "SETS": 4},
    ),
    "held_out_feedback": tiny(
        "--only car --sushi {folder} --bigrams {folder}",
        **{"held_out_choices__CAR_PEOPLE": 6, "held_out_choices__CAR_LEARN": 3},
        **{"held_out_choices__CAR_FOLDS": 2, "held_out_rankings__FOLDS": 2},
        **{"held_out_rankings__PEOPLE": 6, "held_out_rankings__LEARN": 3},
        **{"held_out_strengths__LEARN": 6, "held_out_strengths__FOLDS": 2},
    ),
    "improvement_tail": tiny(ANSWERS={"sixhumpcamel": 6}, CHALLENGERS=16),
    "leaderboards": tiny("--leagues 2", ITEMS=4, RESAMPLES=20),
    "many_answers_experiment": tiny("--answers 20", NUM_DESIGNS=5),
    "many_comparisons": tiny(
        **{"ITEMS": 6, "ANSWERS": 20, "FEW": 5, "REPEATS": 1, "SCALES": (1.0,)},
        **{"OFTEN": 1000, "GRID": 2001},
    ),
    "many_items": tiny("--sizes 30:400"),
    "many_raters": tiny("--cases all --raters 3 --items 5"),
    "many_sets": tiny(ITEMS=6, LENGTH=3, COUNTS=(5,), **FEW_ANSWERS),
    "exact_ratings": tiny("ratings", POINTS=5, STARTS=1, SCALES=(10,)),
    "rounding": tiny(RATIOS={torch.float64: (10.0,)}, SEEDS=(1,)),
    "noise_identification": tiny(
        **{"POINTS": 6, "DUELS": 12, "LABELS": 4},
        GRID=torch.tensor([0.1, 0.5, 3.0]).double(),
    ),
    "outcomes": tiny(
        "--starts 1 --problem DTLZ2",
        **{"NUM_DESIGNS": 6, "NUM_QUESTIONS": 2, "NUM_TRIED": 1, "NUM_RANDOM": 1},
        **{"NUM_TRUTH": 64, "NUM_PAIRS": 8, "NUM_RESTARTS": 1, "RAW_SAMPLES": 4},
        **{"NUM_SAMPLES": 2, "MODELS": Only("EP")},
    ),
    "output_scales": tiny("--sets 2", DUELS=4, NEW=8, MANY=100),
    "absurd_options": tiny("--starts 1 --answers 1"),
    "main_command": tiny("--seeds 1 --problem sixhumpcamel", CHECKPOINTS=(1, 2)),
    "values_told": tiny("--seeds 1 --problem sixhumpcamel --designs 21 24"),
    "page_load": tiny("--raters 1 --seconds 1"),
    "page_waits": tiny("--people 2 --seconds 0.2 --think 0 0.1"),
    "people_kernels": tiny("--splits 2", DUELS=(4,), HELD_OUT=5),
    "plackett_luce_bias": tiny(
        **{"RANKINGS": 12, "ITEMS": 12, "LENGTHS": (3,), "DRAWS": 256, "DATA_SETS": 3},
        **{"FEW": ((2, 3, 3),), "FEW_SETS": 2, "DIFFERENCES": 5},
    ),
    "plackett_luce_regression": tiny(ITEMS=12, FEATURES=3, SETS=15),
    "posterior_accuracy": tiny(
        SIZES=(5,), SKEW_SIZE=5, DRAWS=64, REPEATS=(2,), PRIOR_DRAWS=99, **FEW_DRAWS
    ),
    "posterior_time": tiny(SIZES=(5,), PAIRWISE_GP_SIZES=(5,), BATCH=2, REPEATS=1),
    "ranking_protocol": tiny(
        "--repetitions 2 --sushi {folder} --shuffle 3",
        NUM_FOLDS=2,
        ETAS=torch.tensor([0.5]).double(),
        # By samples few sets are left of many.
        load_car=First(1500),
    ),
    "rater_noise": tiny("--crowds 1", RATERS=2, DESIGNS=4, PAIRS=4),
    "raters": tiny("{folder} --folds 2", FEW=(2,)),
    "preferential_studies": tiny(
        "--starts 1 --answers 2 --shown 2 --problem mixed",
        SAMPLERS=Only("PreferenceSampler"),
    ),
    "questions_at_once": tiny(
        "--starts 1",
        **{"NOISES": (1.0,), "AT_ONCE": 2, "RULES": Only("EUBO, pairs")},
        **{"NUM_RESTARTS": 1, "RAW_SAMPLES": 4},
    ),
    "stopping_errors": tiny(
        "--starts 2 --setting sixhumpcamel-narrow:0.2 --duels 4 --every 2 --pairs",
        "--record {folder}/advices.csv",
        **{"NUM_RANDOM": 2, "botorch_pref.evaluation.progress__NUM_PATHS": 4},
    ),
    "skewgp_figure_4": tiny("--out {folder}", ROUNDS=2, GRID=21),
    "crowd": tiny(
        "--people 8 --sushi {folder}",
        **{"ITEMS": 12, "LEARNED": 4, "RANKS": (1,), "INDUCING": 4},
        TOLERANCE=0.1,
    ),
    "sparse_models": tiny(
        "--large",
        **{"PROBLEMS": {"few": (2, 12, 0.3)}, "NUM_PAIRS": 15, "SIZES": (4, 6)},
        **{"PEER_SIZE": 4, "BUDGETS": (1,), "LARGE": (2, 300, 0.3)},
        **{
            "LARGE_PAIRS": 30,
            "MILLIONS": 40,
            "HELD": 5,
            "BATCH": 4,
            "REAL": Only("Train"),
        },
        NUM_LEARNED={"Train": 20},
    ),
    "store_growth": tiny(NUM_ANSWERS=20, REPEATS=2),
    "sampler_efficiency": tiny(
        **{"SIZES": (4,), "NUM_DRAWS": 64, "REPEATS": 1},
        **dict.fromkeys(("GIBBS", "HAMILTONIAN", "BOTORCH"), (2, 10, (2,))),
    ),
    "calibration": tiny("--task choices --persons 1 --answers 3 --answers 6"),
    "answer_information": tiny("--task bump --persons 1 --answers 4 --answers 6"),
    "unbeaten_options": tiny("--persons 1 --questions 7"),
    "coin_answers": tiny("--starts 2 --options 4", CHECKPOINTS={4: (1, 2)}, PAIRS=4),
    "kernel_searches": tiny(
        "--starts 2 --problem sixhumpcamel --kernel stationary --known-exact",
        **{"QUESTIONS": 6, "CHECKPOINTS": (6,)},
    ),
    "line_questions": tiny(
        "--starts 1 --questions 4 --problem hartmann3-dead --errors hears",
        # The package of GLISp is an extra of its own.
        KINDS=(
            *("line", "repeating line", "oblique line", "search line"),
            *("plane", "duel", "four ranked"),
        ),
    ),
    "line_stops": tiny(DRAWS=50, ANSWERS=(1,), POSITIONS=21),
    "rank_uniformity": tiny("--runs 2 --engine ep"),
}
ELSEWHERE = {"botorch_suite", "truth"}
"""Scripts with a test of their own below."""


@pytest.fixture(autouse=True)
def scripts(few_iterations: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder on the path, as when a script is run, and its modules for a test.

    They fit and search in a few iterations, and sample in short steps of a sampler that
    is not compiled.
    """
    monkeypatch.syspath_prepend(str(FOLDER))
    short = partial(botorch.fit.fit_fully_bayesian_model_nuts, max_tree_depth=1)
    monkeypatch.setattr(botorch.fit, "fit_fully_bayesian_model_nuts", short)
    # Where it goes on to the end, the variational bound takes most of some scripts.
    short_ascent = VariationalBound(max_iterations=3)
    monkeypatch.setattr(VariationalPreferenceGP, "engine", short_ascent)
    weights = WeightEngine(partial(variational_weights, max_iterations=3))
    monkeypatch.setitem(regression._ENGINES, "variational", weights)
    before, threads = set(sys.modules), torch.get_num_threads()
    with jax.disable_jit():
        yield
    torch.set_num_threads(threads)
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).parent == FOLDER:
            del sys.modules[name]


def load(name: str) -> types.ModuleType:
    return importlib.import_module(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Cars, sushi and bigrams, as their loaders read them."""
    cars = "\n".join(
        f"{i},{i % 2 + 1},{i % 2 + 1},{i}.5,{1 + i % 3 % 2}" for i in range(1, 7)
    )
    header = "Item_ID,Body_Type,Transmission,Engin_Capacity,Fuel_Consumed\n"
    (tmp_path / "items1.csv").write_text(header + cars + "\n")
    answers = "".join(
        f"{user},{1 + (user + k) % 6},{1 + (user + 2 * k + 1) % 6},0\n"
        for user in range(1, 5)
        for k in range(4)
        if (user + k) % 6 != (user + 2 * k + 1) % 6
    )
    (tmp_path / "prefs1.csv").write_text(
        "User_ID,Item1_ID,Item2_ID, Is Control\n" + answers
    )
    set_a = ["ebi", "anago", "maguro", "ika", "uni"]
    set_a += ["ikura", "tamago", "toro", "tekka_maki", "kappa_maki"]
    names = [*set_a, *(f"other_{i}" for i in range(8))]
    (tmp_path / "sushi3.idata").write_text(
        "".join(
            f"{i}\t{name}\t{i % 2}\t{int(i % 5 == 0)}\t{i % 12}\t{0.5 + i}\t{i / 8}\t"
            f"{1 + i / 10}\t0.{i}\n"
            for i, name in enumerate(names)
        )
    )
    generator = torch.Generator().manual_seed(0)
    for setting, items in (("a", 10), ("b", len(names))):
        lines = [
            " ".join(map(str, ["0 10", *order[:10]]))
            for order in (
                torch.randperm(items, generator=generator).tolist() for _ in range(18)
            )
        ]
        name = f"sushi3{setting}.5000.10.order"
        (tmp_path / name).write_text("\n".join([f"{items} 1", *lines]) + "\n")
    keys = ["ea", "xq", "sd", "gb"]
    columns = "user_id,trialId,bigram1,chosen_bigram,unchosen_bigram,sliderValue\n"
    rows = "".join(
        f"u{i % 4},t{i},ea,{keys[i % 4]},{keys[(i + 1 + i % 3) % 4]},{i * 8 - 95}\n"
        for i in range(24)
    )
    (tmp_path / "processed_bigram_data.csv").write_text(columns + rows)
    return tmp_path


def run_main(name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    load(name).main()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TINY)
def test_a_script_prints_its_tables(
    name: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name == "page_load":
        pytest.importorskip("starlette", reason="the page is not installed")
        monkeypatch.setattr(load(name).subprocess, "Popen", forks.Package)
    constants, arguments = TINY[name]
    for constant, value in constants.items():
        module, _, attribute = constant.rpartition("__")
        module = module or name
        if isinstance(value, First | Only):
            value = value.of(getattr(load(module), attribute))
        monkeypatch.setattr(load(module), attribute, value)
    if name == "fit_time":
        _without_processes(monkeypatch)
    run_main(name, [a.format(folder=folder) for a in arguments], monkeypatch)
    output = capsys.readouterr().out
    assert len(output.splitlines()) >= 3
    # So few rankings and persons leave cells of their tables empty.
    assert name in {"ranking_protocol", "calibration"} or "nan" not in output


def _without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the fits of `fit_time` that have processes of their own in this one."""
    fit_time = load("fit_time")
    monkeypatch.setattr(fit_time, "LARGE", 6)
    monkeypatch.setattr(fit_time, "SPEEDUP_TO_REACH", {6: 50.0})

    def measured(name: str, noise: float) -> dict[str, float]:
        messages: list[str] = []
        monkeypatch.setattr(fit_time, "print", messages.append, raising=False)
        fit_time.run_one(name, noise)
        monkeypatch.delattr(fit_time, "print")
        return json.loads(messages[-1])

    monkeypatch.setattr(fit_time, "measure_large", measured)


def test_the_truths_agree(capsys: pytest.CaptureFixture[str]) -> None:
    load("truth")._compare_samplers(3, 0.25)
    output = capsys.readouterr().out
    assert float(output.split("differ by ")[1].split()[0]) < 4.5


CHECKOUT = """
from botorch.models.pairwise_gp import PairwiseGP
from botorch.utils.testing import BotorchTestCase
import torch

class TestTiny(BotorchTestCase):
    def test_mean(self):
        X, pairs = torch.rand(3, 1).double(), torch.tensor([[0, 1], [1, 2]])
        model = PairwiseGP(X, pairs)
        self.assertEqual(model.posterior(X).mean.shape, torch.Size([3, 1]))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_botorchs_tests_run_on_these_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_tiny.py").write_text(CHECKOUT)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t.t"]
    commands = ["init", "-q"], ["add", "."], ["commit", "-q", "-m", "tiny"]
    for command in (*commands, ["tag", f"v{version('botorch')}"]):
        subprocess.run([*git, *command], check=True)
    run_main("botorch_suite", [str(tmp_path)], monkeypatch)
    output = capsys.readouterr().out
    assert output.count("1 passed") == 5
    assert output.count("0 failed") == 5


def test_no_script_is_left_out() -> None:
    with_main = {
        path.stem
        for path in FOLDER.glob("*.py")
        if "__main__" in path.read_text(encoding="utf-8")
    }
    assert with_main == set(TINY) | ELSEWHERE


@pytest.mark.slow
def test_the_truth_of_logistic_answers_is_that_of_quadrature() -> None:
    """One answer: the mean of a logistic factor under a normal, two ways."""
    audit = load("accuracy_audit")
    problem = load("synthetic_problems").synthetic_comparisons(1, 0.25, 0)
    truth = audit.logistic_truth(problem)
    scale = math.pi**2 / 6 / 0.25
    covar = scale * problem.point_covariance()
    spread = float((covar[0, 0] + covar[1, 1] - 2 * covar[0, 1]).sqrt())
    law = stats.norm(0, spread)

    def weighted(power: int) -> float:
        return integrate.quad(
            lambda z: z**power * law.pdf(z) / (1 + math.exp(-z)), -40, 40
        )[0]

    # 20,000 draws of deviation 1 to 2 prior deviations.
    mean = weighted(1) / weighted(0) / scale**0.5
    assert truth.queried.mean.item() == pytest.approx(mean, abs=4 * 1.5 / 20_000**0.5)
    assert truth.log_evidence == pytest.approx(math.log(0.5), abs=1e-2)
