"""External wrenches in frames that a user asks for, against Pinocchio."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.estimation import Posterior, wrench_in
from bodysense.estimation.posterior import NamedSlices

T = 4


def posterior_of(rng, *links: str) -> Posterior:
    """Random wrenches with random covariances on some links."""
    variables = NamedSlices.from_sizes("quantity", [(f"fx.{link}", 6) for link in links])
    roots = rng.normal(size=(len(links), T, 6, 6))
    blocks = {f"fx.{k}": A @ A.swapaxes(1, 2) for k, A in zip(links, roots, strict=True)}
    return Posterior(variables, rng.normal(size=(T, 6 * len(links))), blocks=blocks)


def positions_of(robot, rng):
    q = rng.uniform(-1, 1, (T, robot.nq))
    if robot.floating_base:
        q[:, 3:7] = rng.normal(size=(T, 4))
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    return q


@pytest.mark.parametrize(
    ("name", "frame"), [("example:icub", "l_sole"), ("example:panda", "panda_hand")]
)
@pytest.mark.parametrize("axes", [None, "world", "elsewhere"])
def test_any_point_and_axes(robot_of, rng, name, frame, axes):
    robot = robot_of(name)
    model, data, at = robot.model, robot.model.createData(), np.array([0.1, -0.2, 0.3])
    place = model.frames[model.getFrameId(frame)]
    link = robot.link_names[place.parentJoint - 1]
    elsewhere = robot.link_names[2]
    posterior, q = posterior_of(rng, link), positions_of(robot, rng)
    asked = elsewhere if axes == "elsewhere" else axes
    found = wrench_in(robot, posterior, frame, at=at, axes=asked, q=q)
    for t in range(T):
        pin.framesForwardKinematics(model, data, q[t])
        world_frame = data.oMf[model.getFrameId(frame)]
        target = pin.SE3(world_frame.rotation, world_frame.act(at))
        if axes == "world":
            target.rotation = np.eye(3)
        elif axes == "elsewhere":
            target.rotation = data.oMi[3].rotation
        target_link = target.actInv(data.oMi[place.parentJoint])
        expected = target_link.act(pin.Force(posterior[f"fx.{link}"][t])).vector
        np.testing.assert_allclose(found.mean[t], expected, atol=1e-12)
        X = target_link.toDualActionMatrix()
        Sigma = X @ posterior.covariance(f"fx.{link}")[t] @ X.T
        np.testing.assert_allclose(found.covariance[t], Sigma, atol=1e-11)
        np.testing.assert_allclose(found.sigma[t], np.sqrt(np.diag(Sigma)))
        one = wrench_in(robot, posterior.at(t), frame, at=at, axes=asked, q=q[t])
        np.testing.assert_allclose(one.mean, found.mean[t], atol=1e-12)
        np.testing.assert_allclose(one.covariance, found.covariance[t], atol=1e-12)


def test_axes_of_the_link_need_no_positions(robot_of, rng):
    robot = robot_of("example:icub")
    posterior = posterior_of(rng, "l_ankle_2")
    plain = wrench_in(robot, posterior, "l_ankle_2")
    np.testing.assert_array_equal(plain.mean, posterior["fx.l_ankle_2"])
    with_axes = wrench_in(robot, posterior, "l_ankle_2", axes="l_sole")
    np.testing.assert_allclose(
        np.linalg.norm(with_axes.mean[:, :3], axis=1), np.linalg.norm(plain.mean[:, :3], axis=1)
    )
    # where the base floats does not matter to axes of links
    q = positions_of(robot, rng)
    a, b = (wrench_in(robot, posterior, "l_sole", axes="chest", q=x) for x in (q, q[:, 7:]))
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-12)


def test_axes_of_the_ground_are_those_of_the_base(robot_of, rng):
    robot = robot_of("example:ur5")
    frame = robot.model.frames[robot.model.getFrameId("base")]  # turned by half a turn
    assert frame.parentJoint == 0
    posterior, q = posterior_of(rng, robot.link_names[-1]), positions_of(robot, rng)
    world, base = (wrench_in(robot, posterior, "tool0", axes=x, q=q) for x in ("world", "base"))
    turned = world.mean.reshape(T, 2, 3) @ frame.placement.rotation
    np.testing.assert_allclose(base.mean.reshape(T, 2, 3), turned, atol=1e-12)


def test_without_covariances_there_are_means_alone(robot_of, rng):
    robot = robot_of("example:panda")
    bare = Posterior(NamedSlices.from_sizes("quantity", [("fx.panda_link7", 6)]), np.ones(6))
    found = wrench_in(robot, bare, "panda_hand", axes="world", q=np.zeros(9))
    assert found.mean.shape == (6,)
    assert found.covariance is None
    with pytest.raises(ShapeError, match="detail='blocks'"):
        _ = found.sigma


@pytest.mark.parametrize(
    ("frame", "more", "error", "words"),
    [
        ("l_sol", {}, UnknownNameError, "l_sole"),
        ("chest", {}, MismatchError, "no external wrench on 'chest'"),
        ("l_sole", {"axes": "world"}, MismatchError, "give positions q"),
        ("l_sole", {"axes": "nose", "q": np.zeros(32)}, UnknownNameError, "nose"),
        ("l_sole", {"axes": "world", "q": np.zeros(32)}, MismatchError, "39 numbers"),
        ("l_sole", {"axes": "world", "q": np.zeros(39)}, ShapeError, "unit quaternion"),
        ("l_sole", {"axes": "chest", "q": np.zeros((3, 32))}, ShapeError, "3 rows for 4 samples"),
        ("l_sole", {"axes": "chest", "q": np.zeros(5)}, ShapeError, "q has shape"),
        ("l_sole", {"at": [0, 0]}, ShapeError, "at has shape"),
    ],
)
def test_bad_input(robot_of, rng, frame, more, error, words):
    robot = robot_of("example:icub")
    with pytest.raises(error, match=words):
        wrench_in(robot, posterior_of(rng, "l_ankle_2"), frame, **more)
