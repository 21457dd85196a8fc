"""Intervals against exact covariances of known noise, and shares of the data against Bayes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import solve_triangular, toeplitz

from bodysense.identification import Regression, identifier
from bodysense.identification.methods import IDENTIFIERS
from bodysense.identification.prior import Prior
from bodysense.identification.solution import PriorTerm
from bodysense.identification.uncertainty import (
    BaseUncertainty,
    _full_uncertainty,
    _long_run,
    autocorrelation,
    base_uncertainty,
    correlation_lags,
    parzen,
)
from bodysense.robot import inverse_dynamics

ANY_SAMPLES = [
    name for name, row in IDENTIFIERS.items() if row.group not in ("simulated", "filtering")
]
"""Methods that take samples as they are; others simulate a robot under control between them, and
have the same asked of them in the laws."""


def by_data(problem: Regression) -> np.ndarray:
    """(b,) variances of ordinary least squares, without Student's widening."""
    prior = Prior.of(problem)
    weighing = identifier("ols").estimate(problem, prior)
    theta_base = problem.base.to_base(weighing.theta)
    found = base_uncertainty(problem, prior, theta_base, weighing, PriorTerm())
    return np.diag(prior.base_factor @ found.by_data @ prior.base_factor.T)


@pytest.mark.parametrize(
    "method", [identifier("ols"), identifier("wls"), identifier("ridge", spread=100.0)]
)
def test_white_noise_gives_the_textbook_covariance(method, simulate):
    simulated = simulate(0.5, n_t=3000)
    variance = np.diag(method.fit(simulated.problem).covariance)
    wanted = 0.25 * np.diag(np.linalg.inv(simulated.Y.T @ simulated.Y))
    assert np.mean(variance / wanted) == pytest.approx(1.0, abs=0.08)
    np.testing.assert_allclose(variance / wanted, 1.0, atol=0.3)


def test_robust_fits_pay_five_percent_for_gaussian_noise(simulate):
    simulated = simulate(0.5, n_t=3000)
    variance = np.diag(identifier("irls").fit(simulated.problem).covariance)
    wanted = 0.25 * np.diag(np.linalg.inv(simulated.Y.T @ simulated.Y)) / 0.95
    assert np.mean(variance / wanted) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.95])
def test_noise_that_lingers_gives_its_own_covariance(decay, simulate, small_arm, base_of):
    """Autoregressive noise, whose effect on the estimate is known in closed form."""
    clean = simulate(0.0, n_t=3000, rate=200.0)
    (motion,) = clean.problem.motions
    n_t = motion.t.size
    noise_covariance = 0.25 * toeplitz(decay ** np.arange(n_t))
    M = np.linalg.inv(clean.Y.T @ clean.Y)
    per_joint = [clean.Y[clean.joint == j] for j in range(3)]
    S = sum(Y.T @ noise_covariance @ Y for Y in per_joint)
    wanted = np.diag(M @ S @ M)
    rng = np.random.default_rng(8)
    found, widened = np.zeros((2, wanted.size))
    runs = 12
    for _ in range(runs):
        e = np.empty((n_t, 3))
        e[0] = 0.5 * rng.normal(size=3)
        for k in range(1, n_t):
            e[k] = decay * e[k - 1] + 0.5 * np.sqrt(1.0 - decay**2) * rng.normal(size=3)
        problem = Regression.from_samples(
            small_arm,
            motion.q,
            motion.v,
            motion.a,
            motion.tau + e,
            rate=200.0,
            base=base_of(small_arm),
        )
        identified = identifier("ols").fit(problem)
        found += by_data(problem) / runs
        widened += np.diag(identified.covariance) / runs
    assert np.median(found / wanted) == pytest.approx(1.0, abs=0.15)
    # What intervals are made of allows for a variance that is itself uncertain.
    assert (widened >= found * (1.0 - 1e-6)).all()
    assert np.median(widened / wanted) < 1.35
    white = 0.25 * np.diag(M)
    assert np.median(white / wanted) < 0.5  # where the textbook's promise is off
    lag = np.log(0.05) / np.log(decay)
    assert identified.correlation_time[0] == pytest.approx(lag / 200.0, rel=0.6)


