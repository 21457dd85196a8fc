"""What Python calls: the posterior of many moments, compiled once for all that is asked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation._kernels.covariance import spread
from bodysense.estimation._kernels.elimination import eliminate, substitute
from bodysense.estimation._kernels.motion import move, offsets, readings_without_motion
from bodysense.estimation._kernels.problem import (
    ALPHA_FOUND,
    ALPHA_OFFSET,
    EXTERNAL_FOUND,
    MULTIPLIER,
    PARENT_SIDE,
    TRANSFORM,
    WRENCH_FOUND,
)
from bodysense.estimation._kernels.small import copy
from bodysense.robot._kernels.jit import called, threaded
from bodysense.spatial.arrays import Array


class Found(NamedTuple):
    """The posterior of T moments; arrays of length zero are not asked for.

    Attributes:
        d: (T, n, 20) means: a, f, tau, fx, joint acceleration of each body.
        variance: (T, n, 20) alike.
        residual: (T, m) readings minus their predictions, rows of the kernels; NaN where absent.
        score: (T, 2) log-determinants and sum of squares of the log-likelihood.
        present: (T, blocks).
        joint: (T, n, 13, 13) covariance of (a_i, joint acceleration, f_i).
        between: (T, n, 12, 12) covariance of (a of the parent, f_i).
        external: (T, n, 6, 6) covariance of fx_i.
        slack: (T, n, 12) means of the slacks of acceleration equation and wrench balance.
        slack_acceleration: (T, n, 6, 6) covariance of the slack of the acceleration equation.
        slack_wrench: (T, n, 6, 6) of the wrench balance.
        slack_torque: (T, n, 2) mean and variance of the slack of the torque.
    """

    d: Array
    variance: Array
    residual: Array
    score: Array
    present: NDArray[np.int64]
    joint: Array
    between: Array
    external: Array
    slack: Array
    slack_acceleration: Array
    slack_wrench: Array
    slack_torque: Array


@called
def write_means(t, bodies, w, out):
    """Means of all unknowns."""
    for i in range(bodies.parent.size):
        for j in range(6):
            out.d[t, i, j] = w.Z[i, ALPHA_FOUND, j, 0]
            out.d[t, i, 6 + j] = w.V[i, WRENCH_FOUND, j, 0]
            out.d[t, i, 13 + j] = w.V[i, EXTERNAL_FOUND, j, 0]
        out.d[t, i, 12] = w.d_tau[i, 0]
        out.d[t, i, 19] = w.Z[i, ALPHA_FOUND, 6, 0]


@called
def write_residuals(t, bodies, readings, w, out):
    """Readings minus predictions, NaN where there is no reading."""
    for b in range(w.present.size):
        out.present[t, b] = w.present[b]
    for i in range(bodies.parent.size):
        for block in range(readings.begin[i, 0], readings.begin[i, PARENT_SIDE + 1]):
            beside = block >= readings.begin[i, PARENT_SIDE]
            mover = bodies.parent[i] if beside else i
            for a in range(readings.first[block], readings.first[block + 1]):
                x = w.Y[a, 0]
                for k in range(6):
                    x -= readings.on_alpha[a, k] * w.Z[mover, ALPHA_FOUND, k, 0]
                    x -= readings.on_external[a, k] * w.V[i, EXTERNAL_FOUND, k, 0]
                    if beside:
                        for j in range(6):
                            f = w.M[i, TRANSFORM, j, k] * w.V[i, WRENCH_FOUND, j, 0]
                            x += readings.on_wrench[a, k] * f
                    else:
                        x -= readings.on_wrench[a, k] * w.V[i, WRENCH_FOUND, k, 0]
                if not beside:
                    x -= readings.on_alpha[a, 6] * w.Z[i, ALPHA_FOUND, 6, 0]
                slack = w.d_tau[i, 0]
                for k in range(6):
                    slack -= bodies.S[i, k] * w.V[i, WRENCH_FOUND, k, 0]
                x -= readings.on_torque[a] * slack
                out.residual[t, a] = x if w.present[block] == 1 else np.nan


@called
def write_spread(t, bodies, s, out):
    """Variances, and covariances as far as they are asked for."""
    for i in range(bodies.parent.size):
        for j in range(6):
            out.variance[t, i, j] = s.joint[i, j, j]
            out.variance[t, i, 6 + j] = s.joint[i, 7 + j, 7 + j]
            out.variance[t, i, 13 + j] = s.external[i, j, j]
        out.variance[t, i, 12] = s.torque[i]
        out.variance[t, i, 19] = s.joint[i, 6, 6]
    if out.joint.shape[0] == 0:
        return
    for i in range(bodies.parent.size):
        copy(s.joint[i], out.joint[t, i])
        copy(s.between[i], out.between[t, i])
        copy(s.external[i], out.external[t, i])


@called
def write_slacks(t, bodies, beliefs, dq, w, s, out):
    """Means and covariances of the slacks of the equations."""
    for i in range(bodies.parent.size):
        copy(s.slack_acceleration[i], out.slack_acceleration[t, i])
        copy(s.slack_wrench[i], out.slack_wrench[t, i])
        for j in range(6):
            x = 0.0
            for k in range(6):
                x += beliefs.slack_wrench[i, j, k] * w.V[i, MULTIPLIER, k, 0]
            out.slack[t, i, 6 + j] = x
            if i == 0:
                out.slack[t, i, j] = 0.0
                continue
            x = w.Z[i, ALPHA_FOUND, j, 0] - w.Z[i, ALPHA_OFFSET, j, 0]
            x -= bodies.S[i, j] * (w.Z[i, ALPHA_FOUND, 6, 0] - w.Z[i, ALPHA_OFFSET, 6, 0])
            for k in range(6):
                x -= w.M[i, TRANSFORM, j, k] * w.Z[bodies.parent[i], ALPHA_FOUND, k, 0]
            out.slack[t, i, j] = x
        x = w.d_tau[i, 0]
        for k in range(6):
            x -= bodies.S[i, k] * w.V[i, WRENCH_FOUND, k, 0]
        out.slack_torque[t, i, 0] = x
        out.slack_torque[t, i, 1] = s.slack_torque[i]


@threaded
def solve_moments(
    first, last, bodies, tree, drive, readings, beliefs, w, s, q, dq, twist, a0, y, out
):
    """Posterior of the moments first … last, into `Found`."""
    phi, dphi = np.zeros(max(1, drive.shape[1])), np.zeros(max(1, drive.shape[1]))
    for t in range(first, last):
        move(bodies, q[t], dq[t], twist[t], w)
        offsets(bodies, beliefs, dq[t], a0[t], w)
        readings_without_motion(tree, drive, readings, q[t], dq[t], y[t], phi, dphi, w)
        eliminate(bodies, readings, beliefs, w)
        substitute(bodies, readings, beliefs, w)
        write_means(t, bodies, w, out)
        write_residuals(t, bodies, readings, w, out)
        out.score[t, 0], out.score[t, 1] = w.score[0], w.score[1]
        if out.variance.shape[0] > 0:
            spread(bodies, readings, beliefs, w, s)
            write_spread(t, bodies, s, out)
            if out.slack.shape[0] > 0:
                write_slacks(t, bodies, beliefs, dq[t], w, s, out)
