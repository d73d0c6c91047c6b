"""Every kind of feedback through the life of a model, under every engine that takes it.

What is here holds for any answers, so that a new kind of feedback or likelihood needs
nothing but its entries in the registry.
"""

import copy
import dataclasses
import pickle

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from botorch.optim import optimize_acqf
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset
from hypothesis import given, settings
from hypothesis import strategies as st
from models.cell_answers import (
    NEW,
    NUM_DRAWS,
    assert_same_model,
    assert_same_moments,
    each_part,
    late,
    made,
    moments,
    other_answers,
    relabelled,
    reordered,
    same_answers,
    stacked,
    tensors,
    with_feedback,
)
from models.cell_models import (
    build,
    names,
    takes,
)
from random_answers import uniform
from registry import CELLS, ENGINES, RANDOM
from torch import Generator, Tensor
from truths.answers import POINTS

from botorch_pref import (
    Choices,
    Comparisons,
    DuelingEIIG,
    DuelingThompson,
    DuelingUCB,
    OrdinalRatings,
    PlackettLuceLikelihood,
    PreferenceMarginalLogLikelihood,
    Rankings,
    SkewPreferenceGP,
    UnsupportedFeedbackError,
    Validity,
    incumbent,
)
from botorch_pref.likelihoods import ProbitLink

DOUBLE = torch.float64

# --- Copies, storage, precision


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
@each_part
def test_copies_keep_answers_and_predictions(engine, cell, used) -> None:
    model = made(engine, cell, input_transform=Normalize(1))
    expected = moments(model)
    if used:
        model.log_evidence()
        model.posterior(NEW)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert same_answers(other.feedback[0], cell.feedback)
        for got, want in zip(moments(other), expected, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=1e-6)


@each_part
def test_the_state_dict_carries_every_parameter(engine, cell) -> None:
    model, other = made(engine, cell), made(engine, cell)
    generator = Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.rand(parameter.shape, generator=generator))
    stale = other.log_evidence()
    other.load_state_dict(model.state_dict())
    assert_same_model(engine, other, model)
    assert abs(float((other.log_evidence() - stale).detach())) > 1e-3


@each_part
def test_single_precision_and_back(engine, cell) -> None:
    model = made(engine, cell)
    expected, evidence = moments(model), model.log_evidence().detach()
    model.to(torch.float32)
    floats = [v for v in tensors(model.feedback[0]).values() if v.is_floating_point()]
    assert all(v.dtype == torch.float32 for v in floats)
    single = tuple(part.double() for part in moments(model, NEW.float()))
    assert model.posterior(NEW.float()).mean.dtype == torch.float32
    # The square root of single precision, which is where engines stop.
    assert_same_moments(engine, single, expected, 3e-3)
    low = model.log_evidence()
    assert low.dtype == torch.float32
    torch.testing.assert_close(low.detach().double(), evidence, rtol=1e-4, atol=1e-4)
    model.to(torch.float64)
    # What single precision has rounded stays rounded.
    assert_same_moments(engine, moments(model), expected, 1e-4)


# --- Other answers


@each_part
def test_other_answers_replace_those_there_are(engine, cell) -> None:
    model = made(engine, cell)
    before = moments(model)
    other = other_answers(cell)
    if isinstance(other.feedback, Comparisons):
        model.set_train_data(comparisons=other.feedback)
    else:
        model.set_train_data(feedback=[other.feedback])
    assert_same_model(engine, model, made(engine, other))
    assert float((moments(model)[0] - before[0]).abs().max()) > 0.02


@each_part
def test_answers_without_a_likelihood_are_refused_at_once(engine, cell) -> None:
    model = made(engine, cell)
    before = moments(model)
    kind = Validity if type(cell.feedback) is not Validity else OrdinalRatings
    other = next(c.feedback for c in CELLS if type(c.feedback) is kind)
    with pytest.raises(
        UnsupportedFeedbackError, match=f"no likelihood for {kind.__name__}"
    ):
        model.set_train_data(feedback=[other])
    assert same_answers(model.feedback[0], cell.feedback)
    assert_same_moments(engine, moments(model), before)


