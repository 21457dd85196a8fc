"""What each defect of a log does to the torques, and how a log is corrected for it.

A log with a defect of size x has other torques than the model predicts, by x times a column:

    zero of joint j      q_log = q + x e_j          -∂tau/∂q_j
    position scale of j  q_log = (1 + x) q          -(∂tau/∂q_j q_j + ∂tau/∂v_j v_j + ∂tau/∂a_j a_j)
    torque scale of j    tau_log = (1 + x) tau      tau_j, in the rows of joint j
    delay                tau_log(t) = tau(t - x)    -d tau/dt, or of one joint alone
    low-pass filter      tau_log = tau - x H tau    -H tau,    H passes what is above a corner
    time scale           t_log = (1 + x) t          ∂tau/∂v v + 2 ∂tau/∂a a
    drift of zero j      q_log = q + x s e_j        -s ∂tau/∂q_j
    tilt of gravity      g_true = g + |g| x e       |g| ∂tau/∂g e,    e normal to g
    drift of torque j    tau_log = tau + x s        s, in units of the torque's r.m.s.
    drift of gain j      tau_log = (1 + x (s + 1/2)) tau    (s + 1/2) tau_j, in rows of joint j
    drift of friction    F_log = (1 + x s) F        s F
    drift of the load    m_log = m + x s M          s M ∂tau/∂m of the last links

with derivatives at the model's estimate, the time s from -1/2 to 1/2 through the log, and the mass
M of the robot. Whatever filter torques have passed, above its corner nothing is left: x is 1, and
the corner of H is half of what the rows show.

Friction that the law does not describe must not pass for a defect: for every joint there are more
columns, of what friction laws lack most often. One lets friction lag behind the velocity (as
hysteresis does), one lets it grow with the load, and one is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pinocchio as pin
from scipy.interpolate import make_interp_spline

from bodysense.identification.preprocessing import Motion
from bodysense.logs.filtering import differentiate, lowpass
from bodysense.robot.dynamics import drive_loads, inverse_dynamics
from bodysense.robot.mounting import under_gravity
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_STEP = 1e-7  # of differences, in units of the defect
_LEAST_FACTOR = 0.05  # by which a torque is divided, however far its gain has drifted
_REVERSAL = 0.02  # rad/s: over which load-dependent friction reverses


@dataclass(frozen=True)
class DefectCandidate:
    """A defect that a log may have.

    Attributes:
        kind: a key of `COLUMNS`.
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
        s: (m,) time in units of the log's duration, from -1/2 to 1/2.
        size: (n,) r.m.s. torques of the joints.
        corner: frequency [Hz] above which torques are said to be filtered.
    """

    robot: Robot
    theta: Array
    q: Array
    v: Array
    a: Array
    rate: float
    s: Array
    size: Array
    corner: float

    @cached_property
    def tau(self) -> Array:
        """(m, n) predicted torques."""
        return inverse_dynamics(self.robot, self.q, self.v, self.a, theta=self.theta)

    def column(self, candidate: DefectCandidate) -> Array:
        """(m, n) change of the log's torques over the model's per unit of a defect."""
        return COLUMNS[candidate.kind](self, candidate.at)

    @cached_property
    def loads(self) -> Array:
        """(m, n) torques of links and rotors, without friction."""
        return drive_loads(self.robot, self.q, self.v, self.a, theta=self.theta)

    @property
    def friction(self) -> Array:
        """(m, n) torques of friction alone."""
        return self.tau - self.loads

    def friction_columns(self) -> list[Array]:
        """Columns (m, n) of what friction laws lack: n each that lag, grow with load, and stay."""
        lag = -differentiate(self.friction, self.rate)
        grown = np.abs(self.loads) * np.tanh(self.v / _REVERSAL)
        constant = () if "Fo" in self.robot.friction.model.terms else (np.ones_like(self.q),)
        joints = range(self.robot.n_joints)
        return [_of_joint(part, j) for part in (lag, grown, *constant) for j in joints]

    def along(
        self, q: Array | float = 0.0, v: Array | float = 0.0, a: Array | float = 0.0
    ) -> Array:
        """(m, n) derivative of the torques of links and rotors along a change of the motion.

        That of friction is left out: what depends on the velocity is a parameter of the model, but
        for reversals, where no law is quite right.
        """
        moved = (self.q + _STEP * q, self.v + _STEP * v, self.a + _STEP * a)
        return np.asarray((drive_loads(self.robot, *moved, theta=self.theta) - self.loads) / _STEP)

    @cached_property
    def zeros(self) -> Array:
        """(n, m, n) change of the torques by a zero of each joint that is off."""
        return np.stack([-self.along(q=e) for e in np.eye(self.robot.n_joints)])


def _of_joint(x: Array, j: int) -> Array:
    """(m, n) one column of x alone, zeros elsewhere."""
    out = np.zeros_like(x)
    out[:, j] = x[:, j]
    return out


def _position_scale_column(torques: PredictedTorques, j: int) -> Array:
    return -torques.along(*(_of_joint(x, j) for x in (torques.q, torques.v, torques.a)))


def _joint_delay_column(torques: PredictedTorques, j: int) -> Array:
    return _of_joint(-differentiate(torques.tau, torques.rate), j)


def _zero_drift_column(torques: PredictedTorques, j: int) -> Array:
    return np.asarray(torques.s[:, None] * torques.zeros[j])


def _tilt_column(torques: PredictedTorques, axis: int) -> Array:
    g = gravity_of(torques.robot)
    e = across(g)[axis] * np.linalg.norm(g)
    along, none = (  # torques are linear in gravity: no small step
        inverse_dynamics(
            under_gravity(torques.robot, x), torques.q, torques.v, torques.a, theta=torques.theta
        )
        for x in (e, np.zeros(3))
    )
    return np.asarray(along - none)


def _torque_drift_column(torques: PredictedTorques, j: int) -> Array:
    return _of_joint(np.outer(torques.s, torques.size), j)


def _load_drift_column(torques: PredictedTorques, _: int) -> Array:
    robot, layout = torques.robot, torques.robot.layout
    theta = np.zeros(layout.size)
    ends = [k for k in range(layout.n_links) if k not in robot.tree.parent]
    theta[[layout.link(k).start for k in ends]] = robot_mass(robot)
    tau = inverse_dynamics(robot, torques.q, torques.v, torques.a, theta=theta)
    return np.asarray(torques.s[:, None] * tau)


COLUMNS: Mapping[str, Callable[[PredictedTorques, int], Array]] = {
    "delay": lambda torques, _: -differentiate(torques.tau, torques.rate),
    "low-pass": lambda torques, _: lowpass(torques.tau, torques.rate, torques.corner) - torques.tau,
    "time": lambda torques, _: torques.along(v=torques.v, a=2.0 * torques.a),
    "joint-delay": _joint_delay_column,
    "zero": lambda torques, j: torques.zeros[j],
    "zero-drift": _zero_drift_column,
    "position-scale": _position_scale_column,
    "torque-scale": lambda torques, j: _of_joint(torques.tau, j),
    "tilt": _tilt_column,
    "torque-drift": _torque_drift_column,
    "scale-drift": lambda torques, j: _of_joint((torques.s[:, None] + 0.5) * torques.tau, j),
    "friction-drift": lambda torques, _: torques.s[:, None] * torques.friction,
    "load-drift": _load_drift_column,
}
"""By kind, in the order of the candidates."""

LINEAR = (
    "low-pass",
    "zero-drift",
    "torque-drift",
    "friction-drift",
    "load-drift",
)
"""Kinds that no log is corrected for: their columns hold however large the defect is, or, of a
low-pass filter, as what it took away is lost."""

OF_JOINTS = (
    "joint-delay",
    "zero",
    "zero-drift",
    "position-scale",
    "torque-scale",
    "torque-drift",
    "scale-drift",
)
"""Kinds that each joint may have."""

TILTS = (DefectCandidate("tilt", 0), DefectCandidate("tilt", 1))
"""What gravity along another direction is made of."""


def candidates_of(robot: Robot) -> tuple[DefectCandidate, ...]:
    """All defects that a log of a robot may have."""
    joints, weighs = range(robot.n_joints), gravity_of(robot).any()
    made: list[DefectCandidate] = []
    for kind in COLUMNS:
        if kind == "position-scale":
            # Of a last joint it hardly differs from other inertia and friction.
            made += [DefectCandidate(kind, j) for j in joints if j in robot.tree.parent]
        elif kind == "tilt":
            made += TILTS if weighs else ()
        elif kind != "time" or weighs:  # inertia alone can have any time
            made += [DefectCandidate(kind, j) for j in (joints if kind in OF_JOINTS else (0,))]
    return tuple(made)


def robot_mass(robot: Robot) -> float:
    """Of all links that move, as the file has it [kg]; 1 where it has none."""
    mass = sum(abs(float(robot.pi(k)[0])) for k in range(robot.layout.n_links))
    return mass if mass > 0.0 else 1.0


# Gravity.


def gravity_of(robot: Robot) -> Array:
    """(3,) gravity in the base's frame [m/s²]."""
    return np.array(robot.model.gravity.linear)


