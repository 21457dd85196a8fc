"""The shape of the Stribeck curve, joint by joint, by separable least squares.

Torques are linear in theta_base but for the shape s of the friction law: where the curve has come
down (vs), how steeply (delta), and over which speeds friction reverses (width). With the best
theta_base for each shape put in,

    minimise over s     min over theta_base  ‖W (Y(s) theta_base - y)‖²,

only the shape is left to search for (variable projection, Golub and Pereyra 1973). Its residual
r(s) has, where the linear part has converged, the derivative

    ∂r/∂s = P⊥ W (∂Y/∂s) theta_base,            (Kaufman 1975)

with the projector P⊥ onto what the columns of W Y do not reach. In the rows of joint j only its own
columns Fc and Fs depend on s, so that all others are reduced to a triangle once, and each
evaluation works on a few columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr, solve_triangular
from scipy.optimize import least_squares

from bodysense.errors import MismatchError, unknown_name
from bodysense.identification.linear.method import fit_noise_weights
from bodysense.identification.preprocessing import Plan
from bodysense.identification.prior import Prior
from bodysense.identification.reduced import triangle
from bodysense.identification.regression import Regression
from bodysense.identification.solution import rounding_levels
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array, read_only

SHAPES = ("width", "vs", "delta")
"""Shape parameters that can be fitted. On recordings of a UR10e and a TX40 vs alone brought all of
the gain on unseen blocks (13 % and 7 % of the squared error): the others are fitted on demand."""

_LOG_STD = {"width": 0.7, "vs": 1.0, "delta": 0.5}
"""Prior standard deviation of the logarithm of a shape. It decides only where the data do not: with
Fs = Fc there is no curve to have a shape."""

_BOUNDS = {"width": (1e-3, 0.3), "vs": (3e-3, 3.0), "delta": (0.4, 5.0)}
"""Of the shapes [rad/s, rad/s, 1]."""

_TERMS = ("Fc", "Fs")  # coefficients whose columns depend on the shape
_STEP = 1e-5  # of finite differences, in logarithms
_ROUNDS = 10  # of new weights; data without noise need several, until the prior is gone
_LEVEL_TOLERANCE = 0.02  # relative change of the noise levels at which the weights have converged
_MOST_ROWS = 20_000  # of a joint; more are subsampled


@dataclass(frozen=True, eq=False)
class StribeckFit:
    """Fitted shapes.

    Attributes:
        prior: the robot, with the shapes that the search started from.
        fitted: names of the shape parameters that were fitted.
        shape: (n, number of shape parameters) of the law, fitted or not.
        evaluations: how often the linear problem was solved.
        error: squared error per row, in units of the noise variance at the start, before and after.
    """

    prior: Robot
    fitted: tuple[str, ...]
    shape: Array
    evaluations: int
    error: tuple[float, float]

    @property
    def shapes(self) -> dict[str, tuple[float, ...]]:
        """All shape parameters by name, one value per joint."""
        names = self.prior.friction.model.shape
        return {name: tuple(map(float, self.shape[:, k])) for k, name in enumerate(names)}

    @cached_property
    def robot(self) -> Robot:
        """The robot with these shapes; its coefficients are those of the prior."""
        shapes: dict[str, ArrayLike] = dict(self.shapes)
        return self.prior.with_friction(self.prior.friction.model, coefficients=None, **shapes)


def require_stribeck(robot: Robot) -> None:
    """Raise `MismatchError` unless the robot's friction law has a Stribeck curve."""
    model = robot.friction.model
    if model.custom is not None or "vs" not in model.shape:
        raise MismatchError(
            f"friction law {model.name!r} has no Stribeck curve to fit: take 'stribeck', "
            "'stribeck-offset' or 'lugre'."
        )


