"""`ReadingLayout`: the sensors of a robot as blocks of rows, sorted along the tree.

Rows of the kernels are sorted by body and by what they depend on; those of the user are in the
order of the sensors. Priors beyond the independent ones are rows too, behind the sensors'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.estimation._kernels.problem import (
    EXTERNAL,
    GROUPS,
    OWN_MOTION,
    OWN_WRENCH,
    PARENT_SIDE,
    Readings,
)
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.priors import Assumptions, reading_triangle, whitener
from bodysense.estimation.posterior import NamedSlices
from bodysense.sensors.sensor import Measurement, Sensor
from bodysense.spatial.arrays import Array, one_each


@dataclass(frozen=True, eq=False)
class _Block:
    """Readings that share a covariance: those of a sensor or a prior."""

    name: str
    measurement: Measurement
    covariance: Array
    body: int
    group: int
    mover: int
    rows: range  # among all rows, in the order of the sensors


@dataclass(frozen=True, eq=False)
class ReadingLayout:
    """The rows of all sensors and priors.

    Attributes:
        sensors: in the order of the user's readings.
        slices: of a sensor's rows among the user's, by its name.
        constants: (m,) values of rows that are priors, NaN for those of sensors.
        order: (m,) user's row of each row of the kernels.
        block_of: block of each sensor, by its name.
        orientations: rows of orientation sensors, which tell about the state alone: where the
            state is given they are left out.
        arrays: for the kernels.
    """

    sensors: tuple[Sensor, ...]
    slices: dict[str, slice]
    constants: Array
    order: NDArray[np.int64]
    block_of: dict[str, int]
    orientations: NDArray[np.int64]
    arrays: Readings

    @classmethod
    def of(
        cls, tree: BodyTree, sensors: Sequence[Sensor], assumptions: Assumptions
    ) -> ReadingLayout:
        """Sort the readings of the sensors and the further priors along the tree."""
        blocks: list[_Block] = []
        equations = {sensor.name: sensor.measurement(tree.robot) for sensor in sensors}
        named = NamedSlices.from_sizes(
            "sensor", [(s.name, equations[s.name].size) for s in sensors]
        )
        slices, at = dict(named.slices), named.size
        for sensor in sensors:
            rows = range(slices[sensor.name].start, slices[sensor.name].stop)
            measurement = equations[sensor.name]
            blocks.append(_placed(tree, sensor.name, measurement, sensor.covariance, rows))
        constants = [np.full(at, np.nan)]
        for name, prior in assumptions.others.items():
            measurement = _direct(tree, name)
            rows = range(at, at + prior.mean.size)
            blocks.append(_placed(tree, name, measurement, prior.covariance, rows))
            constants.append(np.asarray(prior.mean))
            at += prior.mean.size
        blocks.sort(key=lambda block: (block.body, block.group))
        order = np.array([row for block in blocks for row in block.rows], dtype=np.int64)
        block_of = {
            name: next(k for k, block in enumerate(blocks) if where.start in block.rows)
            for name, where in slices.items()
        }
        return cls(
            sensors=tuple(sensors),
            slices=slices,
            constants=np.concatenate(constants),
            order=order,
            block_of=block_of,
            orientations=np.array(
                [row for b in blocks if b.measurement.rotation is not None for row in b.rows],
                dtype=np.int64,
            ),
            arrays=_arrays(tree, blocks),
        )

    @cached_property
    def size(self) -> int:
        """Number of the user's rows: those of the sensors."""
        return sum(where.stop - where.start for where in self.slices.values())

    @property
    def blocks(self) -> int:
        """Number of the kernels' blocks: those of sensors and of further priors."""
        return self.arrays.first.size - 1

    @cached_property
    def block_of_row(self) -> NDArray[np.int64]:
        """(m,) block of each row of the kernels."""
        return np.repeat(np.arange(self.blocks), np.diff(self.arrays.first))

    def weights(self, noise_scale: Mapping[str, ArrayLike], T: int) -> Array:
        """(T, blocks) of the kernels, from how much larger the noise of some sensors is.

        Raises:
            UnknownNameError: a sensor that is not there.
            ShapeError: a scale that is not positive, or not one or (T,) of them.
        """
        weight = np.ones((T, self.blocks))
        for name, value in noise_scale.items():
            if name not in self.block_of:
                raise unknown_name("sensor", name, self.block_of)
            scale = one_each(value, T, f"the noise scale of {name}")
            if not (scale > 0.0).all():
                raise ShapeError(
                    f"the noise scale of {name} is {scale.min():g}: give numbers above zero; a "
                    "reading that is absent is NaN."
                )
            weight[:, self.block_of[name]] = 1.0 / scale
        return weight

    def sorted_rows(self, y: Array) -> Array:
        """(T, m) rows of the kernels from readings (T, size) of the sensors."""
        if self.constants.size == y.shape[1] and not self.orientations.size:
            return np.take(y, self.order, axis=1)
        full = np.empty((y.shape[0], self.constants.size))
        full[:] = self.constants
        full[:, : y.shape[1]] = y
        full[:, self.orientations] = np.nan
        return np.ascontiguousarray(full[:, self.order])


