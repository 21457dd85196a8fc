"""Poses to stand in that show gravity parameters and offsets best.

Standing still, a robot shows first moments, some masses and constant offsets of torque, without
friction and without derivatives of noisy positions:

    tau = Y(q, 0, 0) theta.

Poses are chosen by exchange from many random ones that are free and can be held (Fedorov's
algorithm for the determinant: the pose that adds most is put in for the one that gives least),
then moved to their best by a quasi-Newton search, then put in an order with short ways between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from bodysense.errors import TrajectoryError
from bodysense.excitation.criterion import Criterion, Measure, criterion_of, measure_rows
from bodysense.excitation.design_space import DesignSpace
from bodysense.excitation.information import (
    BaseRegressor,
    condition_number,
    information,
    moving_base_parameters,
    plausible_sizes,
    standard_deviations,
    torque_noise,
)
from bodysense.excitation.limits import MotionLimits
from bodysense.excitation.trajectory_file import design_arrays, save_design, stored_base
from bodysense.files import load_result
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.robot import Robot, require_robot
from bodysense.robot.shapes.collisions import Collisions
from bodysense.robot.shapes.workspace import Workspace, WorkspaceMargins
from bodysense.spatial.arrays import Array

_CANDIDATES = 2000  # random poses to choose from
_ORDER = 20.0  # of the smooth criterion
_FIGURES = ("value", "condition", "start_value", "travel")
_WORDS = ("robot_name", "joints", "criterion", "notes")


@dataclass(frozen=True, eq=False, repr=False)
class PoseDesign:
    """Poses to stand in, in the order to visit them.

    Attributes:
        robot_name: whose poses they are.
        joints: names of the joints that move between poses; all others hold.
        poses: (n_poses, n_joints).
        criterion: name of what was minimised.
        value: its value.
        condition: cond(W), rows divided by the torque's noise.
        start_value: the criterion of as many random poses.
        base: what standing still can show: base parameters of gravity, and offsets.
        sigma: (b,) predicted standard deviations, one independent row per joint and pose.
        sizes: (b,) plausible sizes, to hold sigma against.
        noise: (n_joints,) standard deviations of the torque that were assumed [N·m or N].
        travel: greatest joint motion from pose to pose, summed over the way [rad or m].
        notes: what was decided, in words.
    """

    robot_name: str
    joints: tuple[str, ...]
    poses: Array
    criterion: str
    value: float
    condition: float
    start_value: float
    base: BaseParameters
    sigma: Array
    sizes: Array
    noise: Array
    travel: float
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<PoseDesign: {self.summary()}>"

    def summary(self) -> str:
        """The poses in a line."""
        return (
            f"{self.robot_name}: {self.poses.shape[0]} poses of {len(self.joints)} joints, "
            f"condition number {self.condition:.4g}, {self.criterion} {self.value:.4g} (random "
            f"poses {self.start_value:.4g}), {self.base.size} base parameters, "
            f"{self.travel:.3g} rad of travel"
        )

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``poses.npz`` and ``poses.json`` into a folder."""
        save_design(self, folder, "poses", _FIGURES, _WORDS)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> PoseDesign:
        """Read what `save` wrote, or raise `FileReadError`."""
        return load_result(
            cls,
            folder,
            "poses",
            arrays=[*_FIGURES, *design_arrays(Path(folder) / "poses.json")],
            shapes=lambda stored: {"sigma": stored["independent"].shape},
            base=stored_base,
        )


