"""Collisions and workspace as slacks of a motion: 0 at the margin, 1 from a distance on."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bodysense.robot.collisions import Collisions
from bodysense.robot.workspace import WorkspaceMargins
from bodysense.spatial.arrays import Array

_REACH = 0.08  # [m] from the margin, where a pair begins to count
_SHARE = 0.25  # of the largest distance of a pair that may be kept in addition
_NEAR = 0.005  # [m] beyond the margin, where a pair holds a motion back
_BETWEEN = 0.003  # [m] kept in addition, for what happens between the samples


@dataclass(frozen=True, eq=False)
class CollisionClearance:
    """Slacks of pairs of bodies: (distance - margin - between) / reach.

    Attributes:
        collisions: the pairs.
        between: kept in addition to their margins [m], a quarter of a pair's largest distance at
            most. Close pairs pass each other smoothly, so
            that between two samples they come closer by half their relative acceleration times
            the square of half the time between: millimetres.
    """

    collisions: Collisions
    between: float = _BETWEEN
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def slacks(self, q: Array) -> tuple[NDArray[np.intp], Array, Array]:
        """Samples (k,), slacks (k,) below 1 and their gradients (k, n_joints) of near pairs."""
        kept = self.kept
        with self._one_at_a_time:
            near = self.collisions.near(q, kept + _REACH)
        return near.sample, (near.distance - kept[near.pair]) / _REACH, near.gradient / _REACH

    @cached_property
    def kept(self) -> Array:
        """(n_pairs,) distances at which slacks are zero [m]."""
        between = np.minimum(self.between, _SHARE * self.collisions.farthest)
        return np.asarray(self.collisions.margins + between)


def boxes_in_the_way(collisions: Collisions, q: Array) -> tuple[str, ...]:
    """Names of the bodies with made-up boxes that come close to their margins in q (n_t, nq).

    Such a box may be far larger than the body it stands for, and hold a motion back for nothing.
    """
    boxes = [body.shape == "boxes" for body in collisions.bodies]
    if not any(boxes) or not collisions.pairs:
        return ()
    near = collisions.near(q, CollisionClearance(collisions).kept + _NEAR)
    places = np.unique(collisions.places[near.pair])
    return tuple(collisions.bodies[k].name for k in places if boxes[k])


@dataclass(frozen=True, eq=False)
class WorkspaceClearance:
    """Slacks of links to the walls of a workspace: margin / reach."""

    margins: WorkspaceMargins
    between: float = _BETWEEN

    def slacks(self, q: Array) -> tuple[NDArray[np.intp], Array, Array]:
        """Samples (k,), slacks (k,) below 1 and their gradients (k, n_joints) of near links."""
        margins, gradients = self.margins.margins_and_gradients(q)
        sample, link = np.nonzero(margins < self.between + _REACH)
        slack = (margins[sample, link] - self.between) / _REACH
        return sample, slack, gradients[sample, link] / _REACH
