"""Messages of any kind become samples, or are counted, named and absent."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bodysense.errors import MismatchError
from bodysense.logs import parse_layout
from bodysense.logs.live import Arrival, SampleDecoder, StreamFaults

POSITIONS, OTHERS = ("q.a", "q.b"), ("v.a", "v.b", "tau.a", "wrench.tool.fx", "wrench.tool.mz")
NAMES = (*POSITIONS, *OTHERS)


def line(content: object) -> Arrival:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Arrival(100.0, "json", "", data)


@pytest.fixture
def decoder(faults) -> SampleDecoder:
    return SampleDecoder(POSITIONS, OTHERS, faults, clock=lambda at: 1e6 + at)


def values(sample) -> dict[str, float]:
    return {name: x for name, x in zip(NAMES, sample.values, strict=True) if not math.isnan(x)}


def test_channels_by_name(decoder, faults):
    sample = decoder.decode(
        line({"t": 1.5, "q.a": 1, "q.b": 2.5, "dq.a": 3.0, "v.b": -4.0, "temperature": 50.0})
    )
    assert (sample.t, sample.arrived) == (1.5, 100.0)
    assert values(sample) == {"q.a": 1.0, "q.b": 2.5, "v.a": 3.0, "v.b": -4.0}
    assert decoder.seen.tolist() == [True] * 4 + [False] * 3
    assert list(decoder.unknown) == ["temperature"]
    assert faults.counts == {}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'{"t": 1, "q.a": 1', "lines that are no JSON"),
        (b"\xff\xfe\x00", "lines that are no JSON"),
        (b"[" * 100_000, "lines that are no JSON"),
        (b'{"q.a": ' + b"1" * 5000 + b"}", "lines that are no JSON"),
        (b"[1, 2]", "lines that are no objects"),
        (b"3", "lines that are no objects"),
        ({"t": "now", "q.a": 1.0}, "values that are no numbers"),
        (b'{"t": NaN, "q.a": 1.0}', "samples without a time"),
        ({"name": "a", "position": [1.0]}, "unreadable messages"),
        ({"name": ["a"], "position": [1.0, 2.0]}, "unreadable messages"),
        ({"name": ["a", "a"], "position": [1.0, 2.0]}, "unreadable messages"),
        ({"name": ["a"], "position": ["1"]}, "unreadable messages"),
        ({"header": {"stamp": "now"}, "name": ["a"], "position": [1]}, "unreadable messages"),
        ({"wrench": {"force": {"x": 1}}}, "unreadable messages"),
        ({"op": "status", "level": "error", "msg": "no such topic"}, "errors of rosbridge"),
    ],
)
def test_what_cannot_be_read_is_counted_and_named(decoder, faults, said, content, kind):
    for _ in range(3):
        assert decoder.decode(line(content)) is None
    assert faults[kind] == 3
    assert len(said) == len(faults.counts)  # once for each kind
    assert all(len(text) < 400 for text in said)


def test_values_that_are_no_numbers_are_absent(decoder, faults, said):
    sample = decoder.decode(
        line(b'{"t": 1, "q.a": 1.0, "q.b": "2", "v.a": true, "v.b": null, "tau.a": NaN}')
    )
    assert values(sample) == {"q.a": 1.0}
    assert faults.counts == {"values that are no numbers": 2, "NaN or infinite values": 1}
    assert "q.b is '2', which is no number: send it without quotes" in " ".join(said)
    infinite = b'{"t": 2, "q.a": 1.0, "q.b": -Infinity, "v.a": 1e999, "v.b": 1' + b"0" * 400 + b"}"
    assert values(decoder.decode(line(infinite))) == {"q.a": 1.0}
    assert faults["NaN or infinite values"] == 3


def test_a_sample_without_time_has_that_of_its_arrival(decoder, faults, said):
    assert decoder.decode(line({"q.a": 1.0})).t == 1e6 + 100.0
    assert "name it in the layout file" in said[0]
    recorded = Arrival(100.0, "json", "/x", b'{"q.a": 1.0}', recorded=7.0)
    assert decoder.decode(recorded).t == 7.0
    assert faults["samples timed by arrival"] == 2


def test_units_and_names_of_a_layout(faults):
    layout = parse_layout(
        {
            "joints": ["a", "b"],
            "time": {"column": "stamp", "unit": "ms"},
            "channels": {
                "q": {"columns": ["angle_a", "angle_b"], "unit": "deg", "offset": 90},
                "tau": {"columns": {"a": "current"}, "gain": 12.0},
            },
        }
    )
    decoder = SampleDecoder(POSITIONS, OTHERS, faults, layout=layout)
    sample = decoder.decode(line({"stamp": 2500, "angle_a": 90, "angle_b": -90, "current": 0.5}))
    assert sample.t == 2.5
    assert values(sample) == pytest.approx({"q.a": math.pi, "q.b": 0.0, "tau.a": 6.0})


def test_units_alone_of_channels_that_name_themselves(faults):
    layout = parse_layout({"time": {"unit": "us"}, "channels": {"q": {"unit": "deg"}}})
    decoder = SampleDecoder(POSITIONS, OTHERS, faults, layout=layout)
    sample = decoder.decode(line({"t": 2e6, "q.a": 180, "dq.a": 1.0}))
    assert sample.t == 2.0
    assert values(sample) == pytest.approx({"q.a": math.pi, "v.a": 1.0})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"joints": ["a"], "channels": {"q": [3]}}, "values of a stream have names"),
        ({"joints": ["a"], "channels": {"q": {"columns": ["x"], "file": "x.csv"}}}, "no files"),
        ({"joints": ["a"], "motors": {"gear_ratio": 100}}, "motors and rate are for recordings"),
        ({"rate": 1000}, "motors and rate are for recordings"),
    ],
)
def test_layouts_of_files_are_refused(faults, content, message):
    with pytest.raises(MismatchError, match=message):
        SampleDecoder(POSITIONS, OTHERS, faults, layout=parse_layout(content))


def stamp(t: float) -> dict:
    return {"stamp": {"sec": int(t), "nanosec": round(t % 1 * 1e9)}, "frame_id": ""}


def test_joint_states_of_ros(decoder):
    state = {
        "header": stamp(3.25),
        "name": ["b", "other", "a"],
        "position": [1.0, 9.0, None],
        "velocity": [],
        "effort": [5.0, 9.0, 6.0],
    }
    sample = decoder.decode(line(state))
    assert sample.t == 3.25
    assert values(sample) == {"q.b": 1.0, "tau.a": 6.0}
    assert values(decoder.decode(line({**state, "stamp": 4.5, "header": None}))) == values(sample)
    wrapped = {"op": "publish", "topic": "/joint_states", "msg": state}
    assert values(decoder.decode(line(wrapped))) == values(sample)


def test_the_first_stamp_of_a_simulation_is_zero(decoder, faults):
    times = [0.0, 0.001, 0.002]
    states = [{"header": stamp(t), "name": ["a"], "position": [1.0]} for t in times]
    assert [s and s.t for s in map(decoder.decode, map(line, states))] == [None, 0.001, 0.002]
    assert faults.counts == {}
    never = [decoder.decode(line(states[0])) for _ in range(3)]
    assert [s and s.t for s in never] == [None, 1e6 + 100.0, 1e6 + 100.0]
    assert faults["samples timed by arrival"] == 2


def wrench(t: float, fx: float, frame: str = "tool") -> dict:
    vectors = {"force": dict(x=fx, y=0.0, z=0.0), "torque": dict(x=0.0, y=0.0, z=2.0)}
    return {"header": {**stamp(t), "frame_id": frame}, "wrench": vectors}


def test_vectors_of_their_own_messages_hold_for_five_of_their_periods(decoder):
    def state(t: float) -> dict[str, float]:
        return values(decoder.decode(line({"t": t, "q.a": 0.0})))

    for k in range(3):
        assert decoder.decode(line(wrench(1.0 + 0.1 * k, float(k)))) is None
    held = {"q.a": 0.0, "wrench.tool.fx": 2.0, "wrench.tool.mz": 2.0}
    assert state(1.21) == held
    assert state(1.69) == held
    assert state(1.71) == {"q.a": 0.0}
    decoder.forget()
    assert state(1.3) == {"q.a": 0.0}


def test_vectors_may_be_named_by_their_topic(decoder):
    message = {"op": "publish", "topic": "/tool", "msg": wrench(1.0, 3.0, frame="ft_sensor_frame")}
    assert decoder.decode(line(message)) is None
    assert values(decoder.decode(line({"t": 1.0, "q.a": 0.0})))["wrench.tool.fx"] == 3.0


def test_joints_of_several_messages_make_one_sample(decoder):
    def state(t: float, **q: float):
        return decoder.decode(
            line({"header": stamp(t), "name": [*q], "position": [*q.values()], "effort": []})
        )

    assert values(state(1.0, b=5.0)) == {"q.b": 5.0}  # nothing larger has come so far
    both = state(1.0, a=1.0, b=2.0)
    assert values(both) == {"q.a": 1.0, "q.b": 2.0}
    assert state(1.01, b=6.0) is None
    assert values(state(1.02, a=1.5, b=2.5)) == {"q.a": 1.5, "q.b": 2.5}


def test_imus_say_what_they_do_not_measure(faults):
    decoder = SampleDecoder(("q.a",), ("gyro.imu.x", "acc.imu.z", "quat.imu.w"), faults)
    message = {
        "header": {**stamp(1.0), "frame_id": "/imu"},
        "orientation": dict(w=1.0, x=0.0, y=0.0, z=0.0),
        "orientation_covariance": [-1] + [0] * 8,
        "angular_velocity": dict(x=0.5, y=0.0, z=0.0),
        "linear_acceleration": dict(x=0.0, y=0.0, z=9.8),
    }
    assert decoder.decode(line(message)) is None
    sample = decoder.decode(line({"t": 1.0, "q.a": 0.0}))
    np.testing.assert_array_equal(sample.values, [0.0, 0.5, 9.8, np.nan])


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("t", "q.a", "v.a", "name", "position", "effort", "header", "stamp", "sec"),
                    *("wrench", "force", "torque", "x", "op", "msg", "angular_velocity"),
                ]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(JSON | st.just({"op": "publish"}), st.binary(max_size=8))
def test_anything_is_a_sample_or_counted(content, cut):
    faults = StreamFaults()
    decoder = SampleDecoder(POSITIONS, OTHERS, faults)
    data = json.dumps(content).encode()
    for each in (data, data[: len(data) // 2], data + cut):
        sample = decoder.decode(line(each))
        if sample is not None:
            assert math.isfinite(sample.t)
            assert not np.isinf(sample.values).any()
