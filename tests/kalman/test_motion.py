"""How positions go on in time, driven by white noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from bodysense.kalman import IntegratorChain


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("h", [1e-4, 0.01, 0.7])
def test_motion_equals_the_exponential_of_the_chain(order, h):
    # Van Loan: exp([[-A, B Bᵀ], [0, Aᵀ]] h) holds both F and Q
    A, B = np.diag(np.ones(order - 1), 1), np.zeros((order, 1))
    B[-1] = 1.0
    whole = expm(np.block([[-A, B @ B.T], [np.zeros((order, order)), A.T]]) * h)
    F = whole[order:, order:].T
    Q = F @ whole[:order, order:]
    chain = IntegratorChain(order, np.ones(1))
    np.testing.assert_allclose(chain.transition(h), F, atol=1e-14)
    np.testing.assert_allclose(chain.noise(h), Q, rtol=1e-6, atol=1e-20)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("h", [1e-4, 0.01, 0.7])
def test_white_rows_of_several_coordinates(order, h):
    chain = IntegratorChain(order, np.array([1.0, 4.0]))
    before, after = chain.white_rows(h)
    one = np.eye(2 * order)
    np.testing.assert_allclose(after @ chain.noise(h) @ after.T, one, atol=1e-10)
    np.testing.assert_allclose(-before, after @ chain.transition(h), rtol=1e-10)
    single = IntegratorChain(order, np.array([4.0]))
    np.testing.assert_array_equal(chain.transition(h)[1::2, 1::2], single.transition(h))
    np.testing.assert_array_equal(chain.noise(h)[1::2, 1::2], single.noise(h))