@each_part
def test_comparisons_join_the_answers_there_are(engine, cell) -> None:
    duels = next(
        c for c in CELLS if type(c.feedback) is Comparisons and takes(engine, c)
    )
    more = torch.tensor([[0, 2], [1, 2]])
    if type(cell.feedback) is Comparisons:
        model, likelihood = made(engine, cell), cell.likelihood
        old = cell.feedback.pairs
        joined = dataclasses.replace(
            cell.feedback, pairs=torch.cat([old, more + len(POINTS)])
        )
        cells = [with_feedback(cell, joined)]
    else:
        likelihood = duels.likelihood
        joined = Comparisons(more + len(POINTS))
        cells = [with_feedback(duels, joined), cell]
    both = {Comparisons: likelihood().double()}
    both |= {type(cell.feedback): cell.likelihood().double()}
    options = {"num_draws": NUM_DRAWS} if issubclass(engine, SkewPreferenceGP) else {}
    model = engine(POINTS, feedback=[cell.feedback], likelihood=both, **options)
    everything = build(engine, cells, torch.cat([POINTS, NEW]), **options)
    model.mean_module, model.covar_module = (
        everything.mean_module,
        everything.covar_module,
    )
    conditioned = model.eval().condition_on_observations(NEW, more)
    assert [type(b) for b in conditioned.feedback] == [type(c.feedback) for c in cells]
    assert same_answers(conditioned.feedback[-1], cells[-1].feedback)
    assert_same_model(engine, conditioned, everything)
    assert same_answers(model.feedback[0], cell.feedback)


# --- What must not matter


@each_part
def test_the_order_of_answers_does_not_matter(engine, cell) -> None:
    flipped = with_feedback(cell, reordered(cell.feedback))
    assert not same_answers(flipped.feedback, cell.feedback)
    assert_same_model(engine, made(engine, flipped), made(engine, cell))


@each_part
def test_the_order_of_points_does_not_matter(engine, cell) -> None:
    to_old = torch.tensor([2, 0, 3, 1])
    moved = with_feedback(cell, relabelled(cell.feedback, to_old.argsort()))
    assert_same_model(engine, made(engine, moved, POINTS[to_old]), made(engine, cell))


@each_part
def test_copies_of_points_count_as_one(engine, cell) -> None:
    # The second half of the answers is about the copies.
    fields = {
        name: torch.where((index >= 0) & late(index), index + len(POINTS), index)
        for name, index in tensors(cell.feedback).items()
        if name in cell.feedback.index_fields
    }
    spread = with_feedback(cell, dataclasses.replace(cell.feedback, **fields))
    assert not same_answers(spread.feedback, cell.feedback)
    double = made(engine, spread, POINTS.repeat(2, 1))
    assert_same_model(engine, double, made(engine, cell))


@each_part
def test_answers_about_a_point_and_its_copy_at_once(engine, cell) -> None:
    """Points 3 and 0 coincide: consolidated or not, the posterior is the same."""
    points = POINTS.clone()
    points[3] = points[0]
    single, batch = (
        made(engine, cell, points),
        made(engine, cell, points.expand(1, -1, -1)),
    )
    assert single._distinct is not None
    assert batch._distinct is None
    first = tuple(part[0] for part in moments(batch))
    assert_same_moments(engine, moments(single), first)
    torch.testing.assert_close(
        single.log_evidence(), batch.log_evidence()[0], rtol=1e-6, atol=1e-6
    )


@each_part
def test_batches_equal_their_elements(engine, cell) -> None:
    other = other_answers(cell)
    both = with_feedback(cell, stacked(cell.feedback, other.feedback))
    points = torch.stack([POINTS, POINTS.square() + 0.1])
    for data, parts in ((POINTS, [POINTS, POINTS]), (points, points)):
        model = made(engine, both, data)
        assert model.batch_shape == (2,)
        mean, covariance = moments(model)
        evidence = model.log_evidence()
        for i, one in enumerate((cell, other)):
            single = made(engine, one, parts[i])
            assert_same_moments(engine, (mean[i], covariance[i]), moments(single))
            torch.testing.assert_close(
                evidence[i], single.log_evidence(), rtol=1e-6, atol=1e-6
            )


@pytest.mark.parametrize(
    "cell", [c for c in CELLS if takes(SkewPreferenceGP, c)], ids=names
)
def test_exact_evidences_of_batches_are_those_of_their_elements(cell) -> None:
    other = other_answers(cell)
    both = with_feedback(cell, stacked(cell.feedback, other.feedback))
    with torch.no_grad():
        batch, *parts = (
            made(SkewPreferenceGP, c, exact_evidence=True).log_evidence()
            for c in (both, cell, other)
        )
    # Bridge sampling from 256 draws that EP's Gaussian is close to: 0.02 nats.
    torch.testing.assert_close(batch, torch.stack(parts), rtol=0, atol=0.1)


# --- Optimising


@each_part
def test_gradients_of_the_posterior_are_those_of_finite_differences(
    engine, cell
) -> None:
    model = made(engine, cell)

    def statistic(x: Tensor) -> Tensor:
        posterior = model.posterior(x)
        return posterior.mean.sum() + posterior.covariance_matrix.sin().sum()

    assert torch.autograd.gradcheck(statistic, (NEW.clone().requires_grad_(),))


