r"""Lines of designs to ask about, and what a stop on one is expected to be worth.

A line runs through a design in the direction of another, from one edge of the space to
the other. Its categories and whatever is fixed stay as they are: a hand turns numbers.
"""

from __future__ import annotations

import torch
from botorch.models.model import Model
from botorch.utils.transforms import t_batch_mode_transform
from torch import Generator, Tensor

from botorch_pref.acquisition.design_space import DesignSpace
from botorch_pref.acquisition.duels import observed_points, takes_points
from botorch_pref.acquisition.exploring_rule import WrappedAcquisition
from botorch_pref.acquisition.rules import DuelingJointEUBO
from botorch_pref.errors import FeedbackError
from botorch_pref.feedback import LineChoices
from botorch_pref.feedback.lines import STEADINESS
from botorch_pref.models import GroupUtility

ALONG = 1e-9
"""The slope of a line against an edge below which it runs along that edge, as a share
of the largest that it could have."""


def line_ends(space: DesignSpace, start: Tensor, toward: Tensor) -> Tensor:
    r"""Finds where lines through designs meet the edges of a space.

    With the shares :math:`z` of ``start`` and the direction :math:`v` to ``toward``,
    bounds and constraints are :math:`G z \ge h`, and the line holds all
    :math:`z + s v` of

    .. math:: \max_{g_i^T v > 0} \frac{h_i - g_i^T z}{g_i^T v} \le s
        \le \min_{g_i^T v < 0} \frac{h_i - g_i^T z}{g_i^T v}.

    Args:
        space: Of numbers that vary, and not of a table.
        start: ``batch_shape x d``, designs of the space, whose listed values the lines
            have.
        toward: ``batch_shape x d``, other designs.

    Returns:
        ``batch_shape x 2 x d``. Both ends are the start where the two designs have the
        same numbers.
    """
    k = len(space.columns)
    place = space.coordinates(start)
    shares, categories = place.tensor_split([k], -1)
    direction = space.coordinates(toward)[..., :k] - shares
    identity = torch.eye(k).to(shares)
    normals = torch.cat([identity, -identity, space.limits[0]])
    edges = torch.cat([torch.zeros(k), -torch.ones(k)]).to(shares)
    edges = torch.cat(
        [edges.expand(*shares.shape[:-1], -1), space.right_sides(place)], -1
    )
    slack, slope = shares @ normals.T - edges, direction @ normals.T
    # Of an edge along the line rounding leaves a slope, where it limits nothing.
    size = direction.abs().amax(-1, keepdim=True) * normals.abs().sum(-1)
    # Of single precision rounding leaves more than `ALONG`; shares are up to 1.
    rounding = 8 * torch.finfo(slope.dtype).eps * normals.abs().sum(-1)
    is_across = slope.abs() > ALONG * size + rounding
    step = -slack / torch.where(is_across, slope, 1.0)
    is_lower, is_upper = is_across & (slope > 0), is_across & (slope < 0)
    lowest = torch.where(is_lower, step, -torch.inf).amax(-1, keepdim=True)
    highest = torch.where(is_upper, step, torch.inf).amin(-1, keepdim=True)
    moves = torch.stack([lowest, highest], dim=-2)
    moves = torch.where(moves.isfinite(), moves, 0.0)
    path = shares.unsqueeze(-2) + moves * direction.unsqueeze(-2)
    path = path.clamp(0.0, 1.0)
    categories = categories.unsqueeze(-2).expand(*path.shape[:-1], -1)
    return space.features(torch.cat([path, categories], dim=-1))


