"""`CovarianceFit`: covariances that were estimated from a log, and how the estimation ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np
from scipy.special import ndtri

from bodysense.errors import FileReadError, ShapeError
from bodysense.estimation.map_dynamics.em.information import with_covariances
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.priors import Assumptions
from bodysense.files import load_result, save_result
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

WELL, ROUGHLY = 0.07, 0.35
"""Relative standard deviations of a variance up to which it is called so."""


@dataclass(frozen=True, eq=False, repr=False)
class CovarianceFit:
    """The result of `estimate_covariances`.

    Attributes:
        problem: the estimator with the covariances that were found.
        covariances: (m, m) by source: names of sensors, ``prior.fx.<link>``,
            ``slack.acceleration``, ``slack.wrench``, ``slack.torque``.
        deviations: (m,) by source, standard deviations of the variances: what the readings leave
            open (Cramér and Rao's bound, with the prior), and the most likely value with them.
        trace: (k,) log posterior density of the covariances that were tried and taken, one after
            the other: log density of all readings, further priors and balances, and the prior;
            it never decreases.
        samples: how many were used.
        converged: whether the covariances converged.
        message: how it ended, what is not identifiable, and what to do about it.
    """

    problem: MapDynamics
    covariances: Mapping[str, Array]
    deviations: Mapping[str, Array]
    trace: Array
    samples: int
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
        """Priors, with the covariances that were found."""
        return self.problem.assumptions

    def sigma(self, name: str) -> Array:
        """(m,) standard deviations of a source."""
        deviations: Array = np.sqrt(np.diag(self.covariances[name]))
        return deviations

    def relative(self, name: str) -> Array:
        """(m,) standard deviations of the variances of a source over these; of exact ones zero."""
        v = np.diag(self.covariances[name])
        share: Array = np.divide(self.deviations[name], v, out=np.zeros_like(v), where=v > 0.0)
        return share

    def interval(self, name: str, level: float = 0.95) -> Array:
        """(m, 2) between which standard deviations those of a source are, at this level.

        From v ± z s of the variance, which may be as small as zero.
        """
        if not 0.0 < level < 1.0:
            raise ShapeError(f"level is {level:g}: give a share between 0 and 1, e.g. 0.95.")
        half = float(ndtri(0.5 + 0.5 * level)) * self.deviations[name]
        v = np.diag(self.covariances[name])
        ends: Array = np.sqrt(np.maximum(np.stack([v - half, v + half], axis=1), 0.0))
        return ends

    def identified(self, name: str) -> tuple[str, ...]:
        """(m,) how well the variance of each component is identified: "well", "roughly", "not".

        Well is a relative standard deviation of 7 %, so that 20 % are three of them; roughly is
        one of 35 %.
        """
        return tuple(
            "well" if share <= WELL else "roughly" if share <= ROUGHLY else "not"
            for share in self.relative(name)
        )

    def summary(self) -> str:
        """What was found, in a line."""
        return (
            f"{len(self.covariances)} covariances from {self.samples} samples in "
            f"{self.trace.size} steps{self._identified_words()}. {self.message}"
        )

    def _identified_words(self) -> str:
        """How many variances are identified, in words."""
        words = [word for name in self.covariances for word in self.identified(name)]
        if not words:
            return ""
        return (
            f"; of {len(words)} variances {words.count('well')} are known to {WELL:.0%} or better, "
            f"{words.count('roughly')} to {ROUGHLY:.0%}"
        )

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``covariances.npz`` and ``covariances.json`` into a folder."""
        save_result(self, folder, "covariances", without=("problem",))

    @classmethod
    def load(cls, folder: str | PathLike[str], problem: MapDynamics) -> CovarianceFit:
        """Read what `save` wrote, for the estimator that the covariances belong to.

        Raises:
            FileReadError: the files are damaged, or belong to other sensors.
        """
        fit = load_result(cls, folder, "covariances", problem=lambda stored: problem)
        sizes = {sensor.name: sensor.size for sensor in problem.sensors}
        sizes |= {f"prior.fx.{link}": 6 for link in problem.tree.names}
        sizes |= {"slack.acceleration": 6, "slack.wrench": 6, "slack.torque": 1}
        for name, Sigma in fit.covariances.items():
            if name not in sizes or Sigma.shape != (sizes[name], sizes[name]):
                raise FileReadError(
                    f"covariances.json in {folder} has a covariance {Sigma.shape} of {name!r}, "
                    "which this robot's sensors and priors have not: load it with the sensors "
                    "that it was estimated for."
                )
        return replace(fit, problem=with_covariances(problem, fit.covariances))
