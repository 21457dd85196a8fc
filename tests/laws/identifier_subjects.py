"""What the laws of identifiers share: which method can do what, robots, problems, results."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pinocchio as pin
import pytest

from bodysense.identification import IDENTIFIERS, Identification, Regression, identifier
from bodysense.identification.knowledge import Knowledge
from bodysense.robot import (
    BaseParameters,
    Controller,
    Friction,
    Robot,
    base_parameters,
    inverse_dynamics,
    load_robot,
)
from bodysense.robot.shapes.hull import Hull, box_corners
from bodysense.spatial import Array, inertia_at_com, pi_from_pseudo_inertia, pseudo_inertia_from_pi

TWINS = {
    "pc-ols": ("ols", "pc-wls"),
    "pc-irls": ("irls", "pc-wls"),
    "pc-sqp-ols": ("ols", "pc-sqp-wls"),
    "pc-sqp-irls": ("irls", "pc-sqp-wls"),
    "pc-iv": ("iv", "pc-wls"),
    "pc-didim": ("didim", "pc-wls"),
    "pc-cloe": ("cloe", "pc-wls"),
    "srekf": ("ekf", "srukf"),
    "cdkf": ("ukf", "srcdkf"),
}
"""Methods that share every part with others: weights with the first and the solver with the second,
or the kind of filter with one and its form with the other. The laws are asked of these others."""

SUBJECTS = sorted(set(IDENTIFIERS) - set(TWINS))
every_method = pytest.mark.parametrize("method", SUBJECTS)
CONSISTENT = sorted(name for name, row in IDENTIFIERS.items() if row.consistent)

# What a method cannot do by its nature, with the reason.
NEEDS_MOTION = {"energy"}
"""Energy is a function of time: samples must follow each other, densely, or tell nothing."""

FILTERS = {name for name, row in IDENTIFIERS.items() if row.group == "filtering"}
RECORDED = {name for name, row in IDENTIFIERS.items() if row.group == "simulated"} | FILTERS
"""They simulate the robot: what they are given must be a motion that it has made under control."""

FITS_POSITIONS = {"cloe", "pc-cloe"}
"""Noise in the torques that were written down does not touch them: nor their intervals."""

NEEDS_SHAPES = {"pc-points"}
"""Mass lies inside the links' shapes: where a file has none, the box of the prior's inertia stands
for them, and a prior whose centres of mass are off by decimetres has the wrong ones."""

ROUGH = {"pf"}
"""Parameters of an arm are too many for particles: it says so, and keeps the prior where it is
lost. `test_particle_laws` asks it for what it can do."""

every_method_but_particles = pytest.mark.parametrize("method", sorted(set(SUBJECTS) - ROUGH))


def off(robot: Robot, rng: np.random.Generator, spread: float = 0.15) -> Robot:
    """The robot with other bodies, which can exist too, and other drives."""
    theta, layout = robot.theta.copy(), robot.layout
    for k in range(layout.n_links):
        # A congruence keeps the pseudo-inertia positive definite.
        G = np.eye(4) + spread * rng.normal(size=(4, 4))
        P = pseudo_inertia_from_pi(theta[layout.link(k)])
        theta[layout.link(k)] = pi_from_pseudo_inertia(G @ P @ G.T)
    drives = slice(layout.n_inertial, layout.size)
    theta[drives] *= np.exp(spread * rng.normal(size=layout.size - layout.n_inertial))
    return robot.with_parameters(theta)


@cache
def base_of(robot: Robot) -> BaseParameters:
    return base_parameters(robot)


@cache
def tx40() -> Robot:
    return load_robot("tx40")


@cache
def held_tx40(n: int) -> Robot:
    """The TX40 with all joints held but the first n, and friction that turns round smoothly.

    A standing joint would be held by any torque otherwise.
    """
    whole = tx40()
    held = [whole.model.getJointId(name) for name in whole.joint_names[n:]]
    model = pin.buildReducedModel(whole.model, held, pin.neutral(whole.model))
    terms, joints = ("Ia", "Fv", "Fc"), range(1, n + 1)
    own = whole.controller
    assert own is not None
    return Robot.from_pinocchio(
        model,
        friction=Friction.from_model("coulomb", n, width=0.05),
        coefficients={term: [whole.parameter(f"{term}{j}") for j in joints] for term in terms},
        controller=Controller.from_gains(n, kp=own.kp[:n], kd=own.kd[:n], rate=own.rate),
    )


def shoulder() -> Robot:
    """Three joints, for laws that hold whatever their number."""
    return held_tx40(3)


def subject(method: str) -> Robot:
    """The TX40; of methods that simulate it, its shoulder, which takes a tenth of the time."""
    return shoulder() if method in RECORDED else tx40()


def states(
    n_t: int,
    rng: np.random.Generator,
    moving: tuple[int, ...] | None = None,
    *,
    rate: float = 100.0,
    n: int = 6,
    fastest: float = 2.0,
) -> tuple[Array, Array, Array]:
    """A smooth motion of n joints at 100 Hz, of which only some may move."""
    t = np.arange(n_t)[:, None, None] / rate
    w = 2.0 * np.pi * rng.uniform(0.2, fastest, (n, 5))
    A, phase = rng.uniform(-0.6, 0.6, (n, 5)), rng.uniform(0.0, 6.0, (n, 5))
    q = (A * np.sin(w * t + phase)).sum(axis=2)
    v = (A * w * np.cos(w * t + phase)).sum(axis=2)
    a = (-A * w**2 * np.sin(w * t + phase)).sum(axis=2)
    for j in set(range(n)) - set(range(n) if moving is None else moving):
        q[:, j], v[:, j], a[:, j] = 0.3, 0.0, 0.0
    return q, v, a


def sampled_problem(
    robot: Robot,
    n_t: int,
    seed: int,
    noise: float,
    moving: tuple[int, ...] | None = None,
) -> Regression:
    """Samples of a motion with white noise in the torques, and a prior that is 15 % off."""
    rng = np.random.default_rng(seed)
    q, v, a = states(n_t, rng, moving, n=robot.n_joints)
    tau = inverse_dynamics(robot, q, v, a) + noise * rng.normal(size=(n_t, robot.n_joints))
    prior = off(robot, rng)
    return Regression.from_samples(prior, q, v, a, tau, rate=100.0, base=base_of(robot))


def fitted(
    method: str, problem: Regression, seed: int = 0, truth: Robot | None = None
) -> Identification:
    for known in (tx40(), shoulder()):
        if truth is None and problem.base is base_of(known):
            truth = known
    if method in NEEDS_SHAPES and truth is not None:
        problem = dataclasses.replace(problem, knowledge=shapes_of(truth))
    return identifier(method).fit(problem, rng=np.random.default_rng(seed))


@cache
def shapes_of(robot: Robot) -> Knowledge:
    """Boxes of even density with the links' inertia, three times as long."""
    shapes = {}
    for k, name in enumerate(robot.layout.link_names):
        m, inertia = robot.pi(k)[0], inertia_at_com(robot.pi(k))
        moments, axes = np.linalg.eigh(inertia)
        half = np.sqrt(np.maximum(1.5 * (moments.sum() - 2.0 * moments) / m, 1e-4))
        shapes[name] = Hull.from_points(box_corners(robot.pi(k)[1:4] / m, 3.0 * half, axes))
    return Knowledge(com_inside=shapes)


