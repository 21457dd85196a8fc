"""Data-driven choice of the low-pass cut-off; information of recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import null_space

from bodysense.doctor import Diagnosis, examine, require_clean
from bodysense.errors import MismatchError
from bodysense.identification.linear.least_squares import Ridge
from bodysense.identification.linear.method import LinearMethod
from bodysense.identification.preprocessing import (
    FOLDS,
    Plan,
    Preprocessing,
    motions,
    require_below_half,
    time_blocks,
)
from bodysense.identification.regression import Regression
from bodysense.logs.bandwidth import Bandwidth, noise_share
from bodysense.logs.filtering import LEAST_RANGE
from bodysense.logs.log import Log
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_RATIO = 1.6  # between neighbouring cut-offs that are tried
_TRIED = 4  # cut-offs at least, from the reference bandwidth down
_LEAST_HARMONICS = 3.0  # of the motion's bandwidth that a cut-off must pass to be tried
_NOISY = 0.03  # share of noise in accelerations from which a cut-off is too high
_ROWS_PER_UNKNOWN = 5.0  # that the fit must have, with a fold left out
_CERTAIN = 2.0  # standard deviations of a difference from which an error counts as larger
_LEAST_BLOCKS = 4  # of held-out samples, without which no difference of errors is trusted
_LONGEST_SHARE = 0.999  # of a joint's squared error that one block may hold
_MOST_SECONDS = 60.0  # of each log that are used [s]


@dataclass(frozen=True)
class CutoffChoice:
    """Which cut-offs were tried and what they led to.

    Attributes:
        cutoff: the chosen one [Hz].
        tried: cut-offs [Hz], ascending.
        errors: relative error of the held-out torque of moving joints at each, mean over joints;
            below the reference bandwidth, and on the same samples for all.
        uncertainties: standard deviation of each error's difference to the smallest one.
        warning: a sentence where the choice is at the edge of what could be tried; else empty.
    """

    cutoff: float
    tried: tuple[float, ...]
    errors: tuple[float, ...]
    uncertainties: tuple[float, ...]
    warning: str = ""


def choose_cutoff(
    robot: Robot, pieces: Sequence[Sequence[Log]], settings: Preprocessing, base: BaseParameters
) -> CutoffChoice:
    """The highest cut-off whose model predicts held-out torques as well as the best one's.

    Too low a cut-off loses motion and rows, too high a one lets noise into the accelerations. All
    are judged by the same rows: those of moving joints below the reference bandwidth, each
    predicted by parameters whose fit has not seen it. An error counts as larger than the smallest
    one if their difference exceeds twice its own standard deviation, over blocks of time. The
    reference bandwidth itself is the highest that is tried, unless it leaves too few rows to fit.
    """
    short = _beginnings(pieces)
    bandwidth = Bandwidth.of(short)
    whole = _duration(pieces) / max(_duration(short), np.finfo(float).tiny)

    def fitted_from(cutoff: float) -> Regression | None:
        """The regression at a cut-off; None if it leaves too few rows."""
        chosen = replace(settings, cutoff=cutoff).settled(robot, cutoff)
        try:
            problem = Regression.of(robot, motions(robot, short, chosen), chosen, base)
        except MismatchError:
            return None
        rows = (1.0 - 1.0 / FOLDS) * whole * problem.n_rows
        return problem if rows >= _ROWS_PER_UNKNOWN * problem.size else None

    cutoff = bandwidth.reference
    reference = fitted_from(cutoff)
    if reference is None:
        while cutoff < bandwidth.limit and fitted_from(cutoff) is None:
            cutoff = min(_RATIO * cutoff, bandwidth.limit)
        return CutoffChoice(cutoff, (cutoff,), (np.nan,), (np.nan,), _few_rows(cutoff))
    trials = _Trials(reference)
    if not trials.moved.any():
        return CutoffChoice(cutoff, (cutoff,), (np.nan,), (np.nan,), _NO_TORQUE)
    problem: Regression | None = reference
    while problem is not None:
        trials.add(cutoff, problem)
        cutoff /= _RATIO
        if not (trials.falling or len(trials.cutoffs) < _TRIED):
            break
        lowest = _LEAST_HARMONICS * bandwidth.motion
        problem = fitted_from(cutoff) if cutoff > lowest else None
    return trials.choice()


_NO_TORQUE = "No joint that moves has a torque by which cut-offs could be compared."


def _few_rows(cutoff: float) -> str:
    return (
        f"Too few rows of joints that move are left to compare cut-offs: {cutoff:.3g} Hz was taken "
        "for the rows that it leaves. Record for longer, or give --cutoff."
    )


class _Trials:
    """Cut-offs and their squared errors on the rows of a reference, in blocks of time.

    Attributes:
        reference: the problem whose rows are predicted.
        moved: (n,) joints with torque while they move.
        cutoffs: tried so far [Hz].
        squares: (blocks, n) squared errors of each.
    """

    def __init__(self, reference: Regression) -> None:
        self.reference = reference
        self.cutoffs: list[float] = []
        self.squares: list[Array] = []
        # Blocks of each piece, counted on from those of the pieces before.
        self._block, first = [], 0
        for motion in reference.motions:
            block = time_blocks(motion, reference.settings)
            self._block.append(first + block)
            first += int(block[-1]) + 1
        self._n_blocks = first
        signal = sum((b.use * b.y**2).sum(axis=0) for b in reference.blocks())
        self._signal = np.asarray(signal)
        self.moved = self._signal > 0.0

    def add(self, cutoff: float, problem: Regression) -> None:
        """Fit with each fold left out, and predict the reference's rows in that fold."""
        # With a weak prior: without, a short or still recording is extrapolated wildly.
        method = LinearMethod("ridge", solver=Ridge(spread=1.0))
        theta = [problem.base.to_base(method.theta(problem.without(fold))) for fold in range(FOLDS)]
        squares = np.zeros((self._n_blocks, problem.n_joints))
        for block in self.reference.blocks():
            motion = self.reference.motions[block.piece]
            at = np.searchsorted(motion.t, block.t).clip(max=motion.t.size - 1)
            folds = problem.folds(motion)[at]
            error = np.empty_like(block.y)
            for fold in range(FOLDS):
                mine = folds == fold
                error[mine] = block.y[mine] - block.Y[mine] @ theta[fold]
            np.add.at(squares, self._block[block.piece][at], block.use * error**2)
        self.cutoffs.append(cutoff)
        self.squares.append(squares)

    @property
    def falling(self) -> bool:
        """Whether the lowest cut-off tried is the best so far."""
        return int(np.argmin(self._levels()[0])) == len(self.cutoffs) - 1

    def choice(self) -> CutoffChoice:
        """The highest cut-off that is not worse than the best by more than can be told."""
        level, without = self._levels()
        best = int(level.argmin())
        # Jackknife of the difference: it varies with the block that is left out.
        difference = without - without[best]
        blocks = difference.shape[1]
        spread = np.square(difference - difference.mean(axis=1, keepdims=True)).sum(axis=1)
        sigma = np.sqrt((blocks - 1) / max(blocks, 1) * spread)
        if blocks < _LEAST_BLOCKS:
            sigma[:] = np.inf
        good = np.flatnonzero(level - level[best] <= _CERTAIN * sigma)
        chosen = int(good.min())  # cut-offs descend
        signal = self._signal[self.moved]
        errors = [float(np.sqrt(s.sum(axis=0)[self.moved] / signal).mean()) for s in self.squares]
        warning = ""
        if chosen == len(self.cutoffs) - 1 and chosen > 0:
            warning = (
                f"The cut-off of {self.cutoffs[chosen]:.3g} Hz is the lowest that was tried, and "
                "higher ones predict worse: noise of the encoders, or a motion that is too slow, "
                "may hide accelerations. Move faster, or compare with a given --cutoff."
            )
        return CutoffChoice(
            self.cutoffs[chosen],
            tuple(self.cutoffs[::-1]),
            tuple(errors[::-1]),
            # Levels are logarithms of squares: halved, they are relative differences.
            tuple((0.5 * sigma * errors)[::-1].tolist()),
            warning,
        )

    def _levels(self) -> tuple[Array, Array]:
        """(k,) mean over joints of the log squared error, and (k, blocks) with a block left out."""
        squares = np.stack(self.squares)[:, :, self.moved]
        total = np.maximum(squares.sum(axis=1), np.finfo(float).tiny)
        left = np.maximum(total[:, None] - squares, (1.0 - _LONGEST_SHARE) * total[:, None])
        # Blocks in which nothing moves tell nothing.
        told = squares.any(axis=(0, 2))
        return np.log(total).mean(axis=1), np.log(left[:, told]).mean(axis=2)


