"""`bodysense payload ROBOT LOG --unloaded LOG -o DIR`: mass, centre and inertia of a load."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from bodysense.cli.fit import LoadOptions, add_recordings, add_status, link_option
from bodysense.cli.options import print_notes, print_result, reproduction, working, write_folder
from bodysense.cli.run_options import option
from bodysense.cli.tables import Page, percent
from bodysense.errors import MismatchError

if TYPE_CHECKING:
    from bodysense.identification.payload.experiment import LoadExperiment
    from bodysense.identification.payload.payload import Payload
    from bodysense.robot import Robot
    from bodysense.spatial.arrays import Array


@dataclass(frozen=True, kw_only=True)
class _PayloadOptions(LoadOptions):
    """All settings of a run."""

    command: ClassVar[str] = "payload"
    usage: ClassVar[str] = "ROBOT LOG --unloaded LOG -o DIR"
    written: ClassVar[str] = "the loaded robot, the result and a report"
    retired: ClassVar[tuple[str, ...]] = ("load",)

    payload: str = link_option("")  # in every config.yaml: `identify` knows a load by it
    drive_gains: Literal[False] = False
    gain_uncertainty: float | None = option(
        "relative standard deviation of the drive gains (0.02)", group="uncertainty", metavar="X"
    )
    robot_uncertainty: float | None = option(
        "standard deviation of the arm's parameters in units of their plausible sizes, where there "
        "is no --unloaded (0.2)",
        group="uncertainty",
        metavar="X",
    )

    def __post_init__(self) -> None:
        """Refuse what would have no effect."""
        super().__post_init__()
        if self.unloaded and self.robot_uncertainty is not None:
            raise MismatchError(
                "--robot-uncertainty is for an arm that is taken as known: leave --unloaded or "
                "--robot-uncertainty out."
            )


add_arguments = _PayloadOptions.add_arguments


def run(args: argparse.Namespace) -> int:
    """Identify what a robot holds."""
    from bodysense.identification.payload.experiment import ROBOT_UNCERTAINTY
    from bodysense.identification.payload.identify_payload import (
        GAIN_UNCERTAINTY,
        payload_of,
        require_uncertainty,
    )
    from bodysense.identification.payload.payload import PAYLOAD_FILES

    options = _PayloadOptions.from_arguments(args)
    gains, arm = (
        default if given is None else given
        for given, default in (
            (options.gain_uncertainty, GAIN_UNCERTAINTY),
            (options.robot_uncertainty, ROBOT_UNCERTAINTY),
        )
    )
    require_uncertainty(gains)
    preprocessing = options.preprocessing()  # invalid settings are refused before a file is read
    with working(args) as shown:
        robot, logs = options.read()
        experiment = options.experiment(
            shown, robot, logs, preprocessing=preprocessing, robot_uncertainty=arm
        )
        payload = payload_of(experiment, gain_uncertainty=gains)
        shown.update("writing …")
        names, notes = write_folder(
            args,
            PAYLOAD_FILES,
            lambda draft: _write(draft, args.output, payload, robot, experiment, options),
        )
    print_result(args, _text(payload, experiment), payload.to_dict(), names)
    print_notes(notes)
    return 0 if payload.status.ok else 1


def _write(
    draft: Path,
    folder: str,
    payload: Payload,
    robot: Robot,
    experiment: LoadExperiment,
    options: _PayloadOptions,
) -> tuple[str, ...]:
    from bodysense.identification.payload.payload import write_payload
    from bodysense.report.load_page import write_payload_page

    configuration = options.configuration(*experiment.loaded, *experiment.unloaded)
    command = reproduction(options.command, folder)
    write_payload_page(draft / "report.html", payload, experiment, command=command)
    return write_payload(draft, payload, robot, configuration)


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
    inertia = zip("xyz", payload.inertia, payload.sigma_inertia, strict=True)
    page.table(
        f"In the frame of {payload.link}; ± is one standard deviation",
        ("", "x", "y", "z"),
        [
            ("centre of mass [mm]", *_pairs(1e3 * payload.com, 1e3 * payload.sigma_com)),
            *(
                (f"inertia about it, {axis} [g·m²]", *_pairs(1e3 * row, 1e3 * sigma))
                for axis, row, sigma in inertia
            ),
        ],
    )
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
    joints = enumerate(experiment.robot.joint_names)
    page.table(
        "Load-dependent friction, and squared error on held-out blocks in units of the noise "
        "variance",
        ("joint", "share of the torque [%]", "error without", "with"),
        [
            *(
                (
                    joint,
                    percent(losses[j]) if kept else "-",
                    *(f"{error:.2f}" for error in experiment.joint_errors[:, j]),
                )
                for j, joint in joints
            ),
            ("all", "", *(f"{error:.2f}" for error in experiment.errors)),
        ],
    )
    if not kept:
        page.line("it does not predict held-out blocks better, and is not part of the model")


def _pairs(values: Array, sigma: Array) -> list[str]:
    whole = np.round(values, 1) + 0.0  # no minus before zero
    return [f"{v:.1f} ± {s:.1f}" for v, s in zip(whole, sigma, strict=True)]
