"""From a rough belief about the state to where the exact equations can be iterated.

1. Readings that depend on the state alone move it (encoders, gyroscopes, orientations).
2. Steps of the linearised problem, each with what the linearisation leaves out as slack (see
   `second_order`), at a d that believes equations only as far as the state (see `first_guess`),
   and none further than the sine of an angle is straight.

Every step is one linearisation of the whole problem with the whole prior: the first one is the
single linearisation of paper 000.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bodysense.estimation.map_dynamics.state.gauss_newton import Ending, descend
from bodysense.estimation.map_dynamics.state.moment_problem import MomentLinear, MomentProblem
from bodysense.spatial.arrays import Array

STEPS = 5
"""Most steps before the exact equations take over."""

_OF_STATE = 3  # steps towards what readings of the state alone say
_REACH = np.pi / 4  # rad, of a joint in one step
_OTHER_WAYS = (0.3, 0.5)  # rad: other reaches, where the first way led to a dead end
_NEAR = 0.05  # rad: standard deviation of positions at which no approach is needed
_SETTLED = 0.02  # rad: a step after which none is needed


def approach(
    problem: MomentProblem, steps: int, d: Array | None = None, reach: float = _REACH
) -> Array:
    """Coordinates e of a point near the solution.

    Args:
        problem: of one moment.
        steps: most steps; one of several is left out where the state is known well.
        d: (n, 20) at which products are linearised in the first step; by default a d that knows
            how far the state is known.
        reach: [rad] of a joint in one step.
    """
    positions = slice(0, problem.linearisation.layout.n)
    if steps > 1 and is_near(problem):
        return np.zeros(problem.L.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        e, linear = _from_state_readings(problem)
        for k in range(steps):
            S = problem.factor(linear)
            if steps > 1 and _widest(S[positions]) < _NEAR:
                break
            try:
                after, linear = _step(problem, e, S, d if k == 0 else None, reach)
            except np.linalg.LinAlgError:  # readings so absurd that numbers overflow
                break
            if not (np.isfinite(after).all() and np.isfinite(linear.cost)):
                break
            moved = np.abs(problem.L[positions] @ (after - e)).max(initial=0.0)
            e = after
            if moved < _SETTLED:
                break
    return e if np.isfinite(problem.linear(e).cost) else np.zeros(problem.L.shape[1])


def is_near(problem: MomentProblem) -> bool:
    """Whether positions are known so well that no approach is needed."""
    return _widest(problem.L[: problem.linearisation.layout.n]) < _NEAR


def other_ways(problem: MomentProblem) -> Iterator[Array]:
    """Other points to start from, where the first one led to a minimum that explains little."""
    yield _from_state_readings(problem)[0]
    for reach in _OTHER_WAYS:
        yield approach(problem, STEPS, reach=reach)


def single(problem: MomentProblem, d: Array | None) -> tuple[Array, MomentLinear, Ending]:
    """One linearisation, and the problem where it leads, which knows what it left out."""
    e = approach(problem, 1, d)
    linear = problem.linear(e)
    if np.isfinite(linear.cost):
        S = problem.factor(linear)
        linear = problem.linear(e, factor=S)
    return e, linear, Ending(False, 1, "a single linearisation: iterate for more accuracy.")


def _step(
    problem: MomentProblem, e: Array, S: Array, d: Array | None, reach: float
) -> tuple[Array, MomentLinear]:
    """One linearisation at e, where the state is known as far as S says: the next e."""
    problem.linear(e)  # leaves derivatives of equations in the memory
    if d is None:
        d = problem.linearisation.solved(problem.x(e), problem.moment, factor=S).d[0]
    linear = problem.linear(e, d=d, factor=S)
    return e + _within_reach(problem, linear, reach), linear


def _widest(S: Array) -> float:
    """The largest standard deviation."""
    return float(np.sqrt((S**2).sum(axis=1).max(initial=0.0)))


def _from_state_readings(problem: MomentProblem) -> tuple[Array, MomentLinear]:
    alone = problem.linearisation.without_dynamics(problem.moment)
    start = np.zeros(problem.L.shape[1])
    found = descend(start, lambda e: problem.linear(e, moment=alone), _OF_STATE)
    return found.point, found.linear


def _within_reach(problem: MomentProblem, linear: MomentLinear, reach: float) -> Array:
    """The step, held back by the prior in directions that are seen least until it is short."""
    layout = problem.linearisation.layout
    U, s, Vt = np.linalg.svd(linear.R)
    along, damping = U.T @ linear.z, 0.0
    positions = problem.L[: layout.n] @ Vt.T
    turning = ~problem.linearisation.sliding
    for _ in range(60):
        part = s / (s**2 + damping) * along
        if np.abs((positions @ part)[turning]).max(initial=0.0) <= reach:
            break
        damping = max(0.1, 2.0 * damping)
    delta: Array = Vt.T @ part
    return delta
