from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import TrajectoryError, UnknownNameError
from bodysense.excitation.criterion import (
    CRITERIA,
    ConditionNumber,
    Determinant,
    Precision,
    criterion_of,
)
from bodysense.excitation.information import condition_number
from bodysense.robot import base_parameters, load_robot

BASE = base_parameters(load_robot("tx40"))
SIZES = np.random.default_rng(1).uniform(0.1, 3.0, BASE.size)
KINDS = [
    ConditionNumber(),
    ConditionNumber(scaled=True),
    ConditionNumber(k1=0.0),
    ConditionNumber(k2=0.0),
    Determinant(),
    Precision(),
    Precision({"ZZ1": 0.1, "Fv3": 2.0}),
]


def regressor(seed: int):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(3 * BASE.size, BASE.size)) * rng.uniform(0.1, 2.0, BASE.size)


def test_the_condition_criterion_by_singular_values():
    W = regressor(0)
    sigma = np.linalg.svd(W, compute_uv=False)
    expected = np.linalg.cond(W.T @ W) + 100.0 / sigma[-1]
    assert ConditionNumber().measure(BASE, SIZES)(W.T @ W, 1.0)[0] == pytest.approx(expected)
    assert condition_number(W.T @ W) == pytest.approx(np.linalg.cond(W))


def test_scaled_columns():
    W = regressor(1)
    scaled = ConditionNumber(k2=0.0, scaled=True).measure(BASE, SIZES)(W.T @ W, 1.0)[0]
    assert scaled == pytest.approx(np.linalg.cond(W * SIZES) ** 2)


def test_the_determinant():
    W = regressor(2)
    found = Determinant().measure(BASE, SIZES)(W.T @ W, 1.0)[0]
    assert found == pytest.approx(-np.linalg.slogdet(W.T @ W)[1])


def test_precision_is_the_largest_ratio():
    W = regressor(3)
    sigma = np.sqrt(np.diag(np.linalg.inv(W.T @ W)))
    found = Precision(share=0.2).measure(BASE, SIZES)(W.T @ W, 1.0)[0]
    assert found == pytest.approx((sigma / (0.2 * SIZES)).max())


def test_precision_of_named_parameters():
    W = regressor(4)
    sigma = np.sqrt(np.diag(np.linalg.inv(W.T @ W)))
    kept = [BASE.layout.names[k] for k in BASE.independent]
    one, other = kept.index("ZZ1"), kept.index("Fv3")
    targets = {BASE.names[one]: 0.1, "Fv3": 2.0}  # by its full name, and by its first
    found = Precision(targets).measure(BASE, SIZES)(W.T @ W, 1.0)[0]
    assert found == pytest.approx(max(sigma[one] / 0.1, sigma[other] / 2.0))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("order", [1.0, 7.0, 60.0])
def test_derivatives_by_finite_differences(kind, order):
    W = regressor(5)
    M, measure = W.T @ W, kind.measure(BASE, SIZES)
    _, _, G = measure(M, order)
    np.testing.assert_allclose(G, G.T, atol=1e-12 * np.abs(G).max())
    rng = np.random.default_rng(0)
    for _ in range(5):
        dW = 1e-6 * rng.normal(size=W.shape)
        above = measure((W + dW).T @ (W + dW), order)[1]
        below = measure((W - dW).T @ (W - dW), order)[1]
        slope = np.sum(2.0 * (W @ G) * dW)
        assert 0.5 * (above - below) == pytest.approx(slope, rel=1e-4, abs=1e-11)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(seed=st.integers(0, 50))
def test_more_information_is_never_worse(kind, seed):
    if kind.name == "condition" and kind.k1 > 0.0:  # a condition number may rise with information
        return
    W = regressor(seed)
    measure = kind.measure(BASE, SIZES)
    row = np.random.default_rng(seed + 1).normal(size=BASE.size)
    M = W.T @ W
    more, less = (measure(x, 1.0)[0] for x in (M + np.outer(row, row), M))
    assert more <= less * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("kind", [ConditionNumber(), Precision()], ids=["condition", "precision"])
def test_the_smooth_relative_tends_to_the_logarithm(kind):
    W = regressor(6)
    value, smooth, _ = kind.measure(BASE, SIZES)(W.T @ W, 1000.0)
    assert smooth == pytest.approx(np.log(value), abs=0.01)


def test_a_singular_matrix_has_an_infinite_condition_number():
    assert condition_number(np.diag([1.0, 0.0])) == np.inf


def test_names():
    assert set(CRITERIA) == {"condition", "d-optimal", "precision"}
    assert criterion_of("d-optimal") == Determinant()
    assert criterion_of(Precision(share=0.3)).share == 0.3


def test_an_unknown_criterion():
    with pytest.raises(UnknownNameError, match="d-optimal"):
        criterion_of("doptimal")


def test_an_unknown_parameter():
    with pytest.raises(UnknownNameError, match="ZZ1"):
        Precision({"ZZZ1": 1.0}).measure(BASE, SIZES)


@pytest.mark.parametrize("target", [0.0, -1.0, np.nan, np.inf])
def test_a_target_that_is_no_size(target):
    with pytest.raises(TrajectoryError, match="above zero"):
        Precision({"ZZ1": target})


def test_no_target_at_all():
    with pytest.raises(TrajectoryError, match="None for all"):
        Precision({})


def test_a_share_that_is_none():
    with pytest.raises(TrajectoryError, match="share"):
        Precision(share=0.0)


def test_weights_that_cancel():
    with pytest.raises(TrajectoryError, match="k1"):
        ConditionNumber(k1=0.0, k2=0.0)
