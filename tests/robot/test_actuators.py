from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import BodysenseError, ShapeError, UnknownNameError
from bodysense.robot import Actuators, Controller

COUPLING = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, -2.0, 1.0]])


def wrist() -> Actuators:
    return Actuators.from_values(
        3, gear_ratio=[10.0, -20.0, 30.0], drive_gain=[1.0, 2.0, 3.0], coupling=COUPLING
    )


def test_motor_angles_by_hand():
    drives = wrist()
    R = np.array([[10.0, 0, 0], [-10.0, -20.0, 0], [0, -60.0, 30.0]])
    np.testing.assert_array_equal(drives.motor_from_joint, R)
    q = np.array([[0.1, 0.2, 0.3], [-1.0, 2.0, 0.5]])
    np.testing.assert_allclose(drives.joint_positions(q @ R.T), q, rtol=0, atol=1e-15)
    zero = np.array([0.5, -0.5, 0.25])
    np.testing.assert_allclose(
        drives.joint_positions((q - zero) @ R.T, zero), q, rtol=0, atol=1e-15
    )


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 6))
def test_power_is_the_same_on_both_sides(seed, n):
    rng = np.random.default_rng(seed)
    coupling = np.eye(n) + np.tril(rng.integers(-2, 3, (n, n)), -1)
    ratio = rng.uniform(1.0, 100.0, n) * rng.choice([-1.0, 1.0], n)
    drives = Actuators.from_values(
        n, gear_ratio=ratio, drive_gain=rng.uniform(0.1, 10.0, n), coupling=coupling
    )
    v, tau_motor, signal = rng.normal(size=(3, 4, n))
    v_motor = v @ drives.motor_from_joint.T
    scale = np.abs(tau_motor * v_motor).sum(axis=1)
    tau = drives.joint_torques(tau_motor)
    np.testing.assert_array_less(
        np.abs((tau * v).sum(axis=1) - (tau_motor * v_motor).sum(axis=1)), 1e-13 * scale + 1e-13
    )
    # in reduced motor coordinates the drive's torque is gain times signal
    reduced = v @ coupling.T
    tau = drives.drive_torques(signal)
    expected = (signal * drives.drive_gain * reduced).sum(axis=1)
    np.testing.assert_allclose((tau * v).sum(axis=1), expected, rtol=0, atol=1e-11)


def test_tx40_wrist(robot_of):
    drives = robot_of("tx40-coupled").actuators
    assert drives.motor_from_joint[5, 4] == 32.0
    assert np.count_nonzero(drives.motor_from_joint) == 7
    assert drives.coupled_motors == (5,)


def test_direct_drives_are_the_default():
    drives = Actuators.from_values(4)
    np.testing.assert_array_equal(drives.motor_from_joint, np.eye(4))
    np.testing.assert_array_equal(drives.drive_gain, np.ones(4))
    assert drives.coupled == drives.coupled_motors == drives.coupled_terms == ()
    assert drives.n_joints == 4
    assert Actuators.from_values(0).coupling.shape == (0, 0)


@pytest.mark.parametrize("size", [1e-30, 1e-9, 1.0, 1e15, 1e30])
def test_a_coupling_is_singular_whatever_its_units(size):
    # In rounding, the determinant of this is anything.
    below = [[1.0, 0.0, 0.0], [3.3 * size, 1.0, 0.0], [7.7 * size, 1.23 * size, 1.0]]
    order = [2, 0, 1]
    assert Actuators.from_values(3, coupling=below).coupling[2, 1] == 1.23 * size
    assert Actuators.from_values(3, coupling=np.array(below)[order][:, order]).n_joints == 3
    each_other = [[1.0, size, 0.0], [1.1 / size, 1.0, 0.0], [0.0, 5.0, 1.0]]
    assert Actuators.from_values(3, coupling=each_other).n_joints == 3
    each_other[1][0] = 1.0 / size
    with pytest.raises(BodysenseError, match="singular"):
        Actuators.from_values(3, coupling=each_other)


