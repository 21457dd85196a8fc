"""Rows of readings, y = Y d + b_Y: what the sensors' constants say at one moment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bodysense.errors import MismatchError
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.equations.blocks import Blocks
from bodysense.estimation.map_dynamics.equations.moment import Moment
from bodysense.estimation.named_slices import NamedSlices
from bodysense.robot import Robot
from bodysense.robot.sensors.measurement import Measurement
from bodysense.robot.sensors.sensor import Sensor


def reading_rows(tree: BodyTree, sensors: Sequence[Sensor]) -> NamedSlices:
    """Rows of Y, one name a sensor."""
    sizes: dict[str, int] = {}
    for sensor in sensors:
        if sensor.name in sizes:
            raise MismatchError(f"two sensors are called {sensor.name!r}: rename one of them.")
        sizes[sensor.name] = sensor.measurement(tree.robot).size
    return NamedSlices.of("sensor", sizes.items())


def fill_readings(Y: Blocks, moment: Moment, sensor: Sensor) -> None:
    """Write the rows of a sensor, see `Measurement` for its equation."""
    reading, row = sensor.measurement(moment.tree.robot), sensor.name
    if reading.link is not None:
        _fill_link(Y, row, reading, moment, moment.tree.body(reading.link))
    if reading.joint is not None:
        _fill_joint(Y, row, reading, moment, moment.tree.below(reading.joint))


def _fill_link(Y: Blocks, row: str, reading: Measurement, moment: Moment, i: int) -> None:
    """A a + X fx + vᵀ Q v + L v of the link."""
    tree, v = moment.tree, moment.twist[i]
    Y.add(row, np.einsum("kij,i,j->k", reading.quadratic, v, v) + reading.linear @ v)
    if i in tree.with_unknowns:
        Y.put(row, f"a.{tree.names[i]}", reading.acceleration)
        Y.put(row, f"fx.{tree.names[i]}", reading.external)
        return
    Y.add(row, reading.acceleration @ moment.root_acceleration)
    if reading.external.any():
        raise MismatchError(
            f"{row} reads the external wrench of {tree.names[i]!r}, which is held still: what "
            "holds it is not among the unknowns. Remove the sensor, or let the base float."
        )


def _fill_joint(Y: Blocks, row: str, reading: Measurement, moment: Moment, i: int) -> None:
    """W w + t tau + d a_joint + p q + r q̇ + friction(q̇) of the joint above body i."""
    tree = moment.tree
    joint, j = tree.joint_name(i), tree.joint[i]
    if reading.transmitted.any():
        if reading.link == tree.names[i]:
            Y.put(row, f"f.{joint}", reading.transmitted)
        elif reading.link == tree.names[tree.parent[i]]:  # w = -X_iᵀ f_i there
            Y.put(row, f"f.{joint}", -reading.transmitted @ moment.X[i].T)
        else:
            raise MismatchError(
                f"{row}: joint {joint!r} does not connect link {reading.link!r} to any other."
            )
    Y.put(row, f"tau.{joint}", reading.torque[:, np.newaxis])
    Y.put(row, f"ddq.{joint}", reading.joint_acceleration[:, np.newaxis])
    Y.add(row, reading.position * moment.q[j] + reading.velocity * moment.dq[j])
    if reading.friction:
        Y.add(row, np.full(reading.size, _friction(tree.robot, j, moment.dq[j])))


def _friction(robot: Robot, j: int, speed: float) -> float:
    """Friction of a joint [N·m], or [N] if it slides."""
    law = robot.friction
    phi, _ = law.model.basis([speed], law.shape[j])
    terms = law.model.terms
    coefficients = [robot.theta[robot.layout.friction(term)][j] for term in terms]
    return float(phi[0] @ np.array(coefficients)) if terms else 0.0
