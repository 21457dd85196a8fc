"""`Posterior`: estimates with their uncertainty, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from bodysense.errors import FileReadError, ShapeError, unknown_name
from bodysense.files import read_arrays, read_json, write_result
from bodysense.spatial.arrays import Array

# `NamedSlices`: names of parts of a vector; `NamedRows`: its parts by name.


@dataclass(frozen=True, eq=False)
class NamedSlices:
    """Names ↔ slices of a vector, without gaps.

    Attributes:
        kind: what is named, for messages.
        slices: in the order of the vector.
    """

    kind: str
    slices: Mapping[str, slice]

    @classmethod
    def of(cls, kind: str, sizes: Iterable[tuple[str, int]]) -> Self:
        """Lay out names with their sizes one after the other."""
        slices, at = {}, 0
        for name, size in sizes:
            slices[name] = slice(at, at + size)
            at += size
        return cls(kind, slices)

    def __getitem__(self, name: str) -> slice:
        if name not in self.slices:
            raise unknown_name(self.kind, name, self.slices)
        return self.slices[name]

    def __contains__(self, name: object) -> bool:
        return name in self.slices

    def __iter__(self) -> Iterator[str]:
        return iter(self.slices)

    def __len__(self) -> int:
        return len(self.slices)

    @property
    def size(self) -> int:
        """Length of the vector."""
        return max((where.stop for where in self.slices.values()), default=0)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for every number: ``f.knee[2]``, or the bare name where it has one alone."""
        return tuple(
            name if where.stop - where.start == 1 else f"{name}[{k}]"
            for name, where in self.slices.items()
            for k in range(where.stop - where.start)
        )


