"""Derivatives of equations and readings by the state, against finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pinocchio_truth import truth_of
from sensor_sets import all_sensors

from bodysense.compiled.views import Table
from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics
from bodysense.estimation._kernels.derivatives import Derivatives, linearise
from bodysense.estimation._kernels.problem import make_memory
from bodysense.estimation._kernels.solve import SampleArrays, SolverWorkspace
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.estimation.map_dynamics.solution import flat
from bodysense.sensors import JointTorque

NAMES = [
    "chain",
    "tree",
    "floating tree",
    "floating tree on a leaf",
    "floating tree on a fork",
    "floating tree held at a leaf",
    "icub on a hand",
]
BELIEFS = dict(
    wrench=GaussianPrior.zero(6, 5.0),
    joint_acceleration=GaussianPrior.zero(1, 10.0),
    base_acceleration=GaussianPrior.zero(6, 20.0),
)
SOFT = Assumptions(
    **BELIEFS,
    acceleration_slack=GaussianPrior.zero(6, 0.1),
    wrench_slack=GaussianPrior.zero(6, 0.2),
    torque_slack=GaussianPrior.zero(1, 0.1),
)


class Linear:
    """One sample of a tree with its derivatives by q, dq, ddq and the root's angular velocity."""

    def __init__(self, tree, assumptions, seed, share=1.0):
        rng = np.random.default_rng(seed)
        held = [] if tree.floating else [tree.names[0]]
        sensors = [
            sensor
            for sensor in all_sensors(tree, rng)
            if rng.uniform() < share and sensor.measurement(tree.robot).link not in held
        ]
        sensors = [
            replace(s, side="drive") if isinstance(s, JointTorque) else s for s in sensors
        ]  # friction and rotor
        root = None if tree.names[0] == "world" else tree.names[0]
        fixed = None if root is None else not tree.floating
        self.tree, self.sensors = tree, sensors
        self.problem = MapDynamics(tree.robot, sensors, assumptions, base=root, fixed=fixed)
        self.sample = truth_of(tree, rng).arguments()
        self.y = rng.normal(scale=2.0, size=self.problem.layout.size)
        self.n = tree.robot.n_joints
        self.columns = 3 * self.n + (3 if tree.floating else 0)
        self.rng = rng

    def moved(self, column, by):
        """The sample with one number of the state changed."""
        sample = {key: None if x is None else np.array(x) for key, x in self.sample.items()}
        if column < self.n:
            sample["q"][column] += by
        elif column < 2 * self.n:
            sample["dq"][column - self.n] += by
        elif column >= 3 * self.n:
            sample["base_twist"][3 + column - 3 * self.n] += by
        return sample

    def linearised(self, at):
        """Memory, out after `linearise` at the solution."""
        tree, rows = self.tree, self.problem.layout.arrays
        m, r = int(rows.first[-1]), 1 + self.columns
        most = rows.root.shape[1]
        w = make_memory(tree.n, m, rows.first.size - 1, most, r, m + 7 * tree.n + 20)
        dv, out = np.zeros((tree.n, self.columns, 6)), np.zeros((tree.n, 20, r))
        for k in range(3 * self.n, self.columns):
            dv[0, k, 3 + k - 3 * self.n] = 1.0
        sample = dict(self.sample)
        q, dq = sample.pop("q"), sample.pop("dq")
        prepared = self.problem.samples(q, dq, self.y, **sample)
        arrays = tree.arrays, tree.robot.tree, rows, self.problem.assumptions.arrays(tree)
        linearise(
            [Table(part) for part in arrays],
            SolverWorkspace(w, self.problem.drive, covariances=False),
            SampleArrays(*prepared[:6]),
            Table(Derivatives(at, dv)),
            2 * self.n,
            out,
        )
        return w, out

    def solution(self):
        """(n, 20) at which to differentiate."""
        at = self.rng.normal(scale=3.0, size=(self.tree.n, 20))
        at[0, 6:13], at[0, 19] = 0.0, 0.0
        if not self.tree.floating:
            at[0] = 0.0
            at[0, :3] = -np.asarray(
                self.tree.robot.tree.gravity
                if self.sample["gravity"] is None
                else self.sample["gravity"]
            )
        return at


