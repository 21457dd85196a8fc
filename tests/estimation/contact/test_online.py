"""Contacts in streams: as rare as stated without any, found as soon as stated with one."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2, f

from benchmarks.contact_stream import contacts_of, false_alarms, measured, pd_arm, pushes
from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.estimation import (
    Assumptions,
    DetectionSettings,
    EstimatorStream,
    GaussianPrior,
    MapDynamics,
    MomentumObserver,
    Sample,
)
from bodysense.estimation.contact.detector import WINDOWS
from bodysense.estimation.contact.estimator_evidence import EstimatorContacts
from bodysense.estimation.contact.evidence import Evidence
from bodysense.estimation.contact.inflation import LearnedInflation
from bodysense.estimation.contact.momentum_evidence import MomentumContacts
from bodysense.estimation.contact.online import ContactDetector
from bodysense.estimation.contact.window_evidence import WindowEvidence
from bodysense.estimation.contact.window_sums import WindowSums, count_tests
from bodysense.robot import load_robot
from bodysense.sensors import JointAcceleration, JointTorque, variances

PERIOD = 0.02
PRIOR = np.diag([50.0, 50.0, 50.0, 5.0, 5.0, 5.0]) ** 2
EASY = DetectionSettings(false_alarms=360.0, minimum_duration=0.0)
RARE = DetectionSettings(false_alarms=1.0, minimum_duration=0.0)


def scores(H, y):
    """Score and information (1, …) of readings y = H w + unit noise about one link."""
    return (H.T @ y)[None], (H.T @ H)[None]


def detector(links=("hand",), **changed):
    given = {"period": PERIOD, "settings": EASY, "learning": 0.0, **changed}
    return ContactDetector(dict.fromkeys(links, PRIOR), **given)


# Parts.


def test_chi_square_and_log_odds_are_those_of_logs(rng):
    windows = WindowEvidence({"a": PRIOR, "b": PRIOR})
    inflation = rng.uniform(1.0, 2.0, 2)
    for w in range(len(WINDOWS)):
        for k in range(2):
            H = 3.0 * rng.normal(size=(3 + 4 * k, 6))  # three readings leave three axes open
            score, information = H.T @ rng.normal(size=len(H)), H.T @ H
            b, A = windows.in_units(score, information)
            windows.score[w, k], windows.information[w, k] = b[k], A[k]
    windows.test()
    for k, link in enumerate(("a", "b")):
        one = Evidence(
            np.arange(5.0),
            {link: np.eye(6)},
            {link: windows.score[:, k]},
            {link: windows.information[:, k]},
        )
        square, freedom = one.chi_square(link)
        assert_allclose(windows.square[:, k], square, rtol=1e-7)
        assert (windows.freedom[:, k] == freedom).all()
    w, k = 2, 1  # log odds of one size are log densities with and without a wrench
    b, A = windows.score[w, k] / inflation[k], windows.information[w, k] / inflation[k]
    sizes = 10.0 ** -np.arange(6.0)
    normal = [(s * A @ A + A, A) for s in sizes]
    odds = [_log_density(b, C) - _log_density(b, N) for C, N in normal]
    expected = np.log(np.mean(np.exp(odds)))
    assert_allclose(windows.log_odds(w, inflation)[k], expected, rtol=1e-6)


def _log_density(b, C):
    return -0.5 * b @ np.linalg.solve(C, b) - 0.5 * np.linalg.slogdet(C)[1]


def test_sums_of_windows_do_not_drift(rng):
    x = rng.normal(size=(1000, 2)) + 1e6
    sums, out = WindowSums((2,)), np.zeros((len(WINDOWS), 2))
    for row in x:
        sums.push(row, np.arange(1.0, 6.0), out)
    expected = [k * x[-w:].sum(axis=0) for k, w in enumerate(WINDOWS, start=1)]
    assert_allclose(out, expected, rtol=1e-14)


def test_limits_are_those_of_the_distribution_that_learned_noise_has():
    surprise = 8.0
    known = LearnedInflation(("a",), (surprise, 3.0), 1e9, {"a": 2.0})
    assert_allclose(
        known.limit[:, 1:],
        chi2.isf(np.exp(-surprise), np.arange(1, 7))[None].repeat(5, 0),
        rtol=1e-3,
    )
    assert (known.inflation == 2.0).all()
    learned = LearnedInflation(("a",), (surprise, 3.0), 1000.0, None)
    assert not learned.ready.any()
    for _ in range(400):
        learned.take(np.full((5, 1), 9.0), np.full((5, 1), 6), np.ones(5, dtype=bool))
    assert_allclose(learned.inflation, 1.5, rtol=1e-12)
    learned._renew()
    nu = 1.5 * 6 * 400 / np.array(WINDOWS)
    assert_allclose(learned.limit[:, 6], 6.0 * f.isf(np.exp(-surprise), 6, nu), rtol=1e-6)
    assert learned.ready.all()


def test_limbs_count_as_tests_of_their_own():
    names = ("base", "l1", "l2", "l3", "r1", "r2")
    parent = (-1, 0, 1, 2, 0, 4)
    assert count_tests(("l3",), names, parent) == 1.0
    chain = count_tests(("l1", "l2", "l3"), names, parent)
    assert 1.0 < chain < 3.0
    both = count_tests(("l1", "l2", "l3", "r2"), names, parent)
    assert_allclose(both, chain + 1.0)
    assert_allclose(count_tests(("base", "l2", "r1"), names, parent), 2.0**0.66 + 1.0)


# In white noise of six readings.


def test_false_alarms_are_as_rare_as_stated_and_noise_is_learned(rng):
    H, sigma = rng.normal(size=(6, 6)), 3.0
    known = detector(inflation={"hand": sigma**2})
    learning = detector(learning=60.0)
    begun = {id(known): set(), id(learning): set()}
    steps = 50_000
    for k in range(steps):
        at = scores(H, sigma * rng.normal(size=6))
        for one in (known, learning):
            begun[id(one)] |= {c.since for c in one.step(k * PERIOD, *at).contacts}
    for one in (known, learning):
        hours = steps * PERIOD / 3600.0
        assert 0.5 < len(begun[id(one)]) / hours / 360.0 < 2.0
        assert_allclose(one.noise.inflation, sigma**2, rtol=0.25)


def test_a_push_is_found_with_its_link_time_and_force_and_ends(rng):
    H = {"hand": rng.normal(size=(6, 6)), "foot": rng.normal(size=(6, 6))}
    one = detector(("foot", "hand"), inflation={}, settings=RARE)
    force = np.array([0.0, 6.0, 8.0])
    push = np.r_[force, np.zeros(3)]
    states = []
    for k in range(400):
        w = push if 200 <= k < 300 else np.zeros(6)
        y = H["hand"] @ w + rng.normal(size=6)
        parts = [scores(H[link], y) for link in one.links]
        score, information = (np.concatenate(x) for x in zip(*parts, strict=True))
        states.append(one.step(k * PERIOD, score, information))
    there = [s.contacts[0] for s in states if s.contacts]
    assert {c.link for c in there[5:]} == {"hand"}
    assert there[-1].probability > 0.99
    assert abs(there[0].since - 200 * PERIOD) < 2.5 * PERIOD
    assert there[0].found - 200 * PERIOD <= one.delay(2)
    assert_allclose([c.force for c in there[5:-5]], 10.0, atol=4.0 * there[50].sigma)
    assert there[0].detectable < 10.0
    ends = [s for s in states if s.ended]
    assert len(ends) == 1
    assert 0.0 < ends[0].t - 300 * PERIOD <= 4.0 * PERIOD
    assert set(there[0].to_dict()) >= {"link", "probability", "since", "force", "detectable"}


@pytest.mark.parametrize("odd", [np.nan, np.inf, -1e300])
def test_samples_that_are_missing_or_late_or_odd_do_no_harm(rng, odd):
    H = rng.normal(size=(6, 6))
    one = detector()
    for k in range(2000):
        score, information = scores(H, rng.normal(size=6))
        if rng.random() < 0.2:
            score = score * odd
        if rng.random() < 0.1:
            information = information * odd
        t = k * PERIOD + (10.0 if k > 1000 else 0.0) - (100.0 if k > 1500 else 0.0)
        state = one.step(t - 0.5 * (rng.random() < 0.1), score, information)
        for contact in state.contacts:
            assert np.isfinite(contact.wrench).all()
            assert 0.0 <= contact.probability <= 1.0
        assert np.isfinite(one.noise.inflation).all()


def test_a_pause_ends_a_contact_and_noise_can_be_learned_anew(rng):
    H = rng.normal(size=(6, 6))
    one = detector()
    for k in range(100):
        state = one.step(k * PERIOD, *scores(H, H @ np.full(6, 9.0)))
    assert state.contacts
    ended = [one.step(60.0 + k * PERIOD, *scores(H, rng.normal(size=6))).ended for k in range(3)]
    assert [len(x) for x in ended].count(1) == 1
    one.learn(1.0)
    assert one.step(60.0 + 3 * PERIOD, *scores(H, rng.normal(size=6))).learning
    assert "learned" in one.describe("hand")


def test_settings_hold_back_short_and_weak_contacts(rng):
    H = rng.normal(size=(6, 6))
    long = DetectionSettings(false_alarms=1.0, minimum_duration=0.5)
    strong = DetectionSettings(false_alarms=1.0, minimum_duration=0.0, minimum_force=100.0)
    first = {}
    for name, settings in (("long", long), ("strong", strong)):
        one = detector(settings=settings)
        for k in range(150):
            w = np.r_[0.0, 30.0, 0.0, np.zeros(3)] * (k >= 50)
            if one.step(k * PERIOD, *scores(H, H @ w + rng.normal(size=6))).contacts:
                first.setdefault(name, k * PERIOD)
    assert "strong" not in first
    assert 0.5 - 3 * PERIOD <= first["long"] - 50 * PERIOD <= 0.5 + 2 * PERIOD


def test_what_cannot_be_is_named():
    with pytest.raises(MismatchError, match="no link"):
        ContactDetector({}, period=PERIOD)
    with pytest.raises(ShapeError, match="period is 0"):
        detector(period=0.0)
    with pytest.raises(ShapeError, match="learning is -1"):
        detector(learning=-1.0)
    with pytest.raises(ShapeError, match="score"):
        detector().step(0.0, np.zeros(6), np.zeros((1, 6, 6)))
    with pytest.raises(UnknownNameError, match="foot"):
        detector().detectable("foot")
    assert detector(learning=5.0).state.learning


# An arm with dry friction under a PD controller, one joint of which stands.


def test_an_arm_that_nobody_pushes_is_untouched():
    assert 0.5 < false_alarms(180.0, 360.0, np.random.default_rng(3)) / 360.0 < 2.0


def test_pushes_of_twice_the_detectable_force_are_found_in_time():
    tried = pushes(40, 8, np.random.default_rng(5))
    assert tried.delays.size >= 35
    assert np.mean(tried.delays <= tried.stated) >= 0.95


def test_missing_samples_of_an_arm_are_tolerated(rng):
    robot = pd_arm()
    contacts = contacts_of(robot, 1.0)
    for sample in measured(robot, rng, 12.0):
        parts = [np.where(rng.random(7) < 0.05, np.nan, x) for x in sample[1:]]
        state = contacts.step(sample.t, *parts)
        assert not state.contacts
    assert not state.learning


def test_what_a_robot_stands_on_stays_open(rng):
    robot = load_robot("example:hyq", floating_base=True)
    model, data = robot.model, robot.model.createData()
    q, n = rng.uniform(-0.5, 0.5, robot.n_joints), robot.n_joints
    pin.computeAllTerms(
        model, data, np.concatenate([pin.neutral(model)[:7], q]), np.zeros(model.nv)
    )
    feet, trunk = ("lf_lowerleg", "rh_lowerleg"), robot.link_names[0]
    J = {
        link: pin.getJointJacobian(model, data, robot.link_names.index(link) + 1, pin.LOCAL)
        for link in (*feet, trunk)
    }
    observer = MomentumObserver(
        robot, torque_std=0.3, velocity_std=1e-4, base_twist_std=1e-4, side="joint"
    )
    legs = [link for link in robot.link_names if link.endswith("upperleg")]
    one = MomentumContacts(
        observer, dict.fromkeys((trunk, *legs)), lasting=dict.fromkeys(feet), learning=2.0
    )
    first, found = np.r_[10.0, 20.0, 200.0, 3.0, 2.0, 1.0], []
    for k in range(3500):
        push = np.r_[0.0, 60.0, 0.0, np.zeros(3)] if k >= 3000 else np.zeros(6)
        feet_ext = J[feet[0]].T @ first * (1.0 + 0.3 * np.sin(0.01 * k)) + J[trunk].T @ push
        other = np.linalg.solve(J[feet[1]][:, :6].T, data.g[:6] - feet_ext[:6])
        tau = (data.g - feet_ext - J[feet[1]].T @ other)[6:]
        noise = rng.normal(size=2 * n + 6)
        state = one.step(
            1e-3 * k,
            q,
            1e-4 * noise[:n],
            tau + 0.3 * noise[n : 2 * n],
            1e-4 * noise[2 * n :],
            model.gravity.linear,
        )
        found.append(bool(state.contacts))
    assert not any(found[:3000])
    assert not state.learning


# Beside an estimator.


def still_arm(cutoff):
    robot = load_robot("tx40")
    sensors = [
        JointTorque(name=f"tau.{j}", joint=j, covariance=variances(0.2, 1))
        for j in robot.joint_names
    ]
    sensors += [
        JointAcceleration(name=f"a.{j}", joint=j, covariance=variances(0.2, 1))
        for j in robot.joint_names
    ]
    open_link = {"link6": GaussianPrior.zero(6, [50.0] * 3 + [5.0] * 3)}
    problem = MapDynamics(robot, sensors, Assumptions(wrenches=open_link))
    return EstimatorStream(problem, cutoff=cutoff, rate=500.0 if cutoff else None)


@pytest.mark.parametrize("cutoff", [None, 20.0])
def test_a_push_on_an_arm_is_found_beside_an_estimator(rng, cutoff):
    stream = still_arm(cutoff)
    robot = stream.problem.robot
    model, data = robot.model, robot.model.createData()
    contacts = EstimatorContacts(stream, settings=EASY, learning=4.0)
    q, zero = np.array([0.3, -0.5, 1.2, 0.4, 0.8, -0.2]), np.zeros(6)
    g = pin.rnea(model, data, q, zero, zero)
    J = pin.computeJointJacobian(model, data, q, 6)
    detectable, found, before = np.inf, np.inf, 0
    for k in range(5000):
        t = k / 500.0
        if k == 4000:
            detectable = contacts.detector.detectable("link6")[contacts.detector.delay(8)][1]
        push = np.r_[0.0, 0.0, 2.0 * detectable, np.zeros(3)] if k >= 4000 else zero
        y = np.concatenate([g - J.T @ push, zero]) + 0.2 * rng.normal(size=12)
        stream.step(Sample(t, q, zero, y))
        state = contacts.step(t)
        if state.contacts and k < 4000:
            before += 1
        elif state.contacts:
            found = min(found, t - 8.0)
    assert before < 40
    assert found <= contacts.detector.delay(8)
    contact = state.contacts[0]
    assert contact.link == "link6"
    assert abs(contact.force - 2.0 * detectable) < 4.0 * contact.sigma
    assert contacts.detector.delay(2) >= 3.0 * contacts.detector.period + stream.delay


def test_readings_that_come_and_go_are_tolerated_beside_an_estimator(rng):
    stream = still_arm(None)
    contacts = EstimatorContacts(stream, learning=2.0)
    q, zero = np.array([0.3, -0.5, 1.2, 0.4, 0.8, -0.2]), np.zeros(6)
    model = stream.problem.robot.model
    g = pin.rnea(model, model.createData(), q, zero, zero)
    for k in range(3000):
        y = np.concatenate([g, zero]) + 0.2 * rng.normal(size=12)
        y[rng.random(12) < 0.3] = np.nan
        if k > 2000:
            y[2] = np.nan  # for good
        stream.step(Sample(k / 500.0, q, zero, y))
        assert not contacts.step(k / 500.0).contacts
    assert not contacts.state.learning


def test_links_that_are_not_open_are_refused():
    stream = still_arm(None)
    with pytest.raises(UnknownNameError, match="link3"):
        EstimatorContacts(stream, ["link3"])
    with pytest.raises(MismatchError, match="no link is open"):
        EstimatorContacts(stream, lasting=["link6"])
