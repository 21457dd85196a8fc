"""How noisy the torques of a log are for its estimate: their innovation just below the cut-off.

What is stated of a torque sensor is often not what its log shows. A controller answers the noise of
the encoders, and a log that keeps one of five of its torques folds that answer into the band of the
estimate; currents have ripple. What matters is the innovation

    r = tau - tau(q, q̇, q̈),

torque less that of the motion without any contact. Contacts, payloads and errors of the model are
slow beside the cut-off f_c; so the density of r from 0.4 to 0.9 f_c is that of the noise, once the
share of the accelerations is taken off,

    S_tau = S_r / |H(f)|² - Σ_k M_jk² S_qk (2 π f)⁴.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.signal import welch

from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.priors import Assumptions
from bodysense.robot.dynamics import mass_matrix
from bodysense.sensors.motion_sensors import JointTorque
from bodysense.spatial.arrays import Array

_BAND = (0.4, 0.9)  # of the cut-off, where nothing but noise is expected
_LINES = 6  # of the spectrum in this band, at least
_LEAST_SEGMENTS = 4  # of a spectrum whose median tells anything
_ORDER = 8  # of the filter without phase: twice that of one direction
_ASIDE = 1e6  # noise scale of readings that only are to be predicted
_POSES = 40  # at which masses are averaged
_LONGEST = 2**15  # samples that are looked at


def torque_sensors(problem: MapDynamics) -> tuple[JointTorque, ...]:
    """Sensors whose innovation the motion alone predicts: of a robot that is bolted down."""
    if problem.robot.floating_base:
        return ()
    return tuple(s for s in problem.sensors if isinstance(s, JointTorque) and s.channels)


def innovations(
    problem: MapDynamics, q: Array, dq: Array, readings: Array, gravity: Array | None
) -> Array:
    """(T, k) of all `torque_sensors`, without any contact; NaN where a reading is missing."""
    sensors = torque_sensors(problem)
    assumptions = problem.assumptions
    free = Assumptions(
        joint_acceleration=assumptions.joint_acceleration,
        base_acceleration=assumptions.base_acceleration,
        others=assumptions.others,
    )
    aside = {sensor.name: _ASIDE for sensor in sensors}
    result = problem.with_assumptions(free).estimate(
        q, dq, readings, gravity=gravity, detail="means", noise_scale=aside
    )
    return np.concatenate([result.residual[sensor.name] for sensor in sensors], axis=1)


def seen_noise(
    problem: MapDynamics,
    pieces: Sequence[tuple[Array, Array, Array]],
    rate: float,
    cutoff: float,
    sigma_q: Array,
    gravity: Array | None,
) -> dict[str, float]:
    """By torque sensor, standard deviation of white noise that explains its innovation.

    Args:
        problem: the estimator.
        pieces: q, dq (T, n) and readings (T, m), filtered, of stretches without gaps.
        rate: samples per second [Hz].
        cutoff: of the filter [Hz].
        sigma_q: (n,) white noise of positions.
        gravity: of a root that is held.

    Sensors of whose innovation too little is seen are left out.
    """
    sensors = torque_sensors(problem)
    if not sensors or not pieces:
        return {}
    q, dq, y = (x[:_LONGEST] for x in max(pieces, key=lambda piece: len(piece[0])))
    length = int(_LINES * rate / ((_BAND[1] - _BAND[0]) * cutoff))
    if len(q) < (_LEAST_SEGMENTS + 1) * length // 2:
        return {}
    r = innovations(problem, q, dq, y, gravity)
    some = np.linspace(0, len(q) - 1, _POSES).astype(int)
    M = mass_matrix(problem.robot, q[some])
    masses = np.mean(M**2, axis=0)
    result = {}
    for k, sensor in enumerate(sensors):
        known = np.isfinite(r[:, k])
        if not known.all():
            continue
        f, S = welch(  # type: ignore[call-overload]  # the stubs misspell "linear"
            r[:, k], rate, "hann", length, detrend="linear", average="median"
        )
        inside = (f >= _BAND[0] * cutoff) & (f <= _BAND[1] * cutoff)
        f, S = f[inside], S[inside] * (1.0 + (f[inside] / cutoff) ** _ORDER) ** 2
        j = sensor.joint_index(problem.robot)
        S_q = 2.0 * sigma_q**2 / rate
        S = S - float(masses[j] @ S_q) * (2.0 * np.pi * f) ** 4
        result[sensor.name] = float(np.sqrt(max(0.0, 0.5 * rate * np.median(S))))
    return result
