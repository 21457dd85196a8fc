"""Collisions and workspace as slacks of a motion: 0 at the margin, 1 from a distance on."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bodysense.robot.collisions import Collisions
from bodysense.robot.workspace import WorkspaceMargins
from bodysense.spatial.arrays import Array

_REACH = 0.08  # [m] from the margin, where a pair begins to count
_BETWEEN = 0.003  # [m] kept in addition, for what happens between the samples


@dataclass(frozen=True, eq=False)
class CollisionClearance:
    """Slacks of pairs of bodies: (distance - margin) / reach.

    Attributes:
        collisions: the pairs.
        between: kept in addition to their margin [m]. Close pairs pass each other smoothly, so
            that between two samples they come closer by half their relative acceleration times
            the square of half the time between: millimetres.
    """

    collisions: Collisions
    between: float = _BETWEEN
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def slacks(self, q: Array) -> tuple[NDArray[np.intp], Array, Array]:
        """Samples (k,), slacks (k,) below 1 and their gradients (k, n_joints) of near pairs."""
        margin = self.collisions.margin + self.between
        with self._one_at_a_time:
            near = self.collisions.near(q, margin + _REACH)
        return near.sample, (near.distance - margin) / _REACH, near.gradient / _REACH


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
