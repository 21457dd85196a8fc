"""A weighed load, found by its effect on the motor currents of a real arm."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from scipy.signal import butter, sosfiltfilt

from benchmarks import ur10e
from benchmarks.result import Result
from bodysense.identification import examine
from bodysense.identification.payload.identify_drive_gains import identify_drive_gains
from bodysense.identification.payload.identify_payload import identify_payload
from bodysense.logs.log import Log
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

CLOSE = 3.0  # per cent of the weighed mass


def run(repeat: int, *, pairs: tuple[str, ...] = tuple(ur10e.PAIRS)) -> tuple[Result, ...]:
    """Compare masses with what was weighed, and gains with those of the controller."""
    robot = ur10e.robot()
    urdf = str(ur10e.folder() / "ur10e.urdf")
    results = []
    for name in pairs:
        unloaded, loaded = (ur10e.read(file) for file in ur10e.PAIRS[name])
        found = identify_payload(robot, loaded, unloaded)
        low, high = found.mass_interval()
        inside = low <= ur10e.LOAD <= high
        results.append(
            Result.judged(
                "payload",
                f"UR10e, pair {name}: mass off by, peer: joint least squares",
                unit="%",
                ours=_off(found.mass),
                peer=_off(plain_mass(robot, urdf, unloaded, loaded)),
                ours_below=CLOSE,
                notes=f"{found.mass:.3f} kg, 95 % interval {low:.3f} to {high:.3f} kg, which "
                f"{'holds' if inside else 'does not hold'} the {ur10e.LOAD} kg that were weighed; "
                "gains of the controller",
            )
        )
        gains = identify_drive_gains(robot, loaded, unloaded, load=ur10e.LOAD, nominal=ur10e.GAINS)
        before, after = (
            100.0 * float(np.mean(e)) for e in (gains.errors_before, gains.errors_after)
        )
        results.append(
            Result.judged(
                "payload",
                f"UR10e, pair {name}: held-out torque error with gains left free, peer: nominal",
                unit="%",
                ours=after,
                peer=before,
                ours_below=before,
                notes=f"gains {', '.join(f'{g:.2f}' for g in gains.gains)} N·m/A, smallest "
                f"{gains.gains.min():.2f}; mean over joints that move, on blocks left out",
            )
        )
    return tuple(results)


def _off(mass: float) -> float:
    return 100.0 * abs(mass / ur10e.LOAD - 1.0)


# The peer: one least-squares problem over arm and load, with Pinocchio and numpy. Shares no code
# with bodysense but the reading of files and the doctor's choice of rows.

CUTOFF = 10.0  # Hz
STEEP = 50.0  # of tanh(STEEP v), the sign of a velocity
BORDER = 0.5  # s


def plain_mass(robot: Robot, urdf: str, unloaded: Log, loaded: Log) -> float:
    """Mass of the load [kg], by ordinary least squares over both recordings."""
    model = pin.buildModelFromUrdf(urdf)
    empty, full = (_rows(model, robot, log) for log in (unloaded, loaded))
    last = slice(10 * (model.njoints - 2), 10 * (model.njoints - 1))
    Y = np.vstack(
        [
            np.hstack([empty[0], np.zeros((len(empty[0]), 10))]),
            np.hstack([full[0], full[0][:, last]]),
        ]
    )
    y = np.concatenate([empty[1], full[1]])
    unit = np.linalg.norm(Y, axis=0)
    unit[unit == 0.0] = 1.0
    x = np.linalg.lstsq(Y / unit, y, rcond=1e-8)[0] / unit
    return float(x[-10])


def _rows(model: pin.Model, robot: Robot, log: Log) -> tuple[Array, Array]:
    """Regressor and torques of all joints, one below the other."""
    data, n = model.createData(), model.nv
    rows, torques = [], []
    for piece in examine(robot, log).segments:
        t = np.arange(piece.t[0], piece.t[-1], float(np.median(np.diff(piece.t))))
        rate = 1.0 / (t[1] - t[0])
        low = butter(5, CUTOFF, fs=rate, output="sos")

        def smooth(names: list[str], piece=piece, t=t, low=low) -> Array:
            even = [np.interp(t, piece.t, piece.channels[name]) for name in names]
            return sosfiltfilt(low, np.stack(even, axis=1), axis=0)

        q = smooth([f"q.{name}" for name in robot.joint_names])
        tau = smooth([f"tau.{name}" for name in robot.joint_names])
        v = np.gradient(q, t, axis=0)
        a = np.gradient(v, t, axis=0)
        cut = int(BORDER * rate)
        for k in range(cut, len(t) - cut, 2):
            inertial = pin.computeJointTorqueRegressor(model, data, q[k], v[k], a[k])
            drive = [np.diag(x) for x in (a[k], v[k], np.tanh(STEEP * v[k]), np.ones(n))]
            rows.append(np.hstack([inertial, *drive]))
            torques.append(tau[k])
    return np.vstack(rows), np.concatenate(torques)
