"""Dynamics and regressors of many samples at once, for any parameter vector.

    M(q) a + h(q, v) = tau = Y(q, v, a) theta
    ∫ tau · v dt = E(end) - E(start) + ∫ v · tau_friction dt

with theta as in the robot's `ParameterLayout`, rotor inertias in M and friction (LuGre at its
steady state) in h. Parameters need not be physical: they enter linearly, and no mass is divided by.
The second equation is linear in theta too, and needs no acceleration (Gautier and Khalil 1988).

Load-dependent friction (see `friction`) is the one part that is not linear in theta: its columns of
Y hold the load of given parameters, which needs accelerations in the second equation as well.

Joint coordinates come as q of length `robot.nq`: for a floating base position, quaternion (xyzw)
and joints, as in Pinocchio; v and a have length `robot.nv`, base first, linear first, in base
coordinates.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from bodysense.compiled.views import Table
from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.robot._kernels.dynamics import (
    Batch,
    MassMatrices,
    forward_dynamics_batch,
    inverse_dynamics_batch,
    mass_matrix_batch,
)
from bodysense.robot._kernels.regressor import (
    Energies,
    Full,
    Regressors,
    energy_batch,
    regressor_batch,
)
from bodysense.robot._kernels.tree import in_shares
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array, as_array

_NO_ROWS = Table(Full(np.zeros((0, 0))))
"""Where all columns are wanted, they are written without rows in between."""


def _check_motion(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, names: str = "q v a"
) -> tuple[Array, Array, Array]:
    """Check q (n_t, nq), v and a (n_t, nv) of one robot and return them as arrays."""
    require_robot(robot)
    q_name, v_name, a_name = names.split()
    q = as_array(q, (None, robot.nq), f"{q_name} of {robot.name}")
    v = as_array(v, (q.shape[0], robot.nv), f"{v_name} of {robot.name}")
    return q, v, as_array(a, v.shape, f"{a_name} of {robot.name}")


def _joint_coordinates(robot: Robot, q: Array) -> Array:
    """(n_t, n_joints) joint part of q."""
    return np.ascontiguousarray(q[:, robot.nq - robot.n_joints :])


def _gravity_in_base(robot: Robot, q: Array) -> Array:
    """(n_t, 3) gravity in base coordinates: g turned back by the base's quaternion (u, w)."""
    g = robot.tree.gravity
    if not robot.floating_base:
        return np.full((q.shape[0], 3), g)
    norm = np.linalg.norm(q[:, 3:7], axis=1)
    worst = int(np.argmax(np.abs(norm - 1.0))) if norm.size else 0
    if norm.size and abs(norm[worst] - 1.0) > 1e-6:
        raise ShapeError(
            f"q[{worst}, 3:7] has norm {norm[worst]:.6g}: the base's orientation must be a unit "
            "quaternion (x, y, z, w)."
        )
    quaternion = q[:, 3:7] / norm[:, None]
    u, w = quaternion[:, :3], quaternion[:, 3:]
    twice = 2.0 * np.cross(u, g)
    return np.ascontiguousarray(g - w * twice + np.cross(u, twice))


def theta_rows(robot: Robot, theta: ArrayLike | None, rows: int | None = None) -> Array:
    """(1 or rows, p) parameters for a batch, or as many as given; the robot's own for `None`."""
    try:
        array = np.array(robot.theta if theta is None else theta, dtype=np.float64, ndmin=2)
    except (TypeError, ValueError, OverflowError) as error:
        raise ShapeError(f"theta must be an array of numbers: {error}") from error
    array = as_array(array, (None, robot.layout.size), "theta")
    if rows is None and array.shape[0] == 0:
        raise ShapeError("theta has no rows: give one parameter vector at least.")
    if rows is not None and array.shape[0] not in (1, rows):
        raise ShapeError(
            f"theta has {array.shape[0]} rows: give one, or one for each of the {rows} runs."
        )
    return array


def inverse_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, theta: ArrayLike | None = None
) -> Array:
    """Tau (n_t, nv) that moves the robot by q (n_t, nq), v and a (n_t, nv).

    Parameters theta are (p,) or (n_t, p), the robot's own if not given.
    """
    q, v, a = _check_motion(robot, q, v, a)
    tau = np.empty_like(v)
    rows = theta_rows(robot, theta, q.shape[0])
    batch = Batch(rows, _joint_coordinates(robot, q), v, a, _gravity_in_base(robot, q), tau)
    in_shares(inverse_dynamics_batch, len(q), robot.tree, batch)
    return tau


