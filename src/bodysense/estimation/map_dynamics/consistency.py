"""`consistency`: does each sensor agree with all others, as well as its covariance claims?

What is left of a sensor's readings after the estimate, r = y - ŷ, has a covariance that is smaller
than that of its noise, because the estimate follows the reading as far as nothing contradicts it:

    r ~ N(0, Sigma - H C Hᵀ),     chi² = rᵀ (Sigma - H C Hᵀ)⁺ r,     degrees of freedom: its rank

A sensor that nothing can contradict has none, and cannot be judged. Readings that are said to be
exact have no noise to be held against: what is left of them is zero, or they contradict others that
are exact, or an assumption that is. Biases of sensors are taken out as far as they are known (see
`Biases`); what is not known of them makes Cov[r] smaller still.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from bodysense.errors import ShapeError, unknown_name
from bodysense.estimation.map_dynamics.dense_roots import root_of
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.noise import (
    Biases,
    Noise,
    bias_note,
    chunks,
    noises,
    presence,
)
from bodysense.estimation.map_dynamics.solution import Samples
from bodysense.files import load_result, save_result
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

_CONTRADICTED = 1e-3
"""Least share of a sensor's variance that other sensors must be able to contradict."""
_ROUNDING = 1e-6
"""In the units of a sensor: readings that are exact are further off only if they are not true.

Readings that are exact but for less than that are called so too."""
_NAMED = 5  # sensors in a sentence
_LOUD = 0.05  # share of samples beyond 99 % from which residuals are larger than stated
_QUIET = 0.3  # ratio of residuals below which they are far smaller than stated


