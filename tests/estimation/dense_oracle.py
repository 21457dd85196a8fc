"""The posterior of the unknowns by a dense solve that knows nothing of trees: D, b_D, Y, b_Y alone.

Independent a priori are external wrenches, joint accelerations, the acceleration of a floating
root and the slacks; everything else follows from a square system. So

    d = d0 + M s,  s ~ N(0, 1)                  M may have zero columns: nothing is inverted
    y = H d + c + N w,  w ~ N(0, 1)             N may be zero: exact readings

where the readings are those of sensors, further priors, and the wrench balance of a floating
root, a reading of zero. One orthogonal triangularisation (the square-root array of Kalman filters)

    [N  H M]         [L  0]
    [0    M] Theta = [G  C]      gives  mean = d0 + G L⁻¹ (y - H d0 - c),  covariance = C Cᵀ

without ever squaring anything. In long doubles, if asked for, where variances lie far apart. Two
exact readings of the same thing are not for it: L would be singular.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bodysense.estimation import Assumptions
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.estimation.posterior import NamedSlices
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class DensePosterior:
    """What is known after all readings.

    Attributes:
        variables: names ↔ slices of d.
        mean: (n,) of d.
        covariance: (n, n) of d.
        log_joint: log density of all readings together: of sensors, further priors, and the
            balance of a floating root.
        log_likelihood: log density of the sensors' readings given the others.
    """

    variables: NamedSlices
    mean: Array
    covariance: Array
    log_joint: float
    log_likelihood: float

    def __call__(self, name: str) -> tuple[Array, Array]:
        """Mean and covariance of one quantity."""
        where = self.variables[name]
        return self.mean[where], self.covariance[where, where]


def dense_posterior(
    equations: Equations,
    y: Array,
    noise: Array,
    assumptions: Assumptions | None = None,
    *,
    precise: bool = False,
) -> DensePosterior:
    """Condition on the readings.

    Args:
        equations: of one sample.
        y: (m,) readings, NaN for those that are missing.
        noise: (m, m) covariance of their noise.
        assumptions: priors.
        precise: work in long doubles: slow, for small robots.
    """
    priors = Assumptions() if assumptions is None else assumptions
    kind = np.longdouble if precise else np.float64
    d0, M, balance = _prior(equations, priors, kind)
    dense = equations.dense()
    present = ~np.isnan(y)
    H = [dense.Y[present]]
    c = [dense.b_Y[present]]
    z = [y[present]]
    N = [_root(noise[np.ix_(present, present)])]
    sensors = int(present.sum())
    for name, prior in priors.others.items():
        where = equations.variables[name]
        H.append(np.eye(equations.variables.size)[where])
        c.append(np.zeros(prior.mean.size))
        z.append(np.asarray(prior.mean))
        N.append(_root(prior.covariance))
    if balance is not None:
        H.append(dense.D[balance])
        c.append(dense.b_D[balance])
        z.append(np.zeros(6))
        N.append(_root(priors.wrench_slack.covariance))
    # those of sensors last, so that the rest of the triangle is the likelihood of the others
    order = np.r_[sensors : sum(len(part) for part in z), 0:sensors]
    H_all = np.concatenate(H).astype(kind)[order]
    left = (np.concatenate(z).astype(kind) - np.concatenate(c))[order] - H_all @ d0
    noises = _block_diagonal(N).astype(kind)[order]
    HM = H_all @ M
    m = left.size
    array = np.block([[noises, HM], [np.zeros((d0.size, noises.shape[1]), dtype=kind), M]])
    triangle = _lower_triangle(array, m, precise)
    L, G, C = triangle[:m, :m], triangle[m:, :m], triangle[m:, m:]
    white = _forward(L, left)
    terms = -0.5 * white**2 - np.log(np.abs(np.diag(L))) - 0.5 * math.log(2.0 * math.pi)
    mean, covariance = d0 + G @ white, C @ C.T
    return DensePosterior(
        variables=equations.variables,
        mean=mean.astype(float),
        covariance=covariance.astype(float),
        log_joint=float(terms.sum()),
        log_likelihood=float(terms[m - sensors :].sum()),
    )


def dense_prior(equations: Equations, assumptions: Assumptions | None = None) -> DensePosterior:
    """What is believed without any sensor: of a floating root, after its balance."""
    y = np.full(equations.readings.size, np.nan)
    return dense_posterior(equations, y, np.eye(y.size), assumptions)


@dataclass(frozen=True)
class DenseReadings:
    """What the sensors will read, by the priors alone: without the balance of a floating root.

    Attributes:
        mean: (m,) of the readings.
        covariance: (m, m) of the readings.
        of_unknowns: (n, m) covariance of d and the readings.
    """

    mean: Array
    covariance: Array
    of_unknowns: Array


def dense_readings(
    equations: Equations, noise: Array, assumptions: Assumptions | None = None
) -> DenseReadings:
    """The readings of one sample before they are made."""
    priors = Assumptions() if assumptions is None else assumptions
    d0, M, _ = _prior(equations, priors, np.float64)
    dense = equations.dense()
    YM = dense.Y @ M
    return DenseReadings(dense.Y @ d0 + dense.b_Y, YM @ YM.T + noise, M @ YM.T)


def sensor_noise(sensors: tuple | list) -> Array:
    """(m, m) covariance of all sensors' noise."""
    return _block_diagonal([np.asarray(sensor.covariance) for sensor in sensors])


