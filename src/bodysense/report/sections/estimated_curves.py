"""Curves of estimates with their bands, thinned while a log is solved chunk by chunk.

External wrenches of some links and torques of all joints; where the state is estimated, positions
and velocities of the joints too, those without encoders first.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bodysense.estimation import LogChunk, LogEstimate, StateLogEstimate
from bodysense.report.figures import Stretches, TracePool, float_bytes
from bodysense.report.rendering import BAND, effort_unit
from bodysense.spatial.arrays import Array

_POINTS = 2000  # of a curve
_POINTS_IN_ALL = 1_000_000
_LINKS = 40  # with curves of their wrenches: a page is to be opened


class EstimatedCurves:
    """All curves of a log; `add` its chunks in their order."""

    def __init__(self, estimate: LogEstimate, links: tuple[str, ...]) -> None:
        """Start empty; `links` are those whose external wrenches are estimated."""
        problem = estimate.problem
        self.links = links[:_LINKS]
        tree = problem.tree
        self.joints = tuple(tree.joint_name(i) for i in range(1, tree.n))
        kinds = dict(zip(problem.robot.joint_names, problem.robot.joint_types, strict=True))
        self._units = [effort_unit(kinds[joint]) for joint in self.joints]
        self.positions: tuple[str, ...] = ()
        if isinstance(estimate, StateLogEstimate):
            unmeasured = estimate.unmeasured
            self.positions = tuple(sorted(self.joints, key=lambda joint: joint not in unmeasured))
        self._lengths = ["m" if kinds[j] == "prismatic" else "rad" for j in self.positions]
        names = [f"fx.{link}" for link in self.links] + [f"tau.{joint}" for joint in self.joints]
        names += [f"{what}.{joint}" for joint in self.positions for what in ("q", "dq")]
        every = np.arange(estimate.variables.size)
        self._columns = np.concatenate([every[:0], *(every[estimate.variables[n]] for n in names)])
        self._start = float(estimate.t[0])
        self._gaps = set(estimate.recording.starts)
        most = max(100, min(_POINTS, _POINTS_IN_ALL // max(1, 3 * self._columns.size)))
        self._width = Stretches.of([estimate.t.size], most).width
        self._t: list[Array] = []
        self._parts: list[Array] = []
        self._starts: list[int] = []
        self._points = 0

    def add(self, chunk: LogChunk) -> None:
        """Thin the curves of a chunk, piece by piece."""
        result = chunk.posterior
        cuts = sorted(k - chunk.first for k in self._gaps if 0 < k - chunk.first < chunk.t.size)
        edges = [0, *cuts, chunk.t.size]
        mean = result.mean[:, self._columns]
        reach = np.zeros_like(mean)
        if result.variance is not None:
            reach = BAND * np.sqrt(np.maximum(result.variance[:, self._columns], 0.0))
        curves = np.stack([mean, mean - reach, mean + reach], axis=2).reshape(chunk.t.size, -1)
        for begin, end in pairwise(edges):
            stretches = Stretches((end - begin,), self._width)
            if begin > 0 or chunk.first in self._gaps:
                self._starts.append(self._points)
            times = stretches.times([chunk.t[begin:end] - self._start])
            self._t.append(times)
            self._parts.append(stretches.values([curves[begin:end]]))
            self._points += times.size

    def data(self, contacts: dict[str, list[list[float]]]) -> dict[str, object]:
        """For the page's script; `contacts` are stretches of time by link.

        Times are those of the log; of the curves after `start`, so that few digits do.
        """
        points = np.concatenate(self._parts).reshape(self._points, -1, 3)
        pool = TracePool()
        traces = [[pool.add(points[:, k, j]) for j in range(3)] for k in range(points.shape[1])]
        n = 6 * len(self.links)
        m = n + len(self.joints)
        return {
            "start": self._start,
            "time": float_bytes(np.concatenate(self._t)),
            "pieces": self._starts,
            "links": list(self.links),
            "wrenches": [traces[6 * k : 6 * k + 6] for k in range(len(self.links))],
            "contacts": [contacts.get(link, []) for link in self.links],
            "joints": list(self.joints),
            "units": self._units,
            "torques": traces[n:m],
            "positions": {
                "joints": list(self.positions),
                "units": self._lengths,
                "curves": [traces[m + 2 * k : m + 2 * k + 2] for k in range(len(self.positions))],
            },
            "traces": pool.traces,
        }
