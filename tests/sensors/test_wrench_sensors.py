"""What sensors of wrenches read, against the balance of everything that hangs on them."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError, ShapeError
from bodysense.sensors import ForceTorque, Mount
from bodysense.spatial import exp_so3, random_pi
from bodysense.spatial.pseudo_inertia import spatial_inertia

ROBOTS = ["serial", "branched", "floating", "example:talos"]


def beyond(scene, joint, about, *, without=None):
    """Wrench that moves all links from `joint` on, in world axes, by Newton and Euler.

    Force and moment about a point of the world; `without` takes a part out of the first link.
    """
    robot, model, data = scene.robot, scene.robot.model, scene.data
    carried = [i for i in range(1, model.njoints) if joint in list(model.supports[i])]
    bodies = [(i, np.array(robot.pi(i - 1)), scene.fx[i]) for i in carried]
    if without is not None:
        bodies.append((joint, -without, pin.Force.Zero()))
    force, moment = np.zeros(3), np.zeros(3)
    for i, pi, fx in bodies:
        T = data.oMi[i]
        velocity, acceleration = T.act(data.v[i]), T.act(data.a_gf[i])
        omega, alpha = velocity.angular, acceleration.angular
        # Of the link's origin: gravity is in the acceleration already.
        at_origin = T.rotation @ (
            data.a_gf[i].linear + np.cross(data.v[i].angular, data.v[i].linear)
        )
        h, tensor = T.rotation @ pi[1:4], T.rotation @ spatial_inertia(pi)[3:, 3:] @ T.rotation.T
        inertial = (
            pi[0] * at_origin + np.cross(alpha, h) + np.cross(omega, np.cross(omega, h)),
            np.cross(h, at_origin) + tensor @ alpha + np.cross(omega, tensor @ omega),
        )
        net = inertial[0] - T.rotation @ fx.linear
        force += net
        moment += inertial[1] - T.rotation @ fx.angular + np.cross(T.translation - about, net)
    return force, moment


@pytest.mark.parametrize("side", ["child", "parent"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ROBOTS)
def test_at_a_joint_it_reads_what_moves_all_that_follows(name, sign, side, robot_of, scene_of, rng):
    robot = robot_of(name)
    model, scene = robot.model, scene_of(robot, rng)
    for child in range(3, model.njoints, 3):
        parent = model.parents[child]
        link = child if side == "child" else parent
        if link == 0:
            continue
        R, p = exp_so3(rng.normal(size=3)), rng.normal(size=3)
        sensor = ForceTorque(
            name="ft",
            covariance=np.eye(6),
            joint=model.names[child],
            mount=Mount(robot.link_names[link - 1], R, p),
            sign=sign,
        )
        T = scene.data.oMi[link] * pin.SE3(R, p)
        on_child = np.concatenate(
            [T.rotation.T @ part for part in beyond(scene, child, T.translation)]
        )
        expected = sign * on_child * (1 if side == "child" else -1)
        m = sensor.measurement(robot)
        assert (m.joint, m.link) == (model.names[child], robot.link_names[link - 1])
        np.testing.assert_allclose(scene.predict(m), expected, atol=1e-10 * np.abs(on_child).max())


@pytest.mark.parametrize("name", ROBOTS)
def test_inside_a_link_it_reads_what_moves_the_rest_of_it(name, robot_of, scene_of, rng):
    robot = robot_of(name)
    model, scene = robot.model, scene_of(robot, rng)
    for child in range(2, model.njoints, 3):
        R, p, pi = exp_so3(rng.normal(size=3)), rng.normal(size=3), random_pi(rng, 1)[0]
        sensor = ForceTorque(
            name="ft",
            covariance=np.eye(6),
            mount=Mount(robot.link_names[child - 1], R, p),
            sub_link=pi,
        )
        T = scene.data.oMi[child] * pin.SE3(R, p)
        parts = beyond(scene, child, T.translation, without=pi)
        expected = np.concatenate([T.rotation.T @ part for part in parts])
        m = sensor.measurement(robot)
        assert m.joint == model.names[child]
        np.testing.assert_allclose(scene.predict(m), expected, atol=1e-9 * np.abs(expected).max())


def test_by_default_it_is_in_the_frame_of_the_link_that_its_joint_moves(robot_of, scene_of, rng):
    robot = robot_of("branched")
    scene = scene_of(robot, rng)
    sensor = ForceTorque(name="ft", covariance=np.eye(6), joint=robot.joint_names[4])
    expected = scene.transmitted(robot.model.getJointId(robot.joint_names[4])).vector
    np.testing.assert_allclose(scene.predict(sensor.measurement(robot)), expected)


def test_bad_places_and_settings_of_a_force_torque_sensor(robot_of):
    robot, floating = robot_of("branched"), robot_of("floating")
    eye = np.eye(6)
    with pytest.raises(ShapeError, match=r"'ft'.*nowhere: give the joint"):
        ForceTorque(name="ft", covariance=eye)
    with pytest.raises(ShapeError, match=r"sign .* is 2"):
        ForceTorque(name="ft", covariance=eye, joint="joint1", sign=2)
    with pytest.raises(ShapeError, match=r"sub_link of sensor 'ft'.*expected \(10\)"):
        ForceTorque(name="ft", covariance=eye, joint="joint1", sub_link=np.ones(9))
    elsewhere = ForceTorque(
        name="ft", covariance=eye, joint=robot.joint_names[0], mount=Mount(robot.link_names[-1])
    )
    with pytest.raises(MismatchError, match="does not connect: mount it on"):
        elsewhere.measurement(robot)
    base = ForceTorque(name="ft", covariance=eye, mount=Mount(floating.link_names[0]))
    with pytest.raises(MismatchError, match="floating base, which no joint moves"):
        base.measurement(floating)


@pytest.mark.parametrize("name", ROBOTS)
def test_external_wrenches_and_skins_read_the_same_push(name, robot_of, scene_of, sensor_of, rng):
    robot = robot_of(name)
    scene = scene_of(robot, rng)
    link = robot.link_names[2]
    net = sensor_of("external_wrench", rng, link, "")
    expected = pin.SE3(net.mount.R, net.mount.p).actInv(scene.fx[3]).vector
    found = scene.predict(net.measurement(robot))
    np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())
    flat = sensor_of("skin_patch", rng, link, "", normals=[[0, 0, -2.0]] * 3, points=np.eye(3))
    push = -(flat.mount.R.T @ scene.fx[3].linear)[2]
    np.testing.assert_allclose(scene.predict(flat.measurement(robot)), push, atol=1e-11)
    curved = sensor_of("skin_patch", rng, link, "")
    assert np.linalg.norm(curved.normal) == pytest.approx(1.0)
    push = curved.normal @ curved.mount.R.T @ scene.fx[3].linear
    np.testing.assert_allclose(scene.predict(curved.measurement(robot)), push, atol=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_a_directed_contact_leaves_nothing_but_its_own_force_open(
    seed, robot_of, scene_of, sensor_of
):
    rng = np.random.default_rng(seed)
    robot = robot_of("floating")
    scene = scene_of(robot, rng)
    sensor = sensor_of("directed_contact", rng, robot.link_names[3], "", channels=("push",))
    quiet = sensor_of("directed_contact", rng, robot.link_names[3], "", direction=[0, 0, 1e-3])
    assert (sensor.size, quiet.size, quiet.channels) == (6, 5, ())
    m = sensor.measurement(robot)
    T = pin.SE3(sensor.mount.R, sensor.mount.p)
    push = pin.Force(17.0 * sensor.direction, np.zeros(3))
    scene.fx[4] = T.act(push)  # of the line that it claims: only the last reading sees it
    np.testing.assert_allclose(scene.predict(m), [0, 0, 0, 0, 0, 17.0], atol=1e-12)
    assert np.linalg.matrix_rank(m.external) == 6
    assert np.linalg.matrix_rank(quiet.measurement(robot).external) == 5
    # Tangential forces are read at full size, moments as they are.
    other = np.concatenate([np.cross(sensor.direction, rng.normal(size=3)), rng.normal(size=3)])
    scene.fx[4] = T.act(pin.Force(other))
    found = scene.predict(m)
    assert np.linalg.norm(found[:2]) == pytest.approx(np.linalg.norm(other[:3]))
    np.testing.assert_allclose(found[2:], [*other[3:], 0.0], atol=1e-12)
