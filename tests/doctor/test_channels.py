from __future__ import annotations

import numpy as np
import pytest

from bodysense.doctor import examine
from bodysense.logs.log import RowFault
from bodysense.robot import Actuators

KINDS = ("q", "v", "tau")


def renamed(raw, old, new):
    return {name.replace(old, new, 1): values for name, values in raw.channels.items()}


def without(raw, *names):
    return {name: values for name, values in raw.channels.items() if name not in names}


def test_rows_that_could_not_be_read_are_told(clean, changed, found):
    faults = (RowFault(12, "19 of 31 values"), RowFault(40, "'abc' is no number"))
    diagnosis = found(changed(clean, faults=faults))
    assert [(f.kind, f.severity, f.where) for f in diagnosis.findings] == [
        ("truncated-rows", "note", "row 12"),
        ("unreadable-rows", "note", "row 40"),
    ]
    assert "19 of 31 values" in diagnosis.findings[0].message
    assert diagnosis.usable
    assert diagnosis.n_samples == clean.t.size + 2


def test_many_rows_that_could_not_be_read_are_a_warning(clean, changed, only):
    faults = tuple(RowFault(k, "1 of 31 values") for k in range(100, 400))
    finding = only(changed(clean, faults=faults), "truncated-rows", "warning")
    assert finding.where == "rows 100-399"


def test_a_missing_joint_is_named(clean, changed, only):
    finding = only(changed(clean, without(clean, "q.joint4")), "missing-joint", "error")
    assert finding.where == "q.joint4"
    assert finding.action == (
        "the log lacks joint4: record it, or lock it where it stood, --lock joint4=POSITION"
    )


def test_joints_of_another_name_are_listed(clean, changed, found):
    (finding,) = [
        f
        for f in found(changed(clean, renamed(clean, "joint", "axis_"))).findings
        if f.kind == "missing-joint"
    ]
    assert "axis_1" in finding.message
    assert "give its columns the robot's joint names in the header, q.joint1, …" in finding.action


@pytest.mark.parametrize("missing", [("tau.joint2",), tuple(f"tau.joint{k}" for k in range(1, 7))])
def test_missing_torque_is_named(missing, clean, changed, only):
    finding = only(changed(clean, without(clean, *missing)), "no-torque", "error")
    assert finding.where == ", ".join(missing)


def test_currents_become_torques(clean, changed, found, tx40):
    gains = dict(zip(tx40.joint_names, tx40.actuators.drive_gain, strict=True))
    channels = dict(clean.channels)
    for name, gain in gains.items():
        channels[f"i.{name}"] = channels.pop(f"tau.{name}") / gain
    diagnosis = found(changed(clean, channels))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("current", "note")
    assert "35.24, 32.04" in finding.action
    for name in tx40.joint_names:
        torque = diagnosis.segments[0].channels[f"tau.{name}"]
        np.testing.assert_allclose(torque, clean.channels[f"tau.{name}"], rtol=1e-12, atol=1e-12)
    assert "i.joint1" not in diagnosis.segments[0].channels


def test_torques_count_before_currents(clean, changed, found):
    currents = {f"i.joint{k}": np.zeros(clean.t.size) for k in range(1, 7)}
    assert found(changed(clean, {**clean.channels, **currents})).findings == ()


def test_currents_without_gains_are_a_warning(clean, changed, tx40):
    plain = tx40.with_actuators(Actuators.from_values(6))
    channels = {name.replace("tau.", "i."): values for name, values in clean.channels.items()}
    findings = examine(plain, changed(clean, channels)).findings
    assert [(f.kind, f.severity) for f in findings] == [("unknown-gain", "warning")]


def test_velocities_of_some_joints_are_not_used(clean, changed, found):
    diagnosis = found(changed(clean, without(clean, "v.joint1", "v.joint6")))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("partial-velocity", "note")
    assert finding.where == "v.joint1, v.joint6"
    assert "v.joint2" not in diagnosis.segments[0].channels


def test_channels_of_another_length_are_ignored(clean, changed, found):
    diagnosis = found(changed(clean, {**clean.channels, "v.joint3": np.zeros(7)}))
    assert {f.kind for f in diagnosis.findings} == {"malformed-channel", "partial-velocity"}
    assert diagnosis.usable


def test_units_that_were_not_converted_are_an_error(clean, changed, found):
    diagnosis = found(changed(clean, units={"q.joint1": "deg"}))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == ("degrees", "error", "q.joint1")


def test_many_missing_joints_are_not_all_listed(clean, changed, robot_named):
    icub = robot_named("example:icub", None)
    findings = examine(icub, clean).findings
    assert {f.kind for f in findings} == {"missing-joint", "no-torque"}
    assert f"and {icub.n_joints - 8} more" in findings[0].message
    assert all(len(str(finding)) < 700 for finding in findings)