@each_part
def test_acquisition_functions_improve_on_random_points(engine, cell) -> None:
    model = made(engine, cell)
    reference = incumbent(model)
    bounds = torch.tensor([[0.0], [1.0]], dtype=DOUBLE)
    duels = set(type(cell.likelihood()).explains) & {Comparisons, Choices, Rankings}
    link = None if duels else ProbitLink(0.4)
    if not duels:
        with pytest.raises(UnsupportedFeedbackError, match="give link="):
            DuelingEIIG(model, reference)
    for acquisition in (
        DuelingUCB(model, reference),
        DuelingThompson(model, reference, Generator().manual_seed(0)),
        DuelingEIIG(model, reference, link=link),
    ):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            candidate, value = optimize_acqf(
                acquisition,
                bounds,
                q=1,
                num_restarts=2,
                raw_samples=8,
                options={"maxiter": 15},
            )
        assert bool(((candidate >= 0) & (candidate <= 1)).all())
        grid = torch.linspace(0, 1, 21, dtype=DOUBLE).reshape(-1, 1, 1)
        with torch.no_grad():
            values = acquisition(grid)
        assert float(value) > float(values.mean())
        assert bool(values.isfinite().all())


@each_part
def test_a_fit_raises_the_objective(engine, cell) -> None:
    model = made(engine, cell).train()
    mll = PreferenceMarginalLogLikelihood(model.likelihood, model)

    def objective() -> float:
        model.train()
        return mll(model(*model.train_inputs), model.train_targets).item()

    before = objective()
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 10}})
    assert objective() > before
    assert all(bool(p.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.__name__)
def test_inputs_from_botorchs_data_set(engine, size) -> None:
    # Shown in the order of items, ranked from 0; then best first, written out.
    items = torch.tensor([[0, 1, 2], [3, 1, 0]])[:, :size].contiguous()
    ranks, orders = {
        2: ([[1, 0], [0, 1]], [[1, 0], [3, 1]]),
        3: ([[2, 0, 1], [0, 2, 1]], [[1, 2, 0], [3, 0, 1]]),
    }[size]
    data = RankingDataset(
        X=SliceContainer(values=POINTS, indices=items, event_shape=torch.Size([size])),
        Y=torch.tensor(ranks),
        feature_names=["x"],
        outcome_names=["preference"],
    )
    block = (Rankings if size == 3 else Comparisons)(torch.tensor(orders))
    inputs = engine.construct_inputs(data)
    default = engine.default_likelihoods[type(block)]
    if not engine.engine.accepts(default.explains[type(block)]):
        instead = engine.engine.accepts(PlackettLuceLikelihood.explains[type(block)])
        message = "PlackettLuceLikelihood" if instead else "does not take Rankings"
        with pytest.raises(UnsupportedFeedbackError, match=message):
            engine(**inputs)
        if not instead:
            return
        inputs["likelihood"] = PlackettLuceLikelihood()
    model = engine(**inputs)
    expected = engine(POINTS, feedback=[block], likelihood=inputs.get("likelihood"))
    assert same_answers(model.feedback[0], block)
    assert_same_moments(engine, moments(model), moments(expected))


# --- Random answers


@each_part
@settings(max_examples=5)
@given(seed=st.integers(0, 2**31), n=st.integers(3, 6), log_spread=st.integers(-3, 3))
def test_random_answers_leave_finite_symmetric_beliefs(
    engine, cell, seed, n, log_spread
) -> None:
    """Points may be close together, far apart and repeated; answers may contradict."""
    generator = Generator().manual_seed(seed)
    points = 10.0**log_spread * uniform(generator, n, 1)
    points[-1] = points[0]
    random = with_feedback(cell, RANDOM[type(cell.feedback)](generator, n))
    model = made(engine, random, points)
    x = torch.cat([points, 10.0**log_spread * uniform(generator, 2, 1)])
    mean, covariance = moments(model, x)
    assert bool(mean.isfinite().all() and covariance.isfinite().all())
    assert bool((covariance.diagonal() > -1e-9).all())
    assert bool(model.log_evidence().isfinite())
    win = model.duel_probability(x.unsqueeze(1), x).detach()
    assert bool(((win >= 0) & (win <= 1)).all())
    torch.testing.assert_close(win + win.mT, torch.ones_like(win))
    if "Comparisons" in model.likelihoods:
        heard = model.duel_probability(x.unsqueeze(1), x, observation_noise=True)
        # With a tie threshold some duels have no winner.
        ties = getattr(model.likelihood, "tie_threshold", None) is not None
        total = (heard + heard.mT).detach()
        assert bool((total < 1).all() if ties else torch.allclose(total, win + win.mT))
