"""Curves of estimates with their bands, as the page's script takes them."""

from __future__ import annotations

from bodysense.estimation import EstimatedCurves
from bodysense.report.traces import TracePool, float_bytes


def curve_data(
    curves: EstimatedCurves, contacts: dict[str, list[list[float]]]
) -> dict[str, object]:
    """For the page's script; `contacts` are stretches of time by link.

    Times are those of the log; of the curves after `start`, so that few digits do.
    """
    points = curves.points
    pool = TracePool()
    traces = [[pool.add(points[:, k, j]) for j in range(3)] for k in range(points.shape[1])]
    n = 6 * len(curves.links)
    m = n + len(curves.joints)
    return {
        "start": curves.start,
        "time": float_bytes(curves.t),
        "pieces": curves.pieces,
        "links": list(curves.links),
        "wrenches": [traces[6 * k : 6 * k + 6] for k in range(len(curves.links))],
        "contacts": [contacts.get(link, []) for link in curves.links],
        "joints": list(curves.joints),
        "units": list(curves.effort_units),
        "torques": traces[n:m],
        "positions": {
            "joints": list(curves.positions),
            "units": list(curves.position_units),
            "curves": [traces[m + 2 * k : m + 2 * k + 2] for k in range(len(curves.positions))],
        },
        "traces": pool.traces,
    }
