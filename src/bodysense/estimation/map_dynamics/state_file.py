"""The section `state` of a sensors file: positions and velocities are to be estimated as well.

state:
  method: smooth                    # all readings of a window; or track (the default)
  window: 200                       # moments of a window
  jerk: 100                         # (rad/s³)² s, how suddenly joints move; or {elbow: 400}
  beliefs:                          # at the first moment; else from the first readings
    q.elbow: {mean: 0.5, std: 0.2}
"""

from __future__ import annotations

from bodysense.errors import RobotFileError, unknown_name
from bodysense.estimation.map_dynamics.belief import Belief
from bodysense.estimation.map_dynamics.state.tracker import JERK
from bodysense.estimation.map_dynamics.state_setup import METHODS, QUANTITIES, WINDOW, StateSetup
from bodysense.robot.robot import Robot
from bodysense.robot.sensors.covariance import deviations
from bodysense.robot.sensors.sensor_values import numbers
from bodysense.robot.yaml_values import finite_number, number_per_name, section

_KEYS = ("method", "window", "jerk", "beliefs")


def parse_state(table: object, robot: Robot, where: str) -> StateSetup | None:
    """Check the section; `None` or false: it is not asked for, true: with all defaults.

    Raises:
        RobotFileError: something that cannot be understood.
        UnknownNameError: an unknown key, method, quantity or joint.
    """
    if table is None or table is False:
        return None
    given = section({} if table is True else table, _KEYS, where)
    method = given.get("method", METHODS[0])
    if method not in METHODS:
        raise unknown_name("method", str(method), METHODS, f"({where})")
    window = finite_number(given.get("window", WINDOW), f"{where}, window")
    if window < 2 or window != int(window):
        raise RobotFileError(f"{where}, window: expected a number of moments, got {window:g}.")
    jerk = number_per_name(given.get("jerk", JERK), robot.joint_names, f"{where}, jerk", JERK)
    if (jerk <= 0.0).any():
        raise RobotFileError(f"{where}, jerk: {jerk.min():g} is not positive; give more than 0.")
    return StateSetup(
        "smooth" if method == "smooth" else "track",
        int(window),
        jerk,
        _beliefs(given.get("beliefs", {}), robot, f"{where}, beliefs"),
    )


def _beliefs(table: object, robot: Robot, where: str) -> dict[str, Belief]:
    names = [f"{what}.{joint}" for what in QUANTITIES for joint in robot.joint_names]
    beliefs = {}
    for name, value in section(table, names, where).items():
        place = f"{where}, {name}"
        entry = section(value, ("mean", "std"), place)
        if "mean" not in entry or "std" not in entry:
            raise RobotFileError(f"{place}: give mean and std, in rad or m and their rates.")
        mean = numbers(entry["mean"], 1, f"{place}, mean", one=True)
        std = numbers(entry["std"], 1, f"{place}, std", one=True)
        beliefs[name] = Belief.of(mean, deviations(std, 1, f"{place}, std"))
    return beliefs
