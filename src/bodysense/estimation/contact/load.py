"""Is a wrench that acts all the time a load that the robot carries, or a push that lasts?

A body with the ten inertial parameters pi that is fixed to a link acts on it with the wrench

    w = -(I(pi) a + v ×* I(pi) v) = -Y(a, v) pi,

a, v: proper acceleration and twist of the link. Scores then are b = A R⁺ w + noise (see
`evidence`), and least squares over a log give pi with its covariance. A steady push is the constant
wrench that explains most. In one posture both explain the same; it takes another one to tell.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from bodysense.estimation.contact.evidence import Evidence
from bodysense.sensors.wrench_sensors import gyroscopic
from bodysense.spatial.arrays import Array
from bodysense.spatial.pseudo_inertia import spatial_inertia

_INERTIAL = 10
_KNOWN = 1e-9  # of the largest eigenvalue: below it nothing is said about a combination
_MOST = 0.85  # share of the evidence that a load must explain to be one
_WIDE = np.array([1e2, *[1e2] * 3, *[1e2] * 6])  # kg, kg·m, kg·m²: of what the log does not tell
_BETTER = 0.5  # of what a push leaves that a load must leave at most to be told from it


@dataclass(frozen=True, eq=False)
class CarriedLoad:
    """A load that explains the external wrench on a link all the time.

    Attributes:
        link: its name.
        mass: [kg].
        mass_std: standard deviation [kg].
        com: (3,) centre of mass in the link's frame [m].
        com_std: (3,) standard deviations [m].
        pi: (10,) inertial parameters about the link's origin, as Pinocchio orders them.
        explained: share of the evidence for a contact that it explains.
        told: whether it is told from a steady push; else one posture does not tell.
    """

    link: str
    mass: float
    mass_std: float
    com: Array
    com_std: Array
    pi: Array
    explained: float
    told: bool

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON, with its summary."""
        numbers = {f.name: getattr(self, f.name) for f in fields(self)}
        lists = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in numbers.items()}
        return {**lists, "summary": self.summary()}

    def summary(self) -> str:
        """In a sentence."""
        where = ", ".join(f"{x:.3f}" for x in self.com)
        load = (
            f"a load of {self.mass:.3g} ± {1.96 * self.mass_std:.2g} kg at ({where}) m explains "
            f"{100.0 * self.explained:.3g} % of the external wrench on {self.link}"
        )
        return load if self.told else f"{load}, and so does a steady push: one posture cannot tell"


def fit_load(evidence: Evidence, link: str, acceleration: Array, twist: Array) -> CarriedLoad:
    """The load on a link that explains its evidence best, from accelerations and twists (T, 6)."""
    inverse = np.linalg.pinv(evidence.root[link])
    b, A = evidence.score[link], evidence.information[link]
    columns = -np.einsum("ij,tjk->tik", inverse, load_regressor(acceleration, twist))
    total = max(_explained(b, A) - b.size, np.finfo(float).tiny)  # without that of noise
    pi, N, by_load = _least_squares(b, A, columns)
    _, _, by_push = _least_squares(b, A, np.broadcast_to(inverse, (len(b), *inverse.shape)))
    left = max(total - by_load, 0.0)
    scale = max(1.0, left / max(1.0, b.size - _INERTIAL))
    C = scale * np.linalg.inv(N + np.diag(1.0 / _WIDE**2))  # what is not told stays wide
    mass = float(pi[0]) if abs(pi[0]) > 0.0 else np.finfo(float).tiny
    com = pi[1:4] / mass
    slope = np.concatenate([-com[:, None], np.eye(3)], axis=1) / mass
    com_std = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", slope, C[:4, :4], slope), 0.0))
    return CarriedLoad(
        link=link,
        mass=mass,
        mass_std=float(np.sqrt(max(C[0, 0], 0.0))),
        com=com,
        com_std=com_std,
        pi=pi,
        explained=min(1.0, by_load / total),
        told=left < _BETTER * max(total - by_push, 0.0),
    )


def steady_share(evidence: Evidence, link: str) -> float:
    """Share of the evidence that a wrench which stays the same in the link's axes explains."""
    inverse = np.linalg.pinv(evidence.root[link])
    b, A = evidence.score[link], evidence.information[link]
    total = max(_explained(b, A) - b.size, np.finfo(float).tiny)
    same = np.broadcast_to(inverse, (len(b), *inverse.shape))
    return min(1.0, _least_squares(b, A, same)[2] / total)


def is_load(load: CarriedLoad) -> bool:
    """Whether a load explains most, and has a mass that is beyond its uncertainty."""
    return load.explained > _MOST and load.mass > 2.0 * load.mass_std


def load_regressor(acceleration: Array, twist: Array) -> Array:
    """(T, 6, 10) Y with I(pi) a + v ×* I(pi) v = Y pi."""
    columns = []
    for unit in np.eye(_INERTIAL):
        I = spatial_inertia(unit)
        columns.append(acceleration @ I.T + np.einsum("ti,kij,tj->tk", twist, gyroscopic(I), twist))
    return np.stack(columns, axis=2)


def _explained(b: Array, A: Array) -> float:
    """Σ bᵀ A⁻¹ b."""
    return float(np.einsum("ti,tij,tj->", b, np.linalg.pinv(A, hermitian=True), b))


def _least_squares(b: Array, A: Array, columns: Array) -> tuple[Array, Array, float]:
    """X of b = A columns x, its information, and how much of Σ bᵀ A⁻¹ b it explains."""
    weighted = A @ columns
    N = np.einsum("tki,tkj->ij", columns, weighted)
    g = np.einsum("tki,tk->i", columns, b)
    x = np.linalg.pinv(N, rcond=_KNOWN, hermitian=True) @ g
    return x, N, float(x @ g)
