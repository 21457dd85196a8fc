"""Forward and inverse dynamics of many samples against loops over `pin.aba` and `pin.rnea`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pinocchio as pin

from benchmarks.result import Result
from benchmarks.subjects import largest_difference, largest_value, random_motion, talos, tx40
from benchmarks.timing import all_threads, interleaved, on_threads
from bodysense import Robot
from bodysense.robot import forward_dynamics, inverse_dynamics
from bodysense.spatial import Array


def friction(robot: Robot, v: Array) -> Array:
    """Return the viscous and Coulomb friction of all samples (n_t, nv), zero for a base."""
    torque = np.zeros_like(v)
    joints = v[:, robot.nv - robot.n_joints :]
    fv, fc = (robot.theta[robot.layout.friction(term)] for term in ("Fv", "Fc"))
    torque[:, robot.nv - robot.n_joints :] = fv * joints + fc * np.sign(joints)
    return torque


def pinocchio_forward(robot: Robot, q: Array, v: Array, tau: Array) -> Array:
    """Accelerations (n_t, nv) by `pin.aba`, with the friction taken off for all samples at once."""
    model, data, aba = robot.model, robot.model.createData(), pin.aba
    a = np.empty_like(v)
    for a_t, q_t, v_t, tau_t in zip(a, q, v, tau - friction(robot, v), strict=True):
        a_t[:] = aba(model, data, q_t, v_t, tau_t)
    return a


def pinocchio_inverse(robot: Robot, q: Array, v: Array, a: Array) -> Array:
    """Torques (n_t, nv) by `pin.rnea`, with the friction added for all samples at once."""
    model, data, rnea = robot.model, robot.model.createData(), pin.rnea
    tau = np.empty_like(v)
    for tau_t, q_t, v_t, a_t in zip(tau, q, v, a, strict=True):
        tau_t[:] = rnea(model, data, q_t, v_t, a_t)
    tau += friction(robot, v)
    return tau


def run(repeat: int, *, samples: int = 10_000) -> tuple[Result, ...]:
    """Compare an arm and a humanoid in both directions, on one thread and on all."""
    results: list[Result] = []
    for label, robot in (("TX40", tx40()), ("Talos, floating", talos())):
        motion = (robot, *random_motion(robot, samples))  # the third array is a or tau
        for kind, ours, peer in (
            ("forward", forward_dynamics, pinocchio_forward),
            ("inverse", inverse_dynamics, pinocchio_inverse),
        ):
            what = f"{label}, {kind}, {samples} samples"
            results += _compared(what, partial(ours, *motion), partial(peer, *motion), repeat)
    return tuple(results)


def _compared(
    what: str, ours: Callable[[], Array], peer: Callable[[], Array], repeat: int
) -> list[Result]:
    expected = peer()
    per_sample = 1e6 / expected.shape[0]
    agreement = largest_difference(ours(), expected) / largest_value(expected)
    threads = all_threads()
    timings = interleaved(
        {"one": on_threads(1, ours), "all": on_threads(threads, ours), "peer": peer}, repeat
    )
    return [
        Result.judged(
            "dynamics",
            f"{what}: {words}",
            unit="µs/sample",
            ours=per_sample * timings.best(side),
            peer=per_sample * timings.best("peer"),
            paired_ratio=timings.paired_ratio("peer", side),
            agreement=agreement,
            agreement_within=1e-10,
            notes="agreement relative to the largest value",
        )
        for side, words in (("one", "one thread"), ("all", f"{threads} threads"))
    ]
