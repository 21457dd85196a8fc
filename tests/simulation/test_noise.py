"""Noise of rollouts: repeatable, white, normal, and each run's own."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from scipy import stats

from bodysense.simulation import rollout
from bodysense.simulation._kernels.rollout import normal, uniform

MASK = 2**64 - 1
GOLDEN, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@numba.njit
def uniforms(keys, counters):
    out = np.empty((keys.size, counters.size))
    for i in range(keys.size):
        for k in range(counters.size):
            out[i, k] = uniform(keys[i], counters[k])
    return out


@numba.njit
def normals(keys, counters):
    out = np.empty((keys.size, counters.size))
    for i in range(keys.size):
        for k in range(counters.size):
            out[i, k] = normal(keys[i], counters[k])
    return out


def unsigned(*values):
    return np.array(values, dtype=np.uint64)


# -- the generator -------------------------------------------------------------------------


def mixed(z: int) -> int:
    z = ((z ^ (z >> 30)) * MIX_1) & MASK
    z = ((z ^ (z >> 27)) * MIX_2) & MASK
    return z ^ (z >> 31)


def unmixed(z: int) -> int:
    """Undo `mixed`, which is a bijection."""
    for shift, factor in ((31, MIX_2), (27, MIX_1), (30, 1)):
        x = z
        for _ in range(64 // shift + 1):
            x = z ^ (x >> shift)
        z = (x * pow(factor, -1, 2**64)) & MASK
    return z


def test_it_is_splitmix64():
    # The first outputs for the seed 1234567, published with the reference implementation.
    published = (6457827717110365317, 3203168211198807973, 9817491932198370423)
    assert tuple(mixed((1234567 + k * GOLDEN) & MASK) for k in (1, 2, 3)) == published
    counters = [0, 1, 2, 1000, 2**40]
    for key in (1234567, 0, 1, MASK, 0xDEADBEEF):
        states = [(key + (k + 1) * GOLDEN) & MASK for k in counters]
        expected = [((mixed(z) >> 11) + 1) / 2**53 for z in states]
        np.testing.assert_array_equal(uniforms(unsigned(key), unsigned(*counters))[0], expected)


def test_the_ends_of_the_interval():
    for output, expected in ((0, 2.0**-53), (MASK, 1.0), (2**63, 0.5 + 2.0**-53)):
        assert mixed(unmixed(output)) == output
        key = (unmixed(output) - GOLDEN) & MASK
        assert uniforms(unsigned(key), unsigned(0))[0, 0] == expected
        assert np.isfinite(normals(unsigned(key), unsigned(0))).all()
    # Radius zero where the first number is one; the largest radius where it is smallest.
    one, least = ((unmixed(output) - GOLDEN) & MASK for output in (MASK, 0))
    assert normals(unsigned(one), unsigned(0))[0, 0] == 0.0
    assert abs(normals(unsigned(least), unsigned(0))[0, 0]) <= np.sqrt(2 * 53 * np.log(2))


@pytest.mark.parametrize("kind", ["one key", "many keys", "neighbouring keys"])
def test_uniformity(kind, rng):
    n = 2**20
    if kind == "one key":
        x = uniforms(rng.integers(0, 2**64, 1, dtype=np.uint64), np.arange(n, dtype=np.uint64))
    elif kind == "many keys":
        x = uniforms(rng.integers(0, 2**64, n, dtype=np.uint64), unsigned(0))
    else:
        x = uniforms(np.arange(n, dtype=np.uint64), unsigned(7))
    x = x.ravel()
    assert x.min() > 0.0
    assert x.max() <= 1.0
    counts = np.histogram(x, bins=1024, range=(0.0, 1.0))[0]
    assert stats.chisquare(counts).pvalue > 1e-3
    pairs = np.histogram2d(x[:-1], x[1:], bins=32, range=[(0.0, 1.0)] * 2)[0]
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-3


def test_nothing_is_repeated_across_keys(rng):
    keys = rng.integers(0, 2**64, 500, dtype=np.uint64)
    x = uniforms(keys, np.arange(2000, dtype=np.uint64))
    assert np.unique(x).size == x.size  # a repetition by chance has probability 6e-5


def test_normality_of_the_generator(rng):
    keys = rng.integers(0, 2**64, 4, dtype=np.uint64)
    x = normals(keys, np.arange(2**17, dtype=np.uint64))
    assert stats.kstest(x.ravel(), "norm").pvalue > 1e-3
    # Tails, which the test above hardly sees: 1416 and 33 numbers are to be expected there.
    for edge in (3.0, 4.0):
        expected = 2.0 * x.size * stats.norm.sf(edge)
        assert abs((np.abs(x) > edge).sum() - expected) < 4.0 * np.sqrt(expected)
    # Counters 2k and 2k + 1 make number k, so that no two numbers share one.
    u = uniforms(keys, np.arange(20, dtype=np.uint64))
    radius, angle = np.sqrt(-2.0 * np.log(u[:, ::2])), 2.0 * np.pi * u[:, 1::2]
    np.testing.assert_allclose(x[:, :10], radius * np.cos(angle), rtol=1e-13, atol=1e-15)


# -- noise of rollouts ---------------------------------------------------------------------

SIGMA_Q = np.array([1e-5, 2e-5, 5e-6, 1e-5, 3e-5, 1e-5])
SIGMA_TAU = np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.05])


@pytest.fixture(scope="module")
def noisy(robot_of, wave_of):
    rng = np.random.default_rng(11)
    return rollout(
        robot_of("tx40"),
        wave_of(6, 1.0),
        runs=4,
        position_noise=SIGMA_Q,
        torque_noise=SIGMA_TAU,
        rng=rng,
    )


@pytest.mark.parametrize("what", ["position", "torque"])
def test_statistics(what, noisy):
    noise = noisy.q_measured - noisy.q if what == "position" else noisy.tau_measured - noisy.tau
    x = noise / (SIGMA_Q if what == "position" else SIGMA_TAU)
    runs, n, joints = x.shape
    assert n == 5001
    size = x.size
    assert abs(x.mean()) < 4.0 / np.sqrt(size)
    assert abs(x.var() - 1.0) < 4.0 * np.sqrt(2.0 / size)
    each = x.var(axis=(0, 1))
    np.testing.assert_allclose(each, 1.0, atol=4.5 * np.sqrt(2.0 / (runs * n)))
    assert stats.kstest(x.ravel(), "norm").pvalue > 1e-3
    # White: neither steps nor runs nor joints know of each other, at any lag.
    columns = x.transpose(1, 0, 2).reshape(n, runs * joints)
    for lag in (0, 1, 2, 3, 4, 5, 6, 12, 100):
        correlation = columns[lag:].T @ columns[: n - lag] / (n - lag)
        correlation -= np.eye(runs * joints) * correlation * (lag == 0)
        assert np.abs(correlation).max() < 5.0 / np.sqrt(n - lag)


def test_position_and_torque_noise_are_independent(noisy):
    position = (noisy.q_measured - noisy.q) / SIGMA_Q
    torque = (noisy.tau_measured - noisy.tau) / SIGMA_TAU
    assert abs((position * torque).mean()) < 4.0 / np.sqrt(position.size)


def test_noise_of_the_encoders_moves_the_robot(noisy, robot_of, wave_of):
    quiet = rollout(robot_of("tx40"), wave_of(6, 1.0))
    for run in range(4):
        assert np.abs(noisy.tau[run] - quiet.tau[0]).max() > 0.1
        assert np.abs(noisy.q[run] - quiet.q[0]).max() > 1e-7
    assert np.abs(noisy.q[0] - noisy.q[1]).max() > 1e-7


def test_noise_of_the_log_does_not(robot_of, wave_of):
    robot, motion = robot_of("tx40"), wave_of(6, 0.05)
    quiet = rollout(robot, motion)
    logged = rollout(robot, motion, torque_noise=0.3, rng=np.random.default_rng(0))
    for name in ("q", "v", "a", "tau", "q_measured"):
        np.testing.assert_array_equal(getattr(logged, name), getattr(quiet, name))
    assert (logged.tau_measured != quiet.tau_measured).all()


@pytest.mark.parametrize("noise", [{"position_noise": 1e-5}, {"torque_noise": 0.1}])
def test_a_seed_fixes_the_noise(noise, robot_of, wave_of):
    robot, motion = robot_of("tx40"), wave_of(6, 0.02)

    def measured(seed):
        result = rollout(robot, motion, runs=2, rng=np.random.default_rng(seed), **noise)
        return result.q_measured, result.tau_measured

    for one, other in zip(measured(1), measured(1), strict=True):
        np.testing.assert_array_equal(one, other)
    changed = 0 if "position_noise" in noise else 1
    assert (measured(1)[changed] != measured(2)[changed]).all()
    runs = measured(1)[changed]
    assert (runs[0] != runs[1]).all()


def test_a_generator_moves_on(robot_of, wave_of):
    robot, motion, rng = robot_of("tx40"), wave_of(6, 0.02), np.random.default_rng(1)
    first = rollout(robot, motion, position_noise=1e-5, rng=rng)
    second = rollout(robot, motion, position_noise=1e-5, rng=rng)
    assert (first.q_measured != second.q_measured).all()
    # Without noise, nothing is drawn: other uses of the generator do not shift.
    before = rng.bit_generator.state
    rollout(robot, motion, rng=rng)
    assert rng.bit_generator.state == before


def test_noise_does_not_depend_on_the_sampling(robot_of, wave_of):
    robot, motion = robot_of("tx40"), wave_of(6, 0.1)
    full, few = (
        rollout(
            robot,
            motion,
            runs=2,
            sampling_rate=rate,
            position_noise=1e-5,
            rng=np.random.default_rng(4),
        )
        for rate in (5000.0, 500.0)
    )
    np.testing.assert_array_equal(few.q_measured, full.q_measured[:, ::10])
