"""Locked joints: a robot whose gripper, wheels or other arm stand still, without these joints.

The link that a locked joint moves becomes a part of the link that carries it. With T the pose of
the locked link in the carrying one, at the position where the joint is locked,

    pi_carrying <- pi_carrying + (pi_locked moved by T)

and so on down the tree; links that end up on the ground have no effect and are left out. Frames,
shapes and sensors of locked links stay, on the link that now holds them. Friction and rotor
inertias of locked joints go with the joints.

The way back (`unlock`) gives all joints again. Of a sum only the sum is known: the locked links
keep the values of the robot's file and the link that carries them gets the rest. Where no body
could have that rest, the locked links are made lighter, all by the same factor of 1/2, 1/4, …,
until one can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from bodysense.errors import MismatchError, ShapeError, listing, require_type, unknown_name
from bodysense.robot.actuators import Actuators, Controller
from bodysense.robot.friction import Friction
from bodysense.robot.layout import position_unit
from bodysense.robot.model import fitting_sensors
from bodysense.spatial.arrays import Array, read_only
from bodysense.spatial.pseudo_inertia import physical_consistency, transform_pi

if TYPE_CHECKING:
    from bodysense.robot.robot import Robot

_BEYOND_LIMITS = 0.5
"""Share of its range by which a joint may be locked beyond its limits, which may be wrong, as zero
positions may be; a position in degrees is farther off."""

_HALVINGS = (
    30  # of what locked links weigh at most; what is left then is far below rounding of files
)


@dataclass(frozen=True, eq=False)
class LockedJoints:
    """The joints that a robot is built without.

    Attributes:
        positions: by name of the joint [rad or m].
        whole: the robot with all joints, as its file describes it.
    """

    positions: Mapping[str, float]
    whole: Robot

    def free(self, robot: Robot) -> Robot:
        """The robot with all joints: `unlock`."""
        return unlock(robot)

    def summary(self) -> str:
        """The joints in a line: ``finger_joint1 at 0.02 m, wheel at 0 rad``."""
        kinds = dict(zip(self.whole.joint_names, self.whole.joint_types, strict=True))
        return listing(
            f"{name} at {q:.6g} {position_unit(kinds[name])}" for name, q in self.positions.items()
        )


def matching_joints(robot: Robot, asked: Mapping[str, float | None]) -> dict[str, float | None]:
    """Positions by joint from positions by pattern, as in ``{"*finger*": 0.02}``; the last counts.

    Joints that are locked already match too.

    Raises `UnknownNameError` for a pattern that fits no joint.
    """
    require_type(asked, Mapping, "positions by joint name", "{'finger_joint1': 0.02}, say")
    names = unlock(robot).joint_names
    positions: dict[str, float | None] = {}
    for pattern, q in asked.items():
        fitting = [n for n in names if n == pattern or fnmatchcase(n, str(pattern))]
        if not fitting:
            raise unknown_name("joint", str(pattern), names, "(A pattern may hold * and ?.)")
        positions |= dict.fromkeys(fitting, q)
    return positions


def lock(robot: Robot, asked: Mapping[str, float | None]) -> Robot:
    """The robot without some joints, which stand still: `Robot.with_locked_joints`.

    Args:
        robot: in which joints may be locked already.
        asked: positions of the joints [rad or m], by name or pattern (``{"*finger*": 0.02}``);
            `None` stands for where it is locked already, else for zero or the limit next to it.

    Raises:
        UnknownNameError: no joint has such a name.
        ShapeError: a position beyond the limits of its joint.
        MismatchError: nothing would be left, or a motor moves a locked joint and another.
    """
    before = {} if robot.locked is None else dict(robot.locked.positions)
    whole = unlock(robot)
    new = {
        n: before[n] if q is None and n in before else _position(whole, n, q)
        for n, q in matching_joints(whole, asked).items()
    }
    if not new:
        return robot
    positions = {n: (before | new)[n] for n in whole.joint_names if n in before or n in new}
    kept = np.array([j for j, n in enumerate(whole.joint_names) if n not in positions], dtype=int)
    if not kept.size:
        raise MismatchError(
            f"all joints of {whole.name!r} are to be locked, so that nothing moves: leave one free."
        )
    held = LockedJoints(positions, whole)
    part = type(whole).from_pinocchio(
        _reduced(held),
        friction=Friction(whole.friction.model, read_only(whole.friction.shape[kept])),
        actuators=_actuators(whole, kept),
        controller=_controller(whole, kept),
        acceleration_limit=whole.acceleration_limit[kept],
        source=whole.source,
        notes=(*whole.notes, f"locked joints: {held.summary()}"),
        allow_inconsistent=True,
    )
    theta = np.concatenate([_lumped(held), _drive_parameters(whole, kept)])
    part = replace(part.with_parameters(theta), locked=held)
    return replace(part, sensors=fitting_sensors(part, whole.sensors))


def unlock(robot: Robot) -> Robot:
    """The robot with all joints, and its present parameters: `Robot.unlocked`.

    Friction law and drives of the joints that were free are those of the robot; locked joints take
    the law with the coefficients that their file gives of it.
    """
    if robot.locked is None:
        return robot
    whole = _with_drives_of(robot, robot.locked.whole)
    theta, notes = whole.theta.copy(), list[str]()
    before = _lumped(robot.locked).reshape(-1, 10)
    for k, parts in enumerate(_parts(robot.locked)):
        own, carried = parts[0][0], parts[1:]
        total = robot.pi(k)
        if np.array_equal(total, before[k]):
            continue  # nothing changed, and no rounding is to look like a change
        share = _share(robot.locked, total, carried)
        for link, T in carried:
            total = total - share * transform_pi(whole.pi(link), T)
            theta[whole.layout.link(link)] *= share
        theta[whole.layout.link(own)] = total
        if share != 1.0:
            names = listing(whole.link_names[link] for link, _ in carried)
            notes.append(
                f"{robot.link_names[k]} came out too light for what it carries: mass and inertia "
                f"of {names} are multiplied by {share:g}"
            )
    free = {sensor.name for sensor in fitting_sensors(robot, whole.sensors)}
    held = [sensor for sensor in whole.sensors if sensor.name not in free]
    sensors = {sensor.name: sensor for sensor in (*held, *robot.sensors)}
    whole = replace(whole.with_parameters(theta), notes=(*whole.notes, *notes))
    return whole.with_sensors(sensors.values())


def can_be_locked_at(robot: Robot, joint: int, q: float) -> bool:
    """Whether a position is within the limits of a joint, or little beyond."""
    lower, upper = (float(limit[joint]) for limit in robot.position_range)
    slack = _BEYOND_LIMITS * (upper - lower)
    return lower - slack <= q <= upper + slack


def with_all_of_their_motors(robot: Robot, names: Iterable[str]) -> list[str]:
    """The joints among these that can be locked together: no motor moves one and another joint."""
    joints = {robot.joint_names.index(name) for name in names}
    coupled = robot.actuators.coupling != 0.0
    while True:
        apart = {
            j for j in joints if set(np.flatnonzero(coupled[j] | coupled[:, j])) - joints - {j}
        }
        if not apart:
            return [name for j, name in enumerate(robot.joint_names) if j in joints]
        joints -= apart


def _position(robot: Robot, name: str, q: float | None) -> float:
    """Where a joint is locked: as given, or at zero or the limit next to it."""
    joint = robot.joint_names.index(name)
    lower, upper = (float(limit[joint]) for limit in robot.position_range)
    if q is None:
        return float(np.clip(0.0, lower, upper))
    try:
        place = float(q)
    except (TypeError, ValueError):
        place = np.nan
    if not np.isfinite(place):
        raise ShapeError(f"joint {name!r} is to be locked at {q}: give its position in rad or m.")
    if not can_be_locked_at(robot, joint, place):
        raise ShapeError(
            f"joint {name!r} is to be locked at {place:g}, beyond its limits, {lower:g} to "
            f"{upper:g}: give its position in rad or m."
        )
    return place


def _places(held: LockedJoints) -> list[tuple[int, pin.SE3]]:
    """For each joint of the whole model, the joint of the reduced one and T_new_old of its link."""
    model, free = held.whole.model, 0
    places = [(0, pin.SE3.Identity())]
    for i in range(1, model.njoints):
        carrier, T = places[int(model.parents[i])]
        if model.names[i] in held.positions:
            q, data = pin.neutral(model), model.joints[i].createData()
            q[model.joints[i].idx_q] = held.positions[model.names[i]]
            model.joints[i].calc(data, q)
            places.append((carrier, T * model.jointPlacements[i] * pin.SE3(data.M)))
        else:
            free += 1
            places.append((free, pin.SE3.Identity()))
    return places


def _reduced(held: LockedJoints) -> pin.Model:
    """The model without the locked joints, whose links are empty: theta holds what they weigh."""
    model, new, places = held.whole.model, pin.Model(), _places(held)
    new.name, new.gravity = model.name, model.gravity
    for i in range(1, model.njoints):
        if model.names[i] in held.positions:
            continue
        carrier, T = places[int(model.parents[i])]
        joint = model.joints[i]
        of_q = slice(joint.idx_q, joint.idx_q + joint.nq)
        of_v = slice(joint.idx_v, joint.idx_v + joint.nv)
        new.addJoint(
            carrier,
            joint,
            T * model.jointPlacements[i],
            model.names[i],
            model.effortLimit[of_v],
            model.velocityLimit[of_v],
            model.lowerPositionLimit[of_q],
            model.upperPositionLimit[of_q],
        )
    for k in range(1, model.nframes):
        frame = pin.Frame(model.frames[k])
        if frame.type == pin.FrameType.JOINT and frame.name in held.positions:
            frame.type = pin.FrameType.FIXED_JOINT
        carrier, T = places[frame.parentJoint]
        frame.parentJoint, frame.placement = carrier, T * frame.placement
        new.addFrame(frame, False)
    return new


def _parts(held: LockedJoints) -> list[list[tuple[int, Array]]]:
    """Of every link of the reduced robot, the links of the whole one in it, its own first.

    Each is its position among the links and T_new_old (4, 4).
    """
    parts: dict[int, list[tuple[int, Array]]] = {}
    for i, (carrier, T) in enumerate(_places(held)):
        if carrier:
            parts.setdefault(carrier, []).append((i - 1, T.homogeneous))
    return list(parts.values())


def _lumped(held: LockedJoints) -> Array:
    """Inertial parameters of all links of the reduced robot, (10 n_links,)."""
    pi = held.whole.pi
    sums = [
        sum((transform_pi(pi(link), T) for link, T in carried), pi(own[0]))
        for own, *carried in _parts(held)
    ]
    return np.concatenate(sums)


def _share(held: LockedJoints, total: Array, carried: list[tuple[int, Array]]) -> float:
    """The largest of 1, 1/2, 1/4, … of the carried links that leaves a body in the total."""
    if not carried or not physical_consistency(total).feasible:
        return 1.0
    others = sum((transform_pi(held.whole.pi(link), T) for link, T in carried), np.zeros(10))
    for k in range(_HALVINGS):
        if physical_consistency(total - 0.5**k * others).feasible:
            return float(0.5**k)
    return float(0.5**_HALVINGS)


def _actuators(whole: Robot, kept: NDArray[np.int64]) -> Actuators:
    """Drives of the kept joints.

    Raises `MismatchError` if a motor moves both a kept and a locked joint.
    """
    drives = whole.actuators
    rest = np.setdiff1d(np.arange(drives.n_joints), kept)
    for motor, joint in (*np.ndindex(drives.coupling.shape),):
        if drives.coupling[motor, joint] != 0.0 and (motor in rest) != (joint in rest):
            raise MismatchError(
                f"the motor of joint {whole.joint_names[motor]!r} moves "
                f"{whole.joint_names[joint]!r} too: lock both of them, or neither."
            )
    return replace(
        drives,
        gear_ratio=read_only(drives.gear_ratio[kept]),
        drive_gain=read_only(drives.drive_gain[kept]),
        coupling=read_only(drives.coupling[np.ix_(kept, kept)]),
        coupled_terms=drives.coupled_terms if _coupled_places(whole, kept).size else (),
    )


def _controller(whole: Robot, kept: NDArray[np.int64]) -> Controller | None:
    own = whole.controller
    if own is None:
        return None
    kp, kd, ki = (read_only(gain[kept]) for gain in (own.kp, own.kd, own.ki))
    return Controller(kp, kd, ki, own.rate)


def _drive_places(whole: Robot, kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places in theta of rotor inertias, friction and couplings of the kept joints, in order."""
    layout = whole.layout
    per_joint = [layout.places(name)[kept] for name in ("Ia", *layout.friction_terms)]
    return np.concatenate([*per_joint, _coupled_places(whole, kept)])


