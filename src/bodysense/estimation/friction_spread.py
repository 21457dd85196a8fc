"""Friction of drives whose velocity is known to within a standard deviation.

Friction jumps where a joint reverses. With a velocity v ~ N(v̂, sigma_v²) it has a mean and a
variance,

    E[F(v)],   Var[F(v)] = E[F(v)²] - E[F(v)]²,

which is the square of the Coulomb friction where either sign is as likely and that of F'(v) sigma_v
away from a reversal. A joint that stands holds with any friction up to the static one, F_s: that
has the standard deviation F_s / √3.

A joint that is shaken, faster than anybody looks, by a velocity s ~ N(0, sigma_s²) has the friction

    F̄(v) = E[F(v + s)],

on which its linear part has no influence. Torques that shake it may as well be noise of their
sensor: the mean of F̄ and F is taken, and half their difference is a standard deviation. Likewise
friction that grows with a load which shakes by N(0, sigma_T²): it has E|T + s|, or |T|.

Where a law has bristles of stiffness sigma_0 (LuGre), friction F sets in within F / sigma_0 after a
reversal. At a distance d from it, it is anything between F (1 - 2 e) and F, with
e = exp(-d sigma_0 / F).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_NODES = 40  # velocities of equal probability: the mean of a sign is right to 1/40
_FAR = 6.0  # standard deviations of the velocity beyond which friction is a straight line
_CREEP = 2e-3
"""rad/s or m/s: a joint that creeps sticks at times; what it reads is no velocity of sliding, and
the standard deviation of a velocity is at least this where friction changes its sign at once. A law
that says within which velocity friction turns needs less."""
_WIDTHS = 3.0  # widths of a smoothed sign after which it is one
_TABLE = 400  # velocities at which the friction of a shaken joint is tabulated
_SHAKEN = 8.0  # standard deviations of shaking beyond which friction is as without


class FrictionSpread(NamedTuple):
    """(T, n) means and standard deviations of the friction of each joint's drive [N·m or N]."""

    mean: Array
    std: Array


def friction_spread(
    robot: Robot,
    dq: Array,
    sigma_v: Array,
    load: Array,
    standing: NDArray[np.bool_] | None = None,
    shaking: Array | None = None,
    load_std: Array | None = None,
    travelled: Array | None = None,
) -> FrictionSpread:
    """Friction at velocities (T, n) with standard deviations (T, n).

    Args:
        robot: whose friction law and coefficients it has.
        dq: velocities of the joints.
        sigma_v: of their noise.
        load: (T, n) torques of the drives without friction, which it may grow with.
        standing: (T, n) where a joint stands, or settles and breaks loose; by default nowhere.
        shaking: (n,) standard deviations of fast velocities that `dq` does not show; by default
            none.
        load_std: (n,) standard deviations of fast torques that `load` does not show; by default
            none.
        travelled: (T, n) how far each joint is from where it last reversed [rad or m]; by default
            far.
    """
    law = _Law(robot)
    mean, std = np.zeros_like(dq), np.zeros_like(dq)
    for j in range(dq.shape[1]):
        if not law.has(j):
            continue
        v, size = dq[:, j], np.abs(load[:, j])
        unsure = np.zeros_like(size)
        if load_std is not None and load_std[j] > 0.0:
            unsure = 0.5 * (_mean_size(size, load_std[j]) - size)
            size = size + unsure
        shaken = 0.0 if shaking is None else float(shaking[j])
        mean[:, j], std[:, j] = _about(law, j, v, sigma_v[:, j], size, shaken)
        std[:, j] = np.hypot(std[:, j], unsure * law.under_load(j, v))
        if travelled is not None and law.bristles(j) > 0.0:
            left = law.unset(j, v, size, travelled[:, j])
            mean[:, j] -= left
            std[:, j] = np.hypot(std[:, j], left / np.sqrt(3.0))
        if standing is not None and standing[:, j].any():
            static = law.jump(j, size) / (2.0 * np.sqrt(3.0))
            std[:, j] = np.where(standing[:, j], np.maximum(std[:, j], static), std[:, j])
    return FrictionSpread(mean, std)


def _about(
    law: _Law, j: int, v: Array, sigma_v: Array, size: Array, shaken: float
) -> tuple[Array, Array]:
    """(T,) mean and standard deviation of a joint's friction about velocities (T,)."""
    mean, slope = law.at(j, v, size)
    std: Array = np.abs(slope) * sigma_v
    sigma = np.maximum(sigma_v, _CREEP - law.width(j))
    near = np.flatnonzero(np.abs(v) < _FAR * sigma + law.reach(j) + _SHAKEN * shaken)
    if not near.size:
        return mean, std
    nodes = _normal_nodes()
    around = v[near, None] + sigma[near, None] * nodes
    loads = np.repeat(size[near], nodes.size)
    F = law.at(j, around.ravel(), loads)[0].reshape(around.shape)
    apart = np.zeros(near.size)
    if shaken > 0.0:
        soft = law.shaken(j, around.ravel(), loads, shaken).reshape(around.shape)
        apart = 0.5 * (F - soft).mean(axis=1)
        F = 0.5 * (F + soft)
    mean[near] = F.mean(axis=1)
    std[near] = np.sqrt(F.var(axis=1) + apart**2)
    return mean, std


