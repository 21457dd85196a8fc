"""Base parameters: the combinations of theta that are identifiable from motion.

Columns of the regressor are linearly dependent, so that only combinations are identifiable:

    Y theta = Y_base theta_base,     theta_base = theta_ind + K theta_dep          thesis eq (9)

where `theta_ind` are the parameters that are kept and `theta_dep` those regrouped into them.
Together with `theta_dep` the map is a bijection (thesis eqs (10) and (11)):

    (theta_base, theta_dep) <-> theta.

Which parameters are kept is a matter of taste; here it is a fixed order of preference, so that
the result does not change from run to run and reads as in textbooks (Khalil and Dombre): a
parameter is kept unless it depends on those before it.

1. friction and coupling coefficients, by which nothing else moves;
2. all ten parameters of a floating base, mass first: its mass then stands for the total mass;
3. for all links, base to tip, kind by kind: the moment of inertia about the joint's own axis, the
   products of inertia, one transverse moment of inertia, the transverse first moments;
4. what is usually regrouped: rotor inertias, the other transverse moment of inertia, the first
   moment along the axis, and last the mass.

The rank is decided numerically on a regressor at random states. Columns that are zero up to the
tolerance are set aside first, by comparison with the largest one; scaling columns before that would
turn rounding errors into parameters. The tolerance is not that of arithmetic: robot files round
angles (1.5708 for a right angle), and a parameter that acts through a few millionths of a radian
alone is not identifiable in practice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr, solve_triangular

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.robot.dynamics import torque_regressor
from bodysense.robot.layout import ParameterLayout
from bodysense.robot.robot import Robot, require_robot
from bodysense.spatial.arrays import Array, as_array

Rows = Literal["all", "base", "joints"]

# Thresholds; all but the last are free of units.
_SMALLEST_COEFFICIENT = 1e-5  # of K; smaller ones come from rounded angles in robot files
_WEAK_RESIDUAL = 1e-3  # part of a column that is new, below which a parameter is called weak
_OTHER_ROBOT = 1e-3  # error of regrouping, relative to Y, that another geometry causes
_COEFFICIENT_ROUNDING = 1e-11  # of K, absolute: products of lengths [m], sines and cosines


@dataclass(frozen=True, eq=False, repr=False)
class BaseParameters:
    """The identifiable combinations of a robot's parameters.

    Attributes:
        layout: names of the full vector theta.
        independent: (b,) positions in theta of the kept parameters, ascending.
        dependent: (p - b,) positions of all others, ascending; those without any effect included.
        K: (b, p - b) dependency matrix of eq (9).
        gap: smallest accepted over largest rejected relative residual: how clear the rank was.
        new: (b,) how much of each kept parameter's column is not explained by the columns kept
            before it: 1 all of it, near the tolerance next to nothing.
    """

    layout: ParameterLayout
    independent: NDArray[np.int64]
    dependent: NDArray[np.int64]
    K: Array
    gap: float
    new: Array

    @property
    def size(self) -> int:
        """Number b of base parameters."""
        return int(self.independent.size)

    @property
    def n_inertial(self) -> int:
        return int((self.independent < self.layout.n_inertial).sum())

    @property
    def n_rotor(self) -> int:
        return int((self.independent < self.layout.rotor.stop).sum()) - self.n_inertial

    @property
    def n_friction(self) -> int:
        return self.size - self.n_inertial - self.n_rotor

    def __repr__(self) -> str:
        return f"<BaseParameters: {self.summary()}>"

    def summary(self) -> str:
        """How many combinations can be identified, and what cannot be, in words."""
        return (
            f"{self.size} of {self.layout.size} parameters can be identified ({self.n_inertial} "
            f"inertial, {self.n_rotor} rotor, {self.n_friction} friction); {len(self.regrouped)} "
            f"only in combination, {len(self.unidentifiable)} not at all."
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Each base parameter as a readable combination, e.g. ``ZZ1 + Ia1 + 0.0506 M2``."""
        names = self.layout.names
        return tuple(
            names[kept]
            + "".join(
                _signed(coefficient, names[other])
                for coefficient, other in zip(self.K[row], self.dependent, strict=True)
                if abs(coefficient) > _SMALLEST_COEFFICIENT
            )
            for row, kept in enumerate(self.independent)
        )

    @cached_property
    def unidentifiable(self) -> tuple[str, ...]:
        """Parameters without any effect on the measured rows."""
        without_effect = ~(np.abs(self.K) > _SMALLEST_COEFFICIENT).any(axis=0)
        return tuple(self.layout.names[k] for k in self.dependent[without_effect])

    @cached_property
    def regrouped(self) -> tuple[str, ...]:
        """Parameters that are identifiable only in the combination they are regrouped into."""
        combined = (np.abs(self.K) > _SMALLEST_COEFFICIENT).any(axis=0)
        return tuple(self.layout.names[k] for k in self.dependent[combined])

    @cached_property
    def alone(self) -> tuple[str, ...]:
        """Parameters that can be identified as such: nothing is regrouped into them."""
        single = ~(np.abs(self.K) > _SMALLEST_COEFFICIENT).any(axis=1)
        return tuple(self.layout.names[k] for k in self.independent[single])

    @property
    def weak(self) -> tuple[str, ...]:
        """Kept parameters of whose column less than a thousandth is not that of others.

        They are identifiable on paper: look for joints that are nearly, but not quite, aligned.
        """
        return tuple(self.layout.names[k] for k in self.independent[self.new < _WEAK_RESIDUAL])

    @cached_property
    def mapping(self) -> Array:
        """(b, p) matrix of theta_base = mapping @ theta, eq (9)."""
        matrix = np.zeros((self.size, self.layout.size))
        matrix[np.arange(self.size), self.independent] = 1.0
        matrix[:, self.dependent] = self.K
        return matrix

    def to_base(self, theta: ArrayLike) -> Array:
        """Map theta (…, p) to theta_base (…, b), eq (9)."""
        values = self._full(theta)
        base: Array = values[..., self.independent] + values[..., self.dependent] @ self.K.T
        return base

    def split(self, theta: ArrayLike) -> tuple[Array, Array]:
        """Map theta (…, p) to (theta_base, theta_dep), eq (10)."""
        values = self._full(theta)
        return self.to_base(values), values[..., self.dependent]

    def join(self, theta_base: ArrayLike, theta_dep: ArrayLike | None = None) -> Array:
        """Map (theta_base, theta_dep) back to theta, eq (11); theta_dep is zero if not given.

        With zeros the full vector moves just as the robot does, but it is usually unphysical:
        fine for the kernels.
        """
        base = np.asarray(theta_base, dtype=np.float64)
        base = as_array(base, (*base.shape[:-1], self.size), "theta_base")
        rest = np.zeros((*base.shape[:-1], self.dependent.size))
        if theta_dep is not None:
            rest = as_array(theta_dep, rest.shape, "theta_dep")
        theta = np.empty((*base.shape[:-1], self.layout.size))
        theta[..., self.independent] = base - rest @ self.K.T
        theta[..., self.dependent] = rest
        return theta

    def require_fits(self, robot: Robot) -> None:
        """Raise `MismatchError` unless these are base parameters of such a robot.

        Two robots may have the same joints and friction, and differ in their lengths alone: then
        two samples of the regressor tell them apart.
        """
        robot.layout.require_same(self.layout, "the base")
        Y = _random_regressor(robot, "all", samples=2)
        left = Y[:, self.dependent] - Y[:, self.independent] @ self.K
        if np.abs(left).max(initial=0.0) > _OTHER_ROBOT * np.abs(Y).max(initial=1.0):
            raise MismatchError(
                f"these base parameters belong to another robot than {robot.name!r}, with the same "
                "joints but other dimensions: call base_parameters(robot)."
            )

    def _full(self, theta: ArrayLike) -> Array:
        values = np.asarray(theta, dtype=np.float64)
        return as_array(values, (*values.shape[:-1], self.layout.size), "theta")


