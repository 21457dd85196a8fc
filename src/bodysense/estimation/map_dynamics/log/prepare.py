"""`prepare_log`: the estimator of a log, with the state or given it.

Where positions are estimated too, encoders and gyroscopes are readings like all others. A recorded
position that the setup has no encoder for is one with a usual noise. Accelerations that would have
come from differences of positions are left out: they are a part of the state, and would count the
encoders twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError, ShapeError, listing, require_type, unknown_name
from bodysense.estimation.contact.detector import DetectionSettings
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.contacts import find_contacts
from bodysense.estimation.map_dynamics.log.estimate import LogEstimate, bias_sizes
from bodysense.estimation.map_dynamics.log.momentum_estimate import prepare_momentum
from bodysense.estimation.map_dynamics.log.recording import (
    Recording,
    position_channels,
    with_constant_positions,
)
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.map_dynamics.setup import EstimationSetup, StateSetup
from bodysense.estimation.map_dynamics.state.estimator import StateAndDynamics
from bodysense.estimation.map_dynamics.state.prior import StatePrior
from bodysense.logs.log import Log, require_log
from bodysense.robot.robot import Robot, require_robot
from bodysense.sensors.motion_sensors import Encoder, JointAcceleration
from bodysense.sensors.sensor import Sensor, variances
from bodysense.spatial.arrays import Array, as_array

EstimationMethod = Literal["map", "momentum"]
METHODS: tuple[EstimationMethod, ...] = ("map", "momentum")

_ENCODER_STD = 1e-3
"""rad or m: standard deviation of recorded positions that the sensors file has no encoder for."""

_REQUIRED_SAMPLES = 5  # of a log, at which an unmeasured joint must be observable
_WIDE = (1.0, 1.0, 10.0)  # rad, rad/s, rad/s²: prior standard deviations of an unmeasured joint
_NARROWER = 0.9  # share of such a standard deviation below which readings tell something


def prepare_log(
    setup: EstimationSetup,
    robot: Robot,
    log: Log,
    *,
    cutoff: float | None = None,
    parameter_directions: Array | None = None,
    state: StateSetup | None = None,
    detection: DetectionSettings | None = None,
    method: EstimationMethod = "map",
) -> LogEstimate:
    """Prepare the estimates of a log; `LogEstimate.chunks` computes them.

    Where the log has positions of some joints and not of others, or if `state` or the setup asks
    for it, positions and velocities are estimated as well: a `StateLogEstimate` comes back.

    Args:
        setup: sensors and priors, e.g. of `load_estimation`.
        robot: as far as it is known, best as it comes out of an identification.
        log: the recording.
        cutoff: of the low-pass on positions and readings [Hz], by default chosen from the log; not
            used where positions are estimated.
        parameter_directions: (r, n_parameters) changes of robot.theta, one standard deviation each,
            whose outer products add up to its covariance.
        state: how positions are to be estimated; by default as the setup says, and if it says
            nothing, only where they are missing.
        detection: when a contact is one.
        method: "map" for all that sensors tell, "momentum" for external torques and wrenches from
            torques and positions alone, without accelerations.

    Raises:
        MismatchError: the log is of another robot, lacks channels, or has neither positions of a
            joint nor a sensor that makes them observable.
        UnusableLogError: the doctor finds errors in the log, or nothing is left of it.
    """
    require_robot(robot)
    require_type(setup, EstimationSetup, "an EstimationSetup", "load_estimation reads one")
    require_log(log)
    log = with_constant_positions(log, setup.sensors)
    if method == "momentum" and parameter_directions is not None:
        raise MismatchError(
            "--method momentum does not count the uncertainty of the parameters: leave "
            "--parameter-covariance out, or use --method map."
        )
    if method not in METHODS:
        raise unknown_name("method", str(method), METHODS)
    settings = DetectionSettings() if detection is None else detection
    asked = setup.state if state is None else state
    missing = _unmeasured_joints(setup, robot, log)
    # A log without any position at all is rather one of another robot, unless it is asked for.
    if asked is None and missing and len(missing) < robot.n_joints:
        asked = StateSetup()
    if asked is not None and method == "momentum":
        raise MismatchError(
            "--method momentum needs positions of all joints and does not estimate them: leave "
            "--state out, or use --method map."
        )
    if asked is not None:
        result = _with_state(setup, robot, log, asked, missing, cutoff, parameter_directions)
        return replace(result, detection=settings)
    problem = setup.problem(robot)
    perturbed = None
    if parameter_directions is not None:
        perturbed = _perturbed(setup, robot, parameter_directions)
    recording = Recording.from_log(
        problem,
        log,
        cutoff=cutoff,
        gravity=setup.gravity,
        feet=setup.standing,
        biases=bias_sizes(setup),
    )
    if method == "momentum":
        return prepare_momentum(setup, problem, recording, settings)
    found = find_contacts(problem, recording, setup.gravity, settings)
    return LogEstimate(setup, problem, recording, perturbed, settings, found)


def _perturbed(setup: EstimationSetup, robot: Robot, directions: Array) -> tuple[MapDynamics, ...]:
    steps = as_array(directions, (None, robot.theta.size), "directions")
    if not np.isfinite(steps).all():
        raise ShapeError("the covariance of the parameters is not finite: identify anew.")
    robots = [robot.with_parameters(robot.theta + step) for step in steps if step.any()]
    return tuple(setup.problem(other) for other in robots)


def directions_of(covariance: Array, places: Array, size: int) -> Array:
    """Directions (r, size) of a covariance (b, b) of the parameters at some places of theta."""
    values, vectors = np.linalg.eigh(covariance)
    some = values > 1e-12 * values.max(initial=0.0)
    steps = np.zeros((int(some.sum()), size))
    steps[:, np.asarray(places, dtype=np.int64)] = (vectors[:, some] * np.sqrt(values[some])).T
    return steps


def _with_state(
    setup: EstimationSetup,
    robot: Robot,
    log: Log,
    state: StateSetup,
    unmeasured: tuple[str, ...],
    cutoff: float | None,
    directions: Array | None,
) -> StateLogEstimate:
    sensors, notes = _state_sensors(setup, robot, log, unmeasured)
    problem = setup.problem_with(robot, sensors)
    recording = Recording.with_state(problem, log)
    _require_observable(problem, recording, unmeasured, log.source, setup.gravity)
    if cutoff is not None:
        notes.append(
            f"the cut-off of {cutoff:g} Hz is not used: estimated positions are not filtered"
        )
    return StateLogEstimate(
        setup,
        problem,
        recording,
        state=state,
        unmeasured=unmeasured,
        covariance=None if directions is None else directions.T @ directions,
        decided=tuple(notes),
    )


# Joints whose positions are not measured must be observable. At some samples of the log, with a
# wide prior about the joint, its position, velocity or acceleration must become narrower by what is
# read. That it does is no promise that the angle is known well, which the bands say; that it does
# not means that nothing will ever be known.


def _require_observable(
    problem: MapDynamics,
    recording: Recording,
    joints: tuple[str, ...],
    source: str,
    gravity: ArrayLike | None,
) -> None:
    """Raise MismatchError, with sensors that would help, if one of the joints is unobservable."""
    some = np.unique(np.linspace(0, recording.t.size - 1, _REQUIRED_SAMPLES).astype(int))
    unobservable = set(joints)
    for k in some:
        if unobservable:
            q, y = recording.q[k], recording.readings[k]
            unobservable -= _observable(problem, q, y, unobservable, gravity)
    if not unobservable:
        return
    named = [joint for joint in joints if joint in unobservable]
    known = [joint for joint in problem.robot.joint_names if joint not in joints]
    raise MismatchError(
        f"{source} has no positions of {listing(named)} (it has them of "
        f"{listing(known) or 'none'}), and they are unobservable with these sensors. Name the "
        f"channels q.<joint> in the layout file; or lock joints that stand still (--lock "
        f"{named[0]}); or add to the sensors file "
        + "; ".join(_remedy(problem, joint) for joint in named[:3])
        + "."
    )


def _observable(
    problem: MapDynamics,
    q: Array,
    readings: Array,
    joints: set[str],
    gravity: ArrayLike | None,
) -> set[str]:
    mean = np.where(np.isfinite(q), q, 0.0)
    rest = np.zeros_like(mean)
    prior = StatePrior.of(mean, rest, rest, q_std=_WIDE[0], dq_std=_WIDE[1], ddq_std=_WIDE[2])
    result = StateAndDynamics(problem, prior).estimate(readings, gravity=gravity)
    return {
        joint
        for joint in joints
        if any(
            float(result.sigma(f"{what}.{joint}")[0]) < _NARROWER * wide
            for what, wide in zip(("q", "dq", "ddq"), _WIDE, strict=True)
        )
    }


def _remedy(problem: MapDynamics, joint: str) -> str:
    tree, names = problem.tree, problem.robot.joint_names
    body = tree.joint.index(names.index(joint))
    moved = [body]
    for i in range(body + 1, tree.n):
        if tree.parent[i] in moved:
            moved.append(i)
    links = listing([tree.names[i] for i in moved], 3)
    text = f"for {joint} a gyroscope and an accelerometer, or an orientation, on {links}"
    if tree.floating:
        text += f", and one on the other side of it, as on {tree.names[tree.parent[body]]}"
    return text


def _unmeasured_joints(setup: EstimationSetup, robot: Robot, log: Log) -> tuple[str, ...]:
    channel = position_channels(robot, setup.sensors)
    return tuple(joint for joint, name in channel.items() if not _recorded(log, name))


def _state_sensors(
    setup: EstimationSetup, robot: Robot, log: Log, missing: tuple[str, ...]
) -> tuple[list[Sensor], list[str]]:
    """Sensors of the state and the dynamics, and notes about what was decided."""
    there = [s for s in setup.sensors if not (isinstance(s, Encoder) and s.joint in missing)]
    differences = [s.name for s in there if _is_difference(s, log)]
    kept = [sensor for sensor in there if sensor.name not in differences]
    notes = []
    if differences:
        notes.append(
            f"{listing(differences, 4)}: no channel, and not used: accelerations are estimated "
            "with the positions"
        )
    implied = _implied_encoders(robot, kept, missing)
    if implied:
        notes.append(
            f"positions of {listing(implied, 4)} are taken with a std of {_ENCODER_STD:g}: give "
            "encoders in the sensors file to set it"
        )
    taken = {sensor.name for sensor in kept}
    kept += [_encoder(joint, taken) for joint in implied]
    return kept, notes


def _implied_encoders(
    robot: Robot, sensors: list[Sensor], unmeasured: tuple[str, ...]
) -> list[str]:
    """Joints with a recorded position and no encoder among the sensors."""
    known = {*unmeasured, *(sensor.joint for sensor in sensors if isinstance(sensor, Encoder))}
    return [joint for joint in robot.joint_names if joint not in known]


def _recorded(log: Log, channel: str) -> bool:
    return channel in log.channels and bool(np.isfinite(log.channels[channel]).any())


def _is_difference(sensor: Sensor, log: Log) -> bool:
    recorded = all(name in log.channels for name in sensor.channels)
    return isinstance(sensor, JointAcceleration) and not recorded


def _encoder(joint: str, taken: set[str]) -> Encoder:
    name = f"encoder.{joint}"
    while name in taken:
        name += "'"
    return Encoder(name=name, joint=joint, covariance=variances(_ENCODER_STD, 1))
