"""What `bodysense estimate` prints: contacts, positions, sensors that disagree, observability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bodysense.cli.tables import Page, number, percent
from bodysense.status import BAND

_SENSORS = 30  # rows of the table of sensors
_CONTACTS = 20  # rows of the table of contacts
_SOON = 0.09  # s: a duration of pushes whose detectable force is told
_MOST_FORCE = 1e4  # N: larger forces are not detectable


def estimate_text(summary: Mapping[str, Any]) -> str:
    """The summary as text."""
    page = Page()
    page.line(
        f"{summary['robot']}, {summary['log']}: {summary['samples']} samples over "
        f"{summary['duration']:.4g} s, {summary['readings']} readings for {summary['unknowns']} "
        "estimated quantities",
        style="bold",
    )
    for reason, n in summary["left_out"].items():
        page.line(f"  {n} rows {reason} are left out")
    _contacts(page, summary)
    if "state" in summary:
        _state(page, summary["state"])
    _sensors(page, summary["sensors"], stated="state" in summary)
    if summary["inconsistent_exact_readings"]:
        page.line(f"{summary['inconsistent_exact_readings']}.", style="bold")
    page.line("")
    page.line(f"Observability: {summary['observability']} {summary['external_wrenches']}")
    return page.text()


def _contacts(page: Page, summary: Mapping[str, Any]) -> None:
    contacts = summary["contacts"]
    for link in unobservable_of(summary):
        page.line(f"external wrench on {link} is unobservable")
    if summary["load"] is not None:
        page.line(f"{summary['load']['summary']}", style="bold")
    if not contacts:
        _no_contacts(page, summary)
        return
    page.table(
        "Contacts, with 95 % bands",
        (
            *("link", "probability", "from [s]", "to [s]"),
            *("median force [N]", "largest force [N]", "95 % band [N]", "at [s]"),
        ),
        (
            (
                contact["link"],
                f"{percent(contact['probability'])} %",
                f"{contact['start']:.2f}",
                f"{contact['end']:.2f}",
                f"{contact['usual']:.1f}",
                f"{contact['force']:.1f}",
                f"± {BAND * contact['sigma']:.1f}",
                f"{contact['at']:.2f}",
            )
            for contact in contacts[:_CONTACTS]
        ),
    )
    _more(page, contacts, _CONTACTS)
    _detectable(page, summary)


def _no_contacts(page: Page, summary: Mapping[str, Any]) -> None:
    if not summary["contact_share"]:
        page.line(
            "no external wrenches were modelled: list links under external_wrenches in the "
            "sensors file"
        )
    free = [link for link in summary["contact_share"] if link not in unobservable_of(summary)]
    if free:
        beside = " beside the load" if summary["load"] is not None else ""
        page.line(f"no contact{beside} on {', '.join(free)}")
    _detectable(page, summary)


def unobservable_of(summary: Mapping[str, Any]) -> list[str]:
    """Links whose external wrench cannot be observed, even if no other link is in contact."""
    found = {
        row["link"]
        for row in summary["detectable"]
        if row["best"] is not None and row["best"] < _MOST_FORCE
    }
    return [link for link in summary["unobservable_links"] if link not in found]


def _detectable(page: Page, summary: Mapping[str, Any]) -> None:
    """What would be found of each link, and how soon."""
    for link in summary["contact_share"]:
        forces = [row for row in summary["detectable"] if row["link"] == link]
        soon = [row for row in forces if row["within"] >= _SOON][:1] or forces[-1:]
        for row in () if link in unobservable_of(summary) else soon:
            worst = (
                f", {row['worst']:.2g} N from where it shows least"
                if row["worst"] is not None and row["worst"] < _MOST_FORCE
                else ""
            )
            if row["best"] is not None and row["best"] < _MOST_FORCE:
                page.line(
                    f"  a push of {row['best']:.2g} N on {link} is found within "
                    f"{1e3 * row['within']:.0f} ms{worst}"
                )


def _state(page: Page, state: Mapping[str, Any]) -> None:
    """Positions, of joints without encoders first, and biases."""
    joints = sorted(state["joints"], key=lambda joint: joint["measured"])
    page.table(
        "Positions: estimated, with 95 % bands",
        ("joint", "encoder", "from", "to", "band", "widest", "unit"),
        (
            (
                joint["joint"],
                "yes" if joint["measured"] else "none",
                *(f"{joint[key]:.2f}" for key in ("lowest", "highest")),
                *(f"± {BAND * joint[key]:.2g}" for key in ("std", "worst")),
                joint["unit"],
            )
            for joint in joints[:_SENSORS]
        ),
        text=(0, 1, 6),
    )
    _more(page, joints, _SENSORS)
    if state["biases"]:
        page.table(
            "Biases: after the last readings, with 95 % bands",
            ("sensor", "bias", "band", "unit"),
            (
                (b["name"], f"{b['mean']:.3g}", f"± {BAND * b['std']:.2g}", b["unit"])
                for b in state["biases"][:_SENSORS]
            ),
            text=(0, 3),
        )


def _sensors(page: Page, sensors: list[Mapping[str, Any]], *, stated: bool) -> None:
    if all(s["rms"] is None for s in sensors):
        return  # momentum holds no sensor against another
    # Those that disagree most first; what cannot be judged last.
    ordered = sorted(
        sensors, key=lambda s: (s["contradicted"], -1.0 if s["ratio"] is None else s["ratio"])
    )[::-1]
    page.table(
        "Sensors: residuals, readings minus their predictions by the estimate",
        ("sensor", "rms", "stated std", "ratio", "beyond 95 %", "missing"),
        (
            (
                s["name"],
                *(number(s[key]) for key in ("rms", "stated", "ratio")),
                "-" if s["beyond"] is None else f"{percent(s['beyond'])} %",
                str(s["absent"]),
            )
            for s in ordered[:_SENSORS]
        ),
    )
    _more(page, sensors, _SENSORS)
    # Where the state is estimated it follows the readings too.
    over, most = ("the stated std", "at most ") if stated else ("its expected value", "")
    page.line(
        f"  ratio: rms of the residuals over {over}; expected: {most}1. beyond: share outside the "
        f"95 % band; expected: {most}5 %. Many beyond: a std is too small. A large ratio with few "
        "beyond: a few outliers."
    )


def _more(page: Page, rows: Sequence[object], shown: int) -> None:
    if len(rows) > shown:
        page.line(f"… and {len(rows) - shown} more, see summary.json")
