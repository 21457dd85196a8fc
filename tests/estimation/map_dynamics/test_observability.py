"""What sensors see: known cases of an arm, and the rank of a dense solve."""

from __future__ import annotations

import numpy as np
import pytest
from dense_oracle import dense_posterior, sensor_noise

from bodysense.errors import FileReadError, UnknownNameError
from bodysense.estimation import (
    Assumptions,
    GaussianPrior,
    MapDynamics,
    Observability,
    observability,
)
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.robot import load_robot
from bodysense.robot.frames import sample_poses
from bodysense.sensors import (
    Accelerometer,
    AngularAccelerometer,
    Encoder,
    ExternalWrench,
    ForceTorque,
    JointAcceleration,
    JointTorque,
    Mount,
    variances,
)


@pytest.fixture(scope="module")
def arm():
    return load_robot("tx40")


def torques(robot, joints):
    return [JointTorque(name=f"tau.{j}", joint=j, covariance=variances(0.1, 1)) for j in joints]


def accelerations(robot):
    return [
        JointAcceleration(name=f"ddq.{j}", joint=j, covariance=variances(0.1, 1))
        for j in robot.joint_names
    ]


def pushed(robot):
    return Assumptions(wrenches={robot.link_names[-1]: GaussianPrior.unknown(6)})


def test_six_torques_see_a_push_on_the_last_link(arm):
    sensors = [*torques(arm, arm.joint_names), *accelerations(arm)]
    problem = MapDynamics(arm, sensors, pushed(arm))
    found = observability(problem)
    assert found.complete
    assert (found.readings, found.unknowns) == (12, 12)
    assert set(found[f"fx.{arm.link_names[-1]}"]) == {"observable"}
    assert set(found[f"fx.{arm.link_names[0]}"]) == {"assumed"}
    assert found.help == ()
    assert "120 estimated quantities, 12 of them independent, and 12 readings" in found.summary()


def test_three_torques_do_not_and_a_wrist_sensor_would(arm):
    sensors = [*torques(arm, arm.joint_names[:3]), *accelerations(arm)]
    problem = MapDynamics(arm, sensors, pushed(arm))
    found = observability(problem)
    push = f"fx.{arm.link_names[-1]}"
    assert not found.complete
    assert found.readings < found.unknowns
    assert push in found.named("unobservable") or push in found.named("partly")
    assert set(found["tau.joint2"]) == {"observable"}
    assert set(found["ddq.joint5"]) == {"observable"}
    assert [item.kind for item in found.help[:3]] == ["force_torque"] * 3
    assert found.help[0].place == arm.joint_names[-1]
    assert "force/torque sensor at joint6" in found.summary()
    # the push is what is asked for: that there is none is no answer
    assert not any(item.assumes for item in found.help)
    assert "nothing touches" not in found.report()
    assert push in found.report()
    better = problem.with_sensors(
        [*sensors, ForceTorque(name="ft", joint="joint6", covariance=variances(0.1, 6))]
    )
    assert observability(better).complete


def test_of_two_pushes_one_that_is_ruled_out_shows_the_other(arm):
    touched = {name: GaussianPrior.zero(6, [50, 50, 50, 5, 5, 5]) for name in ("link4", "link6")}
    sensors = [*torques(arm, arm.joint_names), *accelerations(arm)]
    problem = MapDynamics(arm, sensors, Assumptions(wrenches=touched))
    found = observability(problem)
    assert {"fx.link4", "fx.link6"} <= {*found.named("partly"), *found.named("unobservable")}
    ruled_out = [item for item in found.help if item.assumes]
    assert [item.place for item in ruled_out] == ["link4"]  # six torques show one on link6
    assert found.help[-1].assumes
    assert "or the assumption that nothing touches link4" in found.summary()


def test_without_sensors_nothing_is_seen(arm):
    found = observability(MapDynamics(arm, [], pushed(arm)), np.zeros(6), suggest=0)
    assert set(found.labels) == {"unobservable", "assumed"}
    assert found.readings == 0
    np.testing.assert_array_equal(found.before, found.after)
    assert found.help == ()
    assert "narrow the priors" in found.summary()


def test_sensors_of_the_state_say_nothing_where_it_is_known(arm):
    encoder = Encoder(name="q", joint="joint1", covariance=variances(1e-4, 1))
    found = observability(MapDynamics(arm, [encoder], pushed(arm)), np.zeros(6), suggest=0)
    assert found.readings == 0


