"""What to write into a sensors file or a layout file where a sensor is mounted otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pinocchio as pin

from bodysense.doctor.axis_fit import AxisFit, words_of_axes
from bodysense.doctor.samples import layout_edit
from bodysense.sensors.sensor import Mount, Sensor
from bodysense.spatial.arrays import Array

_DECIMALS = 4  # of angles [rad]: a hundredth of a degree
_EXACT = 1e-6  # from which an entry of G counts as one


def file_edit(sensor: Sensor, keys: Mapping[str, object]) -> str:
    """Keys of a sensor's entry, to be pasted: ```sign: -1``` for sensor 'wrist' in the …``."""
    text = ", ".join(f"{key}: {_plain(value)}" for key, value in keys.items())
    return f"`{text}` into the entry of {sensor.name!r} in the sensors file"


def mount_keys(mount: Mount, rotation: Array) -> dict[str, object]:
    """The key `rpy` of a mount whose sensor reads G u, G (3, 3) a rotation.

    R_frame_sensor = R_stated Gᵀ
    """
    if np.allclose(rotation, np.eye(3), atol=_EXACT):
        return {}
    angles = np.round(pin.rpy.matrixToRpy(mount.R @ rotation.T), _DECIMALS) + 0.0
    return {"rpy": angles.tolist()}


def observed_axes(fit: AxisFit) -> str:
    """What a fit says about the axes, in words."""
    if fit.kind == "reversed":
        return "its readings have the opposite sign"
    mirrored = "mirrored axes, " if fit.kind == "mirrored" else ""
    if np.abs(fit.G).max(axis=1).min() > 1.0 - _EXACT:
        return f"{mirrored}its x, y, z read what {words_of_axes(fit.G)} should"
    return f"{mirrored}its frame is turned by {np.rad2deg(fit.turn):.0f}°"


def vector_edit(sensor: Sensor, mount: Mount, fit: AxisFit) -> str:
    """How to correct the axes of a gyroscope or an accelerometer, which has no sign of its own."""
    keys = mount_keys(mount, fit.rotation)
    if np.linalg.det(fit.G) > 0.0:
        return f"write {file_edit(sensor, keys)}"
    diagonal = np.diag(fit.G)
    if np.abs(diagonal).min() > 1.0 - _EXACT:  # some channels have the opposite sign
        wrong = [c for c, d in zip(sensor.channels, diagonal, strict=False) if d < 0.0]
        return f"write {layout_edit('gain', dict.fromkeys(wrong, -1))}"
    gains = layout_edit("gain", dict.fromkeys(sensor.channels, -1))
    return f"write {file_edit(sensor, keys)} and {gains}"


def _plain(value: object) -> str:
    return (
        "[" + ", ".join(f"{x:.6g}" for x in value) + "]" if isinstance(value, list) else f"{value}"
    )
