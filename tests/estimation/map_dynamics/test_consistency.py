"""Residuals of sensors that tell the truth are chi-square distributed, those of others are not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from dense_oracle import dense_posterior, sensor_noise
from scipy.stats import kstest
from sensor_sets import all_sensors, random_mount
from simulated_logs import simulated

from bodysense.errors import FileReadError, ShapeError, UnknownNameError
from bodysense.estimation import (
    Assumptions,
    GaussianPrior,
    MapDynamics,
    SensorConsistency,
    consistency,
)
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.sensors import Accelerometer, JointTorque, variances

BELIEFS = dict(wrench=GaussianPrior.zero(6, 5.0), joint_acceleration=GaussianPrior.zero(1, 10.0))


def some_sensors(tree, rng, share=0.25):
    sensors = [s for s in all_sensors(tree, rng) if s.measurement(tree.robot).link != "world"]
    correlated = []
    for sensor in sensors:
        if rng.uniform() < share:
            root = rng.normal(scale=0.3, size=(sensor.size, sensor.size))
            correlated.append(replace(sensor, covariance=root @ root.T))
    return correlated


@pytest.fixture(scope="module")
def judged(tree_named):
    """A floating tree with all kinds of sensors, at 400 samples."""
    rng = np.random.default_rng(8)
    tree = tree_named("floating tree")
    problem = MapDynamics(tree.robot, some_sensors(tree, rng), Assumptions(**BELIEFS))
    samples, _ = simulated(problem, rng, 400)
    return problem, samples, consistency(problem, samples)


def test_squares_are_chi_square_distributed(judged):
    problem, _, found = judged
    kinds = {sensor.kind for sensor in problem.sensors}
    assert {"force_torque", "external_wrench", "joint_torque", "accelerometer"} <= kinds
    p_values = []
    for sensor in problem.sensors:
        p = found.p_value(sensor.name)
        p = p[~np.isnan(p)]
        if p.size > 100:
            p_values.append(kstest(p, "uniform").pvalue)
    assert len(p_values) > 0.7 * len(problem.sensors)
    assert min(p_values) > 1e-3 / len(p_values)
    assert kstest(p_values, "uniform").pvalue > 1e-3
    assert np.nanmean(list(found.beyond(0.95).values())) == pytest.approx(0.05, abs=0.01)
    assert np.nanmean(list(found.beyond(0.99).values())) == pytest.approx(0.01, abs=0.005)
    assert "all agree" in found.summary() or "nothing can contradict" in found.summary()


def test_normalised_residuals_have_unit_variance(judged):
    problem, _, found = judged
    for sensor in problem.sensors:
        z = found.normalised[sensor.name]
        for column in z[:, np.isfinite(z).sum(axis=0) > 100].T:
            assert np.nanstd(column) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("soft", [False, True], ids=["sharp", "soft"])
def test_equals_a_dense_solve(tree_named, soft):
    rng = np.random.default_rng(9)
    tree = tree_named("tree")
    slacks = dict(
        acceleration_slack=GaussianPrior.zero(6, 0.1),
        wrench_slack=GaussianPrior.zero(6, 0.2),
        torque_slack=GaussianPrior.zero(1, 0.3),
    )
    priors = Assumptions(**BELIEFS, **(slacks if soft else {}))
    sensors = some_sensors(tree, rng, 0.4)
    joint = tree.joint_name(2)  # two readings of one torque share its slack
    sensors = [s for s in sensors if not isinstance(s, JointTorque)]
    sensors += [JointTorque(name=n, joint=joint, covariance=variances(0.2, 1)) for n in "AB"]
    problem = MapDynamics(tree.robot, sensors, priors)
    q, dq = rng.normal(size=(2, tree.robot.n_joints))
    y = rng.normal(scale=3.0, size=problem.layout.size)
    found = consistency(problem, problem.samples(q, dq, y))
    equations, noise = Equations.at(tree, sensors, q, dq), sensor_noise(sensors)
    oracle = dense_posterior(equations, y, noise, priors)
    Y = equations.dense().Y
    r = y - Y @ oracle.mean - equations.b_Y
    left = noise - Y @ oracle.covariance @ Y.T
    for sensor in sensors:
        where = equations.readings[sensor.name]
        S = left[where, where]
        sigma = np.sqrt(np.diag(S))
        np.testing.assert_allclose(found.normalised[sensor.name][0], r[where] / sigma, rtol=1e-5)
        if found.freedom[sensor.name] == sensor.size:
            wanted = r[where] @ np.linalg.solve(S, r[where])
            np.testing.assert_allclose(found.chi_square[sensor.name][0], wanted, rtol=1e-4)


def test_names_a_sensor_that_is_worse_than_it_says(judged):
    problem, samples, _ = judged
    liar = next(s.name for s in problem.sensors if s.kind == "accelerometer")
    sensors = [
        replace(s, covariance=s.covariance / 25.0) if s.name == liar else s for s in problem.sensors
    ]
    found = consistency(problem.with_sensors(sensors), samples)
    assert found.worst(1)[0].sensor == liar
    assert found.ratio[liar] > 2.0
    assert found.beyond()[liar] > 0.3
    assert liar in found.summary()


def test_one_bad_reading_is_the_worst(judged):
    problem, samples, _ = judged
    y = samples.y.copy()
    sensor = next(s.name for s in problem.sensors if s.kind == "angular_accelerometer")
    row = np.flatnonzero(problem.layout.order == problem.layout.slices[sensor].start)[0]
    y[17, row] += 500.0
    doubt = consistency(problem, samples._replace(y=y)).worst(3)[0]
    assert (doubt.sensor, doubt.sample) == (sensor, 17)
    assert doubt.p_value < 1e-10
    assert doubt.chi_square > 100.0 * doubt.freedom


def test_what_nothing_contradicts_is_not_judged(tree_named):
    tree = tree_named("chain")
    sensor = Accelerometer(
        name="alone",
        mount=random_mount(tree.names[1], np.random.default_rng(1)),
        covariance=variances(0.1, 3),
    )
    torque = JointTorque(name="tau", joint=tree.joint_name(1), covariance=variances(0.1, 1))
    unknown = Assumptions(wrench=GaussianPrior.unknown(6))
    problem = MapDynamics(tree.robot, [sensor, torque], unknown)
    n = tree.robot.n_joints
    readings = np.array([[1.0, 2.0, 3.0, 4.0], [np.nan, 2.0, 3.0, np.nan]])
    found = consistency(problem, problem.samples(np.zeros((2, n)), np.zeros((2, n)), readings))
    assert found.freedom["tau"].tolist() == [0.0, 0.0]
    assert np.isnan(found.p_value("tau")).all()
    assert np.isnan(found.ratio["tau"])
    assert np.isnan(found.normalised["tau"]).all()
    assert found.freedom["alone"].tolist() == [2.0, 0.0]  # of three axes the joint explains one
    assert np.isnan(found.chi_square["alone"][1])
    assert "nothing can contradict tau" in found.summary()


def test_exact_readings_that_contradict_each_other_are_named(tree_named, tmp_path):
    tree = tree_named("chain")
    n, joint = tree.robot.n_joints, tree.joint_name(1)
    torques = [JointTorque(name=name, joint=joint, covariance=np.zeros((1, 1))) for name in "AB"]
    noisy = JointTorque(name="C", joint=joint, covariance=variances(0.1, 1))
    problem = MapDynamics(tree.robot, [*torques, noisy], Assumptions(**BELIEFS))
    readings = np.array([[300.0, 300.0, 300.1], [3.0, 3.5, 3.0], [np.nan, 3.0, 2.0]])
    found = consistency(problem, problem.samples(np.zeros((3, n)), np.zeros((3, n)), readings))
    for name in "AB":
        assert found.contradicted(name).tolist() == [False, True, False]
        assert found.off[name][1] == pytest.approx(0.25, rel=1e-3)
    assert np.isnan(found.off["A"][2])
    assert not found.contradicted("C").any()
    assert "C" not in found.off
    told = found.summary()
    assert "contradict each other" in told
    assert "A (off by up to 0.25), B (off by up to 0.25); give them a std above zero" in told
    assert "nothing can contradict" not in told
    found.save(tmp_path)
    again = SensorConsistency.load(tmp_path)
    np.testing.assert_array_equal(again.off["A"], found.off["A"])
    assert again.summary() == told
    right = consistency(
        problem, problem.samples(np.zeros((1, n)), np.zeros((1, n)), readings[:1])
    ).summary()
    assert "contradict each other" not in right
    with pytest.raises(UnknownNameError, match="nose"):
        found.contradicted("nose")


@pytest.mark.parametrize("name", ["tree", "floating tree"])
def test_exact_readings_that_are_true_do_not_contradict_each_other(tree_named, name):
    rng, tree = np.random.default_rng(3), tree_named(name)
    sensors = [
        replace(sensor, covariance=0.0 * sensor.covariance)
        for sensor in all_sensors(tree, rng)
        if sensor.measurement(tree.robot).link != "world"
    ]
    problem = MapDynamics(tree.robot, sensors, Assumptions(**BELIEFS))
    found = consistency(problem, simulated(problem, rng, 10)[0])
    assert set(found.off) == {sensor.name for sensor in sensors}
    assert max(off.max() for off in found.off.values()) < 1e-8


def test_bad_input_and_files(judged, tmp_path):
    problem, samples, found = judged
    with pytest.raises(UnknownNameError, match="nose"):
        found.p_value("nose")
    with pytest.raises(ShapeError, match="level"):
        found.beyond(95)
    with pytest.raises(ShapeError, match="no samples"):
        consistency(problem, samples.part(slice(0, 0)))
    found.save(tmp_path)
    again = SensorConsistency.load(tmp_path)
    for sensor in found.chi_square:
        np.testing.assert_array_equal(again.chi_square[sensor], found.chi_square[sensor])
        np.testing.assert_array_equal(again.normalised[sensor], found.normalised[sensor])
    assert again.summary() == found.summary()
    path = tmp_path / "consistency.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chi_square": 3}))
    with pytest.raises(FileReadError, match="damaged"):
        SensorConsistency.load(tmp_path)
