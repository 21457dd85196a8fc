"""Searches without derivatives on functions whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.identification.simulated.output_error import _differential_evolution, _nelder_mead

every_search = pytest.mark.parametrize("find", [_nelder_mead, _differential_evolution])
LOST = 1e29


class Counted:
    """Costs (runs,) of points (runs, n), with a count of what was asked for."""

    def __init__(self, cost):
        self.cost, self.count, self.largest = cost, 0, 0

    def __call__(self, x):
        assert x.ndim == 2
        assert np.isfinite(x).all()
        self.count += len(x)
        self.largest = max(self.largest, len(x))
        return np.array([self.cost(row) for row in x])


def bowl(n: int):
    """A skew bowl with its bottom at alternating ±0.5."""
    bottom = 0.5 * (-1.0) ** np.arange(n)
    L = np.eye(n) + 0.3 * np.tri(n)

    def cost(x):
        return float(np.sum((L @ (x - bottom)) ** 2))

    return cost, bottom


@every_search
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_bottom_of_a_bowl(find, n):
    cost, bottom = bowl(n)
    x = find(Counted(cost), n, evaluations=4000, rng=np.random.default_rng(0))
    assert x.shape == (n,)
    np.testing.assert_allclose(x, bottom, atol=2e-3)


@every_search
@pytest.mark.parametrize("evaluations", [1, 3, 4, 5, 7, 20, 100])
@pytest.mark.parametrize("n", [1, 4, 40])
def test_never_more_evaluations_than_allowed_and_never_worse(find, evaluations, n):
    cost, _ = bowl(n)
    costs = Counted(cost)
    x = find(costs, n, evaluations=evaluations, rng=np.random.default_rng(0))
    assert x.shape == (n,)
    assert costs.count <= evaluations
    assert cost(x) <= cost(np.zeros(n))


def test_generations_are_simulated_together():
    costs = Counted(bowl(4)[0])
    _differential_evolution(costs, 4, evaluations=200, rng=np.random.default_rng(0))
    assert costs.largest >= 8


@every_search
def test_where_much_cannot_be_simulated(find):
    """Costs are infinite outside a disc about the start, and in a hole within."""
    cost, bottom = bowl(2)

    def risky(x):
        lost = np.linalg.norm(x) > 0.9 or np.linalg.norm(x - [0.1, 0.6]) < 0.2
        return np.inf if lost else cost(x)

    x = find(Counted(risky), 2, evaluations=3000, rng=np.random.default_rng(0))
    assert risky(x) < LOST
    np.testing.assert_allclose(x, bottom, atol=5e-3)


@every_search
def test_where_nothing_can_be_simulated(find):
    x = find(Counted(lambda x: np.inf), 3, evaluations=200, rng=np.random.default_rng(0))
    assert np.isfinite(x).all()


@every_search
def test_the_same_seed_gives_the_same_bits(find):
    cost, _ = bowl(3)
    first, second = (
        find(Counted(cost), 3, evaluations=90, rng=np.random.default_rng(4)) for _ in range(2)
    )
    assert first.tobytes() == second.tobytes()


def test_another_seed_looks_elsewhere():
    cost, _ = bowl(3)
    first, second = (
        _differential_evolution(Counted(cost), 3, evaluations=60, rng=np.random.default_rng(seed))
        for seed in (0, 1)
    )
    assert not np.array_equal(first, second)
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - of the generator that nobody may touch
    _differential_evolution(Counted(cost), 3, evaluations=60, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002
