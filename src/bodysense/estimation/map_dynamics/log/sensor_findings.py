"""What speaks against the sensors of a recording: units, mounting, signs; how its root moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor import Finding, check_sensors, units
from bodysense.errors import MismatchError
from bodysense.estimation.map_dynamics.base_motion import StandingFeet, root_twist
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.logs.log import Log
from bodysense.sensors.motion_sensors import Gyroscope, JointVelocity, Orientation
from bodysense.spatial.arrays import Array


def unit_findings(problem: MapDynamics, readings: Array) -> list[Finding]:
    """Readings against what sensors of their kinds can read."""
    parts = {s.name: readings[:, problem.layout.slices[s.name]] for s in problem.sensors}
    return units.sensor_findings(problem.robot, problem.sensors, parts)


def mounting_findings(
    problem: MapDynamics,
    t: Array,
    motion: tuple[Array, Array, Array],
    readings: Array,
    twist: Array | None,
    gravity: Array | None,
) -> list[Finding]:
    """Whether sensors are mounted, signed and scaled as they are said to be."""
    robot, tree = problem.robot, problem.tree
    root = tree.names[0] if robot.floating_base and not tree.floating else None
    parts = {s.name: readings[:, problem.layout.slices[s.name]] for s in problem.sensors}
    return list(
        check_sensors(
            robot,
            problem.sensors,
            t,
            *motion,
            parts,
            root=root,
            gravity=gravity,
            base_twist=twist,
            touched=_standing_feet(problem),
        )
    )


def _standing_feet(problem: MapDynamics) -> tuple[str, ...]:
    """Links of a robot that floats, or stands on one, that may carry it."""
    if not problem.robot.floating_base:
        return ()
    assumptions = problem.assumptions
    links = [problem.tree.names[i] for i in problem.tree.with_unknowns]
    return tuple(x for x in links if assumptions.wrench_of(x).covariance.any())


def speed_findings(problem: MapDynamics, q: Array, dq: Array, readings: Array) -> list[Finding]:
    """Gyroscopes and velocities against the motion of the joints, on a root that stands."""
    compared = [s for s in problem.sensors if isinstance(s, Gyroscope | JointVelocity)]
    if problem.tree.floating or not compared:
        return []
    some = units.some_samples(len(q))
    robot_only = problem.with_sensors(compared)
    places = [np.arange(readings.shape[1])[problem.layout.slices[s.name]] for s in compared]
    y = readings[some][:, np.concatenate(places)]
    result = robot_only.estimate(q[some], dq[some], y, gravity=np.zeros(3), detail="means")
    findings = []
    for sensor in compared:
        read = y[:, robot_only.layout.slices[sensor.name]]
        findings += units.speed_findings(sensor, read, read - result.residual[sensor.name])
    return findings


def broken_quaternions(
    problem: MapDynamics, log: Log, rows: NDArray[np.int64], readings: Array
) -> list[Finding]:
    """Orientations that are no rotations."""
    findings = []
    for sensor in problem.sensors:
        if not isinstance(sensor, Orientation) or not sensor.channels:
            continue
        columns = [log.channels[name][rows] for name in sensor.channels]
        recorded = int(np.isfinite(columns).all(axis=0).sum())
        valid = np.isfinite(readings[:, problem.layout.slices[sensor.name]]).all(axis=1)
        findings += units.quaternion_findings(sensor, recorded, int(valid.sum()), rows.size)
    return findings


def base_twist(
    problem: MapDynamics, q: Array, dq: Array, readings: Array, feet: StandingFeet | None
) -> tuple[Array | None, list[str]]:
    """Twist of a floating root by gyroscopes and standing feet, (T, 6)."""
    if not problem.tree.floating:
        return None, []
    root, twist = problem.tree.names[0], root_twist(problem, q, dq, readings, feet=feet)
    share = float(twist.known.mean())
    if share == 1.0:
        return twist.held, []
    if share == 0.0:
        raise MismatchError(
            f"nothing tells how {root} turns, which floats: add a gyroscope on any link to the "
            "sensors file, or say which feet stand (base: {standing: [l_sole, r_sole]}), or which "
            "link is held (base: {link: ..., fixed: true, gravity: [0, 0, -9.81]})."
        )
    return twist.held, [
        f"how {root} turns is not known at {100.0 * (1.0 - share):.2g} % of the samples, where no "
        "gyroscope gives a reading: there it is taken to turn as before"
    ]
