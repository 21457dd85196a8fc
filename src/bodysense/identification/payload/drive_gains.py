"""`DriveGains`: gains from motor current to joint torque, with their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from bodysense.errors import MismatchError
from bodysense.files import load_result, plain, save_result, write_configuration
from bodysense.identification.payload.experiment import LoadExperiment
from bodysense.robot.dynamics import inverse_dynamics
from bodysense.robot.frames import with_payload
from bodysense.spatial.arrays import Array, read_only
from bodysense.status import Status


@dataclass(frozen=True, eq=False, repr=False)
class DriveGains:
    """Factors by which the torques of a log have to be multiplied to be right.

    Attributes:
        joints: names.
        factors: (n,) true gain over the one that the log's torques were made with; all positive.
        sigma: (n,) standard deviations of the factors, for the load as given.
        nominal: (n,) gains that the log's torques were made with; ones where they are not known.
        load_mass: mass of the load, as it was given [kg].
        link: that held it.
        load_before: its mass with the nominal gains [kg].
        load_after: (3,) its mass on held-out blocks, with gains of the other blocks [kg].
        block_uncertainty: relative standard deviation of a gain by leaving blocks out in turn
            (jackknife), of the median gain; not a number if recordings are too short for that.
        total_least_squares: (n,) factors without physical consistency.
        without_losses: (n,) factors without load-dependent friction.
        errors_before: (n,) held-out relative error of the torque with nominal gains.
        errors_after: (n,) with these.
        losses: (n,) load-dependent friction, as a share of the torque; zeros if none.
        status: how the numerics ended.
        provenance: versions, settings, digests of the inputs.
    """

    joints: tuple[str, ...]
    factors: Array
    sigma: Array
    nominal: Array
    load_mass: float
    link: str
    load_before: float
    load_after: Array
    block_uncertainty: float
    total_least_squares: Array
    without_losses: Array
    errors_before: Array
    errors_after: Array
    losses: Array
    status: Status
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def gains(self) -> Array:
        """(n,) the gains themselves: those to write into the log's layout."""
        return read_only(self.nominal * self.factors)

    @cached_property
    def sigma_gains(self) -> Array:
        """(n,) their standard deviations."""
        return read_only(np.abs(self.nominal) * self.sigma)

    def layout_line(
        self, order: Sequence[str] = (), others: Mapping[str, float] | None = None
    ) -> str:
        """``gain: […]``, to be pasted into the layout file of the logs.

        Args:
            order: of the joints in that file; by default the robot's.
            others: gains of joints in that file that are not the robot's; ones if not given.

        Raises:
            MismatchError: the file lacks a joint, so that no such line could stand there.
        """
        names = order or self.joints
        missing = [joint for joint in self.joints if joint not in names]
        if missing:
            raise MismatchError(
                f"the layout has no {', '.join(missing)}, only {', '.join(names)}: give the layout "
                "of these recordings, in which every joint of the robot has its place."
            )
        gains = {**(others or {}), **dict(zip(self.joints, self.gains, strict=True))}
        return f"gain: [{', '.join(f'{gains.get(name, 1.0):.5g}' for name in names)}]"

    @property
    def sensitivity(self) -> float:
        """Relative change of every gain by a relative change of the load: exactly one.

        tau_j = g_j Y_j x with a load of mass m is tau_j = (g_j / c) Y_j (c x) with one of c m.
        """
        return 1.0

    @property
    def model_sensitivity(self) -> float:
        """Largest relative change of a gain without load-dependent friction."""
        return float(np.abs(self.without_losses / self.factors - 1.0).max())

    @property
    def gain_uncertainty(self) -> float:
        """Relative standard deviation of a gain, for the load as given: what `payload` needs.

        The largest of noise, of the median gain, of `block_uncertainty`, and of 1 %, by which gains
        change with temperature. Recordings too short to leave blocks out have the bound
        √(noise² + model²) with `model_sensitivity`. The error of the load's mass comes on top.
        """
        noise = float(np.median(self.sigma / self.factors))
        if not np.isfinite(self.block_uncertainty):
            return max(float(np.hypot(noise, self.model_sensitivity)), _SMALLEST_UNCERTAINTY)
        return max(noise, self.block_uncertainty, _SMALLEST_UNCERTAINTY)

    def __repr__(self) -> str:
        return f"<DriveGains: {self.summary()}>"

    def summary(self) -> str:
        worst = int(np.argmax(self.sigma / self.factors))
        return (
            f"gains {', '.join(f'{g:.4g}' for g in self.gains)} from a load of {self.load_mass:g} "
            f"kg, {self.load_before:.3f} kg with the nominal gains; least certain: "
            f"{self.joints[worst]} ({100.0 * self.sigma[worst] / self.factors[worst]:.1f} %). "
            f"{self.status.summary()}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; unknown numbers are `None`."""
        table = {
            "joints": list(self.joints),
            "gains": self.gains.tolist(),
            "gains_sigma": self.sigma_gains.tolist(),
            "nominal": self.nominal.tolist(),
            "factors": self.factors.tolist(),
            "factors_sigma": self.sigma.tolist(),
            "factors_total_least_squares": self.total_least_squares.tolist(),
            "factors_without_losses": self.without_losses.tolist(),
            "load_kg": self.load_mass,
            "link": self.link,
            "load_with_nominal_gains_kg": self.load_before,
            "load_on_blocks_left_out_kg": self.load_after.tolist(),
            "held_out_relative_error": {
                "nominal": self.errors_before.tolist(),
                "identified": self.errors_after.tolist(),
            },
            "losses": self.losses.tolist(),
            "sensitivity": {
                "to_the_load": self.sensitivity,
                "to_losses": self.model_sensitivity,
                "means": "relative change of a gain by a relative change of the load's mass; and "
                "the largest relative change if friction did not grow with the load",
            },
            "gain_uncertainty": self.gain_uncertainty,
            "gain_uncertainty_by_blocks": self.block_uncertainty,
            "status": self.status.to_dict(),
        }
        return dict(plain(table))

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``drive_gains.npz`` and ``drive_gains.json`` into a folder."""
        about = {**self.to_dict(), "provenance": dict(self.provenance)}
        save_result(self, folder, "drive_gains", about)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> DriveGains:
        """Read what `save` wrote.

        Raises:
            FileReadError: the files are missing or damaged.
        """
        return load_result(
            cls,
            folder,
            "drive_gains",
            keys={
                "load_mass": "load_kg",
                "load_before": "load_with_nominal_gains_kg",
                "block_uncertainty": "gain_uncertainty_by_blocks",
            },
            shapes=lambda stored: dict.fromkeys(_PER_JOINT, (len(stored["joints"]),)),
        )


_SMALLEST_UNCERTAINTY = 0.01  # relative: torque constants change by that much with temperature

_PER_JOINT = (
    "factors",
    "sigma",
    "nominal",
    "total_least_squares",
    "without_losses",
    "errors_before",
    "errors_after",
    "losses",
)

GAIN_FILES = ("config.yaml", "drive_gains.json", "drive_gains.npz", "report.html")
"""Everything that the identification of drive gains can write."""


def write_drive_gains(
    folder: str | PathLike[str],
    gains: DriveGains,
    configuration: Mapping[str, Any] | None = None,
) -> None:
    """Write everything but the report into an existing folder; see `write_payload`."""
    gains.save(folder)
    write_configuration(folder, "gains", configuration)


# Whether the arm could have held the load: a mass in grams it could not.

_TOO_HEAVY = 1.5
"""Times its effort limit that a joint would need at standstill, in the middle of the motion, from
which a load cannot have been the one that was held."""


def require_liftable(experiment: LoadExperiment, load: float, com: Array | None) -> None:
    """Raise if the arm could not have stood in the poses of the recording with this load."""
    robot = experiment.robot
    limit = robot.effort_limit
    if not np.isfinite(limit).any():
        return
    held = with_payload(robot, load, link=experiment.frame, com=np.zeros(3) if com is None else com)
    q = np.concatenate([m.q[::20] for m in experiment.problem.motions])
    friction = np.zeros_like(q)
    torque = inverse_dynamics(held, np.ascontiguousarray(q), friction, friction)
    use = np.median(np.abs(torque) / limit, axis=0)
    worst = int(np.argmax(use))
    if use[worst] > _TOO_HEAVY:
        raise MismatchError(
            f"a load of {load:g} kg is heavier than the arm could lift: in the poses of the "
            f"recording {robot.joint_names[worst]} would need {use[worst]:.1f} times its limit of "
            f"{limit[worst]:g} N·m just to stand. Give the mass in kg (not in grams), and the link "
            "that holds it."
        )
