"""A run as JSON lines: the settings first, then one line a duel."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation.duel_loop import Duel, Proposal

T = TypeVar("T")


@dataclass(frozen=True)
class RunSettings:
    """Settings that determine a simulated run.

    Attributes:
        problem: Name of the problem.
        model: Name of the model.
        acquisition: Name of the acquisition function.
        duels: Number of duels.
        random_duels: How many of them start the run at random.
        noise: Variance of the judge's noise per presented item.
        seed: Seed of every draw.
    """

    problem: str
    model: str
    acquisition: str
    duels: int
    random_duels: int
    noise: float
    seed: int


@dataclass(frozen=True)
class LoggedDuel:
    """A duel with the simple regret of the incumbent after it.

    Attributes:
        duel: The duel and its answer.
        regret: Simple regret of ``duel.incumbent``.
    """

    duel: Duel
    regret: float


def settings_line(settings: RunSettings) -> str:
    """The first line of a log."""
    return json.dumps({"record": "settings", **asdict(settings)})


def duel_line(logged: LoggedDuel) -> str:
    """The line of a duel; floats are written so that they read back exactly."""
    of_proposal, of_duel = vars(logged.duel.proposal), vars(logged.duel)
    fields = {"record": "duel", **of_proposal, **of_duel, "regret": logged.regret}
    del fields["proposal"]
    return json.dumps(fields, default=Tensor.tolist)


def read_log(path: Path) -> tuple[RunSettings, list[LoggedDuel]]:
    """Reads a log back.

    Args:
        path: The JSON lines of one run.

    Raises:
        BotorchPrefError: A line is not of such a log; the message names it.
        OSError: The file cannot be read.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines:
        raise BotorchPrefError(f"{path} is empty: give the run.jsonl of a run")
    settings = _read(lines[0], "settings", f"{path}, line 1", RunSettings)
    duels = [
        _read(line, "duel", f"{path}, line {number}", _logged_duel)
        for number, line in enumerate(lines[1:], start=2)
    ]
    if not duels:
        raise BotorchPrefError(f"{path} holds no duels: give the run.jsonl of a run")
    return settings, duels


def _read(line: str, record: str, where: str, make: Callable[..., T]) -> T:
    """The object of a line of JSON, made of its fields."""
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise BotorchPrefError(f"{where}: not JSON ({error})") from None
    if not isinstance(fields, dict) or fields.pop("record", None) != record:
        raise BotorchPrefError(f"{where}: expected a record of {record!r}")
    try:
        return make(**fields)
    except (TypeError, ValueError) as error:
        raise BotorchPrefError(f"{where}: not a record of this kind: {error}") from None


def _logged_duel(
    challenger: list[float],
    opponent: list[float],
    source: str,
    incumbent: list[float],
    probability: float,
    regret: float,
    **rest: Any,
) -> LoggedDuel:
    first, second, best = (
        torch.tensor(inputs, dtype=torch.double)
        for inputs in (challenger, opponent, incumbent)
    )
    proposal, chance = Proposal(first, second, source), float(probability)
    duel = Duel(proposal=proposal, probability=chance, incumbent=best, **rest)
    return LoggedDuel(duel, float(regret))


def largest_difference(
    first: Iterable[LoggedDuel], second: Iterable[LoggedDuel]
) -> float:
    """Largest difference between two runs in probability, incumbent or regret.

    Args:
        first: Duels of one run.
        second: Duels of the other; as many.

    Returns:
        The largest absolute difference, in the units of each figure.
    """
    return max(
        max(
            abs(one.duel.probability - other.duel.probability),
            float((one.duel.incumbent - other.duel.incumbent).abs().max()),
            abs(one.regret - other.regret),
        )
        for one, other in zip(first, second, strict=True)
    )