def base_parameters(robot: Robot, *, rows: Rows = "all", tolerance: float = 1e-5) -> BaseParameters:
    """Find the base parameters of a robot.

    Args:
        robot: its geometry, friction law and couplings decide; the values of theta do not.
        rows: for a floating base what is measured: all rows of the equations of motion, the
            wrench on the base alone, or the joint torques alone.
        tolerance: a parameter is regrouped when what its column adds to those before it is a
            smaller fraction of it than this, and has no effect when its column is a smaller
            fraction of the largest one. Where a file rounds right angles the regrouping is exact
            to this fraction only; with exact geometry it is exact.
    """
    require_robot(robot)
    if not 1e-12 <= tolerance < 1.0:
        raise ShapeError(f"tolerance is {tolerance:g}: give a fraction from 1e-12 to 1.")
    Y = _random_regressor(robot, rows)
    return base_parameters_from_regressor(robot, Y, tolerance)


def base_parameters_from_regressor(robot: Robot, Y: Array, tolerance: float) -> BaseParameters:
    """The combinations identifiable from a stacked regressor Y (rows, p).

    For example of motions of some joints alone; for the tolerance see `base_parameters`.
    """
    layout, order = robot.layout, _preference(robot)
    size = np.linalg.norm(Y, axis=0)
    present = order[size[order] > tolerance * size.max(initial=0.0)]
    # One plain QR makes the rest independent of the number of samples.
    R = np.zeros((0, 0))
    if present.size:
        R = qr(Y[:, present] / size[present], mode="r")[0][: present.size]
    residuals = _residuals(R, tolerance)
    kept = residuals > tolerance
    independent = np.sort(present[kept])
    dependent = np.setdiff1d(np.arange(layout.size), independent)
    column = {int(parameter): k for k, parameter in enumerate(present)}
    regrouped = [k for k, parameter in enumerate(dependent) if int(parameter) in column]
    K = np.zeros((independent.size, dependent.size))
    if regrouped:
        columns_kept = [column[int(p)] for p in independent]
        columns_dep = [column[int(dependent[k])] for k in regrouped]
        q_kept, r_kept = qr(R[:, columns_kept], mode="economic")
        X = solve_triangular(r_kept, q_kept.T @ R[:, columns_dep])
        X *= size[dependent[regrouped]] / size[independent][:, None]
        K[:, regrouped] = _clean(X)
    rejected = max(residuals[~kept].max(initial=0.0), np.finfo(float).eps)
    gap = float(residuals[kept].min(initial=1.0) / rejected)
    return BaseParameters(
        layout, independent, dependent, K, gap, residuals[kept][np.argsort(present[kept])]
    )


