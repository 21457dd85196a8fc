"""What `bodysense estimate` prints: touches, sensors that disagree, and what is not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bodysense.cli.tables import Page

_SENSORS = 30
_TOUCHES = 20


def rendered(summary: Mapping[str, Any]) -> str:
    """The summary as text."""
    page = Page()
    page.line(
        f"{summary['robot']}, {summary['log']}: {summary['moments']} moments over "
        f"{summary['duration']:.4g} s, {summary['readings']} readings for {summary['unknowns']} "
        "unknowns",
        style="bold",
    )
    for reason, n in summary["left_out"].items():
        page.line(f"  {n} rows {reason} are left out")
    _touches(page, summary)
    _sensors(page, summary["sensors"])
    page.line("")
    page.line(f"Seen: {summary['observability']}")
    return page.text()


def _touches(page: Page, summary: Mapping[str, Any]) -> None:
    touches = summary["touches"]
    if not touches:
        page.line(
            "no external wrench differs from what was believed"
            if summary["touched"]
            else "no external wrench was allowed for (external_wrenches of the sensors file)"
        )
        return
    title = "Touches: when the external wrench differs from what was believed"
    table = page.table(title, "link", "from [s]", "to [s]", "force [N]", "at [s]", text=(0,))
    for touch in touches[:_TOUCHES]:
        numbers = (f"{touch[key]:.2f}" for key in ("start", "end"))
        table.add_row(touch["link"], *numbers, f"{touch['force']:.1f}", f"{touch['at']:.2f}")
    page.show(table)
    if len(touches) > _TOUCHES:
        page.line(f"… and {len(touches) - _TOUCHES} more, see summary.json")


def _sensors(page: Page, sensors: list[Mapping[str, Any]]) -> None:
    title = "Sensors: residuals over what they should be (1), share beyond 95 % (5 %)"
    table = page.table(title, "sensor", "rms", "stated", "ratio", "beyond", "absent", text=(0,))
    # Those that disagree most first; what cannot be judged last.
    ordered = sorted(sensors, key=lambda s: -1.0 if s["ratio"] is None else s["ratio"])[::-1]
    for s in ordered[:_SENSORS]:
        table.add_row(
            s["name"],
            _number(s["rms"]),
            _number(s["stated"]),
            _number(s["ratio"]),
            "-" if s["beyond"] is None else f"{100.0 * s['beyond']:.1f} %",
            str(s["absent"]),
        )
    page.show(table)
    if len(sensors) > _SENSORS:
        page.line(f"… and {len(sensors) - _SENSORS} more, see summary.json")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
