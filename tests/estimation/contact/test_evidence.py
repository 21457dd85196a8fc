"""Evidence about a wrench: against scores of dense least squares, and the chi² distribution."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from scipy.stats import chi2, kstest, multivariate_normal

from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics
from bodysense.estimation.contact.evidence import (
    Evidence,
    prior_root,
    surprise,
    trailing_mean,
)
from bodysense.robot import load_robot
from bodysense.sensors import JointAcceleration, JointTorque, variances

PRIOR = np.diag([50.0, 40.0, 30.0, 5.0, 4.0, 3.0]) ** 2
ROOT = prior_root(PRIOR)


def posterior(H: np.ndarray, S: np.ndarray, P: np.ndarray, y: np.ndarray):
    """Mean and covariance of w ~ N(0, P) after y = H w + N(0, S)."""
    C = np.linalg.inv(H.T @ np.linalg.solve(S, H) + np.linalg.inv(P))
    return y @ np.linalg.solve(S, H) @ C, C


@pytest.mark.parametrize("share", [1.0, 1e-3, 1e-7])
def test_posteriors_give_the_scores_of_least_squares(rng, share):
    H, S, y = rng.normal(size=(9, 6)), np.diag(rng.uniform(0.5, 2.0, 9)), rng.normal(size=(7, 9))
    mean, C = posterior(H, S, share * PRIOR, y)
    made = Evidence.from_posteriors(
        np.arange(7.0), {"l": PRIOR}, {"l": mean}, {"l": np.tile(C, (7, 1, 1))}, share=share
    )
    A = ROOT.T @ H.T @ np.linalg.solve(S, H) @ ROOT
    b = y @ np.linalg.solve(S, H) @ ROOT
    np.testing.assert_allclose(made.information["l"][0], A, rtol=1e-5, atol=1e-6 * np.abs(A).max())
    np.testing.assert_allclose(made.score["l"], b, rtol=1e-5, atol=1e-6 * np.abs(b).max())


def test_evidence_of_an_estimator_is_that_of_joint_torques(rng):
    """MapDynamics with hardly any prior of a link, against the Jacobian of Pinocchio."""
    robot, link, share, std, std_a = load_robot("example:ur5"), "wrist_3_link", 1e-7, 0.3, 0.2
    sensors = [
        kind(name=f"{kind.kind}.{joint}", joint=joint, covariance=variances(sigma, 1))
        for kind, sigma in ((JointTorque, std), (JointAcceleration, std_a))
        for joint in robot.joint_names
    ]
    prior = GaussianPrior(np.zeros(6), share * PRIOR)
    others = dict.fromkeys(robot.link_names, GaussianPrior.zero(6))
    wide = GaussianPrior(np.zeros(1), np.array([[1e10]]))
    assumptions = Assumptions(
        joint_acceleration=wide, wrench=GaussianPrior.zero(6), wrenches={**others, link: prior}
    )
    problem = MapDynamics(robot, sensors, assumptions)
    T, n = 5, robot.n_joints
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, T, n))
    model, data, y, b, A = robot.model, robot.model.createData(), [], [], []
    R = np.sqrt(PRIOR)
    for k in range(T):
        error = rng.normal(size=n)
        tau = pin.rnea(model, data, q[k], dq[k], ddq[k]) - model.armature * ddq[k]
        J = pin.computeJointJacobian(model, data, q[k], n)
        M = pin.crba(model, data, q[k]) - np.diag(model.armature)
        S = std**2 * np.eye(n) + std_a**2 * M @ M.T
        H = -J.T @ R
        y.append(np.concatenate([tau + error, ddq[k]]))
        b.append(H.T @ np.linalg.solve(S, error))
        A.append(H.T @ np.linalg.solve(S, H))
    result = problem.estimate(q, dq, np.array(y), detail="blocks")
    made = Evidence.from_posteriors(
        np.arange(T),
        {link: PRIOR},
        {link: result[f"fx.{link}"]},
        {link: result.covariance(f"fx.{link}")},
        share=share,
    )
    turn = made.root[link].T @ np.linalg.inv(R)  # its axes are those of the prior in some order
    score = made.score[link] @ np.linalg.inv(turn).T
    np.testing.assert_allclose(score, b, rtol=1e-3, atol=1e-3 * np.abs(b).max())
    information = np.linalg.inv(turn) @ made.information[link] @ np.linalg.inv(turn).T
    np.testing.assert_allclose(information, A, rtol=1e-3, atol=1e-3 * np.abs(A).max())


@pytest.mark.parametrize("freedom", [3, 6])
def test_chi_square_of_white_noise_has_its_distribution(rng, freedom):
    H = 3.0 * rng.normal(size=(8, freedom))
    b = rng.standard_normal((20_000, 8)) @ H
    A = np.broadcast_to(H.T @ H, (20_000, freedom, freedom))
    some = Evidence(np.arange(20_000.0), {"l": np.eye(6)[:, :freedom]}, {"l": b}, {"l": A})
    square, degrees = some.chi_square("l")
    assert (degrees == freedom).all()
    assert kstest(square, chi2(freedom).cdf).pvalue > 1e-3
    halved, _ = some.averaged(np.array([0]), 4).scaled(4).chi_square("l")
    assert kstest(halved[3::4], chi2(freedom).cdf).pvalue > 1e-3
    # The surprise of white noise is that of an exponential distribution.
    assert kstest(some.surprise("l"), "expon").pvalue > 1e-3


def test_axes_that_readings_say_nothing_of_do_not_count(rng):
    A = np.diag([1e4, 1e2, 1e-3])[None]
    some = Evidence(
        np.zeros(1), {"l": np.eye(6)[:, :3]}, {"l": np.array([[100.0, 0.0, 50.0]])}, {"l": A}
    )
    square, degrees = some.chi_square("l")
    assert degrees[0] == 2
    assert square[0] == pytest.approx(1.0)
    assert some.surprise("l", 4.0)[0] == pytest.approx(-chi2(2).logsf(0.25))


@pytest.mark.parametrize("freedom", [1, 2, 3, 6])
@pytest.mark.parametrize("square", [0.0, 0.5, 10.0, 300.0])
def test_surprise_is_that_of_chi_square(freedom, square):
    told = surprise(np.array([square]), np.array([float(freedom)]))[0]
    assert told == pytest.approx(-chi2(freedom).logsf(square), rel=1e-9, abs=1e-12)


def test_surprise_is_right_where_numbers_end():
    """P(chi²_6 > x) = e^(-x/2) (1 + x/2 + x²/8)."""
    x = np.array([1e3, 2e3, 1e5, 1e7])
    exact = 0.5 * x - np.log1p(0.5 * x + 0.125 * x**2)
    np.testing.assert_allclose(surprise(x, np.full(4, 6.0)), exact, rtol=1e-4)
    assert surprise(np.array([5.0]), np.array([0.0]))[0] == 0.0


def test_log_odds_compare_densities_of_scores(rng):
    H = rng.normal(size=(8, 6))
    A, b = H.T @ H, rng.normal(size=6) * 5.0
    some = Evidence(np.zeros(1), {"l": ROOT}, {"l": b[None]}, {"l": A[None]})
    expected = multivariate_normal.logpdf(b, cov=A + A @ A) - multivariate_normal.logpdf(b, cov=A)
    assert some.log_odds("l")[0] == pytest.approx(expected, rel=1e-6)


def test_wrench_is_the_posterior_of_the_prior(rng):
    H, y = rng.normal(size=(9, 6)) * 0.1, rng.normal(size=(1, 9))
    mean, C = posterior(H, np.eye(9), PRIOR, y)
    A = ROOT.T @ H.T @ H @ ROOT
    some = Evidence(np.zeros(1), {"l": ROOT}, {"l": y @ H @ ROOT}, {"l": A[None]})
    found, covariance = some.wrench("l")
    np.testing.assert_allclose(found, mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(covariance[0], C, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(some.force_information("l")[0], (H.T @ H)[:3, :3], atol=1e-9)


def test_some_samples_are_those_of_the_whole(rng):
    some = Evidence(
        np.arange(5.0),
        {"l": ROOT},
        {"l": rng.normal(size=(5, 6))},
        {"l": np.tile(np.eye(6), (5, 1, 1))},
    )
    part = some.part(slice(1, 3))
    assert part.t.tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(part.wrench("l")[0], some.wrench("l")[0][1:3])


def test_exact_axes_of_a_prior_are_left_out():
    P = np.diag([4.0, 9.0, 0.0, 0.0, 0.0, 1.0])
    R = prior_root(P)
    assert R.shape == (6, 3)
    np.testing.assert_allclose(R @ R.T, P, atol=1e-12)


def test_means_do_not_cross_pieces(rng):
    x, starts = rng.normal(size=(11, 2)), np.array([0, 4])
    for window in (1, 2, 3, 8):
        mean = trailing_mean(x, starts, window)
        for k in range(11):
            first = max(0 if k < 4 else 4, k - window + 1)
            np.testing.assert_allclose(mean[k], x[first : k + 1].mean(axis=0), atol=1e-12)


def test_links_can_be_chosen(rng):
    some = Evidence(
        np.zeros(2),
        {"a": ROOT, "b": ROOT},
        {"a": np.ones((2, 6)), "b": np.zeros((2, 6))},
        {link: np.tile(np.eye(6), (2, 1, 1)) for link in "ab"},
    )
    assert some.links == ("a", "b")
    assert some.of("b").links == ("b",)
    assert (some.of("a").score["a"] == 1.0).all()
