"""Collisions of a robot with itself: distances between its bodies, and their gradients.

The distance between two convex bodies A and B is that of their closest points x_A and x_B; where
they overlap it is minus the depth, the least shift that parts them. With n the unit vector from A
to B, both have the gradient

    ∂d/∂q_j = n · (∂x_B/∂q_j - ∂x_A/∂q_j)

with the points held fixed on their bodies. A joint that moves both, or none, has no part in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import ShapeError
from bodysense.robot.frames import LinkPoses, sample_poses, supporting_joints
from bodysense.robot.robot import Robot, require_robot
from bodysense.robot.shapes.collision_pairs import (
    ConvexPieces,
    PairDistances,
    candidate_pairs,
)
from bodysense.robot.shapes.link_shapes import Body, link_hulls
from bodysense.spatial.arrays import Array, as_array

# Tuning of which pairs are checked, and with which margin.
_SAMPLES = 400  # random poses that decide which bodies are never apart
_CONTACT_DISTANCE = 1e-4  # m; nearer than this is contact, whatever the margin
_MARGIN_SHARE = 0.5  # of the largest distance of a pair that its margin takes at most
_BOX_CONTACTS = 0.8  # of the poses; boxes in contact so often are too coarse to be checked
_EXACT_REACH = 0.05  # m beyond twice the margin up to which largest distances are exact


@dataclass(frozen=True)
class Closest:
    """Where two bodies come closest to their margin: at which position in q, and how close [m].

    The distance is negative inside each other; closer than the margin counts as a collision.
    """

    pair: tuple[str, str]
    sample: int
    distance: float
    margin: float

    @property
    def room(self) -> float:
        """Distance beyond the margin [m]."""
        return self.distance - self.margin

    def summary(self) -> str:
        first, second = self.pair
        how = "apart" if self.distance >= 0 else "inside each other"
        how = f"{1e3 * abs(self.distance):.1f} mm {how}"
        return f"{first} and {second} come closest, {how} at sample {self.sample}"


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Pairs of bodies nearer than some distance, sorted by sample and then by pair.

    Attributes:
        sample: (m,) position in q.
        pair: (m,) position in `Collisions.pairs`.
        distance: (m,) [m], negative inside each other.
        gradient: (m, n_joints) ∂distance/∂q of the joints [m/rad or m/m].
    """

    sample: NDArray[np.intp]
    pair: NDArray[np.intp]
    distance: Array
    gradient: Array


