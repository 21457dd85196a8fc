"""The recorded experiment, simulated: the same controller, the same reference, other parameters.

Where the log holds the controller's reference, the simulated robot gets the same. Where it does
not, the simulated robot follows the filtered measured motion instead, driven by the
measured torque beside the controller:

    tau_s = tau + K (Kp (q - q_s) + Kd (v - v_s)).

With the true parameters q_s = q and tau_s = tau. Without the measured torque they would not: a
controller that follows q itself gives no torque where it follows well, and a robot without mass
would follow best.

Long recordings are simulated in legs, each from the measured state at its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from bodysense.errors import MismatchError
from bodysense.excitation.trajectory import SampledTrajectory
from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.consistent.solvers import Conic
from bodysense.identification.identification import Iteration
from bodysense.identification.identifier import require_settings
from bodysense.identification.linear.least_squares import Solve
from bodysense.identification.linear.method import LinearMethod, NoiseWeights
from bodysense.identification.preprocessing import Motion
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.simulated.controller_fit import fit_controller
from bodysense.identification.solution import WeightedSolution
from bodysense.logs.filtering import standing
from bodysense.robot.actuators import Controller, suggested_controller
from bodysense.robot.robot import Robot
from bodysense.simulation.rollout import INTEGRATORS, Experiment, Integrator
from bodysense.simulation.sensitivities import BACKENDS, Backend, backend
from bodysense.spatial.arrays import Array

_LEG_DURATION = 20.0  # simulated in one go [s]: bounds the memory that derivatives take
_LEG_SAMPLES = 8  # samples of a leg at least
_CONTROL_RATE = 5000.0  # control rate where none is known [Hz]
_LARGEST_ERROR = 1.0  # of positions, in units of a joint's motion: the simulation is lost
_GAIN_FACTOR = 1.1  # on gains that are not known
START_WEIGHTS = NoiseWeights(tolerance=1e-2, iterations=10)

_FOLLOWS_MEASURED = (
    "The log does not hold the controller's reference (q_des), or not of all joints, or not "
    "usably (see `bodysense doctor`): the simulation followed the filtered measured motion, driven "
    "by the measured torques."
)


@dataclass(frozen=True)
class LoopSimulation:
    """How the recorded experiment is simulated.

    Attributes:
        integrator: of the simulation: ``euler``, ``rk2`` (midpoint) or ``rk4``, one step per
            control period.
        differentiate: whether the controller takes velocities from differences of positions, as
            drives do; it matters only where the log holds the controller's reference (q_des).
        backend: where simulations run: ``threads``, those of this process.
    """

    integrator: Integrator = "rk2"
    differentiate: bool = True
    backend: str = "threads"

    def __post_init__(self) -> None:
        require_settings(self, integrator=INTEGRATORS, backend=BACKENDS)

    def loop(self, problem: Regression) -> ClosedLoop:
        """The recorded experiment, ready to be simulated."""
        return ClosedLoop.of(
            problem,
            backend(self.backend),
            integrator=self.integrator,
            differentiate=self.differentiate,
        )


@dataclass(frozen=True, eq=False)
class _Leg:
    """A piece of a motion that is simulated in one go.

    Attributes:
        motion: which motion of the problem.
        span: its samples.
        experiment: what is simulated.
    """

    motion: int
    span: slice
    experiment: Experiment

    def every(self, stride: int) -> Experiment:
        """The experiment with every so many samples recorded."""
        return replace(self.experiment, sampling_rate=self.experiment.sampling_rate / stride)


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """All motions of a problem as experiments.

    Build one with `ClosedLoop.of`.

    Attributes:
        problem: the recordings.
        controller: that simulates the real one.
        legs: in the order of the motions and of time.
        place: where simulations run.
        notes: remarks on controller and reference.
        gains_known: whether the gains are those of the robot's file, not estimated or suggested.
    """

    problem: Regression
    controller: Controller
    legs: tuple[_Leg, ...]
    place: Backend
    notes: tuple[str, ...]
    gains_known: bool

    @classmethod
    def of(
        cls, problem: Regression, place: Backend, *, integrator: Integrator, differentiate: bool
    ) -> ClosedLoop:
        """The experiments behind a problem's motions; settings as in `LoopSimulation`."""
        referenced = all(motion.reference is not None for motion in problem.motions)
        controller, notes = _controller(problem, referenced)
        if not referenced:
            notes = (_FOLLOWS_MEASURED, *notes)
        legs = tuple(
            _Leg(k, span, _experiment(problem, motion, span, controller, referenced, integrator))
            for k, motion in enumerate(problem.motions)
            for span in _spans(motion)
        )
        if referenced and differentiate:
            legs = tuple(
                replace(leg, experiment=replace(leg.experiment, differentiate=True)) for leg in legs
            )
        return cls(problem, controller, legs, place, notes, problem.robot.controller is not None)

    def with_higher_gains(self) -> ClosedLoop:
        """The same with gains 10 % higher, for the sensitivity of a result to unknown ones."""
        own, factor = self.controller, _GAIN_FACTOR
        return self.under(replace(own, kp=factor * own.kp, kd=factor * own.kd, ki=factor * own.ki))

    def under(self, controller: Controller) -> ClosedLoop:
        """The same under another controller, at the rates that the legs have."""
        legs = []
        for leg in self.legs:
            same_rate = replace(controller, rate=leg.experiment.controller.rate)
            legs.append(replace(leg, experiment=replace(leg.experiment, controller=same_rate)))
        return replace(self, controller=controller, legs=tuple(legs))

    def start(
        self, prior: Prior, solve: Solve
    ) -> tuple[WeightedSolution, Array, Regression | None]:
        """Weighted least squares; its consistent form or the prior, what follows the motion better.

        Returns:
            The fit, the parameters to start from, and their simulation; none where neither follows
            the recorded motion.
        """
        plain = START_WEIGHTS.fit(self.problem, prior, solve)
        candidates = (prior.theta, consistent_least_squares(prior, plain.stack).theta)
        runs = self.simulated(np.stack(candidates))
        fits = [np.inf if run is None else self.misfit(run) for run in runs]
        best = int(np.argmin(fits))
        return plain, candidates[best], runs[best]

    def lost(self, plain: WeightedSolution, trace: list[Iteration]) -> WeightedSolution:
        """The failure when no simulation follows the recorded motion: plain least squares."""
        when = f"after {len(trace)} steps" if trace else "from the start"
        failure = (
            f"The simulated robot leaves the recorded motion {when}; the estimate is that of "
            "weighted least squares: check the controller's gains and rate, the friction law, and "
            "the controller's reference (q_des)."
        )
        return replace(plain, failure=failure, trace=tuple(trace))

    def remarks(self, plain: WeightedSolution, moved: float | None) -> str:
        """Remarks on controller and reference, and of the weighted least squares before.

        `moved` is by how many standard deviations of the residual predictions would change with
        higher gains; `None` if that simulation is lost, or gains are known.
        """
        made = [*self.notes, *filter(None, [plain.note])]
        if not self.gains_known:
            made.append(
                "With gains 10 % higher the simulation is lost: the result depends on them."
                if moved is None
                else f"With gains 10 % higher its predictions would change by {moved:.2g} standard "
                "deviations of the residual, which its intervals do not count."
            )
        return " ".join(made)

    def simulated(self, theta: Array) -> list[Regression | None]:
        """The problem with simulated motions, for each row of theta (runs, p).

        Torques are the recorded ones, unfiltered: simulated motions have not been filtered either.
        `None` for runs that were lost or do not follow the recorded motion.
        """
        runs = theta.shape[0]
        # Motions that are too short to be simulated stay as they were recorded.
        made = [
            [np.stack([motion.q, motion.v, motion.a]) for motion in self.problem.motions]
            for _ in range(runs)
        ]
        lost = np.full(runs, not self.legs)
        for leg in self.legs:
            run = self.place.rollouts(leg.experiment, theta)
            lost |= np.isfinite(run.lost_at)
            for r in range(runs):
                for x, values in zip(made[r][leg.motion], (run.q, run.v, run.a), strict=True):
                    x[leg.span] = values[r]
        return [
            None
            if lost[r] or self._lost([x[0] for x in made[r]])
            else replace(self.problem, motions=self._motions(made[r]))
            for r in range(runs)
        ]

    def misfit(self, simulated: Regression) -> float:
        """How far a simulation is from the recorded motion, in shares of the joints' own motion."""
        errors = [
            np.square((s.q - m.q) / self._range).mean()
            for s, m in zip(simulated.motions, self.problem.motions, strict=True)
        ]
        return float(np.sqrt(np.mean(errors)))

    def runs(self, theta: Array, quantity: str, stride: Sequence[int]) -> list[list[Array] | None]:
        """Simulated positions (``q``) or torques (``tau``) of each leg, for each theta (runs, p).

        With every so many samples of each motion, by its stride.
        """
        made: list[list[Array]] = [[] for _ in theta]
        lost = np.zeros(len(theta), dtype=bool)
        for leg in self.legs:
            run = self.place.rollouts(leg.every(stride[leg.motion]), theta)
            lost |= np.isfinite(run.lost_at)
            measured = self.problem.motions[leg.motion].q[leg.span][:: stride[leg.motion]]
            for r in np.flatnonzero(~lost):
                lost[r] = self._far(run.q[r], measured)
                made[r].append((run.q if quantity == "q" else run.tau)[r])
        return [None if gone else parts for gone, parts in zip(lost, made, strict=True)]

    def tangent(
        self, leg: _Leg, theta: Array, quantity: str, stride: int
    ) -> tuple[Array, Array] | None:
        """Simulated positions or torques (m, n) of a leg, with derivatives (m, n, b).

        `None` if the run was lost.
        """
        run = self.place.sensitivities(leg.every(stride), theta[None], self.problem.base)
        if not run.ok:
            return None
        return (run.q[0], run.dq[0]) if quantity == "q" else (run.tau[0], run.dtau[0])

    @cached_property
    def _range(self) -> Array:
        """(n,) how far each joint moves, at least a little [rad or m]."""
        moved = np.max([motion.q.std(axis=0) for motion in self.problem.motions], axis=0)
        least: Array = np.maximum(moved, max(1e-2, 0.05 * float(moved.max())))
        return least

    def _far(self, q: Array, measured: Array) -> bool:
        return bool(
            (np.sqrt(np.square(q - measured).mean(axis=0)) > _LARGEST_ERROR * self._range).any()
        )

    def _lost(self, q: list[Array]) -> bool:
        return any(self._far(x, m.q) for x, m in zip(q, self.problem.motions, strict=True))

    def _motions(self, made: list[Array]) -> tuple[Motion, ...]:
        motions = []
        for motion, still, (q, v, a) in zip(self.problem.motions, self._still, made, strict=True):
            # The simulated motion of a joint that stood throughout is no information.
            stood = ~motion.v.any(axis=0)
            q[:, stood] = motion.q[:, stood]
            v[:, stood] = a[:, stood] = 0.0
            motions.append(replace(motion, q=q, v=v, a=a, tau=motion.tau_raw, still=still))
        return tuple(motions)

    @cached_property
    def _still(self) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.bool_]] | None, ...]:
        """Where joints stood in reality: a simulated one may stick at other times."""
        speed = self.problem.settings.still_speed or 0.0
        return tuple(
            motion.still if motion.still is not None or speed == 0.0 else standing(motion.v, speed)
            for motion in self.problem.motions
        )


