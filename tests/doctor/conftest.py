"""Clean simulated recordings, for defects to be put into."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bodysense.doctor import Diagnosis, Finding, examine
from bodysense.excitation import FourierTrajectory
from bodysense.logs.log import Log
from bodysense.robot import Robot, load_robot, suggested_controller
from bodysense.simulation import rollout
from bodysense.spatial import Array


@cache
def robot_named(name: str, friction: str | None) -> Robot:
    robot = load_robot(name)
    if friction is None:
        return robot
    layout = robot.layout
    static = 1.5 * robot.theta[layout.friction("Fc")] if "Fc" in layout.friction_terms else 0.0
    robot = robot.with_friction(friction)
    if "Fs" in robot.layout.friction_terms:
        robot = robot.with_friction(friction, coefficients={"Fs": static})
    return robot


def payload(robot: Robot, mass: float) -> Robot:
    """The robot with a ball in its hand, 10 cm before the flange."""
    last = max(k for k, kind in enumerate(robot.joint_types) if kind == "revolute")
    theta = robot.theta.copy()
    inertia = np.array([0.011, 0.0, 0.011, 0.0, 0.0, 0.001]) * mass
    theta[robot.layout.link(last)] += np.array([mass, 0.0, 0.0, 0.1 * mass, *inertia])
    return robot.with_parameters(theta)


@cache
def recorded(
    name: str = "tx40",
    seed: int = 0,
    *,
    friction: str | None = None,
    rate: float = 500.0,
    noise: float = 0.0,
    load: float = 0.0,
    duration: float = 10.0,
    harmonics: int = 10,
) -> Log:
    """A clean recording with positions, torques and true velocities."""
    robot = robot_named(name, friction)
    true = payload(robot, load) if load else robot
    rng = np.random.default_rng(seed)
    motion = FourierTrajectory.for_robot(robot, rng=rng, duration=duration, harmonics=harmonics)
    run = rollout(
        true,
        motion,
        sampling_rate=rate,
        controller=robot.controller or suggested_controller(robot),
        position_noise=noise,
        torque_noise=0.05 if noise else 0.0,
        rng=rng,
    )
    assert run.ok
    raw = replace(run.log(), source="clean")
    velocity = {f"v.{joint}": run.v[0, :, k] for k, joint in enumerate(robot.joint_names)}
    return changed(raw, {**raw.channels, **velocity})


def changed(
    raw: Log,
    channels: Mapping[str, Array] | None = None,
    *,
    t: Array | None = None,
    keep: Array | None = None,
    rows: Array | None = None,
    **more: object,
) -> Log:
    """The recording with other channels, other times, or fewer or reordered rows."""
    channels = dict(raw.channels if channels is None else channels)
    t = raw.t if t is None else t
    rows = raw.rows if rows is None else rows
    if keep is not None:
        t, rows = t[keep], rows[keep]
        channels = {name: values[keep] for name, values in channels.items()}
    settings = {"units": raw.units, "source": raw.source, "faults": raw.faults, **more}
    return Log(t=t, channels=channels, rows=rows, **settings)


def check_diagnosis(diagnosis: Diagnosis) -> None:
    json.dumps(diagnosis.to_dict(), allow_nan=False)
    assert diagnosis.summary().startswith(diagnosis.source)
    assert diagnosis.n_kept == sum(segment.t.size for segment in diagnosis.segments)
    assert diagnosis.n_kept <= diagnosis.n_samples
    assert len(diagnosis.moving) == len(diagnosis.segments)
    for segment, moving in zip(diagnosis.segments, diagnosis.moving, strict=True):
        assert (np.diff(segment.t) > 0.0).all()
        assert moving.shape == (segment.t.size, len(diagnosis.joint_names))
        for quantity in ("q", "tau"):
            assert np.isfinite(segment.joints(quantity, diagnosis.joint_names)).all()
    if diagnosis.usable:
        assert diagnosis.segments
        assert not diagnosis.of("error")
    for finding in diagnosis.findings:
        assert finding.where
        assert finding.message
        assert finding.action


@pytest.fixture(scope="session", name="robot_named")
def robot_named_fixture() -> Callable[[str, str | None], Robot]:
    return robot_named


@pytest.fixture(scope="session", name="recorded")
def recorded_fixture() -> Callable[..., Log]:
    return recorded


@pytest.fixture(scope="session", name="changed")
def changed_fixture() -> Callable[..., Log]:
    return changed


@pytest.fixture(scope="session", name="check_diagnosis")
def check_diagnosis_fixture() -> Callable[[Diagnosis], None]:
    return check_diagnosis


@pytest.fixture(scope="session")
def tx40() -> Robot:
    return robot_named("tx40", None)


@pytest.fixture
def clean() -> Log:
    return recorded()


@pytest.fixture(scope="session")
def found(tx40: Robot) -> Callable[[Log], Diagnosis]:
    """Examine a recording of the TX40 and check what holds for every diagnosis."""

    def diagnose(raw: Log) -> Diagnosis:
        diagnosis = examine(tx40, raw)
        check_diagnosis(diagnosis)
        return diagnosis

    return diagnose


@pytest.fixture(scope="session")
def only(found: Callable[[Log], Diagnosis]) -> Callable[[Log, str, str], Finding]:
    """Examine a recording of the TX40 that has one defect alone, and return the finding."""

    def single(raw: Log, kind: str, severity: str) -> Finding:
        findings = found(raw).findings
        assert [(f.kind, f.severity) for f in findings] == [(kind, severity)], findings
        return findings[0]

    return single
