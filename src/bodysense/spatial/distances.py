"""Distances between two bodies that depend neither on the frame nor on the units.

All on the pseudo-inertia P = P(pi), which is positive definite for a physically consistent body:

    affine-invariant distance   d(P1, P2)^2 = sum_i log^2 lambda_i(P1^-1 P2)      thesis eq 163
    geodesic                    P(t) = P1^1/2 (P1^-1/2 P2 P1^-1/2)^t P1^1/2       thesis eq 164
    entropic divergence         D(P1, P2) = tr(P1 P2^-1) - log det(P1 P2^-1) - 4
    constant pullback metric    d0^2 = tr((P0^-1 P(pi1 - pi2))^2)

Near P0 they agree to second order, with these factors: d^2 = d0^2 = 2 D. The last two are the
approximations that Lee, Wensing and Park brought to identification (thesis section 6.2.2).
Thesis eq 167 as printed, tr(P0^-1 P(dpi)^2) / 2, is not the pullback of the metric of eq 160: it
depends on units and frame. A second P0^-1 belongs between the two P(dpi), and with the distance
of eq 163 there is no 1/2; with it, the value is that of the entropic divergence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import ShapeError
from bodysense.spatial.arrays import Array, as_stack, require_same_stack
from bodysense.spatial.pseudo_inertia import (
    PSEUDO_INERTIA_BASIS,
    pi_from_pseudo_inertia,
    pseudo_inertia_from_pi,
    require_consistent,
)


def affine_invariant_distance(pi_1: ArrayLike, pi_2: ArrayLike) -> Array:
    """Riemannian distance between two bodies, (..., 10) and (..., 10) -> (...), no unit.

    Thesis eq 163, for the metric <U, V> = tr(P^-1 U P^-1 V) of eq 160. Twice the mass and
    moments at the same shape is a distance of 2 log 2.
    """
    _, ratios, _ = _relative(*_pseudo_inertias(pi_1, pi_2))
    return np.asarray(np.linalg.norm(np.log(ratios), axis=-1))


def robot_distance(pi_1: ArrayLike, pi_2: ArrayLike) -> float:
    """Distance between two sets of links (n, 10): root of the sum of squares, thesis eq 166."""
    pi_1, pi_2 = as_stack(pi_1, (10,), "pi_1"), as_stack(pi_2, (10,), "pi_2")
    if pi_1.ndim != 2 or pi_1.shape != pi_2.shape:
        raise ShapeError(
            f"pi_1 and pi_2 have shapes {pi_1.shape} and {pi_2.shape}: both must be (links, 10), "
            "with the links in the same order."
        )
    return float(np.linalg.norm(affine_invariant_distance(pi_1, pi_2)))


def geodesic(pi_1: ArrayLike, pi_2: ArrayLike, t: ArrayLike) -> Array:
    """Bodies on the shortest path from pi_1 (t = 0) to pi_2 (t = 1), thesis eqs 164 and 184.

    Every point is physically consistent, beyond the ends too, and the speed is constant.
    (..., 10), (..., 10) and t (k,) -> (..., k, 10), or (..., 10) for a single t.
    """
    root, ratios, vectors = _relative(*_pseudo_inertias(pi_1, pi_2))
    t = as_stack(t, (), "t")
    if t.ndim > 1:
        raise ShapeError(f"t has shape {t.shape}: pass a number or a vector.")
    steps = np.atleast_1d(t)
    # P1 = L L^T gives the same curve as the symmetric root: they differ by a rotation.
    factor = (root @ vectors)[..., None, :, :]
    weights = ratios[..., None, :] ** steps[:, None]
    P = (factor * weights[..., None, :]) @ np.swapaxes(factor, -1, -2)
    pi = pi_from_pseudo_inertia(P)
    return pi if t.ndim else pi[..., 0, :]


def entropic_divergence(pi_1: ArrayLike, pi_2: ArrayLike) -> Array:
    """Bregman divergence of -log det P, (..., 10) and (..., 10) -> (...), no unit.

    Convex in pi_1, not symmetric, zero only for equal bodies, and half the squared
    affine-invariant distance to second order.
    """
    P_1, P_2 = _pseudo_inertias(pi_1, pi_2)
    _, ratios, _ = _relative(P_2, P_1)
    # x - 1 - log x of each eigenvalue: each term is positive, nothing cancels between them
    excess = ratios - 1.0
    return np.asarray((excess - np.log1p(excess)).sum(axis=-1))


def entropic_gradient(pi_1: ArrayLike, pi_2: ArrayLike) -> Array:
    """Gradient of the entropic divergence by pi_1: <P2^-1 - P1^-1, dP/dpi_k>, (..., 10)."""
    P_1, P_2 = _pseudo_inertias(pi_1, pi_2)
    difference = np.linalg.inv(P_2) - np.linalg.inv(P_1)
    gradient: Array = np.einsum("...ij,kij->...k", difference, PSEUDO_INERTIA_BASIS)
    return gradient


def pullback_metric(pi_0: ArrayLike) -> Array:
    """Constant metric G at pi_0, (..., 10) -> (..., 10, 10), symmetric positive definite.

    G_jk = tr(P0^-1 E_j P0^-1 E_k) with P(pi) = sum_k pi_k E_k, so that
    (pi_1 - pi_2)^T G (pi_1 - pi_2) is the squared affine-invariant distance to second order.
    """
    P = pseudo_inertia_from_pi(require_consistent(pi_0, "pi_0"))
    inverse_root = np.linalg.inv(np.linalg.cholesky(P))[..., None, :, :]
    # Whitened directions: G is then a Gram matrix, symmetric and positive by construction.
    whitened = inverse_root @ PSEUDO_INERTIA_BASIS @ np.swapaxes(inverse_root, -1, -2)
    flat = whitened.reshape(*whitened.shape[:-2], 16)
    metric: Array = flat @ np.swapaxes(flat, -1, -2)
    return metric


def pullback_distance(pi_1: ArrayLike, pi_2: ArrayLike, pi_0: ArrayLike) -> Array:
    """Distance in the constant metric at pi_0; pi_1 and pi_2 need not be consistent, (...)."""
    pi_1, pi_2 = as_stack(pi_1, (10,), "pi_1"), as_stack(pi_2, (10,), "pi_2")
    metric = pullback_metric(pi_0)
    require_same_stack(pi_1=pi_1.shape[:-1], pi_2=pi_2.shape[:-1], pi_0=metric.shape[:-2])
    difference = pi_1 - pi_2
    squared = np.einsum("...i,...ij,...j->...", difference, metric, difference)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def _pseudo_inertias(pi_1: ArrayLike, pi_2: ArrayLike) -> tuple[Array, Array]:
    pi_1, pi_2 = require_consistent(pi_1, "pi_1"), require_consistent(pi_2, "pi_2")
    require_same_stack(pi_1=pi_1.shape[:-1], pi_2=pi_2.shape[:-1])
    return pseudo_inertia_from_pi(pi_1), pseudo_inertia_from_pi(pi_2)


def _relative(P_1: Array, P_2: Array) -> tuple[Array, Array, Array]:
    """L with P1 = L L^T, and eigenvalues and vectors of L^-1 P2 L^-T."""
    root: Array = np.asarray(np.linalg.cholesky(P_1), dtype=np.float64)
    half = np.linalg.solve(root, P_2)
    ratios, vectors = np.linalg.eigh(np.linalg.solve(root, np.swapaxes(half, -1, -2)))
    return root, ratios, vectors
