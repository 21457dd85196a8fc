"""What a first try with defaults is worth: recordings of a UR10e, each against every other.

The score is computed here, without the library's own: both sides' models predict the torque of the
same samples, of moving joints, at one bandwidth that no setting of theirs changes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.signal import butter, sosfiltfilt

from benchmarks import ur10e
from benchmarks.result import Result
from bodysense import Robot
from bodysense.errors import BodysenseError
from bodysense.identification import Identifier, Preprocessing, identifier, identify
from bodysense.robot import inverse_dynamics
from bodysense.spatial.arrays import Array

JOINT_WISE = tuple(f"ur-20_01_22-joint_{k}.csv" for k in range(1, 7))
SETS: Mapping[str, tuple[str, ...]] = {
    "50sec_12harm": (ur10e.TRAINING,),
    "40sec_12harm": ("ur-20_02_12-40sec_12harm.csv",),
    "30sec_12harm": ("ur-20_02_10-30sec_12harm.csv",),
    "20sec_8harm": ("ur-20_02_05-20sec_8harm.csv",),
    "15harm50sec": ("ur-20_02_19_15harm50sec.csv",),
    "01_31-unload": ("ur-20_01_31-unload.csv",),
    "joint-wise": JOINT_WISE,
}
"""What is trained on and predicted: recordings of motion without a load, those of one joint each
together. Trained on is each joint-wise recording by itself as well."""

ALONE: Mapping[str, tuple[str, ...]] = {f"joint_{k + 1}": (f,) for k, f in enumerate(JOINT_WISE)}

WORST = 1.15
"""Error of the defaults over that of the best peer that is accepted."""

CUTOFF = 8.0  # Hz, of the peer and of the score: well above the motions, below the noise
RATE = 100.0  # Hz, of the even grid that recordings are put on: about their own
EVERY = 2  # samples of that grid between those that count
BORDER = 0.5  # s without a past or a future for the filter, at each end
MOVING = 0.02  # rad/s from which a sample of a joint counts
LEAST_MOVING = 1.0  # s in which a joint must move, and …
LEAST_RANGE = 0.05  # rad through which it must, to be one that moves
SHARP = 50.0  # s/rad, of tanh in the peer's Coulomb friction
FAINT = 1e-2  # N·m per unit of a parameter, r.m.s., below which the peer leaves it at zero
KEPT = 1e-2  # smallest singular value of the peer's weighted, scaled regressor, over the largest


@dataclass(frozen=True, eq=False)
class Samples:
    """One recording as both sides are judged by it: positions and torques at the same bandwidth.

    Attributes:
        q: (m, 6) positions [rad].
        v: (m, 6) velocities.
        a: (m, 6) accelerations.
        tau: (m, 6) torques [N·m].
        counts: (m, 6) where a joint moves.
    """

    q: Array
    v: Array
    a: Array
    tau: Array
    counts: NDArray[np.bool_]

    def smooth(self, x: Array) -> Array:
        """A prediction at the bandwidth of the torques it is compared with."""
        return _lowpass(x, RATE / EVERY)


def _lowpass(x: Array, rate: float) -> Array:
    filtered: Array = sosfiltfilt(butter(4, CUTOFF, fs=rate, output="sos"), x, axis=0)
    return filtered


@cache
def samples(file: str) -> Samples:
    """Read and filter a recording."""
    log, names = ur10e.read(file), ur10e.robot().joint_names
    grid = np.arange(log.t[0], log.t[-1], 1.0 / RATE)
    tau = np.stack([np.interp(grid, log.t, x) for x in log.joints("tau", names).T], axis=1)
    q = _lowpass(CubicSpline(log.t, log.joints("q", names))(grid), RATE)
    v = np.gradient(q, 1.0 / RATE, axis=0)
    a = np.gradient(v, 1.0 / RATE, axis=0)
    cut = int(BORDER * RATE)
    q, v, a, tau = (
        np.ascontiguousarray(x[cut : -cut or None : EVERY]) for x in (q, v, a, _lowpass(tau, RATE))
    )
    counts = np.abs(v) > MOVING
    counts &= (counts.sum(axis=0) * EVERY / RATE > LEAST_MOVING) & (np.ptp(q, axis=0) > LEAST_RANGE)
    return Samples(q, v, a, tau, counts)


class Model:
    """What predicts torques: an identified robot, or the peer's parameters."""

    def __init__(self, robot: Robot | None = None, theta: Array | None = None) -> None:
        """One of them."""
        self.robot, self.theta = robot, theta

    def torque(self, file: str) -> Array:
        """(m, 6) torque of a recording's samples [N·m]."""
        s = samples(file)
        if self.robot is not None:
            return inverse_dynamics(self.robot, s.q, s.v, s.a)
        predicted: Array = regressor(file) @ self.theta
        return predicted

    def error(self, files: Sequence[str]) -> float:
        """Mean over the joints that move of ‖tau - prediction‖ / ‖tau‖ [%]."""
        squares, signal = np.zeros((2, 6))
        for file in files:
            s = samples(file)
            residual = s.tau - s.smooth(self.torque(file))
            squares += np.where(s.counts, residual**2, 0.0).sum(axis=0)
            signal += np.where(s.counts, s.tau**2, 0.0).sum(axis=0)
        moved = signal > 0.0
        return float(100.0 * np.sqrt(squares[moved] / signal[moved]).mean())


