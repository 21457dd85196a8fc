"""`Payload`: the body that a robot holds, with its uncertainty, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from bodysense.errors import BodysenseError, ShapeError
from bodysense.files import load_result, plain, restored, save_result, write_configuration
from bodysense.identification.payload.parts import LoadPart
from bodysense.robot.frames import with_payload
from bodysense.robot.io.mjcf_writer import write_mjcf
from bodysense.robot.io.urdf import write_urdf
from bodysense.robot.mounting import gravity_notes
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, read_only
from bodysense.spatial.pseudo_inertia import (
    PhysicalConsistency,
    inertia_at_com,
    physical_consistency,
)
from bodysense.status import Status


@dataclass(frozen=True, eq=False, repr=False)
class Payload:
    """Mass, centre and inertia of what is held, in the frame that holds it.

    Attributes:
        link: the link or frame.
        pi: (10,) inertial parameters about the frame's origin.
        covariance: (10, 10) of pi from the noise of the recordings, correlated in time.
        gain_covariance: (10, 10) of pi from the uncertainty of the drive gains.
        gain_uncertainty: relative standard deviation of the drive gains.
        parts: the mass from each third of the time with the load, and from each recording where
            there are several; all with the recordings without it.
        losses: (n,) load-dependent friction, as a share of the torque; zeros if none.
        errors: held-out mean squared error without and with such losses, in units of the noise.
        status: how the numerics ended.
        provenance: versions, settings, digests of the inputs.
    """

    link: str
    pi: Array
    covariance: Array
    gain_covariance: Array
    gain_uncertainty: float
    parts: tuple[LoadPart, ...]
    losses: Array
    errors: tuple[float, float]
    status: Status
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mass(self) -> float:
        return float(self.pi[0])

    @cached_property
    def com(self) -> Array:
        """(3,) centre of mass in the frame that holds it [m]; NaN if there is no mass."""
        return read_only(self.pi[1:4] / self.mass if self.mass else np.full(3, np.nan))

    @cached_property
    def inertia(self) -> Array:
        """(3, 3) about the centre of mass, in the axes of the frame [kg·m²]; NaN without mass."""
        return read_only(inertia_at_com(self.pi) if self.mass else np.full((3, 3), np.nan))

    @cached_property
    def consistency(self) -> PhysicalConsistency:
        return physical_consistency(self.pi)

    @cached_property
    def total_covariance(self) -> Array:
        """(10, 10) of pi from noise and gains."""
        return read_only(self.covariance + self.gain_covariance)

    @property
    def sigma_mass(self) -> float:
        """Standard deviation of the mass [kg], gains included."""
        return float(np.sqrt(self.total_covariance[0, 0]))

    @property
    def sigma_mass_data(self) -> float:
        """Standard deviation of the mass [kg] from the recordings alone."""
        return float(np.sqrt(self.covariance[0, 0]))

    @property
    def sigma_mass_gains(self) -> float:
        """Standard deviation of the mass [kg] from the drive gains alone."""
        return float(np.sqrt(self.gain_covariance[0, 0]))

    @cached_property
    def com_covariance(self) -> Array:
        """(3, 3) of the centre of mass [m²]."""
        if not self.mass:
            return read_only(np.full((3, 3), np.nan))
        return _propagated(lambda pi: pi[1:4] / pi[0], self.pi, self.total_covariance)

    @cached_property
    def sigma_com(self) -> Array:
        """(3,) standard deviations of the centre of mass [m]."""
        return read_only(np.sqrt(np.diag(self.com_covariance)))

    @cached_property
    def sigma_inertia(self) -> Array:
        """(3, 3) standard deviations of the inertia about the centre of mass [kg·m²]."""
        if not self.mass:
            return read_only(np.full((3, 3), np.nan))
        wide = _propagated(lambda pi: inertia_at_com(pi).ravel(), self.pi, self.total_covariance)
        return read_only(np.sqrt(np.diag(wide)).reshape(3, 3))

    def mass_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Ends of the interval that holds the mass so often [kg]; never below zero."""
        if not 0.0 < level < 1.0:
            raise ShapeError(f"level is {level:g}: give a share between 0 and 1, e.g. 0.95.")
        reach = float(ndtri(0.5 + 0.5 * level)) * self.sigma_mass
        return max(self.mass - reach, 0.0), max(self.mass + reach, 0.0)

    def held_by(self, robot: Robot) -> Robot:
        return with_payload(
            robot, self.mass, link=self.link, com=self.com, inertia=np.array(self.inertia)
        )

    def __repr__(self) -> str:
        return f"<Payload: {self.summary()}>"

    def summary(self) -> str:
        if not self.status.ok:
            return f"no load identified at {self.link}. {self.status.summary()}"
        low, high = self.mass_interval()
        where = ", ".join(f"{1e3 * x:.0f}" for x in self.com)
        return (
            f"{self.link} holds {self.mass:.3f} kg (95 %: {low:.3f} to {high:.3f} kg), centre of "
            f"mass at ({where}) mm. {self.status.summary()}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; unknown numbers are `None`."""
        low, high = self.mass_interval()
        table = {
            "link": self.link,
            "mass_kg": self.mass,
            "mass_interval_95_kg": [low, high],
            "mass_sigma_kg": self.sigma_mass,
            "mass_sigma_recordings_kg": self.sigma_mass_data,
            "mass_sigma_gains_kg": self.sigma_mass_gains,
            "mass_of_parts": [
                {
                    "part": part.name,
                    "mass_kg": part.mass,
                    "mass_sigma_kg": part.sigma,
                    "com_m": list(part.com),
                    "com_sigma_m": list(part.sigma_com),
                }
                for part in self.parts
            ],
            "com_m": self.com.tolist(),
            "com_sigma_m": self.sigma_com.tolist(),
            "inertia_at_com_kgm2": self.inertia.tolist(),
            "inertia_sigma_kgm2": self.sigma_inertia.tolist(),
            "gain_uncertainty": self.gain_uncertainty,
            "losses": self.losses.tolist(),
            "held_out_errors": {"without_losses": self.errors[0], "with_losses": self.errors[1]},
            "consistent": self.consistency.consistent,
            "status": self.status.to_dict(),
        }
        return dict(plain(table))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``payload.npz`` and ``payload.json`` into a folder."""
        about = {**self.to_dict(), "provenance": dict(self.provenance)}
        save_result(self, folder, "payload", about, {"errors": np.array(self.errors)})

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Payload:
        """Read what `save` wrote.

        Raises:
            FileReadError: the files are missing or damaged.
        """
        shapes = {
            "pi": (10,),
            "covariance": (10, 10),
            "gain_covariance": (10, 10),
            "errors": (2,),
        }
        return load_result(
            cls,
            folder,
            "payload",
            arrays=("errors",),
            shapes=lambda stored: shapes,
            parts=lambda stored: tuple(map(_part, stored["mass_of_parts"])),
            errors=lambda stored: tuple(stored["errors"].tolist()),
        )


def _part(table: Mapping[str, Any]) -> LoadPart:
    fields = ("part", "mass_kg", "mass_sigma_kg", "com_m", "com_sigma_m")
    hints = (str, float, float, tuple[float, ...], tuple[float, ...])
    return LoadPart(*(restored(table[key], hint) for key, hint in zip(fields, hints, strict=True)))


PAYLOAD_FILES = (
    "config.yaml",
    "endeffector-config.json",
    "loaded.urdf",
    "loaded.xml",
    "payload.json",
    "payload.npz",
    "payload.yaml",
    "report.html",
)
"""Everything that the identification of a load can write."""


def write_payload(
    folder: str | PathLike[str],
    payload: Payload,
    robot: Robot,
    configuration: Mapping[str, Any] | None = None,
) -> tuple[str, ...]:
    """Write everything but the report into an existing folder.

    Args:
        folder: where to.
        payload: the load.
        robot: that holds it, as its file describes it; written with the load.
        configuration: options of `bodysense payload --config` that reproduce it; without them there
            is no ``config.yaml``.

    Returns:
        Notes on files that could not be written.
    """
    target, notes = Path(folder), []
    if payload.status.ok:
        notes += [f"loaded.urdf: {note}" for note in gravity_notes(robot)]
    else:
        notes.append("loaded.urdf, loaded.xml, payload.yaml: not written, no load was identified.")
    files = (("loaded.urdf", write_urdf), ("loaded.xml", write_mjcf)) if payload.status.ok else ()
    for name, write in files:
        try:
            write(payload.held_by(robot), target / name)
        except BodysenseError as error:
            notes.append(f"{name} is not written: {error}")
    if payload.status.ok:
        from bodysense.identification.payload.makers import write_maker_files  # needs this module

        write_maker_files(target, payload, robot)
    payload.save(target)
    write_configuration(target, "payload", configuration)
    return tuple(notes)


def _propagated(function: Any, pi: Array, covariance: Array) -> Array:
    """(k, k) covariance of a smooth function of pi to (k,), by its derivatives."""
    step = 1e-6 * np.maximum(np.abs(pi), 1e-6 * np.abs(pi).max())
    J = np.stack(
        [
            (function(pi + h * e) - function(pi - h * e)) / (2.0 * h)
            for h, e in zip(step, np.eye(10), strict=True)
        ],
        axis=1,
    )
    return read_only(J @ covariance @ J.T)
