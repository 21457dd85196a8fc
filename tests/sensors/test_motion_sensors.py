"""What sensors of motion read, against Pinocchio's frames."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.robot import Robot, inverse_dynamics
from bodysense.sensors import SENSORS, Mount, Orientation
from bodysense.spatial import exp_so3

ROBOTS = ["serial", "branched", "floating", "example:panda", "example:icub"]


def frame_readings(scene, sensor):
    """Pinocchio's angular velocity, angular and proper classical acceleration, orientation."""
    joint, T = scene.place(sensor.mount.frame, sensor.mount.R, sensor.mount.p)
    model = scene.robot.model.copy()
    frame = model.addFrame(pin.Frame("probe", joint, 0, T, pin.FrameType.OP_FRAME))
    data = model.createData()
    pin.forwardKinematics(model, data, scene.q, scene.v, scene.a)
    pin.updateFramePlacements(model, data)
    R = data.oMf[frame].rotation
    classical = pin.getFrameClassicalAcceleration(model, data, frame, pin.LOCAL).linear
    return {
        "gyroscope": pin.getFrameVelocity(model, data, frame, pin.LOCAL).angular,
        "angular_accelerometer": pin.getFrameAcceleration(model, data, frame, pin.LOCAL).angular,
        "accelerometer": classical - R.T @ model.gravity.linear,
        "orientation": R,
    }


@pytest.mark.parametrize("kind", ["gyroscope", "angular_accelerometer", "accelerometer"])
@pytest.mark.parametrize("name", ROBOTS)
def test_a_link_sensor_reads_what_its_frame_does(
    name, kind, robot_of, scene_of, sensor_of, rng: np.random.Generator
):
    robot = robot_of(name)
    for link in rng.choice(robot.link_names, 4):
        sensor = sensor_of(kind, rng, str(link), "")
        scene = scene_of(robot, rng)
        expected = frame_readings(scene, sensor)[kind]
        found = scene.predict(sensor.measurement(robot))
        np.testing.assert_allclose(found, expected, atol=1e-10 * (1.0 + np.abs(expected).max()))


@pytest.mark.parametrize("name", ROBOTS)
def test_orientation_is_that_of_its_frame(name, robot_of, scene_of, sensor_of, rng):
    robot = robot_of(name)
    sensor = sensor_of("orientation", rng, robot.link_names[-1], "")
    scene = scene_of(robot, rng)
    m = sensor.measurement(robot)
    assert m.size == sensor.size == 3
    R_world_link = scene.data.oMi[robot.link_names.index(m.link) + 1].rotation
    expected = frame_readings(scene, sensor)["orientation"]
    np.testing.assert_allclose(R_world_link @ m.rotation, expected, atol=1e-13)


def test_quaternions_become_rotation_vectors(rng):
    sensor = Orientation(name="imu", covariance=np.eye(3), mount=Mount("arm"))
    R = exp_so3(rng.normal(scale=2.0, size=(50, 3)))
    q = np.array([pin.Quaternion(each).coeffs() for each in R])  # Pinocchio puts w last too
    signs = rng.choice([-1.0, 1.0], (50, 1))
    np.testing.assert_allclose(exp_so3(sensor.reading(signs * q)), R, atol=1e-12)
    np.testing.assert_allclose(sensor.reading(1.05 * q), sensor.reading(-q), atol=1e-12)
    assert np.abs(sensor.reading([[0, 0, 0, 1], [0, 0, 0, -1]])).max() == 0.0
    bad = [[0, 0, 0, 0], [np.nan, 0, 0, 1], [3, 0, 0, 4], [0.4, 0, 0, 0.4], [np.inf, 0, 0, 1]]
    assert np.isnan(sensor.reading(bad)).all()


def test_quaternions_have_w_last(rng):
    named = [f"quat.imu.{axis}" for axis in "wxyz"]
    with pytest.raises(ShapeError, match="w last"):
        Orientation(name="imu", covariance=np.eye(3), mount=Mount("arm"), channels=tuple(named))
    right = tuple(named[1:] + named[:1])
    sensor = Orientation(name="imu", covariance=np.eye(3), mount=Mount("arm"), channels=right)
    assert sensor.channels == right
    assert sensor.rows == (("x", "rad"), ("y", "rad"), ("z", "rad"))


def test_a_sensor_on_a_body_behind_a_fixed_joint_is_on_the_link_that_carries_it(
    robot_of, scene_of, sensor_of, rng
):
    robot = robot_of("example:icub")
    frame = robot.model.frames[robot.model.getFrameId("l_upper_arm")]
    assert not frame.placement.isIdentity()
    sensor = sensor_of("accelerometer", rng, "l_upper_arm", "")
    m = sensor.measurement(robot)
    assert m.link == robot.link_names[frame.parentJoint - 1] != "l_upper_arm"
    scene = scene_of(robot, rng)
    expected = frame_readings(scene, sensor)["accelerometer"]
    np.testing.assert_allclose(scene.predict(m), expected, atol=1e-10 * np.abs(expected).max())


