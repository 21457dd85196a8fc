"""`DenseRoots`: the whole problem of one sample as square roots of covariances, densely.

Independent a priori are external wrenches, joint accelerations, the acceleration of a floating
root and the slacks of the equations; the unknowns follow from them, the readings from these:

    d = d0 + M s,   y = H d + c + N w,   s, w ~ N(0, 1)

The readings are those of the sensors, further priors, and the balance of a floating root. One
orthogonal triangularisation gives the covariance of anything, without squaring or inverting:

    [N  H M]         [L  0]
    [0  E M] Theta = [G  C],    covariance of E d given the readings = C Cᵀ

It takes the time of a dense factorisation, and answers what elimination along the tree does not:
how quantities of different links, and noises of different sensors, depend on one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.sparse import csc_array, eye_array, vstack
from scipy.sparse.linalg import splu

from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.estimation.map_dynamics.priors import Assumptions, sources
from bodysense.estimation.posterior import NamedSlices
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class DenseRoots:
    """Roots of all covariances. Build it with `DenseRoots.of`.

    Attributes:
        M: (n, k) d - d0 by independent numbers of unit variance.
        readings: (m, l + k) [N  H M], columns as in `sources`.
        sources: names ↔ slices of the columns: ``sensor.<name>``, further priors
            ``prior.<quantity>``, then ``fx.<link>``, ``ddq.<joint>``, ``a.<root>``, and the
            slacks ``acceleration.<link>``, ``wrench.<link>``, ``torque.<joint>``.
    """

    M: Array
    readings: Array
    sources: NamedSlices

    @classmethod
    def of(
        cls,
        equations: Equations,
        sensors: Sequence[Sensor],
        assumptions: Assumptions,
        *,
        noise_scale: Mapping[str, float] | None = None,
    ) -> DenseRoots:
        """Take square roots at one sample, of the sensors that are present.

        `noise_scale` is by how much the noise of a sensor is larger than its covariance says.
        """
        scales = {} if noise_scale is None else noise_scale
        M, columns = _prior_roots(equations, assumptions)
        YM = equations.Y @ M
        H, N, names = [], [], []
        for sensor in sensors:
            H.append(YM[equations.readings[sensor.name]])
            N.append(scales.get(sensor.name, 1.0) * root_of(sensor.covariance))
            names.append((f"sensor.{sensor.name}", sensor.size))
        for name, prior in assumptions.others.items():
            H.append(M[equations.variables[name]])
            N.append(root_of(prior.covariance))
            names.append((f"prior.{name}", prior.mean.size))
        tree = equations.sample.tree
        if tree.floating:
            row = f"wrench.{tree.names[0]}"
            H.append(equations.D[equations.rows[row]] @ M)
            N.append(root_of(assumptions.wrench_slack.covariance))
            names.append((row, 6))
        HM = np.concatenate([np.zeros((0, M.shape[1])), *H])
        noise = block_diag(*N) if N else np.zeros((0, 0))
        sources = NamedSlices.from_sizes("source of noise", [*names, *columns])
        return cls(M, np.concatenate([noise, HM], axis=1), sources)

    def covariance(self, rows: Array) -> Array:
        """(r, r) covariance of the unknowns `rows` (indices) after all readings."""
        m, r = self.readings.shape[0], rows.size
        below = np.zeros((r, self.readings.shape[1]))
        below[:, self.readings.shape[1] - self.M.shape[1] :] = self.M[rows]
        array = np.concatenate([self.readings, below])
        # Large columns first: reflections then keep small deviations beside large ones.
        array = array[:, np.argsort(-np.abs(array).max(axis=0, initial=0.0), kind="stable")]
        triangle = np.asarray(np.linalg.qr(array.T, mode="r"))
        C = triangle[m:, m:]
        covariance: Array = C.T @ C
        return covariance

    def observed(self) -> Array:
        """(columns, rank) orthonormal Q: the readings tell Qᵀ of what the sources are, no more.

        With S the covariance of the readings and B = [N  H M] it is Q Qᵀ = Bᵀ S⁻¹ B: one where a
        source is known from the readings, zero where they say nothing about it.
        """
        Q, R = np.linalg.qr(self.readings.T)
        size = np.abs(np.diag(R))
        kept: Array = Q[
            :, size > 1e-12 * size.max(initial=0.0)
        ]  # no exact readings of known things
        return kept


def _prior_roots(equations: Equations, priors: Assumptions) -> tuple[Array, list[tuple[str, int]]]:
    tree, variables = equations.sample.tree, equations.variables
    every = vstack([eye_array(variables.size, format="csr"), equations.D], format="csr")
    rows: list[NDArray[np.int64]] = []
    roots: list[Array] = []
    names: list[tuple[str, int]] = []

    def put(name: str, first: int, covariance: Array) -> None:
        rows.append(first + np.arange(len(covariance)))
        roots.append(root_of(covariance))
        names.append((name, len(covariance)))

    for i in tree.with_unknowns:
        link = tree.names[i]
        wrench = priors.wrench_of(link).covariance
        put(f"fx.{link}", variables[f"fx.{link}"].start, wrench)
        if i == 0:
            base = priors.base_acceleration.covariance
            put(f"a.{link}", variables[f"a.{link}"].start, base)
            continue
        joint = tree.joint_name(i)
        spread = priors.joint_acceleration.covariance
        put(f"ddq.{joint}", variables[f"ddq.{joint}"].start, spread)
        for name, slack in (
            (f"acceleration.{link}", priors.acceleration_slack),
            (f"wrench.{link}", priors.wrench_slack),
            (f"torque.{joint}", priors.torque_slack),
        ):
            put(name, variables.size + equations.rows[name].start, slack.covariance)
    # One choice of rows: each from the sparse matrix by itself takes longer than the solution.
    M: Array = splu(csc_array(every[np.concatenate(rows)])).solve(block_diag(*roots))
    return M, names


def root_of(covariance: Array) -> Array:
    """C with C Cᵀ = covariance, which may be singular; diagonal if the covariance is.

    Its columns are orthogonal, and zero where nothing is uncertain.
    """
    return np.ascontiguousarray(sources(covariance).T)
