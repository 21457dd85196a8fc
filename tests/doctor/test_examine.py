"""Clean recordings are clean, and whatever comes in, a diagnosis comes out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from bodysense.doctor import examine
from bodysense.logs.log import Log, RowFault
from bodysense.robot import Robot, load_robot

ROBOTS = ("tx40", "tx40-coupled", "rv2sq", "example:ur5", "example:panda")


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("rate", "noise", "load"), [(100.0, 0.0, 0.0), (1000.0, 1.75e-6, 0.0), (140.0, 1.75e-5, 2.0)]
)
def test_nothing_is_found_in_clean_recordings(name, seed, rate, noise, load, recorded, robot_named):
    harmonics = 3 if seed == 1 else 20
    raw = recorded(name, seed, rate=rate, noise=noise, load=load, harmonics=harmonics)
    diagnosis = examine(robot_named(name, None), raw)
    assert diagnosis.findings == ()
    assert diagnosis.usable
    (segment,) = diagnosis.segments
    assert segment.t.size == raw.t.size == diagnosis.n_kept
    assert diagnosis.rate == pytest.approx(rate, rel=1e-3)
    for channel in segment.channels:
        np.testing.assert_array_equal(segment.channels[channel], raw.channels[channel])


@pytest.mark.parametrize("friction", ["stribeck", "viscous", "offset", "stribeck-offset"])
@pytest.mark.parametrize("name", ["tx40", "rv2sq"])
def test_nothing_is_found_whatever_the_friction(name, friction, recorded, robot_named):
    raw = recorded(name, 3, friction=friction, rate=200.0, noise=1e-5)
    assert examine(robot_named(name, friction), raw).findings == ()


@given(
    name=st.sampled_from(["tx40", "rv2sq"]),
    seed=st.integers(0, 10_000),
    rate=st.sampled_from([100.0, 140.0, 500.0, 1000.0, 5000.0]),
    noise=st.sampled_from([0.0, 1.75e-6, 1.75e-5, 1e-4]),
    load=st.floats(0.0, 3.0),
    duration=st.sampled_from([3.0, 10.0, 20.0]),
    harmonics=st.integers(3, 20),
)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_is_found_in_any_clean_recording(name, recorded, robot_named, **how):
    assert examine(robot_named(name, None), recorded(name, **how)).findings == ()


def test_nothing_is_found_at_five_kilohertz(recorded, tx40):
    raw = recorded("tx40", 4, rate=5000.0, noise=1.75e-4, duration=5.0)
    assert examine(tx40, raw).findings == ()


def test_robots_of_the_same_make_need_not_be_alike(recorded, tx40):
    """Masses off by half, and no friction known: a prior as rough as those of many files."""
    rough = tx40.with_parameters(
        np.concatenate(
            [1.5 * tx40.theta[tx40.layout.inertial], np.zeros(tx40.layout.size - 60)], axis=0
        )
    )
    assert examine(rough, recorded(seed=5)).findings == ()


def test_velocities_are_kept_only_if_recorded(clean, changed, found):
    assert "v.joint3" in found(clean).segments[0].channels
    bare = changed(clean, {k: x for k, x in clean.channels.items() if k[0] != "v"})
    assert "v.joint3" not in found(bare).segments[0].channels
    assert found(bare).findings == ()


def test_other_channels_do_not_matter(clean, changed, found):
    extra = {"q.gripper": np.full(clean.t.size, np.nan), "temperature": np.zeros(clean.t.size)}
    diagnosis = found(changed(clean, {**clean.channels, **extra}))
    assert diagnosis.findings == ()
    assert set(diagnosis.segments[0].channels) == set(clean.channels)


def test_the_input_is_left_alone(clean, changed, found):
    spoilt = {name: values.copy() for name, values in clean.channels.items()}
    spoilt["q.joint2"][100] = np.nan
    spoilt["q.joint3"][200] += 2.0
    before = {name: values.copy() for name, values in spoilt.items()}
    found(changed(clean, spoilt))
    for name, values in before.items():
        np.testing.assert_array_equal(values, spoilt[name])


def test_moving_joints_are_told_from_standing_ones(clean, found):
    diagnosis = found(clean)
    v = np.stack([clean.channels[f"v.{name}"] for name in diagnosis.joint_names], axis=1)
    (moving,) = diagnosis.moving
    assert moving[np.abs(v) > 0.2].all()
    assert all(share > 0.9 for share in diagnosis.moving_fraction.values())


def test_summary_and_dictionary_tell_the_same(clean, changed, found):
    diagnosis = found(changed(clean, faults=(RowFault(7, "3 of 12 values"),), digest="ab"))
    assert diagnosis.verdict() == (
        "clean: usable (1 note): 5001 of 5002 samples at 500 Hz, 10 s in 1 segment"
    )
    content = diagnosis.to_dict()
    assert content["usable"] is True
    assert content["digest"] == "ab"
    assert content["segments"][0]["end"] == 10.0
    assert content["findings"][0]["kind"] == "truncated-rows"
    assert "row 7" in diagnosis.summary()


def test_a_floating_robot_is_not_held_against_its_model(clean, changed, check_diagnosis):
    robot = load_robot("example:solo8", floating_base=True)
    names = dict(zip(load_robot("tx40").joint_names, robot.joint_names, strict=False))
    channels = {}
    for name, values in clean.channels.items():
        quantity, _, joint = name.partition(".")
        channels[f"{quantity}.{names[joint]}"] = values
    for joint in robot.joint_names[6:]:
        channels |= {f"{k}.{joint}": clean.channels[f"{k}.joint1"] for k in ("q", "v", "tau")}
    diagnosis = examine(robot, changed(clean, channels))
    check_diagnosis(diagnosis)
    assert "floating-base" in {finding.kind for finding in diagnosis.findings}


def _raw(n: int, values: dict[str, np.ndarray], t: np.ndarray) -> Log:
    return Log(t, values, {}, np.arange(1, n + 1), source="fuzz")


EDGE_CASES = {
    "empty": (0, 0.0),
    "one row": (1, 1.0),
    "two rows": (2, 1.0),
    "all NaN": (300, np.nan),
    "all infinite": (300, np.inf),
    "constant": (300, 1.0),
    "zero": (300, 0.0),
    "huge": (300, 1e300),
    "tiny": (300, 1e-300),
}


@pytest.mark.parametrize("case", EDGE_CASES)
@pytest.mark.parametrize("time", ["even", "constant", "backward", "nan", "huge"])
def test_strange_recordings_are_not_usable(case, time, found, tx40):
    n, value = EDGE_CASES[case]
    t = {
        "even": np.arange(n) * 0.01,
        "constant": np.zeros(n),
        "backward": -np.arange(n) * 0.01,
        "nan": np.full(n, np.nan),
        "huge": np.arange(n) * 1e305,
    }[time]
    names = [f"{k}.{joint}" for k in ("q", "v", "tau") for joint in tx40.joint_names]
    diagnosis = found(_raw(n, {name: np.full(n, value) for name in names}, t))
    assert not diagnosis.usable
    assert diagnosis.of("error")


@pytest.mark.parametrize("missing", ["q", "tau", "all"])
def test_recordings_without_the_channels_end_in_a_diagnosis(missing, clean, changed, found):
    left = {k: x for k, x in clean.channels.items() if missing != "all" and missing not in k}
    diagnosis = found(changed(clean, left))
    assert not diagnosis.usable
    assert diagnosis.segments == ()
    assert np.isnan(diagnosis.rate)


anything = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, width=64),
    st.sampled_from([0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 57.3]),
)


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_numbers_end_in_a_diagnosis(data, tx40: Robot, check_diagnosis):
    n = data.draw(st.integers(0, 120))
    names = [f"{k}.{joint}" for k in ("q", "v", "tau") for joint in tx40.joint_names]
    block = data.draw(npst.arrays(np.float64, (len(names), n), elements=anything, fill=anything))
    t = data.draw(npst.arrays(np.float64, n, elements=anything))
    check_diagnosis(examine(tx40, _raw(n, dict(zip(names, block, strict=True)), t)))


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_damage_to_a_recording_ends_in_a_diagnosis(seed, clean, changed, tx40, check_diagnosis):
    """Rows shuffled, dropped, repeated and overwritten, channels scaled, cut and mixed up."""
    rng = np.random.default_rng(seed)
    channels = {name: values.copy() for name, values in clean.channels.items()}
    t = clean.t.copy()
    names = list(channels)
    for _ in range(rng.integers(1, 6)):
        name, other = rng.choice(names, 2)
        rows = rng.integers(0, t.size, rng.integers(1, 400))
        block = slice(*np.sort(rng.integers(0, t.size, 2)))
        match rng.integers(0, 9):
            case 0:
                channels[name][rows] = rng.choice([np.nan, np.inf, 1e300, -5.0])
            case 1:
                t[rows] = rng.choice([np.nan, -np.inf, 0.0, 1e12])
            case 2:
                t[rows] = rng.permutation(t[rows])
            case 3:
                channels[name][block] = channels[name][block.start] if t.size else 0.0
            case 4:
                channels[name] *= rng.choice([-1.0, 57.3, 1e-3, 1e3, 1e160])
            case 5:
                channels[name], channels[other] = channels[other], channels[name]
            case 6:
                t[block] += rng.normal(scale=3.0)
            case 7:
                channels[name] = np.round(channels[name], int(rng.integers(0, 4)))
            case 8:
                t = t * rng.choice([1e-9, 1e-3, 1e3, 1e9])
    keep = np.sort(rng.integers(0, t.size, rng.integers(0, t.size)))
    damaged = changed(clean, channels, t=t, keep=keep if rng.random() < 0.5 else None)
    check_diagnosis(examine(tx40, damaged))
