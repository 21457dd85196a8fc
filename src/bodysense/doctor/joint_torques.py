"""Torques of joints against the model, where a contact may explain a part of any of them.

Only what explains most of a torque is claimed: the opposite sign, another joint's channel, another
scale; and that no hypothesis explains any of them, as with the file of another robot. Samples that
stand out are left out, as contacts for some time do. What links, rotors and friction may need is
that of `explained_torque`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bodysense.doctor.axis_fit import usual_samples
from bodysense.doctor.explained_torque import (
    FLOOR,
    Explained,
    explain,
    loaded_torques,
    unexplained,
    weigh,
)
from bodysense.doctor.gravity import gravity_finding
from bodysense.doctor.motion import CondensedMotion
from bodysense.doctor.samples import Mask, channel_list, exchange_names, layout_edit
from bodysense.errors import listing
from bodysense.robot.robot import Robot
from bodysense.sensors.motion_sensors import JointTorque
from bodysense.spatial.arrays import Array
from bodysense.status import Finding, Severity

_CARRIES = 2.0
"""Standard deviations of its noise by which the model's torque must change to tell anything."""
_SHARE = 0.02  # of the largest torque of all joints, likewise: light joints show friction alone
_REVERSED, _NOT_PLAIN, _BETTER = 0.6, 0.3, 2.0  # as in `torque`
_OTHER, _TIMES_BETTER = 0.8, 5.0  # as in `torque`
_CERTAIN = 0.85  # share that the opposite sign must explain for an error instead of a warning
_NOTHING, _SEVERAL = 0.4, 2
"""Share of its torque, less what drives may need, that the links of the median joint must explain,
and of how many joints: of a UR10e with the masses of its URDF, with and without a load, 0.7 to 1;
of robots whose axes lie otherwise mostly less than 0.35."""
_BY_GRAVITY = 0.95  # share that another direction of gravity must explain instead
_MOST = 0.7  # share of the joints with a wrong sign, from which those that cannot tell count too
_FEW = 12  # joints of which every channel is held against every other's
_SCALE, _HEAVY_SHARE = 5.0, 0.5  # factor that no load makes; share that the links must explain
_LEAST_USUAL = 0.4  # share of samples that must agree with each other
_STILL_OPPOSITE, _STILL_WEIGHT = 0.15, 10.0  # of joints that only hold; in standard deviations


def torque_findings(
    robot: Robot, sensors: dict[int, JointTorque], motion: CondensedMotion, m: Array, known: Mask
) -> list[Finding]:
    """Signs, order and scale of joint torques.

    Args:
        robot: that carries them.
        sensors: by index of the joint.
        motion: (T, n_joints) each; `tau` holds the readings, zero where there is no sensor.
        m: (T, n_joints) what the links alone need.
        known: (n_joints,) whether m is, as contacts are expected on one side of a joint alone.
    """
    sigma = np.zeros(robot.n_joints)
    for j, sensor in sensors.items():
        sigma[j] = float(np.sqrt(sensor.covariance[0, 0]))
    has = np.isin(np.arange(robot.n_joints), list(sensors)) & known
    carries = _carrying(motion, m, sigma, has)
    if not carries.any():
        return _held(sensors, motion.tau, m, sigma, has)
    use = _usual(motion, m, carries)
    if use.mean() < _LEAST_USUAL:
        return []
    motion = CondensedMotion(motion.q[use], motion.v[use], motion.a[use], motion.tau[use], None)
    m = m[use]
    carries = _carrying(motion, m, sigma, has)
    if not carries.any():
        return []
    own = _with_load(robot, motion, m, explain(robot, motion, m, own=True), bool(has.all()))
    plain, opposite = own.plain.diagonal(), own.opposite.diagonal()
    order = _by_order(robot, sensors, motion, m, plain, carries)
    share = weigh(robot, motion, m)[1][carries]
    if order.finding is None and share.size >= _SEVERAL and np.median(share) < _NOTHING:
        part, every = float(np.median(share)), bool(has.all())
        return [_of_another_robot(robot, motion, plain, part, carries, every)]
    causes = [_Cause(plain, None), _by_sign(sensors, plain, opposite, carries, has), order]
    finding = min(causes, key=lambda cause: unexplained(cause.explained, carries)).finding
    return [finding] if finding is not None else _scales(robot, sensors, motion, m, carries)