def lines_through(space: DesignSpace, centre: Tensor, smallest: Tensor) -> Tensor:
    """Lists lines through a design that move one number each, as far as there is room.

    Args:
        space: Of numbers that vary, and not of a table.
        centre: ``1 x d``, a design of the space.
        smallest: ``d``, the smallest difference that somebody could tell in each
            column. Shorter lines are left out.

    Returns:
        ``n x 2 x d``.

    Raises:
        FeedbackError: No number has room.
    """
    k = len(space.columns)
    toward = centre.repeat(k, 1)
    # To the farther end of each number.
    share = space.coordinates(centre)[0, :k]
    low, high = space.bounds
    line_numbers = torch.arange(k, device=centre.device)
    toward[line_numbers, space.columns] = torch.where(share < 0.5, high, low)
    ends = line_ends(space, centre.expand(k, -1), toward)
    # Other numbers stay to the last digit.
    lines = centre.repeat(k, 2, 1)
    lines[line_numbers, :, space.columns] = ends[line_numbers, :, space.columns]
    lines = lines[can_tell_ends(lines, smallest)]
    if not len(lines):
        raise FeedbackError(
            "No line has room: one number has to move, so far that somebody can tell, "
            "within the constraints. Ask for options."
        )
    return lines


def can_tell_ends(lines: Tensor, smallest: Tensor) -> Tensor:
    """Tells whether ends of lines, ``... x 2 x d``, differ by what somebody could tell.

    That is ``smallest``, ``d``, in some column; the result is ``...``.
    """
    first, last = lines.unbind(-2)
    return ((last - first).abs() >= smallest).any(-1)


class LineEUBO(WrappedAcquisition):
    r"""Expected improvement of the best design of a line on a reference.

    .. math:: \alpha(a, b)
        = E\big[\max\big(\max_j f(a + t_j (b - a)) - f(x_r), 0\big)\big],

    of the line from :math:`a` to :math:`b` with equidistant :math:`t_j`: what somebody
    gains who stops at the best design of the line. That is `DuelingJointEUBO` of the
    designs on the line (qEUBO of Astudillo et al. 2023).

    Args:
        model: Any BoTorch model with one output whose posterior BoTorch draws from.
        X_ref: The reference :math:`x_r`, ``1 x d``.
        num_positions: The number of :math:`t_j`.
        generator: Source of the draws, on the CPU; torch's default one if None.

    Raises:
        FeedbackError: ``X_ref`` is no such point.
    """

    def __init__(
        self,
        model: Model,
        X_ref: Tensor,
        num_positions: int = 11,
        generator: Generator | None = None,
    ) -> None:
        """Wraps the value of options, which the designs on a line are."""
        super().__init__(DuelingJointEUBO(model, X_ref, generator))
        self.num_positions = num_positions

    @takes_points
    @t_batch_mode_transform(expected_q=2)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """Computes by how much the best design of a line is expected to exceed `X_ref`.

        Args:
            X: The ends of the line, ``batch_shape x 2 x d``.

        Returns:
            ``batch_shape``.
        """
        value: Tensor = self.acquisition(points_on_lines(X, self.num_positions))
        return value


def points_on_lines(ends: Tensor, number: int) -> Tensor:
    """Spaces ``... x number x d`` designs evenly from end to end, ``... x 2 x d``."""
    positions = torch.linspace(0, 1, number).to(ends).unsqueeze(-1)
    first, second = ends.unsqueeze(-3).unbind(-2)
    return torch.lerp(first, second, positions)


def best_line(model: Model, lines: Tensor, X_ref: Tensor, recent: Tensor) -> Tensor:
    """Finds the line that `LineEUBO` values most, of those unlike the last lines.

    `LineEUBO` expects much of a line on which two designs may be the best. Where people
    err it takes many stops to tell these, and nothing else would be asked about. So a
    line that moves the same numbers as a recent one is passed over, unless all do. The
    seed of draws is taken from the global generator.

    Args:
        model: Any BoTorch model with one output whose posterior BoTorch draws from.
        lines: ``n x 2 x d``.
        X_ref: The best design so far, ``1 x d``.
        recent: Lines that were asked about last, ``m x 2 x d``.

    Returns:
        The index of the line, a number.
    """
    with torch.no_grad():
        values = LineEUBO(model, X_ref)(lines)
    return torch.where(are_turned(lines, recent), -torch.inf, values).argmax()


