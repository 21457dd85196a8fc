"""Do recordings, and the parts of one, belong to one robot?

One robot for all of them leaves hardly more error than one for each does, if nothing was changed
between them. Without a fit: what no parameters explain is the last diagonal element of a triangle
of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bodysense.identification.defects.estimates import block_rows, held_rows, ridge_theta
from bodysense.identification.reduced import joined, triangle
from bodysense.identification.regression import Regression
from bodysense.identification.solution import noise_levels
from bodysense.logs.log import Log
from bodysense.spatial.arrays import Array

_ROWS_OF_A_LOG = 2.0  # per unknown, or it could be explained by itself whatever it is
_UNLIKE_LOGS = 2.5  # ratio of r.m.s. errors; drives that warm up make it 1.3
_UNLIKE_PARTS = 1.6  # the same of two parts of one recording; those of a UR10e reach 1.2, and …
_UNLIKE_BESIDE = 2.0  # … where a defect is named that all of it has: a zero that is off makes 1.8
_LEAST_BLOCKS = 3  # of a part
_HARDLY = 0.01  # of a joint's torque: smaller errors speak of one robot, whatever their ratio


def unlike_each_other(problem: Regression) -> list[str]:
    """Whether several logs need several robots: one leaves far more error than one for each does.

    Without a fit: what no parameters explain is the last diagonal element of a triangle of rows.
    """
    logs = [
        {key: factor for key, factor in problem.factors.items() if key[0] == log}
        for log in range(problem.n_logs)
    ]
    least = _ROWS_OF_A_LOG * problem.size
    logs = [own for own in logs if sum(factor.rows for factor in own.values()) >= least]
    if len(logs) < 2:
        return []
    # Relative errors: noise levels would hold what differs between the logs.
    size = np.tile(np.maximum(problem.torque_size, np.finfo(float).tiny), (problem.n_logs, 1))
    together = {key: factor for own in logs for key, factor in own.items()}
    one, each = (
        sum(stack.rest for stack in stacks) / sum(stack.rows - problem.size for stack in stacks)
        for stacks in (
            [problem.stack(size, factors=together)],
            [problem.stack(size, factors=own) for own in logs],
        )
    )
    floor = float(np.square(problem.finest).min())
    ratio = float(np.sqrt(max(one, floor) / max(each, floor)))
    if not ratio > _UNLIKE_LOGS:
        return []
    return [
        "The recordings do not belong to one robot: one for all leaves "
        f"{ratio:.2g} times the error that one for each does. Was a load, a tool or the mounting "
        "changed between them? Identify from those that are alike; `bodysense payload` finds what "
        "a load weighs."
    ]


def changed_within(
    problem: Regression, logs: Sequence[Log], *, beside_defects: bool = False
) -> list[str]:
    """Whether a recording needs another robot for some time than for the rest of it.

    Defects that are named beside it have to be beaten by more.
    """
    least = _UNLIKE_BESIDE if beside_defects else _UNLIKE_PARTS
    rows = block_rows(problem, (), theta := ridge_theta(problem))
    sigma = noise_levels(problem, problem.base.to_base(theta))
    made = []
    for number, log in enumerate(logs):
        own = [r for r in rows if r.log == number]
        wrong = (sigma[number] > _HARDLY * problem.torque_size)[problem.present[number]].any()
        if not own or not wrong:
            continue
        begins = {r.block: r.begin for r in own}
        blocks = [
            (
                triangle(np.concatenate([r.R / sigma[number, r.joint] for r in mine])),
                sum(r.count for r in mine),
            )
            for mine in ([r for r in own if r.block == block] for block in begins)
        ]
        ratio, first, end = _best_part(held_rows(problem, own[0].R.shape[1]), blocks)
        if ratio > least:
            times = [f"{t - log.zero_time:.1f}".removesuffix(".0") for t in begins.values()]
            middle = end < len(blocks)
            when = (
                f"between {times[first]} and {times[end]} s"
                if middle
                else f"after {times[first]} s"
            )
            last = f" or LOG@{times[end]}:" if middle else f" or LOG@{times[first]}:"
            made.append(
                f"The robot changed during {log.source}: one for all of it leaves {ratio:.2g} "
                f"times the error that one more for the time {when} does. Was a load or a tool "
                "taken or changed, did something push it, did a joint slip, or did drives warm up? "
                f"Identify from one part, LOG@:{times[first]}{last}."
            )
    return made


def _best_part(held: Array, blocks: Sequence[tuple[Array, int]]) -> tuple[float, int, int]:
    """The largest ratio of errors, of one robot and of two, and the blocks of the part between.

    The second robot is that of a part in the middle, or up to the end. Blocks are triangles (c, c)
    with their numbers of rows, and `held` what holds parameters that they do not determine.
    """
    size, n_blocks = held.shape[1] - 1, len(blocks)
    counts = np.concatenate([[0.0], np.cumsum([count for _, count in blocks])])
    before, behind = [held], [held]
    for R, _ in blocks:
        before.append(joined(before[-1], R))
    for R, _ in reversed(blocks):
        behind.append(joined(behind[-1], R))
    whole, n = before[-1][size, size] ** 2, float(counts[-1])
    least = _ROWS_OF_A_LOG * size
    best = (0.0, 0, 0)
    for first in range(_LEAST_BLOCKS, n_blocks - _LEAST_BLOCKS + 1):
        inside = held
        for end in range(first + 1, n_blocks + 1):
            inside = joined(inside, blocks[end - 1][0])
            rows = float(counts[end] - counts[first])
            if end - first < _LEAST_BLOCKS or min(rows, n - rows) < least:
                continue
            outside = (
                before[first] if end == n_blocks else joined(before[first], behind[n_blocks - end])
            )
            each = (inside[size, size] ** 2 + outside[size, size] ** 2) / (n - 2.0 * size)
            ratio = np.sqrt(whole / (n - size) / max(each, np.finfo(float).tiny))
            best = max(best, (float(ratio), first, end))
    return best