def difference(of, step=1e-6):
    return (of(step) - of(-step)) / (2.0 * step)


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_derivatives_of_equations_and_readings(tree_named, name):
    linear = Linear(tree_named(name), Assumptions(**BELIEFS), seed=3, share=0.5)
    tree, at = linear.tree, linear.solution()
    w, _ = linear.linearised(at)
    d = flat(tree, at[None])[0]
    order = linear.problem.layout.order
    columns = [*range(2 * linear.n), *range(3 * linear.n, linear.columns)]
    for column in columns[:: 1 if linear.n < 20 else 5]:

        def left_over(by, column=column):
            equations = Equations.at(tree, linear.sensors, **linear.moved(column, by))
            return np.concatenate(
                [equations.D @ d + equations.b_D, equations.Y @ d + equations.b_Y]
            )

        slope = difference(left_over)
        equations = Equations.at(tree, linear.sensors, **linear.sample)
        rows = equations.rows
        for i in tree.with_unknowns:
            link = tree.names[i]
            balance = slope[rows[f"wrench.{link}"]]
            scale = 1e-7 * (1.0 + np.abs(slope).max())
            np.testing.assert_allclose(w.balance[i, :, 1 + column], balance, atol=scale)
            if i > 0:
                acceleration = slope[rows[f"acceleration.{link}"]]
                offset = w.offset[i, :, 1 + column]
                np.testing.assert_allclose(offset[:6], acceleration, atol=scale)
                assert offset[6] == 0.0
        readings = -slope[rows.size :][order]
        np.testing.assert_allclose(w.Y[:, 1 + column], readings, atol=scale)


@pytest.mark.parametrize("name", ["chain", "floating tree on a leaf"])
def test_columns_of_joint_accelerations_move_the_joints_alone(tree_named, name):
    linear = Linear(tree_named(name), Assumptions(**BELIEFS), seed=4, share=0.3)
    tree, n = linear.tree, linear.n
    w, _ = linear.linearised(linear.solution())
    for i in range(1, tree.n):
        block = w.offset[i, :, 1 + 2 * n : 1 + 3 * n]
        expected = np.zeros((7, n))
        expected[:, tree.joint[i]] = np.append(tree.arrays.S[i], 1.0)
        np.testing.assert_allclose(block, expected)
        assert not w.balance[i, :, 1 + 2 * n : 1 + 3 * n].any()
    assert not w.Y[:, 1 + 2 * n : 1 + 3 * n].any()


@pytest.mark.parametrize("assumptions", [SOFT, Assumptions(**BELIEFS)], ids=["soft", "sharp"])
@pytest.mark.parametrize("name", ["chain", "floating tree", "floating tree held at a leaf"])
def test_residual_rows_give_the_gradient(tree_named, name, assumptions):
    linear = Linear(tree_named(name), assumptions, seed=6, share=0.4)
    problem = linear.problem

    def solved(sample):
        sample = dict(sample)
        prepared = problem.samples(sample.pop("q"), sample.pop("dq"), linear.y, **sample)
        return problem.solve(prepared, "means")

    found = solved(linear.sample)
    w, out = linear.linearised(found.d[0])
    rows = w.left[: w.kept[0]]
    np.testing.assert_allclose(out[:, :, 0], found.d[0], atol=1e-9 * (1 + np.abs(found.d).max()))
    assert np.isclose((rows[:, 0] ** 2).sum(), found.score[0, 1], rtol=1e-9)
    gradient = 2.0 * rows[:, 0] @ rows[:, 1:]
    for column in (0, linear.n // 2, linear.n, 2 * linear.n - 1):

        def cost(by, column=column):
            return solved(linear.moved(column, by)).score[0, 1]

        scale = 1e-5 * (1.0 + np.abs(gradient).max())
        assert abs(difference(cost) - gradient[column]) < scale
