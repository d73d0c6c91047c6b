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
import jax
import pytest
import torch
from scipy import integrate, stats

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


# What shrinks each script: constants of its modules, and its arguments.
TINY: dict[str, tuple[dict[str, Any], list[str]]] = {
    "ax_ask_time": (
        {
            "ax_ask_time.TO_REACH": {2: 1.0},
            "ax_ask_time.SEEDS": (0,),
            "ax_ask_time.CONSTRAINTS": Only("none"),
        },
        [],
    ),
    "accuracy_audit": (
        {
            "accuracy_audit.SIZES": (3,),
            "accuracy_audit.NOISES": (0.25,),
            "accuracy_audit.IMPORTANCE_DRAWS": 2000,
            "accuracy_audit.RESAMPLED": 2000,
            "reference_posterior.EFFECTIVE_DRAWS": 50,
        },
        ["--out", "{folder}"],
    ),
    "ask_time": (
        {
            "ask_time.TO_REACH": {("ep", 6): 1.0},
            "ask_time.TODAYS_BEST": {6: "-"},
            "ask_time.SEEDS": (0,),
        },
        [],
    ),
    "condition_time": (
        {
            "condition_time.SIZES": (4,),
            "condition_time.REPEATS": 1,
        },
        [],
    ),
    "conditioned_gradients": (
        {
            "conditioned_gradients.ANSWERS": 3,
            "conditioned_gradients.DRAWS": (64,),
            "conditioned_gradients.TRUE_DRAWS": 800,
            "conditioned_gradients.SEEDS": (0,),
        },
        [],
    ),
    "ep_solve": (
        {
            "ep_solve.STORED_PEER_SECONDS": {8: 0.1},
            "ep_solve.ACCURACY_SIZE": 6,
            "ep_solve.LARGE": 12,
            "ep_solve.REPEATS": 1,
            "ep_solve.NOISES": Only("low"),
            "ep_solve.PEER_SWEEPS": 1,
            "reference_posterior.EFFECTIVE_DRAWS": 50,
        },
        [],
    ),
    "evidence_accuracy": (
        {
            "evidence_accuracy.SIZES": (5,),
            "evidence_accuracy.TILTING_DRAWS": 200,
            "evidence_accuracy.GRADIENT_SIZES": (4,),
            "evidence_accuracy.GRADIENT_SEEDS": 2,
        },
        [],
    ),
    "fit_entropy_gaussians": (
        {"fit_entropy_gaussians.ROUNDS": 2, "fit_entropy_gaussians.FIT_POINTS": 201},
        ["--terms", "2"],
    ),
    "fit_time": (
        {
            "fit_time.SIZES": (5,),
            "fit_time.SEEDS": (0,),
            "fit_time.NOISES": Only("low"),
        },
        [],
    ),
    "fully_bayesian": (
        {
            "fully_bayesian.SIZES": (4,),
            "fully_bayesian.NOISES": Only("low"),
            "fully_bayesian.FITS": Only("averaged"),
            "fully_bayesian.WARMUP": 1,
            "fully_bayesian.STEPS": 2,
            "fully_bayesian.THINNING": 1,
        },
        ["--seeds", "1"],
    ),
    "held_out_feedback": (
        {
            "held_out_choices.CAR_PEOPLE": 12,
            "held_out_choices.CAR_LEARN": 3,
            "held_out_choices.CAR_FOLDS": 2,
            "held_out_rankings.FOLDS": 2,
            "held_out_rankings.PEOPLE": 9,
            "held_out_rankings.LEARN": 3,
            "held_out_strengths.LEARN": 6,
            "held_out_strengths.FOLDS": 2,
        },
        ["--only", "car", "--sushi", "{folder}", "--bigrams", "{folder}"],
    ),
    "improvement_tail": (
        {
            "improvement_tail.ANSWERS": {"sixhumpcamel": 6},
            "improvement_tail.CHALLENGERS": 16,
        },
        [],
    ),
    "many_comparisons": (
        {
            "many_comparisons.ITEMS": 6,
            "many_comparisons.ANSWERS": 20,
            "many_comparisons.FEW": 5,
            "many_comparisons.REPEATS": 1,
        },
        [],
    ),
    "many_sets": (
        {
            "many_comparisons.ITEMS": 6,
            "many_comparisons.ANSWERS": 20,
            "many_sets.ITEMS": 6,
            "many_sets.LENGTH": 3,
            "many_sets.COUNTS": (5,),
        },
        [],
    ),
    "exact_ratings": (
        {
            "exact_ratings.POINTS": 5,
            "exact_ratings.STARTS": 1,
            "exact_ratings.SCALES": (10,),
        },
        ["ratings"],
    ),
    "rounding": (
        {"rounding.RATIOS": {torch.float64: (10.0,)}, "rounding.SEEDS": (1,)},
        [],
    ),
    "noise_identification": (
        {
            "noise_identification.POINTS": 6,
            "noise_identification.DUELS": 12,
            "noise_identification.LABELS": 4,
            "noise_identification.GRID": torch.tensor([0.1, 0.5, 3.0]).double(),
        },
        [],
    ),
    "page_load": ({}, ["--raters", "1", "--seconds", "1"]),
    "plackett_luce_bias": (
        {
            "plackett_luce_bias.RANKINGS": 12,
            "plackett_luce_bias.ITEMS": 12,
            "plackett_luce_bias.LENGTHS": (3,),
            "plackett_luce_bias.DRAWS": 256,
            "plackett_luce_bias.DATA_SETS": 3,
        },
        [],
    ),
    "plackett_luce_regression": (
        {
            "plackett_luce_regression.ITEMS": 12,
            "plackett_luce_regression.FEATURES": 3,
            "plackett_luce_regression.SETS": 15,
        },
        [],
    ),
    "posterior_accuracy": (
        {
            "posterior_accuracy.SIZES": (5,),
            "posterior_accuracy.SKEW_SIZE": 5,
            "posterior_accuracy.DRAWS": 64,
            "reference_posterior.EFFECTIVE_DRAWS": 50,
        },
        [],
    ),
    "posterior_time": (
        {
            "posterior_time.SIZES": (5,),
            "posterior_time.PAIRWISE_GP_SIZES": (5,),
            "posterior_time.BATCH": 2,
            "posterior_time.REPEATS": 1,
        },
        [],
    ),
    "ranking_protocol": (
        {
            "ranking_protocol.ETAS": torch.tensor([0.5, 2.0]).double(),
            # By samples few sets are left of many.
            "ranking_protocol.load_car": First(1500),
        },
        ["--repetitions", "2", "--sushi", "{folder}", "--shuffle", "3"],
    ),
    "raters": ({"raters.FEW": (2,)}, ["{folder}", "--folds", "2"]),
    "questions_at_once": (
        {
            "questions_at_once.NOISES": (1.0,),
            "questions_at_once.AT_ONCE": 2,
            "questions_at_once.NUM_RESTARTS": 1,
            "questions_at_once.RAW_SAMPLES": 4,
            "questions_at_once.RULES": Only("EUBO, pairs"),
        },
        ["--starts", "1"],
    ),
    "stopping_errors": (
        {"stopping_errors.NUM_RANDOM": 2},
        [
            *("--starts", "2", "--setting", "sixhumpcamel-narrow:0.2"),
            *("--duels", "4", "--every", "2"),
            *("--record", "{folder}/advices.csv"),
        ],
    ),
    "skewgp_figure_4": (
        {"skewgp_figure_4.ROUNDS": 2, "skewgp_figure_4.GRID": 21},
        ["--out", "{folder}"],
    ),
    "sparse_models": (
        {
            "sparse_models.PROBLEMS": {"few": (2, 12, 0.3)},
            "sparse_models.NUM_PAIRS": 15,
            "sparse_models.SIZES": (4, 6),
            "sparse_models.PEER_SIZE": 4,
            "sparse_models.BUDGETS": (1,),
            "sparse_models.LARGE": (2, 300, 0.3),
            "sparse_models.LARGE_PAIRS": 30,
            "sparse_models.HELD": 5,
            "sparse_models.BATCH": 4,
            "sparse_models.REAL": Only("Train"),
            "sparse_models.NUM_LEARNED": {"Train": 20},
        },
        ["--large"],
    ),
    "store_growth": ({"store_growth.NUM_ANSWERS": 20, "store_growth.REPEATS": 2}, []),
    "sampler_efficiency": (
        {
            "sampler_efficiency.SIZES": (4,),
            "sampler_efficiency.NUM_DRAWS": 64,
            "sampler_efficiency.REPEATS": 1,
            "sampler_efficiency.GIBBS": (2, 10, (2,)),
            "sampler_efficiency.HAMILTONIAN": (2, 10, (2,)),
            "sampler_efficiency.BOTORCH": (2, 10, (2,)),
        },
        [],
    ),
}
ELSEWHERE = {"botorch_suite", "truth"}
"""Those with a test of their own below."""


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder on the path, as when a script is run, and its modules for a test.

    They fit in a few iterations, and sample in short steps of a sampler that is not
    compiled.
    """
    monkeypatch.syspath_prepend(str(FOLDER))
    few = partial(
        botorch.fit.fit_gpytorch_mll, optimizer_kwargs={"options": {"maxiter": 3}}
    )
    monkeypatch.setattr(botorch.fit, "fit_gpytorch_mll", few)
    short = partial(botorch.fit.fit_fully_bayesian_model_nuts, max_tree_depth=1)
    monkeypatch.setattr(botorch.fit, "fit_fully_bayesian_model_nuts", short)
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
    for which, items in (("a", 10), ("b", len(names))):
        lines = [
            " ".join(map(str, ["0 10", *order[:10]]))
            for order in (
                torch.randperm(items, generator=generator).tolist() for _ in range(18)
            )
        ]
        name = f"sushi3{which}.5000.10.order"
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
    constants, arguments = TINY[name]
    for constant, value in constants.items():
        module, _, attribute = constant.partition(".")
        if isinstance(value, First | Only):
            value = value.of(getattr(load(module), attribute))
        monkeypatch.setattr(load(module), attribute, value)
    if name == "fit_time":
        _without_processes(monkeypatch)
    run_main(name, [a.format(folder=folder) for a in arguments], monkeypatch)
    told = capsys.readouterr().out
    assert len(told.splitlines()) >= 3
    # So few rankings leave cells of the protocol's tables empty.
    assert name == "ranking_protocol" or "nan" not in told


def _without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fits of `fit_time` that have processes of their own, in this one."""
    fit_time = load("fit_time")
    monkeypatch.setattr(fit_time, "LARGE", 6)
    monkeypatch.setattr(fit_time, "SPEEDUP_TO_REACH", {6: 50.0})

    def measured(name: str, noise: float) -> dict[str, float]:
        told: list[str] = []
        monkeypatch.setattr(fit_time, "print", told.append, raising=False)
        fit_time.run_one(name, noise)
        monkeypatch.delattr(fit_time, "print")
        return json.loads(told[-1])

    monkeypatch.setattr(fit_time, "measure_large", measured)


def test_the_truths_agree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load("truth")._compare_samplers(3, 0.25)
    told = capsys.readouterr().out
    assert float(told.split("differ by ")[1].split()[0]) < 4.5


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
    told = capsys.readouterr().out
    assert told.count("1 passed") == 5
    assert told.count("0 failed") == 5


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
