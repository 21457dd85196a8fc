"""`bodysense methods [NAME]`: which methods there are, what each needs, and when to choose it."""

from __future__ import annotations

import argparse
import inspect
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from bodysense.cli.tables import Page
from bodysense.errors import unknown_name

if TYPE_CHECKING:
    from bodysense.identification.identification import Identifier

_HOME = "bodysense.identification."
_GROUPS: Mapping[str, str] = {
    "linear": "Linear: least squares on torques; links may come out as impossible bodies",
    "consistent": "Consistent: least squares over robots that can physically exist",
    "simulated": "Simulated: the closed loop of robot and controller is simulated",
    "filtering": "Filtering: motion and parameters are followed sample by sample",
    "neural": "Neural: parameters are the weights of a network",
}
_OTHER = "other"  # of methods that live elsewhere


@dataclass(frozen=True)
class Setting:
    """A setting of a method: its name, its default, what it means, and the option that sets it."""

    name: str
    default: bool | int | float | str | None
    about: str
    option: str | None


@dataclass(frozen=True)
class Method:
    """All that is told about a method; what `--json` prints."""

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
    settings: tuple[Setting, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="show one method in full, with its settings"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Print all methods as tables, or one of them in full."""
    # The methods bring the dynamics engine along, which takes a second or two to load.
    from bodysense.identification.methods import DEFAULT, IDENTIFIERS

    if args.name is None:
        listed = [_described(method, DEFAULT) for method in IDENTIFIERS.values()]
        told: Any = [asdict(method) for method in listed]
        text = _all_rendered(listed)
    else:
        if args.name not in IDENTIFIERS:
            remedy = "With auto, `bodysense identify` chooses one." if args.name == "auto" else ""
            raise unknown_name("method", args.name, IDENTIFIERS, remedy)
        one = _described(IDENTIFIERS[args.name], DEFAULT)
        told, text = asdict(one), _one_rendered(one)
    print(json.dumps(told, indent=2, allow_nan=False) if args.json else text.strip("\n"))
    return 0


def _described(method: type[Identifier], default: str) -> Method:
    """What the class says about itself."""
    home = method.__module__
    group = home.removeprefix(_HOME).partition(".")[0] if home.startswith(_HOME) else _OTHER
    return Method(
        name=method.name,
        group=group,
        default=method.name == default,
        consistent=method.consistent,
        about=method.about,
        needs=method.needs,
        cost=method.cost,
        when=method.when,
        description=_joined((inspect.getdoc(method) or "").partition("\n\n")[0]),
        python=f"{home}.{method.__qualname__}",
        settings=_settings(method),
    )


def _settings(method: type[Identifier]) -> tuple[Setting, ...]:
    """Of the class and those that it inherits from, each as documented where it is declared."""
    from bodysense.cli.identify_options import _SETTINGS

    meaning: dict[str, str] = {}
    for parent in reversed(method.__mro__):
        meaning |= _documented(parent)
    chosen = method()
    listed = []
    for field in fields(method):  # type: ignore[arg-type]  # implementations are dataclasses
        option = "seed" if field.name == "seed" else _SETTINGS.get(field.name)
        listed.append(
            Setting(
                name=field.name,
                default=_plain(getattr(chosen, field.name)),
                about=meaning.get(field.name, ""),
                option=None if option is None else f"--{option.replace('_', '-')}",
            )
        )
    return tuple(listed)


def _documented(cls: type) -> dict[str, str]:
    """Meanings by name, from the section `Attributes:` of a class's own docstring."""
    section = inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\nAttributes:\n")[2]
    section = re.split(r"\n(?=\S)", section)[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n(?:     .*)?)*)", section, re.MULTILINE)
    return {name: _joined(text) for name, text in entries}


def _plain(value: object) -> bool | int | float | str | None:
    """A default as JSON knows it; what it does not know in words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _joined(text: str) -> str:
    """One line, without the marks of code, which a terminal would show as they are."""
    return " ".join(text.replace("`", "").split())


def _all_rendered(methods: list[Method]) -> str:
    """A table a group, and how to go on."""
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
    page.line("* the default. consistent: links always come out as bodies that can exist.")
    page.line(
        "bodysense methods NAME shows one in full; bodysense identify … --method NAME uses it; "
        "--method auto chooses one by what the recordings show."
    )
    return page.text()


def _one_rendered(method: Method) -> str:
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
    True: "always come out as bodies that can exist",
    False: "may come out as impossible bodies",
}


def _yes(method: Method) -> str:
    return "yes" if method.consistent else "no"
