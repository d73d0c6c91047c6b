"""Every class of the package has its entry in the registry."""

from registry import ENGINES

from botorch_pref.models.preference_gp import engines


def test_every_engine_has_an_entry() -> None:
    assert set(ENGINES) == set(engines())
