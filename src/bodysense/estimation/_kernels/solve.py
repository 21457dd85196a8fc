"""What Python calls: the posterior of many moments, compiled once for all that is asked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation._kernels.covariance import spread
from bodysense.estimation._kernels.elimination import eliminate
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
from bodysense.estimation._kernels.small import add_product, clear, copy
from bodysense.estimation._kernels.substitution import substitute
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
def write_means(Z, V, tau, d):
    """Means of all unknowns, (n, 20)."""
    for i in range(d.shape[0]):
        for j in range(6):
            d[i, j] = Z[i, ALPHA_FOUND, j, 0]
            d[i, 6 + j] = V[i, WRENCH_FOUND, j, 0]
            d[i, 13 + j] = V[i, EXTERNAL_FOUND, j, 0]
        d[i, 12] = tau[i, 0]
        d[i, 19] = Z[i, ALPHA_FOUND, 6, 0]


@called
def write_residuals(parent, S, readings, M, V, Z, tau, Y, present, f, residual):
    """Readings minus predictions, NaN where there is no reading."""
    for i in range(parent.size):
        slack = tau[i, 0]
        for k in range(6):
            slack -= S[i, k] * V[i, WRENCH_FOUND, k, 0]
        for block in range(readings.begin[i, 0], readings.begin[i, PARENT_SIDE + 1]):
            beside = block >= readings.begin[i, PARENT_SIDE]
            alpha = Z[parent[i] if beside else i, ALPHA_FOUND]
            if beside:  # the wrench on the parent is -Xᵀ f
                clear(f)
                add_product(-1.0, M[i, TRANSFORM].T, V[i, WRENCH_FOUND], f)
            else:
                copy(V[i, WRENCH_FOUND], f)
            for a in range(readings.first[block], readings.first[block + 1]):
                x = Y[a, 0] - readings.on_torque[a] * slack - readings.on_alpha[a, 6] * alpha[6, 0]
                for k in range(6):
                    x -= readings.on_alpha[a, k] * alpha[k, 0] + readings.on_wrench[a, k] * f[k, 0]
                    x -= readings.on_external[a, k] * V[i, EXTERNAL_FOUND, k, 0]
                residual[a] = x if present[block] == 1 else np.nan


@called
def write_variances(joint, external, torque, variance):
    """Variances of all unknowns, (n, 20); rounding may leave those that vanish below zero."""
    for i in range(variance.shape[0]):
        for j in range(6):
            variance[i, j] = max(joint[i, j, j], 0.0)
            variance[i, 6 + j] = max(joint[i, 7 + j, 7 + j], 0.0)
            variance[i, 13 + j] = max(external[i, j, j], 0.0)
        variance[i, 12] = max(torque[i], 0.0)
        variance[i, 19] = max(joint[i, 6, 6], 0.0)


@called
def write_slacks(parent, S, slack_wrench, M, V, Z, tau, variance, means, torque):
    """Means of the slacks of the equations, (n, 12), and mean and variance of the torque's."""
    for i in range(parent.size):
        alpha, offset = Z[i, ALPHA_FOUND], Z[i, ALPHA_OFFSET]
        torque[i, 0], torque[i, 1] = tau[i, 0], variance[i]
        for j in range(6):
            torque[i, 0] -= S[i, j] * V[i, WRENCH_FOUND, j, 0]
            x = y = 0.0
            for k in range(6):
                x += slack_wrench[i, j, k] * V[i, MULTIPLIER, k, 0]
                if i > 0:
                    y -= M[i, TRANSFORM, j, k] * Z[parent[i], ALPHA_FOUND, k, 0]
            if i > 0:
                y += alpha[j, 0] - offset[j, 0] - S[i, j] * (alpha[6, 0] - offset[6, 0])
            means[i, j], means[i, 6 + j] = y, x


@called
def copy_blocks(A, out):
    """Write n matrices."""
    for i in range(A.shape[0]):
        copy(A[i], out[i])


@threaded
def solve_moments(
    first, last, bodies, tree, drive, readings, beliefs, w, s, q, dq, twist, a0, y, out
):
    """Posterior of the moments first … last, into `Found`.

    Right-hand sides behind the first are the caller's, set before, and the same at all moments.
    """
    phi, dphi = np.zeros(max(1, drive.shape[1])), np.zeros(max(1, drive.shape[1]))
    f = np.zeros((6, w.e.shape[1]))
    for t in range(first, last):
        move(bodies, q[t], dq[t], twist[t], w.M, w.twist)
        offsets(bodies, beliefs, dq[t], a0[t], w.twist, w.V, w.Z, w.A0, w.work6[0])
        readings_without_motion(
            tree, drive, readings, q[t], dq[t], y[t], phi, dphi, w.twist, w.present, w.Y
        )
        eliminate(bodies, readings, beliefs, w)
        substitute(bodies, readings, beliefs, w)
        write_means(w.Z, w.V, w.d_tau, out.d[t])
        write_residuals(
            bodies.parent,
            bodies.S,
            readings,
            w.M,
            w.V,
            w.Z,
            w.d_tau,
            w.Y,
            w.present,
            f,
            out.residual[t],
        )
        out.score[t, 0], out.score[t, 1] = w.score[0], w.score[1]
        for b in range(w.present.size):
            out.present[t, b] = w.present[b]
        if out.variance.shape[0] == 0:
            continue
        spread(bodies, readings, beliefs, w, s, out.slack.shape[0] > 0)
        write_variances(s.joint, s.external, s.torque, out.variance[t])
        if out.joint.shape[0] > 0:
            copy_blocks(s.joint, out.joint[t])
            copy_blocks(s.between, out.between[t])
            copy_blocks(s.external, out.external[t])
        if out.slack.shape[0] > 0:
            copy_blocks(s.slack_acceleration, out.slack_acceleration[t])
            copy_blocks(s.slack_wrench, out.slack_wrench[t])
            write_slacks(
                bodies.parent,
                bodies.S,
                beliefs.slack_wrench,
                w.M,
                w.V,
                w.Z,
                w.d_tau,
                s.slack_torque,
                out.slack[t],
                out.slack_torque[t],
            )
