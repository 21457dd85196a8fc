"""Estimates of a log as Parquet files and as curves, written chunk by chunk.

estimates.parquet holds the time ``t``, a column for every number that is estimated
(``fx.hand.force_x``, ``tau.elbow``, …) and its standard deviation (``fx.hand.force_x.std``);
positions that are estimated too are ``q.elbow`` and ``dq.elbow``, biases ``bias.gyro.x``;
sensors.parquet holds ``t`` and the residual of every reading (``wrist.fx``, …), reading minus
prediction, empty where there was no reading. Units are in the metadata of the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from bodysense.errors import FileWriteError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.posterior import NamedSlices
from bodysense.logs.filtering import Stretches
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

# Names for every number of what is estimated, as columns of files have them.

_WRENCH_ENDS = ("force_x", "force_y", "force_z", "moment_x", "moment_y", "moment_z")
_WRENCH_UNITS = ("N",) * 3 + ("N·m",) * 3
_ENDS: dict[str, tuple[str, ...]] = {
    "a": ("linear_x", "linear_y", "linear_z", "angular_x", "angular_y", "angular_z"),
    "f": _WRENCH_ENDS,
    "fx": _WRENCH_ENDS,
    "omega": ("x", "y", "z"),
    "rotation": ("x", "y", "z"),
}
_UNITS: dict[str, tuple[str, ...]] = {
    "a": ("m/s²",) * 3 + ("rad/s²",) * 3,
    "f": _WRENCH_UNITS,
    "fx": _WRENCH_UNITS,
    "tau": ("N·m",),
    "q": ("rad",),
    "dq": ("rad/s",),
    "ddq": ("rad/s²",),
    "omega": ("rad/s",) * 3,
    "rotation": ("rad",) * 3,
}
_SLIDING = {"tau": "N", "ddq": "m/s²", "q": "m", "dq": "m/s"}
BIAS = "bias"
"""The quantity whose owners are sensors."""


def component_names(variables: NamedSlices, sensors: Sequence[Sensor] = ()) -> tuple[str, ...]:
    """``fx.hand.force_x``, …, ``tau.elbow``: one per number, in the order of the vector.

    Args:
        variables: what is estimated.
        sensors: whose biases may be among it.
    """
    by_name, names = {sensor.name: sensor for sensor in sensors}, []
    for name in variables:
        quantity, _, owner = name.partition(".")
        ends = _ENDS.get(quantity, ())
        if quantity == BIAS and len(by_name[owner].rows) > 1:
            ends = tuple(label for label, _ in by_name[owner].rows)
        names += [f"{name}.{end}" for end in ends] if ends else [name]
    return tuple(names)


def component_units(
    variables: NamedSlices,
    sliding: frozenset[str] = frozenset(),
    sensors: Sequence[Sensor] = (),
) -> list[str]:
    """Units alike; `sliding` are joints with forces and lengths instead of torques and angles."""
    by_name = {sensor.name: sensor for sensor in sensors}
    units: list[str] = []
    for name in variables:
        quantity, _, owner = name.partition(".")
        if quantity == BIAS:
            units += [unit for _, unit in by_name[owner].rows]
        elif owner in sliding and quantity in _SLIDING:
            units.append(_SLIDING[quantity])
        else:
            units += _UNITS[quantity]
    return units


ESTIMATES, RESIDUALS = "estimates.parquet", "sensors.parquet"


class LogFiles:
    """Writes chunks as they come; a context manager."""

    def __init__(
        self,
        folder: str | PathLike[str],
        problem: MapDynamics,
        variables: NamedSlices | None = None,
    ) -> None:
        """Open both files in an existing folder.

        Args:
            folder: that they go to.
            problem: the estimator.
            variables: what is estimated, if more than the dynamics.
        """
        import pyarrow as pa
        from pyarrow import parquet

        estimated = problem.variables if variables is None else variables
        names = component_names(estimated, problem.sensors)
        units = component_units(estimated, _sliding(problem), problem.sensors)
        columns = [("t", "s")]
        for name, unit in zip(names, units, strict=True):
            columns += [(name, unit), (f"{name}.std", unit)]
        self._schemas = [_schema(pa, columns, nullable=False)]
        rows = [("t", "s")]
        for sensor in problem.sensors:
            own = sensor.rows
            rows += [
                (sensor.name if len(own) == 1 else f"{sensor.name}.{label}", unit)
                for label, unit in own
            ]
        self._schemas.append(_schema(pa, rows, nullable=True))
        paths = [Path(folder) / ESTIMATES, Path(folder) / RESIDUALS]
        self._table = pa.Table
        self._array = pa.array
        try:
            self._writers = [
                parquet.ParquetWriter(path, schema)
                for path, schema in zip(paths, self._schemas, strict=True)
            ]
        except OSError as error:
            raise FileWriteError(
                f"cannot write into {folder}: {error}; check that it may be written to."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for writer in self._writers:
            writer.close()

    def add(self, chunk: LogChunk) -> None:
        """Write the samples of a chunk, which must hold variances."""
        result = chunk.posterior
        variance = np.zeros_like(result.mean) if result.variance is None else result.variance
        pairs = np.stack([result.mean, np.sqrt(np.maximum(variance, 0.0))], axis=2)
        residuals = [np.zeros((chunk.t.size, 0)), *result.residual.values()]
        self._write(0, chunk.t, pairs.reshape(chunk.t.size, -1))
        self._write(1, chunk.t, np.concatenate(residuals, axis=1))

    def _write(self, which: int, t: Array, values: Array) -> None:
        columns = [self._array(t)]
        for column in np.ascontiguousarray(values.T):
            columns.append(self._array(column, from_pandas=bool(which)))  # NaN becomes empty
        try:
            table = self._table.from_arrays(columns, schema=self._schemas[which])
            self._writers[which].write_table(table)
        except OSError as error:
            raise FileWriteError(
                f"cannot write {(ESTIMATES, RESIDUALS)[which]}: {error}; check that the disk has "
                "room."
            ) from error


def _sliding(problem: MapDynamics) -> frozenset[str]:
    """Prismatic joints."""
    kinds = zip(problem.robot.joint_names, problem.robot.joint_types, strict=True)
    return frozenset(joint for joint, kind in kinds if kind == "prismatic")


def _schema(pa: Any, columns: list[tuple[str, str]], *, nullable: bool) -> Any:
    return pa.schema(
        [
            pa.field(name, pa.float64(), nullable=nullable and name != "t", metadata={"unit": unit})
            for name, unit in columns
        ]
    )


# `EstimatedCurves`: what the report draws, thinned while a log is solved.

_BAND = 1.96
"""Standard deviations to either side of a band that holds the truth 95 times out of 100."""

_POINTS = 2000  # of a curve
_POINTS_IN_ALL = 1_000_000
_LINKS = 40  # with curves of their wrenches: a page is to be opened


class EstimatedCurves:
    """Curves with 95 % bands, of few points; `add` the chunks of a log in their order.

    External wrenches of some links and torques of all joints; where the state is estimated,
    positions and velocities of the joints too, those without encoders first.

    Attributes:
        links: with curves of their external wrenches.
        joints: with curves of their torques, and
        effort_units: of these.
        positions: joints with curves of their positions and velocities, and
        position_units: of the positions.
        start: time of the first sample [s].
    """

    def __init__(self, estimate: LogEstimate, links: tuple[str, ...]) -> None:
        """Start empty; `links` are those whose wrenches are not known beforehand."""
        tree, slides = estimate.problem.tree, _sliding(estimate.problem)
        self.links = links[:_LINKS]
        self.joints = tuple(tree.joint_name(i) for i in range(1, tree.n))
        self.effort_units = tuple("N" if j in slides else "N·m" for j in self.joints)
        self.positions: tuple[str, ...] = ()
        if isinstance(estimate, StateLogEstimate):
            bare = estimate.unmeasured
            self.positions = tuple(sorted(self.joints, key=lambda joint: joint not in bare))
        self.position_units = tuple("m" if j in slides else "rad" for j in self.positions)
        self.start = float(estimate.t[0])
        names = [f"fx.{link}" for link in self.links] + [f"tau.{joint}" for joint in self.joints]
        names += [f"{what}.{joint}" for joint in self.positions for what in ("q", "dq")]
        every = np.arange(estimate.variables.size)
        self._columns = np.concatenate([every[:0], *(every[estimate.variables[n]] for n in names)])
        self._gaps = set(estimate.recording.starts)
        most = max(100, min(_POINTS, _POINTS_IN_ALL // max(1, 3 * self._columns.size)))
        self._width = Stretches.of([estimate.t.size], most).width
        self._t: list[Array] = []
        self._parts: list[Array] = []
        self._starts: list[int] = []
        self._points = 0

    def add(self, chunk: LogChunk) -> None:
        """Thin the curves of a chunk, piece by piece."""
        result = chunk.posterior
        cuts = sorted(k - chunk.first for k in self._gaps if 0 < k - chunk.first < chunk.t.size)
        mean = result.mean[:, self._columns]
        reach = np.zeros_like(mean)
        if result.variance is not None:
            reach = _BAND * np.sqrt(np.maximum(result.variance[:, self._columns], 0.0))
        curves = np.stack([mean, mean - reach, mean + reach], axis=2).reshape(chunk.t.size, -1)
        for begin, end in pairwise([0, *cuts, chunk.t.size]):
            stretches = Stretches((end - begin,), self._width)
            if begin > 0 or chunk.first in self._gaps:
                self._starts.append(self._points)
            times = stretches.times([chunk.t[begin:end] - self.start])
            self._t.append(times)
            self._parts.append(stretches.values([curves[begin:end]]))
            self._points += times.size

    @property
    def t(self) -> Array:
        """(p,) times of the points after `start` [s]."""
        return np.concatenate(self._t)

    @property
    def points(self) -> Array:
        """(p, n, 3) mean and ends of the band of each curve.

        Six for each link, one for each joint, two for each of `positions`.
        """
        return np.concatenate(self._parts).reshape(self._points, -1, 3)

    @property
    def pieces(self) -> list[int]:
        """Points at which a piece of the recording begins."""
        return list(self._starts)
