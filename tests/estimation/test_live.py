"""Estimates of a stream are those of the estimator, whatever else comes with it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest
import yaml
from pushed_arm import PUSH, SENSORS, WRENCH, Pushed, pushed_arm

from bodysense.errors import MismatchError, ShapeError, UnknownNameError
from bodysense.estimation import EstimatorStream, Sample, parse_estimation
from bodysense.estimation.live import LiveEstimator, LiveRun, estimate_live
from bodysense.logs import parse_layout
from bodysense.logs.live import (
    Arrival,
    DroppingQueue,
    LiveResult,
    ResultWriter,
    Sink,
    Source,
    StreamFaults,
    StreamReader,
)

# One message after the other.


@pytest.fixture(scope="module")
def arm() -> Pushed:
    return pushed_arm(np.random.default_rng(4), rate=200.0)


def lines(arm: Pushed, names: Sequence[str] | None = None) -> list[Arrival]:
    channels = {c: x for c, x in arm.log.channels.items() if names is None or c in names}
    rows = zip(arm.log.t.tolist(), *(x.tolist() for x in channels.values()), strict=True)
    return [line({"t": t, **dict(zip(channels, row, strict=True))}, t) for t, *row in rows]


def line(content: object, at: float = 0.0) -> Arrival:
    return Arrival(at, "json", "", json.dumps(content).encode())


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def estimator(arm, said):
    """An estimator of the arm; `sensors` replaces its sensors file."""

    def build(sensors: str = SENSORS, **settings) -> LiveEstimator:
        setup = parse_estimation(yaml.safe_load(sensors), arm.robot, "s.yaml")
        return LiveEstimator(setup, arm.robot, faults=StreamFaults(said.append), **settings)

    return build


def columns(estimator: LiveEstimator, results: Sequence[LiveResult]) -> dict[str, np.ndarray]:
    values = np.array([result.values for result in results])
    return {name: values[:, 2 * k] for k, name in enumerate(estimator.columns)}


GIVEN = """
sensors:
  torque: {kind: joint_torque, joint: all, std: 0.05}
  motion: {kind: joint_acceleration, joint: all, std: 0.3}
external_wrenches:
  forearm: {std: [50, 50, 50, 10, 10, 10]}
