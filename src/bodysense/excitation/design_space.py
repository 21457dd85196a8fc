"""Where designed motions and poses may go: joints that move, limits, collisions, workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import TrajectoryError, unknown_name
from bodysense.excitation.limits import (
    Clearance,
    CollisionClearance,
    LimitUse,
    MotionLimits,
    WorkspaceClearance,
    limit_uses,
    share_of,
)
from bodysense.excitation.trajectory import Trajectory
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.frames import carried_mass
from bodysense.robot.robot import Robot
from bodysense.robot.shapes.collisions import Closest, Collisions
from bodysense.robot.shapes.link_shapes import link_hulls
from bodysense.robot.shapes.workspace import Workspace, WorkspaceMargins
from bodysense.spatial.arrays import Array, as_array

_LIGHT = 0.005  # of the robot's mass: joints that carry less hold
_POSES = 500  # random ones, to find some that are free
_BOX_RATE = 200.0  # [Hz] at which boxes are looked for that hold a motion back
_NEAR = 0.005  # [m] beyond the margin, where a pair holds a motion back
_INSIDE = 1e-3  # of a joint's range, between a start pose and its end


@dataclass(frozen=True)
class MotionCheck:
    """Whether motions keep all limits, and how closely: the rest as in `Design`."""

    kept: bool
    uses: tuple[LimitUse, ...]
    closest: Closest | None
    closest_time: tuple[float, int]
    workspace_margin: float

    def broken(self) -> str:
        """What is broken, in words."""
        parts = [str(use) for use in self.uses if not use.excess <= 0.0]
        if self.closest is not None and self.closest.room < 0.0:
            parts.append(self.closest.summary())
        if self.workspace_margin < 0.0:
            parts.append(f"{-1e3 * self.workspace_margin:.1f} mm outside the workspace")
        return "; ".join(parts)


@dataclass(frozen=True, eq=False)
class DesignSpace:
    """All motions and poses that are allowed. Build one with `DesignSpace.from_robot`.

    Attributes:
        robot: with a fixed base.
        moving: (m,) places of the joints that move; the others hold.
        limits: of all joints.
        collisions: pairs of bodies to keep apart, None to ignore them.
        margins: to the walls of the workspace, None without any.
        clearances: both of these, as slacks for a search.
        notes: what was decided, in words.
    """

    robot: Robot
    moving: NDArray[np.int64]
    limits: MotionLimits
    collisions: Collisions | None = None
    margins: WorkspaceMargins | None = None
    clearances: tuple[Clearance, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def from_robot(
        cls,
        robot: Robot,
        *,
        joints: Sequence[str] | None = None,
        limits: MotionLimits | None = None,
        collisions: Collisions | None = None,
        workspace: Workspace | WorkspaceMargins | None = None,
    ) -> DesignSpace:
        """Arguments as `design_motion` has them.

        Raises:
            TrajectoryError: nothing can move.
            UnknownNameError: a joint that does not exist.
        """
        moving, notes = _moving_joints(robot, joints)
        limits = MotionLimits.from_robot(robot) if limits is None else limits
        limits.require_room(robot.joint_names, moving.tolist())
        if isinstance(workspace, Workspace):
            workspace = workspace.around(robot, link_hulls(robot))
        clearances: list[Clearance] = []
        if collisions is not None:
            clearances.append(CollisionClearance(collisions))
        if workspace is not None:
            notes += workspace.notes
            workspace = workspace if workspace.parts else None
        if workspace is not None:
            clearances.append(WorkspaceClearance(workspace))
        return cls(robot, moving, limits, collisions, workspace, tuple(clearances), notes)

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints that move."""
        return tuple(self.robot.joint_names[j] for j in self.moving)

    def free(self, q: Array) -> NDArray[np.bool_]:
        """(n,) whether the robot can stand in poses q (n, n_joints): torque, collisions, walls."""
        free = (self._holding_use(q) < 1.0).all(axis=1)
        if self.collisions is not None:
            free &= ~self.collisions.in_collision(q)
        if self.margins is not None:
            free &= (self.margins.margins(q) > 0.0).all(axis=1)
        return np.asarray(free)

    def check(self, trajectories: Sequence[Trajectory], rate: float) -> MotionCheck:
        """All limits at every sample of some motions at a rate [Hz]."""
        uses = limit_uses(self.robot, self.limits, trajectories, rate)
        closest, when, margin = None, (0.0, 0), np.inf
        for index, trajectory in enumerate(trajectories):
            t, q, _, _ = trajectory.sample(rate)
            result = self.collisions.closest(q) if self.collisions is not None else None
            if result is not None and (closest is None or result.room < closest.room):
                closest, when = result, (float(t[result.sample]), index)
            if self.margins is not None:
                margin = min(margin, float(self.margins.margins(q).min()))
        kept = all(use.excess <= 0.0 for use in uses)
        clear = (closest is None or closest.room >= 0.0) and margin >= 0.0
        return MotionCheck(kept and clear, uses, closest, when, margin)

    def collision_notes(self, motions: Sequence[Trajectory]) -> tuple[str, ...]:
        """Notes on collisions that were not looked at, and on boxes that cost motion."""
        if self.collisions is None:
            return ()
        if not self.collisions.pairs:
            return ("no pair of bodies is left that could collide: collisions were not looked at.",)
        q = np.concatenate([motion.sample(_BOX_RATE)[1] for motion in motions])
        boxes = _boxes_in_the_way(self.collisions, q)
        if not boxes:
            return ()
        return (
            f"boxes from inertia stand for the shapes of {', '.join(boxes)} and hold the motion "
            "back: give meshes (--package-dirs, package_dirs), or design without collisions "
            "(--collisions off) if you know that the motion is free.",
        )

    def require_start(self, start: ArrayLike) -> Array:
        """The pose at start and end (n_joints,), inside all limits, or `TrajectoryError`."""
        robot = self.robot
        pose = as_array(start, (robot.n_joints,), "start")
        self._require_ranges(pose)
        load = self._holding_use(pose[np.newaxis])[0]
        if not (load < 1.0).all():
            j = int(np.argmax(load))
            raise TrajectoryError(
                f"{robot.joint_names[j]} needs {load[j]:.3g} times its torque limit to hold "
                "the start pose: choose another one, or give `limits` with more effort."
            )
        if self.collisions is not None and self.collisions.in_collision(pose[np.newaxis])[0]:
            closest = self.collisions.closest(pose[np.newaxis])
            pair = " and ".join(closest.pair) if closest is not None else "bodies"
            margin = closest.margin if closest is not None else self.collisions.margin
            raise TrajectoryError(
                f"in the start pose {pair} are closer than {1e3 * margin:.2g} mm: choose a pose "
                "that is free, or name the pair in `ignore` of the collisions."
            )
        if self.margins is not None:
            room_left = self.margins.margins(pose[np.newaxis])[0]
            if not (room_left > 0.0).all():
                link, wall = self.margins.names[int(np.argmin(room_left))]
                raise TrajectoryError(
                    f"in the start pose {link} is outside {wall} by {-1e3 * room_left.min():.1f} "
                    "mm: choose a pose inside the workspace, or widen it."
                )
        return pose

    def _require_ranges(self, pose: Array) -> None:
        """Refuse a start at which a joint is outside its range, or at its end and has to move."""
        lower, upper = self.limits.lower, self.limits.upper
        for j, name in enumerate(self.robot.joint_names):
            moves = j in self.moving
            room = _INSIDE * (upper[j] - lower[j]) if moves else 0.0
            if lower[j] + room <= pose[j] <= upper[j] - room:
                continue
            span = f"range {lower[j]:g} to {upper[j]:g}"
            if moves:
                raise TrajectoryError(
                    f"start has {name} at {pose[j]:g}, outside or at the end of its {span}: move "
                    f"it at least {room:.2g} inside."
                )
            raise TrajectoryError(
                f"start has {name}, which holds, at {pose[j]:g}, outside its {span}: hold it "
                "inside, or give `limits` with a wider range."
            )

    def central_poses(self) -> Array:
        """(n, n_joints) random poses in which the robot can stand, or `TrajectoryError`.

        The quarter nearest to the middle of the ranges, from where motions reach farthest, that one
        first.
        """
        q = self.holdable_poses(_POSES, np.random.default_rng(0))
        limits = self.limits
        away = np.abs(q - limits.middle) / (limits.upper - limits.lower + 1e-12)
        farthest = away[:, self.moving].max(axis=1)
        return np.asarray(q[np.argsort(farthest)[: max(1, q.shape[0] // 4)]])

    def holdable_poses(self, count: int, rng: np.random.Generator) -> Array:
        """(n, n_joints) those of `count` random poses that are free; `TrajectoryError` if none is.

        The first is the middle of the ranges, if that is free; other joints hold in the middle.
        """
        limits, moving = self.limits, self.moving
        q = np.tile(limits.middle, (count, 1))
        share = rng.uniform(0.05, 0.95, (count, moving.size))
        share[0] = 0.5
        q[:, moving] = limits.lower[moving] + share * (limits.upper - limits.lower)[moving]
        loads = self._holding_use(q)
        drawn = q[(loads < 1.0).all(axis=1)]
        if not drawn.size:
            worst = int(np.argmax(loads.min(axis=0)))
            held = "" if worst in moving else ", which holds,"
            raise TrajectoryError(
                f"gravity alone takes more than the torque limits in every pose: "
                f"{self.robot.joint_names[worst]}{held} needs {loads[:, worst].min():.3g} times "
                "its limit at least. Correct the effort limits or the masses"
                + (", or hold it in another pose by `start`." if held else ".")
            )
        q = drawn[self.free(drawn)]
        if not q.size:
            raise TrajectoryError(self._why_none_is_free(drawn))
        return q

    def _why_none_is_free(self, q: Array) -> str:
        """What stands in the way in all poses q (n, n_joints), and the remedy."""
        if self.margins is not None:
            room = self.margins.margins(q)
            inside = (room > 0.0).all(axis=1)
            if not inside.any():
                link, wall = self.margins.names[int(np.argmin((room > 0.0).mean(axis=0)))]
                return (
                    f"in none of {q.shape[0]} random poses all links are inside the workspace: "
                    f"{link} is most often outside {wall}. Widen the workspace."
                )
            q = q[inside]
        collisions = self.collisions
        if collisions is None:
            return f"none of {q.shape[0]} random poses can be held: widen the limits."
        distances = collisions.distances(q, beyond=max(collisions.margin, 0.0) + 0.01)
        close = distances < collisions.margins
        pair = " and ".join(collisions.pairs[int(np.argmax(close.mean(axis=0)))])
        # A pose is free with the margin that its closest pair has left.
        largest = np.where(close, distances, np.inf).min(axis=1).max()
        which = "" if self.margins is None else " inside the workspace"
        text = (
            f"none of {q.shape[0]} random poses{which} is free of collisions with a margin of "
            f"{1e3 * collisions.margin:g} mm: {pair} are most often closer. "
        )
        if largest > 0.0:
            return text + f"Take a margin of {np.floor(1e4 * largest) / 10.0:g} mm at most."
        return text + (
            "They touch even without a margin: lock joints that need not move (--lock), correct "
            "the shapes, or ignore the pair (`ignore` of the collisions in Python)."
        )

    def _holding_use(self, q: Array) -> Array:
        """(n, n_joints) share of the torque limits that gravity takes in poses q (n, n_joints)."""
        still = np.zeros_like(q)
        torque = inverse_dynamics(self.robot, q, still, still)
        return share_of(np.abs(torque), self.limits.effort)


def _moving_joints(
    robot: Robot, joints: Sequence[str] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Places of the joints that move, and notes on those that hold unasked.

    Without names all joints move but those that carry less than 0.5 % of the robot's mass, as
    the fingers of a gripper.
    """
    if robot.floating_base:
        raise TrajectoryError(
            f"{robot.name!r} has a floating base, and motions are designed for fixed ones: load it "
            "with floating_base=False."
        )
    if joints is not None:
        for name in joints:
            if name not in robot.joint_names:
                raise unknown_name("joint", name, robot.joint_names)
        result = sorted({robot.joint_names.index(name) for name in joints})
        if not result:
            raise TrajectoryError(
                f"joints is empty, so that nothing moves: name some of "
                f"{', '.join(robot.joint_names)}, or give None for all."
            )
        return np.array(result, dtype=np.int64), ()
    carried = carried_mass(robot)
    light = carried < _LIGHT * carried[robot.tree.parent[: carried.size] < 0].sum()
    if light.all():
        if not light.size:
            raise TrajectoryError(f"{robot.name!r} has no joint: there is nothing to move.")
        light[:] = False
    notes: tuple[str, ...] = ()
    if light.any():
        names = ", ".join(robot.joint_names[j] for j in np.flatnonzero(light))
        notes = (
            f"joints that carry less than {100 * _LIGHT:g} % of the robot's mass hold: {names}; "
            "name all that are to move if these are among them.",
        )
    return np.flatnonzero(~light).astype(np.int64), notes


def _boxes_in_the_way(collisions: Collisions, q: Array) -> tuple[str, ...]:
    """Names of the bodies with made-up boxes that come close to their margins in q (n_t, nq).

    Such a box may be far larger than the body it stands for, and hold a motion back for nothing.
    """
    boxes = [body.shape == "boxes" for body in collisions.bodies]
    if not any(boxes):
        return ()
    near = collisions.near(q, CollisionClearance(collisions).kept + _NEAR)
    places = np.unique(collisions.places[near.pair])
    return tuple(collisions.bodies[k].name for k in places if boxes[k])
