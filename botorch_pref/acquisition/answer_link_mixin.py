"""The link of the answers, for acquisition functions that foresee them."""

from __future__ import annotations

from botorch.models.model import Model

from botorch_pref.likelihoods.answer_link import answer_link
from botorch_pref.likelihoods.links.duel_link import DuelLink


class AnswerLinkMixin:
    """Keeps a link that was given, and else takes the one of the model's likelihood."""

    model: Model

    def _set_link(self, link: DuelLink | None) -> None:
        self._link = link
        _ = self.link  # an unknown likelihood is an error here rather than later

    @property
    def link(self) -> DuelLink:
        """The link, with the present parameters of the likelihood if it is its own."""
        return answer_link(self.model.likelihood) if self._link is None else self._link
