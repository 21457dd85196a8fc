"""One sample, linearised in everything that is estimated beside d.

At x (see `StateLayout`), with d(x) the best d given x, the elimination along the tree leaves
whitened residuals that no d can explain, and their derivatives:

    min over d of chi-square(x + delta, d) = |r + J delta|²,     d = d(x) + C delta

J is that of variable projection: d is eliminated before the derivative is taken, and r and J give
the exact gradient of the projected problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bodysense.compiled.views import Table
from bodysense.errors import MismatchError
from bodysense.estimation._kernels.derivatives import Derivatives, linearise
from bodysense.estimation._kernels.problem import Bodies, Memory, Priors, Readings, make_memory
from bodysense.estimation._kernels.solve import (
    ONE,
    Found,
    SampleArrays,
    SolverWorkspace,
    solve,
    solve_singles,
)
from bodysense.estimation.map_dynamics.equations import motion_cross
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.priors import reading_triangle, sources, whitener
from bodysense.estimation.map_dynamics.solution import room
from bodysense.estimation.map_dynamics.state.layout import OrientationRows, StateLayout
from bodysense.estimation.map_dynamics.state.prior import Nuisances
from bodysense.estimation.posterior import NamedSlices
from bodysense.sensors.wrench_sensors import gyroscopic
from bodysense.spatial.arrays import Array

# Where to linearise at first, if the state is known only roughly.
#
# Products such as X(q) a are linearised at some q and some a, with an error of (error of q) times
# (error of a). The best a given a wrong q is wrong itself: equations without slack force it to fit.
# So at first
#
# 1. readings that depend on the state alone (encoders, gyroscopes, orientations) move it;
# 2. equations and readings are trusted only as far as the state is: with the covariances
#
#        Sigma + B Cov(x) Bᵀ,    B = ∂(equation or reading)/∂x,
#
#    and the best d of these is where products are linearised.
#
# Both only choose the point; the problem that is linearised there is the given one.


def _of_state(problem: MapDynamics) -> NDArray[np.bool_]:
    """(m,) rows of the kernels that depend on the state alone."""
    rows = problem.layout.arrays
    on_d = np.column_stack([rows.on_alpha, rows.on_wrench, rows.on_external])
    return np.asarray(~on_d.any(axis=1), dtype=np.bool_)


def _softened(
    priors: Priors, readings: Readings, w: Memory, factor: Array
) -> tuple[Priors, Readings]:
    """Priors and readings that know of Cov(x) = S Sᵀ, S the factor (columns, k).

    The memory w has the derivatives of equations and readings in it, of a linearisation.
    """
    columns = slice(1, 1 + factor.shape[0])
    motion = w.offset[:, :, columns] @ factor
    balance = w.balance[:, :, columns] @ factor
    read = w.Y[:, columns] @ factor
    return _with_covariances(
        priors,
        readings,
        motion @ motion.swapaxes(1, 2),
        balance @ balance.swapaxes(1, 2),
        [read[here] @ read[here].T for here in _blocks_of(readings)],
    )


def _blocks_of(readings: Readings) -> list[slice]:
    """Rows of each block of readings."""
    return [slice(a, b) for a, b in zip(readings.first[:-1], readings.first[1:], strict=True)]


def _with_covariances(
    priors: Priors, readings: Readings, motion: Array, balance: Array, read: Sequence[Array]
) -> tuple[Priors, Readings]:
    """Priors and readings with more slack.

    Added are `motion` (n, 7, 7) to the covariance of (a_i, joint acceleration) given a_p, `balance`
    (n, 6, 6) to the slack of wrench balances, and `read` to that of readings, block by block.
    """
    root, white = readings.root.copy(), readings.white.copy()
    log_scale = readings.log_scale.copy()
    for k, (here, more) in enumerate(zip(_blocks_of(readings), read, strict=True)):
        m = len(more)
        root[here, :m] = reading_triangle(root[here, :m].T @ root[here, :m] + more)
        white[here, :m], log_scale[k] = whitener(root[here, :m])
    moved, n = priors.motion.copy(), motion.shape[0]
    moved[1:] = sources(_covariances(moved[1:]) + motion[1:])
    return (
        priors._replace(
            motion=moved,
            slack=sources(_covariances(priors.slack) + balance),
            n_motion=np.array([6, *[7] * (n - 1)], dtype=np.int64),
            n_slack=np.full(n, 6, dtype=np.int64),
        ),
        readings._replace(root=root, white=white, log_scale=log_scale),
    )


def _covariances(rows: Array) -> Array:
    covariance: Array = rows.swapaxes(1, 2) @ rows
    return covariance


# What a linearisation leaves out, as slack: the second order of equations and readings in x.
#
# With delta ~ N(0, Cov(x)) the error of the state, and u its part at joint i or of a twist,
#
#     X(q + u) a - X(q) a + u S × X a        ≈  ½ u² S × S × X a,        E (½ u²)² = ¾ sigma⁴
#     uᵀ Q u, uᵀ R u (Coriolis, centripetal)     have the second moment
#                                                tr(Q P) tr(R P) + 2 tr(Q P R P)
#
# A single linearisation that knows of these is not overconfident. They
# shrink with the fourth power of the state's standard deviation, so that a few such steps lead
# from far away to where the exact equations can take over.


def _with_second_order(
    priors: Priors,
    readings: Readings,
    bodies: Bodies,
    w: Memory,
    twists: Array,
    d: Array,
    factor: Array,
) -> tuple[Priors, Readings]:
    """Priors and readings that know what their linearisation at d (n, 20) leaves out.

    The memory w has the transforms of this x in it; `twists` (n, columns, 6) are derivatives by x,
    and Cov(x) = S Sᵀ with S the factor (columns, k).
    """
    n, joints = bodies.parent.size, factor.shape[0]
    sigma2 = (factor**2).sum(axis=1)
    velocities = (bodies.joint.max() + 1) if n > 1 else 0
    slip = np.einsum("ihj,hk->ijk", twists[:, :joints], factor)
    spread = slip @ slip.swapaxes(1, 2)  # of the twists
    motion, balance = np.zeros((n, 7, 7)), np.zeros((n, 6, 6))
    for i in range(n):
        balance[i] += _quadratic(gyroscopic(bodies.inertia[i]), spread[i])
        if i == 0:
            continue
        j, p, S = bodies.joint[i], bodies.parent[i], motion_cross(bodies.S[i])
        X, fourth = w.X[i], 0.75 * sigma2[j] ** 2
        curve = S @ S @ X @ d[p, :6]
        motion[i, :6, :6] += fourth * np.outer(curve, curve)
        motion[i, :6, :6] += sigma2[velocities + j] * S @ spread[i] @ S.T
        curve = X.T @ S.T @ S.T @ d[i, 6:12]
        balance[p] += fourth * np.outer(curve, curve)
    read = [
        _quadratic(readings.quadratic[here], spread[mover])
        for here, mover in zip(_blocks_of(readings), readings.mover, strict=True)
    ]
    return _with_covariances(priors, readings, motion, balance, read)


def _quadratic(Q: Array, P: Array) -> Array:
    """(m, m) E (uᵀ Q_a u)(uᵀ Q_b u) for u ~ N(0, P), of symmetric matrices Q (m, 6, 6)."""
    QP = Q @ P
    trace = np.trace(QP, axis1=1, axis2=2)
    sample: Array = np.outer(trace, trace) + 2.0 * np.einsum("aij,bji->ab", QP, QP)
    return sample


@dataclass(frozen=True, eq=False)
class SampleInputs:
    """What is given at one sample.

    Attributes:
        y: (m,) readings in the user's order, NaN where there is none.
        rows: (m',) the same as rows of the kernels, with those of further priors.
        a0: (6,) acceleration of the root, known or of its prior.
        R_reference: (3, 3) orientation of the root at which its turn is zero.
    """

    y: Array
    rows: Array
    a0: Array
    R_reference: Array


@dataclass(frozen=True, eq=False)
class Linearised:
    """The problem at one x: residual (k,) r, jacobian (k, size) J, slope (n, 20, size) C."""

    residual: Array
    jacobian: Array
    slope: Array


class Linearisation:
    """Linearises samples of one problem; it owns working memory, so that a thread needs its own.

    `variables` are names of d and behind them `extra`, which are at `places` of x.
    """

    def __init__(self, problem: MapDynamics, nuisances: Nuisances, order: int) -> None:
        """Allocate; order 3 has joint accelerations in x.

        Raises:
            MismatchError: readings whose friction grows with a load that is not known yet.
        """
        if problem.under_load:
            law = problem.robot.friction.model
            raise MismatchError(
                f"drives are read whose friction {law.name!r} grows with their load, which is not "
                "differentiated by the state: give torques of the joints (side: joint), or "
                f"identify the robot without load in its friction (--friction "
                f"{law.without_load.name}); robot.with_friction({law.without_load.name!r}) leaves "
                "Fl out."
            )
        self.problem, self.nuisances = problem, nuisances
        self.orientations = OrientationRows(problem)
        self.layout = StateLayout(
            problem.robot.n_joints,
            order,
            problem.tree.floating,
            self.orientations.turned,
            nuisances.size,
        )
        self.extra, self.places = self.layout.named(problem.tree, nuisances.biased)
        both = [*problem.variables.sizes, *self.extra.sizes]
        self.variables = NamedSlices.from_sizes("quantity", both)
        self._priors = problem.assumptions.arrays(problem.tree)
        rows = problem.layout.arrays
        m, blocks, n = int(rows.first[-1]), rows.first.size - 1, problem.tree.n
        largest, r = rows.root.shape[1], 1 + self.layout.columns + nuisances.size
        sizes = n, m, blocks, largest
        self._narrow = SolverWorkspace(make_memory(*sizes, 1, 1), problem.drive)
        wide = make_memory(*sizes, r, m + 7 * n + 20)
        self._wide = SolverWorkspace(wide, problem.drive, covariances=False)
        self._tree = Table(problem.robot.tree)
        self._tables: dict[type, Table] = {}  # the last ones
        self._of_state = _of_state(problem)
        self._twists = np.zeros((n, self.layout.columns, 6))
        for k in range(3 * problem.tree.floating):
            self._twists[0, self.layout.joints + k, 3 + k] = 1.0
        self._out = np.zeros((n, 20, r))

    def another(self) -> Linearisation:
        return Linearisation(self.problem, self.nuisances, self.layout.order)

    def solved(
        self, x: Array, sample: SampleInputs, *, spread: bool = False, factor: Array | None = None
    ) -> Found:
        """The posterior of d given x, with covariances on request.

        With a factor (size, k) of Cov(x), equations and readings are trusted only as far as x
        is; x must have been linearised just before.
        """
        bodies, readings, drive = self.nuisances.moved(self.layout.constant(x))
        result = room(self.problem.tree, self.problem.layout, 1, 2 if spread else 0)
        priors = self._priors_at(x)
        if factor is not None:
            columns = self.layout.columns
            priors, readings = _softened(priors, readings, self._wide.memory, factor[:columns])
        self._narrow.use(drive)
        problem, given = self._problem(bodies, readings, priors), self._sample(x, sample)
        solve(solve_singles, (0, 1, ONE), problem, Table(given), Table(result), self._narrow)
        return result

    def at(
        self,
        x: Array,
        sample: SampleInputs,
        d: Array | None = None,
        factor: Array | None = None,
    ) -> Linearised:
        """Linearise at x (size,).

        Products of x and d are differentiated at `d` (n, 20), by default the best. With a `factor`
        (size, k) of Cov(x), what the linearisation leaves out counts as slack; x must have been
        linearised just before.
        """
        layout, nuisances, w = self.layout, self.nuisances, self._wide.memory
        best = self.solved(x, sample).d[0]
        if d is None:
            d = best
        bodies, readings, drive = nuisances.moved(self.layout.constant(x))
        priors = self._priors_at(x)
        if factor is not None:
            part = factor[: layout.columns]
            priors, readings = _with_second_order(
                priors, readings, bodies, w, self._twists, d, part
            )
        behind = 1 + layout.columns
        if nuisances.size:
            w.Y[:, behind:] = nuisances.reading_columns(d, np.ascontiguousarray(layout.dq(x)))
        if nuisances.factor.shape[1]:
            balance = nuisances.balance_columns(d, self._narrow.memory.twist)
            w.balance[:, :, behind + nuisances.rows.size :] = balance
        self._wide.use(drive)
        linearise(
            self._problem(bodies, readings, priors),
            self._wide,
            self._sample(x, sample),
            Table(Derivatives(d, self._twists)),
            2 * layout.n if layout.order == 3 else -1,
            self._out,
        )
        left = w.left[: w.kept[0]]
        residual, jacobian = left[:, 0].copy(), self._spaced(left[:, 1:])
        if self.orientations.sensors:
            r, J, _ = self.orientation_rows(x, sample)
            residual, jacobian = np.concatenate([residual, r]), np.concatenate([jacobian, J])
        n = self.problem.tree.n
        slope = self._spaced(self._out[:, :, 1:].reshape(20 * n, -1)).reshape(n, 20, -1)
        return Linearised(residual, jacobian, slope)

    @property
    def sliding(self) -> NDArray[np.bool_]:
        """(n_joints,) which joints slide."""
        bodies = self.problem.tree.arrays
        result = np.zeros(self.layout.n, dtype=bool)
        result[bodies.joint[1:]] = bodies.prismatic[1:] == 1
        return result

    def count(self, sample: SampleInputs) -> int:
        """How many readings and priors there are."""
        rows = int(np.isfinite(sample.rows).sum())
        return rows + int(np.isfinite(sample.y[self.problem.layout.orientations]).sum())

    def without_dynamics(self, sample: SampleInputs) -> SampleInputs:
        """The sample with readings of the state alone."""
        return replace(sample, rows=np.where(self._of_state, sample.rows, np.nan))

    def _problem(self, *parts: tuple[object, ...]) -> tuple[Table, ...]:
        """Tables of bodies, readings and priors, most of which are those of the step before."""
        for part in parts:
            kept = self._tables.get(type(part))
            if kept is None or kept.arrays is not part:
                self._tables[type(part)] = Table(part)
        bodies, readings, priors = (self._tables[type(part)] for part in parts)
        return bodies, self._tree, readings, priors

    def _sample(self, x: Array, sample: SampleInputs) -> SampleArrays:
        """What the kernels take of x and what is given."""
        layout = self.layout
        state, weight = layout.q(x), np.ones(self.problem.layout.blocks)
        rows = state, layout.dq(x), self._twist(x), sample.a0, self._unbiased(x, sample), weight
        return SampleArrays(*(np.ascontiguousarray(row)[None] for row in rows))

    def _spaced(self, columns: Array) -> Array:
        """Columns of the kernel among those of x, of which it does not know the root's turn."""
        layout = self.layout
        wide = np.zeros((columns.shape[0], layout.size))
        wide[:, : layout.columns] = columns[:, : layout.columns]
        wide[:, layout.local :] = columns[:, layout.columns :]
        return wide

    def orientation_rows(self, x: Array, sample: SampleInputs) -> tuple[Array, Array, Array]:
        """Whitened residuals (k,) of orientations, (k, size) derivatives, and raw (m,) [rad]."""
        layout, rows = self.layout, self.nuisances.rows
        bias = np.zeros(self.problem.layout.size)
        bias[rows] = self.nuisances.bias(layout.constant(x))
        residual, jacobian, by_bias, raw = self.orientations.at(
            layout, x, sample.R_reference, sample.y, bias
        )
        jacobian[:, layout.local : layout.local + rows.size] = by_bias[:, rows]
        return residual, jacobian, raw

    def _twist(self, x: Array) -> Array:
        """Of the root: what its linear part is, nothing feels."""
        twist = np.zeros(6)
        if self.layout.floating:
            twist[3:] = self.layout.omega(x)
        return twist

    def _unbiased(self, x: Array, sample: SampleInputs) -> Array:
        rows = sample.rows.copy()
        rows[self.nuisances.kernel_rows] -= self.nuisances.bias(self.layout.constant(x))
        return rows

    def _priors_at(self, x: Array) -> Priors:
        """Accelerations that are in x are known to the elimination."""
        if self.layout.order == 2:
            return self._priors
        mean, ddq = np.zeros(self.problem.tree.n), self.layout.ddq(x)
        for i, joint in enumerate(self.problem.tree.joint):
            if joint >= 0:
                mean[i] = ddq[joint]
        motion = self._priors.motion.copy()
        motion[1:, 0] = 0.0
        return self._priors._replace(joint_mean=mean, motion=motion)
