"""A closed-loop rollout against the same loop around Pinocchio's Python binding."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from benchmarks.result import Result
from benchmarks.subjects import excitation, largest_difference, largest_value, tx40
from benchmarks.timing import all_threads, interleaved, on_threads
from bodysense import FourierTrajectory, Robot, rollout
from bodysense.spatial import Array

BATCH = 8


def pinocchio_loop(robot: Robot, trajectory: FourierTrajectory) -> tuple[Array, ...]:
    """Track the trajectory as `rollout` does: PD law, friction, `pin.aba`, explicit Euler.

    Nothing is allocated in the loop but what Pinocchio returns; q, v, a, tau are recorded at
    every step, (n_s, n) each.
    """
    controller = robot.controller
    if controller is None:
        raise ValueError(f"{robot.name} has no controller: choose a robot that comes with one.")
    model, data = robot.model, robot.model.createData()
    kp, kd = robot.actuators.drive_gain * controller.kp, robot.actuators.drive_gain * controller.kd
    fv, fc = (robot.theta[robot.layout.friction(term)] for term in ("Fv", "Fc"))
    step = 1.0 / controller.rate
    _, q_d, v_d, _ = trajectory.sample(controller.rate)
    q_log, v_log, a_log, tau_log = (np.empty_like(q_d) for _ in range(4))
    q, v = q_d[0].copy(), v_d[0].copy()
    net, term = np.empty_like(q), np.empty_like(q)
    # Functions with output arguments: a tenth faster than operators on arrays as short as these.
    aba, add, subtract, multiply, sign = pin.aba, np.add, np.subtract, np.multiply, np.sign
    for q_ref, v_ref, q_row, v_row, a_row, tau in zip(
        q_d, v_d, q_log, v_log, a_log, tau_log, strict=True
    ):
        subtract(q_ref, q, tau)
        multiply(kp, tau, tau)
        subtract(v_ref, v, term)
        multiply(kd, term, term)
        add(tau, term, tau)
        multiply(fv, v, term)
        subtract(tau, term, net)
        sign(v, term)
        multiply(fc, term, term)
        subtract(net, term, net)
        a = aba(model, data, q, v, net)
        q_row[:] = q
        v_row[:] = v
        a_row[:] = a
        multiply(step, v, term)
        add(q, term, q)
        multiply(step, a, term)
        add(v, term, v)
    return q_log, v_log, a_log, tau_log


def run(repeat: int, *, duration: float = 10.0) -> tuple[Result, ...]:
    """Compare one run on one thread, and a batch on all threads, with the loop in Python."""
    robot = tx40()
    trajectory = excitation(robot, duration)
    ours, peer = rollout(robot, trajectory), pinocchio_loop(robot, trajectory)
    recorded = dict(zip(("q", "v", "a", "tau"), (ours.q, ours.v, ours.a, ours.tau), strict=True))
    differences = {
        name: largest_difference(array[0], other)
        for (name, array), other in zip(recorded.items(), peer, strict=True)
    }
    agreement = max(
        difference / largest_value(other)
        for difference, other in zip(differences.values(), peer, strict=True)
    )
    absolute = ", ".join(f"{name} {value:.1e}" for name, value in differences.items())
    steps = ours.t.size
    threads = all_threads()
    timings = interleaved(
        {
            "one": on_threads(1, lambda: rollout(robot, trajectory)),
            "batch": on_threads(threads, lambda: rollout(robot, trajectory, runs=BATCH)),
            "peer": lambda: pinocchio_loop(robot, trajectory),
        },
        repeat,
    )
    loop = f"TX40, {duration:g} s at 5 kHz, explicit Euler"
    peer_step = 1e6 * timings.best("peer") / steps
    return (
        Result.judged(
            "rollout",
            f"{loop}: one run, one thread",
            unit="µs/step",
            ours=1e6 * timings.best("one") / steps,
            peer=peer_step,
            paired_ratio=timings.paired_ratio("peer", "one"),
            ratio_at_least=10.0,
            agreement=agreement,
            agreement_within=1e-10,
            notes="both follow the same samples and record every step; agreement of q, v, a, tau, "
            f"each relative to its largest value; absolute differences (SI units): {absolute}",
        ),
        Result.judged(
            "rollout",
            f"{loop}: batch of {BATCH} runs, {threads} threads",
            unit="µs/step",
            ours=1e6 * timings.best("batch") / (BATCH * steps),
            peer=peer_step,
            paired_ratio=BATCH * timings.paired_ratio("peer", "batch"),
        ),
    )
