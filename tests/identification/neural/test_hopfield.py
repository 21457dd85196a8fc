"""The Hopfield-Tank network: where it rests, its bounds, and that its energy falls."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import lsq_linear

from bodysense.errors import ShapeError
from bodysense.identification import Regression, identifier
from bodysense.identification.linear.method import LinearMethod
from bodysense.identification.neural import Hopfield
from bodysense.identification.prior import Prior
from bodysense.robot import inverse_dynamics


def reduced(problem: Regression, method: LinearMethod) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B and r of ‖B x - r‖² in units of the bounds, and the x that was found."""
    prior = Prior.of(problem)
    weighing = method.estimate(problem, prior)
    unit = method.solver.bound * prior.size_base
    x = (prior.to_base(weighing.theta) - prior.theta_base) / unit
    return weighing.stack.A * unit, weighing.stack.z - weighing.stack.A @ prior.theta_base, x


def test_data_without_noise_give_the_truth(simulate):
    simulated = simulate(0.0)
    found = identifier("hopfield").fit(simulated.problem)
    error = np.abs(found.theta_base - simulated.truth)
    assert (error < 1e-6 * Prior.of(simulated.problem).size_base).all()
    assert found.status.message == "Solved."
    assert set(found.base_labels) == {"identified"}


@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_inside_the_bounds_it_is_weighted_least_squares(noise, simulate):
    problem = simulate(noise, n_t=400, logs=2).problem
    found, expected = identifier("hopfield").fit(problem), identifier("wls").fit(problem)
    assert (np.abs(found.theta_base - expected.theta_base) < 1e-5 * expected.sigma_base).all()
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-3)
    assert found.labels == expected.labels
    assert len(found.trace) < 40


@pytest.mark.parametrize("bound", [0.02, 0.1, 0.3])
def test_at_the_bounds_it_is_bounded_least_squares(bound, simulate):
    method = identifier("hopfield", bound=bound)
    problem = simulate(0.1).problem
    B, r, x = reduced(problem, method)
    best = lsq_linear(B, r, (-1.0, 1.0), method="bvls", tol=1e-14)
    assert 0.5 * np.sum((B @ x - r) ** 2) == pytest.approx(best.cost, rel=1e-6)
    np.testing.assert_allclose(x, best.x, atol=1e-4)
    assert (np.abs(x) < 1.0).all()


def test_parameters_at_their_bounds_are_named(simulate):
    problem = simulate(0.1).problem
    method = identifier("hopfield", bound=0.1)
    found = method.fit(problem)
    _, _, x = reduced(problem, method)
    at = [problem.base.names[k] for k in np.flatnonzero(np.abs(x) > 0.999)]
    assert 0 < len(at) < problem.size
    assert found.status.ok
    assert f"{len(at)} base parameter(s) lie at their bounds" in found.status.message
    assert at[0] in found.status.message
    assert "Raise bound" in found.status.message
    prior = Prior.of(problem)
    reach = 0.1 * prior.size_base * (1.0 + 1e-9)
    assert (np.abs(found.theta_base - prior.theta_base) <= reach).all()


def test_parameters_at_their_bounds_are_not_called_identified(simulate):
    """The data push them there; it is the prior that holds them."""
    problem = simulate(0.1).problem
    method = identifier("hopfield", bound=0.1)
    found = method.fit(problem)
    _, _, x = reduced(problem, method)
    at = np.abs(x) > 0.999
    free = identifier("wls").fit(problem)
    for held, label, before in zip(at, found.base_labels, free.base_labels, strict=True):
        assert label == ("driven by the prior" if held else before)
    held = problem.base.mapping[at].any(axis=0)
    assert held.any()
    for k in np.flatnonzero(held):
        assert found.labels[k] != "identified"
    for k in np.flatnonzero(~held):
        assert found.labels[k] == free.labels[k]


@pytest.mark.parametrize("bound", [0.05, 3.0, 100.0])
def test_the_energy_never_rises(bound, simulate):
    found = identifier("hopfield", bound=bound).fit(simulate(0.1).problem)
    cost = np.array([step.cost for step in found.trace])
    assert (np.diff(cost) <= 0.0).all()
    assert cost[-1] < cost[0]


