"""Noisy problems whose unconstrained estimate cannot exist, with their matrices written out."""

from __future__ import annotations

import numpy as np
import pytest

from bodysense.identification.prior import Prior


def pseudo_inertia(pi, bmat=np.block):
    """By hand: second moments of mass, first moments, mass."""
    m, x, y, z, xx, xy, yy, xz, yz, zz = (pi[k] for k in range(10))
    return bmat(
        [
            [(yy + zz - xx) / 2.0, -xy, -xz, x],
            [-xy, (xx + zz - yy) / 2.0, -yz, y],
            [-xz, -yz, (xx + yy - zz) / 2.0, z],
            [x, y, z, m],
        ]
    )


class Case:
    """A problem, its rows stacked by hand, and its cost."""

    def __init__(self, simulated, sigma=1.0, knowledge=None) -> None:
        self.simulated, self.problem = simulated, simulated.problem
        if knowledge is not None:
            from dataclasses import replace

            self.problem = replace(self.problem, knowledge=knowledge)
        self.prior = Prior.of(self.problem)
        n = self.problem.n_joints
        self.sigma = np.broadcast_to(np.asarray(sigma, float), (1, n)).copy()
        self.stack = self.problem.stack(self.sigma)
        scale = self.sigma[0, simulated.joint]
        self.A = (simulated.Y / scale[:, None]) @ self.prior.mapping
        self.z = simulated.y / scale
        layout = self.problem.robot.layout
        self.links = [layout.link(k) for k in range(layout.n_links)]
        self.drives = np.arange(layout.rotor.start, layout.size)
        self.units = [
            np.append(np.full(3, 1.0 / length), 1.0) / np.sqrt(mass)
            for mass, length in zip(self.prior.link_mass, self.prior.link_length, strict=True)
        ]

    def data_cost(self, theta) -> float:
        return float(np.sum((self.A @ theta - self.z) ** 2))

    def cost(self, theta, kind="euclidean", weight=1.0) -> float:
        """Of data and relaxation, with formulas as printed."""
        x = (theta - self.prior.theta) / self.prior.size
        if kind == "euclidean":
            return self.data_cost(theta) + weight * x @ x
        total = self.data_cost(theta) + x[self.drives] @ x[self.drives]
        for link in self.links:
            X = np.linalg.solve(pseudo_inertia(self.prior.theta[link]), pseudo_inertia(theta[link]))
            if kind == "pullback":
                total += weight * np.trace((X - np.eye(4)) @ (X - np.eye(4)))
            else:
                sign, volume = np.linalg.slogdet(X)
                total += 2.0 * weight * (np.trace(X) - volume - 4.0) if sign > 0 else np.inf
        return float(total)

    def smallest(self, theta) -> float:
        return min(
            np.linalg.eigvalsh(pseudo_inertia(theta[link]) * unit * unit[:, None])[0]
            for link, unit in zip(self.links, self.units, strict=True)
        )


@pytest.fixture(scope="module", params=[0, 1, 2])
def case(request, simulate) -> Case:
    made = Case(simulate([[4.0, 2.0, 1.0]], n_t=80, seed=request.param, off=0.3), [[2.0, 1.0, 0.5]])
    theta_free = np.linalg.lstsq(
        np.vstack([made.A * made.prior.size, np.eye(made.prior.size.size)]),
        np.append(made.z, made.prior.theta / made.prior.size),
        rcond=None,
    )[0]
    assert made.smallest(theta_free * made.prior.size) < 0.0
    return made


@pytest.fixture(scope="session")
def make_case():
    return Case


@pytest.fixture(scope="session", name="pseudo_inertia")
def pseudo_inertia_fixture():
    return pseudo_inertia
