"""Relaxations: free of units and frames where they say so, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bodysense.errors import InconsistentInertiaError, ShapeError, UnknownNameError
from bodysense.identification import identifier
from bodysense.identification.consistent.relaxation import EntropicExcess, LinkMatrices, Relaxation
from bodysense.identification.identifier import _with_settings, settings_of
from bodysense.spatial import exp_so3, random_pi, transform_pi


def distance(prior, relaxation, theta) -> float:
    """Squared, of the links alone."""
    x = np.linalg.solve(relaxation.factor(prior), theta - prior.theta)
    total = sum(float(x[link] @ x[link]) for link in prior.links)
    if relaxation.entropic:
        total += EntropicExcess(prior, LinkMatrices(prior), relaxation.weight).value(theta)
    return total


def moved(prior, theta, T, grams, millimetres) -> np.ndarray:
    """Links in other frames and other units."""
    out = theta.copy()
    powers = np.array([0, 1, 1, 1, 2, 2, 2, 2, 2, 2])
    for link in prior.links:
        out[link] = transform_pi(theta[link], T) * grams * millimetres**powers
    return out


@pytest.mark.parametrize("kind", ["pullback", "entropic"])
def test_distances_do_not_depend_on_units_or_frames(kind, case, rng):
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = exp_so3(rng.normal(size=3)), rng.uniform(-0.5, 0.5, 3)
    theta = case.prior.theta.copy()
    for link, pi in zip(case.prior.links, random_pi(rng, len(case.prior.links)), strict=True):
        theta[link] += 0.3 * pi
    for grams, millimetres in ((1.0, 1.0), (1e3, 1e3)):
        other = replace(
            case.prior,
            theta=moved(case.prior, case.prior.theta, T, grams, millimetres),
            link_mass=grams * case.prior.link_mass,
            link_length=millimetres * case.prior.link_length,
        )
        here = distance(case.prior, Relaxation(kind, 2.0), theta)
        there = distance(
            other, Relaxation(kind, 2.0), moved(case.prior, theta, T, grams, millimetres)
        )
        assert there == pytest.approx(here, rel=1e-7)
    assert here > 0.01
    # The Euclidean one does.
    euclidean = [distance(p, Relaxation(), t) for p, t in ((case.prior, theta), (other, theta))]
    assert euclidean[0] != pytest.approx(euclidean[1], rel=0.01)


def test_weights_multiply(case, rng):
    theta = case.prior.theta + 0.01 * case.prior.size * rng.normal(size=case.prior.size.size)
    for kind in ("euclidean", "pullback"):
        one, ten = (distance(case.prior, Relaxation(kind, w), theta) for w in (1.0, 10.0))
        assert ten == pytest.approx(10.0 * one)


@pytest.mark.parametrize("kind", ["pullback", "entropic"])
def test_a_prior_that_cannot_exist_is_named_with_the_remedy(kind, case):
    theta = case.prior.theta.copy()
    theta[case.prior.links[1]] = [1.0, *[0.0] * 9]  # a point
    flat = replace(case.prior, theta=theta)
    name = case.prior.link_names[1]
    with pytest.raises(InconsistentInertiaError, match=rf"{kind}.*{name}.*no volume.*euclidean"):
        Relaxation(kind).factor(flat)
    Relaxation().factor(flat)


def test_unknown_relaxations_are_refused():
    with pytest.raises(UnknownNameError, match=r"riemann.*euclidean.*pullback.*entropic"):
        Relaxation("riemann")
    for method in ("pc-ols", "pc-wls", "pc-irls"):
        with pytest.raises(UnknownNameError, match="riemann"):
            identifier(method, relaxation="riemann")


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_weights_are_positive_numbers(weight):
    with pytest.raises(ShapeError, match=r"weight of the relaxation.*1e-3"):
        Relaxation("euclidean", weight)
    with pytest.raises(ShapeError, match="weight of the relaxation"):
        identifier("pc-wls", relaxation_weight=weight)


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (identifier("pc-ols"), set()),
        (identifier("pc-wls"), {"tolerance", "iterations"}),
        (identifier("pc-irls"), {"tolerance", "iterations", "weighting"}),
    ],
)
def test_methods_are_their_settings(method, names):
    assert set(settings_of(method)) == {"relaxation", "relaxation_weight", "trusted", *names}
    other = _with_settings(method, {"relaxation": "entropic", "relaxation_weight": None})
    assert other != method
    assert "relaxation='entropic'" in repr(other)
    assert _with_settings(other, {"relaxation": "auto", "relaxation_weight": None}) == method


def test_settings_of_the_weights_are_checked_too():
    with pytest.raises(UnknownNameError, match="tukey"):
        identifier("pc-irls", weighting="tukey")
