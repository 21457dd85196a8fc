"""`Observability`: what sensors see of each quantity, and what would show the rest."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from bodysense.errors import FileReadError, unknown_name
from bodysense.estimation.map_dynamics.observability.helpful_sensors import Help
from bodysense.estimation.named_slices import NamedSlices
from bodysense.files import read_arrays, read_json, write_result
from bodysense.spatial.arrays import Array

Label = Literal["seen", "partly", "not seen", "assumed"]
LABELS: tuple[Label, ...] = ("seen", "partly", "not seen", "assumed")

_COMPONENTS = {6: ("x", "y", "z", "rx", "ry", "rz"), 1: ("",)}
_KEYS = ("variables", "labels", "readings", "unknowns", "help")


@dataclass(frozen=True, eq=False, repr=False)
class Observability:
    """What is seen of each quantity. Build it with `observability`.

    Attributes:
        variables: names ↔ slices of the numbers.
        before: (size,) standard deviations without sensors, the mean over the states.
        after: (size,) with them.
        labels: (size,) of each number.
        readings: how many numbers the sensors read that depend on an unknown.
        unknowns: how many independent numbers are unknown.
        help: sensors that would show most of what is not seen, the best first, and after them the
            best assumption.
    """

    variables: NamedSlices
    before: Array
    after: Array
    labels: tuple[Label, ...]
    readings: int
    unknowns: int
    help: tuple[Help, ...]

    def __repr__(self) -> str:
        return f"<Observability: {self.summary()}>"

    def __getitem__(self, name: str) -> tuple[Label, ...]:
        """Labels of the components of a quantity."""
        return self.labels[self.variables[name]]

    @property
    def complete(self) -> bool:
        """Whether everything that was not assumed is seen."""
        return all(label in ("seen", "assumed") for label in self.labels)

    def named(self, label: Label) -> dict[str, tuple[str, ...]]:
        """Quantities with components of this label, and which these are (x … rz)."""
        if label not in LABELS:
            raise unknown_name("label", label, LABELS)
        found = {}
        for name, where in self.variables.slices.items():
            mine = self.labels[where]
            words = _COMPONENTS.get(len(mine), tuple(str(k) for k in range(len(mine))))
            parts = tuple(word for word, own in zip(words, mine, strict=True) if own == label)
            if parts:
                found[name] = parts
        return found

    def summary(self) -> str:
        """What is seen and what is not, in a line."""
        counts = {label: self.labels.count(label) for label in LABELS}
        told = ", ".join(f"{count} {label}" for label, count in counts.items() if count)
        text = f"{self.readings} readings for {self.unknowns} unknowns; of {len(self.labels)} "
        text += f"numbers {told}."
        return text if self.complete else f"{text} {self._remedy()}"

    def report(self) -> str:
        """The same at length: a line for each quantity that is not seen, and what would help."""
        lines = [self.summary()]
        for label in ("not seen", "partly"):
            for name, parts in self.named(label).items():
                where = self.variables[name]
                some = "" if len(parts) == where.stop - where.start else f" ({', '.join(parts)})"
                lines.append(
                    f"  {label}: {name}{some}, standard deviation "
                    f"{self.after[where].max():.3g}, without sensors {self.before[where].max():.3g}"
                )
        lines += [f"  would help: {item}" for item in self.help]
        return "\n".join(lines)

    def _remedy(self) -> str:
        missing = [*self.named("not seen"), *self.named("partly")]
        some = ", ".join(list(dict.fromkeys(missing))[:4])
        text = f"Not enough is known about {some}{', …' if len(missing) > 4 else ''}"
        if not self.help:
            return f"{text}: narrow the beliefs about them (Assumptions)."
        return f"{text}: add {', or '.join(str(item) for item in self._best())}."

    def _best(self) -> list[Help]:
        """The best sensor, and the best assumption."""
        kinds = [[item for item in self.help if item.assumes is wanted] for wanted in (False, True)]
        return [items[0] for items in kinds if items]

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``observability.npz`` and ``observability.json`` into a folder."""
        slices = self.variables.slices
        about = {
            "variables": [[name, where.stop - where.start] for name, where in slices.items()],
            "labels": list(self.labels),
            "readings": self.readings,
            "unknowns": self.unknowns,
            "help": [[item.kind, item.place, item.gain] for item in self.help],
            "summary": self.summary(),
        }
        write_result(folder, "observability", {"before": self.before, "after": self.after}, about)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Observability:
        """Read what `save` wrote.

        Raises:
            FileReadError: the files are missing, damaged, or do not belong together.
        """
        about = read_json(Path(folder) / "observability.json", _KEYS)
        arrays = read_arrays(Path(folder) / "observability.npz", ("before", "after"))
        try:
            sizes = [(str(name), int(size)) for name, size in about["variables"]]
            variables = NamedSlices.of("quantity", sizes)
            labels = tuple(LABELS[LABELS.index(label)] for label in about["labels"])
            given = tuple(Help(str(k), str(p), float(gain)) for k, p, gain in about["help"])
            shapes = {(len(labels),), *(array.shape for array in arrays.values())}
            if shapes != {(variables.size,)}:
                raise ValueError(f"{variables.size} numbers are named")
            counts = int(about["readings"]), int(about["unknowns"])
        except (TypeError, ValueError) as error:
            raise FileReadError(
                f"observability.npz and observability.json in {folder} do not belong together "
                f"({error}): save the result again."
            ) from error
        return cls(variables, arrays["before"], arrays["after"], labels, *counts, given)
