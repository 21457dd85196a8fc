"""Closed-loop rollouts: a robot tracks a trajectory under its joint controller, many times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.excitation.trajectory import Trajectory
from bodysense.files import load_result, save_result
from bodysense.logs.log import UNITS, Log
from bodysense.robot.actuators import Controller
from bodysense.robot.dynamics import theta_rows
from bodysense.robot.robot import Robot, require_robot
from bodysense.simulation._kernels.rollout import Loop, Runs, simulate_runs
from bodysense.spatial.arrays import Array, as_array, one_each

Integrator = Literal["euler", "rk2", "rk4"]
INTEGRATORS: dict[str, int] = {"euler": 1, "rk2": 2, "rk4": 4}
"""Stages of each integrator: explicit Euler, midpoint, Runge-Kutta of order four."""


@dataclass(frozen=True, eq=False, repr=False)
class Rollout:
    """What happened in a batch of runs.

    Attributes:
        t: (n_s,) times of the samples [s].
        q: (runs, n_s, n) positions.
        v: (runs, n_s, n) velocities.
        a: (runs, n_s, n) accelerations.
        tau: (runs, n_s, n) torques of the controller.
        q_measured: (runs, n_s, n) positions as the encoders saw them.
        tau_measured: (runs, n_s, n) torques as the log has them.
        lost_at: (runs,) time at which a run left every sensible range, NaN for those that did
            not; its samples from then on are NaN.
        effort_limit: (n,) of the robot, infinite where unknown.
        reference: (n_s, n) reference positions of the controller.
        joint_names: of the n joints.
    """

    t: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    q_measured: Array
    tau_measured: Array
    lost_at: Array
    effort_limit: Array
    reference: Array
    joint_names: tuple[str, ...]

    @property
    def n_runs(self) -> int:
        """Number of runs."""
        return int(self.q.shape[0])

    @property
    def ok(self) -> bool:
        """Whether all runs came to their end."""
        return bool(np.isnan(self.lost_at).all())

    def __repr__(self) -> str:
        return f"<Rollout: {self.summary()}>"

    def summary(self) -> str:
        """What happened, in words, with advice if runs were lost."""
        text = (
            f"{self.n_runs} run(s) of {len(self.joint_names)} joints, {self.t.size} samples over "
            f"{self.t[-1]:g} s"
        )
        lost = np.flatnonzero(~np.isnan(self.lost_at))
        if not lost.size:
            return f"{text}, all completed.{self._excess()}"
        return (
            f"{text}; {lost.size} lost, the first (run {lost[0]}) at {self.lost_at[lost[0]]:g} s: "
            "the loop is unstable. Lower the gains, raise the control rate or the substeps, use "
            "rk4, or check that the parameters keep the mass matrix positive."
        )

    def log(self, run: int = 0) -> Log:
        """What would have been recorded of one run.

        Channels ``q.<joint>`` and ``tau.<joint>`` as sensors saw them, and ``q_des.<joint>``, what
        the controller was told.
        """
        if not 0 <= run < self.n_runs:
            raise ShapeError(f"run is {run}: there are {self.n_runs}, counted from 0.")
        recorded = (
            ("q", self.q_measured[run]),
            ("tau", self.tau_measured[run]),
            ("q_des", self.reference),
        )
        channels = {
            f"{quantity}.{name}": values[:, k]
            for quantity, values in recorded
            for k, name in enumerate(self.joint_names)
        }
        return Log.of(self.t, channels, {f"q_des.{name}": UNITS["q"] for name in self.joint_names})

    def _excess(self) -> str:
        """Which joints needed more torque than the robot has."""
        ratio = np.nanmax(np.abs(self.tau), axis=(0, 1)) / self.effort_limit
        over = [
            f"{name} ({r:.2g} times)"
            for name, r in zip(self.joint_names, ratio, strict=True)
            if r > 1.0
        ]
        if not over:
            return ""
        return (
            f" Beyond the effort limits: {', '.join(over)}. Limit them with saturate=True, or use "
            "softer gains, a slower motion or less noise."
        )

    def save(self, folder: str | Path) -> None:
        """Write ``rollout.npz`` and ``rollout.json`` into a folder."""
        save_result(self, folder, "rollout")

    @classmethod
    def load(cls, folder: str | Path) -> Rollout:
        """Read what `save` wrote, or raise `FileReadError`."""
        return load_result(cls, folder, "rollout", shapes=_shapes)


def _shapes(stored: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    runs, n_s, n = stored["q"].shape[0], stored["t"].size, len(stored["joint_names"])
    motions = ("q", "v", "a", "tau", "q_measured", "tau_measured")
    sizes = {"lost_at": (runs,), "effort_limit": (n,), "reference": (n_s, n)}
    return {**dict.fromkeys(motions, (runs, n_s, n)), **sizes}


@dataclass(frozen=True, eq=False)
class Experiment:
    """Everything about a closed-loop run but parameters and noise: the settings of `rollout`."""

    robot: Robot
    trajectory: Trajectory
    controller: Controller
    sampling_rate: float
    integrator: Integrator = "rk2"
    start: tuple[ArrayLike, ArrayLike] | None = None
    feed_forward: ArrayLike | None = None
    differentiate: bool = False
    substeps: int = 1
    saturate: bool = False

    def simulate(
        self,
        theta: ArrayLike | None,
        runs: int | None = None,
        position_noise: ArrayLike = 0.0,
        torque_noise: ArrayLike = 0.0,
        rng: np.random.Generator | None = None,
    ) -> Rollout:
        """Run an experiment with parameters and noise, see `rollout`."""
        robot, n = self.robot, self.robot.n_joints
        loop, q_d, v_d, ff, first = self.prepare()
        sigma_q = _sigma(position_noise, n, "position_noise")
        sigma_tau = _sigma(torque_noise, n, "torque_noise")
        noisy = bool(sigma_q.any() or sigma_tau.any())
        if noisy and rng is None:
            raise ShapeError("noise needs a generator: pass rng=numpy.random.default_rng(seed).")
        if runs is not None:
            runs = _count(runs, "the number of runs")
        rows = theta_rows(robot, theta, runs)
        n_runs = runs or len(rows)
        key = np.zeros(n_runs, dtype=np.uint64)
        if rng is not None and noisy:
            key = rng.integers(0, 2**64, n_runs, dtype=np.uint64)
        shape = (n_runs, loop.sample.size, n)
        q, v, a, tau, q_seen = (np.empty(shape) for _ in range(5))
        lost = np.empty(n_runs, dtype=np.int64)
        batch = Runs(rows, q_d, v_d, ff, sigma_q, key, first, q, v, a, tau, q_seen, lost)
        simulate_runs(robot.tree, loop, batch)
        for r in np.flatnonzero(lost >= 0):  # what follows a loss was never written
            for array in (q, v, a, tau, q_seen):
                array[r, loop.sample >= lost[r]] = np.nan
        tau_measured = tau.copy()
        if rng is not None and sigma_tau.any():
            tau_measured += sigma_tau * rng.standard_normal(shape)
        return Rollout(
            t=np.asarray(loop.sample * loop.period, dtype=np.float64),
            q=q,
            v=v,
            a=a,
            tau=tau,
            q_measured=q_seen,
            tau_measured=tau_measured,
            lost_at=np.where(lost < 0, np.nan, lost * loop.period),
            effort_limit=robot.effort_limit,
            reference=q_d[loop.sample],
            joint_names=robot.joint_names,
        )

    def prepare(self) -> tuple[Loop, Array, Array, Array, Array]:
        """Check the settings and lay them out for the kernels.

        The loop, reference positions and velocities (n_control_steps, n), feed-forward torques (0
        rows for none) and first position and velocity (2, n).
        """
        robot, n, rate = self.robot, self.robot.n_joints, self.controller.rate
        if self.trajectory.n_axes != n:
            raise MismatchError(
                f"the trajectory moves {self.trajectory.n_axes} axes, {robot.name!r} has {n} "
                f"joints ({', '.join(robot.joint_names)}): it was made for another robot."
            )
        if self.controller.kp.size != n:
            raise MismatchError(
                f"the controller is for {self.controller.kp.size} joints, {robot.name!r} has {n}: "
                f"build it with Controller.from_gains({n}, kp=…, kd=…, rate=…)."
            )
        if not 0.0 < self.sampling_rate <= rate * (1.0 + 1e-9):
            raise ShapeError(
                f"the sampling rate is {self.sampling_rate:g} Hz: give a number above zero and at "
                f"most the control rate, {rate:g} Hz."
            )
        if self.saturate and not np.isfinite(robot.effort_limit).any():
            raise MismatchError(
                f"{robot.name!r} has no effort limits to saturate at: leave saturate out, or give "
                "its file limits."
            )
        _, q_d, v_d, _ = self.trajectory.sample(rate)
        steps = q_d.shape[0] - 1
        n_samples = int(np.floor(steps / rate * self.sampling_rate * (1.0 + 1e-12) + 1e-9)) + 1
        sample = np.rint(np.arange(n_samples) * (rate / self.sampling_rate)).astype(np.int64)
        loop = make_loop(
            robot, self.controller, 1.0 / rate, self.integrator, self.substeps
        )._replace(differentiate=int(self.differentiate), sample=np.minimum(sample, steps))
        if self.saturate:
            loop = loop._replace(limit=robot.effort_limit)
        ff = np.zeros((0, n))
        if self.feed_forward is not None:
            ff = as_array(self.feed_forward, (steps + 1, n), "feed_forward")
            # The kernel adds it motor by motor: tau = Cᵀ tau_reduced.
            ff = np.ascontiguousarray(np.linalg.solve(loop.coupling.T, ff.T).T)
        q0, v0 = (q_d[0], v_d[0]) if self.start is None else self.start
        first = [as_array(q0, (n,), "start position"), as_array(v0, (n,), "start velocity")]
        # Copies in C order: for read-only or transposed arrays, numba would compile anew.
        return loop, np.array(q_d, order="C"), np.array(v_d, order="C"), ff, np.stack(first)


def require_controller(robot: Robot, controller: Controller | None) -> Controller:
    """The controller, or the robot's own; refuses robots without."""
    _require_fixed_base(robot)
    controller = controller if controller is not None else robot.controller
    if controller is None:
        raise MismatchError(
            f"{robot.name!r} comes without a controller: pass one that you know, "
            f"controller=Controller.from_gains({robot.n_joints}, kp=…, kd=…, rate=…), or "
            "controller=suggested_controller(robot)."
        )
    return controller


