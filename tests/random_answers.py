"""Parts of random answers about n points."""

import dataclasses

import torch
from torch import Generator, Tensor

from botorch_pref.feedback import Feedback


def subsets(generator: Generator, count: int, size: int, n: int) -> Tensor:
    return torch.rand(count, n, generator=generator).topk(size).indices


def uniform(generator: Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


def padded(generator: Generator, n: int) -> Tensor:
    sets = subsets(generator, 4, 3, n)
    sets[:, 2] = torch.where(uniform(generator, 4) < 0.5, -1, sets[:, 2])
    return sets


def stops_between_ends(generator: Generator, n: int) -> Tensor:
    """Datapoints of stops on lines, and of both ends."""
    points = torch.full((5, 7), -1)
    points[:, [0, 5, 6]] = subsets(generator, 5, 3, n)
    return points


def integers(generator: Generator, high: int, count: int = 5) -> Tensor:
    return torch.randint(high, (count,), generator=generator)


def counted(generator: Generator, answers: Feedback, largest: int = 1000) -> Feedback:
    """Counts answers, each given many times, where their kind has counts."""
    counts = {}
    for name, fields in type(answers).counted.items():
        rows = getattr(answers, fields[0])
        if rows is not None:
            log = uniform(generator, len(rows)) * torch.tensor(float(largest)).log()
            counts[str(name)] = log.exp().round().long()
    return dataclasses.replace(answers, **counts)


def repeated(generator: Generator, answers: Feedback, largest: int = 20) -> Feedback:
    """Repeats answers, each some times one after the other, one by one."""
    times = [
        1 + torch.randint(largest, (len(counts),), generator=generator)
        for counts in (
            answers.answer_counts.split(
                [len(getattr(answers, f[0])) for f in answers.tables.values()]
            )
        )
    ]
    return answers.take(*(torch.arange(len(t)).repeat_interleave(t) for t in times))