def _mean_size(x: Array, sigma: float) -> Array:
    """E|x + s| of s ~ N(0, sigma²)."""
    z = x / sigma
    mean: Array = sigma * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * z**2) + x * (2.0 * ndtr(z) - 1.0)
    return mean


def _normal_nodes() -> Array:
    """Values of a unit normal distribution that are as likely each, with its variance."""
    nodes: Array = ndtri((np.arange(_NODES) + 0.5) / _NODES)
    unit: Array = nodes / nodes.std()
    return unit


def coulomb_friction(robot: Robot) -> Array:
    """(n,) half of what friction jumps by when each joint reverses without load [N·m or N]."""
    law, unloaded = _Law(robot), np.zeros(1)
    return np.array([0.5 * law.jump(j, unloaded)[0] for j in range(robot.n_joints)])


class _Law:
    """Friction of a robot's drives, with its coefficients."""

    def __init__(self, robot: Robot) -> None:
        self._friction = robot.friction
        layout, theta, law = robot.layout, robot.theta, robot.friction.model
        terms = [theta[layout.friction(term)] for term in law.terms]
        self._F = np.stack([*terms, np.zeros(robot.n_joints)], axis=1)[:, : len(terms)]

    def has(self, j: int) -> bool:
        return bool(self._F[j].any())

    def width(self, j: int) -> float:
        """Of a smoothed sign [rad/s or m/s]; zero for a sharp one."""
        shape = dict(zip(self._friction.model.shape, self._friction.shape[j], strict=True))
        return float(shape.get("width", 0.0))

    def reach(self, j: int) -> float:
        """Velocity within which a smoothed sign turns; zero for a sharp one."""
        return _WIDTHS * self.width(j)

    def at(self, j: int, v: Array, load: Array) -> tuple[Array, Array]:
        """(n,) friction and its slope by the velocity."""
        law = self._friction.model
        phi, dphi = law.basis(v, self._friction.shape[j])
        if law.depends_on_load:
            phi[:, -1] *= load
            dphi[:, -1] *= load
        F: Array = phi @ self._F[j]
        slope: Array = dphi @ self._F[j]
        return F, slope

    def jump(self, j: int, load: Array) -> Array:
        """(n,) what friction changes by at a reversal under loads (n,)."""
        v = np.full_like(load, _CREEP + self.reach(j))
        ahead, back = (self.at(j, sign * v, load)[0] for sign in (1.0, -1.0))
        return np.abs(ahead - back)

    def unset(self, j: int, v: Array, load: Array, distance: Array) -> Array:
        """(n,) F e: what friction lacks at distances from a reversal, give or take as much."""
        F = 0.5 * (self.at(j, v, load)[0] - self.at(j, -v, load)[0])
        left: Array = F * np.exp(-distance * self.bristles(j) / np.maximum(np.abs(F), 1e-300))
        return left

    def bristles(self, j: int) -> float:
        """Stiffness of what slides at a reversal; zero for laws without a state."""
        model = self._friction.model
        if not model.has_state:
            return 0.0
        return float(self._friction.shape[j][model.shape.index("sigma0")])

    def under_load(self, j: int, v: Array) -> Array:
        """(n,) size of the friction per unit of load."""
        if not self._friction.model.depends_on_load:
            return np.zeros_like(v)
        one, none = (self.at(j, v, np.full_like(v, load))[0] for load in (1.0, 0.0))
        return np.abs(one - none)

    def shaken(self, j: int, v: Array, load: Array, sigma: float) -> Array:
        """(n,) friction, averaged over velocities that are normally distributed about each."""
        law, shape = self._friction.model, self._friction.shape[j]
        far = self.reach(j) + 0.5 * _SHAKEN * sigma
        grid = np.linspace(-far, far, _TABLE)
        nodes = _normal_nodes()
        phi, _ = law.basis((grid[:, None] + sigma * nodes).ravel(), shape)
        soft = phi.reshape(grid.size, nodes.size, -1).mean(axis=1)
        plain, _ = law.basis(v, shape)
        inside = np.abs(v) <= far
        for k, column in enumerate(soft.T):
            plain[inside, k] = np.interp(v[inside], grid, column)
        if law.depends_on_load:
            plain[:, -1] *= load
        F: Array = plain @ self._F[j]
        return F
