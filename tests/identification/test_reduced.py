"""Linear constraints: what is left free, what contradicts, what repeats."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import MismatchError
from bodysense.identification.reduced import Constraints, joined, triangle


@pytest.mark.parametrize(("one", "other"), [(7, 7), (6, 7), (7, 3), (7, 0), (2, 3)])
def test_two_triangles_are_joined(one, other, rng):
    """As the triangle of both, up to the signs of its rows, whatever rows they lack."""
    R, S = (np.triu(rng.normal(size=(rows, 7))) for rows in (one, other))
    R_before, S_before = R.copy(), S.copy()
    made, tall = joined(R, S), np.concatenate([R, S])
    expected = np.zeros((7, 7))
    expected[: min(len(tall), 7)] = triangle(tall.copy())
    np.testing.assert_allclose(made.T @ made, expected.T @ expected, atol=1e-13)
    np.testing.assert_array_equal(made, np.triu(made))
    np.testing.assert_array_equal(R, R_before)
    np.testing.assert_array_equal(S, S_before)


def test_free_directions_keep_the_equalities_and_the_distance(rng):
    for _ in range(20):
        E, centre = rng.normal(size=(3, 8)), rng.normal(size=8)
        factor = np.tril(rng.normal(size=(8, 8))) + 3.0 * np.eye(8)
        e = rng.normal(size=3)
        known = Constraints.of(8, list(zip(E, e, strict=True)))
        new, free = known.free_directions(centre, factor)
        assert free.shape == (8, 5)
        x = rng.normal(size=5)
        theta = new + free @ x
        np.testing.assert_allclose(E @ theta, e, atol=1e-9)
        whole = np.linalg.solve(factor, theta - centre)
        least = np.linalg.solve(factor, new - centre)
        assert whole @ whole == pytest.approx(least @ least + x @ x)


def test_without_equalities_nothing_changes(rng):
    known = Constraints.of(4)
    assert not known.any
    centre, factor = rng.normal(size=4), np.eye(4)
    new, free = known.free_directions(centre, factor)
    assert new is centre
    assert free is factor
    assert not known.broken(centre, np.ones(4))


def test_rows_that_repeat_others_do_no_harm(rng):
    E = rng.normal(size=(2, 6))
    rows = [(E[0], 1.0), (E[1], 2.0), (E[0] + E[1], 3.0), (2.0 * E[0], 2.0)]
    new, free = Constraints.of(6, rows).free_directions(np.zeros(6), np.eye(6))
    assert free.shape == (6, 4)
    np.testing.assert_allclose(E @ new, [1.0, 2.0])


def test_contradictions_are_named():
    row = np.array([1.0, 1.0, 0.0])
    known = Constraints.of(3, [(row, 1.0), (2.0 * row, 3.0)])
    with pytest.raises(MismatchError, match="contradicts itself"):
        known.free_directions(np.zeros(3), np.eye(3))


def test_inequalities_are_broken_in_units_of_sizes():
    known = Constraints.of(2, at_most=[(np.array([1.0, 0.0]), 1.0)])
    size = np.array([100.0, 1.0])
    assert not known.broken(np.array([1.0, 9.0]), size)
    assert known.broken(np.array([1.1, 0.0]), size)
    assert not known.broken(np.array([1.1, 0.0]), size, tolerance=1e-2)


def test_balanced_rows_say_the_same(rng):
    E, factor = (
        rng.normal(size=(3, 7)) * [[1.0], [1e4], [1e-4]],
        np.diag(10.0 ** rng.uniform(-2, 2, 7)),
    )
    rows = [*E, E[0] - 2.0 * E[1]]
    theta = rng.normal(size=7)
    known = Constraints.of(7, [(row, float(row @ theta)) for row in rows])
    balanced, right = known.balanced(factor)
    assert balanced.shape == (3, 7)
    np.testing.assert_allclose(balanced @ theta, right)
    A = balanced @ factor
    np.testing.assert_allclose(A @ A.T, np.eye(3), atol=1e-9)
