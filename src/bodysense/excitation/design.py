"""Motions designed to show the parameters of a robot, within all of its limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import ArrayLike

from bodysense.errors import BodysenseError, TrajectoryError, unknown_name
from bodysense.excitation.criterion import Criterion, condition_number, criterion_of
from bodysense.excitation.limits import LimitUse, MotionLimits, boxes_in_the_way
from bodysense.excitation.motion_check import Check, Checked
from bodysense.excitation.precision import standard_deviations
from bodysense.excitation.problem_setup import Telling, motion_problem_of
from bodysense.excitation.search import Progress, Search, first_interruption_ignored
from bodysense.excitation.trajectory import Trajectory, positive
from bodysense.excitation.trajectory_file import (
    BASE_ARRAYS,
    base_arrays,
    base_of,
    damaged,
    layout_words,
    trajectories_of,
    trajectory_arrays,
    trajectory_names,
)
from bodysense.files import read_arrays, read_json, write_result
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.collisions import Closest, Collisions
from bodysense.robot.shapes.workspace import Workspace, WorkspaceMargins
from bodysense.spatial.arrays import Array, read_only

_BOX_RATE = 200.0  # [Hz] at which boxes are looked for that hold a motion back
_ARRAYS = ("theta_base", "sigma", "sizes", "noise", "information")
_FIGURES = ("value", "condition", "start_value", "workspace_margin", "rate", "seconds")
_WORDS = ("robot_name", "joints", "criterion", "status", "advice", "notes")


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
        motions, families = trajectory_arrays(self.trajectories)
        arrays = {
            **{name: getattr(self, name) for name in _ARRAYS},
            **{name: np.array(getattr(self, name)) for name in _FIGURES},
            **base_arrays(self.base),
            **motions,
            "history": np.array(self.history, dtype=np.float64).reshape(-1, 2),
        }
        about = {
            **{name: getattr(self, name) for name in _WORDS},
            "families": families,
            "layout": layout_words(self.base.layout),
            "uses": [asdict(use) for use in self.uses],
            "closest": None if self.closest is None else asdict(self.closest),
            "closest_time": list(self.closest_time),
            "summary": self.summary(),
        }
        write_result(folder, "design", arrays, about)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Design:
        """Read what `save` wrote.

        Raises:
            FileReadError: the files are missing, damaged or do not belong together.
        """
        keys = (*_WORDS, "families", "layout", "uses", "closest", "closest_time")
        about = read_json(Path(folder) / "design.json", keys)
        try:
            names = trajectory_names(about["families"])
        except (KeyError, TypeError) as error:
            raise damaged(folder, "design", error) from error
        arrays = read_arrays(
            Path(folder) / "design.npz", [*_ARRAYS, *_FIGURES, *BASE_ARRAYS, "history", *names]
        )
        try:
            closest, when = about["closest"], about["closest_time"]
            numbers: dict[str, Any] = {name: float(arrays[name]) for name in _FIGURES}
            numbers |= {name: read_only(arrays[name]) for name in _ARRAYS}
            base = base_of(about["layout"], arrays)
            if arrays["information"].shape != (base.size, base.size):
                raise ValueError(f"information has shape {arrays['information'].shape}")
            return cls(
                robot_name=str(about["robot_name"]),
                joints=tuple(about["joints"]),
                criterion=str(about["criterion"]),
                status=str(about["status"]),
                advice=str(about["advice"]),
                notes=tuple(about["notes"]),
                trajectories=trajectories_of(about["families"], arrays),
                base=base,
                uses=tuple(LimitUse(**use) for use in about["uses"]),
                closest=None if closest is None else Closest(**_paired(closest)),
                closest_time=(float(when[0]), int(when[1])),
                history=tuple((float(at), float(value)) for at, value in arrays["history"]),
                **numbers,
            )
        except (BodysenseError, KeyError, TypeError, ValueError, IndexError) as error:
            raise damaged(folder, "design", error) from error


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
    known: ArrayLike | Telling | None = None,
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
        limits: the robot's own if None, see `MotionLimits.of`.
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
        seconds: time for the search [s].
        iterations: stop after so many steps, for results that can be repeated (with threads=1).
        threads: number of threads; all cores by default.
        rng: source of random starts.
        progress: called a few times per second with `Progress`.

    Raises:
        TrajectoryError: the limits exclude every such motion; the message says why.
        UnknownNameError: a joint, criterion, family or parameter that does not exist.
        KeyboardInterrupt: before a first motion was found.
    """
    begun = time.monotonic()
    seconds = positive(seconds, "seconds", "s")
    threads = _count(threads, "threads", get_num_threads())
    iterations = None if iterations is None else _count(iterations, "iterations", 1)
    setup = motion_problem_of(
        robot,
        family=family,
        criterion=criterion,
        duration=duration,
        harmonics=harmonics,
        knots=knots,
        limits=limits,
        collisions=collisions,
        workspace=workspace,
        joints=joints,
        start=start,
        trajectories=trajectories,
        known=known,
        noise=noise,
        friction=friction,
        rate=rate,
    )
    problem = setup.problem
    rng = np.random.default_rng() if rng is None else rng
    search = Search(problem, rng, seconds, setup.centres, iterations)
    search.run(threads, progress)
    best = search.best
    if best is None:
        raise TrajectoryError(
            f"no motion was found in {seconds:g} s: give more seconds, fewer harmonics or wider "
            + ("limits." if collisions is None else "limits, or a smaller margin of collisions.")
        )
    check = Check(robot, problem.limits, collisions, setup.margins, max(rate, 1000.0))

    # One Ctrl-C ends the search; where that was over before, it must not lose the motion.
    with nullcontext() if search.status == "interrupted" else first_interruption_ignored():
        motions, checked, shrunk = check.repaired(problem, best)
        M = problem.information(motions, check.rate)
    more = tuple(search.notes)
    if shrunk < 1.0:
        more = (*more, f"shrunk to {100 * shrunk:.2f} % to keep limits between the samples.")
    if collisions is not None:
        more = (*more, *_on_collisions(collisions, motions))
    return Design(
        robot_name=robot.name,
        joints=tuple(robot.joint_names[j] for j in problem.moving),
        trajectories=motions,
        criterion=criterion_of(criterion).name,
        value=problem.measure.value(M),
        condition=condition_number(M),
        start_value=search.start_value,
        base=problem.base,
        theta_base=problem.base.to_base(problem.robot.theta),
        sigma=standard_deviations(M),
        sizes=setup.sizes,
        noise=problem.noise,
        information=_factor(M),
        uses=checked.uses,
        closest=checked.closest,
        closest_time=checked.closest_time,
        workspace_margin=checked.workspace_margin,
        rate=check.rate,
        status=search.status if checked.kept else "violated",
        advice=_advice(search, checked, seconds),
        seconds=time.monotonic() - begun,
        history=tuple(search.history),
        notes=(*setup.notes, *more),
    )


