"""`bodysense methods [NAME]`: which methods there are, what each needs, and when to choose it."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

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


@dataclass(frozen=True)
class _SettingEntry:
    """A setting of a method: its name, its default, what it means, and the option that sets it."""

    name: str
    default: bool | int | float | str | None
    about: str
    option: str | None


@dataclass(frozen=True)
class _MethodEntry:
    """A method as `--json` prints it."""

    name: str
    group: str
    default: bool
    consistent: bool
    about: str
    needs: str
    cost: str
    when: str
    description: str
    python: str
    settings: tuple[_SettingEntry, ...]


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
        listed = [_entry(method, DEFAULT) for method in IDENTIFIERS.values()]
        content: Any = [asdict(method) for method in listed]
        text = _all_rendered(listed)
    else:
        if args.name not in IDENTIFIERS:
            remedy = "With auto, `bodysense identify` chooses one." if args.name == "auto" else ""
            raise unknown_name("method", args.name, IDENTIFIERS, remedy)
        one = _entry(IDENTIFIERS[args.name], DEFAULT)
        content, text = asdict(one), _one_rendered(one)
    print(json.dumps(content, indent=2, allow_nan=False) if args.json else text.strip("\n"))
    return 0


def _entry(method: Method, default: str) -> _MethodEntry:
    """The row of the registry, with the options that set its settings."""
    return _MethodEntry(
        name=method.name,
        group=method.group,
        default=method.name == default,
        consistent=method.consistent,
        about=method.about,
        needs=method.needs,
        cost=method.cost,
        when=method.when,
        description=method.description,
        python=f"bodysense.identification.identifier({method.name!r})",
        settings=tuple(
            _SettingEntry(setting.name, _plain(setting.default), setting.about, _option(name))
            for name, setting in method.settings.items()
        ),
    )


def _option(setting: str) -> str | None:
    """The option that sets it, if it has one of its own."""
    from bodysense.cli.identify_options import _SETTINGS

    option = "seed" if setting == "seed" else _SETTINGS.get(setting)
    return None if option is None else f"--{option.replace('_', '-')}"


def _plain(value: object) -> bool | int | float | str | None:
    """A default as JSON knows it; what it does not know in words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _all_rendered(methods: list[_MethodEntry]) -> str:
    """A table per group, and how to go on."""
    page = Page()
    groups = dict.fromkeys([*_GROUPS, *(method.group for method in methods)])
    for group in groups:
        inside = [method for method in methods if method.group == group]
        if not inside:
            continue
        title = _GROUPS.get(group, group.capitalize())
        table = page.table(title, "name", "consistent", "needs", "cost", "when", text=range(5))
        table.columns[0].no_wrap = True
        table.columns[1].no_wrap = True
        for column in table.columns[2:]:
            column.ratio = 1  # alike in all groups, so that the eye finds them
        table.columns[0].min_width = max(len(method.name) for method in methods) + 2
        for method in inside:
            name = f"{method.name} *" if method.default else method.name
            table.add_row(name, _yes(method), method.needs, method.cost, method.when)
        page.show(table)
    page.line("* the default. consistent: links are always physically consistent.")
    page.line(
        "bodysense methods NAME shows one in full; bodysense identify … --method NAME uses it; "
        "--method auto chooses one by what the recordings show."
    )
    return page.text()


def _one_rendered(method: _MethodEntry) -> str:
    """One method with its settings."""
    page = Page()
    page.line(f"{method.name}: {method.about}", style="bold")
    page.line(f"\n{method.description}\n")
    default = " (the default)" if method.default else ""
    for key, text in (
        ("group", method.group),
        ("consistent", f"{_yes(method)}: links {_LINKS[method.consistent]}"),
        ("needs", method.needs),
        ("cost", method.cost),
        ("when", method.when),
        ("use", f"bodysense identify ROBOT LOG -o DIR --method {method.name}{default}"),
        ("Python", method.python),
    ):
        page.line(f"{key + ':':12}{text}")
    if not method.settings:
        page.line("\nIt has no settings.")
        return page.text()
    table = page.table("Settings", "name", "default", "option", "meaning", text=range(4))
    for column in table.columns[:3]:
        column.no_wrap = True
    for setting in method.settings:
        option = setting.option or f"--set {setting.name}=…"
        table.add_row(setting.name, str(setting.default), option, setting.about)
    page.show(table)
    return page.text()


_LINKS = {
    True: "are always physically consistent",
    False: "may not be physically consistent",
}


def _yes(method: _MethodEntry) -> str:
    return "yes" if method.consistent else "no"
