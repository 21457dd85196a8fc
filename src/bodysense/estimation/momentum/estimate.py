"""`MomentumEstimate`: external torques of a recording, and wrenches on links that follow from them.

With r the external torques, Σ their covariance, and J the Jacobian (6, nv) of the frame where a
contact is, r = Jᵀ fx + noise. A Gaussian prior with the covariance RᵀR about fx gives

    fx = mean + Rᵀ (1 + R Λ Rᵀ)⁻¹ R (η - Λ mean),   covariance Rᵀ (1 + R Λ Rᵀ)⁻¹ R,
    η = J Σ⁻¹ r,   Λ = J Σ⁻¹ Jᵀ,

weighted least squares in a form where nothing is lost to rounding: what Λ does not tell keeps the
variance of the prior exactly, and a prior may be exact. Several contacts are stacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.compiled.jit import in_threads
from bodysense.compiled.views import Table, zeros_of
from bodysense.errors import MismatchError, ShapeError
from bodysense.estimation._kernels.link_scores import (
    Places,
    Residuals,
    ScoreMemory,
    link_scores,
)
from bodysense.estimation.map_dynamics.priors import GaussianPrior, sources
from bodysense.estimation.posterior import NamedSlices, Posterior
from bodysense.robot._kernels.tree import DYNAMICS_WIDTH, scratch_of
from bodysense.sensors.sensor import Mount
from bodysense.spatial.arrays import Array, as_array
from bodysense.spatial.se3 import skew

if TYPE_CHECKING:
    from bodysense.estimation.momentum.observer import MomentumObserver

FORCE_STD = 300.0
"""Standard deviation of an unknown force [N]: three of them are a person's weight."""
MOMENT_STD = 100.0
"""Standard deviation of an unknown moment [N·m]: that of such a force at a third of a metre."""


@dataclass(frozen=True, eq=False)
class AssumedContact:
    """Where a contact is, and what is assumed about it.

    Attributes:
        frame: a link, or a frame fixed to one; the wrench is in its axes about its origin.
        point: (3,) in the frame where a pure force acts [m]; `None` for any wrench.
        prior: of the wrench (6), or of the force (3) at the point; by default anything that a
            person does to a robot.
    """

    frame: str
    point: ArrayLike | None = None
    prior: GaussianPrior | None = None

    def __post_init__(self) -> None:
        if self.point is not None:
            point = as_array(self.point, (3,), f"the point of the contact on {self.frame}")
            object.__setattr__(self, "point", point)
        size = 6 if self.point is None else 3
        if self.prior is not None and self.prior.mean.size != size:
            raise ShapeError(
                f"the prior of the contact on {self.frame} has {self.prior.mean.size} numbers, "
                f"expected {size}: force and moment, or the force alone if a point is given."
            )

    def wrench_prior(self) -> GaussianPrior:
        """Prior (6) of the wrench: a force at a point has no moment about it."""
        if self.point is None:
            std = [FORCE_STD] * 3 + [MOMENT_STD] * 3
            return GaussianPrior.zero(6, std) if self.prior is None else self.prior
        force = GaussianPrior.zero(3, FORCE_STD) if self.prior is None else self.prior
        G = np.vstack([np.eye(3), skew(as_array(self.point, (3,), "point"))])
        return GaussianPrior(G @ force.mean, G @ force.covariance @ G.T)


@dataclass(frozen=True, eq=False)
class LinkScores:
    """What the external torques say about a wrench on each of some frames, sample by sample.

    Under a wrench f, score ~ N(information · f, information); without contact its mean is zero.

    Attributes:
        t: (T,) times [s].
        score: (T, 6) by frame, η = J Σ⁻¹ r.
        information: (T, 6, 6) by frame, Λ = J Σ⁻¹ Jᵀ.
    """

    t: Array
    score: Mapping[str, Array]
    information: Mapping[str, Array]


class _Told(NamedTuple):
    """Scores (T, L, K, 6) and information (T, L, W, 6, 6) of the kernels."""

    score: Array
    information: Array


