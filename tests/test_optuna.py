"""Preferential studies of optuna-dashboard on a model of ours."""

import importlib
import math
import random
import re
import statistics
import sys
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

optuna = pytest.importorskip("optuna", reason="the host is not installed")
preferential = pytest.importorskip("optuna_dashboard.preferential")

from optuna.storages import RDBStorage  # noqa: E402
from optuna.trial import TrialState, create_trial  # noqa: E402
from optuna_dashboard.preferential import _system_attrs  # noqa: E402

from botorch_pref import (  # noqa: E402
    BotorchPrefError,
    ExperimentError,
    default_model,
    incumbent_index,
)
from botorch_pref.optuna import PreferenceSampler  # noqa: E402


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


def suggest(trial: Any) -> dict[str, Any]:
    return {
        "rate": trial.suggest_float("rate", 1e-5, 1e-1, log=True),
        "layers": trial.suggest_int("layers", 1, 13, step=2),
        "drop": trial.suggest_float("drop", 0.0, 0.6, step=0.1),
        "act": trial.suggest_categorical("act", ["relu", None, True]),
    }


def utility(params: dict[str, Any]) -> float:
    """Computes a utility that is largest, 1.5, at 1e-3, 5, 0.3 and relu."""
    bowl = 2 * (math.log10(params["rate"]) + 3) ** 2 + 0.1 * (params["layers"] - 5) ** 2
    gain = {"relu": 1.5, None: 0.0, True: 0.5}[params["act"]]
    return gain - bowl - 5 * (params["drop"] - 0.3) ** 2


def shown(study: Any) -> list[Any]:
    lost = {worse.number for _, worse in study.preferences}
    return [trial for trial in study.trials if trial.number not in lost]


def play(study: Any, num_answers: int) -> None:
    """Answers as a judge who names the worst of those that are shown."""
    for _ in range(num_answers):
        while study.should_generate():
            suggest(study.ask())
        *better, worst = sorted(shown(study), key=lambda t: -utility(t.params))
        study.report_preference(better, worst)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Callable[[], RDBStorage]]:
    """Opens the same file anew each time, and closes all connections in the end."""
    opened: list[RDBStorage] = []

    def storage() -> RDBStorage:
        opened.append(RDBStorage(f"sqlite:///{tmp_path}/s.db"))
        return opened[-1]

    yield storage
    for study in opened:
        study.engine.dispose()


def random_design(draws: random.Random) -> dict[str, Any]:
    return {
        "rate": 10 ** draws.uniform(-5, -1),
        "layers": 1 + 2 * draws.randint(0, 6),
        "drop": draws.randint(0, 6) / 10,
        "act": draws.choice(["relu", None, True]),
    }


@pytest.mark.slow
def test_mixed_studies_go_uphill_and_on_as_if_they_had_not_stopped(
    stored: Callable[[], RDBStorage],
) -> None:
    """Slow, for it takes several studies of a judge who does not err.

    What the model chose is compared with designs at random, and not the best of each:
    the bests of studies differ by 0.6, too much for so few.
    """
    chosen, trial_records = [], []
    for seed, stops in ((0, [10]), (1, [10]), (2, [10]), (1, [2, 2])):
        name = f"{seed} {stops}"
        preferential.create_study(n_generate=4, study_name=name, storage=stored())
        for num_answers in stops:
            sampler = PreferenceSampler(seed)
            study = preferential.load_study(
                study_name=name, storage=stored(), sampler=sampler
            )
            play(study, num_answers)
        trial_records.append([trial.params for trial in study.trials])
        if len(stops) == 1:
            # The first designs are spread.
            chosen += [utility(trial.params) for trial in study.trials[-5:]]
    assert (
        trial_records[1][: len(trial_records[3])]
        == trial_records[3]
        != trial_records[0][: len(trial_records[3])]
    )
    draws = random.Random(0)
    at_random = sorted(utility(random_design(draws)) for _ in range(2_000))
    ranks = [bisect_left(at_random, value) / len(at_random) for value in chosen]
    # Of designs at random the ranks would be uniform: three standard errors.
    tolerance = 3 / math.sqrt(12 * len(ranks))
    assert statistics.mean(ranks) > 0.5 + tolerance
    # The model's values are all of them what optuna takes, and none is drawn instead.
    new_trial = study.ask()
    assert suggest(new_trial) == new_trial.relative_params


def told(pairs: list[tuple[int, int]], **columns: list[Any]) -> Any:
    """Makes a study of trials with these values, some pairs of them compared."""
    study = preferential.create_study(n_generate=2, sampler=PreferenceSampler(seed=1))
    kinds = {
        "x": optuna.distributions.FloatDistribution(0.0, 1.0),
        "only": optuna.distributions.FloatDistribution(0.5, 0.5),
        "n": optuna.distributions.IntDistribution(1, 10_001, log=True),
        "kind": optuna.distributions.CategoricalDistribution(["a", "b", "c"]),
        "step": optuna.distributions.IntDistribution(1, 13, step=4),
    }
    for values in zip(*columns.values(), strict=True):
        params = dict(zip(columns, values, strict=True))
        distributions = {name: kinds[name] for name in params}
        study.add_trial(
            create_trial(
                state=TrialState.RUNNING, params=params, distributions=distributions
            )
        )
    for better, worse in pairs:
        study.report_preference(study.trials[better], study.trials[worse])
    return study


