"""`Regression`: the linear regression problem that all identifiers consume.

    y = Y theta_base + noise,        row by row: one row per joint and sample

The stacked regressor of a long log does not fit into memory, and its normal equations lose half of
the digits. So rows are made in blocks, and each block is folded into a triangular factor,

    Qᵀ [Y y] = R,        ‖Y theta - y‖ = ‖R (theta, -1)‖      for every theta,

one for each log, fold and joint. Whatever weights a method gives to logs and joints, and whichever
folds it leaves out, its least-squares problem is a stack of such factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import MismatchError, ShapeError
from bodysense.identification.knowledge import Knowledge
from bodysense.identification.preprocessing import (
    Motion,
    Plan,
    Preprocessing,
    folds_of,
    moving_rows,
    require_fixed,
)
from bodysense.identification.reduced import Factor, Stack, tall_matrix, triangle
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.dynamics import regressor_pattern, torque_regressor
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array, as_array

_BLOCK_BYTES = 32e6  # of the regressor that is computed at once
_KEEP_BYTES = 256e6  # of rows that are kept in memory; more are computed again


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of one log.

    Attributes:
        log: which log, counted from 0.
        piece: which motion; rows of different pieces do not follow each other.
        t: (m,) times [s].
        Y: (m, n, b) regressor.
        y: (m, n) torques.
        use: (m, n) 1 for rows that count, 0 for those of standing joints.
        fold: (m,) held-out fold of each sample.
        first: number of its first sample among those of its piece.
    """

    log: int
    piece: int
    t: Array
    Y: Array
    y: Array
    use: Array
    fold: NDArray[np.int64]
    first: int = 0


class _Kept:
    """What has been computed already, shared by a problem and those with a fold left out."""

    def __init__(self) -> None:
        self.blocks: tuple[Block, ...] | None = None
        self.factors: dict[tuple[int, int, int], Factor] | None = None


