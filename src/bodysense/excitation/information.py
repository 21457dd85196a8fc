"""What motions show of the parameters: base parameters, regressor, noise, standard deviations.

With rows divided by the standard deviation of the torque's noise, motions have the information
M = WᵀW, and the covariance of the estimate by weighted least squares is

    Sigma = (WᵀW)⁻¹.

The noise is taken for white: every sample of the recording counts, so that four times the rate
halves the standard deviations. A filter that is applied to both sides of the equations, and
leaves the motion as it is, loses none of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import TrajectoryError
from bodysense.excitation.limits import MotionLimits
from bodysense.robot._kernels.adjoint import regressor_rows, regressor_rows_adjoint
from bodysense.robot.base_parameters import BaseParameters, base_parameters_from_regressor
from bodysense.robot.dynamics import inverse_dynamics, regressor_pattern, torque_regressor
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, one_each

_NOISE_SHARE = 0.01  # of the torque's size: its noise
_EFFORT_SHARE = 0.1  # of the effort limit: root mean square of a motion's torque, about
_GRAVITY_SHARE = 0.5  # of gravity's greatest torque, likewise
_MOTION_SHARE = 0.25  # of the greatest speeds and accelerations, likewise
EIGENVALUE_FLOOR = 1e-15  # of the largest eigenvalue: smaller ones are rounding
_WIDTH = 0.02  # [rad/s or m/s] over which the sign in friction is smoothed


def information(W: Array) -> Array:
    """M = WᵀW (b, b) of rows W (…, b)."""
    rows = W.reshape(-1, W.shape[-1])
    return np.asarray(rows.T @ rows)


@dataclass(frozen=True, eq=False)
class BaseRegressor:
    """W(q, v, a) of m moving joints and b base parameters, rows times a scale.

    It runs on the thread that calls it, without Python's lock, so that several optimisations can
    run at once.
    """

    robot: Robot
    moving: NDArray[np.int64]
    base: BaseParameters

    @cached_property
    def _entries(self) -> NDArray[np.int64]:
        """(n_e, 4) entries of Y that are not zero: row, column, row and column in W."""
        pattern = regressor_pattern(self.robot)[np.ix_(self.moving, self.base.independent)]
        rows, columns = np.nonzero(pattern)
        entries = [self.moving[rows], self.base.independent[columns], rows, columns]
        return np.ascontiguousarray(np.stack(entries, axis=1), dtype=np.int64)

    def rows(self, q: Array, v: Array, a: Array, scale: Array) -> Array:
        """W (n, m, b) at samples q, v, a (n, n_joints), each row times its scale (m,)."""
        W = np.zeros((q.shape[0], self.moving.size, self.base.size))
        q, v, a = (np.require(x, requirements=("C", "W")) for x in (q, v, a))
        regressor_rows(0, q.shape[0], self.robot.tree, q, v, a, self._entries, scale, W)
        return W

    def pull(
        self, q: Array, v: Array, a: Array, scale: Array, Z: Array
    ) -> tuple[Array, Array, Array]:
        """Gradients (n, n_joints) by q, v, a of a function of W with df/dW = Z (n, m, b)."""
        q, v, a, Z = (np.require(x, requirements=("C", "W")) for x in (q, v, a, Z))
        gq, gv, ga = np.zeros_like(q), np.zeros_like(q), np.zeros_like(q)
        regressor_rows_adjoint(
            0, q.shape[0], self.robot.tree, q, v, a, self._entries, scale, Z, gq, gv, ga
        )
        return gq, gv, ga


def moving_base_parameters(
    robot: Robot, moving: NDArray[np.int64], pose: Array, *, still: bool = False
) -> BaseParameters:
    """Base parameters that the torques of moving joints (m,) show while the others hold a pose.

    Found as by `base_parameters`, numerically from random motions, but of these joints alone.
    What the torques of held joints would show does not count: brakes or a grip may hold them. With
    `still`, joints stand in each of many poses, so that gravity and offsets alone show.
    """
    rng = np.random.default_rng(0)
    n_t = 40 + 4 * robot.layout.size // moving.size
    q = np.tile(pose, (n_t, 1))
    v, a = np.zeros_like(q), np.zeros_like(q)
    q[:, moving] = rng.uniform(-np.pi, np.pi, (n_t, moving.size))
    if not still:
        v[:, moving] = 2.0 * rng.standard_normal((n_t, moving.size))
        a[:, moving] = 4.0 * rng.standard_normal((n_t, moving.size))
    Y = torque_regressor(robot, q, v, a)[:, moving].reshape(-1, robot.layout.size)
    return base_parameters_from_regressor(robot, Y, 1e-5)


def with_smooth_friction(robot: Robot, friction: str | None) -> tuple[Robot, tuple[str, ...]]:
    """The robot with a friction law, its own if None, smooth in v and without load; and notes."""
    changed, notes = robot if friction is None else robot.with_friction(friction), []
    law = changed.friction.model
    if law.depends_on_load:
        law = law.without_load
        changed = changed.with_friction(law)
        notes.append(f"friction was taken as {law.name!r}, without load, for the optimisation.")
    if "width" not in law.shape or law.custom is not None:
        return changed, tuple(notes)
    width = changed.friction.shape[:, law.shape.index("width")]
    if (width >= _WIDTH).all():
        return changed, tuple(notes)
    notes.append(
        f"the sign in friction was smoothed over {_WIDTH:g} rad/s or m/s for the optimisation."
    )
    return changed.with_friction(law, width=np.maximum(width, _WIDTH)), tuple(notes)


def condition_number(M: Array) -> float:
    """cond(W) = sqrt(cond(M)), infinite for a singular M."""
    values = np.linalg.eigvalsh(M)
    if not values[0] > EIGENVALUE_FLOOR * values[-1]:
        return float("inf")
    return float(np.sqrt(values[-1] / values[0]))


def _torque_scale(robot: Robot, effort: Array) -> Array:
    """(n_joints,) size of the torques: the effort limit, or where there is none that of gravity.

    Gravity's is its greatest torque over random poses; joints that gravity does not load take the
    robot's greatest one, robots without any load 1 N·m.
    """
    rng = np.random.default_rng(0)
    q = rng.uniform(-np.pi, np.pi, (100, robot.n_joints))
    still = np.zeros_like(q)
    gravity = np.abs(inverse_dynamics(robot, q, still, still)).max(axis=0)
    most = gravity.max(initial=0.0)
    gravity = np.where(gravity > 0.01 * most, gravity, most if most > 0.0 else 1.0)
    return np.asarray(np.where(np.isfinite(effort), effort, gravity))


def torque_noise(robot: Robot, effort: Array, noise: ArrayLike | None) -> Array:
    """(n_joints,) standard deviations of the raw torque's white noise [N·m or N].

    If None, 1 % of the torque's size, see `_torque_scale`.
    """
    if noise is None:
        return _NOISE_SHARE * _torque_scale(robot, effort)
    sigma = one_each(noise, robot.n_joints, "noise")
    if not (sigma > 0.0).all():
        j = int(np.argmin(sigma))
        raise TrajectoryError(
            f"noise of joint {robot.joint_names[j]} is {sigma[j]:g}: give its standard deviation, "
            "a number above zero."
        )
    return sigma


def plausible_sizes(robot: Robot, limits: MotionLimits, base: BaseParameters) -> Array:
    """(b,) how large base parameters could be: all that is grouped into them, as if random."""
    return np.asarray(np.sqrt(base.mapping**2 @ _parameter_sizes(robot, limits) ** 2))


def _parameter_sizes(robot: Robot, limits: MotionLimits) -> Array:
    """(layout.size,) how large each parameter could plausibly be.

    For a link of mass m with radius r (the greater of the distance of its centre of mass and its
    radius of gyration): m, m r and m r² for mass, first moments and inertia. For a drive what
    would by itself explain the torque of a motion, as an identification judges them: a torque of
    10 % of the effort limit, or of half of gravity's greatest torque where there is none, over a
    quarter of the greatest acceleration for a rotor, over a quarter of the greatest speed for
    friction that grows with it (1 rad/s or 1 rad/s² where a joint may not move).
    """
    velocity = np.where(limits.velocity > 0.0, _MOTION_SHARE * limits.velocity, 1.0)
    fastest = limits.acceleration
    acceleration = np.where(fastest > 0.0, _MOTION_SHARE * fastest, 1.0)
    layout = robot.layout
    size = np.empty(layout.size)
    least = max(1e-3 * sum(robot.pi(k)[0] for k in range(layout.n_links)), 1e-3)
    for k in range(layout.n_links):
        pi = robot.pi(k)
        m = max(pi[0], least)
        trace = max(0.5 * (pi[4] + pi[6] + pi[9]), 0.0)
        r = max(float(np.linalg.norm(pi[1:4])) / m, np.sqrt(trace / m), 0.01)
        size[layout.link(k)] = m * np.array([1.0, r, r, r, r**2, r**2, r**2, r**2, r**2, r**2])
    share = np.where(np.isfinite(limits.effort), _EFFORT_SHARE, _GRAVITY_SHARE)
    torque = share * _torque_scale(robot, limits.effort)
    size[layout.rotor] = torque / acceleration
    for term in layout.friction_terms:
        size[layout.friction(term)] = torque / velocity if term == "Fv" else torque
    for place, (term, motor) in zip(
        range(layout.coupling.start, layout.size), layout.coupled, strict=True
    ):
        by = {"Iam": torque[motor] / acceleration[motor], "Fvm": torque[motor] / velocity[motor]}
        size[place] = by.get(term, torque[motor])
    return size


def standard_deviations(M: Array) -> Array:
    """(b,) square roots of the diagonal of M⁻¹; infinite where M does not tell."""
    scale = np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
    silent = values <= 1e-14 * values.max(initial=1.0)
    inverse = np.where(silent, 0.0, 1.0 / np.where(silent, 1.0, values))
    sigma = np.sqrt((vectors**2) @ inverse) / scale
    affected = (vectors[:, silent] ** 2).sum(axis=1) > 1e-6
    return np.asarray(np.where(affected, np.inf, sigma))