@dataclass(frozen=True, eq=False)
class Collisions:
    """The pairs of bodies of a robot that may collide; build one with `from_robot`.

    Attributes:
        robot: the robot.
        bodies: all bodies with a shape.
        places: (n_pairs, 2) positions in `bodies`.
        margin: closer than this counts as a collision [m], as asked for.
        farthest: (n_pairs,) largest distance of a pair over many random poses [m]; a lower bound
            of it where that is far beyond the margin.
        ignored: why pairs are not checked; bodies of one link and of links joined by a joint are
            not listed.
        notes: what had to be decided about shapes, in words.
    """

    robot: Robot
    bodies: tuple[Body, ...]
    places: NDArray[np.intp]
    margin: float
    farthest: Array
    ignored: Mapping[tuple[str, str], str]
    notes: tuple[str, ...]

    @classmethod
    def from_robot(
        cls,
        robot: Robot,
        shapes: str = "auto",
        *,
        margin: float = 0.01,
        ignore: Iterable[tuple[str, str]] = (),
        package_dirs: Sequence[str | PathLike[str]] = (),
    ) -> Collisions:
        """All pairs of bodies of a robot that can collide.

        Left out are bodies of one link and of links that a joint connects; those in contact in
        all of many random poses (boxes made from inertia: in 80 % of them), for their hulls are
        never apart; those that only joints which mimic each other move, as the fingers of a
        gripper; and those that the caller names. All but the first two are listed in `ignored`.
        The margin has no part in it. Pairs that never come twice the margin apart have a smaller
        one, see `margins`, given in `notes`.

        Args:
            robot: the robot.
            shapes: see `link_hulls`.
            margin: closer than this counts as a collision [m].
            ignore: pairs of names of bodies or links that may touch.
            package_dirs: see `link_hulls`.

        Raises:
            ShapeError: the margin is not a finite number.
            UnknownNameError: a name in `ignore` that is no body or link.
            RobotFileError: see `link_hulls`.
        """
        require_robot(robot)
        if not np.isfinite(margin):
            raise ShapeError(f"margin is {margin}: give a finite distance in metres.")
        hulls = link_hulls(robot, shapes, package_dirs=package_dirs)
        bodies = tuple(body for body in hulls.bodies if not _is_placeholder(robot, body))
        places, ignored = candidate_pairs(robot, bodies, ignore)
        unknown = np.full(places.shape[0], np.inf)
        every = cls(robot, bodies, places, float(margin), unknown, ignored, hulls.notes)
        reach = 2.0 * max(float(margin), 0.0) + _EXACT_REACH
        sampled = every.distances(sample_poses(robot, _SAMPLES), beyond=reach)
        farthest, touching = sampled.max(axis=0), (sampled <= _CONTACT_DISTANCE).mean(axis=0)
        boxed = np.array([body.shape == "boxes" for body in bodies], dtype=np.bool_)[places]
        apart = touching < np.where(boxed.any(axis=1), _BOX_CONTACTS, 1.0)
        never = {every.pairs[k]: _reason(touching[k]) for k in np.flatnonzero(~apart)}
        kept = replace(
            every, places=places[apart], farthest=farthest[apart], ignored={**ignored, **never}
        )
        return replace(kept, notes=(*kept.notes, *kept._narrow()))

    @cached_property
    def margins(self) -> Array:
        """(n_pairs,) closer than this counts as a collision of a pair [m].

        The margin, but half the pair's largest distance at most: bodies that are built closer
        than the margin would collide in every pose.
        """
        return np.minimum(self.margin, _MARGIN_SHARE * self.farthest)

    def _narrow(self) -> Iterator[str]:
        for k in np.flatnonzero(self.margins < self.margin):
            yield (
                f"{' and '.join(self.pairs[k])} are never more than {1e3 * self.farthest[k]:.1f} "
                f"mm apart: their margin is {1e3 * self.margins[k]:.3g} mm"
            )

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Names of the two bodies of every pair that is checked."""
        return tuple((self.bodies[a].name, self.bodies[b].name) for a, b in self.places)

    def summary(self) -> str:
        return (
            f"{len(self.pairs)} pairs of {len(self.bodies)} bodies of {self.robot.name} checked, "
            f"{len(self.ignored)} ignored, margin {1e3 * self.margin:g} mm"
        )

    # -- distances -------------------------------------------------------------------------

    def distances(self, q: ArrayLike, *, beyond: float = np.inf) -> Array:
        """(n_t, n_pairs) signed distances [m] at q (n_t, nq), negative inside each other.

        Pairs farther apart than `beyond` [m] need not be exact: they may get a lower bound of their
        distance instead, no less than `beyond`, which is much quicker.
        """
        return self._measure(q, beyond)[1]

    def near(self, q: ArrayLike, distance: float | Array) -> NearPairs:
        """Pairs nearer than a distance [m] at q (n_t, nq), with their gradients.

        The distance is one for all, or one per pair (n_pairs,).
        """
        return self._measure(q, distance, gradients=True)[0]

    def in_collision(self, q: ArrayLike) -> NDArray[np.bool_]:
        """(n_t,) whether any pair is closer than its margin at q (n_t, nq)."""
        near, bounds = self._measure(q, self.margins)
        hit = np.zeros(bounds.shape[0], dtype=np.bool_)
        hit[near.sample] = True
        return hit

    def closest(self, q: ArrayLike) -> Closest | None:
        """The pair that comes closest to its margin in q (n_t, nq), or the deepest inside it.

        `None` where there are no pairs or poses.
        """
        reach = max(self.margin, 0.0) + 0.01
        poses = as_array(q, (None, self.robot.nq), f"q of {self.robot.name}")
        if not self.pairs or not poses.shape[0]:
            return None
        while True:  # ever farther, for nearly all motions come close somewhere
            near, _ = self._measure(poses, reach)
            room = near.distance - self.margins[near.pair]
            # What is beyond reach has at least this room.
            if room.size and room.min() <= reach - self.margins.max():
                k = int(np.argmin(room))
                place = near.pair[k]
                return Closest(
                    self.pairs[place],
                    int(near.sample[k]),
                    float(near.distance[k]),
                    float(self.margins[place]),
                )
            reach *= 4.0

    def _measure(
        self, q: ArrayLike, reach: float | Array, *, gradients: bool = False
    ) -> tuple[NearPairs, Array]:
        """Pairs within reach, and lower bounds of all distances (n_t, n_pairs), exact for these.

        The reach [m] is one for all, or one per pair (n_pairs,).
        """
        poses = LinkPoses.from_robot(self.robot, q)
        reaches = np.broadcast_to(reach, len(self.pairs)).tolist()
        bounds = np.empty((poses.p.shape[1], len(self.pairs)))
        n_columns = self.robot.n_joints if gradients else 0
        result = [_none(n_columns)]
        centers, radii = self._spheres(poses)
        for k, (a, b) in enumerate(self.places):
            rows = self.bodies[a].joint + 1, self.bodies[b].joint + 1
            bounds[:, k] = np.linalg.norm(centers[a] - centers[b], axis=1) - radii[a] - radii[b]
            t = np.flatnonzero(bounds[:, k] < reaches[k])
            if not t.size:
                continue
            measured, bounds[t, k] = self._convex[a].distances_to(
                self._convex[b], *_relative(poses, *rows, t), reaches[k]
            )
            measured = replace(measured, sample=t[measured.sample])
            m = measured.sample.size
            if not m:
                continue
            gradient = self._gradient(poses, rows, measured) if gradients else np.empty((m, 0))
            pair = np.full(m, k, dtype=np.intp)
            result.append(NearPairs(measured.sample, pair, measured.distance, gradient))
        return _join(result), bounds

    def _gradient(self, poses: LinkPoses, rows: tuple[int, int], measured: PairDistances) -> Array:
        """(m, n_joints) gradients of distances between links, rows as in `LinkPoses`."""
        t = measured.sample
        R_a, p_a = poses.R[rows[0], t], poses.p[rows[0], t]
        normal, first, second = (
            np.einsum("tij,tj->ti", R_a, vectors)
            for vectors in (measured.normal, measured.first, measured.second)
        )
        moves = supporting_joints(self.robot)
        one, other = moves[rows[0]], moves[rows[1]]
        return poses.slopes(other & ~one, t, second + p_a, normal) - poses.slopes(
            one & ~other, t, first + p_a, normal
        )

    def _spheres(self, poses: LinkPoses) -> tuple[Array, Array]:
        """Middles (n_bodies, n_t, 3) and radii (n_bodies,) of spheres round the bodies [m]."""
        centers = np.empty((len(self.bodies), poses.p.shape[1], 3))
        radii = np.empty(len(self.bodies))
        for k, body in enumerate(self.bodies):
            center = self._convex[k].box[0]
            centers[k] = poses.R[body.joint + 1] @ center + poses.p[body.joint + 1]
            radii[k] = np.linalg.norm(body.hull.vertices - center, axis=1).max()
        return centers, radii

    @cached_property
    def _convex(self) -> tuple[ConvexPieces, ...]:
        return tuple(ConvexPieces.from_hulls(body.hull, body.pieces) for body in self.bodies)

    def __getstate__(self) -> dict[str, object]:
        # What coal made belongs to this process.
        return {name: value for name, value in self.__dict__.items() if name != "_convex"}


def _is_placeholder(robot: Robot, body: Body) -> bool:
    """Whether a body is only a box round a link without mass: there may be no body at all."""
    link = body.joint + int(robot.floating_base)
    return body.shape == "boxes" and link >= 0 and bool(robot.pi(link)[0] <= 0.0)


def _reason(touching: float) -> str:
    """Why a pair is not checked that is in contact in this share of the random poses."""
    if touching == 1.0:
        return f"in contact in all of {_SAMPLES} random poses"
    return f"boxes, in contact in {100.0 * touching:.0f} % of {_SAMPLES} random poses"


def _relative(poses: LinkPoses, a: int, b: int, t: NDArray[np.intp]) -> tuple[Array, Array]:
    """R_a_b (m, 3, 3) and p_a_b (m, 3) of two links at samples t (m,)."""
    R_a_base = poses.R[a, t].transpose(0, 2, 1)
    shift = (R_a_base @ (poses.p[b, t] - poses.p[a, t])[:, :, None])[:, :, 0]
    return R_a_base @ poses.R[b, t], shift


def _none(n_joints: int) -> NearPairs:
    nothing = np.empty(0, dtype=np.intp)
    return NearPairs(nothing, nothing, np.empty(0), np.empty((0, n_joints)))


def _join(parts: list[NearPairs]) -> NearPairs:
    sample = np.concatenate([part.sample for part in parts])
    pair = np.concatenate([part.pair for part in parts])
    order = np.lexsort((pair, sample))
    return NearPairs(
        sample[order],
        pair[order],
        np.concatenate([part.distance for part in parts])[order],
        np.concatenate([part.gradient for part in parts])[order],
    )
