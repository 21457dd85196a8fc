"""`MapDynamics`: maximum-a-posteriori dynamics of a robot with the sensors it has.

Accelerations, transmitted and external wrenches, torques and joint accelerations d of every link
from readings y, given positions and velocities (paper 000, problem 5):

    p(d | y) ∝ N(y; Y d + b_Y, Sigma_y) · N(D d + b_D; 0, Sigma_D) · p(independent unknowns)

solved by elimination along the tree (see `_kernels.elimination`), many samples at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from threading import get_ident
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.compiled.jit import Kernel, in_threads
from bodysense.compiled.lanes import LANES
from bodysense.compiled.views import Table
from bodysense.errors import ShapeError, unknown_name
from bodysense.estimation._kernels.problem import Memory, make_memory
from bodysense.estimation._kernels.solve import (
    ONE,
    Found,
    GroupArrays,
    SampleArrays,
    SolverWorkspace,
    solve,
    solve_side_by_side,
    solve_singles,
)
from bodysense.estimation.map_dynamics.base_motion import require_root_twist
from bodysense.estimation.map_dynamics.body_tree import WORLD, BodyTree
from bodysense.estimation.map_dynamics.dense_roots import DenseRoots
from bodysense.estimation.map_dynamics.equations import (
    Equations,
    friction_coefficients,
    tree_variables,
)
from bodysense.estimation.map_dynamics.priors import Assumptions
from bodysense.estimation.map_dynamics.reading_layout import ReadingLayout
from bodysense.estimation.map_dynamics.solution import (
    Samples,
    grouped,
    log_density,
    posterior_of,
    room,
)
from bodysense.estimation.posterior import Posterior
from bodysense.robot import Robot
from bodysense.robot.robot import require_robot
from bodysense.sensors.sensor import Sensor
from bodysense.spatial.arrays import Array, as_array

Detail = Literal["means", "variances", "blocks", "slacks"]
"""How much to compute: each includes those before."""

_CALLS = 8  # of single samples whose addresses are kept: a loop calls with the same again and again

DETAILS: tuple[Detail, ...] = ("means", "variances", "blocks", "slacks")


class MapDynamics:
    """The estimator of one robot with its sensors and assumptions.

    Attributes:
        robot: the robot.
        tree: its bodies from the root on.
        sensors: in the order of the readings.
        assumptions: priors and slacks.
        layout: rows of the readings.
        variables: names ↔ slices of what is estimated.
    """

    def __init__(
        self,
        robot: Robot,
        sensors: Sequence[Sensor] | None = None,
        assumptions: Assumptions | None = None,
        *,
        base: str | None = None,
        fixed: bool | None = None,
    ) -> None:
        """Lay the problem out.

        Args:
            robot: the robot.
            sensors: what is measured; by default the sensors mounted on the robot.
            assumptions: by default no external wrenches and exact equations.
            base: link at the root of the tree; by default the robot's base.
            fixed: whether the root is held still; by default as the robot's base is.
        """
        require_robot(robot)
        self.robot = robot
        self.tree = BodyTree.of(robot, base=base, fixed=fixed)
        self.sensors = tuple(robot.sensors if sensors is None else sensors)
        self.assumptions = (Assumptions() if assumptions is None else assumptions).on(robot)
        self.layout = ReadingLayout.of(self.tree, self.sensors, self.assumptions)
        self.variables = tree_variables(self.tree)
        self._priors = self.assumptions.arrays(self.tree)
        self._work: dict[int, SolverWorkspace] = {}  # of each thread, for single samples
        self._calls: dict[tuple[int, int, int], tuple[tuple[int, ...], object]] = {}

    def __repr__(self) -> str:
        root = f"{'floating' if self.tree.floating else 'held'} at {self.tree.names[0]}"
        return (
            f"<MapDynamics: {self.robot.name}, {root}, {len(self.sensors)} sensors with "
            f"{self.layout.size} readings, {self.variables.size} estimated quantities>"
        )

    @property
    def open_links(self) -> tuple[str, ...]:
        """Links whose external wrench is not assumed to be known."""
        links = [self.tree.names[i] for i in self.tree.with_unknowns]
        return tuple(x for x in links if self.assumptions.wrench_of(x).covariance.any())

    def with_sensors(self, sensors: Sequence[Sensor]) -> MapDynamics:
        """The same problem with other sensors."""
        return self.changed(sensors, self.assumptions)

    def with_assumptions(self, assumptions: Assumptions) -> MapDynamics:
        """The same problem with other priors."""
        return self.changed(self.sensors, assumptions)

    @cached_property
    def blind(self) -> MapDynamics:
        """The same problem without any sensor: the prior alone."""
        return self.with_sensors(())

    def changed(self, sensors: Sequence[Sensor], assumptions: Assumptions) -> MapDynamics:
        """The same robot on the same root with other sensors and priors."""
        root = self.tree.names[0]
        if root == WORLD:
            return MapDynamics(self.robot, sensors, assumptions)
        return MapDynamics(
            self.robot, sensors, assumptions, base=root, fixed=not self.tree.floating
        )

    def estimate(
        self,
        q: ArrayLike,
        dq: ArrayLike,
        readings: ArrayLike,
        *,
        base_twist: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
        noise_scale: Mapping[str, ArrayLike] | None = None,
        detail: Detail = "variances",
        likelihood: bool = False,
    ) -> Posterior:
        """Posterior at one sample, or at T samples in one call.

        Args:
            q: (n_joints,) or (T, n_joints) positions of the joints.
            dq: their velocities.
            readings: (m,) or (T, m) in the order of `layout.slices`; NaN where there is none.
            base_twist: (6,) or (T, 6) twist of a floating root in its own frame, linear velocity
                first, then angular; by default what gyroscopes read, see `root_twist`. Its linear
                part changes spatial accelerations alone, no proper acceleration or wrench.
            gravity: (3,) or (T, 3) in the frame of a root that is held; by default the robot's
                own for a robot bolted to the world.
            noise_scale: by sensor, one or (T,): how many times as large as its standard deviations
                the noise of its readings is, as where friction may have either sign.
            detail: how much to compute.
            likelihood: whether to compute the log-likelihood of the readings too.
        """
        samples = self.samples(
            q, dq, readings, base_twist=base_twist, gravity=gravity, noise_scale=noise_scale
        )
        result = self.solve(samples, detail)
        posterior = posterior_of(self.tree, self.layout, self.variables, result, samples.single)
        if not likelihood:
            return posterior
        values = self._log_likelihood(samples, result)
        return replace(posterior, log_likelihood=values[0] if samples.single else values)

    def _log_likelihood(self, samples: Samples, found: Found) -> Array:
        """(T,) log density of the sensors' readings; absent ones are left out of it.

        Less what priors and balance are without any sensor:

            log p(y | priors, balance) = log p(y, priors, balance) - log p(priors, balance)
        """
        density = log_density(self.layout, found, samples.weight)
        if not (self.tree.floating or self.assumptions.others):
            return density
        layout = self.blind.layout
        rows = layout.sorted_rows(np.zeros((samples.size, 0)))
        weight = np.ones((samples.size, layout.blocks))
        prior = self.blind.solve(samples._replace(y=rows, weight=weight), "means")
        return density - log_density(layout, prior, weight)

    def covariance_of(
        self,
        names: Sequence[str],
        q: ArrayLike,
        dq: ArrayLike,
        *,
        absent: Sequence[str] = (),
        base_twist: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
    ) -> Array:
        """Marginal covariance of any quantities together at one sample, across links.

        It does not depend on what the sensors read. It takes a dense factorisation: for a control
        loop `estimate` gives the covariance of each quantity alone. Rows are those of `names`, e.g.
        ``("fx.hand", "tau.elbow")``, in this order; sensors named `absent` give no reading; other
        arguments are as in `estimate`.
        """
        for name in absent:
            if name not in self.layout.slices:
                raise unknown_name("sensor", name, self.layout.slices)
        present = [sensor for sensor in self.sensors if sensor.name not in absent]
        equations = Equations.at(self.tree, present, q, dq, base_twist=base_twist, gravity=gravity)
        every = np.arange(self.variables.size)
        rows = np.concatenate([every[:0], *(every[self.variables[name]] for name in names)])
        return DenseRoots.of(equations, present, self.assumptions).covariance(rows)

    def samples(
        self,
        q: ArrayLike,
        dq: ArrayLike,
        readings: ArrayLike,
        *,
        base_twist: ArrayLike | None = None,
        gravity: ArrayLike | None = None,
        noise_scale: Mapping[str, ArrayLike] | None = None,
    ) -> Samples:
        """Check what `estimate` takes, and lay it out for the kernels."""
        n = self.robot.n_joints
        single = np.ndim(q) == 1
        q, dq = _rows(q, n, "q", single), _rows(dq, n, "dq", single)
        T = q.shape[0]
        y = np.array(readings, dtype=np.float64, ndmin=2)
        if y.shape != (T, self.layout.size) or dq.shape[0] != T:
            raise ShapeError(
                f"{T} positions, {dq.shape[0]} velocities and readings of shape {y.shape}: give as "
                f"many of each, and {self.layout.size} readings per sample."
            )
        self.take_load_friction(dq, y)
        if base_twist is None:
            floats = self.tree.floating
            twist = require_root_twist(self, q, dq, y) if floats else np.zeros((1, 6))
        else:
            twist = _rows(base_twist, 6, "base_twist", None)
        root = self.tree.root_acceleration(gravity)
        if self.tree.floating:
            root = np.array(self.assumptions.base_acceleration.mean)
        return Samples(
            q,
            dq,
            _repeated(twist, T, "base_twist"),
            _repeated(np.atleast_2d(root), T, "gravity"),
            self.layout.sorted_rows(y),
            self.layout.weights({} if noise_scale is None else noise_scale, T),
            single,
        )

    def solve(self, samples: Samples, detail: Detail = "variances") -> Found:
        """Solve in arrays: what `estimate` does before naming things."""
        if detail not in DETAILS:
            raise ShapeError(f"detail is {detail!r}: give one of {', '.join(DETAILS)}.")
        T = samples.size
        result = room(self.tree, self.layout, T, DETAILS.index(detail))
        if T == 1:
            self.solve_into(samples, result)
            return result
        together, single = grouped(samples.y, self.layout.arrays.first)
        alone = single[:, None]
        given = Table(SampleArrays(*samples[:6])), Table(result)

        def solver(kernel: Kernel, rows: NDArray[np.int64], lanes: int) -> Kernel:
            which = Table(GroupArrays(rows))

            def share(first: int, last: int) -> None:
                work = SolverWorkspace(self._new_memory(lanes), self.drive, lanes=lanes)
                solve(kernel, (first, last, which), self._problem, *given, work)

            return share

        side_by_side = solver(solve_side_by_side, together, LANES)
        in_threads(side_by_side, len(together), compiled=solve_side_by_side)
        in_threads(solver(solve_singles, alone, 0), len(alone), compiled=solve_singles)
        return result

    def solve_into(self, samples: Samples, found: Found) -> None:
        """Solve the first of the samples into what is there already, for a control loop."""
        call = get_ident(), id(samples), id(found)
        kept = self._calls.get(call)
        if kept is None:
            kept = self._calls[call] = self._call(samples, found)
        solve_singles(0, 1, *kept[0])

    def _call(self, samples: Samples, found: Found) -> tuple[tuple[int, ...], object]:
        """Addresses for the kernel, and what they are addresses of."""
        thread = get_ident()
        if thread not in self._work:
            self._work[thread] = SolverWorkspace(self._new_memory(), self.drive)
        if len(self._calls) >= _CALLS:
            self._calls.clear()
        given = Table(SampleArrays(*samples[:6])), Table(found)
        tables = ONE, *self._problem, *given, *self._work[thread].tables
        return tuple(table.address for table in tables), (samples, found, tables)

    @cached_property
    def _problem(self) -> tuple[Table, ...]:
        """What the kernels take of it, the same for all samples."""
        arrays = self.tree.arrays, self.robot.tree, self.layout.arrays, self._priors
        return tuple(Table(part) for part in arrays)

    @cached_property
    def drive(self) -> Array:
        """(n_joints, n_terms) friction coefficients, see `friction_coefficients`."""
        return friction_coefficients(self.robot)

    @cached_property
    def under_load(self) -> tuple[tuple[int, int], ...]:
        """Place and joint of readings that hold friction that grows with the load."""
        if not self.robot.friction.model.depends_on_load:
            return ()
        read = ((sensor, sensor.measurement(self.robot)) for sensor in self.sensors)
        return tuple(
            (self.layout.slices[sensor.name].start, self.robot.joint_names.index(reading.joint))
            for sensor, reading in read
            if reading.friction and reading.joint is not None
        )

    def take_load_friction(self, dq: Array, y: Array) -> None:
        """Take friction that grows with the load from readings y (T, m), in place.

        A drive reads T + g |T| + friction that no load changes, where T is the torque behind it and
        g = Fl s(dq): T follows from the reading, see `drive_load` of the kernels. Noise of the
        reading is noise of T to within the share g.
        """
        friction, layout = self.robot.friction, self.robot.layout
        for place, j in self.under_load:
            phi, _ = friction.model.basis(dq[:, j], friction.shape[j])
            g = self.robot.theta[layout.friction("Fl")][j] * phi[:, -1]
            net = y[:, place] - phi @ self.drive[j]
            y[:, place] -= g * np.abs(net / (1.0 + g * np.sign(net)))

    def _new_memory(self, lanes: int = 0) -> Memory:
        """Working memory of one thread."""
        rows = self.layout.arrays
        sizes = int(rows.first[-1]), rows.first.size - 1, rows.root.shape[1]
        return make_memory(self.tree.n, *sizes, 1, 1, keep=True, lanes=lanes)


def _rows(value: ArrayLike, width: int, name: str, single: bool | None) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 1 and single is not False:
        array = array[None]
    return as_array(array, (None, width), name)


def _repeated(rows: Array, T: int, name: str) -> Array:
    """(T, width) from as many rows, or from one."""
    if len(rows) not in (1, T):
        raise ShapeError(
            f"{name} has {len(rows)} rows for {T} samples: give one, or one per sample."
        )
    return rows if len(rows) == T else np.repeat(rows, T, axis=0)