def _controller(problem: Regression, referenced: bool) -> tuple[Controller, tuple[str, ...]]:
    """The robot's own, or one with gains from the log, or one that holds the simulation."""
    robot = problem.robot
    if robot.controller is not None:
        return robot.controller, ()
    if referenced:
        try:
            fit = fit_controller(robot, problem.motions, problem.settings, rate=_CONTROL_RATE)
        except MismatchError as reason:  # too little motion for gains to be identifiable
            notes = (f"The controller is not known, and not identifiable from the log ({reason})",)
        else:
            return fit.controller, (fit.summary(),)
    else:
        notes = ("The robot's file has no controller.",)
    chosen = "Gains were chosen that hold the simulation."
    return suggested_controller(_as_identified(problem), rate=_CONTROL_RATE), (*notes, chosen)


def _as_identified(problem: Regression) -> Robot:
    """The robot as consistent least squares identifies it: a file may lack drives, or masses."""
    method = LinearMethod("pc-wls", solver=Conic())
    return problem.robot.with_parameters(method.theta(problem))


def _spans(motion: Motion) -> list[slice]:
    n_t = motion.t.size
    count = max(1, min(round(n_t / (_LEG_DURATION * motion.rate)), n_t // _LEG_SAMPLES))
    ends = [n_t * k // count for k in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(ends) if b - a >= _LEG_SAMPLES]


def _experiment(
    problem: Regression,
    motion: Motion,
    span: slice,
    controller: Controller,
    referenced: bool,
    integrator: Integrator,
) -> Experiment:
    # Counted, not subtracted: times since 1970 are good to a tenth of a microsecond only.
    t = np.arange(span.stop - span.start) / motion.rate
    # A whole number of control periods a sample, so that samples lie on control steps.
    rate = motion.rate * max(1, round(controller.rate / motion.rate))
    reference = motion.reference if referenced and motion.reference is not None else motion.q
    trajectory = SampledTrajectory(t, reference[span], at_rest=False)
    feed_forward = None
    if not referenced:
        n_steps = trajectory.sample(rate)[0].size
        at = np.arange(n_steps) / rate
        feed_forward = np.stack([np.interp(at, t, x) for x in motion.tau[span].T], axis=1)
    elif controller.ki.any():
        n_steps = trajectory.sample(rate)[0].size
        held = _integrated(problem.robot, motion, span.start, controller, trajectory)
        feed_forward = np.tile(held, (n_steps, 1))
    return Experiment(
        problem.robot,
        trajectory,
        replace(controller, rate=rate),
        motion.rate,
        integrator,
        start=(motion.q[span.start].copy(), motion.v[span.start].copy()),
        feed_forward=feed_forward,
    )


def _integrated(
    robot: Robot, motion: Motion, first: int, controller: Controller, reference: SampledTrajectory
) -> Array:
    """(n,) joint torques of the controller's integrals at a sample: what its errors do not explain.

    A simulation's integrals start at zero, those of a robot in motion do not.
    """
    C, gain = robot.actuators.coupling, robot.actuators.drive_gain
    q_d, v_d, _ = reference([0.0])
    e, de = C @ (q_d[0] - motion.q[first]), C @ (v_d[0] - motion.v[first])
    motors = np.linalg.solve(C.T, motion.tau[first])
    rest = motors - gain * (controller.kp * e + controller.kd * de)
    torques: Array = C.T @ np.where(controller.ki != 0.0, rest, 0.0)
    return torques
