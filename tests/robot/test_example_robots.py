from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import (
    MissingDependencyError,
    RobotFileError,
    UnknownNameError,
)
from bodysense.robot.io import load as example_robots
from bodysense.robot.io.load import example_robot_names, load_robot

try:
    NAMES = example_robot_names()
except MissingDependencyError:
    pytest.skip("example-robot-data is not installed", allow_module_level=True)

INCONSISTENT = {
    "romeo": "LFinger23Link",
    "romeo_laas_small": "base_link",
    "romeo_small": "RShoulderYawLink",
}
"""Robots whose files hold links that cannot exist, and the first of these links."""


def path_of(name: str) -> Path:
    return example_robots._catalogue()[name][0]


@pytest.mark.parametrize("name", NAMES)
def test_every_robot_loads_as_pinocchio_reads_it_or_is_refused(name, capfd):
    if path_of(name).suffix == ".sdf":
        with pytest.raises(RobotFileError, match="SDF file with closed loops"):
            load_robot(f"example:{name}")
        return
    if name == "ur3.urdf":
        with pytest.raises(RobotFileError, match="there is no <link> in it"):
            load_robot(f"example:{name}")
        return
    robot = load_robot(f"example:{name}")
    errors = [note for note in robot.notes if note.startswith("error: infeasible-inertia")]
    assert len(errors) == (name in INCONSISTENT)
    assert all(f"'{INCONSISTENT[name]}'" in note for note in errors)
    assert capfd.readouterr() == ("", "")
    root = (pin.JointModelFreeFlyer(),) if robot.floating_base else ()
    plain = pin.buildModelFromUrdf(str(path_of(name)), *root)
    assert list(robot.model.names) == list(plain.names)
    for k in range(1, plain.njoints):
        own, other = robot.model.jointPlacements[k], plain.jointPlacements[k]
        np.testing.assert_allclose(own.homogeneous, other.homogeneous, rtol=0, atol=1e-15)
        pi = plain.inertias[k].toDynamicParameters()
        np.testing.assert_allclose(robot.pi(k - 1), pi, rtol=0, atol=1e-12 * max(1, pi.max()))


def test_every_file_of_the_package_has_a_name():
    files = {
        Path(str(entry.locate()))
        for entry in importlib.metadata.files("example-robot-data") or ()
        if entry.suffix in (".urdf", ".sdf")
    }
    assert {path_of(name) for name in NAMES} == files
    assert len(NAMES) == len(files)


@pytest.mark.parametrize(
    ("name", "file", "floating", "n_joints"),
    [
        ("talos", "talos_reduced.urdf", True, 32),
        ("talos_arm", "talos_left_arm.urdf", False, 7),
        ("ur3", "ur3_robot.urdf", False, 6),
        ("iris.urdf", "iris.urdf", True, 4),
        ("solo8", "solo.urdf", True, 8),
        ("iris", "iris_simple.urdf", True, 0),
        ("anymal_c", "anymal.urdf", True, 12),
    ],
)
def test_names_stand_for_the_expected_robots(name, file, floating, n_joints):
    robot = load_robot(f"example:{name}")
    assert path_of(name).name == file
    assert robot.floating_base is floating
    assert robot.n_joints == n_joints


def test_the_base_can_be_chosen():
    assert load_robot("example:panda", floating_base=True).floating_base
    assert not load_robot("example:go2", floating_base=False).floating_base


def test_an_unknown_robot_gets_suggestions():
    with pytest.raises(UnknownNameError, match="robot 'tallos': did you mean 'talos'"):
        load_robot("example:tallos")


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    example_robots._catalogue.cache_clear()
    with pytest.raises(MissingDependencyError, match=r'pip install "bodysense\[robots\]"'):
        example_robot_names()
    monkeypatch.undo()
    assert example_robot_names() == NAMES
