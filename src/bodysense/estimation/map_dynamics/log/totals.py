"""`LogTotals` and `StateTotals`: statistics of a whole log, gathered chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bodysense.estimation.map_dynamics.consistency import inconsistent_exact_words
from bodysense.estimation.map_dynamics.log.contacts import (
    ContactInterval,
    LogContacts,
)
from bodysense.estimation.map_dynamics.log.estimate import LogChunk, LogEstimate
from bodysense.estimation.map_dynamics.log.files import BIAS, components
from bodysense.estimation.map_dynamics.log.marginal_contacts import MarginalContacts
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.files import plain
from bodysense.robot.layout import position_unit
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

_LEVEL = 0.05  # share of right readings whose chi² is beyond its quantile
_DISAGREE = 0.15  # share from which on a sensor contradicts the others
_WORST_RESIDUALS = 10  # that are kept
_UNOBSERVABLE = 0.7  # share of the prior's standard deviation above which a force is unobservable
_SEPARATION = 0.5  # s: of residuals of one sensor closer than this, the worst stands for all
_UNCERTAIN_POSITION = 0.3  # rad or m: a larger median standard deviation is worth a note


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
        beyond: share of samples whose chi² is beyond its 95 % quantile; 0.05 is right. Of exact
            readings that contradict others: the share that is off.
        off: largest error of exact readings; NaN where none is exact.
        contradicted: samples at which exact readings contradict others.
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

    @property
    def disagrees(self) -> bool:
        return self.beyond > _DISAGREE or self.contradicted > 0


@dataclass(frozen=True)
class WorstResidual:
    """An implausible reading: chi² of a sensor at a sample, with its expectation."""

    sensor: str
    t: float
    chi_square: float
    freedom: int
    p_value: float


class LogTotals:
    """Sums over the chunks of a log; `add` them in their order.

    `worst_residuals` are the least plausible readings, the worst first.
    """

    def __init__(self, estimate: LogEstimate) -> None:
        problem = estimate.problem
        self.estimate = estimate
        self.worst_residuals: tuple[WorstResidual, ...] = ()
        # readings, absent, squares, chi², its freedom, beyond, exact ones that are off, how far
        self._sums = {s.name: np.array([0.0] * 7 + [np.nan]) for s in problem.sensors}
        links = [problem.tree.names[i] for i in problem.tree.with_unknowns]
        priors = {link: problem.assumptions.wrench_of(link) for link in links}
        self._priors = {link: p for link, p in priors.items() if p.covariance.any()}
        self.samples = 0
        # by link, of every sample: standard deviations of a force along its best and worst axis
        self._forces = {name: [np.zeros((0, 2))] for name in self._priors}
        self._marginal = MarginalContacts(estimate.recording, self._priors, estimate.detection)

    @property
    def links(self) -> tuple[str, ...]:
        """Links whose external wrench is not assumed to be known."""
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
            sums[3:6] += square, float(freedom[known].sum()), float((p[known] < _LEVEL).sum())
            if name in judged.off:
                sums[6] += float(judged.contradicted(name).sum())
                sums[7] = np.fmax(sums[7], np.fmax.reduce(judged.off[name]))
        if judged is not None:
            outliers = [
                WorstResidual(
                    d.sensor, float(chunk.t[d.sample]), d.chi_square, d.freedom, d.p_value
                )
                for d in judged.worst(20 * _WORST_RESIDUALS)
            ]
            self.worst_residuals = _separated([*self.worst_residuals, *outliers])
        for link, prior in self._priors.items():
            C = result.covariance(f"fx.{link}")
            values = np.linalg.eigvalsh(C[:, :3, :3])[:, [0, 2]]
            self._forces[link].append(np.sqrt(np.maximum(values, 0.0)))
            if self.estimate.found is None:
                self._marginal.add(chunk.first, link, result[f"fx.{link}"] - prior.mean, C)

    def scores(self) -> tuple[SensorScore, ...]:
        """All sensors, in their order."""
        return tuple(self._score(sensor) for sensor in self.estimate.problem.sensors)

    def _score(self, sensor: Sensor) -> SensorScore:
        samples, absent, residual, square, freedom, beyond, wrong, off = self._sums[sensor.name]
        stated = [unit for unit in sensor.channel_units(self.estimate.problem.robot) if unit]
        units = dict.fromkeys(stated or [unit for _, unit in sensor.rows])
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
                beyond=float(np.float64(beyond) / judged if not wrong else wrong / samples),
                off=float(off),
                contradicted=int(wrong),
            )

    def inconsistent_exact_readings(self) -> str:
        """Which exact readings contradict each other, with a remedy; or nothing."""
        off = {
            s.name: f"{s.off:.3g} {s.unit}" if "," not in s.unit else f"{s.off:.3g} ({s.unit})"
            for s in self.scores()
            if s.contradicted
        }
        return inconsistent_exact_words(off) if off else ""

    def _of_links(self) -> dict[str, Array]:
        """By link, (T, 2) of all samples so far; see `_forces`."""
        return {link: np.concatenate(parts) for link, parts in self._forces.items()}

    def contact_share(self) -> dict[str, float]:
        """By link, the share of samples at which it is in contact."""
        t = self.estimate.t[: self.samples]
        inside = {link: np.zeros(t.size, dtype=bool) for link in self.links}
        for contact in self.contacts():
            inside[contact.link] |= (t >= contact.start) & (t <= contact.end)
        return {link: float(x.mean()) if t.size else 0.0 for link, x in inside.items()}

    def force_std(self) -> dict[str, tuple[float, float]]:
        """By link, the standard deviations of a force along its best and worst observable axes.

        [N], the median over all samples.
        """
        rows = {link: r for link, r in self._of_links().items() if len(r)}
        return {
            link: (float(np.median(r[:, 0])), float(np.median(r[:, 1]))) for link, r in rows.items()
        }

    def unobservable_links(self) -> tuple[str, ...]:
        """Links whose external force stays as uncertain as its prior."""
        result = []
        for link, (best, _) in self.force_std().items():
            prior = np.linalg.eigvalsh(self._priors[link].covariance[:3, :3])
            open_ = prior[prior > 0.0]
            if open_.size and best > _UNOBSERVABLE * np.sqrt(open_[0]):
                result.append(link)
        return tuple(result)

    def contacts(self) -> tuple[ContactInterval, ...]:
        """When which link was in contact, in order."""
        last = self.estimate.t[self.samples - 1] if self.samples else -np.inf
        return tuple(contact for contact in self.found.contacts if contact.start <= last)

    @property
    def found(self) -> LogContacts:
        """Contacts, and what can be detected."""
        return self._marginal.found() if self.estimate.found is None else self.estimate.found

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON (NaN as null)."""
        return {
            "sensors": plain(self.scores()),
            "inconsistent_exact_readings": self.inconsistent_exact_readings(),
            "worst_residuals": plain(self.worst_residuals),
            "contact_share": self.contact_share(),
            "unobservable_links": list(self.unobservable_links()),
            "force_std": {link: list(pair) for link, pair in self.force_std().items()},
            "contacts": [contact._asdict() for contact in self.contacts()],
            "load": None if self.found.load is None else self.found.load.to_dict(),
            "detectable": plain(
                [
                    {"link": link, "within": within, "best": best, "worst": worst}
                    for link, forces in self.found.detectable.items()
                    for within, (best, worst) in forces.items()
                ]
            ),
        }


