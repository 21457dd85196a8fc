"""`bodysense estimate ROBOT LOG --sensors FILE -o DIR`: wrenches and torques during a recording."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from bodysense.cli.estimate_text import estimate_text
from bodysense.cli.options import (
    locked_joints,
    mounted,
    print_notes,
    print_result,
    print_robot_findings,
    progress_bar,
    reproduction,
    working,
)
from bodysense.cli.run_options import Groups, RunOptions, option, required
from bodysense.errors import FileReadError, MismatchError

if TYPE_CHECKING:
    from bodysense.estimation import EstimationRun, EstimationSetup, LogEstimate, StateSetup
    from bodysense.logs.log import Log
    from bodysense.robot import Robot
    from bodysense.spatial.arrays import Array

_IDENTIFIED = ("identified.urdf", "identified.actuators.yaml")
"""What `bodysense identify` calls the identified robot."""

_OUTPUT_FILES = (
    *("config.yaml", "estimates.parquet", "report.html", "sensors.parquet", "summary.json"),
)
"""Everything that the command writes."""

_EXIT_INTERRUPTED = 130


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
    written: ClassVar[str] = "estimates and report"
    printed: ClassVar[str] = "the summary"
    recordings: ClassVar[tuple[str, ...]] = ("log",)
    files: ClassVar[tuple[str, ...]] = ("sensors", *RunOptions.files)

    robot: str = required(
        "a URDF, MJCF or DH file, a built-in robot such as tx40, example:NAME, or the folder that "
        "identify wrote",
        "robot",
        metavar="ROBOT",
    )
    log: str = required("a recording: CSV, Parquet, MCAP or a ROS 2 bag", "log", metavar="LOG")
    sensors: str = required(
        "sensors, external wrenches and priors (YAML); required", metavar="FILE"
    )
    floating: bool | None = None
    parameter_covariance: bool = option(
        "include the uncertainty of the parameters in the bands; ROBOT must be the folder that "
        "identify wrote",
        default=False,
        group="robot",
    )
    cutoff: float | None = option(
        "cut-off of the low-pass filter on all channels (chosen from the positions)",
        group="data",
        metavar="HZ",
    )
    method: Literal["map", "momentum"] = option(
        "map (maximum a posteriori, all sensors), or momentum (external torques and wrenches from "
        "positions and torques of all joints, without accelerations)",
        default="map",
        group="data",
        choices=("map", "momentum"),
    )
    false_alarms: float = option(
        "contacts per hour that may be none (1)", default=1.0, group="data", metavar="RATE"
    )
    minimum_force: float = option(
        "median force of a contact (0)", default=0.0, group="data", metavar="N"
    )
    minimum_duration: float = option(
        "duration of a contact (0.1)", default=0.1, group="data", metavar="S"
    )
    state: Literal["track", "smooth", "file"] | None = option(
        "also estimate positions and velocities: track from sample to sample, smooth over "
        "windows, or as in the sensors file (file, the default without a value); always on where "
        "the log lacks positions of some joints",
        group="data",
        choices=("track", "smooth", "file"),
        nargs="?",
        const="file",
    )

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> Groups:
        """Declare all options."""
        groups = super().add_arguments(parser)
        add = groups["robot"].add_mutually_exclusive_group().add_argument
        about = "fix the root link to the ground"
        add("--fixed", dest="floating", action="store_false", default=None, help=about)
        about = "treat the root link as a floating base"
        add("--floating", action="store_true", default=None, help=about)
        return groups

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
            source = str(self.identified / _IDENTIFIED[0])
            drives = self.identified / _IDENTIFIED[1]
            if not Path(source).is_file():
                raise FileReadError(
                    f"{self.robot} holds no {_IDENTIFIED[0]}: give the folder that `bodysense "
                    "identify` wrote, or a robot file."
                )
            if actuators is None and drives.is_file():
                actuators = str(drives)
        robot = load_robot(source, floating_base=self.floating, actuators=actuators)
        robot = mounted(robot, self.gravity, self.mount)
        print_robot_findings(robot)
        if self.identified is None:
            return robot
        from bodysense.identification.identification import locked_as_in

        return locked_as_in(self.identified, robot)

    def state_setup(self, setup: EstimationSetup) -> StateSetup | None:
        """How positions are to be estimated: as the sensors file says, by the method asked for."""
        if self.state is None:
            return setup.state
        from bodysense.estimation import StateSetup

        known = StateSetup() if setup.state is None else setup.state
        if self.state == "file":
            return known
        return replace(known, method=self.state)

    def parameter_directions(self, robot: Robot) -> Array | None:
        """One standard deviation of the robot's parameters in each direction, if asked for."""
        if not self.parameter_covariance:
            return None
        from bodysense.estimation.map_dynamics.log.prepare import directions_of
        from bodysense.identification.identification import covariance_in

        if self.identified is None:
            raise MismatchError(
                "--parameter-covariance needs the covariance of an identification: give the folder "
                "that `bodysense identify` wrote as ROBOT."
            )
        return directions_of(*covariance_in(self.identified, robot), robot.theta.size)

    def _robot_files(self) -> tuple[str, ...]:
        if self.identified is None:
            return (self.robot,)
        return tuple(str(self.identified / name) for name in _IDENTIFIED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare all options, those of live streams too."""
    from bodysense.cli.live import add_live_arguments

    EstimateOptions.add_arguments(parser)
    add_live_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Read, estimate, write and print."""
    from bodysense.cli.live import is_live, run_live
    from bodysense.doctor import lock_asked
    from bodysense.estimation import DetectionSettings, load_estimation, prepare_log
    from bodysense.logs.read import read_log

    if is_live(args):
        return run_live(args)
    options = EstimateOptions.from_arguments(args)
    try:
        with working(args):
            log = read_log(options.log, options.layout)
            options.check_digests(log)
            robot = lock_asked(options.load(), [log], locked_joints(options.lock))
            setup = load_estimation(options.sensors, robot)
            directions = options.parameter_directions(robot)
            estimate = prepare_log(
                setup,
                robot,
                log,
                cutoff=options.cutoff,
                parameter_directions=directions,
                state=options.state_setup(setup),
                detection=DetectionSettings(
                    false_alarms=options.false_alarms,
                    minimum_force=options.minimum_force,
                    minimum_duration=options.minimum_duration,
                ),
                method=options.method,
            )
        result, names = _solve(estimate, log, options, args)
    except KeyboardInterrupt:
        print(
            "bodysense: interrupted before anything could be kept: nothing written. Give the same "
            "command again; once samples are counted, an interruption keeps those that are done.",
            file=sys.stderr,
        )
        return _EXIT_INTERRUPTED
    summary = result.to_dict()
    print_notes(summary["notes"])
    print_result(args, estimate_text(summary), summary, names)
    return _EXIT_INTERRUPTED if result.interrupted else 0


def _solve(
    estimate: LogEstimate, log: Log, options: EstimateOptions, args: argparse.Namespace
) -> tuple[EstimationRun, tuple[str, ...]]:
    """Solve the log, into the folder if there is one; returns the run and names of files."""
    from bodysense.estimation import solve_log
    from bodysense.files import write_configuration
    from bodysense.folders import filled_together

    if args.output is None:
        with _progress() as progress:
            return solve_log(estimate, source=log.source, progress=progress), ()
    with filled_together(args.output, replace=args.force, names=_OUTPUT_FILES) as draft:
        with _progress() as progress:
            result = solve_log(estimate, source=log.source, folder=draft, progress=progress)
        result.save(draft)
        write_configuration(draft, options.command, options.configuration(log))
        _write_page(draft, args.output, result, log, options)
        names = tuple(sorted(path.name for path in draft.iterdir()))
    return result, names


def _write_page(
    draft: Path, output: str, result: EstimationRun, log: Log, options: EstimateOptions
) -> None:
    from bodysense.report.estimation_page import write_estimation_page

    digests = options.file_digests()
    write_estimation_page(
        draft / "report.html",
        result,
        command=reproduction(options.command, output),
        provenance={
            "logs": [{"source": log.source, "sha256": log.digest}],
            "sensors": [{"source": options.sensors, "sha256": digests.get(options.sensors, "")}],
            "files": digests,
            "cutoff_hz": options.cutoff,
            "state": None if result.state is None else result.state.estimate.state.method,
            "parameter_covariance": options.parameter_covariance,
        },
    )


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar over all samples, on a terminal only."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    with progress_bar(
        TextColumn("estimating"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} samples"),
        TimeRemainingColumn(),
    ) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda done, samples: bar.update(task, completed=done, total=samples)
