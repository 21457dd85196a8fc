"""Signals that belong together: motion and readings of a log at one bandwidth, and their noise.

A push is what torques tell and the motion does not. Where positions pass a low-pass filter and
torques do not, the answer of a controller to the noise of its encoders looks like a push. So all
that enters one estimate passes the same filter without phase: positions, velocities, accelerations
and the readings of every sensor but encoders, of which positions are made.

The friction in the torque of a drive jumps where the joint reverses, which a filter would smear.
It is taken out before and put back after, as a function of the velocity that the estimator has:

    y' = u + F(q̇),    u = lowpass(y - E[F(q̇)])

What noise is left follows from the filter's impulse response h: white noise of standard deviation
sigma becomes sigma |h|, that of accelerations which come from positions sigma_q |ḧ|. Of what is
stated for a reading, only the part that the log shows to be white becomes less; the rest may be an
error that lasts, and stays. Beside it stands the doubt about friction (`friction_spread`), which
lasts as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.ndimage import maximum_filter1d
from scipy.signal import fftconvolve

from bodysense.estimation.friction_spread import friction_spread
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.torque_noise import seen_noise
from bodysense.logs.bandwidth import Bandwidth, white_noise
from bodysense.logs.filtering import (
    SmoothMotion,
    differentiate,
    is_even,
    lowpass,
    smooth_motion,
    usable_cutoff,
)
from bodysense.logs.log import Log
from bodysense.robot.dynamics import mass_matrix
from bodysense.robot.frames import supporting_joints
from bodysense.sensors.motion_sensors import (
    Encoder,
    Gyroscope,
    JointAcceleration,
    JointVelocity,
    Orientation,
)
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array

LOWEST, HIGHEST = 5.0, 20.0
"""Hz between which the bandwidth is chosen: a push of a hand takes some 50 ms to rise, and noise of
accelerations grows with its square. Motion that is faster raises the upper one."""

_OF_MOTION = 2.0  # bandwidths of the motion that pass in any case
_SLOW_SENSOR = 2.5  # readings per period of the cut-off below which they are not filtered
_TOLERANCE = 0.1  # share within which a stated standard deviation is the one that is seen
_UNSURE = 2.5  # over √(duration · cut-off): likewise, of what a short log shows of its noise
BORDER = 2.0  # periods of the cut-off beside a gap in which a filter sees too little
_WIDEST = 0.2  # of the sampling rate: band of velocities at most
_STILL_SHARE = 0.02  # of its r.m.s. speed: likewise
_SETTLING = 0.15  # s beside a stand in which friction is that of presliding
_NEAR = 0.5  # periods of a band within which its error is about as large
_LONG = 4.0  # periods of the cut-off after which the filter has forgotten an impulse
_POSES = 40  # at which masses are averaged
_MAD = 1.4826  # standard deviation over the median size of a Gaussian
_HALVED = 0.5  # what a band of twice the width loses, of what it gains: less than that
_STILL = 2e-3  # rad/s or m/s: a joint that is slower for a period of the cut-off stands


def chosen_cutoff(segments: Sequence[Log]) -> float:
    """Bandwidth of an estimate [Hz]: up to where accelerations are more than noise, in bounds."""
    seen = Bandwidth.of([segments])
    upper = max(HIGHEST, _OF_MOTION * seen.motion) if np.isfinite(seen.motion) else HIGHEST
    lower = max(LOWEST, _OF_MOTION * seen.motion) if np.isfinite(seen.motion) else LOWEST
    return float(min(seen.limit, np.clip(seen.visible, min(lower, upper), upper)))


@dataclass(frozen=True, eq=False)
class ReadingNoise:
    """Noise of the readings that an estimate of a log has, by sensor, in its stated deviations.

    Attributes:
        rate: samples per second [Hz].
        cutoff: of the filter [Hz].
        white: by sensor, standard deviation before the filter of what the filter makes less.
        lasting: by sensor, (T,) that of what stays as it is.
        sigma_q: (n,) white noise of positions [rad or m].
        standing: (T, n) where joints stand, whose friction may be anything up to the static one.
        second: sensors whose readings are second derivatives of positions; their `white` is that
            of the positions [rad or m], in stated deviations of the accelerations.
        plain: sensors whose readings are not filtered.
    """

    rate: float
    cutoff: float
    white: Mapping[str, float]
    lasting: Mapping[str, Array]
    sigma_q: Array
    standing: NDArray[np.bool_] | Array
    second: frozenset[str] = frozenset()
    plain: frozenset[str] = frozenset()
    _gains: dict[tuple[int, int, int], float] = field(default_factory=dict, repr=False)

    def scale(self, window: int = 1, step: int = 1) -> dict[str, Array]:
        """By sensor, (T,) noise of means over so many samples, over its stated deviation.

        The samples of a mean are `step` apart.
        """
        result = {}
        for name, lasting in self.lasting.items():
            order = 2 if name in self.second else 0
            gain = 1.0 if name in self.plain else self.gain(order, window, step)
            if name in self.plain and window > 1:
                gain = 1.0 / np.sqrt(window)
            result[name] = np.sqrt((gain * self.white[name]) ** 2 + lasting**2)
        return result

    def gain(self, derivatives: int, window: int = 1, step: int = 1) -> float:
        """|h| of the filter with so many derivatives and a mean over samples, per white noise."""
        key = derivatives, window, step
        if key not in self._gains:
            self._gains[key] = _gain(self.rate, self.cutoff, derivatives, window, step)
        return self._gains[key]

    def widened(self, ratio: Mapping[str, float]) -> ReadingNoise:
        """Noise that is `ratio` times as large for some sensors; what is added lasts."""
        now = self.scale()
        lasting = {
            name: np.sqrt(values**2 + (max(1.0, ratio.get(name, 1.0)) ** 2 - 1.0) * now[name] ** 2)
            for name, values in self.lasting.items()
        }
        return replace(self, lasting=lasting)

    def with_lasting(self, more: Mapping[str, Array]) -> ReadingNoise:
        """Noise of which more lasts: (T,) by sensor, in stated deviations."""
        lasting = {name: np.hypot(x, more.get(name, 0.0)) for name, x in self.lasting.items()}
        return replace(self, lasting=lasting)

    def part(self, which: slice | NDArray[np.int64]) -> ReadingNoise:
        """Of some samples."""
        lasting = {name: x[which] for name, x in self.lasting.items()}
        return replace(self, lasting=lasting, standing=self.standing[which])


def _gain(rate: float, cutoff: float, derivatives: int, window: int = 1, step: int = 1) -> float:
    x = _response(rate, cutoff)[:, None]
    for _ in range(derivatives):
        x = differentiate(x, rate)
    mean = np.zeros((window - 1) * step + 1)
    mean[::step] = 1.0 / window
    return float(np.linalg.norm(np.convolve(x[:, 0], mean)))


def _response(rate: float, cutoff: float) -> Array:
    """Impulse response of the filter, with its peak in the middle."""
    half = int(np.ceil(_LONG * rate / cutoff))
    x = np.zeros((2 * half + 1, 1))
    x[half] = 1.0
    return lowpass(x, rate, cutoff)[:, 0]


@dataclass(frozen=True, eq=False)
class Piece:
    """Samples without a gap: rows of the log, motion and readings (T, m) of the same bandwidth."""

    rows: NDArray[np.int64]
    motion: SmoothMotion
    readings: Array


class SignalFilter:
    """The filter of one log for one estimator; `piece` by piece, then the `noise` of all.

    Attributes:
        cutoff: what is asked for [Hz]; a log of a low rate has less.
    """

    def __init__(
        self,
        problem: MapDynamics,
        cutoff: float,
        derived: Sequence[JointAcceleration] = (),
        biases: Mapping[str, float] | None = None,
    ) -> None:
        """Start with nothing.

        Args:
            problem: the estimator, with biases among the noise of its sensors.
            cutoff: of the filter [Hz].
            derived: sensors whose readings are second derivatives of positions.
            biases: by sensor, root mean square standard deviation of its biases.
        """
        self._biases = {} if biases is None else biases
        self.cutoff = cutoff
        self._problem = problem
        self._derived = {sensor.name: sensor for sensor in derived}
        self._rates: list[tuple[int, float]] = []
        self._white: list[tuple[int, Array]] = []
        self._sigma_q: list[tuple[int, Array]] = []
        self._doubt: list[Array] = []
        self._stood: list[NDArray[np.bool_]] = []
        self._pieces: list[tuple[Array, Array, Array]] = []

    def piece(self, rows: NDArray[np.int64], t: Array, q: Array, y: Array) -> Piece:
        """Filter a stretch without gaps: positions (T, n), readings (T, m), NaN where absent."""
        even = _Even(t)
        limit = usable_cutoff(self.cutoff, even.rate)
        smooth = smooth_motion(even.to(q, smooth=True), even.rate, limit)
        motion = SmoothMotion(*(even.back(x) for x in smooth))
        sigma_q = self._encoder_noise(even, q)
        y = y.copy()
        for name, sensor in self._derived.items():
            place = self._problem.layout.slices[name]
            y[:, place] = motion.a[:, [sensor.joint_index(self._problem.robot)]]
        speed = _speed(even, q, sigma_q, limit)
        filtered, white = self._readings(even, y, motion, limit, speed)
        period = 1.0 / limit
        inner = np.flatnonzero((t - t[0] >= BORDER * period) & (t[-1] - t >= BORDER * period))
        self._rates.append((inner.size, even.rate))
        self._white.append((inner.size, white))
        self._sigma_q.append((inner.size, sigma_q))
        self._doubt[-1], self._stood[-1] = self._doubt[-1][inner], self._stood[-1][inner]
        piece = Piece(rows[inner], SmoothMotion(*(x[inner] for x in motion)), filtered[inner])
        self._pieces.append((piece.motion.q, piece.motion.v, piece.readings))
        return piece

    def noise(self, gravity: Array | None) -> ReadingNoise:
        """Of all pieces so far, one after the other; `gravity` is that of a root that is held."""
        problem, derived = self._problem, frozenset(self._derived)
        T = sum(size for size, _ in self._rates)
        rate = _mean([(n, np.array(r)) for n, r in self._rates])
        white, sigma_q = _mean(self._white), _mean(self._sigma_q)
        doubt = np.concatenate([np.zeros((0, len(self._drives))), *self._doubt])
        cutoff = usable_cutoff(self.cutoff, float(rate))
        result = ReadingNoise(
            float(rate), cutoff, {}, {}, np.asarray(sigma_q), np.zeros((T, 0)), derived, self._raw
        )
        seen_torques = seen_noise(
            problem, self._pieces, float(rate), cutoff, np.asarray(sigma_q), gravity
        )
        whites, lasting = {}, {}
        tolerance = 1.0 + max(_TOLERANCE, _UNSURE / np.sqrt(max(1.0, T / float(rate) * cutoff)))
        for sensor in problem.sensors:
            where = problem.layout.slices[sensor.name]
            stated = float(np.sqrt(np.trace(sensor.covariance) / sensor.size))
            if sensor.name in derived:
                seen = float(sigma_q[self._derived[sensor.name].joint_index(problem.robot)])
                own = seen * result.gain(2)
                whites[sensor.name] = seen / stated if stated else 0.0
            else:
                own = seen_torques.get(sensor.name, stated * _noisiest(sensor, white[where]))
                right = stated / tolerance <= own <= stated * tolerance
                own = stated if np.isnan(own) or right else own
                whites[sensor.name] = own / stated if stated else 0.0
            bias = self._biases.get(sensor.name, 0.0)  # a part of what is stated, and none of noise
            left = max(0.0, stated**2 - bias**2 - (tolerance * own) ** 2) + bias**2
            lasting[sensor.name] = np.full(T, np.sqrt(left) / stated if stated else 1.0)
        for name, share in self._of_velocities(result).items():
            lasting[name] = np.hypot(lasting[name], share)
        for k, sensor in enumerate(self._drives):
            stated = float(np.sqrt(sensor.covariance[0, 0]))
            if stated:
                lasting[sensor.name] = np.hypot(lasting[sensor.name], doubt[:, k] / stated)
        return replace(result, white=whites, lasting=lasting, standing=np.concatenate(self._stood))

    def _of_velocities(self, noise: ReadingNoise) -> dict[str, float]:
        """By gyroscope and tachometer, noise of the velocities that it is held against.

        In stated deviations: of the joints between the root and its link, and of another gyroscope
        where the root floats.
        """
        problem, robot = self._problem, self._problem.robot
        sigma_v, result = noise.sigma_q * noise.gain(1), {}
        moves = supporting_joints(robot)[0 if robot.floating_base else 1 :]
        for sensor in problem.sensors:
            if not isinstance(sensor, Gyroscope | JointVelocity):
                continue
            stated = float(np.sqrt(np.trace(sensor.covariance) / sensor.size))
            if isinstance(sensor, Gyroscope):
                link = robot.link_names.index(sensor.placement(robot).link)
                added = float(np.sum(sigma_v[moves[link]] ** 2))
                added += (stated * noise.gain(0)) ** 2 if problem.tree.floating else 0.0
            else:
                added = float(sigma_v[sensor.joint_index(robot)] ** 2)
            result[sensor.name] = np.sqrt(added) / stated if stated else 0.0
        return result

    @cached_property
    def _drives(self) -> tuple[Sensor, ...]:
        robot = self._problem.robot
        return tuple(s for s in self._problem.sensors if s.measurement(robot).friction)

    @cached_property
    def _raw(self) -> frozenset[str]:
        """Sensors whose readings are taken as they are."""
        kinds = Encoder, Orientation
        return frozenset(
            s.name for s in self._problem.sensors if isinstance(s, kinds) or not s.channels
        )

    def _encoder_noise(self, even: _Even, q: Array) -> Array:
        """(n,) standard deviations of recorded positions: stated, or seen."""
        seen = white_noise(even.to(q, smooth=True), even.rate)
        sigma = np.where(np.isnan(seen), 0.0, seen)
        for sensor in self._problem.sensors:
            if isinstance(sensor, Encoder):
                j = sensor.joint_index(self._problem.robot)
                sigma[j] = float(np.sqrt(sensor.covariance[0, 0]))
        return sigma

    def _readings(
        self, even: _Even, y: Array, motion: SmoothMotion, limit: float, speed: _Speed
    ) -> tuple[Array, Array]:
        """Readings after the filter, and their white noise before it, (m,)."""
        problem, out = self._problem, y.copy()
        white = np.full(y.shape[1], np.nan)
        friction, doubt = self._friction(y, motion, even, limit, speed)
        for sensor in problem.sensors:
            where = problem.layout.slices[sensor.name]
            if sensor.name in self._raw or sensor.name in self._derived:
                continue
            for k in range(where.start, where.stop):
                known = np.isfinite(y[:, k])
                share = float(known.mean())
                if share * even.rate < _SLOW_SENSOR * limit:
                    continue
                net = y[:, k] - friction.get(sensor.name, 0.0)
                filled = net if known.all() else np.interp(even.t, even.t[known], net[known])
                smooth = even.back(lowpass(even.to(filled[:, None]), even.rate, limit))[:, 0]
                out[:, k] = np.where(_supported(known, even.rate, limit), smooth, np.nan)
                noise = white_noise(filled[known][:, None], share * even.rate)[0]
                white[k] = noise / np.sqrt(share)
        self._doubt.append(doubt)
        return self._with_friction(out, motion), white

    def _friction(
        self, y: Array, motion: SmoothMotion, even: _Even, limit: float, speed: _Speed
    ) -> tuple[dict[str, Array], Array]:
        """By sensor of a drive, (T,) its mean friction; (T, drives) what is not known of it."""
        problem = self._problem
        if not self._drives or (not problem.drive.any() and not problem.under_load):
            self._stood.append(np.zeros(motion.v.shape, dtype=bool))
            return {}, np.zeros((len(y), len(self._drives)))
        joints = [problem.robot.joint_names.index(_joint(s)) for s in self._drives]
        places = [problem.layout.slices[s.name].start for s in self._drives]
        net = np.where(np.isfinite(y), y, 0.0)
        shaken = _shaking(problem, even, net[:, places], joints, motion.q, limit)
        net[:, places] = even.back(lowpass(even.to(net[:, places]), even.rate, limit))
        problem.take_load_friction(motion.v, net)
        load = np.zeros_like(motion.v)
        load[:, joints] = net[:, places]
        period = max(1, int(even.rate / limit))
        beside = int(_SETTLING * even.rate)
        standing = _standing(motion.v, speed.std, period)
        settling = maximum_filter1d(standing.astype(np.uint8), 2 * beside + 1, axis=0).astype(bool)
        spread = friction_spread(problem.robot, speed.v, speed.std, load, settling, shaken)
        reach = np.abs(_response(even.rate, limit))[:, None]  # what errs in one direction adds up
        own = even.to(spread.std[:, joints])
        largest = maximum_filter1d(own, len(reach), axis=0)
        doubt = even.back(np.minimum(fftconvolve(own, reach, "same", axes=0), largest))
        self._stood.append(standing)
        mean = {s.name: spread.mean[:, j] for s, j in zip(self._drives, joints, strict=True)}
        return mean, np.maximum(doubt, 0.0)

    def _with_friction(self, y: Array, motion: SmoothMotion) -> Array:
        """Readings of drives (T, m) with the friction that the estimator takes out again."""
        problem = self._problem
        for sensor in self._drives:
            j = problem.robot.joint_names.index(_joint(sensor))
            place = problem.layout.slices[sensor.name].start
            law, shape = problem.robot.friction.model, problem.robot.friction.shape[j]
            phi, _ = law.basis(motion.v[:, j], shape)
            net = y[:, place].copy()
            y[:, place] += phi @ problem.drive[j]
            if law.depends_on_load:
                Fl = problem.robot.theta[problem.robot.layout.friction("Fl")][j]
                y[:, place] += Fl * np.abs(net) * phi[:, -1]
        return y


class _Speed(NamedTuple):
    """(T, n) velocities that show when joints reverse, and standard deviations of their errors."""

    v: Array
    std: Array


def _speed(even: _Even, q: Array, sigma_q: Array, limit: float) -> _Speed:
    """Velocities of as wide a band as their noise allows, joint by joint.

    Friction turns where a velocity is zero: its time errs by the noise of the velocity over the
    acceleration, more of it in a wider band, and by what a narrow band takes away, which is seen in
    the difference of two bands. The band with the least of both is taken.
    """
    q = even.to(q, smooth=True)
    bands = [limit]
    while 2.0 * bands[-1] < _WIDEST * even.rate:
        bands.append(2.0 * bands[-1])
    v = [differentiate(lowpass(q, even.rate, f), even.rate) for f in bands]
    best, std = v[0].copy(), np.full_like(v[0], np.inf)
    cost = np.full(q.shape[1], np.inf)
    for k, f in enumerate(bands):
        noise = sigma_q * _gain(even.rate, f, 1)
        other = v[k - 1] if k else (v[1] if len(v) > 1 else v[0])
        reach = max(1, int(_NEAR * even.rate / f))
        share = _HALVED if k else 1.0
        lost = share * maximum_filter1d(np.abs(v[k] - other), 2 * reach + 1, axis=0)
        between = 0.5 * np.abs(np.gradient(v[k], axis=0))  # of two samples
        error = np.sqrt(noise**2 + lost**2 + between**2)
        total = np.sqrt(np.mean(error**2, axis=0))
        better = total < cost
        best[:, better], std[:, better] = v[k][:, better], error[:, better]
        cost = np.where(better, total, cost)
    return _Speed(even.back(best), even.back(std))


def _shaking(
    problem: MapDynamics, even: _Even, tau: Array, joints: list[int], q: Array, limit: float
) -> Array:
    """(n,) standard deviations of velocities beyond the cut-off, from torques of drives (T, k).

    A controller that answers the noise of its encoders shakes the joint. Where the joint is slow it
    then reverses many times, and friction is neither on one side nor on the other.
    """
    some = np.linspace(0, len(q) - 1, _POSES).astype(int)
    mass = np.einsum("tii->ti", mass_matrix(problem.robot, q[some])).mean(axis=0)[joints]
    tau = even.to(tau)
    fast = tau - lowpass(tau, even.rate, limit)
    v = np.cumsum(fast, axis=0) / (even.rate * mass)
    v -= lowpass(v, even.rate, limit)
    result = np.zeros(problem.robot.n_joints)
    result[joints] = _MAD * np.median(np.abs(v), axis=0)
    return result


def _noisiest(sensor: Sensor, white: Array) -> float:
    """White noise (m,) over what is stated, of the axis where it is most; NaN if none is seen.

    A structure that vibrates gives a force/torque sensor other noise in moments than in forces.
    """
    stated = np.sqrt(np.diag(sensor.covariance))
    told = np.isfinite(white) & (stated > 0.0)
    return float((white[told] / stated[told]).max()) if told.any() else np.nan


def _joint(sensor: Sensor) -> str:
    return str(getattr(sensor, "joint", ""))


class _Even:
    """Signals at times (T,) on an even grid, and back; the times themselves, if they are even."""

    def __init__(self, t: Array) -> None:
        self.t, self.rate = t, float((t.size - 1) / (t[-1] - t[0]))
        self._grid = None if is_even(t) else np.linspace(t[0], t[-1], t.size)

    def to(self, x: Array, *, smooth: bool = False) -> Array:
        """From the times to the grid: by a cubic spline if x is smooth, else by straight lines."""
        if self._grid is None:
            return x
        if not smooth:
            return np.stack([np.interp(self._grid, self.t, column) for column in x.T], axis=1)
        values: Array = make_interp_spline(self.t, x, k=3)(self._grid)
        return values

    def back(self, x: Array) -> Array:
        """From the grid to the times."""
        if self._grid is None:
            return x
        values: Array = make_interp_spline(self._grid, x, k=3)(self.t)
        return values


def _standing(v: Array, sigma_v: Array, period: int) -> NDArray[np.bool_]:
    """(T, n) where joints stand: slower than their noise for two periods of the cut-off."""
    usual = _STILL_SHARE * np.sqrt(np.mean(v**2, axis=0))
    slow = np.abs(v) < np.maximum(np.maximum(_STILL, usual), 3.0 * sigma_v)
    window = np.ones(2 * period + 1)
    result = np.zeros_like(slow)
    for j in range(v.shape[1]):
        count = np.convolve(slow[:, j], window, mode="same")
        full = np.convolve(np.ones(len(v)), window, mode="same")
        result[:, j] = count >= full - 0.5
    return maximum_filter1d(result.astype(np.uint8), 2 * period + 1, axis=0).astype(bool)


def _supported(known: NDArray[np.bool_], rate: float, limit: float) -> NDArray[np.bool_]:
    """Where a filtered reading stands on readings: not in a gap longer than it can bridge."""
    period = max(1, int(np.ceil(BORDER * rate / limit)))
    edges = np.flatnonzero(np.diff(np.r_[0, ~known, 0]))
    result = known.copy()
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        if last - first > period:
            result[max(0, first - period) : last + period] = False
    return result


def _mean(parts: Sequence[tuple[int, Array]]) -> Array:
    """Root mean square over pieces, by their samples."""
    sizes = np.array([float(size) for size, _ in parts])
    values = np.stack([np.asarray(value, dtype=np.float64) for _, value in parts])
    weights = sizes / sizes.sum() if sizes.any() else np.full(sizes.size, 1.0 / sizes.size)
    with np.errstate(invalid="ignore"):
        mean: Array = np.sqrt(np.tensordot(weights, values**2, axes=1))
    return mean
