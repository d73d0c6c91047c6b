from dataclasses import replace
from pathlib import Path

import pytest
import torch

from botorch_pref.errors import BotorchPrefError
from botorch_pref.simulation import Duel, Proposal
from botorch_pref.simulation.run_log import (
    LoggedDuel,
    RunSettings,
    duel_line,
    largest_difference,
    read_log,
    settings_line,
)

SETTINGS = RunSettings("branin", "ep", "ucb", 2, 1, 0.25, 7)


def logged(number: int) -> LoggedDuel:
    generator = torch.Generator().manual_seed(number)
    points = torch.rand(3, 2, generator=generator, dtype=torch.double)
    proposal = Proposal(points[0], points[1], "ucb" if number else "random")
    return LoggedDuel(Duel(number, proposal, 0.1 + 0.2, number == 1, points[2]), 1 / 3)


def write(folder: Path, *lines: str) -> Path:
    path = folder / "run.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_log_reads_back_exactly(tmp_path: Path) -> None:
    duels = [logged(0), logged(1)]
    path = write(tmp_path, settings_line(SETTINGS), *map(duel_line, duels))
    settings, read = read_log(path)
    assert settings == SETTINGS
    assert largest_difference(duels, read) == 0
    for before, after in zip(duels, read, strict=True):
        assert after.duel.challenger_won is before.duel.challenger_won
        assert after.duel.number == before.duel.number
        assert after.duel.proposal.source == before.duel.proposal.source
        assert torch.equal(
            after.duel.proposal.challenger, before.duel.proposal.challenger
        )
        assert torch.equal(after.duel.proposal.opponent, before.duel.proposal.opponent)


@pytest.mark.parametrize("field", ["probability", "incumbent", "regret"])
def test_the_largest_difference_sees_every_figure(field: str) -> None:
    first = logged(0)
    if field == "regret":
        second = replace(first, regret=first.regret - 0.25)
    else:
        value = getattr(first.duel, field) + 0.25
        second = replace(first, duel=replace(first.duel, **{field: value}))
    assert largest_difference([logged(1), first], [logged(1), second]) == pytest.approx(
        0.25
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([""], "line 1: not JSON"),
        (["[1]"], "line 1: expected a record of 'settings'"),
        (
            ['{"record": "settings"}'],
            "line 1: not a record of this kind: .*acquisition",
        ),
        ([settings_line(SETTINGS)], "holds no duels"),
        ([settings_line(SETTINGS), settings_line(SETTINGS)], "line 2: expected a rec"),
        ([settings_line(SETTINGS), duel_line(logged(0))[:-5]], "line 2: not JSON"),
        (
            [settings_line(SETTINGS), duel_line(logged(0)).replace("0.30", '"x" ', 1)],
            "line 2",
        ),
    ],
)
def test_a_broken_log_is_named(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(BotorchPrefError, match=message):
        read_log(write(tmp_path, *lines))
