"""The protocol of likelihoods: their parameters, links of duels, and their list."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
from inspect import isabstract
from types import NoneType
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from gpytorch import Module
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import Likelihood
from gpytorch.priors import Prior
from torch import Tensor
from torch.distributions import Distribution

from botorch_pref.class_table import Entry, check_class, register, registered
from botorch_pref.errors import FeedbackError, UnsupportedFeedbackError
from botorch_pref.feedback import Choices, Comparisons, Feedback, Rankings, Validity
from botorch_pref.likelihoods.answer_density import answer_density
from botorch_pref.likelihoods.factors import Factors
from botorch_pref.linalg.covariance import joint_shape
from botorch_pref.numerics import argument_checks
from botorch_pref.numerics.bend_quadrature import bend_nodes, bend_width, half_rise
from botorch_pref.numerics.mixtures import standard_deviation

# An optimiser may try raw parameters at which a softplus is zero, where no likelihood
# is defined.
SMALLEST = torch.finfo(torch.float32).tiny

IN_LOGS: Any = {"transform": torch.exp, "inv_transform": torch.log}


def _exp(spread: float, raw: Tensor) -> Tensor:
    return torch.exp(spread * raw)


def _log(spread: float, value: Tensor) -> Tensor:
    return torch.log(value) / spread


def in_spreads(spread: float) -> dict[str, Any]:
    """Returns keywords of a constraint of positive parameters, for fits in logarithms.

    The raw value is the logarithm in units of the prior's ``spread``. Priors then have
    equal curvatures where a fit starts: it takes a fifth less work.
    """
    return {"transform": partial(_exp, spread), "inv_transform": partial(_log, spread)}


class PositiveParameter:
    """The natural value of a constrained ``raw_`` parameter, read and written.

    A class attribute, whose parameter :func:`register_positive` makes::

        class MyLikelihood(PreferenceLikelihood[Comparisons]):
            noise = PositiveParameter()

            def __init__(self, noise=1.0, *, noise_prior=None):
                super().__init__()
                register_positive(self, "noise", noise, noise_prior, learned=True)
    """

    def __set_name__(self, owner: type, name: str) -> None:
        """Remembers the name."""
        self._name, self._raw = name, f"raw_{name}"

    def __get__(self, instance: Module | None, owner: type) -> Tensor:
        """Returns the constrained value."""
        if instance is None:
            return self  # type: ignore[return-value]
        constraint = getattr(instance, f"{self._raw}_constraint")
        return constraint.transform(getattr(instance, self._raw))

    def __set__(self, instance: Module, value: float | Tensor) -> None:
        """Sets the parameter from its natural value."""
        set_positive(instance, self._name, value)


def register_positive(
    module: Module,
    name: str,
    value: float | Tensor,
    prior: Prior | None = None,
    *,
    learned: bool | None = None,
) -> None:
    """Registers a positive parameter, with an optional prior on its natural value.

    Args:
        module: Has a :class:`PositiveParameter` or a property of that name.
        name: Of the parameter; the raw one is ``raw_{name}``.
        value: Its initial value, a number or ``batch_shape``.
        prior: On the natural value; None for none.
        learned: Whether the raw parameter requires a gradient; by default where it has
            a prior.

    Raises:
        FeedbackError: The value is not positive and finite.
    """
    # A Python number keeps its digits until the model has a dtype.
    dtype = value.dtype if isinstance(value, Tensor) else torch.float64
    tensor = argument_checks.number_tensor(name, value, dtype)
    argument_checks.check_kind(f"{name}_prior", prior, Prior, NoneType)
    raw = f"raw_{name}"
    module.register_parameter(raw, torch.nn.Parameter(torch.zeros_like(tensor)))
    module.register_constraint(raw, GreaterThan(SMALLEST))
    # After the constraint, from which the raw value follows.
    set_positive(module, name, tensor)
    learned = prior is not None if learned is None else learned
    getattr(module, raw).requires_grad_(learned)
    if prior is not None:
        register_prior(module, name, prior)


def register_prior(module: Module, name: str, prior: Prior) -> None:
    """Registers a prior ``x_prior`` of ``x`` or ``raw_x``, so that modules pickle."""
    get, set_ = partial(_get_value, name=name), partial(_set_value, name=name)
    module.register_prior(f"{name.removeprefix('raw_')}_prior", prior, get, set_)


def _get_value(module: Module, *, name: str) -> Tensor:
    return getattr(module, name)


def _set_value(module: Module, value: Tensor, *, name: str) -> None:
    module.initialize(**{name: value})


def set_positive(module: Module, name: str, value: float | Tensor) -> None:
    """Sets a positive parameter ``name`` of a module, and refuses other values."""
    raw = getattr(module, f"raw_{name}")
    tensor = argument_checks.number_tensor(name, value, raw.dtype, raw.device)
    constraint = getattr(module, f"raw_{name}_constraint")
    if not bool((tensor.isfinite() & (tensor > constraint.lower_bound)).all()):
        raise FeedbackError(
            f"{type(module).__name__}: {name} must be positive and finite, got {value}."
        )
    try:
        tensor = tensor.expand_as(raw)
    except RuntimeError as error:
        raise FeedbackError(
            f"{type(module).__name__}: {name} has shape {tuple(tensor.shape)}, and "
            f"there are parameters of shape {tuple(raw.shape)}; give one number, or "
            "that shape."
        ) from error
    inverse = constraint.inverse_transform(tensor)
    module.initialize(**{f"raw_{name}": inverse})


class DuelLink(ABC):
    r"""Probability :math:`g(u)` that the first item wins, given a difference ``u``.

    All methods take the mean :math:`\mu` of the difference and its nonnegative variance
    :math:`\tau^2`, which broadcast, :math:`u \sim N(\mu, \tau^2)`, and return a tensor
    of the broadcast shape. They hold for every :math:`\tau`; Gauss-Hermite quadrature
    fails where it is large beside the width of the link.
    """

    @abstractmethod
    def log_win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Computes the log of the win probability, :math:`\log E[g(u)]`, at most 0.

        The link is symmetric: a loss has the log probability at ``-mean``.
        """

    @abstractmethod
    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Computes the expected entropy of the answer once the utilities are known.

        :math:`E[h(g(u))]` in nats with :math:`h(p) = -p \log p - (1 - p) \log (1 - p)`,
        in [0, log 2] up to the link's stated error.
        """

    @abstractmethod
    def win_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Computes the slope of the win probability, :math:`E[g'(u)]`.

        It is the derivative in the mean, and says how far an answer that is still to
        come will move utilities. Inference does not need it.
        """

    @abstractmethod
    def win_variance(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes the win probability's variance, :math:`Var[g(u)]`, in [0, 1/4]."""

    def win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes the win probability, :math:`E[g(u)]`."""
        return self.log_win_probability(mean, variance).exp()


class QuadratureLink(DuelLink):
    """A link :math:`g(u)` that is known by its values.

    Expectations are sums over the nodes of
    :mod:`~botorch_pref.numerics.bend_quadrature`. For a link that rises once, around 0,
    and is analytic within its own width of the real line (probit, logit, noise of
    Student's t, with or without lapses) they are right within 1e-9; the logarithm of
    the win probability is, as far as the mean is within 116 deviations of 0. Parameters
    of ``win`` are broadcast against the batch.
    """

    def __init__(self, win: Callable[[Tensor], Tensor]) -> None:
        self._win = win

    def log_win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes the log win probability by quadrature, right within 1e-9."""
        u, weights = self._nodes(mean, variance)
        # Normalised, so that no rounding makes a probability larger than one.
        logs = self._positive(u).log() + weights.log_softmax(0)
        return logs.logsumexp(0).clamp_max(0.0)

    def expected_entropy(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes an answer's expected entropy by quadrature, within 1e-9 nats."""
        u, weights = self._nodes(mean, variance)
        win, loss = self._positive(u), self._positive(-u)
        entropy = -(win * win.log() + loss * loss.log())
        return (weights.softmax(0) * entropy).sum(0)

    def win_slope(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes the slope, see base class, by the link's automatic derivative.

        The result has a graph where the mean, the variance or parameters of the link
        want gradients.
        """
        is_wanted = variance.requires_grad or self._win(mean).requires_grad
        keep = torch.is_grad_enabled() and is_wanted
        with torch.inference_mode(False), torch.enable_grad():
            # What was made in inference mode has no derivatives.
            if mean.is_inference() or variance.is_inference():
                mean, variance = mean.clone(), variance.clone()
            u, weights = self._nodes(mean, variance)
            u = u if u.requires_grad else u.requires_grad_()
            (slope,) = torch.autograd.grad(self._win(u).sum(), u, create_graph=keep)
        return (weights.softmax(0) * slope).sum(0)

    def win_variance(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes the variance of the link, right where it is small, too."""
        u, weights = self._nodes(mean, variance)
        # Squares of probabilities themselves would cancel where these hardly differ.
        change, weights = self._win(u) - self._win(mean), weights.softmax(0)
        square = (weights * change.square()).sum(0)
        return (square - (weights * change).sum(0).square()).clamp_min(0.0)

    def _positive(self, u: Tensor) -> Tensor:
        return self._win(u).clamp_min(torch.finfo(u.dtype).tiny)

    def _nodes(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Places nodes that move with mean and deviation, with constant log weights."""
        mean, variance = torch.broadcast_tensors(mean, variance)
        width = self._width(mean)
        shape = torch.broadcast_shapes(mean.shape, width.shape)
        mean, variance, width = (v.expand(shape) for v in (mean, variance, width))
        nodes, weights = bend_nodes(
            mean.detach(), variance.detach(), torch.zeros_like(width), width
        )
        return mean + standard_deviation(variance) * nodes, weights

    def _width(self, mean: Tensor) -> Tensor:
        """Finds where the link has done half of its rise from 0, within a factor of 2.

        Around 0 the nodes are as dense as this width needs.
        """
        zero = mean.new_zeros((1,) * mean.dim())

        def changed(u: Tensor) -> Tensor:
            """Tells at which of some ascending values the link has done so."""
            start, end = self._win(zero), self._win(u[-1])
            return self._win(u) - start >= 0.5 * (end - start)

        return bend_width(changed, zero, zero)


FeedbackT = TypeVar("FeedbackT", bound=Feedback)

# Where a standard normal variable is above with probability a quarter.
_UPPER_QUARTILE = 0.6744897501960817


class PreferenceLikelihood(Likelihood, Generic[FeedbackT]):
    """A likelihood of answers given utilities.

    A likelihood of one's own names what it explains and gives :meth:`forward`;
    everything else follows from that by quadrature. Those of this package override what
    they know in closed form. For example, noise of Cauchy's distribution in duels::

        class PairwiseCauchyLikelihood(PreferenceLikelihood[Comparisons]):
            explains = {Comparisons: DensityFactors}

            def forward(self, function_samples):
                return Bernoulli(probs=0.5 + function_samples.atan() / math.pi)

    Parameters of ``batch_shape`` are broadcast against the last dimensions of the
    arguments of all methods but :meth:`factors`. Methods raise an
    `UnsupportedFeedbackError` where the likelihood explains no answers that they are
    about: duels, choices, valid trials or sets.

    Attributes:
        explains: The containers whose answers it explains, the one it is named for
            first, each with the factors it makes of them.

    Raises:
        UnsupportedFeedbackError: The class does not say which answers it explains.
    """

    explains: ClassVar[Mapping[type[Feedback], type[Factors]]]
    _like: Tensor

    def __init__(self) -> None:
        """Refuses a class that does not say which answers it explains."""
        super().__init__()
        explains = getattr(self, "explains", None)
        if not (isinstance(explains, Mapping) and explains):
            raise UnsupportedFeedbackError(
                f"{type(self).__name__}.explains is {explains!r}; name the kinds of "
                "answers, each with its factors: explains = "
                "{Comparisons: DensityFactors}."
            )
        # Has the dtype and the device, also of a likelihood without parameters.
        self.register_buffer("_like", torch.zeros(()), persistent=False)

    @classmethod
    def default_for(
        cls, feedback: Feedback | None, kinds: Collection[type[Feedback]] = ()
    ) -> Self:
        """Makes the likelihood of a model whose user named none.

        Args:
            feedback: The answers to explain; None where they are still to come.
            kinds: Of all answers of the model.
        """
        return cls()

    @property
    def batch_shape(self) -> torch.Size:
        """Batch shape of the positive parameters; other parameters begin with it.

        A class without positive parameters overrides it where it has batches.
        """
        parameters = self.named_parameters_and_constraints()
        return joint_shape(
            *(raw.shape for _, raw, bound in parameters if bound is not None)
        )

    @abstractmethod
    def forward(self, function_samples: Tensor) -> Distribution:
        """Returns the distribution of the answers given their utilities.

        Args:
            function_samples: ``z``, any shape: the difference of two utilities for
                duels and strengths, one utility for absolute answers; for choices the
                utilities of a set, ``... x k``.

        Returns:
            Of duels a ``Bernoulli`` whose 1 is a win of the first item, of validity one
            whose 1 is a valid trial (given by ``logits``, both tails keep their digits;
            by ``probs``, that of a 1); of levels and choices a ``Categorical``; else
            the distribution of the number that is answered.
        """

    def factors(self, feedback: FeedbackT, num_points: int) -> Factors:
        """Makes the rows and factors of a block of answers.

        By default they are :class:`DensityFactors` with the density of :meth:`forward`,
        for answers that see one number each.

        Args:
            feedback: Answers, of a type in :attr:`explains`.
            num_points: ``n``, the number of datapoints.
        """
        return answer_density(feedback, num_points, self.forward, self._like)

    def _of_options(self, points: Tensor) -> PreferenceLikelihood[FeedbackT]:
        """Returns the likelihood of options that show the datapoints at places."""
        return self

    @property
    def link(self) -> DuelLink:
        """The link of duels, between items one of which wins.

        By default of :meth:`forward` by quadrature: ties left out, or the choice out of
        a set of two.
        """
        if Comparisons in self.explains:
            return QuadratureLink(self._decided)
        if self._explains_sets:
            return QuadratureLink(self._chosen_of_two)
        raise self._says_nothing("a duel", "Comparisons")

    @property
    def observation_variance(self) -> Tensor:
        """The variance of the noise with which one item is heard, ``batch_shape``.

        By default that of the Gaussian noise under which differences of utilities (of
        valid trials: utilities) have the same quartiles, which exists for heavy tails
        and lapses too.
        """
        if Validity in self.explains:
            return (half_rise(self._win, self._like) / _UPPER_QUARTILE).square()
        link = self.link
        quartile = half_rise(
            lambda u: link.win_probability(u, torch.zeros_like(u)), self._like
        )
        return 0.5 * (quartile / _UPPER_QUARTILE).square()

    @property
    def noticeable_difference(self) -> Tensor:
        r"""The difference of two utilities that is just noticeable, ``batch_shape``.

        There the probability of a win is halfway between that of two equal items and
        that of one far better: 3/4 without ties and lapses, where it is :math:`0.954
        \sigma` for a probit with the noise :math:`\sigma^2`; under a tie threshold far
        above the noise, the threshold.
        """

        def win(u: Tensor) -> Tensor:
            return self.win_probability(u, torch.zeros_like(u))

        return half_rise(win, win(torch.zeros_like(self._like)))

    def win_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes the probability that the first item wins, ties being no wins.

        Args:
            mean: Of the difference of utilities, any shape.
            variance: Of the difference, nonnegative, broadcastable with ``mean``.
        """
        if Comparisons in self.explains:
            return QuadratureLink(self._win).win_probability(mean, variance)
        return self.link.win_probability(mean, variance)

    def tie_probability(self, mean: Tensor, variance: Tensor) -> Tensor:
        """Computes the probability of a tie; arguments are as in `win_probability`."""
        wins = self.win_probability(mean, variance)
        return (1 - wins - self.win_probability(-mean, variance)).clamp_min(0.0)

    def log_choice_probability(self, utilities: Tensor) -> Tensor:
        """Computes log probabilities that each item of a set is chosen as its best.

        Args:
            utilities: ``... x k``.

        Returns:
            ``... x k``.
        """
        if not self._explains_sets:
            raise self._says_nothing("a choice", "Choices")
        return self.forward(utilities).logits.log_softmax(-1)  # type: ignore[attr-defined]

    def log_order_probability(self, utilities: Tensor) -> Tensor:
        """Computes the log probability that a set is ranked in its order, best first.

        By default that of choosing the first, then the second out of the rest, and so
        on. ``utilities`` are ``... x k``, and the result is ``...``.
        """
        if not self._explains_sets:
            raise self._says_nothing("a ranking", "Rankings")
        stages = range(utilities.shape[-1] - 1)
        log_probabilities = [
            self.log_choice_probability(utilities[..., i:])[..., 0] for i in stages
        ]
        return torch.stack(log_probabilities).sum(0)

    @property
    def _explains_sets(self) -> bool:
        return Choices in self.explains or Rankings in self.explains

    def _win(self, difference: Tensor) -> Tensor:
        """Computes the probability of a win given the difference."""
        return self.forward(difference).mean

    def _decided(self, difference: Tensor) -> Tensor:
        """Computes the probability of a win given the difference and no tie."""
        win, loss = self._win(difference), self._win(-difference)
        return win / (win + loss)

    def _chosen_of_two(self, difference: Tensor) -> Tensor:
        pair = torch.stack([difference, torch.zeros_like(difference)], dim=-1)
        return self.log_choice_probability(pair)[..., 0].exp()

    def _says_nothing(self, event: str, kind: str) -> UnsupportedFeedbackError:
        return UnsupportedFeedbackError(
            f"The probability of {event} under {type(self).__name__} is not known; "
            f"use a likelihood that explains {kind}, or override the method."
        )


LikelihoodT = TypeVar("LikelihoodT", bound=type[PreferenceLikelihood[Any]])


class GaussianNoise(PreferenceLikelihood[FeedbackT]):
    """Items are heard with Gaussian noise of a variance that may be learned."""

    noise = PositiveParameter()

    @property
    def observation_variance(self) -> Tensor:
        """The noise of one item."""
        return self.noise


def register_likelihood(likelihood: LikelihoodT) -> LikelihoodT:
    """Registers a likelihood by its name; a decorator of its class.

    Error messages then name it where its kind of answer needs a likelihood, and an
    experiment can be told it by name. A likelihood that is only given to models,
    ``likelihood=MyLikelihood()``, need not be registered.

    Args:
        likelihood: A concrete class whose ``explains`` names its kinds of answers.

    Returns:
        The class itself.

    Raises:
        TypeError: It is not a class of likelihoods.
        UnsupportedFeedbackError: It is abstract, or explains no kind of answer.
        ValueError: Another class has its name.
    """
    base = PreferenceLikelihood
    check_class("register_likelihood", likelihood, base, base.__name__)
    if isabstract(likelihood) or not getattr(likelihood, "explains", None):
        raise UnsupportedFeedbackError(
            f"{likelihood.__name__} cannot be registered: a likelihood has a forward() "
            "and names its kinds of answers, explains = {Comparisons: DensityFactors}."
        )
    register(Entry(likelihood, None), base)
    return likelihood


def registered_likelihoods() -> dict[str, type[PreferenceLikelihood[Any]]]:
    """Lists every registered likelihood by name, in alphabetical order."""
    return {e.cls.__name__: e.cls for e in registered(PreferenceLikelihood)}


def likelihoods_of(kind: type[Feedback]) -> list[type[PreferenceLikelihood[Any]]]:
    """Lists the registered likelihoods that explain a kind of answer, by name."""
    return [cls for cls in registered_likelihoods().values() if kind in cls.explains]


def binary_entropy(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Computes the entropy in nats of logs of :math:`p` and :math:`q = 1 - p`."""
    return -(log_p.exp() * log_p + log_q.exp() * log_q)


def win_and_information(
    link: DuelLink, means: Tensor, variance: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Computes the log probability of a win, and the answer's information.

    .. math:: IG = h\big(E[g(u)]\big) - E[h(g(u))],

    in nats: the entropy of the answer less the part that is the judge's noise (Houlsby
    et al. 2011, eq. 2), in [0, log 2] up to the link's stated error. The ``means``,
    ``num_components x batch_shape``, are those of components of equal weight with one
    variance, ``batch_shape``.
    """
    # Logs of both tails, so that a probability near 1 keeps the digits of the other.
    log_win = log_mean(link.log_win_probability(means, variance))
    log_loss = log_mean(link.log_win_probability(-means, variance))
    remaining = link.expected_entropy(means, variance).mean(0)
    return log_win, binary_entropy(log_win, log_loss) - remaining


def log_mean(log_values: Tensor) -> Tensor:
    """Averages over the first dimension, of logarithms, and returns the logarithm."""
    if log_values.shape[0] == 1:
        return log_values[0]
    return log_values.logsumexp(0) - math.log(log_values.shape[0])


def answer_correlation(link: DuelLink, means: Tensor, variance: Tensor) -> Tensor:
    r"""Computes the correlation of a win with the difference of utilities, in [0, 1].

    With the answer :math:`y`, 1 for a win and 0 for a loss, and :math:`G = E[y] =
    E[g(u)]`, Stein's identity gives for a mixture of :math:`S` Gaussians
    :math:`N(\mu_s, \tau^2)` with the mean :math:`\mu`

    .. math:: \rho = \frac{\operatorname{cov}(u, y)}
        {\sqrt{\operatorname{var}(u) \, G (1 - G)}}, \qquad
        \operatorname{cov}(u, y) = \frac1S \sum_s \Big( (\mu_s - \mu) E_s[g(u)]
        + \tau^2 E_s[g'(u)] \Big).

    A mean given :math:`y` is linear in it, so that :math:`\rho^2` is the share of the
    variance of :math:`u` that the answer is expected to take away: at most :math:`2 /
    \pi` under a Gaussian, and 0 for an answer that is known. Arguments are those of
    :func:`win_and_information`, with positive variances.
    """
    log_wins = link.log_win_probability(means, variance)
    log_losses = link.log_win_probability(-means, variance)
    deviation = means - means.mean(0)
    total = variance + deviation.square().mean(0)
    slope = link.win_slope(means, variance).mean(0)
    covariance = (deviation * log_wins.exp()).mean(0) + variance * slope
    # In logarithms, so that a certain answer has a deviation with a derivative.
    deviations = (0.5 * (log_mean(log_wins) + log_mean(log_losses))).exp()
    tiny = torch.finfo(deviations.dtype).tiny
    return covariance / (deviations * total.sqrt()).clamp_min(tiny)