def test_an_accelerometer_at_rest_reads_minus_gravity(robot_of, scene_of, sensor_of, rng):
    robot = robot_of("example:panda")
    scene = scene_of(robot, rng)
    pin.rnea(robot.model, scene.data, scene.q, 0.0 * scene.v, 0.0 * scene.a)
    sensor = sensor_of("accelerometer", rng, robot.link_names[3], "")
    assert np.linalg.norm(scene.predict(sensor.measurement(robot))) == pytest.approx(9.81)


@pytest.mark.parametrize("name", ["serial", "floating"])
def test_joint_sensors_read_their_joint(name, robot_of, scene_of, sensor_of, rng):
    robot = robot_of(name)
    scene = scene_of(robot, rng)
    base = robot.nv - robot.n_joints
    for j, joint in enumerate(robot.joint_names):
        expected = {
            "encoder": scene.q[robot.nq - robot.n_joints + j],
            "joint_velocity": scene.v[base + j],
            "joint_acceleration": scene.a[base + j],
            "joint_torque": scene.torque(robot.model.getJointId(joint)),
        }
        for kind, value in expected.items():
            m = sensor_of(kind, rng, "", joint).measurement(robot)
            assert scene.predict(m).item() == value
            assert not m.friction


@pytest.mark.parametrize("name", ["serial", "floating", "tx40"])
def test_the_drive_also_moves_the_rotor_and_the_friction(name, robot_of, scene_of, sensor_of, rng):
    robot = robot_of(name)
    scene = scene_of(robot, rng)
    pin.rnea(robot.model, scene.data, scene.q, scene.v, scene.a)  # nothing pushes
    tau = inverse_dynamics(robot, scene.q[None], scene.v[None], scene.a[None])[0]
    base = robot.nv - robot.n_joints
    for j, joint in enumerate(robot.joint_names):
        m = sensor_of("joint_torque", rng, "", joint, side="drive").measurement(robot)
        assert m.friction
        law = robot.friction
        phi, _ = law.model.basis(scene.v[base + j : base + j + 1], law.shape[j])
        terms = [robot.theta[robot.layout.friction(term)][j] for term in law.model.terms]
        found = scene.predict(m) + phi @ terms
        np.testing.assert_allclose(found, tau[base + j], atol=1e-10 * np.abs(tau).max())


def test_a_drive_that_moves_two_joints_is_refused(robot_of, sensor_of, rng):
    robot = robot_of("tx40-three")
    sensor = sensor_of("joint_torque", rng, "", robot.joint_names[5], side="drive")
    with pytest.raises(MismatchError, match=r"several joints each.*side: joint"):
        sensor.measurement(robot)
    assert sensor_of("joint_torque", rng, "", robot.joint_names[5]).measurement(robot).size == 1


@pytest.mark.parametrize("kind", SENSORS)
def test_derivatives_by_the_twist(kind, robot_of, sensor_of, rng: np.random.Generator):
    robot: Robot = robot_of("branched")
    sensor = sensor_of(kind, rng, robot.link_names[5], robot.joint_names[5])
    m = sensor.measurement(robot)
    np.testing.assert_array_equal(m.quadratic, m.quadratic.swapaxes(1, 2))

    def of_twist(v):
        return np.einsum("i,kij,j->k", v, m.quadratic, v) + m.linear @ v

    v = rng.normal(scale=2.0, size=6)
    analytic = 2.0 * m.quadratic @ v + m.linear
    steps = 1e-3 * np.eye(6)
    numeric = np.stack([of_twist(v + d) - of_twist(v - d) for d in steps], axis=1) / 2e-3
    np.testing.assert_allclose(analytic, numeric, atol=1e-9 * (1.0 + np.abs(analytic).max()))


@pytest.mark.parametrize("kind", SENSORS)
def test_a_place_of_another_robot_is_refused_by_name(kind, robot_of, sensor_of, rng):
    sensor = sensor_of(kind, rng, "panda_link33", "panda_joint33")
    with pytest.raises(UnknownNameError, match=rf"panda_(link|joint)33.*did you mean.*{kind}"):
        sensor.measurement(robot_of("example:panda"))


@pytest.mark.parametrize("kind", ["gyroscope", "accelerometer", "external_wrench", "orientation"])
def test_the_ground_is_no_place_for_a_sensor(kind, robot_of, sensor_of, rng):
    robot = robot_of("example:panda")
    ground = next(f.name for f in robot.model.frames if f.parentJoint == 0 and "link" in f.name)
    with pytest.raises(MismatchError, match=r"part of the ground.*floating base \(--floating"):
        sensor_of(kind, rng, ground, "").measurement(robot)