def settle_filters(
    robot: Robot,
    diagnoses: Sequence[Diagnosis],
    settings: Preprocessing,
    base: BaseParameters,
    progress: Callable[[str], None],
) -> tuple[Preprocessing, CutoffChoice | None]:
    """Settings with all choices made, and how the cut-off was chosen unless it was given.

    Raises:
        ShapeError: a cut-off beyond half the sampling rate of all recordings.
    """
    pieces = [d.segments for d in diagnoses]
    if settings.score_cutoff is None:
        reference = Bandwidth.of(_beginnings(pieces)).reference
        settings = replace(settings, score_cutoff=reference)
    if settings.cutoff is not None:
        require_below_half(settings.cutoff, (diagnosis.rate for diagnosis in diagnoses))
        return settings.settled(robot, settings.cutoff), None
    progress("choosing the cut-off")
    choice = choose_cutoff(robot, pieces, settings, base)
    return settings.settled(robot, choice.cutoff), choice


def doubtful_cutoff(cutoff: float | None, diagnoses: Sequence[Diagnosis]) -> list[str]:
    """A sentence if a cut-off that was given lets noise through or takes the motion away."""
    if cutoff is None:
        return []
    pieces = _beginnings([d.segments for d in diagnoses])
    bandwidth = Bandwidth.of(pieces)
    least = _LEAST_HARMONICS * bandwidth.motion
    noise = noise_share(pieces, cutoff)
    if noise > _NOISY:
        what = "none" if np.isinf(cutoff) else f"{cutoff:.3g} Hz"
        return [
            f"The cut-off ({what}) lets noise of the positions into the accelerations, some "
            f"{100.0 * min(noise, 1.0):.2g} % of them, by which inertias come out too small: leave "
            "--cutoff out, or lower it."
        ]
    if cutoff < least:
        return [
            f"The cut-off of {cutoff:.3g} Hz takes away what the motion tells, which reaches up to "
            f"{least:.3g} Hz: leave --cutoff out, or raise it."
        ]
    return []


