"""From a clean log to the motion that regressors need: q, v, a and torques on an even grid.

Two low-pass filters are at work, both without phase:

- Positions and torques pass a Butterworth filter with the same `cutoff` before positions are
  differentiated: differentiation would drown the signal in noise otherwise.
- Regressor and torques pass one more, narrower filter (`band`) together, and are decimated to what
  it leaves: the *parallel* filter of thesis section 5.2.3. The regressor is not linear in the
  motion (think of sign(v)), so that filtering positions and torques alone would leave them a
  different history, and bias the parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from bodysense.doctor import Diagnosis
from bodysense.errors import MismatchError, ShapeError
from bodysense.logs.filtering import (
    LEAST_RANGE,
    LEAST_TRAVEL,
    STILL_SPEED,
    decimate,
    fir_lowpass,
    lowpass,
    resample,
    smooth_motion,
    standing,
    usable_cutoff,
)
from bodysense.logs.log import Log, require_log
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array

_SCORE_BORDER = 0.5  # s that are cut at most at each end where models are scored
_BAND_RATIO = 1.25
"""Cut-off of the positions over that of the parallel filter, which removes the transition band of
the first filter."""


@dataclass(frozen=True)
class Preprocessing:
    """How logs are filtered; `None` means chosen from the data (see `choose_cutoff`).

    Attributes:
        cutoff: of positions and torques before differentiation [Hz]; infinite for no filter: then
            every sample counts as it was recorded, unless there is a `band`.
        order: of the Butterworth filter in one direction.
        band: cut-off of the parallel filter of regressor and torques [Hz]; by default the cut-off
            divided by 1.25; infinite for none.
        accuracy: order of the central differences.
        border: seconds cut off at each end, where filters have no past or future; by default one
            period of the cut-off.
        still_speed: rows of joints slower than this are left out of the fit [rad/s or m/s]: a
            standing joint holds with any friction up to Fc. By default 0.02, less for joints that
            move slowly throughout, where the friction law has Coulomb friction; and 0, which keeps
            every row, where it has not.
        decimate: whether the parallel filter is used; without it every sample counts.
        still_share: of its filter's window that a joint may stand where a row counts. By default
            next to nothing where the friction law jumps at zero speed, whose sign is noise then; a
            quarter where it is smooth, so that reversals count.
        score_cutoff: of the torques that scores compare, and of the motion they are predicted from
            [Hz]: the reference bandwidth (see `Bandwidth`), whatever the cut-off is.
    """

    cutoff: float | None = None
    order: int = 4
    band: float | None = None
    accuracy: int = 4
    border: float | None = None
    still_speed: float | None = None
    decimate: bool = True
    still_share: float | None = None
    score_cutoff: float | None = None

    def __post_init__(self) -> None:
        for name in ("cutoff", "band", "score_cutoff"):
            value = getattr(self, name)
            if value is not None and not (
                value > 0.0 and (name != "score_cutoff" or value < np.inf)
            ):
                raise ShapeError(f"{name} is {value:g}: give a positive frequency in Hz.")
        for name in ("border", "still_speed", "still_share"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value >= 0.0):
                raise ShapeError(f"{name} is {value:g}: give zero or a positive number.")
        if self.order < 1:
            raise ShapeError(f"order is {self.order}: give a whole number from 1.")

    @property
    def cutoff_words(self) -> str:
        """The cut-off with its unit, or none."""
        if self.cutoff is None:
            return "to be chosen"
        return f"{self.cutoff:.3g} Hz" if np.isfinite(self.cutoff) else "none"

    def settled(self, robot: Robot, cutoff: float) -> Preprocessing:
        """The same with every choice made."""
        cutoff = self.cutoff if self.cutoff is not None else cutoff
        still, share = self.still_speed, self.still_share
        if still is None:
            still = STILL_SPEED if "Fc" in robot.friction.model.terms else 0.0
        if share is None:
            share = _SMOOTH_STILL_SHARE if reverses_smoothly(robot) else _STILL_SHARE
        return replace(
            self,
            cutoff=cutoff,
            band=self.band if self.band is not None else cutoff / _BAND_RATIO,
            border=self.border if self.border is not None else 1.0 / cutoff,
            still_speed=still,
            still_share=share,
        )

    def for_scores(self) -> Preprocessing:
        """How motions and torques are filtered where models are scored, from settled settings.

        Little is cut at the ends, so that short recordings can be scored at a low bandwidth, too.
        """
        cutoff = self.score_cutoff
        if cutoff is None or cutoff == self.cutoff:
            return self
        border = min(1.0 / cutoff, _SCORE_BORDER)
        return replace(self, cutoff=cutoff, band=cutoff / _BAND_RATIO, border=border)


def reverses_smoothly(robot: Robot) -> bool:
    """Whether the friction law of every joint is smooth at zero speed."""
    model, shape = robot.friction.model, robot.friction.shape
    width = [shape[:, k] for k, name in enumerate(model.shape) if name == "width"]
    return "Fc" not in model.terms or (bool(width) and bool((width[0] > 0.0).all()))


@dataclass(frozen=True, eq=False)
class Motion:
    """A piece of a log on an even grid.

    Attributes:
        t: (n_t,) times [s].
        q: (n_t, n) positions, filtered.
        v: (n_t, n) velocities.
        a: (n_t, n) accelerations.
        tau: (n_t, n) torques, filtered like the positions.
        tau_raw: (n_t, n) torques as recorded.
        rate: samples per second [Hz].
        log: which log it is a piece of, counted from 0.
        q_raw: (n_t, n) positions as recorded, where they differ from q.
        reference: (n_t, n) reference positions of the controller, if the log has them.
        still: (n_t, n) where joints stand, if v cannot tell (see `standing`).
    """

    t: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    tau_raw: Array
    rate: float
    log: int = 0
    q_raw: Array | None = None
    reference: Array | None = None
    still: NDArray[np.bool_] | None = None


def motions(
    robot: Robot, pieces: Sequence[Sequence[Log]], settings: Preprocessing
) -> tuple[Motion, ...]:
    """Resample, filter, differentiate and cut the clean pieces of all logs, by settled settings.

    Raises:
        MismatchError: nothing is left after the borders are cut.
    """
    require_robot(robot)
    require_fixed(robot)
    made = [
        motion
        for number, log in enumerate(pieces)
        for piece in log
        if (motion := _motion(robot, piece, number, settings)) is not None
    ]
    if not made:
        raise MismatchError(
            "no piece of the log is longer than its borders: record for longer, or raise the "
            "cut-off, which shortens them."
        )
    speed = settings.still_speed or 0.0
    for log in {motion.log for motion in made} if speed > 0.0 else ():
        held = held_joints(robot, [motion for motion in made if motion.log == log])
        if held.any() and not held.all():
            made = [
                replace(m, still=standing(m.v, speed) | held) if m.log == log else m for m in made
            ]
    return tuple(made)


def held_joints(robot: Robot, made: Sequence[Motion]) -> NDArray[np.bool_]:
    """(n,) joints that stay where they are in all motions of a recording."""
    lowest = np.min([motion.q.min(axis=0) for motion in made], axis=0)
    highest = np.max([motion.q.max(axis=0) for motion in made], axis=0)
    slides = np.array(robot.joint_types) == "prismatic"
    held: NDArray[np.bool_] = highest - lowest < np.where(slides, LEAST_RANGE, LEAST_TRAVEL)
    return held


def require_below_half(cutoff: float, rates: Iterable[float]) -> None:
    """Raise if no recording is sampled fast enough [Hz] for a cut-off [Hz]."""
    fastest = max(rates)
    if np.isfinite(cutoff) and cutoff >= 0.5 * fastest:
        raise ShapeError(
            f"the cut-off is {cutoff:g} Hz: give one below half the sampling rate, "
            f"{0.5 * fastest:.4g} Hz, or leave it out, so that it is chosen."
        )


def as_logs(given: Log | Sequence[Log]) -> list[Log]:
    """One log or several, as a list."""
    if isinstance(given, Log):
        return [given]
    if isinstance(given, str | PathLike) or not isinstance(given, Iterable):
        require_log(given)
    logs = list(given)
    for log in logs:
        require_log(log)
    return logs


def share_samples(one: Diagnosis, other: Diagnosis) -> bool:
    """Whether two diagnoses are of the same recording, and of ranges of it that overlap."""
    if not one.digest or one.digest != other.digest:
        return False
    spans = [
        (min(s.t[0] for s in d.segments), max(s.t[-1] for s in d.segments))
        for d in (one, other)
        if d.segments
    ]
    return len(spans) < 2 or max(a for a, _ in spans) < min(b for _, b in spans)


def require_fixed(robot: Robot) -> None:
    """Raise unless the base is fixed: joint logs lack the motion of a floating one."""
    if robot.floating_base or robot.n_joints == 0:
        raise MismatchError(
            f"{robot.name!r} {'floats' if robot.floating_base else 'has no joints'}: joint logs "
            "identify fixed-base robots with joints. If its base stood still, load it "
            "with a fixed one (--fixed; in Python floating_base=False)."
        )


def _motion(robot: Robot, piece: Log, number: int, settings: Preprocessing) -> Motion | None:
    cutoff, border = settings.cutoff, settings.border
    if cutoff is None or border is None:
        raise ShapeError("the preprocessing is not settled: call settled(robot, cutoff) first.")
    if piece.t.size < 8:
        return None
    log, rate = resample(piece)
    names = robot.joint_names
    q_raw, tau_raw = log.joints("q", names), log.joints("tau", names)
    recorded = all(f"q_des.{name}" in log.channels for name in names)
    reference = log.joints("q_des", names) if recorded else None
    limit = usable_cutoff(cutoff, rate)
    q, v, a = smooth_motion(q_raw, rate, limit, order=settings.order, accuracy=settings.accuracy)
    tau = lowpass(tau_raw, rate, limit, order=settings.order)
    cut = int(np.ceil(border * rate))
    kept = slice(cut, q.shape[0] - cut)
    if q.shape[0] - 2 * cut < 8:
        return None
    q, v, a, tau, tau_raw, q_raw = (
        np.ascontiguousarray(x[kept]) for x in (q, v, a, tau, tau_raw, q_raw)
    )
    return Motion(
        log.t[kept],
        q,
        v,
        a,
        tau,
        tau_raw,
        rate,
        number,
        q_raw=q_raw,
        reference=None if reference is None else np.ascontiguousarray(reference[kept]),
    )


# How a motion becomes rows: which samples, filtered how, and in which fold each is held out.

FOLDS = 3
"""Of cross-validation."""

_BLOCKS_PER_FOLD = 6  # at least, in recordings that are long enough
_MIN_BLOCK = 0.5  # duration of a block [s]
_FILTER_LENGTHS_PER_BLOCK = 4.0  # at least: its window reaches into the next block
_STILL_SHARE = 0.005  # of its filter's window that may be standstill where a row counts, …
_SMOOTH_STILL_SHARE = 0.25  # … and where friction is smooth: what it errs by there is no more
_OVERSAMPLING = 12.0  # rate at which regressors are computed, in units of the cut-off


@dataclass(frozen=True, eq=False)
class Plan:
    """How a motion becomes rows: every `stride`-th sample, filtered by `taps`, every `step`-th.

    Attributes:
        stride: between the samples that are used.
        step: between rows, in such samples.
        taps: of the filter; one alone for none.
        n_out: number of rows.
        still_share: of the filter's window that a joint may stand where a row counts.
    """

    stride: int
    step: int
    taps: Array
    n_out: int
    still_share: float = _STILL_SHARE

    @classmethod
    def of(cls, motion: Motion, settings: Preprocessing) -> Plan:
        """The plan of a motion; settings with all choices made."""
        cutoff, band = settings.cutoff, settings.band
        if cutoff is None or band is None:
            raise ShapeError("the preprocessing is not settled: call settled(robot, cutoff) first.")
        share = _STILL_SHARE if settings.still_share is None else settings.still_share
        n_t = motion.t.size
        if not settings.decimate or band == np.inf:
            return cls(1, 1, np.ones(1), n_t, share)
        # Beyond some times the cut-off, samples repeat each other.
        stride = max(1, int(motion.rate / (_OVERSAMPLING * cutoff)))
        rate = motion.rate / stride
        n_t = -(-n_t // stride)
        band = min(band, 0.4 * rate)
        taps = fir_lowpass(rate, band)
        step = max(1, int(rate / (2.5 * band)))
        if n_t < taps.size + 4 * step:  # too short for the filter: all samples count as they are
            return cls(stride, 1, np.ones(1), n_t, share)
        return cls(stride, step, taps, (n_t - taps.size) // step + 1, share)

    def filtered(self, x: Array) -> Array:
        """Rows from samples (m, …): filtered, every `step`-th."""
        return decimate(x, self.taps, self.step) if self.taps.size > 1 else np.array(x)

    def moving(self, still: NDArray[np.bool_]) -> Array:
        """Rows (…, n) that count, 1 or 0, from where joints stand in samples (m, n)."""
        window = np.abs(self.taps) / np.abs(self.taps).sum()
        share = decimate(np.ascontiguousarray(still, dtype=np.float64), window, self.step)
        return (share < self.still_share).astype(np.float64)


def moving_rows(
    robot: Robot, moved: Sequence[Motion], settings: Preprocessing
) -> tuple[Array, ...]:
    """(rows, n) of each motion: 1 where a joint moves, 0 where it stands by settled settings."""
    speed, made = settings.still_speed or 0.0, []
    for motion in moved:
        plan = Plan.of(motion, settings)
        v, known = motion.v[:: plan.stride], motion.still
        still = standing(v, speed) if known is None else known[:: plan.stride]
        use = plan.moving(still)[: plan.n_out]
        made.append(use if speed > 0.0 else np.ones_like(use))
    return tuple(made)


def block_of(t: Array, filter_length: float = 0.0) -> NDArray[np.int64]:
    """(n_t,) block of each time, counted from 0; they are dealt out to the folds in turn.

    Blocks last at least half a second, and some lengths of the filter [s], whose window reaches
    from one block into the next.
    """
    span = float(t[-1] - t[0]) if t.size else 0.0
    block = max(
        _MIN_BLOCK,
        _FILTER_LENGTHS_PER_BLOCK * filter_length,
        span / (FOLDS * _BLOCKS_PER_FOLD),
    )
    block = min(block, max(span / FOLDS, np.finfo(float).tiny))
    blocks: NDArray[np.int64] = ((t - t[0]) / block + 1e-9).astype(np.int64)
    return blocks


def time_blocks(motion: Motion, settings: Preprocessing) -> NDArray[np.int64]:
    """(n_t,) block of each sample of a motion: each is held out as a whole."""
    plan = Plan.of(motion, settings)
    return block_of(motion.t, plan.taps.size * plan.stride / motion.rate)


def folds_of(
    motion: Motion, fitted: Sequence[Motion], settings: Preprocessing
) -> NDArray[np.int64]:
    """(n_t,) held-out fold of each sample of a motion, as in the motions that are fitted.

    They may be filtered otherwise; samples are matched by their times.
    """
    here = (m for m in fitted if m.log == motion.log)
    own = next((m for m in here if m.t[0] < motion.t[-1] and motion.t[0] < m.t[-1]), motion)
    folds: NDArray[np.int64] = time_blocks(own, settings) % FOLDS
    if own is not motion:
        folds = folds[np.searchsorted(own.t, motion.t).clip(max=own.t.size - 1)]
    return folds
