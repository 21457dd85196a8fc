"""`bodysense estimate ROBOT LOG --sensors FILE -o DIR`: wrenches and torques during a recording."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

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
from bodysense.cli.tables import Page, number, percent
from bodysense.errors import FileReadError, MismatchError
from bodysense.status import BAND

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
        "cut-off of the low-pass filter on positions (10)", group="data", metavar="HZ"
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
    print_result(args, _text(summary), summary, names)
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


# What `bodysense estimate` prints: contacts, positions, sensors that disagree, observability.

_SENSORS = 30  # rows of the table of sensors
_CONTACTS = 20  # rows of the table of contacts
_SOON = 0.09  # s: a duration of pushes whose detectable force is told
_MOST_FORCE = 1e4  # N: larger forces are not detectable


def _text(summary: Mapping[str, Any]) -> str:
    """The summary as text."""
    page = Page()
    page.line(
        f"{summary['robot']}, {summary['log']}: {summary['samples']} samples over "
        f"{summary['duration']:.4g} s, {summary['readings']} readings for {summary['unknowns']} "
        "estimated quantities",
        style="bold",
    )
    for reason, n in summary["left_out"].items():
        page.line(f"  {n} rows {reason} are left out")
    _contacts(page, summary)
    if "state" in summary:
        _state(page, summary["state"])
    _sensors(page, summary["sensors"], stated="state" in summary)
    if summary["inconsistent_exact_readings"]:
        page.line(f"{summary['inconsistent_exact_readings']}.", style="bold")
    page.line("")
    page.line(f"Observability: {summary['observability']}")
    return page.text()


def _contacts(page: Page, summary: Mapping[str, Any]) -> None:
    contacts, unobservable = summary["contacts"], summary["unobservable_links"]
    for link in unobservable:
        page.line(f"external wrench on {link} is unobservable")
    if summary["load"] is not None:
        page.line(f"{summary['load']['summary']}", style="bold")
    if not contacts:
        _no_contacts(page, summary)
        return
    page.table(
        "Contacts, with 95 % bands",
        (
            *("link", "probability", "from [s]", "to [s]"),
            *("median force [N]", "largest force [N]", "95 % band [N]", "at [s]"),
        ),
        (
            (
                contact["link"],
                f"{percent(contact['probability'])} %",
                f"{contact['start']:.2f}",
                f"{contact['end']:.2f}",
                f"{contact['usual']:.1f}",
                f"{contact['force']:.1f}",
                f"± {BAND * contact['sigma']:.1f}",
                f"{contact['at']:.2f}",
            )
            for contact in contacts[:_CONTACTS]
        ),
    )
    _more(page, contacts, _CONTACTS)
    _detectable(page, summary)


def _no_contacts(page: Page, summary: Mapping[str, Any]) -> None:
    if not summary["contact_share"]:
        page.line(
            "no external wrenches were modelled: list links under external_wrenches in the "
            "sensors file"
        )
    free = [link for link in summary["contact_share"] if link not in unobservable_of(summary)]
    if free:
        beside = " beside the load" if summary["load"] is not None else ""
        page.line(f"no contact{beside} on {', '.join(free)}")
    _detectable(page, summary)


def unobservable_of(summary: Mapping[str, Any]) -> list[str]:
    """Links whose external wrench cannot be observed."""
    return list(summary["unobservable_links"])


def _detectable(page: Page, summary: Mapping[str, Any]) -> None:
    """What would be found of each link, and how soon."""
    for link in summary["contact_share"]:
        forces = [row for row in summary["detectable"] if row["link"] == link]
        soon = [row for row in forces if row["within"] >= _SOON][:1] or forces[-1:]
        for row in () if link in unobservable_of(summary) else soon:
            worst = (
                f", {row['worst']:.2g} N from where it shows least"
                if row["worst"] is not None and row["worst"] < _MOST_FORCE
                else ""
            )
            if row["best"] is not None and row["best"] < _MOST_FORCE:
                page.line(
                    f"  a push of {row['best']:.2g} N on {link} is found within "
                    f"{1e3 * row['within']:.0f} ms{worst}"
                )


def _state(page: Page, state: Mapping[str, Any]) -> None:
    """Positions, of joints without encoders first, and biases."""
    joints = sorted(state["joints"], key=lambda joint: joint["measured"])
    page.table(
        "Positions: estimated, with 95 % bands",
        ("joint", "encoder", "from", "to", "band", "widest", "unit"),
        (
            (
                joint["joint"],
                "yes" if joint["measured"] else "none",
                *(f"{joint[key]:.2f}" for key in ("lowest", "highest")),
                *(f"± {BAND * joint[key]:.2g}" for key in ("std", "worst")),
                joint["unit"],
            )
            for joint in joints[:_SENSORS]
        ),
        text=(0, 1, 6),
    )
    _more(page, joints, _SENSORS)
    if state["biases"]:
        page.table(
            "Biases: after the last readings, with 95 % bands",
            ("sensor", "bias", "band", "unit"),
            (
                (b["name"], f"{b['mean']:.3g}", f"± {BAND * b['std']:.2g}", b["unit"])
                for b in state["biases"][:_SENSORS]
            ),
            text=(0, 3),
        )


def _sensors(page: Page, sensors: list[Mapping[str, Any]], *, stated: bool) -> None:
    # Those that disagree most first; what cannot be judged last.
    ordered = sorted(
        sensors, key=lambda s: (s["contradicted"], -1.0 if s["ratio"] is None else s["ratio"])
    )[::-1]
    page.table(
        "Sensors: residuals, readings minus their predictions by the estimate",
        ("sensor", "rms", "stated std", "ratio", "beyond 95 %", "missing"),
        (
            (
                s["name"],
                *(number(s[key]) for key in ("rms", "stated", "ratio")),
                "-" if s["beyond"] is None else f"{percent(s['beyond'])} %",
                str(s["absent"]),
            )
            for s in ordered[:_SENSORS]
        ),
    )
    _more(page, sensors, _SENSORS)
    # Where the state is estimated it follows the readings too.
    over, most = ("the stated std", "at most ") if stated else ("its expected value", "")
    page.line(
        f"  ratio: rms of the residuals over {over}; expected: {most}1. beyond: share outside the "
        f"95 % band; expected: {most}5 %. Many beyond: a std is too small. A large ratio with few "
        "beyond: a few outliers."
    )


def _more(page: Page, rows: Sequence[object], shown: int) -> None:
    if len(rows) > shown:
        page.line(f"… and {len(rows) - shown} more, see summary.json")
