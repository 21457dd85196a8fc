"""`Observability`: which quantities the sensors make observable, and what would help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bodysense.errors import unknown_name
from bodysense.estimation._kernels.elimination import EXACT
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.priors import Assumptions, GaussianPrior
from bodysense.estimation.map_dynamics.sensor_advice import Help, helpful
from bodysense.estimation.map_dynamics.solution import flat
from bodysense.estimation.posterior import NamedSlices
from bodysense.files import load_result, save_result
from bodysense.robot.frames import sample_poses
from bodysense.spatial.arrays import Array

Label = Literal["observable", "partly", "unobservable", "assumed"]
_LABELS: tuple[Label, ...] = ("observable", "partly", "unobservable", "assumed")

_COMPONENTS = {6: ("x", "y", "z", "rx", "ry", "rz"), 1: ("",)}


@dataclass(frozen=True, eq=False, repr=False)
class Observability:
    """What is observable of each quantity. Build it with `observability`.

    Attributes:
        variables: names ↔ slices of the numbers.
        before: (size,) standard deviations without sensors, the mean over the states.
        after: (size,) with them.
        labels: (size,) of each number.
        readings: how many numbers the sensors read that depend on an estimated quantity.
        unknowns: how many independent numbers the estimated quantities depend on.
        help: sensors that would make most of the rest observable, the best first, and after them
            the best assumption.
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
        return self.labels[self.variables[name]]

    @property
    def complete(self) -> bool:
        return all(label in ("observable", "assumed") for label in self.labels)

    @property
    def external_components(self) -> tuple[int, int]:
        """How many components of external wrenches are observable, and how many are not assumed."""
        labels = [x for name in self.variables if name.startswith("fx.") for x in self[name]]
        return labels.count("observable"), len(labels) - labels.count("assumed")

    @property
    def external_share(self) -> float:
        """Share of the components of external wrenches that are observable, of those not assumed.

        NaN where all are assumed, so that contacts cannot be estimated at all.
        """
        observable, uncertain = self.external_components
        return observable / uncertain if uncertain else float("nan")

    def external_summary(self) -> str:
        """How much of the external wrenches is observable, in a line."""
        observable, uncertain = self.external_components
        if not uncertain:
            return "All external wrenches are assumed to be known: no contact can be found."
        text = (
            f"{observable} of {uncertain} components of external wrenches that are not assumed are "
            f"observable ({observable / uncertain:.0%})"
        )
        return f"{text}." if observable == uncertain else f"{text}: others may act unnoticed."

    def named(self, label: Label) -> dict[str, tuple[str, ...]]:
        """Quantities with components of this label, and which these are (x … rz)."""
        if label not in _LABELS:
            raise unknown_name("label", label, _LABELS)
        result = {}
        for name, where in self.variables.slices.items():
            mine = self.labels[where]
            words = _COMPONENTS.get(len(mine), tuple(str(k) for k in range(len(mine))))
            parts = tuple(word for word, own in zip(words, mine, strict=True) if own == label)
            if parts:
                result[name] = parts
        return result

    def summary(self) -> str:
        """What is observable and what is not, in a line."""
        text = (
            f"{len(self.labels)} estimated quantities, {self.unknowns} of them independent, and "
            f"{self.readings} readings that depend on them: {self.counts()}."
        )
        return text if self.complete else f"{text} {self._remedy()}"

    def counts(self) -> str:
        """How many estimated quantities have each label, in words."""
        counts = {label: self.labels.count(label) for label in _LABELS}
        return ", ".join(f"{count} {label}" for label, count in counts.items() if count)

    def report(self) -> str:
        """The same at length: a line for each unobservable quantity, and what would help."""
        lines = [self.summary()]
        for label in ("unobservable", "partly"):
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
        missing = [*self.named("unobservable"), *self.named("partly")]
        some = ", ".join(list(dict.fromkeys(missing))[:4])
        text = f"Not enough is known about {some}{', …' if len(missing) > 4 else ''}"
        if not self.help:
            return f"{text}: narrow the priors about them (Assumptions)."
        return f"{text}: add {', or '.join(str(item) for item in self._best())}."

    def _best(self) -> list[Help]:
        kinds = [[item for item in self.help if item.assumes is wanted] for wanted in (False, True)]
        return [items[0] for items in kinds if items]

    def save(self, folder: str | PathLike[str]) -> None:
        """Write ``observability.npz`` and ``observability.json`` into a folder."""
        save_result(self, folder, "observability")

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Observability:
        """Read what `save` wrote."""
        return load_result(
            cls,
            folder,
            "observability",
            shapes=lambda stored: {
                "before": (len(stored["labels"]),),
                "after": (NamedSlices.from_dict(stored["variables"]).size,),
            },
            labels=lambda stored: tuple(_LABELS[_LABELS.index(k)] for k in stored["labels"]),
        )


