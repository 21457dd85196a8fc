"""The entropic relaxation against its formula, and all relaxations against direct minimisation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares

from bodysense.identification.consistent.projection import consistent_least_squares
from bodysense.identification.consistent.relaxation import EntropicExcess, LinkMatrices, Relaxation
from bodysense.robot import Friction, Robot
from bodysense.spatial import entropic_divergence, pi_from_pseudo_inertia, pullback_distance


def other_bodies(case, rng, spread=0.3) -> np.ndarray:
    """The prior with other links that can exist."""
    theta = case.prior.theta.copy()
    for link in case.links:
        G = np.eye(4) + spread * rng.normal(size=(4, 4))
        P = np.einsum("k,kab->ab", theta[link], BASIS)
        theta[link] = pi_from_pseudo_inertia(G @ P @ G.T)
    return theta


BASIS = np.zeros((10, 4, 4))
BASIS[0, 3, 3] = 1.0
for _k in range(3):
    BASIS[1 + _k, _k, 3] = BASIS[1 + _k, 3, _k] = 1.0
    BASIS[(4, 6, 9)[_k]] = 0.5 * np.diag([1.0, 1.0, 1.0, 0.0])
    BASIS[(4, 6, 9)[_k], _k, _k] = -0.5
for _place, _row, _column in ((5, 0, 1), (7, 0, 2), (8, 1, 2)):
    BASIS[_place, _row, _column] = BASIS[_place, _column, _row] = -1.0


def test_excess_is_what_the_entropic_distance_has_beyond_the_pullback(case, rng):
    excess = EntropicExcess(case.prior, LinkMatrices(case.prior), 3.0)
    theta = other_bodies(case, rng)
    expected = sum(
        2.0 * entropic_divergence(theta[link], case.prior.theta[link])
        - pullback_distance(theta[link], case.prior.theta[link], case.prior.theta[link]) ** 2
        for link in case.links
    )
    assert excess.value(theta) == pytest.approx(3.0 * expected, rel=1e-9)
    assert excess.value(case.prior.theta) == pytest.approx(0.0, abs=1e-9)
    theta[case.links[0]] *= -1.0
    assert excess.value(theta) == np.inf


@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_derivatives_are_differences(case, rng, mu):
    excess = EntropicExcess(case.prior, LinkMatrices(case.prior), 2.0)
    theta, size = other_bodies(case, rng, 0.1), case.prior.size
    gradient, second = excess.derivatives(theta, mu)
    h = 3e-6
    for k in range(theta.size):
        step = np.zeros(theta.size)
        step[k] = h * size[k]
        ahead, behind = excess.value(theta + step, mu), excess.value(theta - step, mu)
        slope = (ahead - behind) / (2.0 * h)
        assert gradient[k] * size[k] == pytest.approx(slope, rel=1e-5, abs=1e-5)
        ahead, behind = (excess.derivatives(theta + d, mu)[0] for d in (step, -step))
        difference = (ahead - behind) / (2.0 * h)
        for link, block in zip(case.links, second, strict=True):
            expected = np.zeros(10)
            if link.start <= k < link.stop:
                expected = block[k - link.start] * size[k] * size[link]
            atol = 1e-5 * np.abs(expected).max()
            np.testing.assert_allclose(difference[link] * size[link], expected, rtol=0, atol=atol)


def directly(case, kind, weight) -> np.ndarray:
    """Residuals over log-Cholesky coordinates of every link, and drives between bounds."""
    prior, n = case.prior, len(case.links)
    positive = np.isin(case.drives, prior.positive)
    upper = np.triu_indices(4, 1)
    inverse = [
        np.linalg.inv(np.einsum("k,kab->ab", prior.theta[link], BASIS)) for link in case.links
    ]
    roots = [np.linalg.cholesky(Q).T for Q in inverse]  # roots P rootsᵀ is one at the prior

    def theta_of(x):
        theta = np.empty(prior.theta.size)
        for k, (link, root) in enumerate(zip(case.links, roots, strict=True)):
            u = x[10 * k : 10 * k + 10]
            U = np.diag(np.exp(u[:4]))
            U[upper] = u[4:]
            back = np.linalg.solve(root, U)
            theta[link] = pi_from_pseudo_inertia(back @ back.T)
        theta[case.drives] = x[10 * n :] * prior.size[case.drives]
        return theta

    def residuals(x):
        theta = theta_of(x)
        away = (theta - prior.theta) / prior.size
        parts = [case.A @ theta - case.z]
        if kind == "euclidean":
            return np.concatenate([*parts, np.sqrt(weight) * away])
        parts.append(away[case.drives])
        for link, root in zip(case.links, roots, strict=True):
            X = root @ np.einsum("k,kab->ab", theta[link], BASIS) @ root.T
            if kind == "pullback":
                parts.append(np.sqrt(weight) * (X - np.eye(4)).ravel())
            else:
                e = np.linalg.eigvalsh(X) - 1.0
                parts.append(np.sign(e) * np.sqrt(2.0 * weight * np.maximum(e - np.log1p(e), 0.0)))
        return np.concatenate(parts)

    start = np.append(
        np.zeros(10 * n), np.maximum(prior.theta[case.drives], 0.0) / prior.size[case.drives]
    )
    lower = np.append(np.full(10 * n, -np.inf), np.where(positive, 0.0, -np.inf))
    start[10 * n :] = np.maximum(start[10 * n :], 0.05)
    found = least_squares(
        residuals,
        start,
        "3-point",
        (lower, np.inf),
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-12,
        max_nfev=300,
    )
    return theta_of(found.x)


@pytest.mark.parametrize(
    ("kind", "weight"),
    [("euclidean", 1000.0), ("pullback", 100.0), ("entropic", 1.0), ("entropic", 100.0)],
)
@pytest.mark.parametrize("name", ["small", "random"])
def test_direct_minimisation_on_the_manifold_finds_the_same(
    kind, weight, name, simulate, make_case, random_model
):
    if name == "small":
        case = make_case(simulate([[1.0, 0.5, 0.3]], n_t=80, seed=4), [[1.0, 0.5, 0.3]])
    else:
        friction = Friction.from_model("offset", 3, width=0.02)
        terms = {"Fv": [4.0] * 3, "Fc": [3.0] * 3, "Fo": [0.1] * 3, "Ia": [1.0] * 3}
        model = random_model(np.random.default_rng(2), 3)
        model.armature = np.zeros(3)
        robot = Robot.from_pinocchio(model, friction=friction, coefficients=terms)
        case = make_case(simulate(0.5, robot=robot, n_t=60, seed=4), 0.5)
    found = consistent_least_squares(case.prior, case.stack, Relaxation(kind, weight))
    assert not found.failure
    expected = directly(case, kind, weight)
    assert (expected[case.prior.positive] > 1e-3 * case.prior.size[case.prior.positive]).all()
    assert case.cost(found.theta, kind, weight) <= case.cost(expected, kind, weight) * (1.0 + 1e-9)
    np.testing.assert_allclose(
        found.theta / case.prior.size, expected / case.prior.size, rtol=0, atol=1e-5
    )


def test_drives_at_zero_stay_there(simulate, make_case):
    """Torques with the wrong sign want negative friction."""
    simulated = simulate([[1.0, 0.5, 0.3]], n_t=80, disturb=lambda rng, tau: -tau)
    case = make_case(simulated)
    theta = consistent_least_squares(case.prior, case.stack, Relaxation("entropic")).theta
    share = theta[case.prior.positive] / case.prior.size[case.prior.positive]
    assert (share >= 0.0).all()
    assert share.min() < 1e-6
