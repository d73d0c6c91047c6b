"""Positions of options, from the order in which they were shown to the report."""

import re
from dataclasses import asdict

import pytest
import torch
from espresso import QUICK_FIT
from showing import A, B, C, short_report, triangle

from botorch_pref import Choices, Comparisons, EPPreferenceGP
from botorch_pref.ax import PreferenceExperiment, Settings
from botorch_pref.errors import ExperimentError, StorageError
from botorch_pref.models import DuelKernel


def options(*points: tuple[float, float]) -> list[dict[str, float]]:
    return [{"a": a, "b": b} for a, b in points]


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> PreferenceExperiment:
    storage = tmp_path_factory.mktemp("biased") / "triangle.db"
    experiment = triangle(
        storage, initial=30, position_bias=True, fit_options=QUICK_FIT
    )
    for size in (2, 2, 2, 2, 2, 2, 2, 3):
        experiment.tell(experiment.ask(size), best=0)
    # The second option of the question was on display first, and was chosen.
    experiment.tell(experiment.ask(2), winner=1, order=[1, 0])
    experiment.tell(experiment.ask(options=options(A, B)), tie=True)
    experiment.tell(experiment.ask(options=options(B, A)), winner=1)
    experiment.record(options(A, C), winner=0)
    experiment.record(options(A, C), winner=0, order=[1, 0])
    return PreferenceExperiment.resume("triangle", storage=storage)


def test_positions_are_those_of_the_display(judged) -> None:
    assert judged.settings.position_bias
    blocks = {type(b): b for b in judged.fitted_adapter().feedback}
    duels = blocks[Comparisons]
    # Ones who won in front; the second one shown; a record; one shown second.
    wanted = torch.tensor([1.0] * 8 + [-1.0, 0.0, -1.0] + [1.0], dtype=torch.double)
    assert torch.equal(duels.covariates.squeeze(-1).abs(), wanted.abs())
    assert torch.equal(duels.pair_covariates.squeeze(-1), wanted[:-1])
    first = judged.log.questions[9].options[0].name
    names = [arm.name for arm in judged.fitted_adapter().arms]
    assert duels.tie_covariates.item() == (
        1.0 if names[int(duels.ties[0, 0])] == first else -1.0
    )
    chosen = blocks[Choices]
    of_places = dict(
        zip(chosen.sets[0].tolist(), chosen.covariates[0, :, 0], strict=True)
    )
    places_shown = [names.index(o.name) for o in judged.log.questions[7].options]
    assert [float(of_places[place]) for place in places_shown] == [0.5, 0.0, -0.5]


def test_positions_of_three_follow_a_display_that_turned(tmp_path) -> None:
    turned = triangle(tmp_path / "turned.db", position_bias=True, fit_options=QUICK_FIT)
    turned.record(options(A, B, C), best=0, order=[2, 0, 1])
    adapter = turned.fitted_adapter()
    (chosen,) = adapter.feedback
    places, positions = chosen.sets[0].tolist(), chosen.covariates[0, :, 0].tolist()
    designs = [tuple(arm.parameters.values()) for arm in adapter.arms]
    position_of_design = {
        designs[i]: position for i, position in zip(places, positions, strict=True)
    }
    # C was the first on display, then A.
    assert position_of_design == {C: 0.5, A: 0.0, B: -0.5}


def test_positions_come_back_from_a_table(judged, tmp_path) -> None:
    judged.write_answers(tmp_path / "answers.csv")
    second_experiment = triangle(tmp_path / "other.db", position_bias=True)
    second_experiment.record_table(tmp_path / "answers.csv")
    displays = [question.display for question in judged.log.questions]
    read_displays = [question.display for question in second_experiment.log.questions]
    orders = [None if d is None else [*d] for d in displays]
    assert read_displays == orders
    assert orders[:1] + orders[8:] == [[0, 1], [1, 0], [0, 1], [0, 1], None, [1, 0]]


def test_the_report_says_what_the_first_place_adds(judged) -> None:
    report = short_report(judged)
    text = report.summary.loc["position bias", "value"]
    numbers = re.findall(r"(\d+) %", text.replace("%", " %"))
    first, lowest, highest = (int(n) / 100 for n in numbers)
    model = judged.fitted_adapter().botorch_model
    assert isinstance(model, EPPreferenceGP)
    assert isinstance(model.covar_module, DuelKernel)
    weight = model.covariate_posterior()
    mean, deviation = weight.mean.item(), weight.variance.sqrt().item()
    threshold = model.likelihood.tie_threshold.item()
    noise = model.likelihood.noise.item()
    for stated, z in ((first, 0.0), (lowest, -1.95996), (highest, 1.95996)):
        sides = [sign * (mean + z * deviation) - threshold for sign in (1, -1)]
        won, lost = torch.special.ndtr(
            torch.tensor(sides) / (2 * noise) ** 0.5
        ).tolist()
        assert abs(stated - won / (won + lost)) < 0.0051
    assert first > 0.6
    assert text.startswith("the option shown first of two equal ones is chosen ")


def test_without_the_setting_positions_do_not_count(tmp_path) -> None:
    plain = triangle(tmp_path / "plain.db", initial=30)
    plain.tell(plain.ask(2), winner=0)
    (duels,) = plain.fitted_adapter().feedback
    assert duels.covariates is None
    assert "position bias" not in short_report(plain).summary.index


def test_what_cannot_be_learned_is_refused(tmp_path) -> None:
    with pytest.raises(ExperimentError, match="weights for 0"):
        triangle(tmp_path / "a.db", model="PlackettLuceRegression", position_bias=True)
    with pytest.raises(ExperimentError, match="position_bias"):
        Settings(position_bias="yes")
    biased = triangle(tmp_path / "b.db", initial=30, position_bias=True)
    with pytest.raises(ExperimentError, match="position_bias adds to"):
        biased.tell(biased.ask(2), strength=0.7)
    assert biased.num_answers == 0


def test_settings_that_were_stored_before_have_no_bias() -> None:
    stored = asdict(Settings())
    del stored["position_bias"]
    assert Settings.from_stored(stored) == Settings()
    del stored["baseline"]
    with pytest.raises(StorageError, match="position_bias"):
        Settings.from_stored(stored)