def _placed(
    tree: BodyTree, name: str, measurement: Measurement, covariance: Array, rows: range
) -> _Block:
    link, joint = measurement.link, measurement.joint
    mover = tree.body(link) if link is not None else 0
    if measurement.external.any():
        body, group = mover, EXTERNAL
    elif measurement.transmitted.any():
        if joint is None:
            raise MismatchError(f"{name} reads a transmitted wrench: say through which joint.")
        body = tree.below(joint)
        group = OWN_WRENCH if mover == body else PARENT_SIDE
        if group == PARENT_SIDE and mover != tree.parent[body]:
            raise MismatchError(f"{name}: joint {joint!r} does not move or carry link {link!r}.")
    elif joint is not None:
        body = tree.below(joint)
        mover, group = body, OWN_WRENCH if measurement.torque.any() else OWN_MOTION
    else:
        body, group = mover, OWN_MOTION
    if body not in tree.with_unknowns and group != PARENT_SIDE:
        raise MismatchError(
            f"{name} is on {tree.names[body]!r}, which is held still: it tells nothing. Remove it, "
            "or let the base float."
        )
    return _Block(name, measurement, np.asarray(covariance), body, group, mover, rows)


def _direct(tree: BodyTree, name: str) -> Measurement:
    quantity, _, owner = name.partition(".")
    one, unit = np.ones(1), np.eye(6)
    if quantity == "a":
        return Measurement(6, link=owner, acceleration=unit)
    if owner not in tree.robot.joint_names:
        raise unknown_name("joint", owner, tree.robot.joint_names)
    if quantity == "f":
        link = tree.names[tree.below(owner)]
        return Measurement(6, link=link, joint=owner, transmitted=unit)
    if quantity == "tau":
        return Measurement(1, joint=owner, torque=one)
    return Measurement(1, joint=owner, joint_acceleration=one)


def _arrays(tree: BodyTree, blocks: list[_Block]) -> Readings:
    sizes = [block.measurement.size for block in blocks]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    m, largest = int(first[-1]), max([1, *sizes])
    S = tree.arrays.S
    joint_names = tree.robot.joint_names
    on_alpha, on_wrench = np.zeros((m, 7)), np.zeros((m, 7))
    root, white = np.zeros((m, largest)), np.zeros((m, largest))
    friction, joint = np.full(m, -1, dtype=np.int64), np.full(m, -1, dtype=np.int64)
    log_scale = np.zeros(len(blocks))
    begin = np.zeros((tree.n, GROUPS + 1), dtype=np.int64)
    for i in range(tree.n):
        for group in range(GROUPS + 1):
            begin[i, group] = sum((b.body, b.group) < (i, group) for b in blocks)
    for k, block in enumerate(blocks):
        where, e = slice(first[k], first[k + 1]), block.measurement
        on_alpha[where, :6], on_alpha[where, 6] = e.acceleration, e.joint_acceleration
        on_wrench[where, :6] = e.transmitted + np.outer(e.torque, S[block.body])
        on_wrench[where, 6] = e.torque
        root[where, : e.size] = reading_triangle(block.covariance)
        white[where, : e.size], log_scale[k] = whitener(root[where, : e.size])
        if e.joint is not None:
            joint[where] = joint_names.index(e.joint)
            friction[where] = joint_names.index(e.joint) if e.friction else -1

    def stacked(name: str, width: tuple[int, ...]) -> Array:
        parts = [getattr(block.measurement, name) for block in blocks]
        return np.concatenate([np.zeros((0, *width)), *parts])

    return Readings(
        begin=begin,
        first=first,
        mover=np.array([block.mover for block in blocks], dtype=np.int64),
        on_alpha=on_alpha,
        on_wrench=on_wrench,
        on_external=stacked("external", (6,)),
        quadratic=stacked("quadratic", (6, 6)),
        linear=stacked("linear", (6,)),
        position=stacked("position", ()),
        velocity=stacked("velocity", ()),
        friction=friction,
        joint=joint,
        root=root,
        white=white,
        log_scale=log_scale,
    )
