"""Estimates of a log as Parquet files, written chunk by chunk.

estimates.parquet holds the time ``t``, a column for every number that is estimated
(``fx.hand.force_x``, ``tau.elbow``, …) and its standard deviation (``fx.hand.force_x.std``);
positions that are estimated too are ``q.elbow`` and ``dq.elbow``, biases ``bias.gyro.x``;
sensors.parquet holds ``t`` and the residual of every reading (``wrist.fx``, …), reading minus
prediction, empty where there was no reading. Units are in the metadata of the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from bodysense.errors import FileWriteError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.estimate import LogChunk
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.posterior import NamedSlices
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
    """``fx.hand.force_x``, …, ``tau.elbow``: one a number, in the order of the vector.

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


def _schema(pa: Any, columns: list[tuple[str, str]], *, nullable: bool) -> Any:
    return pa.schema(
        [
            pa.field(name, pa.float64(), nullable=nullable and name != "t", metadata={"unit": unit})
            for name, unit in columns
        ]
    )


# `StateTotals`: what is to be said of estimated positions and biases, gathered chunk by chunk.

ROUGH = 0.3
"""rad or m: a position that is known no better is hardly known."""


@dataclass(frozen=True)
class JointScore:
    """How well a joint is known over a log.

    Attributes:
        joint: its name.
        measured: whether its position was recorded.
        unit: of its position.
        lowest: estimated position.
        highest: estimated position.
        std: median standard deviation.
        worst: largest one.
    """

    joint: str
    measured: bool
    unit: str
    lowest: float
    highest: float
    std: float
    worst: float


@dataclass(frozen=True)
class BiasScore:
    """A bias after the last readings: name with axis, unit, mean and standard deviation."""

    name: str
    unit: str
    mean: float
    std: float


class StateTotals:
    """Sums over the chunks of a log; `add` them in their order."""

    def __init__(self, estimate: StateLogEstimate) -> None:
        """Start empty."""
        self.estimate = estimate
        self.samples = 0
        self._troubles: list[tuple[float, str]] = []
        self._q: list[Array] = []
        self._std: list[Array] = []
        self._last: LogChunk | None = None

    def add(self, chunk: LogChunk) -> None:
        """Count the samples of a chunk, which must hold variances."""
        names = self.estimate.problem.robot.joint_names
        self.samples += chunk.t.size
        self._troubles += chunk.troubles
        self._q.append(chunk.motion.q)
        self._std.append(
            np.concatenate([chunk.posterior.sigma(f"q.{name}") for name in names], axis=1)
        )
        self._last = chunk

    def joints(self) -> tuple[JointScore, ...]:
        """All joints, in their order."""
        robot = self.estimate.problem.robot
        q, std = np.concatenate(self._q), np.concatenate(self._std)
        return tuple(
            JointScore(
                joint=name,
                measured=name not in self.estimate.unmeasured,
                unit="m" if kind == "prismatic" else "rad",
                lowest=float(q[:, j].min()),
                highest=float(q[:, j].max()),
                std=float(np.median(std[:, j])),
                worst=float(std[:, j].max()),
            )
            for j, (name, kind) in enumerate(zip(robot.joint_names, robot.joint_types, strict=True))
        )

    def biases(self) -> tuple[BiasScore, ...]:
        """All of them, after the last readings."""
        if self._last is None:
            return ()
        result, sensors = self._last.posterior, self.estimate.problem.sensors
        by_name = {sensor.name: sensor for sensor in sensors}
        labels = component_names(self.estimate.variables, sensors)
        scores = []
        for name, where in self.estimate.variables.slices.items():
            quantity, _, owner = name.partition(".")
            if quantity == BIAS:
                values = zip(
                    labels[where],
                    by_name[owner].rows,
                    result[name][-1],
                    result.sigma(name)[-1],
                    strict=True,
                )
                scores += [
                    BiasScore(label.removeprefix(f"{BIAS}."), row[1], float(mean), float(std))
                    for label, row, mean, std in values
                ]
        return tuple(scores)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of the result."""
        notes = [
            f"q.{s.joint} is hardly known: its standard deviation is {s.std:.2g} {s.unit} at half "
            "of all samples. Say where it is at first (state, priors in the sensors file), or add "
            "an orientation or an accelerometer on a link that it moves"
            for s in self.joints()
            if s.std > ROUGH
        ]
        if self._troubles:
            t, why = self._troubles[0]
            several = f"{len(self._troubles)} times" if len(self._troubles) > 1 else "once"
            notes.append(f"{several}, first at {t:.6g} s: {why}")
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "method": self.estimate.state.method,
            "unmeasured": list(self.estimate.unmeasured),
            "joints": [vars(score) for score in self.joints()],
            "biases": [vars(score) for score in self.biases()],
        }
