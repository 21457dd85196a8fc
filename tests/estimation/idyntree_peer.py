"""iDynTree's equations of the same robot and sensors, in bodysense's order of rows and columns.

Its fixed variant keeps 26 variables a link: the sum fB of all wrenches on it is one of them, and
its two rows I a - fB + … and fB - f - fx + … add up to bodysense's wrench balance. Its floating
variant has classical accelerations and no torques.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from bodysense.estimation.map_dynamics.body_tree import WORLD, BodyTree
from bodysense.estimation.map_dynamics.equations import Equations
from bodysense.robot import Robot
from bodysense.robot.io.urdf_fresh import fresh_urdf
from bodysense.sensors import (
    Accelerometer,
    AngularAccelerometer,
    ExternalWrench,
    ForceTorque,
    Gyroscope,
    JointAcceleration,
    JointTorque,
    Sensor,
)
from bodysense.spatial.arrays import Array


@dataclass(frozen=True)
class Peer:
    """D, b_D, Y, b_Y of iDynTree; rows and columns as in `Equations`, without torques if floating.

    Attributes:
        D: (m, n), rows of torques NaN in the floating variant.
        b_D: (m,) likewise.
        Y: (r, n).
        b_Y: (r,).
    """

    D: Array
    b_D: Array
    Y: Array
    b_Y: Array


class Berdy:
    """iDynTree's helper for one tree and its sensors."""

    def __init__(self, tree: BodyTree, sensors: list[Sensor], *, three_axes: bool = False) -> None:
        """With `three_axes` external wrenches are its contacts that read f_z, m_x, m_y."""
        self.idyn = pytest.importorskip("idyntree.bindings")
        self.tree, self.sensors = tree, sensors
        self.model = peer_model(tree.robot, self.idyn)
        self._three_axes = three_axes
        self._of_kind: dict[str, tuple[int, int]] = {}
        for sensor in sensors:
            self._mount(sensor)
        idyn, options = self.idyn, self.idyn.BerdyOptions()
        floating = tree.floating
        options.berdyVariant = (
            idyn.BERDY_FLOATING_BASE if floating else idyn.ORIGINAL_BERDY_FIXED_BASE
        )
        options.includeAllNetExternalWrenchesAsSensors = True
        options.includeAllJointAccelerationsAsSensors = True
        options.includeAllJointTorquesAsSensors = True
        options.includeFixedBaseExternalWrench = False
        root = tree.names[0]
        self.root = self.model.getLinkName(self.model.getDefaultBaseLink())
        if root != WORLD:
            self.root = root
        options.baseLink = self.root
        self.helper = idyn.BerdyHelper()
        assert self.helper.init(self.model, options)

    def at(
        self,
        equations: Equations,
        q: Array,
        dq: Array,
        base_twist: Array | None,
        gravity: Array | None,
    ) -> Peer:
        """Their matrices, where ours stand in `equations`."""
        idyn, model, helper = self.idyn, self.model, self.helper
        position, speed = idyn.JointPosDoubleArray(model), idyn.JointDOFsDoubleArray(model)
        for k, name in enumerate(self.tree.robot.joint_names):
            position.setVal(self._dof(name), float(q[k]))
            speed.setVal(self._dof(name), float(dq[k]))
        frame = model.getFrameIndex(self.root)
        vector = idyn.Vector3()
        for k in range(3):
            vector.setVal(k, float(gravity[k] if base_twist is None else base_twist[3 + k]))
        if base_twist is None:
            assert helper.updateKinematicsFromFixedBase(position, speed, frame, vector)
        else:
            assert helper.updateKinematicsFromFloatingBase(position, speed, frame, vector)
        D, Y = idyn.MatrixDynSize(), idyn.MatrixDynSize()
        b_D, b_Y = idyn.VectorDynSize(), idyn.VectorDynSize()
        assert helper.resizeAndZeroBerdyMatrices(D, b_D, Y, b_Y)
        assert helper.getBerdyMatrices(D, b_D, Y, b_Y)
        return self._ordered(
            equations, D.toNumPy().copy(), b_D.toNumPy().copy(), Y.toNumPy().copy(), b_Y.toNumPy()
        )

    def _ordered(self, equations: Equations, D: Array, b_D: Array, Y: Array, b_Y: Array) -> Peer:
        tree, variables = self.tree, equations.variables
        width = D.shape[1]
        columns = np.zeros((width, variables.size))  # theirs by ours
        for name in variables:
            where = variables[name]
            at = self._variable(name)
            if at is not None:
                columns[at : at + where.stop - where.start, where] = np.eye(
                    where.stop - where.start
                )
        new_D, new_b = np.full((equations.rows.size, variables.size), np.nan), None
        new_b = np.full(equations.rows.size, np.nan)
        taken = []
        for i in tree.with_unknowns:
            link = tree.names[i]
            external = self._rows(D, f"fx.{link}", ())
            rows, offset = D[external], b_D[external]
            taken.append(external)
            if not tree.floating:
                sums = self._rows(D, f"fB.{link}", external)
                rows, offset = rows + D[sums], offset + b_D[sums]
                taken.append(sums)
                at = self._variable(f"fB.{link}")
                assert not rows[:, at : at + 6].any()
            where = equations.rows[f"wrench.{link}"]
            new_D[where], new_b[where] = rows @ columns, offset
            if i == 0:
                continue
            motion = self._rows(D, f"a.{link}", np.concatenate(taken))
            taken.append(motion)
            where = equations.rows[f"acceleration.{link}"]
            new_D[where], new_b[where] = D[motion] @ columns, b_D[motion]
            if not tree.floating:
                joint = tree.joint_name(i)
                torque = self._rows(D, f"tau.{joint}", ())
                taken.append(torque)
                where = equations.rows[f"torque.{joint}"]
                new_D[where], new_b[where] = D[torque] @ columns, b_D[torque]
        every = np.sort(np.concatenate(taken))
        np.testing.assert_array_equal(every, np.arange(D.shape[0]))  # all of theirs, each once
        readings = np.concatenate([self._reading(sensor) for sensor in self.sensors])
        np.testing.assert_array_equal((Y[readings] @ columns != 0).sum(), (Y[readings] != 0).sum())
        return Peer(new_D, new_b, Y[readings] @ columns, b_Y[readings])

    def _rows(self, D: Array, name: str, others: Array | tuple) -> Array:
        """The rows in which a variable stands with minus one, but for those of `others`."""
        at, size = self._variable(name), 1 if name.startswith("tau") else 6
        found = []
        for k in range(size):
            rows = np.flatnonzero(D[:, at + k] == -1.0)
            rows = [r for r in rows if r not in others]
            if len(rows) != 1:  # an entry of a transform or an inertia may be minus one as well
                alone = [r for r in rows if np.count_nonzero(D[r, at : at + size]) == 1]
                rows = alone
            assert len(rows) == 1, (name, k, rows)
            found.append(rows[0])
        return np.array(found)

    def _variable(self, name: str) -> int | None:
        """Their first column of one of our unknowns, or of fB.<link>."""
        idyn, model, helper = self.idyn, self.model, self.helper
        quantity, _, owner = name.partition(".")
        fixed = not self.tree.floating
        if quantity == "a":
            kind = (
                idyn.LINK_BODY_PROPER_ACCELERATION
                if fixed
                else idyn.LINK_BODY_PROPER_CLASSICAL_ACCELERATION
            )
            return helper.getRangeLinkVariable(kind, model.getLinkIndex(owner)).offset
        if quantity in ("fx", "fB"):
            kind = (
                idyn.NET_EXT_WRENCH
                if quantity == "fx"
                else idyn.NET_INT_AND_EXT_WRENCHES_ON_LINK_WITHOUT_GRAV
            )
            return helper.getRangeLinkVariable(kind, model.getLinkIndex(owner)).offset
        if quantity == "f":
            return helper.getRangeJointVariable(
                idyn.JOINT_WRENCH, model.getJointIndex(owner)
            ).offset
        if quantity == "tau":
            if not fixed:
                return None
            return helper.getRangeDOFVariable(idyn.DOF_TORQUE, self._dof(owner)).offset
        return helper.getRangeDOFVariable(idyn.DOF_ACCELERATION, self._dof(owner)).offset

    def _reading(self, sensor: Sensor) -> Array:
        """Their rows of one of our sensors."""
        idyn, model, helper = self.idyn, self.model, self.helper
        if isinstance(sensor, JointTorque):
            where = helper.getRangeDOFSensorVariable(
                idyn.DOF_TORQUE_SENSOR, self._dof(sensor.joint)
            )
        elif isinstance(sensor, JointAcceleration):
            where = helper.getRangeDOFSensorVariable(
                idyn.DOF_ACCELERATION_SENSOR, self._dof(sensor.joint)
            )
        elif isinstance(sensor, ExternalWrench) and not self._three_axes:
            link = model.getLinkIndex(sensor.mount.frame)
            where = helper.getRangeLinkSensorVariable(idyn.NET_EXT_WRENCH_SENSOR, link)
        else:
            where = helper.getRangeSensorVariable(*self._of_kind[sensor.name])
        assert where.size == (3 if self._three_axes else sensor.size)
        return np.arange(where.offset, where.offset + where.size)

    def _mount(self, sensor: Sensor) -> None:
        idyn, model = self.idyn, self.model
        kinds = {
            Accelerometer: (idyn.AccelerometerSensor, idyn.ACCELEROMETER),
            Gyroscope: (idyn.GyroscopeSensor, idyn.GYROSCOPE),
            AngularAccelerometer: (
                idyn.ThreeAxisAngularAccelerometerSensor,
                idyn.THREE_AXIS_ANGULAR_ACCELEROMETER,
            ),
        }
        if self._three_axes:
            kinds[ExternalWrench] = (
                idyn.ThreeAxisForceTorqueContactSensor,
                idyn.THREE_AXIS_FORCE_TORQUE_CONTACT,
            )
        if isinstance(sensor, ForceTorque):
            theirs, kind = idyn.SixAxisForceTorqueSensor(), idyn.SIX_AXIS_FORCE_TORQUE
            joint = model.getJoint(model.getJointIndex(sensor.joint))
            ends = joint.getFirstAttachedLink(), joint.getSecondAttachedLink()
            link = model.getLinkIndex(sensor.mount.frame)
            theirs.setName(sensor.name)
            theirs.setParentJoint(sensor.joint)
            theirs.setParentJointIndex(model.getJointIndex(sensor.joint))
            theirs.setFirstLinkName(model.getLinkName(ends[0]))
            theirs.setSecondLinkName(model.getLinkName(ends[1]))
            place = self._transform(sensor)
            theirs.setFirstLinkSensorTransform(ends[0], place)
            theirs.setSecondLinkSensorTransform(ends[1], place)
            theirs.setAppliedWrenchLink(link)
        elif type(sensor) in kinds:
            make, kind = kinds[type(sensor)]
            theirs = make()
            theirs.setName(sensor.name)
            theirs.setParentLink(sensor.mount.frame)
            theirs.setParentLinkIndex(model.getLinkIndex(sensor.mount.frame))
            theirs.setLinkSensorTransform(self._transform(sensor))
        else:
            return
        assert theirs.isValid()
        self._of_kind[sensor.name] = (kind, model.sensors().addSensor(theirs))

    def _transform(self, sensor: Sensor):
        R, p = np.asarray(sensor.mount.R), np.asarray(sensor.mount.p)
        return self.idyn.Transform(
            self.idyn.Rotation(*(float(x) for x in R.ravel())),
            self.idyn.Position(*(float(x) for x in p)),
        )

    def _dof(self, joint: str) -> int:
        return self.model.getJoint(self.model.getJointIndex(joint)).getDOFsOffset()


def peer_model(robot: Robot, idyn):
    """The robot's URDF as iDynTree reads it, links on fixed joints lumped as Pinocchio does."""
    text = fresh_urdf(robot) if robot.source is None else robot.source.data
    joints = idyn.StringVector()
    for name in robot.joint_names:
        joints.push_back(name)
    loader = idyn.ModelLoader()
    assert loader.loadReducedModelFromString(text.decode(), joints)
    model = loader.model().copy()
    for kind in (idyn.ACCELEROMETER, idyn.GYROSCOPE, idyn.SIX_AXIS_FORCE_TORQUE):
        model.sensors().removeAllSensorsOfType(kind)
    return model
