"""Data-driven choice of the low-pass cut-off; information of recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import null_space
from scipy.signal import welch

from bodysense.doctor import Diagnosis, examine, require_clean
from bodysense.identification.linear.least_squares import Ridge
from bodysense.identification.linear.method import LinearMethod
from bodysense.identification.preprocessing import Plan, Preprocessing, motions, require_below_half
from bodysense.identification.regression import Regression
from bodysense.logs.filtering import LEAST_RANGE, resample
from bodysense.logs.log import Log
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_HIGHEST_CUTOFF = 0.2  # of the sampling rate: what finite differences can follow
_RATIO = 1.35  # between neighbouring cut-offs of the grid
_EQUIVALENT = 0.01  # relative difference of errors that does not count
_MOST_SECONDS = 60.0  # of each log that are used [s]
_COMPARED_SAMPLES = 20_000  # whose torque is compared


@dataclass(frozen=True)
class CutoffChoice:
    """Which cut-offs were tried and what they led to.

    Attributes:
        cutoff: the chosen one [Hz].
        tried: cut-offs [Hz], ascending.
        errors: relative error of the predicted raw torque at each, mean over joints.
    """

    cutoff: float
    tried: tuple[float, ...]
    errors: tuple[float, ...]


def choose_cutoff(
    robot: Robot, pieces: Sequence[Sequence[Log]], settings: Preprocessing, base: BaseParameters
) -> CutoffChoice:
    """The highest cut-off whose motion predicts the raw torque as well as any, within 1 %.

    Too low a cut-off loses motion, too high a one lets noise into the accelerations; both show in
    the torque that a model fitted to that motion predicts. The raw torque is the same for all. The
    more passes, the more there is to fit: hence the highest of the good ones. A controller answers
    the noise of its encoders with torque, which that noise then predicts: so frequencies at which
    positions are mostly noise are out of the question from the start.
    """
    short = _beginnings(pieces)
    grid, highest = _grid(max((p.t for log in short for p in log), key=lambda t: t[-1] - t[0]))
    if grid.size == 0:
        return CutoffChoice(highest, (highest,), (float("nan"),))
    grid = grid[: max(1, int(np.searchsorted(grid, _highest_visible(short))))]
    search = _CutoffSearch(
        grid, lambda cutoff: _prediction_error(robot, short, settings, base, cutoff)
    )
    best = search.highest_good()
    tried = sorted(search.errors)
    return CutoffChoice(
        float(grid[best]),
        tuple(float(grid[k]) for k in tried),
        tuple(search.errors[k][1] for k in tried),
    )


def _beginnings(pieces: Sequence[Sequence[Log]]) -> list[list[Log]]:
    """The first minute of each piece that moves, or of all if none does."""
    moving = [[piece for piece in log if _moves(piece)] for log in pieces]
    chosen = moving if any(moving) else pieces
    return [[_beginning(piece, _MOST_SECONDS) for piece in log] for log in chosen]


def _grid(t: Array) -> tuple[Array, float]:
    """Cut-offs to try [Hz] for a piece with these times (n_t,), and their upper bound."""
    span = float(t[-1] - t[0])
    highest = _HIGHEST_CUTOFF * ((t.size - 1) / span)
    grid: Array = _RATIO ** np.arange(-10.0, 40.0)
    return grid[(grid > 10.0 / span) & (grid < highest)], highest


@dataclass(eq=False)
class _CutoffSearch:
    """Search of a grid of cut-offs whose errors are costly: few are computed, and each is kept.

    Attributes:
        grid: cut-offs [Hz], ascending.
        evaluate: computes the errors of a cut-off, as `_prediction_error` does.
        errors: of the cut-offs tried so far, by place in the grid.
    """

    grid: Array
    evaluate: Callable[[float], tuple[float, float]]
    errors: dict[int, tuple[float, float]] = field(default_factory=dict)

    def log_error(self, k: int) -> float:
        """Log squared error at a place of the grid, which is then among those tried."""
        if k not in self.errors:
            self.errors[k] = self.evaluate(float(self.grid[k]))
        return self.errors[k][0]

    def highest_good(self) -> int:
        """The highest place whose error is as good as the best one tried, within 1 %."""
        size, error = self.grid.size, self.log_error
        best = min(range(size - 1, -1, -3), key=error)
        best = min((k for k in (best - 1, best, best + 1) if 0 <= k < size), key=error)
        within = 2.0 * _EQUIVALENT
        best = max(k for k in self.errors if k >= best and error(k) < error(best) + within)
        while best + 1 < size and error(best + 1) < min(map(error, self.errors)) + within:
            best += 1
        return best


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
    if settings.cutoff is not None:
        require_below_half(settings.cutoff, (diagnosis.rate for diagnosis in diagnoses))
        return settings.settled(robot, settings.cutoff), None
    progress("choosing the cut-off")
    choice = choose_cutoff(robot, [d.segments for d in diagnoses], settings, base)
    return settings.settled(robot, choice.cutoff), choice


def _highest_visible(pieces: Sequence[Sequence[Log]]) -> float:
    """Cut-off [Hz] at which noise and loss of the accelerations are in balance.

    The noise of positions is taken to be white, at the level of the highest frequencies. A cut-off
    f lets noise of density N into the accelerations, ∫_0^f N (2πf)⁴ df, and takes away what of the
    signal lies above it; their sum has a minimum. The median over the joints that have one.
    """
    result = []
    for log in pieces:
        for piece in log:
            names = [name for name in piece.channels if name.startswith("q.")]
            even, rate = resample(piece)
            if even.t.size < 64:
                continue
            q = np.stack([even.channels[name] for name in names], axis=1)
            length = max(64, 2 ** int(np.log2(even.t.size / 4)))
            # Piece by piece: motion that leaks into high frequencies would hide the noise.
            f, S = welch(  # type: ignore[call-overload]  # the stubs misspell "linear"
                q, rate, "blackmanharris", length, detrend="linear", axis=0
            )
            high = (f > 0.3 * rate) & (f < 0.475 * rate)
            noise = np.median(S[high], axis=0)
            to_acceleration = ((2.0 * np.pi * f) ** 4)[:, None]
            lost = np.cumsum((np.maximum(S - noise, 0.0) * to_acceleration)[::-1], axis=0)[::-1]
            let_in = np.cumsum(noise * to_acceleration, axis=0)
            moving = noise > 0.0
            result += [float(f[k]) for k in (lost + let_in).argmin(axis=0)[moving]]
    return float(np.median(result)) if result else np.inf


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


def _prediction_error(
    robot: Robot,
    pieces: Sequence[Sequence[Log]],
    settings: Preprocessing,
    base: BaseParameters,
    cutoff: float,
) -> tuple[float, float]:
    """Log squared error, by which cut-offs compare, and relative error; means over joints."""
    chosen = replace(settings, cutoff=cutoff).settled(robot, cutoff)
    moved = motions(robot, pieces, chosen)
    problem = Regression.of(robot, moved, chosen, base)
    # With a weak prior: without, a short or still recording is extrapolated wildly.
    theta = LinearMethod("ridge", solver=Ridge(spread=1.0)).theta(problem)
    error, signal = np.zeros((2, robot.n_joints))
    for motion in moved:
        stride = max(1, motion.t.size // _COMPARED_SAMPLES)
        q, v, a, raw = (
            np.ascontiguousarray(x[::stride])
            for x in (motion.q, motion.v, motion.a, motion.tau_raw)
        )
        error += np.square(raw - inverse_dynamics(robot, q, v, a, theta=theta)).sum(axis=0)
        signal += np.square(raw).sum(axis=0)
    present = signal > 0.0
    ratio: Array = error[present] / signal[present]
    tiny = np.finfo(float).tiny
    return float(np.log(ratio + tiny).mean()), float(np.sqrt(ratio).mean())


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
