"""How large the unknown may be: nothing that happens is excluded, on any robot."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import BodysenseError, MissingDependencyError
from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics
from bodysense.estimation.map_dynamics.plausible_sizes import PlausibleSizes
from bodysense.robot import Robot, contact_map, inverse_dynamics, load_robot
from bodysense.robot.frames import sample_poses
from bodysense.robot.io.load import example_robot_names
from bodysense.sensors import JointAcceleration, JointTorque, variances

try:
    NAMES = example_robot_names()
except MissingDependencyError:
    pytest.skip("example-robot-data is not installed", allow_module_level=True)


def loaded(name: str) -> Robot:
    try:
        return load_robot(f"example:{name}")
    except BodysenseError as error:
        pytest.skip(str(error)[:80])


@pytest.mark.parametrize("name", NAMES)
def test_what_happens_to_a_robot_is_well_within_what_is_plausible(name):
    """Ten times its weight, on any lever that it has, and ten times gravity: one sigma each."""
    robot = loaded(name)
    sizes, model = PlausibleSizes.of(robot), robot.model
    weight = 9.81 * pin.computeTotalMass(model)
    assert sizes.force >= 10 * weight
    assert sizes.force <= max(30 * weight, 100.0) * (1 + 1e-9)
    data = model.createData()
    farthest = 0.0
    for q in sample_poses(robot, 5):
        pin.framesForwardKinematics(model, data, q)
        farthest = max(farthest, *(np.linalg.norm(M.translation) for M in data.oMf.tolist()))
    assert sizes.moment >= 10 * weight * farthest / 1.2  # roots of arms stand beside the origin
    assert sizes.moment <= 4.0 * sizes.force
    assert 1e3 <= sizes.joint_acceleration <= 1e4
    assert sizes.linear_acceleration == pytest.approx(98.1)


@pytest.mark.parametrize("name", ["panda", "ur5", "so100", "allegro_right_hand", "solo12"])
def test_a_push_of_its_own_weight_is_estimated_without_shrinking(name):
    """A force of the robot's weight on its last link, measured as well as its motors go."""
    robot = load_robot(f"example:{name}")
    rng, link = np.random.default_rng(3), robot.link_names[-1]

    if robot.floating_base:
        robot = Robot.from_pinocchio(_on_a_stand(robot.model))
    q = sample_poses(robot, 1)
    rest = np.zeros((1, robot.n_joints))
    weight = 9.81 * sum(robot.pi(k)[0] for k in range(robot.layout.n_links))
    push = np.concatenate([rng.normal(size=3), np.zeros(3)])
    push *= weight / np.linalg.norm(push)
    tau = inverse_dynamics(robot, q, rest, rest)[0] - contact_map(robot, q, [link])[0] @ push
    std = 1e-4 * weight
    sensors = [
        JointTorque(name=j, joint=j, covariance=variances(std, 1)) for j in robot.joint_names
    ]
    sensors += [
        JointAcceleration(name=f"a.{j}", joint=j, covariance=variances(0.0, 1))
        for j in robot.joint_names
    ]
    priors = Assumptions(wrenches={link: GaussianPrior.unknown(6)})
    problem = MapDynamics(robot, sensors, priors)
    found = problem.estimate(q[0], rest[0], np.concatenate([tau, rest[0]]))
    residual = np.concatenate([found.residual[j] for j in robot.joint_names])
    assert np.abs(residual).max() < 5 * std  # not shrunk towards zero
    error = np.abs(found[f"fx.{link}"] - push) / found.sigma(f"fx.{link}")
    assert error.max() < 1.0  # what its joints do not tell is within the width of the prior


def _on_a_stand(model: pin.Model) -> pin.Model:
    """The robot bolted to the world by its base."""
    return pin.buildReducedModel(model, [1], pin.neutral(model))


def test_what_is_unknown_is_settled_by_the_robot(robot_of):
    panda = robot_of("example:panda")
    sizes = PlausibleSizes.of(panda)
    given = Assumptions(
        wrench=GaussianPrior.unknown(6),
        others={"tau.panda_joint1": GaussianPrior.unknown(1)},
        wrenches={"panda_hand": GaussianPrior.force(20.0, direction=[0, 0, 1])},
    )
    priors = MapDynamics(panda, [], given).assumptions
    np.testing.assert_allclose(np.diag(priors.wrench.covariance), sizes.wrench**2)
    assert priors.joint_acceleration.covariance[0, 0] == sizes.joint_acceleration**2
    np.testing.assert_allclose(np.diag(priors.base_acceleration.covariance), sizes.acceleration**2)
    assert priors.others["tau.panda_joint1"].covariance[0, 0] == sizes.moment**2
    assert set(priors.wrenches) == {"panda_link7"}
    assert not any(p.is_unknown for p in (priors.wrench, priors.joint_acceleration))
    # on another robot of the same joints, what was settled stays as it is
    heavier = panda.with_link("panda_link7", mass=30.0)
    again = MapDynamics(heavier, [], priors).assumptions
    np.testing.assert_array_equal(again.wrench.covariance, priors.wrench.covariance)


def test_robots_without_masses_or_limits_have_sizes_too(robot_of):
    panda = robot_of("example:panda")
    weightless = panda.with_parameters(np.zeros(panda.theta.size))
    sizes = PlausibleSizes.of(weightless)
    assert sizes.force == 100.0
    assert np.isfinite([sizes.moment, sizes.joint_acceleration]).all()


def test_a_body_slides_as_far_as_its_joint_goes():
    model = pin.Model()
    limits = [np.array([x]) for x in (100.0, 1.0, -2.0, 1.0)]
    model.addJoint(0, pin.JointModelPX(), pin.SE3.Identity(), "rail", *limits)
    model.appendBodyToJoint(1, pin.Inertia(2.0, np.zeros(3), np.eye(3)), pin.SE3.Identity())
    sizes = PlausibleSizes.of(Robot.from_pinocchio(model))
    assert sizes.moment == pytest.approx(3.0 * sizes.force)