def _on_collisions(collisions: Collisions, motions: Sequence[Trajectory]) -> Iterator[str]:
    """Notes on collisions that were not looked at, and on boxes that cost motion."""
    if not collisions.pairs:
        yield "no pair of bodies is left that could collide: collisions were not looked at."
        return
    q = np.concatenate([motion.sample(_BOX_RATE)[1] for motion in motions])
    boxes = boxes_in_the_way(collisions, q)
    if boxes:
        yield (
            f"boxes from inertia stand for the shapes of {', '.join(boxes)} and hold the motion "
            "back: give meshes (--package-dirs, package_dirs), or design without collisions "
            "(--collisions off) if you know that the motion is free."
        )


def _paired(closest: dict[str, Any]) -> dict[str, Any]:
    return {**closest, "pair": tuple(closest["pair"])}


def _count(number: int | None, name: str, default: int) -> int:
    if number is None:
        return default
    if number < 1:
        raise TrajectoryError(f"{name} is {number}: give 1 at least.")
    return number


def _factor(M: Array) -> Array:
    """Upper triangular R with RᵀR = M, also for a singular M."""
    values, vectors = np.linalg.eigh(M)
    root = np.sqrt(np.maximum(values, 0.0))[:, np.newaxis] * vectors.T
    return np.asarray(np.linalg.qr(root, mode="r"))


def _advice(search: Search, checked: Checked, seconds: float) -> str:
    if not checked.kept:
        return (
            "No scale of the best motion keeps all limits between the samples "
            f"({checked.broken()}): do not run it; design again with a larger margin of "
            "collisions, a smaller share of the limits, or another start pose."
        )
    if search.status == "interrupted":
        return "Interrupted: this is the best motion so far; more time may improve it."
    if search.status == "failed":
        return "An error ended the search: this is the best motion before it; see the notes."
    last = search.history[-1][0]
    before = min((value for at, value in search.history if at < 0.7 * last), default=np.inf)
    improving = search.best_value < before - 0.01 * abs(before)
    if search.status == "enough":
        return "The iterations are used up" + (
            ", and it was still improving: allow more of them." if improving else "."
        )
    if last > 0.8 * seconds and improving:
        return "Still improving when the time was over: give more seconds."
    return "The search converged: more seconds would change little."