def _random_regressor(robot: Robot, rows: Rows, samples: int | None = None) -> Array:
    n = robot.n_joints
    chosen = {"all": slice(0, None), "base": slice(0, 6), "joints": slice(robot.nv - n, None)}
    if rows not in chosen:
        raise unknown_name("choice of rows", rows, chosen)
    if rows == "base" and not robot.floating_base:
        raise unknown_name(
            "choice of rows", rows, ("all",), "Load the robot with floating_base=True for a base."
        )
    rng = np.random.default_rng(0)
    per_sample = {"all": robot.nv, "base": 6, "joints": n}[rows]
    n_t = samples or 20 + 3 * robot.layout.size // max(per_sample, 1)
    q = rng.uniform(-np.pi, np.pi, (n_t, robot.nq))
    if robot.floating_base:
        q[:, 3:7] = rng.normal(size=(n_t, 4))
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    v, a = rng.normal(scale=2.0, size=(2, n_t, robot.nv))
    # A load as of any robot: the values of theta do not decide.
    theta = rng.normal(size=robot.layout.size) if robot.friction.model.depends_on_load else None
    Y = torque_regressor(robot, q, v, 2.0 * a, theta=theta)
    return Y[:, chosen[rows]].reshape(-1, robot.layout.size)


def _residuals(R: Array, tolerance: float) -> Array:
    """How much of each column is not explained by those before it that exceed the tolerance."""
    residuals = np.zeros(R.shape[1])
    Q = np.empty(R.shape)
    rank = 0
    for k in range(R.shape[1]):
        column = R[:, k].copy()
        for _ in range(2):  # once more against rounding
            column -= Q[:, :rank] @ (Q[:, :rank].T @ column)
        residuals[k] = np.linalg.norm(column)
        if residuals[k] > tolerance:
            Q[:, rank] = column / residuals[k]
            rank += 1
    return residuals


def _preference(robot: Robot) -> NDArray[np.int64]:
    """Places in theta, in the order of the module's docstring."""
    rotor, n_base = robot.layout.rotor, 10 * int(robot.floating_base)
    moment = (4, 6, 9)  # places in pi of the moments of inertia; products are at 5, 7, 8
    links = np.empty((robot.n_joints, 10), dtype=np.int64)
    for j, axis in enumerate(robot.tree.axis):
        own = int(np.argmax(np.abs(axis)))
        one, two = (own + 1) % 3, (own + 2) % 3
        kept = (moment[own], 5, 7, 8, moment[one], 1 + one, 1 + two)
        links[j] = n_base + 10 * j + np.array([*kept, moment[two], 1 + own, 0])
    parts = (
        np.arange(rotor.stop, robot.layout.size),
        np.arange(n_base),
        links[:, :7].T.ravel(),  # kind by kind
        np.arange(rotor.start, rotor.stop),
        links[:, 7:].T.ravel(),
    )
    return np.concatenate(parts)


def _clean(X: Array) -> Array:
    """Remove rounding from coefficients, which are products of lengths, sines and cosines."""
    cleaned = np.where(np.abs(X) < _COEFFICIENT_ROUNDING, 0.0, X)
    near = np.rint(cleaned)
    return np.where(np.abs(cleaned - near) < _COEFFICIENT_ROUNDING, near, cleaned)


def _signed(coefficient: float, name: str) -> str:
    sign = "+" if coefficient > 0 else "-"
    # Nine digits first, so that rounding errors do not decide between 0.00787 and 0.00788.
    size = f"{float(f'{abs(coefficient):.9g}'):.3g}"
    return f" {sign} {name}" if size == "1" else f" {sign} {size} {name}"
