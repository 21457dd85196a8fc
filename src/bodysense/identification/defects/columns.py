"""What each defect of a log does to the torques, and how a log is freed of it.

A log with a defect of size x has other torques than the model predicts, by x times a column:

    zero of joint j     q_log = q + x e_j           -∂tau/∂q_j
    delay               tau_log(t) = tau(t - x)     -d tau/dt
    time scale          t_log = (1 + x) t           ∂tau/∂v v + 2 ∂tau/∂a a
    torque scale of j   tau_log = (1 + x) tau       tau_j, in the rows of joint j
    tilt of gravity     g_true = g + |g| x e        |g| ∂tau/∂g e,    e normal to g

with derivatives at the model's estimate. Friction that the law does not describe must not pass for
a defect: for every joint there are two more columns, of what friction laws lack most often. One
lets friction lag behind the velocity (as hysteresis does), the other lets it grow with the load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.interpolate import make_interp_spline

from bodysense.identification.preprocessing import Motion
from bodysense.logs.filtering import differentiate
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_STEP = 1e-6  # of central differences, in units of the defect
_REVERSAL = 0.02  # rad/s: over which load-dependent friction reverses


@dataclass(frozen=True)
class Suspect:
    """A defect that a log may have.

    Attributes:
        kind: ``zero``, ``delay``, ``time``, ``scale`` or ``tilt``.
        at: which joint, or which of the two axes normal to gravity; 0 where there is one alone.
    """

    kind: str
    at: int = 0


@dataclass(frozen=True, eq=False)
class PredictedTorques:
    """Torques that a model predicts for a motion, and their derivatives.

    Attributes:
        robot: the model's geometry and friction law.
        theta: (p,) its parameters.
        q: (m, n) positions.
        v: (m, n) velocities.
        a: (m, n) accelerations.
        rate: samples per second [Hz].
    """

    robot: Robot
    theta: Array
    q: Array
    v: Array
    a: Array
    rate: float

    @cached_property
    def tau(self) -> Array:
        """(m, n) predicted torques."""
        return inverse_dynamics(self.robot, self.q, self.v, self.a, theta=self.theta)

    def column(self, suspect: Suspect) -> Array:
        """(m, n) change of the log's torques over the model's per unit of a defect."""
        return _COLUMNS[suspect.kind](self, suspect.at)

    def friction_columns(self) -> list[Array]:
        """2n columns (m, n): friction that lags, and friction that grows with the load."""
        layout = self.robot.layout
        links, drives = np.array(self.theta), np.array(self.theta)
        links[layout.n_inertial :] = 0.0
        drives[: layout.rotor.stop] = 0.0
        friction, load = (
            inverse_dynamics(self.robot, self.q, self.v, self.a, theta=theta)
            for theta in (drives, links)
        )
        lag = -differentiate(friction, self.rate)
        grown = np.abs(load) * np.tanh(self.v / _REVERSAL)
        joints = range(self.robot.n_joints)
        return [_of_joint(part, j) for part in (lag, grown) for j in joints]

    def along(
        self, q: Array | float = 0.0, v: Array | float = 0.0, a: Array | float = 0.0
    ) -> Array:
        """(m, n) derivative of the torques along a change of the motion."""
        ahead, behind = (
            inverse_dynamics(
                self.robot,
                self.q + h * q,
                self.v + h * v,
                self.a + h * a,
                theta=self.theta,
            )
            for h in (_STEP, -_STEP)
        )
        return np.asarray((ahead - behind) / (2.0 * _STEP))


def _of_joint(x: Array, j: int) -> Array:
    """(m, n) one column of x alone, zeros elsewhere."""
    out = np.zeros_like(x)
    out[:, j] = x[:, j]
    return out


def _zero_column(torques: PredictedTorques, j: int) -> Array:
    return -torques.along(q=np.eye(torques.robot.n_joints)[j])


def _tilt_column(torques: PredictedTorques, axis: int) -> Array:
    g = gravity_of(torques.robot)
    e = across(g)[axis] * np.linalg.norm(g)
    more = with_gravity(torques.robot, g + e)  # torques are linear in gravity: no small step
    tau = inverse_dynamics(more, torques.q, torques.v, torques.a, theta=torques.theta)
    return np.asarray(tau - torques.tau)


_COLUMNS: dict[str, Callable[[PredictedTorques, int], Array]] = {
    "zero": _zero_column,
    "delay": lambda torques, _: -differentiate(torques.tau, torques.rate),
    "time": lambda torques, _: torques.along(v=torques.v, a=2.0 * torques.a),
    "scale": lambda torques, j: _of_joint(torques.tau, j),
    "tilt": _tilt_column,
}


TILTS = (Suspect("tilt", 0), Suspect("tilt", 1))
"""What gravity along another direction is made of."""


def suspects_of(robot: Robot) -> tuple[Suspect, ...]:
    """All defects that a log of a robot may have."""
    joints = range(robot.n_joints)
    tilts = TILTS if gravity_of(robot).any() else ()
    return (
        Suspect("delay"),
        Suspect("time"),
        *(Suspect("zero", j) for j in joints),
        *(Suspect("scale", j) for j in joints),
        *tilts,
    )


# Gravity.


def gravity_of(robot: Robot) -> Array:
    """(3,) gravity in the base's frame [m/s²]."""
    return np.array(robot.model.gravity.linear)


def with_gravity(robot: Robot, gravity: Array) -> Robot:
    """The same robot where gravity is another, (3,) in the base's frame [m/s²]."""
    model = robot.model.copy()
    model.gravity.linear = np.asarray(gravity, dtype=np.float64)
    return replace(robot, model=model)


def across(gravity: Array) -> Array:
    """(2, 3) unit vectors normal to gravity, along axes of the base as far as possible."""
    down = gravity / max(float(np.linalg.norm(gravity)), np.finfo(float).tiny)
    first = np.eye(3)[(int(np.abs(down).argmax()) + 1) % 3]
    first = first - down * (down @ first)
    first = first / np.linalg.norm(first)
    return np.stack([first, np.cross(down, first)])


# A log without the defect.


def freed_motion(motion: Motion, suspect: Suspect, x: float) -> Motion:
    """The motion as it would have been logged without a defect of size x."""
    if suspect.kind == "zero":
        return replace(motion, q=_shifted(motion.q, suspect.at, x))
    if suspect.kind == "scale":
        factor = np.ones(motion.tau.shape[1])
        factor[suspect.at] = 1.0 / (1.0 + x)
        return replace(motion, tau=motion.tau * factor)
    if suspect.kind == "time":
        # Times themselves stay, and with them filters and folds.
        return replace(motion, v=motion.v * (1.0 + x), a=motion.a * (1.0 + x) ** 2)
    if suspect.kind == "delay":
        return replace(motion, tau=_earlier(motion.t, motion.tau, x))
    return motion


def _shifted(q: Array, j: int, x: float) -> Array:
    q = np.array(q)
    q[:, j] -= x
    return q


def _earlier(t: Array, tau: Array, delay: float) -> Array:
    """Torques (m, n) as they were a delay [s] later; those beyond the ends stay the last ones."""
    spline = make_interp_spline(t, tau, k=3)
    return np.asarray(spline(np.clip(t + delay, t[0], t[-1])))
