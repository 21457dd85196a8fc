"""What the controller was told is handed on where it can be believed."""

from __future__ import annotations

import numpy as np


def test_a_reference_is_handed_on(clean, found):
    diagnosis = found(clean)
    assert diagnosis.findings == ()
    (segment,) = diagnosis.segments
    for name in diagnosis.joint_names:
        np.testing.assert_array_equal(
            segment.channels[f"q_des.{name}"], clean.channels[f"q_des.{name}"]
        )


def test_gaps_in_a_reference_are_told_and_it_is_left_out(clean, changed, found):
    spoilt = {name: values.copy() for name, values in clean.channels.items()}
    spoilt["q_des.joint2"][100:105] = np.nan
    diagnosis = found(changed(clean, spoilt))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == ("reference", "note", "q_des")
    assert "101" in finding.message
    assert "measured motion" in finding.action
    assert not any(name.startswith("q_des") for name in diagnosis.segments[0].channels)


def test_a_reference_that_no_joint_followed_is_left_out(clean, changed, found):
    spoilt = {name: values.copy() for name, values in clean.channels.items()}
    spoilt["q_des.joint3"] = np.rad2deg(spoilt["q_des.joint3"]) + 3.0
    diagnosis = found(changed(clean, spoilt))
    (finding,) = diagnosis.findings
    assert finding.kind == "reference"
    assert finding.where == "q_des.joint3"


def test_a_reference_of_some_joints_is_none(clean, changed, found):
    some = {name: values for name, values in clean.channels.items() if name != "q_des.joint1"}
    diagnosis = found(changed(clean, some))
    assert diagnosis.findings == ()
    assert not any(name.startswith("q_des") for name in diagnosis.segments[0].channels)
