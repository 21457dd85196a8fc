"""Stacked regressors against a loop over Pinocchio's one-sample regressor."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from benchmarks.result import Result
from benchmarks.subjects import largest_difference, random_motion, talos, tx40
from benchmarks.timing import all_threads, interleaved, on_threads
from bodysense import Robot, base_parameters
from bodysense.robot import torque_regressor
from bodysense.spatial import Array


def pinocchio_stack(
    robot: Robot,
    q: Array,
    v: Array,
    a: Array,
    columns: NDArray[np.int64] | None = None,
    out: Array | None = None,
) -> Array:
    """Stack `pin.computeJointTorqueRegressor`; the drives' columns come for all samples at once.

    Returns the same as `torque_regressor` for viscous and Coulomb friction: (n_t, nv, p), or
    (n_t, nv, n_columns) with `columns` ascending.
    """
    model, data = robot.model, robot.model.createData()
    compute = pin.computeJointTorqueRegressor
    places = np.arange(robot.layout.size) if columns is None else columns
    kept = places[places < robot.layout.n_inertial]
    Y = np.zeros((q.shape[0], robot.nv, places.size)) if out is None else out
    inertial = Y[:, :, : kept.size]
    if columns is None:
        for Y_t, q_t, v_t, a_t in zip(inertial, q, v, a, strict=True):
            Y_t[:] = compute(model, data, q_t, v_t, a_t)
    else:
        for Y_t, q_t, v_t, a_t in zip(inertial, q, v, a, strict=True):
            Y_t[:] = compute(model, data, q_t, v_t, a_t)[:, kept]
    # Ia, Fv and Fc of joint j act in its row alone, through a, v and the sign of v.
    n, first = robot.n_joints, robot.nv - robot.n_joints
    drive = places[kept.size :] - robot.layout.n_inertial
    signals = np.hstack([a[:, first:], v[:, first:], np.sign(v[:, first:])])
    Y[:, first + drive % n, kept.size + np.arange(drive.size)] = signals[:, drive]
    return Y


def run(repeat: int, *, samples: int = 10_000) -> tuple[Result, ...]:
    """Compare full and reduced stacks of an arm and a humanoid, on one thread and on all."""
    results: list[Result] = []
    for label, robot in (("TX40", tx40()), ("Talos, floating", talos())):
        q, v, a = random_motion(robot, samples)
        columns = np.asarray(base_parameters(robot).independent, dtype=np.int64)
        results += _compared(label, robot, q, v, a, None, repeat)
        results += _compared(label, robot, q, v, a, columns, repeat)
    return tuple(results)


def _compared(
    label: str,
    robot: Robot,
    q: Array,
    v: Array,
    a: Array,
    columns: NDArray[np.int64] | None,
    repeat: int,
) -> list[Result]:
    Y = torque_regressor(robot, q, v, a, columns=columns)
    Y_peer = pinocchio_stack(robot, q, v, a, columns)
    agreement = largest_difference(Y, Y_peer)
    kind = f"{Y.shape[2]} {'standard' if columns is None else 'base'} parameters"

    def ours() -> Array:
        return torque_regressor(robot, q, v, a, columns=columns, out=Y)

    def peer() -> Array:
        return pinocchio_stack(robot, q, v, a, columns, out=Y_peer)

    threads = all_threads()
    sides = {"one": on_threads(1, ours), "all": on_threads(threads, ours), "peer": peer}
    timings = interleaved(sides, repeat)
    per_sample = 1e6 / q.shape[0]
    memory = f"both write into an array of {Y.nbytes / 1e6:.0f} MB that they are given"
    return [
        Result.judged(
            "regressor",
            f"{label}, stack of {q.shape[0]}, {kind}: {words}",
            unit="µs/sample",
            ours=per_sample * timings.best(side),
            peer=per_sample * timings.best("peer"),
            paired_ratio=timings.paired_ratio("peer", side),
            ratio_at_least=target,
            agreement=agreement,
            agreement_within=1e-10,
            notes=memory,
        )
        for side, words, target in (
            ("one", "one thread", None),
            ("all", f"{threads} threads", 5.0),
        )
    ]