def test_coupling_parameters_in_the_order_of_theta():
    assert wrist().coupled_motors == (1, 2)
    assert wrist().coupled == (("Fvm", 1), ("Fcm", 1), ("Fvm", 2), ("Fcm", 2))
    drives = Actuators.from_values(3, coupling=COUPLING, coupled_terms=("Fcm", "Iam"))
    assert drives.coupled_terms == ("Iam", "Fcm")  # always in this order
    assert Actuators.from_values(3, coupling=COUPLING, coupled_terms=()).coupled == ()
    # without coupling there is nothing to have parameters
    assert Actuators.from_values(3, coupling=np.eye(3), coupled_terms=("Iam",)).coupled_terms == ()


def test_arrays_are_own_copies_and_read_only():
    coupling = COUPLING.copy()
    drives = Actuators.from_values(3, coupling=coupling)
    coupling[1, 0] = 9.0
    assert drives.coupling[1, 0] == 0.5
    for array in (drives.gear_ratio, drives.drive_gain, drives.coupling):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2.0


@pytest.mark.parametrize(
    ("error", "message", "given_values"),
    [
        (ShapeError, "gear_ratio of joint 2 is zero: .* 1 for a direct", {"gear_ratio": [1, 0, 2]}),
        (ShapeError, "gear_ratio of joint 1 is zero", {"gear_ratio": 0}),
        (ShapeError, r"gear_ratio has shape \(2,\): give one number, or 3", {"gear_ratio": [1, 2]}),
        (ShapeError, "drive_gain holds nan", {"drive_gain": [1, np.nan, 1]}),
        (ShapeError, r"coupling has shape \(2, 2\), expected \(3, 3\)", {"coupling": np.eye(2)}),
        (ShapeError, "coupling holds inf", {"coupling": np.diag([1, np.inf, 1])}),
        (BodysenseError, "ones on its diagonal: .* gear_ratio", {"coupling": 2 * np.eye(3)}),
        (
            BodysenseError,
            "coupling is singular: every joint needs a motor",
            {"coupling": [[1, 1, 0], [1, 1, 0], [0, 0, 1]]},
        ),
        (
            UnknownNameError,
            "unknown coupled term 'Fvn': did you mean 'Fvm'",
            {"coupling": COUPLING, "coupled_terms": ("Fvn",)},
        ),
        (UnknownNameError, "unknown coupled term", {"coupled_terms": ("Ia",)}),
    ],
)
def test_bad_drives(error, message, given_values):
    with pytest.raises(error, match=message):
        Actuators.from_values(3, **given_values)


@pytest.mark.parametrize("method", ["joint_positions", "joint_torques", "drive_torques"])
def test_bad_signals(method):
    convert = getattr(wrist(), method)
    with pytest.raises(ShapeError, match=r"has shape \(3,\), expected \(any, 3\)"):
        convert(np.zeros(3))
    with pytest.raises(ShapeError, match=r"has shape \(5, 2\)"):
        convert(np.zeros((5, 2)))
    with pytest.raises(ShapeError, match="holds nan"):
        convert(np.full((1, 3), np.nan))
    assert convert(np.zeros((0, 3))).shape == (0, 3)


def test_zero_positions_must_fit():
    with pytest.raises(ShapeError, match="q_zero"):
        wrist().joint_positions(np.zeros((5, 3)), [0.0, 1.0])
    with pytest.raises(ShapeError, match="q_zero"):
        wrist().joint_positions(np.zeros((5, 3)), np.nan)


def test_controller():
    controller = Controller.from_gains(2, kp=[1.0, 2.0], kd=0.5, rate=1000)
    np.testing.assert_array_equal(controller.kp, [1, 2])
    np.testing.assert_array_equal(controller.kd, [0.5, 0.5])
    np.testing.assert_array_equal(controller.ki, [0, 0])
    assert controller.rate == 1000.0
    for rate in (0, -1, np.nan, np.inf):
        with pytest.raises(ShapeError, match=r"control rate is .*positive number of Hz"):
            Controller.from_gains(2, kp=1, kd=1, rate=rate)
    with pytest.raises(ShapeError, match=r"kd has shape \(3,\)"):
        Controller.from_gains(2, kp=1, kd=[1, 2, 3], rate=100)
    with pytest.raises(ShapeError, match="kp holds nan"):
        Controller.from_gains(2, kp=np.nan, kd=1, rate=100)
