"""Estimates of a log against Pinocchio, in chunks, and with doubts about the robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from pushed_arm import PUSH, SENSORS, Pushed, pushed_arm

from bodysense.errors import MismatchError, ShapeError
from bodysense.estimation import (
    LogEstimate,
    LogFiles,
    LogTotals,
    MapDynamics,
    estimate_covariances,
    parse_estimation,
    prepare_log,
)
from bodysense.estimation.map_dynamics.log.files import components
from bodysense.estimation.map_dynamics.log.prepare import directions_of
from bodysense.logs.filtering import lowpass
from bodysense.logs.log import Log
from bodysense.robot.base_parameters import base_parameters


@pytest.fixture(scope="module")
def pushed() -> Pushed:
    return pushed_arm(np.random.default_rng(2))


def estimated(pushed: Pushed, text: str = SENSORS, **options) -> LogEstimate:
    setup = parse_estimation(yaml.safe_load(text), pushed.robot, "s.yaml")
    return prepare_log(setup, pushed.robot, pushed.log, **options)


@pytest.fixture(scope="module")
def estimate(pushed: Pushed) -> LogEstimate:
    return estimated(pushed)


def test_bands_hold_the_truth_of_pinocchio(pushed, estimate):
    """Of what is within the band of the estimate: a push begins within a period of its cut-off."""
    found, noise = estimate.posterior(), estimate.recording.noise
    used = np.searchsorted(pushed.log.t, estimate.t)
    for name, truth in (
        ("fx.forearm", pushed.wrench),
        ("tau.lift", pushed.tau[:, 1:2]),
        ("ddq.elbow", pushed.ddq[:, 2:3]),
    ):
        z = (found[name] - lowpass(truth, noise.rate, noise.cutoff)[used]) / found.sigma(name)
        assert 0.90 < np.mean(np.abs(z) < 1.96) <= 1.0, name
        assert np.abs(z.mean(axis=0)).max() < 0.4


def test_chunks_are_the_whole(estimate):
    whole = estimate.posterior()
    parts = list(estimate.chunks(150))
    assert [part.first for part in parts] == [0, 150, 300]
    np.testing.assert_array_equal(np.concatenate([p.t for p in parts]), estimate.t)
    mean = np.concatenate([p.posterior.mean for p in parts])
    np.testing.assert_allclose(mean, whole.mean, rtol=1e-12, atol=1e-12)
    variance = np.concatenate([p.posterior.variance for p in parts])
    np.testing.assert_allclose(variance, whole.variance, rtol=1e-12)
    assert "381 samples over 3.8 s" in estimate.summary()


def test_readings_that_are_missing_are_counted(pushed):
    tau = np.array(pushed.log.channels["tau.pan"])
    tau[:40] = np.nan
    log = replace(pushed.log, channels={**pushed.log.channels, "tau.pan": tau})
    estimate = estimated(replace(pushed, log=log))
    totals = LogTotals(estimate)
    for chunk in estimate.chunks(detail="blocks", judge=True):
        assert np.isfinite(chunk.posterior.mean).all()
        totals.add(chunk)
    by_name = {score.name: score for score in totals.scores()}
    # ten of the forty are left out at the end, and ten more beside the gap support no filter
    assert (by_name["torque.pan"].absent, by_name["torque.pan"].samples) == (40, 341)
    assert by_name["torque.lift"].absent == 0


def test_a_push_is_felt_when_it_was(pushed, estimate):
    totals = LogTotals(estimate)
    for chunk in estimate.chunks(100, detail="blocks", judge=True):
        totals.add(chunk)
    long = [contact for contact in totals.contacts() if contact.end - contact.start > 0.2]
    assert len(long) == len(totals.contacts()) == 1
    assert (long[0].start, long[0].end) == pytest.approx(PUSH, abs=0.05)
    assert long[0].force == pytest.approx(np.linalg.norm(pushed.wrench[200, :3]), rel=0.1)
    assert totals.contact_share()["forearm"] == pytest.approx(0.25, abs=0.05)
    assert totals.links == ("forearm",)
    told = totals.to_dict()
    assert {entry["name"] for entry in told["sensors"]} == {
        s.name for s in estimate.problem.sensors
    }


def test_sensors_agree_and_a_wrong_one_stands_out(pushed):
    def scores(log) -> dict:
        estimate = estimated(replace(pushed, log=log))
        totals = LogTotals(estimate)
        for chunk in estimate.chunks(detail="blocks", judge=True):
            totals.add(chunk)
        return {score.name: score for score in totals.scores()}, totals

    right, _ = scores(pushed.log)
    assert right["torque.elbow"].ratio == pytest.approx(1.0, abs=0.15)
    assert right["torque.elbow"].beyond < 0.1
    shifted = {**pushed.log.channels, "tau.elbow": pushed.log.channels["tau.elbow"] + 0.5}
    wrong, totals = scores(replace(pushed.log, channels=shifted))
    assert wrong["torque.elbow"].ratio > 3.0
    assert wrong["torque.elbow"].beyond > 0.5
    assert totals.worst_residuals[0].sensor in ("torque.elbow", "wrist")
    gaps = [
        a.t - b.t
        for a in totals.worst_residuals
        for b in totals.worst_residuals
        if a.sensor == b.sensor and a.t > b.t
    ]
    assert min(gaps, default=1.0) > 0.5


def test_a_bias_that_is_believed_in_is_no_contradiction(pushed):
    bias = 0.3 * np.array([1.0, -1.0, 1.0])
    channels = dict(pushed.log.channels)
    channels |= {f"acc.{k}": channels[f"acc.{k}"] + b for k, b in zip("xyz", bias, strict=True)}
    biased = replace(pushed, log=replace(pushed.log, channels=channels))

    def scores(made: Pushed, text: str = SENSORS) -> tuple[dict, LogEstimate]:
        estimate = estimated(made, text)
        totals = LogTotals(estimate)
        for chunk in estimate.chunks(100, detail="blocks", judge=True):
            totals.add(chunk)
        return {score.name: score for score in totals.scores()}, estimate

    line = "acc: {kind: accelerometer, link: forearm, xyz: [0, 0, 0.1], std: 0.05"
    assert line in SENSORS
    right, _ = scores(pushed)
    unknown, _ = scores(biased)
    assert unknown["acc"].beyond > 0.5
    found, estimate = scores(biased, SENSORS.replace(line, f"{line}, bias_std: 0.3"))
    for name, score in found.items():  # as without the bias, and not hidden in a wide noise
        assert score.ratio == pytest.approx(right[name].ratio, rel=0.1, nan_ok=True), name
        assert not score.beyond > 0.1  # NaN where nothing can contradict it
    fit = estimate_covariances(estimate.log_problem, estimate.samples(), structure="type")
    assert fit.sigma("acc")[0] == pytest.approx(0.05, rel=0.15)


def test_the_bias_of_an_exact_sensor_stays_its_noise(pushed):
    text = SENSORS.replace("all, std: 0.05}", "all, std: 0, bias_std: 0.1}")
    estimate = estimated(pushed, text)
    sensor = estimate.log_problem.sensors[0]
    assert sensor.bias_sigma is None
    np.testing.assert_allclose(sensor.covariance, [[0.01]])


# -- doubts about the robot --------------------------------------------------------------------


def test_considered_parameters_equal_sampled_ones(pushed, rng):
    robot = pushed.robot
    base = base_parameters(robot)
    b = base.size
    root = np.tril(rng.normal(scale=0.01, size=(b, b)))
    directions = directions_of(root @ root.T, np.array(base.independent), robot.theta.size)
    covariance = np.zeros((robot.theta.size,) * 2)
    at = np.array(base.independent)
    covariance[np.ix_(at, at)] = root @ root.T
    np.testing.assert_allclose(directions.T @ directions, covariance, atol=1e-12)
    plain, wide = estimated(pushed), estimated(pushed, parameter_directions=directions)
    some = slice(100, 110)
    r = plain.recording
    arguments = r.q[some], r.dq[some], r.readings[some]
    setup, scale = plain.setup, plain.found.noise.part(some).scale()
    means = []
    for _ in range(400):
        theta = robot.theta.copy()
        theta[at] += root @ rng.normal(size=b)
        other = setup.problem(robot.with_parameters(theta))
        means.append(other.estimate(*arguments, noise_scale=scale, detail="means").mean)
    sampled = np.std(means, axis=0) ** 2
    added = wide.posterior().variance[some] - plain.posterior().variance[some]
    np.testing.assert_allclose(wide.posterior().mean, plain.posterior().mean, rtol=1e-12)
    for name in ("fx.forearm", "tau.lift", "f.elbow"):
        where = plain.problem.variables[name]
        np.testing.assert_allclose(added[:, where], sampled[:, where], rtol=0.35, atol=1e-9)
    blocks = next(iter(wide.chunks(10, detail="blocks"))).posterior
    np.testing.assert_allclose(
        np.einsum("tii->ti", blocks.covariance("fx.forearm")),
        blocks.sigma("fx.forearm") ** 2,
        rtol=1e-9,
    )


def test_directions_of_another_robot_are_refused(pushed):
    with pytest.raises(ShapeError):
        estimated(pushed, parameter_directions=np.ones((2, 3)))


# -- a floating robot --------------------------------------------------------------------------


def test_a_floating_root_turns_as_its_gyroscope_says(pushed, robot_of):
    robot = robot_of("floating")
    root = robot.link_names[0]
    turned = f"link: {root}, rpy: [0, 0, 1.5707963267948966]"
    text = f"sensors: {{g: {{kind: gyroscope, {turned}, std: 1}}}}"
    setup = parse_estimation(yaml.safe_load(text), robot, "s.yaml")
    n_t = 50
    channels = {f"q.{joint}": np.zeros(n_t) for joint in robot.joint_names}
    gyro = {"g.x": np.full(n_t, 1.0), "g.y": np.full(n_t, 2.0), "g.z": np.full(n_t, 3.0)}
    gyro["g.x"][20] = np.nan
    log = Log(np.arange(n_t) / 100.0, {**channels, **gyro}, {}, np.arange(n_t, dtype=np.int64))
    estimate = prepare_log(setup, robot, log)
    np.testing.assert_allclose(estimate.recording.base_twist[10], [0, 0, 0, -2, 1, 3], atol=1e-3)
    with pytest.raises(MismatchError, match="nothing tells how"):
        prepare_log(parse_estimation({}, robot, "s.yaml"), robot, log)


# -- contacts, files ----------------------------------------------------------------------------


def test_files_hold_every_number(estimate, tmp_path):
    with LogFiles(tmp_path, estimate) as files:
        for chunk in estimate.chunks(200):
            files.add(chunk)
    whole = estimate.posterior()
    table = pq.read_table(tmp_path / "estimates.parquet")
    assert table.num_rows == 381
    np.testing.assert_array_equal(table["t"], estimate.t)
    np.testing.assert_allclose(table["fx.forearm.force_y"], whole["fx.forearm"][:, 1], rtol=1e-12)
    np.testing.assert_allclose(table["tau.lift.std"], whole.sigma("tau.lift")[:, 0], rtol=1e-12)
    assert table.schema.field("fx.forearm.moment_z").metadata == {b"unit": "N·m".encode()}
    rows = pq.read_table(tmp_path / "sensors.parquet")
    np.testing.assert_allclose(rows["wrist.fz"], whole.residual["wrist"][:, 2], atol=1e-12)
    assert rows.column_names[:2] == ["t", "torque.pan"]


def test_names_of_components(robot_of):
    problem = MapDynamics(robot_of("serial"), ())
    assert problem.robot.joint_types[1] == "prismatic"
    units = dict(components(problem.variables, problem))
    assert len(units) == problem.variables.size
    assert units["tau.joint2"] == "N"
    assert units["ddq.joint2"] == "m/s²"
    assert units["a.link1.angular_x"] == "rad/s²"
    assert units["fx.link1.force_x"] == "N"


def test_a_link_of_which_no_reading_tells_is_not_called_untouched(estimate):
    told, dead = LogTotals(estimate), LogTotals(estimate)
    for chunk in estimate.chunks(200, detail="blocks"):
        told.add(chunk)
        covariance = {
            f"fx.{link}": np.broadcast_to(
                estimate.problem.assumptions.wrenches[link].covariance, (chunk.t.size, 6, 6)
            )
            for link in told.links
        }
        posterior = replace(chunk.posterior, blocks={**chunk.posterior.blocks, **covariance})
        dead.add(chunk._replace(posterior=posterior))
    assert told.unobservable_links() == ()
    assert dead.unobservable_links() == told.links
