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
from bodysense.spatial.arrays import Array
from bodysense.status import BAND

# Names and units of every number of what is estimated, as columns of files have them.


def _six(linear: str, angular: str, units: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    halves = zip((linear, angular), units, strict=True)
    return tuple((f"{what}_{axis}", unit) for what, unit in halves for axis in "xyz")


_COMPONENTS: dict[str, tuple[tuple[str, str], ...]] = {
    "a": _six("linear", "angular", ("m/s²", "rad/s²")),
    "f": _six("force", "moment", ("N", "N·m")),
    "fx": _six("force", "moment", ("N", "N·m")),
    "omega": tuple((axis, "rad/s") for axis in "xyz"),
    "rotation": tuple((axis, "rad") for axis in "xyz"),
}
_UNITS = {"tau": "N·m", "tau_ext": "N·m", "q": "rad", "dq": "rad/s", "ddq": "rad/s²"}
_SLIDING_UNITS = {"tau": "N", "tau_ext": "N", "q": "m", "dq": "m/s", "ddq": "m/s²"}


def components(estimated: NamedSlices, problem: MapDynamics) -> list[tuple[str, str]]:
    """``fx.hand.force_x``, …, ``tau.elbow`` with units: one per number of what is estimated."""
    sensors, sliding = {s.name: s for s in problem.sensors}, _sliding(problem)
    result: list[tuple[str, str]] = []
    for name in estimated:
        quantity, _, owner = name.partition(".")
        if quantity in _UNITS:
            units = _SLIDING_UNITS if owner in sliding else _UNITS
            result.append((name, units[quantity]))
        else:
            own = sensors[owner].rows if quantity == BIAS else _COMPONENTS[quantity]
            result += _columns(name, own)
    return result


def _columns(name: str, rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names and units of the rows of something; one alone has the name itself."""
    if len(rows) == 1:
        return [(name, rows[0][1])]
    return [(f"{name}.{label}", unit) for label, unit in rows]


BIAS = "bias"
"""The quantity whose owners are sensors."""

_NAMES = "estimates.parquet", "sensors.parquet"


class LogFiles:
    """Writes chunks as they come; a context manager."""

    def __init__(self, folder: str | PathLike[str], estimate: LogEstimate) -> None:
        """Open both files in an existing folder."""
        import pyarrow as pa
        from pyarrow import parquet

        columns = [("t", "s")]
        for name, unit in components(estimate.variables, estimate.problem):
            columns += [(name, unit), (f"{name}.std", unit)]
        self._residuals = [(sensor.name, sensor.size) for sensor in estimate.problem.sensors]
        rows = [("t", "s")]
        for sensor in estimate.problem.sensors:
            rows += _columns(sensor.name, sensor.rows)
        self._schemas = [_schema(pa, columns, nullable=False), _schema(pa, rows, nullable=True)]
        paths = [Path(folder) / name for name in _NAMES]
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
        absent = np.full((chunk.t.size, 1), np.nan)
        residuals = [np.zeros((chunk.t.size, 0))]
        for name, size in self._residuals:
            residuals.append(result.residual.get(name, np.repeat(absent, size, axis=1)))
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
                f"cannot write {_NAMES[which]}: {error}; check that the disk has room."
            ) from error


def _sliding(problem: MapDynamics) -> frozenset[str]:
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
        torque = "tau" if f"tau.{self.joints[0]}" in estimate.variables else "tau_ext"
        names = [f"fx.{link}" for link in self.links] + [
            f"{torque}.{joint}" for joint in self.joints
        ]
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
            reach = BAND * np.sqrt(np.maximum(result.variance[:, self._columns], 0.0))
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
