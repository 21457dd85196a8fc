"""Motions designed to show the parameters of a robot, within all of its limits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import FrameType

import numpy as np
from numba import get_num_threads
from numpy.typing import ArrayLike

from bodysense.errors import TrajectoryError, unknown_name
from bodysense.excitation.criterion import Criterion, criterion_of
from bodysense.excitation.design_space import DesignSpace, MotionCheck
from bodysense.excitation.information import condition_number, standard_deviations
from bodysense.excitation.limits import LimitUse, MotionLimits, limit_uses
from bodysense.excitation.motion_family import MotionFamily
from bodysense.excitation.motion_problem import Information, MotionProblem
from bodysense.excitation.search import Progress, Search
from bodysense.excitation.trajectory import Trajectory, positive
from bodysense.excitation.trajectory_file import (
    design_arrays,
    save_design,
    stored_base,
    stored_motions,
)
from bodysense.files import load_result
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.robot import Robot, require_robot
from bodysense.robot.shapes.collisions import Closest, Collisions
from bodysense.robot.shapes.workspace import Workspace, WorkspaceMargins
from bodysense.spatial.arrays import Array

_CHECK_RATE = 1000.0  # [Hz] of the final check, at least
_REPAIRS = 60  # times that a motion is shrunk at most
_SHRINK = 0.995  # each time, where clearances are not kept
_LATE = 0.7  # share of the search after which a clear gain means that it is still improving
_CLEAR_GAIN = 0.01
_FIGURES = ("value", "condition", "start_value", "workspace_margin", "rate", "seconds")
_WORDS = (
    *("robot_name", "joints", "criterion", "status", "advice", "notes"),
    *("uses", "closest", "closest_time"),
)


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
        start_value: the criterion of the median of random motions within the same limits.
        base: the base parameters that such motions can show.
        theta_base: (b,) their values by the robot's description.
        sigma: (b,) predicted standard deviations.
        sizes: (b,) plausible sizes, to hold sigma against.
        noise: (n_joints,) standard deviations of the torque's white noise that were assumed, on
            which every sigma depends [N·m or N].
        information: (b, b) upper triangular R with RᵀR = WᵀW and what was known: the `known` of
            a next design.
        uses: greatest use of every limit of every joint, checked at `rate`.
        closest: where bodies come closest (sample at `rate`), None where it was not asked for.
        closest_time: when [s], and in which trajectory.
        workspace_margin: least distance to the walls [m], infinite without any.
        rate: of the final check [Hz].
        status: ``time`` (it was over), ``interrupted``, ``enough`` (its iterations are used up),
            ``failed`` (an error ended the search, see `notes`), or ``violated``: no scale of the
            best motion keeps all limits between the samples, so that it must not be run.
        advice: what to do next, in words.
        seconds: how long the search took, without compilation and checks.
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
    noise: Array
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
        result = [use for use in self.uses if use.quantity == quantity]
        if not result:
            raise unknown_name("quantity", quantity, dict.fromkeys(u.quantity for u in self.uses))
        return max(result, key=lambda use: use.ratio)

    def summary(self) -> str:
        """The design in a few lines."""
        count = len(self.trajectories)
        lines = [
            f"{self.robot_name}: {count} motion{'s' if count > 1 else ''} of "
            f"{self.trajectories[0].duration:g} s for {len(self.joints)} joints; cond(W) = "
            f"{self.condition:.4g}; {self.base.size - len(self.unidentifiable)} of "
            f"{self.base.size} base parameters come out better than guessed.",
            f"{self.criterion} {self.value:.4g}, the median of random motions within the same "
            f"limits has {self.start_value:.4g}.",
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

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``design.npz`` and ``design.json`` into a folder; motions by their coefficients."""
        history = np.array(self.history, dtype=np.float64).reshape(-1, 2)
        save_design(self, folder, "design", _FIGURES, _WORDS, self.trajectories, history=history)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Design:
        """Read what `save` wrote, or raise `FileReadError`."""
        return load_result(
            cls,
            folder,
            "design",
            arrays=[*_FIGURES, "history", *design_arrays(Path(folder) / "design.json")],
            shapes=lambda stored: {"information": 2 * stored["independent"].shape},
            trajectories=stored_motions,
            base=stored_base,
        )


