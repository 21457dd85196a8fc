"""Frames of a robot other than those of its links: tools, sensors, bodies on fixed joints."""

from __future__ import annotations

import pinocchio as pin

from bodysense.errors import MismatchError, unknown_name
from bodysense.robot.robot import Robot


def named_frames(robot: Robot) -> list[pin.Frame]:
    """Named frames of bodies and tools that are not a link's own, each name once."""
    kinds = (pin.FrameType.BODY, pin.FrameType.OP_FRAME, pin.FrameType.SENSOR)
    frames: dict[str, pin.Frame] = {}
    for frame in robot.model.frames:
        own = (
            frame.parentJoint > 0
            and frame.name == robot.link_names[frame.parentJoint - 1]
            and frame.placement.isIdentity(1e-12)
        )
        if frame.type in kinds and not own:
            frames.setdefault(frame.name, frame)
    return list(frames.values())


def moving_frame(robot: Robot, name: str, who: str) -> pin.Frame:
    """The frame of a name, fixed to a link; a body first, for joints and links may share names.

    Args:
        robot: that has the frame.
        name: of a link, or of any frame.
        who: what is to be mounted there, for messages.

    Raises:
        UnknownNameError: the robot has no such frame.
        MismatchError: the frame is part of the ground.
    """
    named = [frame for frame in robot.model.frames if frame.name == name]
    named.sort(key=lambda frame: frame.type != pin.FrameType.BODY)
    if named and named[0].parentJoint > 0:
        return named[0]
    if name in robot.link_names:  # a model built by hand may have links without frames
        joint = robot.link_names.index(name) + 1
        return pin.Frame(name, joint, 0, pin.SE3.Identity(), pin.FrameType.BODY)
    if named:
        raise MismatchError(
            f"{who}: {name!r} of {robot.name!r} is part of the ground, which does not move: mount "
            f"it on a link, e.g. {robot.link_names[0]!r}, or load the robot with a floating base."
        )
    joints = {pin.FrameType.JOINT, pin.FrameType.FIXED_JOINT}
    fixed = [f.name for f in robot.model.frames if f.parentJoint > 0 and f.type not in joints]
    valid = dict.fromkeys((*robot.link_names, *fixed))
    raise unknown_name("link or frame", name, valid, f"({who}, robot {robot.name!r})")
