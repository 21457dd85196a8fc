"""Coordinates of covariances, their prior, and their roots."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.estimation import InverseWishart
from bodysense.estimation.map_dynamics.dense_roots import root_of
from bodysense.estimation.map_dynamics.em.variances import Coordinates, NoiseSource, SecondMoment
from bodysense.estimation.map_dynamics.priors import sources


def source(structure, covariance, weight=10.0):
    units = ["N"] * len(covariance)
    return NoiseSource.of("s", "kind", covariance, units, structure, InverseWishart(weight))


def drawn(m, seed=1):
    root = np.random.default_rng(seed).normal(size=(m, m))
    return root @ root.T + 0.1 * np.eye(m)


@pytest.mark.parametrize("structure", ["type", "axis", "full"])
def test_at_its_mode_the_prior_informs_as_it_bends(structure):
    one = source(structure, np.diag([1.0, 2.0, 3.0]) if structure == "axis" else drawn(3))
    coordinates = Coordinates.of([one])
    start = {"s": one.covariance}
    slope = coordinates.slope(start, {"s": SecondMoment(np.zeros((3, 3)), 0)})
    np.testing.assert_allclose(coordinates.prior_information(start), slope.bend, rtol=1e-9)
    assert coordinates.steady == (structure != "full")


@pytest.mark.parametrize(
    ("structure", "Sigma"),
    [
        ("axis", np.diag([1e8, 1e-6, 1.0])),
        ("axis", np.diag([1e8, 0.99e-6, 0.0])),
        ("full", drawn(3)),
        ("full", drawn(3)[:, :2] @ drawn(3)[:, :2].T),
        ("type", drawn(3)),
    ],
    ids=["wide", "wider, exact", "full", "singular", "type"],
)
def test_slope_of_the_prior_is_that_of_its_density(structure, Sigma):
    """Also where variances are far apart, and where some are zero."""
    one = source(structure, Sigma)
    coordinates = Coordinates.of([one])
    rng = np.random.default_rng(2)
    exact = np.diag(one.covariance) == 0.0
    here = {"s": one.covariance * np.where(exact, 0.0, 1.3)}
    slope = coordinates.slope(here, {"s": SecondMoment(np.zeros((3, 3)), 0)}).prior
    u = 1e-4 * rng.normal(size=coordinates.size)
    ends = [one.log_prior(coordinates.moved(here, sign * u)["s"]) for sign in (1.0, -1.0)]
    assert ends[0] - ends[1] == pytest.approx(2.0 * slope @ u, rel=1e-5)


def test_roots_are_those_of_the_kernels_and_know_what_is_exact():
    thin = drawn(4)[:, :1] @ drawn(4)[:, :1].T
    for Sigma in (np.diag([1.0, 0.0, 4.0]), drawn(3), thin):
        R = root_of(Sigma)
        np.testing.assert_array_equal(R, sources(Sigma).T)
        np.testing.assert_allclose(R @ R.T, Sigma, atol=1e-12)
    assert np.count_nonzero(np.abs(root_of(thin)).sum(axis=0)) == 1
