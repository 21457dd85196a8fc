"""What a stream remembers of joints and sensors, as plain arrays; see `watch`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from bodysense.compiled.jit import called
from bodysense.compiled.views import Integers
from bodysense.spatial.arrays import Array

# Tuning. Times [s] suit robots of 0.1 to 5 Hz of bandwidth, sampled at 100 Hz to 5 kHz.
USUAL = 3.0  # standard deviations up to which a change or a residual counts in full
OUTLIER = 5.0  # beyond which it is called an outlier: one in 2e6 of Gaussian ones
PATIENCE = 3  # samples after which a change that persists is accepted
MEMORY = 1.0  # s, over which usual changes, accelerations and jerks are averaged
LEAST_COUNT = 20  # samples before anything is called unusual
SMOOTH = 0.02  # s, over which accelerations of joints are averaged for prediction
LARGEST_RATIO = 100.0  # of squares of residuals and variance: one sample says no more than that
STOPPING = 1.0  # s, in which a joint that nothing is heard of is taken to have stopped
AT_MOST = 1.5  # times the usual velocity and acceleration: growth of their uncertainty ends
FARTHEST = 1e6  # rad or m: no position of a joint
OVERSPEED = 3.0  # times the limit of velocity: files hold rated values

# Numbers of a sample that kernels and Python share.
DT, WORST, ROBUST, WATCH_SIZE = 0, 1, 2, 3
# Counts of a step.
HELD_Q, HELD_DQ, IMPLAUSIBLE, ODD_STATE, OUTLIERS, UNCERTAIN, ODD_SENSOR, COUNTS = range(8)


class Channels(NamedTuple):
    """What does not change: rows in the order of the user's readings.

    Attributes:
        largest: of each row that is plausible.
        sigma: of its noise.
        counts: 1 where it says something about the unknowns.
        friction: joint whose friction is in it, or -1.
        begin: first row of each sensor, and one behind the last.
        constant: 1 for sensors that never change, 2 for those that are derived where they do not
            come.
        speed: largest plausible velocity of each joint.
        drive: friction coefficients.
        block: of the solver, of each sensor.
        order: the user's row of each of the solver's; those behind are priors.
        fixed: values of the solver's rows that are priors.
        orientation: 1 for the user's rows that tell about the state alone.
    """

    largest: Annotated[Array, "m"]
    sigma: Annotated[Array, "m"]
    counts: Annotated[Integers, "m"]
    friction: Annotated[Integers, "m"]
    begin: Annotated[Integers, "sensors + 1"]
    constant: Annotated[Integers, "sensors"]
    speed: Annotated[Array, "joints"]
    drive: Annotated[Array, "joints", "terms"]
    block: Annotated[Integers, "sensors"]
    order: Annotated[Integers, "rows"]
    fixed: Annotated[Array, "rows"]
    orientation: Annotated[Integers, "m"]


class Watch(NamedTuple):
    """Memory of a stream.

    Attributes:
        now: `DT` since the last sample, negative for none; `WORST` residual in standard deviations;
            `ROBUST` 1 where what differs too much from what is usual counts for less.
        counts: of this step, see `COUNTS`.
        q, dq, ddq: state of the joints, predicted where it is missing.
        s_q, s_dq, s_ddq: standard deviations of predictions; 0 where measured.
        seen: samples with a velocity, of each joint.
        v2, a2, j2: mean squares of velocity, acceleration and jerk of late.
        nu2: mean square of what a velocity differs from its prediction.
        e2: mean square of what a position differs from the integral of velocities.
        odd_q, odd_dq: samples in a row that were not accepted.
        y: (m,) readings of this sample.
        raw: (m,) of the sample before.
        last: (m,) that were accepted last, without the friction of drives.
        change: (m,) mean square of their changes.
        age: [s] since a sensor's last accepted reading.
        steps: samples of each sensor so far.
        odd: samples in a row that were not accepted.
        scale: of the noise of each sensor at this sample.
        doubt: of it, that residuals of the last sample asked for.
        missing: 1 where a sensor gives nothing.
        missing_run, same_run: samples in a row that it is missing, or exactly the same.
        absent, outlying, ratio: shares of late, and mean square of normalised residuals.
        outliers: of each sensor so far.
        bias, bias_var: (m,) constant errors of readings, and what is not known of them.
        phi, dphi: terms of friction.
    """

    now: Annotated[Array, WATCH_SIZE]
    counts: Annotated[Integers, COUNTS]
    q: Annotated[Array, "joints"]
    dq: Annotated[Array, "joints"]
    ddq: Annotated[Array, "joints"]
    s_q: Annotated[Array, "joints"]
    s_dq: Annotated[Array, "joints"]
    s_ddq: Annotated[Array, "joints"]
    seen: Annotated[Integers, "joints"]
    v2: Annotated[Array, "joints"]
    a2: Annotated[Array, "joints"]
    j2: Annotated[Array, "joints"]
    nu2: Annotated[Array, "joints"]
    e2: Annotated[Array, "joints"]
    odd_q: Annotated[Integers, "joints"]
    odd_dq: Annotated[Integers, "joints"]
    y: Annotated[Array, "m"]
    raw: Annotated[Array, "m"]
    last: Annotated[Array, "m"]
    change: Annotated[Array, "m"]
    age: Annotated[Array, "sensors"]
    steps: Annotated[Integers, "sensors"]
    odd: Annotated[Integers, "sensors"]
    scale: Annotated[Array, "sensors"]
    doubt: Annotated[Array, "sensors"]
    missing: Annotated[Integers, "sensors"]
    missing_run: Annotated[Integers, "sensors"]
    same_run: Annotated[Integers, "sensors"]
    absent: Annotated[Array, "sensors"]
    outlying: Annotated[Array, "sensors"]
    ratio: Annotated[Array, "sensors"]
    outliers: Annotated[Integers, "sensors"]
    bias: Annotated[Array, "m"]
    bias_var: Annotated[Array, "m"]
    phi: Annotated[Array, "terms"]
    dphi: Annotated[Array, "terms"]


class Inputs(NamedTuple):
    """What arrived at a sample; NaN where nothing did."""

    q: Annotated[Array, "joints"]
    dq: Annotated[Array, "joints"]
    y: Annotated[Array, "m"]


class Outputs(NamedTuple):
    """What the solver takes of it."""

    q: Annotated[Array, "joints"]
    dq: Annotated[Array, "joints"]
    y: Annotated[Array, "rows"]
    weight: Annotated[Array, "blocks"]


class Residuals(NamedTuple):
    """Of a sample, in the order of the user's readings."""

    rows: Annotated[Array, "rows"]


@called
def share(dt, time):
    """Weight of a new number in an average over a time."""
    return min(1.0, dt / (time + dt))
