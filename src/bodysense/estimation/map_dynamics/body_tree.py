"""`BodyTree`: the robot's links as a tree that hangs on any of them.

Links and joints are the robot's; what changes with the root is which side of a joint is above. A
body's unknowns are named after its link, and those of its joint after the joint:

    a_i = X_i a_p + S_i q̈_i + v_i × S_i q̇_i        (13a of paper 000)

where S_i is the joint's axis in the frame of body i. Where a joint is passed from its child to its
parent, S_i = -X_parent_child S, which does not depend on the position of the joint: the axis is
fixed to both links.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, unknown_name
from bodysense.estimation._kernels.problem import Bodies
from bodysense.robot import Robot
from bodysense.spatial.arrays import Array, as_array
from bodysense.spatial.pseudo_inertia import spatial_inertia
from bodysense.spatial.se3 import skew

WORLD = "world"
"""The root of a robot with a fixed base: what it is bolted to."""


@dataclass(frozen=True, eq=False)
class BodyTree:
    """The bodies of a robot, from the root on, parents first. Build it with `BodyTree.of`.

    Attributes:
        robot: the robot.
        floating: whether the root moves freely; otherwise its acceleration is known, and it has
            no unknowns.
        names: (n,) names of the bodies: links, or `WORLD` for the root of a fixed robot.
        parent: (n,) -1 for the root.
        joint: (n,) index of the joint above each body, -1 for the root.
        against: (n,) whether that joint is passed from its child to its parent.
    """

    robot: Robot
    floating: bool
    names: tuple[str, ...]
    parent: tuple[int, ...]
    joint: tuple[int, ...]
    against: tuple[bool, ...]

    @classmethod
    def of(cls, robot: Robot, *, base: str | None = None, fixed: bool | None = None) -> BodyTree:
        """Hang the robot on a link.

        `base` is the link at the root, or a frame fixed to it, such as a sole, and `fixed` whether
        it is held still, e.g. the foot of a humanoid; by default as the robot's own base.

        Raises:
            MismatchError: another root for a robot that is bolted to the world, or a robot of
                that kind that should float.
        """
        if not robot.floating_base:
            if base not in (None, WORLD) or fixed is False:
                raise MismatchError(
                    f"{robot.name} is bolted to the world, so that its root is the world: load it "
                    "with a floating base to choose another."
                )
            names, parents = (WORLD, *robot.link_names), robot.tree.parent + 1
            n = len(names)
            return cls(
                robot=robot,
                floating=False,
                names=names,
                parent=(-1, *(int(p) for p in parents)),
                joint=tuple(range(-1, n - 1)),
                against=(False,) * n,
            )
        links = robot.link_names
        root = 0 if base is None else links.index(_link_of(robot, base))
        # link k > 0 hangs on joint k - 1, whose parent is link tree.parent + 1
        above = [-1, *(int(p) + 1 for p in robot.tree.parent)]
        below: list[list[int]] = [[] for _ in links]
        for k, p in enumerate(above[1:], start=1):
            below[p].append(k)
        order, parent, joint, against = [root], [-1], [-1], [False]
        at = 0
        while at < len(order):
            k = order[at]
            ways = [(c, c - 1, False) for c in below[k]]
            if k > 0:
                ways.append((above[k], k - 1, True))
            for other, through, backwards in ways:
                if through == joint[at]:  # the way here
                    continue
                order.append(other)
                parent.append(at)
                joint.append(through)
                against.append(backwards)
            at += 1
        return cls(
            robot=robot,
            floating=not fixed,
            names=tuple(links[k] for k in order),
            parent=tuple(parent),
            joint=tuple(joint),
            against=tuple(against),
        )

    @property
    def n(self) -> int:
        return len(self.names)

    @property
    def with_unknowns(self) -> range:
        """Bodies that have unknowns: all, without a root that is held."""
        return range(0 if self.floating else 1, self.n)

    def body(self, link: str) -> int:
        if link not in self.names:
            raise unknown_name("link", link, self.names)
        return self.names.index(link)

    def below(self, joint: str) -> int:
        """Index of the body that hangs on this joint."""
        names = self.robot.joint_names
        if joint not in names:
            raise unknown_name("joint", joint, names)
        return self.joint.index(names.index(joint))

    def joint_name(self, body: int) -> str:
        return self.robot.joint_names[self.joint[body]]

    def transforms(self, body: int, q: Array) -> Array:
        """(T, 6, 6) motion vectors of the parent's frame in the body's, at positions q (T,)."""
        bodies = self.arrays
        B, p = bodies.rotation[body].reshape(3, 3, 3), bodies.position[body]
        if bodies.prismatic[body]:
            R = np.array(np.broadcast_to(B[0] + B[1], (q.size, 3, 3)))
            p = p + q[:, None] * ((B[0] + B[1]) @ bodies.axis[body])
        else:
            R = B[0] + np.cos(q)[:, None, None] * B[1] + np.sin(q)[:, None, None] * B[2]
            p = np.broadcast_to(p, (q.size, 3))
        if self.against[body]:  # the body is the joint's parent, and its frame the one to map to
            return _transform(R, skew(p) @ R)
        back = R.transpose(0, 2, 1)
        return _transform(back, -back @ skew(p))

    def root_acceleration(self, gravity: ArrayLike | None) -> Array:
        """(6,) or (T, 6) a = -g of a root that is held; zero, (6,), of one that floats.

        Raises:
            MismatchError: gravity of a root that floats, or none of a link that is held.
        """
        if self.floating:
            if gravity is not None:
                raise MismatchError(
                    f"{self.names[0]!r} floats, and its proper acceleration is estimated, of which "
                    "gravity is a part: leave gravity out, or give its prior in "
                    "Assumptions.base_acceleration."
                )
            return np.zeros(6)
        if gravity is None and self.names[0] != WORLD:
            raise MismatchError(
                f"{self.names[0]!r} is held, in an unknown direction: give gravity (3,) in its "
                "frame, which is R_world_linkᵀ (0, 0, -9.81) for a link that stands on the ground."
            )
        g = self.robot.tree.gravity if gravity is None else np.asarray(gravity, dtype=np.float64)
        g = as_array(g, (3,) if g.ndim == 1 else (None, 3), "gravity")
        return np.concatenate([-g, np.zeros_like(g)], axis=-1)

    @cached_property
    def arrays(self) -> Bodies:
        """The tree as plain arrays for the kernels."""
        tree, n = self.robot.tree, self.n
        rotation, position, axis = np.zeros((n, 3, 9)), np.zeros((n, 3)), np.zeros((n, 3))
        S, prismatic = np.zeros((n, 6)), np.zeros(n, dtype=np.int64)
        for i in range(1, n):
            j = self.joint[i]
            rotation[i], position[i], axis[i] = tree.rotation[j], tree.position[j], tree.axis[j]
            prismatic[i] = tree.prismatic[j]
            S[i] = _unit_twist(tree.axis[j], bool(prismatic[i]))
            if self.against[i]:
                R = (tree.rotation[j, 0] + tree.rotation[j, 1]).reshape(3, 3)  # at position zero
                S[i] = -_transform(R, skew(tree.position[j]) @ R) @ S[i]
        return Bodies(
            floating=int(self.floating),
            parent=np.array(self.parent, dtype=np.int64),
            joint=np.array(self.joint, dtype=np.int64),
            against=np.array(self.against, dtype=np.int64),
            prismatic=prismatic,
            rotation=rotation,
            position=position,
            axis=axis,
            S=S,
            inertia=np.stack([self._inertia(name) for name in self.names]),
        )

    def _inertia(self, name: str) -> Array:
        return np.zeros((6, 6)) if name == WORLD else spatial_inertia(self.robot.pi(name))


def _link_of(robot: Robot, name: str) -> str:
    """The link of this name, or the one that a frame of this name is fixed to."""
    if name in robot.link_names:
        return name
    for frame in robot.model.frames:
        if frame.name == name and frame.parentJoint > 0:
            link: str = robot.link_names[frame.parentJoint - 1]
            return link
    raise unknown_name("base link", name, robot.link_names)


def _unit_twist(axis: Array, prismatic: bool) -> Array:
    twist = np.zeros(6)
    twist[slice(0, 3) if prismatic else slice(3, 6)] = axis
    return twist


def _transform(R: Array, lever: Array) -> Array:
    """(…, 6, 6) [R lever; 0 R] of motion vectors, linear first."""
    X = np.zeros((*R.shape[:-2], 6, 6))
    X[..., :3, :3] = X[..., 3:, 3:] = R
    X[..., :3, 3:] = lever
    return X
