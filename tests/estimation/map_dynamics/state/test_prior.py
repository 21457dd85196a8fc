"""Priors about the state, and how they go on in time."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.estimation import GaussianPrior, StatePrior
from bodysense.estimation.map_dynamics.state.tracking import _steps


@pytest.mark.parametrize("order", [2, 3])
def test_two_short_steps_are_one_long_step(order):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(2 * order, 2 * order))
    prior = StatePrior(rng.normal(size=(order, 2)), A @ A.T)
    once = prior.after(0.3, [2.0, 3.0])
    twice = prior.after(0.1, [2.0, 3.0]).after(0.2, [2.0, 3.0])
    np.testing.assert_allclose(once.mean, twice.mean)
    np.testing.assert_allclose(once.covariance, twice.covariance)


def test_accelerations_are_added_once():
    prior = StatePrior.of([1.0, 2.0], [3.0, 4.0], q_std=0.1, dq_std=[0.2, 0.3])
    wide = prior.with_accelerations(GaussianPrior.of([5.0], 7.0))
    assert (prior.order, wide.order, wide.n) == (2, 3, 2)
    np.testing.assert_array_equal(wide.mean, [[1, 2], [3, 4], [5, 5]])
    np.testing.assert_allclose(np.sqrt(np.diag(wide.covariance)), [0.1, 0.1, 0.2, 0.3, 7, 7])
    assert wide.with_accelerations(GaussianPrior.zero(1)) is wide


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((1, 2)), np.eye(2)), "1 rows"),
        ((np.zeros((2, 2)), np.eye(3)), "covariance of a state"),
        ((np.full((2, 2), np.nan), np.eye(4)), "mean of a state"),
        ((np.zeros((2, 2)), np.eye(4), GaussianPrior.zero(2)), "3 numbers"),
    ],
)
def test_bad_priors_are_named(arguments, message):
    with pytest.raises(ShapeError, match=message):
        StatePrior(*arguments)


def test_times_must_grow():
    np.testing.assert_allclose(_steps(np.array([0.0, 0.1, 0.3])), [0.1, 0.2])
    with pytest.raises(ShapeError, match="sample 2"):
        _steps(np.array([0.0, 0.2, 0.1]))
