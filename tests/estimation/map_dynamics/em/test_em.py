"""Covariances from a log: recovered where the log tells them, named where it does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sensor_sets import all_sensors, random_mount
from simulated_logs import simulated

from bodysense.errors import FileReadError, ShapeError, UnknownNameError
from bodysense.estimation import (
    Assumptions,
    CovarianceFit,
    GaussianPrior,
    InverseWishart,
    MapDynamics,
    estimate_covariances,
)
from bodysense.estimation.map_dynamics.em import em as module
from bodysense.robot import load_robot
from bodysense.sensors import (
    Accelerometer,
    AngularAccelerometer,
    ForceTorque,
    Gyroscope,
    JointAcceleration,
    JointTorque,
    variances,
)

PUSHED = GaussianPrior.zero(6, [8.0, 8.0, 8.0, 1.0, 1.0, 1.0])


def redundant(robot, rng):
    """Sensors that contradict each other: motion twice, torques, and wrenches at three joints."""
    sensors = []
    for link in robot.link_names:
        mounts = [random_mount(link, rng) for _ in range(3)]
        sensors += [
            Accelerometer(name=f"acc.{link}", mount=mounts[0], covariance=variances(0.2, 3)),
            AngularAccelerometer(name=f"ang.{link}", mount=mounts[1], covariance=variances(0.5, 3)),
            Gyroscope(name=f"gyro.{link}", mount=mounts[2], covariance=variances(0.02, 3)),
        ]
    for joint in robot.joint_names:
        sensors.append(JointTorque(name=f"tau.{joint}", joint=joint, covariance=variances(0.4, 1)))
        sensors.append(
            JointAcceleration(name=f"ddq.{joint}", joint=joint, covariance=variances(0.5, 1))
        )
    for k in (3, 4, 5):
        sensors.append(
            ForceTorque(
                name=f"ft.{k}",
                joint=robot.joint_names[k],
                mount=random_mount(robot.link_names[k], rng),
                covariance=variances([0.5, 0.5, 0.5, 0.2, 0.2, 0.2], 6),
            )
        )
    return sensors


def shuffled(sensors, rng):
    """The same with covariances up to three times too large or too small."""
    return [
        replace(s, covariance=np.diag(np.diag(s.covariance) * 3.0 ** rng.uniform(-2, 2, s.size)))
        for s in sensors
    ]


@pytest.fixture(scope="module")
def log():
    """A pushed arm: the problem with the right covariances, and 1200 samples."""
    rng = np.random.default_rng(12)
    robot = load_robot("tx40")
    priors = Assumptions(
        wrenches={robot.link_names[-1]: PUSHED}, joint_acceleration=GaussianPrior.zero(1, 5.0)
    )
    problem = MapDynamics(robot, redundant(robot, rng), priors)
    return problem, simulated(problem, rng, 1200)[0]


def never_decreasing(trace):
    return (np.diff(trace) >= -1e-9 * np.abs(trace[1:])).all()


def test_recovers_the_covariances_behind_a_log(log):
    problem, samples = log
    rng = np.random.default_rng(3)
    last = problem.robot.link_names[-1]
    start = problem.changed(
        shuffled(problem.sensors, rng),
        replace(problem.assumptions, wrenches={last: GaussianPrior.zero(6, 3.0)}),
    )
    fit = estimate_covariances(start, samples, wrenches=[last])
    assert fit.converged, fit.message
    assert never_decreasing(fit.trace)
    assert fit.trace.size < 60
    for sensor, found in zip(problem.sensors, fit.sensors, strict=True):
        ratio = np.diag(found.covariance) / np.diag(sensor.covariance)
        np.testing.assert_allclose(ratio, 1.0, atol=0.2, err_msg=sensor.name)
    np.testing.assert_allclose(
        fit.sigma(f"prior.fx.{last}"), np.sqrt(np.diag(PUSHED.covariance)), rtol=0.1
    )
    assert (
        fit.assumptions.wrenches[last].covariance[0, 0] == fit.covariances[f"prior.fx.{last}"][0, 0]
    )
    assert fit.covariances["gyro.link3"].shape == (3, 3)


def test_one_factor_a_kind_is_found_within_per_cents(log):
    problem, samples = log
    factors = {"accelerometer": 9.0, "joint_torque": 0.1, "force_torque": 4.0}
    start = problem.with_sensors(
        [replace(s, covariance=factors.get(s.kind, 1.0) * s.covariance) for s in problem.sensors]
    )
    fit = estimate_covariances(start, samples, structure="type", most_samples=600)
    assert fit.converged
    assert fit.samples == 600
    assert never_decreasing(fit.trace)
    for sensor, found in zip(problem.sensors, fit.sensors, strict=True):
        np.testing.assert_allclose(found.covariance, sensor.covariance, rtol=0.15, atol=1e-12)
    kinds = {s.kind: s.covariance[0, 0] for s in fit.sensors}
    for s in fit.sensors:  # one factor for all of a kind
        assert s.covariance[0, 0] == pytest.approx(kinds[s.kind], rel=1e-12)


def test_full_covariances_find_correlations(log):
    problem, _ = log
    rng = np.random.default_rng(5)
    root = rng.normal(scale=0.2, size=(3, 3))
    name = "acc.link3"
    truth = [replace(s, covariance=root @ root.T) if s.name == name else s for s in problem.sensors]
    samples, _ = simulated(problem, rng, 500, sensors=truth)
    fit = estimate_covariances(problem, samples, structure={name: "full"}, sensors=[name])
    assert list(fit.covariances) == [name]
    L = np.linalg.inv(root)
    np.testing.assert_allclose(L @ fit.covariances[name] @ L.T, np.eye(3), atol=0.3)
    assert never_decreasing(fit.trace)


def test_slacks_of_the_equations(log):
    """A torque that is not transmitted, as of a wrong friction, shows as slack of its equation."""
    problem, _ = log
    rng = np.random.default_rng(6)
    joint = problem.robot.joint_names
    twice = [
        JointTorque(name=f"{n}.{j}", joint=j, covariance=variances(0.1, 1))
        for j in joint
        for n in "AB"
    ]
    others = [s for s in problem.sensors if s.kind != "joint_torque"]
    exact = problem.with_sensors([*others, *twice])
    samples, _ = simulated(exact, rng, 250)
    y = samples.y.copy()
    for j in joint:  # what both torque sensors of a joint see, and no other sensor
        error = rng.normal(scale=0.8, size=250)
        for n in "AB":
            row = exact.layout.slices[f"{n}.{j}"].start
            y[:, exact.layout.order == row] += error[:, None]
    slack = replace(
        problem.assumptions,
        torque_slack=GaussianPrior.zero(1, 0.3),
        wrench_slack=GaussianPrior.zero(6, 0.01),
        acceleration_slack=GaussianPrior.zero(6, 0.01),
    )
    soft = exact.with_assumptions(slack)
    readings = np.empty((250, exact.layout.size))
    readings[:, exact.layout.order] = y
    samples = soft.samples(samples.q, samples.dq, readings)
    names = [f"{n}.{j}" for j in joint for n in "AB"]
    fit = estimate_covariances(
        soft, samples, sensors=names, slacks=["torque", "wrench", "acceleration"]
    )
    assert never_decreasing(fit.trace)
    assert fit.sigma("slack.torque")[0] == pytest.approx(0.8, rel=0.1)
    assert fit.assumptions.torque_slack.covariance[0, 0] == fit.covariances["slack.torque"][0, 0]
    assert (fit.sigma("slack.wrench") < 0.1).all()
    for j in joint:  # their difference shows, which of them errs hardly does beside the slack
        both = np.hypot(fit.sigma(f"A.{j}")[0], fit.sigma(f"B.{j}")[0])
        assert both == pytest.approx(0.1 * np.sqrt(2.0), rel=0.15)


@pytest.mark.parametrize("structure", ["type", "axis", "full"])
def test_density_never_decreases(tree_named, structure):
    """Of anything that can be estimated, on a floating tree, with readings missing."""
    rng = np.random.default_rng(7)
    tree = tree_named("floating tree")
    links = ["link4", "link9"]
    priors = Assumptions(
        wrench=GaussianPrior.zero(6, 2.0),
        joint_acceleration=GaussianPrior.zero(1, 5.0),
        base_acceleration=GaussianPrior.zero(6, 50.0),
        acceleration_slack=GaussianPrior.zero(6, 0.5),
        wrench_slack=GaussianPrior.zero(6, 0.5),
        torque_slack=GaussianPrior.zero(1, 0.5),
        others={"a.link3": GaussianPrior.zero(6, 30.0), "f.joint5": GaussianPrior.zero(6, 30.0)},
    )
    sensors = [s for s in all_sensors(tree, rng) if rng.uniform() < 0.4]
    problem = MapDynamics(tree.robot, shuffled(sensors, rng), priors)
    q, dq = rng.normal(size=(2, 16, tree.robot.n_joints))
    y = rng.normal(size=(16, problem.layout.size))
    y[rng.uniform(size=y.shape) < 0.02] = np.nan
    twist = rng.normal(size=(16, 6))
    one_a_kind = list({s.kind: s.name for s in sensors}.values())
    fit = estimate_covariances(
        problem,
        problem.samples(q, dq, y, base_twist=twist),
        structure=structure,
        sensors=one_a_kind if structure == "full" else None,
        wrenches=links,
        slacks=["acceleration", "wrench", "torque"],
        iterations=8,
    )
    assert fit.trace.size > 5
    assert never_decreasing(fit.trace)
    assert fit.trace[-1] > fit.trace[0] + 10.0
    for Sigma in fit.covariances.values():
        assert np.linalg.eigvalsh(Sigma).min() > 0.0
        if structure != "full":
            off = Sigma - np.diag(np.diag(Sigma))
            assert not off.any()


def test_names_covariances_that_cannot_be_told_apart(log):
    robot = log[0].robot
    priors = Assumptions(wrench=GaussianPrior.unknown(6))
    pair = [
        JointAcceleration(name=name, joint=robot.joint_names[2], covariance=variances(0.1, 1))
        for name in ("left", "right")
    ]
    lonely = JointTorque(name="lonely", joint=robot.joint_names[1], covariance=variances(0.1, 1))
    problem = MapDynamics(robot, [*pair, lonely], priors)
    rng = np.random.default_rng(2)
    T, n = 60, robot.n_joints
    y = rng.normal(scale=3.0, size=(T, 1)) + rng.normal(scale=0.1, size=(T, 3))
    fit = estimate_covariances(problem, problem.samples(np.zeros((T, n)), np.zeros((T, n)), y))
    assert "left and right cannot be separated" in fit.message
    assert "lonely[0]" in fit.message
    assert never_decreasing(fit.trace)
    assert fit.sigma("lonely")[0] == pytest.approx(0.1, rel=0.01)  # it stays as it was
    total = np.hypot(fit.sigma("left")[0], fit.sigma("right")[0])
    assert total == pytest.approx((y[:, 0] - y[:, 1]).std(), rel=0.05)


def test_ends_where_rounding_hides_what_a_round_brings(log):
    problem, samples = log
    wide = Assumptions(
        wrenches={problem.robot.link_names[-1]: GaussianPrior.zero(6, 1e6)},
        joint_acceleration=GaussianPrior.zero(1, 1e6),
    )
    few = samples.part(slice(0, 100))
    fit = estimate_covariances(problem.with_assumptions(wide), few, iterations=30)
    assert never_decreasing(fit.trace)
    assert np.isfinite(fit.trace).all()
    assert fit.converged or "narrow priors" in fit.message or "raise iterations" in fit.message


def test_a_prior_holds_and_absent_readings_count_for_nothing(log):
    problem, samples = log
    few = samples.part(slice(0, 40))
    y = few.y.copy()
    gyro = problem.layout.slices["gyro.link2"]
    rows = [np.flatnonzero(problem.layout.order == r)[0] for r in range(gyro.start, gyro.stop)]
    y[:30, rows] = np.nan
    few = few._replace(y=y)
    mode = variances(0.7, 3)
    strong = InverseWishart(1e7, mode)
    fit = estimate_covariances(
        problem, few, sensors=["gyro.link2", "gyro.link3"], prior={"gyro.link3": strong}
    )
    np.testing.assert_allclose(fit.covariances["gyro.link3"], mode, rtol=1e-4)
    # ten readings and a prior worth one: nothing is hidden of a gyroscope where dq is known
    n = problem.solve(few).residual[30:][:, rows]
    wanted = ((n**2).sum(axis=0) + 0.02**2) / 11.0
    np.testing.assert_allclose(np.diag(fit.covariances["gyro.link2"]), wanted, rtol=1e-6)


def test_exact_sensors_stay_exact_and_ctrl_c_keeps_what_was_found(log, monkeypatch):
    problem, samples = log
    few = samples.part(slice(0, 50))
    sensors = [
        replace(s, covariance=np.zeros((1, 1))) if s.name == "tau.joint1" else s
        for s in problem.sensors
    ]
    seen = []
    fit = estimate_covariances(
        problem.with_sensors(sensors), few, progress=lambda k, value: seen.append((k, value))
    )
    assert "tau.joint1" not in fit.covariances
    assert [k for k, _ in seen] == list(range(1, fit.trace.size + 1))
    rounds = iter(range(3))

    def stopped(*arguments):
        if next(rounds, None) is None:
            raise KeyboardInterrupt
        return real(*arguments)

    real = module.expected
    monkeypatch.setattr(module, "expected", stopped)
    fit = estimate_covariances(problem, few)
    assert not fit.converged
    assert "Interrupted" in fit.message
    assert fit.trace.size == 3
    monkeypatch.setattr(module, "expected", real)
    short = estimate_covariances(problem, few, iterations=2)
    assert "raise iterations" in short.message
    nothing = estimate_covariances(problem, few, sensors=[])
    assert "nothing to estimate" in nothing.message


def test_bad_input_and_files(log, tmp_path):
    problem, samples = log
    few = samples.part(slice(0, 20))
    for keywords in (
        {"sensors": ["nose"]},
        {"wrenches": ["nose"]},
        {"slacks": ["nose"]},
        {"structure": "nose"},
    ):
        with pytest.raises(UnknownNameError, match="nose"):
            estimate_covariances(problem, few, **keywords)
    with pytest.raises(ShapeError, match="no samples"):
        estimate_covariances(problem, samples.part(slice(0, 0)))
    with pytest.raises(ShapeError, match="tolerance"):
        estimate_covariances(problem, few, tolerance=0.0)
    with pytest.raises(ShapeError, match="weight"):
        InverseWishart(-1.0)
    fit = estimate_covariances(problem, few, iterations=3)
    fit.save(tmp_path)
    again = CovarianceFit.load(tmp_path, problem)
    assert again.summary() == fit.summary()
    for one, other in zip(again.sensors, fit.sensors, strict=True):
        np.testing.assert_array_equal(one.covariance, other.covariance)
    with pytest.raises(FileReadError, match="load it with the sensors"):
        CovarianceFit.load(tmp_path, problem.with_sensors(problem.sensors[1:]))
