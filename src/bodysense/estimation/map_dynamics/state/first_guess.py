"""Where to linearise at first, if the state is known only roughly.

Products such as X(q) a are linearised at some q and some a, with an error of (error of q) times
(error of a). The best a given a wrong q is wrong itself: equations without slack force it to fit.
So at first

1. readings that depend on the state alone (encoders, gyroscopes, orientations) move it;
2. equations and readings are believed only as far as the state is: with the covariances

       Sigma + B Cov(x) Bᵀ,    B = ∂(equation or reading)/∂x,

   and the best d of these is where products are linearised.

Both only choose the point; the problem that is linearised there is the given one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation._kernels.problem import ALPHA_OFFSET, BALANCE, Beliefs, Memory, Readings
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.spatial.arrays import Array

_EXACT = 1e-18  # least variance of a reading


def of_state(problem: MapDynamics) -> NDArray[np.bool_]:
    """(m,) rows of the kernels that depend on the state alone."""
    rows = problem.layout.arrays
    on_d = np.column_stack([rows.on_alpha, rows.on_wrench, rows.on_external])
    return np.asarray(~on_d.any(axis=1), dtype=np.bool_)


def softened(
    beliefs: Beliefs, readings: Readings, w: Memory, factor: Array
) -> tuple[Beliefs, Readings]:
    """Beliefs and readings that know of the uncertainty of the state.

    Args:
        beliefs: as they are.
        readings: as they are.
        w: memory of a linearisation, with the derivatives of equations and readings in it.
        factor: (columns, k) S, Cov(x) = S Sᵀ.
    """
    columns = slice(1, 1 + factor.shape[0])
    motion = w.Z[:, ALPHA_OFFSET, :6, columns] @ factor
    balance = w.V[:, BALANCE, :, columns] @ factor
    return with_covariances(
        beliefs,
        readings,
        motion @ motion.swapaxes(1, 2),
        balance @ balance.swapaxes(1, 2),
        w.Y[:, columns] @ factor,
    )


def with_covariances(
    beliefs: Beliefs, readings: Readings, motion: Array, balance: Array, read: Array
) -> tuple[Beliefs, Readings]:
    """Beliefs and readings with more slack.

    Args:
        beliefs: as they are.
        readings: as they are.
        motion: (n, 6, 6) covariance to add to the slack of acceleration equations.
        balance: (n, 6, 6) to that of wrench balances.
        read: (m, k) S of readings, S Sᵀ to be added to their covariance, block by block.
    """
    soft = np.ones(motion.shape[0], dtype=np.int64)
    covariance, white = readings.covariance.copy(), readings.white.copy()
    for first, last in zip(readings.first[:-1], readings.first[1:], strict=True):
        m, here = last - first, slice(first, last)
        covariance[here, :m] += read[here] @ read[here].T
        values, vectors = np.linalg.eigh(covariance[here, :m])
        white[here, :m] = vectors.T / np.sqrt(np.maximum(values, _EXACT))[:, None]
    return (
        beliefs._replace(
            soft=soft,
            slack_acceleration=beliefs.slack_acceleration + motion,
            slack_wrench=beliefs.slack_wrench + balance,
        ),
        readings._replace(covariance=covariance, white=white),
    )
