"""How plausible the options of the thirteenth question are: P(best) of each, and truth.

    python -m benchmarks.absurd_options [--starts 6] [--answers 12] [--order]

A simulated person names the best of four options (or orders them), without errors, on a
utility of two
parameters as in the README. The next question's four options are judged by the model
(the chance that each is the best of the four) and by the truth (how far each is up the
range of the utility, 0 at the worst design and 1 at the best). An option is absurd
where its chance is below 1 % and the truth below one half.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor

from botorch_pref import Choices, Rankings, default_model, next_question

BOUNDS = torch.tensor([[14.0, 3.0], [22.0, 9.0]], dtype=torch.double)
DRAWS = 4096


def utility(X: Tensor, best: Tensor) -> Tensor:
    """A hill over both parameters, a third as steep in the second one."""
    steps = (X - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0]) - best
    return -(steps * torch.tensor([3.0, 1.0])).square().sum(-1)


def main() -> None:
    """Prints a row for each start, and the share of absurd options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=6)
    parser.add_argument("--answers", type=int, default=12)
    parser.add_argument("--order", action="store_true")
    arguments = parser.parse_args()
    print("start  P(best) of the four options      up the range             seconds")
    absurd, total = 0, 0
    for start in range(arguments.starts):
        begin = time.process_time()
        chances, heights = judged(start, arguments.answers, arguments.order)
        absurd += int(((chances < 0.01) & (heights < 0.5)).sum())
        total += len(chances)
        cells = [" ".join(f"{v:5.2f}" for v in row) for row in (chances, heights)]
        print(f"{start:5d}  {'    '.join(cells)}  {time.process_time() - begin:7.1f}")
    print(f"absurd: {absurd} of {total} options")


def judged(start: int, answers: int, ordered: bool) -> tuple[Tensor, Tensor]:
    """The chance that each option of the next question is the best, and its height."""
    generator = torch.Generator().manual_seed(start)
    best = 0.2 + 0.6 * torch.rand(2, generator=generator, dtype=torch.double)
    corners = torch.cartesian_prod(BOUNDS[:, 0], BOUNDS[:, 1])
    worst = utility(corners, best).min()
    X = torch.empty(0, 2, dtype=torch.double)
    orders, model = torch.empty(0, 4, dtype=torch.long), None
    for _ in range(answers):
        options = next_question(model, BOUNDS, seed=start).options
        order = utility(options, best).argsort(descending=True)
        orders = torch.cat([orders, len(X) + order.unsqueeze(0)])
        X = torch.cat([X, options])
        sets = orders.sort().values
        feedback = Rankings(orders) if ordered else Choices(sets, orders[:, 0])
        model = default_model(X, feedback, bounds=BOUNDS)
    options = next_question(model, BOUNDS, seed=start).options
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(start)
        draws = model.posterior(options).rsample(torch.Size([DRAWS])).squeeze(-1)
    chances = torch.bincount(draws.argmax(-1), minlength=len(options)) / DRAWS
    return chances, 1 - utility(options, best) / worst


if __name__ == "__main__":
    main()
