"""From the arrays of the kernels to names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.compiled.lanes import LANES
from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.reading_layout import ReadingLayout
from bodysense.estimation.posterior import NamedRows, NamedSlices, Posterior, count_absent
from bodysense.spatial.arrays import Array


class Samples(NamedTuple):
    """What the kernels take of T samples.

    Attributes:
        q: (T, n_joints) positions.
        dq: (T, n_joints) velocities.
        twist: (T, 6) of the root.
        a0: (T, 6) acceleration of the root, known or its prior.
        y: (T, m) readings and further priors, rows of the kernels; NaN where there is none.
        weight: (T, blocks) 1 / s where the noise of a block of readings is s times as large as its
            covariance says.
        single: whether the user gave one sample without a first axis.
    """

    q: Array
    dq: Array
    twist: Array
    a0: Array
    y: Array
    weight: Array
    single: bool

    @property
    def size(self) -> int:
        return len(self.q)

    def part(self, which: slice | NDArray[np.int64]) -> Samples:
        """Some of the samples."""
        q, dq, twist, a0, y, w = (np.ascontiguousarray(array[which]) for array in self[:6])
        return Samples(q, dq, twist, a0, y, w, False)


def room(tree: BodyTree, layout: ReadingLayout, T: int, level: int) -> Found:
    """Room for T samples; level 0 for means, 1 for variances too, 2 for blocks, 3 for slacks."""
    n, rows = tree.n, layout.arrays
    m, blocks = int(rows.first[-1]), rows.first.size - 1

    def held(needed: int, *shape: int) -> Array:
        return np.empty((T if level >= needed else 0, n, *shape))

    return Found(
        d=np.empty((T, n, 20)),
        variance=held(1, 20),
        residual=np.empty((T, m)),
        score=np.empty((T, 2)),
        present=np.empty((T, blocks), dtype=np.int64),
        joint=held(2, 14, 14),
        between=held(2, 12, 12),
        external=held(2, 6, 6),
        slack=held(3, 12),
        slack_acceleration=held(3, 6, 6),
        slack_wrench=held(3, 6, 6),
        slack_torque=held(3, 2),
    )


def joined(founds: Sequence[Found]) -> Found:
    """Samples one behind the other."""
    return Found(*(np.concatenate(parts) for parts in zip(*founds, strict=True)))


def posterior_of(
    tree: BodyTree, layout: ReadingLayout, variables: NamedSlices, found: Found, single: bool
) -> Posterior:
    """Name what was found."""
    rows = np.empty_like(found.residual)
    rows[:, layout.order] = found.residual
    mean = flat(tree, found.d)
    T = len(found.d)
    variance = flat(tree, found.variance) if len(found.variance) == T else None
    blocks = _blocks(tree, found) if len(found.joint) == T else {}
    if np.isnan(rows).any():
        absent = {name: count_absent(rows[:, at]) for name, at in layout.slices.items()}
    else:  # a sample in a control loop has no time to ask every sensor
        absent = dict.fromkeys(layout.slices, 0)
    if single:
        return Posterior(
            variables,
            mean[0],
            None if variance is None else variance[0],
            {name: block[0] for name, block in blocks.items()},
            NamedRows(layout.slices, rows[0]),
            absent,
        )
    return Posterior(variables, mean, variance, blocks, NamedRows(layout.slices, rows), absent)


def flat(tree: BodyTree, d: Array) -> Array:
    """(T, size) in the order of the variables, from (T, n, 20)."""
    below = d[:, 1:].reshape(d.shape[0], 20 * (d.shape[1] - 1))
    if not tree.floating:
        return below
    return np.concatenate([d[:, 0, :6], d[:, 0, 13:19], below], axis=1)


def _blocks(tree: BodyTree, found: Found) -> dict[str, Array]:
    """Covariances by variable."""
    blocks: dict[str, Array] = {}
    for i in tree.with_unknowns:
        blocks[f"a.{tree.names[i]}"] = found.joint[:, i, :6, :6]
        blocks[f"fx.{tree.names[i]}"] = found.external[:, i]
        if i > 0:
            joint = tree.joint_name(i)
            blocks[f"f.{joint}"] = found.joint[:, i, 7:13, 7:13]
            blocks[f"ddq.{joint}"] = found.joint[:, i, 6:7, 6:7]
            blocks[f"tau.{joint}"] = found.variance[:, i, 12, None, None]
    return blocks


# How likely the readings are.
#
# Elimination factors the density of all rows, those of the sensors, of further priors and of the
# balance of a floating root, a row of zero, into whitened residuals e and factors with diagonals l:
#
#     log p(rows) = -m/2 log 2π - Σ log l - Σ e²/2


def log_density(layout: ReadingLayout, found: Found, weight: Array) -> Array:
    """(T,) log density of all rows together, up to the constant of a floating root's balance.

    `weight` (T, blocks) is that of the samples.
    """
    scales = np.log(weight) - 0.5 * math.log(2.0 * math.pi)
    constants = (found.present * scales) @ np.diff(layout.arrays.first)
    density: Array = constants + found.score[:, 0] - 0.5 * found.score[:, 1]
    return density


# Which samples are solved side by side: those with the same readings present.

_FEW = 2  # samples that take as long one by one as side by side
_MANY = 0.1  # of all samples: of so many it counts, and is worth another kernel to compile


def grouped(y: Array, first: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort samples by what is present of y (T, m), block by block from the rows `first` on.

    Every sample is in one place: (G, LANES) have the same readings present, and a short group
    repeats its last; the others are better solved one by one.
    """
    finite = np.isfinite(y)
    parts = [np.arange(len(y))]
    if not finite.all():
        present = np.logical_and.reduceat(finite, first[:-1], axis=1)
        _, pattern = np.unique(np.packbits(present, axis=1), axis=0, return_inverse=True)
        order = np.argsort(pattern, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(pattern[order])) + 1)
    rest = [len(part) % LANES for part in parts]
    rest = [count if count <= _FEW else 0 for count in rest]
    if sum(rest) <= _MANY * len(y):
        rest = [0] * len(parts)
    cuts = [np.split(part, [len(part) - k]) for part, k in zip(parts, rest, strict=True)]
    together = np.concatenate([_in_rows(whole) for whole, _ in cuts])
    return together, np.concatenate([few for _, few in cuts])


def _in_rows(samples: NDArray[np.int64]) -> NDArray[np.int64]:
    short = -len(samples) % LANES
    return np.append(samples, np.repeat(samples[-1:], short)).reshape(-1, LANES)
