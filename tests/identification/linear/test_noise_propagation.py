"""Slopes of the torques against Pinocchio, and the filters' gains against noise sent through."""

from __future__ import annotations

import dataclasses

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import ShapeError
from bodysense.identification import Motion, Preprocessing, Regression, motions
from bodysense.identification._kernels.noise_propagation import whiten_batch
from bodysense.identification.linear.likelihood import (
    _filter_gains,
    _motion_variances,
    _propagated,
    _row_states,
    _torque_slopes,
)
from bodysense.identification.preprocessing import Plan
from bodysense.logs.filtering import differentiate, lowpass
from bodysense.logs.log import Log
from bodysense.robot import Robot, inverse_dynamics

RATE = 500.0


@pytest.mark.parametrize("branched", [False, True], ids=["serial", "branched"])
@pytest.mark.parametrize("seed", range(3))
def test_slopes_are_pinocchios(branched, seed, random_model, states_of):
    rng = np.random.default_rng(seed)
    robot = Robot.from_pinocchio(random_model(rng, 3 + 2 * seed, branched=branched))
    q, v, a = states_of(robot, rng, 5)
    G = _torque_slopes(robot, robot.theta, q, v, a)
    data = robot.model.createData()
    for k in range(5):
        by_q, by_v, M = pin.computeRNEADerivatives(robot.model, data, q[k], v[k], a[k])
        M = np.triu(M) + np.triu(M, 1).T
        for block, expected in zip(np.split(G[k], 3, axis=1), (by_q, by_v, M), strict=True):
            np.testing.assert_allclose(block, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("load", [False, True])
@pytest.mark.parametrize("name", ["serial", "branched", "tx40-three"])
def test_slopes_are_those_of_the_torques_with_friction_and_coupling(
    name, load, robot_of, states_of, rng
):
    """By differences, for parameters that need not be physical."""
    robot = robot_of(name)
    if load:
        robot = robot.with_friction("coulomb-load", width=0.5)
    n = robot.n_joints
    q, v, a = states_of(robot, rng, 1)
    v = np.where(np.abs(v) < 0.2, 0.5, v)  # away from the jumps, which are left out
    theta = robot.theta + 0.3 * rng.normal(size=robot.layout.size)
    G = _torque_slopes(robot, theta, q, v, a)[0]
    h, still = 1e-5, np.zeros((n, n))
    step = h * np.eye(n)
    for k, block in enumerate(np.split(G, 3, axis=1)):
        moved = [step if j == k else still for j in range(3)]
        ahead, behind = (
            inverse_dynamics(
                robot, *(x + sign * d for x, d in zip((q, v, a), moved, strict=True)), theta=theta
            )
            for sign in (1.0, -1.0)
        )
        slope = (ahead - behind).T / (2.0 * h)
        np.testing.assert_allclose(block, slope, rtol=0, atol=1e-6 * np.abs(slope).max())


def test_the_jump_of_friction_is_left_out(robot_of):
    robot = robot_of("tx40")
    n = robot.n_joints
    still = np.zeros((1, n))
    G = _torque_slopes(robot, robot.theta, still, still, still)
    viscous = robot.theta[robot.layout.places("Fv")]
    np.testing.assert_allclose(np.diag(G[0, :, n : 2 * n]), viscous, rtol=1e-12)


def test_no_samples_and_wrong_ones(robot_of):
    robot = robot_of("tx40")
    none = np.zeros((0, 6))
    assert _torque_slopes(robot, robot.theta, none, none, none).shape == (0, 6, 18)
    with pytest.raises(ShapeError, match="v"):
        _torque_slopes(robot, robot.theta, np.zeros((2, 6)), np.zeros((2, 5)), np.zeros((2, 6)))


def test_covariances_are_propagated(rng):
    G, variance = rng.normal(size=(4, 3, 9)), rng.uniform(0.1, 2.0, (3, 3))
    for k, S in enumerate(_propagated(G, variance)):
        np.testing.assert_allclose(S, G[k] @ np.diag(variance.ravel()) @ G[k].T, atol=1e-12)


def test_rows_are_whitened(rng):
    root = rng.normal(size=(50, 4, 4)) + 2.0 * np.eye(4)
    S, rows = root @ root.transpose(0, 2, 1), rng.normal(size=(50, 4, 7))
    made, factor = rows.copy(), S.copy()
    whiten_batch(0, 50, factor, made)
    for k in range(50):
        L = np.linalg.cholesky(S[k])
        np.testing.assert_allclose(np.tril(factor[k]), L, atol=1e-12)
        np.testing.assert_allclose(made[k], np.linalg.solve(L, rows[k]), rtol=1e-9, atol=1e-12)


def test_singular_covariances_whiten_to_numbers():
    S, rows = np.ones((1, 3, 3)), np.eye(3)[None].copy()
    whiten_batch(0, 1, S, rows)
    assert np.isfinite(rows).all()


# -- the filters ------------------------------------------------------------------------------


@pytest.mark.parametrize("cutoff", [10.0, 40.0])
@pytest.mark.parametrize("decimate", [True, False])
def test_gains_are_those_of_noise_that_was_sent_through(cutoff, decimate, tx40, rng):
    settings = Preprocessing(decimate=decimate).settled(tx40, cutoff)
    n_t = 40_000
    noise = rng.normal(size=(n_t, 4))
    q = lowpass(noise, RATE, cutoff, order=settings.order)
    v = differentiate(q, RATE, accuracy=settings.accuracy)
    a = differentiate(v, RATE, accuracy=settings.accuracy)
    empty = np.zeros((n_t, 6))
    plan = Plan.of(Motion(np.arange(n_t) / RATE, empty, empty, empty, empty, empty, RATE), settings)
    removed, left = _filter_gains(RATE, settings, plan)
    assert removed == pytest.approx(np.std(noise - q), rel=0.02)
    for x, gain in zip((q, v, a), left, strict=True):
        assert gain == pytest.approx(np.std(plan.filtered(x[:: plan.stride])), rel=0.06)


def recorded(robot, states, sigma_q, *, noise=0.0, seed=0, **settings) -> Regression:
    """A log of positions with white noise (n,) and of torques, filtered as logs are."""
    rng = np.random.default_rng(seed)
    t, q, v, a = states
    tau = inverse_dynamics(robot, q, v, a) + noise * rng.normal(size=q.shape)
    q = q + np.asarray(sigma_q) * rng.normal(size=q.shape)
    names = robot.joint_names
    channels = {f"q.{name}": q[:, j] for j, name in enumerate(names)}
    channels |= {f"tau.{name}": tau[:, j] for j, name in enumerate(names)}
    chosen = Preprocessing(**settings).settled(robot, 20.0)
    return Regression.of(robot, motions(robot, [[Log.of(t, channels, {})]], chosen), chosen)


def test_variances_are_those_of_the_noise(small_arm, sines):
    """Against the motion that is known."""
    states = sines(3, 0, 20_000, RATE, slowest=0.1)
    sigma = np.array([1e-4, 1e-3, 5e-4])
    problem = recorded(small_arm, states, sigma)
    found = _motion_variances(problem)
    plan = Plan.of(problem.motions[0], problem.settings)
    motion, (t, *exact) = problem.motions[0], states
    first = int(np.searchsorted(t, motion.t[0] - 1e-9))
    for k, (measured, true) in enumerate(zip((motion.q, motion.v, motion.a), exact, strict=True)):
        error = (measured - true[first:][: len(measured)])[:: plan.stride]
        spread = np.std(plan.filtered(np.ascontiguousarray(error)), axis=0)
        np.testing.assert_allclose(np.sqrt(found[0, k]), spread, rtol=0.15)


def test_exact_positions_have_no_variance(simulate, small_arm, sines):
    problem = simulate(0.1).problem
    assert _motion_variances(problem) is None
    motion = dataclasses.replace(problem.motions[0], q_raw=problem.motions[0].q)
    assert _motion_variances(dataclasses.replace(problem, motions=(motion,))) is None


def test_logs_have_variances_of_their_own_and_their_pieces_share_them(small_arm, sines):
    states = sines(3, 0, 4000, RATE, slowest=0.2)
    one, other = (recorded(small_arm, states, s).motions[0] for s in (1e-4, 1e-3))
    settings = recorded(small_arm, states, 1e-4).settings

    def cut(motion: Motion, where: slice, log: int) -> Motion:
        names = ("t", "q", "v", "a", "tau", "tau_raw", "q_raw")
        parts = {name: getattr(motion, name)[where] for name in names}
        return dataclasses.replace(motion, log=log, **parts)

    pieces = (
        cut(one, slice(0, 1500), 0),
        cut(one, slice(1500, 3800), 0),
        cut(other, slice(0, 3000), 1),
    )
    found = _motion_variances(Regression.of(small_arm, pieces, settings))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[2], 100.0 * found[0], rtol=0.3)
    exact = dataclasses.replace(pieces[2], q_raw=None)
    found = _motion_variances(Regression.of(small_arm, (*pieces[:2], exact), settings))
    assert (found[0] > 0.0).all()
    assert not found[2].any()


def test_a_joint_that_stands_has_noise_of_position_alone(small_arm, sines):
    t, q, v, a = sines(3, 0, 3000, RATE, slowest=0.2)
    q[:, 1], v[:, 1], a[:, 1] = 0.3, 0.0, 0.0
    found = _motion_variances(recorded(small_arm, (t, q, v, a), 1e-5))
    assert found[0, 0, 1] > 0.0
    assert not found[0, 1:, 1].any()


@pytest.mark.parametrize("decimate", [True, False])
def test_states_are_those_at_the_times_of_rows(decimate, small_arm, sines):
    t, q, v, a = sines(3, 0, 4000, RATE, slowest=0.2)
    problem = recorded(small_arm, (t, q, v, a), 0.0, decimate=decimate)
    for block in problem.blocks():
        at = np.rint(block.t * RATE).astype(int)
        for found, exact in zip(_row_states(problem, block), (q, v, a), strict=True):
            np.testing.assert_allclose(found, exact[at], atol=0.05 * np.abs(exact).max())
