"""A UR10e with and without a load that was weighed: 2.805 kg."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bodysense.identification.payload.drive_gains import DriveGains
from bodysense.identification.payload.identify_drive_gains import identify_drive_gains
from bodysense.identification.payload.identify_payload import identify_payload
from bodysense.identification.payload.payload import Payload
from bodysense.logs.log import Log
from bodysense.logs.read import read_log
from bodysense.robot import Robot, load_robot

LAYOUT = Path(__file__).resolve().parents[3] / "examples" / "layouts" / "ur10e.yaml"
WEIGHED = 2.805
PAIRS = {
    "15harm": ("ur-20_02_19_15harm50secLoad", "ur-20_02_19_15harm50sec"),
    "01_31": ("ur-20_01_31-load", "ur-20_01_31-unload"),
}


@pytest.fixture(scope="module")
def robot(recordings) -> Robot:
    return load_robot(recordings / "ur10e" / "ur10e.urdf")


@pytest.fixture(scope="module")
def logs(recordings) -> dict[str, tuple[Log, Log]]:
    def read(name: str) -> Log:
        return read_log(recordings / "ur10e" / f"{name}.csv", LAYOUT)

    return {key: (read(loaded), read(empty)) for key, (loaded, empty) in PAIRS.items()}


@pytest.fixture(scope="module")
def loads(robot, logs) -> dict[str, Payload]:
    return {key: identify_payload(robot, *pair) for key, pair in logs.items()}


@pytest.fixture(scope="module")
def gains(robot, logs) -> DriveGains:
    return identify_drive_gains(robot, *logs["15harm"], load=WEIGHED)


@pytest.mark.parametrize("pair", PAIRS)
def test_the_load_is_found(loads, pair):
    found = loads[pair]
    assert found.status.ok
    assert found.link == "wrist_3_link"
    assert abs(found.mass - WEIGHED) < 0.03 * WEIGHED
    low, high = found.mass_interval()
    assert low < WEIGHED < high
    assert high - low < 0.25  # what gains of 2 % allow, and no more
    assert found.consistency.consistent
    assert found.status.notes == ()
    np.testing.assert_allclose([part.mass for part in found.parts], found.mass, rtol=0.02)


def test_a_recording_without_the_load_among_those_with_it(robot, logs):
    loaded, empty = logs["15harm"]
    found = identify_payload(robot, [loaded, logs["01_31"][1]], empty)
    assert found.mass == pytest.approx(WEIGHED, rel=0.03)
    disagreeing, loud = found.status.notes
    assert "disagree about its mass" in disagreeing
    assert "ur-20_01_31-unload.csv: " in disagreeing
    assert "In ur-20_01_31-unload.csv" in loud


def test_the_load_mounted_in_two_ways(robot, logs):
    loaded, empty = zip(*logs.values(), strict=True)
    found = identify_payload(robot, loaded, empty)
    note = found.status.notes[0]
    assert note.startswith("Recordings with the load disagree about its centre of mass")
    assert all(part.name in note and part.centre in note for part in found.parts[-2:])


def test_recordings_that_are_swapped(robot, logs):
    loaded, empty = logs["15harm"]
    found = identify_payload(robot, empty, loaded)
    assert "lighter than the unloaded one" in found.status.failure


def test_the_arm_as_its_file_describes_it(robot, logs):
    """The file is off by a kilogram; the interval says so, and no load is seen where none is."""
    loaded, empty = logs["15harm"]
    low, high = identify_payload(robot, loaded).mass_interval()
    assert low < WEIGHED < high
    assert not identify_payload(robot, empty).status.ok


def test_a_load_at_another_link(robot, logs):
    found = identify_payload(robot, *logs["15harm"], link="forearm_link")
    assert "mm from forearm_link: is this the link" in found.status.summary()
    assert "A load at wrist_3_link explains the torques better" in found.status.summary()


def test_gears_lose_some_per_cent(loads):
    for found in loads.values():
        assert found.errors[1] < 0.5 * found.errors[0]
        assert (found.losses >= 0.0).all()
        assert 0.04 < found.losses[1:3].mean() < 0.1


def test_gains_are_near_the_nominal_ones(gains):
    assert gains.status.ok
    assert (gains.factors > 0.0).all()
    assert (np.abs(gains.factors - 1.0) < 0.15).all()
    assert abs(gains.load_before - WEIGHED) < 0.03 * WEIGHED
    assert np.abs(gains.load_after - WEIGHED).mean() < abs(gains.load_before - WEIGHED)


def test_nominal_gains_see_the_load_that_is_found(gains, loads):
    assert gains.load_before == pytest.approx(loads["15harm"].mass, rel=1e-12)


def test_torques_are_predicted_no_worse(gains):
    assert gains.errors_after.mean() <= gains.errors_before.mean()


def test_gains_of_one_pair_mend_the_load_of_the_other(robot, logs, loads, gains):
    factor = {f"tau.{joint}": f for joint, f in zip(gains.joints, gains.factors, strict=True)}

    def regained(log: Log) -> Log:
        channels = {name: factor.get(name, 1.0) * x for name, x in log.channels.items()}
        return replace(log, channels=channels)

    loaded, empty = logs["01_31"]
    found = identify_payload(robot, regained(loaded), regained(empty))
    assert abs(found.mass - WEIGHED) < abs(loads["01_31"].mass - WEIGHED)
    assert abs(found.mass - WEIGHED) < 0.015 * WEIGHED