@dataclass(frozen=True, eq=False)
class Regression:
    """Torques as a linear function of base parameters, from one or more logs.

    Build one with `Regression.of` (from motions) or `Regression.from_samples` (from arrays).

    Attributes:
        robot: the prior: geometry, friction law and the parameters known before.
        base: its base parameters.
        motions: pieces of logs.
        settings: how they are filtered, with all choices made.
        n_logs: number of logs.
        held_out: fold whose rows do not count, if any; see `without`.
        knowledge: what is known of the links for certain; physically consistent methods use it.
        load_theta: (p,) parameters that the load of load-dependent friction follows from; `None`
            stands for the robot's own, and is all that other laws need.
    """

    robot: Robot
    base: BaseParameters
    motions: tuple[Motion, ...]
    settings: Preprocessing
    n_logs: int
    held_out: int | None = None
    knowledge: Knowledge = field(default_factory=Knowledge)
    load_theta: Array | None = None

    finest: ClassVar[float] = 1e-11
    """Smallest noise level, as a share of a joint's torque: rounding."""

    _kept: _Kept = field(default_factory=_Kept, init=False, repr=False)

    @classmethod
    def of(
        cls,
        robot: Robot,
        motions: Sequence[Motion],
        settings: Preprocessing,
        base: BaseParameters | None = None,
        *,
        knowledge: Knowledge | None = None,
    ) -> Regression:
        """Set the problem up; rows are computed when they are needed.

        Under load-dependent friction the load is that of weighted least squares, see `under_load`.

        Raises:
            MismatchError: fewer rows than unknowns.
        """
        require_robot(robot)
        require_fixed(robot)
        base = base_parameters(robot) if base is None else base
        n_logs = 1 + max((motion.log for motion in motions), default=-1)
        known = Knowledge() if knowledge is None else knowledge
        problem = cls(robot, base, tuple(motions), settings, n_logs, knowledge=known)
        if (n_rows := problem.n_samples * robot.n_joints) < base.size:
            raise MismatchError(
                f"{n_rows} rows for {base.size} unknowns: record for longer, and give no cut-off, "
                "which leaves fewer rows the lower it is."
            )
        if not robot.friction.model.depends_on_load:
            return problem
        from bodysense.identification.linear.method import under_load  # which needs this module

        return under_load(problem)

    @classmethod
    def from_samples(
        cls,
        robot: Robot,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        tau: ArrayLike,
        *,
        rate: float = 1.0,
        base: BaseParameters | None = None,
        still_speed: float = 0.0,
        knowledge: Knowledge | None = None,
        reference: ArrayLike | None = None,
    ) -> Regression:
        """From samples (n_t, n) that need no filtering, such as simulated ones; all rows count.

        The rate [Hz] decides what held-out blocks are; rows of joints slower than `still_speed` are
        left out (see `Preprocessing`); `reference` are positions that the controller was given.
        """
        require_robot(robot)
        require_fixed(robot)
        if not 0.0 < rate < np.inf:
            raise ShapeError(f"the rate is {rate:g} Hz: give a positive one.")
        positions = as_array(q, (None, robot.nq), "q")
        n_t, n = positions.shape[0], robot.n_joints
        velocities, accelerations, torques = (
            as_array(x, (n_t, n), name) for x, name in ((v, "v"), (a, "a"), (tau, "tau"))
        )
        motion = Motion(
            np.arange(n_t) / rate,
            positions,
            velocities,
            accelerations,
            torques,
            torques,
            rate,
            reference=None if reference is None else as_array(reference, (n_t, n), "reference"),
        )
        settings = Preprocessing(
            cutoff=rate, band=rate, border=0.0, still_speed=still_speed, decimate=False
        )
        return cls.of(robot, (motion,), settings, base, knowledge=knowledge)

    @property
    def n_joints(self) -> int:
        return self.robot.n_joints

    @property
    def size(self) -> int:
        """Number of base parameters b."""
        return self.base.size

    @cached_property
    def torque_size(self) -> Array:
        """(n,) largest r.m.s. torque of each joint over the motions [N·m or N]."""
        rms = np.sqrt([np.mean(motion.tau**2, axis=0) for motion in self.motions])
        return np.asarray(rms.max(axis=0))

    @property
    def n_rows(self) -> int:
        """Number of rows that count: those of standing joints do not."""
        return round(sum(float(use.sum()) for use in self._moving))

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """(n_logs, n) joints that have rows in a log: those that stand have none."""
        made = np.zeros((self.n_logs, self.n_joints), dtype=bool)
        for log, _, joint in self.factors:
            made[log, joint] = True
        return made

    @cached_property
    def n_samples(self) -> int:
        """Number of samples, each with a row per joint, standing ones included."""
        return sum(Plan.of(motion, self.settings).n_out for motion in self.motions)

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """For each joint the places in theta_base that its torque can depend on."""
        pattern = regressor_pattern(self.robot)[:, self.base.independent]
        return tuple(np.flatnonzero(row) for row in pattern)

    def folds(self, motion: Motion) -> NDArray[np.int64]:
        """(n_t,) held-out fold of each sample of a motion, which may be filtered otherwise."""
        return folds_of(motion, self.motions, self.settings)

    def blocks(self) -> Iterator[Block]:
        """All rows, block by block, in the order of time. Small problems are kept in memory."""
        for block in self._all_blocks():
            if self.held_out is None:
                yield block
            else:
                rest = (block.fold != self.held_out).astype(np.float64)
                yield replace(block, use=block.use * rest[:, None])

    def without(self, fold: int | None) -> Self:
        """The same problem with one fold left out, or none; what was computed is shared."""
        return self._sharing(replace(self, held_out=fold))

    def knowing(self, knowledge: Knowledge) -> Self:
        """The same problem with other knowledge of the links; what was computed is shared."""
        return self._sharing(replace(self, knowledge=knowledge))

    def recast(self, kind: type[_Rows], **more: Any) -> _Rows:
        """The same problem with rows of another kind, which may have fields of its own."""
        shared = {f.name for f in fields(self)} & {f.name for f in fields(kind) if f.init}
        return kind(**{name: getattr(self, name) for name in shared} | more)

    def _sharing(self, other: Self) -> Self:
        # `replace` starts anew, as it must where rows change; folds and knowledge change none.
        object.__setattr__(other, "_kept", self._kept)
        return other

    def _all_blocks(self) -> Iterator[Block]:
        if self._kept.blocks is not None:
            yield from self._kept.blocks
            return
        keep = self.n_samples * self.n_joints * (self.size + 3) * 8.0 < _KEEP_BYTES
        made: list[Block] = []
        for piece, motion in enumerate(self.motions):
            for block in self._make(piece, motion):
                if keep:
                    made.append(block)
                yield block
        if keep:
            self._kept.blocks = tuple(made)

    def _make(self, piece: int, motion: Motion) -> Iterator[Block]:
        plan = Plan.of(motion, self.settings)
        n, b, taps = self.n_joints, self.base.size, plan.taps
        of = (motion.t, motion.q, motion.v, motion.a, motion.tau)
        t, q, v, a, tau = (x[:: plan.stride] for x in of)
        in_block = max(1, int(_BLOCK_BYTES / (8.0 * n * b)) // plan.step)
        buffer = np.empty(((in_block - 1) * plan.step + taps.size, n, b))
        folds = self.folds(motion)
        for first in range(0, plan.n_out, in_block):
            m = min(in_block, plan.n_out - first)
            start = first * plan.step
            taken = slice(start, start + (m - 1) * plan.step + taps.size)
            Y = torque_regressor(
                self.robot,
                np.ascontiguousarray(q[taken]),
                np.ascontiguousarray(v[taken]),
                np.ascontiguousarray(a[taken]),
                columns=self.base.independent,
                theta=self.load_theta_of(motion.log),
                out=buffer[: taken.stop - taken.start],
            )
            Y = self.widened(Y, v[taken], motion.log)
            y, use = tau[taken], self._moving[piece][first : first + m]
            Y, y = plan.filtered(Y), plan.filtered(y)
            at = start + taps.size // 2 + plan.step * np.arange(m)
            yield Block(motion.log, piece, t[at], Y, y, use, folds[at * plan.stride], first)

    def load_theta_of(self, log: int) -> Array | None:
        """(p,) parameters that the load of load-dependent friction follows from in one log."""
        return self.load_theta

    @cached_property
    def _moving(self) -> tuple[Array, ...]:
        """(rows, n) of each motion: 1 for rows that count, 0 for those of standing joints."""
        return moving_rows(self.robot, self.motions, self.settings)

    def widened(self, Y: Array, v: Array, log: int) -> Array:
        """Unfiltered columns (m, n, size) of all unknowns, from those of the base parameters."""
        return Y

    @cached_property
    def factors(self) -> dict[tuple[int, int, int], Factor]:
        """Triangular factors by (log, fold, joint), all rows with weight one."""
        if self._kept.factors is None:
            self._kept.factors = self.without(None).weighted_factors(None)
        return {key: f for key, f in self._kept.factors.items() if key[1] != self.held_out}

    def weighted_factors(
        self, weights: Sequence[Array] | Callable[[Block], Array] | None
    ) -> dict[tuple[int, int, int], Factor]:
        """Triangular factors where each row is multiplied by a weight (m, n), block by block."""
        R: dict[tuple[int, int, int], Array] = {}
        rows: dict[tuple[int, int, int], int] = {}
        for k, block in enumerate(self.blocks()):
            weight = weights(block) if callable(weights) else weights[k] if weights else block.use
            for fold in np.unique(block.fold):
                inside = block.fold == fold
                for j, columns in enumerate(self.columns):
                    use = np.flatnonzero(inside & (weight[:, j] > 0.0))
                    if use.size == 0:
                        continue
                    key = (block.log, int(fold), j)
                    before = R.get(key, np.zeros((0, columns.size + 1)))
                    tall = tall_matrix(before, block.Y[:, j], columns, block.y[:, j], use)
                    tall[len(before) :] *= weight[use, j][:, None]
                    R[key] = triangle(tall)
                    rows[key] = rows.get(key, 0) + use.size
        return {key: Factor(self.columns[key[2]], R[key], rows[key]) for key in sorted(R)}

    def stack(
        self, sigma: Array, *, factors: dict[tuple[int, int, int], Factor] | None = None
    ) -> Stack:
        """The least-squares problem with rows divided by the noise sigma (n_logs, n).

        Factors are those of unweighted rows if not given.
        """
        chosen = self.factors if factors is None else factors
        b = self.size
        rows = sum(f.rows for f in chosen.values())
        tall = np.zeros((sum(f.R.shape[0] for f in chosen.values()), b + 1))
        at = 0
        for (log, _, joint), f in chosen.items():
            part = tall[at : at + f.R.shape[0]]
            part[:, f.columns] = f.R[:, :-1] / sigma[log, joint]
            part[:, -1] = f.R[:, -1] / sigma[log, joint]
            at += f.R.shape[0]
        R = np.zeros((b + 1, b + 1))
        made = triangle(tall)
        R[: made.shape[0]] = made
        return Stack(R[:b, :b], R[:b, b], float(R[b, b] ** 2), rows)

    def squares(self, theta_base: Array, fold: int | None = None) -> tuple[Array, Array]:
        """Sums of squared residuals and numbers of rows, both (n_logs, n), of all folds or one."""
        squares, rows = np.zeros((2, self.n_logs, self.n_joints))
        for (log, at, joint), factor in self.factors.items():
            if fold is None or at == fold:
                squares[log, joint] += factor.squares(theta_base)
                rows[log, joint] += factor.rows
        return squares, rows

    def held_out_squares(
        self, fold: int, sigma: Array, solve: Callable[[Stack], Array]
    ) -> tuple[Array, Array]:
        """Squared residuals of one fold in units of sigma², and numbers of rows, both (n_logs, n).

        What solves a reduced problem for theta_base is given that of the other folds.
        """
        rest = {key: factor for key, factor in self.factors.items() if key[1] != fold}
        squares, rows = self.squares(solve(self.stack(sigma, factors=rest)), fold)
        return squares / sigma**2, rows


_Rows = TypeVar("_Rows", bound=Regression)


@dataclass(frozen=True, eq=False)
class GivenRows(Regression):
    """Rows that a method has made itself, such as whitened or linearised ones.

    Attributes:
        given: all blocks, those of a fold that is left out included.
    """

    given: tuple[Block, ...] = ()

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """(n_logs, n) joints that have rows in a log: those that stand have none."""
        made = np.zeros((self.n_logs, self.n_joints), dtype=bool)
        for log, _, joint in self.factors:
            made[log, joint] = True
        return made

    @cached_property
    def n_samples(self) -> int:
        return sum(block.t.size for block in self.given)

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """All places in theta_base: any row may depend on any parameter."""
        return (np.arange(self.size, dtype=np.int64),) * self.n_joints

    @cached_property
    def torque_size(self) -> Array:
        """(n,) r.m.s. of the rows' right-hand sides, in their units."""
        squares = sum((np.square(block.y).sum(axis=0) for block in self.given), np.zeros(1))
        size: Array = np.sqrt(squares / max(self.n_samples, 1))
        return size

    def _all_blocks(self) -> Iterator[Block]:
        yield from self.given
