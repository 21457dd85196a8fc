from __future__ import annotations

import pytest

from bodysense.errors import UnknownNameError
from bodysense.spatial.manifolds import MANIFOLDS, manifold_named


def test_manifolds_are_found_by_name() -> None:
    for manifold in MANIFOLDS:
        assert manifold_named(manifold.name) is manifold
    assert len({manifold.name for manifold in MANIFOLDS}) == 3


def test_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"log-cholesky.*exponential-eigenvalue"):
        manifold_named("log_choleski")
