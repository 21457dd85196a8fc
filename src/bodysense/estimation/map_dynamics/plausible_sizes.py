"""`PlausibleSizes`: how large forces, moments and accelerations of a robot can be.

What is unknown has a prior that must exclude nothing that may happen, and no more: where a quantity
is hardly observable, the smallest error of the model grows to the width of its prior. How much may
happen depends on the robot. It is ten times what is usual for its weight, its motors and its size:

    force                10 max(m g, min(max tau / r, 3 m g))       m mass, r reach, tau efforts
    moment               r force
    joint acceleration   10 median(limit, or tau / M where there is none), within 1e3 and 1e4
    base acceleration    10 g, and that of joints about each axis

M: diagonal of the joint-space inertia, the largest of some poses. Limits in robot files are often
placeholders, such as 1000 N·m on a leg of 2 kg: that is why weight bounds them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from bodysense.robot.frames import sample_poses
from bodysense.robot.robot import Robot
from bodysense.spatial.arrays import Array

_GRAVITY = 9.81  # m/s², whatever the robot's own: it may be weightless in its file
_GENEROUS = 10.0  # times as much as usual: falls, jumps and collisions are no more than that
_MOTORS = 3.0  # weights that motors may move at most; beyond, limits are placeholders
_LEAST_FORCE = 10.0  # N, usual for the lightest: a hand of 0.5 kg is pushed like that
_LEAST_REACH = 0.1  # m, of robots without joints, too
_LONGEST_LINK = 1.0
"""m from a joint to centres of mass and frames: links of hardly any mass have the former anywhere,
and targets for calibration are far from the robot."""
_POSES = 5  # at which the inertia that a joint moves is looked at
_ACCELERATIONS = (100.0, 1000.0)
"""rad/s² or m/s²: usual accelerations of joints lie between these, from slow arms to fingers.

Limits beyond are placeholders, as are inertias of 1e-6 kg·m² that small links have in files."""


@dataclass(frozen=True)
class PlausibleSizes:
    """Standard deviations of what is unknown on a robot. Build it with `PlausibleSizes.of`.

    Attributes:
        force: [N].
        moment: [N·m], and torque of a joint.
        joint_acceleration: [rad/s² or m/s²].
        linear_acceleration: of any link [m/s²].
    """

    force: float
    moment: float
    joint_acceleration: float
    linear_acceleration: float = _GENEROUS * _GRAVITY

    @classmethod
    def of(cls, robot: Robot) -> PlausibleSizes:
        """Estimate them from masses, limits and the length of the robot."""
        weight = _GRAVITY * float(sum(robot.pi(k)[0] for k in range(robot.layout.n_links)))
        reach = _reach(robot)
        effort = robot.effort_limit[np.isfinite(robot.effort_limit)]
        motors = min(float(effort.max(initial=0.0)) / reach, _MOTORS * weight)
        force = _GENEROUS * max(weight, motors, _LEAST_FORCE)
        return cls(force, force * reach, _GENEROUS * _usual_acceleration(robot))

    @property
    def wrench(self) -> Array:
        """(6,) of a wrench."""
        return np.repeat([self.force, self.moment], 3)

    @property
    def acceleration(self) -> Array:
        """(6,) of the acceleration of a link."""
        return np.repeat([self.linear_acceleration, self.joint_acceleration], 3)

    def of_quantity(self, name: str) -> Array:
        """Of a quantity by its name: ``a.<link>``, ``f.<joint>``, ``fx.<link>``, ``tau.…``, …."""
        return {
            "a": self.acceleration,
            "f": self.wrench,
            "fx": self.wrench,
            "tau": np.array([self.moment]),
            "ddq": np.array([self.joint_acceleration]),
        }[name.partition(".")[0]]


def _reach(robot: Robot) -> float:
    """From the base along the joints to the farthest centre of mass or frame [m]."""
    tree, first = robot.tree, int(robot.floating_base)
    lower, upper = robot.position_range
    travel = np.where(np.isfinite(lower) & np.isfinite(upper), upper - lower, 0.0)
    length = np.linalg.norm(tree.position, axis=1) + np.where(tree.prismatic, travel, 0.0)
    size = _link_sizes(robot)
    farthest = max(_LEAST_REACH, size[0] if first else 0.0)
    for j in range(robot.n_joints):
        parent = int(tree.parent[j])
        length[j] += length[parent] if parent >= 0 else 0.0
        farthest = max(farthest, float(length[j] + size[first + j]))
    return farthest


def _link_sizes(robot: Robot) -> Array:
    """(n_links,) from the origin of each link to its centre of mass or its farthest frame [m]."""
    size = np.zeros(robot.layout.n_links)
    for k in range(size.size):
        pi = robot.pi(k)
        if pi[0] > 0.0:
            size[k] = np.linalg.norm(pi[1:4]) / pi[0]
    for frame in robot.model.frames:
        if frame.parentJoint > 0:
            k = frame.parentJoint - 1
            size[k] = max(size[k], float(np.linalg.norm(frame.placement.translation)))
    return np.minimum(size, _LONGEST_LINK)


def _usual_acceleration(robot: Robot) -> float:
    """The median over the joints: their limits, else what their motors give the robot they move."""
    least, most = _ACCELERATIONS
    if not robot.n_joints:
        return least
    data = robot.model.createData()
    poses = sample_poses(robot, _POSES)
    M = np.stack([np.diag(pin.crba(robot.model, data, q)) for q in poses])[:, -robot.n_joints :]
    inertia = np.maximum(M.max(axis=0), np.finfo(float).tiny)
    usual = np.where(
        np.isfinite(robot.acceleration_limit),
        robot.acceleration_limit,
        np.minimum(robot.effort_limit, most * inertia) / inertia,
    )
    return float(np.clip(np.median(usual), least, most))