class Outlier(NamedTuple):
    """An implausible reading: chi², its expectation, and how often it is as large by chance."""

    sensor: str
    sample: int
    chi_square: float
    freedom: int
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class SensorConsistency:
    """Residuals of all sensors at T samples. Build it with `consistency`.

    Attributes:
        normalised: by sensor, (T, m) residuals divided by their standard deviations; NaN where
            there is no reading, or nothing that could contradict it.
        chi_square: by sensor, (T,); NaN where there is no reading.
        freedom: by sensor, (T,) degrees of freedom.
        note: what is amiss with the biases that were taken out, in words; empty if nothing is.
        off: by sensor with readings that are said to be exact, (T,) how far these are off, in its
            units; NaN where there is no reading.
    """

    normalised: Mapping[str, Array]
    chi_square: Mapping[str, Array]
    freedom: Mapping[str, Array]
    note: str = ""
    off: Mapping[str, Array] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Consistency: {self.summary()}>"

    def p_value(self, sensor: str) -> Array:
        """(T,) how often a chi² as large comes by chance; NaN where nothing can be said."""
        if sensor not in self.chi_square:
            raise unknown_name("sensor", sensor, self.chi_square)
        square, freedom = self.chi_square[sensor], self.freedom[sensor]
        p = np.full(square.shape, np.nan)
        known = (freedom > 0) & ~np.isnan(square)
        p[known] = chdtrc(freedom[known], square[known])
        return p

    def beyond(self, level: float = 0.95) -> dict[str, float]:
        """By sensor, the share of samples whose chi² is beyond this level.

        It is 1 - level of a sensor whose covariance is right; NaN where it cannot be judged.
        """
        if not 0.0 < level < 1.0:
            raise ShapeError(f"level is {level:g}: give a share between 0 and 1, e.g. 0.95.")
        shares = {}
        for sensor in self.chi_square:
            p = self.p_value(sensor)
            judged = p[~np.isnan(p)]
            shares[sensor] = float((judged < 1.0 - level).mean()) if judged.size else float("nan")
        return shares

    @property
    def ratio(self) -> dict[str, float]:
        """By sensor, root mean square of its residuals over what it should be; 1 is right."""
        ratios = {}
        for sensor, square in self.chi_square.items():
            known = ~np.isnan(square)
            freedom = float(self.freedom[sensor][known].sum())
            total = float(square[known].sum())
            ratios[sensor] = float(np.sqrt(total / freedom)) if freedom > 0.0 else float("nan")
        return ratios

    def contradicted(self, sensor: str) -> NDArray[np.bool_]:
        """(T,) samples at which readings that are said to be exact cannot be true."""
        if sensor not in self.chi_square:
            raise unknown_name("sensor", sensor, self.chi_square)
        if sensor not in self.off:
            return np.zeros(self.chi_square[sensor].shape, dtype=bool)
        return np.asarray(self.off[sensor] > _ROUNDING)

    def worst(self, count: int = 5) -> tuple[Outlier, ...]:
        """The least plausible readings, the worst first."""
        outliers = []
        for sensor, square in self.chi_square.items():
            freedom, p = self.freedom[sensor], self.p_value(sensor)
            # beyond what p can express, the square itself tells which is worse
            excess = np.where(np.isnan(p), -np.inf, square - freedom)
            for t in np.lexsort((-excess, p))[:count]:
                if not np.isnan(p[t]):
                    at = int(t)
                    outliers.append(
                        Outlier(sensor, at, float(square[at]), int(freedom[at]), float(p[at]))
                    )
        outliers.sort(key=lambda o: (o.p_value, o.freedom - o.chi_square))
        return tuple(outliers[:count])

    def summary(self) -> str:
        """Which sensors disagree, in a line."""
        ratios = self.ratio
        inexact = {s: f"{np.nanmax(self.off[s]):.3g}" for s in ratios if self.contradicted(s).any()}
        quiet = [s for s, r in ratios.items() if r < _QUIET]
        unjudged = [s for s, r in ratios.items() if np.isnan(r) and s not in inexact]
        parts = [
            inconsistent_exact_words(inexact) if inexact else "",
            self._large_residuals(ratios),
            _named("residuals far smaller than stated: ", quiet),
            _named("nothing can contradict ", unjudged),
        ]
        listed = [part for part in parts if part] or [
            "all agree as well as their covariances claim"
        ]
        text = "; ".join([f"{len(ratios)} sensors", *listed]) + "."
        return f"{text} {self.note}" if self.note else text

    def _large_residuals(self, ratios: Mapping[str, float]) -> str:
        shares = self.beyond(0.99)
        loud = sorted((r, s) for s, r in ratios.items() if shares[s] > _LOUD)[::-1]
        if not loud:
            return ""
        named = ", ".join(f"{s} ({r:.3g} times)" for r, s in loud[:_NAMED])
        return (
            f"residuals larger than stated: {named}; raise their covariances, or look for a "
            "wrong mount, sign or unit"
        )

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``consistency.npz`` and ``consistency.json`` into a folder."""
        save_result(self, folder, "consistency")

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> SensorConsistency:
        """Read what `save` wrote."""
        return load_result(cls, folder, "consistency")


def _named(words: str, sensors: list[str]) -> str:
    return words + ", ".join(sensors[:_NAMED]) if sensors else ""


def inconsistent_exact_words(off: Mapping[str, str]) -> str:
    """What to say of exact readings that contradict each other, by sensor how far they are off."""
    names = [f"{sensor} (off by up to {size})" for sensor, size in off.items()]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        "exact readings (std 0) contradict each other, or something assumed to be exact: "
        f"{', '.join(names[:_NAMED])}{more}; give them a std above zero, leave out those "
        "that are wrong, or allow for a contact"
    )


def consistency(
    problem: MapDynamics, samples: Samples, *, biases: Biases | None = None
) -> SensorConsistency:
    """Hold every sensor against all others at `problem.samples`.

    `biases` are those of a longer log, if these samples are a part of it; by default what these
    samples tell of them.
    """
    if samples.size == 0:
        raise ShapeError("there are no samples to hold the sensors against: give at least one.")
    biases = Biases.of(problem, samples) if biases is None else biases
    added: list[dict[str, Array]] = []
    far = np.zeros((samples.size, 0))
    if biases is not None:
        at, _, spreads = zip(*biases.spreads(problem, samples), strict=True)
        added, far = list(spreads), _far(problem, samples, np.array(at))
        samples = biases.taken_out(samples)
    parts: dict[str, list[_Judged]] = {s.name: [] for s in problem.sensors}
    for which in chunks(problem, samples.size):
        part = samples.part(which)
        noise_of = noises(problem, part, problem.solve(part, "blocks"))
        for sensor in problem.sensors:
            Sigma, noise = sensor.covariance, noise_of[sensor.name]
            if added:
                more = _near(far[which], added, f"sensor.{sensor.name}", root_of(Sigma))
                noise = Noise(noise.mean, noise.covariance + more)
            parts[sensor.name].append(_judged(Sigma, noise))
    return _collected(parts, bias_note(problem, biases))


def stated_consistency(
    sensors: Sequence[Sensor], residual: Mapping[str, Array]
) -> SensorConsistency:
    """Hold residuals (T, m) by sensor against the noise that sensors are said to have.

    For estimates of which the state follows the readings too: residuals of sensors that are as
    good as they are said to be are no larger than that, and mostly smaller.
    """
    parts = {}
    for sensor in sensors:
        r = residual[sensor.name]
        parts[sensor.name] = [_judged(sensor.covariance, Noise(r, np.zeros((1, *r.shape[1:] * 2))))]
    return _collected(parts, "")


def _collected(parts: Mapping[str, Sequence[_Judged]], note: str) -> SensorConsistency:
    normalised, square, freedom, off = (
        {name: np.concatenate([part[k] for part in judged]) for name, judged in parts.items()}
        for k in range(4)
    )
    exact = {name: values for name, values in off.items() if values.size}
    return SensorConsistency(normalised, square, freedom, note, exact)


def _far(problem: MapDynamics, samples: Samples, at: NDArray[np.int64]) -> Array:
    """(T, looks) how unlike samples and looks are: by the sensors that one has alone, then time."""
    present = presence(problem, samples).astype(np.float64)
    alone = present @ (1.0 - present[at]).T + (1.0 - present) @ present[at].T
    far: Array = samples.size * alone + np.abs(np.arange(samples.size)[:, None] - at)
    return far


def _near(far: Array, added: list[dict[str, Array]], name: str, root: Array) -> Array:
    """(T, m, m) what biases add to the covariance of a noise: that of the next look that has it."""
    seen = [k for k, parts in enumerate(added) if name in parts]
    if not seen:  # a sensor that is never there
        return np.zeros((len(far), *root.shape))
    spread = np.stack([root @ added[k][name] @ root.T for k in seen])
    near: Array = spread[far[:, seen].argmin(axis=1)]
    return near


def _judged(Sigma: Array, noise: Noise) -> _Judged:
    """Normalised residuals, chi², degrees of freedom, and errors where there should be none.

    The last are (T,) the largest along directions without noise; empty if all of them have some.
    """
    left: Array = np.diag(Sigma) - np.einsum("tii->ti", noise.covariance)
    judged = left > _CONTRADICTED * np.diag(Sigma)
    normalised = np.where(judged, noise.mean / np.sqrt(np.where(judged, left, 1.0)), np.nan)
    values, vectors = np.linalg.eigh(Sigma)
    some = values > 1e-14 * values.max(initial=0.0)
    W = (vectors[:, some] / np.sqrt(values[some])).T
    present = np.isfinite(noise.mean.sum(axis=1))
    r = np.where(present[:, None], noise.mean, 0.0) @ W.T
    shares, axes = np.linalg.eigh(np.eye(W.shape[0]) - W @ noise.covariance @ W.T)
    seen = shares > _CONTRADICTED
    squares = np.einsum("tij,ti->tj", axes, r) ** 2 / np.where(seen, shares, 1.0)
    square = np.where(present, (squares * seen).sum(axis=1), np.nan)
    freedom = (seen.sum(axis=1) * present).astype(np.float64)
    off = np.abs(noise.mean @ vectors[:, ~some]).max(axis=1) if not some.all() else np.zeros(0)
    return normalised, square, freedom, off


_Judged = tuple[Array, Array, Array, Array]
