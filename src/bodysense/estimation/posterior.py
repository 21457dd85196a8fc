"""`Posterior`: estimates with their uncertainty, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any, Self

import numpy as np

from bodysense.errors import MismatchError, ShapeError, unknown_name
from bodysense.files import load_result, save_result
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class NamedSlices:
    """Names ↔ slices of a vector, in order, without gaps; `kind` is what is named, for messages."""

    kind: str
    slices: Mapping[str, slice]

    @classmethod
    def from_sizes(cls, kind: str, sizes: Iterable[tuple[str, int]]) -> Self:
        """Lay out names one after the other; `MismatchError` for two of one name."""
        slices: dict[str, slice] = {}
        at = 0
        for name, size in sizes:
            if name in slices:
                raise MismatchError(f"two {kind}s are called {name!r}: rename one of them.")
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
    def sizes(self) -> list[tuple[str, int]]:
        """Names with their sizes."""
        return [(name, where.stop - where.start) for name, where in self.slices.items()]

    @property
    def size(self) -> int:
        return sum(size for _, size in self.sizes)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for every number: ``f.knee[2]``, or the bare name where it has one alone."""
        return tuple(
            name if size == 1 else f"{name}[{k}]" for name, size in self.sizes for k in range(size)
        )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"kind": self.kind, "sizes": dict(self.sizes)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """From what `to_dict` returned."""
        return cls.from_sizes(values["kind"], values["sizes"].items())


class NamedRows(Mapping[str, Array]):
    """Parts of an array (…, size) by name, cut out when they are asked for."""

    __slots__ = ("rows", "slices")

    def __init__(self, slices: Mapping[str, slice], rows: Array) -> None:
        self.slices, self.rows = slices, rows

    def __getitem__(self, name: str) -> Array:
        return self.rows[..., self.slices[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.slices)

    def __len__(self) -> int:
        return len(self.slices)


def count_absent(rows: Array) -> int:
    """Number of samples without a reading, from residuals (m,) or (T, m) of one sensor."""
    return int(np.isnan(rows).any(axis=-1).sum())


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
        """The t-th sample alone; `ShapeError` if there is no such sample, or one alone."""
        self._require_several()
        T = self.mean.shape[0]
        if not -T <= t < T:
            raise ShapeError(f"sample {t} is asked for, and there are {T}, from 0 on.")
        return self._cut(t)

    def part(self, which: slice) -> Posterior:
        """Some of the samples; `ShapeError` if there is one alone."""
        self._require_several()
        return self._cut(which)

    def _require_several(self) -> None:
        if self.single:
            raise ShapeError("this posterior is of a single sample already: take it as it is.")

    def _cut(self, which: int | slice) -> Posterior:
        residual = {name: value[which] for name, value in self.residual.items()}
        likelihood = self.log_likelihood
        return Posterior(
            variables=self.variables,
            mean=self.mean[which],
            variance=None if self.variance is None else self.variance[which],
            blocks={name: block[which] for name, block in self.blocks.items()},
            residual=residual,
            absent={name: count_absent(rows) for name, rows in residual.items()},
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
        kept = {f.name: getattr(self, f.name) for f in fields(Posterior)}
        save_result(Posterior(**kept), folder, "posterior")

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Posterior:
        """Read what `save` wrote."""
        return load_result(Posterior, folder, "posterior", shapes=_shapes)


def _shapes(stored: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of what is stored of a posterior."""
    samples = stored["mean"].shape[:-1]
    size = NamedSlices.from_dict(stored["variables"]).size
    expected = {"mean": (*samples, size), "variance": (*samples, size), "log_likelihood": samples}
    return {name: shape for name, shape in expected.items() if stored.get(name) is not None}
