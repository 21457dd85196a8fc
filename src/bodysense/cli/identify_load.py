"""`bodysense identify … --payload` and `--drive-gains`: recordings with and without a load."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bodysense.cli.identify_options import Options
from bodysense.errors import MismatchError

if TYPE_CHECKING:
    from bodysense.identification.payload.drive_gains import DriveGains
    from bodysense.identification.payload.experiment import LoadExperiment
    from bodysense.identification.payload.payload import Payload
    from bodysense.logs.log import RawLog
    from bodysense.robot import Robot
    from bodysense.spatial.arrays import Array


def run_load(args: argparse.Namespace, options: Options) -> int:
    """Read, examine, identify; write what came out; print it."""
    from rich.console import Console

    from bodysense.cli.identify import robot_of
    from bodysense.identification.payload.experiment import ROBOT_UNCERTAINTY, prepare
    from bodysense.identification.payload.identify_payload import require_uncertainty
    from bodysense.logs.read import read_log

    _refuse_recording_as_link(options)
    if options.gain_uncertainty is not None:
        require_uncertainty(options.gain_uncertainty)
    with Console(stderr=True).status("reading …") as status:
        robot = robot_of(options)
        loaded, unloaded = (
            [read_log(path, options.layout) for path in paths]
            for paths in (options.logs, options.unloaded)
        )
        options.check_digests((*loaded, *unloaded))
        arm = options.robot_uncertainty
        experiment = prepare(
            robot,
            loaded,
            unloaded,
            link=options.payload or None,
            preprocessing=options.preprocessing(),
            friction=options.friction_choice(),
            robot_uncertainty=ROBOT_UNCERTAINTY if arm is None else arm,
            allow_unusable=options.allow_unusable,
            progress=lambda step: status.update(f"{step} …"),
        )
        result: _Found
        if options.drive_gains:
            result = _Gains.of(experiment, options, robot, (*loaded, *unloaded))
        else:
            result = _Load.of(experiment, options, robot)
        names: tuple[str, ...] = ()
        notes: tuple[str, ...] = ()
        if args.output is not None:
            status.update("writing …")
            names, notes = _write(args.output, result, experiment, options, force=args.force)
    if args.json:
        print(json.dumps(result.result.to_dict(), indent=2, allow_nan=False))
    else:
        print(result.text(), end="")
        if args.output is not None:
            print(f"\nwritten to {args.output}: {', '.join(names)}")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 0 if result.result.status.ok else 1


class _Found(Protocol):
    """A result, and how it is written and told."""

    @property
    def result(self) -> Payload | DriveGains: ...

    @property
    def files(self) -> tuple[str, ...]:
        """All that can be written."""
        ...

    def write(self, draft: Path, configuration: dict[str, Any], command: str) -> tuple[str, ...]:
        """Write all files; returns notes on those that are missing."""
        ...

    def text(self) -> str:
        """What is printed."""
        ...


@dataclass(frozen=True)
class _Load:
    result: Payload
    experiment: LoadExperiment
    robot: Robot

    @property
    def files(self) -> tuple[str, ...]:
        from bodysense.identification.payload.output import PAYLOAD_FILES

        return PAYLOAD_FILES

    @classmethod
    def of(cls, experiment: LoadExperiment, options: Options, robot: Robot) -> _Load:
        from bodysense.identification.payload.identify_payload import GAIN_UNCERTAINTY, payload_of

        given = options.gain_uncertainty
        uncertainty = GAIN_UNCERTAINTY if given is None else given
        result = payload_of(experiment, gain_uncertainty=uncertainty)
        origin = {**result.provenance, "files": options.file_digests()}
        return cls(replace(result, provenance=origin), experiment, robot)

    def write(self, draft: Path, configuration: dict[str, Any], command: str) -> tuple[str, ...]:
        from bodysense.identification.payload.output import write_payload
        from bodysense.report.payload_page import write_payload_page

        notes = write_payload(draft, self.result, self.robot, configuration)
        write_payload_page(draft / "report.html", self.result, self.experiment, command=command)
        return notes

    def text(self) -> str:
        from bodysense.cli.load_tables import payload_text

        return payload_text(self.result, self.experiment)


@dataclass(frozen=True)
class _Gains:
    result: DriveGains
    experiment: LoadExperiment
    line: str

    @property
    def files(self) -> tuple[str, ...]:
        from bodysense.identification.payload.output import GAIN_FILES

        return GAIN_FILES

    @classmethod
    def of(
        cls, experiment: LoadExperiment, options: Options, robot: Robot, logs: Sequence[RawLog]
    ) -> _Gains:
        from bodysense.identification.payload.identify_drive_gains import drive_gains_of

        nominal, line = nominal_gains(options, robot, logs)
        result = drive_gains_of(
            experiment,
            load=options.load[0],
            com=options.load[1:] or None,
            nominal=nominal,
        )
        origin = {**result.provenance, "files": options.file_digests()}
        return cls(replace(result, provenance=origin), experiment, line(result))

    def write(self, draft: Path, configuration: dict[str, Any], command: str) -> tuple[str, ...]:
        from bodysense.identification.payload.output import write_drive_gains
        from bodysense.report.gains_page import write_gains_page

        write_drive_gains(draft, self.result, configuration)
        write_gains_page(
            draft / "report.html", self.result, self.experiment, line=self.line, command=command
        )
        return ()

    def text(self) -> str:
        from bodysense.cli.load_tables import gains_text

        return gains_text(self.result, self.experiment, self.line)


def nominal_gains(
    options: Options, robot: Robot, logs: Sequence[RawLog]
) -> tuple[Array, Callable[[DriveGains], str]]:
    """Gains (n,) that the logs' torques were made with, and how new ones are written down.

    Torques that the log has were made with the gains of its layout file, those from currents with
    the gains of the actuator file.
    """
    from bodysense.logs.layout_file import read_layout

    names = [f"tau.{joint}" for joint in robot.joint_names]
    if not all(name in log.channels for log in logs for name in names):

        def as_actuators(found: DriveGains) -> str:
            pairs = zip(found.joints, found.gains, strict=True)
            return f"drive_gain: {{{', '.join(f'{joint}: {gain:.5g}' for joint, gain in pairs)}}}"

        return np.array(robot.actuators.drive_gain), as_actuators
    if options.layout is None:
        return np.ones(len(names)), lambda found: found.layout_line()
    layout = read_layout(options.layout)
    if layout.motors is not None:

        def of_motors(found: DriveGains) -> str:
            factors = ", ".join(f"{factor:.5g}" for factor in found.factors)
            return f"# the layout's gains are of motors; factors of the joints: [{factors}]"

        return np.ones(len(names)), of_motors
    gain = {column.channel: column.gain for column in layout.channels}
    others = {joint: gain.get(f"tau.{joint}", 1.0) for joint in layout.joints}
    nominal = np.array([gain.get(name, 1.0) for name in names])
    return nominal, lambda found: found.layout_line(layout.joints, others)


def _refuse_recording_as_link(options: Options) -> None:
    """``--payload loaded.csv`` takes the recording for the name of the link."""
    if options.payload and Path(options.payload).is_file():
        raise MismatchError(
            f"--payload {options.payload} names a recording where the link belongs: put recordings "
            "first, as in bodysense identify ROBOT LOG --payload LINK."
        )


def _write(
    folder: str, found: _Found, experiment: LoadExperiment, options: Options, *, force: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write everything; returns the names of the files, and notes on those that are missing."""
    from bodysense.files import filled_together

    digests = [d.digest for d in (*experiment.loaded, *experiment.unloaded)]
    command = f"bodysense identify --config {Path(folder) / 'config.yaml'} -o ANOTHER_FOLDER"
    with filled_together(folder, replace=force, names=found.files) as draft:
        notes = found.write(draft, options.configuration(digests), command)
        names = tuple(sorted(path.name for path in draft.iterdir()))
    return names, notes