def _prior(
    equations: Equations, priors: Assumptions, kind: type
) -> tuple[Array, Array, slice | None]:
    """d0 and M, and the rows of D that no unknown is left to fulfil: the floating root's."""
    tree, variables = equations.sample.tree, equations.variables
    dense = equations.dense()
    rows, offsets, roots = [], [], []

    def chosen(name: str, mean: Array, covariance: Array) -> None:
        rows.append(np.eye(variables.size)[variables[name]])
        offsets.append(np.asarray(mean))
        roots.append(_root(covariance))

    def ruled(name: str, slack: Array) -> None:
        where = equations.rows[name]
        rows.append(dense.D[where])
        offsets.append(-dense.b_D[where])
        roots.append(_root(slack))

    balance = None
    for i in tree.with_unknowns:
        link = tree.names[i]
        wrench = priors.wrenches.get(link, priors.wrench)
        chosen(f"fx.{link}", wrench.mean, wrench.covariance)
        if i == 0:
            base = priors.base_acceleration
            chosen(f"a.{link}", base.mean, base.covariance)
            balance = equations.rows[f"wrench.{link}"]
            continue
        joint = tree.joint_name(i)
        acceleration = priors.joint_acceleration
        chosen(f"ddq.{joint}", acceleration.mean, acceleration.covariance)
        ruled(f"acceleration.{link}", priors.acceleration_slack.covariance)
        ruled(f"wrench.{link}", priors.wrench_slack.covariance)
        ruled(f"torque.{joint}", priors.torque_slack.covariance)
    A = np.concatenate(rows).astype(kind)
    right = np.column_stack([np.concatenate(offsets), _block_diagonal(roots)]).astype(kind)
    keep = np.concatenate([[True], right[:, 1:].any(axis=0)])  # without the columns of zeros
    solution = _solve(A, right[:, keep])
    return solution[:, 0], solution[:, 1:], balance


def _root(covariance: Array) -> Array:
    """C with C Cᵀ = covariance, which may be singular."""
    covariance = np.asarray(covariance, dtype=float)
    if not (covariance - np.diag(np.diag(covariance))).any():
        return np.diag(np.sqrt(np.diag(covariance)))
    values, vectors = np.linalg.eigh(covariance)
    root: Array = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def _block_diagonal(blocks: list[Array]) -> Array:
    size = sum(len(block) for block in blocks)
    whole, at = np.zeros((size, size)), 0
    for block in blocks:
        here = slice(at, at + len(block))
        whole[here, here] = block
        at += len(block)
    return whole


def _solve(A: Array, B: Array) -> Array:
    """A⁻¹ B, refined in the precision of A."""
    inverse = np.linalg.inv(A.astype(float))
    X = (inverse @ B.astype(float)).astype(A.dtype)
    for _ in range(3):
        X = X + inverse @ (B - A @ X)
    return X


def _lower_triangle(array: Array, m: int, precise: bool) -> Array:
    """The array after reflections from the right that make its first m rows triangular.

    Large columns first: reflections are then accurate column by column, however far the standard
    deviations of priors lie apart.
    """
    A = array[:, np.argsort(-np.abs(array).max(axis=0), kind="stable")].T.copy()
    if A.shape[0] < m + 1:
        A = np.concatenate([A, np.zeros((m + 1 - A.shape[0], A.shape[1]), dtype=A.dtype)])
    if not precise:
        head = np.linalg.qr(A, mode="r").T
        return head
    for k in range(m):
        v = A[k:, k].copy()
        length = np.sqrt((v**2).sum())
        if length == 0.0:
            continue
        v[0] += np.copysign(length, v[0])
        v /= np.sqrt((v**2).sum())
        A[k:, k:] -= np.multiply.outer(2.0 * v, v @ A[k:, k:])
        A[k + 1 :, k] = 0.0
    return A.T


def _forward(L: Array, b: Array) -> Array:
    """L⁻¹ b of a lower triangle."""
    x = b.copy()
    for k in range(x.size):
        x[k] = (x[k] - L[k, :k] @ x[:k]) / L[k, k]
    return x
