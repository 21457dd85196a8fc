"""Compile the kernels that many tests need, before the tests: each once, in two processes.

Every process of the tests has a cache of its own, and would compile all of them again.

    python tests/warm_kernels.py simulation|models    # into NUMBA_CACHE_DIR
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np


def _simulation() -> None:
    """Rollouts with their sensitivities, and the propagation of filters."""
    from bodysense.excitation import FourierTrajectory
    from bodysense.identification import Preprocessing, Regression, identifier, motions
    from bodysense.robot import load_robot
    from bodysense.simulation import rollout

    robot, rng = load_robot("tx40"), np.random.default_rng(0)
    motion = FourierTrajectory.for_robot(robot, duration=1.0, rng=rng)
    run = rollout(robot, motion, sampling_rate=200.0, position_noise=1e-5, rng=rng)
    settings = Preprocessing().settled(robot, 20.0)
    problem = Regression.of(robot, motions(robot, [[run.log(0)]], settings), settings)
    for name in ("cloe", "ukf", "srukf", "ekf", "srekf", "pf"):
        identifier(name).fit(problem, rng=rng)


def _models() -> None:
    """Dynamics, regressors, linear methods, and the estimators."""
    from bodysense.estimation import MapDynamics
    from bodysense.excitation import FourierTrajectory
    from bodysense.identification import Preprocessing, Regression, identifier, motions
    from bodysense.robot import (
        forward_dynamics,
        inverse_dynamics,
        load_robot,
        mass_matrix,
    )
    from bodysense.signals import Log

    robot, rng = load_robot("tx40"), np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, 4, 6))
    forward_dynamics(robot, q, v, inverse_dynamics(robot, q, v, a))
    mass_matrix(robot, q)
    estimator = MapDynamics(robot, [])
    estimator.estimate(q, v, np.zeros((4, 0)), detail="slacks")
    motion = FourierTrajectory.for_robot(robot, duration=2.0, rng=rng)
    t = np.arange(0.0, 2.0, 0.005)
    q, v, a = motion(t)
    tau = inverse_dynamics(robot, q, v, a)
    channels = {f"q.{name}": q[:, k] for k, name in enumerate(robot.joint_names)}
    channels |= {f"tau.{name}": tau[:, k] for k, name in enumerate(robot.joint_names)}
    settings = Preprocessing().settled(robot, 20.0)
    logs = [[Log.of(t, channels)]]
    problem = Regression.of(robot, motions(robot, logs, settings), settings)
    for name in ("wls", "ml", "adaline", "energy"):
        identifier(name).fit(problem, rng=rng)


SHARES: dict[str, Callable[[], None]] = {"simulation": _simulation, "models": _models}


def warm_caches(root: Path, workers: int) -> None:
    """Compile in one process a share, and give every worker a copy of all."""
    jobs = []
    for share in SHARES:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(root / share)}
        command = [sys.executable, __file__, share]
        jobs.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    digests = {job.communicate()[0].strip() for job in jobs}
    for digest in digests - {""}:
        for share in SHARES:
            for k in range(workers):
                place = root / f"gw{k}" / digest
                done = place / f".{share}"
                if (root / share / digest).is_dir() and not done.exists():
                    shutil.copytree(root / share / digest, place, dirs_exist_ok=True)
                    done.touch()


if __name__ == "__main__":
    SHARES[sys.argv[1]]()
    from bodysense.robot._kernels import jit

    sys.stdout.write(Path(jit._CACHE_FOLDER).name)
