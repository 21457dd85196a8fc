"""Where the result comes from, so that it can be had again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bodysense.identification.run import IdentificationRun
from bodysense.report.rendering import ready_for_json


@dataclass(frozen=True)
class ProvenanceSection:
    """Command, inputs with digests, versions, and everything else as JSON.

    Attributes:
        command: that led to the page, if it was one.
        inputs: role, name and SHA-256 of each file.
        versions: by package.
        seed: of random numbers, in words.
        configuration: all of the provenance as JSON.
    """

    command: str | None
    inputs: tuple[tuple[str, str, str], ...]
    versions: tuple[tuple[str, str], ...]
    seed: str
    configuration: str

    @classmethod
    def of(cls, run: IdentificationRun, command: str | None) -> ProvenanceSection:
        """The section of a run. Callers may have added to its provenance, or left parts out."""
        roles = {"log": "logs", "validation log": "validation"}
        return cls.of_origin(run.identification.provenance, command, roles)

    @classmethod
    def of_origin(
        cls, provenance: Mapping[str, Any], command: str | None, roles: Mapping[str, str]
    ) -> ProvenanceSection:
        """The section of a provenance, with the keys of its logs by what they were for."""
        inputs = [_input("robot", provenance.get("robot"), ("file", "name"))]
        for role, key in roles.items():
            entries = provenance.get(key)
            if isinstance(entries, Sequence) and not isinstance(entries, str):
                inputs += [_input(role, entry, ("source",)) for entry in entries]
        versions = provenance.get("versions")
        return cls(
            command=command,
            inputs=tuple(entry for entry in inputs if entry is not None),
            versions=tuple((str(k), str(v)) for k, v in versions.items())
            if isinstance(versions, Mapping)
            else (),
            seed=str(provenance.get("seed", "")),
            configuration=json.dumps(
                ready_for_json(provenance), indent=2, ensure_ascii=False, allow_nan=False
            ),
        )


def _input(role: str, entry: object, names: Sequence[str]) -> tuple[str, str, str] | None:
    if not isinstance(entry, Mapping):
        return None
    name = next((str(entry[key]) for key in names if key in entry), "")
    return role, name, str(entry.get("sha256", ""))
