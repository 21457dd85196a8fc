"""Linear models of torques compared on the same held-out samples.

A model is fitted without one fold and predicts that fold, in turn. Two models are compared by the
differences of their squared errors, stretch by stretch of the recording: residuals within a stretch
are correlated, between stretches hardly, so that their scatter says how certain the difference is.

A sample of a joint counts only if it can tell models of its motion apart:

- The joint moves: at standstill, and slower than friction reverses or velocity is noise, friction
  may be anything between -Fc and Fc.
- The other folds determine its torque to within the noise. Where they do not, because only this
  fold has such a pose or such a joint moving, its prediction is a matter of the prior alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.special import stdtrit

from bodysense.identification.preprocessing import FOLDS, Motion, Plan, Preprocessing
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import Factor
from bodysense.identification.regression import Block, Regression
from bodysense.identification.solution import LEAST_FREEDOM, rounding_levels
from bodysense.logs.filtering import STILL_SPEED
from bodysense.spatial.arrays import Array
from bodysense.status import BAND

_SLOW_SHARE = 0.25  # of its filter's window that may be slow where a sample counts
_NOISE_SPEED = 3.0  # standard deviations of the velocity below which it may be noise
_LEAST_JOINTS = 0.5  # share of the joints that move, of which samples must count
_LARGEST_LEVERAGE = 1.0  # variance of a prediction, in units of the noise's, where a sample counts
_LEVEL_TOLERANCE = 0.02  # relative change of the noise levels at which the weights have converged
_ROUNDS = 8  # of new weights, at most
_CONFIDENCE = 0.975  # of a quantile that bounds an interval of 95 % on one side
_FEWEST_STRETCHES = 4  # from which their scatter says something


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model: columns of a regression, and the combinations of its unknowns that are allowed.

    Attributes:
        rows: the regression; its samples are those that all candidates share.
        basis: (size, c) of the unknowns that are allowed.
        held: (k, size) D, and …
        held_at: (k,) d of the prior ‖D x - d‖², which holds what the data do not determine.
    """

    rows: Regression
    basis: Array
    held: Array
    held_at: Array

    @classmethod
    def of(cls, rows: Regression, basis: Array | None = None) -> Candidate:
        """With the prior of the rows' robot: each parameter within its plausible size."""
        prior = Prior.of(rows)
        held = solve_triangular(prior.base_factor, np.eye(rows.size), lower=True)
        chosen = np.eye(rows.size) if basis is None else basis
        return cls(rows, chosen, held, held @ prior.theta_base)

    def reduced(self, factors: Sequence[Factor], levels: Sequence[float]) -> tuple[Array, Array]:
        """A (…, c) and z of the free unknowns: weighted factors, and the prior."""
        height = sum(f.R.shape[0] for f in factors)
        tall = np.zeros((height, self.rows.size + 1))
        at = 0
        for f, level in zip(factors, levels, strict=True):
            part = tall[at : at + f.R.shape[0]]
            part[:, f.columns], part[:, -1] = f.R[:, :-1] / level, f.R[:, -1] / level
            at += f.R.shape[0]
        A = np.concatenate([tall[:, :-1] @ self.basis, self.held @ self.basis])
        return A, np.concatenate([tall[:, -1], self.held_at])


@dataclass(frozen=True, eq=False)
class HeldOutErrors:
    """Squared errors of a model on samples that it was not fitted to.

    Attributes:
        squares: (s, n) sums over each stretch and joint, in units of the noise's variance.
        rows: (s, n) numbers of samples.
    """

    squares: Array
    rows: Array

    @property
    def mean(self) -> float:
        """Mean squared error in units of the noise's variance."""
        return float(self.squares.sum()) / max(float(self.rows.sum()), 1.0)

    def gain_over(self, other: HeldOutErrors) -> tuple[float, float]:
        """By which share these errors are smaller than another model's, and its standard error.

        The gain is the mean over stretches of (other - this) / max(other, this): a stretch that
        one of the models fails on counts no more than others. The scatter of the stretches, whose
        number may be small, is widened so that 1.96 standard errors make an interval of 95 %.
        """
        rows = self.rows.sum(axis=1)
        used = rows > 0.0
        rows, count = rows[used], int(used.sum())
        if count < 2:
            return 0.0, np.inf
        this, that = (x.squares.sum(axis=1)[used] for x in (self, other))
        gains = (that - this) / np.maximum(np.maximum(that, this), np.finfo(float).tiny)
        mean = float(rows @ gains / rows.sum())
        scatter = float(np.square(rows * (gains - mean)).sum()) * count / (count - 1.0)
        widened = float(stdtrit(count - 1.0, _CONFIDENCE)) / BAND
        return mean, widened * float(np.sqrt(scatter)) / float(rows.sum())


