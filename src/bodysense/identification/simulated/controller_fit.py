"""Gains of an unknown controller, from a log that holds its reference.

Each motor is taken to be under a law of its own, thesis eq (12) plus an integral,

    tau = Cᵀ tau_reduced,   tau_reduced = K (Kp e + Kd ė + Ki ∫e dt) + offset,   e = C (q_des - q)

with the coupling C and the drive gains K of the actuators. The offset of each piece of a recording
is what its integral started from; it is taken out by counting all signals from their means.
Positions, references and torques pass the same low-pass filter, which a linear law does not notice.

The recordings are cut into ten blocks. The gains without one of them predict its torque, which
gives the share that the law explains, and whether an integral improves it; their scatter is the
jackknife's standard deviation, which counts correlated residuals.

Encoder noise that the controller answers is in e and in tau at once. As long as it is small beside
the tracking error, gains come out right; a controller that differentiates its noise makes torque
that the log's rate cannot follow, which is noise to the fit and shows in the standard deviation of
Kd. Its differences are also half a period late, which the law above does not know: on simulated
robots with stiff controllers at 5 kHz, Kd comes out up to 10 % wrong for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from bodysense.errors import MismatchError, ShapeError
from bodysense.identification.preprocessing import Motion, Preprocessing, require_fixed
from bodysense.logs.filtering import differentiate, lowpass, usable_cutoff
from bodysense.robot.actuators import Controller, suggested_controller
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, as_array, read_only

_PD, _PID, _TORQUE = (0, 1), (0, 1, 2), 3  # columns of e, ė, ∫e and of the torque

_BLOCKS, _BLOCK_ROWS = 10, 20  # blocks of the jackknife, and rows of each at least
_SINGULAR = 1e-12  # eigenvalue of the Gram matrix of unit columns that are not independent
_ROUNDING = 1e-9  # relative change of a signal that is rounding

_INTEGRAL_STD, _INTEGRAL_GAIN, _INTEGRAL_TORQUE = 4.0, 0.01, 1e-5
"""What an integral needs: standard deviations above zero, share of the held-out error that it takes
away, and share of the torque's squares."""

_EXPLAINED = 0.9  # share of the torque below which the law is noted as questionable
_GAIN_STD = 3.0  # standard deviations that Kp must be above zero, and Kd not below
_UNCERTAIN_GAIN = 0.3  # relative standard deviation of a gain from which on it is noted
_NOISE_BAND = (0.3, 0.475)  # frequencies, in units of the sampling rate, in which torques are noise


@dataclass(frozen=True, eq=False)
class ControllerFit:
    """Gains identified from recordings.

    Attributes:
        controller: the gains; of joints whose gains are not identifiable, those of
            `suggested_controller`.
        sigma_kp: (n,) standard deviations of its gains, infinite where they are suggested.
        sigma_kd: (n,) likewise.
        sigma_ki: (n,) likewise; zero where there is no integral.
        explained: (n,) share of each motor's torque that the law predicts, on blocks left out of
            the fit, between 0 and 1.
        fitted: (n,) whether the gains are those of the recordings.
        notes: remarks, with advice.
    """

    controller: Controller
    sigma_kp: Array
    sigma_kd: Array
    sigma_ki: Array
    explained: Array
    fitted: NDArray[np.bool_]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no remark on any joint."""
        return not self.notes

    def summary(self) -> str:
        n, fitted = self.fitted.size, int(self.fitted.sum())
        if not fitted:
            return " ".join(["No gains of the controller are identifiable.", *self.notes])
        kind = "PID" if self.controller.ki[self.fitted].any() else "PD"
        share = 100.0 * float(self.explained[self.fitted].min())
        text = (
            f"{kind} gains of {fitted} of {n} joints from the log, which explain at least "
            f"{share:.3g} % of their torque."
        )
        return " ".join([text, *self.notes])


def fit_controller(
    robot: Robot, motions: Sequence[Motion], settings: Preprocessing, *, rate: float
) -> ControllerFit:
    """Estimate the gains of a robot's controller from its reference and the motion.

    The robot's own controller is not looked at. Motions have references, and at least 200 samples
    inside the borders of the filter. Logs do not hold the control rate [Hz].

    Raises:
        MismatchError: no motion, or one without a reference, or too little of it.
        ShapeError: signals that do not belong together, or settings that are not settled.
    """
    require_fixed(robot)
    if not (np.isfinite(rate) and rate > 0.0):
        raise ShapeError(f"the control rate is {rate:g}: give a positive number of Hz.")
    G, noise = _sums(robot, motions, settings)
    motors = [_motor(G[:, j]) for j in range(robot.n_joints)]
    gain = robot.actuators.drive_gain
    fitted = np.array([motor.failure == "" for motor in motors])
    gains, sigma = (np.stack([getattr(m, x) for m in motors], axis=1) for x in ("gains", "sigma"))
    gains, sigma = gains / gain, sigma / np.abs(gain)
    if not fitted.all():
        # Slow enough for any rate: a twentieth of it is the most that holds.
        spare = suggested_controller(robot, bandwidth=min(10.0, rate / 20.0), rate=rate)
        gains = np.where(fitted, gains, np.stack([spare.kp, spare.kd, spare.ki]))
        sigma = np.where(fitted, sigma, np.inf)
    explained = np.array([motor.explained for motor in motors])
    return ControllerFit(
        controller=Controller.from_gains(
            robot.n_joints, kp=gains[0], kd=gains[1], ki=gains[2], rate=rate
        ),
        sigma_kp=read_only(sigma[0]),
        sigma_kd=read_only(sigma[1]),
        sigma_ki=read_only(sigma[2]),
        explained=read_only(explained),
        fitted=fitted,
        notes=tuple(_remarks(robot.joint_names, motors, gains, sigma, noise)),
    )


@dataclass(frozen=True, eq=False)
class _Motor:
    """Result of one motor: (3,) gains in torques, the share explained, why it failed."""

    gains: Array
    sigma: Array
    explained: float
    failure: str = ""


def _sums(robot: Robot, motions: Sequence[Motion], settings: Preprocessing) -> tuple[Array, Array]:
    """Gram matrices (blocks, n, 4, 4) of e, ė, ∫e and torque; (n,) noise's share of the torque."""
    if not motions:
        raise MismatchError("there is no motion to identify gains from: give at least one.")
    signals, noises = zip(*(_signals(robot, motion, settings) for motion in motions), strict=True)
    rows = np.concatenate(signals)
    if rows.shape[0] < _BLOCKS * _BLOCK_ROWS:
        raise MismatchError(
            f"{rows.shape[0]} samples are left inside the borders of the filter: gains need "
            f"{_BLOCKS * _BLOCK_ROWS} or more; record for longer, or raise the cut-off."
        )
    blocks = np.array_split(rows, _BLOCKS)
    G = np.stack([np.einsum("tjk,tjl->jkl", block, block) for block in blocks])
    power = np.maximum(G.sum(axis=0)[:, _TORQUE, _TORQUE], np.finfo(float).tiny)
    return G, np.sum(noises, axis=0) / power


