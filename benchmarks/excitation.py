"""A designed motion of a 7-axis arm against what SLSQP finds in the same time on the same cores.

The variables of SLSQP are the coefficients of the same family, its criterion is the same function,
with the same analytic gradient. Limits are constraints at the points of a grid: those of position,
speed and acceleration are linear and handed over as such, torque and collisions with their
gradients. What it finds passes the same final check as ours, and is shrunk where it does not keep
to limits between the points of the grid.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from scipy.optimize import minimize

from benchmarks.result import NotMeasuredError, Result
from benchmarks.timing import all_threads
from bodysense import Robot, load_robot
from bodysense.errors import MissingDependencyError
from bodysense.excitation import Trajectory, design_motion
from bodysense.excitation.criterion import measure_rows
from bodysense.excitation.design import repair_motions
from bodysense.excitation.design_space import DesignSpace
from bodysense.excitation.fourier import FourierTrajectory
from bodysense.excitation.information import condition_number
from bodysense.excitation.limits import CollisionClearance, MotionLimits
from bodysense.excitation.motion_family import MotionFamily
from bodysense.excitation.motion_problem import MotionProblem
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.shapes.collisions import Collisions
from bodysense.spatial import Array

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
        found = [search(ROBOT, duration, harmonics, seconds, starts, 0)]
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            jobs = [
                pool.submit(search, ROBOT, duration, harmonics, seconds, count, seed)
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


# The peer: SLSQP from random starts, on the same problem.

RATE = 1000.0  # Hz, of the final check
_ORDER = 200.0  # of the smooth relative of the criterion: next to the criterion itself
_GRID = 50  # points of a motion at which limits are constraints
_REACH = 0.08  # m: pairs of bodies farther apart than this and the margin do not count


class _TimeOverError(Exception):
    """Ends a run of SLSQP, which knows no time."""


@dataclass(frozen=True)
class Found:
    """The best of some starts: its condition number, and how many starts had their turn."""

    condition: float
    starts: int


def search(
    robot_name: str, duration: float, harmonics: int, seconds: float, starts: int, seed: int
) -> Found:
    """Share the time between starts and return the best motion that keeps all limits."""
    robot = load_robot(robot_name)
    collisions = Collisions.from_robot(robot)
    # The problem that `design_motion` sets up.
    problem = MotionProblem.from_space(
        DesignSpace.from_robot(robot, collisions=collisions),
        MotionFamily("fourier", duration, False, harmonics),
        criterion="condition",
        rate=RATE,
    )
    peer = _Peer(problem, collisions)
    rng = np.random.default_rng(seed)
    peer.warm()
    begun, found = time.perf_counter(), []
    for k in range(starts):
        left = seconds - (time.perf_counter() - begun)
        if left <= 0.0:
            break
        x = peer.run(_start(problem, rng), left / (starts - k)).reshape(problem.shape)
        found.append((condition_number(problem.information(problem.motions(x), RATE)), x))
    # The check does not count as time of the search. Shrinking hardly ever helps the criterion:
    # the best come first, until one that keeps all limits is better than those that are left.
    best = np.inf
    for before, x in sorted(found, key=lambda one: one[0]):
        if before >= best:
            break
        motions, checked, _ = repair_motions(problem, x, RATE)
        if checked.kept:
            best = min(best, condition_number(problem.information(motions, RATE)))
    return Found(best, len(found))


def _start(problem: MotionProblem, rng: np.random.Generator) -> Array:
    """A random motion about a free pose, as `FourierTrajectory.random` draws it, (m, K) flat."""
    moving, limits, family = problem.moving, problem.space.limits, problem.family
    centre = problem.centres[rng.integers(problem.centres.shape[0])][moving]
    drawn = FourierTrajectory.random(
        moving.size,
        duration=family.duration,
        harmonics=(family.size + 1) // 2,
        lower=limits.lower[moving],
        upper=limits.upper[moving],
        velocity=limits.velocity[moving],
        acceleration=limits.acceleration[moving],
        centre=centre,
        fraction=0.5,
        rng=rng,
    )
    t = np.linspace(0.0, family.duration, 8 * family.size, endpoint=False)
    away = drawn(t)[0] - problem.anchor[moving]
    return np.linalg.lstsq(family.basis(t)[0], away)[0].T.ravel()


class _Peer:
    """Criterion and constraints as SLSQP wants them, of x (m * K,)."""

    def __init__(self, problem: MotionProblem, collisions: Collisions) -> None:
        self._problem, self._collisions = problem, collisions
        self._kept = CollisionClearance(collisions).kept  # ours keeps the same in addition
        self._regressor, self._theta = problem.regressor, problem.theta_base
        self._times = problem.times
        self._basis = problem.family.basis(self._times)
        grid = np.arange(_GRID) * (problem.family.duration / _GRID)
        self._grid_basis = problem.family.basis(grid)
        self._A, self._b = self._linear()

    def warm(self) -> None:
        """Have everything compiled before the time runs."""
        x = np.zeros(self._problem.shape).ravel()
        self.value(x + 0.01)
        self.torques(x)
        self.clearances(x)

    def run(self, x: Array, seconds: float) -> Array:
        """The last iterate of SLSQP after so many seconds, or when it is done."""
        end, last = time.perf_counter() + seconds, [x]

        def each(now: Array) -> None:
            last[0] = now.copy()
            if time.perf_counter() > end:
                raise _TimeOverError

        constraints = [
            {"type": "ineq", "fun": lambda x: self._b - self._A @ x, "jac": lambda x: -self._A},
            {"type": "ineq", "fun": lambda x: self.torques(x)[0], "jac": self._torque_slope},
            {"type": "ineq", "fun": lambda x: self.clearances(x)[0], "jac": self._clearance_slope},
        ]
        try:
            found = minimize(
                self.value,
                x,
                jac=True,
                method="SLSQP",
                constraints=constraints,
                callback=each,
                options={"maxiter": 10_000, "ftol": 1e-9},
            )
            return np.asarray(found.x)
        except _TimeOverError:
            return last[0]

    def value(self, x: Array) -> tuple[float, Array]:
        """The smooth criterion and its gradient."""
        p = self._problem
        q, v, a = self._states(x, self._basis)
        scale = np.sqrt(p.row_rate * p.family.duration / q.shape[0]) / p.noise[p.moving]
        W = self._regressor.rows(q, v, a, scale)
        _, smooth, Z = measure_rows(p.measure, W, _ORDER)
        pulled = self._regressor.pull(q, v, a, scale, Z)
        gradient = sum(g[:, p.moving].T @ phi for g, phi in zip(pulled, self._basis, strict=True))
        return smooth, np.asarray(gradient).ravel()

    def torques(self, x: Array) -> tuple[Array, Array]:
        """Slacks 1 - (tau / limit)² at the grid (n,) and their gradients (n, m * K)."""
        p = self._problem
        m, K = p.moving.size, p.family.size
        q, v, a = self._states(x, self._grid_basis)
        effort, one = p.space.limits.effort[p.moving], np.ones(m)
        tau = self._regressor.rows(q, v, a, one) @ self._theta
        at, joint = np.repeat(np.arange(_GRID), m), np.tile(np.arange(m), _GRID)
        Z = np.zeros((at.size, m, self._theta.size))
        slope = -2.0 * tau / effort**2
        Z[np.arange(at.size), joint] = slope.reshape(-1, 1) * self._theta
        pulled = self._regressor.pull(q[at], v[at], a[at], one, Z)
        rows = np.zeros((at.size, m, K))
        for g, phi in zip(pulled, self._grid_basis, strict=True):
            rows += g[:, p.moving, np.newaxis] * phi[at][:, np.newaxis, :]
        return (1.0 - (tau / effort) ** 2).ravel(), rows.reshape(at.size, m * K)

    def clearances(self, x: Array) -> tuple[Array, Array]:
        """Slack of the closest pair at each point of the grid (n,), and gradients (n, m * K)."""
        p = self._problem
        q = self._states(x, self._grid_basis)[0]
        near = self._collisions.near(q, self._kept + _REACH)
        room = near.distance - self._kept[near.pair]
        slack, rows = np.ones(_GRID), np.zeros((_GRID, p.moving.size * p.family.size))
        for k in np.argsort(-room):  # the closest of a point last
            t = near.sample[k]
            slack[t] = room[k] / _REACH
            by_q = near.gradient[k, p.moving] / _REACH
            rows[t] = np.outer(by_q, self._grid_basis[0][t]).ravel()
        return slack, rows

    def _torque_slope(self, x: Array) -> Array:
        return self.torques(x)[1]

    def _clearance_slope(self, x: Array) -> Array:
        return self.clearances(x)[1]

    def _states(self, x: Array, basis: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        p = self._problem
        flat = x.reshape(p.moving.size, p.family.size)
        q, v, a = (np.zeros((basis[0].shape[0], p.anchor.size)) for _ in range(3))
        q += p.anchor
        for state, phi in zip((q, v, a), basis, strict=True):
            state[:, p.moving] += phi @ flat.T
        return q, v, a

    def _linear(self) -> tuple[Array, Array]:
        """A, b with A x <= b: position, speed and acceleration at the grid."""
        p = self._problem
        limits, moving, K = p.space.limits, p.moving, p.family.size
        highest = (limits.upper - p.anchor, limits.velocity, limits.acceleration)
        lowest = (limits.lower - p.anchor, -limits.velocity, -limits.acceleration)
        A, b = [], []
        for phi, high, low in zip(self._grid_basis, highest, lowest, strict=True):
            for k, j in enumerate(moving):
                rows = np.zeros((_GRID, moving.size * K))
                rows[:, k * K : (k + 1) * K] = phi
                A += [rows, -rows]
                b += [np.full(_GRID, high[j]), np.full(_GRID, -low[j])]
        return np.vstack(A), np.concatenate(b)
