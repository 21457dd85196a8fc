"""`StateLayout`: what is estimated beside d, and where it stands in the vector of all of it.

    x = ( q  q̇  [q̈]  [omega of a floating root]  [phi] | biases  parameters )

What is behind the bar is the same at all moments. phi turns the root where sensors read
orientations in a world that the root is not bolted to: R_world_root = R_reference Exp(phi).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.named_slices import NamedSlices
from bodysense.robot.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class StateLayout:
    """Sizes and slices.

    Attributes:
        n: number of joints.
        order: 2, or 3 with joint accelerations.
        floating: whether the root has an angular velocity.
        turned: whether the root has an unknown orientation.
        constants: numbers that are the same at all moments.
    """

    n: int
    order: int
    floating: bool
    turned: bool
    constants: int

    @property
    def joints(self) -> int:
        """Length of the part about joints, which comes first."""
        return self.order * self.n

    @property
    def columns(self) -> int:
        """Length of the part that the kernel differentiates by: joints and angular velocity."""
        return self.joints + 3 * self.floating

    @property
    def local(self) -> int:
        """Length of the part that belongs to one moment."""
        return self.columns + 3 * self.turned

    @property
    def size(self) -> int:
        """Length of all."""
        return self.local + self.constants

    def q(self, x: Array) -> Array:
        """Positions."""
        return x[..., : self.n]

    def dq(self, x: Array) -> Array:
        """Velocities."""
        return x[..., self.n : 2 * self.n]

    def ddq(self, x: Array) -> Array:
        """Accelerations; empty where they are not in the state."""
        return x[..., 2 * self.n : self.joints]

    def omega(self, x: Array) -> Array:
        """Angular velocity of the root; empty where it is known."""
        return x[..., self.joints : self.columns]

    def phi(self, x: Array) -> Array:
        """Turn of the root; empty where its orientation is known or of no interest."""
        return x[..., self.columns : self.local]

    def constant(self, x: Array) -> Array:
        """What is the same at all moments."""
        return x[..., self.local :]

    def named(self, tree: BodyTree, biased: Sequence[Sensor]) -> tuple[NamedSlices, Array]:
        """Names of what is reported beside d, and the places in x that they report.

        Accelerations are in d already, and coordinates of parameters mean nothing to a user.
        """
        joints, root = tree.robot.joint_names, tree.names[0]
        sizes = [(f"{what}.{joint}", 1) for what in ("q", "dq") for joint in joints]
        places = list(range(2 * self.n))
        if self.floating:
            sizes.append((f"omega.{root}", 3))
            places += range(self.joints, self.columns)
        if self.turned:
            sizes.append((f"rotation.{root}", 3))
            places += range(self.columns, self.local)
        at = self.local
        for sensor in biased:
            sizes.append((f"bias.{sensor.name}", sensor.size))
            places += range(at, at + sensor.size)
            at += sensor.size
        return NamedSlices.of("quantity", sizes), np.array(places, dtype=np.int64)
