"""Sensitivities to all base parameters in one pass against finite differences of rollouts."""

from __future__ import annotations

import numpy as np

from benchmarks.result import Result
from benchmarks.subjects import excitation, tx40
from benchmarks.timing import all_threads, interleaved, on_threads
from bodysense import FourierTrajectory, Robot, base_parameters, rollout, sensitivities
from bodysense.spatial import Array

SAMPLING_RATE = 1000.0  # as the published recordings of the TX40 [Hz]
FRICTION_WIDTH = 0.05  # a derivative needs friction without a jump [rad/s]
# Each parameter is changed until the robot moves this far [rad]: about where the rounding of a
# difference is as large as its truncation.
MOVED = 2e-8


def forward_differences(
    robot: Robot, trajectory: FourierTrajectory, steps: Array
) -> tuple[Array, Array]:
    """Derivatives of q and tau, (b, n_s, n) each, from b + 1 rollouts in one batch.

    `steps` (b, p) holds the changes of theta, one parameter each.
    """
    theta = robot.theta + np.vstack([np.zeros_like(robot.theta), steps])
    batch = rollout(robot, trajectory, theta=theta, sampling_rate=SAMPLING_RATE)
    h = steps.sum(axis=1)[:, None, None]
    return (batch.q[1:] - batch.q[0]) / h, (batch.tau[1:] - batch.tau[0]) / h


def central_differences(
    robot: Robot, trajectory: FourierTrajectory, steps: Array
) -> tuple[Array, Array]:
    """Derivatives of q and tau to second order, (b, n_s, n) each, from 2 b rollouts."""
    theta = robot.theta + np.vstack([steps, -steps])
    batch = rollout(robot, trajectory, theta=theta, sampling_rate=SAMPLING_RATE)
    b, h = steps.shape[0], 2.0 * steps.sum(axis=1)[:, None, None]
    return (batch.q[:b] - batch.q[b:]) / h, (batch.tau[:b] - batch.tau[b:]) / h


def largest_relative_difference(derivative: Array, expected: Array) -> float:
    """Largest difference of (n_s, n, b) from (b, n_s, n), each parameter relative to its peak."""
    expected = np.moveaxis(expected, 0, -1)
    peak = np.abs(expected).max(axis=(0, 1))
    return float((np.abs(derivative - expected).max(axis=(0, 1)) / peak).max())


def run(repeat: int, *, duration: float = 10.0) -> tuple[Result, ...]:
    """Compare thread for thread, and as a user with several cores would see it."""
    robot = tx40().with_friction("coulomb", coefficients={}, width=FRICTION_WIDTH)
    trajectory = excitation(robot, duration)
    base = base_parameters(robot)
    ours = sensitivities(robot, trajectory, base=base, sampling_rate=SAMPLING_RATE)
    steps = np.zeros((base.size, robot.layout.size))
    steps[np.arange(base.size), base.independent] = MOVED / np.abs(ours.dq[0]).max(axis=(0, 1))
    dq, dtau = central_differences(robot, trajectory, steps)
    agreement = max(
        largest_relative_difference(ours.dq[0], dq),
        largest_relative_difference(ours.dtau[0], dtau),
    )
    del dq, dtau
    threads = all_threads()

    def one_pass() -> object:
        return sensitivities(robot, trajectory, base=base, sampling_rate=SAMPLING_RATE)

    def differences() -> object:
        return forward_differences(robot, trajectory, steps)

    timings = interleaved(
        {
            "one": on_threads(1, one_pass),
            "peer one": on_threads(1, differences),
            "peer all": on_threads(threads, differences),
        },
        repeat,
    )
    what = f"TX40, {base.size} base parameters, {duration:g} s at 5 kHz"
    return (
        Result.judged(
            "sensitivity",
            f"{what}: one thread each",
            unit="ms",
            ours=1e3 * timings.best("one"),
            peer=1e3 * timings.best("peer one"),
            paired_ratio=timings.paired_ratio("peer one", "one"),
            ratio_at_least=3.0,
            agreement=agreement,
            agreement_within=1e-5,
            notes=f"friction smoothed over {FRICTION_WIDTH} rad/s; agreement with central "
            "differences, each parameter relative to its largest derivative of q and tau",
        ),
        Result.judged(
            "sensitivity",
            f"{what}: one thread, {threads} for the peer",
            unit="ms",
            ours=1e3 * timings.best("one"),
            peer=1e3 * timings.best("peer all"),
            paired_ratio=timings.paired_ratio("peer all", "one"),
            notes="one run has nothing to spread over threads, a batch of passes would",
        ),
    )