@dataclass(frozen=True, eq=False, repr=False)
class MomentumEstimate:
    """External torques of T samples; for a floating base the wrench on the whole robot first.

    Attributes:
        observer: that estimated them.
        t: (T,) times [s].
        q: (T, n_joints) positions, predicted where they were missing.
        tau_ext: (T, nv) estimates.
        covariance: (T, nv, nv) of their errors if the torques stay as they are.
        lag: (T, nv) by which they are behind, beyond what noise explains.
        updated: (T,) whether there was a velocity, so that the sample told something.
    """

    observer: MomentumObserver
    t: Array
    q: Array
    tau_ext: Array
    covariance: Array
    lag: Array
    updated: NDArray[np.bool_]

    def __repr__(self) -> str:
        return f"<MomentumEstimate: {self.observer.robot.name}, {self.t.size} samples>"

    @property
    def variance(self) -> Array:
        """(T, nv) of the estimates, lag included."""
        diagonal: Array = np.einsum("tii->ti", self.covariance) + self.lag**2
        return diagonal

    def posterior(self, contacts: Sequence[AssumedContact] = ()) -> Posterior:
        """External torques, and the wrenches ``fx.<frame>`` (6) of contacts whose places are known.

        Wrenches are those of all the contacts together, and nothing else acts on the robot.
        """
        names = self.observer.variables.sizes
        blocks = {
            name: self.covariance[:, at, at] + _square(self.lag[:, at])
            for name, at in self.observer.variables.slices.items()
        }
        if not contacts:
            return Posterior(self.observer.variables, self.tau_ext, self.variance, blocks)
        mean, covariance = self._wrenches(contacts)
        variables = NamedSlices.from_sizes(
            "quantity", [*names, *((f"fx.{contact.frame}", 6) for contact in contacts)]
        )
        for k, contact in enumerate(contacts):
            at = slice(6 * k, 6 * k + 6)
            blocks[f"fx.{contact.frame}"] = covariance[:, at, at]
        return Posterior(
            variables,
            np.concatenate([self.tau_ext, mean], axis=1),
            np.concatenate([self.variance, np.einsum("tii->ti", covariance)], axis=1),
            blocks,
        )

    def scores(self, frames: Sequence[str], *, independent: bool = False) -> LinkScores:
        """Score and information about a wrench on each of the frames alone.

        Args:
            frames: links, or frames fixed to one.
            independent: give what each sample adds. Estimates of successive samples share their
                noise: with φ = exp(-ω h) of the bandwidth and the step, r_t - φ r_(t-1) does not,
                and has the covariance Σ - φ Σ φ and, under a constant torque, the share 1 - φ of
                it. The first sample, and each after a start, adds nothing.
        """
        residual, covariance, left = self.tau_ext, self.covariance, np.ones(self.tau_ext.shape[1])
        if independent:
            residual, covariance, left = self._increments()
        told = self._told(frames, residual[:, None], covariance, left, together=False)
        score = {name: told.score[:, k, 0] for k, name in enumerate(frames)}
        information = {name: told.information[:, k, 0] for k, name in enumerate(frames)}
        return LinkScores(self.t, score, information)

    def _increments(self) -> tuple[Array, Array, Array]:
        """Residuals that are new with each sample, their covariances, and their share of d."""
        step = float(np.median(np.diff(self.t))) if self.t.size > 1 else np.inf
        phi = np.exp(-2.0 * np.pi * self.observer.bandwidth * step)
        residual = self.tau_ext.copy()
        residual[1:] -= phi * self.tau_ext[:-1]
        residual[:1] = 0.0
        return residual, self.covariance * (1.0 - np.outer(phi, phi)), 1.0 - phi

    def _wrenches(self, contacts: Sequence[AssumedContact]) -> tuple[Array, Array]:
        """(T, 6 L) wrenches of L contacts together and their covariances, lag included."""
        priors = [contact.wrench_prior() for contact in contacts]
        mean = np.concatenate([prior.mean for prior in priors])
        k = mean.size
        R = np.zeros((k, k))
        for i, prior in enumerate(priors):
            R[6 * i : 6 * i + 6, 6 * i : 6 * i + 6] = sources(prior.covariance)
        residual = np.stack([self.tau_ext, self.lag], axis=1)
        left = np.ones(self.tau_ext.shape[1])
        frames = [contact.frame for contact in contacts]
        told = self._told(frames, residual, self.covariance, left, together=True)
        T = self.t.size
        information = told.information.transpose(0, 1, 3, 2, 4).reshape(T, k, k)
        score = told.score.transpose(0, 2, 1, 3).reshape(T, 2, k)
        inner = np.eye(k) + R @ information @ R.T
        gain = R.T @ np.linalg.solve(inner, np.broadcast_to(R, (T, k, k)))
        told_more = score[:, 0] - information @ mean
        wrench = mean + np.einsum("tij,tj->ti", gain, told_more)
        lag = np.einsum("tij,tj->ti", gain, score[:, 1])
        return wrench, 0.5 * (gain + gain.swapaxes(1, 2)) + _square(lag)

    def _told(
        self,
        frames: Sequence[str],
        residual: Array,
        covariance: Array,
        left: Array,
        *,
        together: bool,
    ) -> _Told:
        robot = self.observer.robot
        if not frames:
            raise MismatchError("no frame is given: name links of the robot, or frames on them.")
        L, T, nv = len(frames), self.t.size, robot.nv
        places = Table(places_of(self.observer, frames, left))
        told = _Told(
            np.zeros((T, L, residual.shape[1], 6)), np.zeros((T, L, L if together else 1, 6, 6))
        )
        x = Residuals(self.q, covariance, np.ascontiguousarray(residual), *told)
        tree, given = self.observer.tables[0], Table(x)

        def share(first: int, last: int) -> None:
            scratch = Table(scratch_of(robot.tree, DYNAMICS_WIDTH))
            memory = Table(zeros_of(ScoreMemory, nv=nv, L=L))
            addresses = [table.address for table in (tree, scratch, places, memory, given)]
            link_scores(first, last, *addresses)

        in_threads(share, T, compiled=link_scores)
        return told


def _square(x: Array) -> Array:
    """(T, k, k) x xᵀ of rows (T, k)."""
    return x[:, :, None] * x[:, None, :]


def places_of(observer: MomentumObserver, frames: Sequence[str], left: Array) -> Places:
    """Where frames are, for the kernels."""
    robot = observer.robot
    found = [Mount(frame).locate(robot, "the contact") for frame in frames]
    first = int(robot.floating_base)
    rows = [robot.link_names.index(place.link) - first for place in found]
    return Places(
        np.array([row if row >= 0 else robot.n_joints for row in rows], dtype=np.int64),
        np.array([place.R.ravel() for place in found]).reshape(len(frames), 9),
        np.array([place.p for place in found]).reshape(len(frames), 3),
        np.ascontiguousarray(left),
    )
