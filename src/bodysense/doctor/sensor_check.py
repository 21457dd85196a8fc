"""`check_sensors`: whether sensors are mounted, signed, scaled and zeroed as their file says.

From the motion of the joints and from how the base stands follows what every sensor reads of a
robot that nothing touches. Of a robot that floats, the gyroscope and the accelerometer of its base
say how it moves, and these are held against links that stand on the ground. Links that are in
contact all the time hide what lies behind them; contacts of some time stand out from the rest of
the samples and are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.doctor.force_torque import WrenchReading, wrench_findings
from bodysense.doctor.imu_mounting import floating_imu_findings, imu_findings
from bodysense.doctor.joint_torques import torque_findings
from bodysense.doctor.motion import CondensedMotion
from bodysense.robot.robot import Robot, require_robot
from bodysense.sensors.link_motion import LinkMotion
from bodysense.sensors.motion_sensors import Accelerometer, Gyroscope, JointTorque, LinkSensor
from bodysense.sensors.sensor import Mount, Sensor
from bodysense.sensors.wrench_sensors import ExternalWrench, ForceTorque
from bodysense.spatial.arrays import Array
from bodysense.status import SEVERITIES, Finding

_MOST = 400  # samples that are looked at, about: enough for all that is claimed
_SPEAKS = 0.5  # share of samples with a reading below which a torque sensor is left out
_LEAST = 30  # samples: fewer say nothing
_LIGHTEST = 0.02  # kg: of less, the direction of its weight is that of the link's acceleration
_SMOOTH = 0.1  # s: averages of a base's rates before they are differentiated
_BLAMED = 2  # force/torque sensors with wrong axes, from which the accelerometer is blamed


def check_sensors(
    robot: Robot,
    sensors: Sequence[Sensor],
    t: Array,
    q: Array,
    dq: Array,
    ddq: Array,
    readings: Mapping[str, Array],
    *,
    root: str | None = None,
    gravity: ArrayLike | None = None,
    base_twist: Array | None = None,
    touched: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Hold the readings of force/torque sensors, IMUs and joint torques against the model.

    Args:
        robot: that carries the sensors.
        sensors: as the sensors file has them; kinds that are not checked may be among them.
        t: (T,) times [s], ascending.
        q: (T, n_joints) positions of the joints.
        dq: (T, n_joints) velocities.
        ddq: (T, n_joints) accelerations.
        readings: (T, m) by sensor, NaN where there is none.
        root: the link of a floating robot that is held still; `None` if its base floats.
        gravity: (3,) in the frame of the root that is held, or of a base that is bolted to the
            world; by default the robot's own.
        base_twist: (T, 6) of a base that floats, in its frame; by default from its gyroscope.
        touched: links that are in contact most of the time, as feet that stand: nothing is told of
            what lies behind them. Contacts that come and go, as of hands, need not be named.

    Returns:
        What speaks against the sensors file, errors first.
    """
    require_robot(robot)
    sensors = [s for s in sensors if s.channels and s.name in readings]
    checked = [s for s in sensors if isinstance(s, Gyroscope | Accelerometer | ForceTorque)]
    torques = [s for s in sensors if isinstance(s, JointTorque)]
    if not (checked or torques) or len(t) < _LEAST:
        return ()
    named = {*touched, *_contact_links(robot, sensors)}
    touched = [link for link in robot.link_names if link in named]
    floats = robot.floating_base and root is None
    base: dict[str, Array] = {}
    if floats:
        base = _base_motion(robot, sensors, t, base_twist, readings)
    some = _some_samples([q, dq, ddq, *base.values()], [readings[s.name] for s in sensors])
    if len(some) < _LEAST:
        return ()
    joints = tuple(np.asarray(x)[some] for x in (q, dq, ddq))
    y = {s.name: np.asarray(readings[s.name])[some] for s in [*checked, *torques]}
    motion = LinkMotion.of(
        robot, *joints, root=root, gravity=gravity, **{key: x[some] for key, x in base.items()}
    )
    imus = [s for s in checked if isinstance(s, Gyroscope | Accelerometer)]
    wrenches = [s for s in checked if isinstance(s, ForceTorque)]
    if floats:
        findings = floating_imu_findings(imus, motion, y, touched)
        of_base = [s.who for s in imus if s.placement(robot).link == robot.link_names[0]]
        weighed = "base_acceleration" in base and not {f.where for f in findings} & set(of_base)
    else:
        findings = [f for s in imus for f in _imu(robot, s, motion, y[s.name])]
        weighed = True
    if weighed:
        found = [f for s in wrenches for f in _wrench(robot, s, motion, y[s.name], touched)]
        findings += _blamed(imus, found) if floats else found
        findings += _torques(robot, torques, motion, y, touched)
    return tuple(sorted(findings, key=lambda f: SEVERITIES.index(f.severity)))


