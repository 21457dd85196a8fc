"""`StateAndDynamics`: positions and velocities estimated together with all of the dynamics.

Paper 000, problem 6: x = (q, q̇) is unknown too, known a priori as a Gaussian, and the equations
D(x) d + b_D(x) = 0, y = Y(x) d + b_Y(x) are linearised about x and the best d there, eqs (10)-(12).
One linearisation is the paper's, with what it leaves out counted as slack (see `approach`);
iterated with damping it is Gauss-Newton for the most probable (x, d). Biases of sensors and errors
of the parameters are estimated with them. Intervals are those of a Gaussian at the most probable
point: where several states fit, they are about the one that was found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.state.approach import (
    STEPS,
    approach,
    is_near,
    other_ways,
    single,
)
from bodysense.estimation.map_dynamics.state.belief import StateBelief
from bodysense.estimation.map_dynamics.state.gauss_newton import Ending, descend, strange
from bodysense.estimation.map_dynamics.state.linearisation import Linearisation, Moment
from bodysense.estimation.map_dynamics.state.moment_problem import (
    Gaussian,
    MomentLinear,
    MomentProblem,
)
from bodysense.estimation.map_dynamics.state.nuisances import Nuisances
from bodysense.estimation.map_dynamics.state.posterior import StatePosterior, assembled, widened
from bodysense.spatial.arrays import Array, as_array

ITERATIONS = 50
"""Most steps, of which a handful are usual."""


_ABSURD = 1e20  # a reading that cannot be one is absent, as NaN is


class StateAndDynamics:
    """The estimator of state and dynamics of one robot, one moment at a time.

    Attributes:
        problem: the robot with its sensors and assumptions.
        state: what is believed of the state before any reading.
    """

    def __init__(
        self,
        problem: MapDynamics,
        state: StateBelief,
        *,
        parameter_covariance: ArrayLike | None = None,
    ) -> None:
        """Lay the problem out.

        Args:
            problem: the robot with its sensors and assumptions.
            state: belief about positions and velocities, by default of every moment.
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
        state: StateBelief | None = None,
        at: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
        iterations: int = ITERATIONS,
    ) -> StatePosterior:
        """Posterior of one moment.

        Args:
            readings: (m,) in the order of `problem.layout.slices`; NaN where there is none. An
                orientation is given as the rotation vector of R_world_sensor.
            state: belief about the state at this moment; by default that of the estimator.
            at: (size,) d at which products of state and dynamics are linearised at first, in the
                order of `problem.variables`; by default the best d at the believed state.
            gravity: (3,) in the frame of a root that is held.
            iterations: most steps; 1 for the single linearisation of paper 000.
        """
        belief = self.state if state is None else state
        require_joints(self.problem, belief, self.state.order)
        if iterations < 1:
            raise ShapeError(f"iterations is {iterations}: give 1 for one linearisation, or more.")
        moment = moment_of(self._linearisation, belief.mean[0], readings, gravity)
        prior = Gaussian.prior(self._linearisation, belief)
        problem = MomentProblem(self._linearisation, prior, moment)
        d = None if at is None else by_body(self.problem, at)
        return most_probable(problem, iterations, d)[0]


def solved(
    problem: MomentProblem, iterations: int, d: Array | None = None
) -> tuple[Array, MomentLinear, Ending]:
    """The most probable point of one moment."""
    if iterations == 1:
        return single(problem, d)
    start = approach(problem, min(STEPS, iterations), d)
    best = descend(start, problem.linear, iterations)
    m = problem.linearisation.count(problem.moment)
    if strange(best.linear.cost, m) and not is_near(problem):
        for other in other_ways(problem):
            found = descend(other, problem.linear, iterations)
            best = found if found.linear.cost < best.linear.cost else best
            if not strange(best.linear.cost, m):
                break
    return best.point, best.linear, best.ending


def most_probable(
    problem: MomentProblem, iterations: int, d: Array | None = None
) -> tuple[StatePosterior, Gaussian]:
    """The posterior of one moment, by names and of all of x."""
    e, linear, ending = solved(problem, iterations, d)
    x, S = problem.x(e), problem.factor(linear)
    state = Gaussian(x, S @ S.T)
    if iterations == 1:  # the equations at a state that is still off are not to be trusted
        found = problem.linearisation.solved(x, problem.moment, spread=True, factor=S)
    else:
        given = problem.linearisation.solved(x, problem.moment, spread=True)
        found = widened(given, linear.local.slope, S)
    posterior = assembled(
        problem.linearisation,
        [problem.moment],
        [state],
        [found],
        cost=linear.cost,
        ending=ending,
        single=True,
    )
    return posterior, state


def moment_of(
    linearisation: Linearisation, q: Array, readings: ArrayLike, gravity: ArrayLike | None
) -> Moment:
    """Check the readings of one moment and lay them out."""
    problem = linearisation.problem
    y = np.array(readings, dtype=np.float64)
    if y.ndim != 1:
        raise ShapeError(
            f"readings have shape {y.shape}: give those of one moment, ({problem.layout.size},)."
        )
    y[~(np.abs(y) < _ABSURD)] = np.nan
    laid = problem.moments(q, np.zeros_like(q), y, gravity=gravity)
    reference = linearisation.orientations.reference(q, y)
    return Moment(y, laid.y[0], laid.a0[0], reference)


def by_body(problem: MapDynamics, d: ArrayLike) -> Array:
    """(n, 20) d of every body, from (size,) in the order of the variables."""
    tree = problem.tree
    flat = as_array(d, (problem.variables.size,), "d")
    wide = np.zeros((tree.n, 20))
    if tree.floating:
        wide[0, :6], wide[0, 13:19] = flat[:6], flat[6:12]
    wide[1:] = flat[12 * tree.floating :].reshape(-1, 20)
    return wide


def require_joints(problem: MapDynamics, belief: StateBelief, order: int | None = None) -> None:
    """Raise unless a belief is one about this robot's joints."""
    n = problem.robot.n_joints
    if belief.n != n:
        raise MismatchError(
            f"the state is believed for {belief.n} joints, {problem.robot.name} has {n}: "
            f"{', '.join(problem.robot.joint_names[:4])}, …."
        )
    if order is not None and belief.order != order:
        raise MismatchError(
            f"the state is believed with {belief.order} numbers a joint, but the estimator was "
            f"made for {order}: give accelerations to both or to none."
        )
