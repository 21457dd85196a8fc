"""What recordings tell already about the base parameters that a motion is designed for.

Their rows are those of the identification, in all base parameters beta_f of the robot,

    R_f beta_f ~ z,        information R_fᵀ R_f,

while the motion to be designed shows beta = T beta_f only: it may hold some joints. With N a basis
of the null space of T, beta_f = T⁺ beta + N x. What is left of the information after x has been
found from the same rows is that of the part of R_f T⁺ which is orthogonal to R_f N.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import null_space

from bodysense.identification.choices import choose_cutoff
from bodysense.identification.doctor.usable import usable
from bodysense.identification.plan import Plan
from bodysense.identification.preprocessing import Preprocessing, motions
from bodysense.identification.regression import Regression
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.robot import Robot
from bodysense.signals.raw_log import RawLog
from bodysense.spatial.arrays import Array

_ROUNDING = 1e-10


def information_of(
    robot: Robot, logs: Sequence[RawLog], base: BaseParameters, noise: Array
) -> Array:
    """(b, b) upper triangular R with RᵀR the information of recordings on base parameters.

    Rows are counted as those of a design are: all samples of the recording, divided by the same
    white noise of the raw torque.

    Args:
        robot: with the friction law of the design.
        logs: the recordings.
        base: the base parameters of the design.
        noise: (n_joints,) standard deviations of the torques.

    Raises:
        UnusableLogError: a recording of another robot, or one in which the doctor finds errors.
    """
    diagnoses = [usable(robot, log) for log in logs]
    pieces = [diagnosis.segments for diagnosis in diagnoses]
    full = base_parameters(robot)
    cutoff = choose_cutoff(robot, pieces, Preprocessing(), full).cutoff
    settings = Preprocessing().settled(robot, cutoff)
    problem = Regression.of(robot, motions(robot, pieces, settings), settings, full)
    # After the filter a row stands for all samples up to the next one.
    samples = np.empty(problem.n_logs)
    for motion in problem.motions:
        plan = Plan.of(motion, settings)
        samples[motion.log] = plan.stride * plan.step
    R_full = problem.stack(noise / np.sqrt(samples)[:, np.newaxis]).A
    return carried_over(R_full, full, base)


def carried_over(R_full: Array, full: BaseParameters, base: BaseParameters) -> Array:
    """Information on some base parameters from that on all, R_fᵀR_f; both as factors R.

    Args:
        R_full: (b_f, b_f) factor of the information on `full`.
        full: base parameters of the robot.
        base: combinations of them, e.g. those that show while some joints hold.
    """
    # Any theta with these base parameters will do to find T: the kept ones stand for them.
    T = np.array(base.mapping)[:, full.independent]
    N = null_space(T, rcond=_ROUNDING)
    seen = R_full @ np.linalg.pinv(T)
    if N.size:
        U, s, _ = np.linalg.svd(R_full @ N, full_matrices=False)
        U = U[:, s > _ROUNDING * max(float(s.max(initial=0.0)), np.finfo(float).tiny)]
        seen = seen - U @ (U.T @ seen)
    return np.asarray(np.linalg.qr(seen, mode="r"))
