"""A log as an estimator of the state takes it: readings as recorded, and nothing filtered.

A row without any position is as good as others here, and a reading that did not come is absent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bodysense.errors import UnusableLogError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.channels import sensor_readings
from bodysense.estimation.map_dynamics.log.plausibility import (
    doubtful_positions,
    doubtful_readings,
)
from bodysense.estimation.map_dynamics.log.recorded_times import pieces, usable_times
from bodysense.estimation.map_dynamics.log.recording import Recording
from bodysense.robot.sensors.encoder import Encoder
from bodysense.robot.sensors.orientation import Orientation
from bodysense.signals.raw_log import RawLog
from bodysense.spatial.arrays import Array


def state_recording(problem: MapDynamics, log: RawLog) -> Recording:
    """Collect readings; positions are those of encoders, NaN elsewhere, velocities all NaN.

    Raises:
        MismatchError: channels are missing or in other units, as in the log of another robot.
        UnusableLogError: nothing is left of the log.
    """
    kept, counts = usable_times(log.t)
    counts["that cannot be read"] = len(log.faults)
    rows = np.flatnonzero(kept)
    readings = sensor_readings(problem, log, rows, np.zeros((rows.size, 0)))
    stretches = pieces(log.t[rows])
    if not stretches or not np.isfinite(readings).any():
        raise UnusableLogError(
            f"{log.source}: no two rows have times that ascend and readings of the sensors: check "
            "the layout."
        )
    q = np.full((rows.size, problem.robot.n_joints), np.nan)
    for sensor in problem.sensors:
        if isinstance(sensor, Encoder):
            where = problem.layout.slices[sensor.name]
            q[:, sensor.joint_index(problem.robot)] = readings[:, where.start]
    notes = doubtful_positions(problem, np.where(np.isfinite(q), q, 0.0))
    notes += doubtful_readings(problem, readings)
    notes += _no_rotations(problem, log, rows, readings)
    return Recording(
        t=log.t[rows],
        q=q,
        dq=np.full_like(q, np.nan),
        readings=readings,
        base_twist=None,
        starts=tuple(piece.start for piece in stretches),
        counts={reason: n for reason, n in counts.items() if n},
        notes=(*log.notes, *notes),
    )


def _no_rotations(
    problem: MapDynamics, log: RawLog, rows: NDArray[np.int64], readings: Array
) -> list[str]:
    """Quaternions that were recorded and are none."""
    notes = []
    for sensor in problem.sensors:
        if not isinstance(sensor, Orientation) or not sensor.channels:
            continue
        columns = [log.channels[name][rows] for name in sensor.channels]
        recorded = np.isfinite(columns).all(axis=0)
        read = np.isfinite(readings[:, problem.layout.slices[sensor.name]]).all(axis=1)
        bad = int(recorded.sum()) - int(read.sum())
        if read.any() and bad > 0.01 * recorded.size:
            notes.append(
                f"{bad} quaternions of {sensor.who} have a length far from 1 and are left out: are "
                "its channels x, y, z, w?"
            )
    return notes
