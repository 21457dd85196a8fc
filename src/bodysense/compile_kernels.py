"""Compiling all kernels ahead of their first use: one list of what there is to compile.

A kernel is compiled when it is first called, and kept on disk. Every step here calls some of them
on the smallest problem that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bodysense.compiled import jit


class CompileStep(NamedTuple):
    """Kernels that belong together; steps of a share build on one another, shares do not."""

    name: str
    share: str
    run: Callable[[], None]


def compile_kernels(
    steps: Sequence[CompileStep] | None = None, progress: Callable[[str], None] | None = None
) -> str:
    """Compile what is not compiled yet, and return the folder in which compiled code is kept.

    `progress` gets the name of each step before it begins.
    """
    for step in STEPS if steps is None else steps:
        if progress is not None:
            progress(step.name)
        step.run()
    return jit._CACHE_FOLDER


def _dynamics() -> None:
    from bodysense.excitation.information import BaseRegressor
    from bodysense.robot import (
        base_parameters,
        forward_dynamics,
        inverse_dynamics,
        load_robot,
        mass_matrix,
    )

    robot = load_robot("tx40")
    q, v, a = np.random.default_rng(0).normal(size=(3, 4, 6))
    forward_dynamics(robot, q, v, inverse_dynamics(robot, q, v, a))
    mass_matrix(robot, q)
    regressor = BaseRegressor(robot, np.arange(6), base_parameters(robot))
    regressor.pull(q, v, a, np.ones(6), regressor.rows(q, v, a, np.ones(6)))


def _identified(*methods: str) -> Callable[[], None]:
    """Identify with some methods, after a simulated experiment."""

    def run() -> None:
        from bodysense.excitation import FourierTrajectory
        from bodysense.identification import Preprocessing, Regression, identifier, motions
        from bodysense.robot import load_robot
        from bodysense.simulation import rollout

        robot, rng = load_robot("tx40"), np.random.default_rng(0)
        motion = FourierTrajectory.for_robot(robot, duration=1.0, rng=rng)
        run = rollout(robot, motion, sampling_rate=200.0, position_noise=1e-5, rng=rng)
        if methods:
            settings = Preprocessing().settled(robot, 20.0)
            problem = Regression.of(robot, motions(robot, [[run.log(0)]], settings), settings)
            for name in methods:
                identifier(name).fit(problem, rng=rng)

    return run


def _estimated(T: int) -> Callable[[], None]:
    """Estimate T samples at once."""

    def run() -> None:
        from bodysense.estimation import MapDynamics
        from bodysense.robot import load_robot

        problem, still = MapDynamics(load_robot("tx40"), []), np.zeros((T, 6))
        problem.estimate(still, still, np.zeros((T, 0)), detail="slacks")

    return run


def _state() -> None:
    from bodysense.estimation import MapDynamics, StateAndDynamics, StatePrior
    from bodysense.robot import load_robot

    problem, still = MapDynamics(load_robot("tx40"), []), np.zeros(6)
    prior = StatePrior.of(still, still, q_std=1.0, dq_std=1.0)
    StateAndDynamics(problem, prior).estimate(np.zeros(0))


def _momentum() -> None:
    from bodysense.estimation import MomentumContacts, MomentumObserver
    from bodysense.robot import load_robot

    robot, still = load_robot("tx40"), np.zeros((1, 6))
    observer = MomentumObserver(robot, torque_std=1.0, velocity_std=1.0)
    observer.estimate([0.0], still, still, still).scores(robot.link_names[-1:])
    contacts = MomentumContacts(observer, {robot.link_names[-1]: None})
    for t in (0.0, 0.02):
        contacts.step(t, still[0], still[0], still[0])


STEPS: tuple[CompileStep, ...] = (
    CompileStep("dynamics and regressors", "identification", _dynamics),
    CompileStep("simulation", "identification", _identified()),
    CompileStep(
        "linear methods", "identification", _identified("wls", "ml", "rls", "adaline", "energy")
    ),
    CompileStep("closed-loop methods", "identification", _identified("cloe")),
    CompileStep("filters", "identification", _identified("ukf", "srukf", "ekf", "srekf", "pf")),
    CompileStep("estimation, one sample", "estimation", _estimated(1)),
    CompileStep("estimation, many samples", "estimation", _estimated(4)),
    CompileStep("estimation of the state", "estimation", _state),
    CompileStep("estimation by momentum", "estimation", _momentum),
)
