"""A person in the loop: a page for the phone, and a widget for the notebook."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botorch_pref.web.app import make_app
    from botorch_pref.web.rendering import Markup, NumberTable
    from botorch_pref.web.widget import QuestionWidget

__all__ = ["Markup", "NumberTable", "QuestionWidget", "make_app"]

_EXTRAS = {
    "Markup": ("botorch_pref.web.rendering", "web"),
    "NumberTable": ("botorch_pref.web.rendering", "web"),
    "QuestionWidget": ("botorch_pref.web.widget", "widget"),
    "make_app": ("botorch_pref.web.app", "web"),
}
"""The module of each public name, and the extra that the module needs."""


def __getattr__(name: str) -> Any:
    """Imports a public name at first use, so that each needs its own extra alone."""
    if name not in _EXTRAS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra = _EXTRAS[name]
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise ImportError(
            f"{name} needs {error.name}: pip install 'botorch-pref[ax,{extra}]'",
            name=error.name,
        ) from error
