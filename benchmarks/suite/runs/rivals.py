"""Rules of other software: BoTorch's `PairwiseGP` and optuna-dashboard's sampler."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.optim.optimize import optimize_acqf
from botorch.utils.sampling import manual_seed
from torch import Generator, Tensor

from benchmarks.suite.cell import Rule
from benchmarks.suite.errors import SuiteError
from botorch_pref.acquisition import incumbent, recommend
from botorch_pref.feedback import Comparisons
from botorch_pref.likelihoods import PairwiseProbitLikelihood
from botorch_pref.models import EPPreferenceGP
from botorch_pref.simulation.duel_loop import (
    NUM_RESTARTS,
    RAW_SAMPLES,
    Proposal,
    index_pairs,
)
from botorch_pref.simulation.problem import Problem

ATTEMPTS = 20
"""How often optuna-dashboard is asked for a point before a run fails."""


def decided(comparisons: Comparisons) -> Tensor:
    """Pairs for software without ties: a tie is one win of each.

    Args:
        comparisons: With or without ties.

    Returns:
        `m x 2`, winner first.
    """
    parts = [] if comparisons.pairs is None else [comparisons.pairs]
    if comparisons.ties is not None:
        parts += [comparisons.ties, comparisons.ties.flip(-1)]
    return torch.cat(parts)


def fit_pairwise_gp(datapoints: Tensor, comparisons: Comparisons) -> Model:
    """BoTorch's `PairwiseGP`, fitted with its defaults."""
    model = PairwiseGP(datapoints, decided(comparisons))
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    return model


def qeubo(model: Model, X_ref: Tensor) -> AnalyticExpectedUtilityOfBestOption:
    """QEUBO of two new points, for which BoTorch has it in closed form."""
    return AnalyticExpectedUtilityOfBestOption(pref_model=model)


class OptunaDashboard:
    """Rival that asks what optuna-dashboard's `PreferentialGPSampler` proposes.

    After each answer the sampler learns its hyper-parameters and proposes a point. The
    point meets the incumbent of the sampler's own model: its kernel and its noise under
    expectation propagation, by which it fits them. Where the sampler fails, or proposes
    the incumbent itself, it is asked again, as somebody at the dashboard would.

    Args:
        dim: Number of inputs `d`.
        num_random: How many duels start the run at random.
        generator: Source of the random duels; its seed is the sampler's too.

    Raises:
        ImportError: optuna-dashboard is not installed.
    """

    def __init__(self, dim: int, num_random: int, generator: torch.Generator) -> None:
        import optuna
        from optuna_dashboard.preferential.samplers.gp import PreferentialGPSampler

        self.num_random, self.generator = num_random, generator
        self.sampler = PreferentialGPSampler(seed=generator.initial_seed() % 2**32)
        unit = optuna.distributions.FloatDistribution(0.0, 1.0)
        self.space = {f"x{i:03d}": unit for i in range(dim)}
        self.proposed, self.study = torch.empty(0), None

    def __call__(
        self, number: int, model: Model | None, best: Tensor | None
    ) -> Proposal:
        """Proposes the next duel."""
        if best is None or number < self.num_random:
            shape = 2, len(self.space)
            points = torch.rand(shape, generator=self.generator, dtype=torch.double)
            return Proposal(points[0], points[1], "random")
        if torch.equal(self.proposed, best):
            self.proposed = self._sampled(best)
        return Proposal(self.proposed, best, "optuna")

    def fit(self, datapoints: Tensor, comparisons: Comparisons) -> Model:
        """The sampler's model of all answers so far."""
        pairs = decided(comparisons)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.study = self._told(datapoints, pairs)
        self.proposed = self._sampled()
        gp = self.sampler._gp
        noise = float(gp.log_noise.detach().exp())
        return EPPreferenceGP(
            datapoints,
            pairs,
            covar_module=gp.kernel,
            # Its noise is that of the difference.
            likelihood=PairwiseProbitLikelihood(noise / 2),
        )

    def _sampled(self, best: Tensor | None = None) -> Tensor:
        """The sampler's point; drawn anew where it fails or proposes the best again."""
        for _ in range(ATTEMPTS):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = self.sampler.sample_relative(
                        self.study, self.study.trials[0], self.space
                    )
            except torch.linalg.LinAlgError:
                # As a dashboard that is started again.
                self.sampler._gp = None
                continue
            point = torch.tensor([found[name] for name in self.space]).double()
            if best is None or not torch.equal(point, best):
                return point
        raise SuiteError(f"optuna-dashboard proposed no other point {ATTEMPTS} times")

    def _told(self, datapoints: Tensor, pairs: Tensor) -> Any:
        """A study of optuna's in which these answers were given, in their order."""
        import optuna
        from optuna_dashboard.preferential import create_study

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = create_study(n_generate=2, sampler=self.sampler)
        for point in datapoints.tolist():
            study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.RUNNING,
                    params=dict(zip(self.space, point, strict=True)),
                    distributions=self.space,
                )
            )
        trials = study.trials
        for winner, loser in pairs.tolist():
            study.report_preference(trials[winner], trials[loser])
        return study._study