def _coupled_places(whole: Robot, kept: NDArray[np.int64]) -> NDArray[np.int64]:
    layout = whole.layout
    motors = [k for k, (_, motor) in enumerate(layout.coupled) if motor in kept]
    return np.array(motors, dtype=np.int64) + int(layout.coupling.start)


def _drive_parameters(whole: Robot, kept: NDArray[np.int64]) -> Array:
    return whole.theta[_drive_places(whole, kept)]


def _with_drives_of(robot: Robot, whole: Robot) -> Robot:
    """The whole robot with the drives and the friction of the joints that are not locked.

    Locked joints take the law too, with the coefficients that they have of it.
    """
    kept = np.array([whole.joint_names.index(name) for name in robot.joint_names])
    law = robot.friction.model
    if law != whole.friction.model:
        whole = whole.with_friction(law)
    drives, mine = whole.actuators, robot.actuators
    coupling = drives.coupling.copy()
    coupling[np.ix_(kept, kept)] = mine.coupling
    whole = whole.with_drives(
        friction=Friction(law, _with_values(whole.friction.shape, kept, robot.friction.shape)),
        actuators=replace(
            drives,
            gear_ratio=_with_values(drives.gear_ratio, kept, mine.gear_ratio),
            drive_gain=_with_values(drives.drive_gain, kept, mine.drive_gain),
            coupling=read_only(coupling),
            coupled_terms=mine.coupled_terms or drives.coupled_terms,
        ),
        controller=_spliced(whole.controller, robot.controller, kept),
        acceleration_limit=_with_values(whole.acceleration_limit, kept, robot.acceleration_limit),
    )
    places, values = _drive_places(whole, kept), robot.theta[robot.layout.rotor.start :]
    return whole.with_parameters(_with_values(whole.theta, places, values))


def _spliced(
    whole: Controller | None, part: Controller | None, kept: NDArray[np.int64]
) -> Controller | None:
    """The controller of all joints; none where nobody knows the gains of the locked ones."""
    if whole is None or part is None:
        return whole
    gains = [(whole.kp, part.kp), (whole.kd, part.kd), (whole.ki, part.ki)]
    kp, kd, ki = (_with_values(all_, kept, some) for all_, some in gains)
    return Controller(kp, kd, ki, part.rate)


def _with_values(values: Array, places: NDArray[np.int64], some: Array) -> Array:
    new = values.copy()
    new[places] = some
    return read_only(new)
