"""`CovarianceFit`: covariances that were estimated from a log, and how the estimation ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bodysense.errors import FileReadError
from bodysense.estimation.map_dynamics.assumptions import Assumptions
from bodysense.estimation.map_dynamics.em.expectation import with_covariances
from bodysense.files import read_arrays, read_json, write_result
from bodysense.robot.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

_KEYS = ("names", "moments", "converged", "message")


@dataclass(frozen=True, eq=False, repr=False)
class CovarianceFit:
    """The result of `estimate_covariances`.

    Attributes:
        problem: the estimator with the covariances that were found.
        covariances: (m, m) by source: names of sensors, ``belief.fx.<link>``,
            ``slack.acceleration``, ``slack.wrench``, ``slack.torque``.
        trace: (k,) log posterior density of the covariances that were tried and taken, one after
            the other: log density of all readings, further beliefs and balances, and the prior;
            it never decreases.
        moments: how many were used.
        converged: whether the covariances came to rest.
        message: how it ended, what the readings cannot tell, and what to do about it.
    """

    problem: MapDynamics
    covariances: Mapping[str, Array]
    trace: Array
    moments: int
    converged: bool
    message: str

    def __repr__(self) -> str:
        return f"<CovarianceFit: {self.summary()}>"

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        """All sensors, with the covariances that were found."""
        return self.problem.sensors

    @property
    def assumptions(self) -> Assumptions:
        """Beliefs, with the covariances that were found."""
        return self.problem.assumptions

    def sigma(self, name: str) -> Array:
        """(m,) standard deviations of a source."""
        deviations: Array = np.sqrt(np.diag(self.covariances[name]))
        return deviations

    def summary(self) -> str:
        """What was found, in a line."""
        return (
            f"{len(self.covariances)} covariances from {self.moments} moments in "
            f"{self.trace.size} steps. {self.message}"
        )

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``covariances.npz`` and ``covariances.json`` into a folder."""
        arrays = {f"covariance_{k}": Sigma for k, Sigma in enumerate(self.covariances.values())}
        about = {
            "names": list(self.covariances),
            "moments": self.moments,
            "converged": self.converged,
            "message": self.message,
            "summary": self.summary(),
        }
        write_result(folder, "covariances", {"trace": self.trace, **arrays}, about)

    @classmethod
    def load(cls, folder: str | PathLike[str], problem: MapDynamics) -> CovarianceFit:
        """Read what `save` wrote.

        Args:
            folder: with ``covariances.npz`` and ``covariances.json``.
            problem: the estimator that the covariances belong to.

        Raises:
            FileReadError: the files are damaged, or belong to other sensors.
        """
        about = read_json(Path(folder) / "covariances.json", _KEYS)
        names = [str(name) for name in about["names"]] if isinstance(about["names"], list) else []
        keys = [f"covariance_{k}" for k in range(len(names))]
        arrays = read_arrays(Path(folder) / "covariances.npz", ("trace", *keys))
        covariances = {name: arrays[key] for name, key in zip(names, keys, strict=True)}
        sizes = {sensor.name: sensor.size for sensor in problem.sensors}
        sizes |= {f"belief.fx.{link}": 6 for link in problem.tree.names}
        sizes |= {"slack.acceleration": 6, "slack.wrench": 6, "slack.torque": 1}
        for name, Sigma in covariances.items():
            if name not in sizes or Sigma.shape != (sizes[name], sizes[name]):
                raise FileReadError(
                    f"covariances.json in {folder} has a covariance {Sigma.shape} of {name!r}, "
                    "which this robot's sensors and beliefs have not: load it with the sensors "
                    "that it was estimated for."
                )
        return cls(
            problem=with_covariances(problem, covariances),
            covariances=covariances,
            trace=arrays["trace"],
            moments=int(about["moments"]),
            converged=bool(about["converged"]),
            message=str(about["message"]),
        )
