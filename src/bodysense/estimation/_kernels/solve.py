"""What Python calls: the posterior of many samples, one at a time or several in lanes, compiled.

Samples are solved in groups. A group of one is solved in plain floats, a group of `LANES` side by
side (see `robot._kernels.lanes`), by the same source, of which one is compiled for each. Samples of
a group take the same branches, so the same readings must be present in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np

from bodysense.compiled.jit import Kernel, called, threaded
from bodysense.compiled.lanes import lane, lanes, lanes_in, with_lane
from bodysense.compiled.views import Integers, Table, flat, reader, rows_of, zeros_of
from bodysense.estimation._kernels.elimination import eliminate
from bodysense.estimation._kernels.motion import (
    move,
    offsets,
    readings_without_motion,
    which_are_present,
)
from bodysense.estimation._kernels.problem import (
    PARENT_SIDE,
    Bodies,
    FrictionArrays,
    Memory,
    Priors,
    Readings,
)
from bodysense.estimation._kernels.substitution import Spread, make_spread, spread, substitute
from bodysense.robot._kernels.tree import tree_at
from bodysense.spatial.arrays import Array


class SampleArrays(NamedTuple):
    """What is known of T samples."""

    q: Annotated[Array, "T", "joints"]
    dq: Annotated[Array, "T", "joints"]
    twist: Annotated[Array, "T", 6]  # of the root
    a0: Annotated[Array, "T", 6]  # acceleration of the root, known or its prior
    y: Annotated[Array, "T", "m"]  # readings, not finite where there are none
    weight: Annotated[Array, "T", "blocks"]  # 1 / s where the noise of a block is s times as large


class SampleSlot(NamedTuple):
    """What is known of one sample, or of several in lanes."""

    q: Annotated[Array, "joints"]
    dq: Annotated[Array, "joints"]
    twist: Annotated[Array, 6]
    a0: Annotated[Array, 6]
    y: Annotated[Array, "m"]


class Found(NamedTuple):
    """The posterior of T samples; arrays of length zero are not asked for.

    Attributes:
        d: means: a, f, tau, fx, joint acceleration of each body.
        variance: alike.
        residual: readings minus their predictions, rows of the kernels; NaN where absent.
        score: log-determinants and sum of squares of the log-likelihood.
        present: which blocks of readings are.
        joint: covariance of (a_i, joint acceleration, f_i, slack of the torque).
        between: covariance of (a of the parent, f_i).
        external: covariance of fx_i.
        slack: means of the slacks of acceleration equation and wrench balance.
        slack_acceleration: covariance of the slack of the acceleration equation.
        slack_wrench: of the wrench balance.
        slack_torque: mean and variance of the slack of the torque.
    """

    d: Annotated[Array, "T", "n", 20]
    variance: Annotated[Array, "T", "n", 20]
    residual: Annotated[Array, "T", "m"]
    score: Annotated[Array, "T", 2]
    present: Annotated[Integers, "T", "blocks"]
    joint: Annotated[Array, "T", "n", 14, 14]
    between: Annotated[Array, "T", "n", 12, 12]
    external: Annotated[Array, "T", "n", 6, 6]
    slack: Annotated[Array, "T", "n", 12]
    slack_acceleration: Annotated[Array, "T", "n", 6, 6]
    slack_wrench: Annotated[Array, "T", "n", 6, 6]
    slack_torque: Annotated[Array, "T", "n", 2]


class ResultArrays(NamedTuple):
    """What is written of one sample, or of several in lanes; see `Found`."""

    d: Annotated[Array, "n", 20]
    residual: Annotated[Array, "m"]
    slack: Annotated[Array, "n", 12]
    slack_torque: Annotated[Array, "n", 2]


class GroupArrays(NamedTuple):
    """Samples that are solved together: (G, 1), or (G, LANES) with the same readings present."""

    samples: Annotated[Integers, "G", "lanes"]


@called
def _write_means(alpha, wrench, fx, tau, d):
    """Means of all unknowns, (n, 20)."""
    for i in range(d.shape[0]):
        for j in range(6):
            d[i, j] = alpha[i, j, 0]
            d[i, 6 + j] = wrench[i, j, 0]
            d[i, 13 + j] = fx[i, j, 0]
        d[i, 12] = tau[i, 0]
        d[i, 19] = alpha[i, 6, 0]


@called
def _write_residuals(readings, bodies, w, residual):
    """Readings minus predictions, NaN where there is no reading."""
    on_alpha, on_wrench, on_external = readings.on_alpha, readings.on_wrench, readings.on_external
    parent, X, alpha, wrench, fx = bodies.parent, w.X, w.alpha, w.wrench, w.fx
    Y, present, f = w.Y, w.present, w.work[0]
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
def _write_slacks(parent, S, w, joint, means, torque):
    """Means of the slacks of the equations, (n, 12), and mean and variance of the torque's."""
    X, alpha, offset, wrench, slack = w.X, w.alpha, w.offset, w.wrench, w.slack
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
def _solve_sample(bodies, tree, friction, readings, priors, w, s, x, page, level):
    """Posterior of a sample x, or of several in lanes, whose blocks w.present are there.

    Means, residuals and slacks go into page, covariances into s.

    Args:
        bodies: the tree from its root.
        tree: the robot, for the friction in torques.
        friction: its coefficients.
        readings: of the sensors.
        priors: before any reading.
        w: working memory.
        s: covariances.
        x: the sample.
        page: `ResultArrays`.
        level: 0 for means, 1 for variances too, 2 for covariances, 3 for slacks.
    """
    move(bodies, x.q, x.dq, x.twist, w.X, w.twist)
    offsets(bodies, priors, x.dq, x.a0, w.twist, w.balance, w.offset, w.A0, w.work)
    readings_without_motion(tree, friction, readings, x.q, x.dq, x.y, w.twist, w.present, w.Y)
    eliminate(bodies, readings, priors, w)
    substitute(bodies, readings, priors, w)
    _write_means(w.alpha, w.wrench, w.fx, w.tau, page.d)
    _write_residuals(readings, bodies, w, page.residual)
    if level > 0:
        spread(bodies, readings, priors, w, s, level > 1, level > 2)
    if level > 2:
        _write_slacks(bodies.parent, bodies.S, w, s.joint, page.slack, page.slack_torque)


