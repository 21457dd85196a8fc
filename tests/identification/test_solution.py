"""Solutions of reduced problems, and of rows whose weights have been chosen."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.identification.reduced import Stack
from bodysense.identification.solution import Solution, WeightedSolution

STACK = Stack(np.eye(2), np.zeros(2), 0.0, 4)


def test_a_weighted_solution_keeps_what_was_solved():
    reduced = Solution(np.arange(2.0), ("m1",), "no")
    weighted = reduced.weighted(np.ones((1, 2)), STACK)
    np.testing.assert_array_equal(weighted.theta, reduced.theta)
    assert (weighted.unexcited, weighted.failure) == (("m1",), "no")
    assert weighted.stack is STACK
    assert weighted.sigma.shape == (1, 2)


def test_there_is_no_weighted_solution_without_weights():
    """Not even an empty sigma or stack, which would be taken for weights."""
    assert not hasattr(Solution(np.zeros(2)), "sigma")
    with pytest.raises(TypeError, match="'sigma' and 'stack'"):
        WeightedSolution(np.zeros(2))