def with_lengths(robot: Robot, factor: float) -> Robot:
    """The same robot with all distances between its joints times a factor."""
    model = robot.model.copy()
    for k in range(1, model.njoints):
        placement = model.jointPlacements[k]
        model.jointPlacements[k] = pin.SE3(placement.rotation, factor * placement.translation)
    return replace(robot, model=model)


def across(gravity: Array) -> Array:
    """(2, 3) unit vectors normal to gravity, along axes of the base as far as possible."""
    down = gravity / max(float(np.linalg.norm(gravity)), np.finfo(float).tiny)
    first = np.eye(3)[(int(np.abs(down).argmax()) + 1) % 3]
    first = first - down * (down @ first)
    first = first / np.linalg.norm(first)
    return np.stack([first, np.cross(down, first)])


# A log without the defect.


def corrected_motion(
    motion: Motion, candidate: DefectCandidate, x: float, s: Array | float = 0.0
) -> Motion:
    """The motion as it would have been logged without a defect of size x, at times s (n_t,)."""
    if candidate.kind == "zero":
        return replace(motion, q=_shifted(motion.q, candidate.at, x))
    if candidate.kind == "position-scale":
        factor = np.ones(motion.q.shape[1])
        factor[candidate.at] = 1.0 / (1.0 + x)
        return replace(motion, q=motion.q * factor, v=motion.v * factor, a=motion.a * factor)
    if candidate.kind == "torque-scale":
        factor = np.ones(motion.tau.shape[1])
        factor[candidate.at] = 1.0 / (1.0 + x)
        return replace(motion, tau=motion.tau * factor)
    if candidate.kind == "scale-drift":
        tau = motion.tau.copy()
        tau[:, candidate.at] /= np.maximum(1.0 + x * (s + 0.5), _LEAST_FACTOR)
        return replace(motion, tau=tau)
    if candidate.kind == "time":
        # Times themselves stay, and with them filters and folds.
        return replace(motion, v=motion.v * (1.0 + x), a=motion.a * (1.0 + x) ** 2)
    if candidate.kind in ("delay", "joint-delay"):
        tau = _earlier(motion.t, motion.tau, x)
        if candidate.kind == "joint-delay":
            own = np.arange(tau.shape[1]) == candidate.at
            tau = np.where(own, tau, motion.tau)
        return replace(motion, tau=tau)
    return motion


def _shifted(q: Array, j: int, x: float) -> Array:
    q = np.array(q)
    q[:, j] -= x
    return q


def _earlier(t: Array, tau: Array, delay: float) -> Array:
    """Torques (m, n) as they were a delay [s] later; those beyond the ends stay the last ones."""
    spline = make_interp_spline(t, tau, k=3)
    return np.asarray(spline(np.clip(t + delay, t[0], t[-1])))