def forward_dynamics(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, *, theta: ArrayLike | None = None
) -> Array:
    """A (n_t, nv) that follows from the torques tau (n_t, nv), the base's wrench first.

    Where the mass matrix is singular, which only unphysical or massless parameters can cause, the
    result is not finite. q is (n_t, nq), v (n_t, nv); theta as for `inverse_dynamics`.
    """
    q, v, tau = _check_motion(robot, q, v, tau, "q v tau")
    a = np.empty_like(v)
    rows = theta_rows(robot, theta, q.shape[0])
    batch = Batch(rows, _joint_coordinates(robot, q), v, a, _gravity_in_base(robot, q), tau)
    in_shares(forward_dynamics_batch, len(q), robot.tree, batch)
    return a


def mass_matrix(robot: Robot, q: ArrayLike, *, theta: ArrayLike | None = None) -> Array:
    """M (n_t, nv, nv) with rotor inertias; theta (p,) or (n_t, p), the robot's own if not given."""
    require_robot(robot)
    q = as_array(q, (None, robot.nq), f"q of {robot.name}")
    M = np.zeros((q.shape[0], robot.nv, robot.nv))
    rows = theta_rows(robot, theta, q.shape[0])
    batch = MassMatrices(rows, _joint_coordinates(robot, q), M)
    in_shares(mass_matrix_batch, len(q), robot.tree, batch)
    return M


def torque_regressor(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    *,
    columns: NDArray[np.int64] | None = None,
    base_link: str | None = None,
    theta: ArrayLike | None = None,
    out: Array | None = None,
) -> Array:
    """Y of tau = Y theta, sample by sample.

    For a floating base the first six rows are the wrench that must act on the robot from
    outside, about the base's origin in base coordinates, and the joint rows follow.

    Args:
        robot: the robot; only its geometry, friction law and couplings enter, and the load.
        q: (n_t, nq) positions.
        v: (n_t, nv) velocities.
        a: (n_t, nv) accelerations.
        columns: keep only these columns of theta, e.g. ``base.independent``.
        base_link: take this link as the base instead; floating base only.
        theta: (p,) parameters that the load of load-dependent friction follows from, the robot's
            own if not given: with these alone tau = Y theta. No other friction law needs them.
        out: (n_t, nv, n_columns) array to write to. Getting fresh memory takes as long as
            filling it, so that work in blocks is faster with one array for all of them.

    Returns:
        (n_t, nv, n_columns); ``Y.reshape(-1, n_columns)`` is the stacked regressor.
    """
    require_robot(robot)
    q, v, a = _check_motion(robot, q, v, a)
    rows = kept = places = np.zeros(0, dtype=np.int64)
    size = robot.layout.size
    if columns is not None:
        chosen = _check_columns(robot, columns)
        size = chosen.size
        # Contiguous, as the views of nonzero are not: the kernel is compiled for one type alone.
        pattern = np.nonzero(regressor_pattern(robot)[:, chosen])
        rows, places = (np.ascontiguousarray(k) for k in pattern)
        kept = chosen[places]
    Y = _output((q.shape[0], robot.nv, size), out)
    joints, g = _joint_coordinates(robot, q), _gravity_in_base(robot, q)
    if columns is None or kept.size > 0:  # to the kernel no columns means all
        clear = int(out is not None)
        batch = Regressors(joints, v, a, g, rows, kept, places, clear, Y)

        def share(first: int, last: int, *tables: int) -> None:
            full = Table(Full(np.zeros((robot.nv, robot.layout.size)))) if kept.size else _NO_ROWS
            regressor_batch(first, last, *tables, full.address)

        in_shares(share, len(q), robot.tree, batch, compiled=regressor_batch)
    elif out is not None:
        Y.fill(0.0)
    if robot.friction.model.depends_on_load:
        if base_link is not None:
            raise _needs_no_load(robot, "a regressor for another base link", "base_link")
        _multiply_by_loads(Y, drive_loads(robot, q, v, a, theta=theta), robot, columns)
    if base_link is not None:
        _rebase_rows(robot, q, base_link, Y)
    return Y


