"""Base class of the kinds of answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from ax.core.metric import Metric

from botorch_pref.ax.answers.kinds.metric_data import Groups
from botorch_pref.ax.answers.kinds.shown_options import ShownOptions
from botorch_pref.feedback import Feedback

Pairs = list[tuple[int, int]]


class AnswerKind(ABC):
    """Kind of answer, from the keyword of ``tell`` to the feedback.

    Attributes:
        field: The field of `Answer`, and the keyword of ``tell``.
        metric: The name of Ax's metric whose data hold it.
        compares: Whether it compares the options; an answer does so in one way at most.
    """

    field: ClassVar[str]
    metric: ClassVar[str]
    compares: ClassVar[bool] = False

    def made_metric(self, num_levels: int | None) -> Metric:
        """Ax's metric, as a new experiment has it.

        Args:
            num_levels: How many levels the scale of the experiment has, if it has one.
        """
        return Metric(self.metric)

    @abstractmethod
    def checked(self, given: Any, shown: ShownOptions) -> dict[str, Any]:
        """Fields of `Answer`, if this can be said of these options.

        Two ways to say the same give the same fields.

        Args:
            given: The value of the keyword, not None.
            shown: The options.

        Raises:
            ExperimentError: It cannot be said of them.
        """

    @abstractmethod
    def encode(self, said: Any, shown: ShownOptions) -> dict[int, float]:
        """Data of the metric: values by option.

        Args:
            said: The value of the field.
            shown: The options.
        """

    @abstractmethod
    def said_by(self, values: Mapping[int, float], shown: ShownOptions) -> Any:
        """The value of the field, by what `encode` makes of it.

        Args:
            values: By option, one or more; of other values the result means nothing.
            shown: The options.
        """

    @abstractmethod
    def decode(self, groups: Groups, num_levels: int | None) -> Feedback | None:
        """The answers as a model takes them; None if there are none.

        Args:
            groups: The metric's data of each question, by datapoint.
            num_levels: How many levels the scale of the experiment has, if it has one.

        Raises:
            ExperimentError: Data that no answer gives.
        """

    def preferences(self, said: Any, shown: ShownOptions) -> tuple[Pairs, Pairs]:
        """Pairs of a better and a worse option, and pairs of equal ones.

        Args:
            said: The value of the field.
            shown: The options.
        """
        return [], []
