"""Calibration of force/torque sensors, with readings at rest from Pinocchio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError, ShapeError
from bodysense.robot import load_robot, with_payload
from bodysense.sensors import ForceTorque, Mount, variances
from bodysense.sensors.calibration import NAMES, calibrate_force_torque
from bodysense.sensors.static_poses import static_poses
from bodysense.spatial import exp_so3, log_so3

BIAS = np.array([3.0, -2.0, 5.0, 0.2, -0.1, 0.05])
STD = (0.2, 0.2, 0.2, 0.01, 0.01, 0.01)


@pytest.fixture(scope="module")
def arm():
    """An arm with a tool, and the sensor at its wrist as its file has it."""
    robot = with_payload(
        load_robot("example:ur5"), 1.3, link="wrist_3_link", com=[0.02, 0.01, 0.08]
    )
    mount = Mount("wrist_3_link", exp_so3([0.4, -0.2, 1.0]), np.array([0.0, 0.02, 0.03]))
    return robot, ForceTorque(name="wrist", mount=mount, covariance=variances(STD, 6))


def poses(robot, rng, n):
    return rng.uniform(-2.0, 2.0, (n, robot.n_joints))


def at_rest(robot, sensor, q, G=None, bias=BIAS):
    """(N, 6) readings of a sensor whose axes are turned by G against those of its file."""
    model, data = robot.model, robot.model.createData()
    place = pin.SE3(np.array(sensor.mount.R), np.array(sensor.mount.p))
    zero, G = np.zeros(robot.nv), np.eye(3) if G is None else G
    y = []
    for row in q:
        pin.rnea(model, data, row, zero, zero)
        f = place.actInv(data.f[model.njoints - 1])
        y.append(sensor.sign * np.concatenate([G @ f.linear, G @ f.angular]) + bias)
    return np.array(y)


def truth(robot, sensor, G):
    """The parameters behind `at_rest`."""
    pi = robot.pi("wrist_3_link")
    com = sensor.mount.R.T @ (pi[1:4] / pi[0] - sensor.mount.p)
    return np.concatenate([[pi[0]], com, BIAS, log_so3(G)])


@pytest.mark.parametrize("turn", [(0.0, 0.0, 0.0), (0.05, -0.1, 0.02), (1.5, -2.0, 0.7)])
@pytest.mark.parametrize("sign", [1, -1])
def test_exact_readings_give_the_exact_tool(arm, turn, sign):
    robot, sensor = arm[0], replace(arm[1], sign=sign)
    q, G = poses(robot, np.random.default_rng(0), 8), exp_so3(turn)
    result = calibrate_force_torque(robot, sensor, q, at_rest(robot, sensor, q, G))
    assert result.status.ok
    assert result.undetermined == ()
    expected = truth(robot, sensor, G)
    if sign < 0:  # the rotation is about the same readings
        np.testing.assert_allclose(result.rotation, G, atol=1e-8)
    np.testing.assert_allclose(result.mean, expected, atol=1e-7)
    clean = at_rest(robot, sensor, q, bias=np.zeros(6))
    np.testing.assert_allclose(result.correct(at_rest(robot, sensor, q, G)), clean, atol=1e-7)


def test_known_axes_are_linear_least_squares(arm):
    robot, sensor = arm
    rng = np.random.default_rng(1)
    q = poses(robot, rng, 12)
    y = at_rest(robot, sensor, q) + rng.normal(size=(12, 6)) * STD
    result = calibrate_force_torque(robot, sensor, q, y, turn=False)
    bare = with_payload(load_robot("example:ur5"), 1.0, link="wrist_3_link")
    bare = bare.with_link("wrist_3_link", mass=1.0, com=sensor.mount.p, inertia=np.eye(3))
    u = at_rest(bare, sensor, q, bias=np.zeros(6))[:, :3]  # of a kilogram at the sensor
    X = np.concatenate(
        [np.column_stack([u[:, k : k + 1], np.tile(np.eye(3)[k], (12, 1))]) for k in range(3)]
    )
    b = y[:, :3].T.reshape(-1)
    x, rest, _, _ = np.linalg.lstsq(X, b)
    np.testing.assert_allclose(result.mean[[0, 4, 5, 6]], x, atol=1e-8)
    expected = np.sqrt(np.diag(np.linalg.inv(X.T @ X)) * rest[0] / (36 - 4))
    sigma = [result.sigma(name) for name in ("mass", "bias.fx", "bias.fy", "bias.fz")]
    np.testing.assert_allclose(sigma, expected, rtol=1e-3)
    cross = np.concatenate([np.cross(np.eye(3)[k], u)[:, None] for k in range(3)], axis=1)
    A = np.concatenate(
        [np.column_stack([cross[:, :, k], np.tile(np.eye(3)[k], (12, 1))]) for k in range(3)]
    )
    h = np.linalg.lstsq(A, y[:, 3:].T.reshape(-1))[0]
    np.testing.assert_allclose(result.mean[1:4], h[:3] / x[0], atol=1e-7)
    np.testing.assert_allclose(result.mean[7:10], h[3:], atol=1e-8)


def test_intervals_hold_the_truth_as_often_as_they_say(arm):
    robot, sensor = arm
    rng, G = np.random.default_rng(2), exp_so3([0.1, -0.2, 0.1])
    expected, hits = truth(robot, sensor, G), []
    for _ in range(100):
        q = poses(robot, rng, 10)
        y = at_rest(robot, sensor, q, G) + rng.normal(size=(10, 6)) * STD
        result = calibrate_force_torque(robot, sensor, q, y)
        bounds = np.array([result.interval(name) for name in NAMES])
        hits.append((bounds[:, 0] < expected) & (expected < bounds[:, 1]))
    assert 0.93 < np.mean(hits) < 0.97
    assert np.mean(hits, axis=0).min() > 0.88


def test_one_pose_determines_no_load(arm):
    robot, sensor = arm
    q = poses(robot, np.random.default_rng(3), 1)
    result = calibrate_force_torque(robot, sensor, q, at_rest(robot, sensor, q), turn=False)
    assert {"mass", "bias.fx", "bias.fy", "bias.fz"} <= set(result.undetermined)
    assert result.interval("mass") == (-np.inf, np.inf)
    assert "turn the sensor" in result.status.summary()
    assert "undetermined" in result.summary()


def test_turns_about_the_vertical_are_one_pose(arm):
    robot, sensor = arm
    q = np.tile(poses(robot, np.random.default_rng(3), 1), (6, 1))
    q[:, 0] = np.linspace(-2.0, 2.0, 6)
    y = at_rest(robot, sensor, q)
    result = calibrate_force_torque(robot, sensor, q, y)
    assert {"mass", "com.x", "bias.fz", "bias.mx", "turn.x"} <= set(result.undetermined)


def test_turns_about_a_level_axis_are_enough(arm):
    robot, sensor = arm
    q = np.zeros((6, 6))
    q[:, 5] = np.linspace(-2.0, 2.0, 6)  # of the flange
    result = calibrate_force_torque(robot, sensor, q, at_rest(robot, sensor, q))
    assert result.undetermined == ()
    np.testing.assert_allclose(result.mean, truth(robot, sensor, np.eye(3)), atol=1e-6)


def test_reversed_sensor_is_told(arm):
    robot, sensor = arm
    q = poses(robot, np.random.default_rng(4), 8)
    y = -at_rest(robot, sensor, q, bias=np.zeros(6))
    for turn in (True, False):
        result = calibrate_force_torque(robot, sensor, q, y, turn=turn)
        assert not result.status.ok
        assert "set `sign:`" in result.status.message


def test_known_mass_gives_the_scale(arm):
    robot, sensor = arm
    q = poses(robot, np.random.default_rng(5), 8)
    y = 1.05 * at_rest(robot, sensor, q, bias=np.zeros(6))
    mass = robot.pi("wrist_3_link")[0]
    result = calibrate_force_torque(robot, sensor, q, y, mass=mass)
    assert result.scale == pytest.approx(1.05, abs=1e-9)
    low, high = result.interval("scale")
    assert low <= result.scale <= high
    clean = at_rest(robot, sensor, q, bias=np.zeros(6))
    np.testing.assert_allclose(result.correct(y), clean, atol=1e-7)


def test_robot_with_the_calibrated_tool_reads_the_same(arm):
    robot, sensor = arm
    sub = np.array([0.1, 0.001, 0.0, 0.002, 1e-4, 0.0, 1e-4, 0.0, 0.0, 1e-4])
    inside = replace(sensor, sub_link=sub)
    q = poses(robot, np.random.default_rng(6), 8)
    y = at_rest(robot.with_parameters(_less(robot, sub)), sensor, q)  # what is beyond the cut
    bare = load_robot("example:ur5")
    found = calibrate_force_torque(bare, inside, q, y).on_robot(bare)
    np.testing.assert_allclose(
        found.pi("wrist_3_link")[:4], robot.pi("wrist_3_link")[:4], atol=1e-7
    )


def _less(robot, sub):
    theta = robot.theta.copy()
    theta[robot.layout.link("wrist_3_link")] -= sub
    return theta


def test_poses_of_a_log_are_averages_of_rests():
    rng = np.random.default_rng(7)
    t = np.arange(0.0, 12.0, 0.01)
    levels = rng.uniform(-1.0, 1.0, (6, 2))
    place, phase = np.minimum((t / 2.0).astype(int), 5), t % 2.0
    last = levels[np.maximum(place - 1, 0)]
    q = last + (levels[place] - last) * np.minimum(phase / 0.5, 1.0)[:, None]
    y = np.repeat(place[:, None].astype(float), 6, axis=1)
    y[300:320] = np.nan
    found = static_poses(t, q, y)
    assert len(found.q) == 6
    np.testing.assert_allclose(found.q, levels, atol=0.002)
    np.testing.assert_allclose(found.readings, np.repeat(np.arange(6.0)[:, None], 6, axis=1))


def test_slow_motion_counts_in_blocks():
    t = np.arange(0.0, 10.0, 0.01)
    q = np.column_stack([np.sin(0.2 * t), 0.1 * t])
    found = static_poses(t, q, np.tile(t[:, None], (1, 6)))
    assert len(found.q) == 39
    np.testing.assert_allclose(np.diff(found.readings[:, 0]), 0.25, atol=0.011)
    assert static_poses(t[:0], q[:0], np.zeros((0, 6))).q.shape == (0, 2)


def test_invalid_calls_are_refused(arm):
    robot, sensor = arm
    q = np.zeros((2, 6))
    y = np.zeros((2, 6))
    elbow = ForceTorque(name="elbow", joint="elbow_joint", covariance=np.eye(6))
    with pytest.raises(MismatchError, match="joints wrist_1_joint are beyond it"):
        calibrate_force_torque(robot, elbow, q, y)
    with pytest.raises(ShapeError, match="no poses"):
        calibrate_force_torque(robot, sensor, q[:0], y[:0])
    with pytest.raises(ShapeError, match=r"readings has shape \(1, 6\)"):
        calibrate_force_torque(robot, sensor, q, y[:1])
    with pytest.raises(ShapeError, match="mass beyond"):
        calibrate_force_torque(robot, sensor, q, y, mass=0.0)
    with pytest.raises(ShapeError, match="ForceTorque"):
        calibrate_force_torque(robot, "wrist", q, y)
    icub = load_robot("example:icub")
    hand = ForceTorque(name="hand", mount=Mount("l_hand"), covariance=np.eye(6))
    with pytest.raises(MismatchError, match="floats"):
        calibrate_force_torque(icub, hand, np.zeros((1, icub.n_joints)), np.zeros((1, 6)))


def test_dead_sensor_fails_without_an_exception(arm):
    robot, sensor = arm
    q = poses(robot, np.random.default_rng(8), 6)
    result = calibrate_force_torque(robot, sensor, q, np.zeros((6, 6)))
    assert np.isfinite(result.mean).all()
