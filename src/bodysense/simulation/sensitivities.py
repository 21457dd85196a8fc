"""Sensitivities of closed-loop rollouts: how motion and torque change with each parameter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.compiled.jit import in_threads
from bodysense.errors import FileReadError, MismatchError, unknown_name
from bodysense.excitation.trajectory import Trajectory
from bodysense.files import read_result, write_result
from bodysense.robot.actuators import Controller
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.dynamics import count_rows, theta_rows
from bodysense.robot.robot import Robot
from bodysense.simulation._kernels.sensitivity import run_with_tangent_batch
from bodysense.simulation.rollout import Integrator, Rollout, first_state, prepare, rollout
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
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        about = {"parameters": list(self.parameters), "summary": self.summary()}
        write_result(folder, "sensitivities", arrays, about)

    @classmethod
    def load(cls, folder: str | Path) -> Sensitivities:
        """Read what `save` wrote."""
        arrays, about = read_result(folder, "sensitivities", _ARRAYS, ("parameters",))
        names, shape = about["parameters"], arrays["dq"].shape
        if len(shape) != 4 or not isinstance(names, list) or len(names) != shape[3]:
            raise FileReadError(f"the files in {folder} do not belong together: save them again.")
        return cls(**arrays, parameters=tuple(names))


_ARRAYS = ("t", "q", "tau", "dq", "dtau", "lost_at")


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
        substeps: integration steps a control period.
        start: first position and velocity.
        feed_forward: torques added to the controller's.
        saturate: limit the torques; a saturated motor does not answer to parameters.
        differentiate: give the controller backward differences of positions.
    """
    if robot.friction.model.has_state:
        raise MismatchError(
            f"friction {robot.friction.model.name!r} has a state: sensitivities need a law that is "
            'a function of velocity. Use robot.with_friction("stribeck", …), its steady state.'
        )
    columns, names = _columns(robot, base, parameters)
    loop, q_d, v_d, ff = prepare(
        robot,
        trajectory,
        controller=controller,
        sampling_rate=sampling_rate,
        integrator=integrator,
        substeps=substeps,
        feed_forward=feed_forward,
        saturate=saturate,
    )
    loop = loop._replace(differentiate=int(differentiate))
    rows = theta_rows(robot, theta, count_rows(theta))
    n, n_s = robot.n_joints, loop.sample.size
    q, tau = (np.full((rows.shape[0], n_s, n), np.nan) for _ in range(2))
    dq, dtau = (np.full((rows.shape[0], n_s, n, columns.size), np.nan) for _ in range(2))
    lost = np.empty(rows.shape[0], dtype=np.int64)
    in_threads(
        run_with_tangent_batch,
        rows.shape[0],
        robot.tree,
        rows,
        columns,
        loop,
        q_d,
        v_d,
        ff,
        np.zeros(n),
        first_state(robot, start, q_d, v_d),
        q,
        tau,
        dq,
        dtau,
        lost,
    )
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


# An experiment that can be simulated again and again with other parameters.


@dataclass(frozen=True, eq=False)
class Experiment:
    """Everything about a closed-loop run but the parameters, without noise.

    Attributes:
        robot: a fixed-base robot.
        trajectory: the reference.
        controller: of the joints.
        sampling_rate: of the recorded samples [Hz].
        integrator: ``euler``, ``rk2`` or ``rk4``, one step a control period.
        start: first position and velocity, (n,) each; those of the trajectory if `None`.
        feed_forward: (n_control_steps, n) joint torques added to the controller's.
        differentiate: whether the controller sees differences of positions, as drives do, instead
            of velocities.
    """

    robot: Robot
    trajectory: Trajectory
    controller: Controller
    sampling_rate: float
    integrator: Integrator = "rk2"
    start: tuple[Array, Array] | None = None
    feed_forward: Array | None = None
    differentiate: bool = False

    def settings(self) -> dict[str, Any]:
        """As `rollout` and `sensitivities` take them."""
        return {
            "controller": self.controller,
            "sampling_rate": self.sampling_rate,
            "integrator": self.integrator,
            "start": self.start,
            "feed_forward": self.feed_forward,
            "differentiate": self.differentiate,
        }


# Where simulations run: methods ask a backend for batches of runs and do not know the place.
#
# A backend is found by name, so that the settings of a method stay plain words in its files.


class Backend(ABC):
    """Runs experiments.

    Class attributes:
        name: by which it is asked for.
    """

    name: ClassVar[str]

    @abstractmethod
    def rollouts(self, experiment: Experiment, theta: Array) -> Rollout:
        """One run for each row of theta (runs, p)."""

    @abstractmethod
    def sensitivities(
        self, experiment: Experiment, theta: Array, base: BaseParameters
    ) -> Sensitivities:
        """One run for each row of theta (runs, p), with derivatives by the base parameters."""


class Threads(Backend):
    """On the threads of this process."""

    name: ClassVar[str] = "threads"

    def rollouts(self, experiment: Experiment, theta: Array) -> Rollout:
        """One run a thread at a time."""
        return rollout(
            experiment.robot, experiment.trajectory, theta=theta, **experiment.settings()
        )

    def sensitivities(
        self, experiment: Experiment, theta: Array, base: BaseParameters
    ) -> Sensitivities:
        """One run a thread at a time."""
        return sensitivities(
            experiment.robot,
            experiment.trajectory,
            theta=theta,
            base=base,
            **experiment.settings(),
        )


BACKENDS: Mapping[str, Backend] = MappingProxyType({Threads.name: Threads()})
"""Every backend by its name."""


def backend(name: str) -> Backend:
    """The backend of that name."""
    if name not in BACKENDS:
        raise unknown_name("backend", name, BACKENDS)
    return BACKENDS[name]
