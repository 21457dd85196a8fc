"""What Python calls: the posterior of many samples, compiled once for all that is asked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.compiled.jit import called, merged, threaded
from bodysense.estimation._kernels.covariance import spread
from bodysense.estimation._kernels.elimination import eliminate
from bodysense.estimation._kernels.motion import (
    move,
    offsets,
    readings_without_motion,
    which_are_present,
)
from bodysense.estimation._kernels.problem import PARENT_SIDE
from bodysense.estimation._kernels.small import copy
from bodysense.estimation._kernels.substitution import substitute
from bodysense.spatial.arrays import Array


class Found(NamedTuple):
    """The posterior of T samples; arrays of length zero are not asked for.

    Attributes:
        d: (T, n, 20) means: a, f, tau, fx, joint acceleration of each body.
        variance: (T, n, 20) alike.
        residual: (T, m) readings minus their predictions, rows of the kernels; NaN where absent.
        score: (T, 2) log-determinants and sum of squares of the log-likelihood.
        present: (T, blocks).
        joint: (T, n, 14, 14) covariance of (a_i, joint acceleration, f_i, slack of the torque).
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
def write_means(alpha, wrench, fx, tau, d):
    """Means of all unknowns, (n, 20)."""
    for i in range(d.shape[0]):
        for j in range(6):
            d[i, j] = alpha[i, j, 0]
            d[i, 6 + j] = wrench[i, j, 0]
            d[i, 13 + j] = fx[i, j, 0]
        d[i, 12] = tau[i, 0]
        d[i, 19] = alpha[i, 6, 0]


@called
def write_residuals(readings, parent, X, alpha, wrench, fx, Y, present, f, residual):
    """Readings minus predictions, NaN where there is no reading."""
    on_alpha, on_wrench, on_external = readings.on_alpha, readings.on_wrench, readings.on_external
    for i in range(parent.size):
        for block in range(readings.begin[i, 0], readings.begin[i, PARENT_SIDE + 1]):
            beside = block >= readings.begin[i, PARENT_SIDE]
            at = parent[i] if beside else i
            for j in range(7):
                f[j] = wrench[i, j, 0]
            if beside:  # the wrench on the parent is -Xᵀ f
                for j in range(6):
                    f[j] = 0.0
                    for k in range(6):
                        f[j] -= X[i, k, j] * wrench[i, k, 0]
            for a in range(readings.first[block], readings.first[block + 1]):
                x = Y[a, 0]
                for k in range(7):
                    x -= on_alpha[a, k] * alpha[at, k, 0] + on_wrench[a, k] * f[k]
                for k in range(6):
                    x -= on_external[a, k] * fx[i, k, 0]
                residual[a] = x if present[block] == 1 else np.nan


@called
def write_slacks(parent, S, X, alpha, offset, wrench, slack, joint, means, torque):
    """Means of the slacks of the equations, (n, 12), and mean and variance of the torque's."""
    for i in range(parent.size):
        torque[i, 0], torque[i, 1] = wrench[i, 6, 0], joint[i, 13, 13]
        for j in range(6):
            x = 0.0
            if i > 0:
                x = alpha[i, j, 0] - offset[i, j, 0]
                x -= S[i, j] * (alpha[i, 6, 0] - offset[i, 6, 0])
                for k in range(6):
                    x -= X[i, j, k] * alpha[parent[i], k, 0]
            means[i, j], means[i, 6 + j] = x, slack[i, j, 0]


@called
def copy_blocks(A, out):
    """Write n matrices."""
    for i in range(A.shape[0]):
        copy(A[i], A.shape[1], A.shape[2], out[i])


@merged
def solve_sample(
    bodies, tree, drive, readings, priors, w, s, q, dq, twist, a0, y, phi, dphi, out, t
):
    """Posterior of a sample, whose blocks w.present are there, into `Found` at t."""
    blocks, slacks = out.joint.shape[0] > 0, out.slack.shape[0] > 0
    move(bodies, q, dq, twist, w.X, w.twist)
    offsets(bodies, priors, dq, a0, w.twist, w.balance, w.offset, w.A0, w.work)
    readings_without_motion(tree, drive, readings, q, dq, y, phi, dphi, w.twist, w.present, w.Y)
    eliminate(bodies, readings, priors, w)
    substitute(bodies, readings, priors, w)
    write_means(w.alpha, w.wrench, w.fx, w.tau, out.d[t])
    write_residuals(
        readings,
        bodies.parent,
        w.X,
        w.alpha,
        w.wrench,
        w.fx,
        w.Y,
        w.present,
        w.work[0],
        out.residual[t],
    )
    out.score[t, 0], out.score[t, 1] = w.score[0], w.score[1]
    for b in range(w.present.size):
        out.present[t, b] = w.present[b]
    if out.variance.shape[0] > 0:
        spread(bodies, readings, priors, w, s, blocks, slacks)
        copy(s.variance, s.variance.shape[0], 20, out.variance[t])
    if blocks:
        copy_blocks(s.joint, out.joint[t])
        copy_blocks(s.between, out.between[t])
        copy_blocks(s.external, out.external[t])
    if slacks:
        copy_blocks(s.slack_acceleration, out.slack_acceleration[t])
        copy_blocks(s.slack_wrench, out.slack_wrench[t])
        write_slacks(
            bodies.parent,
            bodies.S,
            w.X,
            w.alpha,
            w.offset,
            w.wrench,
            w.slack,
            s.joint,
            out.slack[t],
            out.slack_torque[t],
        )


ONE = np.zeros(1, np.int64)
"""The samples of `solve_samples` where there is one."""


@threaded
def solve_samples(
    first, last, samples, bodies, tree, drive, readings, priors, w, s, q, dq, twist, a0, y, out
):
    """Posterior of the samples first … last of those listed, into `Found`.

    Right-hand sides behind the first are the caller's, set before, and the same at all samples.
    """
    phi, dphi = np.zeros(max(1, drive.shape[1])), np.zeros(max(1, drive.shape[1]))
    for t in samples[first:last]:
        which_are_present(readings, y[t], w.present)
        solve_sample(
            bodies,
            tree,
            drive,
            readings,
            priors,
            w,
            s,
            q[t],
            dq[t],
            twist[t],
            a0[t],
            y[t],
            phi,
            dphi,
            out,
            t,
        )