def fit_stribeck(problem: Regression, shapes: Sequence[str] = ("vs",)) -> StribeckFit:
    """Fit the shapes of the Stribeck curves of all joints, those of `SHAPES` that are named.

    The search is a local one, which starts from the robot's own shapes. Joints that do not move
    keep theirs. Where a coupled motor has Coulomb friction, widths are kept: they are that motor's
    as well.

    Raises:
        MismatchError: the robot's friction law has no Stribeck curve.
        UnknownNameError: not a shape parameter of the Stribeck curve.
    """
    robot = problem.robot
    require_stribeck(robot)
    fitted = _fitted_shapes(robot, shapes)
    prior = Prior.of(problem)
    sigma = fit_noise_weights(problem, prior).sigma
    shape = robot.friction.shape.copy()
    evaluations, errors = 0, []
    for _ in range(_ROUNDS):
        search = _Search(problem, prior, sigma, shape, fitted)
        if not search.joints:
            break
        result = least_squares(
            search.residual,
            search.start,
            search.jacobian,
            bounds=search.bounds,
            method="trf",
            x_scale=1.0,
            max_nfev=40,
            xtol=1e-7,
            ftol=1e-8,
            gtol=1e-10,
        )
        evaluations += int(result.nfev)
        errors += [search.error(search.start), search.error(result.x)]
        shape = search.shape(result.x)
        new = search.levels(result.x)
        converged = float(np.abs(new / sigma - 1.0).max()) < _LEVEL_TOLERANCE
        sigma = new
        if converged:
            break
    return StribeckFit(
        robot,
        fitted,
        read_only(shape),
        evaluations,
        (errors[0], errors[1]) if errors else (float("nan"), float("nan")),
    )


def _fitted_shapes(robot: Robot, shapes: Sequence[str]) -> tuple[str, ...]:
    """Names of the shape parameters of the robot's law that are to be fitted, and can be."""
    for name in shapes:
        if name not in SHAPES:
            raise unknown_name("shape parameter of the Stribeck curve", name, SHAPES)
    coupled = any(prefix == "Fcm" for prefix, _ in robot.layout.coupled)
    sharp = not (robot.friction.shape[:, 0] > 0.0).all()  # sign(v): there is no width to fit
    kept = {"width"} if coupled or sharp else set()
    return tuple(name for name in robot.friction.model.shape if name in set(shapes) - kept)


@dataclass(eq=False)
class _JointRows:
    """The rows of one joint, with all columns that do not depend on the shape reduced.

    Attributes:
        joint: which one.
        columns: places in theta_base of the constant columns.
        moving: places of the columns that depend on the shape.
        Q: (m, c) orthonormal basis of the constant columns.
        R: (c, c) their triangle.
        y: (c,) Qᵀ y.
        rest: (m,) y less its part in Q.
        weight: (m,) by which rows are multiplied.
        log: (m,) log of each row.
        taken: rows of all pieces, one after the other, that count.
    """

    joint: int
    columns: NDArray[np.int64]
    moving: NDArray[np.int64]
    Q: Array
    R: Array
    y: Array
    rest: Array
    weight: Array
    log: NDArray[np.int64]
    taken: NDArray[np.int64]


