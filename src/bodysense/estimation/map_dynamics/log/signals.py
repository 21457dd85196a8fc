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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d
from scipy.signal import fftconvolve

from bodysense.estimation.friction_spread import friction_spread
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.joint_speed import (
    MAD,
    EvenGrid,
    JointSpeed,
    joint_speed,
    shaking,
    standing_joints,
    travelled,
)
from bodysense.estimation.map_dynamics.log.reading_noise import (
    ReadingNoise,
    impulse_response,
)
from bodysense.estimation.map_dynamics.log.torque_noise import seen_noise
from bodysense.logs.bandwidth import Bandwidth, white_noise
from bodysense.logs.filtering import (
    SmoothMotion,
    lowpass,
    smooth_motion,
    usable_cutoff,
)
from bodysense.logs.log import Log
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
_SETTLING = 0.15  # s beside a stand in which friction is that of presliding


def chosen_cutoff(segments: Sequence[Log]) -> float:
    """Bandwidth of an estimate [Hz]: up to where accelerations are more than noise, in bounds."""
    seen = Bandwidth.of([segments])
    upper = max(HIGHEST, _OF_MOTION * seen.motion) if np.isfinite(seen.motion) else HIGHEST
    lower = max(LOWEST, _OF_MOTION * seen.motion) if np.isfinite(seen.motion) else LOWEST
    return float(min(seen.limit, np.clip(seen.visible, min(lower, upper), upper)))


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
        even = EvenGrid(t)
        limit = usable_cutoff(self.cutoff, even.rate)
        smooth = smooth_motion(even.to(q, smooth=True), even.rate, limit)
        motion = SmoothMotion(*(even.back(x) for x in smooth))
        sigma_q = self._encoder_noise(even, q)
        y = y.copy()
        for name, sensor in self._derived.items():
            place = self._problem.layout.slices[name]
            y[:, place] = motion.a[:, [sensor.joint_index(self._problem.robot)]]
        speed = joint_speed(even, q, sigma_q, limit)
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
                turning = moves[link] & ~robot.tree.prismatic.astype(bool)
                added = float(np.sum(sigma_v[turning] ** 2))
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

    def _encoder_noise(self, even: EvenGrid, q: Array) -> Array:
        """(n,) standard deviations of recorded positions: stated, or seen."""
        seen = white_noise(even.to(q, smooth=True), even.rate)
        sigma = np.where(np.isnan(seen), 0.0, seen)
        for sensor in self._problem.sensors:
            if isinstance(sensor, Encoder):
                j = sensor.joint_index(self._problem.robot)
                sigma[j] = float(np.sqrt(sensor.covariance[0, 0]))
        return sigma

    def _readings(
        self, even: EvenGrid, y: Array, motion: SmoothMotion, limit: float, speed: JointSpeed
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
        self, y: Array, motion: SmoothMotion, even: EvenGrid, limit: float, speed: JointSpeed
    ) -> tuple[dict[str, Array], Array]:
        """By sensor of a drive, (T,) its mean friction; (T, drives) what is not known of it."""
        problem = self._problem
        if not self._drives or (not problem.drive.any() and not problem.under_load):
            self._stood.append(np.zeros(motion.v.shape, dtype=bool))
            return {}, np.zeros((len(y), len(self._drives)))
        joints = [problem.robot.joint_names.index(_joint(s)) for s in self._drives]
        places = [problem.layout.slices[s.name].start for s in self._drives]
        known = np.where(np.isfinite(y), y, 0.0)
        shaken = shaking(problem, even, known[:, places], joints, motion.q, limit)
        load, fast = self._loads(even, known, motion.v, limit)
        period = max(1, int(even.rate / limit))
        beside = int(_SETTLING * even.rate)
        standing = standing_joints(motion.v, speed.std, period)
        settling = maximum_filter1d(standing.astype(np.uint8), 2 * beside + 1, axis=0).astype(bool)
        spread = friction_spread(
            problem.robot,
            speed.v,
            speed.std,
            load,
            standing=settling,
            shaking=shaken,
            load_std=fast,
            travelled=travelled(motion.q, speed.v),
        )
        # What errs in one direction adds up.
        reach = np.abs(impulse_response(even.rate, limit))[:, None]
        own = even.to(spread.std[:, joints])
        largest = maximum_filter1d(own, len(reach), axis=0)
        doubt = even.back(np.minimum(fftconvolve(own, reach, "same", axes=0), largest))
        self._stood.append(standing)
        mean = {s.name: spread.mean[:, j] for s, j in zip(self._drives, joints, strict=True)}
        return mean, np.maximum(doubt, 0.0)

    def _loads(self, even: EvenGrid, y: Array, v: Array, limit: float) -> tuple[Array, Array]:
        """(T, n) torques of drives without friction, and (n,) standard deviations of fast ones."""
        problem, net = self._problem, y.copy()
        joints = [problem.robot.joint_names.index(_joint(s)) for s in self._drives]
        places = [problem.layout.slices[s.name].start for s in self._drives]
        net[:, places] = even.back(lowpass(even.to(net[:, places]), even.rate, limit))
        load, fast = np.zeros_like(v), np.zeros(v.shape[1])
        # Steps of friction are rare: the median does not see them.
        fast[joints] = MAD * np.median(np.abs(y[:, places] - net[:, places]), axis=0)
        problem.take_load_friction(v, net)
        law, shapes = problem.robot.friction.model, problem.robot.friction.shape
        for place, j in zip(places, joints, strict=True):
            phi, _ = law.basis(v[:, j], shapes[j])
            load[:, j] = net[:, place] - phi @ problem.drive[j]
        return load, fast

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


def _noisiest(sensor: Sensor, white: Array) -> float:
    """White noise (m,) over what is stated, of the axis where it is most; NaN if none is seen.

    A structure that vibrates gives a force/torque sensor other noise in moments than in forces.
    """
    stated = np.sqrt(np.diag(sensor.covariance))
    told = np.isfinite(white) & (stated > 0.0)
    return float((white[told] / stated[told]).max()) if told.any() else np.nan


def _joint(sensor: Sensor) -> str:
    return str(getattr(sensor, "joint", ""))


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