def _some_samples(motion: Sequence[Array], readings: Sequence[Array]) -> NDArray[np.intp]:
    """Samples with a known motion from all over the log, those first at which all sensors read.

    They are chosen at random, the same every time: sensors that read at every n-th sample, as
    those of a lower rate do, would be missed at even distances.
    """
    known = np.isfinite(np.column_stack(list(motion))).all(axis=1)
    full = known & np.isfinite(np.column_stack(list(readings))).all(axis=1)
    rows = np.flatnonzero(full if full.sum() > _MOST else known)
    edges = np.linspace(0, len(rows), min(len(rows), _MOST) + 1)
    inside = np.random.default_rng(0).uniform(size=len(edges) - 1)
    return np.asarray(rows[(edges[:-1] + inside * np.diff(edges)).astype(int)], dtype=np.intp)


def _contact_links(robot: Robot, sensors: Sequence[Sensor]) -> list[str]:
    """Links whose contacts are measured as a whole, as by a force plate under a foot."""
    plates = [s for s in sensors if isinstance(s, ExternalWrench)]
    return [s.placement(robot).link for s in plates]


def _base_motion(
    robot: Robot,
    sensors: Sequence[Sensor],
    t: Array,
    base_twist: Array | None,
    readings: Mapping[str, Array],
) -> dict[str, Array]:
    """Twist and proper acceleration of a base that floats, as far as its sensors give them."""
    link = robot.link_names[0]
    of_base: dict[type, LinkSensor] = {}
    for s in sensors:
        if isinstance(s, Gyroscope | Accelerometer) and s.placement(robot).link == link:
            of_base.setdefault(type(s), s)
    gyroscope, accelerometer = of_base.get(Gyroscope), of_base.get(Accelerometer)
    if base_twist is None and gyroscope is not None:
        R = gyroscope.placement(robot).R
        base_twist = np.zeros((len(t), 6))
        base_twist[:, 3:] = np.asarray(readings[gyroscope.name]) @ R.T
    if base_twist is None:
        return {}
    base = {"base_twist": np.asarray(base_twist, dtype=np.float64)}
    if accelerometer is not None:
        from scipy.ndimage import uniform_filter1d

        width = max(1, round(_SMOOTH * (len(t) - 1) / float(t[-1] - t[0])))
        place = accelerometer.placement(robot)
        omega = uniform_filter1d(base["base_twist"][:, 3:], width, axis=0)
        change = np.gradient(omega, t, axis=0)
        a = uniform_filter1d(np.asarray(readings[accelerometer.name]), width, axis=0) @ place.R.T
        lever = np.cross(change, place.p) + np.cross(omega, np.cross(omega, place.p))
        v = base["base_twist"][:, :3]  # of which the spatial acceleration holds a part
        base["base_acceleration"] = np.column_stack([a - lever - np.cross(omega, v), change])
    return base


def _imu(
    robot: Robot, sensor: Gyroscope | Accelerometer, motion: LinkMotion, y: Array
) -> list[Finding]:
    u = motion.predict(sensor.measurement(robot))
    use = np.isfinite(y).all(axis=1)
    if u is None or use.sum() < _LEAST:
        return []
    return imu_findings(sensor, y[use], u[use])