class _Search:
    """Residual and its derivative as functions of the logarithms of the shapes."""

    def __init__(
        self,
        problem: Regression,
        prior: Prior,
        sigma: Array,
        shape: Array,
        fitted: tuple[str, ...],
    ) -> None:
        self.problem, self.fitted, self.first = problem, fitted, shape
        model = problem.robot.friction.model
        self.places = [model.shape.index(name) for name in fitted]
        self.terms = [model.terms.index(term) for term in _TERMS]
        self.joints = _joint_rows(problem, sigma)
        plans = [(Plan.of(motion, problem.settings), motion.v) for motion in problem.motions]
        self.velocities = [(plan, v[:: plan.stride]) for plan, v in plans]
        self.sigma = sigma
        b = problem.size
        # The prior holds what the data do not show, and next to nothing else.
        self.held = solve_triangular(prior.base_factor, np.eye(b), lower=True)
        self.held_y = self.held @ prior.theta_base
        moved = [rows.joint for rows in self.joints]
        low, high = (np.log([_BOUNDS[name][k] for name in fitted]) for k in (0, 1))
        self.start = np.log(np.clip(shape[moved][:, self.places], np.exp(low), np.exp(high)))
        self.start = self.start.ravel()
        own = problem.robot.friction.shape[moved][:, self.places]
        self.centre = np.log(np.clip(own, np.exp(low), np.exp(high))).ravel()
        self.spread = np.tile([_LOG_STD[name] for name in fitted], len(moved))
        self.bounds = np.tile(low - 1e-9, len(moved)), np.tile(high + 1e-9, len(moved))

    def shape(self, x: Array) -> Array:
        """(n, …) shape parameters of all joints."""
        shape = self.first.copy()
        for rows, values in zip(self.joints, x.reshape(len(self.joints), -1), strict=True):
            shape[rows.joint, self.places] = np.exp(values)
        return shape

    def residual(self, x: Array) -> Array:
        """Of the reduced problem, and of the shapes' own prior."""
        _, _, r, _ = self._solved(x)
        return np.concatenate([r, (x - self.centre) / self.spread])

    def jacobian(self, x: Array) -> Array:
        """Its derivative."""
        k = len(self.fitted)
        Q, theta, r, parts = self._solved(x, self._slopes(x))
        J, at = np.zeros((r.size, x.size)), self.problem.size
        for number, (rows, G) in enumerate(zip(self.joints, parts, strict=True)):
            by_shape = G.reshape(len(G), k, len(_TERMS)) @ theta[rows.moving]
            J[at : at + len(G), number * k : number * k + k] = -by_shape
            at += len(G)
        J -= Q @ (Q.T @ J)
        return np.concatenate([J, np.diag(1.0 / self.spread)])

    def error(self, x: Array) -> float:
        """Squared error a row, in units of the noise's variance."""
        _, _, r, _ = self._solved(x)
        data = r[self.problem.size :]
        return float(data @ data) / max(sum(rows.rest.size for rows in self.joints), 1)

    def levels(self, x: Array) -> Array:
        """(n_logs, n) standard deviations of the residuals at the solution."""
        _, theta, _, _ = self._solved(x)
        sigma, floor = self.sigma.copy(), rounding_levels(self.problem)
        for rows, phi in zip(self.joints, self._bases(x), strict=True):
            fit = rows.Q @ (rows.y - rows.R @ theta[rows.columns])
            e = fit + rows.rest - phi @ theta[rows.moving]
            for log in np.unique(rows.log):
                mine = rows.log == log
                level = float(np.sqrt(np.mean((e[mine] / rows.weight[mine]) ** 2)))
                sigma[log, rows.joint] = max(level, float(floor[rows.joint]))
        return sigma

    def _bases(self, x: Array) -> list[Array]:
        """For each joint (m, 2) its weighted columns Fc and Fs, for shapes x.

        Shapes may also be (number of joints, c, k): then (m, 2c) for c shapes of each joint.
        """
        shapes = x.reshape(len(self.joints), -1, len(self.fitted))
        model, c = self.problem.robot.friction.model, shapes.shape[1]
        whole = []
        for plan, v in self.velocities:  # filtered together: the filter is most of the work
            made = []
            for rows, several in zip(self.joints, shapes, strict=True):
                for values in several:
                    shape = self.first[rows.joint].copy()
                    shape[self.places] = np.exp(values)
                    made.append(model.basis(v[:, rows.joint], shape)[0][:, self.terms])
            whole.append(plan.filtered(np.concatenate(made, axis=1)))
        phi = np.concatenate(whole).reshape(-1, len(self.joints), c * len(self.terms))
        return [
            phi[rows.taken, number] * rows.weight[:, None]
            for number, rows in enumerate(self.joints)
        ]

    def _slopes(self, x: Array) -> list[Array]:
        """For each joint (m, 2k) derivatives of Fc and Fs by each shape's logarithm in turn."""
        k = len(self.fitted)
        steps = _STEP * np.eye(k)
        around = x.reshape(-1, 1, k) + np.concatenate([steps, -steps])
        return [(phi[:, : 2 * k] - phi[:, 2 * k :]) / (2.0 * _STEP) for phi in self._bases(around)]

    def _solved(
        self, x: Array, slopes: list[Array] | None = None
    ) -> tuple[Array, Array, Array, list[Array]]:
        """Basis Q of the columns, theta_base and residual; and slopes as the residual sees them.

        The residual's basis is that of the columns and of y, whether slopes are asked for or not:
        they come behind in each triangle, and y has nothing there.
        """
        b, room = self.problem.size, 3 + 2 * len(self.fitted)
        tall, target, parts = [self.held], [self.held_y], []
        for number, (rows, extra) in enumerate(zip(self.joints, self._bases(x), strict=True)):
            behind = slopes[number] if slopes is not None else np.zeros((len(extra), 0))
            inside, seen = rows.Q.T @ extra, rows.Q.T @ behind
            reduced = triangle(
                np.column_stack([extra - rows.Q @ inside, rows.rest, behind - rows.Q @ seen])
            )
            outside = np.zeros((room, reduced.shape[1]))
            outside[: len(reduced)] = reduced
            c = rows.columns.size
            A = np.zeros((c + room, b))
            A[:c, rows.columns] = rows.R
            A[:c, rows.moving], A[c:, rows.moving] = inside, outside[:, :2]
            tall.append(A)
            target.append(np.concatenate([rows.y, outside[:, 2]]))
            parts.append(np.concatenate([seen, outside[:, 3:]]))
        A, z = np.concatenate(tall), np.concatenate(target)
        scale = np.linalg.norm(A, axis=0)
        Q, R = qr(A / scale, mode="economic")
        theta: Array = solve_triangular(R, Q.T @ z) / scale
        return Q, theta, z - A @ theta, parts


