"""Motions designed to show the parameters of a robot, within all of its limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import get_num_threads
from numpy.typing import ArrayLike

from bodysense.errors import TrajectoryError, unknown_name
from bodysense.excitation.clearance import CollisionClearance, WorkspaceClearance
from bodysense.excitation.criterion import Criterion, condition_number, criterion_of
from bodysense.excitation.motion_check import Check
from bodysense.excitation.motion_family import motion_family
from bodysense.excitation.motion_limits import LimitUse, MotionLimits
from bodysense.excitation.motion_problem import Clearance, MotionProblem
from bodysense.excitation.motion_setup import (
    checked_start,
    free_poses,
    moving_base_parameters,
    moving_joints,
    with_smooth_friction,
)
from bodysense.excitation.precision import (
    base_sizes,
    independent_rate,
    plausible_sizes,
    standard_deviations,
    torque_noise,
)
from bodysense.excitation.search import Progress, Search
from bodysense.excitation.trajectory import Trajectory, positive
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.collisions import Closest, Collisions
from bodysense.robot.robot import Robot
from bodysense.robot.shapes import link_hulls
from bodysense.robot.workspace import Workspace, WorkspaceMargins
from bodysense.spatial.arrays import Array, as_array


@dataclass(frozen=True, eq=False, repr=False)
class Design:
    """A designed motion, or several that complement each other.

    Attributes:
        robot_name: whose motion it is.
        joints: names of the joints that move; all others hold.
        trajectories: the motions, of all joints.
        criterion: name of what was minimised.
        value: its value, counted with what was known before.
        condition: cond(W) of the base regressor, rows divided by the torque's noise.
        start_value: the criterion of the median random motion.
        base: the base parameters that such motions can show.
        theta_base: (b,) their values by the robot's description.
        sigma: (b,) predicted standard deviations.
        sizes: (b,) plausible sizes, to hold sigma against.
        information: (b, b) upper triangular R with RᵀR = WᵀW and what was known: the `known` of
            a next design.
        uses: greatest use of every limit of every joint, checked at `rate`.
        closest: where bodies come closest (sample at `rate`), None where it was not asked for.
        closest_time: when [s], and in which trajectory.
        workspace_margin: least distance to the walls [m], infinite without any.
        rate: of the final check [Hz].
        status: ``time``, ``interrupted`` or ``enough``.
        advice: what to do next, in words.
        seconds: how long it took, checks included.
        history: seconds and value of every improvement.
        notes: what was decided, in words.
    """

    robot_name: str
    joints: tuple[str, ...]
    trajectories: tuple[Trajectory, ...]
    criterion: str
    value: float
    condition: float
    start_value: float
    base: BaseParameters
    theta_base: Array
    sigma: Array
    sizes: Array
    information: Array
    uses: tuple[LimitUse, ...]
    closest: Closest | None
    closest_time: tuple[float, int]
    workspace_margin: float
    rate: float
    status: str
    advice: str
    seconds: float
    history: tuple[tuple[float, float], ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Design: {self.summary().splitlines()[0]}>"

    @property
    def unidentifiable(self) -> tuple[str, ...]:
        """Base parameters that stay as uncertain as they were: sigma above the plausible size."""
        poor = ~(self.sigma < self.sizes)
        return tuple(name for name, is_poor in zip(self.base.names, poor, strict=True) if is_poor)

    @property
    def peak_use(self) -> float:
        """Greatest use of any limit: 1 at the limit, above it breaks one."""
        return max((use.ratio for use in self.uses), default=0.0)

    def use(self, quantity: str) -> LimitUse:
        """The greatest use of ``position``, ``speed``, ``acceleration`` or ``torque``."""
        found = [use for use in self.uses if use.quantity == quantity]
        if not found:
            raise unknown_name("quantity", quantity, dict.fromkeys(u.quantity for u in self.uses))
        return max(found, key=lambda use: use.ratio)

    def summary(self) -> str:
        """The design in a few lines."""
        count = len(self.trajectories)
        lines = [
            f"{self.robot_name}: {count} motion{'s' if count > 1 else ''} of "
            f"{self.trajectories[0].duration:g} s for {len(self.joints)} joints, condition number "
            f"{self.condition:.4g}, {self.criterion} {self.value:.4g} (random motion "
            f"{self.start_value:.4g}).",
            f"{self.base.size - len(self.unidentifiable)} of {self.base.size} base parameters come "
            "out better than they could be guessed.",
            "Limits used at most: "
            + ", ".join(
                f"{quantity} {100.0 * self.use(quantity).ratio:.1f} %"
                for quantity in ("position", "speed", "acceleration", "torque")
            )
            + f" (checked at {self.rate:g} Hz).",
        ]
        if self.closest is not None:
            lines.append(f"Clearance: {self.closest.summary()}.")
        return "\n".join([*lines, self.advice])


def design_motion(
    robot: Robot,
    *,
    family: str = "fourier",
    criterion: str | Criterion = "condition",
    duration: float = 10.0,
    harmonics: int | None = None,
    knots: int | None = None,
    limits: MotionLimits | None = None,
    collisions: Collisions | None = None,
    workspace: Workspace | WorkspaceMargins | None = None,
    joints: Sequence[str] | None = None,
    start: ArrayLike | None = None,
    trajectories: int = 1,
    known: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    friction: str | None = None,
    rate: float = 1000.0,
    seconds: float = 60.0,
    iterations: int | None = None,
    threads: int | None = None,
    rng: np.random.Generator | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Design:
    """Find motions that show the base parameters best and keep all limits.

    Ctrl-C ends the search and returns the best motion so far.

    Args:
        robot: with a fixed base.
        family: ``fourier`` (series, periodic) or ``spline`` (quintic B-spline); both start and
            end at rest in the same pose.
        criterion: ``condition``, ``d-optimal``, ``precision``, or one with settings of its own.
        duration: of each motion [s].
        harmonics: of a Fourier series; by default two a second, 5 to 20.
        knots: control points of a spline that move; by default four a second, 10 to 40.
        limits: the robot's own if None, see `MotionLimits.of`.
        collisions: pairs of bodies to keep apart; not checked if None.
        workspace: room to stay inside; not checked if None.
        joints: names of those that move. If None all but the lightest, see `Design.notes`.
        start: (n_joints,) pose at start and end, in which other joints hold. Free if None; other
            joints then hold in the middle of their ranges.
        trajectories: how many motions that complement each other, designed together.
        known: (b, b) R with RᵀR the information of what is recorded already, in the same base
            parameters, rows divided by noise: the `information` of another design.
        noise: standard deviation of the torque's noise, one number or one a joint; by default 1 %
            of the effort limit, or of gravity's torque where there is none.
        friction: name of another friction law to excite than the robot's.
        rate: of the recording, and of the final check (1000 Hz at least) [Hz].
        seconds: time for the search [s].
        iterations: stop after so many steps, for results that can be repeated (with threads=1).
        threads: number of threads; all cores by default.
        rng: source of random starts.
        progress: called a few times a second with `Progress`.

    Raises:
        TrajectoryError: no such motion can exist; the message says why.
        UnknownNameError: a joint, criterion, family or parameter that does not exist.
        KeyboardInterrupt: before a first motion was found.
    """
    begun = time.monotonic()
    moving, notes = moving_joints(robot, joints)
    limits = MotionLimits.of(robot) if limits is None else limits
    limits.require_room(robot.joint_names, moving.tolist())
    rate, seconds = positive(rate, "rate", "Hz"), positive(seconds, "seconds", "s")
    if trajectories < 1:
        raise TrajectoryError(f"trajectories is {trajectories}: ask for one at least.")
    smooth, more = with_smooth_friction(robot, friction)
    margins = _margins(robot, workspace)
    if start is None:
        anchor = np.array(limits.middle)
        centres = free_poses(robot, limits, moving, anchor, collisions, margins)
        anchor[moving] = centres[0][moving]
    else:
        anchor = checked_start(robot, limits, moving, start, collisions, margins)
        centres = anchor[np.newaxis]
    chosen = motion_family(family, duration, harmonics, knots, rate, anchored=start is not None)
    base = moving_base_parameters(smooth, moving, anchor)
    sizes = base_sizes(base, plausible_sizes(smooth, limits.effort, limits.velocity))
    clearances: list[Clearance] = []
    if collisions is not None:
        clearances.append(CollisionClearance(collisions))
    if margins is not None and margins.parts:
        clearances.append(WorkspaceClearance(margins))
    problem = MotionProblem(
        smooth,
        moving,
        base,
        chosen,
        anchor,
        limits,
        torque_noise(robot, limits.effort, noise),
        criterion_of(criterion).measure(base, sizes),
        _known(known, base),
        trajectories,
        independent_rate(chosen.highest_frequency, rate),
        tuple(clearances),
    )
    rng = np.random.default_rng() if rng is None else rng
    search = Search(problem, rng, seconds, centres, iterations)
    search.run(threads or get_num_threads(), progress)
    if search.best is None:
        raise TrajectoryError(
            f"no motion was found in {seconds:g} s: give more seconds, fewer harmonics or wider "
            "limits."
        )
    check = Check(robot, limits, collisions, margins, max(rate, 1000.0))
    motions, checked, shrunk = check.repaired(problem, search.best)
    if shrunk < 1.0:
        more = (*more, f"shrunk to {100 * shrunk:.2f} % to keep limits between the samples.")
    M = problem.information(motions, check.rate)
    return Design(
        robot_name=robot.name,
        joints=tuple(robot.joint_names[j] for j in moving),
        trajectories=motions,
        criterion=criterion_of(criterion).name,
        value=problem.measure.value(M),
        condition=condition_number(M),
        start_value=search.start_value,
        base=base,
        theta_base=base.to_base(smooth.theta),
        sigma=standard_deviations(M),
        sizes=sizes,
        information=_factor(M),
        uses=checked.uses,
        closest=checked.closest,
        closest_time=checked.closest_time,
        workspace_margin=checked.workspace_margin,
        rate=check.rate,
        status=search.status if checked.kept else "violated",
        advice=_advice(search, checked.kept, seconds),
        seconds=time.monotonic() - begun,
        history=tuple(search.history),
        notes=(*notes, *more, *(margins.notes if margins is not None else ())),
    )


def _margins(
    robot: Robot, workspace: Workspace | WorkspaceMargins | None
) -> WorkspaceMargins | None:
    if isinstance(workspace, Workspace):
        return workspace.around(robot, link_hulls(robot))
    return workspace


def _known(known: ArrayLike | None, base: BaseParameters) -> Array:
    if known is None:
        return np.zeros((base.size, base.size))
    R = as_array(known, (base.size, base.size), "known")
    return np.asarray(R.T @ R)


def _factor(M: Array) -> Array:
    """Upper triangular R with RᵀR = M, also for a singular M."""
    values, vectors = np.linalg.eigh(M)
    root = np.sqrt(np.maximum(values, 0.0))[:, np.newaxis] * vectors.T
    return np.asarray(np.linalg.qr(root, mode="r"))


def _advice(search: Search, kept: bool, seconds: float) -> str:
    if not kept:
        return (
            "No scale of the best motion keeps all limits between the samples: do not run it; "
            "design again with a larger margin of collisions or a smaller share of the limits."
        )
    if search.status == "interrupted":
        return "Interrupted: this is the best motion so far; more time may improve it."
    last = search.history[-1][0]
    before = min((value for at, value in search.history if at < 0.7 * last), default=np.inf)
    if last > 0.8 * seconds and search.best_value < before - 0.01 * abs(before):
        return "Still improving when the time was over: give more seconds."
    return "The search came to rest: more seconds would change little."