def are_turned(lines: Tensor, recent: Tensor) -> Tensor:
    """Tells which lines, ``n x 2 x d``, move the same numbers as a recent one, ``n``.

    Of ``recent``, ``m x 2 x d``. None does where all do: one of them is asked about.
    """
    moving, moved = (ends[:, 0] != ends[:, 1] for ends in (lines, recent))
    is_turned = (moving.unsqueeze(1) == moved).all(-1).any(-1)
    return is_turned & ~is_turned.all()


def line_of_last_stop(model: Model, X: Tensor) -> Tensor:
    """Finds the line on which the person of a model stopped last.

    `best_line` takes it, so that the next line moves other numbers.

    Args:
        model: Any BoTorch model with training inputs and without batches.
        X: ``... x d``, a design, for the size and type of an empty result.

    Returns:
        ``1 x 2 x d``; ``0 x 2 x d`` where the model has no stop.
    """
    if (last_stop := _last_stop(model)) is None:
        return X.new_zeros(0, 2, X.shape[-1])
    return last_stop[0].unsqueeze(0)


def nearby_stop(model: Model, X: Tensor, widths: Tensor) -> Tensor:
    """Returns the last stop on a line, if no hand tells it from a design.

    A model compares a stop only with what a hand can tell from it, and knows no better
    which of two designs so near is best. The person was there, and stopped. A rater's
    utility has his last stop; the mean of several has none, for nobody has stopped
    where all together are best off.

    Args:
        model: Any BoTorch model with training inputs and without batches.
        X: The design, ``1 x d``.
        widths: ``d``, the range of each column.

    Returns:
        ``1 x d``; ``0 x d`` where the model has no stop so near.
    """
    if (last_stop := _last_stop(model)) is None:
        return X[:0]
    ends, position = last_stop
    first, last = ends.unsqueeze(1)
    stop = torch.lerp(first, last, position.to(ends))
    is_near = is_at_stop(X / widths, stop / widths, ends / widths)
    return stop if is_near else X[:0]


def _last_stop(model: Model) -> tuple[Tensor, Tensor] | None:
    """Finds the last stop of the person of a model; None where there is none.

    Returns:
        The ends of the line, ``2 x d``, and the position on it, a number.
    """
    group = model if isinstance(model, GroupUtility) else None
    source = model if group is None else group.rater_model
    blocks = [b for b in getattr(source, "feedback", ()) if isinstance(b, LineChoices)]
    if not blocks or not blocks[-1].num_rows:
        return None
    # Members of an ensemble have the same answers.
    lines = blocks[-1].lines.reshape(-1, blocks[-1].num_rows, 2)[-1]
    positions = blocks[-1].chosen.reshape(-1, blocks[-1].num_rows)[-1]
    ends = observed_points(source)[lines]
    if group is not None:
        ends, raters = ends.tensor_split([-group.raters.shape[-1]], dim=-1)
        # A line is of one rater, so that a group of several has none.
        is_of_each = (raters == group.raters[:, None, None]).flatten(2).all(-1)
        is_of_all = is_of_each.all(0)
        ends, positions = ends[is_of_all], positions[is_of_all]
    return (ends[-1], positions[-1]) if len(ends) else None


def is_at_stop(X: Tensor, stop: Tensor, ends: Tensor) -> bool:
    """Tells whether a design is too near a stop on a line for a hand to part them.

    Args:
        X: ``d`` or ``1 x d``, the design, in units in which all ranges are alike.
        stop: ``d`` or ``1 x d``, in the same units.
        ends: ``2 x d``, of the line, in the same units.
    """
    first, last = ends
    return bool((stop - X).norm() < STEADINESS * (last - first).norm())
