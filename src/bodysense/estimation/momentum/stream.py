"""`MomentumStream`: a momentum observer in a control loop, a sample or a recording at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bodysense.compiled.views import Table, zeros_of
from bodysense.errors import MismatchError, ShapeError
from bodysense.estimation._kernels.momentum_filter import (
    READY,
    TIME,
    Memory,
    Observed,
    Samples,
    observe,
)
from bodysense.estimation.momentum.estimate import MomentumEstimate
from bodysense.estimation.posterior import Posterior
from bodysense.robot._kernels.tree import DYNAMICS_WIDTH, Scratch, scratch_of
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.momentum.observer import MomentumObserver


class MomentumStream:
    """An observer with its memory, for one sample after the other, or many at once.

    A loop goes on whatever its sensors do: what is not finite is missing. Velocities are then
    predicted by the momentum, torques stay as they were and tell nothing, and the variances grow.
    Positions are predicted from the last. Samples that are not later than the last are left out,
    and after a step that is too long the observer starts anew.
    """

    def __init__(self, observer: MomentumObserver) -> None:
        """Lay out what every step needs."""
        self.observer = observer
        robot = observer.robot
        self._n, self._base = robot.n_joints, robot.nv - robot.n_joints
        sizes = {"n": robot.n_joints, "nv": robot.nv, "T": 1}
        self._memory: Memory = zeros_of(Memory, **sizes)
        self._memory.g[:] = robot.tree.gravity
        self._slot: Samples = zeros_of(Samples, **sizes)
        self._gravity = np.full(3, np.nan) if self._base else np.array(robot.tree.gravity)
        self._slot.g[:] = robot.tree.gravity
        self._slot.v[:] = np.nan
        self._found: Observed = zeros_of(Observed, **sizes)
        self._scratch = Table(scratch_of(robot.tree, DYNAMICS_WIDTH))
        self._tables = (Table(self._memory), Table(self._slot), Table(self._found))
        self._given = (
            observer.tables[0].address,
            self._scratch.address,
            observer.tables[1].address,
            self._tables[0].address,
        )
        self._step = (*self._given, self._tables[1].address, self._tables[2].address)
        x = self._slot
        self._rows = x.q[0], x.v[0, self._base :], x.tau[0], x.v[0, : self._base], x.g[0]
        if robot.floating_base:
            self._slot.g[:] = np.nan

    @property
    def t(self) -> float:
        """Time of the last sample [s]."""
        return float(self._memory.clock[TIME])

    def restart(self) -> None:
        """Begin anew with the next sample, as after a clock was set back."""
        self._memory.clock[READY] = 0.0

    @property
    def momentum(self) -> Array:
        """(nv,) generalised momentum after the last sample."""
        return self._memory.p.copy()

    @property
    def rate(self) -> Array:
        """(nv,) what changes the momentum at the last sample but for external torques.

        tau - friction + C(q, v)ᵀ v - g(q).
        """
        return self._memory.drift.copy()

    @property
    def updated(self) -> bool:
        """Whether the last sample had a velocity, so that it told something."""
        return bool(self._found.updated[0])

    @property
    def mass_matrix(self) -> Array:
        """(nv, nv) at the last sample; of links and rotors."""
        scratch: Scratch = self._scratch.arrays
        return scratch.M.copy()

    @property
    def memory(self) -> Memory:
        """What is known after the last sample, for those who only read it."""
        return self._memory

    def step(
        self,
        t: float,
        q: ArrayLike,
        dq: ArrayLike,
        tau: ArrayLike,
        base_twist: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
    ) -> Posterior:
        """Posterior of the external torques after one more sample.

        Args:
            t: time [s].
            q: (n_joints,) positions; NaN where they are missing, as in all that follows.
            dq: (n_joints,) velocities.
            tau: (n_joints,) torques.
            base_twist: (6,) of a floating base in its frame, linear first.
            gravity: (3,) in the axes of the base [m/s²]; by default the robot's own for a base that
                is bolted to the world. An accelerometer on a base at rest reads -gravity.
        """
        x, y, (positions, speeds, torques, twist, g) = self._slot, self._found, self._rows
        try:
            x.t[0] = t
            positions[:], speeds[:], torques[:] = q, dq, tau
            if base_twist is not None:
                twist[:] = base_twist
            elif self._base:
                twist[:] = np.nan
            g[:] = self._gravity if gravity is None else gravity
        except (TypeError, ValueError) as error:
            raise ShapeError(
                f"give {self._n} positions, velocities and torques, in the order "
                f"{', '.join(self.observer.robot.joint_names)}: {error}"
            ) from error
        observe(0, 1, *self._step)
        variance = y.covariance[0].diagonal() + y.lag[0] ** 2
        return Posterior(self.observer.variables, y.tau_ext[0].copy(), variance)

    def run(
        self,
        t: ArrayLike,
        q: ArrayLike,
        dq: ArrayLike,
        tau: ArrayLike,
        *,
        base_twist: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
    ) -> MomentumEstimate:
        """External torques at T more samples, in one call.

        Args:
            t: (T,) times [s], in any steps.
            q: (T, n_joints) positions; NaN where they are missing, as in all that follows.
            dq: (T, n_joints) velocities.
            tau: (T, n_joints) torques.
            base_twist: (T, 6) of a floating base in its frame, linear first.
            gravity: (3,) or (T, 3) in the axes of the base; by default the robot's own for a base
                that is bolted to the world.
        """
        x = self._samples(t, q, dq, tau, base_twist, gravity)
        nv, T = x.v.shape[1], x.t.size
        y: Observed = zeros_of(Observed, T=T, nv=nv, n=self._n)
        given, found = Table(x), Table(y)
        observe(0, T, *self._given, given.address, found.address)
        return MomentumEstimate(
            self.observer, x.t, y.q, y.tau_ext, y.covariance, y.lag, y.updated.astype(bool)
        )

    @property
    def last(self) -> MomentumEstimate:
        """The last step's estimate alone, T = 1: for scores and wrenches on links."""
        x, y = self._slot, self._found
        arrays = (x.t, y.q, y.tau_ext, y.covariance, y.lag)
        t, q, tau_ext, covariance, lag = (array.copy() for array in arrays)
        updated = y.updated.astype(bool)
        return MomentumEstimate(self.observer, t, q, tau_ext, covariance, lag, updated)

    def _samples(
        self,
        t: ArrayLike,
        q: ArrayLike,
        dq: ArrayLike,
        tau: ArrayLike,
        base_twist: ArrayLike | None,
        gravity: ArrayLike | None,
    ) -> Samples:
        robot, n = self.observer.robot, self._n
        times = _numbers(t, "t")
        T = times.size
        times = _shaped(times, (T,), "t")
        speeds = _shaped(_numbers(dq, "dq"), (T, n), "dq")
        if robot.floating_base and (base_twist is None or gravity is None):
            raise MismatchError(
                f"{robot.name!r} floats: give base_twist (T, 6) and gravity (3,) or (T, 3) in the "
                "axes of its base, both from an IMU, for example."
            )
        if not robot.floating_base and base_twist is not None:
            raise MismatchError(f"{robot.name!r} has a fixed base: leave base_twist out.")
        if base_twist is not None:
            twist = _shaped(_numbers(base_twist, "base_twist"), (T, 6), "base_twist")
            speeds = np.ascontiguousarray(np.concatenate([twist, speeds], axis=1))
        g = _numbers(robot.tree.gravity if gravity is None else gravity, "gravity")
        g = np.tile(g, (T, 1)) if g.ndim == 1 else g
        return Samples(
            times,
            _shaped(_numbers(q, "q"), (T, n), "q"),
            speeds,
            _shaped(_numbers(tau, "tau"), (T, n), "tau"),
            _shaped(g, (T, 3), "gravity"),
        )


def _numbers(value: ArrayLike, name: str) -> Array:
    """A new C-contiguous array; NaN stands for what is missing."""
    try:
        return np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{name} must be an array of numbers: {error}") from error


def _shaped(array: Array, shape: tuple[int, ...], name: str) -> Array:
    if array.shape != shape:
        raise ShapeError(f"{name} has shape {array.shape}, expected {shape}.")
    return array
