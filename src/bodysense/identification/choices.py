"""Data-driven choice of the low-pass cut-off and of the method; information of recordings.

Which method to take: the decisions of thesis figure 43, made by what the recordings show.

    Are controller and reference known?       then the closed loop could be simulated (IV, DIDIM,
                                              output error); otherwise inverse models
    Is the rate high enough for differences?  if not, and the loop can be simulated: IV
    Is the noise of the joints alike?         ordinary or weighted least squares
    Are there outliers?                       robust weights
    Does the motion excite all parameters?    otherwise lean on the prior, as strongly as predicts
                                              best what was left out of the fit

Physically consistent links are always asked for: where the data are good it costs nothing, where
they are poor it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import null_space
from scipy.signal import welch

from bodysense.doctor import Diagnosis, examine, require_clean
from bodysense.identification.identifier import Identifier
from bodysense.identification.linear.least_squares import Ridge
from bodysense.identification.linear.method import LinearMethod, few_rows, fit_noise_weights
from bodysense.identification.methods import identifier
from bodysense.identification.preprocessing import Plan, Preprocessing, motions, require_below_half
from bodysense.identification.prior import Prior
from bodysense.identification.regression import Regression
from bodysense.identification.solution import WeightedSolution
from bodysense.logs.filtering import LEAST_RANGE, resample
from bodysense.logs.log import Log
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import physical_consistency

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


AUTO = "auto"
"""Name by which the command line asks for a choice."""

_LOW_RATE = 100.0  # sampling rate [Hz] below which the thesis advises against plain differences
_SAMPLES_PER_PERIOD = 8.0  # of the cut-off, for differences good to a per cent
_NOISE_RATIO = 1.5  # ratio of the joints' noise levels up to which all rows count alike
_OUTLIER = 4.0  # residual in standard deviations; a normal distribution has 6e-5 beyond
_OUTLIER_SHARE = 2e-3  # share of outliers from which on robust weights are worth their cost
_WELL_EXCITED = 3.0  # information in units of the prior's below which a direction is poorly excited


@dataclass(frozen=True)
class MethodChoice:
    """A method and why it was chosen.

    Attributes:
        identifier: the method with its settings.
        reasons: in the order of the decisions, in words.
    """

    identifier: Identifier
    reasons: tuple[str, ...]

    def summary(self) -> str:
        return f"{self.identifier.name}: {' '.join(self.reasons)}"


def choose_method(problem: Regression) -> MethodChoice:
    """Choose a method for a problem, its recordings filtered."""
    prior = Prior.of(problem)
    first = fit_noise_weights(problem, prior)
    known, controller = _controller(problem)
    too_slow, rate = _rate(problem)
    settings, excitation = _relaxation(problem, prior, first.sigma)
    reasons = [controller, rate, excitation]
    if known and too_slow:
        name, reason = "pc-iv", "The simulated motion needs no differences: instrumental variables."
    else:
        name, reason = _weighting(problem, prior, first)
    return MethodChoice(identifier(name, **settings), (*reasons, reason))


def _relaxation(problem: Regression, prior: Prior, sigma: Array) -> tuple[dict[str, Any], str]:
    """Settings of the relaxation towards the prior, and why."""
    weak = _weak_directions(problem, prior, sigma)
    if not weak:
        return {}, "The motion excites every direction: the prior is not needed."
    consistent = all(physical_consistency(prior.theta[link]).consistent for link in prior.links)
    kind = "pullback" if consistent else "euclidean"
    return {"relaxation": kind, "relaxation_weight": None}, (
        f"The motion leaves {weak} of {problem.size} directions to the prior: relaxed towards "
        f"it ({kind}), as strongly as predicts blocks best that are left out."
    )


def _weighting(problem: Regression, prior: Prior, first: WeightedSolution) -> tuple[str, str]:
    """The method by how its rows are weighted, and why."""
    if few_rows(problem):
        return "pc-ols", "There are too few rows to tell the noise of the joints apart."
    far = _outlier_share(problem, prior.to_base(first.theta), first.sigma)
    if far > _OUTLIER_SHARE:
        return "pc-irls", (
            f"{100.0 * far:.1f} % of the residuals lie beyond {_OUTLIER:g} standard deviations: "
            "robust weights."
        )
    levels = first.sigma[first.sigma > 0.0]
    ratio = float(levels.max() / levels.min())
    if ratio > _NOISE_RATIO:
        return "pc-wls", f"The noise of the joints differs by {ratio:.1f} times: weighted rows."
    return "pc-ols", "The noise of all joints is alike: all rows count alike."


def _controller(problem: Regression) -> tuple[bool, str]:
    """Whether the loop can be simulated as it was, and that in words."""
    referenced = all(motion.reference is not None for motion in problem.motions)
    if problem.robot.controller is None or not referenced:
        missing = "its controller" if problem.robot.controller is None else "the reference motion"
        return False, f"{missing[0].upper()}{missing[1:]} is not known: inverse dynamics."
    return True, (
        "Controller and reference are known, so that the loop could be simulated (iv, didim, cloe)."
    )


def _rate(problem: Regression) -> tuple[bool, str]:
    """Whether the rate is too low for differences of positions, and that in words."""
    rate = min(motion.rate for motion in problem.motions)
    cutoff = problem.settings.cutoff or rate
    if rate >= _LOW_RATE or rate >= _SAMPLES_PER_PERIOD * cutoff:
        return False, f"{rate:.4g} Hz are enough for differences below {cutoff:.3g} Hz."
    return True, (
        f"At {rate:.4g} Hz differences are inexact up to the cut-off of {cutoff:.3g} Hz: record "
        "faster, or lower it."
    )


def _weak_directions(problem: Regression, prior: Prior, sigma: Array) -> int:
    """Number of directions in which the data are hardly better than the prior."""
    stack = problem.stack(sigma)
    s = np.linalg.svd(stack.A @ prior.base_factor, compute_uv=False)
    return int((s < _WELL_EXCITED).sum())


def _outlier_share(problem: Regression, theta_base: Array, sigma: Array) -> float:
    far = rows = 0.0
    for block in problem.blocks():
        u = np.abs(block.y - block.Y @ theta_base) / sigma[block.log]
        far += float((block.use * (u > _OUTLIER)).sum())
        rows += float(block.use.sum())
    return far / max(rows, 1.0)


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
