"""The load from parts of the recordings: was it the same all the time, and in all of them?

Recordings with the load are cut into three parts that follow each other in time, and each of them
is solved alone, with all that was recorded without the load. If the load falls off half-way, or was
not held in a recording, the masses differ by more than their noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.payload.loaded_regression import LoadedRegression
from bodysense.identification.preprocessing import FOLDS
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Factor
from bodysense.identification.solution import PriorTerm, WeightedSolution
from bodysense.identification.uncertainty import base_uncertainty
from bodysense.spatial.arrays import Array

_THIRDS = ("first third", "second third", "last third")
"""Of the time of all recordings with the load, one after the other."""

_SIGNIFICANT = 4.0  # standard deviations that noise does not explain
_MASS_CHANGE = 0.03  # relative difference of masses that matters
_COM_CHANGE = 0.02  # distance of centres of mass that matters [m]
_NOISE_RATIO = 5.0  # of a part over the median of the others: it does not fit the model

_UNLOADED = -1
_LOST = (
    "Did the load slip or fall off, or was there contact with the arm? Inspect the recording, and "
    "cut that part off."
)


@dataclass(frozen=True)
class LoadPart:
    """The load from one part of the recordings with it.

    Attributes:
        name: of the part: a third of the time, or a recording.
        mass: [kg]; NaN where the part is too short.
        sigma: standard deviation from noise [kg]; NaN likewise.
        com: centre of mass in the frame that holds the load [m]; NaN where no mass is visible.
        sigma_com: standard deviations from noise [m]; NaN likewise.
    """

    name: str
    mass: float
    sigma: float
    com: tuple[float, ...] = (np.nan,) * 3
    sigma_com: tuple[float, ...] = (np.nan,) * 3

    @classmethod
    def of(cls, name: str, pi: Array, covariance: Array) -> LoadPart:
        """From parameters pi (10,) and their covariance (10, 10)."""
        mass, sigma = float(pi[0]), float(np.sqrt(covariance[0, 0]))
        if mass <= _SIGNIFICANT * sigma:
            return cls(name, mass, sigma)
        com = pi[1:4] / mass
        J = np.hstack([-com[:, None], np.eye(3)]) / mass
        sigma_com = np.sqrt(np.diag(J @ covariance[:4, :4] @ J.T))
        return cls(name, mass, sigma, tuple(com.tolist()), tuple(sigma_com.tolist()))

    @property
    def known(self) -> bool:
        """Whether the part is long enough for an estimate."""
        return bool(np.isfinite(self.mass) and np.isfinite(self.sigma))

    def __str__(self) -> str:
        if not self.known:
            return f"{self.name}: -"
        return f"{self.name}: {self.mass:.3f} ± {self.sigma:.3f} kg"

    @property
    def centre(self) -> str:
        """The centre of mass in words; empty where no mass is visible."""
        if not np.isfinite(self.com).all():
            return ""
        pairs = zip(self.com, self.sigma_com, strict=True)
        return f"({', '.join(f'{1e3 * x + 0.0:.1f} ± {1e3 * s:.1f}' for x, s in pairs)}) mm"


@dataclass(frozen=True, eq=False)
class PartRows:
    """Weighted rows, sorted into those without the load and thirds of those with it.

    Attributes:
        problem: they are of.
        weighing: their weights.
        third: of each block the third of each sample; -1 without the load.
        factors: of all rows, by log, third (and fold, which does not matter here) and joint.
    """

    problem: LoadedRegression
    weighing: WeightedSolution
    third: tuple[NDArray[np.int64], ...]
    factors: dict[tuple[int, int, int], Factor]

    @classmethod
    def of(cls, problem: LoadedRegression, weighing: WeightedSolution) -> PartRows:
        """Sort and factor all rows, once."""
        start, total = _starts(problem)
        third = []
        for block in problem.blocks():
            if block.log in problem.loaded:
                elapsed = start[block.piece] + block.t - problem.motions[block.piece].t[0]
                share = len(_THIRDS) * elapsed / max(total, np.finfo(float).tiny)
                third.append(np.minimum(share.astype(np.int64), len(_THIRDS) - 1))
            else:
                third.append(np.full(block.t.size, _UNLOADED))
        rows = cls(problem, weighing, tuple(third), {})
        for k in (_UNLOADED, *range(len(_THIRDS))):
            chosen = problem.weighted_factors(rows.weights([at == k for at in third]))
            for (log, fold, joint), factor in chosen.items():
                rows.factors[log, _place(k, fold), joint] = factor
        return rows

    def weights(self, chosen: Sequence[NDArray[np.bool_]]) -> tuple[Array, ...]:
        """(m, n) of each block, zero for samples that are not chosen (m,)."""
        given = self.weighing.weights
        return tuple(
            (block.use if given is None else given[k]) * chosen[k][:, None]
            for k, block in enumerate(self.problem.blocks())
        )

    def part(
        self, name: str, prior: Prior, *, third: int | None = None, log: int | None = None
    ) -> LoadPart:
        """The mass from one third, or from one log, beside all rows without the load."""
        problem, sigma = self.problem, self.weighing.sigma
        mine = self._factors_of(third, log)
        rows = sum(factor.rows for key, factor in mine.items() if key[0] in problem.loaded)
        if rows <= 2 * problem.size:
            return LoadPart(name, np.nan, np.nan)
        stack = problem.stack(sigma, factors=mine)
        x = prior.least_squares(stack, prior.base_factor)
        weights = self.weights(self._samples_of(third, log))
        fit = replace(self.weighing, weights=weights, stack=stack, bread=None)
        result = base_uncertainty(problem, prior, x, fit, PriorTerm(1.0))
        return LoadPart.of(name, x[problem.load], result.covariance[problem.load, problem.load])

    def _factors_of(self, third: int | None, log: int | None) -> dict[tuple[int, int, int], Factor]:
        """Factors of rows without the load, and of those of a third or a log."""

        def chosen(key: tuple[int, int, int]) -> bool:
            if key[0] not in self.problem.loaded:
                return True
            return third in (None, _third(key[1])) and log in (None, key[0])

        return {key: factor for key, factor in self.factors.items() if chosen(key)}

    def _samples_of(self, third: int | None, log: int | None) -> list[NDArray[np.bool_]]:
        """Whether each sample of each block is without the load, or of a third or a log."""
        return [
            (at == _UNLOADED) | ((third is None or at == third) & (log in (None, block.log)))
            for at, block in zip(self.third, self.problem.blocks(), strict=True)
        ]

    def parts(self, prior: Prior, recordings: Sequence[str]) -> tuple[LoadPart, ...]:
        """Each third, and each recording with the load where there are several, by their names."""
        thirds = [self.part(name, prior, third=k) for k, name in enumerate(_THIRDS)]
        logs = sorted(self.problem.loaded)
        if len(logs) < 2:
            return tuple(thirds)
        names = _numbered(recordings)
        return (
            *thirds,
            *(self.part(name, prior, log=log) for name, log in zip(names, logs, strict=True)),
        )

    def noise(self, x: Array) -> Array:
        """(3, n) r.m.s. residual of each third and joint, outliers included; NaN without rows."""
        squares, rows = np.zeros((2, len(_THIRDS), self.problem.n_joints))
        for block, third in zip(self.problem.blocks(), self.third, strict=True):
            residual = block.use * (block.y - block.Y @ x)
            for k in range(len(_THIRDS)):
                squares[k] += np.square(residual[third == k]).sum(axis=0)
                rows[k] += block.use[third == k].sum(axis=0)
        loaded = sorted(self.problem.loaded)
        # What the fit takes for noise is the least: without any, rounding would be compared.
        least = self.weighing.sigma[loaded].min(axis=0)
        level: Array = np.maximum(np.sqrt(squares / np.maximum(rows, 1.0)), least)
        return np.where(rows > 0.0, level, np.nan)

    def inconsistency(self, x: Array, parts: Sequence[LoadPart]) -> str:
        """A note if the load x was not the same all the time and in all recordings; or empty.

        If the load is lost late in a third, no mass fits that third: residuals grow.
        """
        note = _disagreement(parts, float(x[self.problem.load][0]))
        if note or len(self.problem.loaded) > 1:  # recordings are compared by their noise anyway
            return note
        for third, joint, ratio in _noisier(self.noise(x), _THIRDS, self.problem.robot.joint_names):
            return (
                f"In the {third} of the time with the load, the torque of {joint} fits "
                f"{ratio:.0f} times worse than in the others. {_LOST}"
            )
        return ""


def _numbered(names: Sequence[str]) -> list[str]:
    """The names, numbered where several are the same."""
    return [name if names.count(name) == 1 else f"{name} ({k + 1})" for k, name in enumerate(names)]


def _disagreement(parts: Sequence[LoadPart], mass: float) -> str:
    """A note if parts disagree by more than noise explains; or empty.

    Recordings are compared first: where they differ, so do the thirds.
    """
    recordings = [part for part in parts if part.name not in _THIRDS]
    apart = _furthest(recordings, mass)
    if apart is not None:
        return (
            f"Recordings with the load disagree about its mass by more than noise explains, {apart}"
            ". Was the same load held in all of them, all the time, and by this link? Leave out "
            "those without it, or give them as unloaded ones."
        )
    apart = _centres_apart(recordings)
    if apart is not None:
        return (
            f"Recordings with the load disagree about its centre of mass, {apart}. Was it mounted "
            "in the same way in all of them? Identify each mounting on its own."
        )
    apart = _furthest([part for part in parts if part.name in _THIRDS], mass)
    if apart is not None:
        return (
            "The mass changes in the course of the recordings with the load by more than noise "
            f"explains, {apart}. {_LOST}"
        )
    return ""


def noisy_recordings(
    sigma: Array, rows: NDArray[np.float64], recordings: Sequence[str], joints: Sequence[str]
) -> tuple[str, ...]:
    """A note on each recording in which a joint's torques fit far worse than in the others.

    By the noise sigma (n_logs, n) and the rows (n_logs, n) behind it.
    """
    level = np.where(rows > 0.0, sigma, np.nan)
    return tuple(
        f"In {name} the torque of {joint} fits {ratio:.0f} times worse than in the other "
        "recordings, so that it hardly counts. Was the load the same, held in the same way, and "
        "only where you say? Was there any contact with the arm?"
        for name, joint, ratio in _noisier(level, _numbered(recordings), joints)
    )


def _noisier(
    level: Array, names: Sequence[str], joints: Sequence[str]
) -> list[tuple[str, str, float]]:
    """Where noise (k, n) is grossly larger than the median of the others: name, joint, ratio."""
    result = []
    for k, name in enumerate(names):
        others = np.delete(level, k, axis=0)
        seen = np.isfinite(level[k]) & np.isfinite(others).any(axis=0)
        if not seen.any():
            continue
        ratio = np.zeros(len(joints))
        ratio[seen] = level[k, seen] / np.nanmedian(others[:, seen], axis=0)
        worst = int(np.argmax(ratio))
        if ratio[worst] > _NOISE_RATIO:
            result.append((name, joints[worst], float(ratio[worst])))
    return result


def _furthest(parts: Sequence[LoadPart], mass: float) -> str | None:
    """The two masses that differ most significantly, if any do."""

    def apart(one: LoadPart, other: LoadPart) -> float:
        gap = abs(one.mass - other.mass)
        sigma = max(np.hypot(one.sigma, other.sigma), np.finfo(float).tiny)
        return gap / sigma if gap > _MASS_CHANGE * abs(mass) else 0.0

    pair = _most_apart([part for part in parts if part.known], apart)
    return pair and f"{pair[0]}, {pair[1]}"


def _centres_apart(parts: Sequence[LoadPart]) -> str | None:
    """The two centres of mass that differ most significantly, if any do."""

    def apart(one: LoadPart, other: LoadPart) -> float:
        gap = np.abs(np.subtract(one.com, other.com))
        sigma = np.maximum(np.hypot(one.sigma_com, other.sigma_com), np.finfo(float).tiny)
        return float(np.max(gap / sigma * (gap > _COM_CHANGE)))

    pair = _most_apart([part for part in parts if part.centre], apart)
    return pair and ", ".join(f"{part.name}: {part.centre}" for part in pair)


def _most_apart(
    parts: Sequence[LoadPart], apart: Callable[[LoadPart, LoadPart], float]
) -> tuple[LoadPart, LoadPart] | None:
    """The pair that differs by the most standard deviations, if significantly."""
    pair = max(combinations(parts, 2), key=lambda pair: apart(*pair), default=None)
    return pair if pair is not None and apart(*pair) > _SIGNIFICANT else None


def _starts(problem: LoadedRegression) -> tuple[dict[int, float], float]:
    """Time of recording with the load [s] before each piece of it, and all of it."""
    start, total = {}, 0.0
    for piece, motion in enumerate(problem.motions):
        if motion.log in problem.loaded:
            start[piece] = total
            total += float(motion.t[-1] - motion.t[0])
    return start, total


def _place(third: int, fold: int) -> int:
    return FOLDS * (third + 1) + fold


def _third(place: int) -> int:
    return place // FOLDS - 1
