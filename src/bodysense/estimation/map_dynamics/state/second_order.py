"""What a linearisation leaves out, as slack: the second order of equations and readings in x.

With delta ~ N(0, Cov(x)) the error of the state, and u its part at joint i or of a twist,

    X(q + u) a - X(q) a + u S × X a        ≈  ½ u² S × S × X a,        E (½ u²)² = ¾ sigma⁴
    uᵀ Q u, uᵀ R u (Coriolis, centripetal)     have the second moment
                                               tr(Q P) tr(R P) + 2 tr(Q P R P)

A single linearisation that knows of these does not believe itself further than it should. They
shrink with the fourth power of the state's standard deviation, so that a few such steps lead
from far away to where the exact equations can take over.
"""

from __future__ import annotations

import numpy as np

from bodysense.estimation._kernels.problem import Beliefs, Bodies, Memory, Readings
from bodysense.estimation.map_dynamics.equations.moment import motion_cross
from bodysense.estimation.map_dynamics.state.first_guess import blocks_of, with_covariances
from bodysense.robot.sensors.quadratic import gyroscopic
from bodysense.spatial.arrays import Array


def with_second_order(
    beliefs: Beliefs,
    readings: Readings,
    bodies: Bodies,
    w: Memory,
    twists: Array,
    d: Array,
    factor: Array,
) -> tuple[Beliefs, Readings]:
    """Beliefs and readings that know what their linearisation leaves out.

    Args:
        beliefs: as they are.
        readings: as they are.
        bodies: the tree.
        w: memory of a linearisation at this x, with the transforms in it.
        twists: (n, columns, 6) derivatives of the twists by x.
        d: (n, 20) at which products are linearised.
        factor: (columns, k) S, Cov(x) = S Sᵀ.
    """
    n, joints = bodies.parent.size, factor.shape[0]
    sigma2 = (factor**2).sum(axis=1)
    velocities = (bodies.joint.max() + 1) if n > 1 else 0
    slip = np.einsum("ihj,hk->ijk", twists[:, :joints], factor)
    spread = slip @ slip.swapaxes(1, 2)  # of the twists
    motion, balance = np.zeros((n, 7, 7)), np.zeros((n, 6, 6))
    for i in range(n):
        balance[i] += _quadratic(gyroscopic(bodies.inertia[i]), spread[i])
        if i == 0:
            continue
        j, p, S = bodies.joint[i], bodies.parent[i], motion_cross(bodies.S[i])
        X, fourth = w.X[i], 0.75 * sigma2[j] ** 2
        curve = S @ S @ X @ d[p, :6]
        motion[i, :6, :6] += fourth * np.outer(curve, curve)
        motion[i, :6, :6] += sigma2[velocities + j] * S @ spread[i] @ S.T
        curve = X.T @ S.T @ S.T @ d[i, 6:12]
        balance[p] += fourth * np.outer(curve, curve)
    read = [
        _quadratic(readings.quadratic[here], spread[mover])
        for here, mover in zip(blocks_of(readings), readings.mover, strict=True)
    ]
    return with_covariances(beliefs, readings, motion, balance, read)


def _quadratic(Q: Array, P: Array) -> Array:
    """(m, m) E (uᵀ Q_a u)(uᵀ Q_b u) for u ~ N(0, P), of symmetric matrices Q (m, 6, 6)."""
    QP = Q @ P
    trace = np.trace(QP, axis1=1, axis2=2)
    moment: Array = np.outer(trace, trace) + 2.0 * np.einsum("aij,bji->ab", QP, QP)
    return moment
