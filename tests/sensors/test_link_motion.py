"""Motion of links and what sensors read of it, against Pinocchio."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError, UnknownNameError
from bodysense.robot import load_robot
from bodysense.sensors import Accelerometer, ForceTorque, Gyroscope, JointTorque, Mount, variances
from bodysense.sensors.link_motion import LinkMotion
from bodysense.spatial import exp_so3, random_pi

NAMES = ("example:ur5", "example:panda", "example:icub")


def states(robot, rng, T=3):
    """Pinocchio's q, v, a of a floating robot anywhere, or a fixed one."""
    n, extra = robot.n_joints, robot.nv - robot.n_joints
    q, v, a = (
        np.zeros((T, robot.nq)),
        rng.normal(size=(T, robot.nv)),
        rng.normal(size=(T, robot.nv)),
    )
    q[:, robot.nq - n :] = rng.uniform(-1.0, 1.0, (T, n))
    if extra:
        q[:, :3] = rng.normal(size=(T, 3))
        for k in range(T):
            q[k, 3:7] = pin.Quaternion(exp_so3(rng.normal(size=3))).coeffs()
    return q, v, a


def sensors_on(robot, rng):
    sensors = []
    links = robot.link_names[-robot.n_joints :]
    for link, joint in list(zip(links, robot.joint_names, strict=True))[::2]:
        mount = Mount(link, exp_so3(rng.normal(size=3)), rng.normal(size=3))
        sensors += [
            Gyroscope(name=f"g.{link}", mount=mount, covariance=variances(1.0, 3)),
            Accelerometer(name=f"a.{link}", mount=mount, covariance=variances(1.0, 3)),
            ForceTorque(
                name=f"f.{link}",
                mount=mount,
                sign=-1,
                covariance=variances(1.0, 6),
                sub_link=random_pi(rng, 1)[0],
            ),
            JointTorque(name=f"t.{joint}", joint=joint, covariance=variances(1.0, 1)),
        ]
    return sensors


@pytest.mark.parametrize("name", NAMES)
def test_readings_are_those_of_pinocchio(name, scene_like):
    robot, rng = load_robot(name), np.random.default_rng(0)
    q, v, a = states(robot, rng)
    extra = robot.nv - robot.n_joints
    data = [scene_like(robot, *x) for x in zip(q, v, a, strict=True)]
    base = {}
    if extra:
        base = {
            "base_twist": v[:, :6],
            "base_acceleration": [scene.data.a_gf[1].vector for scene in data],
        }
    motion = LinkMotion.of(robot, q[:, -robot.n_joints :], v[:, extra:], a[:, extra:], **base)
    for sensor in sensors_on(robot, rng):
        m = sensor.measurement(robot)
        expected = np.array([scene.predict(m) for scene in data])
        np.testing.assert_allclose(motion.predict(m), expected, atol=1e-9)


def test_held_link_is_the_one_that_stands(scene_like):
    robot, rng = load_robot("example:icub"), np.random.default_rng(1)
    n, foot = robot.n_joints, robot.link_names.index("l_ankle_2")
    q, v, a = (x[0] for x in states(robot, rng, 1))
    model, data = robot.model, robot.model.createData()
    # Twist and acceleration of the base that keep the foot still.
    J = pin.computeJointJacobian(model, data, q, foot + 1)
    v[:6] = np.linalg.solve(J[:, :6], -J[:, 6:] @ v[6:])
    a[:6] = 0.0
    pin.forwardKinematics(model, data, q, v, a)
    a[:6] = np.linalg.solve(J[:, :6], -data.a[foot + 1].vector)
    scene = scene_like(robot, q, v, a)
    gravity = scene.data.oMi[foot + 1].rotation.T @ model.gravity.linear
    motion = LinkMotion.of(
        robot, q[None, -n:], v[None, 6:], a[None, 6:], root="l_ankle_2", gravity=gravity
    )
    for k in range(len(robot.link_names)):
        np.testing.assert_allclose(motion.twist[k, 0, 3:], scene.data.v[k + 1].angular, atol=1e-9)
        expected = scene.data.a_gf[k + 1].vector
        np.testing.assert_allclose(motion.acceleration[k, 0], expected, atol=1e-8)


def test_either_side_of_a_joint_tells_what_it_transmits(scene_like):
    robot, rng = load_robot("example:icub"), np.random.default_rng(2)
    q, v, a = (x[0] for x in states(robot, rng, 1))
    free = pin.aba(robot.model, robot.model.createData(), q, v, np.zeros(robot.nv))
    a[:6] = free[:6]  # nearly: corrected below, so that no wrench acts on the base
    model, data = robot.model, robot.model.createData()
    M = pin.crba(model, data, q)
    rest = pin.rnea(model, data, q, v, a)
    a[:6] -= np.linalg.solve(M[:6, :6], rest[:6])
    scene = scene_like(robot, q, v, a)
    motion = LinkMotion.of(
        robot,
        q[None, -robot.n_joints :],
        v[None, 6:],
        a[None, 6:],
        base_twist=v[None, :6],
        base_acceleration=scene.data.a_gf[1].vector[None],
    )
    for joint, touched in (("l_knee", "l_ankle_2"), ("r_elbow", "r_hand"), ("neck_yaw", "head")):
        side = motion.free_side(joint, [touched])
        assert (side <= 0.0).all()
        expected = scene.transmitted(model.getJointId(joint)).vector
        np.testing.assert_allclose(motion.transmitted(joint, side)[0], expected, atol=1e-8)
        assert motion.free_side(joint, [touched, "base_link"]) is None
        assert (motion.free_side(joint) >= 0.0).all()


def test_refused_roots():
    icub, arm = load_robot("example:icub"), load_robot("example:ur5")
    still = np.zeros((1, icub.n_joints))
    with pytest.raises(MismatchError, match="give gravity in its frame"):
        LinkMotion.of(icub, still, still, still, root="chest")
    with pytest.raises(UnknownNameError, match="link 'chess'"):
        LinkMotion.of(icub, still, still, still, root="chess", gravity=[0, 0, -9.81])
    with pytest.raises(MismatchError, match="bolted to the world"):
        LinkMotion.of(arm, still[:, :6], still[:, :6], still[:, :6], root="base_link")
