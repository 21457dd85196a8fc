"""One interval of a log under given torques, for many parameters and states at once.

What a filter's time update needs: with x = [p, q, v] and the torque tau of the interval,

    (q, v)' = f(p, q, v, tau),       F = ∂f/∂x,       G = ∂f/∂tau

where f integrates M(q) a + h(q, v) = tau over the interval, thesis eq (44). A base parameter acts
exactly as the parameter that is kept for it, since its column of the regressor is the same: so a
point's theta is zero but there, theta_base = centre + scale p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bodysense.compiled.jit import in_threads
from bodysense.errors import ShapeError
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.robot import Robot
from bodysense.simulation._kernels.propagation import advance_points, advance_with_tangent
from bodysense.simulation.rollout import Integrator, make_loop
from bodysense.spatial.arrays import Array, as_array, one_each

_POINTS_FOR_THREADS = 500  # times control periods: fewer are not worth waking threads for


class Drive(NamedTuple):
    """What drives the joints in one interval.

    Attributes:
        tau: (n,) torque that is held; of no effect with a reference.
        q_d: (n_periods, n) reference of the controller in each of its periods, none for no one.
        v_d: (n_periods, n) its velocity.
    """

    tau: Array
    q_d: Array
    v_d: Array


@dataclass(frozen=True, eq=False)
class Propagation:
    """Advances points [p, q, v] of a robot by one interval; made by `Propagation.from_robot`.

    Attributes:
        n_parameters: b, how many parameters a point has.
        n_joints: n.
        period: for which torques are held [s]: the interval, or the controller's period.
    """

    n_parameters: int
    n_joints: int
    period: float
    _model: tuple[Any, ...]  # tree, columns, centre, scale and loop of the kernels
    _end: tuple[Array, int]  # no feed-forward torque, and the number of all parameters

    @classmethod
    def from_robot(
        cls,
        robot: Robot,
        base: BaseParameters,
        *,
        period: float,
        centre: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        integrator: Integrator = "rk2",
        substeps: int = 1,
        smallest_width: ArrayLike = 0.0,
    ) -> Propagation:
        """Lay everything out for the kernels.

        Args:
            robot: a fixed-base robot: geometry, friction law and controller.
            base: its base parameters.
            period: for which torques are held [s]: that of the interval, or of the controller if
                it is to drive the points.
            centre: (b,) theta_base of p = 0; zero if not given.
            scale: (b,) theta_base of a unit of p; one if not given.
            integrator: ``euler``, ``rk2`` (midpoint) or ``rk4``.
            substeps: integration steps per period.
            smallest_width: friction that jumps at zero velocity, or nearly so, is spread over
                this velocity [rad/s or m/s], one number or one per joint: steps of a time grid
                cannot hold a joint at rest by a jump.
        """
        base.require_fits(robot)
        n = robot.n_joints
        if not 0.0 < period < np.inf:
            raise ShapeError(f"the period is {period:g} s: give a positive one.")
        loop = make_loop(robot, robot.controller, period, integrator, substeps)
        b, size = base.size, robot.layout.size
        tree = robot.tree
        smallest = one_each(smallest_width, n, "smallest_width")
        if smallest.any() and tree.custom == 0:
            shape = np.array(tree.shape)
            shape[:, 0] = np.maximum(shape[:, 0], smallest)
            width = np.maximum(tree.coupled_width, smallest.max())
            tree = tree._replace(shape=shape, coupled_width=width)
        columns = np.concatenate([base.independent, np.full(3 * n, size)]).astype(np.int64)
        centre = np.zeros(b) if centre is None else as_array(centre, (b,), "centre").copy()
        scale = np.ones(b) if scale is None else as_array(scale, (b,), "scale").copy()
        model = (tree, columns, centre, scale, loop._replace(ki=np.zeros(n)))
        return cls(b, n, float(period), model, (np.zeros((0, n)), size))

    def advance(self, points: Array, drive: Drive) -> Array:
        """(m, 2 n) positions and velocities of points (m, b + 2 n) one interval on.

        They are not finite where the mass matrix of a point is singular.
        """
        m = points.shape[0]
        out = np.empty((m, 2 * self.n_joints))
        arguments = (*self._model, *drive, *self._end, points, out)
        # Threads that wait for each other cost more than a hundred points, on busy machines much.
        if m * max(drive.q_d.shape[0], 1) < _POINTS_FOR_THREADS:
            advance_points(0, m, *arguments)
        else:
            in_threads(advance_points, m, *arguments)
        return out

    def tangent(self, point: Array, drive: Drive) -> tuple[Array, Array, Array]:
        """(2 n,) the point one interval on, F (2 n, b + 2 n) and G (2 n, n).

        Friction with a jump is differentiated beside it.
        """
        n, b = self.n_joints, self.n_parameters
        out, F = np.empty(2 * n), np.empty((2 * n, b + 3 * n))
        advance_with_tangent(*self._model, *drive, *self._end, point, out, F)
        return out, F[:, : b + 2 * n], F[:, b + 2 * n :]