"""


def test_signals_that_are_there_are_taken_as_they_are(estimator, arm, said, rng):
    live = estimator(GIVEN, estimates=["*"])
    joints = arm.robot.joint_names
    for k in range(5):
        q, dq, ddq, tau = rng.normal(size=(4, 3))
        table = {"t": 0.01 * k}
        for start, x in (("q", q), ("v", dq), ("a", ddq), ("tau", tau)):
            table |= {
                f"{start}.{joint}": float(value) for joint, value in zip(joints, x, strict=True)
            }
        result = live.step(line(table, 0.01 * k))
        expected = live.problem.estimate(q, dq, np.concatenate([tau, ddq]))
        np.testing.assert_allclose(result.values[0::2], expected.mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(result.values[1::2], np.sqrt(expected.variance), rtol=1e-12)
        assert (result.t, result.arrived, result.absent, result.notes) == (0.01 * k,) * 2 + (
            (),
        ) * 2
    assert len(live.columns) == live.problem.variables.size
    assert (live.cutoff, live.delay) == (None, 0.0)
    assert said == []


SETTLING = ("before the rate of samples was known", "while the low-pass settled")


def test_a_push_is_estimated_from_positions_alone(estimator, arm, said):
    live = estimator()
    results = [r for a in lines(arm) if (r := live.step(a)) is not None]
    assert sum(live.withheld.values()) == 801 - len(results)
    assert set(live.withheld) == {*SETTLING}
    assert results[0].t < 0.2
    assert f"estimates are late by {1e3 * live.delay:.3g} ms" in said[0]
    assert 0.01 < live.delay < 0.03
    t = np.array([r.t for r in results])
    inside = (t > PUSH[0] + 0.15) & (t < PUSH[1])
    outside = (t < PUSH[0]) | (t > PUSH[1] + 0.15)
    found = columns(live, results)
    for k, part in enumerate(("force_x", "force_y", "force_z", "moment_x", "moment_y", "moment_z")):
        force = found[f"fx.forearm.{part}"]
        scale = 1.0 if k < 3 else 0.1
        assert force[inside].mean() == pytest.approx(WRENCH[k], abs=0.1 * scale)
        assert abs(force[outside]).max() < 1.5 * scale
    assert list(found)[6:] == [f"tau.{joint}" for joint in arm.robot.joint_names]


def test_whatever_is_missing_or_broken_all_results_are_finite(estimator, arm, rng):
    live = estimator(GIVEN)
    names = ["t", *arm.log.channels]
    odd = [None, "1", 1e300, -1e30, True, [], {}, float("nan"), float("inf"), 10**400]
    results = 0
    for k, arrival in enumerate(lines(arm)):
        table = json.loads(arrival.data)
        if k > 100:
            for name in rng.choice(names, 3):
                table[name] = odd[rng.integers(len(odd))]
        data = json.dumps(table).encode()
        cut = data if rng.random() < 0.9 else data[: rng.integers(len(data))]
        result = live.step(arrival._replace(data=cut))
        if result is not None:
            results += 1
            assert np.isfinite(result.values).all()
    assert results > 100
    assert "messages that failed" not in live.faults.counts
    assert live.faults["values that are no numbers"] > 50
    assert live.faults["NaN or infinite values"] > 50


def test_readings_that_do_not_come_are_absent_and_named(estimator, arm, said):
    live = estimator()
    some = [name for name in arm.log.channels if not name.startswith(("wrist", "gyro.x"))]
    results = [r for a in lines(arm, some)[:250] if (r := live.step(a)) is not None]
    assert set(results[-1].absent) == {"wrist", "gyro"}
    assert live.absent["wrist"] == live.absent["gyro"] == 250 - 20
    assert live.faults["channels that did not come"] == 1
    assert "no readings have come as wrist.fx, " in said[-1]
    assert "gyro.x" in said[-1]


def test_a_stream_of_another_robot_is_named(estimator, said):
    live = estimator()
    for k in range(150):
        assert live.step(line({"t": 0.01 * k, "q.joint1": 0.0, "q.joint2": 0.0}, 0.01 * k)) is None
    assert live.samples == 0
    assert "no positions have come as q.pan, q.lift, q.elbow; what came is q.joint1" in said[0]
    assert "--layout" in said[0]


def test_samples_before_all_positions_are_withheld(estimator):
    live = estimator(GIVEN)
    for k in range(10):
        assert live.step(line({"t": 0.01 * k, "q.pan": 0.0, "q.lift": 1.0}, 0.01 * k)) is None
    assert live.withheld == {"before all positions had come": 10}
    live.attend()
    assert "q.elbow" in live.faults.messages["joints without positions"]


def test_degrees_are_named_and_a_layout_turns_them(estimator, said):
    table = {"t": 0.0, "q.pan": 10.0, "q.lift": -80.0, "q.elbow": 30.0}
    estimator(GIVEN).step(line(table))
    assert "q.lift is -80 rad, far beyond its limit. Is it in degrees?" in " ".join(said)
    said.clear()
    layout = parse_layout({"channels": {"q": {"unit": "deg"}}})
    estimator(GIVEN, layout=layout).step(line(table))
    assert "degrees" not in " ".join(said)


def test_gaps_and_clocks_that_are_set_start_the_filter_anew(estimator, arm):
    live = estimator()
    before = [live.step(a) for a in lines(arm)[:100]]
    assert before[-1] is not None
    after = [live.step(a) for a in lines(arm)[300:400]]  # a second later
    lost = round(5.0 * live.delay * 200.0)
    assert [r is None for r in after].index(False) == pytest.approx(lost, abs=1)
    again = [live.step(a) for a in lines(arm)[:100]]  # two seconds back
    assert [r is None for r in again].index(False) == pytest.approx(lost, abs=1)
    assert live.faults.counts == {"gaps": 1, "clock set back": 1}
    assert live.step(lines(arm)[50]) is None
    assert live.withheld["late or repeated"] == 1
    for r, s in zip(before[60:], again[60:], strict=True):  # what came before is forgotten
        np.testing.assert_allclose(r.values[0:6:2], s.values[0:6:2], rtol=0, atol=0.3)


def test_a_cutoff_filters_what_needs_no_filter(estimator, said):
    live = estimator(GIVEN, cutoff=20.0)
    zero = {f"{start}.{joint}": 0.0 for start in "qva" for joint in ("pan", "lift", "elbow")}
    for k in range(200):
        result = live.step(line({"t": 0.001 * k, **zero}, 0.001 * k))
    assert result is not None
    assert live.cutoff == 20.0
    text = f"all signals pass a low-pass of 20 Hz: estimates are late by {1e3 * live.delay:.3g} ms"
    assert text in said
    assert 0.005 < live.delay < 0.012


def test_a_low_rate_has_a_low_cutoff_and_a_new_one_is_named(estimator, said):
    live = estimator(GIVEN)
    names = [f"q.{joint}" for joint in ("pan", "lift", "elbow")]
    for k in range(40):
        result = live.step(line({"t": 0.1 * k, **dict.fromkeys(names, 0.0)}, 0.1 * k))
    assert result is not None
    assert live.cutoff == 4.5
    assert "10 samples per second are too few for a cut-off of 10 Hz" in " ".join(said)
    for k in range(200):
        t = 4.0 + 0.05 * k
        live.step(line({"t": t, **dict.fromkeys(names, 0.0)}, t))
    assert live.faults["rates that changed"] > 50


def test_constant_readings_need_not_come(estimator):
    live = estimator(
        "sensors: {still: {kind: joint_acceleration, joint: all, constant: 2, std: 0.1}}",
        estimates=["ddq.*"],
    )
    zero = {f"{start}.{joint}": 0.0 for start in "qv" for joint in ("pan", "lift", "elbow")}
    result = live.step(line({"t": 0.0, **zero}))
    assert result.values[0::2] == pytest.approx([2.0] * 3, abs=1e-5)


def test_what_cannot_be_live_is_refused(estimator):
    with pytest.raises(MismatchError, match="leave `state` out of the sensors file"):
        estimator(f"{SENSORS}\nstate: {{method: track}}\n")
    with pytest.raises(UnknownNameError, match=r"'fx\.hand'"):
        estimator(estimates=["fx.hand"])
    with pytest.raises(ShapeError, match="the cut-off is"):
        estimator(cutoff=-1.0)


def test_a_floating_base_turns_as_its_gyroscope_says(robot_of, rng):
    solo = robot_of("example:solo12")
    imu = "{kind: gyroscope, link: base_link, std: 1.0e-4}"
    sensors = f"""
