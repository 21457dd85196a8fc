"""Energy and power regressors: identification without accelerations.

The torques' work goes into the robot's energy and into friction:

    ∫ tau · v dt = E(end) - E(start) + ∫ v · tau_friction dt

Every term is linear in theta, and none needs an acceleration (Gautier and Khalil 1988).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import ShapeError
from bodysense.robot._kernels.energy import energy_batch
from bodysense.robot.regressors import torque_regressor
from bodysense.robot.robot import Robot
from bodysense.robot.states import gravity_in_base, joint_coordinates
from bodysense.spatial.arrays import Array, as_array


def energy_regressor(robot: Robot, q: ArrayLike, v: ArrayLike) -> Array:
    """Rows (n_t, p) of the kinetic plus potential energy [J] at q (n_t, nq), v (n_t, nv).

    Friction columns are zero. The potential energy is zero at the world's origin.
    """
    q = as_array(q, (None, robot.nq), f"q of {robot.name}")
    v = as_array(v, (q.shape[0], robot.nv), f"v of {robot.name}")
    height = np.zeros(q.shape[0])
    if robot.floating_base:
        p_world_root = robot.model.jointPlacements[1].translation
        height -= q[:, :3] @ robot.tree.gravity + p_world_root @ robot.model.gravity.linear
    rows = np.zeros((q.shape[0], robot.layout.size))
    g = gravity_in_base(robot, q)
    energy_batch(robot.tree, joint_coordinates(robot, q), v, g, height, rows)
    return rows


def power_regressor(robot: Robot, q: ArrayLike, v: ArrayLike) -> Array:
    """Rows (n_t, p) of the power [W] that friction takes; inertial columns are zero."""
    q = as_array(q, (None, robot.nq), f"q of {robot.name}")
    v = as_array(v, (q.shape[0], robot.nv), f"v of {robot.name}")
    columns = np.arange(robot.layout.rotor.stop, robot.layout.size)
    Y = torque_regressor(robot, q, v, np.zeros_like(v), columns=columns)
    rows = np.zeros((q.shape[0], robot.layout.size))
    if columns.size:
        rows[:, columns] = np.einsum("tij,ti->tj", Y, v)
    return rows


def work_regressor(
    robot: Robot, t: ArrayLike, q: ArrayLike, v: ArrayLike, *, stride: int = 1
) -> Array:
    """Rows of the work that the torques do between samples: ``work = rows @ theta`` [J].

    Args:
        robot: the robot.
        t: (n_t,) times, ascending [s].
        q: (n_t, nq) positions.
        v: (n_t, nv) velocities.
        stride: samples between the ends of a row; rows follow each other without overlap.

    Returns:
        (n_rows, p): energy gained plus friction's work (trapezoidal rule) over each interval.
        `work` on the left is the integral of tau · v by the same rule, see `work`.
    """
    rows = energy_regressor(robot, q, v)
    times = as_array(t, (rows.shape[0],), "t")
    ends = _ends(times, stride)
    lost = _integral(times, power_regressor(robot, q, v))
    difference: Array = (rows + lost)[ends[1:]] - (rows + lost)[ends[:-1]]
    return difference


def work(t: ArrayLike, tau: ArrayLike, v: ArrayLike, *, stride: int = 1) -> Array:
    """(n_rows,) work of the torques over the intervals of `work_regressor` [J]."""
    tau = as_array(tau, (None, None), "tau")
    v = as_array(v, tau.shape, "v")
    times = as_array(t, (tau.shape[0],), "t")
    done = _integral(times, np.sum(tau * v, axis=1, keepdims=True))[:, 0]
    difference: Array = np.diff(done[_ends(times, stride)])
    return difference


def _ends(t: Array, stride: int) -> NDArray[np.int64]:
    if t.size < 2:
        raise ShapeError(f"work is done between two samples at least, and there are {t.size}.")
    if not (np.diff(t) > 0.0).all():
        raise ShapeError("t must ascend: sort the samples and drop repeated times.")
    if not 1 <= stride < t.size:
        raise ShapeError(f"stride is {stride}: give a number of samples from 1 to {t.size - 1}.")
    return np.arange(0, t.size, stride, dtype=np.int64)


def _integral(t: Array, values: Array) -> Array:
    """Cumulative trapezoidal integral along the first axis, zero at the start."""
    total = np.zeros_like(values)
    step = np.diff(t)[:, None]
    np.cumsum(0.5 * step * (values[1:] + values[:-1]), axis=0, out=total[1:])
    return total
