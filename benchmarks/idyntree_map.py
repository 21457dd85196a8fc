"""iDynTree's maximum-a-posteriori solver on the same robot with the same sensors, floating.

It takes one sample at a time and returns means. Its unknowns are a link's classical proper
acceleration and external wrench, a joint's wrench and acceleration; torques are not among them.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.result import NotMeasuredError
from bodysense import Robot
from bodysense.robot.io.urdf_fresh import fresh_urdf
from bodysense.sensors import (
    Accelerometer,
    ExternalWrench,
    ForceTorque,
    Gyroscope,
    JointAcceleration,
    Sensor,
)
from bodysense.spatial import Array


class Inputs(NamedTuple):
    """One sample, in the peer's order of joints and readings.

    Attributes:
        q: (n_joints,) positions.
        dq: (n_joints,) velocities.
        omega: (3,) angular velocity of the base in its frame.
        readings: (m,).
    """

    q: Array
    dq: Array
    omega: Array
    readings: Array


def _bindings() -> Any:
    """iDynTree, whose first import dies of a warning that has been made an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return importlib.import_module("idyntree.bindings")
    except ImportError as error:
        raise NotMeasuredError("iDynTree is not installed: make env") from error


class IdyntreeMap:
    """The solver of one floating robot.

    Attributes:
        unknowns: number of its unknowns.
        equations: number of rows of its dynamics.
        readings: number of its measurements.
    """

    def __init__(
        self, robot: Robot, sensors: Sequence[Sensor], *, slack: float, prior: float
    ) -> None:
        """Lay the problem out.

        Args:
            robot: with a floating base; links on fixed joints are lumped, as ours are.
            sensors: accelerometers, gyroscopes, force/torque sensors at joints, all external
                wrenches and all joint accelerations.
            slack: standard deviation of every equation.
            prior: standard deviation of every unknown, about zero.
        """
        self._idyn = idyn = _bindings()
        self._robot = robot
        self._model = self._loaded(robot)
        self._places = {sensor.name: self._mounted(sensor) for sensor in sensors}
        options = idyn.BerdyOptions()
        options.berdyVariant = idyn.BERDY_FLOATING_BASE
        options.includeAllNetExternalWrenchesAsSensors = True
        options.includeAllJointAccelerationsAsSensors = True
        options.includeAllJointTorquesAsSensors = False
        options.baseLink = robot.link_names[0]
        self._helper = idyn.BerdyHelper()
        if not self._helper.init(self._model, options):
            raise RuntimeError(f"iDynTree cannot lay out {robot.name}")
        self._frame = self._model.getFrameIndex(robot.link_names[0])
        self._order = np.concatenate([self._rows(sensor) for sensor in sensors])
        self.unknowns = int(self._helper.getNrOfDynamicVariables())
        self.equations = int(self._helper.getNrOfDynamicEquations())
        self.readings = int(self._helper.getNrOfSensorsMeasurements())
        if self.readings != self._order.size:
            raise RuntimeError(f"iDynTree has {self.readings} readings, not {self._order.size}")
        Sigma_y = np.empty(self.readings)
        Sigma_y[self._order] = np.concatenate([np.diag(sensor.covariance) for sensor in sensors])
        self._solver = idyn.BerdySparseMAPSolver(self._helper)
        if not self._solver.initialize():
            raise RuntimeError(f"iDynTree cannot solve for {robot.name}")
        # after initialize(), which would forget them
        self._solver.setDynamicsConstraintsPriorCovariance(
            self._diagonal(np.full(self.equations, slack**2))
        )
        self._solver.setDynamicsRegularizationPriorCovariance(
            self._diagonal(np.full(self.unknowns, prior**2))
        )
        self._solver.setDynamicsRegularizationPriorExpectedValue(
            idyn.VectorDynSize.FromPython(np.zeros(self.unknowns))
        )
        self._solver.setMeasurementsPriorCovariance(self._diagonal(Sigma_y))

    def inputs(self, q: Array, dq: Array, omega: Array, y: Array) -> Inputs:
        """Sort our joints and readings into the peer's order."""
        places = [self._dof(name) for name in self._robot.joint_names]
        positions, speeds, readings = np.empty_like(q), np.empty_like(dq), np.empty_like(y)
        positions[places], speeds[places], readings[self._order] = q, dq, y
        return Inputs(positions, speeds, np.array(omega), readings)

    def estimate(self, sample: Inputs) -> Array:
        """Means of all unknowns, in the peer's order."""
        idyn, solver = self._idyn, self._solver
        solver.updateEstimateInformationFloatingBase(
            idyn.JointPosDoubleArray.FromPython(sample.q),
            idyn.JointDOFsDoubleArray.FromPython(sample.dq),
            self._frame,
            idyn.Vector3.FromPython(sample.omega),
            idyn.VectorDynSize.FromPython(sample.readings),
        )
        solver.doEstimate()
        means: Array = solver.getLastEstimate().toNumPy().copy()
        return means

    def named(self, means: Array) -> dict[str, Array]:
        """Wrenches and joint accelerations, by our names."""
        idyn, model, helper = self._idyn, self._model, self._helper
        found: dict[str, Array] = {}
        for link in self._robot.link_names:
            where = helper.getRangeLinkVariable(idyn.NET_EXT_WRENCH, model.getLinkIndex(link))
            found[f"fx.{link}"] = means[where.offset : where.offset + 6]
        for joint in self._robot.joint_names:
            where = helper.getRangeJointVariable(idyn.JOINT_WRENCH, model.getJointIndex(joint))
            found[f"f.{joint}"] = means[where.offset : where.offset + 6]
            where = helper.getRangeDOFVariable(idyn.DOF_ACCELERATION, self._dof(joint))
            found[f"ddq.{joint}"] = means[where.offset : where.offset + 1]
        return found

    def _loaded(self, robot: Robot) -> Any:
        idyn, joints = self._idyn, self._idyn.StringVector()
        for name in robot.joint_names:
            joints.push_back(name)
        text = fresh_urdf(robot)  # no meshes and colours, of which the peer would complain
        loader = idyn.ModelLoader()
        if not loader.loadReducedModelFromString(text.decode(), joints):
            raise RuntimeError(f"iDynTree cannot read {robot.name}")
        model = loader.model().copy()
        for kind in (idyn.ACCELEROMETER, idyn.GYROSCOPE, idyn.SIX_AXIS_FORCE_TORQUE):
            model.sensors().removeAllSensorsOfType(kind)
        return model

    def _mounted(self, sensor: Sensor) -> tuple[int, int] | None:
        """Kind and number of a sensor; `None` for those that the peer's options add."""
        idyn, model = self._idyn, self._model
        if isinstance(sensor, ForceTorque):
            theirs, kind = idyn.SixAxisForceTorqueSensor(), idyn.SIX_AXIS_FORCE_TORQUE
            joint = model.getJoint(model.getJointIndex(sensor.joint))
            ends = joint.getFirstAttachedLink(), joint.getSecondAttachedLink()
            theirs.setName(sensor.name)
            theirs.setParentJoint(sensor.joint)
            theirs.setParentJointIndex(model.getJointIndex(sensor.joint))
            theirs.setFirstLinkName(model.getLinkName(ends[0]))
            theirs.setSecondLinkName(model.getLinkName(ends[1]))
            theirs.setFirstLinkSensorTransform(ends[0], idyn.Transform.Identity())
            theirs.setSecondLinkSensorTransform(ends[1], idyn.Transform.Identity())
            theirs.setAppliedWrenchLink(ends[1])
        elif isinstance(sensor, Accelerometer | Gyroscope):
            inertial = isinstance(sensor, Accelerometer)
            theirs = idyn.AccelerometerSensor() if inertial else idyn.GyroscopeSensor()
            kind = idyn.ACCELEROMETER if inertial else idyn.GYROSCOPE
            R, p = sensor.mount.R, sensor.mount.p
            theirs.setName(sensor.name)
            theirs.setParentLink(sensor.mount.frame)
            theirs.setParentLinkIndex(model.getLinkIndex(sensor.mount.frame))
            theirs.setLinkSensorTransform(
                idyn.Transform(
                    idyn.Rotation(*(float(x) for x in R.ravel())),
                    idyn.Position(*(float(x) for x in p)),
                )
            )
        else:
            return None
        return kind, model.sensors().addSensor(theirs)

    def _rows(self, sensor: Sensor) -> Array:
        idyn, model, helper = self._idyn, self._model, self._helper
        place = self._places[sensor.name]
        if isinstance(sensor, JointAcceleration):
            where = helper.getRangeDOFSensorVariable(
                idyn.DOF_ACCELERATION_SENSOR, self._dof(sensor.joint)
            )
        elif isinstance(sensor, ExternalWrench):
            link = model.getLinkIndex(sensor.mount.frame)
            where = helper.getRangeLinkSensorVariable(idyn.NET_EXT_WRENCH_SENSOR, link)
        elif place is not None:
            where = helper.getRangeSensorVariable(*place)
        else:
            raise RuntimeError(f"iDynTree has no sensor of the kind {sensor.kind}")
        return np.arange(where.offset, where.offset + where.size)

    def _dof(self, joint: str) -> int:
        return int(self._model.getJoint(self._model.getJointIndex(joint)).getDOFsOffset())

    def _diagonal(self, values: Array) -> Any:
        matrix = self._idyn.SparseMatrixColMajor(values.size, values.size)
        for k, value in enumerate(values):
            matrix.setValue(k, k, float(value))
        return matrix
