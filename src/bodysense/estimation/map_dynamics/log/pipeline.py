"""`estimate_log`: from a log and a setup to estimates, with the state or given it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bodysense.errors import MismatchError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.log.estimate import ConsideredParameters, LogEstimate
from bodysense.estimation.map_dynamics.log.recording import CUTOFF, Recording, listing
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.map_dynamics.log.state_recording import (
    state_recording,
    state_sensors,
    unmeasured_joints,
)
from bodysense.estimation.map_dynamics.setup import EstimationSetup, StateSetup
from bodysense.estimation.map_dynamics.state.estimator import StateAndDynamics
from bodysense.estimation.map_dynamics.state.prior import StatePrior
from bodysense.logs.log import Log, RawLog
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

# Do the sensors show the joints whose positions are not measured? Asked before a log is solved.
#
# At some samples of the log, with a wide prior about the joint, its position, velocity or
# acceleration must become narrower by what is read. That it does is no promise that the angle is
# known well, which the bands say; that it does not means that nothing will ever be known.

_MOMENTS = 5
_NARROWER = 0.9
_WIDE = (1.0, 1.0, 10.0)  # rad, rad/s, rad/s²


def require_sight(
    problem: MapDynamics,
    recording: Recording,
    joints: tuple[str, ...],
    source: str,
    gravity: ArrayLike | None,
) -> None:
    """Raise if some of the joints move unseen.

    Args:
        problem: the robot with its sensors.
        recording: their readings.
        joints: without recorded positions.
        source: name of the log.
        gravity: (3,) in the frame of a root that is held.

    Raises:
        MismatchError: names these joints, and sensors that would help.
    """
    some = np.unique(np.linspace(0, recording.t.size - 1, _MOMENTS).astype(int))
    unseen = set(joints)
    for k in some:
        if unseen:
            unseen -= _seen(problem, recording.q[k], recording.readings[k], unseen, gravity)
    if not unseen:
        return
    named = [joint for joint in joints if joint in unseen]
    known = [joint for joint in problem.robot.joint_names if joint not in joints]
    raise MismatchError(
        f"{source} has no positions of {listing(named)} (it has them of {listing(known)}), and "
        f"no sensor shows how {'it moves' if len(named) == 1 else 'they move'}. Name the channels "
        "q.<joint> in the layout file; or add to the sensors file "
        + "; ".join(_remedy(problem, joint) for joint in named[:3])
        + "."
    )


def _seen(
    problem: MapDynamics,
    q: np.ndarray,
    readings: np.ndarray,
    joints: set[str],
    gravity: ArrayLike | None,
) -> set[str]:
    """Those of the joints of which one sample tells something."""
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
    """What would show one joint."""
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


def estimate_log(
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
            joint nor a sensor that shows how it moves.
        UnusableLogError: nothing is left of it.
    """
    raw = log if isinstance(log, RawLog) else RawLog.of(log)
    asked = setup.state if state is None else state
    missing = unmeasured_joints(setup, robot, raw)
    # A log without any position at all is rather one of another robot, unless it is asked for.
    if asked is None and missing and len(missing) < robot.n_joints:
        asked = StateSetup()
    if asked is not None:
        return _with_state(setup, robot, raw, asked, cutoff, parameter_directions)
    problem = setup.problem(robot)
    parameters = None
    if parameter_directions is not None:
        parameters = ConsideredParameters.of(setup, robot, parameter_directions)
    recording = Recording.of(problem, raw, cutoff=CUTOFF if cutoff is None else cutoff)
    return LogEstimate(setup, problem, recording, parameters)


def _with_state(
    setup: EstimationSetup,
    robot: Robot,
    log: RawLog,
    state: StateSetup,
    cutoff: float | None,
    directions: Array | None,
) -> StateLogEstimate:
    chosen = state_sensors(setup, robot, log)
    problem = setup.problem_with(robot, chosen.sensors)
    recording = state_recording(problem, log)
    require_sight(problem, recording, chosen.unmeasured, log.source, setup.gravity)
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