sensors:
  gyro: {imu}
  acc: {{kind: accelerometer, link: base_link, std: 0.05}}
  motion: {{kind: joint_acceleration, joint: all, std: 0.1}}
"""
    text = sensors.replace(f"gyro: {imu}", "")
    without = parse_estimation(yaml.safe_load(text), solo, "s.yaml")
    with pytest.raises(MismatchError, match="no gyroscope measures how it turns"):
        LiveEstimator(without, solo)
    live = LiveEstimator(
        parse_estimation(yaml.safe_load(sensors), solo, "s.yaml"), solo, estimates=["a.*", "tau.*"]
    )
    q, dq, ddq = rng.normal(size=(3, solo.n_joints))
    gyro, acc = rng.normal(size=(2, 3))
    table = {"t": 0.0}
    for start, x in (("q", q), ("v", dq), ("a", ddq)):
        table |= {
            f"{start}.{j}": float(value) for j, value in zip(solo.joint_names, x, strict=True)
        }
    for start, x in (("gyro", gyro), ("acc", acc)):
        table |= {f"{start}.{axis}": float(value) for axis, value in zip("xyz", x, strict=True)}
    result = live.step(line(table))
    twist = np.concatenate([np.zeros(3), gyro])
    readings = np.concatenate([gyro, acc, ddq])
    expected = EstimatorStream(live.problem).step(Sample(0.0, q, dq, readings, twist))
    names = [v for v in expected.variables if v.startswith(("a.", "tau."))]
    means = np.concatenate([expected[name] for name in names])
    np.testing.assert_allclose(result.values[0::2], means, rtol=1e-4, atol=1e-4)


# The loop.


class Played(Source):
    """Messages that a test gives, one after the other."""

    def __init__(self, arrivals, faults, *, pause: float = 0.0, ends: bool = True) -> None:
        super().__init__("the test", faults)
        self.arrivals, self.pause, self.ends = arrivals, pause, ends

    def receive(self, queue: DroppingQueue[Arrival], stop: threading.Event) -> None:
        for arrival in self.arrivals:
            if stop.is_set():
                return
            queue.put(arrival._replace(at=time.perf_counter()), wait=not self.live)
            if self.pause:
                time.sleep(self.pause)
        if not self.ends:
            stop.wait()


class Kept(Sink):
    """Results that a test looks at; each takes a reader some time."""

    def __init__(self, faults, delay: float = 0.0) -> None:
        super().__init__("the test", faults)
        self.results: list[LiveResult] = []
        self.delay, self.closed = delay, False

    def open(self, columns) -> None:
        self.columns = columns

    def write(self, results) -> int:
        time.sleep(self.delay)
        self.results += results
        return len(results)

    def close(self) -> None:
        self.closed = True


def run(live: LiveEstimator, source: Played, sink: Kept, size: int = 1000, **more) -> LiveRun:
    writer = ResultWriter(sink, live.columns, size)
    result = estimate_live(live, StreamReader(source, size), writer, **more)
    assert sink.closed
    assert not [t.name for t in threading.enumerate() if t.name in ("source", "results")]
    return result


def test_every_sample_of_a_patient_source_is_estimated(estimator, arm):
    live = estimator()
    source, sink = Played(lines(arm), live.faults), Kept(live.faults)
    source.live = False
    result = run(live, source, sink, 10)
    assert (result.samples, result.dropped, result.ended) == (801, 0, "the source ended")
    given = 801 - sum(result.withheld.values())
    assert result.results + result.dropped_results == given > 750
    text = result.summary()
    assert "small-arm, the test: 801 samples in " in text
    assert "20 before the rate of samples was known" in text
    assert f"late by {1e3 * result.delay:.3g} ms" in text
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["samples"] == 801


def test_a_slow_reader_costs_results_and_nothing_else(estimator, arm):
    live = estimator()
    source, sink = Played(lines(arm), live.faults), Kept(live.faults, 0.02)
    source.live = False
    result = run(live, source, sink, 5)
    assert (result.samples, result.dropped) == (801, 0)
    assert result.dropped_results > 400
    given = 801 - sum(result.withheld.values())
    assert result.results == len(sink.results) == given - result.dropped_results
    assert sink.results[-1].t == arm.log.t[-1]  # the newest are kept


def test_a_slow_estimator_drops_the_oldest(estimator, arm, monkeypatch):
    live = estimator()
    step = live.step
    monkeypatch.setattr(live, "step", lambda arrival: (time.sleep(0.005), step(arrival))[1])
    result = run(live, Played(lines(arm), live.faults), Kept(live.faults), 50)
    assert result.dropped > 600
    assert result.samples + result.dropped == 801
    assert result.lag["largest"] < 1.0  # of fifty that wait


def test_silence_is_said_and_ends_after_the_timeout(estimator, arm, said, monkeypatch):
    monkeypatch.setattr("bodysense.estimation.live.loop._SILENT", 0.1)
    live = estimator()
    result = run(
        live, Played(lines(arm)[:50], live.faults, ends=False), Kept(live.faults), timeout=0.4
    )
    assert result.ended == "no sample came for 0.4 s"
    assert result.samples == 50
    assert any("no sample from the test for 0.1" in text for text in said)
    assert result.faults["pauses of the stream"] == 1


def test_it_ends_when_it_is_told(estimator, arm):
    live, stop = estimator(), threading.Event()
    threading.Timer(0.3, stop.set).start()
    start = time.perf_counter()
    result = run(
        live, Played(lines(arm), live.faults, pause=0.005, ends=False), Kept(live.faults), stop=stop
    )
    assert time.perf_counter() - start < 3.0
    assert result.ended == "interrupted"
    assert 10 < result.samples < 200


def test_a_source_that_fails_is_an_error_of_its_own(estimator):
    class Refused(Played):
        def receive(self, queue, stop) -> None:
            raise MismatchError("no such place: choose another.")

    class Broken(Played):
        def receive(self, queue, stop) -> None:
            raise ZeroDivisionError("a bug")

    live = estimator()
    with pytest.raises(MismatchError, match="choose another"):
        run(live, Refused([], live.faults), Kept(live.faults))
    result = run(live, Broken([], live.faults), Kept(live.faults))
    assert "ZeroDivisionError a bug" in result.messages["sources that failed"]


def test_memory_does_not_grow(estimator, arm):
    import tracemalloc

    live = estimator()
    arrivals = lines(arm)

    def seconds(start: float) -> None:
        for k in range(1000):
            arrival = arrivals[k % 800]
            table = json.loads(arrival.data) | {"t": start + 0.005 * k}
            live.step(line(table, start + 0.005 * k))

    seconds(0.0)
    tracemalloc.start()
    seconds(5.0)
    before = tracemalloc.get_traced_memory()[0]
    seconds(10.0)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 20_000