@dataclass(frozen=True, eq=False)
class NamedRows(Mapping[str, Array]):
    """Parts of an array (…, size) by name, cut out when they are asked for.

    Attributes:
        slices: by name.
        rows: (…, size).
    """

    slices: Mapping[str, slice]
    rows: Array

    def __getitem__(self, name: str) -> Array:
        return self.rows[..., self.slices[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.slices)

    def __len__(self) -> int:
        return len(self.slices)


_KEYS = ("kind", "variables", "blocks", "sensors", "absent", "has", "notes")
_OPTIONAL = ("variance", "log_likelihood")


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Means and covariances of T samples; a single sample has no first axis.

    Attributes:
        variables: names ↔ slices of the numbers.
        mean: (T, size) or (size,).
        variance: alike, marginal; `None` if it was not asked for.
        blocks: (T, k, k) marginal covariances by variable; empty if they were not asked for.
        residual: by sensor, (T, m): reading minus prediction, NaN where there was no reading.
        absent: by sensor, at how many samples it gave no reading that could be used.
        log_likelihood: (T,) log density of the sensors' readings; `None` if it was not asked for.
        notes: what the user should know.
    """

    variables: NamedSlices
    mean: Array
    variance: Array | None = None
    blocks: Mapping[str, Array] = field(default_factory=dict)
    residual: Mapping[str, Array] = field(default_factory=dict)
    absent: Mapping[str, int] = field(default_factory=dict)
    log_likelihood: Array | None = None
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Array:
        """Mean of a variable."""
        return self.mean[..., self.variables[name]]

    def __repr__(self) -> str:
        return f"<Posterior: {self.summary()}>"

    @property
    def single(self) -> bool:
        """Whether it is of one sample, without a first axis."""
        return self.mean.ndim == 1

    def sigma(self, name: str) -> Array:
        """Standard deviation of a variable."""
        if self.variance is None:
            raise ShapeError("no variances were computed: ask for them (detail='variances').")
        deviation: Array = np.sqrt(self.variance[..., self.variables[name]])
        return deviation

    def covariance(self, name: str) -> Array:
        """(…, k, k) marginal covariance of a variable."""
        if name not in self.variables:
            raise unknown_name("variable", name, self.variables)
        if name not in self.blocks:
            raise ShapeError("no covariances were computed: ask for them (detail='blocks').")
        return self.blocks[name]

    def at(self, t: int) -> Posterior:
        """The t-th sample alone.

        Raises:
            ShapeError: there is no such sample, or there is one alone.
        """
        if self.single:
            raise ShapeError("this posterior is of a single sample already: take it as it is.")
        T = self.mean.shape[0]
        if not -T <= t < T:
            raise ShapeError(f"sample {t} is asked for, and there are {T}, from 0 on.")
        residual = {name: value[t] for name, value in self.residual.items()}
        return Posterior(
            variables=self.variables,
            mean=self.mean[t],
            variance=None if self.variance is None else self.variance[t],
            blocks={name: block[t] for name, block in self.blocks.items()},
            residual=residual,
            absent={name: int(np.isnan(value).any()) for name, value in residual.items()},
            log_likelihood=None if self.log_likelihood is None else self.log_likelihood[t],
            notes=self.notes,
        )

    def part(self, which: slice) -> Posterior:
        """Some of the samples.

        Raises:
            ShapeError: there is one alone.
        """
        if self.single:
            raise ShapeError("this posterior is of a single sample already: take it as it is.")
        residual = {name: value[which] for name, value in self.residual.items()}
        likelihood = self.log_likelihood
        return Posterior(
            variables=self.variables,
            mean=self.mean[which],
            variance=None if self.variance is None else self.variance[which],
            blocks={name: block[which] for name, block in self.blocks.items()},
            residual=residual,
            absent={
                name: int(np.isnan(value).any(axis=1).sum()) for name, value in residual.items()
            },
            log_likelihood=None if likelihood is None else likelihood[which],
            notes=self.notes,
        )

    @classmethod
    def joined(cls, parts: Sequence[Posterior]) -> Posterior:
        """Samples one after the other: parts are single samples, or several each; at least one."""
        join = np.stack if parts[0].single else np.concatenate
        first = parts[0]

        def whole(name: str) -> Array | None:
            values = [getattr(part, name) for part in parts]
            return None if values[0] is None else join(values)

        return Posterior(
            variables=first.variables,
            mean=join([part.mean for part in parts]),
            variance=whole("variance"),
            blocks={name: join([p.blocks[name] for p in parts]) for name in first.blocks},
            residual={name: join([p.residual[name] for p in parts]) for name in first.residual},
            absent={name: sum(p.absent[name] for p in parts) for name in first.absent},
            log_likelihood=whole("log_likelihood"),
            notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        )

    def summary(self) -> str:
        """What it holds, in a line."""
        T = 1 if self.single else self.mean.shape[0]
        known = "means" if self.variance is None else "means and standard deviations"
        known = known if not self.blocks else "means and covariances"
        text = f"{known} of {len(self.variables)} quantities at {T} sample{'s'[: T != 1]}"
        if self.residual:
            text += f", from {len(self.residual)} sensors"
        text += self._absent_words()
        if self.log_likelihood is not None and T:
            text += f"; log-likelihood {float(np.mean(self.log_likelihood)):.4g} per sample"
        return ". ".join((text, *self.notes))

    def _absent_words(self) -> str:
        gone = [f"{name} ({count})" for name, count in self.absent.items() if count]
        more = ", …" if len(gone) > 5 else ""
        return f"; without readings of {', '.join(gone[:5])}{more}" if gone else ""

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``posterior.npz`` and ``posterior.json`` into a folder."""
        has = [name for name in _OPTIONAL if getattr(self, name) is not None]
        arrays = {name: np.asarray(getattr(self, name)) for name in ("mean", *has)}
        arrays |= {f"block_{k}": block for k, block in enumerate(self.blocks.values())}
        arrays |= {f"residual_{k}": value for k, value in enumerate(self.residual.values())}
        about = {
            "kind": self.variables.kind,
            "variables": [[name, s.stop - s.start] for name, s in self.variables.slices.items()],
            "blocks": list(self.blocks),
            "sensors": list(self.residual),
            "absent": dict(self.absent),
            "has": has,
            "notes": list(self.notes),
            "summary": self.summary(),
        }
        write_result(folder, "posterior", arrays, about)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Posterior:
        """Read what `save` wrote.

        Raises:
            FileReadError: the files are missing, damaged, or do not belong together.
        """
        about = read_json(Path(folder) / "posterior.json", _KEYS)
        try:
            return cls._of(Path(folder) / "posterior.npz", about)
        except (KeyError, TypeError, ValueError) as error:
            raise FileReadError(
                f"posterior.npz and posterior.json in {folder} do not belong together ({error}): "
                "save the result again."
            ) from error

    @classmethod
    def _of(cls, path: Path, about: dict[str, Any]) -> Posterior:
        has = [name for name in _OPTIONAL if name in about["has"]]
        blocks = {str(name): f"block_{k}" for k, name in enumerate(about["blocks"])}
        residual = {str(name): f"residual_{k}" for k, name in enumerate(about["sensors"])}
        arrays = read_arrays(path, ("mean", *has, *blocks.values(), *residual.values()))
        sizes = [(str(name), int(size)) for name, size in about["variables"]]
        variables = NamedSlices.of(str(about["kind"]), sizes)
        shape = arrays["mean"].shape
        if shape[-1:] != (variables.size,) or any(
            arrays[name].shape != (shape if name == "variance" else shape[:-1]) for name in has
        ):
            raise ValueError(f"mean has shape {shape} for {variables.size} numbers")
        return cls(
            variables=variables,
            mean=arrays["mean"],
            variance=arrays.get("variance"),
            blocks={name: arrays[key] for name, key in blocks.items()},
            residual={name: arrays[key] for name, key in residual.items()},
            absent={str(name): int(count) for name, count in about["absent"].items()},
            log_likelihood=arrays.get("log_likelihood"),
            notes=tuple(str(note) for note in about["notes"]),
        )