@cache
def regressor(file: str) -> Array:
    """(m, 6, p) of links, rotors, viscous and Coulomb friction and offsets, by Pinocchio."""
    model = pin.buildModelFromUrdf(str(ur10e.folder() / "ur10e.urdf"))
    data, s = model.createData(), samples(file)
    n = model.nv
    Y = np.zeros((len(s.q), n, 14 * n))
    for k, (q, v, a) in enumerate(zip(s.q, s.v, s.a, strict=True)):
        Y[k, :, : 10 * n] = pin.computeJointTorqueRegressor(model, data, q, v, a)
    joint = np.arange(n)
    for term, x in enumerate((s.a, s.v, np.tanh(SHARP * s.v), np.ones_like(s.v))):
        Y[:, joint, (10 + term) * n + joint] = x
    return Y


def plain_wls(files: Sequence[str]) -> Model:
    """Weighted least squares of the moving rows, by a truncated singular value decomposition."""
    made = [(regressor(file), samples(file)) for file in files]
    Y = [np.concatenate([y[s.counts[:, j], j] for y, s in made]) for j in range(6)]
    tau = [np.concatenate([s.tau[s.counts[:, j], j] for _, s in made]) for j in range(6)]
    sigma = np.ones(6)
    for _ in range(2):  # first unweighted, for the noise of each joint
        stacked = np.concatenate([y / s for y, s in zip(Y, sigma, strict=True)])
        right = np.concatenate([t / s for t, s in zip(tau, sigma, strict=True)])
        size = np.linalg.norm(stacked, axis=0)
        faint = size < FAINT * np.sqrt(right.size)  # nothing but noise of standing joints
        scale = np.where(faint, 0.0, 1.0 / np.maximum(size, np.finfo(float).tiny))
        theta = scale * np.linalg.lstsq(stacked * scale, right, rcond=KEPT)[0]
        for j in range(6):
            if tau[j].size:
                sigma[j] = np.sqrt(np.mean((tau[j] - Y[j] @ theta) ** 2))
    return Model(theta=theta)


DEFAULTS = "defaults"


@dataclass(frozen=True)
class Flags:
    """What a user can give `bodysense identify`."""

    method: Identifier | str = "auto"
    friction: str = "auto"
    cutoff: float | None = None

    def fit(self, files: Sequence[str]) -> Model:
        """Identify; where that fails, the robot's file is what the user is left with."""
        robot = ur10e.robot()
        try:
            run = identify(
                robot,
                [ur10e.read(file) for file in files],
                method=self.method,
                friction=self.friction,
                preprocessing=Preprocessing(cutoff=self.cutoff),
            )
        except BodysenseError:
            return Model(robot)
        return Model(run.robot)


