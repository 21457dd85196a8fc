"""Wrenches on links from external torques: least squares, scores, rows for the MAP estimator."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.estimation import (
    AssumedContact,
    GaussianPrior,
    MomentumEstimate,
    MomentumObserver,
    motionless_rows,
)
from bodysense.robot import load_robot
from bodysense.robot.dynamics import contact_map


@pytest.fixture(params=["example:panda", "example:hyq"])
def drawn(request, rng) -> MomentumEstimate:
    """Estimates of any kind, with correlated errors."""
    floating = request.param == "example:hyq"
    robot = load_robot(request.param, floating_base=floating)
    twist = dict(base_twist_std=1e-3) if floating else {}
    observer = MomentumObserver(robot, torque_std=0.1, velocity_std=1e-3, **twist)
    T, nv = 4, robot.nv
    root = rng.normal(size=(T, nv, nv)) * 0.3
    covariance = root @ root.swapaxes(1, 2) + 0.1 * np.eye(nv)
    q, r, lag = rng.uniform(-1, 1, (T, robot.n_joints)), rng.normal(size=(T, nv)) * 5, None
    lag = rng.normal(size=(T, nv))
    return MomentumEstimate(observer, np.arange(T) / 10, q, r, covariance, lag, np.ones(T, bool))


def jacobians(estimate, frames) -> np.ndarray:
    """(T, nv, 6 L) by Pinocchio."""
    robot = estimate.observer.robot
    q = np.tile(pin.neutral(robot.model), (len(estimate.q), 1))
    q[:, robot.nq - robot.n_joints :] = estimate.q
    return contact_map(robot, q, list(frames))


def test_scores_are_those_of_pinocchios_jacobians(drawn):
    frames = (drawn.observer.robot.link_names[3], drawn.observer.robot.link_names[-1])
    scores = drawn.scores(frames)
    G = jacobians(drawn, frames)
    for t in range(4):
        W = np.linalg.inv(drawn.covariance[t])
        for k, frame in enumerate(frames):
            J = G[t, :, 6 * k : 6 * k + 6].T
            assert scores.score[frame][t] == pytest.approx(J @ W @ drawn.tau_ext[t], abs=1e-8)
            assert scores.information[frame][t] == pytest.approx(J @ W @ J.T, abs=1e-8)


def test_wrenches_are_weighted_least_squares_with_a_prior(drawn, rng):
    frames = (drawn.observer.robot.link_names[3], drawn.observer.robot.link_names[-1])
    priors = [GaussianPrior.of(rng.normal(size=6), rng.uniform(1, 30, 6)) for _ in frames]
    pairs = zip(frames, priors, strict=True)
    posterior = drawn.posterior([AssumedContact(name, prior=prior) for name, prior in pairs])
    G = jacobians(drawn, frames)
    mean = np.concatenate([prior.mean for prior in priors])
    root = np.linalg.inv(np.diag(np.concatenate([np.diag(p.covariance) for p in priors])))
    for t in range(4):
        W = np.linalg.inv(drawn.covariance[t])
        P = np.linalg.inv(root + G[t].T @ W @ G[t])
        expected = mean + P @ G[t].T @ W @ (drawn.tau_ext[t] - G[t] @ mean)
        lag = P @ G[t].T @ W @ drawn.lag[t]
        for k, frame in enumerate(frames):
            at = slice(6 * k, 6 * k + 6)
            assert posterior[f"fx.{frame}"][t] == pytest.approx(expected[at], abs=1e-7)
            block = P[at, at] + np.outer(lag[at], lag[at])
            assert posterior.covariance(f"fx.{frame}")[t] == pytest.approx(block, abs=1e-7)
            assert posterior.sigma(f"fx.{frame}")[t] ** 2 == pytest.approx(np.diag(block), abs=1e-7)


def test_what_torques_do_not_tell_keeps_its_prior():
    """On the first link of an arm that turns about z, only the moment about z is told."""
    robot = load_robot("tx40")
    observer = MomentumObserver(robot, torque_std=0.1, velocity_std=1e-3)
    zero = np.zeros((1, 6))
    estimate = MomentumEstimate(
        observer, np.zeros(1), zero, zero + 2.0, 1e-4 * np.eye(6)[None], zero, np.ones(1, bool)
    )
    link = robot.link_names[0]
    axis = robot.tree.axis[0]
    prior = GaussianPrior.zero(6, 50.0)
    posterior = estimate.posterior([AssumedContact(link, prior=prior)])
    told = np.concatenate([np.zeros(3), axis])
    P = posterior.covariance(f"fx.{link}")[0]
    assert told @ P @ told == pytest.approx(1e-4, rel=1e-4)
    rest = np.eye(6) - np.outer(told, told)
    assert rest @ P @ rest == pytest.approx(2500.0 * rest, abs=1e-9)
    assert posterior[f"fx.{link}"][0] == pytest.approx(2.0 * told, abs=1e-4)


def test_a_pure_force_at_a_point_has_its_moment_about_the_frame(drawn):
    frame, point = drawn.observer.robot.link_names[-1], np.array([0.1, -0.2, 0.05])
    posterior = drawn.posterior([AssumedContact(frame, point)])
    fx = posterior[f"fx.{frame}"]
    assert fx[:, 3:] == pytest.approx(np.cross(point, fx[:, :3]), abs=1e-6)
    assert np.linalg.matrix_rank(posterior.covariance(f"fx.{frame}")[0], tol=1e-6) == 3


def test_a_push_is_recovered_where_the_link_is_known(pushed_arm):
    rng = np.random.default_rng(3)
    observer = MomentumObserver(pushed_arm.robot, torque_std=0.1, velocity_std=1e-3)
    estimate = observer.estimate(**pushed_arm.noisy(rng, 0.1, 1e-3))
    posterior = estimate.posterior([AssumedContact("panda_link5", np.zeros(3))])
    middle = slice(1400, 1600)  # around the greatest force, at 3 s
    force = posterior["fx.panda_link5"][middle, :3].mean(axis=0)
    assert force == pytest.approx(pushed_arm.push[middle, :3].mean(axis=0), abs=0.3)


def test_independent_scores_add_up_to_their_information(pushed_arm):
    """Sums over a tenth of a second, without contact, have the covariance that they state."""
    rng = np.random.default_rng(8)
    quiet = {name: value[:1000] for name, value in pushed_arm.noisy(rng, 0.1, 1e-3).items()}
    observer = MomentumObserver(pushed_arm.robot, torque_std=0.1, velocity_std=1e-3)
    totals = []
    for seed in range(6):
        noise = np.random.default_rng(seed)
        again = pushed_arm.noisy(noise, 0.1, 1e-3)
        part = {name: value[:1000] for name, value in again.items()}
        estimate = observer.estimate(**part)
        scores = estimate.scores(["panda_link7"], independent=True)
        score, information = scores.score["panda_link7"], scores.information["panda_link7"]
        for first in range(100, 1000, 50):
            at = slice(first, first + 50)
            s, L = score[at].sum(axis=0), information[at].sum(axis=0)
            totals.append(s @ np.linalg.solve(L, s))
    assert quiet["t"].size == 1000
    assert np.mean(totals) == pytest.approx(6.0, rel=0.25)


def test_rows_of_a_motionless_robot_say_the_same(drawn, rng):
    """-tau_ext as torques of the MAP estimator, against least squares with diagonal covariance."""
    robot, base = drawn.observer.robot, drawn.observer.robot.nv - drawn.observer.robot.n_joints
    diagonal = np.tile(np.diag(rng.uniform(0.1, 1.0, robot.nv)), (4, 1, 1))
    estimate = MomentumEstimate(
        drawn.observer, drawn.t, drawn.q, drawn.tau_ext, diagonal, 0.0 * drawn.lag, drawn.updated
    )
    links = (robot.link_names[4], robot.link_names[-1])
    priors = {link: GaussianPrior.of(rng.normal(size=6), [30] * 3 + [5] * 3) for link in links}
    expected = estimate.posterior([AssumedContact(k, prior=p) for k, p in priors.items()])
    rows = motionless_rows(estimate, priors)
    still = dict(base_twist=np.zeros(6)) if base else dict(gravity=np.zeros(3))
    q = estimate.q
    posterior = rows.problem.estimate(q, 0.0 * q, rows.readings, detail="blocks", **still)
    for link in links:
        name = f"fx.{link}"
        assert posterior[name] == pytest.approx(expected[name], rel=1e-6, abs=1e-6)
        assert posterior.blocks[name] == pytest.approx(expected.blocks[name], rel=1e-6, abs=1e-6)
    if base:
        with pytest.raises(MismatchError, match="the floating base"):
            motionless_rows(estimate, {robot.link_names[0]: GaussianPrior.unknown(6)})


def test_contacts_that_are_nowhere_are_refused(drawn):
    with pytest.raises(UnknownNameError, match="link or frame"):
        drawn.posterior([AssumedContact("nose")])
    with pytest.raises(MismatchError, match="no frame is given"):
        drawn.scores([])
    with pytest.raises(ShapeError, match="expected 3"):
        AssumedContact("hand", np.zeros(3), GaussianPrior.unknown(6))
