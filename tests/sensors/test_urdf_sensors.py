"""Sensor tags of URDF files, against iDynTree's reading of the same file."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from bodysense.errors import RobotFileError, UnknownNameError
from bodysense.robot import Robot, load_robot
from bodysense.sensors import TYPICAL_STD, urdf_sensors

INERTIA = '<inertia ixx="0.02" ixy="0.001" ixz="0.002" iyy="0.03" iyz="0.003" izz="0.025"/>'


def link(name: str, mass: float, com: str) -> str:
    return (
        f'<link name="{name}"><inertial><origin xyz="{com}" rpy="0.1 0.2 0.3"/>'
        f'<mass value="{mass}"/>{INERTIA}</inertial></link>'
    )


def joint(name: str, kind: str, parent: str, child: str, origin: str) -> str:
    limit = '<limit lower="-3" upper="3" effort="9" velocity="9"/>' if kind != "fixed" else ""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin {origin}/><axis xyz="0 0.6 0.8"/>{limit}</joint>'
    )


ARM = (
    "<link name='base'/>"
    + link("shoulder", 2.0, "0.1 0 0.05")
    + link("stub", 0.5, "0 0.02 0.01")
    + link("forearm", 1.5, "0.02 0.1 0")
    + link("hand", 0.7, "0 0 0.08")
    + joint("lift", "revolute", "base", "shoulder", 'xyz="0 0 0.3" rpy="0.3 0 0.2"')
    + joint("glue", "fixed", "shoulder", "stub", 'xyz="0.2 0 0.1" rpy="0 0.4 0"')
    + joint("ft", "fixed", "stub", "forearm", 'xyz="0.05 0.1 0" rpy="0.5 0 0.7"')
    + joint("wrist", "revolute", "forearm", "hand", 'xyz="0 0.3 0" rpy="0 0.2 0"')
)


def wrench_tag(name: str, at: str, frame: str, direction: str) -> str:
    return (
        f'<sensor name="{name}" type="force_torque"><parent joint="{at}"/>'
        f"<force_torque><frame>{frame}</frame><!-- no --><measure_direction>{direction}"
        '</measure_direction></force_torque><origin xyz="0.01 0.02 0.03" rpy="0.4 0.5 0.6"/>'
        "</sensor>"
    )


def motion_tag(name: str, kind: str, on: str) -> str:
    origin = '<origin xyz="0.05 -0.02 0.1" rpy="1 0.5 -0.3"/>'
    return f'<sensor name="{name}" type="{kind}"><parent link="{on}"/>{origin}</sensor>'


def arm(tmp_path: Path, tags: str) -> Robot:
    path = tmp_path / "arm.urdf"
    path.write_text(f'<robot name="arm">\n{ARM}\n{tags}\n</robot>')
    return load_robot(path)


def readings_of_idyntree(path: Path, robot: Robot, q, v, a) -> dict[str, np.ndarray]:
    i = pytest.importorskip("idyntree.bindings")
    loader = i.ModelLoader()
    assert loader.loadModelFromFile(str(path))
    model, sensors = loader.model(), loader.sensors()
    pos, vel, acc = i.FreeFloatingPos(model), i.FreeFloatingVel(model), i.FreeFloatingAcc(model)
    for k, name in enumerate(robot.joint_names):
        found = model.getJoint(model.getJointIndex(name))
        pos.jointPos.setVal(found.getPosCoordsOffset(), q[k])
        vel.jointVel.setVal(found.getDOFsOffset(), v[k])
        acc.jointAcc.setVal(found.getDOFsOffset(), a[k])
    traversal = i.Traversal()
    model.computeFullTreeTraversal(traversal)
    readings = i.SensorsMeasurements(sensors)
    assert i.predictSensorsMeasurements(
        model,
        sensors,
        traversal,
        pos,
        vel,
        acc,
        i.Vector3.FromPython(list(robot.model.gravity.linear)),
        i.LinkWrenches(model),
        i.FreeFloatingAcc(model),
        i.LinkPositions(model),
        i.LinkVelArray(model),
        i.LinkAccArray(model),
        i.LinkWrenches(model),
        i.FreeFloatingGeneralizedTorques(model),
        readings,
    )
    vector = i.VectorDynSize()
    assert readings.toVector(vector)
    row, values, numbers = 0, {}, vector.toNumPy()
    for kind, size in ((i.SIX_AXIS_FORCE_TORQUE, 6), (i.ACCELEROMETER, 3), (i.GYROSCOPE, 3)):
        for k in range(sensors.getNrOfSensors(kind)):
            values[sensors.getSensor(kind, k).getName()] = np.array(numbers[row : row + size])
            row += size
    assert row == numbers.size
    return values


@pytest.mark.parametrize(
    ("frame", "direction"),
    list(itertools.product(("child", "parent", "sensor"), ("child_to_parent", "parent_to_child"))),
)
def test_tags_are_read_as_idyntree_reads_them(frame, direction, tmp_path, scene_of, rng):
    tags = wrench_tag("inside", "ft", frame, direction) + motion_tag("gyro", "gyroscope", "hand")
    tags += motion_tag("acc_hand", "accelerometer", "hand")
    tags += motion_tag("acc_stub", "accelerometer", "stub")
    if frame != "parent":  # for which iDynTree takes the joint at rest
        tags += wrench_tag("wrist", "wrist", frame, "parent_to_child")
    robot = arm(tmp_path, tags)
    sensors, notes = urdf_sensors(tmp_path / "arm.urdf", robot)
    assert notes == ()
    scene = scene_of(robot, rng)
    pin.rnea(robot.model, scene.data, scene.q, scene.v, scene.a)  # nothing pushes
    expected = readings_of_idyntree(tmp_path / "arm.urdf", robot, scene.q, scene.v, scene.a)
    assert expected.keys() == {sensor.name for sensor in sensors}
    scene.fx = [pin.Force.Zero()] * len(scene.fx)
    for sensor in sensors:
        found = scene.predict(sensor.measurement(robot))
        np.testing.assert_allclose(found, expected[sensor.name], rtol=1e-9, atol=1e-9)
        diagonal = np.diag(sensor.covariance)
        np.testing.assert_allclose(diagonal, np.square(TYPICAL_STD[sensor.kind]))


@pytest.mark.parametrize("direction", ["child_to_parent", "parent_to_child"])
def test_at_a_moving_joint_in_the_frame_of_its_parent(direction, tmp_path, scene_of, rng):
    robot = arm(tmp_path, wrench_tag("wrist", "wrist", "parent", direction))
    (sensor,), _ = urdf_sensors(robot.source.data, robot)
    scene = scene_of(robot, rng)
    on_hand = scene.data.liMi[2].act(scene.transmitted(2))  # in the frame of the whole first link
    body = robot.model.frames[robot.model.getFrameId("forearm", pin.FrameType.BODY)]
    expected = body.placement.actInv(on_hand).vector
    expected *= 1 if direction == "parent_to_child" else -1
    np.testing.assert_allclose(scene.predict(sensor.measurement(robot)), expected, rtol=1e-10)


def test_icub_has_six_force_torque_sensors_inside_its_limbs(robot_of):
    robot = robot_of("example:icub")
    sensors, notes = urdf_sensors(robot.source.data, robot, std={"force_torque": 0.1})
    assert len(sensors) == 6
    assert len(notes) == 6  # the same ones once more, for Gazebo
    assert "'left_arm_ft' of line 1237 is left out" in notes[0]
    for sensor in sensors:
        m = sensor.measurement(robot)
        np.testing.assert_allclose(sensor.covariance, 0.01 * np.eye(6))
        before, whole = sensor.sub_link, robot.pi(m.link)
        assert 0.0 < before[0] <= whole[0] * (1 + 1e-12)  # beyond the hips nothing has mass
    assert robot.with_sensors(sensors).sensors == sensors


def test_gazebos_imu_is_a_gyroscope_and_an_accelerometer(tmp_path):
    tags = (
        '<gazebo reference="hand"><sensor name="imu" type="imu"><pose>0 0 0.1 0 0 1.5</pose>'
        '</sensor><sensor name="eye" type="camera"/></gazebo>'
        '<gazebo reference="ft"><sensor name="six" type="force_torque"/></gazebo>'
        '<gazebo><static>false</static></gazebo><gazebo reference="gone">'
        '<sensor name="lost" type="imu"/></gazebo><sensor name="odd"/>'
    )
    robot = arm(tmp_path, tags)
    sensors, notes = urdf_sensors(robot.source.data, robot)
    names = ["gyro.imu", "acc.imu", "six"]
    assert [sensor.name for sensor in sensors] == names
    assert sensors[0].channels == ("gyro.imu.x", "gyro.imu.y", "gyro.imu.z")
    np.testing.assert_array_equal(sensors[1].mount.p, [0, 0, 0.1])
    assert sensors[1].mount.R[1, 0] == pytest.approx(np.sin(1.5))
    assert sensors[2].sign == -1  # child to parent, as Gazebo has it
    assert "'lost' of line 3 is left out: link 'gone' does not exist" in notes[0]
    assert "type 'camera' are left out: 'eye'" in " ".join(notes)
    assert "without a type are left out: 'odd'" in " ".join(notes)


def test_names_that_two_kinds_share(tmp_path):
    tags = motion_tag("imu", "accelerometer", "hand") + motion_tag("imu", "gyroscope", "hand")
    robot = arm(tmp_path, tags)
    sensors, notes = urdf_sensors(robot.source.data, robot)
    assert [sensor.name for sensor in sensors] == ["imu", "imu.gyroscope.3"]
    assert sensors[1].channels[0] == "imu.gyroscope.3.x"
    assert notes == ("a second sensor 'imu' is called 'imu.gyroscope.3'",)


def test_what_no_single_joint_transmits_is_left_out(tmp_path):
    extra = (
        link("tip", 0.1, "0 0 0")
        + link("finger", 0.1, "0 0 0")
        + joint("ft2", "fixed", "hand", "tip", 'xyz="0 0 0.1"')
        + joint("curl", "revolute", "hand", "finger", 'xyz="0 0 0.1"')
        + link("lamp", 0.1, "0 0 0")
        + joint("ft3", "fixed", "base", "lamp", 'xyz="0 0 0.1"')
    )
    tags = "".join(wrench_tag(name, name, "child", "child_to_parent") for name in ("ft2", "ft3"))
    robot = arm(tmp_path, extra + tags + motion_tag("imu", "gyroscope", "lamp"))
    sensors, notes = urdf_sensors(robot.source.data, robot)
    assert sensors == ()
    assert "'ft2' of line 3 is left out: joint 'ft2' shares its link with curl" in notes[0]
    assert "fixed to the base" in notes[1]
    assert "part of the ground" in notes[2]


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (
            wrench_tag("w", "wrst", "child", "child_to_parent"),
            "line 3.*joint 'wrst' does not exist",
        ),
        (motion_tag("g", "gyroscope", "nose"), "'g'.*link 'nose' does not exist; links are"),
        ('<sensor name="g" type="gyroscope"/>', "it has no parent link"),
        (wrench_tag("w", "ft", "mother", "child_to_parent"), "'mother' is none of child, parent"),
        (wrench_tag("w", "ft", "child", "up"), "'up' is none of child_to_parent"),
        ('<sensor type="imu"><parent link="hand"/></sensor>', "attribute name is missing"),
        (
            '<sensor name="i" type="imu"><parent link="hand"/><pose>0 0</pose></sensor>',
            "expected six numbers",
        ),
        (
            '<sensor name="i" type="imu"><parent link="hand"/><origin xyz="0 a 0"/></sensor>',
            "'a' is not a finite number",
        ),
    ],
)
def test_broken_tags_are_named_with_their_line(tags, message, tmp_path):
    robot = arm(tmp_path, tags)
    with pytest.raises(RobotFileError, match=message):
        urdf_sensors(tmp_path / "arm.urdf", robot)


def test_unknown_kinds_of_deviations(tmp_path):
    robot = arm(tmp_path, "")
    with pytest.raises(UnknownNameError, match=r"'gyro'.*did you mean 'gyroscope'"):
        urdf_sensors(robot.source.data, robot, std={"gyro": 0.1})
