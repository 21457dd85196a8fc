from __future__ import annotations

import numpy as np
import pytest

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import as_array, as_stack, one_each, require_same_stack


def test_any_leading_axes_are_kept() -> None:
    for leading in ((), (4,), (2, 0), (1, 2, 3)):
        assert as_stack(np.zeros((*leading, 3)), (3,), "x").shape == (*leading, 3)
    assert as_stack(2, (), "x").shape == ()
    assert as_stack([1, 2], (), "x").dtype == np.float64


def test_wrong_items_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"x has shape \(2, 4\), expected \(any, 3\)"):
        as_stack(np.zeros((2, 4)), (3,), "x")
    with pytest.raises(ShapeError, match="x has shape"):
        as_stack(1.0, (3,), "x")
    with pytest.raises(ShapeError, match="array of numbers"):
        as_stack("abc", (3,), "x")


def test_stacks_that_do_not_match_are_named() -> None:
    require_same_stack(a=(4, 1), b=(3,), c=())
    with pytest.raises(ShapeError, match=r"a \(4, 1\), b \(3, 2\)"):
        require_same_stack(a=(4, 1), b=(3, 2))


@pytest.mark.parametrize("value", [10**400, [10**400, 1, 2], [1, -(10**5000), 2]])
def test_integers_beyond_floats_are_refused(value):
    with pytest.raises(ShapeError, match="limits must be"):
        as_array(value, (3,), "limits")
    with pytest.raises(ShapeError, match="limits must be"):
        one_each(value, 3, "limits")
