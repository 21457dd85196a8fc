"""Rows that a method has made itself, such as whitened or linearised ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bodysense.identification.regression import Block, Regression
from bodysense.robot.base_parameters import BaseParameters
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array


@dataclass(frozen=True, eq=False)
class GivenRows(Regression):
    """A regression whose blocks are given, of the same robot and unknowns as another one.

    Attributes:
        given: all blocks, those of a fold that is left out included.
    """

    given: tuple[Block, ...] = ()

    @classmethod
    def by(cls, problem: Regression, blocks: Iterable[Block]) -> GivenRows:
        """The blocks as a regression for the unknowns of a problem, with the same fold left out."""
        kept = {f.name: getattr(problem, f.name) for f in fields(Regression) if f.init}
        return cls(**kept, given=tuple(blocks))

    @cached_property
    def n_samples(self) -> int:
        """Number of samples."""
        return sum(block.t.size for block in self.given)

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """All places in theta_base: any row may depend on any parameter."""
        return (np.arange(self.size, dtype=np.int64),) * self.n_joints

    @cached_property
    def torque_size(self) -> Array:
        """(n,) r.m.s. of the rows' right-hand sides, in their units."""
        squares = sum((np.square(block.y).sum(axis=0) for block in self.given), np.zeros(1))
        size: Array = np.sqrt(squares / max(self.n_samples, 1))
        return size

    def _all_blocks(self) -> Iterator[Block]:
        yield from self.given


# Rows with one more column per joint: load-dependent Coulomb friction.
#
# Gears and bearings have more friction under load (as harmonic drives do):
#
#     tau_f = (Fc + Fl |tau_link|) s(v),
#
# with the torque tau_link that the joint passes on to its link, without friction and rotor. It is
# the one that an estimate of the other parameters predicts; given that, the term is linear in Fl.
# (Measured torque would not do: it holds the friction that is to be explained, and where that is
# most of it, |tau| s(v) is the torque itself.) A term that depends on the other parameters is no
# friction law that a `Robot` can have: it serves for comparison, and for identifying loads.


@dataclass(frozen=True, eq=False)
class LoadRows(Regression):
    """A regression whose unknowns are theta_base and Fl of each joint, in this order.

    Attributes:
        link_theta: (b,) base parameters that predict the torque at the links.
    """

    link_theta: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def with_load_of(cls, problem: Regression, theta_base: Array) -> LoadRows:
        """The same motions and folds, with columns of the load that theta_base (b,) predicts."""
        given = {f.name: getattr(problem, f.name) for f in fields(problem) if f.init}
        return cls(**given, link_theta=at_the_links(problem.base, theta_base))

    @property
    def size(self) -> int:
        """Number of unknowns, b + n."""
        return self.base.size + self.n_joints

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """For each joint the unknowns that its torque can depend on, its own Fl last."""
        return tuple(
            np.append(places, self.base.size + j) for j, places in enumerate(super().columns)
        )

    def widened(self, Y: Array, v: Array, log: int) -> Array:
        """Columns of theta_base and Fl."""
        return np.concatenate([Y, loss_columns(self.robot, Y, v, self.link_theta)], axis=2)


def at_the_links(base: BaseParameters, theta_base: Array) -> Array:
    """(b,) the part of theta_base that makes torque at the links: neither friction nor rotors."""
    names = (base.layout.names[k] for k in base.independent)
    rigid: Array = theta_base * np.array([not name.startswith(("F", "Ia")) for name in names])
    return rigid


def loss_columns(robot: Robot, Y: Array, v: Array, link_theta: Array) -> Array:
    """(m, n, n) columns of Fl: for joint j, |tau_link_j| s(v_j) in its own row and column.

    Args:
        robot: with the friction law that defines the width of s(v).
        Y: (m, n, b) regressor.
        v: (m, n) velocities.
        link_theta: (b,) from `at_the_links`.
    """
    names = robot.friction.model.shape
    width = robot.friction.shape[:, names.index("width")] if "width" in names else np.zeros(1)
    smooth = np.tanh(v / np.where(width > 0.0, width, 1.0))
    sign = np.where(width > 0.0, smooth, np.sign(v))
    columns = np.zeros((*v.shape, v.shape[1]))
    joints = np.arange(v.shape[1])
    columns[:, joints, joints] = np.abs(Y @ link_theta) * sign
    return columns