class _Cause(NamedTuple):
    """What the joints explain of their torques if a cause is right, (n_joints,); what is said."""

    explained: Array
    finding: Finding | None


def _carrying(motion: CondensedMotion, m: Array, sigma: Array, has: Mask) -> Mask:
    """(n_joints,) whose torques the model says to change by more than noise."""
    change = m.std(axis=0)
    carries = has & (change > np.maximum(_CARRIES * sigma, _SHARE * change[has].max(initial=0.0)))
    return np.asarray(carries & (motion.tau.std(axis=0) > 0.0))


def _by_sign(
    sensors: dict[int, JointTorque], plain: Array, opposite: Array, carries: Mask, has: Mask
) -> _Cause:
    wrong = _reversed(plain, opposite) & carries
    if not wrong.any():
        return _Cause(plain, None)
    # Where most joints are wrong, those that hardly carry anything are wrong as well.
    most = np.count_nonzero(wrong) > _MOST * np.count_nonzero(carries)
    joints = np.flatnonzero(wrong | (has & most & (opposite > plain))).tolist()
    finding = _sign_finding(sensors, joints, plain, opposite)
    return _Cause(np.where(wrong, opposite, plain), finding)


def _by_order(
    robot: Robot,
    sensors: dict[int, JointTorque],
    motion: CondensedMotion,
    m: Array,
    plain: Array,
    carries: Mask,
) -> _Cause:
    if np.count_nonzero(carries) < 2 or (robot.n_joints > _FEW and plain[carries].min() > _OTHER):
        return _Cause(plain, None)
    table = explain(robot, motion, m)
    pairs = _exchanged(table, carries)
    if not pairs:
        return _Cause(plain, None)
    explained = plain.copy()
    for j, k in pairs:
        explained[[j, k]] = table.plain[j, k], table.plain[k, j]
    return _Cause(explained, _exchange_finding(sensors, pairs, table))


def _reversed(plain: Array, opposite: Array) -> Mask:
    """Where the opposite sign explains most, and this one little, or far less with any load."""
    left, other = np.maximum(1.0 - plain, FLOOR), np.maximum(1.0 - opposite, FLOOR)
    little = (opposite > _REVERSED) & (plain < _NOT_PLAIN) & (left > _BETTER * other)
    return np.asarray(little | ((opposite > _CERTAIN) & (left > _BETTER**2 * other)))


def _usual(motion: CondensedMotion, m: Array, carries: Mask) -> Mask:
    """(T,) samples at which no torque stands out; contacts move several joints at once."""
    use = np.ones(motion.n, dtype=bool)
    one = np.ones(motion.n)
    for j in np.flatnonzero(carries):
        v = motion.v[:, j]
        Z = np.column_stack([m[:, j], motion.a[:, j], v, np.sign(v), one])
        use &= usual_samples(Z, motion.tau[:, j : j + 1])
    return use


def _with_load(
    robot: Robot, motion: CondensedMotion, m: Array, own: Explained, every: bool
) -> Explained:
    """Each channel, as it is, has the benefit of a load that the robot may have held."""
    if robot.floating_base or not every:
        return own
    loaded = explain(robot, motion, loaded_torques(robot, motion, m), own=True)
    return Explained(np.maximum(own.plain, loaded.plain), own.opposite)


def _sign_finding(
    sensors: dict[int, JointTorque], joints: list[int], plain: Array, opposite: Array
) -> Finding:
    wrong = [sensors[j] for j in joints]
    gains = {channel: -1 for sensor in wrong for channel in sensor.channels}
    best = joints[int(np.argmax(opposite[joints]))]
    text = f"the opposite sign explains {_percent(opposite[best])} of the torque of "
    text += f"{sensors[best].joint}, this one {_percent(plain[best])}"
    action = f"write {layout_edit('gain', gains)}, if contacts do not explain it"
    severity: Severity = "error" if opposite[best] > _CERTAIN else "warning"
    return Finding("torque-sign", severity, listing(s.who for s in wrong), text, action)


