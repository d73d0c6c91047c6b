"""What the studies of the suite name and declare, and the noise of their judges."""

import re
from pathlib import Path

import pytest
import torch

from benchmarks.suite.cell import Rule
from benchmarks.suite.runs.acquisitions import ACQUISITIONS
from benchmarks.suite.runs.judges import JUDGES
from benchmarks.suite.runs.models import MODELS
from benchmarks.suite.runs.players import check_rule
from benchmarks.suite.studies import STUDIES
from benchmarks.suite.studies.calibration import probit_deviation, tie_threshold
from benchmarks.suite.studies.own import ERRORS
from benchmarks.suite.studies.study import Study
from botorch_pref.simulation import make_problem


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
