"""Problems of the laws as recordings of a robot under control, for methods that simulate it."""

from __future__ import annotations

from functools import cache

import numpy as np
from identifier_subjects import (
    RECORDED,
    base_of,
    off,
    sampled_problem,
    shoulder,
    states,
    subject,
    tx40,
)

from bodysense.excitation import SampledTrajectory
from bodysense.identification import Motion, Preprocessing, Regression
from bodysense.robot import Robot, inverse_dynamics
from bodysense.simulation import rollout
from bodysense.spatial import Array

Cuts = tuple[tuple[int, int, int], ...]


def noisy_problem(
    method: str,
    n_t: int = 400,
    seed: int = 0,
    *,
    noise: float = 0.3,
    moving: tuple[int, ...] | None = None,
) -> Regression:
    """Noisy samples of the method's subject, and a prior that is 15 % off; the same every time."""
    return _kept(subject(method), method in RECORDED, n_t, seed, noise, moving)


def small_problem(method: str, seed: int = 0) -> Regression:
    """Two seconds of the shoulder, made anew."""
    return _made(shoulder(), method in RECORDED, 200, seed, 0.3)


def _made(
    robot: Robot,
    recorded: bool,
    n_t: int,
    seed: int,
    noise: float,
    moving: tuple[int, ...] | None = None,
) -> Regression:
    if not recorded:
        return sampled_problem(robot, n_t, seed, noise, moving)
    rng = np.random.default_rng(seed)
    # Where some joints stand, the others move gently: they would shake them out of their places.
    slower = 2.0 if moving is None else 1.0
    q, _, _ = states(n_t, rng, moving, n=robot.n_joints, fastest=slower)
    q *= 0.5 * slower
    return controlled_problem(robot, q, noise, rng, moving)


_kept = cache(_made)


@cache
def smooth(robot: Robot) -> Robot:
    """With friction that turns round smoothly: a standing joint would be held by any torque."""
    own = robot.friction.model.name
    return robot.with_friction(own, width=0.05) if "Fc" in robot.friction.model.terms else robot


def controlled_problem(
    robot: Robot,
    q: Array,
    noise: float,
    rng: np.random.Generator,
    moving: tuple[int, ...] | None = None,
    *,
    rate: float = 500.0,
    spread: float = 0.15,
) -> Regression:
    """The robot under control, told to pass through q (n_t, n) at 100 Hz; recorded at 500 Hz.

    The prior is off by the spread.
    """
    told = SampledTrajectory(np.arange(len(q)) / 100.0, q, at_rest=False)
    run = rollout(robot, told, sampling_rate=rate, integrator="rk4", differentiate=True)
    assert run.ok
    x, v, a, tau, reference = (
        y[0].copy() if y.ndim == 3 else y for y in (run.q, run.v, run.a, run.tau, run.reference)
    )
    n = robot.n_joints
    still = sorted(set(range(n)) - set(range(n) if moving is None else moving))
    x[:, still] = x[:, still].mean(axis=0)
    v[:, still] = a[:, still] = 0.0
    # As much information as samples at 100 Hz hold.
    tau = tau + noise * np.sqrt(rate / 100.0) * rng.normal(size=tau.shape)
    return Regression.from_samples(
        off(robot, rng, spread), x, v, a, tau, rate=rate, base=base_of(robot), reference=reference
    )


def pieces(method: str, cuts: Cuts, noise: tuple[float, ...] = (0.3, 0.3)) -> Regression:
    """Samples of one motion of 800 as pieces (first, last, log), with noise a log."""
    return _pieces(method in RECORDED, cuts, noise)


@cache
def _pieces(recorded: bool, cuts: Cuts, noise: tuple[float, ...]) -> Regression:
    if recorded:
        return _recorded_pieces(cuts, noise)
    rng = np.random.default_rng(3)
    q, v, a = states(800, rng)
    tau = inverse_dynamics(tx40(), q, v, a)
    white = rng.normal(size=tau.shape)
    motions = []
    for first, last, log in cuts:
        torque = (tau + noise[log] * white)[first:last]
        where = slice(first, last)
        t = np.arange(first, last) / 100.0
        motions.append(Motion(t, q[where], v[where], a[where], torque, torque, 100.0, log))
    settings = Preprocessing(cutoff=100.0, band=100.0, border=0.0, still_speed=0.0, decimate=False)
    prior = off(tx40(), np.random.default_rng(4))
    return Regression.of(prior, motions, settings, base_of(tx40()))


@cache
def _recorded() -> tuple[Regression, Array]:
    """Eight seconds of the shoulder without noise, and noise (n_t, 3) for its torques."""
    q, _, _ = states(800, np.random.default_rng(3), n=3)
    whole = controlled_problem(shoulder(), q, 0.0, np.random.default_rng(4))
    return whole, np.random.default_rng(5).normal(size=whole.motions[0].tau.shape)


def _recorded_pieces(cuts: Cuts, noise: tuple[float, ...]) -> Regression:
    """The same of a robot under control, five samples for one."""
    whole, white = _recorded()
    (motion,) = whole.motions
    motions = []
    for first, last, log in cuts:
        part = slice(5 * first, min(5 * last, motion.t.size))
        tau = (motion.tau + np.sqrt(5.0) * noise[log] * white)[part]
        q, v, a = (x[part] for x in (motion.q, motion.v, motion.a))
        told = motion.reference
        assert told is not None
        motions.append(
            Motion(motion.t[part], q, v, a, tau, tau, motion.rate, log, reference=told[part])
        )
    return Regression.of(whole.robot, motions, whole.settings, whole.base)
