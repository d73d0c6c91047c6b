"""Some of the answers of a sparse model, and a process that has them."""

import itertools
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.optim.closures import ForwardBackwardClosure
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from botorch_pref import (
    BotorchPrefError,
    Comparisons,
    PairwiseProbitLikelihood,
    PreferenceMarginalLogLikelihood,
    Rankings,
    SparsePreferenceGP,
    Validity,
)
from botorch_pref.feedback import Feedback
from botorch_pref.inference.inducing import SharedFeatureSolver
from botorch_pref.inference.sparse import SparseExpectationPropagation

GENERATOR = torch.Generator().manual_seed(0)
POINTS = torch.rand(40, 2, generator=GENERATOR, dtype=torch.float64)
NEW = torch.rand(5, 2, generator=GENERATOR, dtype=torch.float64)
# Ten of the points are of both. The second has no rankings, whose rows share noise.
SHARES = ((slice(0, 30), 50, 5, 1), (slice(20, 40), 20, 0, 2))


def share(rank: int) -> tuple[Tensor, list[Feedback]]:
    """Returns points and answers of a process."""
    places, count, rankings, seed = SHARES[rank]
    points = POINTS[places]
    generator = torch.Generator().manual_seed(seed)

    def sets(count: int, size: int) -> Tensor:
        drawn = torch.rand(count, len(points), generator=generator).argsort(-1)
        return drawn[:, :size]

    sound = torch.rand(6, generator=generator) < 0.5
    blocks = [
        Comparisons(sets(count, 2), sets(4, 2)),
        Validity(torch.arange(6), sound),
    ]
    return points, [*blocks, Rankings(sets(rankings, 4))] if rankings else blocks


def made(points: Tensor, feedback: list[Feedback]) -> SparsePreferenceGP:
    """Makes a model of which nine points leave a good deal open.

    Whether a tie threshold is learned depends on the answers unless it is named.
    """
    likelihood = {Comparisons: PairwiseProbitLikelihood(tie_threshold=0.5)}
    model = SparsePreferenceGP(
        points, feedback=feedback, likelihood=likelihood, num_inducing=9
    )
    model.inducing_points = POINTS[::5] + 0.01
    model.covar_module.outputscale = 5.0
    model.covar_module.base_kernel.lengthscale = 0.3
    return model


def findings(model: SparsePreferenceGP, loss: Tensor) -> dict[str, Tensor]:
    """Computes evidence, its gradient with the priors', and the posterior."""
    loss.backward()
    # A fit writes into the gradients themselves.
    learned = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    slopes = {name: p.grad.clone() for name, p in learned}
    with torch.no_grad():
        evidence, posterior = model.log_evidence(), model.posterior(NEW)
        moments = posterior.mean, posterior.distribution.covariance_matrix
    return {**slopes, "evidence": evidence, "mean": moments[0], "cov": moments[1]}


def work(rank: int, folder: Path) -> None:
    """Finds what follows from the answers of all processes, and writes it down."""
    warnings.simplefilter("ignore")  # of a process that a test started
    meeting = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", meeting, rank=rank, world_size=len(SHARES))
    model = made(*share(rank))
    model.engine = SparseExpectationPropagation(shared=True)
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)
    parallel = DistributedDataParallel(mll, broadcast_buffers=False)
    report = findings(model, -parallel(None, None))
    parameters = {n: p for n, p in mll.named_parameters() if p.requires_grad}
    closure = ForwardBackwardClosure(lambda: -parallel(None, None), parameters)
    fit_gpytorch_mll(mll, closure=closure)
    fitted = {n: p.detach() for n, p in model.named_parameters()}
    rounding, messages = model.solution().rounding, refusals(rank, model)
    torch.save([report, fitted, rounding, messages], folder / f"{rank}.pt")
    if rank == 1:
        die_at_a_sum()
    torch.save(error_of(model.log_evidence), folder / "death.pt")


def error_of(step: Callable[[], object]) -> str:
    """Returns the class and the words of an error; empty for none."""
    try:
        step()
    except (BotorchPrefError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def refusals(rank: int, model: SparsePreferenceGP) -> list[str]:
    """Lists what each process is told where something is wrong in one of them."""
    solver, own_points = model.solution().fixed.solver, model.inducing_points
    no_numbers = torch.full((solver.rows.num_rows,), torch.nan)
    errors = [error_of(lambda: solver.conditioned_noise(no_numbers))]
    for other_points in (own_points[rank:], own_points + 0.01 * rank):
        model.inducing_points = other_points
        errors.append(error_of(model.log_evidence))
    model.inducing_points = own_points
    return errors


def die_at_a_sum() -> None:
    """Has the process end without a word in the midst of the next solution."""
    inherited, countdown = SharedFeatureSolver.total, itertools.count(3, -1)

    def total(solver: SharedFeatureSolver, values: Tensor) -> Tensor:
        if next(countdown) == 0:
            os._exit(0)
        return inherited(solver, values)

    SharedFeatureSolver.total = total
