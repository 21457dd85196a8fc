"""Frames of a robot other than those of its links: tools, sensors, bodies on fixed joints."""

from __future__ import annotations

import pinocchio as pin

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
