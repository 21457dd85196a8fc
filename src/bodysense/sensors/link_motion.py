"""`LinkMotion`: how all links move and which wrenches that takes, and what sensors then read.

With V, a the twist and the proper spatial acceleration of a link, in base coordinates about the
base's origin, and S the axis of a joint likewise,

    V_i = V_p + S_i q̇_i,     a_i = a_p + S_i q̈_i + V_i × S_i q̇_i,
    F_i = I_i a_i + V_i ×* I_i V_i.

Where nothing touches the links beyond a joint, the joint transmits the sum of their F; where
nothing touches the other ones, minus the sum of those. One of these two sides is enough to predict
a force/torque sensor or a joint torque, whatever happens on the other side.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import MismatchError, unknown_name
from bodysense.robot.frames import LinkPoses, supporting_joints
from bodysense.robot.robot import Robot, require_robot
from bodysense.sensors.sensor import Measurement
from bodysense.spatial.arrays import Array, as_array
from bodysense.spatial.pseudo_inertia import spatial_inertia


@dataclass(frozen=True, eq=False)
class LinkMotion:
    """T samples of a robot's motion. Build it with `LinkMotion.of`.

    Attributes:
        robot: that moves.
        root: the link that is held, or `None` if the base is bolted to the world or floats.
        q: (T, n_joints) positions.
        dq: their velocities.
        ddq: their accelerations.
        R: (n_links, T, 3, 3) R_base_link.
        p: (n_links, T, 3) p_base_link.
        twist: (n_links, T, 6) of each link in its own frame, linear first.
        acceleration: (n_links, T, 6) proper spatial acceleration, likewise.
    """

    robot: Robot
    root: str | None
    q: Array
    dq: Array
    ddq: Array
    R: Array
    p: Array
    twist: Array
    acceleration: Array

    @classmethod
    def of(
        cls,
        robot: Robot,
        q: ArrayLike,
        dq: ArrayLike,
        ddq: ArrayLike,
        *,
        root: str | None = None,
        gravity: ArrayLike | None = None,
        base_twist: ArrayLike | None = None,
        base_acceleration: ArrayLike | None = None,
    ) -> LinkMotion:
        """Compute the motion of all links.

        Args:
            robot: with any base.
            q: (T, n_joints) positions of the joints.
            dq: (T, n_joints) velocities.
            ddq: (T, n_joints) accelerations.
            root: the link of a floating robot that is held still, e.g. a foot.
            gravity: (3,) or (T, 3) in the frame of the root that is held, or of a base that is
                bolted to the world; by default the robot's own.
            base_twist: (T, 6) of a base that floats, in its frame; by default zero.
            base_acceleration: (T, 6) proper spatial acceleration of a base that floats; needed
                for all but angular velocities.

        Raises:
            MismatchError: a root that is held without gravity, or a root of a bolted robot.
        """
        require_robot(robot)
        q = as_array(q, (None, robot.n_joints), "q")
        dq, ddq = as_array(dq, q.shape, "dq"), as_array(ddq, q.shape, "ddq")
        held = _held(robot, root, gravity)
        full = np.zeros((len(q), robot.nq))
        full[:, robot.nq - robot.n_joints :] = q
        poses = LinkPoses.from_robot(robot, full)
        V, a = _joint_motion(robot, poses, dq, None)
        T = len(q)
        if robot.floating_base and held is None:
            V += _rows(base_twist, T, "base_twist")
            a = _joint_motion(robot, poses, dq, V, ddq)[1]
            a += _rows(base_acceleration, T, "base_acceleration")
        else:
            row = 0 if held is None else held
            g = robot.tree.gravity if gravity is None else gravity
            V -= V[row].copy()
            a = _joint_motion(robot, poses, dq, V, ddq)[1]
            a -= a[row].copy()
            a[:, :, :3] -= np.einsum("tij,tj->ti", poses.R[row], _rows(g, T, "gravity", 3))
        first = 0 if robot.floating_base else 1
        R, p = poses.R[first:], poses.p[first:]
        twist, acceleration = (_in_links(R, p, x[first:]) for x in (V, a))
        return cls(robot, root, q, dq, ddq, R, p, twist, acceleration)

    @property
    def size(self) -> int:
        """T."""
        return len(self.q)

    @cached_property
    def wrench(self) -> Array:
        """(n_links, T, 6) F of each link, in base coordinates about the base's origin."""
        I = np.stack([spatial_inertia(self.robot.pi(k)) for k in range(len(self.R))])
        momentum = np.einsum("kij,ktj->kti", I, self.twist)
        F = np.einsum("kij,ktj->kti", I, self.acceleration)
        v, w = self.twist[..., :3], self.twist[..., 3:]
        F[..., :3] += _cross(w, momentum[..., :3])
        F[..., 3:] += _cross(v, momentum[..., :3]) + _cross(w, momentum[..., 3:])
        force = np.einsum("ktij,ktj->kti", self.R, F[..., :3])
        moment = np.einsum("ktij,ktj->kti", self.R, F[..., 3:]) + _cross(self.p, force)
        return np.concatenate([force, moment], axis=-1)

    @cached_property
    def _moved(self) -> NDArray[np.bool_]:
        """(n_links, n_joints) whether a joint moves a link."""
        return supporting_joints(self.robot)[0 if self.robot.floating_base else 1 :]

    def free_side(self, joint: str, touched: Collection[str] = ()) -> Array | None:
        """(n_links,) 1 for links beyond a joint, or -1 for all others: a side that nothing touches.

        `None` if something does on both sides, of the links that are `touched` and the world.
        """
        names, beyond = self.robot.link_names, self._moved[:, self._index(joint)]
        anything = np.isin(names, [*touched, *([] if self.root is None else [self.root])])
        if not (anything & beyond).any():
            return beyond.astype(np.float64)
        if self.robot.floating_base and not (anything & ~beyond).any():
            return beyond.astype(np.float64) - 1.0
        return None

    def transmitted(self, joint: str, side: Array) -> Array:
        """(T, 6) wrench on the link that a joint moves, through the joint, in that link's frame.

        `side` is that of `free_side`.
        """
        child = self._child(joint)
        total = np.einsum("k,kti->ti", side, self.wrench)
        force = np.einsum("tji,tj->ti", self.R[child], total[:, :3])
        moment = total[:, 3:] - _cross(self.p[child], total[:, :3])
        return np.concatenate([force, np.einsum("tji,tj->ti", self.R[child], moment)], axis=1)

    def carried_mass(self, side: Array) -> float:
        """Mass of all links on a side [kg]."""
        return float(sum(abs(s) * self.robot.pi(k)[0] for k, s in enumerate(side)))

    def predict(self, m: Measurement, touched: Collection[str] = ()) -> Array | None:
        """(T, size) readings without noise, bias and friction; `None` if contacts hide them."""
        y = np.zeros((self.size, m.size))
        if m.link is not None:
            k = self.robot.link_names.index(m.link)
            v = self.twist[k]
            y += self.acceleration[k] @ m.acceleration.T + v @ m.linear.T
            if m.quadratic.any():
                y += np.einsum("ti,kij,tj->tk", v, m.quadratic, v, optimize=True)
        if m.joint is not None:
            j = self._index(m.joint)
            for x, factor in (
                (self.q, m.position),
                (self.dq, m.velocity),
                (self.ddq, m.joint_acceleration),
            ):
                y += x[:, j : j + 1] * factor
            if m.transmitted.any() or m.torque.any():
                side = self.free_side(m.joint, touched)
                if side is None:
                    return None
                y += self._through(m, side)
        return y

    def _through(self, m: Measurement, side: Array) -> Array:
        """What a measurement reads of the wrench through its joint."""
        joint = m.joint or ""
        w, child = self.transmitted(joint, side), self._child(joint)
        tree, j = self.robot.tree, self._index(joint)
        part = slice(0, 3) if tree.prismatic[j] else slice(3, 6)
        y = (w[:, part] @ tree.axis[j])[:, None] * m.torque
        link = child if m.link is None else self.robot.link_names.index(m.link)
        if link != child and m.transmitted.any():  # on the parent, by the child, in its frame
            R = np.einsum("tji,tjk->tik", self.R[link], self.R[child])
            p = np.einsum("tji,tj->ti", self.R[link], self.p[child] - self.p[link])
            force = -np.einsum("tij,tj->ti", R, w[:, :3])
            moment = -np.einsum("tij,tj->ti", R, w[:, 3:]) + _cross(p, force)
            w = np.concatenate([force, moment], axis=1)
        return np.asarray(y + w @ m.transmitted.T)

    def _index(self, joint: str) -> int:
        if joint not in self.robot.joint_names:
            raise unknown_name("joint", joint, self.robot.joint_names)
        return self.robot.joint_names.index(joint)

    def _child(self, joint: str) -> int:
        return self._index(joint) + int(self.robot.floating_base)


