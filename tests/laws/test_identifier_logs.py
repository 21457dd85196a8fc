"""Logs and their pieces: every identifier takes them in any order."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from bodysense.identification.prior import Prior

# What these files share lies beside them, and is no part of a package.
sys.path.insert(0, str(Path(__file__).parent))

from identifier_subjects import (
    FILTERS,
    FITS_POSITIONS,
    RECORDED,
    every_method_but_particles,
    fitted,
)
from recorded_subjects import pieces

SETTLES_SLOWLY = {"adaline"}
"""Where it ends depends on the order of the rows, by more than a thousandth of a sigma."""

LOSES_ENDS = {"energy"} | RECORDED
"""Differences of the energy reach over five samples: as many are lost at both ends of a piece. A
simulation starts anew with each piece."""


@every_method_but_particles
def test_the_order_of_logs_does_not_matter(method):
    one = fitted(method, pieces(method, ((0, 500, 0), (500, 800, 1)), (0.1, 0.5)))
    other = fitted(method, pieces(method, ((500, 800, 0), (0, 500, 1)), (0.5, 0.1)))
    if method in FILTERS:  # which know more at the second log than at the first
        share = np.abs(one.theta_base - other.theta_base) / one.sigma_base
        assert np.median(share) < 1.0
        return
    small = (0.3 if method in SETTLES_SLOWLY else 1e-3) * one.sigma_base
    assert (np.abs(one.theta_base - other.theta_base) < small).all()
    np.testing.assert_allclose(other.sigma_base, one.sigma_base, rtol=1e-3)
    np.testing.assert_allclose(other.noise, one.noise[::-1], rtol=1e-3)
    assert one.base_labels == other.base_labels


@every_method_but_particles
def test_a_log_in_two_pieces_is_nearly_the_same_log(method):
    whole = fitted(method, pieces(method, ((0, 800, 0),)))
    split = fitted(method, pieces(method, ((0, 390, 0), (390, 800, 0))))
    # Ten of 800 rows less move an estimate by some (10 / 800)^½ of its standard deviation.
    share = 0.5 if method in LOSES_ENDS else 1e-3
    if method in FITS_POSITIONS:  # which are exact here, and so are the intervals
        size = Prior.of(pieces(method, ((0, 800, 0),))).size_base
        assert (np.abs(whole.theta_base - split.theta_base) < 1e-2 * size).all()
        return
    assert (np.abs(whole.theta_base - split.theta_base) < share * whole.sigma_base).all()
    np.testing.assert_allclose(split.sigma_base, whole.sigma_base, rtol=0.3)
    two_logs = fitted(method, pieces(method, ((0, 390, 0), (390, 800, 1))))
    assert (np.abs(whole.theta_base - two_logs.theta_base) < whole.sigma_base).all()