def test_few_rows_do_not_feign_certainty(simulate, small_arm, base_of):
    """Thirty samples for 21 parameters: residuals are a quarter too small, and it is known."""
    clean = simulate(0.0, n_t=30, rate=6.0)
    (motion,) = clean.problem.motions
    wanted = 0.25 * np.diag(np.linalg.inv(clean.Y.T @ clean.Y))
    found, runs = np.zeros_like(wanted), 40
    for seed in range(runs):
        noise = 0.5 * np.random.default_rng(seed).normal(size=motion.q.shape)
        problem = Regression.from_samples(
            small_arm,
            motion.q,
            motion.v,
            motion.a,
            motion.tau + noise,
            rate=6.0,
            base=base_of(small_arm),
        )
        found += by_data(problem) / runs
    assert 0.9 < np.median(found / wanted) < 1.4


def test_what_a_method_expects_does_not_count_as_data(simulate):
    """The shares of the data are the same, however tightly a method holds on to a right prior."""
    simulated = simulate(2.0, n_t=300, off=0.0)
    tight, loose = (identifier("ridge", spread=x).fit(simulated.problem) for x in (0.05, 50.0))
    assert loose.base_resolution.min() < 0.9  # some are hardly seen
    np.testing.assert_allclose(tight.resolution, loose.resolution, atol=0.08)
    np.testing.assert_allclose(tight.base_resolution, loose.base_resolution, atol=0.08)
    # The estimate itself is the surer for it.
    assert (tight.sigma_base < 0.2 * Prior.of(simulated.problem).size_base).all()
    assert (tight.sigma_base < loose.sigma_base).all()


@pytest.mark.parametrize("name", [name for name in ANY_SAMPLES if name != "tls"])
def test_at_constant_speed_viscous_and_coulomb_friction_are_not_told_apart(
    name, small_arm, base_of, sines
):
    """Two columns alike up to rounding, and no noise at all: rounding is no information."""
    t, q, v, a = sines(3, 4, 1500, 100.0)
    q[:, 2], a[:, 2] = 0.7 * t, 0.0
    v[:, 2] = 0.7 * (1.0 + 1e-12 * np.random.default_rng(0).normal(size=t.size))
    tau = inverse_dynamics(small_arm, q, v, a)
    problem = Regression.from_samples(small_arm, q, v, a, tau, rate=100.0, base=base_of(small_arm))
    found, prior = identifier(name).fit(problem), Prior.of(problem)
    Fv, Fc = (small_arm.layout.index(name_) for name_ in ("Fv3", "Fc3"))
    size = np.array([0.7 * prior.size[Fv], prior.size[Fc]])
    # Of 0.7 Fv + Fc all is known: shares of the data as the squares of the sizes.
    np.testing.assert_allclose(found.resolution[[Fv, Fc]], size**2 / np.sum(size**2), atol=0.01)
    assert 0.7 * found.theta[Fv] + found.theta[Fc] == pytest.approx(0.7 * 0.5 + 0.7, abs=1e-6)


def test_noise_common_to_all_joints_is_seen(simulate, small_arm, base_of):
    """One disturbance in all joints at once: rows of an instant do not tell apart."""
    clean = simulate(0.0, n_t=3000)
    (motion,) = clean.problem.motions
    rng = np.random.default_rng(2)
    e = 0.5 * rng.normal(size=(motion.t.size, 1)) * np.ones(3)
    problem = Regression.from_samples(
        small_arm,
        motion.q,
        motion.v,
        motion.a,
        motion.tau + e,
        rate=100.0,
        base=base_of(small_arm),
    )
    M = np.linalg.inv(clean.Y.T @ clean.Y)
    together = clean.Y.reshape(-1, 3, problem.size).sum(axis=1)
    wanted = 0.25 * np.diag(M @ together.T @ together @ M)
    found = np.diag(identifier("ols").fit(problem).covariance)
    assert np.mean(found / wanted) == pytest.approx(1.0, abs=0.12)


