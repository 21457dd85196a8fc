"""Damages of a recording: its torques, its positions, its times and its rows.

Each takes a clean subject and returns the damaged one; settings come first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt

from benchmarks.sabotage_subjects import RATE, Subject, simulate
from bodysense.logs.log import Log
from bodysense.spatial.arrays import Array


def hit(subject: Subject, rank: int) -> tuple[int, Subject]:
    """The joint of the given rank of torque (0: the largest), and the subject that knows it."""
    order = np.argsort(-subject.tau.std(axis=0))
    j = int(order[rank])
    return j, replace(subject, joint=subject.given.joint_names[j])


def hit_gravity(subject: Subject, rank: int) -> tuple[int, Subject]:
    """The same by torque of gravity: a joint that turns about the vertical has no zero."""
    order = np.argsort(-gravity_torques(subject).std(axis=0))
    j = int(order[rank])
    return j, replace(subject, joint=subject.given.joint_names[j])


def gravity_torques(subject: Subject) -> Array:
    """(n_t, n) torques that hold the robot at the recorded positions."""
    model = subject.truth.model
    data = model.createData()
    return np.array([pin.computeGeneralizedGravity(model, data, q).copy() for q in subject.q])


# Torques.


def scale_torque(factor: float, rank: int, subject: Subject) -> Subject:
    j, subject = hit(subject, rank)
    tau = subject.tau
    tau[:, j] *= factor
    return subject.recorded_as(subject.q, tau)


def offset_torque(subject: Subject) -> Subject:
    j, subject = hit(subject, 2)
    tau = subject.tau
    tau[:, j] += np.sqrt((tau[:, j] ** 2).mean())
    return subject.recorded_as(subject.q, tau)


def all_torques(change: Callable[[Subject, Array], Array], subject: Subject) -> Subject:
    return subject.recorded_as(subject.q, change(subject, subject.tau))


def one_torque(change: Callable[[Subject, Array], Array], rank: int, subject: Subject) -> Subject:
    j, subject = hit(subject, rank)
    tau = subject.tau
    tau[:, j] = change(subject, tau[:, j])
    return subject.recorded_as(subject.q, tau)


def late(seconds: float, x: Array) -> Array:
    steps = round(seconds * RATE)
    return np.concatenate([np.repeat(x[:1], steps, axis=0), x[:-steps]])


def lowpassed(cutoff: float, x: Array) -> Array:
    sos = butter(4, cutoff, fs=RATE, output="sos")
    return np.asarray(sosfiltfilt(sos, x, axis=0))


def without_gravity(subject: Subject, tau: Array) -> Array:
    return np.asarray(tau - gravity_torques(subject))


def to_currents(subject: Subject, tau: Array) -> Array:
    return np.asarray(tau / np.linspace(12.0, 6.0, tau.shape[1]))


def dead_band(subject: Subject, tau: Array) -> Array:
    return np.where(np.abs(tau) < np.percentile(np.abs(tau), 88.0), 0.0, tau)


def held(subject: Subject, x: Array) -> Array:
    return np.asarray(x[np.arange(x.shape[0]) // 8 * 8])


def quantised(subject: Subject, x: Array) -> Array:
    step = 0.15 * np.ptp(x)
    return np.asarray(step * np.rint(x / step))


def clipped(subject: Subject, x: Array) -> Array:
    most = np.percentile(np.abs(x), 75.0)
    return np.clip(x, -most, most)


def noisy(subject: Subject, tau: Array) -> Array:
    return np.asarray(tau + 0.1 * tau.std(axis=0) * subject.rng().normal(size=tau.shape))


def spikes(subject: Subject, x: Array) -> Array:
    at = subject.rng().choice(x.size, 20, replace=False)
    spoilt = x.copy()
    spoilt[at] += 50.0 * x.std() * subject.rng().choice([-1.0, 1.0], at.size)
    return spoilt


def drifting(subject: Subject, x: Array) -> Array:
    return np.asarray(x + x.std() * np.linspace(-1.0, 1.0, x.shape[0]))


def swelling(subject: Subject, x: Array) -> Array:
    return np.asarray(x * np.linspace(1.0, 1.4, x.shape[0]))


def swap_torques(subject: Subject) -> Subject:
    (j, subject), (k, _) = hit(subject, 1), hit(subject, 2)
    order = np.arange(subject.tau.shape[1])
    order[[j, k]] = k, j
    return subject.recorded_as(subject.q, subject.tau[:, order])


# Positions.


def shift_zero(angle: float, rank: int, subject: Subject) -> Subject:
    j, subject = hit_gravity(subject, rank)
    q = subject.q
    q[:, j] += angle
    return subject.recorded_as(q, subject.tau)


def drifting_zero(angle: float, rank: int, subject: Subject) -> Subject:
    """As of a belt that slips: from where the file has it to the angle."""
    j, subject = hit_gravity(subject, rank)
    q = subject.q
    q[:, j] += np.linspace(0.0, angle, q.shape[0])
    return subject.recorded_as(q, subject.tau)


def scale_position(factor: float, rank: int, subject: Subject) -> Subject:
    j, subject = hit(subject, rank)
    q = subject.q
    q[:, j] *= factor
    return subject.recorded_as(q, subject.tau)


def all_positions(change: Callable[[Array], Array], subject: Subject) -> Subject:
    return subject.recorded_as(change(subject.q), subject.tau)


def swap_positions(subject: Subject) -> Subject:
    (j, subject), (k, _) = hit(subject, 1), hit(subject, 2)
    order = np.arange(subject.q.shape[1])
    order[[j, k]] = k, j
    return subject.recorded_as(subject.q[:, order], subject.tau)


def stuck_position(subject: Subject) -> Subject:
    j, subject = hit(subject, 1)
    q = subject.q
    q[q.shape[0] // 2 :, j] = q[q.shape[0] // 2, j]
    return subject.recorded_as(q, subject.tau)


# Time and rows.


def timed(change: Callable[[Array], Array], subject: Subject) -> Subject:
    return replace(subject, log=replace(subject.log, t=change(subject.log.t)))


def keep_rows(subject: Subject, rows: NDArray[np.intp], t: Array | None = None) -> Subject:
    log = subject.log
    channels = {name: x[rows] for name, x in log.channels.items()}
    times = log.t[rows] if t is None else t
    log = Log(times, channels, {}, np.arange(1, times.size + 1), source=log.source)
    return replace(subject, log=log)


def dropped(subject: Subject) -> Subject:
    """A tenth of the samples lost in groups of five, and the time made even again."""
    lost = subject.rng().choice(subject.log.t.size // 5, subject.log.t.size // 50, replace=False)
    rows = np.flatnonzero(~np.isin(np.arange(subject.log.t.size) // 5, lost))
    return keep_rows(subject, rows, subject.log.t[: rows.size])


def jittery(subject: Subject) -> Subject:
    """Sampled unevenly by up to 12 ms, written down as even."""
    t = subject.log.t
    true = np.sort(t + subject.rng().uniform(-0.012, 0.012, t.size))
    q, tau = (
        np.stack([np.interp(true, t, x) for x in values.T], axis=1)
        for values in (subject.q, subject.tau)
    )
    return subject.recorded_as(q, tau)


def nan_bursts(subject: Subject) -> Subject:
    j, subject = hit(subject, 0)
    tau = subject.tau
    for start in subject.rng().choice(tau.shape[0] - 60, 8, replace=False):
        tau[start : start + 50, j] = np.nan
    return subject.recorded_as(subject.q, tau)


def clock_jumps(subject: Subject) -> Subject:
    t = subject.log.t.copy()
    for k, jump in ((800, -1.0), (1600, 30.0), (2200, -2.0)):
        t[k:] += jump
    return replace(subject, log=replace(subject.log, t=t))


def slow_rate(subject: Subject) -> Subject:
    return keep_rows(subject, np.arange(0, subject.log.t.size, 25))


def short(subject: Subject) -> Subject:
    return keep_rows(subject, np.arange(400, 900))


def standing(subject: Subject) -> Subject:
    q0 = subject.motion(np.array([0.0]))[0][0]

    def stand(t: Array) -> tuple[Array, Array, Array]:
        zero = np.zeros((np.size(t), q0.size))
        return zero + q0, zero, zero

    return replace(subject, log=simulate(subject.truth, stand, subject.seed))


def one_standing(subject: Subject) -> Subject:
    j, subject = hit(subject, 1)
    motion = subject.motion

    def partly(t: Array) -> tuple[Array, Array, Array]:
        q, v, a = motion(t)
        q[:, j], v[:, j], a[:, j] = q[0, j], 0.0, 0.0
        return q, v, a

    return replace(subject, log=simulate(subject.truth, partly, subject.seed))
