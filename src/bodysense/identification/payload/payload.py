"""`Payload`: a body that a robot was found to hold, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from scipy.special import ndtri

from bodysense.errors import FileReadError, ShapeError
from bodysense.files import read_result, write_result
from bodysense.identification.payload.parts import LoadPart
from bodysense.robot.payload import with_payload
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, read_only
from bodysense.spatial.pseudo_inertia import (
    PhysicalConsistency,
    inertia_at_com,
    physical_consistency,
)

# How an identification with a load ended: perhaps a failure, and notes.


@dataclass(frozen=True)
class LoadStatus:
    """How it ended.

    Attributes:
        failure: why the result is of no use, and what to do about it; empty if it is of use.
        notes: what to know about the result or the recordings, and what to do about it.
    """

    failure: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the result can be used."""
        return not self.failure

    @property
    def message(self) -> str:
        """All of it in words."""
        return " ".join(words for words in (self.failure, *self.notes) if words) or "Solved."

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "ok": self.ok,
            "message": self.message,
            "failure": self.failure,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> LoadStatus:
        """Read what `to_dict` wrote."""
        return cls(str(table["failure"]), tuple(str(note) for note in table["notes"]))


# Numbers of a result in JSON, which has no NaN: what is not known is null.


def known_alone(table: Mapping[str, Any]) -> dict[str, Any]:
    """The same table, with `None` for numbers that are not finite, in tables and lists inside."""
    return {key: _known(value) for key, value in table.items()}


def number_of(value: float | None) -> float:
    """The number; NaN for null."""
    return math.nan if value is None else float(value)


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return known_alone(value)
    if isinstance(value, list):
        return [_known(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, eq=False, repr=False)
class Payload:
    """Mass, centre and inertia of what is held, in the frame that holds it.

    Attributes:
        link: the link or frame.
        pi: (10,) inertial parameters about the frame's origin.
        covariance: (10, 10) of pi from the noise of the recordings, correlated in time.
        gain_covariance: (10, 10) of pi from drive gains that may be off.
        gain_uncertainty: how far they may be off, relatively, one standard deviation.
        parts: the mass from each third of the time with the load, and from each recording where
            there are several; all with the recordings without it.
        losses: (n,) friction that grows with load, as a share of the torque; zeros if none.
        errors: held-out mean squared error without and with such losses, in units of the noise.
        status: how the numerics ended, and what to think of the result.
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
    status: LoadStatus
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mass(self) -> float:
        """Mass [kg]."""
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
        """Whether such a body can exist."""
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
        """Standard deviation of the mass [kg] from drive gains that may be off alone."""
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
        """The robot with this load."""
        return with_payload(
            robot, self.mass, link=self.link, com=self.com, inertia=np.array(self.inertia)
        )

    def __repr__(self) -> str:
        return f"<Payload: {self.summary()}>"

    def summary(self) -> str:
        """What is held, in a line."""
        if not self.status.ok:
            return f"no load identified at {self.link}. {self.status.message}"
        low, high = self.mass_interval()
        where = ", ".join(f"{1e3 * x:.0f}" for x in self.com)
        return (
            f"{self.link} holds {self.mass:.3f} kg (95 %: {low:.3f} to {high:.3f} kg), centre of "
            f"mass at ({where}) mm. {self.status.message}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; what is not known is `None`."""
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
        return known_alone(table)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``payload.npz`` and ``payload.json`` into a folder."""
        arrays = {name: np.asarray(getattr(self, name)) for name in _ARRAYS}
        about = {**self.to_dict(), "provenance": dict(self.provenance), "summary": self.summary()}
        write_result(folder, "payload", arrays, about)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Payload:
        """Read what `save` wrote.

        Raises:
            FileReadError: the files are missing or damaged.
        """
        arrays, about = read_result(folder, "payload", _ARRAYS, ("link", "status", "provenance"))
        try:
            shapes = [arrays[name].shape for name in ("pi", "covariance", "gain_covariance")]
            if shapes != [(10,), (10, 10), (10, 10)] or arrays["errors"].shape != (2,):
                raise ValueError(f"shapes {shapes}")
            return cls(
                link=str(about["link"]),
                pi=read_only(arrays["pi"]),
                covariance=read_only(arrays["covariance"]),
                gain_covariance=read_only(arrays["gain_covariance"]),
                gain_uncertainty=float(about["gain_uncertainty"]),
                parts=tuple(
                    LoadPart(
                        str(part["part"]),
                        number_of(part["mass_kg"]),
                        number_of(part["mass_sigma_kg"]),
                        tuple(number_of(x) for x in part["com_m"]),
                        tuple(number_of(x) for x in part["com_sigma_m"]),
                    )
                    for part in about["mass_of_parts"]
                ),
                losses=read_only(arrays["losses"]),
                errors=(float(arrays["errors"][0]), float(arrays["errors"][1])),
                status=LoadStatus.from_dict(about["status"]),
                provenance=dict(about["provenance"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FileReadError(
                f"payload.json and payload.npz in {folder} are damaged ({error!r}): save the "
                "result again."
            ) from error


_ARRAYS = ("pi", "covariance", "gain_covariance", "losses", "errors")


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
