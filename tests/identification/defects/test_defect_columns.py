"""Columns of defects against Pinocchio's derivatives, and logs corrected for what was done."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from scipy.signal import butter, sosfiltfilt

from bodysense.identification.defects.columns import (
    COLUMNS,
    DefectCandidate,
    PredictedTorques,
    across,
    candidates_of,
    corrected_motion,
    gravity_of,
    with_lengths,
)
from bodysense.identification.preprocessing import Motion
from bodysense.robot import inverse_dynamics, with_gravity

RATE = 200.0
CORNER = 1.0  # Hz


@pytest.fixture(scope="module")
def arm(small_arm):
    """The small arm without friction, which Pinocchio does not have; gravity is oblique."""
    theta = small_arm.theta.copy()
    theta[small_arm.layout.rotor.start :] = 0.0
    return with_gravity(small_arm.with_parameters(theta), np.array([3.0, -2.0, -9.0]))


@pytest.fixture(scope="module")
def motion(sines) -> Motion:
    t, q, v, a = sines(3, 4, 400, RATE)
    return Motion(t, q, v, a, np.zeros_like(q), np.zeros_like(q), RATE)


@pytest.fixture(scope="module")
def predicted(arm, motion) -> PredictedTorques:
    s = motion.t / motion.t[-1] - 0.5
    return PredictedTorques(
        arm, arm.theta, motion.q, motion.v, motion.a, RATE, s, np.array([1.0, 2.0, 3.0]), CORNER
    )


@pytest.fixture(scope="module")
def derivatives(arm, motion) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """By q, v and a, sample by sample."""
    data = arm.model.createData()
    return [
        tuple(np.array(x) for x in pin.computeRNEADerivatives(arm.model, data, *sample))
        for sample in zip(motion.q, motion.v, motion.a, strict=True)
    ]


def close(column, expected):
    np.testing.assert_allclose(column, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("j", range(3))
def test_zeros(predicted, derivatives, j):
    close(predicted.column(DefectCandidate("zero", j)), [-by_q[:, j] for by_q, _, _ in derivatives])


@pytest.mark.parametrize("j", range(3))
def test_position_scales(predicted, derivatives, motion, j):
    samples = zip(derivatives, motion.q[:, j], motion.v[:, j], motion.a[:, j], strict=True)
    expected = [
        -(by_q[:, j] * q + by_v[:, j] * v + by_a[:, j] * a)
        for (by_q, by_v, by_a), q, v, a in samples
    ]
    close(predicted.column(DefectCandidate("position-scale", j)), expected)


def test_time(predicted, derivatives, motion):
    samples = zip(derivatives, motion.v, motion.a, strict=True)
    expected = [by_v @ v + 2.0 * (by_a @ a) for (_, by_v, by_a), v, a in samples]
    close(predicted.column(DefectCandidate("time")), expected)


def test_delay(predicted):
    """d tau/dt, with the jerk as the derivative of analytic accelerations."""
    h = 1e-5
    ahead, behind = (
        inverse_dynamics(predicted.robot, *(x + s * h * dx for x, dx in rates))
        for s in (1.0, -1.0)
        for rates in [motion_rates(predicted)]
    )
    inner = slice(4, -4)  # at the ends differences are of a lower order
    column = predicted.column(DefectCandidate("delay"))
    expected = -(ahead - behind) / (2.0 * h)
    np.testing.assert_allclose(column[inner], expected[inner], atol=2e-4 * np.abs(expected).max())


def test_delay_of_one_joint(predicted):
    column = predicted.column(DefectCandidate("joint-delay", 1))
    np.testing.assert_array_equal(column[:, 1], predicted.column(DefectCandidate("delay"))[:, 1])
    assert not column[:, [0, 2]].any()


def test_low_pass(predicted):
    """Torques less those behind a zero-phase filter: nothing is left of what lies above it."""
    sos = butter(4, CORNER, fs=RATE, output="sos")
    filtered = sosfiltfilt(sos, predicted.tau, axis=0)
    column = predicted.column(DefectCandidate("low-pass"))
    inner = slice(int(1.5 * RATE / CORNER), -int(1.5 * RATE / CORNER))  # where ends do not matter
    tolerance = 0.05 * np.abs(column).max()
    np.testing.assert_allclose((predicted.tau + column)[inner], filtered[inner], atol=tolerance)


def motion_rates(predicted: PredictedTorques) -> list[tuple[np.ndarray, np.ndarray]]:
    """q, v and a, each with its rate of change."""
    jerk = np.gradient(predicted.a, 1.0 / RATE, axis=0, edge_order=2)
    return [
        (predicted.q, predicted.v),
        (predicted.v, predicted.a),
        (predicted.a, jerk),
    ]


def test_torque_scale(predicted):
    column = predicted.column(DefectCandidate("torque-scale", 1))
    np.testing.assert_array_equal(column[:, 1], predicted.tau[:, 1])
    assert not column[:, [0, 2]].any()


@pytest.mark.parametrize("axis", [0, 1])
def test_tilt(arm, predicted, axis):
    """Torques are linear in gravity: the difference of two of Pinocchio's."""
    g = gravity_of(arm)
    e = across(g)[axis]
    assert abs(e @ g) < 1e-12
    assert abs(np.linalg.norm(e) - 1.0) < 1e-12
    model = arm.model.copy()
    size, h = np.linalg.norm(g), 1e-3
    model.gravity.linear = g + h * size * e
    data = model.createData()
    samples = zip(predicted.q, predicted.v, predicted.a, strict=True)
    turned = np.array([pin.rnea(model, data, *sample) for sample in samples])
    close(predicted.column(DefectCandidate("tilt", axis)), (turned - predicted.tau) / h)


