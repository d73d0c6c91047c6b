"""Problems that nobody would choose: copies, repeats, extreme scales."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
from draws import uniform
from entries import Cell
from gpytorch.kernels import RBFKernel, ScaleKernel
from models.cell_models import takes
from random_answers import counted, repeated
from registry import CELLS, RANDOM
from torch import Generator, Tensor

from botorch_pref import EPPreferenceGP, SkewPreferenceGP, SparsePreferenceGP
from botorch_pref.feedback import Feedback
from botorch_pref.models import PreferenceGP

DOUBLE = torch.float64
NUM_DRAWS = 128
# Answers of a problem, for a time of a tenth of a second or so.
MOST_ANSWERS = {
    SkewPreferenceGP: 30,
    EPPreferenceGP: 600,
    SparsePreferenceGP: 600,
}
MOST_ANSWERS_OF_OTHERS = 3000


def repeat(
    generator: Generator, feedback: Feedback, repetition: str, copies: int, rows: int
) -> Feedback:
    """Repeats answers, "once", "counted" or "repeated", where each time is a row."""
    if repetition == "once":
        return feedback
    if repetition == "counted" and type(feedback).counted:
        return counted(generator, feedback, copies)
    return repeated(generator, feedback, min(copies, rows))


@dataclass(frozen=True)
class Problem:
    """Answers of some kinds about points, under a prior, and an engine for them.

    ``cells`` are indices into the registry's cells, of which one of each kind is taken.
    The last of ``n`` points is ``near`` the one before it; 0 is a copy. Logarithms are
    in tens: ``log_unit`` is of the inputs. With ``batch`` there are two blocks of the
    same answers, ``repetition`` as :func:`repeat` says, each up to ``copies`` times.
    """

    engine: type[PreferenceGP]
    cells: tuple[int, ...]
    n: int
    d: int
    near: float
    log_lengthscale: float
    log_outputscale: float
    log_noise: float
    log_unit: float
    batch: bool
    single: bool
    repetition: str
    copies: int
    fitted: bool
    seed: int

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.single else DOUBLE

    @property
    def eps(self) -> float:
        return torch.finfo(self.dtype).eps

    def answers(self) -> list[Cell]:
        """Draws one cell of each kind, with random answers."""
        generator = Generator().manual_seed(self.seed)
        chosen: dict[type[Feedback], Cell] = {}
        for i in self.cells:
            kind = type(CELLS[i].feedback)
            chosen[kind] = replace(CELLS[i], feedback=RANDOM[kind](generator, self.n))
        limit = MOST_ANSWERS.get(self.engine, MOST_ANSWERS_OF_OTHERS)
        rows = max(1, limit // (5 * len(chosen)))
        blocks = []
        for kind, cell in chosen.items():
            one_by_one = not type(cell.likelihood()).explains[kind].takes_counts
            copies = min(self.copies, rows) if one_by_one else self.copies
            blocks.append(
                repeat(generator, cell.feedback, self.repetition, copies, rows)
            )
        cells = zip(chosen.values(), blocks, strict=True)
        return [replace(cell, feedback=feedback) for cell, feedback in cells]

    def points(self) -> Tensor:
        """Draws datapoints, ``n x d``, the last two of them near each other.

        In double precision, of numbers that single precision has where that is wanted.
        """
        points = uniform(self.n, self.d, seed=self.seed + 1)
        points[-1] = points[-2] + self.near
        return (points * 10**self.log_unit).to(self.dtype).double()

    def prior_covariance(self) -> Tensor:
        """Computes the covariance of utilities at the datapoints, from the formula."""
        scaled = self.points() / 10 ** (self.log_lengthscale + self.log_unit)
        squares = (scaled.unsqueeze(-2) - scaled.unsqueeze(-3)).square().sum(-1)
        return 10**self.log_outputscale * torch.exp(-squares / 2)

    @property
    def ordinary(self) -> bool:
        """Whether a brute force average over the prior can tell the evidence."""
        return (
            max(abs(self.log_outputscale - self.log_noise), abs(self.log_noise)) <= 1.5
        )

    def model(
        self, cells: Sequence[Cell], dtype: torch.dtype | None = None
    ) -> PreferenceGP:
        """Makes the model, without a fit, in the problem's precision or another."""
        dtype = self.dtype if dtype is None else dtype
        likelihoods: dict[type[Feedback], Any] = {}
        for cell in cells:
            likelihood = cell.likelihood().to(dtype)
            if hasattr(likelihood, "noise"):
                likelihood.noise = 10**self.log_noise
            likelihoods[type(cell.feedback)] = likelihood
        points, feedback = (
            self.points().to(dtype),
            [_in(cell.feedback, dtype) for cell in cells],
        )
        if self.batch:
            points = points.expand(2, -1, -1)
            feedback = [
                f.map_tensors(lambda t: t.expand(2, *t.shape)) for f in feedback
            ]
        draws = {"num_draws": NUM_DRAWS} if self.engine is SkewPreferenceGP else {}
        kernel: Any = ScaleKernel(RBFKernel()).to(dtype)
        kernel.base_kernel.lengthscale = 10 ** (self.log_lengthscale + self.log_unit)
        kernel.outputscale = 10**self.log_outputscale
        model = self.engine(
            points,
            feedback=feedback,
            likelihood=likelihoods,
            covar_module=kernel,
            **draws,
        )
        return model.eval()

    def unfitted(self, cells: Sequence[Cell]) -> PreferenceGP:
        """Makes a model with the default prior, of inputs in the unit cube."""
        draws = {"num_draws": NUM_DRAWS} if self.engine is SkewPreferenceGP else {}
        return self.engine(
            (self.points() / 10**self.log_unit).to(self.dtype),
            feedback=[_in(cell.feedback, self.dtype) for cell in cells],
            likelihood={type(c.feedback): c.likelihood().to(self.dtype) for c in cells},
            **draws,
        )


def _in(feedback: Feedback, dtype: torch.dtype) -> Feedback:
    return feedback.map_tensors(lambda t: t.to(dtype) if t.is_floating_point() else t)


def problems(
    engine: type[PreferenceGP], single: bool, repetition: str, seed: int
) -> Iterator[Problem]:
    """Problems for one engine, in one precision, whose answers are told in one way."""
    random = Random(f"{engine.__name__} {single} {repetition} {seed}")
    cells = [i for i, c in enumerate(CELLS) if takes(engine, c)]
    while True:
        yield Problem(
            engine=engine,
            cells=tuple(random.sample(cells, random.randint(1, min(4, len(cells))))),
            n=random.randint(3, 12),
            d=random.randint(1, 4),
            near=random.choice([0.3, 0.0, 1e-12, 1e-8, 1e-4]),
            log_lengthscale=random.uniform(-2, 2),
            log_outputscale=random.uniform(-4, 4),
            log_noise=random.uniform(-4, 3),
            log_unit=random.choice([0, 0, 0, -6, 6]),
            batch=random.random() < 0.5,
            single=single,
            repetition=repetition,
            copies=random.choice([3, 10, 100, 3000]),
            fitted=random.random() < 1 / 16,
            seed=random.randrange(2**31),
        )
