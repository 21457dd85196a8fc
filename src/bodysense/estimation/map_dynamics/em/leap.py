"""A leap ahead of EM: extrapolation of two of its steps, in logarithms of covariances.

EM is slow where the readings say little about a noise of their own. Two steps Sigma_0 → Sigma_1 →
Sigma_2 show the way: in coordinates X = log(L⁻¹ Sigma L⁻ᵀ), Sigma_0 = L Lᵀ, which keep covariances
positive, diagonal ones diagonal and multiples of one another multiples,

    X = 2 α r + α² v,     r = X_1,  v = X_2 - 2 X_1,     α = |r| / |v|

(squared extrapolation; α = 1 is EM itself). Whether it helped is for the caller to see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bodysense.spatial.arrays import Array

_FARTHEST = 64.0


def leap(steps: Sequence[Mapping[str, Array]]) -> dict[str, Array] | None:
    """Covariances ahead of three in a row, by name; `None` where there is no way ahead."""
    first, second, third = steps
    roots = {name: _root(Sigma) for name, Sigma in first.items()}
    X1 = {name: _logarithm(roots[name], second[name]) for name in first}
    X2 = {name: _logarithm(roots[name], third[name]) for name in first}
    bend = {name: X2[name] - 2.0 * X1[name] for name in first}
    length, change = _norm(X1), _norm(bend)
    if not (np.isfinite(length) and np.isfinite(change)) or length <= change or change == 0.0:
        return None
    alpha = min(length / change, _FARTHEST)
    ahead = {}
    for name, root in roots.items():
        X = 2.0 * alpha * X1[name] + alpha**2 * bend[name]
        values, vectors = np.linalg.eigh(X)
        grown = (vectors * np.exp(np.clip(values, -20.0, 20.0))) @ vectors.T
        Sigma = root @ grown @ root.T
        Sigma[(second[name] == 0.0) & (third[name] == 0.0)] = 0.0  # but for rounding
        ahead[name] = 0.5 * (Sigma + Sigma.T)
    return ahead


def step_length(last: Mapping[str, Array], new: Mapping[str, Array]) -> float:
    """Greatest change of the logarithm of a standard deviation."""
    most = 0.0
    for name, Sigma in last.items():
        values = np.linalg.eigvalsh(_logarithm(_root(Sigma), new[name]))
        most = max(most, 0.5 * float(np.abs(values).max(initial=0.0)))
    return most


def way_to_go(steps: Sequence[Mapping[str, Array]]) -> float:
    """How far logarithms of standard deviations are from rest, if steps go on shrinking as they do.

    Of two steps the second is l times the first; those that follow add up to l / (1 - l) of it.
    """
    last = step_length(steps[-2], steps[-1])
    if len(steps) < 3:
        return 100.0 * last
    before = step_length(steps[-3], steps[-2])
    rate = min(last / before, 0.999) if before > 0.0 else 0.0
    return last * rate / (1.0 - rate)


def _root(Sigma: Array) -> Array:
    """(m, rank) L with L Lᵀ = Sigma."""
    values, vectors = np.linalg.eigh(Sigma)
    some = values > 1e-14 * values.max(initial=0.0)
    root: Array = vectors[:, some] * np.sqrt(values[some])
    return root


def _logarithm(root: Array, Sigma: Array) -> Array:
    """log(L⁺ Sigma L⁺ᵀ)."""
    inverse = np.linalg.pinv(root)
    values, vectors = np.linalg.eigh(inverse @ Sigma @ inverse.T)
    logarithm: Array = (vectors * np.log(np.maximum(values, 1e-300))) @ vectors.T
    return logarithm


def _norm(parts: Mapping[str, Array]) -> float:
    return float(np.sqrt(sum((part**2).sum() for part in parts.values())))
