"""A weighed load, found by its effect on the motor currents of a real arm."""

from __future__ import annotations

import numpy as np

from benchmarks import ur10e
from benchmarks.plain_load import plain_mass
from benchmarks.result import Result
from bodysense.identification.payload.identify_drive_gains import identify_drive_gains
from bodysense.identification.payload.identify_payload import identify_payload

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