RIVALS = ("optuna", "pairwise-gp")
"""Models of other software."""


class RivalOfMany:
    """Other software in one run whose questions have several options.

    optuna-dashboard shows as many options all the time, hears which is the worst, and
    replaces that one by what its sampler proposes. `PairwiseGP` is asked about new
    points, chosen jointly by qEUBO, and hears which is the best.

    Args:
        rule: Whose model is one of `RIVALS`.
        problem: What is optimised.
        errs: Whether the judge errs, which the software is not told.
        sources: Of the one run's draws.
    """

    def __init__(
        self, rule: Rule, problem: Problem, errs: bool, sources: Sequence[Generator]
    ) -> None:
        (self.source,) = sources
        self.rule, self.dim, self.optuna = rule, problem.dim, None
        if rule.model == "optuna":
            self.optuna = OptunaDashboard(problem.dim, 0, self.source)

    def learn(self, told: Tensor) -> None:
        """Fits the model of all answers.

        Args:
            told: The options of all questions, the best first, `1 x m x k x d`.
        """
        self.told = told[0]
        winners, losers = self.told[:, :1], self.told[:, 1:]
        if self.rule.answer == "worst":
            winners, losers = self.told[:, :-1], self.told[:, -1:]
        winners, losers = torch.broadcast_tensors(winners, losers)
        points, pairs = index_pairs(winners.flatten(0, 1), losers.flatten(0, 1))
        fit = fit_pairwise_gp if self.optuna is None else self.optuna.fit
        self.model = fit(points, Comparisons(pairs))

    def recommended(self) -> Tensor:
        """The recommended point, `1 x d`."""
        return incumbent(self.model).reshape(1, -1)

    def best_anywhere(self) -> Tensor:
        """The point of the cube with the largest posterior mean, `1 x d`."""
        return recommend(self.model, _cube(self.dim)).point

    def ask(self) -> Tensor:
        """The next question, `1 x k x d`."""
        if self.optuna is not None:
            kept = self.told[-1, :-1]
            return torch.cat([kept, self.optuna.proposed.unsqueeze(0)]).unsqueeze(0)
        with manual_seed(int(torch.randint(2**31, (), generator=self.source))):
            found, _ = optimize_acqf(
                qExpectedUtilityOfBestOption(pref_model=self.model),
                bounds=_cube(self.dim),
                q=self.rule.options,
                num_restarts=NUM_RESTARTS,
                raw_samples=RAW_SAMPLES,
            )
        return found.detach().unsqueeze(0)


def _cube(dim: int) -> Tensor:
    return torch.tensor([[0.0], [1.0]]).double().expand(2, dim)
