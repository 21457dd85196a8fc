"""The posterior of many samples, several at a time in lanes (see `robot._kernels.lanes`), compiled.

Samples in lanes take the same branches, so the same readings must be present in all of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bodysense.compiled.jit import called, threaded
from bodysense.compiled.lanes import LANES, lanes_of, lanes_of_zeros
from bodysense.estimation._kernels.covariance import Spread, make_spread
from bodysense.estimation._kernels.motion import which_are_present
from bodysense.estimation._kernels.problem import Memory, make_memory
from bodysense.estimation._kernels.solve import Found, solve_sample
from bodysense.spatial.arrays import Array


class LaneSamples(NamedTuple):
    """What is known of samples side by side."""

    q: Array  # (n_joints, LANES)
    dq: Array  # (n_joints, LANES)
    twist: Array  # (6, LANES)
    a0: Array  # (6, LANES)
    y: Array  # (m, LANES)


@called
def gather(rows, which, out):
    """Rows of samples (T, k), side by side (k, LANES)."""
    for j in range(out.shape[0]):
        for k in range(LANES):
            out[j, k] = rows[which[k], j]


@called
def scatter(page, which, out):
    """What was found of samples side by side, (1, …, LANES), to their places in (T, …)."""
    if out.shape[0] > 0:
        columns = page.reshape((page.size // LANES, LANES))
        rows = out.reshape((out.shape[0], out.size // out.shape[0]))
        for k in range(LANES):
            row = rows[which[k]]
            for j in range(row.size):
                row[j] = columns[j, k]


@threaded
def solve_side_by_side(
    first,
    last,
    groups,
    bodies,
    tree,
    drive,
    readings,
    priors,
    memory,
    spread,
    sample,
    page,
    q,
    dq,
    twist,
    a0,
    y,
    out,
):
    """Posterior of the samples of groups first … last, into `Found`.

    Args:
        first: group.
        last: and the one behind the last.
        groups: (G, LANES) samples with the same readings present; any may be there twice.
        bodies: the tree from its root.
        tree: the robot, for the friction in torques.
        drive: (n_joints, n_terms) friction coefficients.
        readings: of the sensors.
        priors: before any reading.
        memory: `Memory` with lanes behind its axes.
        spread: `Spread`, likewise.
        sample: `LaneSamples`.
        page: `Found` of one sample, likewise.
        q: (T, n_joints) positions.
        dq: (T, n_joints) velocities.
        twist: (T, 6) of the root.
        a0: (T, 6) acceleration of the root, known or believed.
        y: (T, m) readings.
        out: `Found`.
    """
    w, s, x, result = lanes_of(memory), lanes_of(spread), lanes_of(sample), lanes_of(page)
    phi, dphi = np.zeros(max(1, drive.shape[1])), np.zeros(max(1, drive.shape[1]))
    for group in range(first, last):
        which = groups[group]
        gather(q, which, sample.q)
        gather(dq, which, sample.dq)
        gather(twist, which, sample.twist)
        gather(a0, which, sample.a0)
        gather(y, which, sample.y)
        which_are_present(readings, y[which[0]], w.present)
        solve_sample(
            bodies,
            tree,
            drive,
            readings,
            priors,
            w,
            s,
            x.q,
            x.dq,
            x.twist,
            x.a0,
            x.y,
            phi,
            dphi,
            result,
            0,
        )
        scatter(page.d, which, out.d)
        scatter(page.variance, which, out.variance)
        scatter(page.residual, which, out.residual)
        scatter(page.score, which, out.score)
        for k in range(LANES):
            for b in range(w.present.size):
                out.present[which[k], b] = w.present[b]
        scatter(page.joint, which, out.joint)
        scatter(page.between, which, out.between)
        scatter(page.external, which, out.external)
        scatter(page.slack, which, out.slack)
        scatter(page.slack_acceleration, which, out.slack_acceleration)
        scatter(page.slack_wrench, which, out.slack_wrench)
        scatter(page.slack_torque, which, out.slack_torque)


class LaneMemory(NamedTuple):
    """Working memory of one thread for samples side by side."""

    memory: Memory
    spread: Spread
    sample: LaneSamples
    page: Found


def make_workspace(
    n: int, n_joints: int, m: int, blocks: int, largest: int, found: Found
) -> LaneMemory:
    """Allocate for n bodies, m readings in blocks, and what a `Found` holds of each sample."""
    memory, spread = make_memory(n, m, blocks, largest, 1, 1), make_spread(n, largest)
    return LaneMemory(
        Memory._make(_in_lanes(array, array.shape) for array in memory),
        Spread._make(_in_lanes(array, array.shape) for array in spread),
        LaneSamples._make(lanes_of_zeros((k,)) for k in (n_joints, n_joints, 6, 6, m)),
        Found._make(_in_lanes(array, (min(1, len(array)), *array.shape[1:])) for array in found),
    )


def _in_lanes(array: NDArray[Any], shape: tuple[int, ...]) -> Array:
    """Zeros of a shape with lanes behind its axes; counts are the same in all lanes."""
    if array.dtype == np.float64:
        return lanes_of_zeros(shape)
    return np.zeros(shape, array.dtype)
