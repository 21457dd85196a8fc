"""`bodysense gains ROBOT LOG --unloaded LOG --load KG -o DIR`: drive gains from a weighed load."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from bodysense.cli.fit import LoadOptions, add_recordings, add_status
from bodysense.cli.options import numbers, print_result, reproduction, working, write_folder
from bodysense.cli.run_options import required
from bodysense.cli.tables import Page, percent
from bodysense.status import BAND

if TYPE_CHECKING:
    from bodysense.identification.payload.drive_gains import DriveGains
    from bodysense.identification.payload.experiment import LoadExperiment
    from bodysense.logs.log import Log
    from bodysense.robot import Robot
    from bodysense.spatial.arrays import Array


@dataclass(frozen=True, kw_only=True)
class _GainsOptions(LoadOptions):
    """All settings of a run."""

    command: ClassVar[str] = "gains"
    usage: ClassVar[str] = "ROBOT LOG --unloaded LOG --load KG -o DIR"
    written: ClassVar[str] = "the result and a report"
    needed: ClassVar[dict[str, str]] = {
        **LoadOptions.needed,
        "unloaded": "one without the load (--unloaded LOG)",
        "load": "the weighed mass of the load (--load KG)",
    }

    drive_gains: Literal[True] = True
    load: tuple[float, ...] = required(
        "weighed mass of the load, and its centre of mass [m]", metavar="KG[,x,y,z]"
    )

    @classmethod
    def _given(cls, args: argparse.Namespace) -> dict[str, Any]:
        table = super()._given(args)
        if args.load is not None:
            table["load"] = numbers(args.load, "--load", "KG or KG,x,y,z", counts=(1, 4))
        return table


add_arguments = _GainsOptions.add_arguments


def run(args: argparse.Namespace) -> int:
    """Identify drive gains."""
    from bodysense.identification.payload.drive_gains import GAIN_FILES
    from bodysense.identification.payload.identify_drive_gains import drive_gains_of

    options = _GainsOptions.from_arguments(args)
    preprocessing = options.preprocessing()  # invalid settings are refused before a file is read
    with working(args) as shown:
        robot, logs = options.read()
        experiment = options.experiment(shown, robot, logs, preprocessing=preprocessing)
        nominal, line_of = _nominal_gains(options, robot, [*logs[0], *logs[1]])
        mass, *com = options.load
        gains = drive_gains_of(experiment, load=mass, com=com or None, nominal=nominal)
        line = line_of(gains)
        shown.update("writing …")
        names, _ = write_folder(
            args,
            GAIN_FILES,
            lambda draft: _write(draft, args.output, gains, line, experiment, options),
        )
    print_result(args, _text(gains, experiment, line), gains.to_dict(), names)
    return 0 if gains.status.ok else 1


def _write(
    draft: Path,
    folder: str,
    gains: DriveGains,
    line: str,
    experiment: LoadExperiment,
    options: _GainsOptions,
) -> tuple[str, ...]:
    from bodysense.identification.payload.drive_gains import write_drive_gains
    from bodysense.report.load_page import write_gains_page

    write_drive_gains(draft, gains, options.configuration(*experiment.loaded, *experiment.unloaded))
    command = reproduction(options.command, folder)
    write_gains_page(draft / "report.html", gains, experiment, line=line, command=command)
    return ()


def _nominal_gains(
    options: _GainsOptions, robot: Robot, logs: Sequence[Log]
) -> tuple[Array, Callable[[DriveGains], str]]:
    """Gains (n,) that the logs' torques were made with, and the line that holds new ones.

    Torques in the log were made with the gains of its layout file, those from currents with the
    gains of the actuator file.
    """
    from bodysense.logs.layout import ChannelColumn, read_layout

    names = [f"tau.{joint}" for joint in robot.joint_names]
    if not all(name in log.channels for log in logs for name in names):
        return np.array(robot.actuators.drive_gain), _actuator_line
    if options.layout is None:
        return np.ones(len(names)), lambda gains: gains.layout_line()
    layout = read_layout(options.layout)
    if layout.motors is not None:
        return np.ones(len(names)), _motor_line
    gain = {name: layout.scaled(ChannelColumn(name, "", "")).gain for name in names}
    gain |= {column.channel: column.gain for column in layout.channels}
    others = {joint: gain.get(f"tau.{joint}", 1.0) for joint in layout.joints}
    nominal = np.array([gain.get(name, 1.0) for name in names])
    return nominal, lambda gains: gains.layout_line(layout.joints, others)


def _actuator_line(gains: DriveGains) -> str:
    pairs = zip(gains.joints, gains.gains, strict=True)
    return f"drive_gain: {{{', '.join(f'{joint}: {gain:.5g}' for joint, gain in pairs)}}}"


def _motor_line(gains: DriveGains) -> str:
    factors = ", ".join(f"{factor:.5g}" for factor in gains.factors)
    return f"# the layout's gains are of motors; factors of the joints: [{factors}]"


def _text(gains: DriveGains, experiment: LoadExperiment, line: str) -> str:
    page = Page()
    page.line(
        f"drive gains from a load of {gains.load_mass:g} kg at {gains.link}, identified as "
        f"{gains.load_before:.3f} kg with the nominal gains",
        style="bold",
    )
    add_recordings(page, experiment)
    if gains.status.ok:  # others are not to be pasted
        _add_gains(page, gains, line)
    add_status(page, gains.status)
    return page.text()


def _add_gains(page: Page, gains: DriveGains, line: str) -> None:
    """Add the gains, what they make of the load, and the line that holds them."""
    reach = BAND * gains.sigma_gains
    page.table(
        "Gains with 95 % intervals, and error of the predicted torque on held-out blocks [%]",
        ("joint", "nominal", "identified", "95 %", "factor", "error before", "after"),
        (
            (
                joint,
                f"{gains.nominal[j]:.5g}",
                f"{gains.gains[j]:.5g}",
                f"{gains.gains[j] - reach[j]:.4g} to {gains.gains[j] + reach[j]:.4g}",
                f"{gains.factors[j]:.4f}",
                percent(gains.errors_before[j]),
                percent(gains.errors_after[j]),
            )
            for j, joint in enumerate(gains.joints)
        ),
    )
    masses = (f"{m:.3f}" if math.isfinite(m) else "-" for m in gains.load_after)
    page.line(f"the load on held-out blocks, with gains of the others: {', '.join(masses)} kg")
    rest = (
        "; without load-dependent friction they would change by up to "
        f"{100.0 * gains.model_sensitivity:.1f} %"
    )
    page.line(f"1 % more load makes every gain 1 % larger{rest if gains.losses.any() else ''}")
    page.line("")
    page.line(line, wrap=False)
