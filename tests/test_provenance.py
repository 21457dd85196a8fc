from __future__ import annotations

import hashlib
import importlib.metadata
import platform

import pytest

from bodysense import files as provenance
from bodysense.files import versions
from bodysense.robot import Robot, load_robot


def test_versions_are_those_that_run():
    found = versions()
    assert found["python"] == platform.python_version()
    for package in ("bodysense", "numpy", "scipy", "numba", "pin", "clarabel"):
        assert found[package] == importlib.metadata.version(package)


def test_packages_that_are_not_installed_are_left_out(monkeypatch):
    monkeypatch.setattr(provenance, "_PACKAGES", ("numpy", "no-such-package"))
    assert set(versions()) == {"python", "numpy"}


def test_a_robot_from_a_file_has_the_digest_of_the_file(tmp_path):
    text = (
        "<robot name='two'><link name='a'/><link name='b'><inertial><mass value='1'/>"
        "<inertia ixx='1' ixy='0' ixz='0' iyy='1' iyz='0' izz='1'/></inertial></link>"
        "<joint name='j' type='revolute'><parent link='a'/><child link='b'/>"
        "<axis xyz='0 0 1'/><limit lower='-1' upper='1' effort='1' velocity='1'/></joint></robot>"
    )
    path = tmp_path / "two.urdf"
    path.write_text(text)
    origin = load_robot(path).origin
    assert origin["name"] == "two"
    assert origin["file"].endswith("two.urdf")
    assert origin["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    path.write_text(text.replace("value='1'", "value='2'"))
    assert load_robot(path).origin["sha256"] != origin["sha256"]


@pytest.mark.parametrize("n", [1, 3])
def test_a_robot_without_a_file_has_a_name_alone(n, random_model, rng):
    robot = Robot.from_pinocchio(random_model(rng, n))
    assert robot.origin == {"name": f"random-{n}"}
