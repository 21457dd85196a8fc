"""Compile the kernels that many tests need, before the tests: each once, in two processes.

Every process of the tests has a cache of its own, and would compile all of them again.

    python tests/warm_kernels.py identification|estimation    # into NUMBA_CACHE_DIR
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np


def _identification() -> None:
    """Dynamics, regressors, linear methods, rollouts with sensitivities, filters."""
    from bodysense.excitation import FourierTrajectory
    from bodysense.excitation.criterion import BaseRegressor
    from bodysense.identification import Preprocessing, Regression, identifier, motions
    from bodysense.robot import (
        base_parameters,
        forward_dynamics,
        inverse_dynamics,
        load_robot,
        mass_matrix,
    )
    from bodysense.simulation import rollout

    robot, rng = load_robot("tx40"), np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, 4, 6))
    forward_dynamics(robot, q, v, inverse_dynamics(robot, q, v, a))
    mass_matrix(robot, q)
    regressor = BaseRegressor(robot, np.arange(6), base_parameters(robot))
    regressor.pull(q, v, a, np.ones(6), regressor.rows(q, v, a, np.ones(6)))
    motion = FourierTrajectory.for_robot(robot, duration=1.0, rng=rng)
    run = rollout(robot, motion, sampling_rate=200.0, position_noise=1e-5, rng=rng)
    settings = Preprocessing().settled(robot, 20.0)
    problem = Regression.of(robot, motions(robot, [[run.log(0)]], settings), settings)
    linear, filters = ("wls", "ml", "rls", "adaline", "energy"), ("ukf", "srukf", "ekf", "srekf")
    for name in (*linear, "cloe", *filters, "pf"):
        identifier(name).fit(problem, rng=rng)


def _estimation() -> None:
    """The estimators: of one sample, of several, and of positions too."""
    from bodysense.estimation import MapDynamics, StateAndDynamics, StatePrior
    from bodysense.robot import load_robot

    problem, still = MapDynamics(load_robot("tx40"), []), np.zeros((4, 6))
    for T in (1, 4):
        problem.estimate(still[:T], still[:T], np.zeros((T, 0)), detail="slacks")
    prior = StatePrior.of(still[0], still[0], q_std=1.0, dq_std=1.0)
    StateAndDynamics(problem, prior).estimate(np.zeros(0))


# The kernels of estimators take about as long as all others together.
SHARES: dict[str, Callable[[], None]] = {
    "identification": _identification,
    "estimation": _estimation,
}


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
    from bodysense.compiled import jit

    sys.stdout.write(Path(jit._CACHE_FOLDER).name)