def drive_loads(
    robot: Robot, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, theta: ArrayLike | None = None
) -> Array:
    """(n_t, n_joints) torques of the joints without friction, of links and rotors alone.

    Arguments are those of `inverse_dynamics`.
    """
    q, v, a = _check_motion(robot, q, v, a)
    rows = theta_rows(robot, theta, len(q)).copy()
    frictions = np.arange(robot.layout.rotor.stop, robot.layout.size)
    inertias = np.flatnonzero([term == "Iam" for term, _ in robot.layout.coupled])
    rows[:, np.setdiff1d(frictions, robot.layout.coupling.start + inertias)] = 0.0
    return inverse_dynamics(robot, q, v, a, theta=rows)[:, robot.nv - robot.n_joints :]


def _multiply_by_loads(
    Y: Array, load: Array, robot: Robot, columns: NDArray[np.int64] | None
) -> None:
    """Make columns of Y per unit of load those of the loads (n_t, n_joints), in place."""
    first, base = robot.layout.friction("Fl").start, robot.nv - robot.n_joints
    places = np.arange(robot.layout.size) if columns is None else np.asarray(columns)
    for k, place in enumerate(places):
        j = int(place) - first
        if 0 <= j < robot.n_joints:
            Y[:, base + j, k] *= np.abs(load[:, j])


def _needs_no_load(robot: Robot, what: str, source: str) -> MismatchError:
    law = robot.friction.model
    return MismatchError(
        f"{what} cannot have friction {law.name!r} of {robot.name!r}, which depends on the load: "
        f"use robot.with_friction({law.without_load.name!r}), or no {source}."
    )


def _output(shape: tuple[int, int, int], out: Array | None) -> Array:
    if out is None:
        return np.zeros(shape)
    if out.shape != shape or out.dtype != np.float64 or not out.flags.c_contiguous:
        raise ShapeError(f"out must be a C-contiguous float64 array of shape {shape}.")
    return out


def gravity_regressor(
    robot: Robot, q: ArrayLike, *, columns: NDArray[np.int64] | None = None
) -> Array:
    """Y of the torques that hold the robot still: (n_t, nv, n_columns) from q (n_t, nq)."""
    require_robot(robot)
    q = as_array(q, (None, robot.nq), "q")
    still = np.zeros((q.shape[0], robot.nv))
    return torque_regressor(robot, q, still, still, columns=columns)


def regressor_pattern(robot: Robot) -> NDArray[np.bool_]:
    """(nv, p) where Y may be nonzero: a link acts on the joints above it alone."""
    n, base, layout = robot.n_joints, robot.nv - robot.n_joints, robot.layout
    pattern = np.zeros((robot.nv, layout.size), dtype=bool)
    pattern[:base, layout.inertial] = True
    for j in range(n):
        link = layout.link(j + int(robot.floating_base))
        above = j
        while above >= 0:
            pattern[base + above, link] = True
            above = int(robot.tree.parent[above])
    own = np.eye(n, dtype=bool)
    for k in range(1 + len(layout.friction_terms)):
        start = layout.rotor.start + n * k
        pattern[base:, start : start + n] = own
    pattern[base:, layout.coupling] = robot.tree.coupling.T != 0.0
    return pattern


def _check_columns(robot: Robot, columns: NDArray[np.int64]) -> NDArray[np.int64]:
    kept = np.asarray(columns)
    last = robot.layout.size - 1
    fits = kept.ndim == 1 and (kept.size == 0 or kept.dtype.kind in "iu")
    if not fits or (kept < 0).any() or (kept > last).any():
        raise ShapeError(
            f"columns must be places in theta, integers from 0 to {last}: take them from "
            "layout.index or, for a mask, from numpy.flatnonzero."
        )
    return np.ascontiguousarray(kept, dtype=np.int64)


def _rebase_rows(robot: Robot, q: Array, base_link: str, Y: Array) -> None:
    """Turn the rows of a floating-base regressor into those for another base link, in place.

    Velocities with link b as the base are ν' = T ν with ν'_base = X_b0 v_0 + J_b v_joints, so
    forces are τ = Tᵀ τ':

        τ'_base = X_b0⁻ᵀ τ_base,      τ'_joints = τ_joints - J_bᵀ τ'_base.

    The map is invertible, so that the identifiable combinations do not depend on the base link
    (paper 003, Traversaro et al. 2015).
    """
    if base_link not in robot.link_names:
        raise unknown_name("link", base_link, robot.link_names)
    if not robot.floating_base:
        raise unknown_name(
            "base link", base_link, (), "Load the robot with floating_base=True to choose its base."
        )
    joint = robot.link_names.index(base_link) + 1
    data = robot.model.createData()
    for t in range(q.shape[0]):
        J = pin.computeJointJacobian(robot.model, data, q[t], joint)
        Y[t, :6] = np.linalg.solve(J[:, :6].T, Y[t, :6])
        Y[t, 6:] -= J[:, 6:].T @ Y[t, :6]


