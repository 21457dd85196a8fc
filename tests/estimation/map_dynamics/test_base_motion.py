"""How a floating root moves, against the motion that Pinocchio computes."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from pinocchio_truth import joint_index, truth_of

from bodysense.errors import MismatchError, UnknownNameError
from bodysense.estimation import MapDynamics
from bodysense.estimation.map_dynamics.base_motion import StandingFeet, root_twist
from bodysense.sensors import Accelerometer, Gyroscope, Mount, variances

ROOTS = ("floating tree", "floating tree on a leaf", "icub", "icub on a hand", "talos on an arm")


def gyroscope(link: str, std: float = 0.01, **more) -> Gyroscope:
    mount = Mount.from_xyz_rpy(link, [0.1, 0.2, -0.1], [0.3, -1.0, 2.0])
    return Gyroscope(name=f"gyro.{link}", mount=mount, covariance=variances(std, 3), **more)


def reading(sensor: Gyroscope, truth) -> np.ndarray:
    """What it reads there."""
    place = sensor.placement(truth.tree.robot)
    return place.R.T @ truth.data.v[joint_index(truth.tree, place.link)].angular


@pytest.mark.parametrize("name", ROOTS)
def test_a_gyroscope_anywhere_tells_how_the_root_turns(tree_named, rng, name):
    tree = tree_named(name)
    far = tree.names[-1]
    problem = MapDynamics(
        tree.robot, [gyroscope(far, std=0.0)], base=tree.names[0] if "on a" in name else None
    )
    truths = [truth_of(tree, rng) for _ in range(3)]
    q, dq = np.stack([t.q for t in truths]), np.stack([t.dq for t in truths])
    y = np.stack([reading(problem.sensors[0], t) for t in truths])
    found = root_twist(problem, q, dq, y, velocity_std=1e-5)
    expected = np.stack([t.base_twist for t in truths])
    np.testing.assert_allclose(found.mean[:, 3:], expected[:, 3:], atol=1e-6)
    assert found.known.all()
    assert np.sqrt(found.covariance[:, 0, 0].min()) > 5.0  # nothing tells the linear velocity


@pytest.mark.parametrize(
    "name", ["floating tree held at a leaf", "icub standing", "talos standing"]
)
def test_standing_feet_tell_how_the_root_moves(tree_named, rng, name):
    held = tree_named(name)
    robot, foot = held.robot, held.names[0]
    problem = MapDynamics(robot, [])
    truth = truth_of(held, rng)
    feet = StandingFeet(flat=(foot,))
    found = root_twist(problem, truth.q[None], truth.dq[None], np.zeros((1, 0)), feet=feet)
    np.testing.assert_allclose(found.mean[0], truth.full[1][:6], atol=0.02)
    assert found.known.all()
    assert found.sources == (foot,)


def test_tips_of_legs_tell_it_as_well_if_there_are_three(robot_of, rng):
    """Joint velocities that keep the tips of a quadruped's legs where they are."""
    robot = robot_of("example:solo12")
    model, data = robot.model, robot.model.createData()
    tips = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
    q = np.concatenate([np.zeros(3), [0, 0, 0, 1], np.tile([0.1, 0.8, -1.6], 4)])
    twist = np.array([0.1, -0.2, 0.05, 0.3, -0.4, 0.5])
    pin.computeJointJacobians(model, data, q)
    pin.updateFramePlacements(model, data)
    J = np.concatenate(
        [
            pin.getFrameJacobian(model, data, model.getFrameId(tip), pin.LOCAL_WORLD_ALIGNED)[:3]
            for tip in tips
        ]
    )
    dq = -np.linalg.solve(J[:, 6:], J[:, :6] @ twist)
    problem = MapDynamics(robot, [])

    def found(count: int):
        feet = StandingFeet(points=tips[:count])
        return root_twist(problem, q[None, 7:], dq[None], np.zeros((1, 0)), feet=feet)

    np.testing.assert_allclose(found(4).mean[0], twist, atol=1e-4)
    np.testing.assert_allclose(found(3).mean[0], twist, atol=1e-3)
    assert found(3).known.all()
    assert not found(2).known.any()  # about the line between two tips it may turn