def require_sound(found: Identification) -> None:
    """What holds of every result, whatever went in."""
    p, b = found.prior.layout.size, found.base.size
    n_logs = found.correlation_time.size
    shapes = {
        "theta": (p,),
        "sigma": (p,),
        "resolution": (p,),
        "theta_base": (b,),
        "sigma_base": (b,),
        "base_resolution": (b,),
        "covariance": (b, b),
        "noise": (n_logs, found.prior.n_joints),
        "correlation_time": (n_logs,),
    }
    for name, shape in shapes.items():
        values = getattr(found, name)
        assert values.shape == shape, name
        assert np.isfinite(values).all(), name
        assert not values.flags.writeable, name
    assert (found.sigma > 0.0).all()
    assert (found.sigma_base > 0.0).all()
    C = found.covariance
    np.testing.assert_array_equal(C, C.T)
    size = np.sqrt(np.diag(C))
    assert np.linalg.eigvalsh(C / size[:, None] / size)[0] > -1e-9
    for shares in (found.resolution, found.base_resolution):
        assert ((shares >= 0.0) & (shares <= 1.0)).all()
    assert found.status.message
    assert len(found.labels) == p
    assert len(found.base_labels) == b


def same(a: Identification, b: Identification) -> bool:
    """To the last bit."""
    arrays = [f.name for f in dataclasses.fields(a) if isinstance(getattr(a, f.name), np.ndarray)]
    assert len(arrays) == 7
    return (
        all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in arrays)
        and a.status == b.status
        and a.trace == b.trace
    )
