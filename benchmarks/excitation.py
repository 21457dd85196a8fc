"""A designed motion of a 7-axis arm against what SLSQP finds in the same time on the same cores."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pinocchio as pin

from benchmarks import slsqp_peer
from benchmarks.result import NotMeasuredError, Result
from benchmarks.timing import all_threads
from bodysense import Robot, load_robot
from bodysense.errors import MissingDependencyError
from bodysense.excitation import Trajectory, design_motion
from bodysense.excitation.limits import MotionLimits
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.shapes.collisions import Collisions

ROBOT = "example:panda"
SECONDS = 90.0  # of each side
STARTS = 20  # of the peer
_CHECKING = 3.0  # s of ours for the final check and the setup
HARMONICS = (20, 10)  # of the peer: as many as ours, and half, with which SLSQP is quicker


def run(
    repeat: int, *, seconds: float = SECONDS, starts: int = STARTS, duration: float = 10.0
) -> tuple[Result, ...]:
    """Design once, let the peer search as long with either number of harmonics."""
    try:
        robot = load_robot(ROBOT)
    except MissingDependencyError as error:
        raise NotMeasuredError(str(error)) from error
    limits, collisions = MotionLimits.from_robot(robot), Collisions.from_robot(robot)
    threads = min(2, all_threads())
    begun = time.perf_counter()
    ours = design_motion(
        robot,
        criterion="condition",
        duration=duration,
        limits=limits,
        collisions=collisions,
        seconds=max(0.5 * seconds, seconds - _CHECKING),
        threads=threads,
        rng=np.random.default_rng(0),
    )
    took = time.perf_counter() - begun
    broken = violations(robot, limits, collisions, ours.trajectories)
    results = []
    for harmonics in HARMONICS:
        condition, done = peer(duration, harmonics, seconds, starts, threads)
        words = "as many as ours" if harmonics == HARMONICS[0] else "half of ours"
        results.append(
            Result.judged(
                "excitation",
                f"Panda, fingers held, {duration:g} s of motion: condition number, peer: SLSQP "
                f"with {harmonics} harmonics",
                unit="",
                ours=ours.condition,
                peer=condition,
                ratio_at_least=1.0,
                agreement=float(broken),
                agreement_within=0.0,
                notes=f"the smaller the better; ours took {took:.0f} s, the peer {seconds:g} s, "
                f"both on {threads} cores; best of {done} random starts of SLSQP that share its "
                f"time, {harmonics} harmonics ({words}), same criterion, limits and collisions, "
                "given our gradients; the agreement is the number of violations of our motion at "
                "1 kHz: positions, speeds, accelerations, torques, collisions",
            )
        )
    return tuple(results)


def peer(
    duration: float, harmonics: int, seconds: float, starts: int, workers: int
) -> tuple[float, int]:
    """The best condition number of SLSQP, a process a core, and how many starts had a turn."""
    share = [len(range(k, starts, workers)) for k in range(workers)]
    if workers == 1:
        found = [slsqp_peer.search(ROBOT, duration, harmonics, seconds, starts, 0)]
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            jobs = [
                pool.submit(slsqp_peer.search, ROBOT, duration, harmonics, seconds, count, seed)
                for seed, count in enumerate(share)
                if count
            ]
            found = [job.result() for job in jobs]
    return min(one.condition for one in found), sum(one.starts for one in found)


def violations(
    robot: Robot,
    limits: MotionLimits,
    collisions: Collisions,
    motions: tuple[Trajectory, ...],
) -> int:
    """Samples at 1 kHz, joint by joint and pair by pair, that are beyond a limit."""
    count, data, rounding = 0, robot.model.createData(), 1e-9
    for motion in motions:
        _, q, v, a = motion.sample(1000.0)
        rigid = np.array(
            [pin.rnea(robot.model, data, *state) for state in zip(q, v, a, strict=True)]
        )
        tau = inverse_dynamics(robot, q, v, a)
        count += int((q > limits.upper + rounding).sum() + (q < limits.lower - rounding).sum())
        count += int((np.abs(v) > limits.velocity * (1.0 + rounding)).sum())
        count += int((np.abs(a) > limits.acceleration * (1.0 + rounding)).sum())
        count += int((np.abs(tau) > limits.effort * (1.0 + rounding)).sum())
        count += int((np.abs(rigid) > limits.effort * (1.0 + rounding)).sum())
        near = collisions.near(q, collisions.margins)
        count += int((near.distance < collisions.margins[near.pair]).sum())
    return count
