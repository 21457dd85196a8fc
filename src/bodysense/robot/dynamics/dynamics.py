"""Inverse and forward dynamics of many samples at once, for any parameter vector.

    M(q) a + h(q, v) = tau

with rotor inertias in M and friction (LuGre at its steady state) in h. Parameters need not be
physical: they enter linearly, and no mass is divided by.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.robot._kernels.dynamics import (
    Batch,
    forward_dynamics_batch,
    in_shares,
    inverse_dynamics_batch,
    mass_matrix_batch,
)
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, as_array


def check_motion(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, names: str = "q v a"
) -> tuple[Array, Array, Array]:
    """Check q (n_t, nq), v and a (n_t, nv) of one robot and return them as arrays."""
    q_name, v_name, a_name = names.split()
    q = as_array(q, (None, robot.nq), f"{q_name} of {robot.name}")
    v = as_array(v, (q.shape[0], robot.nv), f"{v_name} of {robot.name}")
    return q, v, as_array(a, v.shape, f"{a_name} of {robot.name}")


def joint_coordinates(robot: Robot, q: Array) -> Array:
    """(n_t, n_joints) joint part of q."""
    return np.ascontiguousarray(q[:, robot.nq - robot.n_joints :])


def _base_rotation(robot: Robot, q: Array) -> Array:
    """(n_t, 3, 3) R_world_base; the identity for a fixed base."""
    if not robot.floating_base:
        return np.broadcast_to(np.eye(3), (q.shape[0], 3, 3))
    quaternion = q[:, 3:7]
    norm = np.linalg.norm(quaternion, axis=1)
    worst = int(np.argmax(np.abs(norm - 1.0))) if norm.size else 0
    if norm.size and abs(norm[worst] - 1.0) > 1e-6:
        raise ShapeError(
            f"q[{worst}, 3:7] has norm {norm[worst]:.6g}: the base's orientation must be a unit "
            "quaternion (x, y, z, w)."
        )
    x, y, z, w = quaternion.T / norm
    R = np.empty((q.shape[0], 3, 3))
    R[:, 0] = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], 1)
    R[:, 1] = np.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], 1)
    R[:, 2] = np.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], 1)
    return R


def gravity_in_base(robot: Robot, q: Array) -> Array:
    """(n_t, 3) gravity in base coordinates."""
    g: Array = np.einsum("tji,j->ti", _base_rotation(robot, q), robot.tree.gravity)
    return np.ascontiguousarray(g)


def theta_rows(robot: Robot, theta: ArrayLike | None, rows: int) -> Array:
    """(1 or rows, layout.size) parameters for a batch: the robot's own if none are given."""
    values = robot.theta if theta is None else theta
    array = as_array(_as_rows(values), (None, robot.layout.size), "theta")
    if array.shape[0] not in (1, rows):
        raise ShapeError(
            f"theta has {array.shape[0]} rows: give one, or one for each of the {rows} runs."
        )
    return array


def count_rows(theta: ArrayLike | None) -> int:
    """Count the parameter vectors in theta (p,) or (rows, p); one if none are given."""
    rows = 1 if theta is None else int(_as_rows(theta).shape[0])
    if rows == 0:
        raise ShapeError("theta has no rows: give one parameter vector at least.")
    return rows


def _as_rows(theta: ArrayLike) -> Array:
    try:
        return np.array(theta, dtype=np.float64, ndmin=2)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"theta must be an array of numbers: {error}") from error


def inverse_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, theta: ArrayLike | None = None
) -> Array:
    """Tau (n_t, nv) that moves the robot as given.

    Args:
        robot: the robot.
        q: (n_t, nq) positions.
        v: (n_t, nv) velocities.
        a: (n_t, nv) accelerations.
        theta: (p,) or (n_t, p) parameters; the robot's own if not given.
    """
    q, v, a = check_motion(robot, q, v, a)
    tau = np.empty_like(v)
    rows = theta_rows(robot, theta, q.shape[0])
    batch = Batch(rows, joint_coordinates(robot, q), v, a, gravity_in_base(robot, q), tau)
    in_shares(inverse_dynamics_batch, len(q), robot.tree, batch)
    return tau


def forward_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, *, theta: ArrayLike | None = None
) -> Array:
    """A (n_t, nv) that follows from the torques.

    Where the mass matrix is singular, which only unphysical or massless parameters can cause, the
    result is not finite.

    Args:
        robot: the robot.
        q: (n_t, nq) positions.
        v: (n_t, nv) velocities.
        tau: (n_t, nv) generalised forces, the base's wrench first.
        theta: (p,) or (n_t, p) parameters; the robot's own if not given.
    """
    q, v, tau = check_motion(robot, q, v, tau, "q v tau")
    a = np.empty_like(v)
    rows = theta_rows(robot, theta, q.shape[0])
    forward_dynamics_batch(
        robot.tree, rows, joint_coordinates(robot, q), v, tau, gravity_in_base(robot, q), a
    )
    return a


def mass_matrix(robot: Robot, q: ArrayLike, *, theta: ArrayLike | None = None) -> Array:
    """M (n_t, nv, nv) with rotor inertias; theta (p,) or (n_t, p), the robot's own if not given."""
    q = as_array(q, (None, robot.nq), f"q of {robot.name}")
    M = np.zeros((q.shape[0], robot.nv, robot.nv))
    mass_matrix_batch(
        robot.tree, theta_rows(robot, theta, q.shape[0]), joint_coordinates(robot, q), M
    )
    return M