def _require_fixed_base(robot: Robot) -> None:
    """Refuse robots that float or have no joints."""
    if robot.floating_base or robot.n_joints == 0:
        raise MismatchError(
            f"{robot.name!r} {'floats' if robot.floating_base else 'has no joints'}: simulations "
            "are of fixed-base robots with joints. Load it with floating_base=False, or use "
            "forward_dynamics."
        )


def make_loop(
    robot: Robot, controller: Controller | None, period: float, integrator: str, substeps: int
) -> Loop:
    """A controller, or none, at a period [s], without limits and samples, for the kernels."""
    _require_fixed_base(robot)
    if integrator not in INTEGRATORS:
        raise unknown_name("integrator", integrator, INTEGRATORS)
    n, gain = robot.n_joints, robot.actuators.drive_gain
    coupling = np.array(robot.actuators.coupling)
    kp, kd, ki = (
        np.zeros((3, n)) if controller is None else (controller.kp, controller.kd, controller.ki)
    )
    return Loop(
        kp=gain * kp,
        kd=gain * kd,
        ki=gain * ki,
        limit=np.full(n, np.inf),
        coupling=coupling,
        coupled=int(not np.array_equal(coupling, np.eye(n))),
        period=float(period),
        substeps=_count(substeps, "substeps"),
        integrator=INTEGRATORS[integrator],
        differentiate=0,
        sample=np.zeros(0, dtype=np.int64),
    )


