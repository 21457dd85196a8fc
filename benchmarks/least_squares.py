"""Ordinary least squares at the size of the thesis's table 4: TX40, 10 s at 500 Hz."""

from __future__ import annotations

import numpy as np

from benchmarks.regressor import pinocchio_stack
from benchmarks.result import Result
from benchmarks.subjects import excitation, tx40
from benchmarks.timing import all_threads, interleaved, on_threads
from bodysense import base_parameters
from bodysense.identification import Identification, Regression, identifier
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.spatial import Array

RATE = 500.0  # Hz
NOISE = 0.05  # N·m
QUOTED = 250.0  # ms, table 4, "OLS filt.": MATLAB with compiled code on a 12-core desktop


def run(repeat: int, *, duration: float = 10.0) -> tuple[Result, ...]:
    """Compare with the published time, and with a loop over Pinocchio and numpy's solver."""
    robot = tx40()
    _, q, v, a = (x[:-1] for x in excitation(robot, duration).sample(RATE))
    rng = np.random.default_rng(5)
    tau = inverse_dynamics(robot, q, v, a) + NOISE * rng.standard_normal(v.shape)
    base = base_parameters(robot)
    columns = np.asarray(base.independent, dtype=np.int64)

    def ours() -> Identification:
        problem = Regression.from_samples(robot, q, v, a, tau, rate=RATE, base=base)
        return identifier("ols").fit(problem)

    def peer() -> Array:
        Y = pinocchio_stack(robot, q, v, a, columns)
        solution = np.linalg.lstsq(Y.reshape(-1, columns.size), tau.ravel(), rcond=None)[0]
        return np.asarray(solution, dtype=np.float64)

    found = base.to_base(ours().theta)
    agreement = float(np.abs(found - peer()).max() / np.abs(found).max())
    threads = all_threads()
    sides = {"one": on_threads(1, ours), "all": on_threads(threads, ours), "peer": peer}
    timings = interleaved(sides, repeat)
    size = f"TX40, {len(q)} samples at 500 Hz, {base.size} base parameters"
    return (
        Result.judged(
            "least-squares",
            f"{size}: OLS, one thread, peer: quoted",
            unit="ms",
            ours=1e3 * timings.best("one"),
            peer=QUOTED,
            ours_below=50.0,
            notes="regressor, estimate and its covariance, base parameters known; the peer is the "
            "published time of MATLAB with compiled code on another machine, not measured here",
        ),
        Result.judged(
            "least-squares",
            f"{size}: OLS, {threads} threads, peer: Pinocchio and lstsq",
            unit="ms",
            ours=1e3 * timings.best("all"),
            peer=1e3 * timings.best("peer"),
            paired_ratio=timings.paired_ratio("peer", "all"),
            agreement=agreement,
            agreement_within=1e-8,
            notes="the peer stacks regressors in a loop over Pinocchio and calls "
            "`numpy.linalg.lstsq`: an estimate, without its covariance; agreement relative to the "
            "largest base parameter",
        ),
    )
