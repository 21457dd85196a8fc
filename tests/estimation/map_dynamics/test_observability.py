"""What sensors see: known cases of an arm, and the rank of a dense solve."""

from __future__ import annotations

import numpy as np
import pytest
from dense_oracle import dense_posterior, sensor_noise

from bodysense.errors import FileReadError, ShapeError, UnknownNameError
from bodysense.estimation import (
    Assumptions,
    GaussianPrior,
    MapDynamics,
    Observability,
    observability,
)
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.robot import load_robot
from bodysense.sensors import (
    Accelerometer,
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
    found = observability(problem, rng=np.random.default_rng(1))
    assert found.complete
    assert (found.readings, found.unknowns) == (12, 12)
    assert set(found[f"fx.{arm.link_names[-1]}"]) == {"observable"}
    assert set(found[f"fx.{arm.link_names[0]}"]) == {"assumed"}
    assert found.help == ()
    assert "120 estimated quantities, 12 of them independent, and 12 readings" in found.summary()


def test_three_torques_do_not_and_a_wrist_sensor_would(arm):
    sensors = [*torques(arm, arm.joint_names[:3]), *accelerations(arm)]
    problem = MapDynamics(arm, sensors, pushed(arm))
    found = observability(problem, rng=np.random.default_rng(1))
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
    assert observability(better, rng=np.random.default_rng(1)).complete


def test_of_two_pushes_one_that_is_ruled_out_shows_the_other(arm):
    touched = {name: GaussianPrior.zero(6, [50, 50, 50, 5, 5, 5]) for name in ("link4", "link6")}
    sensors = [*torques(arm, arm.joint_names), *accelerations(arm)]
    problem = MapDynamics(arm, sensors, Assumptions(wrenches=touched))
    found = observability(problem, rng=np.random.default_rng(1))
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
    found = observability(problem, rng=np.random.default_rng(0), suggest=0)
    assert (found.readings, found.unknowns) == (robot.n_joints + 6, robot.n_joints + 6)
    assert found.complete
    held = MapDynamics(robot, accelerations(robot), Assumptions(), base="link3", fixed=True)
    assert observability(held, rng=np.random.default_rng(0), suggest=0).complete


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
    with pytest.raises(ShapeError, match="rng"):
        observability(problem)
    found = observability(problem, np.zeros(6), suggest=0)
    with pytest.raises(UnknownNameError, match="nose"):
        found.named("nose")
    with pytest.raises(UnknownNameError, match=r"fx\.nose"):
        found["fx.nose"]
