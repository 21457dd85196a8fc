"""The options of `bodysense estimate`, from the command line or from a config.yaml."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from bodysense.cli.options import RunOptions, add_run_options
from bodysense.errors import FileReadError, MismatchError

if TYPE_CHECKING:
    from bodysense.estimation import EstimationSetup, StateSetup
    from bodysense.estimation.map_dynamics.setup import StateMethod
    from bodysense.robot import Robot
    from bodysense.spatial.arrays import Array

IDENTIFIED = ("identified.urdf", "identified.actuators.yaml")
"""What `bodysense identify` calls the identified robot."""

_State = Literal["track", "smooth", "file"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "robot",
        metavar="ROBOT",
        nargs="?",
        help="a URDF, MJCF or DH file, tx40, example:NAME, or the folder that identify wrote",
    )
    parser.add_argument(
        "log", metavar="LOG", nargs="?", help="a recording: CSV, Parquet, MCAP or a ROS 2 bag"
    )
    parser.add_argument(
        "--sensors", metavar="FILE", help="sensors, external wrenches and priors (YAML)"
    )
    add_run_options(parser, "estimates and report", "the summary")
    robot = parser.add_argument_group("robot")
    robot.add_argument("--actuators", metavar="FILE", help="an actuator file (YAML)")
    base = robot.add_mutually_exclusive_group()
    base.add_argument(
        "--fixed",
        dest="floating",
        action="store_false",
        default=None,
        help="fix the root link to the ground",
    )
    base.add_argument(
        "--floating", action="store_true", default=None, help="let the root link move"
    )
    robot.add_argument(
        "--parameter-covariance",
        action="store_true",
        default=None,
        help="add the uncertainty of an identified robot to the bands (ROBOT: folder of identify)",
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--cutoff", metavar="HZ", type=float, help="of the low-pass on positions (10)"
    )
    data.add_argument(
        "--state",
        choices=get_args(_State),
        nargs="?",
        const="file",
        help="estimate positions and velocities as well, as is done anyway where the log lacks "
        "positions of some joints: track from sample to sample, or smooth windows; without a "
        "value as the sensors file says (file), or track if it says nothing",
    )


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(RunOptions):
    """All settings of a run."""

    command: ClassVar[str] = "estimate"
    usage: ClassVar[str] = "ROBOT LOG --sensors FILE -o DIR"
    needed: ClassVar[Mapping[str, str]] = {
        "robot": "a robot",
        "log": "a recording",
        "sensors": "its sensors (--sensors FILE)",
    }
    recordings: ClassVar[tuple[str, ...]] = ("log",)
    files: ClassVar[tuple[str, ...]] = ("sensors", *RunOptions.files)

    log: str
    sensors: str
    floating: bool | None = None
    parameter_covariance: bool = False
    cutoff: float | None = None
    state: _State | None = None

    @property
    def identified(self) -> Path | None:
        """The folder of an identification, if the robot is one."""
        from bodysense.robot.io.load import builtin_names

        folder = Path(self.robot)  # which may have the name of a built-in robot
        return folder if folder.is_dir() and self.robot not in builtin_names() else None

    def load(self) -> Robot:
        """The robot."""
        from bodysense.robot import load_robot

        source, actuators = self.robot, self.actuators
        if self.identified is not None:
            source = str(self.identified / IDENTIFIED[0])
            drives = self.identified / IDENTIFIED[1]
            if not Path(source).is_file():
                raise FileReadError(
                    f"{self.robot} holds no {IDENTIFIED[0]}: give the folder that `bodysense "
                    "identify` wrote, or a robot file."
                )
            if actuators is None and drives.is_file():
                actuators = str(drives)
        return load_robot(
            source, floating_base=self.floating, actuators=actuators, allow_inconsistent=True
        )

    def state_setup(self, setup: EstimationSetup) -> StateSetup | None:
        """How positions are to be estimated: as the sensors file says, by the method asked for."""
        if self.state is None:
            return setup.state
        from bodysense.estimation import StateSetup

        known = StateSetup() if setup.state is None else setup.state
        if self.state == "file":
            return known
        method: StateMethod = "smooth" if self.state == "smooth" else "track"
        return replace(known, method=method)

    def parameter_directions(self, robot: Robot) -> Array | None:
        """One standard deviation of the robot's parameters in each direction, if asked for."""
        if not self.parameter_covariance:
            return None
        import numpy as np

        from bodysense.estimation.map_dynamics.log.prepare import directions_of
        from bodysense.files import read_arrays
        from bodysense.robot.base_parameters import base_parameters

        if self.identified is None:
            raise MismatchError(
                "--parameter-covariance needs the covariance of an identification: give the folder "
                "that `bodysense identify` wrote as ROBOT."
            )
        path = self.identified / "identification.npz"
        stored = read_arrays(path, ("theta", "covariance"))
        base = base_parameters(robot)
        same = stored["theta"].shape == robot.theta.shape and np.allclose(
            stored["theta"], robot.theta, rtol=1e-6, atol=1e-9
        )
        if not same or stored["covariance"].shape != (base.size, base.size):
            raise MismatchError(
                f"{path} is of another robot than {IDENTIFIED[0]} beside it: identify anew, or "
                "leave --parameter-covariance, --actuators and --floating out."
            )
        return directions_of(stored["covariance"], np.array(base.independent), robot.theta.size)

    def _robot_files(self) -> tuple[str, ...]:
        if self.identified is None:
            return (self.robot,)
        return tuple(str(self.identified / name) for name in IDENTIFIED)


def options_of(args: argparse.Namespace) -> EstimateOptions:
    """Options from the command line, on top of those of --config."""
    return EstimateOptions.from_arguments(args)
