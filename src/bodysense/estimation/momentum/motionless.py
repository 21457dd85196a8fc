"""External torques as readings of `MapDynamics`, in place of accelerations.

A robot that stands still, dq = 0 and ddq = 0, where nothing weighs has the torques

    tau = -Σ J_linkᵀ fx_link

by its external wrenches alone. So -tau_ext as readings of joint torques of such a robot say what
they say about the wrenches, together with any other sensor of wrenches: force/torque sensors, less
what the moving links behind them need, and skin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bodysense.errors import MismatchError
from bodysense.estimation.map_dynamics.estimator import MapDynamics
from bodysense.estimation.map_dynamics.priors import Assumptions, GaussianPrior
from bodysense.estimation.momentum.estimate import MomentumEstimate
from bodysense.sensors import ExternalWrench, JointTorque, Mount, Sensor
from bodysense.spatial.arrays import Array


class MotionlessRows(NamedTuple):
    """An estimator of wrenches whose first sensors read external torques, and their readings.

    Attributes:
        problem: call ``problem.estimate(q, 0 q, readings, gravity=(0, 0, 0))``, without gravity for
            a floating base, with the readings of further sensors in columns behind these.
        readings: (T, nv) of the external torques.
    """

    problem: MapDynamics
    readings: Array


def motionless_rows(
    estimate: MomentumEstimate,
    wrenches: Mapping[str, GaussianPrior],
    sensors: Sequence[Sensor] = (),
) -> MotionlessRows:
    """External torques as readings of a motionless, weightless robot.

    The sensors are as exact as the estimates are in the mean of their variances: `MapDynamics`
    takes readings of different joints as independent of each other, so that correlations between
    joints, which `MomentumEstimate.posterior` counts, are left out.

    Args:
        estimate: the external torques.
        wrenches: priors (6) about external wrenches by link, at least one; none acts elsewhere.
        sensors: further sensors of wrenches.

    Raises:
        MismatchError: a wrench on a floating base, where the readings of all others end.
    """
    observer = estimate.observer
    robot, base = observer.robot, observer.robot.nv - observer.robot.n_joints
    variance = estimate.variance.mean(axis=0)
    rows: list[Sensor] = []
    priors = dict(wrenches)
    if base:
        root = robot.link_names[0]
        if root in priors:
            raise MismatchError(
                f"a wrench on {root!r}, the floating base, cannot be told from those of other "
                "links here: use MomentumEstimate.posterior."
            )
        # What is in balance with all other wrenches stands for the motion.
        priors[root] = GaussianPrior.unknown(6)
        covariance = estimate.covariance[:, :6, :6].mean(axis=0)
        rows.append(
            ExternalWrench(name=f"fx_total.{root}", mount=Mount(root), covariance=covariance)
        )
    for j, joint in enumerate(robot.joint_names):
        covariance = variance[base + j : base + j + 1, None]
        rows.append(JointTorque(name=f"tau_ext.{joint}", joint=joint, covariance=covariance))
    assumptions = Assumptions(
        wrenches=priors,
        joint_acceleration=GaussianPrior.zero(1),
        base_acceleration=GaussianPrior.zero(6),
    )
    problem = MapDynamics(robot, [*rows, *sensors], assumptions)
    return MotionlessRows(problem, np.negative(estimate.tau_ext))