@called
def _gather(rows, which, out):
    """Rows (T, k) of the samples of a group, side by side (k,)."""
    for j in range(out.size):
        x = out[j]
        for k in range(lanes_in(x)):
            x = with_lane(x, k, rows[which[k], j])
        out[j] = x


@called
def _scatter(numbers, which, rows):
    """Numbers (k,) of the samples of a group, to their rows (T, k)."""
    for j in range(numbers.size):
        x = numbers[j]
        for k in range(lanes_in(x)):
            rows[which[k], j] = lane(x, k)


@called
def _write_group(w, s, page, which, level, out):
    """What was computed of a group, into the rows of its samples."""
    _scatter(flat(page.d), which, rows_of(out.d))
    _scatter(page.residual, which, out.residual)
    _scatter(w.score, which, out.score)
    for k in range(which.size):
        for block in range(w.present.size):
            out.present[which[k], block] = w.present[block]
    if level > 0:
        _scatter(flat(s.variance), which, rows_of(out.variance))
    if level > 1:
        _scatter(flat(s.joint), which, rows_of(out.joint))
        _scatter(flat(s.between), which, rows_of(out.between))
        _scatter(flat(s.external), which, rows_of(out.external))
    if level > 2:
        _scatter(flat(page.slack), which, rows_of(out.slack))
        _scatter(flat(page.slack_torque), which, rows_of(out.slack_torque))
        _scatter(flat(s.slack_acceleration), which, rows_of(out.slack_acceleration))
        _scatter(flat(s.slack_wrench), which, rows_of(out.slack_wrench))


@called
def _solve_groups(
    first, last, groups, bodies, tree, readings, priors, samples, out, friction, w, s, x, page
):
    """Posterior of the samples of groups first … last, into `Found`.

    Right-hand sides behind the first are the caller's, set before, and the same for all samples.
    """
    level = 0
    level += 1 if out.variance.size > 0 else 0
    level += 1 if out.joint.size > 0 else 0
    level += 1 if out.slack.size > 0 else 0
    for group in range(first, last):
        which = groups.samples[group]
        _gather(samples.q, which, x.q)
        _gather(samples.dq, which, x.dq)
        _gather(samples.twist, which, x.twist)
        _gather(samples.a0, which, x.a0)
        _gather(samples.y, which, x.y)
        _gather(samples.weight, which, w.weight)
        which_are_present(readings, samples.y[which[0]], w.present)
        _solve_sample(bodies, tree, friction, readings, priors, w, s, x, page, level)
        _write_group(w, s, page, which, level, out)


