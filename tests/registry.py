"""One entry for each class of the package that a contract holds to its promises."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from torch import Tensor
from truths.gaussian_posteriors import (
    ep_reference,
    exact_reference,
    laplace_reference,
    variational_reference,
)

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    SkewPreferenceGP,
    VariationalPreferenceGP,
)
from botorch_pref.likelihoods.factors.box_factors import BoxFactors
from botorch_pref.models.preference_gp import PreferenceGP


@dataclass(frozen=True)
class Engine:
    """What the contract has to know of a model class.

    Attributes:
        cls: The class.
        reference: An independent computation of the posterior mean and covariance.
        iteration_cap: Module and name of the constant that limits iterations.
        logit: Whether it takes `PairwiseLogitLikelihood`.
        num_draws: How many draws stand behind a result; None where none do.
        options: Constructor arguments that are its own.
    """

    cls: type[PreferenceGP]
    reference: Callable[..., tuple[Tensor, Tensor]]
    iteration_cap: tuple[str, str]
    logit: bool = True
    num_draws: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *args: Any, **kwargs: Any) -> PreferenceGP:
        return self.cls(*args, **(self.options | kwargs))

    def with_draws(self, num_draws: int) -> "Engine":
        if self.num_draws is None:
            return self
        options = self.options | {"num_draws": num_draws}
        return replace(self, num_draws=num_draws, options=options)

    @property
    def boxed(self) -> bool:
        """Whether it takes probit answers, ties and validity."""
        return BoxFactors in self.cls.takes

    def needs_boxes(self) -> None:
        if not self.boxed:
            pytest.skip("The engine takes no boxed answers.")

    @property
    def sampling_error(self) -> float:
        """Six standard errors of a mean, in posterior standard deviations."""
        return 0.0 if self.num_draws is None else 6 * self.num_draws**-0.5


EP_CAP = ("botorch_pref.inference.ep.expectation_propagation", "_MAX_SWEEPS")
ENGINES = {
    engine.cls: engine
    for engine in (
        Engine(
            LaplacePreferenceGP,
            reference=laplace_reference,
            iteration_cap=("botorch_pref.inference.laplace", "_MAX_ITERATIONS"),
        ),
        Engine(
            EPPreferenceGP,
            reference=ep_reference,
            iteration_cap=EP_CAP,
        ),
        Engine(
            SkewPreferenceGP,
            reference=exact_reference,
            iteration_cap=EP_CAP,
            logit=False,
            num_draws=512,
            options={"num_draws": 512},
        ),
        Engine(
            VariationalPreferenceGP,
            reference=variational_reference,
            iteration_cap=(
                "botorch_pref.inference.variational.bound_ascent",
                "_MAX_ITERATIONS",
            ),
        ),
    )
}