def test_the_networks_equation_comes_to_the_same_rest(simulate):
    """Integrated by a solver for stiff equations, with the sign that makes the energy fall.

    The bias as the print adds it leads to the opposite of the estimate.
    """
    method = identifier("hopfield", bound=0.3)
    B, r, x = reduced(simulate(0.1).problem, method)
    unit = np.linalg.norm(B, 2) ** 2
    Psi, kappa = -B.T @ B / unit, -B.T @ r / unit

    def rest(sign: float) -> np.ndarray:
        def rate(t, u):
            return Psi @ np.tanh(u) + sign * kappa

        def slope(t, u):
            return Psi * (1.0 - np.tanh(u) ** 2)

        made = solve_ivp(rate, (0.0, 1e9), np.zeros(r.size), "BDF", jac=slope, rtol=1e-6, atol=1e-9)
        return np.tanh(made.y[:, -1])

    np.testing.assert_allclose(x, rest(-1.0), atol=2e-3)
    np.testing.assert_allclose(x, -rest(+1.0), atol=2e-3)


def test_standing_joints_do_not_count_and_what_is_not_seen_keeps_the_prior(small_arm, sines):
    _, q, v, a = sines(3, 0, 400, 100.0)
    q[:, 1], v[:, 1], a[:, 1] = 0.2, 0.0, 0.0
    robot = small_arm.with_friction("coulomb", width=0.0)
    tau = inverse_dynamics(robot, q, v, a) + 0.05 * np.random.default_rng(0).normal(size=q.shape)
    tau[:, 1] += 1e3  # friction holds with anything
    prior = robot.with_parameters(1.1 * robot.theta)
    problem = Regression.from_samples(prior, q, v, a, tau, rate=100.0, still_speed=0.02)
    found = identifier("hopfield").fit(problem)
    label = dict(zip(robot.layout.names, found.labels, strict=True))
    for name in ("Fv2", "Fc2", "Ia2"):
        k = robot.layout.names.index(name)
        assert found.theta[k] == pytest.approx(prior.theta[k], rel=1e-6)
        assert label[name] == "not identifiable"
    assert "does not excite" in found.status.message
    expected = identifier("wls").fit(problem)
    shift = np.abs(found.theta_base - expected.theta_base)
    assert (shift < 0.1 * expected.sigma_base).all()


@pytest.mark.parametrize("n_t", [7, 12, 400])
def test_results_are_sound_whatever_the_rows(n_t, simulate):
    simulated = simulate(0.3, n_t=n_t)
    found = identifier("hopfield").fit(simulated.problem)
    assert found.status.ok
    C = found.covariance
    assert np.isfinite(C).all()
    size = np.sqrt(np.diag(C))
    assert np.linalg.eigvalsh(C / size / size[:, None])[0] > -1e-9
    again = identifier("hopfield").fit(simulated.problem, rng=np.random.default_rng(4))
    np.testing.assert_array_equal(again.theta, found.theta)
    if n_t == 400:
        inside = np.abs(found.theta_base - simulated.truth) < 1.96 * found.sigma_base
        assert inside.mean() > 0.8
    else:
        assert "too few rows" in found.status.message


def test_too_few_steps_end_in_a_word(simulate):
    found = identifier("hopfield", steps=2).fit(simulate(0.1).problem)
    assert found.status.ok
    assert "had not converged" in found.status.message
    assert len(found.trace) == 2


def test_data_of_nothing_keep_the_prior(simulate):
    problem = simulate(0.1).problem
    nothing = dataclasses.replace(Prior.of(problem))
    stack = dataclasses.replace(
        problem.stack(np.ones((1, 3))), A=np.zeros((problem.size,) * 2), z=np.zeros(problem.size)
    )
    rest = Hopfield()._rest(nothing, stack)
    assert not rest.x.any()
    assert rest.converged


@pytest.mark.parametrize(
    "settings",
    [{"bound": 0.0}, {"bound": np.inf}, {"tolerance": -1.0}, {"steps": 0}],
    ids=str,
)
def test_settings_that_cannot_be_meant_are_refused(settings):
    with pytest.raises(ShapeError, match=next(iter(settings))):
        identifier("hopfield", **settings)
    json.dumps(dataclasses.asdict(identifier("hopfield")), allow_nan=False)
