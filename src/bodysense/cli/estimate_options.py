"""The options of `bodysense estimate`, from the command line or from a config.yaml."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bodysense.cli.identify_config import absolute, digests
from bodysense.errors import BodysenseError, FileReadError, MismatchError, unknown_name

if TYPE_CHECKING:
    from bodysense.estimation import EstimationSetup, StateSetup
    from bodysense.estimation.map_dynamics.setup import StateMethod
    from bodysense.robot import Robot
    from bodysense.spatial.arrays import Array

IDENTIFIED = ("identified.urdf", "identified.actuators.yaml")
"""What `bodysense identify` calls the robot that it found."""

_STATES = ("track", "smooth", "file")


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
    parser.add_argument("--layout", metavar="FILE", help="what the columns of the log mean (YAML)")
    parser.add_argument("-o", "--output", metavar="DIR", help="write estimates and report here")
    parser.add_argument(
        "--force", action="store_true", help="replace files of the same names in an existing DIR"
    )
    parser.add_argument("--config", metavar="FILE", help="do again what a config.yaml says")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    robot = parser.add_argument_group("robot")
    robot.add_argument("--actuators", metavar="FILE", help="an actuator file (YAML)")
    base = robot.add_mutually_exclusive_group()
    base.add_argument(
        "--fixed", dest="floating", action="store_false", default=None, help="hold the root link"
    )
    base.add_argument(
        "--floating", action="store_true", default=None, help="let the root link move"
    )
    robot.add_argument(
        "--parameter-covariance",
        action="store_true",
        default=None,
        help="widen the bands by what identify left open of the robot (ROBOT: its folder)",
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--cutoff", metavar="HZ", type=float, help="of the low-pass on positions (10)"
    )
    data.add_argument(
        "--state",
        choices=_STATES,
        nargs="?",
        const="file",
        help="estimate positions and velocities as well, as is done anyway where the log lacks "
        "positions of some joints: track from sample to sample, or smooth windows; without a "
        "value as the sensors file says (file), or track if it says nothing",
    )


@dataclass(frozen=True)
class EstimateOptions:
    """All settings of a run; what config.yaml holds."""

    robot: str
    log: str
    sensors: str
    layout: str | None = None
    actuators: str | None = None
    floating: bool | None = None
    parameter_covariance: bool = False
    cutoff: float | None = None
    state: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def identified(self) -> Path | None:
        """The folder of an identification, if the robot is one."""
        from bodysense.robot.builtin import builtin_names

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

        told = StateSetup() if setup.state is None else setup.state
        if self.state == "file":
            return told
        method: StateMethod = "smooth" if self.state == "smooth" else "track"
        return replace(told, method=method)

    def parameter_directions(self, robot: Robot) -> Array | None:
        """One standard deviation of the robot's parameters in each direction, if asked for."""
        if not self.parameter_covariance:
            return None
        import numpy as np

        from bodysense.estimation.map_dynamics.log.estimate import directions_of
        from bodysense.files import read_arrays
        from bodysense.robot.base_parameters import base_parameters

        if self.identified is None:
            raise MismatchError(
                "--parameter-covariance needs what identify left open: give the folder that it "
                "wrote as ROBOT."
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

    def file_digests(self) -> dict[str, str]:
        """SHA-256 of all files beside the recording."""
        robot = [self.robot]
        if self.identified is not None:
            robot = [str(self.identified / name) for name in IDENTIFIED]
        return digests(*robot, self.sensors, self.layout, self.actuators)

    def check_digests(self, log: str) -> None:
        """Raise if the recording (its SHA-256) or a file changed since the config.yaml."""
        for path, digest in {self.log: log, **self.file_digests()}.items():
            before = self.sha256.get(path)
            if before and digest and before != digest:
                raise MismatchError(
                    f"{path} is not the file that the configuration was written for (its SHA-256 "
                    "differs): bring the old one back, or run without --config."
                )

    def configuration(self, log: str) -> dict[str, Any]:
        """What config.yaml holds: absolute paths, and digests of all files.

        Args:
            log: SHA-256 of the recording.
        """
        from bodysense.robot.builtin import builtin_names

        table = asdict(self)
        for key in ("log", "sensors", "layout", "actuators"):
            table[key] = absolute(table[key])
        if self.robot not in builtin_names():  # of which a folder may have the name as well
            table["robot"] = absolute(self.robot)
        same = EstimateOptions(**{f.name: table[f.name] for f in fields(EstimateOptions)})
        table["sha256"] = {table["log"]: log} | same.file_digests()
        return {key: value for key, value in table.items() if value is not None}


def options_of(args: argparse.Namespace) -> EstimateOptions:
    """Options from the command line, on top of those of --config."""
    table = {} if args.config is None else _configuration(args.config)
    for f in fields(EstimateOptions):
        value = getattr(args, f.name, None)
        if value is not None:
            table[f.name] = value
    for name, words in _NEEDED.items():
        if not table.get(name):
            raise BodysenseError(
                f"give {words}: bodysense estimate ROBOT LOG --sensors FILE -o DIR; see `bodysense "
                "estimate --help`."
            )
    return EstimateOptions(**table)


_NEEDED = {"robot": "a robot", "log": "a recording", "sensors": "its sensors (--sensors FILE)"}
_KINDS: dict[str, tuple[type, ...]] = {
    "floating": (bool,),
    "parameter_covariance": (bool,),
    "cutoff": (int, float),
    "sha256": (dict,),
}


def _configuration(path: str) -> dict[str, Any]:
    from bodysense.schema import parse_yaml

    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise FileReadError(f"cannot read {path}: {error}; check the path.") from error
    known = [f.name for f in fields(EstimateOptions)]
    table = {}
    for key, value in parse_yaml(data, path, FileReadError).items():
        if key not in known:
            raise unknown_name(f"key in {path}", str(key), known)
        if value is None:
            continue
        kinds = _KINDS.get(key, (str,))
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise FileReadError(
                f"{path}, {key}: {value!r} cannot be meant; it stands as estimate wrote it, or not "
                "at all."
            )
        if key == "state" and value not in _STATES:
            raise unknown_name(f"state in {path}", str(value), _STATES)
        table[key] = value
    return table