def test_sources_are_weighed_by_their_covariances(tree_named, rng):
    """Errors are as large as stated, and smaller than those of either gyroscope alone."""
    tree = tree_named("icub")
    near, far = gyroscope("chest", 0.05), gyroscope("l_hand", 0.01, bias_sigma=np.full(3, 0.02))
    problem = MapDynamics(tree.robot, [near, far])
    truth, T, std = truth_of(tree, rng, speed=0.5), 4000, 0.02
    y = np.concatenate([reading(s, truth) for s in problem.sensors])
    noise = np.repeat([0.05, np.hypot(0.01, 0.02)], 3)
    readings = y + noise * rng.normal(size=(T, 6))
    dq = truth.dq + std * rng.normal(size=(T, truth.dq.size))
    q = np.tile(truth.q, (T, 1))
    found = root_twist(problem, q, dq, readings, velocity_std=std)
    error = found.mean[:, 3:] - truth.base_twist[3:]
    whitened = np.linalg.solve(np.linalg.cholesky(found.covariance[0, 3:, 3:]), error.T)
    np.testing.assert_allclose(np.cov(whitened), np.eye(3), atol=0.1)
    np.testing.assert_allclose(whitened.mean(axis=1), 0.0, atol=0.06)
    for lost in (slice(0, 3), slice(3, 6)):
        alone = readings[:1].copy()
        alone[:, lost] = np.nan
        other = root_twist(problem, q[:1], dq[:1], alone, velocity_std=std)
        gain = other.covariance[0, 3:, 3:] - found.covariance[0, 3:, 3:]
        assert np.linalg.eigvalsh(gain).min() > 0.0


def test_what_is_missing_is_known_as_missing(tree_named, rng):
    tree = tree_named("icub")
    problem = MapDynamics(tree.robot, [gyroscope("root_link"), gyroscope("chest")])
    truth = truth_of(tree, rng)
    y = np.tile(np.concatenate([reading(s, truth) for s in problem.sensors]), (5, 1))
    q, dq = np.tile(truth.q, (5, 1)), np.tile(truth.dq, (5, 1))
    y[[0, 3]] = np.nan
    y[2, 1] = np.nan  # one component: the whole sensor is absent
    found = root_twist(problem, q, dq, y)
    np.testing.assert_array_equal(found.known, [False, True, True, False, True])
    np.testing.assert_array_equal(found.held[[0, 3]], found.mean[[1, 2]])
    np.testing.assert_allclose(found.held[:, 3:], np.tile(truth.base_twist[3:], (5, 1)), atol=1e-3)
    dq[4] = np.nan  # velocities of joints are not needed for the one on the root
    again = root_twist(problem, q, dq, y)
    np.testing.assert_allclose(again.mean[4, 3:], truth.base_twist[3:], atol=1e-4)
    assert not root_twist(problem, q, dq, np.full((5, 6), np.nan)).known.any()


def test_an_estimate_takes_the_twist_from_its_gyroscopes_or_asks_for_it(robot_of, rng):
    solo = robot_of("example:solo12")
    n, trunk = solo.n_joints, "base_link"
    acc = Accelerometer(name="acc", mount=Mount(trunk), covariance=variances(0.05, 3))
    gyro = Gyroscope(name="gyro", mount=Mount(trunk), covariance=variances(0.01, 3))
    q, dq, omega = rng.normal(size=n), rng.normal(size=n), np.array([1.0, -2.0, 0.5])
    with_gyro = MapDynamics(solo, [acc, gyro])
    y = np.concatenate([[0.0, 0.0, 9.81], omega])
    twist = np.concatenate([np.zeros(3), omega])
    taken, given = with_gyro.estimate(q, dq, y), with_gyro.estimate(q, dq, y, base_twist=twist)
    np.testing.assert_allclose(taken.mean, given.mean, atol=1e-3 * np.abs(given.mean).max())
    without = MapDynamics(solo, [acc])
    with pytest.raises(MismatchError, match=r"no gyroscope measures.*np\.zeros\(6\)"):
        without.estimate(q, dq, y[:3])
    with pytest.raises(MismatchError, match="none of its gyroscopes reads"):
        with_gyro.estimate(q, dq, np.where(np.arange(6) < 3, y, np.nan))
    assert without.estimate(q, dq, y[:3], base_twist=np.zeros(6)).mean.size


def test_bad_input(robot_of, tree_named):
    icub = robot_of("example:icub")
    n = icub.n_joints
    nothing = np.zeros((1, n)), np.zeros((1, n)), np.zeros((1, 0))
    with pytest.raises(UnknownNameError, match="sole"):
        root_twist(MapDynamics(icub, []), *nothing, feet=StandingFeet(flat=("sole",)))
    held = MapDynamics(icub, [], base="r_ankle_2", fixed=True)
    with pytest.raises(MismatchError, match="held still"):
        root_twist(held, *nothing)
    assert not StandingFeet()
