"""What must not matter: orders, copies of points, empty and repeated answers."""

import torch
from entries import Engine
from models.contract.duel_models import (
    DOUBLE,
    FULL,
    NEW,
    PAIRS,
    POINTS,
    VALID,
    assert_same_posterior,
    kernel,
    mixed,
    moments,
    number,
)

from botorch_pref import (
    Comparisons,
    Validity,
)


def test_the_order_of_answers_and_points_does_not_matter(engine: Engine) -> None:
    engine.needs_boxes()
    model = mixed(engine)
    generator = torch.Generator().manual_seed(0)
    to_old = torch.randperm(7, generator=generator)
    to_new = to_old.argsort()
    rows = torch.randperm(len(PAIRS), generator=generator)
    moved = mixed(engine)
    moved.train()
    moved.set_train_data(
        POINTS[to_old],
        Comparisons(to_new[PAIRS[rows]], ties=to_new[FULL.ties].flip(0).flip(-1)),
        feedback=[Validity(to_new[VALID.indices].flip(0), VALID.valid.flip(0))],
    )
    assert_same_posterior(engine, moved.posterior(NEW), model.posterior(NEW))


def test_copies_of_points_count_as_one(engine: Engine) -> None:
    # Points 0 .. 6, then each of them again; answers are about either copy.
    points = POINTS.repeat(2, 1)
    generator = torch.Generator().manual_seed(0)
    copies = 7 * torch.randint(2, PAIRS.shape, generator=generator)
    spread = engine(points, PAIRS + copies, covar_module=kernel())
    single = engine(POINTS, PAIRS, covar_module=kernel())
    assert_same_posterior(engine, spread.posterior(NEW), single.posterior(NEW))
    torch.testing.assert_close(
        spread.train().log_evidence(), single.train().log_evidence()
    )
    batched = engine(points.expand(2, -1, -1), PAIRS + copies, covar_module=kernel())
    mean, covariance = moments(batched.posterior(NEW))
    assert_same_posterior(engine, (mean[1], covariance[1]), single.posterior(NEW))


def test_a_point_against_its_own_copy_says_nothing(engine: Engine) -> None:
    points = torch.cat([POINTS, POINTS[:1]])
    with_copy = torch.cat([PAIRS, torch.tensor([[0, 7], [7, 0], [0, 7]])])
    model = engine(points, with_copy, covar_module=kernel())
    plain = engine(POINTS, PAIRS, covar_module=kernel())
    assert_same_posterior(engine, model.posterior(NEW), plain.posterior(NEW))
    # Three answers with probability one half each.
    expected = plain.log_evidence() - 3 * torch.tensor(2.0, dtype=DOUBLE).log()
    torch.testing.assert_close(model.train().log_evidence(), expected)


def test_answers_that_contradict_each_other_cancel(engine: Engine) -> None:
    pair = torch.tensor([[0, 1]])
    x = POINTS[:2]
    both = engine(x, torch.cat([pair, pair.flip(-1)]), covar_module=kernel())
    duel = both.duel_posterior(x[:1], x[1:])
    prior = engine(covar_module=kernel()).double().duel_posterior(x[:1], x[1:])
    sd = number(duel.variance.sqrt())
    assert abs(number(duel.mean)) < (1e-6 + engine.sampling_error) * sd
    # They still say that the two are close.
    assert number(duel.variance) < 0.95 * number(prior.variance)


def test_repeated_answers_add_up(engine: Engine) -> None:
    pair, x = torch.tensor([[0, 1]]), POINTS[:2]
    means = []
    for count in (1, 4, 30):
        model = engine(x, pair.expand(count, 2), covar_module=kernel())
        assert model.diagnostics()["converged"]
        means.append(number(model.duel_posterior(x[:1], x[1:]).mean))
    assert means[0] < means[1] < means[2]
