"""What the doctor advises is done literally, and the defect is gone."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bodysense.doctor import examine
from bodysense.doctor.units import sensor_findings
from bodysense.logs import read_log
from bodysense.sensors import Accelerometer, Mount

DEGREES = 180.0 / np.pi
ALL = range(1, 7)


def write_csv(path, log, units=None):
    """A table whose header names its channels, without units unless some are asked for."""
    titles = [f"{name} [{units[name]}]" if units and name in units else name for name in log]
    table = np.column_stack(list(log.values()))
    np.savetxt(path, table, delimiter=",", header=",".join(titles), comments="", fmt="%.12g")
    return path


def defective(raw, factors):
    """Time and channels of a recording, some multiplied: `q`, `tau.joint2`, …."""
    channels = {"t": raw.t, **raw.channels}
    return {
        name: x * factors.get(name, factors.get(name.partition(".")[0], 1.0))
        for name, x in channels.items()
    }


def errors(robot, log):
    return [f for f in examine(robot, log).findings if f.severity != "note"]


DEFECTS = {
    "degrees, velocities too": {"q": DEGREES, "v": DEGREES},
    "degrees": {"q": DEGREES},
    "degrees of one joint": {"q.joint4": DEGREES},
    "velocities in degrees": {"v": DEGREES},
    "velocities in rpm": {"v": 60.0 / (2.0 * np.pi)},
    "a velocity out of scale": {"v.joint2": 3.0},
    "sign of a velocity": {"v.joint3": -1.0},
    "milliseconds": {"t": 1e3},
    "sign of torques": {"tau": -1.0},
    "sign of a torque": {"tau.joint2": -1.0},
    "torques in mN·m": {"tau": 1e3},
    "a torque in mN·m": {"tau.joint2": 1e3},
    "torques from currents": {"tau": 1.0 / 32.0},
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_layout_as_advised_removes_the_defect(defect, clean, tx40, tmp_path):
    path = write_csv(tmp_path / "run.csv", defective(clean, DEFECTS[defect]))
    finding, *_ = errors(tx40, read_log(path))  # by limits, and by velocities once more
    edits = re.findall(r"`((?:channels|time): \{.*?\})`", finding.action)
    # Where velocities are in degrees too, the layout for both of them is the second.
    edit = edits[1] if defect == "degrees, velocities too" else edits[0]
    (tmp_path / "layout.yaml").write_text(edit, encoding="utf-8")
    assert errors(tx40, read_log(path, tmp_path / "layout.yaml")) == []


@pytest.mark.parametrize(
    ("defect", "names"),
    [
        ("degrees", [f"q.joint{k}" for k in ALL]),
        ("velocities in degrees", [f"v.joint{k}" for k in ALL]),
        ("milliseconds", ["t"]),
        ("torques in mN·m", [f"tau.joint{k}" for k in ALL]),
    ],
)
def test_a_unit_in_the_header_as_advised_removes_the_defect(defect, names, clean, tx40, tmp_path):
    table = defective(clean, DEFECTS[defect])
    finding, *_ = errors(tx40, read_log(write_csv(tmp_path / "run.csv", table)))
    name, unit = re.findall(r"`([\w.]+) \[(.*?)\]`", finding.action)[0]
    assert name == names[0]
    path = write_csv(tmp_path / "named.csv", table, dict.fromkeys(names, unit))
    assert errors(tx40, read_log(path)) == []


def test_exchanged_names_in_the_header_remove_the_defect(clean, tx40, tmp_path):
    table = defective(clean, {})
    table["tau.joint2"], table["tau.joint3"] = table["tau.joint3"], table["tau.joint2"]
    path = write_csv(tmp_path / "run.csv", table)
    (finding,) = errors(tx40, read_log(path))
    assert "exchange the names of tau.joint2, tau.joint3 in the header" in finding.action
    text = path.read_text(encoding="utf-8").replace("tau.joint2", "x")
    text = text.replace("tau.joint3", "tau.joint2").replace("x", "tau.joint3", 1)
    path.write_text(text, encoding="utf-8")
    assert errors(tx40, read_log(path)) == []


@pytest.mark.parametrize("unit", ["g", "cm/s²", "mm/s²"])
@pytest.mark.parametrize("start", ["acc.imu", "imu"])
def test_the_unit_of_a_sensor_as_advised_is_understood(start, unit, tx40, tmp_path):
    size = {"g": 1.0, "cm/s²": 981.0, "mm/s²": 9810.0}[unit]
    channels = [f"{start}.{axis}" for axis in "xyz"]
    mount = Mount(tx40.link_names[-1])
    sensor = Accelerometer(name="imu", mount=mount, covariance=np.eye(3), channels=tuple(channels))
    reading = np.tile([0.0, 0.0, size], (50, 1))
    (finding,) = sensor_findings(tx40, [sensor], {"imu": reading})
    (edit,) = re.findall(r"`(.*?)`", finding.action)
    table = {"t": np.arange(50.0), **dict(zip(channels, reading.T, strict=True))}
    path = write_csv(tmp_path / "run.csv", table)
    (tmp_path / "layout.yaml").write_text(edit, encoding="utf-8")
    log = read_log(path, tmp_path / "layout.yaml")
    np.testing.assert_allclose(log.channels[channels[2]], 9.81, rtol=1e-3)
    assert log.units[channels[2]] == "m/s²"