def contact_map(robot: Robot, q: ArrayLike, frames: list[str]) -> Array:
    """Map contact wrenches to generalised forces: M a + h = tau + G f.

    G (n_t, nv, 6 len(frames)) holds the transposed frame Jacobians side by side, at q (n_t, nq), of
    the named frames (links, sensors, any frame of the model) where the wrenches act. f stacks the
    wrenches that the environment exerts, linear first, each in its own frame.
    """
    require_robot(robot)
    q = as_array(q, (None, robot.nq), "q")
    names = [frame.name for frame in robot.model.frames]
    for frame in frames:
        if frame not in names:
            raise unknown_name("frame", frame, names)
    data = robot.model.createData()
    G = np.empty((q.shape[0], robot.nv, 6 * len(frames)))
    for t in range(q.shape[0]):
        pin.computeJointJacobians(robot.model, data, q[t])
        pin.updateFramePlacements(robot.model, data)
        for k, frame in enumerate(frames):
            J = pin.getFrameJacobian(
                robot.model, data, names.index(frame), pin.ReferenceFrame.LOCAL
            )
            G[t, :, 6 * k : 6 * k + 6] = J.T
    return G


def energy_regressor(robot: Robot, q: ArrayLike, v: ArrayLike) -> Array:
    """Rows (n_t, p) of the kinetic plus potential energy [J] at q (n_t, nq), v (n_t, nv).

    Friction columns are zero. The potential energy is zero at the world's origin.
    """
    require_robot(robot)
    q = as_array(q, (None, robot.nq), f"q of {robot.name}")
    v = as_array(v, (q.shape[0], robot.nv), f"v of {robot.name}")
    height = np.zeros(q.shape[0])
    if robot.floating_base:
        p_world_root = robot.model.jointPlacements[1].translation
        height -= q[:, :3] @ robot.tree.gravity + p_world_root @ robot.model.gravity.linear
    rows = np.zeros((q.shape[0], robot.layout.size))
    batch = Energies(_joint_coordinates(robot, q), v, _gravity_in_base(robot, q), height, rows)
    in_shares(energy_batch, len(q), robot.tree, batch)
    return rows


def power_regressor(
    robot: Robot,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike | None = None,
    *,
    theta: ArrayLike | None = None,
) -> Array:
    """Rows (n_t, p) of the power [W] that friction takes; inertial columns are zero.

    Friction that depends on the load needs accelerations a (n_t, nv), and parameters theta (p,)
    that the load follows from, as in `torque_regressor`; no other law does.

    Raises:
        MismatchError: friction that depends on the load, without accelerations.
    """
    require_robot(robot)
    if a is None and robot.friction.model.depends_on_load:
        raise _needs_no_load(robot, "the power of friction without accelerations", "energy")
    q = as_array(q, (None, robot.nq), f"q of {robot.name}")
    v = as_array(v, (q.shape[0], robot.nv), f"v of {robot.name}")
    columns = np.arange(robot.layout.rotor.stop, robot.layout.size)
    moved = np.zeros_like(v) if a is None else a
    Y = torque_regressor(robot, q, v, moved, columns=columns, theta=theta)
    rows = np.zeros((q.shape[0], robot.layout.size))
    if columns.size:
        rows[:, columns] = np.einsum("tij,ti->tj", Y, v)
    return rows


def work_regressor(
    robot: Robot, t: ArrayLike, q: ArrayLike, v: ArrayLike, *, stride: int = 1
) -> Array:
    """Rows of the work that the torques do between samples: ``work = rows @ theta`` [J].

    Row by row, (n_rows, p), energy gained plus friction's work (trapezoidal rule) over an interval
    of `stride` samples; intervals follow each other without overlap. t (n_t,) ascends [s]. `work`
    on the left is the integral of tau · v by the same rule, see `work`.
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
