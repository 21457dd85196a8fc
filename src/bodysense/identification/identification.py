"""`Identification`: the estimate of an identifier, its uncertainty and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from bodysense.errors import BodysenseError, FileReadError, MismatchError, ShapeError, listing
from bodysense.files import load_result, read_arrays, read_json, save_result
from bodysense.robot.base_parameters import BaseParameters, base_parameters
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, read_only
from bodysense.spatial.pseudo_inertia import PhysicalConsistency, physical_consistency
from bodysense.status import Status as Status

Label = Literal["identified", "driven by the prior", "not identifiable", "known"]
LABELS: tuple[Label, ...] = ("identified", "driven by the prior", "not identifiable", "known")

_IDENTIFIED = 0.9
"""Resolution from which a parameter counts as identified: its standard deviation is then at most a
third of its plausible size."""

_BORDER = 1e-3  # margin of physical consistency below which a link is at its border
_IDENTIFIABLE = 0.01  # resolution below which a parameter counts as not identifiable


@dataclass(frozen=True)
class Iteration:
    """One step of an iterative method: its cost and how far the parameters moved, relatively."""

    cost: float
    change: float


@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """The result of an identifier.

    Attributes:
        method: name of the identifier.
        prior: the robot before.
        base: its base parameters.
        theta: (p,) all parameters: the data's where they speak, the prior's elsewhere.
        covariance: (b, b) of the base parameters, from residuals that are correlated in time;
            widened where few rows decide, so that 1.96 standard deviations are 95 %.
        sigma: (p,) standard deviation of each parameter of theta, plausible sizes of the prior
            included.
        resolution: (p,) share of the data in each parameter: 1 the data decide, 0 the prior.
        base_resolution: (b,) the same for the base parameters.
        noise: (n_logs, n) standard deviation of each log's and joint's residual [N·m].
        correlation_time: (n_logs,) how long residuals stay correlated [s].
        status: how the numerics ended.
        trace: the iterations, if there were any.
        provenance: versions, configuration, seed, digests of the inputs.
    """

    method: str
    prior: Robot
    base: BaseParameters
    theta: Array
    covariance: Array
    sigma: Array
    resolution: Array
    base_resolution: Array
    noise: Array
    correlation_time: Array
    status: Status
    trace: tuple[Iteration, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def theta_base(self) -> Array:
        """(b,) base parameters."""
        return read_only(self.base.to_base(self.theta))

    @cached_property
    def sigma_base(self) -> Array:
        """(b,) standard deviations of the base parameters."""
        return read_only(np.sqrt(np.diag(self.covariance)))

    @cached_property
    def robot(self) -> Robot:
        return self.prior.with_parameters(self.theta)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """Of each parameter of theta: identified, driven by the prior, not identifiable, or known.

        Known is what was given as certain. A parameter that shows only in combination with others
        is never identified: how a combination is shared out among them is the prior's doing.
        """
        alone = set(self.base.alone)
        result = (_label(r) for r in self.resolution)
        return tuple(
            LABELS[3]
            if sigma == 0.0
            else label
            if name in alone or label != LABELS[0]
            else LABELS[1]
            for name, label, sigma in zip(self.prior.layout.names, result, self.sigma, strict=True)
        )

    @cached_property
    def base_labels(self) -> tuple[Label, ...]:
        """Of each base parameter."""
        return tuple(_label(r) for r in self.base_resolution)

    def unidentified(self) -> str:
        """How many base parameters are not identified, by label, in words."""
        _, driven, hidden, _ = (self.base_labels.count(label) for label in LABELS)
        return f"{driven} are {LABELS[1]}, {hidden} {LABELS[2]}"

    @cached_property
    def consistency(self) -> tuple[PhysicalConsistency, ...]:
        """Whether the inertia of each link is physically consistent, with margins."""
        layout = self.prior.layout
        return tuple(
            physical_consistency(self.theta[layout.link(k)]) for k in range(layout.n_links)
        )

    @property
    def consistent(self) -> bool:
        """Whether all inertias are physically consistent and no drive parameter is negative."""
        return all(c.consistent for c in self.consistency) and not self.negative_drives

    @cached_property
    def border(self) -> tuple[str, ...]:
        """Names of the links that are consistent, but at the border of it."""
        return tuple(
            name
            for name, c in zip(self.prior.link_names, self.consistency, strict=True)
            if c.consistent and c.margin < _BORDER
        )

    @cached_property
    def negative_drives(self) -> tuple[str, ...]:
        """Drive parameters that are negative and must not be."""
        names = self.prior.layout.names
        return tuple(names[k] for k in positive_parameters(self.prior) if self.theta[k] < 0.0)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Lower and upper ends (b,) of intervals that hold the base parameters so often."""
        if not 0.0 < level < 1.0:
            raise ShapeError(f"level is {level:g}: give a share between 0 and 1, e.g. 0.95.")
        reach = float(ndtri(0.5 + 0.5 * level)) * self.sigma_base
        return self.theta_base - reach, self.theta_base + reach

    def __repr__(self) -> str:
        return f"<Identification: {self.summary()}>"

    def summary(self) -> str:
        result = sum(label == "identified" for label in self.base_labels)
        physical = "physically consistent" if self.consistent else "NOT physically consistent"
        if self.consistent and self.border:
            physical = f"at the border of physical consistency ({listing(self.border)})"
        return (
            f"{self.method} on {self.prior.name}: {result} of {self.base.size} base parameters "
            f"identified, {physical}. {self.status.summary()}"
        )

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``identification.npz`` and ``identification.json`` into a folder."""
        about = {
            "method": self.method,
            "robot": _card(self.prior),
            "status": self.status.to_dict(),
            "trace": self.trace,
            "provenance": dict(self.provenance),
        }
        save_result(self, folder, "identification", about)

    @classmethod
    def load(
        cls, folder: str | PathLike[str], prior: Robot, base: BaseParameters | None = None
    ) -> Identification:
        """Read what `save` wrote.

        Args:
            folder: with ``identification.npz`` and ``identification.json``.
            prior: the robot that it started from, as its file describes it; if the friction law
                was chosen by the data, this law is put on it.
            base: base parameters of that robot and law, if known.

        Raises:
            FileReadError: the files are damaged, or belong to another robot.
        """
        about = read_json(Path(folder) / "identification.json", ("robot", "provenance"))
        robot = _with_law(about["provenance"], _with_locks(about["provenance"], prior))
        _require_same(about["robot"], robot, folder)
        reduced = base if base is not None else base_parameters(robot)
        p, b = robot.layout.size, reduced.size

        def shapes(stored: dict[str, Any]) -> dict[str, tuple[int, ...]]:
            n_logs = stored["correlation_time"].size
            return {
                **dict.fromkeys(("theta", "sigma", "resolution"), (p,)),
                "covariance": (b, b),
                "base_resolution": (b,),
                "noise": (n_logs, robot.n_joints),
                "correlation_time": (n_logs,),
            }

        return load_result(
            cls,
            folder,
            "identification",
            shapes=shapes,
            prior=lambda stored: robot,
            base=lambda stored: reduced,
        )


def _card(robot: Robot) -> dict[str, Any]:
    """By what a robot is known again: parameters have the same names in many robots."""
    return {
        "name": robot.name,
        "joints": list(robot.joint_names),
        "parameters": list(robot.layout.names),
        "friction": [robot.friction.model.name, robot.friction.shape.tolist()],
        "theta": [float(x) for x in robot.theta],
        "gravity": [float(x) for x in robot.model.gravity.linear],
    }


def locked_as_in(folder: str | PathLike[str], robot: Robot) -> Robot:
    """The robot with the joints locked that were in the identification of a folder, if any."""
    path = Path(folder) / "identification.json"
    if not path.is_file():
        return robot
    return _with_locks(read_json(path, ("provenance",))["provenance"], robot)


def covariance_in(folder: str | PathLike[str], robot: Robot) -> tuple[Array, Array]:
    """Covariance (b, b) in the folder of an identification, and the places in theta it is of (b,).

    Raises:
        MismatchError: it is of another robot than this one.
    """
    path = Path(folder) / "identification.npz"
    stored, base = read_arrays(path, ("theta", "covariance")), base_parameters(robot)
    same = stored["theta"].shape == robot.theta.shape and np.allclose(
        stored["theta"], robot.theta, rtol=1e-6, atol=1e-9
    )
    if not same or stored["covariance"].shape != (base.size, base.size):
        raise MismatchError(
            f"{path} is of another robot than the one beside it: identify anew, or leave "
            "--parameter-covariance, --actuators, --lock and --floating out."
        )
    return stored["covariance"], np.array(base.independent)


def _with_locks(provenance: object, robot: Robot) -> Robot:
    """The robot with the joints locked that were in the run of a provenance, where it has them."""
    origin = provenance.get("robot") if isinstance(provenance, dict) else None
    locked = origin.get("locked") if isinstance(origin, dict) else None
    if not isinstance(locked, dict) or robot.locked is not None:
        return robot
    try:
        return robot.with_locked_joints({str(name): float(q) for name, q in locked.items()})
    except (BodysenseError, TypeError, ValueError):
        return robot  # another robot, or damage: the comparison that follows tells


def _with_law(provenance: object, robot: Robot) -> Robot:
    """The robot with the friction law of the run, if it is another than its own."""
    law = provenance.get("friction") if isinstance(provenance, dict) else None
    if not isinstance(law, dict) or not isinstance(law.get("shape"), dict):
        return robot
    try:
        return robot.with_friction(str(law["model"]), **law["shape"])
    except (BodysenseError, KeyError, TypeError):
        return robot  # another robot, or damage: the comparison that follows tells


def _require_same(card: object, robot: Robot, folder: str | PathLike[str]) -> None:
    mine = _card(robot)
    theirs = card if isinstance(card, dict) else {}
    if any(theirs.get(key) != mine[key] for key in ("name", "joints", "parameters", "friction")):
        raise FileReadError(
            f"the identification in {folder} is of another robot than {robot.name!r}, or has other "
            "parameters: load the robot with the same friction law and actuators as before."
        )
    try:
        same = np.allclose(theirs["theta"], mine["theta"], rtol=1e-9, atol=0.0)
        same &= np.allclose(theirs.get("gravity", mine["gravity"]), mine["gravity"])
    except (KeyError, TypeError, ValueError):
        same = False
    if not same:
        raise FileReadError(
            f"the identification in {folder} started from other values than {robot.name!r} has: "
            "load the robot file that it was identified from, with the same gravity."
        )


_POSITIVE = ("Ia", "Iam", "Fv", "Fvm", "Fc", "Fcm", "Fs", "Fl")


def positive_parameters(robot: Robot) -> list[int]:
    """Places in theta of drive parameters that cannot be negative: inertias and dissipation."""
    layout = robot.layout
    return [
        k
        for k in range(layout.rotor.start, layout.size)
        if layout.names[k].rstrip("0123456789") in _POSITIVE
    ]


def _label(resolution: float) -> Label:
    if resolution >= _IDENTIFIED:
        return LABELS[0]
    return LABELS[1] if resolution >= _IDENTIFIABLE else LABELS[2]