def test_labels_follow_the_rank_of_the_readings(arm):
    """A component is seen if it is a combination of readings: tested in the null space."""
    rng = np.random.default_rng(4)
    link = arm.link_names[3]
    sensors = [
        *torques(arm, arm.joint_names[1:4]),
        *accelerations(arm)[:4],
        Accelerometer(name="acc", mount=Mount(link), covariance=variances(0.1, 3)),
    ]
    # So wide that what light links contribute is not hidden by noise.
    wide = GaussianPrior.zero(1, 1e4)
    priors = Assumptions(joint_acceleration=wide, wrenches={link: GaussianPrior.zero(6, 100.0)})
    q, dq = rng.normal(size=(2, 6))
    problem = MapDynamics(arm, sensors, priors)
    found = observability(problem, q, dq, suggest=0)
    equations = Equations.at(problem.tree, sensors, q, dq)
    everything = np.concatenate([equations.D.toarray(), equations.Y.toarray()])
    for name in problem.variables:  # and what is assumed: no other push
        if name.startswith("fx.") and name != f"fx.{link}":
            everything = np.concatenate([everything, np.eye(120)[problem.variables[name]]])
    _, size, rows = np.linalg.svd(everything)
    null = rows[(size > 1e-9 * size[0]).sum() :]
    determined = np.linalg.norm(null, axis=0) < 1e-7
    for k, label in enumerate(found.labels):
        assert (label in ("observable", "assumed")) == determined[k], (
            problem.variables.labels[k],
            label,
        )
    oracle = dense_posterior(
        equations, np.zeros(equations.readings.size), sensor_noise(sensors), priors
    )
    np.testing.assert_allclose(
        found.after, np.sqrt(np.diag(oracle.covariance)), rtol=1e-3, atol=1e-6
    )


def test_a_floating_robot_and_one_that_is_held(tree_named):
    tree = tree_named("floating tree")
    robot = tree.robot
    contact = ExternalWrench(name="ground", mount=Mount("link1"), covariance=variances(0.1, 6))
    priors = Assumptions(wrenches={"link1": GaussianPrior.unknown(6)})
    problem = MapDynamics(robot, [*accelerations(robot), contact], priors)
    found = observability(problem, suggest=0)
    assert (found.readings, found.unknowns) == (robot.n_joints + 6, robot.n_joints + 6)
    assert found.complete
    held = MapDynamics(robot, accelerations(robot), Assumptions(), base="link3", fixed=True)
    assert observability(held, suggest=0).complete


def standing(icub, **priors):
    """An iCub on two feet with an IMU, joint accelerations, and what may touch it."""
    sensors = [
        *accelerations(icub),
        Accelerometer(name="acc", mount=Mount("root_link"), covariance=variances(0.05, 3)),
        AngularAccelerometer(name="turn", mount=Mount("root_link"), covariance=variances(0.1, 3)),
    ]
    return MapDynamics(icub, sensors, Assumptions(wrenches=priors))


def test_no_foot_that_stands_is_advised_to_be_free(robot_of):
    icub = robot_of("example:icub")
    soles = {name: GaussianPrior.unknown(6) for name in ("l_sole", "r_sole")}
    found = observability(standing(icub, **soles))
    assert {item.kind for item in found.help} == {"force_torque"}
    assert found.external_components == (0, 12)
    assert "nothing touches" not in found.report()
    # a hand that may be touched a little may be said to be free
    small = GaussianPrior.zero(6, [20, 20, 20, 2, 2, 2])
    found = observability(standing(icub, **soles, l_hand=small), suggest=40)
    assert {item.place for item in found.help if item.assumes} <= {"l_hand"}


def test_how_much_of_the_external_wrenches_is_observable(robot_of):
    """With a sensor at one of two feet, the sum over both, which is known, shows the other."""
    icub = robot_of("example:icub")
    soles = {name: GaussianPrior.unknown(6) for name in ("l_sole", "r_sole")}
    problem = standing(icub, **soles)
    few = observability(problem, suggest=0)
    assert few.external_share == 0.0
    text = "0 of 12 components of external wrenches that are not assumed are observable (0%)"
    assert few.external_summary() == f"{text}: others may act unnoticed."
    ankle = ForceTorque(name="ft", joint="l_ankle_roll", covariance=variances(0.1, 6))
    both = observability(problem.with_sensors([*problem.sensors, ankle]), suggest=0)
    assert both.external_components == (12, 12)
    assert both.external_summary().endswith("are observable (100%).")
    free = observability(standing(icub), suggest=0)
    assert np.isnan(free.external_share)
    assert "no contact can be found" in free.external_summary()


def test_default_poses_are_within_the_limits_and_the_same_every_time(robot_of):
    panda = robot_of("example:panda")  # whose fourth joint is never positive
    problem = MapDynamics(panda, torques(panda, panda.joint_names[:3]), pushed(panda))
    found, again = observability(problem, suggest=0), observability(problem, suggest=0)
    np.testing.assert_array_equal(found.after, again.after)
    poses = sample_poses(panda, 5)
    lower, upper = panda.position_limits
    assert ((poses >= lower) & (poses <= upper)).all()
    np.testing.assert_array_equal(found.after, observability(problem, poses, suggest=0).after)


def test_files(arm, tmp_path):
    problem = MapDynamics(arm, torques(arm, arm.joint_names[:3]), pushed(arm))
    found = observability(problem, np.zeros(6))
    found.save(tmp_path)
    again = Observability.load(tmp_path)
    assert again.report() == found.report()
    assert again.labels == found.labels
    path = tmp_path / "observability.json"
    for before, after in (('"observable"', '"soon"'), ('"partly",', "")):
        text = path.read_text()
        path.write_text(text.replace(before, after, 1))
        with pytest.raises(FileReadError, match="do not belong together"):
            Observability.load(tmp_path)
        path.write_text(text)


def test_bad_input(arm):
    problem = MapDynamics(arm, [], pushed(arm))
    found = observability(problem, np.zeros(6), suggest=0)
    with pytest.raises(UnknownNameError, match="nose"):
        found.named("nose")
    with pytest.raises(UnknownNameError, match=r"fx\.nose"):
        found["fx.nose"]
