"""`estimate_log`: from a log and a setup to estimates, with the state or given it."""

from __future__ import annotations

from bodysense.estimation.map_dynamics.estimation_setup import EstimationSetup
from bodysense.estimation.map_dynamics.log.considered_parameters import ConsideredParameters
from bodysense.estimation.map_dynamics.log.estimate import LogEstimate
from bodysense.estimation.map_dynamics.log.recording import CUTOFF, Recording
from bodysense.estimation.map_dynamics.log.sight import require_sight
from bodysense.estimation.map_dynamics.log.state_estimate import StateLogEstimate
from bodysense.estimation.map_dynamics.log.state_recording import state_recording
from bodysense.estimation.map_dynamics.log.state_sensors import state_sensors, unmeasured_joints
from bodysense.estimation.map_dynamics.state_setup import StateSetup
from bodysense.robot.robot import Robot
from bodysense.signals.log import Log
from bodysense.signals.raw_log import RawLog
from bodysense.spatial.arrays import Array


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
        setup: sensors and beliefs, e.g. of `load_estimation`.
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
