"""Searches without derivatives, over coordinates of which about one is a plausible step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import Bounds, minimize
from scipy.optimize import differential_evolution as evolve

from bodysense.spatial.arrays import Array

_LOST = 1e30
"""Cost of what cannot be simulated: scipy wants numbers."""

_LARGEST_POPULATION = 64
_SMALLEST_POPULATION = 5
"""Of which scipy can breed."""

Costs = Callable[[Array], Array]
"""(runs, n) points to their costs (runs,): simulated together."""


def nelder_mead(costs: Costs, n: int, *, evaluations: int, rng: np.random.Generator) -> Array:
    """The simplex of Nelder and Mead from zero, its size one; nothing about it is random."""
    first = np.vstack([np.zeros(n), np.eye(n)])

    def cost(x: Array) -> float:
        return float(np.minimum(costs(x[None])[0], _LOST))

    result = minimize(
        cost,
        np.zeros(n),
        method="Nelder-Mead",
        options={
            "initial_simplex": first,
            "maxfev": evaluations,
            "adaptive": True,
            "xatol": 1e-4,
            "fatol": 1e-6,
        },
    )
    return np.asarray(result.x, dtype=np.float64)


def differential_evolution(
    costs: Costs, n: int, *, evaluations: int, rng: np.random.Generator
) -> Array:
    """A population within ±3 about zero, whole generations simulated together."""
    population = min(max(2 * n, 8), _LARGEST_POPULATION, evaluations)
    if population < _SMALLEST_POPULATION:
        return np.zeros(n)

    def batch(x: Array) -> Array:
        points = np.atleast_2d(x.T)
        return np.minimum(costs(np.ascontiguousarray(points)), _LOST)

    start = np.clip(0.5 * rng.standard_normal((population, n)), -3.0, 3.0)
    start[0] = 0.0
    result = evolve(
        batch,  # type: ignore[arg-type]  # scipy's stubs do not know vectorised costs
        Bounds(np.full(n, -3.0), np.full(n, 3.0)),
        init=start,
        maxiter=evaluations // population - 1,
        vectorized=True,
        updating="deferred",
        polish=False,
        rng=rng,
    )
    return np.asarray(result.x, dtype=np.float64)
