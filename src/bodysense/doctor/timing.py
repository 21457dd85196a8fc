"""Time: its order, repeats, gaps and evenness."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor.samples import LogSamples, row_ranges, runs, spread, time_edit
from bodysense.errors import count
from bodysense.logs.filtering import LEAST_RANGE
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array
from bodysense.status import Severity

# A clock that goes wrong for more rows in a row than this was set anew; for fewer, it stumbled.
_STUMBLE = 3
# A clock that runs backward more often than once in a hundred rows is none.
_STUMBLES, _STUMBLES_AT_MOST = 0.01, 10
# One repeated time in ten is more than a recorder that wrote a row twice.
_MANY_REPEATS = 0.1
# A step of 2.5 usual ones has lost a sample for certain, even where steps of one and two
# alternate.
_LOST_SAMPLE = 2.5
# Uneven steps matter to differentiation in proportion: 5 % of a velocity. Beyond a whole step
# either way, the time is hardly worth its name.
_UNEVEN, _VERY_UNEVEN = 0.05, 2.0
# Steps of positions against those that speed and time stamps demand, in all joints at once: from
# two of them a sample is missing, where that is rare; by a third either way, on average, times
# were made up.
_LOST_STEP, _MADE_UP = 1.8, 0.3
# A wrong time moves all joints alike: nine tenths of the squared deviation. Noise does not, in
# steps in which one and a half joints move, counted by their share.
_ALIKE, _LEAST_JOINTS = 0.9, 1.5
_LEAST_LOST, _RARELY_LOST = 3, 0.04  # steps: one or two may be a push, many are no loss
_SMOOTHED = 9  # steps whose median speed counts as the true one
# More than a tenth of the time lost.
_MUCH_LOST = 0.1
# Motions of arms have content up to some 10 Hz: 25 Hz is just enough to see it, and below 2 Hz
# there is nothing to differentiate.
_LOW_RATE, _NO_RATE = 25.0, 2.0
# No drive reports more often than this; a higher rate is a time in the wrong unit.
_ANY_RATE = 2.5e4
# Shorter recordings hold less than one motion.
_SHORT, _TOO_SHORT = 1.0, 0.2


def time_order(robot: Robot, samples: LogSamples) -> LogSamples:
    """Make time ascend: sort rows that were written late, split where the clock was set back."""
    if (np.diff(samples.t) < 0.0).any():
        samples = _ascending(samples)
    repeated = np.zeros(samples.n, dtype=bool)
    repeated[1:] = (np.diff(samples.t) <= 0.0) & samples.joined
    copies = np.zeros(samples.n, dtype=bool)
    copies[1:] = repeated[1:] & np.all(
        [(np.diff(values, axis=0) == 0.0).all(axis=1) for _, values in samples.blocks], axis=0
    )
    if copies.any():
        n_copies = np.count_nonzero(copies)
        text = f"{n_copies} of {samples.n} rows are copies of the row before"
        where = row_ranges(samples.rows[copies])
        samples = samples.kept(~copies).report("repeated-rows", "note", where, text, "left out")
        repeated = repeated[~copies]
    n_repeated = np.count_nonzero(repeated)
    if not n_repeated:
        return samples
    many = n_repeated > _MANY_REPEATS * samples.n
    return samples.kept(~repeated).report(
        "repeated-time",
        "warning" if many else "note",
        row_ranges(samples.rows[repeated]),
        f"{n_repeated} of {samples.n} rows have the time of the row before"
        + (": the clock is coarser than the sampling" if many else ""),
        "all but the first of each time left out"
        + ("; if sampling was even, give `rate: …` [Hz] in the layout" if many else ""),
    )


def gaps(robot: Robot, samples: LogSamples) -> LogSamples:
    """Split at gaps that cannot be bridged, and drop pieces of a few samples."""
    period, same = samples.period, samples.joined
    step = np.diff(samples.t)
    lost = same & (step > _LOST_SAMPLE * period)
    longest = max(samples.rules.gap_steps * period, samples.rules.gap_time)
    long = lost & (step > longest)
    for where, action in (
        (lost & ~long, "bridged by interpolation"),
        (long, "the recording is split there"),
    ):
        if not where.any():
            continue
        k = np.flatnonzero(where)
        total = float(step[k].sum())
        together = f", {_seconds(total)} together" if k.size > 1 else ""
        much = total > _MUCH_LOST * float(step[same].sum())
        samples = samples.report(
            "gap",
            "warning" if much else "note",
            f"before {row_ranges(samples.rows[k + 1])}",
            f"{count(k.size, 'step')} of up to {_seconds(step[k].max())} where "
            f"{_seconds(period)} is usual{together}",
            action,
        )
    return _without_fragments(samples.split(np.flatnonzero(long) + 1))


def evenness(robot: Robot, samples: LogSamples) -> LogSamples:
    """Report uneven sampling, and rates at which nothing can be differentiated."""
    period = samples.period
    if not np.isfinite(period):
        return samples
    rate = 1.0 / period if period > 0.0 else np.inf
    unit = time_edit(_likely_unit(period))
    if rate < _NO_RATE or rate > _ANY_RATE:
        samples = samples.report(
            "time-unit",
            "error",
            "t",
            f"samples are {_seconds(period)} apart, if time is in seconds",
            f"no arm can be identified so: write the unit of time, {unit}",
        )
    elif rate < _LOW_RATE:
        text = f"there are {rate:.3g} samples per second, which hardly shows accelerations"
        action = f"record at 100 Hz or more, or write the unit of time, {unit}"
        samples = samples.report("low-rate", "warning", "t", text, action)
    steps = samples.steps
    width = spread(steps) / period
    if width <= _UNEVEN:
        return samples
    low, high = np.percentile(steps, (1.0, 99.0))
    return samples.report(
        "jitter",
        "warning" if width > _VERY_UNEVEN else "note",
        "t",
        f"samples are {_seconds(low)} to {_seconds(high)} apart, {_seconds(period)} most "
        f"often ({_seconds(steps.min())} to {_seconds(steps.max())} at the extremes)",
        f"resampled to even steps ({1.0 / steps.mean():.4g} Hz on average) before anything is "
        "filtered",
    )


def sampling_times(robot: Robot, samples: LogSamples) -> LogSamples:
    """Hold time against the positions: a wrong step of time moves all joints too far at once.

    With u the steps (n_joints,) that the usual speed and the time stamps demand, and d those that
    were made,

        m = d · u / u · u

    is the time that passed over the time that is stated, if most of |d - u|² lies along u.
    """
    if samples.n < 10 * _SMOOTHED or len(samples.joint_names) < 2:
        return samples
    from scipy.ndimage import median_filter

    width = np.array([spread(x) for x in samples.q.T])
    dt = np.diff(samples.t)[:, None]
    # A joint that stands makes steps of noise alone.
    made = np.diff(samples.q, axis=0) / np.where(width > LEAST_RANGE, width, np.inf)
    demanded = median_filter(made / dt, (_SMOOTHED, 1), mode="nearest") * dt
    squared = np.square(demanded)
    joints = squared.sum(axis=1) ** 2 / np.maximum(np.square(squared).sum(axis=1), 1e-300)
    told = samples.joined & (joints > _LEAST_JOINTS)
    # Slow steps are mostly noise: those count that are as large as the usual one at least.
    size = squared.sum(axis=1)
    told &= size >= np.median(size[told]) if told.any() else False
    made, demanded, size = made[told], demanded[told], size[told]
    factor = (made * demanded).sum(axis=1) / size
    along, all_ = np.square(factor - 1.0) * size, np.square(made - demanded).sum(axis=1)
    lost = (factor > _LOST_STEP) & (along > _ALIKE * all_)
    if _LEAST_LOST <= np.count_nonzero(lost) <= _RARELY_LOST * lost.size:
        return samples.report(
            "lost-samples",
            "warning",
            f"before {row_ranges(samples.rows[np.flatnonzero(told)[lost] + 1])}",
            f"all joints move up to {factor[lost].max():.2g} times as far as their speed allows "
            f"in {count(int(np.count_nonzero(lost)), 'step')}: samples are missing there, and the "
            "time stamps do not show it",
            "record the time at which each sample was taken; time that was made from row numbers "
            "is wrong",
        )
    uneven = float(np.sqrt(np.mean(np.square(factor - 1.0)))) if factor.size else 0.0
    if uneven > _MADE_UP and along.sum() > _ALIKE * all_.sum():
        return samples.report(
            "uneven-samples",
            "warning",
            "t",
            f"steps of all joints are longer and shorter together, by {100.0 * uneven:.0f} % of a "
            "step: samples were taken unevenly, and the time stamps do not show it",
            "record the time at which each sample was taken, not the one at which it was written; "
            "or, if samples were taken evenly, give `rate: …` [Hz] in the layout instead of times",
        )
    return samples


def length(robot: Robot, samples: LogSamples) -> LogSamples:
    """Report recordings of which too little is left."""
    samples = _without_fragments(samples)
    total = float(samples.steps.sum())
    if samples.n < samples.rules.least_samples or total < _TOO_SHORT:
        severity: Severity = "error"
    elif total < _SHORT:
        severity = "warning"
    else:
        return samples
    text = f"{samples.n} good samples over {_seconds(total)} are left"
    action = "record a longer motion: ten seconds of moving all joints is usual"
    return samples.report("too-short", severity, "t", text, action)


def _ascending(samples: LogSamples) -> LogSamples:
    """Sort, drop or split, whichever leaves the positions smoothest."""
    t, kind = samples.t, "backward-time"
    back = np.flatnonzero(np.diff(t) < 0.0) + 1
    where = row_ranges(samples.rows[back])
    worst = float(-np.diff(t).min())
    text = f"time runs backward {count(back.size, 'time')}, by up to {_seconds(worst)}"
    ordered = samples.sorted_by_time()
    if _path(ordered.q) <= _path(samples.q):
        text += "; in the order of time, positions are smooth: rows were written late"
        return ordered.report(kind, "note", where, text, "sorted by time")
    if back.size > max(_STUMBLES_AT_MOST, _STUMBLES * samples.n):
        return samples.kept(np.zeros(samples.n, dtype=bool)).report(
            kind,
            "error",
            where,
            f"{text}, and sorted by time the positions make no motion: invalid timestamps",
            "name the right column of time in the layout file, or give `rate: …` [Hz] instead",
        )
    late = np.ones(samples.n, dtype=bool)
    late[_longest_ascending(t)] = False
    first, end = runs(late)
    if first.size and (end - first).max() <= _STUMBLE:
        where, text = row_ranges(samples.rows[late]), f"{text}: the clock stumbled"
        return samples.kept(~late).report(kind, "note", where, text, "these rows left out")
    text += ": the clock was set back, or recordings were joined"
    return samples.split(back).report(kind, "warning", where, text, "the recording is split there")


def _path(q: Array) -> float:
    """Length of the way that the joints go, each in parts of its range."""
    widths = np.array([spread(x) for x in q.T])
    steps = np.nan_to_num(np.abs(np.diff(q, axis=0)), nan=0.0, posinf=0.0)
    # Rounded: sums in another order differ in the last digits.
    return round(float((steps.sum(axis=0) / np.where(widths > 0.0, widths, np.inf)).sum()), 6)


def _longest_ascending(t: Array) -> NDArray[np.intp]:
    """Places of the longest run of strictly ascending times, gaps allowed (patience sorting)."""
    ends: list[float] = []
    place: list[int] = []
    before = np.full(t.size, -1, dtype=np.intp)
    for k, x in enumerate(t.tolist()):
        j = bisect_left(ends, x)
        before[k] = place[j - 1] if j else -1
        if j == len(ends):
            ends.append(x)
            place.append(k)
        else:
            ends[j], place[j] = x, k
    chain = np.empty(len(place), dtype=np.intp)
    k = place[-1]
    for j in range(len(place) - 1, -1, -1):
        chain[j], k = k, int(before[k])
    return chain


def _without_fragments(samples: LogSamples) -> LogSamples:
    least = samples.rules.least_samples
    tiny = (np.bincount(samples.piece) < least)[samples.piece]
    if not tiny.any() or tiny.all():
        return samples
    n_tiny = int(np.count_nonzero(tiny))
    return samples.kept(~tiny).report(
        "fragment",
        "warning" if n_tiny > _MUCH_LOST * samples.n else "note",
        row_ranges(samples.rows[tiny]),
        f"{count(n_tiny, 'row')} between gaps, in groups of less than {least}",
        "left out",
    )


def _likely_unit(period: float) -> str:
    """The unit in which a period would be that of a rate between 20 Hz and 20 kHz."""
    if period < 1.0 / _ANY_RATE:  # seconds that were taken for ms, say
        return "s"
    for unit, seconds in (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if period * seconds < 0.05:
            return unit
    return "s"


def _seconds(x: float) -> str:
    return f"{x:.3g} s" if not abs(x) < 1.0 else f"{1e3 * x:.3g} ms"
