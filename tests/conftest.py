"""Robots and motions that many tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

# Threads of the linear algebra that wait for each other on a busy machine take ten times as long
# as one thread alone. Set before anything imports numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pinocchio as pin
import pytest

from bodysense.robot import Actuators, Friction, Robot, load_robot
from bodysense.spatial import Array, exp_so3, random_pi

JOINTS = (
    pin.JointModelRX,
    pin.JointModelPY,
    pin.JointModelRevoluteUnaligned,
    pin.JointModelRUBZ,
    pin.JointModelPrismaticUnaligned,
    pin.JointModelRY,
    pin.JointModelPX,
    pin.JointModelRZ,
    pin.JointModelRUBX,
    pin.JointModelPZ,
    pin.JointModelRUBY,
)


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of real recordings, beside the project or in $BODYSENSE_DATA; skips without."""
    project = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("BODYSENSE_DATA", project.parent / "shared" / "data"))
    if not (folder / "ur10e").is_dir():
        pytest.skip(f"no recordings in {folder}: set BODYSENSE_DATA to the folder that has them")
    return folder


@pytest.fixture
def listening_to_ctrl_c() -> Iterator[None]:
    """Behind nohup, or in the background of a shell, a process starts with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240607)


@pytest.fixture(scope="session")
def random_model() -> Callable[..., pin.Model]:
    """Build a `pin.Model` with every kind of joint in it; see `build_random_model`."""
    return build_random_model


@pytest.fixture(scope="session")
def robot_of() -> Callable[[str], Robot]:
    """Load a robot by name, once; "serial", "short", "branched", "floating" are random ones."""
    return named_robot


@pytest.fixture(scope="session")
def states_of() -> Callable[[Robot, np.random.Generator, int], tuple[Array, Array, Array]]:
    """Random q, v, a of a robot, anywhere and moving."""
    return random_states


def build_random_model(
    rng: np.random.Generator, n: int, *, branched: bool = False, floating: bool = False
) -> pin.Model:
    """Build a tree of n one-axis joints with arbitrary axes and placements.

    A branched one is numbered breadth first, which Pinocchio accepts.
    """
    model = pin.Model()
    model.name = f"random-{n}"
    if floating:
        model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
    first = model.njoints
    kinds = rng.permutation(len(JOINTS))
    for j in range(n):
        parent = first + (j - 1) // 2 if branched and j > 0 else model.njoints - 1
        kind = JOINTS[kinds[j % len(JOINTS)]]
        axis = rng.normal(size=3)
        joint = kind(axis / np.linalg.norm(axis)) if "Unaligned" in kind.__name__ else kind()
        placement = pin.SE3(exp_so3(rng.uniform(-2, 2, 3)), rng.uniform(-0.4, 0.4, 3))
        model.addJoint(parent, joint, placement, f"joint{j + 1}")
    for i, pi in enumerate(random_pi(rng, model.njoints - 1), start=1):
        model.appendBodyToJoint(i, pin.Inertia.FromDynamicParameters(pi), pin.SE3.Identity())
        frame = model.addJointFrame(i)
        model.addBodyFrame(f"link{i}", i, pin.SE3.Identity(), frame)
    armature = rng.uniform(0.01, 0.1, model.nv)
    armature[: 6 * floating] = 0.0
    model.armature = armature
    return model


def random_robot(name: str) -> Robot:
    rng, n = np.random.default_rng(7), 6 if name == "short" else 12
    model = build_random_model(
        rng, n, branched=name not in ("serial", "short"), floating=name == "floating"
    )
    return Robot.from_pinocchio(
        model,
        friction=Friction.from_model("stribeck-offset", n, width=rng.uniform(0.01, 0.1, n), vs=0.2),
        coefficients={term: rng.uniform(0.1, 2.0, n) for term in ("Fv", "Fc", "Fs", "Fo")},
    )


@cache
def named_robot(name: str) -> Robot:
    if name in ("serial", "short", "branched", "floating"):
        return random_robot(name)
    if name == "tx40-three":  # all three terms of the coupled wrist
        robot = load_robot("tx40-coupled")
        actuators = Actuators.from_values(
            6,
            gear_ratio=robot.actuators.gear_ratio,
            coupling=robot.actuators.coupling,
            coupled_terms=("Iam", "Fvm", "Fcm"),
        )
        return robot.with_actuators(actuators, {"Iam": 0.02, "Fvm": 0.8, "Fcm": 1.6})
    return load_robot(name)


def random_states(robot: Robot, rng: np.random.Generator, n_t: int) -> tuple[Array, Array, Array]:
    q = rng.uniform(-3.0, 3.0, (n_t, robot.nq))
    if robot.floating_base:
        q[:, 3:7] = rng.normal(size=(n_t, 4))
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    v, a = rng.normal(scale=2.0, size=(2, n_t, robot.nv))
    return q, v, a
