"""A small arm with and without a load, its torques by Pinocchio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pinocchio as pin
import pytest

from bodysense.doctor import Diagnosis
from bodysense.identification import Motion, Preprocessing
from bodysense.identification.payload.experiment import ROBOT_UNCERTAINTY, LoadExperiment
from bodysense.identification.payload.loaded_regression import LoadedRegression
from bodysense.robot import BaseParameters, Friction, Robot, base_parameters
from bodysense.robot.frames import moving_frame
from bodysense.spatial import Array
from bodysense.spatial.pseudo_inertia import transform_pi

PLAIN = Preprocessing(cutoff=1e6, band=1e6, border=0.0, still_speed=0.05, decimate=False)
RATE = 100.0
WIDTH = 0.02
ROTOR = 0.1
FV, FC = np.array([2.0, 3.0, 1.5, 0.8]), np.array([3.0, 4.0, 2.0, 0.9])


@cache
def lifting_arm() -> Robot:
    """Four hinges about z, y, y and x with a flange: every joint but the first carries weight."""
    model = pin.Model()
    model.name = "lifting-arm"
    hinges = (pin.JointModelRZ, pin.JointModelRY, pin.JointModelRY, pin.JointModelRX)
    places = ((0.0, 0.0, 0.2), (0.1, 0.0, 0.1), (0.4, 0.0, 0.0), (0.35, 0.0, 0.0))
    for k, (hinge, place) in enumerate(zip(hinges, places, strict=True)):
        placement = pin.SE3(np.eye(3), np.array(place))
        joint = model.addJoint(k, hinge(), placement, f"joint{k + 1}")
        body = pin.Inertia.FromBox(4.0 / (k + 1), 0.35, 0.1, 0.12)
        middle = pin.SE3(np.eye(3), np.array([0.15, 0.01 * k, 0.02]))
        model.appendBodyToJoint(joint, body, middle)
        model.addBodyFrame(f"link{k + 1}", joint, pin.SE3.Identity(), model.addJointFrame(joint))
    flange = pin.SE3(pin.rpy.rpyToMatrix(0.3, -0.5, 0.8), np.array([0.1, 0.05, -0.02]))
    model.addFrame(pin.Frame("flange", 4, 0, flange, pin.FrameType.OP_FRAME))
    return Robot.from_pinocchio(
        model,
        friction=Friction.from_model("coulomb", 4, width=WIDTH),
        coefficients={"Fv": FV, "Fc": FC, "Ia": np.full(4, ROTOR)},
    )


@cache
def base_of(robot: Robot) -> BaseParameters:
    return base_parameters(robot)


BODY = pin.Inertia(
    2.0, np.array([0.08, -0.05, 0.12]), np.array([[20, 2, -1], [2, 15, 3], [-1, 3, 12]]) * 1e-3
)
"""What is held: kg, m, kg·m²."""


def torques(
    q: Array,
    v: Array,
    a: Array,
    *,
    body: pin.Inertia | None,
    frame: str,
    losses: Array | float,
    rotor: float,
) -> Array:
    """(n_t, 4) of the arm by Pinocchio, with a body welded to a frame, friction and losses."""
    model = lifting_arm().model.copy()
    model.armature = np.zeros(model.nv)
    if body is not None:
        place = model.frames[model.getFrameId(frame)]
        model.appendBodyToJoint(place.parentJoint, body, place.placement)
    data = model.createData()
    link = np.array([pin.rnea(model, data, *row).copy() for row in zip(q, v, a, strict=True)])
    drive = link + rotor * a
    return drive + FV * v + (FC + losses * np.abs(drive)) * np.tanh(v / WIDTH)


@dataclass(frozen=True)
class Case:
    """Motions without and with the load, and the experiment that they make."""

    motions: tuple[Motion, ...]
    experiment: LoadExperiment


def make_case(
    *,
    seed: int = 0,
    noise: float = 0.0,
    gains: Array | float = 1.0,
    losses: Array | float = 0.0,
    body: pin.Inertia | None = BODY,
    frame: str = "link4",
    known_arm: bool = False,
    rotor: float = ROTOR,
    off: float = 0.15,
    n_t: int = 250,
    held: tuple[float, ...] = (1.0,),
    bodies: tuple[pin.Inertia, ...] = (),
    swapped: bool = False,
    named: str | None = None,
    arm: float = ROBOT_UNCERTAINTY,
) -> Case:
    """Recordings whose logged torques are gains times the true ones, with white noise.

    Args:
        seed: of motions, noise and the prior.
        noise: standard deviation [N·m].
        gains: one for all or one per joint, by which torques are multiplied.
        losses: friction that grows with load.
        body: that is held in the second recording.
        frame: that holds it.
        known_arm: leave the recording without the load out.
        rotor: inertia of the rotors [kg·m²].
        off: relative standard deviation by which masses of the prior's links are wrong.
        n_t: samples of each recording.
        held: of each recording that is said to be with the load, the share of its time after which
            the load is lost.
        bodies: one per recording with the load, if they differ.
        swapped: say that the recording without the load is the one with it.
        named: frame that is said to hold the load; by default the one that does.
        arm: how far the arm may be off where it is taken to be known.
    """
    robot, rng = lifting_arm(), np.random.default_rng(seed)
    theta = robot.theta.copy()
    for k in range(robot.layout.n_links):
        theta[robot.layout.link(k)] *= 1.0 + off * rng.uniform(-1.0, 1.0)
    motions = []
    first = 0 if known_arm else 1
    given = (None,) * first + (bodies or (body,) * len(held))
    for share, own in zip((0.0,) * first + held, given, strict=True):
        t = np.arange(n_t) / RATE
        w = 2.0 * np.pi * 0.3 * np.arange(1, 6)[:, None]
        size = rng.normal(size=(5, 4)) * 0.5 / np.arange(1, 6)[:, None]
        phase = rng.uniform(0.0, 6.28, (5, 4))
        angle = w * t[:, None, None] + phase
        q, v = (size * np.sin(angle)).sum(axis=1), (size * w * np.cos(angle)).sum(axis=1)
        a = -(size * w**2 * np.sin(angle)).sum(axis=1)
        full, empty = (
            torques(q, v, a, body=b, frame=frame, losses=losses, rotor=rotor) for b in (own, None)
        )
        tau = gains * np.where(t[:, None] < share * n_t / RATE, full, empty)
        tau = tau + noise * rng.normal(size=tau.shape)
        motions.append(Motion(t, q, v, a, tau, tau, RATE, len(motions)))
    place = moving_frame(robot, named or frame, "the payload")
    to_link = np.stack([transform_pi(e, place.placement.homogeneous) for e in np.eye(10)], axis=1)
    problem = LoadedRegression.of_logs(
        robot.with_parameters(theta),
        motions,
        PLAIN,
        loaded=frozenset({0} if swapped else range(first, len(motions))),
        load_to_link=to_link,
        link=place.parentJoint - 1,
        base=base_of(robot),
    )
    names = ["empty"] * first + [f"loaded{k or ''}" for k in range(len(held))]
    diagnoses = [
        Diagnosis(
            source=f"{name}.csv",
            digest=name,
            joint_names=robot.joint_names,
            findings=(),
            segments=(),
            moving=(),
            n_samples=n_t,
            rate=RATE,
        )
        for name in names
    ]
    loaded, unloaded = diagnoses[first:], diagnoses[:first]
    if swapped:
        loaded, unloaded = unloaded, loaded
    experiment = LoadExperiment.of(problem, named or frame, loaded, unloaded, robot_uncertainty=arm)
    return Case(tuple(motions), experiment)


@pytest.fixture(scope="session", name="make_case")
def make_case_fixture() -> Callable[..., Case]:
    """Make recordings of the arm; see `make_case`."""
    return make_case


@pytest.fixture(scope="session")
def arm() -> Robot:
    """The arm that lifts."""
    return lifting_arm()


@pytest.fixture(scope="session")
def body() -> pin.Inertia:
    """What it holds."""
    return BODY