@dataclass(frozen=True, eq=False)
class Comparison:
    """Which samples count for all candidates, and the noise that errors are measured by.

    Attributes:
        moving: (rows, n) of each motion: 1 where a joint moves, in training as in scoring.
        judged: (rows, n) of each motion: 1 where it does and other folds determine its torque.
        stretches: (rows,) of each motion: number of the stretch that is held out as one.
        sigma: (n,) standard deviation of each joint's residuals.
    """

    moving: tuple[Array, ...]
    judged: tuple[Array, ...]
    stretches: tuple[NDArray[np.int64], ...]
    sigma: Array
    _factors: dict[int, tuple[Regression, dict[tuple[int, int, int], Factor]]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of(cls, richest: Candidate) -> Comparison:
        """The samples that the richest candidate can be judged by."""
        rows = richest.rows
        moving = tuple(_moving_rows(rows, motion) for motion in rows.motions)
        start = cls(moving, moving, _stretches(rows), np.ones(rows.n_joints))
        start = start._sharing(start.moving, start._levels(richest))
        return start._sharing(start._determined(richest), start.sigma)

    def _sharing(self, judged: tuple[Array, ...], sigma: Array) -> Comparison:
        made = Comparison(self.moving, judged, self.stretches, sigma)
        made._factors.update(self._factors)
        return made

    @cached_property
    def rows(self) -> Array:
        """(n,) number of samples of each joint that are judged."""
        return np.asarray(sum((use.sum(axis=0) for use in self.judged), np.zeros(1)))

    @property
    def void(self) -> str:
        """Why nothing can be told from the comparison; empty if something can."""
        moving = np.asarray(sum((use.sum(axis=0) for use in self.moving), np.zeros(1)))
        if not moving.any():
            return "no joint moves faster than friction reverses"
        number = len(
            {
                int(k)
                for s, use in zip(self.stretches, self.judged, strict=True)
                for k in np.unique(s[use.any(axis=1)])
            }
        )
        if number < _FEWEST_STRETCHES:
            return (
                "parts of the recordings do not determine the torque of others"
                if self.rows.sum() < 0.5 * moving.sum()
                else "the recordings are too short"
            )
        if np.mean(self.rows[moving > 0.0] > 0.5 * moving[moving > 0.0]) < _LEAST_JOINTS:
            return "most joints move too briefly for it"
        return ""

    def errors(self, *candidates: Candidate) -> tuple[HeldOutErrors, ...]:
        """Errors of candidates with the same rows."""
        rows = candidates[0].rows
        solutions = {
            fold: np.column_stack([self.solution(candidate, fold) for candidate in candidates])
            for fold in range(FOLDS)
        }
        return self._scored(rows, solutions)

    def errors_by_fold(self, candidates: Sequence[Candidate]) -> HeldOutErrors:
        """Errors of a model that is another candidate for each fold."""
        parts = [
            self._scored(candidate.rows, {fold: self.solution(candidate, fold)[:, None]})[0]
            for fold, candidate in enumerate(candidates)
        ]
        return HeldOutErrors(
            np.sum([part.squares for part in parts], axis=0),
            np.sum([part.rows for part in parts], axis=0),
        )

    def _scored(
        self, problem: Regression, solutions: Mapping[int, Array]
    ) -> tuple[HeldOutErrors, ...]:
        """Errors of solutions (size, k) on the folds that they were fitted without."""
        number = 1 + max((int(s[-1]) for s in self.stretches if s.size), default=-1)
        k, n = next(iter(solutions.values())).shape[1], self.sigma.size
        squares, rows = np.zeros((number, n, k)), np.zeros((number, n))
        for block in problem.blocks():
            use, stretch = _of(self.judged, block), _of(self.stretches, block)
            for fold, x in solutions.items():
                mine = block.fold == fold
                e = (block.y[mine][:, :, None] - block.Y[mine] @ x) / self.sigma[:, None]
                np.add.at(squares, stretch[mine], use[mine][:, :, None] * e**2)
                np.add.at(rows, stretch[mine], use[mine])
        return tuple(HeldOutErrors(squares[:, :, i], rows) for i in range(k))

    def solution(self, candidate: Candidate, fold: int | None = None) -> Array:
        """(size,) unknowns fitted to moving joints, without a fold if one is named."""
        A, z = self._reduced(candidate, fold)
        x: Array = candidate.basis @ np.linalg.lstsq(A, z, rcond=None)[0]
        return x

    def _reduced(self, candidate: Candidate, fold: int | None) -> tuple[Array, Array]:
        chosen = {k: f for k, f in self._factors_of(candidate.rows).items() if k[1] != fold}
        return candidate.reduced(list(chosen.values()), [self.sigma[k[2]] for k in chosen])

    def _factors_of(self, rows: Regression) -> dict[tuple[int, int, int], Factor]:
        if id(rows) not in self._factors:
            self._factors[id(rows)] = (
                rows,
                rows.weighted_factors(lambda block: _of(self.moving, block)),
            )
        return self._factors[id(rows)][1]

    def _levels(self, richest: Candidate) -> Array:
        """(n,) standard deviations of the residuals of moving joints, fitted to all of them."""
        problem = richest.rows
        floor, n = rounding_levels(problem), problem.n_joints
        factors = self._factors_of(problem)
        sums, rows = np.zeros((2, n))
        for (_, _, j), f in factors.items():
            sums[j] += float(np.sum(f.R[:, -1] ** 2))
            rows[j] += f.rows
        counted = np.maximum(rows, 1.0)
        freedom = np.maximum(
            rows - problem.size / max((rows > 0).sum(), 1), LEAST_FREEDOM * counted
        )
        sigma = np.where(rows > 0, np.maximum(np.sqrt(sums / counted), floor), 1.0)
        for _ in range(_ROUNDS):
            x = self._sharing(self.moving, sigma).solution(richest)
            squares = np.zeros(n)
            for (_, _, j), f in factors.items():
                squares[j] += f.squares(x)
            new = np.where(rows > 0, np.maximum(np.sqrt(squares / freedom), floor), 1.0)
            converged = float(np.abs(new / sigma - 1.0).max()) < _LEVEL_TOLERANCE
            sigma = new
            if converged:
                break
        return sigma

    def _determined(self, richest: Candidate) -> tuple[Array, ...]:
        """Rows of moving joints whose torque the other folds determine, of each motion.

        With the posterior N(x, P) of the other folds, the prediction y x of a row has the variance
        y P yᵀ.
        """
        factors = []
        for fold in range(FOLDS):
            A, _ = self._reduced(richest, fold)
            factors.append(qr(A, mode="r")[0][: A.shape[1]])
        made = tuple(np.zeros_like(use) for use in self.moving)
        for block in richest.rows.blocks():
            use, judged = _of(self.moving, block), _of(made, block)
            for fold, R in enumerate(factors):
                at, joint = np.nonzero((block.fold == fold)[:, None] & (use > 0.0))
                Y = block.Y[at, joint] @ richest.basis / self.sigma[joint][:, None]
                half = solve_triangular(R, Y.T, trans="T")
                judged[at, joint] = (half**2).sum(axis=0) < _LARGEST_LEVERAGE
        return made


def _of(pieces: Sequence[NDArray[Any]], block: Block) -> NDArray[Any]:
    """The rows of a block, from those of all pieces."""
    return pieces[block.piece][block.first : block.first + block.t.size]


def _stretches(problem: Regression) -> tuple[NDArray[np.int64], ...]:
    """(rows,) of each motion: number of the stretch of one fold that each row belongs to."""
    made, number = [], 0
    for motion in problem.motions:
        plan = Plan.of(motion, problem.settings)
        at = plan.stride * ((plan.taps.size - 1) // 2 + plan.step * np.arange(plan.n_out))
        begins = np.diff(problem.folds(motion)[at], prepend=-1) != 0
        made.append(number + np.cumsum(begins) - 1)
        number += int(begins.sum())
    return tuple(made)


def _moving_rows(problem: Regression, motion: Motion) -> Array:
    """(rows, n) of a motion: 1 where a joint moves through most of the filter's window."""
    plan = Plan.of(motion, problem.settings)
    slow = np.abs(motion.v[:: plan.stride]) <= _slowest(problem, motion)
    if motion.still is not None:
        slow |= motion.still[:: plan.stride]
    return replace(plan, still_share=_SLOW_SHARE).moving(slow)[: plan.n_out]


def _slowest(problem: Regression, motion: Motion) -> Array:
    """(n,) speed up to which friction and velocity are uncertain [rad/s or m/s]."""
    names, shape = problem.robot.friction.model.shape, problem.robot.friction.shape
    width = shape[:, names.index("width")] if "width" in names else np.zeros(len(shape))
    speed: Array = np.maximum(
        np.where(width > 0.0, width, STILL_SPEED),
        _NOISE_SPEED * _velocity_noise(motion, problem.settings),
    )
    return speed


def _velocity_noise(motion: Motion, settings: Preprocessing) -> Array:
    """(n,) standard deviation of velocities, from white noise of positions.

    What the low-pass at f has taken from the positions has the density S = σ² / (rate / 2 - f); of
    the rest ∫_0^f S (2 π f)² df = S (2 π)² f³ / 3 is the velocities' variance.
    """
    cutoff = min(settings.cutoff or np.inf, 0.45 * motion.rate)
    if motion.q_raw is None:
        return np.zeros(motion.v.shape[1])
    density = np.mean((motion.q_raw - motion.q) ** 2, axis=0) / (0.5 * motion.rate - cutoff)
    noise: Array = np.sqrt(density * (2.0 * np.pi) ** 2 * cutoff**3 / 3.0)
    return noise
