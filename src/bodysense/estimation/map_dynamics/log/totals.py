"""`LogTotals`: what is to be said of a whole log, gathered chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation.map_dynamics.consistency import untrue_words
from bodysense.estimation.map_dynamics.log.contacts import (
    ContactInterval,
    contacts,
    felt,
    forces,
    reversing,
)
from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate, RecordedMotion
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.map_dynamics.observability import Observability, observability
from bodysense.sensors.joint_sensors import JointAcceleration
from bodysense.sensors.sensor import Sensor, variances
from bodysense.spatial.arrays import Array

_WORST = 10
_BLIND = 0.7  # of what was believed: a force that is not known better is not told
_APART = 0.5  # s: of doubts of one sensor in a row, the worst stands for all


@dataclass(frozen=True)
class SensorScore:
    """How a sensor agrees with all others over a log.

    Attributes:
        name: of the sensor.
        kind: what it is.
        place: where it is.
        unit: of its readings.
        samples: with a reading.
        absent: without one.
        rms: of its residuals, over all components.
        stated: standard deviation that it was given, likewise.
        ratio: rms of its residuals over what they should be if that is right; NaN if nothing can
            contradict it.
        beyond: share of samples whose chi² is beyond its 95 % quantile; 0.05 is right. Of readings
            that are said to be exact, and cannot be true: the share that is off.
        off: largest error of readings that are said to be exact; NaN where none is.
        contradicted: samples at which these cannot be true.
    """

    name: str
    kind: str
    place: str
    unit: str
    samples: int
    absent: int
    rms: float
    stated: float
    ratio: float
    beyond: float
    off: float
    contradicted: int


@dataclass(frozen=True)
class WorstReading:
    """A reading that is hard to believe: chi² of a sensor at a sample, with its expectation."""

    sensor: str
    t: float
    chi_square: float
    freedom: int
    p_value: float


class LogTotals:
    """Sums over the chunks of a log; `add` them in their order.

    Attributes:
        estimate: of the log.
        worst: readings that are hardest to believe.
        samples: that were added so far.
    """

    def __init__(self, estimate: LogEstimate) -> None:
        """Start empty."""
        problem = estimate.problem
        self.estimate = estimate
        self.worst: tuple[WorstReading, ...] = ()
        # readings, absent, squares, chi², its freedom, beyond, exact ones that are off, how far
        self._sums = {s.name: np.array([0.0] * 7 + [np.nan]) for s in problem.sensors}
        tree, priors = problem.tree, problem.assumptions
        self._priors = {
            tree.names[i]: priors.wrenches.get(tree.names[i], priors.wrench)
            for i in tree.with_unknowns
        }
        self._priors = {n: b for n, b in self._priors.items() if b.covariance.any()}
        self.samples = 0
        self._felt: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in self._priors}
        self._force: dict[str, list[Array]] = {name: [] for name in self._priors}
        self._sigma: dict[str, list[Array]] = {name: [] for name in self._priors}
        self._widths: dict[str, list[Array]] = {name: [] for name in self._priors}

    @property
    def links(self) -> tuple[str, ...]:
        """Links that may be touched."""
        return tuple(self._priors)

    def add(self, chunk: LogChunk) -> None:
        """Count the samples of a chunk, which must hold blocks and the sensors' consistency."""
        result, judged = chunk.posterior, chunk.consistency
        self.samples += chunk.t.size
        for name, residual in result.residual.items():
            here = residual[np.isfinite(residual).all(axis=1)]
            sums = self._sums[name]
            sums[:3] += len(here), len(residual) - len(here), float((here**2).sum())
            if judged is None:
                continue
            p, freedom = judged.p_value(name), judged.freedom[name]
            known = np.isfinite(p)
            square = float(judged.chi_square[name][known].sum())
            sums[3:6] += square, float(freedom[known].sum()), float((p[known] < 0.05).sum())
            if name in judged.off:
                sums[6] += float(judged.contradicted(name).sum())
                sums[7] = np.fmax(sums[7], np.fmax.reduce(judged.off[name]))
        if judged is not None:
            doubts = [
                WorstReading(d.sensor, float(chunk.t[d.sample]), d.chi_square, d.freedom, d.p_value)
                for d in judged.worst(20 * _WORST)
            ]
            self.worst = _apart([*self.worst, *doubts])
        for link, prior in self._priors.items():
            mean, covariance = result[f"fx.{link}"], result.covariance(f"fx.{link}")
            force, sigma, widths = forces(prior, mean, covariance)
            self._felt[link].append(felt(prior, mean, covariance))
            self._force[link].append(force)
            self._sigma[link].append(sigma)
            self._widths[link].append(widths)

    def scores(self) -> tuple[SensorScore, ...]:
        """All sensors, in their order."""
        return tuple(self._score(sensor) for sensor in self.estimate.problem.sensors)

    def _score(self, sensor: Sensor) -> SensorScore:
        samples, absent, residual, square, freedom, beyond, untrue, off = self._sums[sensor.name]
        told = [unit for unit in sensor.channel_units(self.estimate.problem.robot) if unit]
        units = dict.fromkeys(told or [unit for _, unit in sensor.rows])
        with np.errstate(all="ignore"):
            judged = samples if freedom > 0.0 else np.nan
            return SensorScore(
                name=sensor.name,
                kind=sensor.kind,
                place=sensor.place,
                unit=", ".join(units),
                samples=int(samples),
                absent=int(absent),
                rms=float(np.sqrt(residual / np.float64(samples * sensor.size))),
                stated=float(np.sqrt(np.trace(sensor.covariance) / sensor.size)),
                ratio=float(np.sqrt(np.float64(square) / freedom)),
                beyond=float(np.float64(beyond) / judged if not untrue else untrue / samples),
                off=float(off),
                contradicted=int(untrue),
            )

    def untrue(self) -> str:
        """Which readings are said to be exact and cannot all be true, with a remedy; or nothing."""
        off = {
            s.name: f"{s.off:.3g} {s.unit}" if "," not in s.unit else f"{s.off:.3g} ({s.unit})"
            for s in self.scores()
            if s.contradicted
        }
        return untrue_words(off) if off else ""

    def touched(self) -> dict[str, float]:
        """By link that may be touched, the share of samples at which it is."""
        return {
            link: float(np.concatenate(parts).mean()) if parts else 0.0
            for link, parts in self._felt.items()
        }

    def certainty(self) -> dict[str, tuple[float, float]]:
        """By link, the standard deviation of a force along the best and the worst told direction.

        [N], the median over all samples.
        """
        return {
            link: (float(best), float(worst))
            for link, parts in self._widths.items()
            if parts
            for best, worst in [np.median(np.concatenate(parts), axis=0)]
        }

    def blind(self) -> tuple[str, ...]:
        """Links of which readings tell nothing: any force on them might be there."""
        result = []
        for link, (best, _) in self.certainty().items():
            believed = np.linalg.eigvalsh(self._priors[link].covariance[:3, :3])
            open_ = believed[believed > 0.0]
            if open_.size and best > _BLIND * np.sqrt(open_[0]):
                result.append(link)
        return tuple(result)

    def contacts(self) -> tuple[ContactInterval, ...]:
        """When which link was touched, in order."""
        t = self.estimate.t[: self.samples]
        result = [
            contact
            for link, parts in self._felt.items()
            if parts
            for contact in contacts(
                link,
                t,
                np.concatenate(parts),
                np.concatenate(self._force[link]),
                np.concatenate(self._sigma[link]),
            )
        ]
        return tuple(sorted(result, key=lambda contact: contact.start))

    def reversals(self) -> tuple[str, ...]:
        """Contacts whose largest force may be friction that jumps, in words."""
        return reversing(self.estimate, self.contacts())

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON (NaN as null)."""
        return {
            "sensors": [_plain(vars(score)) for score in self.scores()],
            "untrue": self.untrue(),
            "worst": [_plain(vars(reading)) for reading in self.worst],
            "touched": self.touched(),
            "blind": list(self.blind()),
            "force_sigma": {link: list(pair) for link, pair in self.certainty().items()},
            "contacts": [contact._asdict() for contact in self.contacts()],
            "reversals": list(self.reversals()),
        }


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(v, float) and not np.isfinite(v) else v for key, v in values.items()
    }


def _apart(readings: list[WorstReading]) -> tuple[WorstReading, ...]:
    """The worst, without those of the same sensor at nearly the same time."""
    kept: list[WorstReading] = []
    for reading in sorted(readings, key=lambda r: (r.p_value, r.freedom - r.chi_square)):
        if all(r.sensor != reading.sensor or abs(r.t - reading.t) > _APART for r in kept):
            kept.append(reading)
        if len(kept) == _WORST:
            break
    return tuple(kept)


# `LogSeen`: what sensors see of the dynamics at some samples of a log.
#
# Where the state is estimated, accelerations of the joints are known as far as their bands say,
# which counts as a reading of each.

_MOMENTS = 3


class LogSeen:
    """Keeps what is needed of chunks, which `add` takes in their order."""

    def __init__(self, estimate: LogEstimate) -> None:
        """Start empty."""
        self._estimate = estimate
        self._wanted = np.unique(np.linspace(0, estimate.t.size - 1, _MOMENTS).astype(int))
        self._motions: list[RecordedMotion] = []
        self._spreads: list[Array] = []

    def add(self, chunk: LogChunk) -> None:
        """Keep the wanted samples of a chunk."""
        here = [k - chunk.first for k in self._wanted if 0 <= k - chunk.first < chunk.t.size]
        q, dq, twist = chunk.motion
        self._motions.append(
            RecordedMotion(q[here], dq[here], None if twist is None else twist[here])
        )
        if isinstance(self._estimate, StateLogEstimate):
            names = self._estimate.problem.robot.joint_names
            spread = [chunk.posterior.sigma(f"ddq.{name}")[here] for name in names]
            self._spreads.append(np.concatenate([np.zeros((len(here), 0)), *spread], axis=1))

    def observability(self) -> Observability:
        """Of these samples."""
        q, dq = (np.concatenate([m[k] for m in self._motions]) for k in range(2))
        twists = [m.base_twist for m in self._motions if m.base_twist is not None]
        problem = self._estimate.problem
        if self._spreads:
            std = np.median(np.concatenate(self._spreads), axis=0)
            taken = {sensor.name for sensor in problem.sensors}
            known = [
                JointAcceleration(name=f"ddq.{name}", joint=name, covariance=variances(s, 1))
                for name, s in zip(problem.robot.joint_names, std, strict=True)
                if f"ddq.{name}" not in taken
            ]
            problem = problem.with_sensors([*problem.sensors, *known])
        return observability(
            problem,
            q,
            dq,
            base_twist=np.concatenate(twists) if twists else None,
            gravity=self._estimate.setup.gravity,
        )