def _signals(robot: Robot, motion: Motion, settings: Preprocessing) -> tuple[Array, Array]:
    """(m, n, 4) e, ė, ∫e and torque of the motors, from their means; (n,) squares of noise."""
    n, rate = robot.n_joints, motion.rate
    if settings.cutoff is None:
        raise ShapeError("the preprocessing is not settled: call settled(robot, cutoff) first.")
    if motion.reference is None:
        raise MismatchError(
            f"log {motion.log + 1} does not hold the controller's reference: record it as "
            "q_des.<joint> for every joint, or give the controller in an actuator file."
        )
    reference = as_array(motion.reference, (motion.t.size, n), "reference")
    q = as_array(motion.q if motion.q_raw is None else motion.q_raw, reference.shape, "q")
    C = robot.actuators.coupling
    tau = as_array(motion.tau_raw, reference.shape, "tau") @ np.linalg.inv(
        C
    )  # rows: tau = tau_reduced C
    cutoff = usable_cutoff(settings.cutoff, rate)
    e = (reference - q) @ C.T
    error = lowpass(e, rate, cutoff, order=settings.order)
    columns = (
        error,
        differentiate(error, rate, accuracy=settings.accuracy),
        (np.cumsum(error, axis=0) - 0.5 * error) / rate,  # up to the sample, not beyond it
        lowpass(tau, rate, cutoff, order=settings.order),
    )
    cut = int(np.ceil(rate / cutoff))
    rows = np.stack(columns, axis=2)[cut : reference.shape[0] - cut]
    if rows.shape[0] == 0:
        return rows, np.zeros(n)
    moved = rows - rows.mean(axis=0)
    moved[:, np.abs(moved).max(axis=0) <= _ROUNDING * np.abs(rows).max(axis=0)] = 0.0
    return moved, rows.shape[0] * _noise(tau, rate, min(cutoff, 0.5 * rate))


def _noise(tau: Array, rate: float, cutoff: float) -> Array:
    """(n,) variance that noise of the torques has below the cut-off, if it is white.

    As dense as in the highest frequencies, where motion leaves next to nothing.
    """
    window = np.hanning(tau.shape[0])[:, None]
    S = np.abs(np.fft.rfft((tau - tau.mean(axis=0)) * window, axis=0)) ** 2
    f = np.fft.rfftfreq(tau.shape[0], 1.0 / rate)
    high = (f > _NOISE_BAND[0] * rate) & (f < _NOISE_BAND[1] * rate)
    if not high.any():
        return np.zeros(tau.shape[1])
    density: Array = S[high].mean(axis=0) / (rate * np.sum(window**2))
    return 2.0 * cutoff * density