def own() -> dict[str, Flags]:
    """The defaults, and the flags that could have been better."""
    relaxed = identifier("pc-wls", relaxation="pullback", relaxation_weight=None)
    return {
        DEFAULTS: Flags(),
        "--relax pullback --relax-weight auto": Flags(method=relaxed),
        "--method pc-wls": Flags(method="pc-wls"),
        **{f"--friction {law}": Flags(friction=law) for law in ("coulomb", "offset", "stribeck")},
        f"--cutoff {CUTOFF:g}": Flags(cutoff=CUTOFF),
    }


@dataclass(frozen=True)
class Trained:
    """All models of one set of recordings, and their errors [%] on others.

    Attributes:
        name: of the set.
        errors: by set that is predicted, by side.
        seconds: that the defaults took.
    """

    name: str
    errors: Mapping[str, Mapping[str, float]]
    seconds: float

    def pairs(self) -> Iterator[tuple[str, float, float, str]]:
        """What is predicted, error of the defaults, of the best peer, and which it is."""
        for on, by_side in self.errors.items():
            best, side = min((error, side) for side, error in by_side.items() if side != DEFAULTS)
            yield on, by_side[DEFAULTS], best, side


def trained(name: str, files: Sequence[str], on: Sequence[str]) -> Trained:
    """Train all sides on some files and judge them on all sets, less these files."""
    unseen = {other: [f for f in SETS[other] if f not in files] for other in on}
    unseen = {other: rest for other, rest in unseen.items() if rest}
    models, seconds = {}, 0.0
    for side, flags in own().items():
        start = time.perf_counter()
        models[side] = flags.fit(files)
        seconds += time.perf_counter() - start if side == DEFAULTS else 0.0
    models[f"WLS, truncated SVD, {CUTOFF:g} Hz"] = plain_wls(files)
    return Trained(
        name,
        {on: {side: m.error(rest) for side, m in models.items()} for on, rest in unseen.items()},
        seconds,
    )


def run(
    repeat: int,
    *,
    training: Sequence[str] = (*SETS, *ALONE),
    predicted: Sequence[str] = tuple(SETS),
) -> tuple[Result, ...]:
    """One line per pair; of a joint-wise recording by itself the worst pair; and the worst of all.

    Args:
        repeat: without effect: errors do not change.
        training: names of the sets to train on.
        predicted: names of the sets to predict.
    """
    everything = {**SETS, **ALONE}
    results, ratios, seconds = [], [], []
    for name in training:
        made = trained(name, everything[name], predicted)
        pairs = sorted(made.pairs(), key=lambda pair: pair[2] / pair[1])
        ratios += [(ours / best, f"{name} → {on}") for on, ours, best, _ in pairs]
        seconds.append(made.seconds)
        results += [
            Result.judged(
                "first-try",
                f"UR10e, {name} → {on}, defaults, peer: {side}",
                unit="%",
                ours=ours,
                peer=best,
                ratio_at_least=1.0 / WORST,
            )
            for on, ours, best, side in (pairs if name in SETS else pairs[:1])
        ]
    worst, where = max(ratios)
    within = sum(ratio <= WORST for ratio, _ in ratios)
    results.append(
        Result.judged(
            "first-try",
            f"UR10e, {len(ratios)} pairs: worst error with defaults over that of the best peer",
            unit="times",
            ours=worst,
            ours_below=WORST,
            notes=f"at {where}; {within} of {len(ratios)} pairs within {WORST:g}; identify with "
            f"defaults took {min(seconds):.1f} to {max(seconds):.1f} s",
        )
    )
    return tuple(results)