def _exchanged(table: Explained, carries: Mask) -> list[tuple[int, int]]:
    """Pairs of joints that explain each other's torques, and hardly their own."""
    left = 1.0 - table.plain
    joints = np.flatnonzero(carries)
    pairs = []
    for i, j in enumerate(joints):
        for k in joints[i + 1 :]:
            better = (left[j, j] * left[k, k]) > _TIMES_BETTER**2 * left[j, k] * left[k, j]
            if better and min(table.plain[j, k], table.plain[k, j]) > _OTHER:
                pairs.append((int(j), int(k)))
    return pairs


def _exchange_finding(
    sensors: dict[int, JointTorque], pairs: list[tuple[int, int]], table: Explained
) -> Finding:
    j, k = pairs[0]
    names = [sensors[i].joint for pair in pairs for i in pair]
    text = f"the torque of {sensors[k].joint} fits the motion of {sensors[j].joint} "
    text += f"({_percent(table.plain[j, k])} explained, {_percent(table.plain[j, j])} of its own)"
    action = exchange_names(channel_list("tau", names))
    return Finding("swapped-joints", "error", listing(names), text, action)


def _of_another_robot(
    robot: Robot,
    motion: CondensedMotion,
    plain: Array,
    share: float,
    carries: Mask,
    every: bool,
) -> Finding:
    """Torques that links as in the file hardly explain: another mounting, or another robot."""
    if every and not robot.floating_base:
        left, gravity = gravity_finding(robot, motion, plain, carries)
        if gravity and left < np.count_nonzero(carries) * np.log(1.0 - _BY_GRAVITY):
            return gravity[0]
    return Finding(
        "wrong-robot",
        "warning",
        "tau",
        "the weight and the inertia of the robot's links explain next to nothing of the torques, "
        f"with either sign and in any order: {_percent(share)} of those of the median joint",
        "is it the file of this robot, with its masses, its zero positions and its mounting "
        "(--mount)? Are these torques, and not currents or control outputs? Or is it in contact "
        "all the time?",
    )


def _scales(
    robot: Robot, sensors: dict[int, JointTorque], motion: CondensedMotion, m: Array, carries: Mask
) -> list[Finding]:
    factor, share = weigh(robot, motion, m)
    off = carries & (share > _HEAVY_SHARE) & (factor > 0.0)
    off &= np.maximum(factor, 1.0 / np.where(factor > 0.0, factor, 1.0)) > _SCALE
    findings = []
    for j in np.flatnonzero(off):
        sensor = sensors[int(j)]
        gains = dict.fromkeys(sensor.channels, float(f"{1.0 / factor[j]:.2g}"))
        text = f"it reads {factor[j]:.3g} times what the robot's links need"
        action = f"is it a current or a motor torque? Write {layout_edit('gain', gains)}"
        findings.append(Finding("wrong-scale", "warning", sensor.who, text, action))
    return findings


def _held(
    sensors: dict[int, JointTorque], tau: Array, m: Array, sigma: Array, has: Mask
) -> list[Finding]:
    """Joints of a robot that only holds: whether all that carry weight read its opposite."""
    y, weight = np.median(tau, axis=0), np.median(m, axis=0)
    heavy = has & (np.abs(weight) > _STILL_WEIGHT * sigma)
    heavy &= np.abs(weight) > 0.1 * np.abs(weight[has]).max(initial=0.0)
    if np.count_nonzero(heavy) < 2:
        return []
    off = np.abs(y + weight)[heavy] / np.abs(weight[heavy])
    if not (off < _STILL_OPPOSITE).all():
        return []
    wrong = [sensors[int(j)] for j in np.flatnonzero(heavy)]
    gains = {channel: -1 for sensor in wrong for channel in sensor.channels}
    text = "they are the opposite of what holds the robot in this pose"
    action = f"write {layout_edit('gain', gains)}, and record a motion to be sure"
    return [Finding("torque-sign", "warning", listing(s.who for s in wrong), text, action)]


def _percent(share: float) -> str:
    return f"{100.0 * max(share, 0.0):.0f} %"
