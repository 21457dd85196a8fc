"""Sensitivities of closed-loop rollouts: how motion and torque change with each parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.compiled.jit import in_threads
from bodysense.errors import MismatchError, unknown_name
from bodysense.excitation.trajectory import Trajectory
from bodysense.files import load_result, save_result
from bodysense.robot.actuators import Controller
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.dynamics import theta_rows
from bodysense.robot.robot import Robot, require_robot
from bodysense.simulation._kernels.sensitivity import run_with_tangent_batch
from bodysense.simulation.rollout import Experiment, Integrator, Rollout, require_controller
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivities:
    """Rollouts with their derivatives by parameters.

    Attributes:
        t: (n_s,) times of the samples [s].
        q: (runs, n_s, n) positions.
        tau: (runs, n_s, n) torques of the controller.
        dq: (runs, n_s, n, n_parameters) derivatives of q.
        dtau: (runs, n_s, n, n_parameters) derivatives of tau.
        lost_at: (runs,) time at which a run left every sensible range, NaN otherwise.
        parameters: names of the parameters, or base parameters, along the last axis.
    """

    t: Array
    q: Array
    tau: Array
    dq: Array
    dtau: Array
    lost_at: Array
    parameters: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether all runs came to their end."""
        return bool(np.isnan(self.lost_at).all())

    def __repr__(self) -> str:
        return f"<Sensitivities: {self.summary()}>"

    def summary(self) -> str:
        """What was differentiated by what, in words."""
        runs, n_s, n, n_p = self.dq.shape
        lost = int(np.isfinite(self.lost_at).sum())
        ending = "all completed" if lost == 0 else f"{lost} lost: the loop is unstable"
        return f"{runs} run(s) of {n} joints by {n_p} parameters, {n_s} samples, {ending}."

    def save(self, folder: str | Path) -> None:
        """Write ``sensitivities.npz`` and ``sensitivities.json`` into a folder."""
        save_result(self, folder, "sensitivities")

    @classmethod
    def load(cls, folder: str | Path) -> Sensitivities:
        """Read what `save` wrote, or raise `FileReadError`."""
        return load_result(cls, folder, "sensitivities", shapes=_shapes)


def _shapes(stored: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    shape = (*stored["q"].shape, len(stored["parameters"]))
    return {"dq": shape, "dtau": shape}


def sensitivities(
    robot: Robot,
    trajectory: Trajectory,
    *,
    base: BaseParameters | None = None,
    parameters: list[str] | None = None,
    theta: ArrayLike | None = None,
    controller: Controller | None = None,
    sampling_rate: float | None = None,
    integrator: Integrator = "euler",
    substeps: int = 1,
    start: tuple[ArrayLike, ArrayLike] | None = None,
    feed_forward: ArrayLike | None = None,
    saturate: bool = False,
    differentiate: bool = False,
) -> Sensitivities:
    """Simulate as `rollout` without noise, with the derivatives by parameters in the same pass.

    They are the derivatives of the discrete simulation itself. Friction with a jump at zero
    velocity (width 0) is differentiated beside the jump: give it a width where the exact
    derivative through a change of direction matters.

    Args:
        robot: a fixed-base robot whose friction law has no state (not LuGre).
        trajectory: the reference.
        base: differentiate by these base parameters. A base parameter acts exactly as the
            parameter that is kept for it, since its column of the regressor is the same.
        parameters: differentiate by these parameters of theta instead; all if neither is given.
        theta: (p,) or (runs, p) parameters; the robot's own if not given.
        controller: as in `rollout`, like all that follow.
        sampling_rate: of the recorded samples [Hz].
        integrator: ``euler``, ``rk2`` or ``rk4``.
        substeps: integration steps per control period.
        start: first position and velocity.
        feed_forward: torques added to the controller's.
        saturate: limit the torques; a saturated motor does not answer to parameters.
        differentiate: give the controller backward differences of positions.
    """
    require_robot(robot)
    controller = require_controller(robot, controller)
    experiment = Experiment(
        robot,
        trajectory,
        controller,
        controller.rate if sampling_rate is None else float(sampling_rate),
        integrator,
        start,
        feed_forward,
        differentiate,
        substeps,
        saturate,
    )
    return _simulate_with_tangent(experiment, theta, base, parameters)


def _simulate_with_tangent(
    experiment: Experiment,
    theta: ArrayLike | None,
    base: BaseParameters | None = None,
    parameters: list[str] | None = None,
) -> Sensitivities:
    """Run an experiment with derivatives by parameters, see `sensitivities`."""
    robot, n = experiment.robot, experiment.robot.n_joints
    if robot.friction.model.has_state:
        raise MismatchError(
            f"friction {robot.friction.model.name!r} has a state: sensitivities need a law that is "
            'a function of velocity. Use robot.with_friction("stribeck", …), its steady state.'
        )
    columns, names = _columns(robot, base, parameters)
    loop, q_d, v_d, ff, first = experiment.prepare()
    rows = theta_rows(robot, theta)
    shape = (rows.shape[0], loop.sample.size, n)
    q, tau = np.full(shape, np.nan), np.full(shape, np.nan)
    dq, dtau = (np.full((*shape, columns.size), np.nan) for _ in range(2))
    lost = np.empty(shape[0], dtype=np.int64)
    reference = (q_d, v_d, ff, np.zeros(n), first)
    out = (q, tau, dq, dtau, lost)
    in_threads(run_with_tangent_batch, shape[0], robot.tree, rows, columns, loop, *reference, *out)
    return Sensitivities(
        t=np.asarray(loop.sample * loop.period, dtype=np.float64),
        q=q,
        tau=tau,
        dq=dq,
        dtau=dtau,
        lost_at=np.where(lost < 0, np.nan, lost * loop.period),
        parameters=names,
    )


def _columns(
    robot: Robot, base: BaseParameters | None, parameters: list[str] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if base is not None and parameters is not None:
        raise MismatchError("give base or parameters, not both.")
    if base is not None:
        base.require_fits(robot)
        return np.ascontiguousarray(base.independent, dtype=np.int64), base.names
    names = tuple(robot.layout.names if parameters is None else parameters)
    if not names:
        raise unknown_name("parameter", "(none)", robot.layout.names)
    return np.array([robot.layout.index(name) for name in names], dtype=np.int64), names


class Backend:
    """Runs experiments on the threads of this process; another place overrides both methods.

    Methods ask a backend for batches of runs and do not know the place. It is chosen by name, so
    that the settings of a method stay plain words in its files.
    """

    def rollouts(self, experiment: Experiment, theta: Array) -> Rollout:
        """One run for each row of theta (runs, p)."""
        return experiment.simulate(theta)

    def sensitivities(
        self, experiment: Experiment, theta: Array, base: BaseParameters
    ) -> Sensitivities:
        """One run for each row of theta (runs, p), with derivatives by the base parameters."""
        return _simulate_with_tangent(experiment, theta, base)


BACKENDS: Mapping[str, Backend] = MappingProxyType({"threads": Backend()})
"""Every backend by its name."""


def backend(name: str) -> Backend:
    """The backend of that name."""
    if name not in BACKENDS:
        raise unknown_name("backend", name, BACKENDS)
    return BACKENDS[name]
