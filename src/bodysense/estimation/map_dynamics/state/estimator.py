"""`StateAndDynamics`: positions and velocities estimated together with all of the dynamics.

Paper 000, problem 6: x = (q, q̇) is unknown too, known a priori as a Gaussian, and the equations
D(x) d + b_D(x) = 0, y = Y(x) d + b_Y(x) are linearised about x and the best d there, eqs (10)-(12).
One linearisation is the paper's, with what it leaves out counted as slack (see `_approach`);
iterated with damping it is Gauss-Newton for the most probable (x, d). Biases of sensors and errors
of the parameters are estimated with them. Intervals are those of a Gaussian at the most probable
point: where several states fit, they are about the one that was found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.state.gauss_newton import (
    Ending,
    TimeStepLinear,
    TimeStepProblem,
    descend,
    is_implausible,
    whole_prior,
)
from bodysense.estimation.map_dynamics.state.linearisation import Linearisation, SampleInputs
from bodysense.estimation.map_dynamics.state.posterior import StatePosterior, assembled, widened
from bodysense.estimation.map_dynamics.state.prior import Nuisances, StatePrior
from bodysense.kalman.model import CovarianceState
from bodysense.spatial.arrays import Array, as_array

# From a rough prior about the state to where the exact equations can be iterated.
#
# 1. Readings that depend on the state alone move it (encoders, gyroscopes, orientations).
# 2. Steps of the linearised problem, each with what the linearisation leaves out as slack (see
#    `_with_second_order`), at a d that trusts equations only as far as the state (`_softened`),
#    and none further than the sine of an angle is straight.
#
# Every step is one linearisation of the whole problem with the whole prior: the first one is the
# single linearisation of paper 000.

_STEPS = 5
"""Most steps before the exact equations take over."""

_OF_STATE = 3  # steps towards what readings of the state alone say
_REACH = np.pi / 4  # rad, of a joint in one step
_OTHER_WAYS = (0.3, 0.5)  # rad: other reaches, where the first way led to a dead end
_NEAR = 0.05  # rad: standard deviation of positions at which no approach is needed
_SETTLED = 0.02  # rad: a step after which none is needed


def _approach(
    problem: TimeStepProblem, steps: int, d: Array | None = None, reach: float = _REACH
) -> Array:
    """Coordinates e of a point near the solution, after at most so many steps.

    One of several steps is left out where the state is known well. Products are linearised at
    `d` (n, 20) in the first step, by default one that knows how far the state is known; `reach` is
    that of a joint in one step [rad].
    """
    positions = slice(0, problem.linearisation.layout.n)
    if steps > 1 and _is_near(problem):
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


def _is_near(problem: TimeStepProblem) -> bool:
    return _widest(problem.L[: problem.linearisation.layout.n]) < _NEAR


def _other_ways(problem: TimeStepProblem) -> Iterator[Array]:
    """Other points to start from, where the first one led to a minimum that explains little."""
    yield _from_state_readings(problem)[0]
    for reach in _OTHER_WAYS:
        yield _approach(problem, _STEPS, reach=reach)


def _single(problem: TimeStepProblem, d: Array | None) -> tuple[Array, TimeStepLinear, Ending]:
    """One linearisation, and the problem where it leads, which knows what it left out."""
    e = _approach(problem, 1, d)
    linear = problem.linear(e)
    if np.isfinite(linear.cost):
        S = problem.factor(linear)
        linear = problem.linear(e, factor=S)
    return e, linear, Ending(False, 1, "a single linearisation: iterate for more accuracy.")


def _step(
    problem: TimeStepProblem, e: Array, S: Array, d: Array | None, reach: float
) -> tuple[Array, TimeStepLinear]:
    """One linearisation at e, where the state is known as far as S says: the next e."""
    problem.linear(e)  # leaves derivatives of equations in the memory
    if d is None:
        d = problem.linearisation.solved(problem.x(e), problem.sample, factor=S).d[0]
    linear = problem.linear(e, d=d, factor=S)
    return e + _within_reach(problem, linear, reach), linear


def _widest(S: Array) -> float:
    return float(np.sqrt((S**2).sum(axis=1).max(initial=0.0)))


def _from_state_readings(problem: TimeStepProblem) -> tuple[Array, TimeStepLinear]:
    alone = problem.linearisation.without_dynamics(problem.sample)
    start = np.zeros(problem.L.shape[1])
    result = descend(start, lambda e: problem.linear(e, sample=alone), _OF_STATE)
    return result.point, result.linear


def _within_reach(problem: TimeStepProblem, linear: TimeStepLinear, reach: float) -> Array:
    """The step, held back by the prior in the least observable directions until it is short."""
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


_ITERATIONS = 50
"""Most steps, of which a handful are usual."""


_ABSURD = 1e20  # a reading that cannot be one is absent, as NaN is


class StateAndDynamics:
    """The estimator of state and dynamics of one robot, one sample at a time."""

    def __init__(
        self,
        problem: MapDynamics,
        state: StatePrior,
        *,
        parameter_covariance: ArrayLike | None = None,
    ) -> None:
        """Lay the problem out.

        Args:
            problem: the robot with its sensors and assumptions.
            state: prior about positions and velocities, by default of every sample.
            parameter_covariance: (p, p) of robot.theta or its inertial part, where it is not
                certain; see `theta_covariance` for that of an identified robot.
        """
        require_joints(problem, state)
        self.problem, self.state = problem, state
        nuisances = Nuisances.of(problem, parameter_covariance)
        self._linearisation = Linearisation(problem, nuisances, state.order)

    def estimate(
        self,
        readings: ArrayLike,
        *,
        state: StatePrior | None = None,
        at: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
        iterations: int = _ITERATIONS,
    ) -> StatePosterior:
        """Posterior of one sample.

        Args:
            readings: (m,) in the order of `problem.layout.slices`; NaN where there is none. An
                orientation is given as the rotation vector of R_world_sensor.
            state: prior about the state at this sample; by default that of the estimator.
            at: (size,) d at which products of state and dynamics are linearised at first, in the
                order of `problem.variables`; by default the best d at the mean of the prior.
            gravity: (3,) in the frame of a root that is held.
            iterations: most steps; 1 for the single linearisation of paper 000.
        """
        about = self.state if state is None else state
        require_joints(self.problem, about, self.state.order)
        if iterations < 1:
            raise ShapeError(f"iterations is {iterations}: give 1 for one linearisation, or more.")
        sample = sample_of(self._linearisation, about.mean[0], readings, gravity)
        prior = whole_prior(self._linearisation, about)
        problem = TimeStepProblem(self._linearisation, prior, sample)
        d = None if at is None else _by_body(self.problem, at)
        return most_probable(problem, iterations, d)[0]


def solved(
    problem: TimeStepProblem, iterations: int, d: Array | None = None
) -> tuple[Array, TimeStepLinear, Ending]:
    """The most probable point of one sample."""
    if iterations == 1:
        return _single(problem, d)
    start = _approach(problem, min(_STEPS, iterations), d)
    best = descend(start, problem.linear, iterations)
    m = problem.linearisation.count(problem.sample)
    if is_implausible(best.linear.cost, m) and not _is_near(problem):
        for other in _other_ways(problem):
            result = descend(other, problem.linear, iterations)
            best = result if result.linear.cost < best.linear.cost else best
            if not is_implausible(best.linear.cost, m):
                break
    return best.point, best.linear, best.ending


def most_probable(
    problem: TimeStepProblem, iterations: int, d: Array | None = None
) -> tuple[StatePosterior, CovarianceState]:
    """The posterior of one sample, by names and of all of x."""
    e, linear, ending = solved(problem, iterations, d)
    x, S = problem.x(e), problem.factor(linear)
    state = CovarianceState(x, S @ S.T)
    if iterations == 1:  # the equations at a state that is still off are not to be trusted
        result = problem.linearisation.solved(x, problem.sample, spread=True, factor=S)
    else:
        given = problem.linearisation.solved(x, problem.sample, spread=True)
        result = widened(given, linear.local.slope, S)
    posterior = assembled(
        problem.linearisation,
        [problem.sample],
        [state],
        [result],
        cost=linear.cost,
        ending=ending,
        single=True,
    )
    return posterior, state


def sample_of(
    linearisation: Linearisation, q: Array, readings: ArrayLike, gravity: ArrayLike | None
) -> SampleInputs:
    """Check the readings of one sample and lay them out."""
    problem = linearisation.problem
    y = np.array(readings, dtype=np.float64)
    if y.ndim != 1:
        raise ShapeError(
            f"readings have shape {y.shape}: give those of one sample, ({problem.layout.size},)."
        )
    y[~(np.abs(y) < _ABSURD)] = np.nan
    laid = problem.samples(q, np.zeros_like(q), y, base_twist=np.zeros(6), gravity=gravity)
    reference = linearisation.orientations.reference(q, y)
    return SampleInputs(y, laid.y[0], laid.a0[0], reference)


def _by_body(problem: MapDynamics, d: ArrayLike) -> Array:
    """(n, 20) d of every body, from (size,) in the order of the variables."""
    tree = problem.tree
    flat = as_array(d, (problem.variables.size,), "d")
    wide = np.zeros((tree.n, 20))
    if tree.floating:
        wide[0, :6], wide[0, 13:19] = flat[:6], flat[6:12]
    wide[1:] = flat[12 * tree.floating :].reshape(-1, 20)
    return wide


def require_joints(problem: MapDynamics, prior: StatePrior, order: int | None = None) -> None:
    """Raise unless a prior is one about this robot's joints."""
    n = problem.robot.n_joints
    if prior.n != n:
        raise MismatchError(
            f"the prior of the state has {prior.n} joints, {problem.robot.name} has {n}: "
            f"{', '.join(problem.robot.joint_names[:4])}, …."
        )
    if order is not None and prior.order != order:
        raise MismatchError(
            f"the prior of the state has {prior.order} numbers per joint, but the estimator was "
            f"made for {order}: give accelerations to both or to none."
        )