def _separated(readings: list[WorstResidual]) -> tuple[WorstResidual, ...]:
    """The worst, without those of the same sensor at nearly the same time."""
    kept: list[WorstResidual] = []
    for reading in sorted(readings, key=lambda r: (r.p_value, r.freedom - r.chi_square)):
        if all(r.sensor != reading.sensor or abs(r.t - reading.t) > _SEPARATION for r in kept):
            kept.append(reading)
        if len(kept) == _WORST_RESIDUALS:
            break
    return tuple(kept)


@dataclass(frozen=True)
class JointScore:
    """How well the position of a joint is known over a log: range, median and largest std of it.

    `measured` is whether it was recorded.
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
        self.estimate = estimate
        self._troubles: list[tuple[float, str]] = []
        self._q: list[Array] = []
        self._std: list[Array] = []
        self._last: LogChunk | None = None

    def add(self, chunk: LogChunk) -> None:
        """Count the samples of a chunk, which must hold variances."""
        names = self.estimate.problem.robot.joint_names
        self._troubles += chunk.troubles
        self._q.append(chunk.q)
        std = [chunk.posterior.sigma(f"q.{name}") for name in names]
        self._std.append(np.concatenate(std, axis=1))
        self._last = chunk

    def joints(self) -> tuple[JointScore, ...]:
        """All joints, in their order."""
        robot = self.estimate.problem.robot
        q, std = np.concatenate(self._q), np.concatenate(self._std)
        return tuple(
            JointScore(
                joint=name,
                measured=name not in self.estimate.unmeasured,
                unit=position_unit(kind),
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
        last = self._last.posterior
        labels = components(self.estimate.variables, self.estimate.problem)
        scores = []
        for name, where in self.estimate.variables.slices.items():
            if name.startswith(f"{BIAS}."):
                values = zip(labels[where], last[name][-1], last.sigma(name)[-1], strict=True)
                scores += [
                    BiasScore(label.removeprefix(f"{BIAS}."), unit, float(mean), float(std))
                    for (label, unit), mean, std in values
                ]
        return tuple(scores)

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [
            f"q.{s.joint} is hardly observable: its median standard deviation is {s.std:.2g} "
            f"{s.unit}. Give a prior of its initial position (state, priors in the sensors file), "
            "or add an orientation or an accelerometer on a link that it moves"
            for s in self.joints()
            if s.std > _UNCERTAIN_POSITION
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
            "joints": plain(self.joints()),
            "biases": plain(self.biases()),
        }
