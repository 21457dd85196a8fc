"""`bodysense payload ROBOT LOG --unloaded LOG -o DIR`: mass, centre and inertia of a load."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from bodysense.cli.load import (
    LoadOptions,
    LoadRun,
    add_load_arguments,
    add_recordings,
    add_status,
    configuration,
    run_load,
)
from bodysense.cli.options import reproduction
from bodysense.cli.tables import Page
from bodysense.errors import MismatchError

if TYPE_CHECKING:
    from bodysense.identification.payload.experiment import LoadExperiment
    from bodysense.identification.payload.payload import Payload
    from bodysense.logs.log import Log
    from bodysense.robot import Robot
    from bodysense.spatial.arrays import Array


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_load_arguments(parser, "the loaded robot, the result and a report")
    add = parser.add_argument_group("uncertainty").add_argument
    add(
        "--gain-uncertainty",
        metavar="X",
        type=float,
        help="relative standard deviation of the drive gains (0.02)",
    )
    add(
        "--robot-uncertainty",
        metavar="X",
        type=float,
        help="standard deviation of the arm's parameters in units of their plausible sizes, where "
        "there is no --unloaded (0.2)",
    )


@dataclass(frozen=True, kw_only=True)
class PayloadOptions(LoadOptions):
    """All settings of a run."""

    command: ClassVar[str] = "payload"
    usage: ClassVar[str] = "ROBOT LOG --unloaded LOG -o DIR"
    retired: ClassVar[tuple[str, ...]] = ("load",)

    payload: str = ""
    drive_gains: Literal[False] = False
    gain_uncertainty: float | None = None
    robot_uncertainty: float | None = None

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        super().__post_init__()
        if self.unloaded and self.robot_uncertainty is not None:
            raise MismatchError(
                "--robot-uncertainty is for an arm that is taken as known: leave --unloaded or "
                "--robot-uncertainty out."
            )


def run(args: argparse.Namespace) -> int:
    """Identify what a robot holds."""
    from bodysense.identification.payload.identify_payload import (
        GAIN_UNCERTAINTY,
        payload_of,
        require_uncertainty,
    )
    from bodysense.identification.payload.payload import PAYLOAD_FILES

    options = PayloadOptions.from_arguments(args)
    given = options.gain_uncertainty
    uncertainty = GAIN_UNCERTAINTY if given is None else given
    require_uncertainty(uncertainty)

    def solve(experiment: LoadExperiment, robot: Robot, logs: Sequence[Log]) -> LoadRun:
        result = payload_of(experiment, gain_uncertainty=uncertainty)

        def write(draft: Path, experiment: LoadExperiment) -> tuple[str, ...]:
            from bodysense.identification.payload.payload import write_payload
            from bodysense.report.payload_page import write_payload_page

            notes = write_payload(draft, result, robot, configuration(options, experiment))
            command = reproduction(options.command, args.output)
            write_payload_page(draft / "report.html", result, experiment, command=command)
            return notes

        return LoadRun(result, experiment, PAYLOAD_FILES, write, _text(result, experiment))

    return run_load(args, options, solve, options.robot_uncertainty)


def _text(payload: Payload, experiment: LoadExperiment) -> str:
    page = Page()
    low, high = payload.mass_interval()
    if not payload.status.ok:
        page.line(f"FAILED: no load identified at {payload.link}", style="bold red")
    else:
        known = "" if experiment.unloaded else ", with the arm as its file describes it"
        page.line(
            f"{payload.link} holds {payload.mass:.3f} kg (95 %: {low:.3f} to {high:.3f} kg){known}",
            style="bold",
        )
    add_recordings(page, experiment)
    if not payload.status.ok:
        _parts(page, payload)
        add_status(page, payload.status)
        return page.text()
    page.line(
        f"standard deviation of the mass {payload.sigma_mass:.3f} kg: "
        f"{payload.sigma_mass_data:.3f} from the recordings"
        f"{'' if experiment.unloaded else ' and the arm'}, {payload.sigma_mass_gains:.3f} from "
        f"drive gains with an uncertainty of {100.0 * payload.gain_uncertainty:g} %"
    )
    _parts(page, payload)
    table = page.table(
        f"In the frame of {payload.link}; ± is one standard deviation", "", "x", "y", "z", text=(0,)
    )
    table.add_row("centre of mass [mm]", *_pairs(1e3 * payload.com, 1e3 * payload.sigma_com))
    for axis, row, sigma in zip("xyz", payload.inertia, payload.sigma_inertia, strict=True):
        table.add_row(f"inertia about it, {axis} [g·m²]", *_pairs(1e3 * row, 1e3 * sigma))
    page.show(table)
    _losses(page, experiment, payload.losses)
    add_status(page, payload.status)
    return page.text()


def _parts(page: Page, payload: Payload) -> None:
    page.line(
        "mass and centre from parts of the recordings with the load, ± one standard deviation:"
    )
    for part in payload.parts:
        page.line(f"  {part}{' at ' if part.centre else ''}{part.centre}")


def _losses(page: Page, experiment: LoadExperiment, losses: Array) -> None:
    kept = experiment.problem.n_losses > 0
    table = page.table(
        "Load-dependent friction, and squared error on held-out blocks in units of the noise "
        "variance",
        "joint",
        "share of the torque [%]",
        "error without",
        "with",
        text=(0,),
    )
    for j, joint in enumerate(experiment.robot.joint_names):
        table.add_row(
            joint,
            f"{100.0 * losses[j]:.1f}" if kept else "-",
            *(f"{error:.2f}" for error in experiment.joint_errors[:, j]),
        )
    table.add_row("all", "", *(f"{error:.2f}" for error in experiment.errors))
    page.show(table)
    if not kept:
        page.line("it does not predict held-out blocks better, and is not part of the model")


def _pairs(values: Array, sigma: Array) -> list[str]:
    whole = np.round(values, 1) + 0.0  # no minus before zero
    return [f"{v:.1f} ± {s:.1f}" for v, s in zip(whole, sigma, strict=True)]
