"""Whether what the controller was told can be believed: methods that simulate it lean on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bodysense.identification.doctor.diagnosis import Finding
from bodysense.identification.doctor.samples import Outcome, Samples, row_ranges, spread
from bodysense.robot.robot import Robot

_FAR = 0.2
"""Share of a joint's range from which on it did not do what it was told."""

_LEAST = 1e-3  # rad or m: below it no joint was told anything
_LEFT_OUT = "it is left out: methods that simulate the controller follow the measured motion"


def recorded_reference(robot: Robot, samples: Samples) -> Outcome:
    """Leave out references with gaps, or that joints did not follow."""
    told = samples.reference
    if told is None or not samples.n:
        return Outcome(samples, [])
    bad = ~np.isfinite(told).all(axis=1)
    if bad.any():
        finding = Finding(
            "reference",
            "note",
            "q_des",
            f"no number in {row_ranges(samples.rows[bad])}",
            _LEFT_OUT,
        )
        return Outcome(replace(samples, reference=None), [finding])
    far = [
        name
        for j, name in enumerate(samples.joint_names)
        if np.median(np.abs(told[:, j] - samples.q[:, j]))
        > max(_FAR * spread(samples.q[:, j]), _LEAST)
    ]
    if not far:
        return Outcome(samples, [])
    finding = Finding(
        "reference",
        "note",
        ", ".join(f"q_des.{name}" for name in far),
        "the joint is far from what it was told: another unit, joint or time?",
        _LEFT_OUT,
    )
    return Outcome(replace(samples, reference=None), [finding])
