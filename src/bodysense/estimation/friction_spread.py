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
sensor: the mean of F̄ and F is taken, and half their difference is a standard deviation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_NODES = 40  # velocities of equal probability: the mean of a sign is right to 1/40
_FAR = 6.0  # standard deviations of the velocity beyond which friction is a straight line
_CREEP = 2e-3
"""rad/s or m/s: a joint that creeps sticks at times; what it reads is no velocity of sliding, and
the standard deviation of a velocity is at least this where friction changes its sign."""
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
    """
    law = _Law(robot)
    shaken = np.zeros(dq.shape[1]) if shaking is None else shaking
    mean, std = np.zeros_like(dq), np.zeros_like(dq)
    nodes = _normal_nodes()
    for j in range(dq.shape[1]):
        if not law.has(j):
            continue
        v, size = dq[:, j], np.abs(load[:, j])
        mean[:, j], slope = law.at(j, v, size)
        std[:, j] = np.abs(slope) * sigma_v[:, j]
        sigma = np.maximum(sigma_v[:, j], _CREEP)
        reach = law.reach(j) + _SHAKEN * shaken[j]
        near = np.flatnonzero(np.abs(v) < _FAR * sigma + reach)
        if near.size:
            around = v[near, None] + sigma[near, None] * nodes
            loads = np.repeat(size[near], nodes.size)
            F = law.at(j, around.ravel(), loads)[0].reshape(around.shape)
            apart = np.zeros(near.size)
            if shaken[j] > 0.0:
                soft = law.shaken(j, around.ravel(), loads, shaken[j]).reshape(around.shape)
                apart = 0.5 * (F - soft).mean(axis=1)
                F = 0.5 * (F + soft)
            mean[near, j] = F.mean(axis=1)
            std[near, j] = np.sqrt(F.var(axis=1) + apart**2)
        if standing is not None and standing[:, j].any():
            here = standing[:, j]
            creep = np.array([_CREEP + law.reach(j), -_CREEP - law.reach(j)])
            ahead, back = (law.at(j, np.full(size.size, c), size)[0] for c in creep)
            static = np.abs(ahead - back)[here] / (2.0 * np.sqrt(3.0))
            std[here, j] = np.maximum(std[here, j], static)
    return FrictionSpread(mean, std)


def _normal_nodes() -> Array:
    """Values of a unit normal distribution that are as likely each, with its variance."""
    nodes: Array = ndtri((np.arange(_NODES) + 0.5) / _NODES)
    unit: Array = nodes / nodes.std()
    return unit


def coulomb_friction(robot: Robot) -> Array:
    """(n,) half of what friction jumps by when each joint reverses without load [N·m or N]."""
    law, result = _Law(robot), np.zeros(robot.n_joints)
    for j in range(robot.n_joints):
        v = _CREEP + law.reach(j)
        (ahead, back), _ = law.at(j, np.array([v, -v]), np.zeros(2))
        result[j] = 0.5 * abs(ahead - back)
    return result


class _Law:
    """Friction of a robot's drives, with its coefficients."""

    def __init__(self, robot: Robot) -> None:
        self._friction = robot.friction
        layout, theta, law = robot.layout, robot.theta, robot.friction.model
        terms = [theta[layout.friction(term)] for term in law.terms]
        self._F = np.stack([*terms, np.zeros(robot.n_joints)], axis=1)[:, : len(terms)]

    def has(self, j: int) -> bool:
        return bool(self._F[j].any())

    def reach(self, j: int) -> float:
        """Velocity within which a smoothed sign turns; zero for a sharp one."""
        shape = dict(zip(self._friction.model.shape, self._friction.shape[j], strict=True))
        return _WIDTHS * float(shape.get("width", 0.0))

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