def _duration(pieces: Sequence[Sequence[Log]]) -> float:
    return float(sum(piece.t[-1] - piece.t[0] for log in pieces for piece in log))


def _beginnings(pieces: Sequence[Sequence[Log]]) -> list[list[Log]]:
    """The first minute of each piece that moves, or of all if none does."""
    moving = [[piece for piece in log if _moves(piece)] for log in pieces]
    chosen = moving if any(moving) else pieces
    return [[_beginning(piece, _MOST_SECONDS) for piece in log] for log in chosen]


def _moves(piece: Log) -> bool:
    """Whether any joint goes somewhere: standing tells nothing about motion."""
    return any(
        np.ptp(values) > LEAST_RANGE
        for name, values in piece.channels.items()
        if name.startswith("q.")
    )


def _beginning(piece: Log, seconds: float) -> Log:
    if piece.t[-1] - piece.t[0] <= seconds:
        return piece
    n = int(np.searchsorted(piece.t, piece.t[0] + seconds))
    channels = {name: values[:n] for name, values in piece.channels.items()}
    return Log.of(piece.t[:n], channels, piece.units)


# The information of existing recordings on the base parameters that a motion is designed for.
#
# Their rows are those of the identification, in all base parameters beta_f of the robot,
#
#     R_f beta_f ~ z,        information R_fᵀ R_f,
#
# while the motion to be designed excites beta = T beta_f only: it may hold some joints. With N a
# basis of the null space of T, beta_f = T⁺ beta + N x. The information that is left after x has
# been estimated from the same rows is that of the part of R_f T⁺ orthogonal to R_f N.

_ROUNDING = 1e-10


def information_of(robot: Robot, logs: Sequence[Log], base: BaseParameters, noise: Array) -> Array:
    """(b, b) upper triangular R with RᵀR the information of recordings on base parameters.

    Rows are counted as those of a design are: all samples of the recording, divided by the same
    white noise (n_joints,) of the raw torque. The robot has the friction law of the design, whose
    base parameters are `base`.

    Raises:
        UnusableLogError: a recording of another robot, or one in which the doctor finds errors.
    """
    diagnoses = [require_clean(examine(robot, log)) for log in logs]
    pieces = [diagnosis.segments for diagnosis in diagnoses]
    full = base_parameters(robot)
    settings, _ = settle_filters(robot, diagnoses, Preprocessing(), full, lambda step: None)
    problem = Regression.of(robot, motions(robot, pieces, settings), settings, full)
    # After the filter a row stands for all samples up to the next one.
    samples = np.empty(problem.n_logs)
    for motion in problem.motions:
        plan = Plan.of(motion, settings)
        samples[motion.log] = plan.stride * plan.step
    R_full = problem.stack(noise / np.sqrt(samples)[:, np.newaxis]).A
    return _carried_over(R_full, full, base)


def _carried_over(R_full: Array, full: BaseParameters, base: BaseParameters) -> Array:
    """Information on some base parameters from that on all, R_fᵀR_f; both as factors R.

    `base` are combinations of the robot's, `full`, e.g. those that show while some joints hold.
    """
    # Any theta with these base parameters will do to find T: the kept ones stand for them.
    T = np.array(base.mapping)[:, full.independent]
    N = null_space(T, rcond=_ROUNDING)
    seen = R_full @ np.linalg.pinv(T)
    if N.size:
        U, s, _ = np.linalg.svd(R_full @ N, full_matrices=False)
        U = U[:, s > _ROUNDING * max(float(s.max(initial=0.0)), np.finfo(float).tiny)]
        seen = seen - U @ (U.T @ seen)
    return np.asarray(np.linalg.qr(seen, mode="r"))