# Total least squares takes all columns to be equally noisy, whatever their units.
@pytest.mark.parametrize("name", [name for name in IDENTIFIERS if name != "tls"])
def test_grams_instead_of_kilograms_change_numbers_but_not_certainty(name, simulate):
    simulated = simulate(0.2, n_t=300)
    problem = simulated.problem
    (motion,) = problem.motions
    # Which particles survive is decided by the last bit, which a power of two leaves alone.
    unit = 1024.0 if name == "pf" else 1e3
    scaled = Regression.of(
        problem.robot.with_parameters(unit * problem.robot.theta),
        [replace(motion, tau=unit * motion.tau, tau_raw=unit * motion.tau_raw)],
        problem.settings,
        problem.base,
    )
    method = identifier(name)
    ours, theirs = method.fit(problem), method.fit(scaled)
    np.testing.assert_allclose(theirs.theta_base, unit * ours.theta_base, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(theirs.sigma, unit * ours.sigma, rtol=1e-3)
    np.testing.assert_allclose(theirs.resolution, ours.resolution, atol=1e-5)
    np.testing.assert_allclose(theirs.correlation_time, ours.correlation_time)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("name", ANY_SAMPLES)
def test_what_never_moved_is_not_known(name, noise, small_arm, base_of, sines):
    """Whatever prior a method uses, and however clean the data: nothing was seen of joint 3."""
    _, q, v, a = sines(3, 4, 1500, 100.0)
    q[:, 2], v[:, 2], a[:, 2] = 0.4, 0.0, 0.0
    tau = inverse_dynamics(small_arm, q, v, a)
    tau += noise * np.random.default_rng(1).normal(size=tau.shape)
    problem = Regression.from_samples(small_arm, q, v, a, tau, rate=100.0, base=base_of(small_arm))
    found, prior = identifier(name).fit(problem), Prior.of(problem)
    layout = small_arm.layout
    independent = list(problem.base.independent)
    for name_ in ("Fv3", "Fc3", "Ia3"):
        k = layout.index(name_)
        assert found.resolution[k] < 0.01
        assert found.base_resolution[independent.index(k)] < 0.01
        assert found.sigma[k] == pytest.approx(prior.size[k], rel=0.01)
        # The estimate is the prior's, and so is its uncertainty, or the narrower one of a method
        # that holds on to the prior; Student's quantile may widen it.
        spread = found.sigma_base[independent.index(k)] / prior.size[k]
        assert 0.2 < spread < 1.5
    for name_ in ("Fv1", "Fc1", "Fv2", "Fc2"):
        k = layout.index(name_)
        assert found.resolution[k] > 0.99
        assert found.base_resolution[independent.index(k)] > 0.99
        assert found.sigma[k] < 0.1 * prior.size[k]
    silent = ~np.abs(prior.mapping).any(axis=0)
    assert silent.any()
    np.testing.assert_allclose(found.resolution[silent], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.sigma[silent], prior.size[silent])


def test_more_noise_is_less_certainty(simulate):
    sigma = [
        identifier("ols").fit(simulate(noise, n_t=500).problem).sigma_base for noise in (0.1, 0.2)
    ]
    np.testing.assert_allclose(sigma[1], 2.0 * sigma[0], rtol=1e-6)


@pytest.mark.parametrize("strength", [1e-3, 1.0, 1e3])
def test_shares_of_the_data_are_those_of_bayes(strength, simulate, rng):
    prior = Prior.of(simulate(0.1).problem)
    b, p = prior.mapping.shape
    X = rng.normal(size=(b, b)) * strength
    covariance = (X @ X.T + 0.1 * strength**2 * np.eye(b)) * np.outer(
        prior.size_base, prior.size_base
    )
    half = solve_triangular(prior.base_factor, covariance, lower=True)
    by_data = solve_triangular(prior.base_factor, half.T, lower=True)
    plain = BaseUncertainty(covariance, by_data, np.ones(b), np.zeros(1))
    sigma, resolution, base_resolution = _full_uncertainty(prior, plain)
    D = np.diag(prior.size**2)
    # Posterior of theta given a measurement of B theta, in units of the sizes.
    B = prior.mapping * prior.size
    posterior = np.linalg.inv(B.T @ np.linalg.inv(covariance) @ B + np.eye(p))
    np.testing.assert_allclose(sigma, prior.size * np.sqrt(np.diag(posterior)), rtol=1e-5)
    np.testing.assert_allclose(resolution, 1.0 - np.diag(posterior), atol=1e-7)
    base_posterior = B @ posterior @ B.T
    before = prior.mapping @ D @ prior.mapping.T
    wanted = 1.0 - np.diag(base_posterior) / np.diag(before)
    np.testing.assert_allclose(base_resolution, wanted, atol=1e-7)


def test_parameters_that_stand_alone_have_one_standard_deviation(simulate):
    found = identifier("wls").fit(simulate(0.01, n_t=300).problem)
    mapping = found.base.mapping
    alone = [
        (row, int(np.flatnonzero(mapping[row])[0]))
        for row in range(found.base.size)
        if np.count_nonzero(mapping[row]) == 1
        and np.count_nonzero(mapping[:, np.flatnonzero(mapping[row])[0]]) == 1
        and found.base_resolution[row] > 0.999
    ]
    assert len(alone) > 3
    for row, k in alone:
        assert found.sigma[k] == pytest.approx(found.sigma_base[row], rel=2e-3)


def test_total_least_squares_has_intervals_too(simulate):
    found = identifier("tls").fit(simulate(0.1, n_t=500).problem)
    assert np.isfinite(found.covariance).all()
    assert np.linalg.eigvalsh(found.covariance).min() > 0.0


def test_parzens_window():
    # By its definition as a convolution: a triangle with itself, at lags that end beyond the last.
    window = parzen(7)
    assert window[0] == 1.0
    assert window[4] == pytest.approx(0.25)
    assert (np.diff(window) < 0.0).all()
    np.testing.assert_allclose(window[5:], 2.0 * (1.0 - np.array([5, 6, 7]) / 8.0) ** 3)
    np.testing.assert_array_equal(parzen(0), [1.0])


@pytest.mark.parametrize("lags", [0, 1, 5, 50])
def test_the_long_run_covariance_is_a_double_sum(lags, rng):
    scores = rng.normal(size=(20, 3))
    window = parzen(min(lags, 19))
    wanted = np.zeros((3, 3))
    for i in range(20):
        for j in range(20):
            if abs(i - j) < window.size:
                wanted += window[abs(i - j)] * np.outer(scores[i], scores[j])
    found = _long_run(scores, lags)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert np.linalg.eigvalsh(found).min() > -1e-10  # the window's spectrum is positive


def test_autocorrelation_is_numpys(rng):
    e = np.cumsum(rng.normal(size=(101, 2)), axis=0)
    wanted = np.zeros(25)
    for j in range(2):
        x = e[:, j] - e[:, j].mean()
        full = np.correlate(x, x, mode="full")[100:]
        wanted += full[:25] / full[0] / 2.0
    np.testing.assert_allclose(autocorrelation(e), wanted, atol=1e-12)
    np.testing.assert_array_equal(autocorrelation(np.zeros((50, 2))), [1.0])


def test_correlation_ends_at_the_first_small_lag():
    assert correlation_lags(0.9 ** np.arange(1000)) == 29  # 0.9^29 = 0.047
    assert correlation_lags(np.eye(1000)[0]) == 1
    assert correlation_lags(np.ones(30)) == 30
