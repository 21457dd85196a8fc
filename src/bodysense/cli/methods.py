"""`bodysense methods [NAME]`: which methods there are, what each needs, and when to choose it."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bodysense.cli.options import print_result
from bodysense.cli.tables import Page
from bodysense.errors import unknown_name

if TYPE_CHECKING:
    from bodysense.identification.identifier import Method

_GROUPS: Mapping[str, str] = {
    "linear": "Linear: least squares on torques; links may not be physically consistent",
    "consistent": "Consistent: least squares over physically consistent robots",
    "simulated": "Simulated: the closed loop of robot and controller is simulated",
    "filtering": "Filtering: motion and parameters are estimated sample by sample",
    "neural": "Neural: parameters are the weights of a network",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="show one method in full, with its settings"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Print all methods as tables, or one of them in full."""
    # The registry imports the dynamics engine, which takes a second or two to load.
    from bodysense.identification.methods import DEFAULT, IDENTIFIERS

    if args.name is None:
        entries = [_entry(method, DEFAULT) for method in IDENTIFIERS.values()]
        print_result(args, _all_text(entries), entries)
        return 0
    if args.name not in IDENTIFIERS:
        remedy = "With auto, `bodysense identify` chooses one." if args.name == "auto" else ""
        raise unknown_name("method", args.name, IDENTIFIERS, remedy)
    entry = _entry(IDENTIFIERS[args.name], DEFAULT)
    print_result(args, _one_text(entry), entry)
    return 0


def _entry(method: Method, default: str) -> dict[str, Any]:
    """The row of the registry, with the options that set its settings."""
    keys = ("name", "group", "consistent", "about", "needs", "cost", "when", "description")
    return {
        **{key: getattr(method, key) for key in keys},
        "default": method.name == default,
        "python": f"bodysense.identification.identifier({method.name!r})",
        "settings": [
            {
                "name": setting.name,
                "default": _plain(setting.default),
                "about": setting.about,
                "option": _option(name),
            }
            for name, setting in method.settings.items()
        ],
    }


def _option(setting: str) -> str | None:
    """The option that sets it, if it has one of its own."""
    from bodysense.cli.identify import SETTINGS

    option = "seed" if setting == "seed" else SETTINGS.get(setting)
    return None if option is None else f"--{option.replace('_', '-')}"


def _plain(value: object) -> bool | int | float | str | None:
    """A default as JSON knows it; what it does not know in words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _all_text(methods: list[dict[str, Any]]) -> str:
    """A table per group, and how to go on."""
    page = Page()
    width = max(len(method["name"]) for method in methods) + 2  # alike in all groups
    for group in dict.fromkeys([*_GROUPS, *(method["group"] for method in methods)]):
        inside = [method for method in methods if method["group"] == group]
        if not inside:
            continue
        page.table(
            _GROUPS.get(group, group.capitalize()),
            ("name", "consistent", "needs", "cost", "when"),
            (
                (
                    f"{method['name'] + ' *' * method['default']:{width}}",
                    _CONSISTENT[method["consistent"]][0],
                    *(method[key] for key in ("needs", "cost", "when")),
                )
                for method in inside
            ),
            text=range(5),
            whole=(0, 1),
            ratios=(1, 1, 1),
        )
    page.line(
        "* taken where settings are given and no method. consistent: links are always physically "
        "consistent."
    )
    page.line(
        "bodysense methods NAME shows one in full; bodysense identify … --method NAME uses it; "
        "without, bodysense identify chooses one by what the recordings show."
    )
    return page.text().lstrip("\n")


def _one_text(method: dict[str, Any]) -> str:
    """One method with its settings."""
    page = Page()
    page.line(f"{method['name']}: {method['about']}", style="bold")
    page.line(f"\n{method['description']}\n")
    for key, text in (
        ("group", method["group"]),
        ("consistent", ": links ".join(_CONSISTENT[method["consistent"]])),
        ("needs", method["needs"]),
        ("cost", method["cost"]),
        ("when", method["when"]),
        ("use", f"bodysense identify ROBOT LOG -o DIR --method {method['name']}"),
        ("Python", method["python"]),
    ):
        page.line(f"{key + ':':12}{text}")
    if not method["settings"]:
        page.line("\nIt has no settings.")
        return page.text()
    page.table(
        "Settings",
        ("name", "default", "option", "meaning"),
        (
            (
                setting["name"],
                str(setting["default"]),
                setting["option"] or f"--set {setting['name']}=…",
                setting["about"],
            )
            for setting in method["settings"]
        ),
        text=range(4),
        whole=(0, 1, 2),
    )
    return page.text().rstrip("\n") + "\n"


_CONSISTENT = {
    True: ("yes", "are always physically consistent"),
    False: ("no", "may not be physically consistent"),
}
"""Whether links are, in a word and in words."""