def test_drifts(small_arm, predicted, derivatives, motion):
    s = predicted.s
    by_q = np.array([by_q for by_q, _, _ in derivatives])
    column = predicted.column(DefectCandidate("zero-drift", 2))
    close(column, -s[:, None] * by_q[:, :, 2])
    column = predicted.column(DefectCandidate("torque-drift", 1))
    np.testing.assert_array_equal(column[:, 1], 2.0 * s)
    assert not column[:, [0, 2]].any()
    column = predicted.column(DefectCandidate("scale-drift", 1))
    np.testing.assert_array_equal(column[:, 1], (s + 0.5) * predicted.tau[:, 1])
    # A body at the origin of the last link, as heavy as the robot.
    model = predicted.robot.model.copy()
    mass = sum(float(predicted.robot.pi(k)[0]) for k in range(3))
    point = pin.Inertia(mass, np.zeros(3), np.zeros((3, 3)))
    for k in range(1, 4):
        model.inertias[k] = point if k == 3 else pin.Inertia.Zero()
    data = model.createData()
    samples = zip(motion.q, motion.v, motion.a, strict=True)
    tau = np.array([pin.rnea(model, data, *sample) for sample in samples])
    close(predicted.column(DefectCandidate("load-drift")), s[:, None] * tau)
    # Friction: all torque less that without it.
    parts = (motion.q, motion.v, motion.a)
    rubbing = PredictedTorques(small_arm, small_arm.theta, *parts, RATE, s, np.ones(3), CORNER)
    smooth = small_arm.theta.copy()
    smooth[small_arm.layout.rotor.stop :] = 0.0
    friction = rubbing.tau - inverse_dynamics(small_arm, *parts, theta=smooth)
    close(rubbing.column(DefectCandidate("friction-drift")), s[:, None] * friction)


def test_longer_links_turn_as_slower_ones(arm, motion):
    """With m / f², m c / f and I at links f times as long, inertia stays and gravity falls by f."""
    f = 1.7
    longer, theta = with_lengths(arm, f), arm.theta.copy()
    for k in range(3):
        theta[arm.layout.link(k)] /= np.array([f**2, f, f, f, 1, 1, 1, 1, 1, 1])
    # The slide's way is a length too.
    q, v, a = (x * np.array([1.0, f, 1.0]) for x in (motion.q, motion.v, motion.a))
    longer_tau = inverse_dynamics(longer, q, v, a, theta=theta)
    lighter = with_gravity(arm, gravity_of(arm) / f)
    expected = inverse_dynamics(lighter, motion.q, motion.v, motion.a)
    close(longer_tau * np.array([1.0, f, 1.0]), expected)


def test_every_candidate_has_a_column(arm, predicted):
    candidates = candidates_of(arm)
    assert len(set(candidates)) == len(candidates) == 3 + 6 * 3 + 2 + 2 + 2
    assert {candidate.kind for candidate in candidates} == set(COLUMNS)
    weightless = candidates_of(with_gravity(arm, np.zeros(3)))
    assert {candidate.kind for candidate in weightless} == set(COLUMNS) - {"tilt", "time"}
    for candidate in candidates:
        assert np.isfinite(predicted.column(candidate)).all()
    for column in predicted.friction_columns():
        assert column.shape == predicted.tau.shape


# -- a log with a defect, corrected for it, is the log without -----------------------------------


def with_torques(arm, motion: Motion) -> Motion:
    tau = inverse_dynamics(arm, motion.q, motion.v, motion.a)
    return Motion(motion.t, motion.q, motion.v, motion.a, tau, tau, RATE)


def test_corrected_of_a_zero_and_of_a_scale(arm, motion):
    sound = with_torques(arm, motion)
    q, tau = sound.q.copy(), sound.tau.copy()
    q[:, 1] += 0.3
    tau[:, 2] *= -1.4
    logged = Motion(sound.t, q, sound.v, sound.a, tau, tau, RATE)
    corrected = corrected_motion(logged, DefectCandidate("zero", 1), 0.3)
    corrected = corrected_motion(corrected, DefectCandidate("torque-scale", 2), -2.4)
    np.testing.assert_allclose(corrected.q, sound.q, atol=1e-12)
    np.testing.assert_allclose(corrected.tau, sound.tau, atol=1e-12)


def test_corrected_of_a_time_scale(arm, motion):
    sound = with_torques(arm, motion)
    logged = Motion(
        2.0 * sound.t, sound.q, sound.v / 2.0, sound.a / 4.0, sound.tau, sound.tau, RATE / 2.0
    )
    corrected = corrected_motion(logged, DefectCandidate("time"), 1.0)
    np.testing.assert_allclose(corrected.v, sound.v)
    np.testing.assert_allclose(corrected.a, sound.a)


def test_corrected_of_a_delay(arm, sines):
    t, q, v, a = sines(3, 4, 400, RATE)
    shifted = sines(3, 4, 400, RATE)
    delay = 4  # samples
    tau = inverse_dynamics(arm, *shifted[1:])
    late = np.concatenate([np.repeat(tau[:1], delay, axis=0), tau[:-delay]])
    corrected = corrected_motion(
        Motion(t, q, v, a, late, late, RATE), DefectCandidate("delay"), delay / RATE
    )
    np.testing.assert_allclose(corrected.tau[:-delay], tau[:-delay], atol=1e-9)
