"""Priors about what is not measured."""

from __future__ import annotations

import pytest

from bodysense.errors import ShapeError
from bodysense.estimation import GaussianPrior


@pytest.mark.parametrize("std", [-1.0, [1.0, -0.5]])
def test_a_negative_deviation_is_refused(std):
    with pytest.raises(ShapeError, match="from zero up"):
        GaussianPrior.of([1.0, 2.0], std)