# `observability`: what the sensors make observable, before anything is measured.
#
# Covariances of the posterior do not depend on what is read, only on what is there to read. So
# three solves at some states tell what becomes of each quantity: its standard deviation without
# sensors, with them, and with them if all priors were three times as narrow. What the last does
# not change is observable; what becomes as much narrower is the prior, whatever the readings:
#
#     observable    priors three times as narrow make it narrower by less than a factor of 1.5
#     unobservable  sensors leave more than nine tenths of the standard deviation
#     partly        all between: readings narrow it, and priors decide the rest
#     assumed       it was known without any sensor

_POSES = 5  # that are looked at if none are given
_NARROWER = 3.0  # factor by which priors are made narrower
_FOLLOWS = 1.5  # factor by which what is observable may become narrower with them
_REMAINING = 0.9  # share of a standard deviation that remains of what is unobservable


def observability(
    problem: MapDynamics,
    q: ArrayLike | None = None,
    dq: ArrayLike | None = None,
    *,
    base_twist: ArrayLike | None = None,
    gravity: ArrayLike | None = None,
    suggest: int = 3,
) -> Observability:
    """Find out what is observable with the sensors of a problem.

    Args:
        problem: the estimator.
        q: (n_joints,) or (T, n_joints) positions to look at; by default five within the limits of
            the joints, the same ones every time.
        dq: their velocities; by default at rest.
        base_twist: as in `MapDynamics.estimate`, by default at rest; like
        gravity: which observability hardly depends on.
        suggest: how many sensors to suggest; zero saves the time to try them.
    """
    n = problem.robot.n_joints
    poses = sample_poses(problem.robot, _POSES)[:, problem.robot.nq - n :] if q is None else q
    states = np.array(poses, dtype=float, ndmin=2)
    speeds = np.zeros_like(states) if dq is None else np.array(dq, dtype=float, ndmin=2)
    twist = np.zeros(6) if base_twist is None else base_twist
    if gravity is None and not problem.tree.floating:
        gravity = problem.robot.tree.gravity

    def spread(other: MapDynamics) -> Array:
        readings = np.zeros((states.shape[0], other.layout.size))
        samples = other.samples(states, speeds, readings, base_twist=twist, gravity=gravity)
        variance = flat(other.tree, other.solve(samples, "variances").variance)
        deviations: Array = np.sqrt(np.maximum(variance, 0.0))
        return deviations

    narrower = problem.with_assumptions(_narrower(problem.assumptions))
    before, after, narrow = spread(problem.blind), spread(problem), spread(narrower)
    labels = tuple(_LABELS[k] for k in _judged(before, after, narrow))
    missing = np.array([label in ("partly", "unobservable") for label in labels], dtype=bool)
    help_ = helpful(problem, spread, after, missing, suggest) if missing.any() else ()
    return Observability(
        variables=problem.variables,
        before=before.mean(axis=0),
        after=after.mean(axis=0),
        labels=labels,
        readings=_informative(problem),
        unknowns=_unknowns(problem),
        help=help_,
    )


def _judged(before: Array, after: Array, narrow: Array) -> NDArray[np.int64]:
    """Index of the label of each number, at the worst of the states."""
    assumed = (before < EXACT).all(axis=0)
    hidden = (after > _REMAINING * before).any(axis=0)
    held = (after < _FOLLOWS * np.maximum(narrow, EXACT)).all(axis=0)
    return np.select([assumed, held, hidden], [3, 0, 2], default=1)


def _narrower(priors: Assumptions) -> Assumptions:
    """All priors narrower but those of the equations."""

    def narrow(prior: GaussianPrior) -> GaussianPrior:
        return GaussianPrior(prior.mean, prior.covariance / _NARROWER**2)

    def all_narrow(priors: Mapping[str, GaussianPrior]) -> dict[str, GaussianPrior]:
        return {name: narrow(prior) for name, prior in priors.items()}

    return replace(
        priors,
        wrench=narrow(priors.wrench),
        wrenches=all_narrow(priors.wrenches),
        joint_acceleration=narrow(priors.joint_acceleration),
        base_acceleration=narrow(priors.base_acceleration),
        others=all_narrow(priors.others),
    )


def _informative(problem: MapDynamics) -> int:
    rows = problem.layout.arrays
    every = np.concatenate([rows.on_alpha, rows.on_wrench, rows.on_external], axis=1)
    depends = every.any(axis=1) & (problem.layout.order < problem.layout.size)
    return int(np.count_nonzero(depends))


def _unknowns(problem: MapDynamics) -> int:
    """Independent uncertain numbers; the balance of a floating root binds six of them."""
    tree, priors = problem.tree, problem.assumptions
    count = 0
    for i in tree.with_unknowns:
        wrench = priors.wrench_of(tree.names[i]).covariance
        count += int(np.linalg.matrix_rank(wrench, hermitian=True))
        count += int(i > 0 and priors.joint_acceleration.covariance[0, 0] > 0.0)
    if tree.floating:
        count += int(np.linalg.matrix_rank(priors.base_acceleration.covariance, hermitian=True))
        count -= 6
    return max(count, 0)