def _joint_rows(problem: Regression, sigma: Array) -> list[_JointRows]:
    """Reduced rows of the joints that move."""
    layout = problem.robot.layout
    place = {int(k): at for at, k in enumerate(problem.base.independent)}
    moves = np.any([motion.v.any(axis=0) for motion in problem.motions], axis=0)
    Y, y, use, log, index = _thinned(problem, -(-problem.n_samples // _MOST_ROWS))
    made = []
    for j, columns in enumerate(problem.columns):
        moving = np.array([place[layout.friction(term).start + j] for term in _TERMS])
        constant = np.setdiff1d(columns, moving)
        mine = use[:, j] > 0.0
        if mine.sum() <= constant.size + 10 or not moves[j]:
            continue
        weight = 1.0 / sigma[log[mine], j]
        Q, R = qr(Y[mine, j][:, constant] * weight[:, None], mode="economic")
        target = y[mine, j] * weight
        inside = Q.T @ target
        rest = target - Q @ inside
        made.append(
            _JointRows(j, constant, moving, Q, R, inside, rest, weight, log[mine], index[mine])
        )
    return made


def _thinned(
    problem: Regression, every: int
) -> tuple[Array, Array, Array, NDArray[np.int64], NDArray[np.int64]]:
    """Y, y, use, log and number of every so many-th row, over all pieces one after the other."""
    parts, first = [], 0
    for block in problem.blocks():
        number = first + np.arange(block.t.size)
        first += block.t.size
        kept = number % every == 0
        log = np.full(int(kept.sum()), block.log)
        parts.append((block.Y[kept], block.y[kept], block.use[kept], log, number[kept]))
    Y, y, use, logs, index = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Y, y, use, logs, index
