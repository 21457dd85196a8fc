"""Damped Gauss-Newton: steps of linearised problems, shortened until the cost goes down.

Levenberg's and Marquardt's damping, which grows after a step that raises the cost and shrinks
after one that lowers it as predicted. The cost is a chi-square, so that a predicted decrease far
below one says that the estimate would move by a small fraction of its own standard deviation: it
has converged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from bodysense.spatial.arrays import Array

CONVERGED = 1e-4
"""Decrease of chi-square at which to stop: moves of a hundredth of a standard deviation."""

_ROUNDING = 1e-11  # relative decrease that rounding hides
_FIRST, _LEAST, _LARGEST = 1e-4, 1e-12, 1e12  # damping
_TRIES = 30  # dampings of one step
_STRANGE = 6.0  # standard deviations


def strange(cost: float, m: int) -> bool:
    """Whether a chi-square is too large for m readings to be an accident."""
    return not cost <= m + _STRANGE * np.sqrt(2.0 * m + 1.0)


class Step(NamedTuple):
    """A step, and by how much it should lower the cost."""

    delta: Array
    decrease: float


class Linear(Protocol):
    """A problem, linearised at some point."""

    @property
    def cost(self) -> float:
        """Chi-square at that point."""

    def step(self, damping: float) -> Step:
        """The minimum of the linear problem; damping zero for the undamped one."""


L = TypeVar("L", bound=Linear)


@dataclass(frozen=True)
class Ending:
    """How the iterations ended.

    Attributes:
        converged: whether nothing would be gained by more of them.
        iterations: steps taken.
        message: what happened, and what to do about it.
    """

    converged: bool
    iterations: int
    message: str


@dataclass(frozen=True, eq=False)
class Descent(Generic[L]):
    """The best point, the problem linearised there, and how it was found."""

    point: Array
    linear: L
    ending: Ending


def descend(start: Array, linearise: Callable[[Array], L], iterations: int) -> Descent[L]:
    """Lower the cost from a start.

    Args:
        start: where to begin.
        linearise: the problem at a point.
        iterations: most steps.
    """
    point, linear, damping = start, linearise(start), _FIRST
    if not np.isfinite(linear.cost):
        message = "numbers overflow at the start: look for absurd readings or covariances."
        return Descent(point, linear, Ending(False, 0, message))
    for k in range(iterations):
        whole = linear.step(0.0)
        if not whole.decrease > CONVERGED + _ROUNDING * linear.cost:
            return Descent(point, linear, Ending(True, k, "converged"))
        found, damping = _lower(point, linear, linearise, damping)
        if found is None:
            return Descent(point, linear, _stuck(k, whole.decrease, linear.cost))
        point, linear = found
    message = (
        f"not converged after {iterations} iterations: allow more of them, start closer, or look "
        "whether a sensor contradicts the others."
    )
    if not linear.step(0.0).decrease > CONVERGED + _ROUNDING * linear.cost:
        return Descent(point, linear, Ending(True, iterations, "converged"))
    return Descent(point, linear, Ending(False, iterations, message))


def _lower(
    point: Array, linear: L, linearise: Callable[[Array], L], damping: float
) -> tuple[tuple[Array, L] | None, float]:
    """A point with a lower cost, and the damping to go on with."""
    for _ in range(_TRIES):
        step = linear.step(damping)
        if np.isfinite(step.delta).all() and step.decrease > 0.0:
            candidate = linearise(point + step.delta)
            gain = (linear.cost - candidate.cost) / step.decrease
            if np.isfinite(gain) and gain > 1e-4:
                shrink = 0.1 if gain > 0.5 else 1.0
                return (point + step.delta, candidate), max(_LEAST, damping * shrink)
        if damping >= _LARGEST:
            break
        damping *= 10.0
    return None, damping


def _stuck(k: int, decrease: float, cost: float) -> Ending:
    """No step lowers the cost: rounding, if little was to be gained."""
    if decrease < 1e-2 + 1e-6 * cost:
        return Ending(True, k, "converged as far as rounding lets it")
    return Ending(
        False,
        k,
        "no step lowers the cost further, though the linear problem promises it: readings or "
        "beliefs without any variance may contradict each other; give them small variances.",
    )
