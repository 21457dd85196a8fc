"""`observability`: what the sensors can see, before anything is measured.

Covariances of the posterior do not depend on what is read, only on what is there to read. So three
solves at some states tell what becomes of each quantity: its standard deviation without sensors,
with them, and with them if everything believed were three times as certain. What the last does not
change is seen; what becomes as much narrower is what one believed, whatever the readings:

    seen        beliefs three times as narrow make it narrower by less than a factor of 1.5
    not seen    sensors leave more than nine tenths of the standard deviation
    partly      all between: readings narrow it, and beliefs decide the rest
    assumed     it was known without any sensor
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import ShapeError
from bodysense.estimation._kernels.elimination import EXACT
from bodysense.estimation.map_dynamics.assumptions import Assumptions
from bodysense.estimation.map_dynamics.belief import Belief
from bodysense.estimation.map_dynamics.found import flat
from bodysense.estimation.map_dynamics.observability.helpful_sensors import helpful
from bodysense.estimation.map_dynamics.observability.report import LABELS, Observability
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

_NARROWER = 3.0
_HELD = 1.5  # times narrower that what is seen may become
_LEFT = 0.9  # of a standard deviation that is left of what is not seen


def observability(
    problem: MapDynamics,
    q: ArrayLike | None = None,
    dq: ArrayLike | None = None,
    *,
    base_twist: ArrayLike | None = None,
    gravity: ArrayLike | None = None,
    rng: np.random.Generator | None = None,
    suggest: int = 3,
) -> Observability:
    """Find out what the sensors of a problem can see.

    Args:
        problem: the estimator.
        q: (n_joints,) or (T, n_joints) positions to look at; by default five, drawn at random.
        dq: their velocities; by default at rest.
        base_twist: as in `MapDynamics.estimate`.
        gravity: as in `MapDynamics.estimate`.
        rng: for the positions, if they are not given.
        suggest: how many sensors to suggest; zero saves the time to look for them.
    """
    states = _states(problem, q, rng)
    speeds = np.zeros_like(states) if dq is None else np.array(dq, dtype=float, ndmin=2)
    keywords = {"base_twist": base_twist}
    if problem.tree.floating or gravity is not None or problem.tree.names[0] == "world":
        keywords["gravity"] = gravity
    else:
        keywords["gravity"] = problem.robot.tree.gravity  # what is seen hardly depends on it

    def spread(other: MapDynamics) -> Array:
        readings = np.zeros((states.shape[0], other.layout.size))
        moments = other.moments(states, speeds, readings, **keywords)
        variance = flat(other.tree, other.solve(moments, "variances").variance)
        deviations: Array = np.sqrt(np.maximum(variance, 0.0))
        return deviations

    surer = problem.with_assumptions(_narrower(problem.assumptions))
    before, after, narrow = spread(problem.blind), spread(problem), spread(surer)
    labels = tuple(LABELS[k] for k in _judged(before, after, narrow))
    missing = np.array([label in ("partly", "not seen") for label in labels], dtype=bool)
    help_ = helpful(problem, spread, after, missing, suggest) if missing.any() else ()
    return Observability(
        variables=problem.variables,
        before=before.mean(axis=0),
        after=after.mean(axis=0),
        labels=labels,
        readings=_informative(problem),
        unknowns=_unknowns(problem),
        help=help_,
    )


def _judged(before: Array, after: Array, narrow: Array) -> NDArray[np.int64]:
    """Index of the label of each number, at the worst of the states."""
    assumed = (before < EXACT).all(axis=0)
    unseen = (after > _LEFT * before).any(axis=0)
    held = (after < _HELD * np.maximum(narrow, EXACT)).all(axis=0)
    return np.select([assumed, held, unseen], [3, 0, 2], default=1)


def _states(problem: MapDynamics, q: ArrayLike | None, rng: np.random.Generator | None) -> Array:
    if q is not None:
        return np.array(q, dtype=float, ndmin=2)
    if rng is None:
        raise ShapeError("give positions q to look at, or rng to draw some.")
    return rng.uniform(-1.5, 1.5, (5, problem.robot.n_joints))


def _narrower(beliefs: Assumptions) -> Assumptions:
    """More certain of everything but the equations."""

    def narrow(belief: Belief) -> Belief:
        return Belief(belief.mean, belief.covariance / _NARROWER**2)

    def all_narrow(beliefs: Mapping[str, Belief]) -> dict[str, Belief]:
        return {name: narrow(belief) for name, belief in beliefs.items()}

    return replace(
        beliefs,
        wrench=narrow(beliefs.wrench),
        wrenches=all_narrow(beliefs.wrenches),
        joint_acceleration=narrow(beliefs.joint_acceleration),
        base_acceleration=narrow(beliefs.base_acceleration),
        others=all_narrow(beliefs.others),
    )


def _informative(problem: MapDynamics) -> int:
    """Rows of sensors that depend on an unknown."""
    rows = problem.layout.arrays
    every = np.concatenate([rows.on_alpha, rows.on_wrench, rows.on_external], axis=1)
    depends = every.any(axis=1) & (problem.layout.order < problem.layout.size)
    return int(np.count_nonzero(depends))


def _unknowns(problem: MapDynamics) -> int:
    """Independent numbers with a doubt; the balance of a floating root binds six of them."""
    tree, beliefs = problem.tree, problem.assumptions
    count = 0
    for i in tree.with_unknowns:
        wrench = beliefs.wrenches.get(tree.names[i], beliefs.wrench).covariance
        count += int(np.linalg.matrix_rank(wrench, hermitian=True))
        count += int(i > 0 and beliefs.joint_acceleration.covariance[0, 0] > 0.0)
    if tree.floating:
        count += int(np.linalg.matrix_rank(beliefs.base_acceleration.covariance, hermitian=True))
        count -= 6
    return max(count, 0)
