"""Ways to damage a recording, or what is said of it, each with the words that name the cause.

Where a damage hits one joint, `{joint}` in the words stands for its name: the cause is named only
where the joint is named with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pinocchio as pin

from benchmarks import damaged_logs as logs
from benchmarks.sabotage_subjects import (
    DURATION,
    RATE,
    Subject,
    file_of,
    simulate,
    with_drives,
)
from bodysense import Robot
from bodysense.identification import Knowledge
from bodysense.robot import with_payload

LOAD = 0.15  # of the robot's mass, that it carries and nobody knows of
FAMILY = {"example:ur5": "example:ur10"}  # the larger robot of the same family; others are scaled
OTHERS = {
    "tx40": "rv2sq",
    "rv2sq": "tx40",
    "example:panda": "example:xarm7",
    "example:ur5": "rv2sq",
}


@dataclass(frozen=True)
class Damage:
    """One way to spoil an identification.

    Attributes:
        name: what was done.
        apply: a clean subject → the damaged one.
        words: regular expressions; one that matches in a sentence names the cause.
    """

    name: str
    apply: Callable[[Subject], Subject]
    words: tuple[str, ...]


# What was recorded is not what the file describes.


def _scaled(robot: Robot, length: float, mass: float) -> Robot:
    """A robot of the same build: lengths and masses times a factor."""
    model = robot.model.copy()
    for k in range(1, model.njoints):
        placement = model.jointPlacements[k]
        model.jointPlacements[k] = pin.SE3(placement.rotation, length * placement.translation)
        body = model.inertias[k]
        model.inertias[k] = pin.Inertia(
            mass * body.mass, length * body.lever, mass * length**2 * body.inertia
        )
    # Drives grow with the torque that they give.
    factor = mass * length
    drives = {
        term: factor * robot.theta[robot.layout.places(term)]
        for term in ("Ia", *robot.friction.model.terms)
    }
    model.effortLimit = factor * model.effortLimit
    return Robot.from_pinocchio(
        model,
        friction=robot.friction,
        coefficients=drives,
        actuators=robot.actuators,
        controller=robot.controller,
        acceleration_limit=robot.acceleration_limit,
        allow_inconsistent=True,
    )


def _larger(subject: Subject) -> Subject:
    name = FAMILY.get(subject.name)
    other = with_drives(file_of(name)) if name else _scaled(subject.truth, 1.35, 1.8)
    return subject.simulated_as(other)


def _other(subject: Subject) -> Subject:
    return subject.simulated_as(with_drives(file_of(OTHERS[subject.name])))


def _gravity(robot: Robot, gravity: tuple[float, float, float]) -> Robot:
    model = robot.model.copy()
    model.gravity.linear = np.array(gravity)
    return replace(robot, model=model)


def _mounted(gravity: tuple[float, float, float], subject: Subject) -> Subject:
    return subject.simulated_as(_gravity(subject.truth, gravity))


def _loaded(subject: Subject) -> Robot:
    truth = subject.truth
    mass = LOAD * sum(float(truth.pi(k)[0]) for k in range(truth.layout.n_links))
    return with_payload(truth, mass, com=(0.0, 0.0, 0.1), inertia=1e-3 * mass * np.eye(3))


def _loaded_meanwhile(begin: float, end: float, subject: Subject) -> Subject:
    """With a load between two shares of the recording, and without it before and after."""
    loaded = simulate(_loaded(subject), subject.motion, subject.seed)
    n = subject.log.t.size
    inside = (np.arange(n) >= begin * n) & (np.arange(n) < end * n)
    q, tau = (
        np.where(inside[:, None], *(log.joints(x, subject.given.joint_names) for log in both))
        for both in [(loaded, subject.log)]
        for x in ("q", "tau")
    )
    return subject.recorded_as(q, tau)


def _warming(subject: Subject) -> Subject:
    log = simulate(
        subject.truth,
        subject.motion,
        subject.seed,
        friction=lambda t: 1.6 - 1.0 * t / DURATION,
    )
    return replace(subject, log=log)


def _bump(subject: Subject) -> Subject:
    """Somebody pushes two joints for a second in the middle of the motion."""
    size = 1.5 * np.sqrt((subject.tau**2).mean(axis=0))

    def push(t: float) -> dict[int, float]:
        return {0: size[0], 2: size[2]} if 5.0 < t < 6.0 else {}

    return replace(subject, log=simulate(subject.truth, subject.motion, subject.seed, push=push))


def _saturated(subject: Subject) -> Subject:
    limit = 0.5 * np.abs(subject.tau).max(axis=0)
    log = simulate(subject.truth, subject.motion, subject.seed, limit=limit)
    return replace(subject, log=log)


# What the user says of the robot.


def _known_mass(subject: Subject) -> Subject:
    link = subject.given.link_names[1]
    mass = 3.0 * float(subject.truth.pi(1)[0])
    return replace(subject, knowledge=Knowledge(masses={link: mass}))


def _known_total(subject: Subject) -> Subject:
    truth = subject.truth
    mass = 0.4 * sum(float(truth.pi(k)[0]) for k in range(truth.layout.n_links))
    return replace(subject, knowledge=Knowledge(total_mass=mass))


def _inertial_factor(factor: float, subject: Subject) -> Subject:
    given = subject.given
    theta = given.theta.copy()
    theta[given.layout.inertial] *= factor
    return replace(subject, given=given.with_parameters(theta))


def _velocities(factor: float, subject: Subject) -> Subject:
    q = subject.q
    v = factor * np.gradient(q, 1.0 / RATE, axis=0)
    names = [f"v.{name}" for name in subject.given.joint_names]
    channels = {**subject.log.channels, **dict(zip(names, np.ascontiguousarray(v.T), strict=True))}
    return replace(subject, log=replace(subject.log, channels=channels))


# Words that name a cause: expressions of which one must match within a single sentence.

_SCALE = (r"{joint}.*(scale|times|factor|gain)", r"(scale|times|factor|gain).*{joint}")
_ZERO = (r"{joint}.*\bzero", r"\bzero\b.*{joint}")
_GAINS = (r"drive gains", r"gains? of all")
_SIGN = (r"torque-sign.*{joint}", r"{joint}.*opposite", r"opposite.*{joint}")
_LATE = (r"\b(late|delay|lag|ahead|earlier)",)
_ROBOT = (r"another robot", r"geometry", r"link lengths", r"links were .* times as long")
_TIME = (
    r"time-unit",
    r"durations .*too (long|short)",
    r"time.*(fast|slow|scale|unit)",
    r"\brate\b.*(wrong|unit)",
)
_EVEN = (r"samples? .*(lost|missing|dropped|uneven)", r"(uneven|jitter|dropped|lost) ")
_GRAVITY = (r"gravity.*(direction|mount|tilt|points)", r"(mounted|tilted)")
_LOAD = (r"\bload\b", r"\bpayload")
_DRIFT = (r"\bdrift", r"\bchang\w+ (during|over|within|between|along|in the course)", r"warm")
_DRIFT_OF_GAIN = (r"{joint}.*(grow|fall|drift|chang)", r"(grow|fall|drift|chang).*{joint}")
_MASS = (r"mass.*(check|wrong|unit|gram|implausible|contradict|file)",)

DAMAGES = tuple(
    Damage(name, apply, words)
    for name, apply, words in (
        # Torques.
        ("one torque x 1.3", partial(logs.scale_torque, 1.3, 0), _SCALE),
        ("one torque x 0.5", partial(logs.scale_torque, 0.5, 1), _SCALE),
        ("one torque in mN·m", partial(logs.scale_torque, 1e3, 1), (*_SCALE, r"{joint}.*unit")),
        ("all torques x 1.5", partial(logs.all_torques, lambda s, x: 1.5 * x), _GAINS),
        ("all torques x 0.7", partial(logs.all_torques, lambda s, x: 0.7 * x), _GAINS),
        ("one torque's sign", partial(logs.scale_torque, -1.0, 0), _SIGN),
        (
            "all torques' sign",
            partial(logs.all_torques, lambda s, x: -x),
            (r"torque-sign.*\btau\b", r"all torques.*opposite"),
        ),
        ("two torques swapped", logs.swap_torques, (r"swapped-joints.*{joint}",)),
        ("one torque offset", logs.offset_torque, (r"{joint}.*offset", r"offset.*{joint}")),
        ("one torque drifts", partial(logs.one_torque, logs.drifting, 1), _DRIFT),
        ("one gain drifts", partial(logs.one_torque, logs.swelling, 1), _DRIFT_OF_GAIN),
        ("torques 20 ms late", partial(logs.all_torques, lambda s, x: logs.late(0.02, x)), _LATE),
        (
            "one torque 20 ms late",
            partial(logs.one_torque, lambda s, x: logs.late(0.02, x), 1),
            (r"{joint}.*\b(late|delay|lag)", r"\b(late|delay|lag)\b.*{joint}"),
        ),
        (
            "gravity compensated",
            partial(logs.all_torques, logs.without_gravity),
            (r"gravity.*(compensat|missing|lack|without|not in)",),
        ),
        (
            "torques filtered at 3 Hz",
            partial(logs.all_torques, lambda s, x: logs.lowpassed(3.0, x)),
            (r"(tau|torques?).*(filtered|low-pass|smooth)",),
        ),
        (
            "currents as torques",
            partial(logs.all_torques, logs.to_currents),
            (r"currents", r"drive gains"),
        ),
        (
            "motor-side torques",
            partial(logs.all_torques, lambda s, x: x / 100.0),
            (r"motor torques", r"gear"),
        ),
        ("dead band", partial(logs.one_torque, logs.dead_band, 1), (r"dead.band.*{joint}",)),
        ("held torque", partial(logs.one_torque, logs.held, 1), (r"held-channel.*{joint}",)),
        (
            "coarse torque",
            partial(logs.one_torque, logs.quantised, 0),
            (r"quantised.*({joint}|all)",),
        ),
        ("clipped torque", partial(logs.one_torque, logs.clipped, 0), (r"saturated.*{joint}",)),
        ("dead torque", partial(logs.scale_torque, 0.0, 1), (r"dead-channel.*{joint}",)),
        ("noise 10 times", partial(logs.all_torques, logs.noisy), (r"nois(e|y)",)),
        (
            "spikes",
            partial(logs.one_torque, logs.spikes, 0),
            (r"spike.*{joint}", r"outlier.*{joint}", r"garbage-rows.*{joint}"),
        ),
        # Positions.
        ("one zero off by 0.5", partial(logs.shift_zero, 0.5, 0), _ZERO),
        ("one zero off by 0.1", partial(logs.shift_zero, 0.1, 0), _ZERO),
        ("another zero off by 0.1", partial(logs.shift_zero, -0.1, 1), _ZERO),
        ("one zero drifts by 0.2", partial(logs.drifting_zero, 0.2, 0), _ZERO),
        (
            "one position's sign",
            partial(logs.scale_position, -1.0, 1),
            (r"position-sign.*{joint}", r"beyond-limits.*{joint}.*sign", r"q\.{joint}: -1"),
        ),
        ("one position x 1.2", partial(logs.scale_position, 1.2, 1), _SCALE),
        ("two positions swapped", logs.swap_positions, (r"swapped-joints.*{joint}",)),
        ("degrees", partial(logs.all_positions, np.rad2deg), (r"degrees",)),
        (
            "positions filtered at 5 Hz",
            partial(logs.all_positions, partial(logs.lowpassed, 5.0)),
            (r"positions?.*(filtered|low-pass|smooth)",),
        ),
        (
            "positions filtered at 1 Hz",
            partial(logs.all_positions, partial(logs.lowpassed, 1.0)),
            (r"positions?.*(filtered|low-pass|smooth)",),
        ),
        ("positions 20 ms late", partial(logs.all_positions, partial(logs.late, 0.02)), _LATE),
        ("stuck position", logs.stuck_position, (r"{joint}.*(repeats|stays|stuck|encoder)",)),
        # Time and rows.
        ("time twice as fast", partial(logs.timed, lambda t: 0.5 * t), _TIME),
        ("time half as fast", partial(logs.timed, lambda t: 2.0 * t), _TIME),
        ("milliseconds", partial(logs.timed, lambda t: 1e3 * t), _TIME),
        ("dropped samples, even time", logs.dropped, _EVEN),
        ("uneven samples, even time", logs.jittery, _EVEN),
        ("bursts of NaN", logs.nan_bursts, (r"missing-values", r"no number", r"not.a.number|NaN")),
        ("clock jumps", logs.clock_jumps, (r"backward-time", r"clock")),
        ("10 Hz", logs.slow_rate, (r"low-rate", r"samples per second")),
        ("2 s", logs.short, (r"recording of [\d.]+ s", r"too-short")),
        ("standing", logs.standing, (r"all-still",)),
        (
            "one joint standing",
            logs.one_standing,
            (r"still-joint.*{joint}", r"{joint}.*never moved"),
        ),
        # Another robot than the file describes.
        ("larger robot of the family", _larger, _ROBOT),
        ("another robot", _other, _ROBOT),
        ("on a wall", partial(_mounted, (9.81, 0.0, 0.0)), _GRAVITY),
        ("on a ceiling", partial(_mounted, (0.0, 0.0, 9.81)), _GRAVITY),
        ("base tilted by 0.2", partial(_mounted, (1.949, 0.0, -9.614)), _GRAVITY),
        ("load not in the file", lambda s: s.simulated_as(_loaded(s)), _LOAD),
        ("two configurations", partial(_loaded_meanwhile, 0.5, 1.0), (*_LOAD, *_DRIFT)),
        ("a load in between", partial(_loaded_meanwhile, 0.4, 0.7), (*_LOAD, *_DRIFT)),
        ("friction that warms up", _warming, _DRIFT),
        ("a push", _bump, (r"contact", r"external", r"push", r"touch")),
        ("saturated drives", _saturated, (r"saturat", r"effort limit")),
        # What is said of the robot.
        ("mass of a link x 3", _known_mass, _MASS),
        ("total mass x 0.4", _known_total, _MASS),
        ("masses in grams", partial(_inertial_factor, 1e3), (*_MASS, r"torques are about")),
        ("velocities in deg/s", partial(_velocities, np.rad2deg(1.0)), (r"deg/s",)),
        ("velocities' sign", partial(_velocities, -1.0), (r"velocity-sign",)),
    )
)
"""All that is tried."""
