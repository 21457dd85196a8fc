"""Which covariances to estimate, each with its structure and its prior, by names and kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bodysense.errors import MismatchError, unknown_name
from bodysense.estimation.map_dynamics.em.expectation import SLACKS
from bodysense.estimation.map_dynamics.em.sources import (
    STRUCTURES,
    InverseWishart,
    Source,
    Structure,
)
from bodysense.robot.sensors.external_wrench import ExternalWrench
from bodysense.robot.sensors.orientation import Orientation
from bodysense.spatial.arrays import Array

if TYPE_CHECKING:
    from bodysense.estimation.map_dynamics.estimator import MapDynamics

_WRENCH_UNITS = ExternalWrench.units
_MOTION_UNITS = ("m/s²",) * 3 + ("rad/s²",) * 3


def chosen_sources(
    problem: MapDynamics,
    structure: Structure | Mapping[str, Structure],
    prior: InverseWishart | Mapping[str, InverseWishart] | None,
    sensors: Sequence[str] | None,
    wrenches: Sequence[str],
    slacks: Sequence[str],
) -> tuple[Source, ...]:
    """Everything whose covariance is to be estimated; for the arguments see `em`.

    What is exact, and orientations, which are no part of the problem, are left out.
    """
    by_name = {sensor.name: sensor for sensor in problem.sensors}
    wanted: list[tuple[str, str, Array, Sequence[str]]] = []
    for name in by_name if sensors is None else sensors:
        if name not in by_name:
            raise unknown_name("sensor", name, by_name)
        sensor = by_name[name]
        if sensor.kind != Orientation.kind:
            units = tuple(sensor.units[k % len(sensor.units)] for k in range(sensor.size))
            wanted.append((name, sensor.kind, sensor.covariance, units))
    beliefs, links = problem.assumptions, problem.tree
    for link in wrenches:
        if link not in [links.names[i] for i in links.with_unknowns]:
            raise unknown_name("link with an external wrench", link, links.names)
        belief = beliefs.wrenches.get(link, beliefs.wrench)
        wanted.append((f"belief.fx.{link}", "fx", belief.covariance, _WRENCH_UNITS))
    for slack in slacks:
        if slack not in SLACKS:
            raise unknown_name("slack", slack, SLACKS)
        name = f"slack.{slack}"
        Sigma = getattr(beliefs, f"{slack}_slack").covariance
        units = {"wrench": _WRENCH_UNITS, "torque": ("N·m",)}.get(slack, _MOTION_UNITS)
        wanted.append((name, name, Sigma, units))
    names = [name for name, *_ in wanted]
    for name in names:
        if names.count(name) > 1:
            raise MismatchError(f"{name!r} is asked for twice, or a sensor has that name: rename.")
    return tuple(
        Source.of(
            name,
            kind,
            Sigma,
            units,
            _structure(structure, name, kind),
            _prior(prior, name, kind),
        )
        for name, kind, Sigma, units in wanted
        if Sigma.any()
    )


def _structure(structure: Structure | Mapping[str, Structure], name: str, kind: str) -> Structure:
    if isinstance(structure, Mapping):
        structure = structure.get(name, structure.get(kind, "axis"))
    if structure not in STRUCTURES:
        raise unknown_name("structure", structure, STRUCTURES)
    return structure


def _prior(
    prior: InverseWishart | Mapping[str, InverseWishart] | None, name: str, kind: str
) -> InverseWishart:
    if isinstance(prior, Mapping):
        return prior.get(name, prior.get(kind, InverseWishart()))
    return InverseWishart() if prior is None else prior
