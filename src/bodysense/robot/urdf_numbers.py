"""Reading names, numbers and vectors from XML attributes, with errors that say where."""

from __future__ import annotations

import math
import re
from typing import NoReturn

import numpy as np

from bodysense.errors import RobotFileError
from bodysense.robot.urdf_xml import Element
from bodysense.spatial.arrays import Array

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LARGEST = 1.0e30  # beyond it, products of masses and lengths overflow


class UrdfReader:
    """Reads attributes of elements; `where` names the file in messages."""

    def __init__(self, where: str) -> None:
        self.where = where

    def place(self, element: Element, owner: Element | None = None) -> str:
        """File, line and element, with the link or joint that it belongs to."""
        tags = [element] if owner is None or owner is element else [owner, element]
        path = " ".join(
            f"<{tag.tag} name={tag.attributes['name']!r}>"
            if "name" in tag.attributes
            else f"<{tag.tag}>"
            for tag in tags
        )
        return f"{self.where}, line {element.line}, {path}"

    def fail(self, element: Element, message: str, owner: Element | None = None) -> NoReturn:
        """Raise `RobotFileError` about an element."""
        raise RobotFileError(f"{self.place(element, owner)}: {message}")

    def name(self, element: Element) -> str:
        """Return the attribute ``name``, which must not be empty."""
        return self.text(element, "name", element)

    def text(self, element: Element, attribute: str, owner: Element) -> str:
        """Return an attribute that must be there and not be empty."""
        value = element.attributes.get(attribute, "").strip()
        if not value:
            self.fail(element, f"the attribute {attribute} is missing or empty; give it.", owner)
        return value

    def number(
        self, element: Element, attribute: str, owner: Element, most: float = _LARGEST
    ) -> float:
        """Return an attribute as a finite number, no larger than `most`."""
        return self._number(self.text(element, attribute, owner), element, attribute, owner, most)

    def vector(self, element: Element, attribute: str, owner: Element) -> Array:
        """Return an attribute as three numbers."""
        words = self.text(element, attribute, owner).split()
        if len(words) != 3:
            self.fail(element, f"{attribute} has {len(words)} numbers; it needs three.", owner)
        return np.array([self._number(word, element, attribute, owner, _LARGEST) for word in words])

    def origin(self, parent: Element, owner: Element) -> tuple[Array, Array]:
        """Translation and roll-pitch-yaw of the child <origin>, zero where not given."""
        element = self.only_child(parent, "origin", owner)
        xyz, rpy = np.zeros(3), np.zeros(3)
        if element is None:
            return xyz, rpy
        if "quat_xyzw" in element.attributes:
            self.fail(element, "quat_xyzw is not supported; write the rotation as rpy.", owner)
        if "xyz" in element.attributes:
            xyz = self.vector(element, "xyz", owner)
        if "rpy" in element.attributes:
            rpy = self.vector(element, "rpy", owner)
        return xyz, rpy

    def only_child(self, parent: Element, tag: str, owner: Element | None = None) -> Element | None:
        """Return the child with this tag, `None` if there is none."""
        found = parent.all(tag)
        if len(found) > 1:
            self.fail(
                found[1],
                f"there is a <{tag}> in line {found[0].line} already; keep one of the two.",
                owner or parent,
            )
        return found[0] if found else None

    def required_child(self, parent: Element, tag: str, owner: Element) -> Element:
        """Return the child with this tag, which must be there."""
        found = self.only_child(parent, tag, owner)
        if found is None:
            self.fail(parent, f"<{tag}> is missing; add it.", owner)
        return found

    def _number(
        self, word: str, element: Element, attribute: str, owner: Element, most: float
    ) -> float:
        if "${" in word or "$(" in word:
            self.fail(
                element, f"{attribute}={word!r} is a xacro expression; run xacro first.", owner
            )
        value = float(word) if _NUMBER.fullmatch(word) else math.nan
        if not math.isfinite(value):
            self.fail(element, f"{attribute}={word!r} is not a finite number; correct it.", owner)
        if abs(value) > most:
            self.fail(element, f"{attribute}={word} is too large; check its unit.", owner)
        return value
