"""Every class of the package has its entry in the registry."""

import inspect

from registry import (
    ACQUISITIONS,
    CELLS,
    ENGINES,
    ENTRIES,
    LINE_CASES,
    RANDOM,
    SET_CASES,
)

from botorch_pref.acquisition.registration import registered_acquisitions
from botorch_pref.feedback import Feedback
from botorch_pref.inference.inducing import BlurredFactors
from botorch_pref.likelihoods import DensityFactors, Factors, PreferenceLikelihood
from botorch_pref.likelihoods.factors import JointFactors, MergedBoxFactors
from botorch_pref.likelihoods.lapses import LapsingBoxes, MergedLapsingFactors
from botorch_pref.likelihoods.protocol import registered_likelihoods
from botorch_pref.models.answer_likelihoods import engines


def concrete(cls: type) -> set[type]:
    """Lists the concrete classes of the package; other tests make some of their own."""
    below = {leaf for child in cls.__subclasses__() for leaf in concrete(child)}
    ours = cls.__module__.startswith("botorch_pref.")
    return below if inspect.isabstract(cls) or not ours else below | {cls}


def test_every_engine_has_an_entry() -> None:
    assert set(ENGINES) == set(engines())


def test_every_kind_of_answer_has_an_entry() -> None:
    assert {type(cell.feedback) for cell in CELLS} == concrete(Feedback)
    assert set(RANDOM) == concrete(Feedback)


def test_every_likelihood_has_an_entry_for_each_kind_that_it_explains() -> None:
    explained = {
        (likelihood, kind)
        for likelihood in registered_likelihoods().values()
        for kind in likelihood.explains
    }
    assert {(type(c.likelihood()), type(c.feedback)) for c in CELLS} == explained
    entries = {(case.likelihood, type(case.feedback)) for case in ENTRIES.values()}
    assert (
        entries | {(c.likelihood, c.kind) for c in SET_CASES + LINE_CASES} == explained
    )


def test_every_likelihood_of_the_package_is_registered() -> None:
    ours = {cls for cls in concrete(PreferenceLikelihood) if hasattr(cls, "explains")}
    assert ours <= set(registered_likelihoods().values())


def test_every_kind_of_factors_is_covered() -> None:
    covered = {case.factors for case in ENTRIES.values()} | {
        BlurredFactors,
        JointFactors,
        DensityFactors,
        LapsingBoxes,
        MergedBoxFactors,
        MergedLapsingFactors,
    }
    of_sets = {case.factors for case in SET_CASES + LINE_CASES}
    assert covered | of_sets == concrete(Factors)


def test_every_acquisition_function_has_an_entry() -> None:
    ours = {
        entry.cls
        for entry in registered_acquisitions()
        if entry.cls.__module__.startswith("botorch_pref.")
    }
    assert {entry.cls for entry in ACQUISITIONS.values()} == ours
