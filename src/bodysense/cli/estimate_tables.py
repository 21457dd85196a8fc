"""What `bodysense estimate` prints: touches, positions, sensors that disagree, what is not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bodysense.cli.tables import Page
from bodysense.report.wording import BAND

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
    if "state" in summary:
        _state(page, summary["state"])
    _sensors(page, summary["sensors"], stated="state" in summary)
    if summary["untrue"]:
        page.line(f"{summary['untrue']}.", style="bold")
    page.line("")
    page.line(f"Seen: {summary['observability']}")
    return page.text()


def _touches(page: Page, summary: Mapping[str, Any]) -> None:
    touches = summary["touches"]
    for link in summary["blind"]:
        page.line(f"it cannot be told whether anything touched {link}: no reading shows it")
    if not touches:
        if not summary["touched"]:
            page.line("no external wrench was allowed for (external_wrenches of the sensors file)")
        for link, (best, worst) in summary["force_sigma"].items():
            if link not in summary["blind"]:
                page.line(
                    f"no external wrench on {link} differs from what was believed; less than "
                    f"{BAND * best:.2g} N would not show, nor {BAND * worst:.2g} N in the "
                    "direction that is told worst"
                )
        return
    title = "Touches: when the external wrench differs from what was believed, with 95 % bands"
    forces = ("median force [N]", "largest force [N]", "95 % band [N]")
    table = page.table(title, "link", "from [s]", "to [s]", *forces, "at [s]", text=(0,))
    for touch in touches[:_TOUCHES]:
        numbers = (f"{touch[key]:.2f}" for key in ("start", "end"))
        band = f"\N{PLUS-MINUS SIGN} {BAND * touch['sigma']:.1f}"
        sizes = (f"{touch[key]:.1f}" for key in ("usual", "force"))
        table.add_row(touch["link"], *numbers, *sizes, band, f"{touch['at']:.2f}")
    page.show(table)
    if len(touches) > _TOUCHES:
        page.line(f"… and {len(touches) - _TOUCHES} more, see summary.json")
    for sentence in summary["reversals"][:_TOUCHES]:
        page.line(sentence)


def _state(page: Page, state: Mapping[str, Any]) -> None:
    """Joints whose positions were not measured first, and biases."""
    title = "Positions: estimated, with 95 % bands"
    columns = ("joint", "encoder", "from", "to", "band", "widest", "unit")
    table = page.table(title, *columns, text=(0, 1, 6))
    ordered = sorted(state["joints"], key=lambda joint: joint["measured"])
    for joint in ordered[:_SENSORS]:
        table.add_row(
            joint["joint"],
            "yes" if joint["measured"] else "none",
            *(f"{joint[key]:.2f}" for key in ("lowest", "highest")),
            *(f"\N{PLUS-MINUS SIGN} {BAND * joint[key]:.2g}" for key in ("std", "worst")),
            joint["unit"],
        )
    page.show(table)
    if len(ordered) > _SENSORS:
        page.line(f"… and {len(ordered) - _SENSORS} more, see summary.json")
    if not state["biases"]:
        return
    title = "Biases, after the last readings, with 95 % bands"
    table = page.table(title, "sensor", "bias", "band", "unit", text=(0, 3))
    for bias in state["biases"][:_SENSORS]:
        band = f"\N{PLUS-MINUS SIGN} {BAND * bias['std']:.2g}"
        table.add_row(bias["name"], f"{bias['mean']:.3g}", band, bias["unit"])
    page.show(table)


def _sensors(page: Page, sensors: list[Mapping[str, Any]], *, stated: bool) -> None:
    title = "Sensors: residuals, readings minus what the estimate says that they should be"
    columns = ("sensor", "rms", "stated std", "ratio", "beyond 95 %", "absent")
    table = page.table(title, *columns, text=(0,))
    # Those that disagree most first; what cannot be judged last.
    ordered = sorted(
        sensors, key=lambda s: (s["contradicted"], -1.0 if s["ratio"] is None else s["ratio"])
    )[::-1]
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
    # Where the state is estimated it follows the readings too.
    over, right = ("the stated std", "at most ") if stated else ("what it should be", "")
    page.line(
        f"  ratio: how large residuals are, rms over {over}; {right}1 is right. beyond: how many "
        f"are outside their 95 % band; {right}5 % is right. Many beyond: a std is too small. A "
        "large ratio with few beyond: a few readings are far off."
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