PAIRS = [(0, 1), (2, 1), (3, 4), (2, 3), (0, 4), (2, 5)]


def test_the_model_sees_shares_of_ranges_and_choices_one_hot() -> None:
    """The best trial is that of a model of points that were encoded by hand."""
    x = [0.1, 0.9, 0.3, 0.5, 0.7, 0.2]
    number = [1, 10_001, 100, 10, 1_000, 30]
    kinds = ["a", "b", "a", "c", "c", "b"]
    study = told(PAIRS, x=x, n=number, kind=kinds)
    shares = [math.log(n) / math.log(10_001) for n in number]
    hot = [[float(k == kind) for k in "abc"] for kind in kinds]
    rows = [[*h, s, v] for h, s, v in zip(hot, shares, x, strict=True)]
    points = torch.tensor(rows, dtype=torch.double)
    model = default_model(points, torch.tensor(PAIRS), categorical=[(0, 1, 2)])
    best = study._study.sampler.best_trial(study)
    assert best.number == int(incumbent_index(model))


def propose(study: Any) -> float:
    return float(study.ask().suggest_float("x", 0.0, 1.0))


def test_failed_and_skipped_trials_turn_the_search_away() -> None:
    """The larger the better, but from 0.6 on nothing can be judged."""
    x = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.8, 0.9, 1.0]
    pairs = [(1, 0), (2, 1), (3, 2), (4, 3), (4, 2), (3, 1), (4, 0), (3, 0)]
    tempted, warned = told(pairs, x=x[:5]), told(pairs, x=x)
    storage = warned._study._storage
    for trial in warned.trials[5:8]:
        _system_attrs.report_skip(warned._study._study_id, trial._trial_id, storage)
    for trial in warned.trials[8:]:
        storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
    chosen = [[propose(study) for _ in range(3)] for study in (tempted, warned)]
    assert max(chosen[0]) > 0.6
    assert max(chosen[1]) < 0.6


def test_steps_are_counted_from_the_lower_end() -> None:
    study = told(PAIRS, step=[1, 13, 5, 9, 5, 1])
    steps = [study.ask().relative_params["step"] for _ in range(3)]
    assert {*steps} <= {1, 5, 9, 13}
    assert {*steps} != {1}, "no other step was chosen"


def test_parameters_that_some_trials_lack_are_drawn_at_random() -> None:
    study = told(PAIRS, x=[0.1, 0.9, 0.3, 0.5, 0.7, 0.2])
    trial = study.ask()
    assert list(trial.relative_params) == ["x"]
    with pytest.warns(UserWarning, match="'width' is not in all trials"):
        trial.suggest_float("width", 0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Once; a range that grew is no other parameter.
        second = study.ask()
        second.suggest_float("width", 0.0, 1.0)
        assert 0.0 <= second.suggest_float("x", 0.0, 1.0) <= 1.0
    # A study whose answers are all taken back begins anew.
    attributes = study._study._storage.get_study_system_attrs(study._study._study_id)
    for key in [k for k in attributes if k.startswith("preference:values")]:
        study._study._storage.set_study_system_attr(study._study._study_id, key, [])
    assert study.ask().relative_params == {}


def test_what_is_no_preferential_study_is_refused_by_name() -> None:
    plain = optuna.create_study(study_name="plain", sampler=PreferenceSampler())
    with pytest.raises(ExperimentError, match="'plain' is not preferential"):
        plain.ask().suggest_float("x", 0.0, 1.0)
    study = told([], x=[0.1, 0.2])
    with pytest.raises(ExperimentError, match="has no answer yet"):
        study._study.sampler.best_trial(study)
    fixed = told([(0, 1)], only=[0.5, 0.5])
    with pytest.raises(ExperimentError, match="no parameter in common that varies"):
        fixed._study.sampler.best_trial(fixed)
    study.report_preference(study.trials[1], study.trials[1])
    with pytest.raises(ExperimentError, match="Trial 1 was reported as better than"):
        propose(study)
    with pytest.raises(BotorchPrefError, match="seed is 'a text'"):
        PreferenceSampler(seed="a text")


def test_the_error_without_optuna_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "optuna_dashboard.preferential", None)
    monkeypatch.delitem(sys.modules, "botorch_pref.optuna")
    with pytest.raises(ImportError, match=re.escape("botorch-pref[optuna]")):
        importlib.import_module("botorch_pref.optuna")


@pytest.mark.slow
def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[1] / "docs" / "tasks" / "from-optuna.md"
    block, _ = re.findall(
        r"^```python\n(.*?)^```", page.read_text("utf-8"), re.S | re.M
    )
    exec(block, {})
    assert "'bean': " in capsys.readouterr().out
