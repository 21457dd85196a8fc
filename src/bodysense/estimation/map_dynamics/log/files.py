"""Estimates of a log as Parquet files, written chunk by chunk.

estimates.parquet holds the time ``t``, a column for every number that is estimated
(``fx.hand.force_x``, ``tau.elbow``, …) and its standard deviation (``fx.hand.force_x.std``);
positions that are estimated too are ``q.elbow`` and ``dq.elbow``, biases ``bias.gyro.x``;
sensors.parquet holds ``t`` and the residual of every reading (``wrist.fx``, …), reading minus
prediction, empty where there was no reading. Units are in the metadata of the columns.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from bodysense.errors import FileWriteError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.component_names import component_names, component_units
from bodysense.estimation.map_dynamics.log.estimate import LogChunk
from bodysense.estimation.named_slices import NamedSlices
from bodysense.spatial.arrays import Array

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

        robot = problem.robot
        kinds = zip(robot.joint_names, robot.joint_types, strict=True)
        sliding = frozenset(joint for joint, kind in kinds if kind == "prismatic")
        estimated = problem.variables if variables is None else variables
        names = component_names(estimated, problem.sensors)
        units = component_units(estimated, sliding, problem.sensors)
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
        """Write the moments of a chunk, which must hold variances."""
        found = chunk.posterior
        variance = np.zeros_like(found.mean) if found.variance is None else found.variance
        pairs = np.stack([found.mean, np.sqrt(np.maximum(variance, 0.0))], axis=2)
        residuals = [np.zeros((chunk.t.size, 0)), *found.residual.values()]
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


def _schema(pa: Any, columns: list[tuple[str, str]], *, nullable: bool) -> Any:
    return pa.schema(
        [
            pa.field(name, pa.float64(), nullable=nullable and name != "t", metadata={"unit": unit})
            for name, unit in columns
        ]
    )