def design_motion(
    robot: Robot,
    *,
    family: str = "fourier",
    criterion: str | Criterion = "d-optimal",
    duration: float = 10.0,
    harmonics: int | None = None,
    knots: int | None = None,
    limits: MotionLimits | None = None,
    collisions: Collisions | None = None,
    workspace: Workspace | WorkspaceMargins | None = None,
    joints: Sequence[str] | None = None,
    start: ArrayLike | None = None,
    trajectories: int = 1,
    known: ArrayLike | Information | None = None,
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

    Ctrl-C ends the search and returns the best motion so far, after its final check; a second one
    ends that too.

    Args:
        robot: with a fixed base.
        family: ``fourier`` (series, periodic) or ``spline`` (quintic B-spline); both start and
            end at rest in the same pose.
        criterion: ``d-optimal``, ``precision``, ``condition``, or one with settings of its own.
        duration: of each motion [s].
        harmonics: of a Fourier series; by default two a second, 5 to 20.
        knots: control points of a spline that move; by default four a second, 10 to 40.
        limits: the robot's own if None, see `MotionLimits.from_robot`.
        collisions: pairs of bodies to keep apart; not checked if None.
        workspace: room to stay inside; not checked if None.
        joints: names of those that move. If None all but the lightest, see `Design.notes`.
        start: (n_joints,) pose at start and end, in which other joints hold. Free if None; other
            joints then hold in the middle of their ranges.
        trajectories: how many motions that complement each other, designed together.
        known: (b, b) R with RᵀR the information of what is recorded already, in the same base
            parameters, rows divided by noise: the `information` of another design. Or a function
            that makes it from the robot, the base parameters and the noise (n_joints,).
        noise: standard deviation of the white noise of the raw torque, one number or one per joint;
            by default 1 % of the effort limit, or of gravity's torque where there is none.
        friction: name of another friction law to excite than the robot's.
        rate: of the recording, whose samples all count, and of the final check (1000 Hz at least)
            [Hz].
        seconds: time for the search [s], which begins when all is compiled.
        iterations: stop after so many steps, for results that can be repeated (with threads=1).
        threads: number of threads; all cores by default.
        rng: source of random starts.
        progress: called a few times per second with `Progress`.

    Raises:
        TrajectoryError: the limits exclude every such motion; the message says why.
        UnknownNameError: a joint, criterion, family or parameter that does not exist.
        KeyboardInterrupt: before a first motion was found.
    """
    require_robot(robot)
    seconds = positive(seconds, "seconds", "s")
    for name, count in (("threads", threads), ("iterations", iterations)):
        if count is not None and count < 1:
            raise TrajectoryError(f"{name} is {count}: give 1 at least.")
    rate = positive(rate, "rate", "Hz")
    space = DesignSpace.from_robot(
        robot, joints=joints, limits=limits, collisions=collisions, workspace=workspace
    )
    problem = MotionProblem.from_space(
        space,
        MotionFamily.from_settings(
            family, duration, harmonics, knots, rate, anchored=start is not None
        ),
        start=start,
        criterion=criterion,
        trajectories=trajectories,
        known=known,
        noise=noise,
        friction=friction,
        rate=rate,
    )
    search = Search(problem, np.random.default_rng() if rng is None else rng, seconds, iterations)
    search.run(threads or get_num_threads(), progress)
    if search.best is None:
        raise TrajectoryError(
            f"no motion was found in {seconds:g} s: give more seconds, fewer harmonics or wider "
            + ("limits." if collisions is None else "limits, or a smaller margin of collisions.")
        )
    check_rate = max(rate, _CHECK_RATE)
    # One Ctrl-C ends the search; where that was over before, it must not lose the motion.
    with nullcontext() if search.status == "interrupted" else _first_interruption_ignored():
        motions, checked, shrunk = repair_motions(problem, search.best, check_rate)
        M = problem.information(motions, check_rate)
    notes = [*problem.notes, *search.notes]
    if shrunk < 1.0:
        notes.append(f"shrunk to {100 * shrunk:.2f} % to keep limits between the samples.")
    notes += space.collision_notes(motions)
    return Design(
        robot_name=robot.name,
        joints=space.joints,
        trajectories=motions,
        criterion=criterion_of(criterion).name,
        value=problem.measure(M, 1.0)[0],
        condition=condition_number(M),
        start_value=search.start_value,
        base=problem.regressor.base,
        theta_base=problem.theta_base,
        sigma=standard_deviations(M),
        sizes=problem.sizes,
        noise=problem.noise,
        information=_factor(M),
        uses=checked.uses,
        closest=checked.closest,
        closest_time=checked.closest_time,
        workspace_margin=checked.workspace_margin,
        rate=check_rate,
        status=search.status if checked.kept else "violated",
        advice=_advice(search, checked, criterion_of(criterion)),
        seconds=search.elapsed,
        history=tuple(search.history),
        notes=tuple(notes),
    )


def repair_motions(
    problem: MotionProblem, x: Array, rate: float
) -> tuple[tuple[Trajectory, ...], MotionCheck, float]:
    """The motions of x, shrunk about their centre until they keep all limits at `rate` [Hz].

    Between the samples of the search a motion may leave a limit by a little. Joints that leave
    limits of their own are shrunk alone, for torques and clearances all are. Returns the motions,
    their final check, and the smallest scale.
    """
    space = problem.space
    scale = np.ones(space.moving.size)
    for step in range(1, _REPAIRS + 1):
        motions = problem.motions(problem.family.scaled(x, scale))
        uses = limit_uses(space.robot, space.limits, motions, rate)
        broken = [use for use in uses if not use.excess <= 0.0]
        if not broken:
            checked = space.check(motions, rate)
            if checked.kept:
                return motions, checked, float(scale.min())
            scale *= _SHRINK
        for use in broken:
            # More each time: about a centre near a limit, a position shrinks by little.
            by = max(1.0 - step * use.excess - 1e-6, 0.95)
            if use.quantity == "torque" or use.joint not in space.joints:
                scale *= min(by, 0.999)
            else:
                scale[space.joints.index(use.joint)] *= by
    return motions, space.check(motions, rate), float(scale.min())


def _factor(M: Array) -> Array:
    """Upper triangular R with RᵀR = M, also for a singular M."""
    values, vectors = np.linalg.eigh(M)
    root = np.sqrt(np.maximum(values, 0.0))[:, np.newaxis] * vectors.T
    return np.asarray(np.linalg.qr(root, mode="r"))


def _advice(search: Search, checked: MotionCheck, criterion: Criterion) -> str:
    if not checked.kept:
        return (
            "No scale of the best motion keeps all limits between the samples "
            f"({checked.broken()}): do not run it; design again with a larger margin of "
            "collisions, a smaller share of the limits, or another start pose, or hold the joints "
            "that are named (--hold)."
        )
    if search.status == "interrupted":
        return "Interrupted: this is the best motion so far; more time may improve it."
    if search.status == "failed":
        return "An error ended the search: this is the best motion before it; see the notes."
    improving = _is_improving(search, criterion)
    if search.status == "enough":
        return "The iterations are used up" + (
            ", and it was still improving: allow more of them." if improving else "."
        )
    if improving or not search.compared:
        return "Still improving when the time was over: give more seconds."
    return "The search converged: more seconds would change little."


def _is_improving(search: Search, criterion: Criterion) -> bool:
    """Whether the last part of its time made the best motion clearly better."""
    late = _LATE * search.elapsed
    before = min((value for at, value in search.history if at < late), default=np.inf)
    size = search.problem.regressor.base.size
    return not criterion.gain(before, search.best_value, size) < _CLEAR_GAIN


@contextmanager
def _first_interruption_ignored() -> Iterator[None]:
    """Let the first Ctrl-C pass without effect; the next one raises `KeyboardInterrupt`.

    Outside the main thread there is nothing to do, for no interruption arrives there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def ignore(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ignore)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
