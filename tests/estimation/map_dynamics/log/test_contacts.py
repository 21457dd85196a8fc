"""Contacts in simulated logs of an arm, by both estimators: none, a push, a load."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import yaml

import bodysense
from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.estimation import (
    DetectionSettings,
    LogFiles,
    LogTotals,
    estimate_log,
    parse_estimation,
    prepare_log,
)
from bodysense.logs.filtering import lowpass
from bodysense.logs.log import Log
from bodysense.robot import Robot, contact_map, load_robot, with_payload

RATE, SECONDS = 500.0, 8.0
PUSH = (3.0, 3.8)  # s
FORCE = np.array([0.0, 30.0, 0.0, 0.0, 0.0, 0.0])  # N, N·m on link6, in its axes
SENSORS = """
sensors:
  motors: {kind: joint_torque, joint: all, side: drive, std: 0.05}
  motion: {kind: joint_acceleration, joint: all}
external_wrenches:
  link6: {std: [50, 50, 50, 5, 5, 5]}
"""
METHODS = ("map", "momentum")


@cache
def tx40() -> Robot:
    return load_robot("tx40")


@cache
def recording(pushed: bool = False, mass: float = 0.0, noise: float = 1e-5, seed: int = 0) -> Log:
    """A TX40 whose controller does not know what it carries or who pushes it."""
    robot = tx40()
    motion = bodysense.FourierTrajectory.for_robot(
        robot, duration=SECONDS, rng=np.random.default_rng(seed)
    )
    controller = bodysense.suggested_controller(robot, rate=RATE)
    body = with_payload(robot, mass, link="link6", com=(0.0, 0.0, 0.1)) if mass else robot
    steps = int(SECONDS * RATE)
    t = np.arange(steps + 1) / RATE
    extra = np.zeros((steps + 1, 6))
    if pushed:
        q = motion.sample(RATE)[1][: steps + 1]
        here = (t >= PUSH[0]) & (t < PUSH[1])
        extra[here] = contact_map(robot, q[here], ["link6"]) @ FORCE
    run = bodysense.rollout(
        body,
        motion,
        controller=controller,
        sampling_rate=RATE,
        integrator="rk4",
        substeps=2,
        feed_forward=extra,
        position_noise=noise,
        torque_noise=0.05,
        rng=np.random.default_rng(seed + 1),
    )
    tau = run.tau[0] - extra[: len(run.tau[0])]
    channels = {f"q.{j}": run.q[0][:, k] for k, j in enumerate(robot.joint_names)}
    channels |= {f"tau.{j}": tau[:, k] for k, j in enumerate(robot.joint_names)}
    return Log.of(run.t, channels)


def found(log: Log, method: str = "map", **settings: float):
    robot = tx40()
    setup = parse_estimation(yaml.safe_load(SENSORS), robot, "s.yaml")
    return prepare_log(setup, robot, log, method=method, detection=DetectionSettings(**settings))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-4])
def test_what_nothing_touches_is_not_touched(method, noise):
    estimate = found(recording(noise=noise), method)
    assert estimate.found.contacts == ()
    assert estimate.found.load is None
    posterior = estimate.posterior()
    inside = np.abs(posterior["fx.link6"]) < 1.96 * posterior.sigma("fx.link6")
    assert (inside.mean(axis=0) > 0.92).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_push_is_found_when_and_where_it_was(method):
    estimate = found(recording(pushed=True), method)
    (contact,) = estimate.found.contacts
    assert contact.link == "link6"
    assert (contact.start, contact.end) == pytest.approx(PUSH, abs=0.1)
    assert contact.usual == pytest.approx(30.0, rel=0.1)
    posterior, t = estimate.posterior(), estimate.t
    truth = np.where(((t >= PUSH[0]) & (t < PUSH[1]))[:, None], FORCE, 0.0)
    truth = lowpass(truth, RATE, estimate.recording.noise.cutoff)
    middle = (t > PUSH[0] + 0.2) & (t < PUSH[1] - 0.1)
    z = (posterior["fx.link6"] - truth)[middle] / posterior.sigma("fx.link6")[middle]
    assert np.mean(np.abs(z) < 1.96) > 0.9


def test_a_load_is_told_from_a_contact():
    estimate = found(recording(mass=2.0))
    load = estimate.found.load
    assert estimate.found.contacts == ()
    assert load.told
    assert load.link == "link6"
    assert load.mass == pytest.approx(2.0, abs=3.0 * load.mass_std)
    assert load.mass_std < 0.05
    np.testing.assert_allclose(load.com, [0.0, 0.0, 0.1], atol=0.01)
    assert load.explained > 0.9
    force = np.median(np.linalg.norm(estimate.posterior()["fx.link6"][:, :3], axis=1))
    assert force == pytest.approx(2.0 * 9.81, rel=0.2)  # it moves


def test_settings_decide():
    log = recording(pushed=True)
    assert found(log, minimum_force=60.0).found.contacts == ()
    assert found(log, minimum_duration=2.0).found.contacts == ()
    rare, often = (found(log, false_alarms=rate).found for rate in (0.01, 100.0))
    for within, (best, _) in rare.detectable["link6"].items():
        assert best > often.detectable["link6"][within][0]


def test_momentum_files_hold_external_torques(tmp_path):
    import pyarrow.parquet as pq

    estimate = found(recording(pushed=True), "momentum")
    totals = LogTotals(estimate)
    with LogFiles(tmp_path, estimate) as files:
        for chunk in estimate.chunks(1000, detail="blocks", judge=True):
            files.add(chunk)
            totals.add(chunk)
    table = pq.read_table(tmp_path / "estimates.parquet")
    assert table.num_rows == estimate.t.size
    assert {"tau_ext.joint3", "tau_ext.joint3.std", "fx.link6.force_y"} <= set(table.column_names)
    assert totals.contacts() == estimate.found.contacts
    assert totals.to_dict()["load"] is None


def test_what_momentum_cannot_do_is_said():
    robot, log = tx40(), recording()
    table = yaml.safe_load(SENSORS)
    table["sensors"]["motors"]["joint"] = ["joint1", "joint2"]
    setup = parse_estimation(table, robot, "s.yaml")
    with pytest.raises(MismatchError, match=r"none of joint3, .*--method map"):
        prepare_log(setup, robot, log, method="momentum")
    with pytest.raises(UnknownNameError, match="momentum"):
        prepare_log(setup, robot, log, method="impulse")
    for wrong in ({"false_alarms": 0.0}, {"minimum_force": -1.0}, {"separation": np.nan}):
        with pytest.raises(ShapeError):
            DetectionSettings(**wrong)


def test_a_wrist_sensor_with_the_wrong_sign_is_named():
    from pushed_arm import SENSORS as ARM
    from pushed_arm import pushed_arm

    made = pushed_arm(np.random.default_rng(2), seconds=8.0)
    channels = dict(made.log.channels)
    channels |= {k: -v for k, v in channels.items() if k.startswith("wrist")}
    setup = parse_estimation(yaml.safe_load(ARM), made.robot, "s.yaml")
    run = estimate_log(setup, made.robot, Log.of(made.log.t, channels))
    assert any("sign: -1" in note and "wrist" in note for note in run.notes)


# -- models that err, and robots that are touched most of the time -----------------------------


def wrong(what: str) -> Robot:
    """The TX40 with one thing other than in the simulation."""
    robot = tx40()
    theta = robot.theta.copy()
    if what == "masses":
        theta[robot.layout.inertial] *= 1.05
    elif what == "friction":
        for term in robot.friction.model.terms:
            theta[robot.layout.friction(term)] *= 1.3
    return robot.with_parameters(theta)


@pytest.mark.parametrize("what", ["masses", "friction", "offset"])
def test_an_error_of_the_model_is_no_contact(what):
    log = recording(noise=1e-5)
    if what == "offset":
        channels = {k: v + 1.0 * k.startswith("tau") for k, v in log.channels.items()}
        log = Log.of(log.t, channels)
    robot = wrong(what)
    estimate = prepare_log(parse_estimation(yaml.safe_load(SENSORS), robot, "s.yaml"), robot, log)
    assert estimate.found.contacts == ()
    posterior = estimate.posterior()
    inside = np.abs(posterior["fx.link6"]) < 1.96 * posterior.sigma("fx.link6")
    assert (inside.mean(axis=0) > 0.9).all()
    assert any("torques differ from those of the model" in note for note in estimate.notes)


@pytest.mark.parametrize("pushes", [((2.0, 6.0), (9.0, 13.0)), ((1.0, 6.0), (6.7, 12.0))])
def test_many_contacts_are_not_taken_for_noise(pushes):
    """Of 16 s half and two thirds are pushed: noise is learned from the rest."""
    robot, seconds = tx40(), 16.0
    motion = bodysense.FourierTrajectory.for_robot(
        robot, duration=seconds, rng=np.random.default_rng(0)
    )
    t = np.arange(int(seconds * RATE) + 1) / RATE
    here = np.any([(t >= a) & (t < b) for a, b in pushes], axis=0)
    extra = np.zeros((t.size, 6))
    extra[here] = contact_map(robot, motion.sample(RATE)[1][here], ["link6"]) @ FORCE
    run = bodysense.rollout(
        robot,
        motion,
        controller=bodysense.suggested_controller(robot, rate=RATE),
        sampling_rate=RATE,
        integrator="rk4",
        substeps=2,
        feed_forward=extra,
        position_noise=1e-5,
        torque_noise=0.05,
        rng=np.random.default_rng(1),
    )
    channels = {f"q.{j}": run.q[0][:, k] for k, j in enumerate(robot.joint_names)}
    tau = run.tau[0] - extra
    channels |= {f"tau.{j}": tau[:, k] for k, j in enumerate(robot.joint_names)}
    setup = parse_estimation(yaml.safe_load(SENSORS), robot, "s.yaml")
    found = prepare_log(setup, robot, Log.of(run.t, channels)).found
    assert len(found.contacts) == len(pushes)
    for contact, push in zip(found.contacts, pushes, strict=True):
        assert (contact.start, contact.end) == pytest.approx(push, abs=0.15)
        assert contact.usual == pytest.approx(30.0, rel=0.05)