_groups_at, samples_at, _found_at = reader(GroupArrays), reader(SampleArrays), reader(Found)
bodies_at, readings_at = reader(Bodies), reader(Readings)
_priors_at, friction_at = reader(Priors), reader(FrictionArrays)
memory_at, _spread_at = reader(Memory), reader(Spread)
_sample_at, _page_at = reader(SampleSlot), reader(ResultArrays)
_memory_in_lanes_at, _spread_in_lanes_at = reader(Memory, lanes), reader(Spread, lanes)
_sample_in_lanes_at, _page_in_lanes_at = reader(SampleSlot, lanes), reader(ResultArrays, lanes)


@threaded
def solve_singles(
    first, last, groups, bodies, tree, readings, priors, samples, out, friction, w, s, x, page
):
    """Solve groups of one; all but first and last are addresses of tables."""
    _solve_groups(
        first,
        last,
        _groups_at(groups),
        bodies_at(bodies),
        tree_at(tree),
        readings_at(readings),
        _priors_at(priors),
        samples_at(samples),
        _found_at(out),
        friction_at(friction),
        memory_at(w),
        _spread_at(s),
        _sample_at(x),
        _page_at(page),
    )


@threaded
def solve_side_by_side(
    first, last, groups, bodies, tree, readings, priors, samples, out, friction, w, s, x, page
):
    """Solve groups of `LANES`; all but first and last are addresses of tables."""
    _solve_groups(
        first,
        last,
        _groups_at(groups),
        bodies_at(bodies),
        tree_at(tree),
        readings_at(readings),
        _priors_at(priors),
        samples_at(samples),
        _found_at(out),
        friction_at(friction),
        _memory_in_lanes_at(w),
        _spread_in_lanes_at(s),
        _sample_in_lanes_at(x),
        _page_in_lanes_at(page),
    )


class SolverWorkspace:
    """Working memory of one thread, as the kernels take it.

    Attributes:
        memory: arrays, of interest for what they hold after a sample is solved.
    """

    def __init__(
        self, memory: Memory, drive: Array, *, covariances: bool = True, lanes: int = 0
    ) -> None:
        """Allocate what belongs to a memory.

        Args:
            memory: of `make_memory`.
            drive: (n_joints, n_terms) friction coefficients.
            covariances: whether any are to be computed.
            lanes: of every number, 0 for plain floats.
        """
        n, m, joints = len(memory.twist), len(memory.Y), len(drive)
        bodies, largest = (n, len(memory.eps)) if covariances else (0, 0)
        bundles = (
            memory,
            make_spread(bodies, largest, lanes=lanes),
            zeros_of(SampleSlot, lanes=lanes, joints=joints, m=m),
            zeros_of(ResultArrays, lanes=lanes, n=n, m=m),
        )
        self.memory = memory
        self._tables = tuple(Table(bundle, lanes=lanes > 0) for bundle in bundles)
        self._friction = Table(FrictionArrays.of(drive))

    def use(self, drive: Array) -> None:
        """Take other friction coefficients."""
        if drive is not self._friction.arrays.drive:
            self._friction = Table(FrictionArrays.of(drive))

    @property
    def tables(self) -> tuple[Table, ...]:
        """What the kernels take behind the problem."""
        return self._friction, *self._tables


def solve(
    kernel: Kernel,
    groups: tuple[int, int, Table],
    problem: Sequence[Table],
    samples: Table,
    found: Table,
    work: SolverWorkspace,
) -> None:
    """Call a kernel of this module.

    Args:
        kernel: `solve_singles` or `solve_side_by_side`.
        groups: the first, the one behind the last, and all `GroupArrays`.
        problem: `Bodies`, `Tree`, `Readings`, `Priors`.
        samples: `SampleArrays`.
        found: `Found`.
        work: memory of this thread.
    """
    first, last, listed = groups
    tables = (listed, *problem, samples, found, *work.tables)
    kernel(first, last, *[table.address for table in tables])


ONE = Table(GroupArrays(np.zeros((1, 1), np.int64)))
"""The groups where there is one sample."""
