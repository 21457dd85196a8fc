"""Sequential quadratic programs over Cholesky factors, beside the semidefinite programs."""

from __future__ import annotations

import statistics
import time
from functools import partial

import numpy as np

from benchmarks import recording, ur10e
from benchmarks.result import Result
from benchmarks.subjects import tx40
from benchmarks.timing import interleaved
from bodysense import BaseParameters, Robot, base_parameters
from bodysense.identification import Identifier, Preprocessing, Regression, examine, motions
from bodysense.identification import identifier as identifier_of
from bodysense.identification.identification import positive_parameters
from bodysense.identification.preprocessing import FOLDS, Motion
from bodysense.identification.scores import predict, score
from bodysense.logs.log import Log
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.spatial import physical_consistency
from bodysense.spatial.arrays import Array

FORMS = ("ols", "wls", "irls")
MOST = 0.2  # s
SAME = 0.01  # relative difference of held-out errors
CUTOFFS = {"UR10e": 6.0, "TX40": 67.0}  # Hz, near those that the data choose
SAMPLES = 200  # of a noisy problem


def run(repeat: int, *, noisy: int = 500, forms: tuple[str, ...] = FORMS) -> tuple[Result, ...]:
    """Time both on real recordings, compare held-out errors; and count links that cannot be."""
    results = []
    for name in CUTOFFS:
        problem, unseen = _problem(name)
        for form in forms:
            square_root, program = identifier_of(f"pc-sqp-{form}"), identifier_of(f"pc-{form}")
            sides = {
                "ours": partial(square_root.theta, problem),
                "peer": partial(program.theta, problem),
            }
            timings = interleaved(sides, repeat)
            mine, theirs = (_held_out(m, problem, unseen) for m in (square_root, program))
            results.append(
                Result.judged(
                    "square-root",
                    f"{name}, recorded: pc-sqp-{form}, peer: pc-{form} (semidefinite program)",
                    unit="s",
                    ours=timings.best("ours"),
                    peer=timings.best("peer"),
                    paired_ratio=timings.paired_ratio("peer", "ours"),
                    agreement=abs(mine / theirs - 1.0),
                    agreement_within=SAME,
                    ours_below=MOST,
                    notes=f"held-out error {100.0 * mine:.3f} % and {100.0 * theirs:.3f} %; "
                    "estimate alone, rows folded before",
                )
            )
    seconds, impossible = _noisy(noisy)
    results.append(
        Result.judged(
            "square-root",
            f"TX40, {noisy} problems of {SAMPLES} samples with noise as large as the torque",
            unit="s",
            ours=statistics.median(seconds),
            agreement=float(impossible),
            agreement_within=0.0,
            notes="agreement is the number of results with a link or drive that cannot exist",
        )
    )
    return tuple(results)


def _problem(name: str) -> tuple[Regression, tuple[Motion, ...]]:
    """What is fitted, and other recordings; none where blocks are left out instead."""
    if name == "UR10e":
        robot = ur10e.robot().with_friction("offset", width=0.02)
        logs = [ur10e.read(file) for file in (ur10e.TRAINING, *ur10e.VALIDATION)]
    else:
        robot = recording.robot().with_friction("offset", width=0.02)
        logs = [recording.read()]
    cutoff = CUTOFFS[name]
    settings = Preprocessing(cutoff=cutoff).settled(robot, cutoff)

    def moved(log: Log) -> tuple[Motion, ...]:
        return motions(robot, [examine(robot, log).segments], settings)

    first, *others = (moved(log) for log in logs)
    problem = Regression.of(robot, first, settings, base_parameters(robot))
    return problem, tuple(motion for log in others for motion in log)


def _held_out(method: Identifier, problem: Regression, unseen: tuple[Motion, ...]) -> float:
    """Mean relative error of moving joints, on other recordings or on blocks left out."""
    robot, settings = problem.robot, problem.settings
    if unseen:
        theta = method.theta(problem)
        pieces = [
            predict(robot, m, settings, [theta], source="", kind="validation") for m in unseen
        ]
    else:
        folds = [method.theta(problem.without(fold)) for fold in range(FOLDS)]
        pieces = [
            predict(robot, m, settings, folds, fold=problem.folds(m), source="", kind="held-out")
            for m in problem.motions
        ]
    return score(pieces).identified.moving.mean_relative_error


def _noisy(count: int) -> tuple[list[float], int]:
    """Seconds of each of so many noisy problems, and how many of them came out impossible."""
    robot = tx40().with_friction("coulomb", width=0.02)
    base = base_parameters(robot)
    method = identifier_of("pc-sqp-wls")
    seconds, impossible = [], 0
    for seed in range(count):
        problem = _noisy_problem(robot, base, np.random.default_rng(seed))
        begun = time.perf_counter()
        theta = method.theta(problem)
        seconds.append(time.perf_counter() - begun)
        impossible += not _possible(robot, theta)
    return seconds, impossible


def _noisy_problem(robot: Robot, base: BaseParameters, rng: np.random.Generator) -> Regression:
    q = rng.uniform(-2.0, 2.0, (SAMPLES, robot.n_joints))
    v, a = rng.normal(scale=2.0, size=(2, *q.shape))
    tau = inverse_dynamics(robot, q, v, a)
    tau = tau + tau.std(axis=0) * rng.standard_normal(tau.shape)
    return Regression.from_samples(robot, q, v, a, tau, rate=100.0, base=base)


def _possible(robot: Robot, theta: Array) -> bool:
    layout = robot.layout
    links = all(
        physical_consistency(theta[layout.link(k)]).consistent for k in range(layout.n_links)
    )
    return links and bool((theta[positive_parameters(robot)] >= 0.0).all())
