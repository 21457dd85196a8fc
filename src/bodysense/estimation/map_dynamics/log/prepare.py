"""`prepare_log`: the estimator of a log, with the state or given it.

Where positions are estimated too, encoders and gyroscopes are readings like all others. A recorded
position that the setup has no encoder for is one with a usual noise. Accelerations that would have
come from differences of positions are left out: they are a part of the state, and would count the
encoders twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.estimate import ConsideredParameters, LogEstimate
from bodysense.estimation.map_dynamics.log.recording import (
    CUTOFF,
    Recording,
    listing,
    position_channels,
)
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.map_dynamics.setup import EstimationSetup, StateSetup
from bodysense.estimation.map_dynamics.state.estimator import StateAndDynamics
from bodysense.estimation.map_dynamics.state.prior import StatePrior
from bodysense.logs.log import Log, RawLog
from bodysense.robot.robot import Robot
from bodysense.sensors.joint_sensors import Encoder, JointAcceleration
from bodysense.sensors.sensor import Sensor, variances
from bodysense.spatial.arrays import Array

_ENCODER_STD = 1e-3
"""rad or m: standard deviation of recorded positions that the sensors file has no encoder for."""

_REQUIRED_SAMPLES = 5  # of a log, at which an unmeasured joint must be observable
_WIDE = (1.0, 1.0, 10.0)  # rad, rad/s, rad/s²: prior standard deviations of an unmeasured joint
_NARROWER = 0.9  # share of such a standard deviation below which readings tell something


def prepare_log(
    setup: EstimationSetup,
    robot: Robot,
    log: Log | RawLog,
    *,
    cutoff: float | None = None,
    parameter_directions: Array | None = None,
    state: StateSetup | None = None,
) -> LogEstimate:
    """Prepare the estimates of a log; `LogEstimate.chunks` computes them.

    Where the log has positions of some joints and not of others, or if `state` or the setup asks
    for it, positions and velocities are estimated as well: a `StateLogEstimate` comes back.

    Args:
        setup: sensors and priors, e.g. of `load_estimation`.
        robot: as far as it is known, best as it comes out of an identification.
        log: the recording.
        cutoff: of the low-pass on positions [Hz], by default 10; not used where positions are
            estimated.
        parameter_directions: (r, n_parameters) standard deviations of the robot's parameters; see
            `ConsideredParameters`.
        state: how positions are to be estimated; by default as the setup says, and if it says
            nothing, only where they are missing.

    Raises:
        MismatchError: the log is of another robot, lacks channels, or has neither positions of a
            joint nor a sensor that makes them observable.
        UnusableLogError: the doctor finds errors in the log, or nothing is left of it.
    """
    raw = log if isinstance(log, RawLog) else RawLog.of(log)
    asked = setup.state if state is None else state
    missing = _unmeasured_joints(setup, robot, raw)
    # A log without any position at all is rather one of another robot, unless it is asked for.
    if asked is None and missing and len(missing) < robot.n_joints:
        asked = StateSetup()
    if asked is not None:
        return _with_state(setup, robot, raw, asked, cutoff, parameter_directions)
    problem = setup.problem(robot)
    parameters = None
    if parameter_directions is not None:
        parameters = ConsideredParameters.from_robot(setup, robot, parameter_directions)
    recording = Recording.from_log(problem, raw, cutoff=CUTOFF if cutoff is None else cutoff)
    return LogEstimate(setup, problem, recording, parameters)


def _with_state(
    setup: EstimationSetup,
    robot: Robot,
    log: RawLog,
    state: StateSetup,
    cutoff: float | None,
    directions: Array | None,
) -> StateLogEstimate:
    chosen = _state_sensors(setup, robot, log)
    problem = setup.problem_with(robot, chosen.sensors)
    recording = Recording.with_state(problem, log)
    _require_observable(problem, recording, chosen.unmeasured, log.source, setup.gravity)
    notes = chosen.notes
    if cutoff is not None:
        notes += (
            f"the cut-off of {cutoff:g} Hz is not used: estimated positions are not filtered",
        )
    return StateLogEstimate(
        setup,
        problem,
        recording,
        state=state,
        unmeasured=chosen.unmeasured,
        covariance=None if directions is None else directions.T @ directions,
        decided=notes,
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
        f"{source} has no positions of {listing(named)} (it has them of {listing(known)}), and "
        f"they are unobservable with these sensors. Name the channels q.<joint> in the layout "
        "file; or add to the sensors file "
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
    """Those of the joints about which one sample tells something."""
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
    """What would make one joint observable."""
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


class _StateSensors(NamedTuple):
    """Sensors of the state and the dynamics.

    Attributes:
        sensors: those that are used.
        unmeasured: joints without a recorded position.
        notes: what was decided.
    """

    sensors: tuple[Sensor, ...]
    unmeasured: tuple[str, ...]
    notes: tuple[str, ...]


def _unmeasured_joints(setup: EstimationSetup, robot: Robot, log: RawLog) -> tuple[str, ...]:
    """Joints of which the log holds no position at all."""
    channel = position_channels(robot, setup.sensors)
    return tuple(joint for joint, name in channel.items() if not _recorded(log, name))


def _state_sensors(setup: EstimationSetup, robot: Robot, log: RawLog) -> _StateSensors:
    """Choose the sensors for a log."""
    missing = _unmeasured_joints(setup, robot, log)
    there = [sensor for sensor in setup.sensors if not _is_unread(sensor, missing)]
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
    return _StateSensors(tuple(kept), missing, tuple(notes))


def _implied_encoders(
    robot: Robot, sensors: list[Sensor], unmeasured: tuple[str, ...]
) -> list[str]:
    """Joints with a recorded position and no encoder among the sensors."""
    known = {*unmeasured, *(sensor.joint for sensor in sensors if isinstance(sensor, Encoder))}
    return [joint for joint in robot.joint_names if joint not in known]


def _recorded(log: RawLog, channel: str) -> bool:
    return channel in log.channels and bool(np.isfinite(log.channels[channel]).any())


def _is_unread(sensor: Sensor, unmeasured: tuple[str, ...]) -> bool:
    """Whether it is the encoder of a joint without recorded position."""
    return isinstance(sensor, Encoder) and sensor.joint in unmeasured


def _is_difference(sensor: Sensor, log: RawLog) -> bool:
    """Whether its readings would come from differences of positions."""
    recorded = all(name in log.channels for name in sensor.channels)
    return isinstance(sensor, JointAcceleration) and not recorded


def _encoder(joint: str, taken: set[str]) -> Encoder:
    name = f"encoder.{joint}"
    while name in taken:
        name += "'"
    return Encoder(name=name, joint=joint, covariance=variances(_ENCODER_STD, 1))
