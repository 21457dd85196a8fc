"""The usual way to a load: one least-squares problem over arm and load, with Pinocchio and numpy.

Shares no code with bodysense but the reading of files and the doctor's choice of rows.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from scipy.signal import butter, sosfiltfilt

from bodysense.identification import examine
from bodysense.logs.log import Log
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

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