def _wrench(
    robot: Robot, sensor: ForceTorque, motion: LinkMotion, y: Array, touched: Collection[str]
) -> list[Finding]:
    m = sensor.measurement(robot)
    joint, link = str(m.joint), str(m.link)
    side, stated = motion.free_side(joint, touched), motion.predict(m, touched)
    use = np.isfinite(y).all(axis=1)
    if side is None or stated is None or use.sum() < _LEAST:
        return []
    before = 0.0 if sensor.sub_link is None else float(sensor.sub_link[0])
    beyond = float(side.max()) > 0.0
    mass = motion.carried_mass(side) + (-before if beyond else before)
    mount = Mount(link) if sensor.mount is None else sensor.mount
    if mass > _LIGHTEST:
        u = stated[:, :3] / mass
    else:
        point = Accelerometer(name=sensor.name, mount=mount, covariance=np.eye(3))
        above = link == robot.link_names[robot.joint_names.index(joint) + int(robot.floating_base)]
        sign = sensor.sign * (1.0 if above else -1.0) * (1.0 if beyond else -1.0)
        a = motion.predict(point.measurement(robot))
        u = sign * (np.zeros_like(stated[:, :3]) if a is None else a)
    return wrench_findings(WrenchReading(sensor, mount, y[use], stated[use], u[use], mass))


def _blamed(imus: Sequence[Sensor], found: list[Finding]) -> list[Finding]:
    """Where several sensors contradict the accelerometer by which gravity is known, that is it."""
    axes = [f for f in found if f.kind in ("sensor-sign", "sensor-frame")]
    accelerometer = next((s for s in imus if isinstance(s, Accelerometer)), None)
    if accelerometer is None or len(axes) < _BLAMED or len(axes) < 0.5 * len(found):
        return found
    text = f"{len(axes)} force/torque sensors find gravity elsewhere ({axes[0].where}: "
    text += f"{axes[0].message})"
    action = "check first how it is mounted (`rpy:` in the sensors file, `gain: -1` in the layout "
    action += "file if it reads gravity itself), for it is what tells where up is"
    return [Finding("sensor-frame", "warning", accelerometer.who, text, action)]


def _torques(
    robot: Robot,
    torques: Sequence[JointTorque],
    motion: LinkMotion,
    y: Mapping[str, Array],
    touched: Collection[str],
) -> list[Finding]:
    sensors = {s.joint_index(robot): s for s in torques}
    tau, m = np.zeros((2, motion.size, robot.n_joints))
    known = np.zeros(robot.n_joints, dtype=bool)
    for j, sensor in sensors.items():
        tau[:, j] = y[sensor.name][:, 0]
        side = motion.free_side(sensor.joint, touched)
        if side is not None:
            m[:, j], known[j] = _torque(motion, sensor.joint, side), True
    # A sensor that is silent for half of the time tells nothing, and must not silence the others.
    silent = np.mean(np.isfinite(tau), axis=0) < _SPEAKS
    sensors = {j: sensor for j, sensor in sensors.items() if not silent[j]}
    tau[:, silent], known = 0.0, known & ~silent
    use = np.flatnonzero(np.isfinite(tau).all(axis=1))
    if not known.any() or use.size < _LEAST:
        return []
    some = CondensedMotion(motion.q[use], motion.dq[use], motion.ddq[use], tau[use], None)
    return torque_findings(robot, sensors, some, m[use], known)


def _torque(motion: LinkMotion, joint: str, side: Array) -> Array:
    """(T,) what the links on a side need of a joint."""
    w, tree = motion.transmitted(joint, side), motion.robot.tree
    j = motion.robot.joint_names.index(joint)
    return np.asarray(w[:, slice(0, 3) if tree.prismatic[j] else slice(3, 6)] @ tree.axis[j])
