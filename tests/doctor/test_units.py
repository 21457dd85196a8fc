from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from bodysense.doctor import examine


def without_limits(robot):
    """The robot of a URDF file that leaves position limits out, which its readers take for 0."""
    model = robot.model.copy()
    model.lowerPositionLimit = model.upperPositionLimit = np.zeros(model.nq)
    return replace(robot, model=model)


def scaled(raw, changed, **factors):
    """The recording with channels scaled: `q=57.3` for all joints, `q_joint2=…` for one."""
    channels = dict(raw.channels)
    for name in channels:
        for key in (name.partition(".")[0], name.replace(".", "_")):
            if key in factors:
                channels[name] = channels[name] * factors[key]
    return changed(raw, channels)


def bare(raw, changed):
    return changed(raw, {k: x for k, x in raw.channels.items() if k[0] != "v"})


DEGREES = 180.0 / np.pi


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ["tx40", "rv2sq", "example:ur5"])
def test_positions_in_degrees_are_found_without_velocities(
    name, seed, recorded, changed, robot_named
):
    from bodysense.doctor import examine

    raw = bare(recorded(name, seed), changed)
    findings = examine(robot_named(name, None), scaled(raw, changed, q=DEGREES)).findings
    (finding,) = findings
    assert (finding.kind, finding.severity) == ("degrees", "error")
    assert finding.where.count("q.") == 6
    assert "`channels: {q: {unit: deg}}` into the layout file" in finding.action
    assert f"`q.{robot_named(name, None).joint_names[0]} [deg]`" in finding.action


def test_positions_and_velocities_in_degrees_are_one_finding(clean, changed, only):
    raw = scaled(clean, changed, q=DEGREES, v=DEGREES)
    action = only(raw, "degrees", "error").action
    assert "`channels: {q: {unit: deg}, v: {unit: deg/s}}`" in action


def test_velocities_in_degrees_are_found(clean, changed, found):
    diagnosis = found(scaled(clean, changed, v=DEGREES))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity) == ("degrees", "error")
    assert finding.where == ", ".join(f"v.joint{k}" for k in range(1, 7))
    assert "`channels: {v: {unit: deg/s}}`" in finding.action
    assert "v.joint1" not in diagnosis.segments[0].channels


def test_a_single_joint_in_degrees_is_named(clean, changed, found):
    raw = scaled(bare(clean, changed), changed, q_joint4=DEGREES)
    findings = found(raw).of("error")
    assert [(f.kind, f.where) for f in findings] == [("degrees", "q.joint4")]


@pytest.mark.parametrize("joints", [(4, 5, 6), (2, 3, 4, 5, 6)])
def test_joints_in_radians_beside_those_in_degrees_are_left(joints, clean, changed, found):
    factors = {f"q_joint{k}": DEGREES for k in joints}
    (finding,) = found(scaled(bare(clean, changed), changed, **factors)).of("error")
    assert finding.kind == "degrees"
    assert finding.where == ", ".join(f"q.joint{k}" for k in joints)


def test_velocities_in_turns_a_minute_are_found(clean, changed, only):
    finding = only(scaled(clean, changed, v=60.0 / (2.0 * np.pi)), "wrong-scale", "error")
    assert "`channels: {v: {unit: rpm}}`" in finding.action


def test_positions_far_out_of_scale_are_an_error(clean, changed, found):
    raw = scaled(bare(clean, changed), changed, q_joint5=5000.0)
    (finding,) = found(raw).findings
    assert (finding.kind, finding.severity, finding.where) == (
        "wrong-scale",
        "error",
        "q.joint5",
    )


def test_velocities_out_of_scale_are_a_warning_if_little(clean, changed, found):
    diagnosis = found(scaled(clean, changed, v_joint2=1.5))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == (
        "wrong-scale",
        "warning",
        "v.joint2",
    )
    assert "`channels: {v: {gain: {joint2: 0.667}}}`" in finding.action
    assert diagnosis.usable


@pytest.mark.parametrize(("factor", "severity"), [(1.2, "warning"), (0.5, "error")])
def test_a_factor_of_all_velocities_is_that_of_time(clean, changed, found, factor, severity):
    (finding,) = found(changed(clean, t=factor * clean.t)).of(severity)
    assert (finding.kind, finding.where) == ("time-scale", "t")
    size, how = max(factor, 1.0 / factor), "fast" if factor < 1.0 else "slowly"
    assert f"time runs {size:.3g} times too {how}" in finding.message


def test_velocities_with_the_wrong_sign_are_found(clean, changed, only):
    many = only(scaled(clean, changed, v_joint3=-1.0, v_joint5=-1.0), "velocity-sign", "error")
    assert many.where == "v.joint3, v.joint5"
    finding = only(scaled(clean, changed, v_joint3=-1.0), "velocity-sign", "error")
    assert finding.where == "v.joint3"
    assert "`channels: {v: {gain: {joint3: -1}}}`" in finding.action


@pytest.mark.parametrize("pair", tuple(itertools.combinations(range(1, 7), 2)))
def test_swapped_velocities_are_found(pair, clean, changed, only):
    a, b = (f"v.joint{k}" for k in pair)
    channels = {**clean.channels, a: clean.channels[b], b: clean.channels[a]}
    finding = only(changed(clean, channels), "swapped-joints", "error")
    assert finding.where == f"joint{pair[0]}, joint{pair[1]}"


def test_velocities_of_something_else_are_not_used(clean, changed, found, rng):
    noise = np.cumsum(rng.standard_normal(clean.t.size)) * 0.01
    diagnosis = found(changed(clean, {**clean.channels, "v.joint1": noise}))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.severity, finding.where) == (
        "velocity-mismatch",
        "warning",
        "v.joint1",
    )
    assert "v.joint1" not in diagnosis.segments[0].channels


def test_a_wrong_zero_that_leaves_the_limits_is_told(clean, changed, found):
    raw = changed(clean, {**clean.channels, "q.joint1": clean.channels["q.joint1"] + 3.0})
    finding = found(raw).findings[0]  # joint 1 turns about the vertical: torques do not mind
    assert (finding.kind, finding.severity, finding.where) == (
        "beyond-limits",
        "warning",
        "q.joint1",
    )


def test_limits_that_a_file_leaves_out_refuse_no_recording(clean, robot_named):
    diagnosis = examine(without_limits(robot_named("tx40", None)), clean)
    assert not [f for f in diagnosis.findings if f.severity != "note"], diagnosis.findings