def _motor(G: Array) -> _Motor:
    """The law of one motor, from its Gram matrices (blocks, 4, 4)."""
    unit = np.sqrt(np.einsum("bkk->k", G))
    if unit[_TORQUE] == 0.0:
        return _failed("its torque does not change")
    if unit[0] == 0.0:
        return _failed("its reference is the measured position itself, up to a constant")
    unit = np.where(unit > 0.0, unit, 1.0)
    G = G / np.outer(unit, unit)
    pd = _left_out(G, _PD)
    if pd is None:
        return _failed("its motion is too poor to tell gains apart")
    gains, sigma, error = pd
    pid = _left_out(G, _PID)
    if pid is not None and _needs_integral(*pid, pd_error=error):
        gains, sigma, error = pid
    explained = float(np.clip(1.0 - error, 0.0, 1.0))
    for name, value, margin in (("Kp", gains[0], 0.0), ("Kd", gains[1], _GAIN_STD * sigma[1])):
        if value <= -margin:
            return _failed(f"its {name} would not be positive", explained)
    if gains[0] <= _GAIN_STD * sigma[0]:
        return _failed("its Kp is lost in torque of another kind (feed-forward, noise)", explained)
    gains[1] = _positive_mean(gains[1], sigma[1])
    scale = unit[_TORQUE] / unit[:_TORQUE]
    return _Motor(gains * scale, sigma * scale, explained)


def _positive_mean(mean: float, sigma: float) -> float:
    """Expected value of what is known to be positive, and otherwise as (mean, sigma) say.

    That of a normal distribution cut off at zero. A Kd that drowns in noise comes out as large as
    the noise leaves open; one that is seen stays as it is.
    """
    if sigma == 0.0:
        return mean
    a = mean / sigma
    return mean + sigma * float(np.exp(-0.5 * a**2 - log_ndtr(a)) / np.sqrt(2.0 * np.pi))


def _failed(why: str, explained: float = 0.0) -> _Motor:
    return _Motor(np.zeros(3), np.zeros(3), explained, why)


def _left_out(G: Array, columns: tuple[int, ...]) -> tuple[Array, Array, float] | None:
    """(3,) gains, their standard deviations, and the error of predicting blocks left out.

    The error is a share of the torque's squares. Nothing where the columns are not independent.
    """
    c = np.array(columns)
    total = G.sum(axis=0)
    parts = total - G
    squares = np.concatenate([total[None], parts])[:, c[:, None], c]
    if np.linalg.eigvalsh(squares)[:, 0].min() < _SINGULAR:
        return None
    right = np.concatenate([total[None], parts])[:, c, _TORQUE]
    x = np.linalg.solve(squares, right[..., None])[..., 0]
    away = np.concatenate([-x[1:], np.ones((_BLOCKS, 1))], axis=1)
    held = np.append(c, _TORQUE)
    error = np.einsum("bk,bkl,bl->", away, G[:, held[:, None], held], away)
    spread = x[1:] - x[1:].mean(axis=0)
    gains, sigma = np.zeros((2, 3))
    gains[c] = x[0]
    sigma[c] = np.sqrt((_BLOCKS - 1) / _BLOCKS * np.sum(spread**2, axis=0))
    return gains, sigma, float(error)


def _needs_integral(gains: Array, sigma: Array, error: float, *, pd_error: float) -> bool:
    """Whether an integral is significant, and predicts what was left out better."""
    saved = pd_error - error
    return bool(
        gains[2] > _INTEGRAL_STD * sigma[2]
        and saved > _INTEGRAL_GAIN * pd_error
        and saved > _INTEGRAL_TORQUE
    )


def _remarks(
    names: Sequence[str], motors: Sequence[_Motor], gains: Array, sigma: Array, noise: Array
) -> Iterator[str]:
    """Remarks on the gains (3, n)."""
    uncertain = []
    for j, (name, motor) in enumerate(zip(names, motors, strict=True)):
        if motor.failure:
            yield (
                f"Gains of {name} are not identifiable: {motor.failure}. Suggested ones replace "
                "them; treat results of simulating methods with care."
            )
        elif motor.explained + min(float(noise[j]), 1.0) < _EXPLAINED:
            yield (
                f"Gains of {name} explain only {100.0 * motor.explained:.0f} % of its torque: the "
                "real controller is of another kind (cascade, feed-forward), or its reference was "
                "logged at another time; treat results of simulating methods with care."
            )
        else:
            uncertain += [
                f"{gain} of {name} (± {100.0 * abs(s / k):.0f} %)"
                for gain, k, s in zip(("Kp", "Kd", "Ki"), gains[:, j], sigma[:, j], strict=True)
                if s > _UNCERTAIN_GAIN * abs(k)
            ]
    if uncertain:
        yield (
            f"Uncertain gains: {', '.join(uncertain)}; faster reversals, a longer recording or "
            "less noise would help."
        )
