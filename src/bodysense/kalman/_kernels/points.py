"""Points in pairs about a mean, and what their images say, compiled.

U is the transpose of the lower factor S: its rows are the columns of S, and lie in one piece.
"""

from __future__ import annotations

import math

import numpy as np

from bodysense.compiled.jit import threaded


@threaded
def pair_points(mean, U, gamma):
    """(2 n + 1, n) the mean, then mean + γ S_i for all columns, then mean - γ S_i."""
    n = mean.size
    X = np.empty((2 * n + 1, n))
    for j in range(n):
        X[0, j] = mean[j]
    for i in range(n):
        for j in range(n):
            step = gamma * U[i, j]
            X[1 + i, j] = mean[j] + step
            X[1 + n + i, j] = mean[j] - step
    return X


@threaded
def pair_columns(values, E, gamma, curvature, bend):
    """Mean and covariance of the images of `pair_points`, the latter as vectors.

    With differences Δ_i = f_i⁺ - f_i⁻ and sums s_i = f_i⁺ + f_i⁻ - 2 f_0, the mean is
    f_0 + Σ s_i / (2γ²), and the covariance is the sum of c cᵀ over the rows c of `columns`: first
    Δ_i / (2γ), then √curvature s_i, then √bend Σ s_i, then the columns of E.

    Args:
        values: (2 n + 1, m) images.
        E: (m, n_w) columns of noise.
        gamma: γ, how far out the points lie.
        curvature: coefficient of Σ s_i s_iᵀ, not negative.
        bend: coefficient of (Σ s_i)(Σ s_i)ᵀ, not negative.

    Returns:
        (m,) mean and (2 n + 1 + n_w, m) columns.
    """
    n, m = (values.shape[0] - 1) // 2, values.shape[1]
    n_w = E.shape[1]
    columns = np.empty((2 * n + 1 + n_w, m))
    total = np.zeros(m)
    slope, root = 0.5 / gamma, math.sqrt(curvature)
    for i in range(n):
        for j in range(m):
            ahead, behind = values[1 + i, j], values[1 + n + i, j]
            # Two differences, not a sum less twice the centre: less is lost where they are small.
            both = (ahead - values[0, j]) - (values[0, j] - behind)
            columns[i, j] = slope * (ahead - behind)
            columns[n + i, j] = root * both
            total[j] += both
    mean = np.empty(m)
    for j in range(m):
        mean[j] = values[0, j] + 0.5 / (gamma * gamma) * total[j]
        columns[2 * n, j] = math.sqrt(bend) * total[j]
        for i in range(n_w):
            columns[2 * n + 1 + i, j] = E[j, i]
    return mean, columns


@threaded
def moving_size(mean, rows, p):
    """Largest size of the mean's entries from p on; NaN if anything is not finite.

    Looked at are the mean and the diagonal of what is carried, a factor or a covariance.
    """
    size = 0.0
    for i in range(mean.size):
        if not (math.isfinite(mean[i]) and math.isfinite(rows[i, i])):
            return math.nan
        if i >= p:
            size = max(size, abs(mean[i]))
    return size