def _held(robot: Robot, root: str | None, gravity: ArrayLike | None) -> int | None:
    """Row of `LinkPoses` of the link that is held."""
    if root is None:
        return None
    if not robot.floating_base:
        raise MismatchError(f"{robot.name} is bolted to the world: leave the root out.")
    if root not in robot.link_names:
        raise unknown_name("link", root, robot.link_names)
    if gravity is None:
        raise MismatchError(
            f"{root!r} is held, in an unknown direction: give gravity in its frame."
        )
    return robot.link_names.index(root)


def _rows(value: ArrayLike | None, T: int, name: str, width: int = 6) -> Array:
    """(T, width) of one row for all samples, one each, or zero."""
    x = np.zeros(width) if value is None else np.asarray(value, dtype=np.float64)
    x = as_array(x, (width,) if x.ndim == 1 else (T, width), name)
    return np.broadcast_to(x, (T, width))


def _joint_motion(
    robot: Robot, poses: LinkPoses, dq: Array, V: Array | None, ddq: Array | None = None
) -> tuple[Array, Array]:
    """(n_joints + 1, T, 6) twists by the joints alone, and accelerations with twists V.

    In base coordinates about the base's origin; rows as in `LinkPoses`.
    """
    n, T = dq.shape[1], len(dq)
    twists, a = np.zeros((2, n + 1, T, 6))
    S = _axes(poses)
    for j in range(n):
        parent, speed = int(robot.tree.parent[j]) + 1, S[j] * dq[:, j, None]
        twists[j + 1] = twists[parent] + speed
        if V is not None and ddq is not None:
            a[j + 1] = a[parent] + S[j] * ddq[:, j, None]
            v, w = V[j + 1, :, :3], V[j + 1, :, 3:]
            a[j + 1, :, :3] += _cross(w, speed[:, :3]) + _cross(v, speed[:, 3:])
            a[j + 1, :, 3:] += _cross(w, speed[:, 3:])
    return twists, a


def _axes(poses: LinkPoses) -> Array:
    """(n_joints, T, 6) S, in base coordinates about the base's origin."""
    S = np.zeros((*poses.axes.shape[:2], 6))
    turns = poses.prismatic == 0
    S[turns, :, 3:] = poses.axes[turns]
    S[turns, :, :3] = _cross(poses.p[1:][turns], poses.axes[turns])
    S[~turns, :, :3] = poses.axes[~turns]
    return S


def _in_links(R: Array, p: Array, x: Array) -> Array:
    """(n, T, 6) motions in base coordinates as motions in the frames of the links."""
    linear = x[..., :3] + _cross(x[..., 3:], p)
    parts = [np.einsum("ktji,ktj->kti", R, part) for part in (linear, x[..., 3:])]
    return np.concatenate(parts, axis=-1)


def _cross(a: Array, b: Array) -> Array:
    """Cross products of the last axis; numpy's own takes several times as long."""
    c = np.empty(np.broadcast_shapes(a.shape, b.shape))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        c[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
    return c