def rollout(
    robot: Robot,
    trajectory: Trajectory,
    *,
    theta: ArrayLike | None = None,
    runs: int | None = None,
    controller: Controller | None = None,
    sampling_rate: float | None = None,
    integrator: Integrator = "euler",
    substeps: int = 1,
    start: tuple[ArrayLike, ArrayLike] | None = None,
    feed_forward: ArrayLike | None = None,
    saturate: bool = False,
    position_noise: ArrayLike = 0.0,
    differentiate: bool | None = None,
    torque_noise: ArrayLike = 0.0,
    rng: np.random.Generator | None = None,
) -> Rollout:
    """Simulate a fixed-base robot that tracks a trajectory under its controller.

    The controller acts at its own rate and holds its torque in between. Runs are spread over the
    cores; each has its own noise, which does not depend on the number of cores. The result takes
    48 bytes a joint, sample and run: lower the sampling rate for large batches.

    Args:
        robot: a fixed-base robot.
        trajectory: the reference, one axis a joint.
        theta: (p,) or (runs, p) parameters, physical or not; the robot's own if not given.
            To simulate base parameters, give ``base.join(theta_base)``.
        runs: number of runs; as many as theta has rows if not given.
        controller: instead of the robot's own.
        sampling_rate: of the recorded samples [Hz], at most the control rate; the control rate
            if not given. Where it does not divide the control rate, the nearest step is taken.
        integrator: ``euler`` (explicit), ``rk2`` (midpoint) or ``rk4``.
        substeps: integration steps a control period.
        start: first position and velocity (n,) each; those of the trajectory if not given.
        feed_forward: (n_control_steps, n) joint torques added to the controller's, e.g. from
            `inverse_dynamics` of the reference.
        saturate: limit the torques to the robot's effort limits.
        position_noise: standard deviation of the encoders [rad or m], one number or one per joint;
            the controller sees it too.
        differentiate: give the controller backward differences of the measured positions instead
            of true velocities, but for the first step; by default just when there is position
            noise.
        torque_noise: standard deviation of the logged torques [N·m], one number or one per joint.
        rng: source of all noise; needed when there is any.
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
        bool(np.any(position_noise)) if differentiate is None else differentiate,
        substeps,
        saturate,
    )
    return experiment.simulate(theta, runs, position_noise, torque_noise, rng)


def _count(value: object, name: str) -> int:
    if not isinstance(value, int | np.integer) or value < 1:
        raise ShapeError(f"{name} is {value!r}: give a whole number, at least one.")
    return int(value)


def _sigma(value: ArrayLike, n: int, name: str) -> Array:
    sigma = one_each(value, n, name)
    if (sigma < 0.0).any():
        raise ShapeError(f"{name} is {sigma.min():g}: a standard deviation cannot be negative.")
    return sigma
