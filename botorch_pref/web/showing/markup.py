"""Markup that may be shown as it is."""

from __future__ import annotations


class Markup(str):
    """HTML that is shown as it is; any other text is escaped.

    ``markupsafe.Markup`` and objects with ``_repr_html_`` do as well. Scripts, inline
    styles and anything from other hosts stay without effect on the page.
    """

    __slots__ = ()

    def __html__(self) -> str:
        """The markup, as template engines ask for it."""
        return str(self)