def design_poses(
    robot: Robot,
    n_poses: int,
    *,
    criterion: str | Criterion = "d-optimal",
    limits: MotionLimits | None = None,
    collisions: Collisions | None = None,
    workspace: Workspace | WorkspaceMargins | None = None,
    joints: Sequence[str] | None = None,
    noise: ArrayLike | None = None,
    rng: np.random.Generator | None = None,
) -> PoseDesign:
    """Find poses that show gravity parameters and offsets best.

    Poses keep the limits of position, can be held within the limits of torque, and are free of
    collisions; the ways between them are not planned.

    Args:
        robot: with a fixed base. Offsets count if its friction law has them (``offset``).
        n_poses: how many; at least base parameters over joints, or they cannot all show.
        criterion: ``d-optimal``, ``condition``, ``precision``, or one with settings of its own.
        limits: the robot's own if None.
        collisions: pairs of bodies to keep apart; not checked if None.
        workspace: room to stay inside; not checked if None.
        joints: names of those that move. If None all but the lightest.
        noise: standard deviation of the torque averaged over a pose, one number or one per joint;
            by default 1 % of the effort limit.
        rng: source of the random poses.
    """
    require_robot(robot)
    space = DesignSpace.from_robot(
        robot, joints=joints, limits=limits, collisions=collisions, workspace=workspace
    )
    limits, moving = space.limits, space.moving
    base = moving_base_parameters(robot, moving, limits.middle, still=True)
    least = -(-base.size // moving.size)
    if n_poses < least:
        raise TrajectoryError(
            f"{n_poses} poses of {moving.size} joints cannot show {base.size} parameters: ask for "
            f"at least {least}."
        )
    rng = np.random.default_rng() if rng is None else rng
    candidates = space.holdable_poses(_CANDIDATES, rng)
    if candidates.shape[0] < n_poses:
        raise TrajectoryError(
            f"only {candidates.shape[0]} of {_CANDIDATES} random poses are free, fewer than the "
            f"{n_poses} asked for: ask for fewer, or widen limits and workspace."
        )
    sizes = plausible_sizes(robot, limits, base)
    aim = criterion_of(criterion)
    deviations = torque_noise(robot, limits.effort, noise)
    problem = _PoseProblem(
        space,
        BaseRegressor(robot, moving, base),
        1.0 / deviations[moving],
        aim.measure(base, sizes),
    )
    chosen = _exchanged(problem.rows(candidates), n_poses, problem.measure)
    poses = _polished(problem, candidates[chosen])
    poses = poses[_short_way(poses[:, moving])]
    M = information(problem.rows(poses))
    return PoseDesign(
        robot_name=robot.name,
        joints=space.joints,
        poses=poses,
        criterion=aim.name,
        value=problem.value(poses),
        condition=condition_number(M),
        start_value=problem.value(candidates[:n_poses]),
        base=base,
        sigma=standard_deviations(M),
        sizes=sizes,
        noise=deviations,
        travel=float(np.abs(np.diff(poses, axis=0)).max(axis=1).sum()),
        notes=space.notes,
    )


@dataclass(frozen=True, eq=False)
class _PoseProblem:
    """The criterion of a set of poses q (n, n_joints), and its gradient."""

    space: DesignSpace
    regressor: BaseRegressor
    scale: Array  # (m,) of the rows: one over their noise
    measure: Measure

    def rows(self, q: Array) -> Array:
        """(n, m, b) of the base regressor at standstill."""
        still = np.zeros_like(q)
        return self.regressor.rows(q, still, still, self.scale)

    def value(self, q: Array) -> float:
        return self.measure(information(self.rows(q)), 1.0)[0]

    def smooth(self, q: Array) -> tuple[float, Array]:
        """The smooth criterion, and its gradient (n, n_joints)."""
        still = np.zeros_like(q)
        _, smooth, Z = measure_rows(self.measure, self.rows(q), _ORDER)
        return smooth, self.regressor.pull(q, still, still, self.scale, Z)[0]


def _exchanged(W: Array, n_poses: int, measure: Measure) -> NDArray[np.intp]:
    """Choose n_poses of the candidates W (n, m, b) by exchange, to first order by G."""
    chosen = list(range(n_poses))
    products = np.einsum("nmi,nmj->nij", W, W)
    M = products[chosen].sum(axis=0)
    # A little of all candidates keeps a start of too few poses from being singular.
    spread = 1e-6 * products.mean(axis=0)
    value = measure(M + spread, _ORDER)[1]
    for _ in range(20 * n_poses):
        G = measure(M + spread, _ORDER)[2]
        gains = np.einsum("nij,ij->n", products, G)  # change of f when a pose is put in
        best = None
        for new in np.argsort(gains)[:5]:
            for k in np.argsort([-gains[old] for old in chosen])[:5]:
                trial = M + products[new] - products[chosen[k]]
                changed = measure(trial + spread, _ORDER)[1]
                if changed < value - 1e-9 * abs(value) and (best is None or changed < best[0]):
                    best = (changed, int(k), int(new), trial)
        if best is None:
            break
        value, k, new, M = best
        chosen[k] = new
    return np.array(chosen, dtype=np.intp)


def _polished(problem: _PoseProblem, poses: Array) -> Array:
    """Move the poses to the nearest minimum; those that are not free there stay as they were."""
    limits, moving = problem.space.limits, problem.space.moving
    lower, upper = (np.tile(x[moving], len(poses)) for x in (limits.lower, limits.upper))

    def at(x: Array) -> Array:
        q = poses.copy()
        q[:, moving] = x.reshape(len(poses), -1)
        return q

    def f(x: Array) -> tuple[float, Array]:
        value, gradient = problem.smooth(at(x))
        return value, gradient[:, moving].ravel()

    start = poses[:, moving].ravel()
    bounds = list(zip(lower, upper, strict=True))
    result = minimize(f, start, jac=True, method="L-BFGS-B", bounds=bounds)
    moved = at(np.clip(result.x, lower, upper))
    mixed = np.where(problem.space.free(moved)[:, np.newaxis], moved, poses)
    # Where some had to stay, the mixture need not be better than what it came from.
    return np.asarray(mixed if problem.value(mixed) <= problem.value(poses) else poses)


def _short_way(q: Array) -> NDArray[np.intp]:
    """An order of poses q (n, m) with a short way: nearest neighbour, then turning pieces round.

    The way from pose to pose takes as long as its joint that moves farthest.
    """
    n = q.shape[0]
    away = np.zeros((n + 1, n + 1))  # the last row and column: nowhere, before and after the way
    away[:n, :n] = np.abs(q[:, np.newaxis] - q[np.newaxis]).max(axis=2)
    order, left = [0], set(range(1, n))
    while left:
        nearest = min(left, key=lambda k: (away[order[-1], k], k))
        order.append(nearest)
        left.remove(nearest)
    way = [n, *order, n]
    improved = n > 2
    while improved:  # 2-opt on an open way
        improved = False
        for i in range(1, n):
            for j in range(i + 1, n + 1):
                before = away[way[i - 1], way[i]] + away[way[j], way[j + 1]]
                after = away[way[i - 1], way[j]] + away[way[i], way[j + 1]]
                if after < before - 1e-12:
                    way[i : j + 1] = way[i : j + 1][::-1]
                    improved = True
    return np.array(way[1:-1], dtype=np.intp)
