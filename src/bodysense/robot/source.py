"""`Source`: the file that a robot was read from, kept to be written back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """The file that a robot was read from (urdf, mjcf or dh), kept to be written back."""

    format: str
    path: str
    data: bytes = field(repr=False)

    @property
    def origin(self) -> dict[str, str]:
        """Path and digest, for provenance."""
        return {"file": self.path, "sha256": hashlib.sha256(self.data).hexdigest()}
