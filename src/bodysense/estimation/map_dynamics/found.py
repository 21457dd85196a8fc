"""From the arrays of the kernels to names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.estimation._kernels.solve import Found
from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.map_dynamics.equations import Variables
from bodysense.estimation.map_dynamics.reading_layout import ReadingLayout
from bodysense.estimation.posterior import NamedRows, Posterior
from bodysense.spatial.arrays import Array


class Samples(NamedTuple):
    """What the kernels take of T samples.

    Attributes:
        q: (T, n_joints) positions.
        dq: (T, n_joints) velocities.
        twist: (T, 6) of the root.
        a0: (T, 6) acceleration of the root, known or believed.
        y: (T, m) readings and further priors, rows of the kernels; NaN where there is none.
        single: whether the user gave one sample without a first axis.
    """

    q: Array
    dq: Array
    twist: Array
    a0: Array
    y: Array
    single: bool

    @property
    def size(self) -> int:
        """T."""
        return len(self.q)

    def part(self, which: slice | NDArray[np.int64]) -> Samples:
        """Some of the samples."""
        q, dq, twist, a0, y = (np.ascontiguousarray(array[which]) for array in self[:5])
        return Samples(q, dq, twist, a0, y, False)


def room(tree: BodyTree, layout: ReadingLayout, T: int, level: int) -> Found:
    """Room for the posterior of T samples.

    Args:
        tree: the bodies.
        layout: the readings.
        T: samples.
        level: 0 for means alone, 1 for variances too, 2 for blocks, 3 for slacks.
    """
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
    tree: BodyTree, layout: ReadingLayout, variables: Variables, found: Found, single: bool
) -> Posterior:
    """Name what was found."""
    rows = np.empty_like(found.residual)
    rows[:, layout.order] = found.residual
    mean = flat(tree, found.d)
    T = len(found.d)
    variance = flat(tree, found.variance) if len(found.variance) == T else None
    blocks = _blocks(tree, found) if len(found.joint) == T else {}
    absent = _absent(layout, rows)
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


def _absent(layout: ReadingLayout, rows: Array) -> dict[str, int]:
    """At how many samples each sensor gave nothing."""
    gone = np.isnan(rows)
    if not gone.any():
        return dict.fromkeys(layout.slices, 0)
    return {name: int(gone[:, at].any(axis=1).sum()) for name, at in layout.slices.items()}


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
